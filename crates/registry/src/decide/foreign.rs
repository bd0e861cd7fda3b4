//! What foreign agents did already: observed, and never refused for policy or limits.

use std::sync::Arc;

use crate::{
    approval::{
        Applied, AppliedResult, ApprovalId, Delivery, DeliveryState, Outcome, Settled, Why,
    },
    command::File,
    event::Event,
    names::ControlId,
    refusal::Refusal,
    run::{Run, RunId},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::Principal,
};

use super::{
    Decided,
    answering::{Stands, ended, look},
    filing::{file_in, filed_before},
};

/// What our own agents do, they say themselves: nobody observes it.
pub(super) fn foreign_run<'a>(
    state: &'a State,
    by: &Principal,
    id: RunId,
) -> Result<&'a Arc<Run>, Refusal> {
    let run = state.run(id).filter(|run| run.key.tenant == *by.tenant());
    let foreign = run.filter(|run| run.key.source.is_foreign());
    foreign.ok_or(Refusal::NotFound("run"))
}

pub(super) fn observe_asked(
    state: &State,
    by: &Principal,
    filed: &File,
    now: Timestamp,
) -> Decided {
    let run = foreign_run(state, by, filed.run)?;
    if run.state.is_over() || filed_before(state, by, filed).is_some() {
        return Ok(vec![]);
    }
    match file_in(state, by, run, filed, now) {
        // The same question under ever new event ids: it is there.
        Err(Refusal::NotNow(_)) => Ok(vec![]),
        decided => decided,
    }
}

/// A foreign agent says that its question was answered. That never grants anything: it confirms
/// what we sent, or says that somebody answered elsewhere (DESIGN §4.1.12, case E10).
pub(super) fn observe_resolved(
    state: &State,
    by: &Principal,
    run: RunId,
    target: &Untrusted,
    granted: bool,
    detail: &Untrusted,
    now: Timestamp,
) -> Decided {
    let run = foreign_run(state, by, run)?;
    let Some(id) = state.latest(run.id, target) else {
        return Ok(vec![]);
    };
    let detail = detail.clone();
    if state.pending(id).is_some() {
        let why = Why::AnsweredElsewhere { granted, detail };
        return Ok(vec![Event::ApprovalWithdrawn { id, why }]);
    }
    let Some((settled, delivery)) = delivered(state, by, id) else {
        return Ok(vec![]);
    };
    let ours = matches!(settled.outcome, Outcome::Granted(_));
    let to = if ours == granted {
        DeliveryState::Confirmed
    } else {
        DeliveryState::Failed
    };
    if delivery.state == DeliveryState::Confirmed || delivery.state == to {
        return Ok(vec![]);
    }
    let moved = moved(id, delivery, to, detail.clone(), now);
    if to == DeliveryState::Failed {
        return Ok(vec![moved]);
    }
    let result = if granted {
        AppliedResult::Done
    } else {
        AppliedResult::Skipped
    };
    let applied = Applied {
        result,
        detail,
        at: now,
    };
    Ok(vec![moved, Event::DecisionApplied { id, applied }])
}

pub(super) fn observe_sent(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    control: &ControlId,
    now: Timestamp,
) -> Decided {
    let Stands::Ended(settled) = look(state, by, id, None)? else {
        return Err(Refusal::StillPending);
    };
    if settled.decision().is_none() {
        return Err(ended(settled));
    }
    if settled.delivery.is_some() {
        return Err(Refusal::KeyReused("this delivery"));
    }
    let delivery = Delivery {
        control: control.clone(),
        state: DeliveryState::Sent,
        detail: Untrusted::default(),
        at: now,
    };
    Ok(vec![Event::DeliveryMoved { id, delivery }])
}

/// An ack may come before or after the event that confirms; it never takes a step back.
pub(super) fn observe_acked(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    control: &ControlId,
    success: bool,
    detail: &Untrusted,
    now: Timestamp,
) -> Decided {
    let Some((_, delivery)) = delivered(state, by, id) else {
        return Ok(vec![]);
    };
    if delivery.control != *control || delivery.state != DeliveryState::Sent {
        return Ok(vec![]);
    }
    let to = if success {
        DeliveryState::Acked
    } else {
        DeliveryState::Failed
    };
    Ok(vec![moved(id, delivery, to, detail.clone(), now)])
}

pub(super) fn delivered<'a>(
    state: &'a State,
    by: &Principal,
    id: ApprovalId,
) -> Option<(&'a Settled, &'a Delivery)> {
    match look(state, by, id, None) {
        Ok(Stands::Ended(settled)) => Some((settled, settled.delivery.as_ref()?)),
        Ok(Stands::Open(_)) | Err(_) => None,
    }
}

pub(super) fn moved(
    id: ApprovalId,
    delivery: &Delivery,
    state: DeliveryState,
    detail: Untrusted,
    at: Timestamp,
) -> Event {
    let control = delivery.control.clone();
    let delivery = Delivery {
        control,
        state,
        detail,
        at,
    };
    Event::DeliveryMoved { id, delivery }
}
