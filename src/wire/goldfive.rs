//! The wire of goldfive and harmonograf: frames of an agent to plain facts, and wishes of an operator to controls.
//!
//! Invariant: nothing is read as what it is not. A payload, kind or word that is newer than our schema stays
//! unknown, and what goes out is one of the kinds that every peer knows: a peer carries out any other as PAUSE.
//!
//! Every `String` in here that came from an agent is foreign text, not yet fit to be drawn.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::Timestamp;

use super::pb::goldfive::v1::{self as gf, control_event, event::Payload};
use super::pb::harmonograf::v1::{
    self as hg, TelemetryDown, TelemetryUp, telemetry_down, telemetry_up::Msg,
};

/// One frame of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The agent names itself; its first frame.
    Hello(Hello),
    /// Something happened in a run.
    Event(Box<Envelope>),
    /// The agent took a control, or did not.
    Ack {
        /// Which control.
        control_id: String,
        /// How it ended.
        result: AckResult,
        /// Why, or a note.
        detail: String,
    },
    /// The agent lives; every five seconds.
    Heartbeat {
        /// Events that wait in the agent.
        buffered_events: i64,
        /// Events that the agent has lost since it began: questions may be among them.
        dropped_events: i64,
    },
    /// The agent leaves on purpose.
    Goodbye {
        /// Its words.
        reason: String,
    },
    /// An event that cannot be read; the stream goes on.
    Unreadable(Unreadable),
    /// A frame the door has no use for, by the name of its field; "unknown" if it is newer than our schema.
    Other(&'static str),
}

/// Who an agent says it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello {
    /// Where its controls go; the same after a restart of the agent.
    pub agent_id: String,
    /// The session of every event on this stream that names none.
    pub session_id: String,
    /// What people call it.
    pub name: String,
    /// CUSTOM or ADK.
    pub framework: Word,
    /// Of the framework.
    pub framework_version: String,
    /// What it can be told, such as STEERING.
    pub capabilities: Vec<Word>,
    /// What else it says.
    pub metadata: BTreeMap<String, String>,
    /// What people call the session.
    pub session_title: String,
}

/// A number of one of their enums, and its name where we know one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// As it came.
    pub number: i32,
    /// Without the prefix of its enum, such as `HUMAN_INTERVENTION_REQUIRED`; none if newer than our schema.
    pub name: Option<&'static str>,
}

/// How a control ended, in the words of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckResult {
    /// It was taken; its effect is told by an event.
    Success,
    /// It was refused.
    Failure,
    /// The agent cannot do this.
    Unsupported,
    /// The agent did not say, or in a way we do not know.
    Unknown(i32),
}

/// One event, with what every event has.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The same for the same event sent twice. Empty with old producers.
    pub event_id: String,
    /// The run it is about.
    pub run_id: String,
    /// From 0 without gaps per run; a new turn may begin at 0 again.
    pub sequence: u64,
    /// Empty means the session of the stream's hello.
    pub session_id: String,
    /// The agent's clock, Unix time in milliseconds; none if it said none, or one that is no time.
    pub emitted_at_ms: Option<i64>,
    /// What happened.
    pub what: What,
    /// The event as it came, also what our schema has no name for.
    pub raw: Vec<u8>,
}

/// Bytes that should have been an event.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not an event: {why}")]
pub struct Unreadable {
    /// What the decoder says.
    pub why: prost::DecodeError,
    /// As they came.
    pub raw: Vec<u8>,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// It began.
    RunStarted {
        /// What it is for.
        goal: String,
    },
    /// It came to its end.
    RunCompleted {
        /// What came of it.
        summary: String,
    },
    /// It was ended.
    RunAborted {
        /// Why; names the escalation, if one was behind it.
        reason: String,
    },
    /// It has a new plan.
    Plan(Plan),
    /// One of its tasks changed.
    Task {
        /// Which.
        task_id: String,
        /// How.
        step: TaskStep,
    },
    /// A human must decide.
    ApprovalRequested(Request),
    /// Somebody approved; may come again, and after a rejection.
    Granted {
        /// What was asked about.
        target_id: String,
        /// The words that went with it.
        detail: String,
    },
    /// Somebody rejected.
    Rejected {
        /// What was asked about.
        target_id: String,
        /// The words that went with it.
        detail: String,
    },
    /// It left its path.
    Drift(Drift),
    /// How strongly a drift is answered.
    Ladder {
        /// Such as `pause_escalate`.
        to_level: String,
        /// Why.
        reason: String,
        /// The full name of the drift's kind.
        drift_kind: String,
        /// The `id` of the drift.
        drift_id: String,
        /// The full name of the drift's severity.
        severity: String,
    },
    /// A rule let something pass or stopped it; `observation_only_gate`, `suppressed`: the run only observes.
    Policy {
        /// Which rule.
        name: String,
        /// `applied`, `skipped` or `suppressed`.
        outcome: String,
        /// Why.
        reason: String,
        /// What about.
        detail: String,
    },
    /// An invocation was left. With `terminal_drift:…` the turn is over, and no other event says so.
    BoundaryExited {
        /// Of whom.
        agent_name: String,
        /// In which task.
        task_id: String,
        /// `completed`, `cancelled`, `error:…` or `terminal_drift:…`.
        reason: String,
    },
    /// A payload the door has no use for, by the name of its field.
    Other(&'static str),
    /// A payload that is newer than our schema, or none at all.
    Unknown,
}

/// A whole plan; it replaces the one before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its tasks in order; none if the event held no plan.
    pub tasks: Option<Vec<PlannedTask>>,
    /// Live runs begin with 1.
    pub revision: u32,
    /// Why it was revised.
    pub reason: String,
    /// The drift, or the annotation id of the steer, that led to it.
    pub trigger_event_id: String,
    /// Whether the run follows it.
    pub force: Force,
}

/// Whether a run follows a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// It does.
    InForce,
    /// It was only worked out: the run observes.
    DryRun,
}

/// One task of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTask {
    /// Unique in the plan.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// Such as BLOCKED.
    pub status: Word,
}

/// How a task changed.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// Work on it began.
    Started {
        /// A note.
        detail: String,
    },
    /// It goes on.
    Progress {
        /// 0 to 1, if the agent keeps to that.
        fraction: f32,
        /// A note.
        detail: String,
    },
    /// It is done.
    Completed {
        /// What came of it.
        summary: String,
    },
    /// It failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// It cannot go on.
    Blocked {
        /// `awaiting_approval` where a human is asked.
        blocker: String,
        /// What it takes; with an approval, the prompt.
        needed: String,
    },
    /// It will not be done.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// Its status was set by something else than its agent.
    Moved {
        /// The word of a status, such as `RUNNING`.
        from: String,
        /// The word of a status.
        to: String,
        /// Who moved it, such as `control_rewind`.
        source: String,
    },
}

/// A question to a human.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Unique among what is open in one session of one agent.
    pub target_id: String,
    /// What is asked about.
    pub kind: Asked,
    /// What the agent says.
    pub prompt: String,
    /// The task it belongs to.
    pub task_id: String,
    /// What else came with it, `tool_name` and `args_json` of a tool included.
    pub metadata: BTreeMap<String, String>,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Going on with a task.
    Task,
    /// Calling a tool.
    Tool {
        /// Its name; empty if the agent gave none.
        name: String,
        /// The bytes as filed; empty if the agent gave none.
        args_json: Vec<u8>,
    },
    /// Something else, in the agent's word.
    Unknown(String),
}

/// How a run left its path.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// New with every report.
    pub id: String,
    /// The same in all reports of one condition.
    pub condition_id: String,
    /// Such as `HUMAN_INTERVENTION_REQUIRED`, which alone does not mean that the run waits.
    pub kind: Word,
    /// INFO, WARNING or CRITICAL.
    pub severity: Word,
    /// Where the condition stands.
    pub lifecycle: Word,
    /// What happened.
    pub detail: String,
    /// In which task.
    pub task_id: String,
    /// In which agent, as `<agent id>:<name>`.
    pub agent_id: String,
    /// The steer behind it, if there is one.
    pub annotation_id: String,
    /// `user`, `goldfive` or empty.
    pub authored_by: String,
}

/// What an operator wants of an agent. There is no wish for the kinds that goldfive sends to itself, nor for the
/// one that it never carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Let it go on.
    Approve {
        /// As the request says.
        target_id: String,
        /// The operator's words.
        detail: String,
    },
    /// Do not.
    Reject {
        /// As the request says.
        target_id: String,
        /// The operator's words.
        detail: String,
    },
    /// Stop before the next task.
    Pause,
    /// Go on.
    Resume,
    /// Abort the run.
    Cancel,
    /// Plan anew with this in mind.
    Steer {
        /// At most 8192 bytes, not empty, no control characters: this is not checked here.
        note: String,
        /// Empty if there is none.
        suggested_action: String,
        /// Who steers.
        author: String,
        /// A second steer with the same id is ignored.
        annotation_id: String,
    },
    /// Do this task, and all that follow it, once more.
    Rewind {
        /// The task.
        task_id: String,
    },
    /// Say where you are; changes nothing.
    StatusQuery,
}

/// What a frame says.
pub fn frame(up: TelemetryUp) -> Frame {
    match up.msg {
        Some(Msg::Hello(hello)) => Frame::Hello(self::hello(hello)),
        Some(Msg::GoldfiveEvent(raw)) => event(raw),
        Some(Msg::ControlAck(ack)) => self::ack(ack),
        Some(Msg::Heartbeat(beat)) => heartbeat(&beat),
        Some(Msg::Goodbye(goodbye)) => Frame::Goodbye {
            reason: goodbye.reason,
        },
        Some(Msg::SpanStart(_)) => Frame::Other("span_start"),
        Some(Msg::SpanUpdate(_)) => Frame::Other("span_update"),
        Some(Msg::SpanEnd(_)) => Frame::Other("span_end"),
        Some(Msg::Payload(_)) => Frame::Other("payload"),
        Some(Msg::RefineAttempted(_)) => Frame::Other("refine_attempted"),
        Some(Msg::RefineFailed(_)) => Frame::Other("refine_failed"),
        Some(Msg::UserMessage(_)) => Frame::Other("user_message"),
        None => Frame::Other("unknown"),
    }
}

/// What an event says; the bytes are kept beside it.
///
/// # Errors
/// If they are no `goldfive.v1.Event`.
pub fn envelope(raw: Vec<u8>) -> Result<Envelope, Unreadable> {
    let event = match gf::Event::decode(raw.as_slice()) {
        Ok(event) => event,
        Err(why) => return Err(Unreadable { why, raw }),
    };
    Ok(Envelope {
        event_id: event.event_id,
        run_id: event.run_id,
        sequence: event.sequence,
        session_id: event.session_id,
        emitted_at_ms: event.emitted_at.and_then(millis),
        what: event.payload.map_or(What::Unknown, what),
        raw,
    })
}

/// The control that carries a decision to the agent that asked.
pub fn answer(
    control_id: &str,
    agent_id: &str,
    target_id: &str,
    approve: bool,
    detail: &str,
    issued_at_ms: i64,
) -> gf::ControlEvent {
    let (target_id, detail) = (target_id.to_owned(), detail.to_owned());
    let wish = match approve {
        true => Wish::Approve { target_id, detail },
        false => Wish::Reject { target_id, detail },
    };
    control(control_id, agent_id, wish, issued_at_ms)
}

/// The control that carries a wish; its payload always belongs to its kind.
pub fn control(
    control_id: &str,
    agent_id: &str,
    wish: Wish,
    issued_at_ms: i64,
) -> gf::ControlEvent {
    let (kind, payload) = kind_and_payload(wish);
    gf::ControlEvent {
        id: control_id.to_owned(),
        issued_at: Some(timestamp(issued_at_ms)),
        target: Some(gf::ControlTarget {
            agent_id: agent_id.to_owned(),
            ..Default::default()
        }),
        kind: kind.into(),
        payload,
    }
}

/// The answer to a hello: the agent subscribes to its controls under this stream id.
pub fn welcome(session: &str, stream: &str, now_ms: i64) -> TelemetryDown {
    let welcome = hg::Welcome {
        accepted: true,
        assigned_session_id: session.to_owned(),
        assigned_stream_id: stream.to_owned(),
        server_time: Some(timestamp(now_ms)),
        ..Default::default()
    };
    TelemetryDown {
        msg: Some(telemetry_down::Msg::Welcome(welcome)),
    }
}

/// What an agent wants to be told, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Who.
    pub agent_id: String,
    /// Of which session.
    pub session_id: String,
    /// On which stream: that of the welcome, or one that adds its session to it.
    pub stream_id: String,
}

/// Reads a subscription.
pub fn subscription(request: hg::SubscribeControlRequest) -> Subscription {
    Subscription {
        agent_id: request.agent_id,
        session_id: request.session_id,
        stream_id: request.stream_id,
    }
}

fn kind_and_payload(wish: Wish) -> (gf::ControlKind, Option<control_event::Payload>) {
    use control_event::Payload as P;
    use gf::ControlKind as K;
    match wish {
        Wish::Approve { target_id, detail } => (
            K::Approve,
            Some(P::Approve(gf::ApprovePayload { target_id, detail })),
        ),
        Wish::Reject { target_id, detail } => (
            K::Reject,
            Some(P::Reject(gf::RejectPayload { target_id, detail })),
        ),
        Wish::Pause => (K::Pause, None),
        Wish::Resume => (K::Resume, None),
        Wish::Cancel => (K::Cancel, None),
        Wish::Steer {
            note,
            suggested_action,
            author,
            annotation_id,
        } => {
            let steer = gf::SteerPayload {
                note,
                suggested_action,
                author,
                annotation_id,
            };
            (K::Steer, Some(P::Steer(steer)))
        }
        Wish::Rewind { task_id } => (K::RewindTo, Some(P::Rewind(gf::RewindPayload { task_id }))),
        Wish::StatusQuery => (K::StatusQuery, None),
    }
}

fn event(raw: Vec<u8>) -> Frame {
    match envelope(raw) {
        Ok(envelope) => Frame::Event(Box::new(envelope)),
        Err(unreadable) => Frame::Unreadable(unreadable),
    }
}

fn hello(hello: hg::Hello) -> Hello {
    Hello {
        agent_id: hello.agent_id,
        session_id: hello.session_id,
        name: hello.name,
        framework: framework(hello.framework),
        framework_version: hello.framework_version,
        capabilities: hello.capabilities.into_iter().map(capability).collect(),
        metadata: hello.metadata,
        session_title: hello.session_title,
    }
}

fn ack(ack: gf::ControlAck) -> Frame {
    Frame::Ack {
        control_id: ack.control_id,
        result: ack_result(ack.result),
        detail: ack.detail,
    }
}

fn ack_result(number: i32) -> AckResult {
    match gf::ControlAckResult::try_from(number) {
        Ok(gf::ControlAckResult::Success) => AckResult::Success,
        Ok(gf::ControlAckResult::Failure) => AckResult::Failure,
        Ok(gf::ControlAckResult::Unsupported) => AckResult::Unsupported,
        Ok(gf::ControlAckResult::Unspecified) | Err(_) => AckResult::Unknown(number),
    }
}

fn heartbeat(beat: &hg::Heartbeat) -> Frame {
    Frame::Heartbeat {
        buffered_events: beat.buffered_events,
        dropped_events: beat.dropped_events,
    }
}

fn what(payload: Payload) -> What {
    match payload {
        Payload::RunStarted(run) => What::RunStarted {
            goal: run.goal_summary,
        },
        Payload::RunCompleted(run) => What::RunCompleted {
            summary: run.outcome_summary,
        },
        Payload::RunAborted(run) => What::RunAborted { reason: run.reason },
        Payload::PlanSubmitted(plan) => What::Plan(first_plan(plan)),
        Payload::PlanRevised(plan) => What::Plan(revised_plan(plan)),
        Payload::TaskStarted(t) => task(t.task_id, TaskStep::Started { detail: t.detail }),
        Payload::TaskProgress(t) => task(
            t.task_id,
            TaskStep::Progress {
                fraction: t.fraction,
                detail: t.detail,
            },
        ),
        Payload::TaskCompleted(t) => task(t.task_id, TaskStep::Completed { summary: t.summary }),
        Payload::TaskFailed(t) => task(t.task_id, TaskStep::Failed { reason: t.reason }),
        Payload::TaskBlocked(t) => task(
            t.task_id,
            TaskStep::Blocked {
                blocker: t.blocker,
                needed: t.needed,
            },
        ),
        Payload::TaskCancelled(t) => task(t.task_id, TaskStep::Cancelled { reason: t.reason }),
        Payload::TaskTransitioned(t) => task(
            t.task_id,
            TaskStep::Moved {
                from: t.from_status,
                to: t.to_status,
                source: t.source,
            },
        ),
        Payload::ApprovalRequested(asked) => What::ApprovalRequested(request(asked)),
        Payload::ApprovalGranted(a) => What::Granted {
            target_id: a.target_id,
            detail: a.detail,
        },
        Payload::ApprovalRejected(a) => What::Rejected {
            target_id: a.target_id,
            detail: a.detail,
        },
        Payload::DriftDetected(drift) => What::Drift(self::drift(drift)),
        Payload::LadderTransitionDecided(l) => What::Ladder {
            to_level: l.to_level,
            reason: l.reason,
            drift_kind: l.drift_kind,
            drift_id: l.drift_id,
            severity: l.severity,
        },
        Payload::PolicyApplied(p) => What::Policy {
            name: p.policy_name,
            outcome: p.outcome,
            reason: p.reason,
            detail: p.detail,
        },
        Payload::InvocationBoundaryExited(b) => What::BoundaryExited {
            agent_name: b.agent_name,
            task_id: b.task_id,
            reason: b.reason,
        },
        Payload::GoalDerived(_) => What::Other("goal_derived"),
        Payload::ConversationStarted(_) => What::Other("conversation_started"),
        Payload::ConversationEnded(_) => What::Other("conversation_ended"),
        Payload::AgentInvocationStarted(_) => What::Other("agent_invocation_started"),
        Payload::AgentInvocationCompleted(_) => What::Other("agent_invocation_completed"),
        Payload::DelegationObserved(_) => What::Other("delegation_observed"),
        Payload::ReasoningJudgeInvoked(_) => What::Other("reasoning_judge_invoked"),
        Payload::GoldfiveLlmCallStart(_) => What::Other("goldfive_llm_call_start"),
        Payload::GoldfiveLlmCallEnd(_) => What::Other("goldfive_llm_call_end"),
        Payload::InvocationCancelled(_) => What::Other("invocation_cancelled"),
        Payload::TaskTransitionRefused(_) => What::Other("task_transition_refused"),
        Payload::InvocationBoundaryEntered(_) => What::Other("invocation_boundary_entered"),
        Payload::SteeringDecisionMade(_) => What::Other("steering_decision_made"),
        Payload::DetectorDispatchOrdered(_) => What::Other("detector_dispatch_ordered"),
        Payload::RetryBudgetSpent(_) => What::Other("retry_budget_spent"),
        Payload::JudgementEmitted(_) => What::Other("judgement_emitted"),
        Payload::SignalDelivered(_) => What::Other("signal_delivered"),
        Payload::SignalOutcome(_) => What::Other("signal_outcome"),
    }
}

fn task(task_id: String, step: TaskStep) -> What {
    What::Task { task_id, step }
}

fn first_plan(submitted: gf::PlanSubmitted) -> Plan {
    revised_plan(gf::PlanRevised {
        revision_index: submitted
            .plan
            .as_ref()
            .map_or(0, |plan| plan.revision_index),
        reason: submitted
            .plan
            .as_ref()
            .map_or_else(String::new, |plan| plan.revision_reason.clone()),
        plan: submitted.plan,
        ..Default::default()
    })
}

fn revised_plan(revised: gf::PlanRevised) -> Plan {
    let plan = revised.plan.as_ref();
    let trigger_event_id = match revised.trigger_event_id.is_empty() {
        true => plan.map_or_else(String::new, |plan| plan.revision_trigger_event_id.clone()),
        false => revised.trigger_event_id,
    };
    Plan {
        tasks: revised
            .plan
            .map(|plan| plan.tasks.into_iter().map(planned).collect()),
        revision: revised.revision_index,
        reason: revised.reason,
        trigger_event_id,
        force: if revised.dry_run {
            Force::DryRun
        } else {
            Force::InForce
        },
    }
}

fn planned(task: gf::Task) -> PlannedTask {
    PlannedTask {
        id: task.id,
        title: task.title,
        status: task_status(task.status),
    }
}

fn request(asked: gf::ApprovalRequested) -> Request {
    let said = |key: &str| asked.metadata.get(key).cloned().unwrap_or_default();
    let kind = match asked.kind.as_str() {
        "task" => Asked::Task,
        "tool" => Asked::Tool {
            name: said("tool_name"),
            args_json: said("args_json").into_bytes(),
        },
        other => Asked::Unknown(other.to_owned()),
    };
    Request {
        target_id: asked.target_id,
        kind,
        prompt: asked.prompt,
        task_id: asked.task_id,
        metadata: asked.metadata,
    }
}

fn drift(drift: gf::DriftDetected) -> Drift {
    Drift {
        id: drift.id,
        condition_id: drift.condition_id,
        kind: drift_kind(drift.kind),
        severity: drift_severity(drift.severity),
        lifecycle: drift_lifecycle(drift.lifecycle),
        detail: drift.detail,
        task_id: drift.current_task_id,
        agent_id: drift.current_agent_id,
        annotation_id: drift.annotation_id,
        authored_by: drift.authored_by,
    }
}

fn framework(number: i32) -> Word {
    word(
        number,
        hg::Framework::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "FRAMEWORK_",
    )
}

fn capability(number: i32) -> Word {
    word(
        number,
        hg::Capability::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "CAPABILITY_",
    )
}

fn task_status(number: i32) -> Word {
    word(
        number,
        gf::TaskStatus::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "TASK_STATUS_",
    )
}

fn drift_kind(number: i32) -> Word {
    word(
        number,
        gf::DriftKind::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "DRIFT_KIND_",
    )
}

fn drift_severity(number: i32) -> Word {
    word(
        number,
        gf::DriftSeverity::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "DRIFT_SEVERITY_",
    )
}

fn drift_lifecycle(number: i32) -> Word {
    word(
        number,
        gf::DriftLifecycle::try_from(number)
            .ok()
            .map(|it| it.as_str_name()),
        "DRIFT_LIFECYCLE_",
    )
}

fn word(number: i32, full: Option<&'static str>, prefix: &str) -> Word {
    Word {
        number,
        name: full.map(|full| full.strip_prefix(prefix).unwrap_or(full)),
    }
}

fn millis(at: Timestamp) -> Option<i64> {
    let within = (0..1_000_000_000)
        .contains(&at.nanos)
        .then_some(i64::from(at.nanos) / 1_000_000)?;
    at.seconds.checked_mul(1000)?.checked_add(within)
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp {
        seconds: ms.div_euclid(1000),
        nanos: (ms.rem_euclid(1000) * 1_000_000) as i32,
    }
}
