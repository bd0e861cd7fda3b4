//! Runs, their tasks and plans, and whose they are.

use std::sync::Arc;

use crate::{
    approval::Why,
    command::{Ending, OpenRun},
    escalation::How,
    event::Event,
    limits,
    policy::{admit, under},
    refusal::Refusal,
    run::{
        End, InterruptKind, Plan, Presence, Run, RunId, RunState, Source, Task, TaskState, Thread,
    },
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Principal, Verb, may},
};

use super::{
    Decided,
    progress::{confirmed_by_plan, confirmed_by_task, settled_by_end},
};

pub(super) fn open_run(state: &State, by: &Principal, open: &OpenRun, now: Timestamp) -> Decided {
    let key = &open.key;
    for name in [
        &key.agent,
        &key.session,
        &key.invocation,
        &open.project,
        &open.thread,
        &open.origin,
    ] {
        within("a name of a run", name, limits::NAME)?;
    }
    if key.agent.is_empty() || key.invocation.is_empty() {
        return Err(Refusal::Invalid("a run names its agent and itself".into()));
    }
    works(by)?;
    let admitted = admit(&open.context, &open.origin, by.is_internal())?;
    let known = state.run_by_key(key);
    if let Some(run) = known.filter(|run| !run.state.is_over()) {
        return come_back(run, by, now);
    }
    if let Some(run) = known.filter(|_| !key.source.is_foreign()) {
        belongs(run, by)?;
        // A run of the CLI ends with its question; asking for it again is how its caller comes back.
        let comes_back = key.source == Source::Cli;
        return if comes_back {
            Ok(vec![])
        } else {
            Err(Refusal::RunOver)
        };
    }
    let thread = Thread::of(key, &open.project, &open.thread);
    if !key.source.is_foreign() && thread.is_some_and(|thread| state.holds(&thread)) {
        return Err(Refusal::ThreadBusy);
    }
    let detached = key.source == Source::Cli;
    let run = Run {
        id: open.id,
        key: key.clone(),
        project: open.project.clone(),
        thread: open.thread.clone(),
        origin: admitted.origin,
        owner: if detached {
            Some(by.name().clone())
        } else {
            open.owner.clone()
        },
        opened_by: by.name().clone(),
        parent: open.parent,
        can_resume: open.can_resume,
        mode: under(
            open.parent
                .and_then(|parent| state.run(parent))
                .map(AsRef::as_ref),
            admitted.mode,
        ),
        opened_at: now,
        state: RunState::Running,
        presence: if detached {
            Presence::Detached
        } else {
            Presence::Attached
        },
        tasks: Default::default(),
        plan: None,
        open: Default::default(),
        pause: None,
        held_by: None,
        drifts: Vec::new(),
        counts: Default::default(),
        controls: Vec::new(),
    };
    Ok(vec![Event::RunOpened {
        run: Box::new(run),
        context: admitted.context,
    }])
}

/// The agent of a run is there again; answers that it missed are still there.
pub(super) fn come_back(run: &Run, by: &Principal, now: Timestamp) -> Decided {
    belongs(run, by)?;
    Ok(presence(run, true, now).into_iter().collect())
}

pub(super) fn presence(run: &Run, here: bool, now: Timestamp) -> Option<Event> {
    let parked = matches!(run.state, RunState::Parked(_));
    let presence = match (run.presence, here) {
        (Presence::Attached, true) if parked => Presence::Attached,
        (Presence::Away { .. }, true) => Presence::Attached,
        // A parked run has no agent by design.
        (Presence::Attached, false) if !parked => Presence::Away { since: now },
        _ => return None,
    };
    Some(Event::PresenceChanged {
        run: run.id,
        presence,
    })
}

pub(super) fn attend(
    state: &State,
    by: &Principal,
    id: RunId,
    here: bool,
    now: Timestamp,
) -> Decided {
    let run = live_run(state, by, id)?;
    Ok(presence(run, here, now).into_iter().collect())
}

pub(super) fn end_run(
    state: &State,
    by: &Principal,
    id: RunId,
    how: Ending,
    reason: &Untrusted,
    now: Timestamp,
) -> Decided {
    within("the reason", reason, limits::SAID)?;
    let run = own_run(state, by, id)?;
    let how = match how {
        // Of several that a turn waits for, the first of their order is said (EL-65): what was asked here waits for somebody
        // outside the conversation.
        Ending::Paused(_) if !run.open.is_empty() => Ending::Paused(InterruptKind::Approval),
        how => how,
    };
    match (how, run.state) {
        (Ending::Over(end), RunState::Ended(already)) if end == already => Ok(vec![]),
        (_, RunState::Ended(_)) => Err(Refusal::RunOver),
        (Ending::Paused(interrupt), RunState::Parked(already)) if interrupt == already => {
            Ok(vec![])
        }
        (Ending::Paused(interrupt), _) => Ok(vec![Event::RunParked { run: id, interrupt }]),
        (Ending::Over(end), _) => Ok(over(run, end, reason, now)),
    }
}

/// The end of a run takes back what it still asks (DESIGN §4.1.11), and lets go of what holds it.
pub(super) fn over(run: &Run, end: End, reason: &Untrusted, now: Timestamp) -> Vec<Event> {
    let withdrawn = run.open.iter().map(|id| Event::ApprovalWithdrawn {
        id: *id,
        why: Why::RunEnded(end),
    });
    let ended = Event::RunEnded {
        run: run.id,
        end,
        reason: reason.clone(),
    };
    let let_go = run.held_by.map(|id| Event::EscalationClosed {
        id,
        how: How::RunEnded(end),
    });
    let settled = settled_by_end(run, end, now);
    withdrawn
        .chain(let_go)
        .chain(settled)
        .chain([ended])
        .collect()
}

pub(super) fn report_task(
    state: &State,
    by: &Principal,
    id: RunId,
    [task, title, detail]: [&Untrusted; 3],
    to: &TaskState,
    now: Timestamp,
) -> Decided {
    within("the task's id", task, limits::NAME)?;
    within("the task's title", title, limits::NAME)?;
    within("the task's detail", detail, limits::SAID)?;
    blocked_within(to)?;
    let run = live_run(state, by, id)?;
    room_for_tasks(run, [task])?;
    let known = run.tasks.get(task);
    let since = known.map_or(Timestamp::default(), |known| known.at);
    let confirmed = confirmed_by_task(run, task, to, now);
    if known == Some(&Task::kept(known, title, to, detail, since)) && confirmed.is_none() {
        return Ok(vec![]);
    }
    let reported = Event::TaskReported {
        run: id,
        task: task.clone(),
        title: title.clone(),
        state: to.clone(),
        detail: detail.clone(),
    };
    Ok([reported].into_iter().chain(confirmed).collect())
}

pub(super) fn report_plan(
    state: &State,
    by: &Principal,
    id: RunId,
    plan: &Plan,
    cause: &Untrusted,
    now: Timestamp,
) -> Decided {
    within("the plan's summary", &plan.summary, limits::SAID)?;
    within("the cause", cause, limits::NAME)?;
    for task in &plan.tasks {
        within("a task's id", &task.id, limits::NAME)?;
        within("a task's title", &task.title, limits::NAME)?;
        blocked_within(&task.state)?;
    }
    let run = live_run(state, by, id)?;
    room_for_tasks(run, plan.tasks.iter().map(|task| &task.id))?;
    let confirmed = confirmed_by_plan(run, cause, plan.revision, now);
    if run.plan.as_ref() == Some(&plan.kept()) && confirmed.is_empty() {
        return Ok(vec![]);
    }
    let reported = Event::PlanReported {
        run: id,
        plan: plan.clone(),
        cause: cause.clone(),
    };
    Ok([reported].into_iter().chain(confirmed).collect())
}

pub(super) fn blocked_within(state: &TaskState) -> Result<(), Refusal> {
    if let TaskState::Blocked { blocker, needed } = state {
        within("the task's blocker", blocker, limits::NAME)?;
        within("what the task needs", needed, limits::SAID)?;
    }
    Ok(())
}

fn room_for_tasks<'a>(
    run: &Run,
    tasks: impl IntoIterator<Item = &'a Untrusted>,
) -> Result<(), Refusal> {
    let unknown = tasks.into_iter().filter(|id| !run.tasks.contains_key(id));
    let unknown = unknown.count();
    if unknown > 0 && run.tasks.len() + unknown > limits::TASKS_COUNT {
        return Err(Refusal::Invalid(format!(
            "a run has at most {} tasks",
            limits::TASKS_COUNT
        )));
    }
    Ok(())
}

pub(super) fn say(state: &State, by: &Principal, id: RunId, text: &Untrusted) -> Decided {
    within("what the run says", text, limits::SAID)?;
    live_run(state, by, id)?;
    let text = text.clone();
    Ok(vec![Event::Said { run: id, text }])
}

pub(super) fn works(by: &Principal) -> Result<(), Refusal> {
    may(by, Verb::Work, None, None).map(|_| ())
}

pub(super) fn belongs(run: &Run, by: &Principal) -> Result<(), Refusal> {
    works(by)?;
    if run.opened_by != *by.name() {
        return Err(Refusal::NotYours("another agent opened this run"));
    }
    Ok(())
}

pub(super) fn own_run<'a>(
    state: &'a State,
    by: &Principal,
    id: RunId,
) -> Result<&'a Arc<Run>, Refusal> {
    let run = state.run(id).filter(|run| run.key.tenant == *by.tenant());
    let run = run.ok_or(Refusal::NotFound("run"))?;
    belongs(run, by)?;
    Ok(run)
}

pub(super) fn live_run<'a>(
    state: &'a State,
    by: &Principal,
    id: RunId,
) -> Result<&'a Arc<Run>, Refusal> {
    let run = own_run(state, by, id)?;
    if run.state.is_over() {
        return Err(Refusal::RunOver);
    }
    Ok(run)
}

pub(super) fn within(what: &'static str, text: &Untrusted, limit: usize) -> Result<(), Refusal> {
    let bytes = text.raw().len();
    if bytes > limit {
        return Err(Refusal::TooLarge { what, bytes, limit });
    }
    Ok(())
}
