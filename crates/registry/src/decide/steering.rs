//! What goes wrong in a run, what holds it, and what a person has it do (DESIGN §4.3, §4.4).

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
    // Whoever is to stop for good anyway needs no more than that it is noted.
    let stops = run.called_off().is_some();
    Ok(match level {
        Level::PauseEscalate if !stops => {
            [vec![noted], escalate(state, run, &drift, &wish.raise, now)].concat()
        }
        Level::Terminate if !stops => {
            [vec![noted], terminate(state, run, &drift, &wish.raise, now)].concat()
        }
        _ => vec![noted],
    })
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
    let order = order_of_ladder(run, drift, ids, Verb::Pause, None, now);
    let asked = Event::PauseMoved {
        run: run.id,
        pause: Some(Pause::Asked),
    };
    let mut events = raise(state, run, drift, ids, None, now);
    events.extend([order, asked]);
    events
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
    let run = run.ok_or(Refusal::NotFound("run"))?;
    let right = match wish.verb {
        Verb::Pause | Verb::Resume | Verb::Steer | Verb::Cancel => Right::Direct,
        Verb::Rewind { .. } | Verb::StatusQuery => Right::Inspect,
    };
    let decider = may(by, right, run.owner.as_ref(), None)?;
    if let Some(first) = run.control(&wish.control) {
        let again = first.by == decider.by && first.verb == wish.verb;
        return if again {
            Ok(vec![])
        } else {
            Err(Refusal::KeyReused("this control id"))
        };
    }
    let answered = answered(state, run, wish)?;
    takes_orders(run, wish)?;
    if answered.is_none() {
        stands_as_wished(state, run, &wish.verb)?;
    }
    Ok(ordered(run, wish, answered, decider.by, now))
}

fn note_fits(wish: &Direct) -> Result<(), Refusal> {
    within("the note", &wish.note, limits::NOTE)?;
    if let Verb::Rewind { task } = &wish.verb {
        within("the task's id", task, limits::NAME)?;
        if task.is_empty() {
            return Err(Refusal::Invalid(
                "a rewind names the task to do again".into(),
            ));
        }
    }
    if wish.verb == Verb::Steer {
        steer_fits(&wish.note)?;
    }
    if wish.answers.is_some() && !wish.verb.answers() {
        return Err(Refusal::Invalid(
            "an escalation is answered with resume, steer or cancel".into(),
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

/// The escalation that is answered, if one is.
fn answered(state: &State, run: &Run, wish: &Direct) -> Result<Option<EscalationId>, Refusal> {
    let Some(id) = wish.answers else {
        return Ok(None);
    };
    let closed = state
        .closed(id)
        .or(wish.past.as_ref().filter(|past| past.escalation.id == id));
    if let Some(closed) = closed.filter(|closed| closed.escalation.run == run.id) {
        return Err(closed_already(closed));
    }
    let escalation = state
        .escalation(id)
        .filter(|escalation| escalation.run == run.id);
    let escalation = escalation.ok_or(Refusal::NotFound("escalation"))?;
    if escalation.is_abort() {
        return Err(Refusal::NotNow(
            "the run is being aborted: the same drift had held it before".into(),
        ));
    }
    Ok(Some(id))
}

pub(super) fn closed_already(closed: &Closed) -> Refusal {
    Refusal::AlreadySettled {
        id: ItemId::Escalation(closed.escalation.id),
        outcome: closed.how.word().into(),
        by: closed.how.by().cloned(),
        at: closed.at,
    }
}

fn takes_orders(run: &Run, wish: &Direct) -> Result<(), Refusal> {
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
    if let Some(cancel) = run.called_off()
        && wish.verb != Verb::StatusQuery
    {
        let (by, at) = (&cancel.by, cancel.at);
        return Err(Refusal::NotNow(format!(
            "it was cancelled by {by} at {at}, and has not ended yet"
        )));
    }
    let under_way = run.controls.iter().filter(|control| !control.is_over());
    if under_way.count() >= limits::CONTROLS_UNDER_WAY {
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
        (Verb::Resume, None) => Err(Refusal::NotNow("it does not stand still".into())),
        (Verb::Pause | Verb::Steer | Verb::Cancel, None) => Ok(()),
    }
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
    events.extend(pauses.then_some(Event::PauseMoved {
        run: run.id,
        pause: Some(Pause::Asked),
    }));
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
        Stage::Acked => taken(state, run, control),
        _ => not_taken(state, run, control, wish, now),
    });
    Ok(events)
}

/// What follows from an order that its agent takes.
fn taken(state: &State, run: &Run, control: &Control) -> Vec<Event> {
    let pause = |pause| vec![Event::PauseMoved { run: run.id, pause }];
    match control.verb {
        Verb::Pause if goes_on_after(run, control) => vec![],
        Verb::Pause => pause(Some(Pause::Holds(Evidence::Acked))),
        Verb::Resume | Verb::Steer if run.pause.is_some() => pause(None),
        Verb::Cancel if is_abort(state, run, control) => {
            over(run, End::Aborted, &aborted_by(control), control.at)
        }
        Verb::Resume | Verb::Steer | Verb::Cancel | Verb::Rewind { .. } | Verb::StatusQuery => {
            vec![]
        }
    }
}

/// Acks may come in any order: a later order to go on has been taken already.
fn goes_on_after(run: &Run, pause: &Control) -> bool {
    let later = run
        .controls
        .iter()
        .skip_while(|control| control.id != pause.id);
    later
        .skip(1)
        .any(|control| matches!(control.verb, Verb::Resume | Verb::Steer) && control.was_taken())
}

fn is_abort(state: &State, run: &Run, control: &Control) -> bool {
    let escalation = held(state, run).filter(|held| control.escalation == Some(held.id));
    escalation.is_some_and(Escalation::is_abort)
}

fn aborted_by(control: &Control) -> Untrusted {
    Untrusted::new(format!("level 5: {}", control.note.raw()))
}

/// A run that still stands still needs another answer: success is never assumed.
fn not_taken(
    state: &State,
    run: &Run,
    control: &Control,
    wish: &Ack,
    now: Timestamp,
) -> Vec<Event> {
    let answered = control.escalation.and_then(|id| state.closed(id));
    let answers = answered.filter(|_| control.verb.answers() && run.pause.is_some());
    let (Some(answered), None) = (answers, held(state, run)) else {
        return vec![];
    };
    let escalation = Escalation {
        after: Some(Undone {
            verb: control.verb.clone(),
            by: control.by.clone(),
            detail: wish.detail.cut(limits::TASK_KEPT),
        }),
        ..new_escalation(run, wish.raise, answered.escalation.cause.clone(), now)
    };
    vec![Event::EscalationRaised {
        escalation: escalation.into(),
    }]
}

pub(super) fn moved(control: &Control, stage: Stage, detail: Untrusted, at: Timestamp) -> Event {
    Event::ControlMoved {
        run: control.run,
        id: control.id.clone(),
        escalation: control.escalation,
        step: Step { stage, detail, at },
    }
}

/// A plan that names an order as its cause shows that it was done.
pub(super) fn confirmed_by_plan(
    run: &Run,
    cause: &Untrusted,
    revision: u32,
    now: Timestamp,
) -> Option<Event> {
    let steers = |control: &&Control| {
        control.verb.confirmed_by() == Confirmation::Plan
            && control.id.as_str() == cause.raw()
            && !control.is_over()
    };
    let steer = run.controls.iter().find(steers)?;
    let detail = Untrusted::new(format!("plan revision {revision}"));
    Some(moved(steer, Stage::Confirmed, detail, now))
}

/// A task that is to be done again shows that a rewind was done.
pub(super) fn confirmed_by_task(
    run: &Run,
    task: &Untrusted,
    to: &TaskState,
    now: Timestamp,
) -> Option<Event> {
    let again = matches!(to, TaskState::Pending | TaskState::Running);
    let rewinds = |control: &&Control| {
        matches!(&control.verb, Verb::Rewind { task: of } if of == task) && !control.is_over()
    };
    let rewind = run.controls.iter().find(rewinds).filter(|_| again)?;
    let detail = Untrusted::new(format!("the task is {} again", to.word()));
    Some(moved(rewind, Stage::Confirmed, detail, now))
}

/// The end of a run is what a cancel was for; all else that was under way gets no answer any more.
pub(super) fn settled_by_end(run: &Run, end: End, now: Timestamp) -> Vec<Event> {
    let settle = |control: &Control| {
        let cancels = control.verb.confirmed_by() == Confirmation::End;
        let did_stop = matches!(end, End::Cancelled | End::Aborted);
        let (stage, how) = match cancels && did_stop {
            true => (Stage::Confirmed, "the run"),
            false => (Stage::Unanswered, "the run"),
        };
        let detail = Untrusted::new(format!("{how} {}", end.word()));
        moved(control, stage, detail, now)
    };
    let under_way = run.controls.iter().filter(|control| !control.is_over());
    under_way.map(settle).collect()
}

/// The run that is to be aborted and did not end by itself in time.
pub(super) fn abort_overdue(state: &State, escalation: &Escalation, now: Timestamp) -> Vec<Event> {
    let Some(run) = state.run(escalation.run) else {
        return vec![];
    };
    let cancel = run.called_off();
    let reason = cancel.map_or_else(Untrusted::default, aborted_by);
    over(run, End::Aborted, &reason, now)
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
