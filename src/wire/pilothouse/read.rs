//! Facts come back: what the client makes of the server's answers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use registry::{
    Approval, ApprovalId, Control, Detail, Digest, Event, ItemId, Name, Pending, Recorded, Role,
    Run, RunId, Seq, Settled, Tenant, Timestamp, Untrusted,
    approval::{
        Applied, Attempt, Claim, ClaimStage, Decision, Delivery, Outcome, WaitTimeout, Why,
    },
    digest::Sha256,
    drift::Level,
    escalation::Ended,
    event::Scope,
    event::Trimmed,
    form::{Answer, Answers, Kind, Number},
    names::{ClaimToken, ControlId, DecisionId, DriftId, Key, WaitId},
    policy::Mode,
    run::{Pause, Presence, RunKey, RunState, Task},
    state::Row,
    who::{Decider, Grant},
};

use super::{
    Asked, Garbled, Got, Item, Open, Watched, detail_of, labels_of, missing, moment_of,
    operator::item_token,
    pb, plan_of, said, span_of,
    steering::{closed, control, counts, drift, escalation, how, pause, step},
    task_state, task_subject, tool_subject, unknown, word,
};

type Read<T> = Result<T, Garbled>;

// === For agents ===

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn opened_as(response: pb::OpenRunResponse) -> Read<Opened> {
    Ok(Opened {
        run: response.run_id.parse()?,
        mode: word(response.mode)?,
        guidance: response.guidance.into(),
        dropped: response.dropped.into_iter().map(Into::into).collect(),
    })
}

/// A run that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its id: an earlier one, if it was opened before.
    pub run: RunId,
    /// Whether somebody follows it.
    pub mode: Mode,
    /// What its program tells its model about people.
    pub guidance: Untrusted,
    /// What was not believed of it.
    pub dropped: Vec<Untrusted>,
}

/// What the gate says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateSays {
    /// It may run.
    Free,
    /// A person is asked.
    Asked(Filed),
    /// Policy says no.
    Blocked {
        /// Where it stands in the history.
        id: ApprovalId,
        /// The decision that is missing.
        missing: Untrusted,
        /// What an unattended run does then.
        guidance: Untrusted,
    },
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn gate_said(response: pb::GateResponse) -> Read<GateSays> {
    use pb::gate_response::Says;
    Ok(
        match response.says.ok_or_else(|| missing("what the gate says"))? {
            Says::Free(pb::Free {}) => GateSays::Free,
            Says::Asked(filed) => GateSays::Asked(filed_as(filed)?),
            Says::Blocked(blocked) => GateSays::Blocked {
                id: blocked.approval_id.parse()?,
                missing: blocked.missing.into(),
                guidance: blocked.guidance.into(),
            },
        },
    )
}

/// What became of a question that was filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// Its id: an earlier one, if the same was filed before.
    pub id: ApprovalId,
    /// What was shown and will run.
    pub digest: Digest,
    /// What its agent should know, a sentence each.
    pub warnings: Vec<String>,
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn filed_as(response: pb::FileResponse) -> Read<Filed> {
    Ok(Filed {
        id: response.approval_id.parse()?,
        digest: digest(&response.digest)?,
        warnings: response.warnings,
    })
}

/// How a question stands for one who waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Awaited {
    /// Still open.
    Pending {
        /// How much patience is left.
        left: Duration,
    },
    /// It has ended.
    Settled(Box<Settled>),
    /// The waiter's patience has ended; the question stays open.
    TimedOut(WaitTimeout),
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn awaited(response: pb::AwaitResponse) -> Read<Awaited> {
    use pb::await_response::State;
    match response.state.ok_or_else(|| missing("how it stands"))? {
        State::Pending(pending) => {
            let left = pending.left.ok_or_else(|| missing("the patience left"))?;
            let left = span_of("the patience left", left)?;
            Ok(Awaited::Pending { left })
        }
        State::Settled(ended) => Ok(Awaited::Settled(Box::new(settled(ended)?))),
        State::TimedOut(gave_up) => timeout(gave_up).map(Awaited::TimedOut),
    }
}

/// How strongly the drift is answered.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn drifted_as(response: pb::ReportDriftResponse) -> Read<Level> {
    let number = response.level;
    let known = |level: &Level| u32::from(level.number()) == number;
    let level = Level::ALL.into_iter().find(known);
    level.ok_or_else(|| Garbled(format!("the level {number} is not one that is known here")))
}

/// An order, as an agent gets it.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn order_of(response: pb::ControlsResponse) -> Read<Control> {
    control(response.control.ok_or_else(|| missing("the order"))?)
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn server_time(response: pb::HeartbeatResponse) -> Read<Timestamp> {
    moment("the server's time", response.server_time)
}

// === For people ===

/// One page of what is open.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Oldest first.
    pub items: Vec<Item>,
    /// Where the next one begins; none after the last.
    pub next: Option<ItemId>,
    /// The page holds all up to this event.
    pub as_of: Seq,
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn page_back(response: pb::ListResponse) -> Read<Page> {
    Ok(Page {
        items: all(response.items, item)?,
        next: said(&response.next_page_token, item_token)?,
        as_of: response.as_of_seq,
    })
}

fn item(item: pb::OpenItem) -> Read<Item> {
    use pb::open_item::Item as In;
    Ok(Item {
        open: match item.item.ok_or_else(|| missing("what waits"))? {
            In::Pending(waits) => Open::Pending(Arc::new(pending(waits)?)),
            In::Escalation(holds) => Open::Escalation(Arc::new(escalation(holds)?)),
        },
        run: run(item.run.ok_or_else(|| missing("the run"))?)?,
    })
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn got_back(response: pb::GetResponse) -> Read<Got> {
    use pb::get_response::Item;
    let asked = match response.item.ok_or_else(|| missing("the question"))? {
        Item::Pending(waits) => Asked::Pending(Arc::new(pending(waits)?)),
        Item::Settled(ended) => Asked::Settled(Arc::new(settled(ended)?)),
        Item::Escalation(holds) => Asked::Escalation(Arc::new(escalation(holds)?)),
        Item::Closed(held) => Asked::Closed(Arc::new(closed(held)?)),
    };
    let large = response.detail.ok_or_else(|| missing("the detail"))?;
    Ok(Got {
        asked,
        detail: detail(large)?,
        run: response.run.map(run).transpose()?,
    })
}

/// A run, and a piece of its record.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run.
    pub run: Run,
    /// What it said, planned and did, oldest first.
    pub record: Vec<Recorded>,
    /// Whether there is more after the last.
    pub has_more: bool,
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn run_record(response: pb::GetRunResponse) -> Read<RunRecord> {
    Ok(RunRecord {
        run: run(response.run.ok_or_else(|| missing("the run"))?)?,
        record: all(response.record, |recorded| Ok(recorded_of(recorded)?.0))?,
        has_more: response.has_more,
    })
}

/// What has ended, newest first, and the event before which the next page begins.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn history_back(response: pb::HistoryResponse) -> Read<(Vec<Ended>, Option<Seq>)> {
    let bad = |_| Garbled("the next page's token is no number".into());
    let next = said(&response.next_page_token, |token| {
        token.parse().map_err(bad)
    })?;
    Ok((all(response.items, ended)?, next))
}

fn ended(item: pb::EndedItem) -> Read<Ended> {
    use pb::ended_item::Item;
    match item.item.ok_or_else(|| missing("what ended"))? {
        Item::Settled(question) => settled(question).map(Ended::Approval),
        Item::Closed(held) => closed(held).map(Ended::Escalation),
    }
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn controlled_as(response: pb::ControlResponse) -> Read<Control> {
    control(response.control.ok_or_else(|| missing("the order"))?)
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn decided_as(response: pb::DecideResponse) -> Read<Decided> {
    match (response.settled, response.pending) {
        (Some(ended), None) => settled(ended).map(Box::new).map(Decided::Settled),
        (None, Some(waits)) => pending(waits).map(Box::new).map(Decided::Voted),
        _ => Err(missing("how it ended")),
    }
}

impl Decided {
    /// How the question ended, if it did.
    pub fn settled(&self) -> Option<&Settled> {
        match self {
            Self::Settled(settled) => Some(settled),
            Self::Voted(_) => None,
        }
    }
}

/// What a decision came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It ended the question.
    Settled(Box<Settled>),
    /// It was one yes of several: the question still waits.
    Voted(Box<Pending>),
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn extended_to(response: pb::ExtendResponse) -> Read<Timestamp> {
    moment("the deadline", response.deadline)
}

/// Who the server says that we are. No [`Principal`](registry::Principal): only a server makes those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// What the record will say.
    pub name: Name,
    /// Of which tenant.
    pub tenant: Tenant,
    /// What the credential is for. A role newer than our words is left out: it allows nothing that we know of.
    pub roles: BTreeSet<Role>,
    /// How the server knows.
    pub by: String,
    /// What narrows the roles; one newer than our words is left out.
    pub scopes: BTreeSet<Grant>,
    /// When the credential ends, where it does.
    pub expires: Option<Timestamp>,
    /// The backend that minted the ticket, where it is one.
    pub via: Option<Name>,
    /// The server's version.
    pub version: String,
    /// Which log it has.
    pub epoch: String,
    /// The newest event.
    pub head: Seq,
    /// The server's clock.
    pub server_now: Timestamp,
    /// How far the clock of its machine has jumped ahead of that, while it is not believed.
    pub clock_ahead: Option<Duration>,
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn me(response: pb::WhoamiResponse) -> Read<Me> {
    let head = response.head.ok_or_else(|| missing("the cursor"))?;
    let scope = |word: &String| Grant::ALL.into_iter().find(|scope| scope.word() == word);
    let known = |word: &String| Role::ALL.into_iter().find(|role| role.word() == word);
    Ok(Me {
        name: Name::written(&response.name)?,
        tenant: Tenant::parse(&response.tenant)?,
        roles: response.roles.iter().filter_map(known).collect(),
        by: response.by,
        scopes: response.scopes.iter().filter_map(scope).collect(),
        expires: response
            .expires_at
            .map(|at| moment("when the credential ends", Some(at)))
            .transpose()?,
        via: said(&response.via, Name::written)?,
        version: response.server_version,
        epoch: head.epoch,
        head: head.seq,
        server_now: moment("the server's time", response.server_time)?,
        clock_ahead: response
            .clock_ahead
            .map(|ahead| span_of("how far the clock is ahead", ahead))
            .transpose()?,
    })
}

/// A ticket, and when it ends.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn minted_as(response: pb::MintTicketResponse) -> Read<(String, Timestamp)> {
    let until = moment("when the ticket ends", response.expires_at)?;
    Ok((response.ticket, until))
}

/// One message of Watch.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn watched(response: pb::WatchResponse) -> Read<Watched> {
    use pb::watch_response::What;
    match response.what.ok_or_else(|| missing("what is watched"))? {
        What::Run(row) => Ok(Watched::Row(Row::Run(Arc::new(run(row)?)))),
        What::Pending(row) => Ok(Watched::Row(Row::Pending(Arc::new(pending(row)?)))),
        What::Settled(row) => Ok(Watched::Row(Row::Settled(Arc::new(settled(row)?)))),
        What::Escalation(row) => Ok(Watched::Row(Row::Escalation(Arc::new(escalation(row)?)))),
        What::Closed(row) => Ok(Watched::Row(Row::Closed(Arc::new(closed(row)?)))),
        What::End(end) => snapshot_end(end),
        What::Recorded(recorded) => {
            let (recorded, prev_seq) = recorded_of(recorded)?;
            Ok(Watched::Recorded { recorded, prev_seq })
        }
        What::Tick(tick) => Ok(Watched::Tick {
            seq: tick.seq,
            server_now: moment("the server's time", tick.server_time)?,
        }),
    }
}

fn snapshot_end(end: pb::SnapshotEnd) -> Read<Watched> {
    let cursor = end.cursor.ok_or_else(|| missing("the cursor"))?;
    Ok(Watched::End {
        epoch: cursor.epoch,
        seq: cursor.seq,
        last_at: moment("the last event's time", end.last_at)?,
        server_now: moment("the server's time", end.server_time)?,
    })
}

// === Nouns ===

fn all<P, T>(many: Vec<P>, read: impl FnMut(P) -> Read<T>) -> Read<Vec<T>> {
    many.into_iter().map(read).collect()
}

pub(super) fn moment(what: &str, at: Option<prost_types::Timestamp>) -> Read<Timestamp> {
    maybe_moment(what, at)?.ok_or_else(|| missing(what))
}

pub(super) fn maybe_moment(
    what: &str,
    at: Option<prost_types::Timestamp>,
) -> Read<Option<Timestamp>> {
    at.map(|at| moment_of(what, at)).transpose()
}

fn digest(text: &str) -> Read<Digest> {
    text.parse()
        .map_err(|error| Garbled(format!("the digest: {error}")))
}

fn sha256(what: &str, text: &str) -> Read<Sha256> {
    text.parse()
        .map_err(|error| Garbled(format!("{what}: {error}")))
}

fn keys(keys: &[String]) -> Read<Vec<Key>> {
    keys.iter().map(|key| Ok(Key::parse(key)?)).collect()
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn approval(approval: pb::Approval) -> Read<Approval> {
    use pb::approval::Subject::{Task, Tool};
    Ok(Approval {
        id: approval.id.parse()?,
        run: approval.run_id.parse()?,
        from: RunKey {
            tenant: Tenant::parse(&approval.tenant)?,
            source: word(approval.source)?,
            agent: approval.agent.into(),
            session: approval.session.into(),
            invocation: approval.invocation.into(),
        },
        owner: said(&approval.owner, Name::written)?,
        filed_by: Name::written(&approval.filed_by)?,
        filed_at: moment("when it was filed", approval.filed_at)?,
        key: said(&approval.key, Key::parse)?,
        target: approval.target_id.into(),
        step: approval.step.into(),
        subject: match approval
            .subject
            .ok_or_else(|| missing("the task or tool"))?
        {
            Task(task) => task_subject(task),
            Tool(tool) => tool_subject(tool),
        },
        title: approval.title.into(),
        asks: word(approval.asks)?,
        labels: labels_of(approval.labels),
        digest: digest(&approval.digest)?,
        args_sha256: sha256("the hash of the arguments", &approval.args_sha256)?,
        detail_sha256: sha256("the hash of the detail", &approval.detail_sha256)?,
        fields: approval.field_count,
        deadline: maybe_moment("the deadline", approval.deadline)?,
        on_deadline: word(approval.on_deadline)?,
        hold: word(approval.hold)?,
        risk: word(approval.risk)?,
        votes: u8::try_from(approval.votes).map_err(|_| missing("how many people it takes"))?,
    })
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn detail(detail: pb::Detail) -> Read<Detail> {
    detail_of(detail)
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn pending(pending: pb::Pending) -> Read<Pending> {
    let asked = pending.approval.ok_or_else(|| missing("what was asked"))?;
    Ok(Pending {
        approval: Arc::new(approval(asked)?),
        joined: keys(&pending.joined_keys)?,
        deadline: maybe_moment("the deadline", pending.deadline)?,
        passed_at: maybe_moment("when the deadline passed", pending.passed_at)?,
        timed_out: all(pending.timed_out, timeout)?,
        attempts: all(pending.attempts, attempt)?,
        warn_at: maybe_moment("when little time is left", pending.warn_at)?,
        votes: all(pending.votes, decision)?,
    })
}

fn timeout(timeout: pb::WaitTimeout) -> Read<WaitTimeout> {
    Ok(WaitTimeout {
        wait: WaitId::parse(&timeout.wait_id)?,
        at: moment("when the waiter gave up", timeout.at)?,
    })
}

fn attempt(attempt: pb::Attempt) -> Read<Attempt> {
    Ok(Attempt {
        by: Name::written(&attempt.by)?,
        verb: attempt.verb,
        at: moment("when it was tried", attempt.at)?,
    })
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn settled(settled: pb::Settled) -> Read<Settled> {
    let asked = settled.approval.ok_or_else(|| missing("what was asked"))?;
    Ok(Settled {
        approval: Arc::new(approval(asked)?),
        joined: keys(&settled.joined_keys)?,
        outcome: outcome(settled.outcome.ok_or_else(|| missing("how it ended"))?)?,
        at: moment("when it ended", settled.at)?,
        seq: settled.seq,
        delivery: settled.delivery.map(delivery).transpose()?,
        applied: settled.applied.map(applied).transpose()?,
        deadline: maybe_moment("the deadline", settled.deadline)?,
        claim: settled.claim.map(claim).transpose()?,
        votes: all(settled.votes, decision)?,
    })
}

fn claim(claim: pb::Claim) -> Read<Claim> {
    let given_back = maybe_moment("when it was given back", claim.given_back_at)?;
    let started = maybe_moment("when it was begun with", claim.started_at)?;
    let stage = match (given_back, started) {
        (None, None) => ClaimStage::Taken,
        (Some(at), None) => ClaimStage::GivenBack { at },
        (None, Some(at)) => ClaimStage::Started { at },
        (Some(_), Some(_)) => {
            return Err(Garbled(
                "a claim is given back or begun with, not both".into(),
            ));
        }
    };
    Ok(Claim {
        token: ClaimToken::parse(&claim.token)?,
        at: moment("when it was taken", claim.at)?,
        stage,
    })
}

/// The decisions that were taken.
///
/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn claimed_back(answer: pb::ClaimResponse) -> Read<Vec<Settled>> {
    all(answer.decisions, settled)
}

/// Whether they were given back; if not, why.
///
/// # Errors
/// None; as all else that is read.
pub fn restored_back(answer: pb::RestoreResponse) -> Read<Result<(), Untrusted>> {
    Ok(match answer.restored {
        true => Ok(()),
        false => Err(answer.reason.into()),
    })
}

fn outcome(outcome: pb::settled::Outcome) -> Read<Outcome> {
    use pb::settled::Outcome as In;
    match outcome {
        In::Granted(yes) => decision(yes).map(Outcome::Granted),
        In::Rejected(no) => decision(no).map(Outcome::Rejected),
        In::Expired(pb::Expired {}) => Ok(Outcome::Expired),
        In::Withdrawn(withdrawn) => why(withdrawn).map(Outcome::Withdrawn),
    }
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn decision(decision: pb::Decision) -> Read<Decision> {
    Ok(Decision {
        id: DecisionId::parse(&decision.id)?,
        decider: Decider {
            by: Name::written(&decision.by)?,
            on_behalf_of: said(&decision.on_behalf_of, Name::written)?,
            via: said(&decision.via, Name::written)?,
        },
        answers: Answers::written(all(decision.answers, answer)?),
        note: decision.note.into(),
        seen: word(decision.seen)?,
    })
}

fn answer(answer: pb::Answer) -> Read<(String, Answer)> {
    use pb::answer::Value;
    let bad = || Garbled("an answer is not of its type".into());
    let value = match answer.value.ok_or_else(|| missing("an answer"))? {
        Value::Text(text) => Answer::Text(text.into()),
        Value::Number(number) => Answer::Number(Number::new(number).ok_or_else(bad)?),
        Value::Integer(integer) => Answer::Integer(integer),
        Value::Boolean(boolean) => Answer::Boolean(boolean),
        Value::Date(date) => Kind::Date.parse(&date).map_err(|_| bad())?,
        Value::Sealed(_) => Answer::Sealed,
    };
    Ok((answer.name, value))
}

fn why(withdrawn: pb::Withdrawn) -> Read<Why> {
    use pb::withdrawn::Why as In;
    match withdrawn
        .why
        .ok_or_else(|| missing("why it was taken back"))?
    {
        In::RunEnded(end) => word(end).map(Why::RunEnded),
        In::Cancelled(cancelled) => Ok(Why::Cancelled {
            by: Name::written(&cancelled.by)?,
        }),
        In::SupersededBy(by) => Ok(Why::Superseded { by: by.parse()? }),
        In::AgentReason(reason) => Ok(Why::Agent {
            reason: reason.into(),
        }),
        In::AnsweredElsewhere(answered) => Ok(Why::AnsweredElsewhere {
            granted: answered.granted,
            detail: answered.detail.into(),
        }),
        In::Dismissed(dismissed) => Ok(Why::Dismissed {
            by: Name::written(&dismissed.by)?,
            note: dismissed.note.into(),
        }),
    }
}

fn delivery(delivery: pb::Delivery) -> Read<Delivery> {
    Ok(Delivery {
        control: ControlId::parse(&delivery.control_id)?,
        state: word(delivery.state)?,
        detail: delivery.detail.into(),
        at: moment("when the delivery moved", delivery.at)?,
    })
}

fn applied(applied: pb::Applied) -> Read<Applied> {
    Ok(Applied {
        result: word(applied.result)?,
        detail: applied.detail.into(),
        at: moment("when it was applied", applied.at)?,
    })
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn run(run: pb::Run) -> Read<Run> {
    let open = run.open_approval_ids.iter().map(|id| id.parse());
    Ok(Run {
        id: run.id.parse()?,
        key: RunKey {
            tenant: Tenant::parse(&run.tenant)?,
            source: word(run.source)?,
            agent: run.agent.into(),
            session: run.session.into(),
            invocation: run.invocation.into(),
        },
        project: run.project.into(),
        thread: run.thread.into(),
        origin: run.origin.into(),
        owner: said(&run.owner, Name::written)?,
        opened_by: Name::written(&run.opened_by)?,
        parent: said(&run.parent_run_id, str::parse)?,
        can_resume: run.can_resume,
        mode: word(run.mode)?,
        opened_at: moment("when the run was opened", run.opened_at)?,
        state: run_state(run.state, run.interrupt_kind, run.pause)?,
        presence: presence(run.presence, run.away_since)?,
        open: open.collect::<Result<_, _>>()?,
        tasks: all(run.tasks, task)?.into_iter().collect(),
        plan: run.plan.map(plan_of).transpose()?,
        pause: pause(run.pause)?,
        held_by: said(&run.held_by, str::parse)?,
        drifts: all(run.drifts, drift)?,
        counts: counts(run.counts),
        controls: all(run.controls, control)?,
    })
}

fn run_state(state: i32, interrupt: i32, held: i32) -> Read<RunState> {
    match pb::RunState::try_from(state) {
        Ok(pb::RunState::Running) => Ok(RunState::Running),
        Ok(pb::RunState::Waiting) => Ok(RunState::Waiting),
        Ok(pb::RunState::Parked) => word(interrupt).map(RunState::Parked),
        Ok(pb::RunState::Consumed) => word(interrupt).map(RunState::Consumed),
        Ok(pb::RunState::Pausing) => Ok(RunState::Pausing),
        Ok(pb::RunState::Paused) => paused(pause(held)?),
        Ok(
            pb::RunState::Completed
            | pb::RunState::Failed
            | pb::RunState::Cancelled
            | pb::RunState::Aborted,
        ) => word(state).map(RunState::Ended),
        Ok(pb::RunState::Unspecified) | Err(_) => Err(unknown("the run's state", state)),
    }
}

fn paused(pause: Option<Pause>) -> Read<RunState> {
    match pause {
        Some(Pause::Holds(evidence)) => Ok(RunState::Paused(evidence)),
        Some(Pause::Asked) | None => Err(missing("why the run is said to stand still")),
    }
}

fn presence(presence: i32, away_since: Option<prost_types::Timestamp>) -> Read<Presence> {
    match pb::Presence::try_from(presence) {
        Ok(pb::Presence::Attached) => Ok(Presence::Attached),
        Ok(pb::Presence::Away) => {
            let since = moment("since when the agent is away", away_since)?;
            Ok(Presence::Away { since })
        }
        Ok(pb::Presence::Detached) => Ok(Presence::Detached),
        Ok(pb::Presence::Unspecified) | Err(_) => Err(unknown("the presence", presence)),
    }
}

fn task(task: pb::Task) -> Read<(Untrusted, Task)> {
    let state = task_state(&task)?;
    let known = Task {
        title: task.title.into(),
        state,
        detail: task.detail.into(),
        at: moment("since when a task stands so", task.at)?,
    };
    Ok((task.id.into(), known))
}

// === Events ===

fn recorded_of(recorded: pb::Recorded) -> Read<(Recorded, Seq)> {
    let what = recorded.event.and_then(|event| event.what);
    let read = Recorded {
        seq: recorded.seq,
        at: moment("when it was recorded", recorded.at)?,
        scope: Scope {
            tenant: Tenant::parse(&recorded.tenant)?,
            owner: said(&recorded.owner, Name::written)?,
        },
        event: Arc::new(event(what.ok_or_else(|| missing("what happened"))?)?),
    };
    Ok((read, recorded.prev_seq))
}

fn event(what: pb::event::What) -> Read<Event> {
    use pb::event::What;
    Ok(match what {
        What::RunOpened(e) => Event::RunOpened {
            run: Box::new(run(e.run.ok_or_else(|| missing("the run"))?)?),
            context: e.context.into(),
        },
        What::PresenceChanged(e) => Event::PresenceChanged {
            run: e.run_id.parse()?,
            presence: presence(e.presence, e.away_since)?,
        },
        What::RunParked(e) => Event::RunParked {
            run: e.run_id.parse()?,
            interrupt: word(e.interrupt_kind)?,
        },
        What::RunEnded(e) => Event::RunEnded {
            run: e.run_id.parse()?,
            end: word(e.state)?,
            reason: e.reason.into(),
        },
        What::TaskReported(e) => task_reported(e)?,
        What::PlanReported(e) => Event::PlanReported {
            run: e.run_id.parse()?,
            plan: plan_of(e.plan.ok_or_else(|| missing("the plan"))?)?,
            cause: e.cause.into(),
        },
        What::Said(e) => Event::Said {
            run: e.run_id.parse()?,
            text: e.text.into(),
        },
        What::DriftReported(e) => Event::DriftReported {
            run: e.run_id.parse()?,
            drift: drift(e.drift.ok_or_else(|| missing("the drift"))?)?,
        },
        What::DriftLevelled(e) => Event::DriftLevelled {
            run: e.run_id.parse()?,
            drift: DriftId::parse(&e.drift_id)?,
            level: word(e.level)?,
        },
        What::PauseMoved(e) => Event::PauseMoved {
            run: e.run_id.parse()?,
            pause: pause(e.pause)?,
        },
        What::ControlIssued(e) => Event::ControlIssued {
            control: Box::new(control(e)?),
        },
        What::ControlMoved(e) => Event::ControlMoved {
            run: e.run_id.parse()?,
            id: ControlId::parse(&e.control_id)?,
            escalation: said(&e.escalation_id, str::parse)?,
            step: step(e.step.ok_or_else(|| missing("how far it came"))?)?,
        },
        What::EscalationRaised(e) => Event::EscalationRaised {
            escalation: Arc::new(escalation(e)?),
        },
        What::EscalationClosed(e) => Event::EscalationClosed {
            id: e.id.parse()?,
            how: how(e.how)?,
        },
        What::ApprovalRequested(e) => Event::ApprovalRequested {
            approval: Arc::new(approval(e)?),
        },
        What::ApprovalJoined(e) => Event::ApprovalJoined {
            id: e.id.parse()?,
            key: Key::parse(&e.key)?,
        },
        What::ApprovalGranted(e) => Event::ApprovalGranted {
            id: e.id.parse()?,
            decision: decision(e.decision.ok_or_else(|| missing("the decision"))?)?,
        },
        What::ApprovalRejected(e) => Event::ApprovalRejected {
            id: e.id.parse()?,
            decision: decision(e.decision.ok_or_else(|| missing("the decision"))?)?,
        },
        What::ApprovalExpired(e) => Event::ApprovalExpired { id: e.id.parse()? },
        What::ApprovalWithdrawn(e) => Event::ApprovalWithdrawn {
            id: e.id.parse()?,
            why: why(e
                .withdrawn
                .ok_or_else(|| missing("why it was taken back"))?)?,
        },
        What::DeadlinePassed(e) => Event::DeadlinePassed { id: e.id.parse()? },
        What::DeadlineExtended(e) => Event::DeadlineExtended {
            id: e.id.parse()?,
            deadline: moment("the deadline", e.deadline)?,
            by: Name::written(&e.by)?,
        },
        What::WaitTimedOut(e) => Event::WaitTimedOut {
            id: e.id.parse()?,
            wait: WaitId::parse(&e.wait_id)?,
        },
        What::AttemptRefused(e) => Event::AttemptRefused {
            id: e.id.parse()?,
            attempt: attempt(e.attempt.ok_or_else(|| missing("the attempt"))?)?,
        },
        What::DeliveryMoved(e) => Event::DeliveryMoved {
            id: e.id.parse()?,
            delivery: delivery(e.delivery.ok_or_else(|| missing("the delivery"))?)?,
        },
        What::VoteCast(e) => Event::VoteCast {
            id: e.id.parse()?,
            decision: decision(e.decision.ok_or_else(|| missing("the decision"))?)?,
        },
        What::DeadlineWarned(e) => Event::DeadlineWarned { id: e.id.parse()? },
        What::DecisionClaimed(e) => Event::DecisionClaimed {
            id: e.id.parse()?,
            run: e.run_id.parse()?,
            claim: claim(e.claim.ok_or_else(|| missing("the claim"))?)?,
        },
        What::DecisionRestored(e) => Event::DecisionRestored {
            id: e.id.parse()?,
            run: e.run_id.parse()?,
            token: ClaimToken::parse(&e.token)?,
        },
        What::DecisionStarted(e) => Event::DecisionStarted {
            id: e.id.parse()?,
            run: e.run_id.parse()?,
            token: ClaimToken::parse(&e.token)?,
        },
        What::DecisionApplied(e) => Event::DecisionApplied {
            id: e.id.parse()?,
            applied: applied(e.applied.ok_or_else(|| missing("what came of it"))?)?,
        },
        What::HistoryTrimmed(e) => Event::HistoryTrimmed {
            tenant: Tenant::parse(&e.tenant)?,
            trimmed: Trimmed {
                events: e.events,
                details: e.details,
                frames: e.frames,
                oldest: moment("the oldest", e.oldest)?,
                newest: moment("the newest", e.newest)?,
                floor: e.floor,
            },
        },
    })
}

fn task_reported(e: pb::TaskReported) -> Read<Event> {
    let task = e.task.ok_or_else(|| missing("the task"))?;
    Ok(Event::TaskReported {
        run: e.run_id.parse()?,
        state: task_state(&task)?,
        task: task.id.into(),
        title: task.title.into(),
        detail: task.detail.into(),
    })
}
