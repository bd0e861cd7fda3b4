#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use prost::Message;
use registry::{
    Approval, ApprovalId, Asks, Control, Detail, Digest, Escalation, EscalationId, Event, ItemId,
    Name, Pending, Principal, Recorded, Refusal, Role, Run, RunId, Settled, Tenant, Timestamp,
    Untrusted, Wish,
    approval::{
        Applied, AppliedResult, Attempt, Claim, ClaimStage, Decision, Delivery, DeliveryState,
        Filing, Hold, OnDeadline, Outcome, Risk, Seen, Subject, Verdict, WaitTimeout, Why,
    },
    command::{
        Ack, AckResult, Decide, Direct, Ending, File, GiveBack, OpenRun, Order, Raise, ReportDrift,
        TakeStep,
    },
    control::{Behind, Stage, Step, Verb},
    digest::Sha256,
    drift::{Count, Drift, Kind as DriftKind, Level, Severity},
    escalation::{Cause, Closed, Ended, How, Undone},
    event::Scope,
    form::{Answer, Answers, Choice, Field, Form, Kind, Number, Presence as Wanted},
    names::{ClaimToken, ControlId, DecisionId, DriftId, Key, WaitId},
    policy::Mode,
    run::{
        Counts, End, Evidence, InterruptKind, Pause, Plan, PlanTask, Presence, RunKey, RunState,
        Source, Task, TaskState,
    },
    state::Row,
    who::{Decider, Grant},
};

use super::{pb, *};

// === Samples: every variant, and every field with something in it ===

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn a(n: u128) -> ApprovalId {
    ApprovalId::mint(at(1_700_000_000_000), n)
}

fn r(n: u128) -> RunId {
    RunId::mint(at(1_700_000_000_000), n)
}

fn e(n: u128) -> EscalationId {
    EscalationId::mint(at(1_700_000_000_000), n)
}

fn c(n: u8) -> ControlId {
    ControlId::parse(&format!("c{n}")).unwrap()
}

fn d(n: u8) -> DriftId {
    DriftId::parse(&format!("drift-{n}")).unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn tenant() -> Tenant {
    Tenant::parse("harbour").unwrap()
}

fn ada() -> Principal {
    Principal::new(name("user:ada"), tenant(), [Role::Operator, Role::Admin])
}

fn labels() -> BTreeMap<Untrusted, Untrusted> {
    [("env".into(), "prod\u{202e}".into())].into()
}

fn approval(n: u128, subject: Subject) -> Approval {
    Approval {
        id: a(n),
        run: r(1),
        from: key_of(Source::Goldfive),
        owner: Some(name("eu:42")),
        filed_by: Name::system("goldfive"),
        filed_at: at(-1),
        key: Some(Key::parse("run1/call1").unwrap()),
        target: "call\n1".into(),
        step: "turn 1".into(),
        subject,
        title: "Publish the logbook".into(),
        asks: Asks::Admin,
        labels: labels(),
        digest: Digest::of("shown"),
        args_sha256: Sha256::of("args"),
        detail_sha256: Sha256::of("detail"),
        fields: 7,
        deadline: Some(at(1_700_000_600_123)),
        on_deadline: OnDeadline::StayOpen,
        hold: Hold::Thread,
        risk: Risk::High,
        votes: 2,
    }
}

fn tool() -> Subject {
    Subject::Tool {
        name: "publish_logbook".into(),
        task: "t1".into(),
    }
}

fn task() -> Subject {
    Subject::Task { task: "t1".into() }
}

fn key_of(source: Source) -> RunKey {
    RunKey {
        tenant: tenant(),
        source,
        agent: "probe".into(),
        session: "s1".into(),
        invocation: "run-1".into(),
    }
}

fn pending() -> Pending {
    Pending {
        approval: Arc::new(approval(1, tool())),
        joined: vec![Key::parse("other").unwrap()],
        deadline: Some(at(1_700_000_700_000)),
        passed_at: Some(at(1_700_000_700_001)),
        timed_out: vec![WaitTimeout {
            wait: wait(),
            at: at(1_700_000_000_500),
        }],
        attempts: vec![attempt()],
        warn_at: Some(at(1_700_000_640_000)),
        votes: vec![decision()],
    }
}

fn claims() -> [Claim; 3] {
    let at = at(1_700_000_800_150);
    let stages = [
        ClaimStage::Taken,
        ClaimStage::GivenBack { at },
        ClaimStage::Started { at },
    ];
    stages.map(|stage| Claim {
        token: claim_token(),
        at,
        stage,
    })
}

fn claim_token() -> ClaimToken {
    ClaimToken::parse("worker-1").unwrap()
}

fn wait() -> WaitId {
    WaitId::parse("w1").unwrap()
}

fn attempt() -> Attempt {
    Attempt {
        by: name("user:eve"),
        verb: "approve".into(),
        at: at(1_700_000_000_600),
    }
}

fn answers() -> Answers {
    Answers::written([
        ("s".to_owned(), Answer::Text("two\nrows".into())),
        ("n".to_owned(), Answer::Number(Number::new(2.5).unwrap())),
        ("i".to_owned(), Answer::Integer(i64::MAX)),
        ("b".to_owned(), Answer::Boolean(true)),
        ("d".to_owned(), Kind::Date.parse("2026-02-28").unwrap()),
        ("pin".to_owned(), Answer::Sealed),
    ])
}

fn decision() -> Decision {
    Decision {
        id: DecisionId::parse("d1").unwrap(),
        decider: Decider {
            by: Name::system("policy"),
            on_behalf_of: Some(name("eu:42")),
            via: Some(name("backend:web")),
        },
        answers: answers(),
        note: "go\n".into(),
        seen: Seen::Whole,
    }
}

fn settled(outcome: Outcome) -> Settled {
    Settled {
        approval: Arc::new(approval(2, task())),
        deadline: Some(at(1_700_000_900_004)),
        joined: vec![Key::parse("other").unwrap()],
        outcome,
        at: at(1_700_000_800_000),
        seq: u64::MAX,
        delivery: Some(delivery(DeliveryState::Acked)),
        claim: claims().into_iter().next(),
        votes: vec![decision()],
        applied: Some(applied(AppliedResult::Skipped)),
    }
}

fn delivery(state: DeliveryState) -> Delivery {
    Delivery {
        control: ControlId::parse("c1").unwrap(),
        state,
        detail: "taken".into(),
        at: at(1_700_000_800_100),
    }
}

fn applied(result: AppliedResult) -> Applied {
    Applied {
        result,
        detail: "did not run it".into(),
        at: at(1_700_000_800_200),
    }
}

fn whys() -> Vec<Why> {
    let granted = true;
    let ends = [End::Completed, End::Failed, End::Cancelled, End::Aborted];
    let ended = ends.map(Why::RunEnded).into_iter();
    let others = [
        Why::Superseded { by: a(9) },
        Why::Cancelled {
            by: Name::system("ladder"),
        },
        Why::Agent {
            reason: "no longer".into(),
        },
        Why::AnsweredElsewhere {
            granted,
            detail: "in the chat".into(),
        },
        Why::Dismissed {
            by: name("user:ada"),
            note: "gone".into(),
        },
    ];
    ended.chain(others).collect()
}

fn outcomes() -> Vec<Outcome> {
    let withdrawn = whys().into_iter().map(Outcome::Withdrawn);
    let others = [
        Outcome::Granted(decision()),
        Outcome::Rejected(decision()),
        Outcome::Expired,
    ];
    others.into_iter().chain(withdrawn).collect()
}

fn task_states() -> Vec<TaskState> {
    vec![
        TaskState::Pending,
        TaskState::Running,
        TaskState::Blocked {
            blocker: "awaiting_approval".into(),
            needed: "a yes".into(),
        },
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Cancelled,
        TaskState::NotNeeded,
    ]
}

fn plan() -> Plan {
    let task = |(n, state): (usize, TaskState)| PlanTask {
        id: format!("t{n}").into(),
        title: "Look".into(),
        state,
    };
    Plan {
        revision: 3,
        summary: "shorter".into(),
        tasks: task_states().into_iter().enumerate().map(task).collect(),
    }
}

fn run(state: RunState, presence: Presence) -> Run {
    let task = |state: TaskState| Task {
        title: "Look".into(),
        state,
        detail: "at it".into(),
        at: at(1_700_000_000_200),
    };
    let tasks = task_states().into_iter().map(task).enumerate();
    Run {
        id: r(1),
        key: key_of(Source::Cli),
        project: "p".into(),
        thread: "th".into(),
        origin: "cron".into(),
        owner: Some(name("eu:42")),
        opened_by: name("agent:probe"),
        parent: Some(r(7)),
        can_resume: true,
        mode: Mode::Webhook,
        opened_at: at(1_700_000_000_100),
        state,
        presence,
        tasks: tasks
            .map(|(n, task)| (format!("t{n}").into(), task))
            .collect(),
        plan: Some(plan()),
        open: [a(1), a(2)].into(),
        pause: pause_of(state),
        held_by: Some(e(1)),
        drifts: drifts(),
        counts: counts(),
        controls: controls(),
    }
}

/// A run cannot say that it stands still without saying why.
fn pause_of(state: RunState) -> Option<Pause> {
    match state {
        RunState::Pausing => Some(Pause::Asked),
        RunState::Paused(evidence) => Some(Pause::Holds(evidence)),
        _ => None,
    }
}

fn drifts() -> Vec<Drift> {
    let other = Severity::Unknown("odd".into());
    let severities = [Severity::Info, Severity::Warning, Severity::Critical, other];
    let levels = Level::ALL.into_iter().map(Some).chain([None]);
    let drift = |(n, (level, severity)): (usize, (Option<Level>, Severity))| Drift {
        id: d(n as u8),
        kind: DriftKind::of("LOOPING_TOOL_CALL"),
        severity,
        detail: "again\u{1b}[2J".into(),
        task: "t1".into(),
        level,
        from: None,
        at: at(1_700_000_000_400),
    };
    let drifts = levels.zip(severities.into_iter().cycle()).enumerate();
    let recorded_as = Drift {
        kind: DriftKind::human_intervention(),
        from: Some(DriftKind::of("odd\nkind")),
        ..drift((99, (None, Severity::Critical)))
    };
    drifts.map(drift).chain([recorded_as]).collect()
}

fn counts() -> Counts {
    let count = |criticals, escalated| Count {
        criticals,
        escalated,
    };
    let of_run = (DriftKind::of("A"), Untrusted::default());
    let of_task = (DriftKind::of("B"), "t1".into());
    Counts([(of_run, count(u32::MAX, true)), (of_task, count(0, false))].into())
}

fn verbs() -> [Verb; 6] {
    let task = "t1".into();
    [
        Verb::Pause,
        Verb::Resume,
        Verb::Steer,
        Verb::Cancel,
        Verb::Rewind { task },
        Verb::StatusQuery,
    ]
}

fn steps() -> Vec<Step> {
    let stages = [
        Stage::Sent,
        Stage::Acked,
        Stage::Confirmed,
        Stage::Failed,
        Stage::Unsupported,
        Stage::Unanswered,
    ];
    let step = |stage| Step {
        stage,
        detail: "so far".into(),
        at: at(1_700_000_000_500),
    };
    stages.map(step).into()
}

fn controls() -> Vec<Control> {
    let behind = |level| Behind {
        id: d(1),
        kind: DriftKind::of("OFF_TOPIC"),
        level,
    };
    let control = |(n, verb): (usize, Verb)| Control {
        id: c(n as u8),
        run: r(1),
        verb,
        note: "left\n".into(),
        by: Name::system("ladder"),
        escalation: Some(e(1)),
        drift: Some(behind(Level::Terminate)),
        deadline: Some(at(1_700_000_600_000)),
        at: at(1_700_000_000_600),
        steps: steps(),
    };
    let bare = Control {
        note: Untrusted::default(),
        escalation: None,
        drift: None,
        deadline: None,
        steps: Vec::new(),
        ..control((9, Verb::StatusQuery))
    };
    let full = verbs().into_iter().enumerate().map(control);
    full.chain([bare]).collect()
}

fn escalations() -> Vec<Escalation> {
    let paused = Cause::Paused {
        by: name("user:ada"),
        note: "wait\n".into(),
    };
    let escalation = |(n, cause): (usize, Cause)| Escalation {
        id: e(n as u128),
        run: r(1),
        from: key_of(Source::Native),
        owner: Some(name("eu:42")),
        cause,
        also: drifts()
            .into_iter()
            .map(Cause::Drift)
            .chain([paused.clone()])
            .collect(),
        after: Some(Undone {
            verb: Verb::Resume,
            by: name("user:ada"),
            detail: "cannot".into(),
        }),
        at: at(1_700_000_000_700),
        abort_at: Some(at(1_700_000_600_700)),
    };
    let drifts = drifts().into_iter().map(Cause::Drift);
    let full = drifts.chain([paused.clone()]).enumerate().map(&escalation);
    let bare = Escalation {
        owner: None,
        also: Vec::new(),
        after: None,
        abort_at: None,
        ..escalation((99, paused.clone()))
    };
    full.chain([bare]).collect()
}

fn hows() -> Vec<How> {
    let answered = |verb| How::Answered {
        verb,
        by: name("user:ada"),
        note: "go left".into(),
    };
    let answers = [Verb::Resume, Verb::Steer, Verb::Cancel].map(answered);
    let ends = [End::Completed, End::Failed, End::Cancelled, End::Aborted];
    let others = ends.map(How::RunEnded).into_iter();
    let others = others.chain([How::Superseded { by: e(9) }, How::WentOn]);
    answers.into_iter().chain(others).collect()
}

fn closed_ones() -> Vec<Closed> {
    let closed = |(how, control): (How, Option<Control>)| Closed {
        escalation: Arc::new(escalations().remove(0)),
        how,
        at: at(1_700_000_000_800),
        seq: u64::MAX,
        control,
    };
    let controls = controls().into_iter().map(Some).chain([None]);
    hows().into_iter().zip(controls).map(closed).collect()
}

fn interrupts() -> [InterruptKind; 4] {
    [
        InterruptKind::Approval,
        InterruptKind::Tool,
        InterruptKind::Confirmation,
        InterruptKind::Input,
    ]
}

fn runs() -> Vec<Run> {
    let since = at(1_700_000_000_300);
    let attached = |state| run(state, Presence::Attached);
    let ends = [End::Completed, End::Failed, End::Cancelled, End::Aborted];
    let mut runs = vec![
        run(RunState::Running, Presence::Away { since }),
        run(RunState::Waiting, Presence::Detached),
        attached(RunState::Pausing),
        attached(RunState::Paused(Evidence::Acked)),
        attached(RunState::Paused(Evidence::Inferred)),
    ];
    runs.extend(interrupts().map(|kind| attached(RunState::Parked(kind))));
    runs.extend(interrupts().map(|kind| attached(RunState::Consumed(kind))));
    runs.extend(ends.map(|end| attached(RunState::Ended(end))));
    runs
}

/// What has nothing in it where there may be nothing.
fn bare_run() -> Run {
    let key = RunKey {
        source: Source::Native,
        ..key_of(Source::Native)
    };
    Run {
        id: r(2),
        key,
        project: Untrusted::default(),
        thread: Untrusted::default(),
        origin: Untrusted::default(),
        owner: None,
        opened_by: name("agent:probe"),
        parent: None,
        can_resume: false,
        mode: Mode::Interactive,
        opened_at: at(0),
        state: RunState::Running,
        presence: Presence::Attached,
        tasks: BTreeMap::new(),
        plan: None,
        open: BTreeSet::new(),
        pause: None,
        held_by: None,
        drifts: Vec::new(),
        counts: Default::default(),
        controls: Vec::new(),
    }
}

fn bare_approval() -> Approval {
    Approval {
        owner: None,
        key: None,
        step: Untrusted::default(),
        asks: Asks::Operator,
        labels: BTreeMap::new(),
        fields: 0,
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 2,
        ..approval(
            3,
            Subject::Task {
                task: Untrusted::default(),
            },
        )
    }
}

fn bare_decision(asks: Seen) -> Decision {
    Decision {
        decider: Decider {
            by: name("user:ada"),
            on_behalf_of: None,
            via: None,
        },
        answers: Answers::default(),
        note: Untrusted::default(),
        seen: asks,
        ..decision()
    }
}

fn rows() -> Vec<Row> {
    let end_user = Approval {
        asks: Asks::EndUser,
        ..bare_approval()
    };
    let bare_pending = Pending {
        approval: Arc::new(end_user),
        joined: vec![],
        deadline: None,
        passed_at: None,
        warn_at: None,
        votes: vec![],
        timed_out: vec![],
        attempts: vec![],
    };
    let bare_settled = Settled {
        approval: Arc::new(bare_approval()),
        joined: vec![],
        delivery: None,
        claim: None,
        votes: vec![],
        applied: None,
        ..settled(Outcome::Expired)
    };
    let runs = runs().into_iter().chain([bare_run()]);
    let pending = [pending(), bare_pending].into_iter();
    let settled = outcomes().into_iter().map(settled).chain([bare_settled]);
    let runs = runs.map(|run| Row::Run(Arc::new(run)));
    let pending = pending.map(|pending| Row::Pending(Arc::new(pending)));
    let settled = settled.map(|settled| Row::Settled(Arc::new(settled)));
    let held = escalations().into_iter();
    let held = held.map(|held| Row::Escalation(Arc::new(held)));
    let closed = closed_ones().into_iter();
    let closed = closed.map(|closed| Row::Closed(Arc::new(closed)));
    let held = held.chain(closed);
    runs.chain(pending).chain(settled).chain(held).collect()
}

fn events() -> Vec<Event> {
    let (id, run) = (a(1), r(1));
    let mut events = vec![
        Event::PresenceChanged {
            run,
            presence: Presence::Away { since: at(5) },
        },
        Event::PlanReported {
            run,
            plan: plan(),
            cause: "drift 1".into(),
        },
        Event::Said {
            run,
            text: "hello \u{1b}[31m".into(),
        },
        Event::ApprovalRequested {
            approval: Arc::new(approval(1, tool())),
        },
        Event::ApprovalRequested {
            approval: Arc::new(bare_approval()),
        },
        Event::ApprovalJoined {
            id,
            key: Key::parse("k").unwrap(),
        },
        Event::ApprovalGranted {
            id,
            decision: decision(),
        },
        Event::ApprovalRejected {
            id,
            decision: bare_decision(Seen::Unread),
        },
        Event::ApprovalGranted {
            id,
            decision: bare_decision(Seen::Quoted),
        },
        Event::ApprovalExpired { id },
        Event::DeadlinePassed { id },
        Event::DeadlineWarned { id },
        Event::HistoryTrimmed {
            tenant: Tenant::parse("acme").unwrap(),
            trimmed: registry::event::Trimmed {
                events: 1,
                details: 2,
                frames: 3,
                oldest: at(1_700_000_900_000),
                newest: at(1_700_000_900_001),
                floor: 4,
            },
        },
        Event::VoteCast {
            id,
            decision: decision(),
        },
        Event::DecisionRestored {
            id,
            run,
            token: claim_token(),
        },
        Event::DecisionStarted {
            id,
            run,
            token: claim_token(),
        },
        Event::DeadlineExtended {
            id,
            deadline: at(1_700_000_900_000),
            by: name("user:ada"),
        },
        Event::WaitTimedOut { id, wait: wait() },
        Event::AttemptRefused {
            id,
            attempt: attempt(),
        },
    ];
    events.extend(runs().into_iter().map(|run| Event::RunOpened {
        run: Box::new(run),
        context: "{\"a\": 1}".into(),
    }));
    events.extend(interrupts().map(|interrupt| Event::RunParked { run, interrupt }));
    events.push(Event::RunEnded {
        run,
        end: End::Cancelled,
        reason: "called off".into(),
    });
    events.extend(task_states().into_iter().map(|state| Event::TaskReported {
        run,
        task: "t1".into(),
        title: "Look".into(),
        state,
        detail: "at it".into(),
    }));
    events.extend(
        whys()
            .into_iter()
            .map(|why| Event::ApprovalWithdrawn { id, why }),
    );
    let states = [
        DeliveryState::Sent,
        DeliveryState::Acked,
        DeliveryState::Confirmed,
        DeliveryState::Failed,
    ];
    events.extend(states.map(|state| Event::DeliveryMoved {
        id,
        delivery: delivery(state),
    }));
    let results = [
        AppliedResult::Done,
        AppliedResult::Failed,
        AppliedResult::Skipped,
    ];
    events.extend(results.map(|result| Event::DecisionApplied {
        id,
        applied: applied(result),
    }));
    events.extend(claims().map(|claim| Event::DecisionClaimed { id, run, claim }));
    events.extend(of_drifts(run));
    events
}

/// Of what goes wrong in a run, what holds it, and what it is told.
fn of_drifts(run: RunId) -> Vec<Event> {
    let mut events = Vec::new();
    let drifted = |drift| Event::DriftReported { run, drift };
    events.extend(drifts().into_iter().map(drifted));
    events.extend(Level::ALL.map(|level| Event::DriftLevelled {
        run,
        drift: d(1),
        level,
    }));
    let pauses = [
        None,
        Some(Pause::Asked),
        Some(Pause::Holds(Evidence::Acked)),
        Some(Pause::Holds(Evidence::Inferred)),
    ];
    events.extend(pauses.map(|pause| Event::PauseMoved { run, pause }));
    events.extend(controls().into_iter().map(|control| Event::ControlIssued {
        control: Box::new(control),
    }));
    let answers = [Some(e(1)), None].into_iter().cycle();
    events.extend(
        steps()
            .into_iter()
            .zip(answers)
            .map(|(step, escalation)| Event::ControlMoved {
                run,
                id: c(1),
                escalation,
                step,
            }),
    );
    let raised = escalations().into_iter().map(Arc::new);
    events.extend(raised.map(|escalation| Event::EscalationRaised { escalation }));
    events.extend(
        hows()
            .into_iter()
            .map(|how| Event::EscalationClosed { id: e(1), how }),
    );
    events
}

fn all_recorded() -> Vec<Recorded> {
    let owners = [Some(name("eu:42")), None].into_iter().cycle();
    let numbered = events().into_iter().zip(owners).enumerate();
    numbered
        .map(|(n, (event, owner))| Recorded {
            seq: n as u64 + 2,
            at: at(n as i64 * 1001),
            scope: Scope {
                tenant: tenant(),
                owner,
            },
            event: Arc::new(event),
        })
        .collect()
}

fn form() -> Form {
    let field = |name: &str, kind: Kind, presence: Wanted| Field {
        name: name.to_owned(),
        label: Untrusted::default(),
        help: "advice".into(),
        kind,
        presence,
        secrecy: registry::form::Secrecy::Open,
    };
    let options = ["public", "internal"].map(|value| Choice {
        value: value.into(),
        label: format!("the {value} one").into(),
    });
    let number = |value: f64| Answer::Number(Number::new(value).unwrap());
    Form::new(vec![
        field("s", Kind::String, Wanted::Required),
        field("t", Kind::Text, Wanted::Optional(Answer::Text("".into()))),
        field("n", Kind::Number, Wanted::Defaulted(number(1e300))),
        field(
            "i",
            Kind::Integer,
            Wanted::Defaulted(Answer::Integer(i64::MIN)),
        ),
        field("b", Kind::Boolean, Wanted::Optional(Answer::Boolean(false))),
        field(
            "e",
            Kind::Enum(options.into()),
            Wanted::Defaulted(Answer::Text("internal".into())),
        ),
        field("d", Kind::Date, Wanted::Required),
        Field {
            secrecy: registry::form::Secrecy::Secret,
            ..field("pin", Kind::String, Wanted::Required)
        },
    ])
    .unwrap()
}

fn large() -> Detail {
    Detail {
        prompt: "Publish?".into(),
        body: "Look:\n  twice".into(),
        facts: "3 pages".into(),
        args: Some("{ \"pages\":[1.0, 2],  \"big\": 12345678901234567890 }".into()),
        form: form(),
    }
}

fn filing() -> Filing {
    Filing {
        key: Some(Key::parse("run-1/call-1").unwrap()),
        target: "call-1".into(),
        step: "turn-1".into(),
        subject: tool(),
        title: "Publish".into(),
        detail: large(),
        asks: Asks::EndUser,
        labels: labels(),
        deadline: Some(Duration::from_millis(61_500)),
        on_deadline: OnDeadline::StayOpen,
        hold: Hold::Nothing,
        risk: Risk::High,
        votes: 2,
    }
}

fn opening() -> Opening {
    Opening {
        agent: "probe".into(),
        session: "s1".into(),
        invocation: "run-1".into(),
        project: "p".into(),
        thread: "th".into(),
        origin: "cron".into(),
        user: Some(name("eu:42")),
        parent: Some(r(7)),
        can_resume: true,
        context: "{\"a\": 1}".into(),
        detached: true,
    }
}

fn deciding() -> Decide {
    Decide {
        id: a(1),
        decision: DecisionId::parse("d1").unwrap(),
        verdict: Verdict::Reject,
        digest: Digest::of("shown"),
        answers: [("s".to_owned(), "x".to_owned())].into(),
        note: "no".into(),
        seen: Seen::Unread,
        on_behalf_of: Some(name("eu:42")),
        form: Form::default(),
        past: None,
        decided_before: None,
    }
}

// === There and back ===

/// What a message is after it has been bytes. The fields that it set are counted.
fn sent<M: Message + Default + PartialEq + std::fmt::Debug>(
    of: &'static str,
    message: &M,
    seen: &mut Seens,
) -> M {
    let bytes = message.encode_to_vec();
    seen.walk(of, &bytes);
    let back = M::decode(bytes.as_slice()).unwrap();
    assert_eq!(back, *message);
    back
}

fn everything_that_is_watched(seen: &mut Seens) {
    for row in rows() {
        let message = sent("WatchResponse", &super::row(&row), seen);
        assert_eq!(watched(message), Ok(Watched::Row(row)));
    }
    for recorded in all_recorded() {
        let prev_seq = recorded.seq - 1;
        let message = super::recorded(&recorded, prev_seq);
        let message = sent("WatchResponse", &message, seen);
        assert_eq!(
            watched(message),
            Ok(Watched::Recorded { recorded, prev_seq })
        );
    }
    let end = Watched::End {
        epoch: "e1".into(),
        seq: 7,
        last_at: at(1_700_000_000_001),
        server_now: at(1_700_000_000_999),
    };
    let message = snapshot_end("e1", 7, at(1_700_000_000_001), at(1_700_000_000_999));
    assert_eq!(watched(sent("WatchResponse", &message, seen)), Ok(end));
    let alive = Watched::Tick {
        seq: 8,
        server_now: at(1),
    };
    let message = sent("WatchResponse", &tick(8, at(1)), seen);
    assert_eq!(watched(message), Ok(alive));
}

#[test]
fn what_is_watched_arrives_as_it_was() {
    everything_that_is_watched(&mut Seens::default());
}

fn everything_that_is_answered(seen: &mut Seens) {
    assert_eq!(
        opened_as(sent(
            "OpenRunResponse",
            &opened(&runs()[0], vec!["/a".into()]),
            seen
        )),
        Ok(Opened {
            run: runs()[0].id,
            mode: Mode::Webhook,
            guidance: Mode::Webhook.guidance().into(),
            dropped: vec!["/a".into()],
        })
    );

    let asked = approval(1, tool());
    let message = filed(&asked, vec!["'S' needs an answer".into()]);
    let expected = Filed {
        id: asked.id,
        digest: asked.digest,
        warnings: vec!["'S' needs an answer".into()],
    };
    assert_eq!(filed_as(sent("FileResponse", &message, seen)), Ok(expected));

    let message = sent("GateResponse", &free(), seen);
    assert_eq!(gate_said(message), Ok(GateSays::Free));
    let message = gate_asked(filed(&asked, vec![]));
    let expected = GateSays::Asked(Filed {
        id: asked.id,
        digest: asked.digest,
        warnings: vec![],
    });
    assert_eq!(
        gate_said(sent("GateResponse", &message, seen)),
        Ok(expected)
    );
    let message = sent("GateResponse", &blocked(a(1), &"BLOCKED: x".into()), seen);
    let expected = GateSays::Blocked {
        id: a(1),
        missing: "BLOCKED: x".into(),
        guidance: Mode::Autonomous.guidance().into(),
    };
    assert_eq!(gate_said(message), Ok(expected));

    let left = Duration::from_millis(1_500);
    let message = sent("AwaitResponse", &pending_left(left), seen);
    assert_eq!(awaited(message), Ok(Awaited::Pending { left }));
    let ended = settled(Outcome::Granted(decision()));
    let message = sent("AwaitResponse", &settled_await(&ended), seen);
    assert_eq!(
        awaited(message),
        Ok(Awaited::Settled(Box::new(ended.clone())))
    );
    let taken = vec![Arc::new(ended.clone())];
    let message = sent("ClaimResponse", &claimed(&taken), seen);
    assert_eq!(claimed_back(message), Ok(vec![ended.clone()]));
    let message = sent("RestoreResponse", &restored(None), seen);
    assert_eq!(restored_back(message), Ok(Ok(())));
    let why = Refusal::NotNow("begun with".into());
    let message = sent("RestoreResponse", &restored(Some(&why)), seen);
    assert_eq!(restored_back(message), Ok(Err("begun with".into())));

    let message = sent("AwaitResponse", &gave_up(&wait(), at(3)), seen);
    let timeout = WaitTimeout {
        wait: wait(),
        at: at(3),
    };
    assert_eq!(awaited(message), Ok(Awaited::TimedOut(timeout)));

    let message = sent("HeartbeatResponse", &heartbeat_answer(at(-7)), seen);
    assert_eq!(server_time(message), Ok(at(-7)));

    let level = sent("ReportDriftResponse", &drifted(Level::Terminate), seen);
    assert_eq!(drifted_as(level), Ok(Level::Terminate));
    for control in controls() {
        let message = sent("ControlsResponse", &handed_over(&control), seen);
        assert_eq!(order_of(message), Ok(control.clone()));
        let message = sent("ControlResponse", &controlled(&control), seen);
        assert_eq!(controlled_as(message), Ok(control));
    }

    let held = escalations().into_iter().map(Arc::new);
    let open = held.map(Open::Escalation);
    let open = open.chain([Open::Pending(Arc::new(pending()))]);
    let items = open.map(|open| Item {
        open,
        run: bare_run(),
    });
    let items: Vec<Item> = items.collect();
    for next in [ItemId::Approval(a(1)), ItemId::Escalation(e(1))] {
        let sent_items = items.iter().map(|item| open_item(&item.open, &item.run));
        let message = page(sent_items.collect(), Some(next), 9);
        let expected = Page {
            items: items.clone(),
            next: Some(next),
            as_of: 9,
        };
        assert_eq!(
            page_back(sent("ListResponse", &message, seen)),
            Ok(expected)
        );
    }
    assert_eq!(page_back(page(vec![], None, 0)).unwrap().next, None);

    let asks = [
        super::Asked::Pending(Arc::new(pending())),
        super::Asked::Settled(Arc::new(ended.clone())),
        super::Asked::Escalation(Arc::new(escalations().remove(0))),
        super::Asked::Closed(Arc::new(closed_ones().remove(0))),
    ];
    for (asked, run) in asks
        .into_iter()
        .zip([Some(bare_run()), None].into_iter().cycle())
    {
        let message = got(&asked, &large(), run.as_ref());
        let detail = large();
        let expected = Got { asked, detail, run };
        assert_eq!(got_back(sent("GetResponse", &message, seen)), Ok(expected));
    }

    let record = all_recorded();
    let items = record.iter().map(|recorded| record_item(recorded, 7));
    let message = got_run(&bare_run(), items.collect(), true);
    let expected = RunRecord {
        run: bare_run(),
        record,
        has_more: true,
    };
    assert_eq!(
        run_record(sent("GetRunResponse", &message, seen)),
        Ok(expected)
    );

    let ends = closed_ones().into_iter().map(Ended::Escalation);
    let ends: Vec<Ended> = ends.chain([Ended::Approval(ended.clone())]).collect();
    let message = history_page(ends.iter().map(ended_item).collect(), Some(5));
    let message = sent("HistoryResponse", &message, seen);
    assert_eq!(history_back(message), Ok((ends, Some(5))));
    let message = sent("DecideResponse", &decided(&ended), seen);
    let expected = Decided::Settled(Box::new(ended));
    assert_eq!(decided_as(message), Ok(expected));
    let message = sent("DecideResponse", &voted(&self::pending()), seen);
    let expected = Decided::Voted(Box::new(self::pending()));
    assert_eq!(decided_as(message), Ok(expected));
    let message = sent("ExtendResponse", &extended(at(11)), seen);
    assert_eq!(extended_to(message), Ok(at(11)));

    let message = sent("MintTicketResponse", &minted("pt.x".into(), at(9)), seen);
    assert_eq!(minted_as(message), Ok(("pt.x".into(), at(9))));
    let who = ada()
        .with_scopes([Grant::Watch, Grant::Internal])
        .via(name("backend:web"));
    let message = whoami(&who, ("socket", Some(at(14))), "0.1.0", "e1", 12, at(13));
    let message = with_clock_ahead(message, Some(Duration::from_secs(3600)));
    let expected = Me {
        name: name("user:ada"),
        tenant: tenant(),
        roles: [Role::Operator, Role::Admin].into(),
        by: "socket".into(),
        scopes: [Grant::Internal, Grant::Watch].into(),
        expires: Some(at(14)),
        via: Some(name("backend:web")),
        version: "0.1.0".into(),
        epoch: "e1".into(),
        head: 12,
        server_now: at(13),
        clock_ahead: Some(Duration::from_secs(3600)),
    };
    assert_eq!(me(sent("WhoamiResponse", &message, seen)), Ok(expected));
}

#[test]
fn what_is_answered_arrives_as_it_was() {
    everything_that_is_answered(&mut Seens::default());
}

/// Wishes hold no equality of their own; what they say is the same if they say it alike.
fn same(wish: Result<Wish, Refusal>, expected: Wish) {
    assert_eq!(format!("{:?}", wish.unwrap()), format!("{expected:?}"));
}

fn everything_that_is_asked(seen: &mut Seens) {
    let (id, run) = (a(1), r(1));
    let message = sent("OpenRunRequest", &ask_open_run(&opening()), seen);
    let open = Opening {
        context: "{\"a\": 1}".into(),
        ..opening()
    };
    let expected = Wish::OpenRun(OpenRun {
        id: run,
        key: key_of(Source::Cli),
        project: open.project,
        thread: open.thread,
        origin: open.origin,
        owner: open.user,
        parent: open.parent,
        can_resume: true,
        context: open.context,
    });
    same(open_run(message, &ada(), run), expected);

    let paused = interrupts().map(Ending::Paused).into_iter();
    let over = [End::Completed, End::Failed, End::Cancelled, End::Aborted].map(Ending::Over);
    for how in paused.chain(over) {
        let reason = Untrusted::new("late");
        let message = sent("EndRunRequest", &ask_end_run(run, how, &reason), seen);
        same(end_run(message), Wish::EndRun { run, how, reason });
    }
    for state in task_states() {
        let [task, title, detail] = ["t1", "Look", "at it"].map(Untrusted::from);
        let message = ask_report_task(run, &task, &title, &state, &detail);
        let message = sent("ReportTaskRequest", &message, seen);
        let expected = Wish::ReportTask {
            run,
            task,
            title,
            state,
            detail,
        };
        same(report_task(message), expected);
    }
    let cause = Untrusted::new("drift 1");
    let message = ask_report_plan(run, &plan(), &cause);
    let message = sent("ReportPlanRequest", &message, seen);
    let plan = plan();
    same(report_plan(message), Wish::ReportPlan { run, plan, cause });
    let text = Untrusted::new("hello");
    let message = sent("SayRequest", &ask_say(run, &text), seen);
    same(say(message), Wish::Say { run, text });

    let filings = [
        filing(),
        Filing {
            key: None,
            subject: task(),
            detail: Detail::default(),
            labels: BTreeMap::new(),
            deadline: None,
            on_deadline: OnDeadline::Expire,
            hold: Hold::Nothing,
            risk: Risk::Normal,
            votes: 2,
            ..filing()
        },
    ];
    for filing in filings {
        let message = sent("FileRequest", &ask_file(run, &filing), seen);
        let past = None;
        let expected = Wish::File(Box::new(File {
            id,
            run,
            filing,
            past,
        }));
        same(file(message, id), expected);
    }
    let held = Filing {
        asks: Asks::Operator,
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Thread,
        ..filing()
    };
    let message = sent("GateRequest", &ask_gate(run, &filing()), seen);
    let call = gate(message, id).map(|file| Wish::File(Box::new(file)));
    let expected = File {
        id,
        run,
        filing: held,
        past: None,
    };
    same(call, Wish::File(Box::new(expected)));
    let patience = Some(Duration::from_secs(600));
    let message = ask_await(id, Some(&wait()), patience);
    let expected = AwaitWish {
        id,
        wait: Some(wait()),
        patience,
    };
    assert_eq!(await_(sent("AwaitRequest", &message, seen)), Ok(expected));
    let (past, reason) = (None, Untrusted::new("late"));
    let message = sent("WithdrawRequest", &ask_withdraw(id, &reason), seen);
    same(withdraw(message), Wish::Withdraw { id, reason, past });
    let (result, detail, past) = (AppliedResult::Failed, Untrusted::new("no"), None);
    let message = ask_report_applied(id, result, &detail);
    let message = sent("ReportAppliedRequest", &message, seen);
    let expected = Wish::ReportApplied {
        id,
        result,
        detail,
        past,
    };
    same(report_applied(message), expected);
    let (step, token, past) = (Untrusted::new("s1"), claim_token(), vec![]);
    let digests = BTreeMap::from([("t1".into(), Digest::of("shown"))]);
    let message = ask_claim(run, &step, &digests, &token);
    let message = sent("ClaimRequest", &message, seen);
    let expected = Wish::Claim(Box::new(TakeStep {
        run,
        step: step.clone(),
        digests,
        token: token.clone(),
        past: past.clone(),
    }));
    same(claim(message), expected);
    let message = sent("RestoreRequest", &ask_restore(run, &step, &token), seen);
    let expected = Wish::Restore(Box::new(GiveBack {
        run,
        step,
        token: token.clone(),
        past,
    }));
    same(restore(message), expected);
    let message = ask_report_started(id, &token);
    let message = sent("ReportStartedRequest", &message, seen);
    let past = None;
    same(
        report_started(message),
        Wish::ReportStarted { id, token, past },
    );
    let message = sent("HeartbeatRequest", &ask_heartbeat(&[run, r(2)]), seen);
    assert_eq!(heartbeat(message), Ok(vec![run, r(2)]));

    drifts_and_orders_that_are_asked(run, seen);

    let message = sent("DecideRequest", &ask_decide(&deciding()), seen);
    same(decide(message), Wish::Decide(Box::new(deciding())));
    let (span, past) = (Duration::from_secs(3600), None);
    let message = sent("ExtendRequest", &ask_extend(id, span), seen);
    same(extend(message), Wish::Extend { id, span, past });
    let user = name("user:ada");
    let message = ask_mint_ticket(&user, Some(span), &[Grant::Watch]);
    let message = sent("MintTicketRequest", &message, seen);
    assert_eq!(
        mint_ticket(message),
        Ok((user, Some(span), vec![Grant::Watch]))
    );
    let (note, past) = (Untrusted::new("gone"), None);
    let message = sent("DismissRequest", &ask_dismiss(id, &note), seen);
    same(dismiss(message), Wish::Dismiss { id, note, past });

    for after in [ItemId::Approval(id), ItemId::Escalation(e(1))] {
        let wish = ListWish {
            limit: 500,
            after: Some(after),
            labels: labels(),
            run: Some("run-1".into()),
            session: Some("s1".into()),
        };
        let message = sent("ListRequest", &ask_list(&wish), seen);
        assert_eq!(list(message), Ok(wish));
    }
    let wish = HistoryWish {
        limit: 1,
        before: Some(9),
        filter: registry::log::Filter {
            text: Some("Deploy".into()),
            run: Some("r1".into()),
            agent: Some("billing".into()),
            decider: Some("ada".into()),
            outcome: Some(registry::log::EndedAs::parse("run-ended").unwrap()),
            labels: vec![("team".into(), "web".into())],
            since: Some(at(1_700_000_000_001)),
            until: Some(at(1_700_000_000_002)),
        },
    };
    let message = sent("HistoryRequest", &ask_history(&wish), seen);
    assert_eq!(history(message), Ok(wish));
    let named = get(sent("GetRequest", &ask_get(id.into()), seen)).unwrap();
    assert_eq!(named.approval, id);
    let named = get(sent("GetRequest", &ask_get(e(1).into()), seen)).unwrap();
    assert_eq!(named.escalation, e(1));
    let message = sent("GetRunRequest", &ask_get_run(&"run-1".into(), 4), seen);
    assert_eq!(get_run(message), Ok(("run-1".into(), 4)));
    let message = sent("WatchRequest", &ask_watch(Some(("e1", 4))), seen);
    assert_eq!(watch(message), Ok(Some(("e1".into(), 4))));
    assert_eq!(watch(ask_watch(None)), Ok(None));
}

fn drifts_and_orders_that_are_asked(run: RunId, seen: &mut Seens) {
    let report = DriftReport {
        id: d(1),
        kind: "drift_kind_looping_tool_call".into(),
        severity: "CRITICAL".into(),
        detail: "again".into(),
        task: "t1".into(),
    };
    let raise = Raise {
        escalation: e(2),
        control: c(2),
        drift: d(2),
    };
    let ids = DriftIds {
        drift: d(3),
        raise: raise.clone(),
    };
    let message = sent("ReportDriftRequest", &ask_report_drift(run, &report), seen);
    let unnamed = pb::ReportDriftRequest {
        drift_id: String::new(),
        ..message.clone()
    };
    for (message, id) in [(message, d(1)), (unnamed, d(3))] {
        let drift = Drift {
            id,
            kind: DriftKind::of("LOOPING_TOOL_CALL"),
            severity: Severity::Critical,
            detail: "again".into(),
            task: "t1".into(),
            level: None,
            from: None,
            at: Timestamp::default(),
        };
        let expected = Wish::ReportDrift(Box::new(ReportDrift {
            run,
            drift,
            raise: raise.clone(),
        }));
        same(report_drift(message, ids.clone()), expected);
    }

    let message = sent("ControlsRequest", &ask_controls(run), seen);
    assert_eq!(super::controls(message), Ok(run));
    let results = [
        AckResult::Success,
        AckResult::Failure,
        AckResult::Unsupported,
    ];
    for result in results {
        let detail = Untrusted::new("on it");
        let message = ask_ack_control(run, &c(1), result, &detail);
        let message = sent("AckControlRequest", &message, seen);
        let expected = Wish::Ack(Box::new(Ack {
            run,
            control: c(1),
            result,
            detail,
            raise: e(2),
        }));
        same(ack_control(message, e(2)), expected);
    }
    for (verb, answers) in verbs().into_iter().zip([Some(e(1)), None].iter().cycle()) {
        let order = Order {
            id: c(1),
            run,
            verb,
            note: "left".into(),
            answers: *answers,
        };
        let message = sent("ControlRequest", &ask_control(&order), seen);
        let expected = Wish::Direct(Box::new(Direct {
            order,
            raise: e(2),
            past: None,
        }));
        same(super::control(message, e(2)), expected);
    }
}

#[test]
fn what_is_asked_arrives_as_it_was_meant() {
    everything_that_is_asked(&mut Seens::default());
}

// === No field is forgotten ===

/// The fields that were not empty in some message, as `Message.field`.
struct Seens {
    fields: BTreeSet<String>,
    schema: Vec<prost_types::DescriptorProto>,
}

impl Default for Seens {
    fn default() -> Self {
        Self {
            fields: BTreeSet::new(),
            schema: schema(),
        }
    }
}

fn schema() -> Vec<prost_types::DescriptorProto> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    let files = prost_types::FileDescriptorSet::decode(bytes.as_slice()).unwrap();
    let ours = files.file.into_iter();
    ours.filter(|file| file.package() == "pilothouse.v1")
        .flat_map(|file| file.message_type)
        .collect()
}

impl Seens {
    /// Reads the bytes by the schema itself: what is empty is not in them.
    fn walk(&mut self, of: &str, mut bytes: &[u8]) {
        use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
        let mut messages = self.schema.iter();
        let Some(message) = messages.find(|message| message.name() == of).cloned() else {
            return; // of a map, or of Google
        };
        while !bytes.is_empty() {
            let (tag, wire) = decode_key(&mut bytes).unwrap();
            let mut fields = message.field.iter();
            let field = fields.find(|field| field.number() as u32 == tag).unwrap();
            self.fields.insert(format!("{of}.{}", field.name()));
            if wire == WireType::LengthDelimited {
                let length = decode_varint(&mut bytes).unwrap() as usize;
                let (inside, rest) = bytes.split_at(length);
                bytes = rest;
                if let Some(inner) = field.type_name().strip_prefix(".pilothouse.v1.") {
                    self.walk(inner, inside);
                }
            } else {
                skip_field(wire, tag, &mut bytes, DecodeContext::default()).unwrap();
            }
        }
    }
}

/// A field that is added to the schema and not here would be lost in silence.
#[test]
fn every_field_of_the_schema_travels() {
    let mut seen = Seens::default();
    everything_that_is_watched(&mut seen);
    everything_that_is_answered(&mut seen);
    everything_that_is_asked(&mut seen);
    let for_status = ["FieldFault", "Refusal"]; // src/wire/status.rs
    let ours = |message: &prost_types::DescriptorProto| {
        let name = message.name();
        !for_status.contains(&name)
    };
    let forgotten: Vec<String> = (schema().into_iter().filter(ours))
        .flat_map(|message| {
            let name = message.name().to_owned();
            let fields = message.field.into_iter();
            fields.map(move |field| format!("{name}.{}", field.name()))
        })
        .filter(|field| !seen.fields.contains(field))
        .collect();
    // The credential says the tenant; a request may only repeat it.
    assert_eq!(forgotten, ["OpenRunRequest.tenant"]);
}

// === At the door ===

fn invalid<T: std::fmt::Debug>(read: Result<T, Refusal>) -> String {
    match read {
        Err(Refusal::Invalid(why)) => why,
        other => panic!("not refused as unreadable: {other:?}"),
    }
}

fn file_refused(change: impl FnOnce(&mut pb::FileRequest)) -> String {
    let mut req = ask_file(r(1), &filing());
    change(&mut req);
    invalid(file(req, a(1)))
}

fn field_refused(presence: i32, default: Option<&str>) -> String {
    file_refused(|req| {
        let field = &mut req.detail.as_mut().unwrap().fields[3]; // an integer
        field.presence = presence;
        field.default_value = default.map(str::to_owned);
    })
}

#[test]
fn an_unreadable_question_is_refused_with_a_reason() {
    let rows = [
        (file_refused(|r| r.run_id.clear()), "an id is needed"),
        (
            file_refused(|r| r.subject = None),
            "the task or tool is missing",
        ),
        (file_refused(|r| r.asks = 0), "who is asked is not said"),
        (
            file_refused(|r| r.asks = 9),
            "who is asked 9 is not one that is known here",
        ),
        (file_refused(|r| r.hold = 9), "what it holds 9 is not one"),
        (file_refused(|r| r.risk = -1), "the risk -1 is not one"),
        (
            file_refused(|r| r.key = "a b".into()),
            "an idempotency key must be",
        ),
        (
            file_refused(|r| r.deadline.as_mut().unwrap().on_deadline = 9),
            "what happens at the deadline 9 is not one",
        ),
        (
            file_refused(|r| r.deadline.as_mut().unwrap().after = None),
            "the deadline's length is missing",
        ),
        (
            file_refused(|r| {
                let after = r.deadline.as_mut().unwrap().after.as_mut().unwrap();
                (after.seconds, after.nanos) = (-1, 0);
            }),
            "the deadline is not a length of time: a deadline is between 1 minute and 30 days",
        ),
        (
            file_refused(|r| r.detail.as_mut().unwrap().args_json = Some(vec![b'{', 0xff])),
            "the arguments are not UTF-8 from byte 1",
        ),
        (
            file_refused(|r| r.detail.as_mut().unwrap().fields[0].r#type = 0),
            "the type of field 's' is not said",
        ),
        (
            file_refused(|r| r.detail.as_mut().unwrap().fields[0].name = "a\u{1b}".into()),
            "is not a field name",
        ),
        (
            file_refused(|r| {
                let options = vec![pb::FieldOption::default()];
                r.detail.as_mut().unwrap().fields[0].options = options;
            }),
            "field 's' has options, but is not an enum",
        ),
        (field_refused(1, Some("")), "the default of 'i' is empty"),
        (
            field_refused(0, Some("x")),
            "the default of 'i' is not a valid integer",
        ),
        (
            field_refused(2, Some("")),
            "the default of 'i' is not a valid integer",
        ),
        (
            field_refused(2, None),
            "field 'i' is optional, so it needs a default",
        ),
        (
            field_refused(9, None),
            "the presence of field 'i' 9 is not one",
        ),
    ];
    for (why, expected) in rows {
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
}

#[test]
fn what_is_left_out_of_a_question_has_its_default() {
    let mut req = ask_file(r(1), &filing());
    req.title.clear();
    req.key.clear();
    (req.hold, req.risk) = (0, 0);
    req.deadline.as_mut().unwrap().on_deadline = 0;
    req.detail.as_mut().unwrap().fields[0].presence = 0;
    let Wish::File(filed) = file(req, a(1)).unwrap() else {
        panic!("a filing")
    };
    let expected = Filing {
        title: "Publish logbook".into(),
        key: None,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 2,
        on_deadline: OnDeadline::Expire,
        ..filing()
    };
    assert_eq!(filed.filing, expected);
    // Byte for byte: nobody re-serialises what will run.
    assert_eq!(filed.filing.detail.args, large().args);
}

fn decide_refused(change: impl FnOnce(&mut pb::DecideRequest)) -> String {
    let mut req = ask_decide(&deciding());
    change(&mut req);
    invalid(decide(req))
}

#[test]
fn an_unreadable_call_is_refused_with_a_reason() {
    let open = |change: fn(&mut pb::OpenRunRequest)| {
        let mut req = ask_open_run(&opening());
        change(&mut req);
        invalid(open_run(req, &ada(), r(1)))
    };
    let end = |how| {
        let mut req = ask_end_run(r(1), Ending::Over(End::Failed), &"".into());
        req.how = how;
        invalid(end_run(req))
    };
    use pb::end_run_request::How::{Ended, Paused};
    let await_for = |seconds| {
        let mut req = ask_await(a(1), None, Some(Duration::ZERO));
        req.patience.as_mut().unwrap().seconds = seconds;
        invalid(await_(req))
    };
    let mut unnamed = ask_report_task(
        r(1),
        &"t".into(),
        &"".into(),
        &TaskState::Running,
        &"".into(),
    );
    unnamed.task.as_mut().unwrap().id.clear();
    let page = |page_size| pb::ListRequest {
        page_size,
        ..ask_list(&list(pb::ListRequest::default()).unwrap())
    };
    let of_page = |page_token: &str| pb::HistoryRequest {
        page_token: page_token.into(),
        page_size: 1,
        ..Default::default()
    };
    let order = |change: fn(&mut pb::ControlRequest)| {
        let mut req = ask_control(&Order {
            id: c(1),
            run: r(1),
            verb: Verb::Resume,
            note: Untrusted::default(),
            answers: None,
        });
        change(&mut req);
        invalid(super::control(req, e(1)))
    };
    let ack = |change: fn(&mut pb::AckControlRequest)| {
        let mut req = ask_ack_control(r(1), &c(1), AckResult::Success, &"".into());
        change(&mut req);
        invalid(ack_control(req, e(1)))
    };
    let of_list = |page_token: &str| pb::ListRequest {
        page_token: page_token.into(),
        ..Default::default()
    };
    let nowhere = pb::WatchRequest {
        after: Some(pb::Cursor::default()),
    };
    let rows = [
        (decide_refused(|r| r.verdict = 0), "the verdict is not said"),
        (
            decide_refused(|r| r.verdict = 7),
            "the verdict 7 is not one",
        ),
        (
            decide_refused(|r| r.seen = 7),
            "how much was seen 7 is not one",
        ),
        (
            decide_refused(|r| r.digest.clear()),
            "the digest of what was seen is needed",
        ),
        (
            decide_refused(|r| r.digest = r.digest.to_uppercase()),
            "64 lower-case hex digits",
        ),
        (
            decide_refused(|r| r.decision_id.clear()),
            "a decision id must be",
        ),
        (
            decide_refused(|r| r.on_behalf_of = "system:gate".into()),
            "names that begin with 'system:' are reserved",
        ),
        (open(|r| r.context = "{".into()), "the context is not JSON"),
        (open(|r| r.parent_run_id = "7".into()), "an id is needed"),
        (open(|r| r.user = "system:gate".into()), "are reserved"),
        (end(None), "how it ends is missing"),
        (end(Some(Ended(0))), "how the run ended is not said"),
        (
            end(Some(Ended(pb::RunState::Parked as i32))),
            "how the run ended 3 is not one",
        ),
        (end(Some(Paused(0))), "what the turn waits for is not said"),
        (await_for(-5), "the patience is not a length of time"),
        (invalid(report_task(unnamed)), "the id of a task is missing"),
        (
            invalid(extend(pb::ExtendRequest::default())),
            "how long from now is missing",
        ),
        (
            invalid(list(page(501))),
            "a page has 1 to 500 entries, not 501",
        ),
        (invalid(history(of_page("-1"))), "the page token is not one"),
        (invalid(list(of_list("1"))), "the page token is not one"),
        (invalid(list(of_list("e-1"))), "the page token is not one"),
        (order(|o| o.kind = 0), "what the run is to do is not said"),
        (order(|o| o.kind = 7), "what the run is to do 7 is not one"),
        (order(|o| o.kind = -1), "what the run is to do -1 is not"),
        (order(|o| o.control_id.clear()), "a control id must be"),
        (order(|o| o.run_id.clear()), "an id is needed"),
        (order(|o| o.escalation_id = "7".into()), "an id is needed"),
        (ack(|a| a.result = 0), "the result of the ack is not said"),
        (ack(|a| a.result = 4), "the result of the ack 4 is not one"),
        (ack(|a| a.control_id = "a b".into()), "a control id must be"),
        (
            invalid(super::controls(pb::ControlsRequest::default())),
            "an id is needed",
        ),
        (invalid(get(pb::GetRequest::default())), "an id is needed"),
        (
            invalid(get_run(pb::GetRunRequest::default())),
            "the run's id is missing",
        ),
        (invalid(watch(nowhere)), "the cursor's epoch is missing"),
    ];
    for (why, expected) in rows {
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
}

#[test]
fn the_tenant_comes_from_the_credential() {
    let ask = |tenant: &str| {
        let mut req = ask_open_run(&opening());
        req.tenant = tenant.into();
        open_run(req, &ada(), r(1))
    };
    assert!(ask("").is_ok() && ask("harbour").is_ok());
    let refused = Refusal::NotYours("the tenant comes from the credential");
    assert_eq!(ask("other").unwrap_err(), refused);
}

// === In the client ===

#[test]
fn what_the_client_has_no_word_for_is_an_error() {
    use pb::watch_response::What;
    let read = |change: fn(&mut pb::Settled)| {
        let ended = settled(Outcome::Granted(decision()));
        let mut message = decided(&ended).settled.unwrap();
        change(&mut message);
        super::settled(message).unwrap_err().to_string()
    };
    let asked = |change: fn(&mut pb::Approval)| {
        let ended = settled(Outcome::Granted(decision()));
        let mut message = decided(&ended).settled.unwrap().approval.unwrap();
        change(&mut message);
        super::approval(message).unwrap_err().to_string()
    };
    let run = |change: fn(&mut pb::Run)| {
        let What::Run(mut message) = super::row(&Row::Run(Arc::new(bare_run()))).what.unwrap()
        else {
            panic!("a run")
        };
        change(&mut message);
        super::run(message).unwrap_err().to_string()
    };
    let held = |change: fn(&mut pb::Escalation)| {
        let held = Row::Escalation(Arc::new(escalations().remove(0)));
        let What::Escalation(mut message) = super::row(&held).what.unwrap() else {
            panic!("an escalation")
        };
        change(&mut message);
        super::escalation(message).unwrap_err().to_string()
    };
    let closed = |change: fn(&mut pb::ClosedHow)| {
        let closed = Row::Closed(Arc::new(closed_ones().remove(0)));
        let What::Closed(mut message) = super::row(&closed).what.unwrap() else {
            panic!("a closed one")
        };
        change(message.how.as_mut().unwrap());
        super::closed(message).unwrap_err().to_string()
    };
    let order = |change: fn(&mut pb::Control)| {
        let mut message = handed_over(&controls()[0]);
        change(message.control.as_mut().unwrap());
        order_of(message).unwrap_err().to_string()
    };
    use pb::{closed_how::How as Ways, escalation::Cause as Causes};
    let rows = [
        (held(|e| e.cause = None), "what holds the run is missing"),
        (
            held(|e| e.cause = Some(Causes::Drift(pb::Drift::default()))),
            "a drift id must be",
        ),
        (held(|e| e.after.as_mut().unwrap().kind = 9), "to do 9 is"),
        (held(|e| e.at = None), "when it was raised is missing"),
        (closed(|h| h.how = None), "how it ended is missing"),
        (
            closed(|h| h.how = Some(Ways::RunEnded(1))),
            "how the run ended 1 is not one",
        ),
        (
            closed(|h| h.how = Some(Ways::Answered(Default::default()))),
            "what the run is to do is not said",
        ),
        (order(|c| c.kind = 0), "what the run is to do is not said"),
        (order(|c| c.kind = 7), "what the run is to do 7 is not one"),
        (order(|c| c.level = 7), "how strongly it is answered 7 is"),
        (order(|c| c.level = 0), "the level of its drift is missing"),
        (order(|c| c.steps[0].stage = 0), "how far it came is not"),
        (order(|c| c.steps[0].stage = 7), "how far it came 7 is not"),
        (order(|c| c.steps[0].at = None), "when it came so far is"),
        (
            order_of(pb::ControlsResponse::default())
                .unwrap_err()
                .to_string(),
            "the order is missing",
        ),
        (
            drifted_as(pb::ReportDriftResponse { level: 6 })
                .unwrap_err()
                .to_string(),
            "the level 6 is not one",
        ),
        (run(|r| r.pause = 4), "the pause 4 is not one"),
        (
            run(|r| r.state = pb::RunState::Paused as i32),
            "why the run is said to stand still is missing",
        ),
        (
            run(|r| {
                r.state = pb::RunState::Paused as i32;
                r.pause = pb::Pause::Asked as i32;
            }),
            "why the run is said to stand still is missing",
        ),
        (run(|r| r.held_by = "7".into()), "an id is needed"),
        (
            watched(pb::WatchResponse::default())
                .unwrap_err()
                .to_string(),
            "what is watched",
        ),
        (read(|s| s.outcome = None), "how it ended is missing"),
        (
            read(|s| s.delivery.as_mut().unwrap().state = 0),
            "how far the delivery came is not",
        ),
        (
            read(|s| s.applied.as_mut().unwrap().result = 9),
            "what came of it 9",
        ),
        (read(|s| s.at = None), "when it ended is missing"),
        (
            read(|s| s.at.as_mut().unwrap().seconds = i64::MAX),
            "when it ended is not a moment",
        ),
        (
            read(|s| s.at.as_mut().unwrap().nanos = -1),
            "when it ended is not a moment",
        ),
        (asked(|a| a.source = 9), "the source 9"),
        (asked(|a| a.asks = 0), "who is asked is not said"),
        (
            asked(|a| a.on_deadline = 0),
            "what happens at the deadline is not said",
        ),
        (asked(|a| a.digest = "00".into()), "the digest: a SHA-256"),
        (run(|r| r.state = 99), "the run's state 99"),
        (
            run(|r| r.state = pb::RunState::Parked as i32),
            "what the turn waits for is not",
        ),
        (
            run(|r| r.presence = pb::Presence::Away as i32),
            "since when the agent is away",
        ),
    ];
    for (why, expected) in rows {
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
}
