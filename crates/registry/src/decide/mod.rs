//! The rules: which wishes become facts (DESIGN §4.1, §4.3).
//!
//! ```text
//! Pending --Decide(Approve)--> Granted --Applied--> applied, once
//! Pending --Decide(Reject)---> Rejected --Applied--> applied, once
//! what has ended --Claim--> taken --Started--> begun --Applied--> applied, once
//!                           taken --Restore--> not taken
//! Pending --deadline---------> Expired      (or stays Pending, where it says StayOpen)
//! Pending --withdraw | run ended | superseded | answered elsewhere | dismissed--> Withdrawn
//!
//! Running | Waiting --drift of level 4 | Pause--> Pausing --acked--> Paused
//! Pausing | Paused --Resume | Steer, acked--> Running | Waiting
//! any of these --Cancel, and the agent ends | drift of level 5, acked or 600 s later--> Ended
//!
//! every other pair is a Refusal
//! ```

mod answering;
mod claims;
mod drifts;
mod filing;
mod foreign;
mod gated;
mod orders;
mod progress;
mod runs;
mod votes;
mod wants;

use crate::{
    approval::{ApprovalId, Attempt, OnDeadline, Pending},
    command::{Command, File, Observation, Wish},
    drift::Level,
    event::Event,
    limits,
    names::ControlId,
    refusal::Refusal,
    run::RunId,
    state::State,
    time::Timestamp,
    who::Principal,
};

use self::answering::{
    decide_approval, dismiss, extend, give_up, report_applied, with_its_run, withdraw,
};
use self::claims::{claim, claimed, report_started, restore};
use self::drifts::{
    abort_overdue, observe_drifted, observe_goes_on, observe_levelled, report_drift, reported,
};
use self::filing::file;
use self::foreign::{observe_acked, observe_asked, observe_resolved, observe_sent};
use self::gated::{gate, gated};
use self::orders::direct;
use self::progress::{ack, hand_over};
use self::runs::{attend, end_run, open_run, report_plan, report_task, say};

pub use self::gated::Gated;

type Decided = Result<Vec<Event>, Refusal>;

/// Judges a wish. Looks, and changes nothing: what is to change comes back as events, and no
/// events at all means that it has been done already.
///
/// # Errors
/// The first [`Refusal`] that applies, in the order of its variants.
pub fn decide(state: &State, command: &Command, now: Timestamp) -> Decided {
    let by = &command.by;
    match &command.wish {
        Wish::OpenRun(open) => open_run(state, by, open, now),
        Wish::EndRun { run, how, reason } => end_run(state, by, *run, *how, reason, now),
        Wish::ReportTask {
            run,
            task,
            title,
            state: to,
            detail,
        } => report_task(state, by, *run, [task, title, detail], to, now),
        Wish::ReportPlan { run, plan, cause } => report_plan(state, by, *run, plan, cause, now),
        Wish::Say { run, text } => say(state, by, *run, text),
        Wish::ReportDrift(drift) => report_drift(state, by, drift, now),
        Wish::Direct(wish) => direct(state, by, wish, now),
        Wish::HandOver { run, control } => hand_over(state, by, *run, control, now),
        Wish::Ack(wish) => ack(state, by, wish, now),
        Wish::Attend { run, here } => attend(state, by, *run, *here, now),
        Wish::File(filed) => file(state, by, filed, now),
        Wish::Gate(wish) => gate(state, by, wish, now),
        Wish::Withdraw { id, reason, past } => withdraw(state, by, *id, reason, past.as_deref()),
        Wish::GiveUp { id, wait } => give_up(state, by, *id, wait, now),
        Wish::Decide(decision) => decide_approval(state, by, decision, now),
        Wish::Extend { id, span, past } => extend(state, by, *id, *span, past.as_deref(), now),
        Wish::Dismiss { id, note, past } => dismiss(state, by, *id, note, past.as_deref()),
        Wish::Claim(wish) => claim(state, by, wish, now),
        Wish::Restore(wish) => restore(state, by, wish),
        Wish::ReportStarted { id, token, past } => {
            report_started(state, by, *id, token, past.as_deref())
        }
        Wish::ReportApplied {
            id,
            result,
            detail,
            past,
        } => report_applied(state, by, *id, *result, detail, past.as_deref(), now),
        Wish::Observe(Observation::Asked(filed)) => observe_asked(state, by, filed, now),
        Wish::Observe(Observation::Resolved {
            run,
            target,
            granted,
            detail,
        }) => observe_resolved(state, by, *run, target, *granted, detail, now),
        Wish::Observe(Observation::Drifted { run, drift, holds }) => {
            observe_drifted(state, by, *run, drift, *holds, now)
        }
        Wish::Observe(Observation::GoesOn { run }) => observe_goes_on(state, by, *run),
        Wish::Observe(Observation::Levelled { run, drift, level }) => {
            observe_levelled(state, by, *run, drift, *level)
        }
        Wish::Observe(Observation::Sent { id, control }) => {
            observe_sent(state, by, *id, control, now)
        }
        Wish::Observe(Observation::Acked {
            id,
            control,
            success,
            detail,
        }) => observe_acked(state, by, *id, control, *success, detail, now),
    }
}

/// What passes by itself: deadlines that lie before `now`, at most `limit` of them, and runs that are to be aborted. Settled before
/// a command is judged, so that a late answer is refused without any timer.
pub fn overdue(state: &State, now: Timestamp, limit: usize) -> Vec<Event> {
    // One at a time, and by itself: the end of a run ends all that it asks.
    if let Some(aborted) = abort_overdue(state, now) {
        return aborted;
    }
    let due = state.overdue(now).take(limit).map(AsRef::as_ref);
    let (due, near): (Vec<&Pending>, Vec<&Pending>) =
        due.partition(|pending| has_passed(pending, now));
    let warned = near.iter().map(|pending| Event::DeadlineWarned {
        id: pending.approval.id,
    });
    let mut events: Vec<Event> = warned.collect();
    for (n, pending) in due.iter().enumerate() {
        events.extend(pass(state, &due[..n], pending));
    }
    events
}

fn has_passed(pending: &Pending, now: Timestamp) -> bool {
    pending.deadline.is_some_and(|deadline| deadline < now)
}

/// What passes with `pending`, after `earlier` ones have passed in the same breath.
fn pass(state: &State, earlier: &[&Pending], pending: &Pending) -> Vec<Event> {
    let id = pending.approval.id;
    match pending.approval.on_deadline {
        OnDeadline::StayOpen => vec![Event::DeadlinePassed { id }],
        OnDeadline::Expire => {
            let ended = |other: &&&Pending| {
                let other = &other.approval;
                other.run == pending.approval.run && other.on_deadline == OnDeadline::Expire
            };
            let event = Event::ApprovalExpired { id };
            let foregone = earlier.iter().filter(ended).count();
            with_its_run(state, pending, event, foregone)
        }
    }
}

/// What the record says of somebody who tried what they may not: once for each person and verb.
pub fn attempted(
    state: &State,
    command: &Command,
    refusal: &Refusal,
    now: Timestamp,
) -> Option<Event> {
    let (Refusal::NotYours(_), Some((id, verb))) = (refusal, tried(&command.wish)) else {
        return None;
    };
    let pending = state.pending(id)?;
    let by = command.by.name();
    let known = |attempt: &Attempt| attempt.by == *by && attempt.verb == verb;
    let full = pending.attempts.len() >= limits::ATTEMPTS_COUNT;
    if full || pending.attempts.iter().any(known) {
        return None;
    }
    let attempt = Attempt {
        by: by.clone(),
        verb: verb.into(),
        at: now,
    };
    Some(Event::AttemptRefused { id, attempt })
}

fn tried(wish: &Wish) -> Option<(ApprovalId, &'static str)> {
    match wish {
        Wish::Decide(decide) => Some((decide.id, decide.verdict.word())),
        Wish::Extend { id, .. } => Some((*id, "extend")),
        Wish::Dismiss { id, .. } => Some((*id, "dismiss")),
        _ => None,
    }
}

/// What a command is about, once it was done: what its caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing more to say.
    Done,
    /// This run.
    Run(RunId),
    /// This approval.
    Approval(ApprovalId),
    /// This is how strongly the drift is answered.
    Level(Level),
    /// This is what the gate says.
    Gated(Gated),
    /// These decisions were taken.
    Claimed(Vec<ApprovalId>),
    /// This order.
    Control(RunId, ControlId),
}

/// What to tell the caller of a command whose events are folded into `state`.
pub fn reply(state: &State, command: &Command) -> Reply {
    match &command.wish {
        Wish::OpenRun(open) => state
            .run_by_key(&open.key)
            .map_or(Reply::Done, |run| Reply::Run(run.id)),
        Wish::File(filed) | Wish::Observe(Observation::Asked(filed)) => {
            filed_as(state, &command.by, filed).map_or(Reply::Done, Reply::Approval)
        }
        Wish::Decide(decide) => Reply::Approval(decide.id),
        Wish::ReportDrift(drift) => state
            .run(drift.run)
            .and_then(|run| reported(run, &drift.drift.id))
            .map_or(Reply::Done, Reply::Level),
        Wish::Gate(wish) => gated(state, &command.by, wish).map_or(Reply::Done, Reply::Gated),
        Wish::Claim(wish) => Reply::Claimed(claimed(state, wish)),
        Wish::Direct(direct) => Reply::Control(direct.order.run, direct.order.id.clone()),
        _ => Reply::Done,
    }
}

fn filed_as(state: &State, by: &Principal, filed: &File) -> Option<ApprovalId> {
    let key = filed.filing.key.as_ref();
    let by_key = key.and_then(|key| state.filed_under(by.tenant(), key));
    let past = filed.past.as_ref().map(|past| past.approval.id);
    by_key
        .or(past)
        .or_else(|| state.latest(filed.run, &filed.filing.target))
}
