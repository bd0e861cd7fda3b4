//! What a goldfive agent said, in the registry's words.
//!
//! Nothing of it is refused for policy or limits: it already happened. What is larger than we keep
//! is cut, and says so.

use std::collections::BTreeMap;

use registry::{
    ApprovalId, Asks, Detail, RunId, Untrusted, Wish,
    approval::{Filing, Hold, OnDeadline, Risk, Subject, title_for},
    command::{Ending, File, Observation},
    digest::Sha256,
    json, limits,
    names::Key,
    run::{End, Plan, PlanTask, TaskState},
};

use crate::wire::goldfive::{Asked, Envelope, Plan as TheirPlan, Request, TaskStep, What, Word};

/// Whether what happened begins a run, where it is unknown or over: a trailing word about a run
/// that has ended does not open it again.
pub(super) fn begins(what: &What) -> bool {
    matches!(what, What::RunStarted { .. } | What::ApprovalRequested(_))
}

/// Whether it says something that a card, a task or a run shows.
pub(super) fn matters(what: &What) -> bool {
    matches!(
        what,
        What::RunStarted { .. }
            | What::RunCompleted { .. }
            | What::RunAborted { .. }
            | What::Plan(_)
            | What::Task { .. }
            | What::ApprovalRequested(_)
            | What::Granted { .. }
            | What::Rejected { .. }
    )
}

/// What is to be recorded of an event, if anything.
pub(super) fn wish(agent: &str, run: RunId, id: ApprovalId, envelope: &Envelope) -> Option<Wish> {
    match &envelope.what {
        What::RunCompleted { summary } => Some(ended(run, End::Completed, summary)),
        What::RunAborted { reason } => Some(ended(run, End::Aborted, reason)),
        What::Plan(plan) => planned(run, plan),
        What::Task { task_id, step } => moved(run, task_id, step),
        What::ApprovalRequested(request) => {
            let filing = asked(request, key(agent, envelope));
            let file = Box::new(File {
                id,
                run,
                filing,
                past: None,
            });
            Some(Wish::Observe(Observation::Asked(file)))
        }
        What::Granted { target_id, detail } => Some(resolved(run, target_id, true, detail)),
        What::Rejected { target_id, detail } => Some(resolved(run, target_id, false, detail)),
        _ => None,
    }
}

fn ended(run: RunId, end: End, reason: &str) -> Wish {
    Wish::EndRun {
        run,
        how: Ending::Over(end),
        reason: short(reason, limits::SAID),
    }
}

fn resolved(run: RunId, target: &str, granted: bool, detail: &str) -> Wish {
    Wish::Observe(Observation::Resolved {
        run,
        target: short(target, limits::NAME),
        granted,
        detail: short(detail, limits::SAID),
    })
}

fn planned(run: RunId, plan: &TheirPlan) -> Option<Wish> {
    let task = |task: &crate::wire::goldfive::PlannedTask| PlanTask {
        id: short(&task.id, limits::NAME),
        title: short(&task.title, limits::NAME),
        state: planned_state(task.status),
    };
    let tasks = plan.tasks.as_ref()?;
    let tasks = tasks.iter().take(limits::TASKS_COUNT).map(task).collect();
    let plan_kept = Plan {
        revision: plan.revision,
        summary: short(&plan.reason, limits::SAID),
        tasks,
    };
    let cause = short(&plan.trigger_event_id, limits::NAME);
    Some(Wish::ReportPlan {
        run,
        plan: plan_kept,
        cause,
    })
}

/// A status that our schema does not know is no status that it does: such a task has not begun.
fn planned_state(status: Word) -> TaskState {
    status
        .name
        .and_then(task_state)
        .unwrap_or(TaskState::Pending)
}

fn task_state(word: &str) -> Option<TaskState> {
    Some(match word {
        "PENDING" => TaskState::Pending,
        "RUNNING" => TaskState::Running,
        "COMPLETED" => TaskState::Completed,
        "FAILED" => TaskState::Failed,
        "CANCELLED" => TaskState::Cancelled,
        "NOT_NEEDED" => TaskState::NotNeeded,
        "BLOCKED" => TaskState::Blocked {
            blocker: Untrusted::default(),
            needed: Untrusted::default(),
        },
        _ => return None,
    })
}

fn moved(run: RunId, task: &str, step: &TaskStep) -> Option<Wish> {
    let (state, detail) = match step {
        TaskStep::Started { detail } => (TaskState::Running, detail.as_str()),
        // Progress changes no card; it is counted by the agent.
        TaskStep::Progress { .. } => return None,
        TaskStep::Completed { summary } => (TaskState::Completed, summary.as_str()),
        TaskStep::Failed { reason } => (TaskState::Failed, reason.as_str()),
        TaskStep::Cancelled { reason } => (TaskState::Cancelled, reason.as_str()),
        TaskStep::Blocked { blocker, needed } => {
            let blocker = short(blocker, limits::NAME);
            let needed = short(needed, limits::TASK_KEPT);
            (TaskState::Blocked { blocker, needed }, "")
        }
        TaskStep::Moved { to, source, .. } => (task_state(to)?, source.as_str()),
    };
    Some(Wish::ReportTask {
        run,
        task: short(task, limits::NAME),
        title: Untrusted::default(),
        state,
        detail: short(detail, limits::SAID),
    })
}

/// What the same event makes when it comes twice.
fn key(agent: &str, envelope: &Envelope) -> Option<Key> {
    let event = if envelope.event_id.is_empty() {
        let (session, run) = (&envelope.session_id, &envelope.run_id);
        format!("{session}\n{run}\n{}", envelope.sequence)
    } else {
        envelope.event_id.clone()
    };
    let hash = Sha256::of(format!("{agent}\n{event}"));
    Key::parse(&format!("goldfive:{hash}")).ok()
}

fn asked(request: &Request, key: Option<Key>) -> Filing {
    let task = short(&request.task_id, limits::NAME);
    let (subject, args, mut body) = match &request.kind {
        Asked::Task => (Subject::Task { task }, None, String::new()),
        Asked::Tool { name, args_json } => {
            let name = if name.is_empty() {
                "an unnamed tool"
            } else {
                name
            };
            let name = short(name, limits::NAME);
            let (args, body) = arguments(args_json);
            (Subject::Tool { name, task }, args, body)
        }
        Asked::Unknown(kind) => {
            let body = format!(
                "The agent asks for something of the kind '{kind}', which is not known here."
            );
            (Subject::Task { task }, None, body)
        }
    };
    let mut prompt = Untrusted::new(&request.prompt);
    let mut args = args.map(Untrusted::new);
    let whole = prompt.raw().len() + body.len() + args.as_ref().map_or(0, |args| args.raw().len());
    if whole > limits::DETAIL {
        body = format!(
            "The question has {whole} bytes; only its beginning is kept. Decide with care."
        );
        prompt = prompt.cut(limits::DETAIL / 4);
        args = None;
    }
    let title = title_for(&subject, &prompt);
    let title = if title.is_empty() {
        "An approval".into()
    } else {
        title
    };
    Filing {
        key,
        target: target(&request.target_id),
        step: Untrusted::default(),
        title,
        detail: Detail {
            prompt,
            body: Untrusted::new(body),
            facts: Untrusted::default(),
            args,
            form: registry::form::Form::default(),
        },
        subject,
        asks: Asks::Operator,
        labels: labels(&request.metadata),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
    }
}

fn target(id: &str) -> Untrusted {
    short(id, limits::NAME)
}

/// The arguments as they came, or a body that says why they are not shown as such.
fn arguments(bytes: &[u8]) -> (Option<String>, String) {
    if bytes.is_empty() {
        return (None, String::new());
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    match json::check_args(bytes) {
        Ok(()) => (Some(text), String::new()),
        Err(error) => {
            let body = format!("The arguments cannot be read ({error}). As they came:\n{text}");
            (None, body)
        }
    }
}

fn labels(metadata: &BTreeMap<String, String>) -> BTreeMap<Untrusted, Untrusted> {
    let ours = |key: &str| key == "tool_name" || key == "args_json";
    metadata
        .iter()
        .filter(|(key, _)| !ours(key))
        .take(limits::LABELS_COUNT)
        .map(|(key, value)| (short(key, limits::TITLE), short(value, limits::TITLE)))
        .collect()
}

pub(super) fn short(text: &str, bytes: usize) -> Untrusted {
    Untrusted::from(text).cut(bytes)
}
