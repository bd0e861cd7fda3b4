//! What a person has a run do; to one that stands still, that is the answer (DESIGN §4.3).

use crate::{
    approval::Why,
    command::Direct,
    control::{Control, Stage, Step, Verb},
    escalation::{Cause, Closed, Escalation, EscalationId, How, ItemId},
    event::Event,
    limits,
    refusal::Refusal,
    run::{End, Pause, Presence, Run},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Principal, may},
};

use super::{
    Decided,
    progress::{pause_moved, settled_by_end},
    runs::within,
};

/// A person has a run do something; to one that stands still, that is the answer. The first wins.
pub(super) fn direct(state: &State, by: &Principal, wish: &Direct, now: Timestamp) -> Decided {
    note_fits(wish)?;
    let run = state
        .run(wish.order.run)
        .filter(|run| run.key.tenant == *by.tenant());
    let closed = closed(state, by, wish);
    let owner = match (run, closed) {
        (Some(run), _) => &run.owner,
        (None, Some(closed)) => &closed.escalation.owner,
        (None, None) => return Err(Refusal::NotFound("run")),
    };
    let by = may(by, wish.order.verb.right(), owner.as_ref(), None)?.by;
    if let Some(first) = run.and_then(|run| run.control(&wish.order.id)) {
        return again(first, wish, &by);
    }
    if let Some(closed) = closed {
        return Err(closed_already(closed));
    }
    let run = run.ok_or(Refusal::NotFound("run"))?;
    let answered = answered(state, run, wish)?;
    takes_orders(state, run, wish)?;
    if answered.is_none() {
        stands_as_wished(state, run, &wish.order.verb)?;
    }
    let mut events = ordered(run, wish, answered, by, now);
    if is_gone(run) {
        events.extend(called_off_unheard(run, wish, answered, now));
    }
    Ok(events)
}

/// The escalation that is answered, if it was answered before: the log knows it when State has forgotten it, and its run.
fn closed<'a>(state: &'a State, by: &Principal, wish: &'a Direct) -> Option<&'a Closed> {
    let id = wish.order.answers?;
    let past = wish.past.as_deref();
    let past = past.filter(|past| past.escalation.id == id);
    let closed = state.closed(id).map(AsRef::as_ref).or(past)?;
    let of = &closed.escalation;
    (of.run == wish.order.run && of.from.tenant == *by.tenant()).then_some(closed)
}

/// The same order of the same person, sent again: answered with the first result.
fn again(first: &Control, wish: &Direct, by: &Name) -> Decided {
    let order = &wish.order;
    let answers = !order.verb.answers() || first.escalation == order.answers;
    let same = first.verb == order.verb && first.note == order.note && answers;
    if first.by == *by && same {
        return Ok(vec![]);
    }
    Err(Refusal::KeyReused("this control id"))
}

fn note_fits(wish: &Direct) -> Result<(), Refusal> {
    match &wish.order.verb {
        Verb::Steer => steer_fits(&wish.order.note)?,
        Verb::Rewind { task } => rewind_fits(task)?,
        Verb::Pause | Verb::Resume | Verb::Cancel | Verb::StatusQuery => {}
    }
    within("the note", &wish.order.note, limits::NOTE)?;
    if wish.order.answers.is_some() && !wish.order.verb.answers() {
        return Err(Refusal::Invalid(
            "an escalation is answered with resume, steer or cancel".into(),
        ));
    }
    Ok(())
}

fn rewind_fits(task: &Untrusted) -> Result<(), Refusal> {
    within("the task's id", task, limits::NAME)?;
    if task.is_empty() {
        return Err(Refusal::Invalid(
            "a rewind names the task to do again".into(),
        ));
    }
    Ok(())
}

/// What goldfive's bridge takes (`wire/goldfive.md` §2.6), and so do we.
fn steer_fits(note: &Untrusted) -> Result<(), Refusal> {
    within("the direction", note, limits::STEER)?;
    if note.raw().trim().is_empty() {
        return Err(Refusal::Invalid("a steer says where to".into()));
    }
    let control = |c: char| c < ' ' && !matches!(c, '\t' | '\n');
    if note.raw().contains(control) {
        return Err(Refusal::Invalid(
            "a direction holds no control characters but tabs and newlines".into(),
        ));
    }
    Ok(())
}

/// The escalation that is answered, if one is; it waits.
fn answered(state: &State, run: &Run, wish: &Direct) -> Result<Option<EscalationId>, Refusal> {
    let Some(id) = wish.order.answers else {
        return Ok(None);
    };
    let escalation = state.escalation(id).filter(|known| known.run == run.id);
    escalation.ok_or(Refusal::NotFound("escalation"))?;
    Ok(Some(id))
}

fn closed_already(closed: &Closed) -> Refusal {
    if let How::RunEnded(_) = closed.how {
        return Refusal::RunOver;
    }
    Refusal::AlreadySettled {
        id: ItemId::Escalation(closed.escalation.id),
        outcome: closed.how.word().into(),
        by: closed.how.by().cloned(),
        at: closed.at,
    }
}

fn takes_orders(state: &State, run: &Run, wish: &Direct) -> Result<(), Refusal> {
    if run.state.is_over() {
        return Err(Refusal::RunOver);
    }
    if run.presence == Presence::Detached {
        return Err(Refusal::NotNow(
            "nobody takes an order there: it was filed from a command line".into(),
        ));
    }
    if is_gone(run) && wish.order.verb != Verb::Cancel {
        return Err(Refusal::Unreachable);
    }
    if wish.order.verb != Verb::StatusQuery
        && let Some(stopping) = stopping(state, run)
    {
        return Err(stopping);
    }
    // Who is asked answers, and whoever has to stop is told so.
    let must = wish.order.answers.is_some() || wish.order.verb == Verb::Cancel;
    if !must && !has_room(run) {
        return Err(Refusal::NotNow(
            "its agent has not answered the orders that it has".into(),
        ));
    }
    Ok(())
}

/// A foreign agent that is gone does not come back (`wire/goldfive.md` §0.6).
fn is_gone(run: &Run) -> bool {
    run.key.source.is_foreign() && matches!(run.presence, Presence::Away { .. })
}

/// Nobody is there to stop, and nobody will be: the run is over.
fn called_off_unheard(
    run: &Run,
    wish: &Direct,
    answered: Option<EscalationId>,
    now: Timestamp,
) -> Vec<Event> {
    let unheard = Event::ControlMoved {
        run: run.id,
        id: wish.order.id.clone(),
        escalation: answered,
        step: Step {
            stage: Stage::Unanswered,
            detail: Untrusted::new("its agent is gone and does not come back"),
            at: now,
        },
    };
    let ended = Event::RunEnded {
        run: run.id,
        end: End::Cancelled,
        reason: wish.order.note.clone(),
    };
    let mut events = vec![unheard];
    events.extend(settled_by_end(run, End::Cancelled, now));
    events.push(ended);
    events
}

/// What stands still is answered by name, so that nobody answers what they have not seen.
fn stands_as_wished(state: &State, run: &Run, verb: &Verb) -> Result<(), Refusal> {
    match (verb, held(state, run)) {
        (Verb::Rewind { .. } | Verb::StatusQuery, _) => Ok(()),
        (_, Some(escalation)) => Err(Refusal::NotNow(format!(
            "it stands still: answer {} with resume, steer or cancel",
            escalation.id
        ))),
        (Verb::Resume, None) if !waits_for_answer(run) => Err(Refusal::NotNow(
            "it does not stand still, or was told already how it goes on".into(),
        )),
        (Verb::Pause | Verb::Resume | Verb::Steer | Verb::Cancel, None) => Ok(()),
    }
}

fn waits_for_answer(run: &Run) -> bool {
    let answers = |control: &Control| control.verb.answers() && control.waits_for_ack();
    run.pause.is_some() && !run.controls.iter().any(answers)
}

fn ordered(
    run: &Run,
    wish: &Direct,
    answered: Option<EscalationId>,
    by: Name,
    now: Timestamp,
) -> Vec<Event> {
    let pauses = wish.order.verb == Verb::Pause;
    let mut events = Vec::new();
    events.extend(answered.map(|id| Event::EscalationClosed {
        id,
        how: How::Answered {
            verb: wish.order.verb.clone(),
            by: by.clone(),
            note: wish.order.note.clone(),
        },
    }));
    if pauses {
        let cause = Cause::Paused {
            by: by.clone(),
            note: wish.order.note.clone(),
        };
        events.push(Event::EscalationRaised {
            escalation: new_escalation(run, wish.raise, cause, now).into(),
        });
    }
    if wish.order.verb == Verb::Cancel {
        events.extend(withdraw_all(run, &by));
    }
    let control = Control {
        id: wish.order.id.clone(),
        run: run.id,
        verb: wish.order.verb.clone(),
        note: wish.order.note.clone(),
        by,
        escalation: answered.or(pauses.then_some(wish.raise)),
        drift: None,
        deadline: None,
        at: now,
        steps: Vec::new(),
    };
    events.push(Event::ControlIssued {
        control: control.into(),
    });
    events.extend(asked_to_pause(run).filter(|_| pauses));
    events
}

/// Why a run that is to stop for good asks nothing more, and is told nothing else (case A21).
pub(super) fn stopping(state: &State, run: &Run) -> Option<Refusal> {
    if held(state, run).is_some_and(Escalation::is_abort) {
        return Some(Refusal::NotNow(
            "the run is being aborted: the same drift had held it before".into(),
        ));
    }
    let cancel = run.called_off()?;
    Some(Refusal::NotNow(format!(
        "the run was cancelled by {} at {}, and has not ended yet",
        cancel.by, cancel.at
    )))
}

/// What holds the run now.
pub(super) fn held<'a>(state: &'a State, run: &Run) -> Option<&'a Escalation> {
    run.held_by
        .and_then(|id| state.escalation(id))
        .map(AsRef::as_ref)
}

pub(super) fn new_escalation(
    run: &Run,
    id: EscalationId,
    cause: Cause,
    now: Timestamp,
) -> Escalation {
    Escalation {
        id,
        run: run.id,
        from: run.key.clone(),
        owner: run.owner.clone(),
        cause,
        also: Vec::new(),
        after: None,
        at: now,
        abort_at: None,
    }
}

/// What a run asks is taken back when it is called off (case A21).
pub(super) fn withdraw_all(run: &Run, by: &Name) -> Vec<Event> {
    let why = Why::Cancelled { by: by.clone() };
    let taken_back = |id: &_| Event::ApprovalWithdrawn {
        id: *id,
        why: why.clone(),
    };
    run.open.iter().map(taken_back).collect()
}

pub(super) fn has_room(run: &Run) -> bool {
    let unheard = run
        .controls
        .iter()
        .filter(|control| control.waits_for_ack());
    unheard.count() < limits::CONTROLS_UNDER_WAY
}

/// One that stands still already goes on doing so.
pub(super) fn asked_to_pause(run: &Run) -> Option<Event> {
    pause_moved(run, run.pause.or(Some(Pause::Asked)))
}
