//! Requests of agents, read at the server's door.

use std::time::Duration;

use registry::{
    ApprovalId, EscalationId, Name, Principal, Refusal, RunId, Timestamp, Untrusted, Wish,
    approval::{Filing, title_for},
    command::{Ack, AckResult, Ending, File, GiveBack, OpenRun, Raise, ReportDrift, TakeStep},
    drift::{Drift, Kind, Severity},
    names::{ClaimToken, ControlId, DriftId, Key, WaitId},
    run::{RunKey, Source},
};
use serde::de::IgnoredAny;

use super::{
    Garbled, detail_of, labels_of, missing, pb, plan_of, said, span_of, task_state, task_subject,
    tool_subject, unknown, word, word_or_default,
};

const DEADLINE_BOUNDS: &str = "a deadline is between 1 minute and 30 days";

/// The run gets `id` if it is new. Its tenant is that of `by`, whatever the request says.
///
/// # Errors
/// [`Refusal::NotYours`] for another tenant, [`Refusal::Invalid`] for what cannot be read.
pub fn open_run(req: pb::OpenRunRequest, by: &Principal, id: RunId) -> Result<Wish, Refusal> {
    let owner = said(&req.user, Name::parse)?;
    let parent = said(&req.parent_run_id, str::parse)?;
    let context = json_or_nothing(req.context)?;
    if !req.tenant.is_empty() && req.tenant != by.tenant().as_str() {
        return Err(Refusal::NotYours("the tenant comes from the credential"));
    }
    let source = match req.detached {
        true => Source::Cli,
        false => Source::Native,
    };
    Ok(Wish::OpenRun(OpenRun {
        id,
        key: RunKey {
            tenant: by.tenant().clone(),
            source,
            agent: req.agent.into(),
            session: req.session.into(),
            invocation: req.invocation.into(),
        },
        project: req.project.into(),
        thread: req.thread.into(),
        origin: req.origin.into(),
        owner,
        parent,
        can_resume: req.can_resume,
        context,
    }))
}

fn json_or_nothing(text: String) -> Result<Untrusted, Refusal> {
    if !text.is_empty() {
        serde_json::from_str::<IgnoredAny>(&text)
            .map_err(|error| Refusal::Invalid(format!("the context is not JSON: {error}")))?;
    }
    Ok(text.into())
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read, also if it does not say how the run ends.
pub fn end_run(req: pb::EndRunRequest) -> Result<Wish, Refusal> {
    use pb::end_run_request::How;
    let how = match req.how.ok_or_else(|| missing("how it ends"))? {
        How::Ended(end) => Ending::Over(word(end)?),
        How::Paused(kind) => Ending::Paused(word(kind)?),
    };
    Ok(Wish::EndRun {
        run: req.run_id.parse()?,
        how,
        reason: req.reason.into(),
    })
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn report_task(req: pb::ReportTaskRequest) -> Result<Wish, Refusal> {
    let run = req.run_id.parse()?;
    let task = req.task.ok_or_else(|| missing("the task"))?;
    named(&task)?;
    Ok(Wish::ReportTask {
        run,
        state: task_state(&task)?,
        task: task.id.into(),
        title: task.title.into(),
        detail: task.detail.into(),
    })
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn report_plan(req: pb::ReportPlanRequest) -> Result<Wish, Refusal> {
    let run = req.run_id.parse()?;
    let plan = req.plan.ok_or_else(|| missing("the plan"))?;
    plan.tasks.iter().try_for_each(named)?;
    Ok(Wish::ReportPlan {
        run,
        plan: plan_of(plan)?,
        cause: req.cause.into(),
    })
}

/// The empty id means the run itself, which is no task.
fn named(task: &pb::Task) -> Result<(), Refusal> {
    match task.id.as_str() {
        "" => Err(missing("the id of a task").into()),
        _ => Ok(()),
    }
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn say(req: pb::SayRequest) -> Result<Wish, Refusal> {
    Ok(Wish::Say {
        run: req.run_id.parse()?,
        text: req.text.into(),
    })
}

/// The ids that a drift, and the escalation that it may come to, get.
#[derive(Clone, Debug)]
pub struct DriftIds {
    /// Of the drift itself, where its agent gives none.
    pub drift: DriftId,
    /// Of all else.
    pub raise: Raise,
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn report_drift(req: pb::ReportDriftRequest, ids: DriftIds) -> Result<Wish, Refusal> {
    let own = said(&req.drift_id, DriftId::parse)?;
    Ok(Wish::ReportDrift(Box::new(ReportDrift {
        run: req.run_id.parse()?,
        drift: Drift {
            id: own.unwrap_or(ids.drift),
            kind: Kind::of(&req.kind),
            severity: Severity::of(&req.severity),
            detail: req.detail.into(),
            task: req.task_id.into(),
            level: None,
            from: None,
            at: Timestamp::default(),
        },
        raise: ids.raise,
    })))
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn controls(req: pb::ControlsRequest) -> Result<RunId, Refusal> {
    req.run_id.parse()
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn ack_control(req: pb::AckControlRequest, raise: EscalationId) -> Result<Wish, Refusal> {
    let result = match pb::AckResult::try_from(req.result) {
        Ok(pb::AckResult::Success) => AckResult::Success,
        Ok(pb::AckResult::Failure) => AckResult::Failure,
        Ok(pb::AckResult::Unsupported) => AckResult::Unsupported,
        Ok(pb::AckResult::Unspecified) | Err(_) => {
            return Err(unknown("the result of the ack", req.result).into());
        }
    };
    Ok(Wish::Ack(Box::new(Ack {
        run: req.run_id.parse()?,
        control: ControlId::parse(&req.control_id)?,
        result,
        detail: req.detail.into(),
        raise,
    })))
}

/// The approval gets `id` if it is new. Of sizes and times the registry judges.
///
/// # Errors
/// [`Refusal::Invalid`] for what cannot be read, also if nobody is asked or the form cannot be answered.
pub fn file(req: pb::FileRequest, id: ApprovalId) -> Result<Wish, Refusal> {
    use pb::file_request::Subject::{Task, Tool};
    let run = req.run_id.parse()?;
    let subject = match req.subject.ok_or_else(|| missing("the task or tool"))? {
        Task(task) => task_subject(task),
        Tool(tool) => tool_subject(tool),
    };
    let detail = detail_of(req.detail.unwrap_or_default())?;
    let title = match req.title.as_str() {
        "" => title_for(&subject, &detail.prompt),
        title => title.into(),
    };
    let (deadline, on_deadline) = match req.deadline {
        None => (None, Default::default()),
        Some(deadline) => {
            let after = deadline
                .after
                .ok_or_else(|| missing("the deadline's length"))?;
            // Both bounds are named, as for one that is a length of time and outside of them.
            let after = span_of("the deadline", after)
                .map_err(|garbled| Garbled(format!("{}: {DEADLINE_BOUNDS}", garbled.0)))?;
            (Some(after), word_or_default(deadline.on_deadline)?)
        }
    };
    let filing = Filing {
        key: said(&req.key, Key::parse)?,
        target: req.target_id.into(),
        step: req.step.into(),
        subject,
        title,
        detail,
        asks: word(req.asks)?,
        labels: labels_of(req.labels),
        deadline,
        on_deadline,
        hold: word_or_default(req.hold)?,
        risk: word_or_default(req.risk)?,
        votes: u8::try_from(req.votes).unwrap_or(u8::MAX),
    };
    Ok(Wish::File(Box::new(File {
        id,
        run,
        filing,
        past: None,
    })))
}

/// A call that is about to run: the question that it may come to. Who is asked is the rule's to say.
///
/// # Errors
/// As [`file()`].
pub fn gate(req: pb::GateRequest, id: ApprovalId) -> Result<File, Refusal> {
    let mut call = req.call.ok_or_else(|| missing("the call"))?;
    call.asks = pb::Asks::Operator.into();
    call.deadline = None;
    call.hold = pb::Hold::Thread.into();
    match file(call, id)? {
        Wish::File(file) => Ok(*file),
        _ => Err(missing("the call").into()),
    }
}

/// A waiter, or a look without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitWish {
    /// What it waits for.
    pub id: ApprovalId,
    /// Which waiter; none is a poll.
    pub wait: Option<WaitId>,
    /// How long it waits in all; none where it does not say.
    pub patience: Option<Duration>,
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn await_(req: pb::AwaitRequest) -> Result<AwaitWish, Refusal> {
    let patience = req.patience.map(|span| span_of("the patience", span));
    Ok(AwaitWish {
        id: req.approval_id.parse()?,
        wait: said(&req.wait_id, WaitId::parse)?,
        patience: patience.transpose()?,
    })
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn withdraw(req: pb::WithdrawRequest) -> Result<Wish, Refusal> {
    Ok(Wish::Withdraw {
        id: req.approval_id.parse()?,
        reason: req.reason.into(),
        past: None,
    })
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn report_applied(req: pb::ReportAppliedRequest) -> Result<Wish, Refusal> {
    Ok(Wish::ReportApplied {
        id: req.approval_id.parse()?,
        result: word(req.result)?,
        detail: req.detail.into(),
        past: None,
    })
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn claim(req: pb::ClaimRequest) -> Result<Wish, Refusal> {
    let digest = |(target, digest): (String, String)| {
        let read = digest.parse().map_err(|error| {
            let target = Untrusted::new(target.clone());
            Refusal::Invalid(format!("the digest of '{}': {error}", target.line()))
        })?;
        Ok((target.into(), read))
    };
    let digests = req.digests.into_iter().map(digest);
    Ok(Wish::Claim(Box::new(TakeStep {
        run: req.run_id.parse()?,
        step: req.step.into(),
        digests: digests.collect::<Result<_, Refusal>>()?,
        token: ClaimToken::parse(&req.token)?,
        past: Vec::new(),
    })))
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn restore(req: pb::RestoreRequest) -> Result<Wish, Refusal> {
    Ok(Wish::Restore(Box::new(GiveBack {
        run: req.run_id.parse()?,
        step: req.step.into(),
        token: ClaimToken::parse(&req.token)?,
        past: Vec::new(),
    })))
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn report_started(req: pb::ReportStartedRequest) -> Result<Wish, Refusal> {
    Ok(Wish::ReportStarted {
        id: req.approval_id.parse()?,
        token: ClaimToken::parse(&req.token)?,
        past: None,
    })
}

/// The runs whose agent is there.
///
/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn heartbeat(req: pb::HeartbeatRequest) -> Result<Vec<RunId>, Refusal> {
    req.run_ids.iter().map(|id| id.parse()).collect()
}
