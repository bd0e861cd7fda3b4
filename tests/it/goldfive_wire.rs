//! Our schema of goldfive and harmonograf against bytes that others made.

use pilothouse::wire::{
    goldfive::{self, AckResult, Asked, Envelope, Frame, TaskStep, What, Wish, Word},
    pb::{
        goldfive::v1::{
            ApprovalRequested, ControlAck, ControlEvent, DriftDetected, Event, control_event, event,
        },
        harmonograf::v1::{
            Hello, SubscribeControlRequest, TelemetryDown, TelemetryUp, telemetry_down,
            telemetry_up,
        },
    },
};
use prost::Message;

use super::replay::{Direction, Line, bytes, lines};

pub(crate) const SESSIONS: &[&str] = &[
    "session-approved.frames",
    "session-escalation.frames",
    "session-open-task.frames",
    "session-rejected-tool.frames",
    "session-two-sessions.frames",
];
const EVENTS_ONLY: &[&str] = &[
    "telemetry-up-1.hex",
    "telemetry-up-2.hex",
    "telemetry-up-3.hex",
    "telemetry-up-5.hex",
    "telemetry-up-6.hex",
];

const TASK_APPROVAL_UP: &str = "5a620a1772756e2d33376532636335393a343a6138653262366566120c72756e2d33376532636335391804220c08d0dbb6d80610e08aaee6012a0564656d6f31ca01210a02743712047461736b1a116f6b20746f207370656e6420243530303f22027437";
const TOOL_APPROVAL_EVENT: &str = "0a1072756e2d313a343a3061316232633364120572756e2d311804220b08e8dbb6d8061080e59a772a0572756e2d31ca01780a0861646b2d306235631204746f6f6c1a2352756e2077726974655f66696c6528706174683d272f6574632f70617373776427293f220274372a170a09746f6f6c5f6e616d65120a77726974655f66696c652a240a09617267735f6a736f6e12177b2270617468223a20222f6574632f706173737764227d";
const APPROVE: &str = "0a0563746c5f311a030a0161200662080a02743712026f6b";
const ACK: &str = "0a0563746c5f3110011a18617070726f7665206469737061746368656420746f207437";

#[test]
fn the_golden_task_approval_reads_and_writes() {
    let up = reads_and_writes::<TelemetryUp>(&bytes(TASK_APPROVAL_UP));
    reads_and_writes::<Event>(event_bytes(&up));
    let envelope = envelope(up);
    assert_eq!(envelope.event_id, "run-37e2cc59:4:a8e2b6ef");
    assert_eq!(envelope.run_id, "run-37e2cc59");
    assert_eq!(envelope.sequence, 4);
    assert_eq!(envelope.session_id, "demo1");
    assert_eq!(envelope.emitted_at_ms, Some(1_796_058_576_483));
    assert_eq!(envelope.raw, bytes(TASK_APPROVAL_UP)[2..]);
    let What::ApprovalRequested(asked) = envelope.what else {
        panic!("{:?}", envelope.what)
    };
    assert_eq!(
        (asked.target_id.as_str(), asked.task_id.as_str()),
        ("t7", "t7")
    );
    assert_eq!(asked.kind, Asked::Task);
    assert_eq!(asked.prompt, "ok to spend $500?");
    assert!(asked.metadata.is_empty());
}

#[test]
fn the_golden_tool_approval_reads_and_writes_but_for_the_order_of_its_map() {
    let raw = bytes(TOOL_APPROVAL_EVENT);
    let event = Event::decode(raw.as_slice()).unwrap();
    let written = event.encode_to_vec();
    assert_eq!(Event::decode(written.as_slice()).unwrap(), event);
    assert_eq!(sorted(&written), sorted(&raw));

    let envelope = goldfive::envelope(raw.clone()).unwrap();
    assert_eq!(envelope.raw, raw, "what is kept is in the agent's order");
    let What::ApprovalRequested(asked) = envelope.what else {
        panic!("{:?}", envelope.what)
    };
    assert_eq!(asked.target_id, "adk-0b5c");
    assert_eq!(asked.task_id, "t7");
    let args_json = br#"{"path": "/etc/passwd"}"#.to_vec();
    assert_eq!(
        asked.kind,
        Asked::Tool {
            name: "write_file".to_owned(),
            args_json
        }
    );
}

#[test]
fn the_golden_control_reads_and_is_what_we_write() {
    let theirs = reads_and_writes::<ControlEvent>(&bytes(APPROVE));
    let mut ours = goldfive::answer("ctl_1", "a", "t7", true, "ok", 1_500);
    let issued_at = ours.issued_at.take().unwrap();
    assert_eq!((issued_at.seconds, issued_at.nanos), (1, 500_000_000));
    assert_eq!(ours, theirs);
    assert_eq!(ours.encode_to_vec(), bytes(APPROVE));
}

#[test]
fn the_golden_ack_reads_and_writes() {
    let ack = reads_and_writes::<ControlAck>(&bytes(ACK));
    let up = TelemetryUp {
        msg: Some(telemetry_up::Msg::ControlAck(ack)),
    };
    assert_eq!(
        goldfive::frame(up),
        Frame::Ack {
            control_id: "ctl_1".to_owned(),
            result: AckResult::Success,
            detail: "approve dispatched to t7".to_owned()
        }
    );
}

#[test]
fn every_recorded_frame_reads_and_writes() {
    let captures: Vec<Line> = SESSIONS
        .iter()
        .chain(EVENTS_ONLY)
        .flat_map(|capture| lines(capture))
        .collect();
    assert_eq!(captures.len(), 152);
    for line in &captures {
        match line.direction {
            Direction::Up => up_reads_and_writes(line),
            Direction::Down => drop(reads_and_writes::<TelemetryDown>(&line.bytes)),
            Direction::Subscribe => drop(reads_and_writes::<SubscribeControlRequest>(&line.bytes)),
            Direction::Control => drop(reads_and_writes::<ControlEvent>(&line.bytes)),
        }
    }
}

fn up_reads_and_writes(line: &Line) {
    let up = reads_and_writes::<TelemetryUp>(&line.bytes);
    if line.name != "goldfive_event" {
        let name = match goldfive::frame(up) {
            Frame::Hello(_) => "hello",
            Frame::Ack { .. } => "control_ack",
            Frame::Heartbeat { .. } => "heartbeat",
            Frame::Goodbye { .. } => "goodbye",
            other => panic!("{other:?}"),
        };
        assert_eq!(name, line.name);
        return;
    }
    let raw = event_bytes(&up).to_vec();
    let event = Event::decode(raw.as_slice()).unwrap();
    let envelope = envelope(up);
    assert_ne!(envelope.what, What::Unknown);
    assert_eq!(envelope.raw, raw);
    match &envelope.what {
        What::ApprovalRequested(asked) if asked.metadata.len() > 1 => {
            assert_eq!(sorted(&event.encode_to_vec()), sorted(&raw));
        }
        _ => assert_eq!(event.encode_to_vec(), raw),
    }
}

#[test]
fn the_recorded_tool_call_keeps_the_bytes_of_its_arguments() {
    let asked = lines("session-rejected-tool.frames")
        .into_iter()
        .find_map(|line| {
            let up = (line.name == "goldfive_event")
                .then(|| TelemetryUp::decode(line.bytes.as_slice()).unwrap())?;
            let envelope = envelope(up);
            match envelope.what {
                What::ApprovalRequested(asked) => Some((envelope.session_id, asked)),
                _ => None,
            }
        });
    let (session_id, asked) = asked.unwrap();
    assert_eq!(session_id, "", "this emitter leaves it to the hello");
    let Asked::Tool { name, args_json } = asked.kind else {
        panic!("{:?}", asked.kind)
    };
    assert_eq!(name, asked.metadata["tool_name"]);
    assert_eq!(args_json, asked.metadata["args_json"].as_bytes());
    let args = String::from_utf8(args_json).unwrap();
    assert!(args.contains("\\u"), "{args}");
}

#[test]
fn the_recorded_escalation_reads_as_what_it_is() {
    let whats: Vec<What> = lines("session-escalation.frames")
        .into_iter()
        .filter(|line| line.name == "goldfive_event")
        .map(|line| envelope(TelemetryUp::decode(line.bytes.as_slice()).unwrap()).what)
        .collect();
    let drifts: Vec<(&str, &str)> = whats
        .iter()
        .filter_map(|what| match what {
            What::Drift(drift) => Some((drift.kind.name.unwrap(), drift.severity.name.unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(
        drifts,
        [
            ("INTENT_DIVERGENCE", "INFO"),
            ("INTENT_DIVERGENCE", "WARNING"),
            ("INTENT_DIVERGENCE", "CRITICAL"),
            ("HUMAN_INTERVENTION_REQUIRED", "CRITICAL"),
            ("USER_STEER", "WARNING"),
            ("HUMAN_INTERVENTION_REQUIRED", "WARNING"),
        ]
    );
    let levels: Vec<&str> = whats
        .iter()
        .filter_map(|what| match what {
            What::Ladder { to_level, .. } => Some(to_level.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(levels, ["observe", "absorb", "pause_escalate"]);
    let plan = whats.iter().find_map(|what| match what {
        What::Plan(plan) if plan.revision == 2 => Some(plan),
        _ => None,
    });
    assert_eq!(plan.unwrap().trigger_event_id, "ann_4573ae16dc9e");
    let asks = |step: &TaskStep| matches!(step, TaskStep::Blocked { blocker, .. } if blocker == "awaiting_approval");
    assert!(
        whats
            .iter()
            .any(|what| matches!(what, What::Task { step, .. } if asks(step)))
    );
}

#[test]
fn every_payload_has_its_number() {
    let rows: [(u16, &str); 39] = [
        (9, "unknown"),
        (10, "run_started"),
        (11, "goal_derived"),
        (12, "plan"),
        (13, "plan"),
        (14, "task_started"),
        (15, "task_progress"),
        (16, "task_completed"),
        (17, "task_failed"),
        (18, "task_blocked"),
        (19, "task_cancelled"),
        (20, "drift_detected"),
        (21, "run_completed"),
        (22, "run_aborted"),
        (23, "conversation_started"),
        (24, "conversation_ended"),
        (25, "approval_requested"),
        (26, "approval_granted"),
        (27, "approval_rejected"),
        (28, "agent_invocation_started"),
        (29, "agent_invocation_completed"),
        (30, "delegation_observed"),
        (31, "reasoning_judge_invoked"),
        (32, "goldfive_llm_call_start"),
        (33, "goldfive_llm_call_end"),
        (34, "invocation_cancelled"),
        (35, "task_transitioned"),
        (36, "task_transition_refused"),
        (37, "invocation_boundary_entered"),
        (38, "invocation_boundary_exited"),
        (39, "steering_decision_made"),
        (40, "ladder_transition_decided"),
        (41, "detector_dispatch_ordered"),
        (42, "policy_applied"),
        (43, "retry_budget_spent"),
        (44, "judgement_emitted"),
        (45, "signal_delivered"),
        (46, "signal_outcome"),
        (47, "unknown"),
    ];
    for (tag, name) in rows {
        let [high, low] = (tag << 4 | 2 << 1).to_be_bytes(); // seven bits a byte: the key is tag << 3 | 2
        let an_empty_message = vec![low >> 1 | 0x80, high, 0];
        let what = goldfive::envelope(an_empty_message).unwrap().what;
        assert_eq!(payload_name(&what), name, "{tag}");
    }
}

#[test]
fn a_payload_newer_than_our_schema_is_kept_and_has_its_envelope() {
    let known = Event {
        run_id: "r".to_owned(),
        sequence: 9,
        ..Default::default()
    };
    let mut raw = known.encode_to_vec();
    raw.extend([0xfa, 0x02, 0x02, 0x0a, 0x00]); // field 47, a message
    let up = TelemetryUp {
        msg: Some(telemetry_up::Msg::GoldfiveEvent(raw.clone())),
    };
    let up = TelemetryUp::decode(up.encode_to_vec().as_slice()).unwrap();
    let envelope = envelope(up);
    assert_eq!((envelope.run_id.as_str(), envelope.sequence), ("r", 9));
    assert_eq!(envelope.what, What::Unknown);
    assert_eq!(envelope.raw, raw);
}

#[test]
fn an_event_that_cannot_be_read_is_no_end_of_its_stream() {
    let raw = vec![0x0a, 0x01, 0xff]; // an event_id that is not UTF-8
    let up = TelemetryUp {
        msg: Some(telemetry_up::Msg::GoldfiveEvent(raw.clone())),
    };
    let up = TelemetryUp::decode(up.encode_to_vec().as_slice()).unwrap();
    let Frame::Unreadable(unreadable) = goldfive::frame(up) else {
        panic!()
    };
    assert_eq!(unreadable.raw, raw);
}

#[test]
fn a_word_we_do_not_know_is_never_the_first_one() {
    let drift = DriftDetected {
        kind: 28,
        severity: 9,
        ..Default::default()
    };
    let What::Drift(drift) = read(event::Payload::DriftDetected(drift)) else {
        panic!()
    };
    assert_eq!(
        drift.kind,
        Word {
            number: 28,
            name: None
        }
    );
    assert_eq!(
        drift.severity,
        Word {
            number: 9,
            name: None
        }
    );
    assert_eq!(
        drift.lifecycle,
        Word {
            number: 0,
            name: Some("UNSPECIFIED")
        }
    );

    let asked = ApprovalRequested {
        kind: "budget".to_owned(),
        ..Default::default()
    };
    let What::ApprovalRequested(asked) = read(event::Payload::ApprovalRequested(asked)) else {
        panic!()
    };
    assert_eq!(asked.kind, Asked::Unknown("budget".to_owned()));

    for number in [0, 4, 99, -1] {
        let ack = ControlAck {
            result: number,
            ..Default::default()
        };
        let up = TelemetryUp {
            msg: Some(telemetry_up::Msg::ControlAck(ack)),
        };
        let Frame::Ack { result, .. } = goldfive::frame(up) else {
            panic!()
        };
        assert_eq!(result, AckResult::Unknown(number));
    }

    let hello = Hello {
        framework: 7,
        capabilities: vec![4, 77],
        ..Default::default()
    };
    let up = TelemetryUp {
        msg: Some(telemetry_up::Msg::Hello(hello)),
    };
    let Frame::Hello(hello) = goldfive::frame(up) else {
        panic!()
    };
    assert_eq!(
        hello.framework,
        Word {
            number: 7,
            name: None
        }
    );
    let named: Vec<_> = hello.capabilities.iter().map(|word| word.name).collect();
    assert_eq!(named, [Some("STEERING"), None]);

    let newer = [0x82, 0x01, 0x00]; // field 16 of TelemetryUp
    assert_eq!(
        goldfive::frame(TelemetryUp::decode(&newer[..]).unwrap()),
        Frame::Other("unknown")
    );
}

#[test]
fn a_time_that_is_none_is_not_guessed() {
    let rows = [
        (1, 999_999_999, Some(1_999)),
        (-1, 500_000_000, Some(-500)),
        (0, -1, None),
        (0, 1_000_000_000, None),
        (i64::MAX, 0, None),
    ];
    for (seconds, nanos, expected) in rows {
        let emitted_at = Some(prost_types::Timestamp { seconds, nanos });
        let event = Event {
            emitted_at,
            ..Default::default()
        };
        assert_eq!(
            goldfive::envelope(event.encode_to_vec())
                .unwrap()
                .emitted_at_ms,
            expected
        );
    }
    assert_eq!(goldfive::envelope(vec![]).unwrap().emitted_at_ms, None);
}

#[test]
fn every_wish_has_its_number_and_the_payload_that_belongs_to_it() {
    let text = || "x".to_owned();
    let rows = [
        (
            Wish::Approve {
                target_id: text(),
                detail: text(),
            },
            6,
            "approve",
        ),
        (
            Wish::Reject {
                target_id: text(),
                detail: text(),
            },
            7,
            "reject",
        ),
        (Wish::Pause, 1, ""),
        (Wish::Resume, 2, ""),
        (Wish::Cancel, 3, ""),
        (
            Wish::Steer {
                note: text(),
                suggested_action: text(),
                author: text(),
                annotation_id: text(),
            },
            5,
            "steer",
        ),
        (Wish::Rewind { task_id: text() }, 4, "rewind"),
        (Wish::StatusQuery, 8, ""),
    ];
    for (wish, kind, payload) in rows {
        let control = goldfive::control("c", "a", wish.clone(), 0);
        assert_eq!(control.kind, kind, "{wish:?}");
        let came = match control.payload {
            Some(control_event::Payload::Approve(_)) => "approve",
            Some(control_event::Payload::Reject(_)) => "reject",
            Some(control_event::Payload::Steer(_)) => "steer",
            Some(control_event::Payload::Rewind(_)) => "rewind",
            Some(control_event::Payload::InjectMessage(_)) => "inject_message",
            None => "",
        };
        assert_eq!(came, payload, "{wish:?}");
    }
    assert_eq!(goldfive::answer("c", "a", "t", false, "", 0).kind, 7);
}

#[test]
fn the_welcome_is_the_recorded_one() {
    let line = lines("session-approved.frames")
        .into_iter()
        .find(|line| line.name == "welcome")
        .unwrap();
    let mut recorded = TelemetryDown::decode(line.bytes.as_slice()).unwrap();
    if let Some(telemetry_down::Msg::Welcome(welcome)) = &mut recorded.msg {
        welcome.server_time = Some(prost_types::Timestamp {
            seconds: 2,
            nanos: 0,
        });
    }
    assert_eq!(
        goldfive::welcome("sess-approved", "str_1217541a1d2f", 2_000),
        recorded
    );
}

fn payload_name(what: &What) -> &'static str {
    match what {
        What::RunStarted { .. } => "run_started",
        What::RunCompleted { .. } => "run_completed",
        What::RunAborted { .. } => "run_aborted",
        What::Plan(_) => "plan",
        What::Task { step, .. } => match step {
            TaskStep::Started { .. } => "task_started",
            TaskStep::Progress { .. } => "task_progress",
            TaskStep::Completed { .. } => "task_completed",
            TaskStep::Failed { .. } => "task_failed",
            TaskStep::Blocked { .. } => "task_blocked",
            TaskStep::Cancelled { .. } => "task_cancelled",
            TaskStep::Moved { .. } => "task_transitioned",
        },
        What::ApprovalRequested(_) => "approval_requested",
        What::Granted { .. } => "approval_granted",
        What::Rejected { .. } => "approval_rejected",
        What::Drift(_) => "drift_detected",
        What::Ladder { .. } => "ladder_transition_decided",
        What::Policy { .. } => "policy_applied",
        What::BoundaryExited { .. } => "invocation_boundary_exited",
        What::Other(name) => name,
        What::Unknown => "unknown",
    }
}

fn read(payload: event::Payload) -> What {
    let event = Event {
        payload: Some(payload),
        ..Default::default()
    };
    goldfive::envelope(event.encode_to_vec()).unwrap().what
}

fn envelope(up: TelemetryUp) -> Envelope {
    match goldfive::frame(up) {
        Frame::Event(envelope) => *envelope,
        other => panic!("{other:?}"),
    }
}

fn event_bytes(up: &TelemetryUp) -> &[u8] {
    match &up.msg {
        Some(telemetry_up::Msg::GoldfiveEvent(raw)) => raw,
        other => panic!("{other:?}"),
    }
}

fn reads_and_writes<M: Message + Default + std::fmt::Debug>(bytes: &[u8]) -> M {
    let read = M::decode(bytes).unwrap();
    assert_eq!(read.encode_to_vec(), bytes, "{read:?}");
    read
}

fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}
