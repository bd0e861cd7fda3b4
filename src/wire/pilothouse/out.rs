//! Facts go out: what the server answers.

use std::{sync::Arc, time::Duration};

use registry::{
    Approval, ApprovalId, Control, Detail, Event, ItemId, Name, Pending, Principal, Recorded,
    Refusal, Run, RunId, Seq, Settled, Timestamp, Untrusted,
    approval::{
        Applied, Attempt, Claim, ClaimStage, Decision, Delivery, Outcome, WaitTimeout, Why,
    },
    drift::Level,
    escalation::Ended,
    form::Answer,
    names::{ClaimToken, Key, WaitId},
    policy::Mode,
    run::{Presence, RunState, Task},
    state::Row,
};

use super::{
    Asked, Open, Word, detail_out, labels_out, moment_out,
    operator::item_token_out,
    pb, plan_out, span_out,
    steering::{
        closed_out, control_out, counts_out, drift_out, escalation_out, how_out, level_out,
        pause_out, step_out,
    },
    subject_out, task_out,
};

// === For agents ===

/// The run, how it is attended, and what was not believed of it.
pub fn opened(run: &Run, dropped: Vec<String>) -> pb::OpenRunResponse {
    pb::OpenRunResponse {
        run_id: run.id.to_string(),
        mode: run.mode.number(),
        guidance: run.mode.guidance().to_owned(),
        dropped,
    }
}

/// It may run.
pub fn free() -> pb::GateResponse {
    gate_says(pb::gate_response::Says::Free(pb::Free {}))
}

/// A person is asked.
pub fn gate_asked(filed: pb::FileResponse) -> pb::GateResponse {
    gate_says(pb::gate_response::Says::Asked(filed))
}

/// Policy says no.
pub fn blocked(id: ApprovalId, missing: &Untrusted) -> pb::GateResponse {
    gate_says(pb::gate_response::Says::Blocked(pb::Blocked {
        approval_id: id.to_string(),
        missing: text(missing),
        guidance: Mode::Autonomous.guidance().to_owned(),
    }))
}

fn gate_says(says: pb::gate_response::Says) -> pb::GateResponse {
    pb::GateResponse { says: Some(says) }
}

/// The approval's id and digest; and what its agent should know, a sentence each.
pub fn filed(approval: &Approval, warnings: Vec<String>) -> pb::FileResponse {
    pb::FileResponse {
        approval_id: approval.id.to_string(),
        digest: approval.digest.to_string(),
        warnings,
    }
}

/// Still open, and this much patience is left.
pub fn pending_left(left: Duration) -> pb::AwaitResponse {
    let left = Some(span_out(left));
    awaited(pb::await_response::State::Pending(pb::StillPending {
        left,
    }))
}

/// It has ended.
pub fn settled_await(settled: &Settled) -> pb::AwaitResponse {
    let settled = settled_out(settled);
    awaited(pb::await_response::State::Settled(settled))
}

/// The waiter's patience has ended.
pub fn gave_up(wait: &WaitId, at: Timestamp) -> pb::AwaitResponse {
    let timeout = timeout(wait, at);
    awaited(pb::await_response::State::TimedOut(timeout))
}

fn awaited(state: pb::await_response::State) -> pb::AwaitResponse {
    pb::AwaitResponse { state: Some(state) }
}

/// How strongly the drift is answered.
pub fn drifted(level: Level) -> pb::ReportDriftResponse {
    let level = level.number().into();
    pb::ReportDriftResponse { level }
}

/// An order, on its way to the agent.
pub fn handed_over(control: &Control) -> pb::ControlsResponse {
    let control = Some(control_out(control));
    pb::ControlsResponse { control }
}

/// The server's clock.
pub fn heartbeat_answer(now: Timestamp) -> pb::HeartbeatResponse {
    let server_time = moment(now);
    pb::HeartbeatResponse { server_time }
}

// === For people ===

/// What one answer may hold, in bytes: what a client reads at most that was told nothing else (case B06).
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// What stands in an answer beside its entries: where the next page begins, and up to which event this one holds.
const BESIDE_BYTES: usize = 256;
/// What stands before each entry: its tag, and its length.
const BEFORE_BYTES: usize = 6;

/// Room for the entries of one page.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    is_empty: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes: PAGE_BYTES - BESIDE_BYTES,
            is_empty: true,
        }
    }
}

impl Room {
    /// What a run leaves of an answer that begins with it.
    pub fn beside(run: &Run) -> Self {
        let mut room = Self::default();
        let taken = prost::Message::encoded_len(&run_out(run)) + BEFORE_BYTES;
        room.bytes = room.bytes.saturating_sub(taken);
        room
    }

    /// Whether one more entry fits; an empty page takes any, so that whoever reads on comes further.
    pub fn takes(&mut self, entry: &impl prost::Message) -> bool {
        let bytes = entry.encoded_len() + BEFORE_BYTES;
        let fits = self.is_empty || bytes <= self.bytes;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_empty = false;
        fits
    }
}

/// One entry of a page; of its run all but what may be long.
pub fn open_item(open: &Open, run: &Run) -> pb::OpenItem {
    use pb::open_item::Item;
    let run = pb::Run {
        tasks: Vec::new(),
        plan: None,
        drifts: Vec::new(),
        counts: Vec::new(),
        controls: Vec::new(),
        ..run_out(run)
    };
    let item = match open {
        Open::Pending(pending) => Item::Pending(pending_out(pending)),
        Open::Escalation(escalation) => Item::Escalation(escalation_out(escalation)),
    };
    pb::OpenItem {
        item: Some(item),
        run: Some(run),
    }
}

/// One entry of what has ended.
pub fn ended_item(ended: &Ended) -> pb::EndedItem {
    use pb::ended_item::Item;
    let item = match ended {
        Ended::Approval(settled) => Item::Settled(settled_out(settled)),
        Ended::Escalation(closed) => Item::Closed(closed_out(closed)),
    };
    pb::EndedItem { item: Some(item) }
}

/// One entry of a run's record; `prev_seq` is the one before it.
pub fn record_item(recorded: &Recorded, prev_seq: Seq) -> pb::Recorded {
    recorded_out(recorded, prev_seq)
}

/// One page of what is open: the next one begins after `next`; it holds all up to the event `as_of`.
pub fn page(items: Vec<pb::OpenItem>, next: Option<ItemId>, as_of: Seq) -> pb::ListResponse {
    pb::ListResponse {
        items,
        next_page_token: next.map(item_token_out).unwrap_or_default(),
        as_of_seq: as_of,
    }
}

/// One approval or escalation, whole. The run is missing only if the server has forgotten it.
pub fn got(asked: &Asked, detail: &Detail, run: Option<&Run>) -> pb::GetResponse {
    use pb::get_response::Item;
    let item = match asked {
        Asked::Pending(pending) => Item::Pending(pending_out(pending)),
        Asked::Settled(settled) => Item::Settled(settled_out(settled)),
        Asked::Escalation(escalation) => Item::Escalation(escalation_out(escalation)),
        Asked::Closed(closed) => Item::Closed(closed_out(closed)),
    };
    pb::GetResponse {
        detail: Some(detail_out(detail)),
        run: run.map(run_out),
        item: Some(item),
    }
}

/// A run, and a piece of its record.
pub fn got_run(run: &Run, record: Vec<pb::Recorded>, has_more: bool) -> pb::GetRunResponse {
    pb::GetRunResponse {
        run: Some(run_out(run)),
        record,
        has_more,
    }
}

/// One page of what has ended: the next one begins before the event `next`.
pub fn history_page(items: Vec<pb::EndedItem>, next: Option<Seq>) -> pb::HistoryResponse {
    pb::HistoryResponse {
        items,
        next_page_token: next.map(|seq| seq.to_string()).unwrap_or_default(),
    }
}

/// What the decision came to: also the first answer, to a retry.
pub fn decided(settled: &Settled) -> pb::DecideResponse {
    pb::DecideResponse {
        settled: Some(settled_out(settled)),
        pending: None,
    }
}

/// A yes that is one of several was taken.
pub fn voted(pending: &Pending) -> pb::DecideResponse {
    pb::DecideResponse {
        settled: None,
        pending: Some(pending_out(pending)),
    }
}

/// The order as it stands: also the first one, to a retry.
pub fn controlled(control: &Control) -> pb::ControlResponse {
    let control = Some(control_out(control));
    pb::ControlResponse { control }
}

/// The deadline as it is now.
pub fn extended(deadline: Timestamp) -> pb::ExtendResponse {
    let deadline = moment(deadline);
    pb::ExtendResponse { deadline }
}

/// A ticket, and when it ends.
pub fn minted(ticket: String, until: Timestamp) -> pb::MintTicketResponse {
    let expires_at = moment(until);
    pb::MintTicketResponse { ticket, expires_at }
}

/// Who the caller is; `by` says how the server knows, and until when.
pub fn whoami(
    who: &Principal,
    (by, expires): (&str, Option<Timestamp>),
    version: &str,
    epoch: &str,
    head: Seq,
    now: Timestamp,
) -> pb::WhoamiResponse {
    pb::WhoamiResponse {
        name: who.name().to_string(),
        tenant: who.tenant().as_str().to_owned(),
        roles: who.roles().map(|role| role.word().to_owned()).collect(),
        by: by.to_owned(),
        server_version: version.to_owned(),
        head: Some(cursor(epoch, head)),
        server_time: moment(now),
        scopes: who.scopes().map(|scope| scope.word().to_owned()).collect(),
        expires_at: expires.and_then(moment),
        via: or_nothing(who.minted_by()),
        clock_ahead: None,
    }
}

/// The same, while the machine's clock has jumped ahead by so much.
pub fn with_clock_ahead(me: pb::WhoamiResponse, ahead: Option<Duration>) -> pb::WhoamiResponse {
    pb::WhoamiResponse {
        clock_ahead: ahead.map(span_out),
        ..me
    }
}

// === Watch ===

/// A part of what stands now.
pub fn row(row: &Row) -> pb::WatchResponse {
    use pb::watch_response::What;
    watch(match row {
        Row::Run(run) => What::Run(run_out(run)),
        Row::Pending(pending) => What::Pending(pending_out(pending)),
        Row::Settled(settled) => What::Settled(settled_out(settled)),
        Row::Escalation(escalation) => What::Escalation(escalation_out(escalation)),
        Row::Closed(closed) => What::Closed(closed_out(closed)),
    })
}

/// What stands now is complete; what comes is after this place.
pub fn snapshot_end(
    epoch: &str,
    seq: Seq,
    last_at: Timestamp,
    now: Timestamp,
) -> pb::WatchResponse {
    watch(pb::watch_response::What::End(pb::SnapshotEnd {
        cursor: Some(cursor(epoch, seq)),
        last_at: moment(last_at),
        server_time: moment(now),
    }))
}

/// A fact; `prev_seq` is the one before it in this stream.
pub fn recorded(recorded: &Recorded, prev_seq: Seq) -> pb::WatchResponse {
    let recorded = recorded_out(recorded, prev_seq);
    watch(pb::watch_response::What::Recorded(recorded))
}

/// Nothing happened up to the event `seq`.
pub fn tick(seq: Seq, now: Timestamp) -> pb::WatchResponse {
    let server_time = moment(now);
    watch(pb::watch_response::What::Tick(pb::Tick {
        seq,
        server_time,
    }))
}

fn watch(what: pb::watch_response::What) -> pb::WatchResponse {
    pb::WatchResponse { what: Some(what) }
}

pub(super) fn cursor(epoch: &str, seq: Seq) -> pb::Cursor {
    let epoch = epoch.to_owned();
    pb::Cursor { epoch, seq }
}

// === Nouns ===

fn moment(at: Timestamp) -> Option<prost_types::Timestamp> {
    Some(moment_out(at))
}

fn text(text: &Untrusted) -> String {
    text.raw().to_owned()
}

fn or_nothing<T: ToString>(said: Option<&T>) -> String {
    said.map(T::to_string).unwrap_or_default()
}

fn keys(keys: &[Key]) -> Vec<String> {
    keys.iter().map(Key::to_string).collect()
}

fn approval_out(approval: &Approval) -> pb::Approval {
    use pb::approval::Subject;
    pb::Approval {
        id: approval.id.to_string(),
        run_id: approval.run.to_string(),
        tenant: approval.from.tenant.as_str().to_owned(),
        source: approval.from.source.number(),
        agent: text(&approval.from.agent),
        session: text(&approval.from.session),
        invocation: text(&approval.from.invocation),
        owner: or_nothing(approval.owner.as_ref()),
        filed_by: approval.filed_by.to_string(),
        filed_at: moment(approval.filed_at),
        key: or_nothing(approval.key.as_ref()),
        target_id: text(&approval.target),
        step: text(&approval.step),
        subject: Some(subject_out(&approval.subject, Subject::Task, Subject::Tool)),
        title: text(&approval.title),
        asks: approval.asks.number(),
        labels: labels_out(&approval.labels),
        digest: approval.digest.to_string(),
        args_sha256: approval.args_sha256.to_string(),
        detail_sha256: approval.detail_sha256.to_string(),
        field_count: approval.fields,
        deadline: approval.deadline.and_then(moment),
        on_deadline: approval.on_deadline.number(),
        hold: approval.hold.number(),
        risk: approval.risk.number(),
        votes: approval.votes.into(),
    }
}

fn pending_out(pending: &Pending) -> pb::Pending {
    let timed_out = pending.timed_out.iter();
    pb::Pending {
        approval: Some(approval_out(&pending.approval)),
        joined_keys: keys(&pending.joined),
        deadline: pending.deadline.and_then(moment),
        passed_at: pending.passed_at.and_then(moment),
        timed_out: timed_out
            .map(|WaitTimeout { wait, at }| timeout(wait, *at))
            .collect(),
        attempts: pending.attempts.iter().map(attempt).collect(),
        warn_at: pending.warn_at.and_then(moment),
        votes: pending.votes.iter().map(decision_out).collect(),
    }
}

fn timeout(wait: &WaitId, at: Timestamp) -> pb::WaitTimeout {
    pb::WaitTimeout {
        wait_id: wait.to_string(),
        at: moment(at),
    }
}

fn attempt(attempt: &Attempt) -> pb::Attempt {
    pb::Attempt {
        by: attempt.by.to_string(),
        verb: attempt.verb.clone(),
        at: moment(attempt.at),
    }
}

fn settled_out(settled: &Settled) -> pb::Settled {
    pb::Settled {
        approval: Some(approval_out(&settled.approval)),
        joined_keys: keys(&settled.joined),
        outcome: Some(outcome(&settled.outcome)),
        at: moment(settled.at),
        seq: settled.seq,
        delivery: settled.delivery.as_ref().map(delivery),
        applied: settled.applied.as_ref().map(applied),
        deadline: settled.deadline.and_then(moment),
        claim: settled.claim.as_ref().map(claim),
        votes: settled.votes.iter().map(decision_out).collect(),
    }
}

fn claim(claim: &Claim) -> pb::Claim {
    let (given_back, started) = match claim.stage {
        ClaimStage::Taken => (None, None),
        ClaimStage::GivenBack { at } => (moment(at), None),
        ClaimStage::Started { at } => (None, moment(at)),
    };
    pb::Claim {
        token: claim.token.to_string(),
        at: moment(claim.at),
        given_back_at: given_back,
        started_at: started,
    }
}

fn claim_moved(id: ApprovalId, run: RunId, token: &ClaimToken) -> pb::ClaimMoved {
    pb::ClaimMoved {
        id: id.to_string(),
        run_id: run.to_string(),
        token: token.to_string(),
    }
}

/// The decisions that were taken.
pub fn claimed(decisions: &[Arc<Settled>]) -> pb::ClaimResponse {
    let decisions = decisions.iter().map(|settled| settled_out(settled));
    pb::ClaimResponse {
        decisions: decisions.collect(),
    }
}

/// Whether they were given back; if not, why.
pub fn restored(why_not: Option<&Refusal>) -> pb::RestoreResponse {
    pb::RestoreResponse {
        restored: why_not.is_none(),
        reason: why_not.map(ToString::to_string).unwrap_or_default(),
    }
}

fn outcome(outcome: &Outcome) -> pb::settled::Outcome {
    use pb::settled::Outcome as Out;
    match outcome {
        Outcome::Granted(decision) => Out::Granted(decision_out(decision)),
        Outcome::Rejected(decision) => Out::Rejected(decision_out(decision)),
        Outcome::Expired => Out::Expired(pb::Expired {}),
        Outcome::Withdrawn(why) => Out::Withdrawn(withdrawn(why)),
    }
}

fn decision_out(decision: &Decision) -> pb::Decision {
    pb::Decision {
        id: decision.id.to_string(),
        by: decision.decider.by.to_string(),
        on_behalf_of: or_nothing(decision.decider.on_behalf_of.as_ref()),
        answers: decision.answers.iter().map(answer).collect(),
        note: text(&decision.note),
        seen: decision.seen.number(),
        via: or_nothing(decision.decider.via.as_ref()),
    }
}

fn answer((name, answer): (&str, &Answer)) -> pb::Answer {
    use pb::answer::Value;
    let value = match answer {
        Answer::Text(said) => Value::Text(text(said)),
        Answer::Number(number) => Value::Number(number.get()),
        Answer::Integer(integer) => Value::Integer(*integer),
        Answer::Boolean(boolean) => Value::Boolean(*boolean),
        Answer::Date(_) => Value::Date(answer.to_raw()),
        Answer::Sealed => Value::Sealed(true),
    };
    pb::Answer {
        name: name.to_owned(),
        value: Some(value),
    }
}

fn withdrawn(why: &Why) -> pb::Withdrawn {
    use pb::withdrawn::Why as Out;
    let why = match why {
        Why::RunEnded(end) => Out::RunEnded(end.number()),
        Why::Cancelled { by } => Out::Cancelled(pb::Cancelled { by: by.to_string() }),
        Why::Superseded { by } => Out::SupersededBy(by.to_string()),
        Why::Agent { reason } => Out::AgentReason(text(reason)),
        Why::AnsweredElsewhere { granted, detail } => {
            Out::AnsweredElsewhere(pb::AnsweredElsewhere {
                granted: *granted,
                detail: text(detail),
            })
        }
        Why::Dismissed { by, note } => Out::Dismissed(pb::Dismissed {
            by: by.to_string(),
            note: text(note),
        }),
    };
    pb::Withdrawn { why: Some(why) }
}

fn delivery(delivery: &Delivery) -> pb::Delivery {
    pb::Delivery {
        control_id: delivery.control.to_string(),
        state: delivery.state.number(),
        detail: text(&delivery.detail),
        at: moment(delivery.at),
    }
}

fn applied(applied: &Applied) -> pb::Applied {
    pb::Applied {
        result: applied.result.number(),
        detail: text(&applied.detail),
        at: moment(applied.at),
    }
}

fn run_out(run: &Run) -> pb::Run {
    let (state, interrupt) = run_state(run.state);
    let (presence, away_since) = presence(run.presence);
    pb::Run {
        id: run.id.to_string(),
        tenant: run.key.tenant.as_str().to_owned(),
        source: run.key.source.number(),
        agent: text(&run.key.agent),
        session: text(&run.key.session),
        invocation: text(&run.key.invocation),
        project: text(&run.project),
        thread: text(&run.thread),
        origin: text(&run.origin),
        owner: or_nothing(run.owner.as_ref()),
        opened_by: run.opened_by.to_string(),
        parent_run_id: or_nothing(run.parent.as_ref()),
        can_resume: run.can_resume,
        mode: run.mode.number(),
        opened_at: moment(run.opened_at),
        state,
        interrupt_kind: interrupt,
        presence,
        away_since,
        tasks: run.tasks.iter().map(task).collect(),
        plan: run.plan.as_ref().map(plan_out),
        open_approval_ids: run.open.iter().map(ApprovalId::to_string).collect(),
        pause: pause_out(run.pause),
        held_by: or_nothing(run.held_by.as_ref()),
        drifts: run.drifts.iter().map(drift_out).collect(),
        counts: counts_out(&run.counts),
        controls: run.controls.iter().map(control_out).collect(),
    }
}

fn run_state(state: RunState) -> (i32, i32) {
    let nothing = pb::InterruptKind::Unspecified as i32;
    match state {
        RunState::Running => (pb::RunState::Running as i32, nothing),
        RunState::Waiting => (pb::RunState::Waiting as i32, nothing),
        RunState::Pausing => (pb::RunState::Pausing as i32, nothing),
        RunState::Paused(_) => (pb::RunState::Paused as i32, nothing),
        RunState::Parked(kind) => (pb::RunState::Parked as i32, kind.number()),
        RunState::Consumed(kind) => (pb::RunState::Consumed as i32, kind.number()),
        RunState::Ended(end) => (end.number(), nothing),
    }
}

fn presence(presence: Presence) -> (i32, Option<prost_types::Timestamp>) {
    match presence {
        Presence::Attached => (pb::Presence::Attached as i32, None),
        Presence::Away { since } => (pb::Presence::Away as i32, moment(since)),
        Presence::Detached => (pb::Presence::Detached as i32, None),
    }
}

fn task((id, task): (&Untrusted, &Task)) -> pb::Task {
    pb::Task {
        detail: text(&task.detail),
        at: moment(task.at),
        ..task_out(id, &task.title, &task.state)
    }
}

// === Events ===

fn recorded_out(recorded: &Recorded, prev_seq: Seq) -> pb::Recorded {
    pb::Recorded {
        seq: recorded.seq,
        prev_seq,
        at: moment(recorded.at),
        tenant: recorded.scope.tenant.as_str().to_owned(),
        owner: or_nothing::<Name>(recorded.scope.owner.as_ref()),
        event: Some(pb::Event {
            what: Some(event(&recorded.event)),
        }),
    }
}

fn event(event: &Event) -> pb::event::What {
    use pb::event::What;
    match event {
        Event::RunOpened { run, context } => What::RunOpened(pb::RunOpened {
            run: Some(run_out(run)),
            context: text(context),
        }),
        Event::PresenceChanged { run, presence: now } => {
            let (presence, away_since) = presence(*now);
            What::PresenceChanged(pb::PresenceChanged {
                run_id: run.to_string(),
                presence,
                away_since,
            })
        }
        Event::RunParked { run, interrupt } => What::RunParked(pb::RunParked {
            run_id: run.to_string(),
            interrupt_kind: interrupt.number(),
        }),
        Event::RunEnded { run, end, reason } => What::RunEnded(pb::RunEnded {
            run_id: run.to_string(),
            state: end.number(),
            reason: text(reason),
        }),
        Event::TaskReported {
            run,
            task,
            title,
            state,
            detail,
        } => What::TaskReported(pb::TaskReported {
            run_id: run.to_string(),
            task: Some(pb::Task {
                detail: text(detail),
                ..task_out(task, title, state)
            }),
        }),
        Event::PlanReported { run, plan, cause } => What::PlanReported(pb::PlanReported {
            run_id: run.to_string(),
            plan: Some(plan_out(plan)),
            cause: text(cause),
        }),
        Event::Said { run, text: words } => What::Said(pb::Said {
            run_id: run.to_string(),
            text: text(words),
        }),
        Event::DriftReported { run, drift } => What::DriftReported(pb::DriftReported {
            run_id: run.to_string(),
            drift: Some(drift_out(drift)),
        }),
        Event::DriftLevelled { run, drift, level } => What::DriftLevelled(pb::DriftLevelled {
            run_id: run.to_string(),
            drift_id: drift.to_string(),
            level: level_out(Some(*level)),
        }),
        Event::PauseMoved { run, pause } => What::PauseMoved(pb::PauseMoved {
            run_id: run.to_string(),
            pause: pause_out(*pause),
        }),
        Event::ControlIssued { control } => What::ControlIssued(control_out(control)),
        Event::ControlMoved {
            run,
            id,
            escalation,
            step,
        } => What::ControlMoved(pb::ControlMoved {
            run_id: run.to_string(),
            control_id: id.to_string(),
            escalation_id: or_nothing(escalation.as_ref()),
            step: Some(step_out(step)),
        }),
        Event::EscalationRaised { escalation } => {
            What::EscalationRaised(escalation_out(escalation))
        }
        Event::EscalationClosed { id, how } => What::EscalationClosed(pb::EscalationClosed {
            id: id.to_string(),
            how: Some(how_out(how)),
        }),
        Event::ApprovalRequested { approval } => What::ApprovalRequested(approval_out(approval)),
        Event::ApprovalJoined { id, key } => What::ApprovalJoined(pb::ApprovalJoined {
            id: id.to_string(),
            key: key.to_string(),
        }),
        Event::ApprovalGranted { id, decision } => {
            What::ApprovalGranted(approval_decided(*id, decision))
        }
        Event::ApprovalRejected { id, decision } => {
            What::ApprovalRejected(approval_decided(*id, decision))
        }
        Event::ApprovalExpired { id } => {
            What::ApprovalExpired(pb::ApprovalExpired { id: id.to_string() })
        }
        Event::ApprovalWithdrawn { id, why } => What::ApprovalWithdrawn(pb::ApprovalWithdrawn {
            id: id.to_string(),
            withdrawn: Some(withdrawn(why)),
        }),
        Event::DeadlinePassed { id } => {
            What::DeadlinePassed(pb::DeadlinePassed { id: id.to_string() })
        }
        Event::DeadlineExtended { id, deadline, by } => {
            What::DeadlineExtended(pb::DeadlineExtended {
                id: id.to_string(),
                deadline: moment(*deadline),
                by: by.to_string(),
            })
        }
        Event::WaitTimedOut { id, wait } => What::WaitTimedOut(pb::WaitTimedOut {
            id: id.to_string(),
            wait_id: wait.to_string(),
        }),
        Event::AttemptRefused { id, attempt: tried } => What::AttemptRefused(pb::AttemptRefused {
            id: id.to_string(),
            attempt: Some(attempt(tried)),
        }),
        Event::DeliveryMoved {
            id,
            delivery: moved,
        } => What::DeliveryMoved(pb::DeliveryMoved {
            id: id.to_string(),
            delivery: Some(delivery(moved)),
        }),
        Event::VoteCast { id, decision } => What::VoteCast(approval_decided(*id, decision)),
        Event::DeadlineWarned { id } => {
            What::DeadlineWarned(pb::DeadlineWarned { id: id.to_string() })
        }
        Event::DecisionClaimed {
            id,
            run,
            claim: taken,
        } => What::DecisionClaimed(pb::DecisionClaimed {
            id: id.to_string(),
            run_id: run.to_string(),
            claim: Some(claim(taken)),
        }),
        Event::DecisionRestored { id, run, token } => {
            What::DecisionRestored(claim_moved(*id, *run, token))
        }
        Event::DecisionStarted { id, run, token } => {
            What::DecisionStarted(claim_moved(*id, *run, token))
        }
        Event::DecisionApplied { id, applied: done } => {
            What::DecisionApplied(pb::DecisionApplied {
                id: id.to_string(),
                applied: Some(applied(done)),
            })
        }
        Event::HistoryTrimmed { tenant, trimmed } => What::HistoryTrimmed(pb::HistoryTrimmed {
            tenant: tenant.as_str().to_owned(),
            events: trimmed.events,
            details: trimmed.details,
            frames: trimmed.frames,
            oldest: moment(trimmed.oldest),
            newest: moment(trimmed.newest),
            floor: trimmed.floor,
        }),
    }
}

fn approval_decided(id: ApprovalId, decision: &Decision) -> pb::ApprovalDecided {
    pb::ApprovalDecided {
        id: id.to_string(),
        decision: Some(decision_out(decision)),
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod room_tests;
