//! What happened before the picture is taken.

use std::{collections::BTreeMap, time::Duration};

use registry::{
    Asks, Control, Detail, RunId, Untrusted,
    approval::{AppliedResult, Filing, Hold, OnDeadline, Risk, Subject, Verdict},
    control::Verb,
    form::{Answer, Choice, Field, Form, Kind, Presence},
    names::Key,
    run::{End, TaskState},
};

use super::stage::{
    Orders,
    Person::{Ada, Grace},
    Stage, minutes,
};

/// Two in the afternoon: two runs stand still, five agents ask. Gives what the first of the two is told.
pub(super) fn a_busy_stage() -> (Stage, Orders) {
    let stage = Stage::set();
    stage.at(minutes(183));
    stage.ask("crm", "run-88", &send_email());
    a_run_that_is_done(&stage);
    stage.at(minutes(61));
    stage.ask("logbook", "inv-5", &publish());
    let orders = a_run_that_went_astray(&stage);
    (stage, orders)
}

/// Its agent blocked, was paused by a person, went on, and then looped until it was held.
fn a_run_that_went_astray(stage: &Stage) -> Orders {
    stage.at(minutes(52));
    let run = stage.run("research-7", "7c21");
    let mut orders = stage.listen(run);
    stage.plan(run, 1, &question(), None);
    stage.task(run, "t1", &TaskState::Running);
    stage.at(minutes(44));
    stage.task(run, "t1", &TaskState::Completed);
    stage.task(run, "t2", &TaskState::Running);
    stage.at(minutes(39));
    stage.task(
        run,
        "t2",
        &blocked("tool", "the catalogue is being rebuilt"),
    );
    stage.at(minutes(32));
    stage.task(run, "t2", &TaskState::Running);
    stage.at(minutes(29));
    stage.direct(
        Grace,
        "grace-1",
        run,
        Verb::Pause,
        "the archive moves house",
    );
    takes(stage, &mut orders, "paused");
    stage.at(minutes(24));
    stage.direct(Grace, "grace-2", run, Verb::Resume, "");
    takes(stage, &mut orders, "going on");
    stage.at(minutes(20));
    stage.task(run, "t2", &TaskState::Completed);
    stage.task(run, "t3", &TaskState::NotNeeded);
    stage.task(run, "t4", &TaskState::Running);

    stage.at(minutes(15));
    let etl = a_nightly_run(stage);
    stage.at(minutes(12));
    let loops = |id: &str, severity: &str, detail: &str| {
        stage.drift(run, id, "t4", ("LOOPING_TOOL_CALL", severity), detail);
    };
    loops("d1", "warning", "same search 3 times");
    stage.ask("billing-agent", "7c20", &spend());
    stage.at(minutes(9));
    loops("d2", "critical", "same search 5 times, no new result");
    stage.at(minutes(4));
    stage.ask("billing-agent", "7c21", &wire_transfer());
    stage.at(minutes(3));
    loops("d3", "critical", "same search 6 times, no new result");
    takes(stage, &mut orders, "paused");
    stage.at(minutes(2));
    stage.ask(
        "claude ~/infra",
        "s-1f",
        &bash("rm -rf /var/cache/builds/*"),
    );
    stage.at(minutes(1));
    stage.drift(
        etl,
        "d1",
        "e2",
        ("INTENT_DIVERGENCE", "critical"),
        "writes to the live ledger",
    );
    orders
}

/// It listens, and says nothing to its order to pause.
fn a_nightly_run(stage: &Stage) -> RunId {
    let run = stage.run("etl-nightly", "n-1130");
    let orders = stage.listen(run);
    std::mem::forget(orders);
    let tasks = [
        ("e1", "Read the ledger", TaskState::Completed),
        ("e2", "Match the invoices", TaskState::Running),
    ];
    stage.plan(run, 1, &tasks, None);
    run
}

fn a_run_that_is_done(stage: &Stage) {
    stage.at(minutes(95));
    let run = stage.run("scout", "41aa");
    stage.at(minutes(71));
    stage.end(run, End::Completed);
}

/// Everything that was asked has ended, in every way there is.
pub(super) fn a_quiet_stage() -> Stage {
    let stage = Stage::set();
    stage.at(minutes(124));
    let mut publish = publish();
    publish.deadline = Some(Duration::from_secs(3600 + 25 * 60));
    stage.ask("logbook", "inv-5", &publish);
    stage.at(minutes(66));
    let draft = stage.ask("crm", "run-88", &send_email());
    stage.at(minutes(58));
    stage.take_back(&draft, "the customer called");
    let steered = stage.run("scout", "41aa");
    let mut orders = stage.listen(steered);
    stage.plan(steered, 2, &question(), None);
    let resumed = stage.run("etl-nightly", "n-1130");
    let mut others = stage.listen(resumed);
    // The deadline of the logbook passes.
    stage.at(minutes(39));
    let claude = stage.run("claude ~/infra", "s-1f");
    stage.at(minutes(30));
    let rm = stage.file(claude, &bash("rm -rf /srv/builds"));
    stage.at(minutes(24));
    stage.decide(Grace, &rm, Verdict::Reject, &[], "not on the prod box");
    stage.applied(&rm, AppliedResult::Skipped, "");
    stage.at(minutes(21));
    let why = ("INTENT_DIVERGENCE", "critical");
    stage.drift(resumed, "d1", "e2", why, "writes to the live ledger");
    takes(&stage, &mut others, "paused");
    stage.at(minutes(17));
    stage.direct(Grace, "grace-1", resumed, Verb::Resume, "it is a copy");
    takes(&stage, &mut others, "");
    stage.at(minutes(11));
    for id in ["d1", "d2"] {
        let why = ("LOOPING_TOOL_CALL", "critical");
        stage.drift(steered, id, "t4", why, "same search 6 times, no new result");
    }
    takes(&stage, &mut orders, "paused");
    stage.at(minutes(8));
    stage.direct(Ada, "ada-1", steered, Verb::Steer, DIRECTION);
    revises(&stage, &mut orders);
    stage.at(minutes(4));
    let transfer = stage.ask("billing-agent", "7c21", &wire_transfer());
    stage.at(minutes(2));
    let answers = [
        ("cost_centre", "4711"),
        ("visibility", "internal"),
        ("pay_on", "2026-12-01"),
    ];
    stage.decide(Ada, &transfer, Verdict::Approve, &answers, "");
    stage.applied(&transfer, AppliedResult::Done, "paid 1250.00");
    stage
}

pub(super) const DIRECTION: &str = "Stop searching the archive. Use the two sources you have and write the summary; say plainly what is missing.";

/// The agent takes its next order.
pub(super) fn takes(stage: &Stage, orders: &mut Orders, words: &str) -> Control {
    let order = stage.hear(orders);
    stage.ack(&order, words);
    order
}

/// The agent is steered, and has a new plan.
fn revises(stage: &Stage, orders: &mut Orders) {
    let steer = takes(stage, orders, "steer queued");
    has_revised(stage, &steer);
}

pub(super) fn has_revised(stage: &Stage, steer: &Control) {
    let tasks = [
        ("t1", "Understand the question", TaskState::Completed),
        ("t2", "Find the archives", TaskState::Completed),
        ("t4", "Collect sources", TaskState::Cancelled),
        ("t5", "Write the summary", TaskState::Running),
    ];
    stage.plan(steer.run, 3, &tasks, Some(steer));
}

fn question() -> [(&'static str, &'static str, TaskState); 5] {
    let pending = |id, title| (id, title, TaskState::Pending);
    [
        pending("t1", "Understand the question"),
        pending("t2", "Find the archives"),
        pending("t3", "Ask the librarian"),
        pending("t4", "Collect sources"),
        pending("t5", "Write the summary"),
    ]
}

fn blocked(blocker: &str, needed: &str) -> TaskState {
    TaskState::Blocked {
        blocker: blocker.into(),
        needed: needed.into(),
    }
}

// === Questions ===

fn send_email() -> Filing {
    let detail = Detail {
        prompt: "The customer asks for the signed contract. Send it?".into(),
        args: Some(r#"{"to": "k.weber@acme.example", "subject": "Your contract", "attachments": ["contract-2291.pdf"]}"#.into()),
        ..Detail::default()
    };
    filing("call-3", "send_email", tool("send_email", ""), detail)
}

fn publish() -> Filing {
    let detail = Detail {
        body: "3 entries:\n  - 4 x heron\n  - 1 x kingfisher\n  - 2 x grebe".into(),
        form: Form::new(vec![
            field("visibility", visibility(), Presence::Required),
            field(
                "reason",
                Kind::Text,
                Presence::Optional(Answer::Text(Untrusted::default())),
            ),
        ])
        .unwrap(),
        ..Detail::default()
    };
    let tool = tool("publish_the_logbook", "");
    let mut publish = filing("call-7", "Publish the logbook", tool, detail);
    publish.deadline = Some(Duration::from_secs(7 * 24 * 3600));
    publish
}

fn spend() -> Filing {
    let title = "ok to spend $500 on the conference?";
    let detail = Detail {
        prompt: title.into(),
        ..Detail::default()
    };
    let mut spend = filing("t2", title, Subject::Task { task: "t2".into() }, detail);
    spend.deadline = Some(Duration::from_secs(19 * 60));
    spend
}

fn bash(command: &str) -> Filing {
    let detail = Detail {
        prompt: "I need to free space before the build.".into(),
        args: Some(
            format!(r#"{{"command": "{command}", "timeout_ms": 60000}}"#)
                .as_str()
                .into(),
        ),
        ..Detail::default()
    };
    let mut bash = filing("call-9", "Bash", tool("Bash", ""), detail);
    bash.risk = Risk::High;
    bash
}

fn wire_transfer() -> Filing {
    let integer = Presence::Defaulted(Answer::Integer(4711));
    let internal = Presence::Defaulted(Answer::Text("internal".into()));
    let day = Kind::Date.parse("2026-12-01").unwrap();
    let form = Form::new(vec![
        field("cost_centre", Kind::Integer, integer),
        field("visibility", visibility(), internal),
        field("pay_on", Kind::Date, Presence::Defaulted(day)),
    ]);
    let detail = Detail {
        prompt: "ok to pay the outstanding invoice for ACME?".into(),
        args: Some("{\"to\": \"ACME GmbH\", \"iban\": \"DE02 1203 0000 0000 2020 51\", \"amount\": 1250.00, \"memo\": \"INV-2291\u{202e}\"}".into()),
        form: form.unwrap(),
        ..Detail::default()
    };
    let mut transfer = filing("t7", "wire_transfer", tool("wire_transfer", "t7"), detail);
    transfer.asks = Asks::Admin;
    transfer.deadline = Some(Duration::from_secs(60 * 60));
    transfer
}

fn filing(target: &str, title: &str, subject: Subject, detail: Detail) -> Filing {
    Filing {
        key: Some(Key::parse(&format!("picture:{target}")).unwrap()),
        target: target.into(),
        step: Untrusted::default(),
        subject,
        title: title.into(),
        detail,
        asks: Asks::Operator,
        labels: BTreeMap::new(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}

fn tool(name: &str, task: &str) -> Subject {
    Subject::Tool {
        name: name.into(),
        task: task.into(),
    }
}

fn field(name: &str, kind: Kind, presence: Presence) -> Field {
    Field {
        name: name.into(),
        label: Untrusted::default(),
        help: Untrusted::default(),
        kind,
        presence,
        secrecy: registry::form::Secrecy::Open,
    }
}

fn visibility() -> Kind {
    let choice = |value: &str| Choice {
        value: value.into(),
        label: Untrusted::default(),
    };
    Kind::Enum(vec![choice("public"), choice("internal")])
}
