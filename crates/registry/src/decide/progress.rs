//! How far an order comes: handed over, acked or not, confirmed by an event (DESIGN §4.4).

use std::sync::Arc;

use crate::{
    command::{Ack, AckResult},
    control::{Confirmation, Control, Stage, Step, Verb},
    escalation::{Closed, Escalation, Undone},
    event::Event,
    limits,
    names::ControlId,
    refusal::Refusal,
    run::{End, Evidence, Pause, Run, RunId, TaskState},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::Principal,
};

use super::{
    Decided,
    orders::{held, new_escalation},
    runs::{over, own_run, within},
};

/// An order was handed to the agent.
pub(super) fn hand_over(
    state: &State,
    by: &Principal,
    run: RunId,
    control: &ControlId,
    now: Timestamp,
) -> Decided {
    let run = own_run(state, by, run)?;
    let control = run.control(control).ok_or(Refusal::NotFound("control"))?;
    if control.stage() != Stage::Issued {
        return Ok(vec![]);
    }
    Ok(vec![moved(control, Stage::Sent, Untrusted::default(), now)])
}

/// The agent took an order, or did not.
pub(super) fn ack(state: &State, by: &Principal, wish: &Ack, now: Timestamp) -> Decided {
    within("the detail", &wish.detail, limits::SAID)?;
    let run = own_run(state, by, wish.run)?;
    let control = run
        .control(&wish.control)
        .ok_or(Refusal::NotFound("control"))?;
    // The first ack counts; one that comes after the event which confirms takes no step back.
    if !control.waits_for_ack() {
        return Ok(vec![]);
    }
    let stage = match wish.result {
        AckResult::Success => Stage::Acked,
        AckResult::Failure => Stage::Failed,
        AckResult::Unsupported => Stage::Unsupported,
        AckResult::NoAnswer => Stage::Unanswered,
    };
    let detail = wish.detail.cut(limits::TASK_KEPT);
    let mut events = vec![moved(control, stage, detail, now)];
    events.extend(match stage {
        Stage::Acked => taken(state, run, control, now),
        _ => not_taken(state, run, control, stage, wish, now),
    });
    Ok(events)
}

/// What follows from an order that its agent takes.
fn taken(state: &State, run: &Run, control: &Control, now: Timestamp) -> Vec<Event> {
    match control.verb {
        Verb::Pause | Verb::Resume | Verb::Steer => {
            let moved = pause_moved(run, pause_after(run, control));
            moved.into_iter().collect()
        }
        Verb::Cancel => {
            let aborts = held(state, run).filter(|held| held.is_abort());
            let aborts = aborts.filter(|held| control.escalation == Some(held.id));
            aborts.map_or_else(Vec::new, |escalation| abort(run, escalation, now))
        }
        Verb::Rewind { .. } | Verb::StatusQuery => vec![],
    }
}

/// Whether the run stands still now that it took `control`. Acks come in any order: the newest order that it took counts, and
/// a newer one to pause is still asked.
fn pause_after(run: &Run, control: &Control) -> Option<Pause> {
    let stands_still = Some(Pause::Holds(Evidence::Acked));
    let mut pause = stands_still.filter(|_| control.verb == Verb::Pause);
    for later in after(run, control) {
        pause = match later.verb {
            Verb::Pause if later.was_taken() => stands_still,
            Verb::Pause if later.waits_for_ack() => pause.or(Some(Pause::Asked)),
            Verb::Resume | Verb::Steer if later.was_taken() => None,
            _ => pause,
        };
    }
    pause
}

fn after<'a>(run: &'a Run, control: &'a Control) -> impl Iterator<Item = &'a Control> {
    let from = run.controls.iter().skip_while(|c| c.id != control.id);
    from.skip(1)
}

/// What follows from an order that its agent does not take: success is never assumed.
fn not_taken(
    state: &State,
    run: &Run,
    control: &Control,
    stage: Stage,
    wish: &Ack,
    now: Timestamp,
) -> Vec<Event> {
    let event = match control.verb {
        Verb::Pause => cannot_pause(run, control, stage),
        Verb::Resume if run.pause.is_none() => None,
        Verb::Resume | Verb::Steer | Verb::Cancel => raised_anew(state, run, control, wish, now),
        Verb::Rewind { .. } | Verb::StatusQuery => None,
    };
    event.into_iter().collect()
}

/// One that says that it does not pause goes on; of one that says nothing, nobody knows.
fn cannot_pause(run: &Run, control: &Control, stage: Stage) -> Option<Event> {
    let asked = |other: &Control| other.verb == Verb::Pause && other.waits_for_ack();
    let asked_elsewhere = run.controls.iter().any(|c| c.id != control.id && asked(c));
    let goes_on = stage != Stage::Unanswered && !asked_elsewhere;
    if goes_on && run.pause == Some(Pause::Asked) {
        return pause_moved(run, None);
    }
    None
}

/// An answer that came to nothing: another one is needed, unless a newer one is under way or was taken.
fn raised_anew(
    state: &State,
    run: &Run,
    control: &Control,
    wish: &Ack,
    now: Timestamp,
) -> Option<Event> {
    let answers = |newer: &Control| newer.verb.answers() && !newer.stage().is_failure();
    if held(state, run).is_some() || after(run, control).any(answers) {
        return None;
    }
    let answered = answered_with(state, run, control)?;
    let escalation = Escalation {
        after: Some(Undone {
            verb: control.verb.clone(),
            by: control.by.clone(),
            detail: wish.detail.cut(limits::TASK_KEPT),
        }),
        also: answered.escalation.also.clone(),
        ..new_escalation(run, wish.raise, answered.escalation.cause.clone(), now)
    };
    Some(Event::EscalationRaised {
        escalation: escalation.into(),
    })
}

/// The escalation that an order answered; of one that came beside the answer to a run that stands still, the same.
fn answered_with<'a>(state: &'a State, run: &Run, control: &Control) -> Option<&'a Arc<Closed>> {
    if let Some(id) = control.escalation {
        return state.closed(id);
    }
    let mut answers = run.controls.iter().rev().filter(|c| c.verb.answers());
    run.pause?;
    answers.find_map(|answer| state.closed(answer.escalation?))
}

pub(super) fn abort(run: &Run, escalation: &Escalation, now: Timestamp) -> Vec<Event> {
    let drift = escalation.drift();
    let detail = drift.map_or("", |drift| drift.detail.raw());
    let reason = format!("level 5: {}: {detail}", escalation.title().raw());
    over(run, End::Aborted, &Untrusted::new(reason), now)
}

pub(super) fn moved(control: &Control, stage: Stage, detail: Untrusted, at: Timestamp) -> Event {
    Event::ControlMoved {
        run: control.run,
        id: control.id.clone(),
        escalation: control.escalation,
        step: Step { stage, detail, at },
    }
}

pub(super) fn pause_moved(run: &Run, pause: Option<Pause>) -> Option<Event> {
    let moved = Event::PauseMoved { run: run.id, pause };
    (run.pause != pause).then_some(moved)
}

/// A plan that names an order as its cause shows that it was done, also before its agent says so.
pub(super) fn confirmed_by_plan(
    run: &Run,
    cause: &Untrusted,
    revision: u32,
    now: Timestamp,
) -> Vec<Event> {
    let steers = |control: &&Control| {
        control.verb.confirmed_by() == Confirmation::Plan
            && control.id.as_str() == cause.raw()
            && !control.is_over()
    };
    let Some(steer) = run.controls.iter().find(steers) else {
        return vec![];
    };
    let detail = Untrusted::new(format!("plan revision {revision}"));
    let confirmed = moved(steer, Stage::Confirmed, detail, now);
    let goes_on = pause_moved(run, pause_after(run, steer));
    let goes_on = goes_on.filter(|_| steer.waits_for_ack());
    [confirmed].into_iter().chain(goes_on).collect()
}

/// A task that is to be done again shows that a rewind was done. What its agent has not been handed, it has not done.
pub(super) fn confirmed_by_task(
    run: &Run,
    task: &Untrusted,
    to: &TaskState,
    now: Timestamp,
) -> Option<Event> {
    let rewinds = |control: &&Control| {
        let of_task = matches!(&control.verb, Verb::Rewind { task: of } if of == task);
        of_task && control.stage() != Stage::Issued && !control.is_over()
    };
    let rewind = run.controls.iter().find(rewinds)?;
    if !begins_again(run.tasks.get(task).map(|task| &task.state), to) {
        return None;
    }
    let detail = Untrusted::new(format!("the task is {} again", to.word()));
    Some(moved(rewind, Stage::Confirmed, detail, now))
}

fn begins_again(from: Option<&TaskState>, to: &TaskState) -> bool {
    match to {
        // Nobody says so of a task twice, but to answer.
        TaskState::Pending => true,
        TaskState::Running => from.is_some_and(TaskState::is_over),
        TaskState::Blocked { .. }
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Cancelled
        | TaskState::NotNeeded => false,
    }
}

/// The end of a run is what a cancel was for; all else that was under way gets no answer any more.
pub(super) fn settled_by_end(run: &Run, end: End, now: Timestamp) -> Vec<Event> {
    let settle = |control: &Control| {
        let stops = matches!(end, End::Cancelled | End::Aborted) || control.was_taken();
        let stage = match control.verb.confirmed_by() {
            Confirmation::End if stops => Stage::Confirmed,
            _ => Stage::Unanswered,
        };
        let detail = Untrusted::new(format!("the run {}", end.word()));
        moved(control, stage, detail, now)
    };
    let under_way = run.controls.iter().filter(|control| !control.is_over());
    under_way.map(settle).collect()
}
