//! A wish goes out: the client's requests.

use std::{collections::BTreeMap, time::Duration};

use registry::{
    ApprovalId, Digest, ItemId, Name, RunId, Seq, Untrusted,
    approval::{AppliedResult, Filing},
    command::{AckResult, Decide, Ending, Order},
    names::{ClaimToken, ControlId, DriftId, WaitId},
    run::{Plan, TaskState},
};

use super::{
    ListWish, Word, detail_out, labels_out, operator::item_token_out, out::cursor, pb, plan_out,
    span_out, steering::verb_out, subject_out, task_out,
};

/// A run as its agent opens it; its tenant comes from the credential, its id from the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The agent's own name.
    pub agent: Untrusted,
    /// Its session.
    pub session: Untrusted,
    /// The run id as the agent says it.
    pub invocation: Untrusted,
    /// The project it belongs to.
    pub project: Untrusted,
    /// The conversation.
    pub thread: Untrusted,
    /// What started it.
    pub origin: Untrusted,
    /// The user it works for.
    pub user: Option<Name>,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// Whether it can take up an answer after its turn ended.
    pub can_resume: bool,
    /// What else there is to say of it: JSON text, or nothing.
    pub context: Untrusted,
    /// Whether it is gone after its question, as `pilothouse file` is.
    pub detached: bool,
}

fn text(text: &Untrusted) -> String {
    text.raw().to_owned()
}

fn or_nothing<T: ToString>(said: Option<&T>) -> String {
    said.map(T::to_string).unwrap_or_default()
}

/// The request for an [`Opening`].
pub fn ask_open_run(run: &Opening) -> pb::OpenRunRequest {
    pb::OpenRunRequest {
        tenant: String::new(),
        project: text(&run.project),
        session: text(&run.session),
        thread: text(&run.thread),
        invocation: text(&run.invocation),
        agent: text(&run.agent),
        origin: text(&run.origin),
        user: or_nothing(run.user.as_ref()),
        parent_run_id: or_nothing(run.parent.as_ref()),
        can_resume: run.can_resume,
        context: text(&run.context),
        detached: run.detached,
    }
}

/// A run, or its turn, ends.
pub fn ask_end_run(run: RunId, how: Ending, reason: &Untrusted) -> pb::EndRunRequest {
    use pb::end_run_request::How;
    let how = match how {
        Ending::Over(end) => How::Ended(end.number()),
        Ending::Paused(kind) => How::Paused(kind.number()),
    };
    pb::EndRunRequest {
        run_id: run.to_string(),
        reason: text(reason),
        how: Some(how),
    }
}

/// A task moves.
pub fn ask_report_task(
    run: RunId,
    task: &Untrusted,
    title: &Untrusted,
    state: &TaskState,
    detail: &Untrusted,
) -> pb::ReportTaskRequest {
    pb::ReportTaskRequest {
        run_id: run.to_string(),
        task: Some(pb::Task {
            detail: text(detail),
            ..task_out(task, title, state)
        }),
    }
}

/// A plan was made or revised.
pub fn ask_report_plan(run: RunId, plan: &Plan, cause: &Untrusted) -> pb::ReportPlanRequest {
    pb::ReportPlanRequest {
        run_id: run.to_string(),
        plan: Some(plan_out(plan)),
        cause: text(cause),
    }
}

/// For the run's record.
pub fn ask_say(run: RunId, words: &Untrusted) -> pb::SayRequest {
    pb::SayRequest {
        run_id: run.to_string(),
        text: text(words),
    }
}

/// Something that went wrong in a run, as its agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftReport {
    /// The agent's own id of it: reported again, it is the same report.
    pub id: DriftId,
    /// `LOOPING_TOOL_CALL`.
    pub kind: Untrusted,
    /// `info`, `warning`, `critical`.
    pub severity: Untrusted,
    /// What happened.
    pub detail: Untrusted,
    /// In which task; empty is the run itself.
    pub task: Untrusted,
}

/// Something went wrong.
pub fn ask_report_drift(run: RunId, drift: &DriftReport) -> pb::ReportDriftRequest {
    pb::ReportDriftRequest {
        run_id: run.to_string(),
        kind: text(&drift.kind),
        severity: text(&drift.severity),
        detail: text(&drift.detail),
        task_id: text(&drift.task),
        drift_id: drift.id.to_string(),
    }
}

/// What the run is told to do.
pub fn ask_controls(run: RunId) -> pb::ControlsRequest {
    let run_id = run.to_string();
    pb::ControlsRequest { run_id }
}

/// The agent takes an order, or does not; that there was no answer, no agent says.
pub fn ask_ack_control(
    run: RunId,
    control: &ControlId,
    result: AckResult,
    detail: &Untrusted,
) -> pb::AckControlRequest {
    let result = match result {
        AckResult::Success => pb::AckResult::Success,
        AckResult::Failure | AckResult::NoAnswer => pb::AckResult::Failure,
        AckResult::Unsupported => pb::AckResult::Unsupported,
    };
    pb::AckControlRequest {
        run_id: run.to_string(),
        control_id: control.to_string(),
        result: result as i32,
        detail: text(detail),
    }
}

/// A person has a run do something.
pub fn ask_control(order: &Order) -> pb::ControlRequest {
    let (kind, task_id) = verb_out(&order.verb);
    pb::ControlRequest {
        run_id: order.run.to_string(),
        kind,
        note: text(&order.note),
        control_id: order.id.to_string(),
        escalation_id: or_nothing(order.answers.as_ref()),
        task_id,
    }
}

/// A question to a human.
pub fn ask_file(run: RunId, filing: &Filing) -> pb::FileRequest {
    use pb::file_request::Subject;
    let deadline = filing.deadline.map(|after| pb::Deadline {
        after: Some(span_out(after)),
        on_deadline: filing.on_deadline.number(),
    });
    pb::FileRequest {
        run_id: run.to_string(),
        key: or_nothing(filing.key.as_ref()),
        target_id: text(&filing.target),
        step: text(&filing.step),
        subject: Some(subject_out(&filing.subject, Subject::Task, Subject::Tool)),
        title: text(&filing.title),
        detail: Some(detail_out(&filing.detail)),
        asks: filing.asks.number(),
        labels: labels_out(&filing.labels),
        deadline,
        hold: filing.hold.number(),
        risk: filing.risk.number(),
        votes: filing.votes.into(),
    }
}

/// How a question stands; with a waiter, the answer is waited for.
pub fn ask_await(
    id: ApprovalId,
    wait: Option<&WaitId>,
    patience: Option<Duration>,
) -> pb::AwaitRequest {
    pb::AwaitRequest {
        approval_id: id.to_string(),
        wait_id: or_nothing(wait),
        patience: patience.map(span_out),
    }
}

/// A question is taken back.
pub fn ask_withdraw(id: ApprovalId, reason: &Untrusted) -> pb::WithdrawRequest {
    pb::WithdrawRequest {
        approval_id: id.to_string(),
        reason: text(reason),
    }
}

/// May this call run?
pub fn ask_gate(run: RunId, filing: &Filing) -> pb::GateRequest {
    pb::GateRequest {
        call: Some(ask_file(run, filing)),
    }
}

/// Takes the decisions of a step.
pub fn ask_claim(
    run: RunId,
    step: &Untrusted,
    digests: &BTreeMap<Untrusted, Digest>,
    token: &ClaimToken,
) -> pb::ClaimRequest {
    let digests = digests.iter();
    pb::ClaimRequest {
        run_id: run.to_string(),
        step: text(step),
        digests: digests
            .map(|(target, digest)| (text(target), digest.to_string()))
            .collect(),
        token: token.to_string(),
    }
}

/// Gives them back.
pub fn ask_restore(run: RunId, step: &Untrusted, token: &ClaimToken) -> pb::RestoreRequest {
    pb::RestoreRequest {
        run_id: run.to_string(),
        step: text(step),
        token: token.to_string(),
    }
}

/// Whoever took a decision begins with it.
pub fn ask_report_started(id: ApprovalId, token: &ClaimToken) -> pb::ReportStartedRequest {
    pb::ReportStartedRequest {
        approval_id: id.to_string(),
        token: token.to_string(),
    }
}

/// What came of a decision.
pub fn ask_report_applied(
    id: ApprovalId,
    result: AppliedResult,
    detail: &Untrusted,
) -> pb::ReportAppliedRequest {
    pb::ReportAppliedRequest {
        approval_id: id.to_string(),
        result: result.number(),
        detail: text(detail),
    }
}

/// The agent of these runs is there.
pub fn ask_heartbeat(runs: &[RunId]) -> pb::HeartbeatRequest {
    let run_ids = runs.iter().map(RunId::to_string).collect();
    pb::HeartbeatRequest { run_ids }
}

/// A person answers. What the server adds to a decision stays here.
pub fn ask_decide(decide: &Decide) -> pb::DecideRequest {
    let answers = decide.answers.iter();
    pb::DecideRequest {
        id: decide.id.to_string(),
        verdict: decide.verdict.number(),
        digest: decide.digest.to_string(),
        decision_id: decide.decision.to_string(),
        answers: answers
            .map(|(name, answer)| (name.clone(), answer.clone()))
            .collect(),
        note: text(&decide.note),
        seen: decide.seen.number(),
        on_behalf_of: or_nothing(decide.on_behalf_of.as_ref()),
    }
}

/// A deadline is moved to `after` from now.
pub fn ask_extend(id: ApprovalId, after: Duration) -> pb::ExtendRequest {
    pb::ExtendRequest {
        id: id.to_string(),
        after: Some(span_out(after)),
    }
}

/// A card is taken away.
pub fn ask_dismiss(id: ApprovalId, note: &Untrusted) -> pb::DismissRequest {
    pb::DismissRequest {
        id: id.to_string(),
        note: text(note),
    }
}

/// One page of what is open.
pub fn ask_list(list: &ListWish) -> pb::ListRequest {
    pb::ListRequest {
        page_size: u32::try_from(list.limit).unwrap_or(u32::MAX),
        page_token: list.after.map(item_token_out).unwrap_or_default(),
        labels: labels_out(&list.labels),
        run: list.run.as_ref().map(text).unwrap_or_default(),
        session: list.session.as_ref().map(text).unwrap_or_default(),
    }
}

/// At most `limit` of what ended before the event `before`.
pub fn ask_history(limit: usize, before: Option<Seq>) -> pb::HistoryRequest {
    pb::HistoryRequest {
        page_size: u32::try_from(limit).unwrap_or(u32::MAX),
        page_token: or_nothing(before.as_ref()),
    }
}

/// One approval or escalation, whole.
pub fn ask_get(id: ItemId) -> pb::GetRequest {
    pb::GetRequest { id: id.to_string() }
}

/// A run, by our id or the agent's own, and its record after the event `after`.
pub fn ask_get_run(run: &Untrusted, after: Seq) -> pb::GetRunRequest {
    pb::GetRunRequest {
        run: text(run),
        after_seq: after,
    }
}

/// What came after this place in this log; without one, first what stands now.
pub fn ask_watch(after: Option<(&str, Seq)>) -> pb::WatchRequest {
    let after = after.map(|(epoch, seq)| cursor(epoch, seq));
    pb::WatchRequest { after }
}

/// Who we are to the server.
pub fn ask_whoami() -> pb::WhoamiRequest {
    pb::WhoamiRequest {}
}
