//! What a goldfive agent said, in the registry's words.
//!
//! Nothing of it is refused for policy or limits: it already happened. What is larger than we keep
//! is cut, and says so.

use std::{borrow::Cow, collections::BTreeMap};

use registry::{
    ApprovalId, Asks, Detail, EscalationId, Name, Principal, Role, Run, RunId, Tenant, Untrusted,
    Wish,
    approval::{Filing, Hold, OnDeadline, Risk, Subject, title_for},
    command::{Ending, File, Observation},
    digest::Sha256,
    json, limits,
    names::Key,
    run::{End, Plan, PlanTask, RunKey, Source, TaskState},
};
use serde_json::json;

use super::drifts;
use crate::wire::goldfive::{
    Asked, Envelope, Force, Hello, Plan as TheirPlan, PlannedTask, Request, TaskStep, What, Word,
};

/// Who or what has no name of its own.
const UNIDENTIFIED: &str = "unidentified";
/// Capabilities kept of a hello, counted; harmonograf has six.
const CAPABILITIES_COUNT: usize = 32;
/// The largest event that is kept as it came.
const ORIGINAL_BYTES: usize = 256 * 1024;

/// The agent's id as it is known here and found again.
pub(super) fn agent(id: &str) -> String {
    let id = if id.is_empty() { UNIDENTIFIED } else { id };
    short(id, limits::NAME).raw().into()
}

/// `agent:goldfive/<agent id>`; one that cannot be a name is known by its hash.
pub(super) fn principal(agent: &str) -> Principal {
    let named = Name::parse(&format!("agent:goldfive/{agent}"));
    let hashed = || Name::parse(&format!("agent:goldfive/sha256-{}", Sha256::of(agent)));
    let name = named.or_else(|_| hashed());
    let name = name.unwrap_or_else(|_| Name::system("goldfive"));
    Principal::new(name, Tenant::local(), [Role::Agent])
}

/// What an agent says of itself, as JSON.
pub(super) fn context(hello: &Hello) -> Untrusted {
    let capabilities = hello.capabilities.iter().take(CAPABILITIES_COUNT);
    let said = json!({
        "name": short(&hello.name, limits::TITLE).raw(),
        "framework": word(hello.framework),
        "framework_version": short(&hello.framework_version, limits::TITLE).raw(),
        "capabilities": capabilities.map(|it| word(*it)).collect::<Vec<_>>(),
    });
    Untrusted::new(said.to_string())
}

pub(super) fn word(word: Word) -> Cow<'static, str> {
    let number = || format!("unknown ({})", word.number).into();
    word.name.map_or_else(number, Cow::from)
}

/// The run that an event is about: the one it names, else the only one of its session.
pub(super) fn run_key(agent: &str, envelope: &Envelope) -> RunKey {
    let (session, run) = (&envelope.session_id, &envelope.run_id);
    let named = [run.as_str(), session, UNIDENTIFIED];
    let invocation = named.into_iter().find(|name| !name.is_empty());
    RunKey {
        tenant: Tenant::local(),
        source: Source::Goldfive,
        agent: short(agent, limits::NAME),
        session: short(session, limits::NAME),
        invocation: short(invocation.unwrap_or_default(), limits::NAME),
    }
}

/// What an event that comes twice is known by, if it has an id.
pub(super) fn id_hash(envelope: &Envelope) -> Option<u128> {
    let id = Some(&envelope.event_id).filter(|id| !id.is_empty())?;
    let hash = Sha256::of(id);
    hash.bytes().first_chunk().copied().map(u128::from_be_bytes)
}

/// The event as it came; of one that is too large to be kept, its size and hash.
pub(super) fn original(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.len() <= ORIGINAL_BYTES {
        return raw.into();
    }
    let (bytes, hash) = (raw.len(), Sha256::of(raw));
    let stub = format!("not kept: an event of {bytes} bytes, SHA-256 {hash}");
    stub.into_bytes().into()
}

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
            | What::Drift(_)
            | What::Ladder { .. }
    ) || drifts::only_observes(what)
}

/// What is to be recorded of an event, if anything: a question under `id`, and as an escalation under `holds` if the
/// run stands still by it.
pub(super) fn wish(
    agent: &str,
    run: &Run,
    id: ApprovalId,
    holds: Option<EscalationId>,
    envelope: &Envelope,
) -> Option<Wish> {
    match &envelope.what {
        What::RunCompleted { summary } => Some(ended(run.id, End::Completed, summary)),
        What::RunAborted { reason } => Some(ended(run.id, End::Aborted, reason)),
        What::Plan(plan) => planned(run, plan),
        What::Task { task_id, step } => moved(run, task_id, step),
        What::ApprovalRequested(request) => {
            let filing = asked(request, key(agent, envelope));
            let file = Box::new(File {
                id,
                run: run.id,
                filing,
                past: None,
            });
            Some(Wish::Observe(Observation::Asked(file)))
        }
        What::Granted { target_id, detail } => Some(resolved(run.id, target_id, true, detail)),
        What::Rejected { target_id, detail } => Some(resolved(run.id, target_id, false, detail)),
        What::Drift(drift) => {
            let id = drifts::id(&drift.id, || event_hash(agent, envelope))?;
            Some(drifts::drifted(run.id, id, drift, holds))
        }
        What::Ladder {
            to_level, drift_id, ..
        } => drifts::levelled(run.id, drift_id, to_level),
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

/// What the run follows; a plan that was only worked out changes nothing.
fn planned(run: &Run, plan: &TheirPlan) -> Option<Wish> {
    let theirs = match plan.force {
        Force::InForce => plan.tasks.as_ref()?,
        Force::DryRun => return None,
    };
    let mut new = 0;
    let fits = |task: &PlanTask| {
        let known = run.tasks.contains_key(&task.id);
        new += usize::from(!known);
        known || new <= room(run)
    };
    let tasks = theirs.iter().map(plan_task).filter(fits);
    let tasks: Vec<PlanTask> = tasks.take(limits::TASKS_COUNT).collect();
    let (kept, came) = (tasks.len(), theirs.len());
    let summary = if kept == came {
        short(&plan.reason, limits::SAID)
    } else {
        let said = format!("({kept} of {came} tasks are kept) {}", plan.reason);
        short(&said, limits::SAID)
    };
    Some(Wish::ReportPlan {
        run: run.id,
        plan: Plan {
            revision: plan.revision,
            summary,
            tasks,
        },
        cause: short(&plan.trigger_event_id, limits::NAME),
    })
}

/// How many tasks more a run may have.
fn room(run: &Run) -> usize {
    limits::TASKS_COUNT.saturating_sub(run.tasks.len())
}

fn plan_task(task: &PlannedTask) -> PlanTask {
    PlanTask {
        id: short(&task.id, limits::NAME),
        title: short(&task.title, limits::NAME),
        state: planned_state(task.status),
    }
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

/// A task more than a run may have is shown nowhere.
fn moved(run: &Run, task: &str, step: &TaskStep) -> Option<Wish> {
    let task = short(task, limits::NAME);
    if !run.tasks.contains_key(&task) && room(run) == 0 {
        return None;
    }
    let (state, detail) = match step {
        TaskStep::Started { detail } => (TaskState::Running, detail.as_str()),
        // Progress changes no card.
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
        run: run.id,
        task,
        title: Untrusted::default(),
        state,
        detail: short(detail, limits::SAID),
    })
}

/// What the same event makes when it comes twice.
fn key(agent: &str, envelope: &Envelope) -> Option<Key> {
    Key::parse(&format!("goldfive:{}", event_hash(agent, envelope))).ok()
}

fn event_hash(agent: &str, envelope: &Envelope) -> Sha256 {
    let event = if envelope.event_id.is_empty() {
        let (session, run) = (&envelope.session_id, &envelope.run_id);
        format!("{session}\n{run}\n{}", envelope.sequence)
    } else {
        envelope.event_id.clone()
    };
    Sha256::of(format!("{agent}\n{event}"))
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
    let (labels, more) = labels(&request.metadata);
    if more > 0 {
        body.push_str(&format!(
            "\nThere were {more} more labels, which are not kept."
        ));
    }
    let title = title_for(&subject, &prompt);
    let title = if title.is_empty() {
        "An approval".into()
    } else {
        title
    };
    Filing {
        key,
        target: short(&request.target_id, limits::NAME),
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
        labels,
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
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

/// Which labels are kept, and how many are not.
fn labels(metadata: &BTreeMap<String, String>) -> (BTreeMap<Untrusted, Untrusted>, usize) {
    let ours = |key: &str| key == "tool_name" || key == "args_json";
    let mut labels = metadata.iter().filter(|(key, _)| !ours(key));
    let kept = labels
        .by_ref()
        .take(limits::LABELS_COUNT)
        .map(|(key, value)| (short(key, limits::TITLE), short(value, limits::TITLE)))
        .collect();
    (kept, labels.count())
}

pub(super) fn short(text: &str, bytes: usize) -> Untrusted {
    Untrusted::from(text).cut(bytes)
}
