//! What goes wrong in a run, what holds it, and what a person has it do (DESIGN §4.3, §4.4).

use std::sync::Arc;

use crate::{
    approval::Why,
    command::{Ack, AckResult, Direct, Raise, ReportDrift},
    control::{Behind, Confirmation, Control, Stage, Step, Verb},
    drift::{Drift, Kind, Level, Severity, ladder},
    escalation::{Cause, Closed, Escalation, EscalationId, How, ItemId, Undone},
    event::Event,
    limits,
    names::{ControlId, DriftId},
    refusal::Refusal,
    run::{End, Evidence, Pause, Presence, Run, RunId, TaskState},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Principal, Verb as Right, may},
};

use super::{
    Decided,
    foreign::foreign_run,
    runs::{live_run, over, own_run, within},
};

/// An agent says that something went wrong. Up to level 3 it is for the agent to act on.
pub(super) fn report_drift(
    state: &State,
    by: &Principal,
    wish: &ReportDrift,
    now: Timestamp,
) -> Decided {
    within("the drift's detail", &wish.drift.detail, limits::SAID)?;
    within("the drift's task", &wish.drift.task, limits::NAME)?;
    if wish.drift.kind.text().is_empty() {
        return Err(Refusal::Invalid("a drift names its kind".into()));
    }
    let run = live_run(state, by, wish.run)?;
    if reported(run, &wish.drift.id).is_some() {
        return Ok(vec![]);
    }
    let level = level_of(run, &wish.drift);
    let drift = Drift {
        level: Some(level),
        from: None,
        at: now,
        ..wish.drift.clone()
    };
    let noted = Event::DriftReported {
        run: run.id,
        drift: drift.clone(),
    };
    let mut events = vec![noted];
    if can_be_held(state, run) {
        events.extend(match level {
            Level::PauseEscalate => escalate(state, run, &drift, &wish.raise, now),
            Level::Terminate => terminate(state, run, &drift, &wish.raise, now),
            Level::Observe | Level::Absorb | Level::Nudge | Level::CancelReinvoke => vec![],
        });
    }
    Ok(events)
}

/// Of a run that is to stop for good anyway, and of one that takes no orders, a drift is only noted.
fn can_be_held(state: &State, run: &Run) -> bool {
    run.presence != Presence::Detached && stopping(state, run).is_none()
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

/// The level of a drift that was reported before under the same id.
pub(super) fn reported(run: &Run, id: &DriftId) -> Option<Level> {
    let known = run.drifts.iter().find(|known| known.id == *id);
    known.and_then(|known| known.level)
}

/// A condition that has held the run for a person once does not do so again: it ends the run (GF-81).
fn level_of(run: &Run, drift: &Drift) -> Level {
    let count = run.count(&drift.kind, &drift.task);
    match ladder(&drift.kind, &drift.severity, count.criticals > 0) {
        Level::PauseEscalate if count.escalated => Level::Terminate,
        level => level,
    }
}

/// Level 4: the run stands still until a person says how it goes on (GF-70, GF-71).
fn escalate(state: &State, run: &Run, drift: &Drift, ids: &Raise, now: Timestamp) -> Vec<Event> {
    let mut events = raise(state, run, drift, ids, None, now);
    // One that does not read its orders is not given more of them.
    if has_room(run) {
        events.push(order_of_ladder(run, drift, ids, Verb::Pause, None, now));
        events.extend(asked_to_pause(run));
    }
    events
}

/// One that stands still already goes on doing so.
fn asked_to_pause(run: &Run) -> Option<Event> {
    pause_moved(run, run.pause.or(Some(Pause::Asked)))
}

fn pause_moved(run: &Run, pause: Option<Pause>) -> Option<Event> {
    let moved = Event::PauseMoved { run: run.id, pause };
    (run.pause != pause).then_some(moved)
}

fn has_room(run: &Run) -> bool {
    let under_way = run.controls.iter().filter(|control| !control.is_over());
    under_way.count() < limits::CONTROLS_UNDER_WAY
}

/// Level 5: the run is called off. It is over once its agent takes that, or when its time is up.
fn terminate(state: &State, run: &Run, drift: &Drift, ids: &Raise, now: Timestamp) -> Vec<Event> {
    let abort_at = now.plus(limits::ABORT_AFTER);
    let order = order_of_ladder(run, drift, ids, Verb::Cancel, Some(abort_at), now);
    let mut events = raise(state, run, drift, ids, Some(abort_at), now);
    events.extend(withdraw_all(run, &Name::system("ladder")));
    events.push(order);
    events
}

/// Records the drift as an escalation, which takes the place of another one of its run.
fn raise(
    state: &State,
    run: &Run,
    drift: &Drift,
    ids: &Raise,
    abort_at: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Event> {
    let kind = drift.kind.text().raw();
    let recorded_as = Event::DriftReported {
        run: run.id,
        drift: Drift {
            id: ids.drift.clone(),
            kind: Kind::human_intervention(),
            severity: Severity::Critical,
            detail: Untrusted::new(format!("escalated from {kind}: {}", drift.detail.raw())),
            task: drift.task.clone(),
            level: None,
            from: Some(drift.kind.clone()),
            at: now,
        },
    };
    let escalation = Escalation {
        abort_at,
        ..new_escalation(run, ids.escalation, Cause::Drift(drift.kept()), now)
    };
    let before = held(state, run).map(|before| Event::EscalationClosed {
        id: before.id,
        how: How::Superseded { by: ids.escalation },
    });
    let raised = Event::EscalationRaised {
        escalation: escalation.into(),
    };
    [Some(recorded_as), before, Some(raised)]
        .into_iter()
        .flatten()
        .collect()
}

fn new_escalation(run: &Run, id: EscalationId, cause: Cause, now: Timestamp) -> Escalation {
    Escalation {
        id,
        run: run.id,
        from: run.key.clone(),
        owner: run.owner.clone(),
        cause,
        after: None,
        at: now,
        abort_at: None,
    }
}

fn order_of_ladder(
    run: &Run,
    drift: &Drift,
    ids: &Raise,
    verb: Verb,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Event {
    let kind = drift.kind.text().raw();
    let reason = Untrusted::new(format!("{kind}: {}", drift.detail.raw()));
    let control = Control {
        id: ids.control.clone(),
        run: run.id,
        verb,
        note: reason.cut(limits::NOTE),
        by: Name::system("ladder"),
        escalation: Some(ids.escalation),
        drift: drift.level.map(|level| Behind {
            id: drift.id.clone(),
            kind: drift.kind.clone(),
            level,
        }),
        deadline,
        at: now,
        steps: Vec::new(),
    };
    Event::ControlIssued {
        control: control.into(),
    }
}

/// What holds the run now.
fn held<'a>(state: &'a State, run: &Run) -> Option<&'a Escalation> {
    run.held_by
        .and_then(|id| state.escalation(id))
        .map(AsRef::as_ref)
}

/// What a run asks is taken back when it is called off (case A21).
fn withdraw_all(run: &Run, by: &Name) -> Vec<Event> {
    let why = Why::Cancelled { by: by.clone() };
    let taken_back = |id: &_| Event::ApprovalWithdrawn {
        id: *id,
        why: why.clone(),
    };
    run.open.iter().map(taken_back).collect()
}

/// A person has a run do something; to one that stands still, that is the answer. The first wins.
pub(super) fn direct(state: &State, by: &Principal, wish: &Direct, now: Timestamp) -> Decided {
    note_fits(wish)?;
    let run = state
        .run(wish.run)
        .filter(|run| run.key.tenant == *by.tenant());
    let closed = closed(state, by, wish);
    let owner = match (run, closed) {
        (Some(run), _) => &run.owner,
        (None, Some(closed)) => &closed.escalation.owner,
        (None, None) => return Err(Refusal::NotFound("run")),
    };
    let by = may(by, right_to(&wish.verb), owner.as_ref(), None)?.by;
    if let Some(first) = run.and_then(|run| run.control(&wish.control)) {
        return again(first, wish, &by);
    }
    if let Some(closed) = closed {
        return Err(closed_already(closed));
    }
    let run = run.ok_or(Refusal::NotFound("run"))?;
    let answered = answered(state, run, wish)?;
    takes_orders(state, run, wish)?;
    if answered.is_none() {
        stands_as_wished(state, run, &wish.verb)?;
    }
    Ok(ordered(run, wish, answered, by, now))
}

/// The escalation that is answered, if it was answered before: the log knows it when State has forgotten it, and its run.
fn closed<'a>(state: &'a State, by: &Principal, wish: &'a Direct) -> Option<&'a Closed> {
    let id = wish.answers?;
    let past = wish.past.as_deref();
    let past = past.filter(|past| past.escalation.id == id);
    let closed = state.closed(id).map(AsRef::as_ref).or(past)?;
    let of = &closed.escalation;
    (of.run == wish.run && of.from.tenant == *by.tenant()).then_some(closed)
}

fn right_to(verb: &Verb) -> Right {
    match verb {
        Verb::Pause | Verb::Resume | Verb::Steer | Verb::Cancel => Right::Direct,
        Verb::Rewind { .. } | Verb::StatusQuery => Right::Inspect,
    }
}

/// The same order of the same person, sent again: answered with the first result.
fn again(first: &Control, wish: &Direct, by: &Name) -> Decided {
    if first.by == *by && first.verb == wish.verb {
        return Ok(vec![]);
    }
    Err(Refusal::KeyReused("this control id"))
}

fn note_fits(wish: &Direct) -> Result<(), Refusal> {
    match &wish.verb {
        Verb::Steer => steer_fits(&wish.note)?,
        Verb::Rewind { task } => rewind_fits(task)?,
        Verb::Pause | Verb::Resume | Verb::Cancel | Verb::StatusQuery => {}
    }
    within("the note", &wish.note, limits::NOTE)?;
    if wish.answers.is_some() && !wish.verb.answers() {
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
    let Some(id) = wish.answers else {
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
    if run.key.source.is_foreign() && matches!(run.presence, Presence::Away { .. }) {
        return Err(Refusal::Unreachable);
    }
    if wish.verb != Verb::StatusQuery
        && let Some(stopping) = stopping(state, run)
    {
        return Err(stopping);
    }
    // Who is asked answers, and whoever has to stop is told so.
    let must = wish.answers.is_some() || wish.verb == Verb::Cancel;
    if !must && !has_room(run) {
        return Err(Refusal::NotNow(
            "its agent has not answered the orders that it has".into(),
        ));
    }
    Ok(())
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
    let pauses = wish.verb == Verb::Pause;
    let mut events = Vec::new();
    events.extend(answered.map(|id| Event::EscalationClosed {
        id,
        how: How::Answered {
            verb: wish.verb.clone(),
            by: by.clone(),
            note: wish.note.clone(),
        },
    }));
    if pauses {
        let cause = Cause::Paused {
            by: by.clone(),
            note: wish.note.clone(),
        };
        events.push(Event::EscalationRaised {
            escalation: new_escalation(run, wish.raise, cause, now).into(),
        });
    }
    if wish.verb == Verb::Cancel {
        events.extend(withdraw_all(run, &by));
    }
    let control = Control {
        id: wish.control.clone(),
        run: run.id,
        verb: wish.verb.clone(),
        note: wish.note.clone(),
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

pub(super) fn moved(control: &Control, stage: Stage, detail: Untrusted, at: Timestamp) -> Event {
    Event::ControlMoved {
        run: control.run,
        id: control.id.clone(),
        escalation: control.escalation,
        step: Step { stage, detail, at },
    }
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

/// The run that is to be aborted and did not end by itself in time.
pub(super) fn abort_overdue(state: &State, now: Timestamp) -> Option<Vec<Event>> {
    let escalation = state.overdue_abort(now)?;
    Some(abort(state.run(escalation.run)?, escalation, now))
}

fn abort(run: &Run, escalation: &Escalation, now: Timestamp) -> Vec<Event> {
    let drift = escalation.drift();
    let detail = drift.map_or("", |drift| drift.detail.raw());
    let reason = format!("level 5: {}: {detail}", escalation.title().raw());
    over(run, End::Aborted, &Untrusted::new(reason), now)
}

/// A foreign run drifts; its own ladder deals with that, and holds it maybe.
pub(super) fn observe_drifted(
    state: &State,
    by: &Principal,
    run: RunId,
    drift: &Drift,
    holds: Option<EscalationId>,
    now: Timestamp,
) -> Decided {
    let run = foreign_run(state, by, run)?;
    let known = run.drifts.iter().any(|known| known.id == drift.id);
    if run.state.is_over() || known {
        return Ok(vec![]);
    }
    let drift = Drift {
        at: now,
        ..drift.clone()
    };
    let mut events = vec![Event::DriftReported {
        run: run.id,
        drift: drift.clone(),
    }];
    if let Some(id) = holds.filter(|_| held(state, run).is_none()) {
        let cause = Cause::Drift(drift.kept());
        events.push(Event::EscalationRaised {
            escalation: new_escalation(run, id, cause, now).into(),
        });
        events.push(Event::PauseMoved {
            run: run.id,
            pause: Some(Pause::Holds(Evidence::Inferred)),
        });
    }
    Ok(events)
}

/// A foreign agent says how strongly it answers a drift.
pub(super) fn observe_levelled(
    state: &State,
    by: &Principal,
    run: RunId,
    drift: &DriftId,
    level: Level,
) -> Decided {
    let run = foreign_run(state, by, run)?;
    let known = run.drifts.iter().find(|known| known.id == *drift);
    if known.is_none_or(|known| known.level == Some(level)) {
        return Ok(vec![]);
    }
    Ok(vec![Event::DriftLevelled {
        run: run.id,
        drift: drift.clone(),
        level,
    }])
}
