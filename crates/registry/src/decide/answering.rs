//! Answering, and all else that ends or changes a question.

use std::sync::Arc;

use crate::{
    approval::{
        Applied, AppliedResult, Approval, ApprovalId, Decision, OnDeadline, Outcome, Pending,
        Settled, Verdict, Why,
    },
    command::Decide,
    drift::{Drift, Kind, Severity},
    event::Event,
    limits,
    names::{DriftId, WaitId},
    refusal::Refusal,
    run::{End, Presence, Run, RunState, Source},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Principal, Verb, may},
};

use super::{
    Decided,
    runs::{within, works},
    votes::{approved, is_cast, may_vote},
};

/// A question as `by` may know of it: another tenant's does not exist.
pub(super) enum Stands<'a> {
    Open(&'a Pending),
    Ended(&'a Settled),
}

pub(super) fn look<'a>(
    state: &'a State,
    by: &Principal,
    id: ApprovalId,
    past: Option<&'a Settled>,
) -> Result<Stands<'a>, Refusal> {
    let pending = state.pending(id).map(|pending| Stands::Open(pending));
    let settled = || state.settled(id).map(|settled| Stands::Ended(settled));
    let past = past
        .filter(|past| past.approval.id == id)
        .map(Stands::Ended);
    let stands = pending.or_else(settled).or(past);
    stands
        .filter(|stands| stands.approval().from.tenant == *by.tenant())
        .ok_or(Refusal::NotFound("approval"))
}

impl<'a> Stands<'a> {
    pub(super) fn approval(&self) -> &'a Arc<Approval> {
        match self {
            Self::Open(pending) => &pending.approval,
            Self::Ended(settled) => &settled.approval,
        }
    }

    pub(super) fn open(self) -> Result<&'a Pending, Refusal> {
        match self {
            Self::Open(pending) => Ok(pending),
            Self::Ended(settled) => Err(ended(settled)),
        }
    }
}

pub(super) fn ended(settled: &Settled) -> Refusal {
    match &settled.outcome {
        Outcome::Expired => Refusal::Expired {
            at: settled.deadline.unwrap_or(settled.at),
        },
        Outcome::Granted(_) | Outcome::Rejected(_) | Outcome::Withdrawn(_) => {
            let decider = settled
                .decision()
                .map(|decision| decision.decider.by.clone());
            let dismissed = match &settled.outcome {
                Outcome::Withdrawn(Why::Dismissed { by, .. }) => Some(by.clone()),
                _ => None,
            };
            Refusal::AlreadySettled {
                id: settled.approval.id.into(),
                outcome: settled.outcome.word().into(),
                by: decider.or(dismissed),
                at: settled.at,
            }
        }
    }
}

pub(super) fn decide_approval(
    state: &State,
    by: &Principal,
    wish: &Decide,
    now: Timestamp,
) -> Decided {
    within("the note", &wish.note, limits::NOTE)?;
    answers_fit(wish)?;
    let stands = look(state, by, wish.id, wish.past.as_deref())?;
    let approval = stands.approval();
    let decider = may(
        by,
        Verb::Decide(approval.asks),
        approval.owner.as_ref(),
        wish.on_behalf_of.as_ref(),
    )?;
    let pending = match stands {
        Stands::Open(pending) if is_cast(&pending.votes, by, wish) => return Ok(vec![]),
        Stands::Open(pending) => pending,
        Stands::Ended(settled) if is_retry(settled, by, wish) => return Ok(vec![]),
        Stands::Ended(settled) => return Err(ended(settled)),
    };
    if is_late(pending, now) {
        let at = pending.deadline.unwrap_or(now);
        return Err(Refusal::Expired { at });
    }
    if wish.digest != approval.digest {
        let now = approval.digest;
        return Err(Refusal::Stale { now });
    }
    let known = state.decided_by(by.tenant(), &wish.decision);
    if known.or(wish.decided_before).is_some() {
        return Err(Refusal::KeyReused("this decision id"));
    }
    may_vote(approval, &decider)?;
    reachable(state, approval)?;
    // A fact is for everybody: of a secret answer it says only that it was given.
    let answers = wish.form.read(&wish.answers).map_err(Refusal::Answers)?;
    let answers = wish.form.sealed(answers);
    let decision = Decision {
        id: wish.decision.clone(),
        decider,
        answers,
        note: wish.note.clone(),
        seen: wish.seen,
    };
    let id = wish.id;
    let event = match wish.verdict {
        Verdict::Approve => approved(pending, &wish.form, decision)?,
        Verdict::Reject => Event::ApprovalRejected { id, decision },
    };
    if !event.is_terminal() {
        return Ok(vec![event]);
    }
    Ok(with_its_run(state, pending, event, 0))
}

/// The same decision of the same person, sent again: answered with the first result, for ever.
pub(super) fn is_retry(settled: &Settled, by: &Principal, wish: &Decide) -> bool {
    let decided = settled
        .decision()
        .is_some_and(|first| first.id == wish.decision && first.decider.by == *by.name());
    decided || is_cast(&settled.votes, by, wish)
}

pub(super) fn is_late(pending: &Pending, now: Timestamp) -> bool {
    let ends = pending.approval.on_deadline == OnDeadline::Expire;
    ends && pending.deadline.is_some_and(|deadline| deadline < now)
}

pub(super) fn answers_fit(wish: &Decide) -> Result<(), Refusal> {
    let bytes = wish
        .answers
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > limits::ANSWERS {
        let (what, limit) = ("the filled-in form", limits::ANSWERS);
        return Err(Refusal::TooLarge { what, bytes, limit });
    }
    Ok(())
}

/// A foreign agent that is gone does not come back (`wire/goldfive.md` §0.6).
pub(super) fn reachable(state: &State, approval: &Approval) -> Result<(), Refusal> {
    let foreign = approval.from.source.is_foreign();
    let run = state.run(approval.run);
    let away = run.is_some_and(|run| matches!(run.presence, Presence::Away { .. }));
    if foreign && away {
        return Err(Refusal::Unreachable);
    }
    Ok(())
}

/// A run of the CLI is one question: it ends with it, where no other waits but the
/// `foregone`, which end in the same breath.
pub(super) fn with_its_run(
    state: &State,
    pending: &Pending,
    event: Event,
    foregone: usize,
) -> Vec<Event> {
    let approval = &pending.approval;
    let run = state.run(approval.run);
    let last = run.is_some_and(|run| run.open.len() == foregone + 1);
    let ends = last && approval.from.source == Source::Cli;
    let end = Event::RunEnded {
        run: approval.run,
        end: End::Completed,
        reason: Untrusted::default(),
    };
    std::iter::once(event).chain(ends.then_some(end)).collect()
}

pub(super) fn withdraw(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    reason: &Untrusted,
    past: Option<&Settled>,
) -> Decided {
    within("the reason", reason, limits::SAID)?;
    let stands = look(state, by, id, past)?;
    files(stands.approval(), by)?;
    let pending = stands.open()?;
    let why = Why::Agent {
        reason: reason.clone(),
    };
    Ok(with_its_run(
        state,
        pending,
        Event::ApprovalWithdrawn { id, why },
        0,
    ))
}

/// Only the credential that filed a question waits for it, takes it back and reports on it.
pub(super) fn files(approval: &Approval, by: &Principal) -> Result<(), Refusal> {
    works(by)?;
    if approval.filed_by != *by.name() {
        return Err(Refusal::NotYours("another agent filed this one"));
    }
    Ok(())
}

/// A waiter's patience has ended. A drift says so, which no ladder judges (GF-36): the question stays open.
pub(super) fn give_up(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    wait: &WaitId,
    now: Timestamp,
) -> Decided {
    let stands = look(state, by, id, None)?;
    files(stands.approval(), by)?;
    let Stands::Open(pending) = stands else {
        return Ok(vec![]);
    };
    let known = pending.timed_out.iter().any(|known| known.wait == *wait);
    if known || pending.timed_out.len() >= limits::GIVEN_UP_COUNT {
        return Ok(vec![]);
    }
    let approval = &pending.approval;
    let gave_up = Event::WaitTimedOut {
        id,
        wait: wait.clone(),
    };
    let drift = DriftId::parse(&format!("{id}.{}", pending.timed_out.len())).ok();
    let drifted = drift.map(|drift| Event::DriftReported {
        run: approval.run,
        drift: Drift {
            id: drift,
            kind: Kind::human_intervention(),
            severity: Severity::Warning,
            detail: Untrusted::new(format!(
                "nobody answered {id} while its agent waited; it can still be answered"
            )),
            task: approval.subject.task().clone(),
            level: None,
            from: None,
            at: now,
        },
    });
    Ok([gave_up].into_iter().chain(drifted).collect())
}

pub(super) fn extend(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    span: std::time::Duration,
    past: Option<&Settled>,
    now: Timestamp,
) -> Decided {
    if !(limits::DEADLINE_MIN..=limits::DEADLINE_MAX).contains(&span) {
        return Err(Refusal::Invalid(
            "a deadline is extended to between 1 minute and 30 days from now".into(),
        ));
    }
    let stands = look(state, by, id, past)?;
    let decider = may(by, Verb::Extend, stands.approval().owner.as_ref(), None)?;
    let pending = stands.open()?;
    let Some(current) = pending.deadline else {
        return Err(Refusal::NotNow(
            "it has no deadline: it waits for ever".into(),
        ));
    };
    if is_late(pending, now) {
        return Err(Refusal::Expired { at: current });
    }
    let deadline = now.plus(span);
    if deadline <= current {
        return Err(Refusal::NotNow(format!(
            "its deadline is {current}; extending moves it later, never earlier"
        )));
    }
    Ok(vec![Event::DeadlineExtended {
        id,
        deadline,
        by: decider.by,
    }])
}

pub(super) fn dismiss(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    note: &Untrusted,
    past: Option<&Settled>,
) -> Decided {
    within("the note", note, limits::NOTE)?;
    let stands = look(state, by, id, past)?;
    let decider = may(by, Verb::Dismiss, stands.approval().owner.as_ref(), None)?;
    let pending = stands.open()?;
    let run = state.run(pending.approval.run);
    let there = |run: &Arc<Run>| {
        run.presence == Presence::Attached && !matches!(run.state, RunState::Parked(_))
    };
    if run.is_some_and(there) {
        return Err(Refusal::NotNow(
            "its agent is there: decide it, or let the agent take it back".into(),
        ));
    }
    let why = Why::Dismissed {
        by: decider.by,
        note: note.clone(),
    };
    Ok(with_its_run(
        state,
        pending,
        Event::ApprovalWithdrawn { id, why },
        0,
    ))
}

pub(super) fn report_applied(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    result: AppliedResult,
    detail: &Untrusted,
    past: Option<&Settled>,
    now: Timestamp,
) -> Decided {
    within("the detail", detail, limits::SAID)?;
    let stands = look(state, by, id, past)?;
    files(stands.approval(), by)?;
    let settled = match stands {
        Stands::Open(_) => return Err(Refusal::StillPending),
        Stands::Ended(settled) => settled,
    };
    // Nothing is carried out where nobody decided; but whoever took the end of it says what became of its turn (EL-60).
    if settled.decision().is_none() && settled.held().is_none() {
        return Err(ended(settled));
    }
    let applied = Applied {
        result,
        detail: detail.clone(),
        at: now,
    };
    match &settled.applied {
        None => Ok(vec![Event::DecisionApplied { id, applied }]),
        Some(first) if first.result == result => Ok(vec![]),
        Some(_) => Err(Refusal::NotNow(
            "what came of it was reported before, and differently".into(),
        )),
    }
}
