//! Goldfive agents at the door, recorded and made by hand: their questions come in, the answers go out.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use pilothouse::{
    serve::{clock::Clock, owner::Owner, stop::Stop},
    sources::goldfive::Door,
    wire::pb::{
        goldfive::v1::{ApprovalRequested, ControlAckResult, ControlKind, event::Payload},
        harmonograf::v1::{TelemetryUp, harmonograf_client::HarmonografClient},
    },
};
use prost::Message as _;
use registry::{
    ApprovalId, EscalationId, Name, Principal, Role, Run, Settled, Tenant, Timestamp, Wish,
    approval::{DeliveryState, Seen, Verdict},
    command::{Decide, Direct, Order},
    control,
    digest::Sha256,
    form::{Form, RawAnswers},
    log::{Epoch, Log, LogError, Memory, Reader, Turn, Writes},
    names::{ControlId, DecisionId},
    run::Presence,
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    replay::{Arrived, Replay, lines},
    scripted::{Agent, next},
    server::Server,
};

/// A server with its goldfive door open, and where that is.
pub(crate) fn with_door() -> (Server, String) {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = free.to_string();
    (
        Server::with(&["--goldfive", &address]),
        format!("http://{address}"),
    )
}

/// Looks until it is there.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let from = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            from.elapsed() < Duration::from_secs(20),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open_item(server: &Server, session: &str) -> Value {
    eventually("the question", || {
        let items = server
            .run(&["list", "--json", "--session", session])
            .objects();
        items.into_iter().next()
    })
}

fn kind(arrived: &Arrived) -> ControlKind {
    arrived.event.kind()
}

fn delivery(server: &Server, id: &str) -> String {
    server.show(id)["delivery"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_task_is_approved_by_the_cli_and_the_agent_confirms_it() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-approved.frames").await;
        assert!(agent.until_control().await);
        let item = open_item(&server, "sess-approved");
        assert_eq!(item["target_id"], "t7");
        assert_eq!(item["task_id"], "t7");
        assert_eq!(item["source"], "goldfive");
        assert_eq!(item["asks"], "operator");
        assert_eq!(
            item["deadline"],
            Value::Null,
            "goldfive questions wait for ever"
        );
        let id = item["id"].as_str().unwrap();
        let run = item["run_id"].as_str().unwrap();
        let task = server.show(run)["tasks"][0].clone();
        assert_eq!(
            (&task["id"], &task["state"]),
            (&"t7".into(), &"blocked".into()),
            "{task}"
        );

        let decided = server.decide("approve", id, &["--note", "fine, up to $500"]);
        assert_eq!(decided.code, 0, "{decided:?}");
        let control = agent.control().await;
        assert_eq!(kind(&control), ControlKind::Approve);
        assert_eq!(control.decision(), ("t7", "fine, up to $500"));
        assert!(control.agent_id().starts_with("checkout-agent-"));
        agent.rest().await;
        let settled = eventually("the confirmation", || {
            let shown = server.show(id);
            (shown["delivery"] == "confirmed").then_some(shown)
        });
        assert_eq!(settled["status"], "granted");
        assert_eq!(settled["applied"]["result"], "done");
        eventually("the run's end", || {
            (server.show(run)["state"] == "completed").then_some(())
        });
        let all = agent.finish().await;
        assert_eq!(all.len(), 1, "one decision, one control: {all:?}");
    });
}

#[test]
fn a_tool_is_rejected_and_its_arguments_came_as_they_were_sent() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-rejected-tool.frames").await;
        assert!(agent.until_control().await);
        // Its envelope names no session: the stream's hello does.
        let item = open_item(&server, "sess-rejected-tool");
        let id = item["id"].as_str().unwrap();
        let shown = server.show(id);
        assert_eq!(shown["subject"], "tool");
        let args: Value = serde_json::from_str(shown["args_json"].as_str().unwrap()).unwrap();
        assert!(args.is_object());
        assert_eq!(shown["digest_matches"], true);
        assert_eq!(
            server
                .decide("reject", id, &["--note", "not on a Friday"])
                .code,
            0
        );
        let control = agent.control().await;
        assert_eq!(kind(&control), ControlKind::Reject);
        assert_eq!(
            control.decision(),
            (item["target_id"].as_str().unwrap(), "not on a Friday")
        );
        agent.rest().await;
        let settled = eventually("the confirmation", || {
            let shown = server.show(id);
            (shown["delivery"] == "confirmed").then_some(shown)
        });
        assert_eq!(
            settled["applied"]["result"], "skipped",
            "its event came before its ack"
        );
        agent.finish().await;
    });
}

#[test]
fn two_sessions_ask_under_one_target_and_each_gets_its_own_answer() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-two-sessions.frames").await;
        assert!(agent.until_control().await);
        let a = open_item(&server, "sess-a");
        let b = open_item(&server, "sess-b");
        assert_eq!(a["target_id"], b["target_id"]);
        assert_ne!(a["id"], b["id"]);
        let (a, b) = (a["id"].as_str().unwrap(), b["id"].as_str().unwrap());
        assert_eq!(server.decide("approve", a, &["--note", "for a"]).code, 0);
        let first = agent.control().await;
        assert_eq!(
            (kind(&first), first.decision()),
            (ControlKind::Approve, ("t7", "for a"))
        );
        assert!(agent.until_control().await);
        assert_eq!(server.decide("reject", b, &["--note", "for b"]).code, 0);
        let second = agent.control().await;
        assert_eq!(
            (kind(&second), second.decision()),
            (ControlKind::Reject, ("t7", "for b"))
        );
        assert!(second.subscription.ends_with(".sess:sess-b"), "{second:?}");
        agent.rest().await;
        eventually("both confirmations", || {
            let both = delivery(&server, a) == "confirmed" && delivery(&server, b) == "confirmed";
            both.then_some(())
        });
        assert_eq!(server.show(a)["status"], "granted");
        assert_eq!(server.show(b)["status"], "rejected");
        agent.finish().await;
    });
}

#[test]
fn an_agent_that_is_killed_leaves_its_question_open_and_unanswerable() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-open-task.frames").await;
        assert!(
            !agent.until_control().await,
            "nobody answers in this recording"
        );
        let item = open_item(&server, "sess-open-task");
        let id = item["id"].as_str().unwrap();
        let present = server.run(&["dismiss", id]);
        assert_eq!(present.code, 4, "its agent is there: {present:?}");
        agent.kill();
        let run = item["run_id"].as_str().unwrap();
        eventually("the agent's absence", || {
            server.show(run)["presence"]["away_since"]
                .is_string()
                .then_some(())
        });
        assert_eq!(server.open().len(), 1, "a lost connection decides nothing");
        let late = server.decide("approve", id, &[]);
        assert_eq!(late.code, 4);
        assert!(
            late.err.contains("cannot be delivered any more"),
            "{late:?}"
        );
        assert_eq!(server.run(&["dismiss", id, "--note", "it is gone"]).code, 0);
        assert!(server.open().is_empty());
    });
}

/// Its client never comes back: after a restart of the server the card says so, and what was on its way has failed.
#[test]
fn after_a_restart_of_the_server_its_agents_are_gone() {
    let (mut server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-two-sessions.frames").await;
        assert!(agent.until_control().await);
        let a = open_item(&server, "sess-a")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let b = open_item(&server, "sess-b")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(server.decide("approve", &a, &[]).code, 0);
        eventually("the control on its way", || {
            (delivery(&server, &a) == "sent").then_some(())
        });
        server.restart();
        let failed = eventually("the end of the delivery", || {
            let shown = server.show(&a);
            (shown["delivery"] == "failed").then_some(shown)
        });
        assert!(
            failed["delivery_detail"]
                .as_str()
                .unwrap()
                .contains("not known"),
            "{failed}"
        );
        let late = server.decide("reject", &b, &[]);
        assert_eq!(late.code, 4);
        assert!(
            late.err.contains("cannot be delivered any more"),
            "{late:?}"
        );
        assert_eq!(server.run(&["dismiss", &b]).code, 0);
        drop(agent);
    });
}

/// Case E10: an agent that says "granted" grants nothing here. The recording has two contradictory
/// answers, neither of them ours, and comes without a hello.
#[test]
fn what_an_agent_says_was_granted_is_answered_elsewhere() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut client = HarmonografClient::connect(door).await.unwrap();
        let up = lines("telemetry-up-1.hex");
        let up: Vec<_> = up
            .iter()
            .map(|line| TelemetryUp::decode(&*line.bytes).unwrap())
            .collect();
        let answers = client
            .stream_telemetry(tokio_stream::iter(up))
            .await
            .unwrap();
        let mut answers = answers.into_inner();
        while let Ok(Some(_)) = answers.message().await {}
    });
    let history = eventually("both ended cards", || {
        let mut history = server.run(&["history", "--json"]).objects();
        // Among them is a run that stood still.
        history.retain(|ended| ended["kind"] == "approval");
        (history.len() == 2).then_some(history)
    });
    let elsewhere = |ended: &&Value| {
        let why = ended["why_text"].as_str();
        why.is_some_and(|why| why.starts_with("answered elsewhere"))
    };
    assert_eq!(history.iter().filter(elsewhere).count(), 1, "{history:#?}");
    for ended in &history {
        assert_eq!(ended["status"], "withdrawn", "{ended}");
        assert_eq!(ended["decision"], Value::Null, "nobody here decided");
    }
}

/// Its subscription never ends by itself; a stop ends it.
#[test]
fn the_server_ends_while_an_agent_is_connected() {
    let (mut server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-approved.frames").await;
        assert!(agent.until_control().await);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || ended.send(server.terminate()));
        let code = end.recv_timeout(Duration::from_secs(8));
        assert_eq!(code, Ok(Some(128 + 15)), "it ends, and in time");
        drop(agent);
    });
}

#[test]
fn a_run_is_there_until_the_last_of_its_streams_ends() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut one = Replay::open(&door, "session-approved.frames").await;
        assert!(one.until_control().await);
        let mut two = Replay::open(&door, "session-approved.frames").await;
        assert!(two.until_control().await);
        let item = open_item(&server, "sess-approved");
        let run = item["run_id"].as_str().unwrap();
        let away = || server.show(run)["presence"]["away_since"].is_string();
        one.finish().await;
        assert!(!away(), "the other stream speaks for it");
        let id = item["id"].as_str().unwrap();
        assert_eq!(server.decide("approve", id, &[]).code, 0);
        two.control().await;
        two.kill();
        eventually("the end of the delivery", || {
            (delivery(&server, id) == "failed").then_some(())
        });
        eventually("the agent's absence", || away().then_some(()));
    });
}

/// A door in this process, onto a log whose commits fail as it is told.
struct Here {
    owner: Owner,
    log: Memory,
    full: Full,
    endpoint: String,
    stop: Stop,
}

/// Kinds of events for which there is no space, once each.
type Full = Arc<Mutex<BTreeSet<(u8, usize)>>>;

impl Here {
    async fn open() -> Self {
        let log = Memory::new("goldfive");
        let full = Full::default();
        let tight = Tight {
            log: log.another(),
            full: full.clone(),
        };
        let clock = Clock::standing(Timestamp::from_ms(1));
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(Box::new(tight), clock, None, fatal).unwrap();
        let stop = Stop::default();
        let door = Door::new(owner.clone(), None, stop.subscribe());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(door.run(listener));
        Self {
            owner,
            log,
            full,
            endpoint,
            stop,
        }
    }

    async fn until<T>(&self, what: &str, mut look: impl FnMut(&registry::State) -> Option<T>) -> T {
        for _ in 0..1000 {
            if let Some(found) = look(&self.owner.state()) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{what} did not come");
    }

    /// The run that its agent calls so.
    async fn run(&self, name: &str) -> Arc<Run> {
        let named = |run: &&Arc<Run>| run.key.invocation.raw() == name;
        let look = |state: &registry::State| state.runs().find(named).cloned();
        self.until("the run", look).await
    }

    /// What is asked about `target`.
    async fn asked(&self, target: &str) -> ApprovalId {
        self.until("the question", |state| {
            let asked = |it: &&Arc<registry::Pending>| it.approval.target.raw() == target;
            state.all_pending().find(asked).map(|it| it.approval.id)
        })
        .await
    }

    async fn approve(&self, id: ApprovalId) {
        let digest = self.owner.state().pending(id).unwrap().approval.digest;
        let decide = Decide {
            id,
            decision: DecisionId::parse(&format!("d-{id}")).unwrap(),
            verdict: Verdict::Approve,
            digest,
            answers: RawAnswers::new(),
            note: "yes".into(),
            seen: Seen::Whole,
            on_behalf_of: None,
            form: Form::default(),
            past: None,
            decided_before: None,
        };
        self.owner
            .submit(operator(), Wish::Decide(Box::new(decide)))
            .await
            .unwrap();
    }

    /// An operator has a run say where it is.
    async fn asks_where(&self, run: &str, control: &str) {
        let direct = Direct {
            order: Order {
                id: ControlId::parse(control).unwrap(),
                run: self.run(run).await.id,
                verb: control::Verb::StatusQuery,
                note: "".into(),
                answers: None,
            },
            raise: EscalationId::mint(Timestamp::default(), 0),
            past: None,
        };
        self.owner
            .submit(operator(), Wish::Direct(Box::new(direct)))
            .await
            .unwrap();
    }

    /// Waits until the delivery stands so.
    async fn delivery(&self, id: ApprovalId, stands: DeliveryState) -> Arc<Settled> {
        self.until(&format!("{stands:?}"), |state| {
            let settled = state.settled(id)?;
            let delivery = settled.delivery.as_ref()?;
            (delivery.state == stands).then(|| settled.clone())
        })
        .await
    }
}

fn operator() -> Principal {
    let name = Name::parse("operator:ops").unwrap();
    Principal::new(name, Tenant::local(), [Role::Operator])
}

impl Drop for Here {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

struct Tight {
    log: Memory,
    full: Full,
}

struct TightTurn<'a> {
    turn: Box<dyn Turn + 'a>,
    full: &'a Full,
}

impl Log for Tight {
    fn turn(&mut self, wall: Timestamp) -> Result<Box<dyn Turn + '_>, LogError> {
        let turn = self.log.turn(wall)?;
        let full = &self.full;
        Ok(Box::new(TightTurn { turn, full }))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, LogError> {
        self.log.reader()
    }

    fn epoch(&self) -> &Epoch {
        self.log.epoch()
    }

    fn trim(&mut self, sweep: &registry::log::Sweep) -> Result<registry::log::Swept, LogError> {
        self.log.trim(sweep)
    }
}

impl Turn for TightTurn<'_> {
    fn missed(&self) -> &[registry::Recorded] {
        self.turn.missed()
    }

    fn now(&self) -> Timestamp {
        self.turn.now()
    }

    fn head(&self) -> u64 {
        self.turn.head()
    }

    fn commit(self: Box<Self>, writes: Writes) -> Result<(), LogError> {
        let mut full = self.full.lock().unwrap();
        for entry in &writes.events {
            let kind = entry.recorded.event.kind();
            if let Some(told) = full.iter().find(|(told, _)| *told == kind).copied() {
                full.remove(&told);
                return Err(LogError::Full("told so".into()));
            }
        }
        drop(full);
        self.turn.commit(writes)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_waits_for_a_subscription_fails_with_its_run_only() {
    let here = Here::open().await;
    let mut kept = Agent::open(&here.endpoint, "a").await;
    let gone = Agent::open(&here.endpoint, "a").await;
    kept.asks("kept", "t-kept");
    kept.asks("over", "t-over");
    gone.asks("gone", "t-gone");
    let mut ids = Vec::new();
    for target in ["t-kept", "t-over", "t-gone"] {
        let id = here.asked(target).await;
        here.approve(id).await;
        ids.push(id);
    }
    // What nobody was sent is not called sent.
    let unsent = |id: &ApprovalId| here.owner.state().settled(*id).unwrap().delivery.is_none();
    assert!(ids.iter().all(unsent));

    kept.completes("over");
    here.delivery(ids[1], DeliveryState::Failed).await;
    gone.leaves().await;
    here.delivery(ids[2], DeliveryState::Failed).await;

    let mut controls = kept.subscribes().await;
    let control = next(&mut controls).await;
    kept.acks(&control, ControlAckResult::Success, "");
    here.delivery(ids[0], DeliveryState::Acked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_for_a_subscription_that_has_ended_waits_for_the_next() {
    let here = Here::open().await;
    let mut agent = Agent::open(&here.endpoint, "a").await;
    drop(agent.subscribes().await);
    agent.asks("r", "t7");
    let id = here.asked("t7").await;
    // The server may not have seen the end of the subscription yet.
    tokio::time::sleep(Duration::from_millis(300)).await;
    here.approve(id).await;
    let mut controls = agent.subscribes().await;
    assert_eq!(next(&mut controls).await.kind(), ControlKind::Approve);
    here.delivery(id, DeliveryState::Sent).await;
}

/// An order says nothing of what it is for. A decision does, and goes to whoever listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_does_not_go_to_another_session_of_its_agent() {
    let here = Here::open().await;
    let mut agent = Agent::open(&here.endpoint, "a").await;
    agent.asks("r", "t7");
    let id = here.asked("t7").await;
    let mut one = agent.subscribes_for("one").await;
    here.asks_where("r", "alone").await;
    assert_eq!(next(&mut one).await.id, "alone", "it has no other");

    let mut two = agent.subscribes_for("two").await;
    here.asks_where("r", "among-two").await;
    here.approve(id).await;
    let decision = next(&mut one).await;
    assert_eq!(decision.kind(), ControlKind::Approve, "{decision:?}");
    agent.acks(&decision, ControlAckResult::Success, "");
    here.delivery(id, DeliveryState::Acked).await;
    let mut own = agent.subscribes().await;
    assert_eq!(next(&mut own).await.id, "among-two");
    for other in [&mut one, &mut two] {
        let more = tokio::time::timeout(Duration::from_millis(100), other.message());
        assert!(more.await.is_err(), "nothing of it goes elsewhere");
    }
}

/// The ids of orders are their clients' own, and unique in a run; an ack names nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_orders_with_one_id_an_agent_gets_the_first() {
    let here = Here::open().await;
    let mut agent = Agent::open(&here.endpoint, "a").await;
    let mut controls = agent.subscribes().await;
    agent.begins("one");
    agent.begins("two");
    here.asks_where("one", "same").await;
    here.asks_where("two", "same").await;
    let stands = |run: &str, stage| {
        let run = run.to_owned();
        here.until("the order", move |state| {
            let run = state.runs().find(|it| it.key.invocation.raw() == run)?;
            run.controls
                .iter()
                .any(|it| it.stage() == stage)
                .then_some(())
        })
    };
    stands("two", control::Stage::Unanswered).await;
    let first = next(&mut controls).await;
    agent.acks(&first, ControlAckResult::Success, "there");
    stands("one", control::Stage::Acked).await;
}

/// A full disk loses nothing of what an agent says, nor of what becomes of an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_recorded_yet_is_recorded_later() {
    const OPENED: u8 = 40;
    const TASK: u8 = 43;
    const DELIVERY: u8 = 24;
    const PRESENCE: u8 = 50;
    let here = Here::open().await;
    here.full.lock().unwrap().extend([
        (OPENED, 0),
        (TASK, 0),
        (TASK, 1),
        (DELIVERY, 0),
        (PRESENCE, 0),
    ]);
    let mut agent = Agent::open(&here.endpoint, "a").await;
    let mut controls = agent.subscribes().await;
    agent.starts("r", "t1", "");
    agent.asks("r", "t7");
    let id = here.asked("t7").await;
    let run = here.run("r").await;
    assert_eq!(run.tasks.len(), 2, "in order, and none was lost");

    here.approve(id).await;
    let control = next(&mut controls).await;
    here.full.lock().unwrap().insert((DELIVERY, 1));
    agent.acks(&control, ControlAckResult::Success, "");
    here.delivery(id, DeliveryState::Acked).await;
    agent.leaves().await;
    let run = here.run("r").await;
    assert!(matches!(run.presence, Presence::Away { .. }), "{run:?}");
    assert!(
        here.full.lock().unwrap().is_empty(),
        "all were refused once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_is_not_followed_is_not_the_runs_plan() {
    let here = Here::open().await;
    let agent = Agent::open(&here.endpoint, "a").await;
    agent.plans("r", 0..3, true);
    agent.plans("r", 0..2, false);
    agent.plans("r", 0..4, true);
    agent.starts("r", "last", "");
    let run = here
        .until("the last", |state| {
            let run = state.runs().next()?;
            run.tasks.contains_key(&"last".into()).then(|| run.clone())
        })
        .await;
    assert_eq!(run.plan.as_ref().unwrap().tasks.len(), 2);
    assert_eq!(run.tasks.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_tasks_than_a_run_may_have_are_cut_to_what_fits() {
    let here = Here::open().await;
    let agent = Agent::open(&here.endpoint, "a").await;
    agent.starts("r", "own", "");
    agent.plans("r", 0..1200, false);
    agent.starts("r", "one more", "");
    agent.plans("r", 500..1200, false);
    agent.starts("r", "own", "still told");
    let told = |run: &&Arc<Run>| {
        let own = run.tasks.get(&"own".into());
        own.is_some_and(|task| task.detail.raw() == "still told")
    };
    let run = here
        .until("the last", |state| state.runs().find(told).cloned())
        .await;
    assert_eq!(run.tasks.len(), 1000);
    let plan = run.plan.as_ref().unwrap();
    assert_eq!(plan.tasks.len(), 499);
    assert_eq!(plan.summary.raw(), "(499 of 700 tasks are kept) ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_an_id_is_unidentified_and_gets_its_answer() {
    let here = Here::open().await;
    let mut agent = Agent::open(&here.endpoint, "").await;
    let mut controls = agent.subscribes().await;
    agent.asks("r", "t7");
    let id = here.asked("t7").await;
    let run = here.run("r").await;
    assert_eq!(run.key.agent.raw(), "unidentified");
    here.approve(id).await;
    assert_eq!(next(&mut controls).await.kind(), ControlKind::Approve);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_says_of_itself_stands_with_its_run() {
    let here = Here::open().await;
    let agent = Agent::open(&here.endpoint, "a").await;
    agent.begins("r");
    here.run("r").await;
    let events = here.log.reader().unwrap().read(0, 10).unwrap();
    let registry::Event::RunOpened { context, .. } = &*events[0].event else {
        panic!("{:?}", events[0]);
    };
    let context: Value = serde_json::from_str(context.raw()).unwrap();
    let expected = serde_json::json!({
        "name": "probe",
        "framework": "ADK",
        "framework_version": "",
        "capabilities": ["STEERING", "unknown (99)"],
    });
    assert_eq!(context, expected);
}

/// Without a hello, what was said is kept in memory up to a bound, and recorded past it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_says_much_and_no_hello_is_unidentified() {
    let here = Here::open().await;
    let agent = Agent::silent(&here.endpoint, "a").await;
    let much = "x".repeat(300 * 1024);
    for n in 0..4 {
        agent.starts("r", &format!("t{n}"), &much);
    }
    let run = here.run("r").await;
    assert_eq!(run.key.agent.raw(), "unidentified");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_event_that_is_too_large_its_size_and_hash_are_kept() {
    let here = Here::open().await;
    let agent = Agent::open(&here.endpoint, "a").await;
    let small = agent.starts("r", "small", "");
    let large = agent.starts("r", "large", &"x".repeat(256 * 1024));
    let run = here
        .until("the large one", |state| {
            let run = state.runs().next()?;
            run.tasks.contains_key(&"large".into()).then_some(run.id)
        })
        .await;
    let frames = here.log.reader().unwrap().frames(run).unwrap();
    let (bytes, hash) = (large.len(), Sha256::of(&large));
    let stub = format!("not kept: an event of {bytes} bytes, SHA-256 {hash}");
    assert_eq!(frames, [small, stub.into_bytes()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_that_are_not_kept_are_counted_on_the_card() {
    let here = Here::open().await;
    let agent = Agent::open(&here.endpoint, "a").await;
    let label = |n: usize| (format!("k{n:02}"), "v".to_owned());
    let asked = ApprovalRequested {
        target_id: "t7".into(),
        kind: "task".into(),
        metadata: (0..40).map(label).collect(),
        ..Default::default()
    };
    agent.event("r", Payload::ApprovalRequested(asked));
    let id = here.asked("t7").await;
    let labels = here
        .owner
        .state()
        .pending(id)
        .unwrap()
        .approval
        .labels
        .len();
    assert_eq!(labels, 32);
    let detail = here.owner.detail(id).await.unwrap();
    let body = detail.body.raw();
    assert!(body.contains("8 more labels"), "{body}");
}
