//! Gated calls (DESIGN §4.2): what is asked before a tool runs, and what is answered by policy at once.

use std::sync::Arc;

use crate::{
    approval::{ApprovalId, Asks, Decision, Hold, Outcome, Seen},
    command::{File, GateCall},
    event::Event,
    form::Answers,
    gate::{Ruling, Unattended},
    limits,
    names::DecisionId,
    policy::{CannotAsk, may_ask},
    refusal::Refusal,
    run::{Run, TaskState},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Decider, Name, Principal},
};

use super::{
    Decided,
    filing::{asked, file, filed_before, fits, readable},
    orders::stopping,
    runs::live_run,
};

/// Asks, answers by policy, or lets it run, where no rule fits.
pub(super) fn gate(state: &State, by: &Principal, wish: &GateCall, now: Timestamp) -> Decided {
    readable(&wish.file.filing)?;
    fits(&wish.file.filing)?;
    let run = live_run(state, by, wish.file.run)?;
    if wish.file.filing.subject.tool().is_none() {
        return Err(Refusal::Invalid("a gated call names its tool".into()));
    }
    let known = filed_before(state, by, &wish.file).is_some();
    // A run that is called off begins nothing more, gated or not.
    if let Some(refusal) = stopping(state, run).filter(|_| !known) {
        return Err(refusal);
    }
    let Some(ruling) = &wish.ruling else {
        return Ok(vec![]);
    };
    let file_as = ruled(&wish.file, ruling);
    match may_ask(run) {
        Ok(()) => file(state, by, &file_as, now),
        Err(_) if known => file(state, by, &file_as, now),
        Err(why) => by_policy(by, run, &file_as, ruling, why, now),
    }
}

/// The question as the rule has it: who is asked, how dangerous it is and how many it takes are the server's to say.
fn ruled(asked: &File, ruling: &Ruling) -> File {
    let mut file = asked.clone();
    file.filing.asks = ruling.asks;
    file.filing.risk = file.filing.risk.max(ruling.risk);
    file.filing.votes = file.filing.votes.max(ruling.votes);
    // DF-43, DF-44: it does not expire, and holds its thread until it is resolved.
    file.filing.deadline = None;
    file.filing.hold = Hold::Thread;
    file
}

/// Asked and answered in one breath: nobody waits (DF-29). It stands in the history like any other answer.
fn by_policy(
    by: &Principal,
    run: &Run,
    file: &File,
    ruling: &Ruling,
    why: CannotAsk,
    now: Timestamp,
) -> Decided {
    let approval = asked(by, run, file, now);
    let id = approval.id;
    let allowed = allows(file, ruling, why);
    let decision = Decision {
        id: DecisionId::parse(&format!("gate-{id}"))?,
        decider: Decider {
            by: Name::system("gate"),
            on_behalf_of: None,
            via: None,
        },
        answers: Answers::default(),
        note: Untrusted::new(why.words()),
        seen: Seen::Quoted,
    };
    let requested = Event::ApprovalRequested {
        approval: Arc::new(approval),
    };
    let answered = match allowed {
        true => Event::ApprovalGranted { id, decision },
        false => Event::ApprovalRejected { id, decision },
    };
    let blocked = (!allowed).then(|| blocked(run, file, why)).flatten();
    Ok([requested, answered].into_iter().chain(blocked).collect())
}

/// DF-33, DF-34: only a run that nobody follows is ever let through, and never where a person has something to fill in, or an
/// admin to decide.
fn allows(file: &File, ruling: &Ruling, why: CannotAsk) -> bool {
    let unattended = matches!(why, CannotAsk::Unattended(_));
    let bare = file.filing.detail.form.is_empty() && ruling.votes <= 1;
    let of_admin = ruling.asks == Asks::Admin;
    unattended && ruling.unattended == Unattended::Allow && bare && !of_admin
}

/// DF-12: the task that the call belongs to says which decision is missing.
fn blocked(run: &Run, file: &File, why: CannotAsk) -> Option<Event> {
    let task = file.filing.subject.task();
    let has_room = run.tasks.contains_key(task) || run.tasks.len() < limits::TASKS_COUNT;
    let needed = missing(file, why);
    (!task.is_empty() && has_room).then(|| Event::TaskReported {
        run: run.id,
        task: task.clone(),
        title: Untrusted::default(),
        state: TaskState::Blocked {
            blocker: "policy".into(),
            needed: needed.cut(limits::TASK_KEPT),
        },
        detail: Untrusted::default(),
    })
}

/// The decision that is missing.
fn missing(file: &File, why: CannotAsk) -> Untrusted {
    let tool = file.filing.subject.tool().map_or("", Untrusted::raw);
    let people = file.filing.asks.people();
    Untrusted::new(format!(
        "BLOCKED: {tool} needs the approval of {people}, and {}",
        why.words()
    ))
}

/// What a gated call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gated {
    /// It may run: no rule fits, or policy allows it.
    Free,
    /// A person is asked.
    Asked(ApprovalId),
    /// Policy denied it; the text names the decision that is missing.
    Blocked(ApprovalId, Untrusted),
}

pub(super) fn gated(state: &State, by: &Principal, wish: &GateCall) -> Option<Gated> {
    let Some(ruling) = &wish.ruling else {
        return Some(Gated::Free);
    };
    let file = ruled(&wish.file, ruling);
    let filed = filed_before(state, by, &file).map(|approval| approval.id);
    let id = filed.or_else(|| state.latest(file.run, &file.filing.target))?;
    let past = || file.past.as_ref().filter(|past| past.approval.id == id);
    let settled = state.settled(id).or_else(past);
    let decision = settled.and_then(|settled| settled.decision());
    if decision.is_none_or(|decision| decision.decider.by != Name::system("gate")) {
        return Some(Gated::Asked(id));
    }
    let granted = settled.is_some_and(|settled| matches!(settled.outcome, Outcome::Granted(_)));
    if granted {
        return Some(Gated::Free);
    }
    let why = state.run(file.run).and_then(|run| may_ask(run).err());
    let why = why.unwrap_or(CannotAsk::CannotResume);
    Some(Gated::Blocked(id, missing(&file, why)))
}
