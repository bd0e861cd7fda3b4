//! Orders to goldfive agents over their own wire, from the command line to what shows that they were done (GF-70 to
//! GF-88): a recorded session, and an agent made by hand for what is recorded nowhere.

use std::{cell::Cell, process::Stdio};

use pilothouse::wire::pb::goldfive::v1::{
    ControlAckResult, ControlEvent, ControlKind, DriftKind, DriftSeverity,
    InvocationBoundaryExited, LadderTransitionDecided, PlanRevised, PolicyApplied, TaskBlocked,
    TaskCancelled, TaskCompleted, TaskFailed, TaskProgress, TaskStarted, TaskTransitioned,
    control_event, event::Payload,
};
use serde_json::Value;
use tonic::Streaming;

use crate::{
    goldfive::{eventually, with_door},
    replay::Replay,
    scripted::{Agent, next},
    server::{Ran, Server},
};

const REFUSED: i32 = 4;
const HUMAN: i32 = DriftKind::HumanInterventionRequired as i32;
const LOOPING: i32 = DriftKind::LoopingToolCall as i32;
const CRITICAL: i32 = DriftSeverity::Critical as i32;
const WARNING: i32 = DriftSeverity::Warning as i32;
const INFO: i32 = DriftSeverity::Info as i32;

/// A server, and the agent `a` with the run `r` of two tasks.
struct Scene {
    server: Server,
    door: String,
    agent: Agent,
    marks: Cell<usize>,
}

impl Scene {
    async fn open() -> Self {
        let (server, door) = with_door();
        let agent = Agent::open(&door, "a").await;
        let scene = Self {
            server,
            door,
            agent,
            marks: Cell::default(),
        };
        scene.begins("r");
        scene
    }

    /// Where the agent listens, too.
    async fn listening() -> (Self, Streaming<ControlEvent>) {
        let mut scene = Self::open().await;
        let controls = scene.agent.subscribes().await;
        (scene, controls)
    }

    fn begins(&self, run: &str) {
        self.agent.begins(run);
        self.agent.plans(run, 0..2, false);
        self.has_said_all(run);
    }

    /// What the agent said of the run before this has been taken. It is said by what shows nothing of a pause.
    fn has_said_all(&self, run: &str) {
        let mark = format!("mark {}", self.marks.replace(self.marks.get() + 1));
        self.agent.moves(run, "t0", "PENDING", &mark);
        let marked = |whole: &Value| whole["tasks"][0]["detail"] == mark.as_str();
        eventually(&mark, || self.whole(run).filter(marked));
    }

    fn whole(&self, run: &str) -> Option<Value> {
        let ran = self.server.run(&["show", run, "--json"]);
        (ran.code == 0).then(|| ran.objects().remove(0))
    }

    fn state(&self, run: &str) -> String {
        let whole = self.whole(run).unwrap();
        whole["state"].as_str().unwrap().into()
    }

    fn until_state(&self, run: &str, state: &str) {
        eventually(state, || (self.state(run) == state).then_some(()));
    }

    /// What holds the run.
    fn held(&self, run: &str) -> Value {
        eventually("what holds it", || {
            let mut items = self.server.open().into_iter();
            items.find(|item| item["invocation"] == run && item["kind"] != "approval")
        })
    }

    /// Its newest order.
    fn order(&self, run: &str) -> Value {
        let whole = self.whole(run).unwrap();
        whole["controls"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone()
    }

    /// Its newest order, once it has come so far.
    fn until_order(&self, run: &str, stage: &str) -> Value {
        eventually(stage, || {
            Some(self.order(run)).filter(|order| order["stage"] == stage)
        })
    }

    /// Runs the command, and gives what the agent gets of it before it is waited for.
    async fn directs(&self, controls: &mut Streaming<ControlEvent>, args: &[&str]) -> Directed {
        let child = self
            .server
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let control = next(controls).await;
        Directed { child, control }
    }
}

/// A command that runs, and what it sent.
struct Directed {
    child: std::process::Child,
    control: ControlEvent,
}

impl Directed {
    fn ended(self) -> String {
        let ran = Ran::of(self.child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    }
}

fn policy(name: &str, outcome: &str) -> Payload {
    Payload::PolicyApplied(PolicyApplied {
        policy_name: name.into(),
        outcome: outcome.into(),
        ..Default::default()
    })
}

fn moved(to: &str, source: &str) -> Payload {
    Payload::TaskTransitioned(TaskTransitioned {
        task_id: "t0".into(),
        to_status: to.into(),
        source: source.into(),
        ..Default::default()
    })
}

fn steps(order: &Value) -> Vec<&str> {
    let steps = order["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|step| step["stage"].as_str().unwrap())
        .collect()
}

/// How far the last step came, and with which words.
fn last(order: &Value) -> (&str, &str) {
    let step = order["steps"].as_array().unwrap().last().unwrap();
    (
        step["stage"].as_str().unwrap(),
        step["detail"].as_str().unwrap(),
    )
}

/// GF-70 to GF-73, GF-79, GF-82, GF-84, GF-85: the recorded escalation, and all that comes of a steer. Of its second
/// run the time-out of an approval is of the same kind, and holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_escalation_is_steered_and_goes_on_to_its_end() {
    let (server, door) = with_door();
    let mut agent = Replay::open(&door, "session-escalation.frames").await;
    assert!(agent.until_control().await);

    let held = eventually("the escalation", || server.open().into_iter().next());
    assert_eq!(held["kind"], "escalation");
    assert_eq!(held["run_state"], "paused");
    assert_eq!(held["source"], "goldfive");
    assert_eq!(held["task_id"], "t2");
    assert_eq!(held["drift"]["kind"], "HUMAN_INTERVENTION_REQUIRED");
    assert_eq!(held["drift"]["from"], "INTENT_DIVERGENCE");
    let id = held["id"].as_str().unwrap();
    let run = held["run_id"].as_str().unwrap();
    let drifts = server.show(id)["drifts"].clone();
    let said = |drift: &Value| {
        let [kind, severity] =
            ["kind", "severity"].map(|key| drift[key].as_str().unwrap().to_owned());
        format!("{kind} {severity} {}", drift["level"])
    };
    assert_eq!(
        drifts
            .as_array()
            .unwrap()
            .iter()
            .map(said)
            .collect::<Vec<_>>(),
        [
            "INTENT_DIVERGENCE info 0",
            "INTENT_DIVERGENCE warning 1",
            "INTENT_DIVERGENCE critical 4",
            "HUMAN_INTERVENTION_REQUIRED critical null",
        ]
    );
    assert_eq!(drifts[0]["id"], "94b4753b-77ff-4f8e-b6a5-a0571a6221aa");

    let steered = server.run(&["steer", id, "--note", "Only this report."]);
    assert_eq!(steered.code, 0, "{steered:?}");
    let control = agent.control().await;
    assert_eq!(control.event.kind(), ControlKind::Steer);
    let Some(control_event::Payload::Steer(steer)) = &control.event.payload else {
        panic!("{control:?}");
    };
    let answered = server.show(id);
    assert_eq!(answered["status"], "steered");
    let ours = answered["control"]["id"].as_str().unwrap();
    assert_eq!(control.event.id, ours);
    assert_eq!(steer.annotation_id, ours);
    assert_eq!(steer.note, "Only this report.");
    assert_eq!(answered["answer"]["by"], steer.author.as_str());
    assert!(steer.author.starts_with("user:"), "{steer:?}");

    agent.rest().await;
    let order = eventually("the confirmation", || {
        let order = server.show(id)["control"].clone();
        (order["stage"] == "confirmed").then_some(order)
    });
    assert_eq!(steps(&order), ["sent", "acked", "confirmed"]);
    assert_eq!(order["steps"][1]["detail"], "steer queued");
    assert_eq!(last(&order), ("confirmed", "plan revision 2"));

    assert_eq!(agent.finish().await.len(), 1, "one order, sent once");
    let whole = server.show(run);
    assert_eq!(whole["state"], "completed");
    assert_eq!(whole["plan"]["revision"], 2);
    assert!(server.open().is_empty(), "both runs are over");
    let ended = server.run(&["history", "--json"]).objects();
    let escalations = ended.iter().filter(|ended| ended["kind"] == "escalation");
    assert_eq!(
        escalations.count(),
        1,
        "a WARNING holds nothing: {ended:#?}"
    );
}

/// GF-77 to GF-80, GF-88.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_goes_from_the_command_line_to_what_shows_that_it_was_done() {
    use ControlKind::{Cancel, Pause, Resume, RewindTo, StatusQuery, Steer};
    let rewind = ["rewind", "r", "--task", "t1"];
    #[rustfmt::skip]
    let rows: &[(&[&str], ControlKind, &str, &str, &str)] = &[
        (&["pause", "r", "--note", "wait"], Pause,      "paused",              "acked: paused",                    "paused"),
        (&["resume", "r"],                  Resume,     "resumed",             "acked: resumed",                   "running"),
        (&["status", "r"],                  StatusQuery, "status_query",       "acked: status_query",              "running"),
        (&rewind,                           RewindTo,   "rewound to t1",       "confirmed: the task is pending again", "running"),
        (&rewind,                           RewindTo,   "rewound to t1",       "confirmed: the task is pending again", "running"),
        (&["steer", "r", "--note", "left"], Steer,      "steer queued",        "confirmed: plan revision 2",       "running"),
        (&["cancel", "r"],                  Cancel,     "cancel acknowledged", "confirmed: the run aborted",       "aborted"),
    ];
    let (scene, mut controls) = Scene::listening().await;
    for (args, kind, acked, stands, state) in rows {
        let directed = scene.directs(&mut controls, args).await;
        let control = directed.control.clone();
        assert_eq!(control.kind(), *kind);
        assert_eq!(control.target.as_ref().unwrap().agent_id, "a");
        let order = scene.order("r");
        assert_eq!(order["id"], control.id.as_str(), "the id is ours");
        assert_eq!(steps(&order), ["sent"]);

        scene.agent.obeys("r", &control);
        let (stage, detail) = stands.split_once(": ").unwrap();
        let order = scene.until_order("r", stage);
        assert!(
            order["steps"][1]["detail"]
                .as_str()
                .unwrap()
                .starts_with(acked),
            "{order}"
        );
        assert!(last(&order).1.starts_with(detail), "{order}");
        scene.until_state("r", state);
        let out = directed.ended();
        if *kind == StatusQuery {
            assert!(out.contains("current_task=t1 completed=0/2"), "{out}");
        }
    }
    assert!(scene.server.open().is_empty());
}

/// An agent that cannot, or does not know how, leaves the run where it is: it needs another answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_to_nothing_raises_the_escalation_again() {
    use ControlAckResult::{Failure, Success, Unspecified, Unsupported};
    #[rustfmt::skip]
    let rows: &[(&str, ControlAckResult, &str)] = &[
        ("resume", Failure,     "failed"),
        ("resume", Unsupported, "unsupported"),
        ("steer",  Failure,     "failed"),
        ("steer",  Unsupported, "unsupported"),
        ("cancel", Failure,     "failed"),
        ("cancel", Unsupported, "unsupported"),
        ("resume", Unspecified, "failed"),
    ];
    let (scene, mut controls) = Scene::listening().await;
    scene.agent.escalates("r", "d");
    let mut before = scene.held("r")["id"].as_str().unwrap().to_owned();
    for (verb, result, stage) in rows {
        let note: &[&str] = if *verb == "steer" {
            &["--note", "left"]
        } else {
            &[]
        };
        let directed = scene
            .directs(&mut controls, &[&[*verb, &before], note].concat())
            .await;
        scene
            .agent
            .acks(&directed.control, *result, "no such thing");
        directed.ended();
        let order = scene.until_order("r", stage);
        assert!(last(&order).1.ends_with("no such thing"), "{order}");
        let again = scene.held("r");
        assert_ne!(again["id"], before.as_str());
        assert_eq!(again["run_state"], "paused");
        assert_eq!(again["after"]["verb"], *verb);
        before = again["id"].as_str().unwrap().into();
    }
    let directed = scene.directs(&mut controls, &["resume", &before]).await;
    scene.agent.acks(&directed.control, Success, "resumed");
    scene.until_state("r", "running");
    assert!(scene.server.open().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_before_its_ack_gives_no_answer() {
    let (mut scene, mut controls) = Scene::listening().await;
    scene.agent.escalates("r", "d");
    scene.held("r");
    scene.directs(&mut controls, &["resume", "r"]).await.ended();
    let another = Agent::open(&scene.door, "b").await;
    std::mem::replace(&mut scene.agent, another).kill();
    let order = scene.until_order("r", "no answer");
    assert_eq!(last(&order).1, "its agent went away before it took this");
    assert_eq!(scene.held("r")["after"]["verb"], "resume");
    let late = scene.server.run(&["resume", "r"]);
    assert_eq!(late.code, REFUSED);
    assert!(
        late.err.contains("cannot be delivered any more"),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_before_the_ack_gives_no_answer() {
    let (scene, mut controls) = Scene::listening().await;
    scene.agent.escalates("r", "d");
    scene.held("r");
    let directed = scene.directs(&mut controls, &["resume", "r"]).await;
    scene.agent.completes("r");
    let order = scene.until_order("r", "no answer");
    assert_eq!(last(&order).1, "the run completed");
    // Too late to change anything.
    scene.agent.obeys("r", &directed.control);
    scene.begins("another");
    assert_eq!(scene.order("r"), order);
    assert!(scene.server.open().is_empty());
}

/// What was on its way when the server ended may have arrived; nobody will say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_of_the_server_an_order_has_no_answer() {
    let (mut scene, mut controls) = Scene::listening().await;
    scene.agent.escalates("r", "d");
    scene.held("r");
    scene.directs(&mut controls, &["resume", "r"]).await.ended();
    scene.server.restart();
    let order = scene.until_order("r", "no answer");
    assert!(last(&order).1.contains("not known"), "{order}");
    assert_eq!(scene.held("r")["after"]["verb"], "resume");
    let late = scene.server.run(&["resume", "r"]);
    assert_eq!(late.code, REFUSED);
}

/// GF-71, and the sheet's §2.4: of the sources of one kind of drift three hold a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_held_by_what_holds_it_and_by_nothing_else() {
    #[rustfmt::skip]
    let rows: &[(i32, i32, &str, bool)] = &[
        (HUMAN, CRITICAL, "escalated from intent_divergence: wandered", true),
        (HUMAN, CRITICAL, "refine handler exhausted for off_topic on task t1: planner cannot produce a meaningful change", true),
        (HUMAN, CRITICAL, "task progress stalled for off_topic on task t1: 700s since last progress, threshold 600s", true),
        (HUMAN, WARNING,  "approval request for task 't1' received no APPROVE/REJECT within 2000ms; task remains BLOCKED pending a decision", false),
        (HUMAN, INFO,     "the revision was rejected", false),
        (HUMAN, CRITICAL, "somebody should look", false),
        (HUMAN, 99,       "escalated from intent_divergence: wandered", false),
        (LOOPING, CRITICAL, "escalated from intent_divergence: wandered", false),
        (99,    CRITICAL, "escalated from intent_divergence: wandered", false),
    ];
    let scene = Scene::open().await;
    for (n, (kind, severity, detail, holds)) in rows.iter().enumerate() {
        let run = format!("r{n}");
        scene.agent.drifts(&run, "d", (*kind, *severity), detail);
        scene.has_said_all(&run);
        let state = if *holds { "paused" } else { "running" };
        assert_eq!(scene.state(&run), state, "{detail}");
    }
}

/// Seen before the drift on the same stream, either says that nothing is paused there (the sheet's §0.7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_only_observes_is_not_held() {
    let scene = Scene::open().await;
    scene.agent.only_observes("policy");
    scene.agent.plans("dry", 0..2, true);
    for (run, state) in [("policy", "running"), ("dry", "running"), ("r", "paused")] {
        scene.agent.escalates(run, "d");
        scene.has_said_all(run);
        assert_eq!(scene.state(run), state, "{run}");
        assert_eq!(
            scene.whole(run).unwrap()["drifts"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
    }
    assert_eq!(scene.server.open().len(), 1);
}

/// Nothing on the wire says that a run is paused (the sheet's §0.8): what was inferred is taken back by what its run does
/// afterwards, and not by what comes with a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_held_by_inference_is_let_go_once_it_evidently_goes_on() {
    let task_id = "t0".to_owned();
    #[rustfmt::skip]
    let rows: &[(&str, Payload, bool)] = &[
        ("policy",    policy("observation_only_gate", "suppressed"), true),
        ("dry plan",  Payload::PlanRevised(PlanRevised { dry_run: true, ..Default::default() }), true),
        ("started",   Payload::TaskStarted(TaskStarted { task_id: task_id.clone(), ..Default::default() }), true),
        ("progress",  Payload::TaskProgress(TaskProgress { task_id: task_id.clone(), ..Default::default() }), false),
        ("completed", Payload::TaskCompleted(TaskCompleted { task_id: task_id.clone(), ..Default::default() }), false),
        ("dispatched", moved("RUNNING", "executor_dispatch"), true),
        ("reported",  moved("COMPLETED", "llm_report"), false),
        ("applied",   policy("observation_only_gate", "applied"), false),
        ("other policy", policy("budget", "suppressed"), false),
        ("blocked",   Payload::TaskBlocked(TaskBlocked { task_id: task_id.clone(), ..Default::default() }), false),
        ("cancelled", Payload::TaskCancelled(TaskCancelled { task_id: task_id.clone(), ..Default::default() }), false),
        ("failed",    Payload::TaskFailed(TaskFailed { task_id: task_id.clone(), ..Default::default() }), false),
        ("called off", moved("CANCELLED", "cancellation"), false),
        ("rerouted",   moved("RUNNING", "supersedes_reroute"), false),
        ("ladder",    Payload::LadderTransitionDecided(LadderTransitionDecided { to_level: "pause_escalate".into(), drift_id: "d".into(), ..Default::default() }), false),
        ("boundary",  Payload::InvocationBoundaryExited(InvocationBoundaryExited::default()), false),
    ];
    let scene = Scene::open().await;
    scene.agent.escalates("another", "d");
    for (run, said, goes_on) in rows {
        scene.begins(run);
        scene.agent.escalates(run, "d");
        scene.has_said_all(run);
        assert_eq!(scene.state(run), "paused", "{run}");
        let held = scene.held(run)["id"].as_str().unwrap().to_owned();
        scene.agent.event(run, said.clone());
        scene.has_said_all(run);
        let state = if *goes_on { "running" } else { "paused" };
        assert_eq!(scene.state(run), state, "{run}");
        let status = if *goes_on { "went on" } else { "pending" };
        assert_eq!(scene.server.show(&held)["status"], status, "{run}");
    }
    assert_eq!(scene.state("another"), "paused", "each run for itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_runs_that_are_held_a_resume_releases_one_and_nothing_else() {
    let (scene, mut controls) = Scene::listening().await;
    let mut other = Agent::open(&scene.door, "b").await;
    let mut others = other.subscribes().await;
    scene.agent.escalates("r", "d");
    scene.agent.escalates("same-agent", "d");
    other.escalates("other-agent", "d");
    for run in ["r", "same-agent", "other-agent"] {
        scene.held(run);
    }
    let directed = scene.directs(&mut controls, &["resume", "r"]).await;
    scene.agent.obeys("r", &directed.control);
    scene.until_state("r", "running");
    for run in ["same-agent", "other-agent"] {
        assert_eq!(scene.state(run), "paused");
        assert_eq!(scene.whole(run).unwrap()["controls"], Value::Array(vec![]));
    }
    // The next that each of them gets is the next that is meant for it.
    let directed = scene.directs(&mut others, &["cancel", "other-agent"]).await;
    assert_eq!(directed.control.target.unwrap().agent_id, "b");
    let directed = scene
        .directs(&mut controls, &["resume", "same-agent"])
        .await;
    assert_eq!(
        directed.control.id,
        scene.order("same-agent")["id"].as_str().unwrap()
    );
}

/// Case A21: a cancel wins over the pause, takes back what is asked, and is done when the run has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_run_that_is_cancelled_is_cancelled() {
    let (scene, mut controls) = Scene::listening().await;
    scene.agent.asks("r", "t1");
    scene.agent.escalates("r", "d");
    let held = scene.held("r")["id"].as_str().unwrap().to_owned();
    let open = scene.server.open();
    let asked = open.iter().find(|item| item["kind"] == "approval").unwrap();
    let question = asked["id"].as_str().unwrap();
    let digest = asked["digest"].as_str().unwrap();

    let directed = scene.directs(&mut controls, &["cancel", &held]).await;
    assert!(scene.server.open().is_empty());
    let taken_back = scene.server.show(question);
    assert_eq!(taken_back["status"], "withdrawn");
    assert!(taken_back["why"]["cancelled"].is_object(), "{taken_back}");
    assert_eq!(scene.server.show(&held)["status"], "cancelled");
    let late: [&[&str]; 4] = [
        &["resume", "r"],
        &["steer", "r", "--note", "left"],
        &["resume", &held],
        &["approve", question, "--digest", digest],
    ];
    for args in late {
        assert_eq!(scene.server.run(args).code, REFUSED, "{args:?}");
    }
    assert_eq!(scene.order("r")["stage"], "sent", "requested, not yet done");

    let control = &directed.control;
    scene
        .agent
        .acks(control, ControlAckResult::Success, "cancel acknowledged");
    scene.until_order("r", "acked");
    assert_ne!(scene.state("r"), "aborted", "an ack is no end");
    scene.agent.aborts("r", "cancelled by control");
    scene.until_order("r", "confirmed");
    scene.until_state("r", "aborted");
    directed.ended();
}

/// Nobody is told that something was sent which nobody was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_wait_for_an_agent_that_does_not_listen_yet_and_come_once_and_in_order() {
    let mut scene = Scene::open().await;
    let stands = scene.server.run(&["pause", "r"]);
    assert!(
        stands
            .out
            .contains("not taken yet: its agent does not listen for orders"),
        "{stands:?}"
    );
    assert_eq!(scene.server.run(&["resume", "r"]).code, 0);
    assert_eq!(scene.order("r")["stage"], "not sent");

    let mut controls = scene.agent.subscribes().await;
    let mut second = scene.agent.subscribes().await;
    let (pause, resume) = (next(&mut controls).await, next(&mut controls).await);
    assert_eq!(pause.kind(), ControlKind::Pause);
    assert_eq!(resume.kind(), ControlKind::Resume);
    scene.until_order("r", "sent");
    let more = tokio::time::timeout(std::time::Duration::from_millis(300), second.message());
    assert!(more.await.is_err(), "nothing is sent twice");

    // Of an agent that goes away before it ever listened nothing was sent.
    let quiet = Agent::open(&scene.door, "quiet").await;
    quiet.begins("q");
    eventually("its run", || scene.whole("q"));
    assert_eq!(scene.server.run(&["cancel", "q"]).code, 0);
    quiet.leaves().await;
    let order = scene.until_order("q", "no answer");
    assert_eq!(steps(&order), ["no answer"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_counts_from_the_agent_that_was_told() {
    let (scene, mut controls) = Scene::listening().await;
    let other = Agent::open(&scene.door, "b").await;
    let directed = scene
        .directs(&mut controls, &["steer", "r", "--note", "left"])
        .await;
    other.acks(&directed.control, ControlAckResult::Failure, "not mine");
    other.begins("other");
    eventually("that it was said", || scene.whole("other"));
    assert_eq!(scene.order("r")["stage"], "sent");
    scene.agent.obeys("r", &directed.control);
    scene.until_order("r", "confirmed");
}

/// Words and numbers that nobody knows stay what they are, and what is too large is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_unknown_of_a_drift_stays_unknown() {
    let scene = Scene::open().await;
    let agent = &scene.agent;
    let large = "x".repeat(100_000);
    agent.drifts("r", "wäre ein Name", (99, 9), "odd");
    agent.levels("r", "wäre ein Name", "signal");
    agent.drifts("r", "", (0, 0), &large);
    agent.levels("r", "", "absorb");
    agent.drifts("r", "plain", (LOOPING, WARNING), "plain");
    agent.levels("r", "plain", "zap");
    agent.levels("r", "nobody", "absorb");
    scene.has_said_all("r");
    let whole = scene.whole("r").unwrap();
    let of = |drift: &Value| {
        let texts = ["kind", "severity", "level_word"].map(|key| drift[key].to_string());
        texts.join(" ").replace('"', "")
    };
    let drifts = whole["drifts"].as_array().unwrap();
    assert_eq!(
        drifts.iter().map(of).collect::<Vec<_>>(),
        [
            "UNKNOWN (99) unknown (9) nudge",
            "UNSPECIFIED UNSPECIFIED null",
            "LOOPING_TOOL_CALL warning null",
        ]
    );
    for hashed in &drifts[..2] {
        assert!(
            hashed["id"].as_str().unwrap().starts_with("sha256-"),
            "{hashed}"
        );
    }
    assert_eq!(drifts[2]["id"], "plain");
}
