//! A goldfive agent made by hand, over the same wire: what is recorded nowhere (`wire/goldfive.md` §2) it says and does
//! as its test tells it.

use std::{net, time::Duration};

use pilothouse::wire::pb::{
    goldfive::v1::{
        ApprovalRequested, ControlAck, ControlAckResult, ControlEvent, ControlKind, DriftDetected,
        DriftKind, DriftSeverity, Event, LadderTransitionDecided, Plan, PlanRevised, PolicyApplied,
        RunAborted, RunCompleted, RunStarted, Task, TaskStarted, TaskTransitioned, control_event,
        event::Payload,
    },
    harmonograf::v1::{
        Capability, Framework, Hello, SubscribeControlRequest, TelemetryDown, TelemetryUp,
        harmonograf_client::HarmonografClient, telemetry_up::Msg,
    },
};
use prost::Message as _;
use tokio::sync::mpsc as queue;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Streaming, transport::Channel};

use crate::replay::connect;

/// Longer than anything on loopback takes, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent made by hand.
pub(crate) struct Agent {
    name: String,
    up: queue::UnboundedSender<TelemetryUp>,
    down: Streaming<TelemetryDown>,
    client: HarmonografClient<Channel>,
    socket: net::TcpStream,
}

impl Agent {
    /// Connects, and says nothing.
    pub(crate) async fn silent(endpoint: &str, name: &str) -> Self {
        let (channel, socket) = connect(endpoint).await;
        let mut client = HarmonografClient::new(channel);
        let (up, frames) = queue::unbounded_channel();
        let down = client.stream_telemetry(UnboundedReceiverStream::new(frames));
        let down = down.await.unwrap().into_inner();
        let name = name.into();
        Self {
            name,
            up,
            down,
            client,
            socket,
        }
    }

    /// Connects, and has been welcomed.
    pub(crate) async fn open(endpoint: &str, name: &str) -> Self {
        let mut agent = Self::silent(endpoint, name).await;
        agent.frame(Msg::Hello(Hello {
            agent_id: name.into(),
            session_id: "s".into(),
            name: "probe".into(),
            framework: Framework::Adk.into(),
            capabilities: vec![Capability::Steering.into(), 99],
            ..Default::default()
        }));
        agent.down.message().await.unwrap().unwrap();
        agent
    }

    pub(crate) fn frame(&self, msg: Msg) {
        self.up.send(TelemetryUp { msg: Some(msg) }).unwrap();
    }

    pub(crate) fn event(&self, run: &str, payload: Payload) -> Vec<u8> {
        let event = Event {
            run_id: run.into(),
            payload: Some(payload),
            ..Default::default()
        };
        let bytes = event.encode_to_vec();
        self.frame(Msg::GoldfiveEvent(bytes.clone()));
        bytes
    }

    pub(crate) fn begins(&self, run: &str) {
        self.event(run, Payload::RunStarted(RunStarted::default()));
    }

    pub(crate) fn asks(&self, run: &str, target: &str) {
        let asked = ApprovalRequested {
            target_id: target.into(),
            kind: "task".into(),
            prompt: format!("May I do {target}?"),
            task_id: target.into(),
            ..Default::default()
        };
        self.event(run, Payload::ApprovalRequested(asked));
    }

    pub(crate) fn plans(&self, run: &str, tasks: std::ops::Range<usize>, dry_run: bool) {
        let revised = PlanRevised {
            dry_run,
            ..plan(tasks)
        };
        self.event(run, Payload::PlanRevised(revised));
    }

    /// The plan that comes of a steer.
    pub(crate) fn plans_anew(&self, run: &str, revision: u32, cause: &str) {
        let revised = PlanRevised {
            revision_index: revision,
            trigger_event_id: cause.into(),
            ..plan(0..4)
        };
        self.event(run, Payload::PlanRevised(revised));
    }

    pub(crate) fn starts(&self, run: &str, task: &str, detail: &str) -> Vec<u8> {
        let started = TaskStarted {
            task_id: task.into(),
            detail: detail.into(),
        };
        self.event(run, Payload::TaskStarted(started))
    }

    pub(crate) fn rewinds(&self, run: &str, task: &str) {
        self.moves(run, task, "PENDING", "control_rewind");
    }

    /// A status that something else than the agent's own word moves.
    pub(crate) fn moves(&self, run: &str, task: &str, to: &str, source: &str) {
        let moved = TaskTransitioned {
            task_id: task.into(),
            from_status: "RUNNING".into(),
            to_status: to.into(),
            source: source.into(),
            ..Default::default()
        };
        self.event(run, Payload::TaskTransitioned(moved));
    }

    /// Kind and severity by their numbers, so that they may be ones that nobody knows.
    pub(crate) fn drifts(&self, run: &str, id: &str, (kind, severity): (i32, i32), detail: &str) {
        let drift = DriftDetected {
            id: id.into(),
            kind,
            severity,
            detail: detail.into(),
            current_task_id: "t1".into(),
            ..Default::default()
        };
        self.event(run, Payload::DriftDetected(drift));
    }

    /// What a run says when its ladder pauses it: the drift, its level, and the drift that it escalates to.
    pub(crate) fn escalates(&self, run: &str, id: &str) {
        let critical = DriftSeverity::Critical.into();
        let looping = (DriftKind::LoopingToolCall.into(), critical);
        self.drifts(run, id, looping, "the same search six times");
        self.levels(run, id, "pause_escalate");
        let intervention = (DriftKind::HumanInterventionRequired.into(), critical);
        let detail = "escalated from looping_tool_call: the same search six times";
        self.drifts(run, &format!("{id}-37"), intervention, detail);
    }

    pub(crate) fn levels(&self, run: &str, drift: &str, to: &str) {
        let level = LadderTransitionDecided {
            to_level: to.into(),
            drift_id: drift.into(),
            ..Default::default()
        };
        self.event(run, Payload::LadderTransitionDecided(level));
    }

    /// Its ladder changes nothing there.
    pub(crate) fn only_observes(&self, run: &str) {
        let policy = PolicyApplied {
            policy_name: "observation_only_gate".into(),
            outcome: "suppressed".into(),
            ..Default::default()
        };
        self.event(run, Payload::PolicyApplied(policy));
    }

    pub(crate) fn completes(&self, run: &str) {
        self.event(run, Payload::RunCompleted(RunCompleted::default()));
    }

    pub(crate) fn aborts(&self, run: &str, reason: &str) {
        let reason = reason.into();
        self.event(run, Payload::RunAborted(RunAborted { reason }));
    }

    pub(crate) fn acks(&self, control: &ControlEvent, result: ControlAckResult, detail: &str) {
        self.frame(Msg::ControlAck(ControlAck {
            control_id: control.id.clone(),
            result: result.into(),
            detail: detail.into(),
            ..Default::default()
        }));
    }

    /// Takes a control as goldfive's dispatcher does (§2.6), for the run that it is for.
    pub(crate) fn obeys(&self, run: &str, control: &ControlEvent) {
        use ControlAckResult::{Success, Unsupported};
        match (control.kind(), &control.payload) {
            (ControlKind::Pause, None) => self.acks(control, Success, "paused"),
            (ControlKind::Resume, None) => self.acks(control, Success, "resumed"),
            (ControlKind::Cancel, None) => {
                self.acks(control, Success, "cancel acknowledged");
                self.aborts(run, "cancelled by control");
            }
            (ControlKind::Steer, Some(control_event::Payload::Steer(steer))) => {
                self.acks(control, Success, "steer queued");
                self.plans_anew(run, 2, &steer.annotation_id);
            }
            (ControlKind::RewindTo, Some(control_event::Payload::Rewind(rewind))) => {
                let task = &rewind.task_id;
                self.acks(control, Success, &format!("rewound to {task}"));
                self.rewinds(run, task);
            }
            (ControlKind::StatusQuery, None) => {
                let id = &control.id;
                let said = "current_task=t1 completed=0/2 pending=t1";
                self.acks(
                    control,
                    Success,
                    &format!("status_query control_id={id} {said}"),
                );
            }
            (kind, _) => {
                let said = format!("unsupported control kind: '{}'", kind.as_str_name());
                self.acks(control, Unsupported, &said);
            }
        }
    }

    pub(crate) async fn subscribes(&mut self) -> Streaming<ControlEvent> {
        self.subscribes_for("s").await
    }

    pub(crate) async fn subscribes_for(&mut self, session: &str) -> Streaming<ControlEvent> {
        let request = SubscribeControlRequest {
            session_id: session.into(),
            agent_id: self.name.clone(),
            stream_id: "str".into(),
        };
        let controls = self.client.subscribe_control(request).await;
        controls.unwrap().into_inner()
    }

    /// Leaves, and has been let go.
    pub(crate) async fn leaves(mut self) {
        drop(self.up);
        while let Ok(Some(_)) = self.down.message().await {}
    }

    /// Ends as the death of its process does.
    pub(crate) fn kill(self) {
        self.socket.shutdown(net::Shutdown::Both).unwrap();
    }
}

fn plan(tasks: std::ops::Range<usize>) -> PlanRevised {
    let task = |n: usize| Task {
        id: format!("t{n}"),
        ..Default::default()
    };
    PlanRevised {
        plan: Some(Plan {
            tasks: tasks.map(task).collect(),
            ..Default::default()
        }),
        revision_index: 1,
        ..Default::default()
    }
}

pub(crate) async fn next(controls: &mut Streaming<ControlEvent>) -> ControlEvent {
    let next = tokio::time::timeout(PATIENCE, controls.message());
    next.await.expect("a control in time").unwrap().unwrap()
}
