//! Orders to runs, from the key to what shows that they were done: the real dashboard, the real server, and an agent on
//! our own wire or on goldfive's.

use std::{
    fs,
    time::{Duration, Instant},
};

use pilothouse::wire::pb::goldfive::v1::{ControlAckResult, ControlEvent, control_event};
use registry::{
    Control, Untrusted,
    command::AckResult,
    control::Verb,
    run::{End, Plan, TaskState},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Streaming;

use crate::{
    desk::{attach, attach_to, login, panel},
    goldfive::{eventually, with_door},
    pty::{Pty, has_text, show},
    relay::Relay,
    scripted::{self, next},
    server::{PROGRAM, Ran, Server},
    steering::{self, Orders, done, refused},
};

const DIRECTION: &str = "Use what you have";
const TOO_SOON: &str = "this card has just appeared or changed";
/// The question before a cancel.
const STOP: &str = "! Call this run off?";

// === The two wires ===

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Native,
    Goldfive,
}

const WIRES: [Wire; 2] = [Wire::Native, Wire::Goldfive];

impl Wire {
    fn open(self) -> House {
        let (server, door) = match self {
            Self::Native => (Server::start(), String::new()),
            Self::Goldfive => with_door(),
        };
        House {
            wire: self,
            server,
            door,
        }
    }

    /// How a card says that the run stands still: a goldfive agent says nothing of it.
    fn stands_still(self) -> &'static str {
        match self {
            Self::Native => "is paused",
            Self::Goldfive => "is probably paused",
        }
    }

    /// What its agents make of a run that is called off.
    fn called_off(self) -> &'static str {
        match self {
            Self::Native => "cancelled",
            Self::Goldfive => "aborted",
        }
    }
}

/// A server, and where its agents come in.
struct House {
    wire: Wire,
    server: Server,
    door: String,
}

impl House {
    /// The verbs of all that a run was told.
    fn told(&self, run: &str) -> Vec<String> {
        let whole = self.server.show(run);
        let orders = whole["controls"].as_array().unwrap();
        let verb = |order: &Value| order["verb"].as_str().unwrap().to_owned();
        orders.iter().map(verb).collect()
    }

    /// How far the newest order has come.
    fn stage(&self, run: &str) -> String {
        let whole = self.server.show(run);
        let newest = whole["controls"].as_array().unwrap().last().unwrap();
        newest["stage"].as_str().unwrap().to_owned()
    }

    fn state(&self, run: &str) -> String {
        self.server.show(run)["state"].as_str().unwrap().to_owned()
    }

    fn until_state(&self, run: &str, state: &str) {
        eventually(state, || (self.state(run) == state).then_some(()));
    }

    /// What holds the run.
    fn held(&self, run: &str) -> String {
        eventually("what holds it", || {
            let whole = self.server.show(run);
            Some(whole["held_by"].as_str()?.to_owned())
        })
    }
}

/// An agent that listens, with a run of two tasks that are both at work.
struct Agent {
    run: &'static str,
    on: On,
}

enum On {
    Native(steering::Agent, Orders),
    Goldfive(Box<scripted::Agent>, Box<Streaming<ControlEvent>>),
}

/// An order, as it comes to the agent.
enum Heard {
    Native(Control),
    Goldfive(ControlEvent),
}

impl Agent {
    async fn start(house: &House, run: &'static str) -> Self {
        let on = match house.wire {
            Wire::Native => {
                let agent = steering::Agent::start(&house.server, run).await;
                let orders = agent.listens().await;
                let agent = Self {
                    run,
                    on: On::Native(agent, orders),
                };
                agent.reports("t0", TaskState::Running).await;
                agent.reports("t1", TaskState::Running).await;
                return agent;
            }
            Wire::Goldfive => {
                let mut agent = scripted::Agent::open(&house.door, run).await;
                let controls = agent.subscribes().await;
                agent.begins(run);
                agent.plans(run, 0..2, false);
                agent.starts(run, "t0", "");
                agent.starts(run, "t1", "");
                On::Goldfive(Box::new(agent), Box::new(controls))
            }
        };
        let begun = || {
            let ran = house.server.run(&["show", run, "--json"]);
            let whole = (ran.code == 0).then(|| ran.objects().remove(0))?;
            (whole["tasks"][1]["state"] == "running").then_some(())
        };
        eventually("both tasks", begun);
        Self { run, on }
    }

    async fn reports(&self, task: &str, state: TaskState) {
        let On::Native(agent, _) = &self.on else {
            panic!("only on our own wire")
        };
        let [task, title, detail] = [task, "Look", ""].map(Untrusted::new);
        let client = &agent.client;
        let reported = client.report_task(agent.run, &task, &title, &state, &detail);
        reported.await.unwrap();
    }

    /// Drifts so that its run stands still, as far as one on this wire says so.
    async fn gets_stuck(&mut self) {
        if let On::Goldfive(agent, _) = &self.on {
            agent.escalates(self.run, "d");
            return;
        }
        let On::Native(agent, _) = &self.on else {
            return;
        };
        agent.gets_stuck().await;
        let pause = self.hears().await;
        self.acks(&pause).await;
    }

    async fn hears(&mut self) -> Heard {
        match &mut self.on {
            On::Native(_, orders) => Heard::Native(orders.next().await),
            On::Goldfive(_, controls) => Heard::Goldfive(next(controls).await),
        }
    }

    /// Takes the order, with goldfive's words.
    async fn acks(&self, heard: &Heard) {
        let said = heard.acked_with();
        match (&self.on, heard) {
            (On::Native(agent, _), Heard::Native(order)) => {
                let (client, run) = (&agent.client, agent.run);
                let said = said.as_str().into();
                let acked = client.ack_control(run, &order.id, AckResult::Success, &said);
                acked.await.unwrap();
            }
            (On::Goldfive(agent, _), Heard::Goldfive(control)) => {
                agent.acks(control, ControlAckResult::Success, &said);
            }
            _ => unreachable!("an order of the other wire"),
        }
    }

    /// Does what confirms it.
    async fn does(&self, heard: &Heard) {
        match (&self.on, heard) {
            (On::Native(agent, _), Heard::Native(order)) => match &order.verb {
                Verb::Steer => self.plans_anew(agent, order).await,
                Verb::Cancel => agent.ends(End::Cancelled).await,
                Verb::Rewind { task } => self.reports(task.raw(), TaskState::Pending).await,
                Verb::Pause | Verb::Resume | Verb::StatusQuery => {}
            },
            (On::Goldfive(agent, _), Heard::Goldfive(control)) => match &*heard.verb() {
                "steer" => agent.plans_anew(self.run, 2, &control.id),
                "cancel" => agent.aborts(self.run, "cancelled by control"),
                "rewind" => agent.rewinds(self.run, &heard.text()),
                _ => {}
            },
            _ => unreachable!("an order of the other wire"),
        }
    }

    async fn plans_anew(&self, agent: &steering::Agent, because_of: &Control) {
        let plan = Plan {
            revision: 2,
            summary: "shorter".into(),
            tasks: vec![],
        };
        let cause = because_of.id.as_str().into();
        let planned = agent.client.report_plan(agent.run, &plan, &cause);
        planned.await.unwrap();
    }

    /// Takes and does the next order, which is this one.
    async fn obeys(&mut self, verb: &str) {
        let heard = self.hears().await;
        assert_eq!(heard.verb(), verb);
        self.acks(&heard).await;
        self.does(&heard).await;
    }
}

impl Heard {
    fn verb(&self) -> String {
        match self {
            Self::Native(order) => order.verb.word().to_owned(),
            Self::Goldfive(control) => {
                let kind = control.kind().as_str_name();
                let word = kind.trim_start_matches("CONTROL_KIND_").to_lowercase();
                let word = word.trim_end_matches("_to").trim_end_matches("_query");
                word.to_owned()
            }
        }
    }

    /// The direction of a steer, the task of a rewind.
    fn text(&self) -> String {
        match self {
            Self::Native(order) => match &order.verb {
                Verb::Rewind { task } => task.raw().to_owned(),
                _ => order.note.raw().to_owned(),
            },
            Self::Goldfive(control) => match &control.payload {
                Some(control_event::Payload::Steer(steer)) => steer.note.clone(),
                Some(control_event::Payload::Rewind(rewind)) => rewind.task_id.clone(),
                _ => String::new(),
            },
        }
    }

    fn acked_with(&self) -> String {
        match &*self.verb() {
            "pause" => "paused".to_owned(),
            "resume" => "resumed".to_owned(),
            "steer" => "steer queued".to_owned(),
            "cancel" => "cancel acknowledged".to_owned(),
            "rewind" => format!("rewound to {}", self.text()),
            "status" => {
                let id = match self {
                    Self::Native(order) => order.id.as_str(),
                    Self::Goldfive(control) => &control.id,
                };
                format!("status_query control_id={id} current_task=t1 completed=0/2 pending=t1")
            }
            verb => panic!("what is {verb}?"),
        }
    }
}

// === The keys ===

/// Gives an order with its keys; `then` is what follows.
fn order(desk: &mut Pty, key: &str, then: &str) {
    match key {
        "s" => {
            desk.press("s", "esc keep as draft");
            desk.send(DIRECTION);
            desk.wait_text("17 of 8192 bytes");
            desk.decide("ctrl-s", then);
        }
        "c" => {
            desk.decide("c", STOP);
            desk.wait_text("▌ no (n)    yes, cancel it (y)");
            desk.decide("y", then);
        }
        "b" => {
            desk.press("b", "! Do a task again?");
            desk.wait_text("task 1 of 2");
            desk.press("j", "task 2 of 2");
            desk.decide("y", then);
        }
        key => desk.decide(key, then),
    }
}

fn me() -> String {
    format!("user:{}", login())
}

/// Opens the runs.
fn show_runs(desk: &mut Pty) {
    desk.press("2", "pilothouse › runs");
    desk.wait_text("t1 ");
}

// === Every verb ===

/// GF-70, GF-77, GF-79, GF-80.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_stands_still_is_answered_with_a_key_and_its_card_follows_that_to_the_end() {
    #[rustfmt::skip]
    let rows = [
        ("R", "resume", "resumed",   "resumed",             "",                                      ""),
        ("s", "steer",  "steered",   "steer queued",        "no new plan yet",         "plan revision 2"),
        ("c", "cancel", "cancelled", "cancel acknowledged", "the run has not ended yet", "the run {off}"),
    ];
    for wire in WIRES {
        for (key, verb, closed, said, missing, confirmed) in rows {
            let house = wire.open();
            let mut agent = Agent::start(&house, "r1").await;
            agent.gets_stuck().await;
            let held = house.held("r1");
            let mut desk = attach(&house.server);
            desk.wait_text(wire.stands_still());
            order(&mut desk, key, &format!("{closed} by {}", me()));

            let life = format!("{key} {verb} sent");
            desk.wait_panel(&format!("{life} › no answer for"));
            let heard = agent.hears().await;
            assert_eq!(heard.verb(), verb);
            assert_eq!(heard.text(), if key == "s" { DIRECTION } else { "" });
            assert_eq!(house.stage("r1"), "sent", "{wire:?} {verb}");

            agent.acks(&heard).await;
            let life = format!("{life} › acked \"{said}\"");
            if confirmed.is_empty() {
                desk.wait_panel(&life);
                assert!(!panel(&desk.screen()).contains("confirmed"));
            } else {
                desk.wait_panel(&format!("{life} › not confirmed: {missing}"));
                assert_eq!(house.stage("r1"), "acked", "{wire:?} {verb}");
                agent.does(&heard).await;
                let confirmed = confirmed.replace("{off}", wire.called_off());
                desk.wait_panel(&format!("{life} › confirmed {confirmed}"));
                assert_eq!(house.stage("r1"), "confirmed", "{wire:?} {verb}");
            }
            assert_eq!(house.server.show(&held)["status"], closed);
            assert!(house.server.open().is_empty());

            let state = match verb {
                "cancel" => wire.called_off(),
                _ => "running",
            };
            desk.press("2", &format!("{state} · "));
            assert_eq!(house.state("r1"), state);
        }
    }
}

/// GF-76, GF-83, GF-88: of a run that goes on, from the list of the runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_goes_on_is_told_with_a_key_and_its_panel_follows_that_to_the_end() {
    #[rustfmt::skip]
    let rows = [
        ("p", "pause",  "paused",              "",                          "",                          "paused"),
        ("S", "status", "",                    "",                          "",                          "running"),
        ("b", "rewind", "rewound to t1",       "the task is not there again yet", "the task is pending again", "running"),
        ("s", "steer",  "steer queued",        "no new plan yet",           "plan revision 2",           "running"),
        ("c", "cancel", "cancel acknowledged", "the run has not ended yet", "the run {off}",             "{off}"),
    ];
    for wire in WIRES {
        for (key, verb, said, missing, confirmed, state) in rows {
            let house = wire.open();
            let mut agent = Agent::start(&house, "r1").await;
            let (rows, cols) = match wire {
                Wire::Native => (34, 120),
                Wire::Goldfive => (24, 80),
            };
            let mut desk = attach_to(house.server.dir(), &[], rows, cols);
            show_runs(&mut desk);
            order(&mut desk, key, &format!("{verb}  sent"));
            desk.wait_panel(&format!("{verb} sent › no answer for"));

            let heard = agent.hears().await;
            assert_eq!(heard.verb(), verb);
            let text = match key {
                "s" => DIRECTION,
                "b" => "t1",
                _ => "",
            };
            assert_eq!(heard.text(), text);
            assert_eq!(house.stage("r1"), "sent", "{wire:?} {verb}");
            agent.acks(&heard).await;
            let life = format!("{verb} sent › acked \"{said}");
            if key == "S" {
                desk.wait_panel("current_task=t1 completed=0/2 pending=t1");
            } else if confirmed.is_empty() {
                desk.wait_panel(&life);
            } else {
                desk.wait_panel(&format!("{life}\" › not confirmed: {missing}"));
                assert_eq!(house.stage("r1"), "acked", "{wire:?} {verb}");
                agent.does(&heard).await;
                let confirmed = confirmed.replace("{off}", wire.called_off());
                desk.wait_panel(&format!("{life}\" › confirmed {confirmed}"));
            }
            let state = state.replace("{off}", wire.called_off());
            desk.wait_text(&format!("{state} · "));
            assert_eq!(house.state("r1"), state);
            if key == "b" {
                desk.wait_text("· pending");
                assert_eq!(house.server.show("r1")["tasks"][1]["state"], "pending");
            }
        }
    }
}

/// GF-76: what a person pauses is listed with what stands still, and answered as that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_paused_with_a_key_is_listed_as_paused_by_who_did_it_and_resumed() {
    for wire in WIRES {
        let house = wire.open();
        let mut agent = Agent::start(&house, "r1").await;
        let mut desk = attach_to(house.server.dir(), &[], 34, 160);
        show_runs(&mut desk);
        order(&mut desk, "p", "pause  sent");
        agent.obeys("pause").await;
        desk.wait_text("paused · ");
        desk.press("1", "Needs you");
        desk.wait_panel(&format!("cause paused by {}", me()));
        desk.wait_text("1 paused");
        let row = |row: String| row.contains("‖ paused") && row.contains("paused by");
        let listed = |screen: &vt100::Screen| screen.rows(0, 65).any(row);
        desk.wait_for(listed, "row of what a person paused");
        assert_eq!(
            house.server.open()[0]["title"],
            format!("paused by {}", me())
        );

        order(&mut desk, "R", &format!("resumed by {}", me()));
        agent.obeys("resume").await;
        desk.wait_panel("R resume sent › acked \"resumed\"");
        assert_eq!(house.state("r1"), "running");
        assert!(house.server.open().is_empty());
    }
}

/// What is only asked is not called off: nothing is sent that is not confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_on_a_question_before_an_order_is_a_no() {
    for wire in WIRES {
        let house = wire.open();
        let mut agent = Agent::start(&house, "r1").await;
        agent.gets_stuck().await;
        house.held("r1");
        let before = house.told("r1");
        let mut desk = attach(&house.server);
        desk.wait_text(wire.stands_still());
        desk.decide("c", STOP);
        desk.wait_text("▌ no (n)");
        desk.keys("enter");
        desk.wait_gone(STOP);
        desk.press("b", "! Do a task again?");
        desk.keys("enter");
        desk.wait_gone("! Do a task again?");
        assert_eq!(house.told("r1"), before);
        order(&mut desk, "R", "resumed by");
        agent.obeys("resume").await;
        assert_eq!(house.told("r1"), [before, vec!["resume".into()]].concat());
    }
}

// === What orders nothing ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pasted_text_never_orders() {
    const IGNORED: &str = "pasted text was ignored";
    let house = Wire::Native.open();
    let mut agent = Agent::start(&house, "r1").await;
    let mut desk = attach(&house.server);
    let pastes = |desk: &mut Pty, texts: &[&str]| {
        for text in texts {
            desk.paste(text);
            desk.wait_text(IGNORED);
            desk.keys("f2");
            desk.wait_gone(IGNORED);
        }
    };
    show_runs(&mut desk);
    // Keys count by now, and one would order.
    desk.decide("c", STOP);
    desk.keys("n");
    desk.wait_gone(STOP);
    pastes(&mut desk, &["p", "c", "S", "s", "b"]);
    assert!(house.told("r1").is_empty());
    agent.gets_stuck().await;
    desk.press("1", "is paused");
    for place in ["↵ open", "esc back"] {
        desk.decide("c", STOP);
        pastes(&mut desk, &["y", "y\n", "\n"]);
        desk.wait_text("▌ no (n)");
        desk.keys("n");
        desk.wait_gone(STOP);
        desk.wait_text(place);
        pastes(&mut desk, &["R", "R\n", "c", "y", "s", "cy", "S"]);
        assert!(!has_text(&desk.screen(), STOP), "{}", show(&desk.screen()));
        assert_eq!(house.told("r1"), ["pause"], "{place}");
        desk.keys("enter");
        desk.wait_text("esc back");
    }
    // In a direction it is text, the key that would send it too.
    desk.press("s", "esc keep as draft");
    desk.paste("R\u{13}\nc");
    desk.wait_text("3 of 8192 bytes");
    desk.wait_text("left out of what was pasted");
    assert_eq!(house.told("r1"), ["pause"]);
    desk.decide("ctrl-s", "steered by");
    let heard = agent.hears().await;
    assert_eq!((&*heard.verb(), &*heard.text()), ("steer", "R\nc"));
}

/// DESIGN §6.2: 250 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_comes_with_what_it_would_order_orders_nothing() {
    let house = Wire::Native.open();
    let mut one = Agent::start(&house, "r1").await;
    let mut two = Agent::start(&house, "r2").await;
    let mut desk = attach(&house.server);
    let mut narrow = attach_to(house.server.dir(), &[], 24, 80);

    // Among the runs.
    show_runs(&mut desk);
    for burst in ["jp", "kS", "jc"] {
        too_soon(&mut desk, burst);
    }
    assert!(house.told("r1").is_empty() && house.told("r2").is_empty());
    desk.press("1", "Needs you");

    one.gets_stuck().await;
    two.gets_stuck().await;
    desk.wait_text("2 paused");
    desk.wait_panel("run r1 ·");
    for burst in ["jR", "kc"] {
        too_soon(&mut desk, burst);
    }
    // A list alone: with the key that opens the card.
    narrow.wait_text("2 paused");
    for burst in ["\rR", "\rc"] {
        too_soon(&mut narrow, burst);
        narrow.press("esc", "Needs you");
    }
    // The key that answers «are you sure?».
    let said_nothing =
        |screen: &vt100::Screen| !has_text(screen, "copied") && !has_text(screen, TOO_SOON);
    let until = Instant::now() + Duration::from_secs(20);
    while !has_text(&desk.screen(), STOP) {
        assert!(Instant::now() < until, "{}", show(&desk.screen()));
        desk.keys("f2");
        desk.wait_for(said_nothing, "notice gone");
        desk.send("cy");
        desk.wait_for(
            |screen| {
                let asked = has_text(screen, STOP) && has_text(screen, TOO_SOON);
                asked || has_text(screen, "copied")
            },
            "answer to y",
        );
    }
    desk.keys("n");
    desk.wait_gone(STOP);
    // The one that sends a direction.
    desk.send("jsleft\u{13}");
    desk.wait_text("4 of 8192 bytes");
    desk.wait_text(TOO_SOON);
    for run in ["r1", "r2"] {
        assert_eq!(house.told(run), ["pause"]);
    }
    assert_eq!(house.server.open().len(), 2);
}

/// Goes somewhere, and presses a key before anybody could have looked.
fn too_soon(desk: &mut Pty, burst: &str) {
    desk.keys("f2");
    desk.wait_gone(TOO_SOON);
    desk.send(burst);
    desk.wait_text(TOO_SOON);
    assert!(!has_text(&desk.screen(), STOP), "{}", show(&desk.screen()));
}

// === Others answer, too ===

/// A server that knows ada by a token, and where she finds it.
struct Ada {
    files: TempDir,
    address: String,
}

impl Ada {
    fn open() -> (Self, House) {
        let files = TempDir::new().unwrap();
        let made = std::process::Command::new(PROGRAM)
            .args(["token", "--role", "operator", "--name", "user:ada"])
            .output();
        let made = Ran::of(made.unwrap());
        crate::server::write_secret(files.path().join("ada"), &made.out);
        let table = files.path().join("tokens.toml");
        let told = made.err.find("[[token]]").unwrap();
        fs::write(&table, &made.err[told..]).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let table = table.to_str().unwrap();
        let house = House {
            wire: Wire::Native,
            server: Server::with(&["--listen", &address, "--tokens", table]),
            door: String::new(),
        };
        (Self { files, address }, house)
    }

    fn resumes(&self, held: &str) {
        let ran = std::process::Command::new(PROGRAM)
            .args(["resume", held, "--server"])
            .arg(format!("http://{}", self.address))
            .arg("--token-file")
            .arg(self.files.path().join("ada"))
            .output();
        let ran = Ran::of(ran.unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// Case A25, of runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_verb_wins_and_a_key_after_it_says_whose_it_was() {
    let (ada, house) = Ada::open();
    let mut agent = Agent::start(&house, "r1").await;
    agent.gets_stuck().await;
    let held = house.held("r1");
    let mut desk = attach(&house.server);
    desk.wait_text("is paused");
    desk.decide("c", STOP);
    desk.keys("n");
    desk.wait_gone(STOP);

    ada.resumes(&held);
    desk.wait_text("resumed by user:ada at");
    for key in ["R", "c", "s"] {
        desk.decide(key, "already resumed by user:ada");
        desk.keys("f2");
        desk.wait_gone("already resumed by");
    }
    assert_eq!(house.told("r1"), ["pause", "resume"]);
    agent.obeys("resume").await;
    desk.wait_panel("R resume sent › acked \"resumed\"");
    // Nothing came after it, either.
    done(&house.server, &["pause", "r1"]);
    agent.obeys("pause").await;
    assert_eq!(house.told("r1"), ["pause", "resume", "pause"]);
}

/// The key is pressed where the other answer has not arrived: the server says whose it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_crosses_another_answer_is_told_whose_it_was() {
    let (ada, house) = Ada::open();
    for (key, verb) in [("R", "resume"), ("s", "steer"), ("c", "cancel")] {
        let run = verb;
        let mut agent = Agent::start(&house, run).await;
        agent.gets_stuck().await;
        let held = house.held(run);
        let relay = Relay::to(&house.server);
        let mut desk = attach_to(relay.dir(), &[], 34, 120);
        desk.wait_text("is paused");
        relay.hold();
        ada.resumes(&held);
        order(
            &mut desk,
            key,
            &format!("{verb} sent, waiting for the server"),
        );
        relay.release();
        desk.wait_text("resumed by user:ada at");
        desk.wait_text(&format!(
            "the {verb} was not taken: already resumed by user:ada"
        ));
        assert_eq!(house.told(run), ["pause", "resume"]);
        agent.obeys("resume").await;
        let again = refused(&house.server, &["resume", &held]);
        assert!(again.contains("already resumed by user:ada"), "{again}");
    }
}

// === One and not the other ===

/// What the rule of the seeds says: a resume releases one run and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_runs_that_stand_still_a_key_releases_the_one_on_the_card() {
    for wire in WIRES {
        let house = wire.open();
        let mut one = Agent::start(&house, "r1").await;
        let mut two = Agent::start(&house, "r2").await;
        one.gets_stuck().await;
        house.held("r1");
        two.gets_stuck().await;
        house.held("r2");
        let before = house.server.show("r1");
        let mut desk = attach(&house.server);
        desk.wait_text("2 paused");
        desk.wait_panel("run r1 ·");
        desk.keys("j");
        desk.wait_panel("run r2 ·");
        order(&mut desk, "R", "resumed by");
        two.obeys("resume").await;
        desk.wait_panel("› acked \"resumed\"");
        desk.wait_text("1 paused");
        house.until_state("r2", "running");
        assert_eq!(house.server.show("r1"), before, "{wire:?}");
        assert_eq!(house.server.open().len(), 1);

        // Nor was the other told anything: what it hears next is what is meant for it.
        desk.keys("k");
        desk.wait_panel("run r1 ·");
        order(&mut desk, "s", "steered by");
        one.obeys("steer").await;
        desk.wait_panel("› confirmed plan revision 2");
        assert!(house.server.open().is_empty());
        assert_eq!(house.told("r2").last().unwrap(), "resume");
    }
}

// === A server that goes away ===

/// DESIGN §6.6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offline_an_order_is_not_sent_and_afterwards_it_is() {
    let mut house = Wire::Native.open();
    let mut agent = Agent::start(&house, "r1").await;
    agent.gets_stuck().await;
    let mut desk = attach(&house.server);
    desk.wait_text("is paused");
    desk.press("s", "esc keep as draft");
    desk.send(DIRECTION);
    desk.wait_text("17 of 8192 bytes");
    house.server.kill();
    desk.wait_text("▲ OFFLINE");
    desk.press("ctrl-s", "offline: not sent");
    desk.press("esc", "a direction is kept");
    for key in ["R", "c"] {
        desk.press(key, "offline: not sent");
        desk.keys("f2");
        desk.wait_gone("offline: not sent");
    }
    assert!(has_text(&desk.screen(), "is paused"));
    house.server.restart();
    desk.keys("r");
    desk.wait_text("● live");
    assert_eq!(house.told("r1"), ["pause"], "nothing is sent later");
    let shown = house.server.show("r1");
    assert_eq!(shown["state"], json!("paused"));
    order(&mut desk, "R", "resumed by");
    if let On::Native(native, orders) = &mut agent.on {
        *orders = native.listens().await;
    }
    agent.obeys("resume").await;
    desk.wait_panel("R resume sent › acked \"resumed\"");
    assert_eq!(house.told("r1"), ["pause", "resume"]);
}
