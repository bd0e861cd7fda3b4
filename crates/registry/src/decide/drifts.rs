//! What goes wrong in a run, and how strongly that is answered (DESIGN §4.3).

use crate::{
    command::{Raise, ReportDrift},
    control::{Behind, Control, Verb},
    drift::{Drift, Kind, Level, Severity, ladder},
    escalation::{Cause, Escalation, EscalationId, How},
    event::Event,
    limits,
    names::DriftId,
    refusal::Refusal,
    run::{Evidence, Pause, Presence, Run, RunId},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Principal},
};

use super::{
    Decided,
    foreign::foreign_run,
    orders::{asked_to_pause, has_room, held, new_escalation, stopping, withdraw_all},
    progress::abort,
    runs::{live_run, within},
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
    let mut also: Vec<Cause> =
        held(state, run).map_or_else(Vec::new, |before| before.causes().cloned().collect());
    also.drain(..also.len().saturating_sub(limits::CAUSES_KEPT));
    let escalation = Escalation {
        abort_at,
        also,
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

/// The run that is to be aborted and did not end by itself in time.
pub(super) fn abort_overdue(state: &State, now: Timestamp) -> Option<Vec<Event>> {
    let escalation = state.overdue_abort(now)?;
    Some(abort(state.run(escalation.run)?, escalation, now))
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

/// What a foreign agent does shows that its run goes on: it was inferred that it stands still.
pub(super) fn observe_goes_on(state: &State, by: &Principal, run: RunId) -> Decided {
    let run = foreign_run(state, by, run)?;
    if run.pause != Some(Pause::Holds(Evidence::Inferred)) {
        return Ok(vec![]);
    }
    let let_go = run.held_by.map(|id| Event::EscalationClosed {
        id,
        how: How::WentOn,
    });
    let goes_on = Event::PauseMoved {
        run: run.id,
        pause: None,
    };
    Ok(let_go.into_iter().chain([goes_on]).collect())
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
