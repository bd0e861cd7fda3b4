//! Runs that stand still, and what people have runs do: from the command line to the agent, and back.

use std::{
    cell::Cell,
    pin::Pin,
    process::{Child, Stdio},
    time::Duration,
};

use pilothouse::{
    connect::{CallError, Client, Server as Place},
    wire::pilothouse::{Awaited, DriftReport, Opening},
};
use registry::{
    ApprovalId, Control, RunId, Settled, Untrusted,
    approval::{Filing, Outcome, Why},
    command::{AckResult, Ending, Order},
    control::Verb,
    drift::Level,
    names::{DriftId, Key, WaitId},
    run::{End, Plan, TaskState},
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt as _};

use crate::{
    house::Standing,
    pty::Pty,
    server::{PROGRAM, Ran, Server},
};

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An agent of ours.
pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) run: RunId,
    drifted: Cell<usize>,
}

impl Agent {
    /// On the socket of the server.
    pub(crate) async fn start(server: &Server, invocation: &str) -> Self {
        let place: Place = format!("unix:{}", server.socket().display())
            .parse()
            .unwrap();
        Self::of(Client::connect(place, None), invocation).await
    }

    pub(crate) async fn of(client: Client, invocation: &str) -> Self {
        let run = Opening {
            agent: "billing".into(),
            session: format!("s-{invocation}").into(),
            invocation: invocation.into(),
            ..Opening::default()
        };
        let run = client.open_run(&run).await.unwrap();
        let drifted = Cell::new(0);
        Self {
            client,
            run,
            drifted,
        }
    }

    fn id(&self) -> String {
        self.run.to_string()
    }

    async fn drifts_as(&self, id: &str, kind: &str, severity: &str) -> Level {
        let drift = DriftReport {
            id: DriftId::parse(id).unwrap(),
            kind: kind.into(),
            severity: severity.into(),
            detail: "the same call again".into(),
            task: "t1".into(),
        };
        self.client.report_drift(self.run, &drift).await.unwrap()
    }

    async fn drifts(&self, kind: &str, severity: &str) -> u8 {
        self.drifted.set(self.drifted.get() + 1);
        let id = format!("d{}", self.drifted.get());
        self.drifts_as(&id, kind, severity).await.number()
    }

    /// Drifts so that it is to stand still; gives the escalation.
    pub(crate) async fn gets_stuck(&self) -> String {
        assert_eq!(self.drifts("INTENT_DIVERGENCE", "critical").await, 4);
        self.held_by().await.expect("it is held")
    }

    async fn held_by(&self) -> Option<String> {
        let named = self.id().as_str().into();
        let run = self.client.get_run(&named, 0).await.unwrap().run;
        run.held_by.map(|id| id.to_string())
    }

    pub(crate) async fn listens(&self) -> Orders {
        Orders(Box::pin(self.client.controls(self.run).await.unwrap()))
    }

    async fn says(&self, order: &Control, result: AckResult, detail: &str) {
        let (client, detail) = (&self.client, detail.into());
        let acked = client.ack_control(self.run, &order.id, result, &detail);
        acked.await.unwrap();
    }

    pub(crate) async fn takes(&self, order: &Control) {
        self.says(order, AckResult::Success, "").await;
    }

    async fn plans(&self, revision: u32, because_of: &Control) {
        let plan = Plan {
            revision,
            summary: "shorter".into(),
            tasks: vec![],
        };
        let cause = because_of.id.as_str().into();
        let planned = self.client.report_plan(self.run, &plan, &cause);
        planned.await.unwrap();
    }

    async fn reports(&self, task: &str, state: TaskState) {
        let [task, title, detail] = [task, "Look", ""].map(Untrusted::new);
        let (client, run) = (&self.client, self.run);
        let reported = client.report_task(run, &task, &title, &state, &detail);
        reported.await.unwrap();
    }

    pub(crate) async fn ends(&self, end: End) {
        let ended = self
            .client
            .end_run(self.run, Ending::Over(end), &"".into())
            .await;
        ended.unwrap();
    }

    pub(crate) async fn asks(&self, target: &str) -> ApprovalId {
        let filing = Filing {
            key: Some(Key::parse(&format!("{}/{target}", self.run)).unwrap()),
            deadline: Some(Duration::from_secs(3600)),
            ..crate::answers::asking(target, "{}")
        };
        self.client.file(self.run, &filing).await.unwrap().id
    }
}

/// The answer to a question, waited for.
pub(crate) async fn answer(client: Client, id: ApprovalId) -> Settled {
    let wait = WaitId::parse("w1").unwrap();
    match client.await_(id, &wait, PATIENCE).await.unwrap() {
        Awaited::Settled(settled) => *settled,
        other => panic!("{other:?}"),
    }
}

/// What an agent reads its orders from.
pub(crate) struct Orders(Pin<Box<dyn Stream<Item = Result<Control, CallError>> + Send>>);

impl Orders {
    pub(crate) async fn next(&mut self) -> Control {
        let order = timeout(PATIENCE, self.0.next()).await;
        let order = order.expect("an order in time");
        order.expect("the stream goes on").unwrap()
    }

    async fn end(&mut self) {
        let end = timeout(PATIENCE, self.0.next()).await;
        let end = end.expect("an end in time");
        assert!(end.is_none(), "{end:?}");
    }

    /// Until the server is gone.
    async fn are_cut(&mut self) {
        let cut = timeout(PATIENCE, self.0.next()).await;
        let cut = cut.expect("an error in time");
        assert!(matches!(cut, Some(Err(_))), "{cut:?}");
    }
}

/// A verb, done.
pub(crate) fn done(server: &Server, args: &[&str]) -> Ran {
    let ran = server.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    ran
}

/// A verb, refused; what it says.
pub(crate) fn refused(server: &Server, args: &[&str]) -> String {
    let ran = server.run(args);
    assert_eq!(ran.code, 4, "{args:?}: {ran:?}");
    assert!(ran.out.is_empty(), "{args:?}: {ran:?}");
    ran.err
}

pub(crate) fn spawn(server: &Server, args: &[&str]) -> Child {
    let mut command = server.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

async fn ended(child: Child) -> Ran {
    let waited = tokio::task::spawn_blocking(move || child.wait_with_output());
    Ran::of(waited.await.unwrap().unwrap())
}

/// How far the newest order of this kind has come, as `show` of its run has it.
fn stages(server: &Server, run: &str, verb: &str) -> Vec<String> {
    let shown = server.show(run);
    let orders = shown["controls"].as_array().unwrap();
    let order = orders.iter().rfind(|order| order["verb"] == verb).unwrap();
    let steps = order["steps"].as_array().unwrap();
    let stage = |step: &Value| step["stage"].as_str().unwrap().to_owned();
    steps.iter().map(stage).collect()
}

fn ids(items: &[Value]) -> Vec<&str> {
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}

fn me() -> String {
    let login = nix::unistd::User::from_uid(nix::unistd::geteuid());
    format!("user:{}", login.unwrap().unwrap().name)
}

// === Drifts ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drift_that_comes_again_climbs_until_a_person_is_asked() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let kind = "drift_kind_looping_tool_call";
    assert_eq!(agent.drifts(kind, "INFO").await, 0);
    assert_eq!(agent.drifts(kind, "warning").await, 1);
    assert_eq!(agent.drifts("OFF_TOPIC", "unheard of").await, 0);
    assert!(server.open().is_empty(), "that is for the agent to act on");
    // Reported twice under one id, it counts once.
    for _ in 0..3 {
        let level = agent.drifts_as("again", kind, "critical").await;
        assert_eq!(level, Level::CancelReinvoke);
    }
    assert_eq!(agent.drifts(kind, "critical").await, 4);
    let [held] = &server.open()[..] else {
        panic!("one run is held")
    };
    assert_eq!(held["kind"], "escalation");
    assert_eq!(held["run_state"], "pausing");
    let shown = server.show(held["id"].as_str().unwrap());
    let levels = shown["drifts"].as_array().unwrap().iter();
    let levels: Vec<_> = levels.map(|drift| drift["level"].clone()).collect();
    assert_eq!(json!(levels), json!([0, 1, 0, 3, 4, null]));
    let recorded_as = shown["drifts"].as_array().unwrap().last().unwrap();
    assert_eq!(recorded_as["kind"], "HUMAN_INTERVENTION_REQUIRED");
    assert_eq!(recorded_as["severity"], "critical");
    assert_eq!(
        recorded_as["detail"],
        "escalated from LOOPING_TOOL_CALL: the same call again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_told_why_it_is_to_stand_still() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    let held = agent.gets_stuck().await;
    let order = orders.next().await;
    assert_eq!(order.verb, Verb::Pause);
    assert_eq!(order.run, agent.run);
    assert_eq!(order.note.raw(), "INTENT_DIVERGENCE: the same call again");
    assert_eq!(order.by.as_str(), "system:ladder");
    assert_eq!(order.escalation.unwrap().to_string(), held);
    let behind = order.drift.clone().unwrap();
    assert_eq!(behind.id.as_str(), "d1");
    assert_eq!(behind.kind.text().raw(), "INTENT_DIVERGENCE");
    assert_eq!(behind.level, Level::PauseEscalate);

    assert_eq!(server.show(&agent.id())["state"], "pausing");
    agent.takes(&order).await;
    assert_eq!(server.show(&held)["run_state"], "paused");
    assert_eq!(stages(&server, "r1", "pause"), ["sent", "acked"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_stands_still_is_listed_beside_the_questions() {
    let server = Server::start();
    let question = server.file(&["--title", "Go on?", "--label", "team=web"]);
    let (one, two) = (
        Agent::start(&server, "r1").await,
        Agent::start(&server, "r2").await,
    );
    let (first, second) = (one.gets_stuck().await, two.gets_stuck().await);
    let items = server.open();
    assert_eq!(ids(&items), [&*first, &*second, &*question]);
    let shown = server.show(&first);
    for item in [&items[0], &shown] {
        let expected = json!({
            "id": first,
            "kind": "escalation",
            "target_id": "d1",
            "title": "INTENT_DIVERGENCE",
            "status": "pending",
            "digest": null,
            "asks": "operator",
            "labels": {},
            "run_id": one.id(),
            "run_state": "pausing",
            "task_id": "t1",
            "session_id": "s-r1",
            "agent": "billing",
            "source": "native",
            "deadline": null,
        });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&item[key], value, "{key}");
        }
        assert!(item["filed_at"].is_string());
    }
    let listed = |args: &[&str]| {
        let items = server.run(&[&["list", "--json"], args].concat()).objects();
        ids(&items).join(" ")
    };
    assert_eq!(listed(&["--run", "r1"]), first);
    assert_eq!(listed(&["--run", &two.id()]), second);
    assert_eq!(listed(&["--session", "s-r2"]), second);
    assert_eq!(listed(&["--session", "s-r2", "--run", "r1"]), "");
    assert_eq!(listed(&["--label", "team=web"]), question);
    let people = done(&server, &["list"]).out;
    assert!(people.contains(&first), "{people}");
    // Each page is one entry long, and none is told twice or left out.
    let list = pilothouse::wire::pilothouse::ListWish {
        limit: 1,
        ..Default::default()
    };
    let paged = one.client.list(&list).await.unwrap();
    assert_eq!(paged, one.client.list(&Default::default()).await.unwrap());
    assert_eq!(paged.len(), 3);
}

// === Waiting ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_as_the_person_answers() {
    let server = Server::start();
    let rows: [(&[&str], i32); 4] = [
        (&["resume"], 0),
        (&["steer", "--note", "left"], 0),
        (&["cancel"], 1),
        (&[], 2),
    ];
    for (n, (verb, code)) in rows.into_iter().enumerate() {
        let agent = Agent::start(&server, &format!("r{n}")).await;
        let held = agent.gets_stuck().await;
        for span in ["0s", "600ms"] {
            let not_yet = server.run(&["wait", &held, "--timeout", span]);
            assert_eq!(not_yet.code, 3, "{not_yet:?}");
        }
        let waiting = spawn(&server, &["wait", &held]);
        match verb {
            [verb, rest @ ..] => {
                done(&server, &[&[*verb, &*held], rest].concat());
            }
            [] => agent.ends(End::Completed).await,
        }
        let waited = ended(waiting).await;
        assert_eq!(waited.code, code, "{verb:?}: {waited:?}");
        let told: Value = serde_json::from_str(&waited.out).unwrap();
        assert_eq!(told["id"], held);
        assert!(told["run_state"].is_string(), "{told}");
        let after = server.run(&["wait", &held, "--timeout", "0s"]);
        assert_eq!(after.code, code, "{verb:?}: {after:?}");
    }
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(server.run(&["wait", unknown]).code, 4);
}

// === Orders ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_goes_to_its_agent_and_comes_back_confirmed() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    agent.reports("t1", TaskState::Completed).await;

    let said = done(&server, &["pause", "r1", "--note", "hold on"]).out;
    let by = format!("pause by {}", me());
    assert!(said.starts_with(&by), "{said}");
    let order = orders.next().await;
    assert_eq!(
        (&order.verb, order.note.raw()),
        (&Verb::Pause, "hold on"),
        "{order:?}"
    );
    assert_eq!(order.by.as_str(), me());
    assert_eq!(server.show("r1")["state"], "pausing");
    agent.takes(&order).await;
    let shown = server.show("r1");
    assert_eq!(shown["state"], "paused");
    assert_eq!(stages(&server, "r1", "pause"), ["sent", "acked"]);

    let held = shown["held_by"].as_str().unwrap().to_owned();
    done(&server, &["resume", "r1"]);
    let order = orders.next().await;
    assert_eq!(order.verb, Verb::Resume);
    assert_eq!(server.show("r1")["state"], "paused", "not before its ack");
    agent.takes(&order).await;
    let shown = server.show("r1");
    assert_eq!(
        (&shown["state"], &shown["held_by"]),
        (&json!("running"), &Value::Null)
    );
    let closed = server.show(&held);
    assert_eq!(closed["status"], "resumed");
    assert_eq!(closed["answer"]["by"], me());
    assert_eq!(closed["delivery"], "acked");

    done(
        &server,
        &["steer", &agent.id(), "--note", "use the other API"],
    );
    let order = orders.next().await;
    assert_eq!(order.note.raw(), "use the other API");
    agent.takes(&order).await;
    assert_eq!(stages(&server, "r1", "steer"), ["sent", "acked"]);
    agent.plans(2, &order).await;
    assert_eq!(
        stages(&server, "r1", "steer"),
        ["sent", "acked", "confirmed"]
    );

    done(&server, &["rewind", "r1", "--task", "t1"]);
    let order = orders.next().await;
    let task = "t1".into();
    assert_eq!(order.verb, Verb::Rewind { task });
    agent.takes(&order).await;
    assert_eq!(stages(&server, "r1", "rewind"), ["sent", "acked"]);
    agent.reports("t1", TaskState::Pending).await;
    assert_eq!(
        stages(&server, "r1", "rewind"),
        ["sent", "acked", "confirmed"]
    );

    let asking = spawn(&server, &["status", "r1"]);
    let order = orders.next().await;
    assert_eq!(order.verb, Verb::StatusQuery);
    agent
        .says(&order, AckResult::Success, "at step 3 of 5")
        .await;
    let told = ended(asking).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("at step 3 of 5"), "{told:?}");

    done(&server, &["cancel", "r1", "--note", "enough"]);
    let order = orders.next().await;
    assert_eq!((&order.verb, order.note.raw()), (&Verb::Cancel, "enough"));
    agent.takes(&order).await;
    assert_eq!(stages(&server, "r1", "cancel"), ["sent", "acked"]);
    assert_eq!(server.show("r1")["state"], "running", "its word is no end");
    agent.ends(End::Cancelled).await;
    assert_eq!(
        stages(&server, "r1", "cancel"),
        ["sent", "acked", "confirmed"]
    );
    assert_eq!(server.show("r1")["state"], "cancelled");
    orders.end().await;
    for verb in ["resume", "pause", "cancel", "status"] {
        refused(&server, &[verb, "r1"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_cannot_do_is_told_and_asked_again() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    let held = agent.gets_stuck().await;
    let pause = orders.next().await;
    agent.takes(&pause).await;
    done(&server, &["resume", &held]);
    let order = orders.next().await;
    agent
        .says(&order, AckResult::Unsupported, "not in this mode")
        .await;
    assert_eq!(server.show(&held)["delivery"], "unsupported");
    let again = agent.held_by().await.expect("it is asked again");
    assert_ne!(again, held);
    let shown = server.show(&again);
    assert_eq!(shown["status"], "pending");
    assert_eq!(shown["run_state"], "paused", "success is not inferred");
    let undone = json!({"verb": "resume", "by": me(), "detail": "not in this mode"});
    assert_eq!(shown["after"], undone);
    done(&server, &["steer", &again, "--note", "left"]);
    let order = orders.next().await;
    agent.takes(&order).await;
    assert_eq!(server.show("r1")["state"], "running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_by_a_person_is_answered_as_any_other() {
    let server = Server::start();
    let rows: [(&[&str], &str); 3] = [
        (&["resume"], "resumed"),
        (&["steer", "--note", "left"], "steered"),
        (&["cancel"], "cancelled"),
    ];
    for (n, (verb, status)) in rows.into_iter().enumerate() {
        let agent = Agent::start(&server, &format!("r{n}")).await;
        done(&server, &["pause", &agent.id(), "--note", "lunch"]);
        let [item] = &server.open()[..] else {
            panic!("one run stands still")
        };
        assert_eq!(item["kind"], "paused");
        assert_eq!(item["title"], format!("paused by {}", me()));
        assert_eq!(item["paused_by"], json!({"by": me(), "note": "lunch"}));
        let held = item["id"].as_str().unwrap();
        let again = refused(&server, &["pause", &agent.id()]);
        assert!(again.contains("it stands still: answer"), "{again}");
        done(&server, &[&[verb[0], held], &verb[1..]].concat());
        assert_eq!(server.show(held)["status"], status);
        assert!(server.open().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_answer_wins_and_the_second_is_told_whose_it_was() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let held = agent.gets_stuck().await;
    let digest = "0".repeat(64);
    refused(&server, &["approve", &held, "--digest", &digest]);
    done(&server, &["resume", &held]);
    let verbs: [&[&str]; 3] = [
        &["resume", &held],
        &["steer", &held, "--note", "left"],
        &["cancel", &held],
    ];
    let expected = format!("already resumed by {}", me());
    for verb in verbs {
        let second = refused(&server, verb);
        assert!(second.contains(&expected), "{verb:?}: {second}");
    }
    let mut orders = agent.listens().await;
    for verb in [Verb::Pause, Verb::Resume] {
        let order = orders.next().await;
        assert_eq!(order.verb, verb);
        agent.takes(&order).await;
    }
    let by_name = refused(&server, &["resume", "r1"]);
    assert!(by_name.contains("it does not stand still"), "{by_name}");
    assert_eq!(server.show(&held)["answer"]["verb"], "resume");
    let question = server.file(&["--title", "Go on?"]);
    let wrong = refused(&server, &["resume", &question]);
    assert!(wrong.contains("approve or reject"), "{wrong}");
    let unknown = refused(&server, &["resume", "r9"]);
    assert!(unknown.contains("no such escalation or run"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_releases_one_run_and_nothing_else() {
    let server = Server::start();
    let mut held = vec![];
    for name in ["r1", "r2"] {
        let agent = Agent::start(&server, name).await;
        let mut orders = agent.listens().await;
        let id = agent.gets_stuck().await;
        let pause = orders.next().await;
        agent.takes(&pause).await;
        held.push((agent, orders, id));
    }
    let question = held[1].0.asks("call").await.to_string();
    let before = server.show("r2");
    done(&server, &["resume", &held[0].2]);
    let (agent, orders, _) = &mut held[0];
    let order = orders.next().await;
    assert_eq!((&order.verb, order.run), (&Verb::Resume, agent.run));
    agent.takes(&order).await;
    assert_eq!(server.show("r1")["state"], "running");
    assert_eq!(server.show("r2"), before);
    assert_eq!(ids(&server.open()), [&*held[1].2, &*question]);
    // Nor was the other agent told anything: what it hears next is what comes next.
    done(&server, &["steer", &held[1].2, "--note", "left"]);
    assert_eq!(held[1].1.next().await.verb, Verb::Steer);
    assert_eq!(
        ids(&server.open()),
        [&*question],
        "a steer answers nothing else"
    );
}

// === What a person writes ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direction_loses_its_control_characters_and_that_is_said() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    let said = done(
        &server,
        &["steer", "r1", "--note", "a\u{1b}[31m\u{7}\tb\nc\r"],
    );
    assert!(
        said.err.contains("left out 3 control characters"),
        "{said:?}"
    );
    assert_eq!(orders.next().await.note.raw(), "a[31m\tb\nc");
    let said = done(&server, &["steer", "r1", "--note", "plain"]);
    assert_eq!(said.err, "");
    assert_eq!(orders.next().await.note.raw(), "plain");
    for nothing in ["", " \n", "\u{1}"] {
        let why = refused(&server, &["steer", "r1", "--note", nothing]);
        assert!(why.contains("a steer says where to"), "{why}");
    }
    let (most, too_much) = ("ä".repeat(4096), "ä".repeat(4096) + "x");
    let why = refused(&server, &["steer", "r1", "--note", &too_much]);
    assert!(why.contains("8193") && why.contains("8192"), "{why}");
    done(&server, &["steer", "r1", "--note", &most]);
    assert_eq!(orders.next().await.note.raw(), most);
}

// === Calling off ===

/// Case A21: a cancel wins over what holds the run, takes back what it asks, and is done when the run has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_a_run_that_stands_still_is_followed_to_its_end() {
    let server = Server::start();
    for (name, listens) in [("r1", true), ("r2", false)] {
        let agent = Agent::start(&server, name).await;
        let mut orders = None;
        if listens {
            orders = Some(agent.listens().await);
        }
        let held = agent.gets_stuck().await;
        if let Some(orders) = &mut orders {
            let pause = orders.next().await;
            agent.takes(&pause).await;
        }
        let question = agent.asks("call").await;
        let waiting = tokio::spawn(answer(agent.client.clone(), question));
        let digest = server.show(&question.to_string())["digest"].clone();

        done(&server, &["cancel", &held, "--note", "enough"]);
        let told = waiting.await.unwrap();
        let called_off = |settled: &Settled| match &settled.outcome {
            Outcome::Withdrawn(Why::Cancelled { by }) => by.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(called_off(&told), me(), "neither a no nor a timeout");
        assert!(server.open().is_empty());
        for verb in [&["resume", &held][..], &["steer", &held, "--note", "left"]] {
            let late = refused(&server, verb);
            assert!(late.contains("already cancelled by"), "{late}");
        }
        for verb in [&["steer", name, "--note", "left"][..], &["pause", name]] {
            let late = refused(&server, verb);
            assert!(late.contains("has not ended yet"), "{late}");
        }
        refused(&server, &["resume", name]);
        let (id, digest) = (question.to_string(), digest.as_str().unwrap());
        let late = refused(&server, &["approve", &id, "--digest", digest]);
        assert!(late.contains("already withdrawn"), "{late}");

        // Requested, and not done.
        let delivery = || server.show(&held)["delivery"].as_str().unwrap().to_owned();
        assert_eq!(delivery(), if listens { "sent" } else { "not sent" });
        assert!(
            !server.show(name)["state"]
                .as_str()
                .unwrap()
                .starts_with("cancel")
        );
        let again = Agent::start(&server, name).await;
        assert_eq!(again.run, agent.run);
        let told = answer(again.client.clone(), question).await;
        assert_eq!(
            called_off(&told),
            me(),
            "whoever comes back is told the same"
        );
        let mut orders = match orders {
            Some(orders) => orders,
            None => {
                let mut orders = agent.listens().await;
                assert_eq!(orders.next().await.verb, Verb::Pause);
                orders
            }
        };
        let cancel = orders.next().await;
        assert_eq!(cancel.verb, Verb::Cancel);
        assert_eq!(delivery(), "sent");
        agent.takes(&cancel).await;
        assert_eq!(delivery(), "acked");
        agent.ends(End::Cancelled).await;
        assert_eq!(delivery(), "confirmed");
        let shown = server.show(name);
        assert_eq!(shown["state"], "cancelled");
        let record = shown["record"].as_array().unwrap();
        let at = |what: &str, verb: &str| {
            let this = |event: &Value| {
                event["what"] == what && (verb.is_empty() || event["control"]["verb"] == verb)
            };
            record.iter().position(this).unwrap()
        };
        let order = [
            at("pause_moved", ""),
            at("control_issued", "cancel"),
            at("run_ended", ""),
        ];
        assert!(order.is_sorted(), "{order:?}");
    }
}

// === Nothing is lost ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_acked_comes_again_and_nothing_else_does() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    done(&server, &["steer", "r1", "--note", "one"]);
    done(&server, &["steer", "r1", "--note", "two"]);
    let (one, two) = (orders.next().await, orders.next().await);
    agent.takes(&one).await;
    drop(orders);
    let mut orders = agent.listens().await;
    let again = orders.next().await;
    assert_eq!((&again.id, again.note.raw()), (&two.id, "two"));
    agent.takes(&again).await;
    // Taken twice, it was taken once.
    agent.says(&again, AckResult::Failure, "no").await;
    drop(orders);
    let mut orders = agent.listens().await;
    done(&server, &["steer", "r1", "--note", "three"]);
    assert_eq!(orders.next().await.note.raw(), "three");
    assert_eq!(stages(&server, "r1", "steer"), ["sent"]);
    let shown = server.show("r1");
    assert_eq!(shown["controls"][1]["stage"], "acked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_an_order_sees_how_far_it_comes() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    let pausing = spawn(&server, &["pause", "r1"]);
    let order = orders.next().await;
    agent.says(&order, AckResult::Success, "at the call").await;
    let said = ended(pausing).await.out;
    assert!(
        said.contains("› sent") && said.contains("› acked"),
        "{said}"
    );
    assert!(said.contains("«at the call»"), "{said}");
    let said = done(&server, &["resume", "r1"]).out;
    assert!(said.contains("› sent") && !said.contains("acked"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_names_only_a_run_is_told_what_was_answered() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let held = agent.gets_stuck().await;
    let said = done(&server, &["resume", "r1"]);
    let answered = "answers INTENT_DIVERGENCE: the same call again";
    assert!(said.err.contains(answered), "{said:?}");
    assert_eq!(server.show(&held)["status"], "resumed");
    done(&server, &["pause", "r1", "--note", "a\u{1b}[31m b"]);
    let said = done(&server, &["cancel", "r1"]);
    assert!(
        said.err.contains(&format!("answers paused by {}: a", me())),
        "{said:?}"
    );
    assert!(!said.err.contains('\u{1b}'), "{said:?}");
}

/// No answer of a person, no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_terminal_whoever_names_only_a_run_is_asked_first() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let held = agent.gets_stuck().await;
    let dir = server.dir().to_str().unwrap().to_owned();
    let answering = |key: &'static str| {
        let dir = dir.clone();
        tokio::task::spawn_blocking(move || {
            let args = ["resume", "r1", "--data", &dir];
            let mut terminal = Pty::spawn(PROGRAM, &args, &[], 24, 120);
            terminal.wait_text("INTENT_DIVERGENCE: the same call again");
            terminal.wait_text("resume it? [y/N]");
            terminal.send(key);
            terminal.exit_status().exit_code()
        })
    };
    assert_eq!(answering("n\r").await.unwrap(), 4);
    assert_eq!(server.show(&held)["status"], "pending");
    assert_eq!(answering("y\r").await.unwrap(), 0);
    assert_eq!(server.show(&held)["status"], "resumed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_shown_with_all_that_it_says() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    agent.reports("t1", TaskState::Completed).await;
    let said = done(&server, &["rewind", "r1", "--task", "t1"]).out;
    assert!(said.starts_with("rewind t1 by "), "{said}");
    let said = done(&server, &["steer", "r1", "--note", "left"]).out;
    assert!(said.contains("«left»"), "{said}");
    let held = agent.gets_stuck().await;
    let controls = server.show("r1")["controls"].clone();
    assert_eq!(controls[0]["task_id"], "t1");
    assert_eq!(controls[2]["task_id"], Value::Null);
    let behind = json!({
        "id": "d1", "kind": "INTENT_DIVERGENCE", "level": 4, "level_word": Level::PauseEscalate.word(),
    });
    assert_eq!(controls[2]["drift"], behind);
    assert_eq!(controls[2]["deadline"], Value::Null);
    let card = done(&server, &["show", &held]).out;
    assert!(
        card.contains("rewind t1 by") && card.contains("«left»"),
        "{card}"
    );
}

/// The run stands still all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_goes_on_with_what_took_the_place_of_what_it_waited_for() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    done(&server, &["pause", "r1"]);
    let first = agent.held_by().await.expect("it is held");
    let second = agent.gets_stuck().await;
    let closed = server.show(&first);
    assert_eq!(
        (&closed["status"], &closed["superseded_by"]),
        (&json!("superseded"), &json!(second))
    );
    assert_eq!(server.run(&["wait", &first, "--timeout", "0s"]).code, 3);
    let waiting = spawn(&server, &["wait", &first]);
    done(&server, &["resume", &second]);
    let waited = ended(waiting).await;
    assert_eq!(waited.code, 0, "{waited:?}");
    let told: Value = serde_json::from_str(&waited.out).unwrap();
    assert_eq!(told["id"], second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_waits_for_an_agent_that_does_not_listen() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let said = done(&server, &["cancel", "r1"]).out;
    assert!(
        said.contains("not taken yet: its agent does not listen for orders"),
        "{said}"
    );
    // That it works on is no sign that it listens.
    agent.reports("t1", TaskState::Running).await;
    assert!(stages(&server, "r1", "cancel").is_empty());
    assert_eq!(server.show("r1")["controls"][0]["stage"], "not sent");
    let order = agent.listens().await.next().await;
    assert_eq!(order.verb, Verb::Cancel);
    assert_eq!(stages(&server, "r1", "cancel"), ["sent"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_outlives_the_server_that_took_it() {
    let mut server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let held = agent.gets_stuck().await;
    done(&server, &["steer", &held, "--note", "left"]);
    server.restart(); // kill -9, before anything was sent

    let mut orders = agent.listens().await;
    let (pause, steer) = (orders.next().await, orders.next().await);
    assert_eq!((&pause.verb, &steer.verb), (&Verb::Pause, &Verb::Steer));
    agent.takes(&pause).await;
    server.restart(); // kill -9, between the order and its ack
    orders.are_cut().await;

    let mut orders = agent.listens().await;
    assert_eq!(orders.next().await.id, steer.id);
    agent.takes(&steer).await;
    agent.plans(2, &steer).await;
    server.restart(); // kill -9, after it was confirmed
    orders.are_cut().await;
    let stages_of = |verb| stages(&server, "r1", verb);
    assert_eq!(stages_of("pause"), ["sent", "acked"]);
    assert_eq!(stages_of("steer"), ["sent", "acked", "confirmed"]);
    let closed = server.show(&held);
    assert_eq!(
        (&closed["status"], &closed["delivery"]),
        (&json!("steered"), &json!("confirmed"))
    );
    assert_eq!(server.show("r1")["state"], "running");
}

// === Level 5 ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_had_held_a_run_before_ends_it() {
    let server = Server::start();
    let agent = Agent::start(&server, "r1").await;
    let mut orders = agent.listens().await;
    let first = agent.gets_stuck().await;
    done(&server, &["steer", &first, "--note", "left"]);
    for _ in ["pause", "steer"] {
        let order = orders.next().await;
        agent.takes(&order).await;
    }
    let question = agent.asks("call").await.to_string();
    assert_eq!(agent.drifts("INTENT_DIVERGENCE", "critical").await, 5);
    let [item] = &server.open()[..] else {
        panic!("it asks nothing any more")
    };
    assert!(item["deadline"].is_string(), "{item}");
    let held = item["id"].as_str().unwrap();
    assert_eq!(server.show(&question)["status"], "withdrawn");
    let order = orders.next().await;
    assert_eq!(order.verb, Verb::Cancel);
    assert_eq!(order.drift.as_ref().unwrap().level, Level::Terminate);
    assert_eq!(order.deadline.unwrap().to_string(), item["deadline"]);
    for verb in ["resume", "cancel"] {
        let late = refused(&server, &[verb, held]);
        assert!(late.contains("is being aborted"), "{late}");
    }
    assert_eq!(server.show("r1")["state"], "running", "not before the ack");
    let waiting = spawn(&server, &["wait", held]);
    agent.takes(&order).await;
    assert_eq!(server.show("r1")["state"], "aborted");
    assert_eq!(server.show(held)["status"], "aborted");
    assert_eq!(ended(waiting).await.code, 2);
    orders.end().await;
}

/// On a clock of our own: after 600 s without an ack, and not before.
#[tokio::test]
async fn a_run_that_does_not_take_its_end_is_ended_at_its_time() {
    let standing = Standing::start();
    let agent = Agent::of(standing.client.clone(), "r1").await;
    let held = agent.gets_stuck().await.parse().unwrap();
    let order = Order {
        id: registry::names::ControlId::parse("c1").unwrap(),
        run: agent.run,
        verb: Verb::Steer,
        note: "left".into(),
        answers: Some(held),
    };
    agent.client.control(&order).await.unwrap();
    assert_eq!(agent.drifts("INTENT_DIVERGENCE", "critical").await, 5);
    let state = async || {
        let named = agent.id().as_str().into();
        agent.client.get_run(&named, 0).await.unwrap().run.state
    };
    // The server looks at its clock when somebody calls.
    let other = Agent::of(standing.client.clone(), "r2").await;
    standing.pass(Duration::from_secs(600));
    other.reports("t", TaskState::Running).await;
    assert!(!state().await.is_over());
    standing.pass(Duration::from_millis(1));
    other.reports("t", TaskState::Completed).await;
    assert_eq!(state().await.word(), "aborted");
    standing.stop().await;
}
