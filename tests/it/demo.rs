//! The demo: what its agents ask, what they make of every answer, and the program that shows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Stdio,
    time::Duration,
};

use nix::sys::signal::Signal;
use pilothouse::{
    connect::Client,
    demo::{Demo, Patience, Scene, Script},
    serve::{Listeners, Server, clock::Clock, identity::Identity, owner::Owner, stop::Stop},
    wire::pilothouse::{Item, ListWish, Open, RunRecord},
};
use registry::{
    Asks, Control, Digest, Escalation, Event, Pending, Run, RunId, Seq, Settled, Timestamp,
    approval::{Outcome, Risk, Seen, Verdict, Why},
    command::{Decide, Order},
    control::{Confirmation, Stage as Step, Verb},
    drift::Level,
    escalation::Ended,
    form::Form,
    log::Memory,
    names::{ControlId, DecisionId},
    run::{End, Presence, RunState, TaskState},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::{
    pty::{Pty, has_text, show},
    server::{PROGRAM, Ran},
};

const YES: Verdict = Verdict::Approve;
const NO: Verdict = Verdict::Reject;
/// Seeds with which the run that turns in circles does so once, and twice.
const ONCE: u64 = 7;
const TWICE: u64 = 8;
/// 2026-11-30T14:04:22Z.
const NOW_MS: i64 = 1_796_047_462_000;
/// The longest that an agent of the demo is away, and more than it takes a server to see it.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(50);

// === What the agents ask, and do ===

/// The agents of one scene, a server, and whoever answers them.
struct Stage {
    person: Client,
    clock: Clock,
    _agents: Demo,
}

impl Stage {
    async fn set(seed: u64, scene: Scene) -> Self {
        let clock = Clock::standing(Timestamp::from_ms(NOW_MS));
        let log = Box::new(Memory::new("demo"));
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(log, clock.clone(), None, fatal).unwrap();
        let (pipe, pipes) = mpsc::channel(4);
        let listeners = Listeners {
            pipe: Some(pipes),
            ..Listeners::default()
        };
        let server = Server::new(owner, Identity::of_the_socket(), Stop::default());
        tokio::spawn(server.run(listeners));
        let client = || {
            let pipe = pipe.clone();
            Client::over(move || {
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                pipe.try_send(theirs).map_err(std::io::Error::other)?;
                Ok(ours)
            })
        };
        let script = Script {
            seed,
            only: Some(scene),
            patience: Patience::Ends,
        };
        Self {
            person: client(),
            clock,
            _agents: Demo::begin(&client(), script, |_| {}).await,
        }
    }

    async fn open(&self) -> Vec<Item> {
        self.person.list(&ListWish::default()).await.unwrap()
    }

    /// The question about a task or a call, as soon as it stands.
    async fn question(&self, target: &str) -> Item {
        self.until(target, |item| asks_about(item, target)).await
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Item) -> bool) -> Item {
        let until = Instant::now() + PATIENCE;
        loop {
            let open = self.open().await;
            if let Some(item) = open.iter().find(|item| is_so(item)) {
                return item.clone();
            }
            assert!(Instant::now() < until, "no {what}: {open:?}");
            sleep(LOOK).await;
        }
    }

    async fn decide(&self, item: &Item, verdict: Verdict, answers: &[(&str, &str)]) {
        let id = pending(item).approval.id;
        let decide = Decide {
            id,
            decision: DecisionId::parse(&format!("test-{id}")).unwrap(),
            verdict,
            digest: pending(item).approval.digest,
            answers: answers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            note: "as agreed".into(),
            seen: Seen::Quoted,
            on_behalf_of: None,
            form: Form::default(),
            past: None,
            decided_before: None,
        };
        self.person.decide(&decide).await.unwrap();
    }

    /// Answers a question that stands or will, and says what its agent made of that: `done: paid`.
    async fn answer(&self, target: &str, verdict: Verdict, answers: &[(&str, &str)]) -> String {
        let item = self.question(target).await;
        self.decide(&item, verdict, answers).await;
        self.made_of(&item).await
    }

    async fn made_of(&self, item: &Item) -> String {
        let ended = |settled: &Settled| settled.approval.id == pending(item).approval.id;
        let settled = self
            .ended(|settled| ended(settled) && settled.applied.is_some())
            .await;
        let applied = settled.applied.unwrap();
        format!("{}: {}", applied.result.word(), applied.detail.raw())
    }

    async fn ended(&self, is_so: impl Fn(&Settled) -> bool) -> Settled {
        let until = Instant::now() + PATIENCE;
        loop {
            let (history, _) = self.person.history(100, None).await.unwrap();
            let settled = history.iter().filter_map(|ended| match ended {
                Ended::Approval(settled) => Some(settled),
                Ended::Escalation(_) => None,
            });
            if let Some(settled) = settled.into_iter().find(|settled| is_so(settled)) {
                return settled.clone();
            }
            assert!(Instant::now() < until, "it has not ended: {history:?}");
            sleep(LOOK).await;
        }
    }

    async fn record(&self, item: &Item) -> RunRecord {
        let id = item.run.id.to_string().into();
        self.person.get_run(&id, Seq::default()).await.unwrap()
    }

    async fn tasks(&self, item: &Item) -> BTreeMap<String, TaskState> {
        let tasks = self.record(item).await.run.tasks.into_iter();
        let tasks = tasks.map(|(id, task)| (id.raw().to_owned(), task.state));
        tasks.collect()
    }

    /// How the run of a question ended.
    async fn over(&self, item: &Item) -> End {
        let until = Instant::now() + PATIENCE;
        loop {
            let run = self.record(item).await.run;
            if let RunState::Ended(end) = run.state {
                return end;
            }
            assert!(Instant::now() < until, "{run:?}");
            sleep(LOOK).await;
        }
    }

    async fn said(&self, item: &Item) -> String {
        let record = self.record(item).await.record;
        let said = record.iter().filter_map(|recorded| match &*recorded.event {
            Event::Said { text, .. } => Some(text.raw().to_owned()),
            _ => None,
        });
        said.collect::<Vec<_>>().join("\n")
    }
}

fn asks_about(item: &Item, target: &str) -> bool {
    match &item.open {
        Open::Pending(pending) => pending.approval.target.raw() == target,
        Open::Escalation(_) => false,
    }
}

/// The question that waits.
fn pending(item: &Item) -> &Pending {
    match &item.open {
        Open::Pending(pending) => pending,
        Open::Escalation(escalation) => panic!("no question: {escalation:?}"),
    }
}

/// The questions of a scene, each answered: yes, no, yes …
async fn questions(seed: u64, scene: Scene, first: Verdict) -> Vec<(String, Digest)> {
    let stage = Stage::set(seed, scene).await;
    let (mut asked, mut known) = (Vec::new(), BTreeSet::new());
    let mut verdict = first;
    while asked.len() < 6 {
        let new = |item: &Item| !known.contains(&pending(item).approval.id);
        let item = stage.until("next question", new).await;
        let approval = &pending(&item).approval;
        known.insert(approval.id);
        asked.push((approval.title.raw().to_owned(), approval.digest));
        let form: &[_] = match approval.fields {
            0 => &[],
            _ => &[("visibility", "members")],
        };
        stage.decide(&item, verdict, form).await;
        verdict = if verdict == YES { NO } else { YES };
    }
    asked
}

#[tokio::test]
async fn every_scene_stands_at_its_question_before_it_is_shown() {
    for scene in Scene::ALL {
        let stage = Stage::set(7, scene).await;
        let open = stage.open().await;
        let expected = if scene == Scene::Reword { 2 } else { 1 };
        assert_eq!(open.len(), expected, "{scene:?}: {open:?}");
        assert!(!scene.about().is_empty());
    }
}

#[tokio::test]
async fn the_same_seed_and_the_same_answers_give_the_same_questions() {
    // Reword asks two things at once, and takes one back; runs that are held ask nothing: their own tests.
    let own = [Scene::Reword, Scene::Escalation, Scene::Abort];
    for scene in Scene::ALL {
        if own.contains(&scene) {
            continue;
        }
        let once = questions(7, scene, YES).await;
        assert_eq!(once, questions(7, scene, YES).await, "{scene:?}");
        assert_ne!(once, questions(8, scene, YES).await, "{scene:?}");
        let different: BTreeSet<_> = once.iter().map(|(_, digest)| digest.to_string()).collect();
        assert_eq!(different.len(), once.len(), "it runs dry: {once:?}");
    }
    let answered_otherwise = questions(7, Scene::Task, NO).await;
    assert_ne!(questions(7, Scene::Task, YES).await, answered_otherwise);
}

#[tokio::test]
async fn a_task_goes_on_or_fails_as_it_was_decided() {
    let stage = Stage::set(7, Scene::Task).await;
    let few = stage.question("t2").await;
    let TaskState::Blocked { blocker, .. } = &stage.tasks(&few).await["t2"] else {
        panic!("not blocked");
    };
    assert_eq!(blocker.raw(), "awaiting_approval");
    let made = stage.answer("t2", YES, &[]).await;
    assert!(made.starts_with("done: "), "{made}");
    let made = stage.answer("t3", YES, &[]).await;
    assert_eq!(made, "done: everybody has it");
    assert_eq!(stage.over(&few).await, End::Completed);
    let tasks = stage.tasks(&few).await;
    assert_eq!(tasks["t2"], TaskState::Completed);
    assert_eq!(tasks["t3"], TaskState::Completed);

    let stage = Stage::set(7, Scene::Task).await;
    let few = stage.question("t2").await;
    let made = stage.answer("t2", NO, &[]).await;
    assert_eq!(made, "skipped: nothing was rolled out");
    assert_eq!(stage.over(&few).await, End::Failed);
    let tasks = stage.tasks(&few).await;
    assert_eq!(tasks["t2"], TaskState::Failed);
    assert_eq!(tasks["t3"], TaskState::NotNeeded);
    let next = stage.question("t2").await;
    assert_ne!(next.run.id, few.run.id, "then it begins anew");
}

#[tokio::test]
async fn a_tool_comes_with_hidden_characters_and_one_of_high_risk_follows() {
    for (seed, verdict, made) in [(7, YES, "done: paid "), (8, NO, "skipped: asked ")] {
        let stage = Stage::set(seed, Scene::Tool).await;
        let pay = stage.question("call-1").await;
        assert_eq!(pending(&pay).approval.risk, Risk::Normal);
        let got = stage.person.get(pending(&pay).approval.id).await.unwrap();
        let args = got.detail.args.unwrap();
        assert!(args.line().altered() > 0, "{args:?}");
        serde_json::from_str::<serde_json::Value>(args.raw()).unwrap();
        let said = stage.answer("call-1", verdict, &[]).await;
        assert!(said.starts_with(made), "{said}");
        let delete = stage.question("call-2").await;
        assert_eq!(pending(&delete).approval.risk, Risk::High);
        assert_eq!(delete.run.id, pay.run.id);
    }
}

#[tokio::test]
async fn a_form_has_every_type_and_its_answers_are_acted_on() {
    let stage = Stage::set(7, Scene::Form).await;
    let item = stage.question("t2").await;
    let form = stage.person.get(pending(&item).approval.id).await.unwrap();
    let form = form.detail.form;
    let types: BTreeSet<_> = form
        .fields()
        .iter()
        .map(|field| field.kind.word())
        .collect();
    let every = [
        "string", "text", "number", "integer", "boolean", "enum", "date",
    ];
    assert_eq!(types, every.into());
    assert_eq!(form.cannot_be_declined_in_one_step().len(), 1);
    let answers = [
        ("visibility", "wardens"),
        ("birds", "99"),
        ("seen_on", "2026-02-28"),
    ];
    let made = stage.answer("t2", YES, &answers).await;
    for part in [
        "done: published",
        "99 birds",
        "of 2026-02-28",
        "for wardens",
    ] {
        assert!(made.contains(part), "{part}: {made}");
    }
    let made = stage.answer("t3", YES, &[]).await;
    assert_eq!(made, "done: 412 letters sent", "it asked once more");

    let quiet = [("visibility", "public"), ("tell_readers", "false")];
    let stage = Stage::set(7, Scene::Form).await;
    let item = stage.question("t2").await;
    stage.answer("t2", YES, &quiet).await;
    stage.over(&item).await;
    let tasks = stage.tasks(&item).await;
    assert_eq!(tasks["t3"], TaskState::Pending, "nobody is told");

    let stage = Stage::set(7, Scene::Form).await;
    let made = stage.answer("t2", NO, &quiet).await;
    assert_eq!(made, "skipped: a draft, filed under public");
}

#[tokio::test]
async fn the_user_of_a_run_is_asked_and_then_an_admin() {
    let stage = Stage::set(7, Scene::Asks).await;
    let send = stage.question("call-1").await;
    assert_eq!(pending(&send).approval.asks, Asks::EndUser);
    assert!(pending(&send).approval.owner.is_some());
    let made = stage.answer("call-1", YES, &[]).await;
    assert!(made.starts_with("done: sent to"), "{made}");
    let export = stage.question("call-2").await;
    assert_eq!(pending(&export).approval.asks, Asks::Admin);
    let made = stage.answer("call-2", NO, &[]).await;
    assert!(made.starts_with("skipped: wrote to the auditor"), "{made}");
}

#[tokio::test]
async fn an_agent_whose_patience_ends_goes_on_and_takes_the_late_answer() {
    let stage = Stage::set(7, Scene::Timeout).await;
    let rest = stage.question("t3").await;
    let odd = stage.question("t2").await;
    assert_eq!(pending(&odd).timed_out.len(), 1);
    let said = stage.said(&odd).await;
    assert!(said.contains("I go on without them"), "{said}");
    let made = stage.answer("t2", YES, &[]).await;
    assert!(made.starts_with("done: late, but it counts"), "{made}");
    let made = stage.answer("t3", YES, &[]).await;
    assert!(made.starts_with("done: "), "{made}");
    assert_eq!(stage.over(&rest).await, End::Completed);
}

#[tokio::test]
async fn an_answer_in_time_is_acted_on_before_the_rest() {
    let stage = Stage::set(7, Scene::Timeout).await;
    let made = stage.answer("t2", NO, &[]).await;
    assert!(made.starts_with("skipped: in time"), "{made}");
    let rest = stage.question("t3").await;
    assert_eq!(stage.tasks(&rest).await["t2"], TaskState::NotNeeded);
}

#[tokio::test]
async fn a_deadline_that_passes_is_said_and_another_offer_comes() {
    let stage = Stage::set(7, Scene::Deadline).await;
    let first = stage.question("offer-1").await;
    let over = pending(&first)
        .deadline
        .unwrap()
        .plus(Duration::from_secs(1));
    stage.clock.set(over);
    let after = Duration::from_secs(600);
    let id = pending(&first).approval.id;
    let late = stage.person.extend(id, after).await.unwrap_err();
    assert!(late.to_string().contains("expired"), "{late}");
    let second = stage.question("offer-2").await;
    assert!(stage.said(&second).await.contains("Nobody decided"));
    let made = stage.answer("offer-2", YES, &[]).await;
    assert!(made.starts_with("done: booked"), "{made}");
    assert_eq!(stage.over(&first).await, End::Completed);
}

#[tokio::test]
async fn an_agent_that_was_away_gets_the_answer_that_it_missed() {
    let stage = Stage::set(7, Scene::Away).await;
    let gone = |item: &Item| matches!(item.run.presence, Presence::Away { .. });
    let item = stage.until("agent away", gone).await;
    stage.decide(&item, YES, &[]).await;
    let made = stage.made_of(&item).await;
    assert!(made.starts_with("done: I am here"), "{made}");
}

#[tokio::test]
async fn what_is_answered_takes_another_question_back_or_changes_its_words() {
    let of = |item: &Item| pending(item).approval.id;
    let stage = Stage::set(7, Scene::Reword).await;
    let letter = stage.question("t3").await;
    stage.answer("t2", YES, &[]).await;
    let ended = |settled: &Settled| settled.approval.id == of(&letter);
    let ended = stage.ended(ended).await;
    let Outcome::Withdrawn(Why::Agent { reason }) = ended.outcome else {
        panic!("{ended:?}");
    };
    assert_eq!(reason.raw(), "the scans have it all");

    let stage = Stage::set(7, Scene::Reword).await;
    let letter = stage.question("t3").await;
    stage.answer("t2", NO, &[]).await;
    let anew = |item: &Item| pending(item).approval.target.raw() == "t3" && of(item) != of(&letter);
    let anew = stage.until("reworded question", anew).await;
    let ended = |settled: &Settled| settled.approval.id == of(&letter);
    let ended = stage.ended(ended).await;
    assert_eq!(
        ended.outcome,
        Outcome::Withdrawn(Why::Superseded { by: of(&anew) })
    );
    stage.decide(&anew, YES, &[]).await;
    assert_eq!(stage.made_of(&anew).await, "done: the letter is out");
}

// === What the agents are told, and do ===

/// Runs, and the orders to them.
impl Stage {
    async fn run(&self, id: RunId) -> Run {
        let id = id.to_string().into();
        self.person.get_run(&id, Seq::default()).await.unwrap().run
    }

    /// The run once it is as described.
    async fn becomes(&self, id: RunId, what: &str, is_so: impl Fn(&Run) -> bool) -> Run {
        let until = Instant::now() + PATIENCE;
        loop {
            let run = self.run(id).await;
            if is_so(&run) {
                return run;
            }
            assert!(Instant::now() < until, "not {what}: {run:#?}");
            sleep(LOOK).await;
        }
    }

    /// Gives an order; to a run that is held, that is the answer.
    async fn tell(&self, id: RunId, verb: Verb, note: &str) -> Control {
        let held_by = self.run(id).await.held_by;
        let nth = self.run(id).await.controls.len();
        let order = Order {
            id: ControlId::parse(&format!("test-{nth}")).unwrap(),
            run: id,
            answers: held_by.filter(|_| verb.answers()),
            verb,
            note: note.into(),
        };
        self.person.control(&order).await.unwrap()
    }

    /// Gives an order, and follows it to its end: `sent, acked (paused)`.
    async fn order(&self, id: RunId, verb: Verb, note: &str) -> String {
        let order = self.tell(id, verb, note).await.id;
        let is_over = |run: &Run| run.control(&order).is_some_and(Control::is_over);
        let run = self.becomes(id, "over with its order", is_over).await;
        steps(run.control(&order).unwrap())
    }

    /// The run that is held, and by what, as soon as one is.
    async fn held(&self) -> Escalation {
        let item = self.until("run that is held", |item| {
            let held = matches!(item.open, Open::Escalation(_));
            held && matches!(item.run.state, RunState::Paused(_))
        });
        match item.await.open {
            Open::Escalation(escalation) => (*escalation).clone(),
            Open::Pending(pending) => panic!("{pending:?}"),
        }
    }

    async fn ends(&self, id: RunId) -> (End, Run) {
        let run = self.becomes(id, "over", |run| run.state.is_over()).await;
        match run.state {
            RunState::Ended(end) => (end, run),
            _ => panic!("{run:?}"),
        }
    }
}

fn steps(control: &Control) -> String {
    let step = |step: &registry::control::Step| match step.detail.raw() {
        "" => step.stage.word().to_owned(),
        detail => format!("{} ({detail})", step.stage.word()),
    };
    let steps: Vec<_> = control.steps.iter().map(step).collect();
    steps.join(", ")
}

/// Each task of its plan, in order: `t1 completed`.
fn plan(run: &Run) -> Vec<String> {
    let tasks = run.plan.as_ref().unwrap().tasks.iter();
    let state = |id| run.tasks[id].state.word();
    let tasks = tasks.map(|task| format!("{} {}", task.id.raw(), state(&task.id)));
    tasks.collect()
}

/// How strongly its drifts were answered.
fn levels(run: &Run) -> Vec<u8> {
    let levels = run.drifts.iter().filter_map(|drift| drift.level);
    levels.map(Level::number).collect()
}

#[tokio::test]
async fn every_agent_takes_every_order_while_it_waits() {
    let scenes: tokio::task::JoinSet<()> = Scene::ALL.into_iter().map(takes_orders).collect();
    scenes.join_all().await;
}

async fn takes_orders(scene: Scene) {
    let stage = Stage::set(7, scene).await;
    let id = stage.open().await[0].run.id;
    let is_held = matches!(scene, Scene::Escalation | Scene::Abort);
    let paused = if is_held {
        steps(&stage.run(id).await.controls[0])
    } else {
        stage.order(id, Verb::Pause, "wait").await
    };
    assert_eq!(paused, "sent, acked (paused)", "{scene:?}");
    let here = stage.order(id, Verb::StatusQuery, "").await;
    assert!(here.contains("standing still"), "{scene:?}: {here}");
    let unknown = Verb::Rewind { task: "t99".into() };
    let unknown = stage.order(id, unknown, "").await;
    assert_eq!(unknown, "sent, failed (unknown task)", "{scene:?}");
    let steered = stage.order(id, Verb::Steer, "Only what is\n free").await;
    assert!(
        steered.starts_with("sent, acked (steer queued), confirmed (plan revision "),
        "{scene:?}: {steered}"
    );
    let goes_on = |run: &Run| run.pause.is_none() && run.held_by.is_none();
    let run = stage.becomes(id, "going on", goes_on).await;
    let plan = run.plan.unwrap();
    let kept = "Keep to «Only what is free»";
    assert!(plan.tasks.iter().any(|task| task.title.raw() == kept));
    let told = "as told: «Only what is free»";
    assert!(plan.summary.raw().ends_with(told), "{plan:?}");
    let cancelled = stage.order(id, Verb::Cancel, "").await;
    assert_eq!(
        cancelled, "sent, acked (stopping), confirmed (the run cancelled)",
        "{scene:?}"
    );
    let (_, run) = stage.ends(id).await;
    let mut tasks = run.tasks.values();
    assert!(tasks.all(|task| task.state.is_over()), "{run:?}");
    assert!(run.open.is_empty());
    if !is_held {
        stage.until("new run", |item| item.run.id != id).await;
    }
}

#[tokio::test]
async fn who_stands_still_does_nothing_with_an_answer_until_it_goes_on() {
    let stage = Stage::set(7, Scene::Task).await;
    let few = stage.question("t2").await;
    let id = few.run.id;
    stage.order(id, Verb::Pause, "").await;
    stage.decide(&few, YES, &[]).await;
    sleep(Duration::from_secs(2)).await;
    let before = stage.run(id).await;
    assert!(matches!(before.state, RunState::Paused(_)), "{before:?}");
    assert_eq!(plan(&before), ["t1 completed", "t2 blocked", "t3 pending"]);
    assert_eq!(
        stage.order(id, Verb::Resume, "").await,
        "sent, acked (resumed)"
    );
    assert!(stage.made_of(&few).await.starts_with("done: "));
    stage.question("t3").await;
}

#[tokio::test]
async fn a_task_that_is_rewound_is_asked_about_and_done_once_more() {
    let stage = Stage::set(7, Scene::Task).await;
    let few = stage.question("t2").await;
    let id = few.run.id;
    let rewind = |task: &str| Verb::Rewind { task: task.into() };
    let early = stage.order(id, rewind("t3"), "").await;
    assert_eq!(early, "sent, failed (that task has not begun)");
    stage.answer("t2", YES, &[]).await;
    stage.question("t3").await;
    let confirmed =
        |task| format!("sent, acked ({task} once more), confirmed (the task is pending again)");
    assert_eq!(stage.order(id, rewind("t2"), "").await, confirmed("t2"));
    let again = stage.question("t2").await;
    assert_eq!(
        pending(&again).approval.digest,
        pending(&few).approval.digest
    );
    assert_ne!(pending(&again).approval.id, pending(&few).approval.id);
    let open = stage.open().await;
    assert_eq!(open.len(), 1, "what followed is taken back: {open:?}");
    stage.decide(&again, YES, &[]).await;
    stage.question("t3").await;

    // What needs no answer is done at once, and what was answered before it is only remembered.
    assert_eq!(stage.order(id, rewind("t3"), "").await, confirmed("t3"));
    stage.question("t3").await;
    assert_eq!(stage.order(id, rewind("t1"), "").await, confirmed("t1"));
    stage.question("t2").await;
    let run = stage.run(id).await;
    assert_eq!(plan(&run), ["t1 completed", "t2 blocked", "t3 pending"]);
    assert_eq!(run.tasks[&"t1".into()].detail.raw(), "done once more");
    stage.answer("t2", NO, &[]).await;
    assert_eq!(stage.ends(id).await.0, End::Failed);
}

#[tokio::test]
async fn one_that_is_gone_does_as_it_was_told_when_it_is_back() {
    let stage = Stage::set(7, Scene::Away).await;
    let gone = |item: &Item| matches!(item.run.presence, Presence::Away { .. });
    let id = stage.until("agent away", gone).await.run.id;
    let order = stage.tell(id, Verb::StatusQuery, "").await;
    assert_eq!(order.stage(), Step::Issued);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.run(id).await.controls[0].stage(), Step::Issued);
    let is_over = |run: &Run| run.controls[0].is_over();
    let run = stage.becomes(id, "back", is_over).await;
    assert_eq!(steps(&run.controls[0]), "sent, acked (1 asked, no plan)");
}

#[tokio::test]
async fn drifts_climb_until_the_run_is_held_and_it_goes_on_as_a_person_says() {
    let told = async |seed, verb: Verb, note| {
        let stage = Stage::set(seed, Scene::Escalation).await;
        let held = stage.held().await;
        assert_eq!(held.title().raw(), "LOOPING_TOOL_CALL");
        let run = stage.run(held.run).await;
        assert_eq!(levels(&run), [1, 3, 4]);
        assert_eq!(
            plan(&run),
            ["t1 completed", "t2 completed", "t3 running", "t4 pending"]
        );
        stage.order(held.run, verb, note).await;
        (stage, held)
    };
    let all_done = [
        "t1 completed",
        "t2 completed",
        "t3 completed",
        "t4 completed",
    ];

    let (stage, held) = told(ONCE, Verb::Resume, "").await;
    let (end, run) = stage.ends(held.run).await;
    assert_eq!(
        (end, plan(&run).as_slice()),
        (End::Completed, &all_done.map(String::from)[..])
    );

    let (stage, held) = told(TWICE, Verb::Resume, "").await;
    let again = stage.held().await;
    assert_eq!(again.run, held.run);
    assert_eq!(levels(&stage.run(held.run).await), [1, 3, 4, 1, 3, 4]);
    stage.order(held.run, Verb::Resume, "").await;
    assert_eq!(stage.ends(held.run).await.0, End::Completed);
    assert_ne!(stage.held().await.run, held.run, "then it begins anew");

    let (stage, held) = told(TWICE, Verb::Steer, "Use what you have").await;
    let (end, run) = stage.ends(held.run).await;
    assert_eq!(end, End::Completed);
    assert_eq!(
        run.tasks[&"t3".into()].detail.raw(),
        "as told: «Use what you have»"
    );

    let (stage, held) = told(TWICE, Verb::Cancel, "").await;
    let (end, run) = stage.ends(held.run).await;
    assert_eq!(end, End::Cancelled);
    assert_eq!(
        plan(&run),
        [
            "t1 completed",
            "t2 completed",
            "t3 cancelled",
            "t4 cancelled"
        ]
    );
}

#[tokio::test]
async fn the_same_seed_and_the_same_orders_give_the_same_drifts() {
    let drifts = async |seed| {
        let stage = Stage::set(seed, Scene::Escalation).await;
        let mut all = Vec::new();
        for _ in 0..2 {
            let id = stage.held().await.run;
            stage.order(id, Verb::Steer, "Enough").await;
            let (_, run) = stage.ends(id).await;
            let drift = |drift: &registry::drift::Drift| drift.detail.raw().to_owned();
            all.push(run.drifts.iter().map(drift).collect::<Vec<_>>());
        }
        all
    };
    let (once, again, other) = tokio::join!(drifts(7), drifts(7), drifts(8));
    assert_eq!(once, again);
    assert_ne!(once, other);
    assert_ne!(once[0], once[1]);
}

#[tokio::test]
async fn a_run_that_goes_astray_again_is_aborted_told_or_not() {
    let told = async |order: Option<(Verb, &str)>| {
        let stage = Stage::set(7, Scene::Abort).await;
        let held = stage.held().await;
        assert_eq!(held.title().raw(), "INTENT_DIVERGENCE");
        if let Some((verb, note)) = order {
            stage.order(held.run, verb, note).await;
        }
        stage.ends(held.run).await
    };
    let (ignored, steered, resumed) = tokio::join!(
        told(None),
        told(Some((Verb::Steer, "Only what changed"))),
        told(Some((Verb::Resume, ""))),
    );
    for (end, run) in [&ignored, &steered] {
        assert_eq!(*end, End::Aborted);
        assert_eq!(levels(run), [4, 5]);
        let cancel = run.controls.last().unwrap();
        assert_eq!(cancel.verb.confirmed_by(), Confirmation::End);
        assert_eq!(cancel.by.as_str(), "system:ladder");
        assert!(cancel.deadline.is_some());
        assert_eq!(
            steps(cancel),
            "sent, acked (stopping), confirmed (the run aborted)"
        );
        assert_eq!(run.tasks[&"t2".into()].state, TaskState::Cancelled);
    }
    let said = |run: &Run| run.drifts[2].detail.raw().to_owned();
    assert!(
        said(&ignored.1).starts_with("nobody said a word"),
        "{ignored:?}"
    );
    assert!(
        said(&steered.1).starts_with("told «Only what changed»"),
        "{steered:?}"
    );
    assert_eq!(resumed.0, End::Completed);
    assert_eq!(levels(&resumed.1), [4]);
}

// === The program ===

/// `pilothouse demo` with its temporary files in a directory that can be looked at.
fn open(temp: &Path, args: &[&str]) -> Pty {
    let env = [("TMPDIR", temp.to_str().unwrap())];
    let args = [&["demo"], args].concat();
    Pty::spawn(PROGRAM, &args, &env, 34, 120)
}

fn left_in(temp: &Path) -> usize {
    fs::read_dir(temp).unwrap().count()
}

#[test]
fn the_demo_says_that_it_is_one_and_shows_what_came_of_an_answer() {
    let temp = tempfile::TempDir::new().unwrap();
    let mut demo = open(temp.path(), &["--scene", "task"]);
    demo.wait_text("pilothouse  DEMO  ● live");
    demo.wait_text("DEMO, nothing real");
    demo.wait_text("1 waiting");
    demo.wait_text("THE AGENT SAYS");
    demo.decide("a", "✓ granted by");
    demo.wait_text("applied: done");
    demo.wait_text("to all?");

    let row = demo.screen().rows(0, 120).nth(1).unwrap();
    let (_, address) = row.split_once("--server ").unwrap();
    let (address, _) = address.split_once(" · ").unwrap();
    let list = std::process::Command::new(PROGRAM)
        .args(["list", "--server", address])
        .output();
    let list = Ran::of(list.unwrap());
    assert!(list.out.contains("release-bot"), "{list:?}");

    assert_eq!(left_in(temp.path()), 1);
    demo.keys("q");
    assert_eq!(demo.exit_status().exit_code(), 0);
    demo.assert_restored();
    assert_eq!(left_in(temp.path()), 0);
}

#[test]
fn the_first_screen_has_something_of_everything() {
    let temp = tempfile::TempDir::new().unwrap();
    let mut demo = open(temp.path(), &[]);
    demo.wait_text("2 paused · 6 waiting · 1 expiring");
    demo.wait_text("research-7 is paused");
    for agent in [
        "travel-desk",
        "logbook",
        "release-bot",
        "laptop-ci",
        "csv-import",
        "etl-night",
    ] {
        assert!(has_text(&demo.screen(), agent), "{}", show(&demo.screen()));
    }
    demo.signal(Signal::SIGTERM);
    demo.exit_status();
    assert_eq!(left_in(temp.path()), 0);
}

#[test]
fn where_the_clock_stands_the_first_screen_is_always_the_same() {
    let temp = tempfile::TempDir::new().unwrap();
    let at = ["--seed", "3", "--at", "2026-11-30T14:04:22Z"];
    let draw = || {
        let mut demo = open(temp.path(), &at);
        demo.wait_text("● live");
        demo.wait_text("PLAN, revision 2");
        demo.wait_for(|screen| !has_text(screen, "━"), "a card at rest");
        show(&demo.screen())
    };
    let first = draw();
    assert!(
        first.contains("the clock stands at 2026-11-30T14:04:22Z"),
        "{first}"
    );
    assert!(first.contains(" 12m "), "{first}");
    assert_eq!(first, draw());
}

/// The demo with one scene, on a socket of its own; and what a second process does there.
fn open_scene(temp: &Path, scene: &str, seed: u64) -> (Pty, impl Fn(&[&str]) -> Ran + use<>) {
    let socket = temp.join("demo.sock").display().to_string();
    let seed = seed.to_string();
    let args = ["--scene", scene, "--seed", &seed, "--socket", &socket];
    let demo = open(temp, &args);
    let outside = move |args: &[&str]| {
        let ran = std::process::Command::new(PROGRAM)
            .args(args)
            .args(["--server", &format!("unix:{socket}")])
            .output();
        Ran::of(ran.unwrap())
    };
    (demo, outside)
}

#[test]
fn a_run_that_is_held_is_answered_from_outside() {
    let temp = tempfile::TempDir::new().unwrap();
    let (mut demo, outside) = open_scene(temp.path(), "escalation", TWICE);
    demo.wait_text("research-7 is paused");
    let steer = ["steer", "--note", "Use what you have"];
    for (answer, stage) in [
        (&["resume"][..], "acked"),
        (&steer, "confirmed"),
        (&["cancel"], "confirmed"),
    ] {
        let held = held(&outside);
        let first = outside(&[answer, &[&held]].concat());
        assert_eq!(first.code, 0, "{first:?}");
        let second = outside(&["resume", &held]);
        assert_eq!(second.code, 4, "the first verb wins: {second:?}");
        let last = || outside(&["history", "--json", "--limit", "1"]).objects();
        until(&format!("{} {stage}", answer[0]), || {
            let (control, last) = (json!(stage), last());
            (last[0]["control"]["stage"] == control).then_some(())
        });
        assert_eq!(last()[0]["answer"]["verb"], json!(answer[0]));
    }
}

/// The id of what holds a run, as soon as one is held.
fn held(outside: impl Fn(&[&str]) -> Ran) -> String {
    until("run that is held", || {
        let open = outside(&["list", "--json"]).objects();
        let held = open.first()?;
        held["id"].as_str().map(str::to_owned)
    })
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "no {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_run_that_is_held_is_answered_with_the_keys() {
    let open = || {
        let temp = tempfile::TempDir::new().unwrap();
        let (mut demo, _) = open_scene(temp.path(), "escalation", ONCE);
        demo.wait_text("research-7 is paused");
        (temp, demo)
    };
    let (_temp, mut demo) = open();
    demo.decide("R", "resumed by");
    demo.wait_text("acked");

    let (_temp, mut demo) = open();
    demo.decide("s", "Steer research-7");
    demo.send("Use what you have");
    demo.wait_text("17 of 8192");
    demo.decide("ctrl-s", "plan revision 3");
    demo.wait_text("Keep to «Use what you have»");

    let (_temp, mut demo) = open();
    demo.decide("c", "yes, cancel it");
    demo.decide("y", "the run cancelled");
}

#[test]
fn a_run_is_paused_from_the_list_of_runs_and_waits_to_be_answered() {
    let temp = tempfile::TempDir::new().unwrap();
    let mut demo = open(temp.path(), &["--scene", "task"]);
    demo.wait_text("THE AGENT SAYS");
    demo.keys("2");
    demo.wait_text("p pause");
    demo.decide("p", "paused by");
    demo.keys("1 g g");
    demo.wait_text("release-bot is paused");
    demo.decide("R", "resumed by");
    demo.wait_text("\"resumed\"");
}

#[test]
fn the_demo_needs_no_home_and_no_place_to_write() {
    let temp = tempfile::TempDir::new().unwrap();
    let env = [("TMPDIR", temp.path().to_str().unwrap())];
    let args = [
        "-u",
        "HOME",
        "-C",
        "/proc",
        PROGRAM,
        "demo",
        "--scene",
        "2",
        "--data",
        "/proc/none",
    ];
    let mut demo = Pty::spawn("/usr/bin/env", &args, &env, 34, 120);
    demo.wait_text("billing-agent");
    demo.wait_text("hidden char");
    demo.keys("q");
    assert_eq!(demo.exit_status().exit_code(), 0);
}

#[test]
fn a_scene_that_is_none_is_answered_with_those_there_are() {
    for word in ["nonsense", "help", "0", ""] {
        let asked = std::process::Command::new(PROGRAM)
            .args(["demo", "--scene", word])
            .stdin(Stdio::null())
            .output();
        let ran = Ran::of(asked.unwrap());
        assert_eq!(ran.code, 64, "{ran:?}");
        for scene in Scene::ALL {
            assert!(ran.err.contains(scene.name()), "{ran:?}");
        }
    }
    let asked = std::process::Command::new(PROGRAM)
        .args(["demo", "--at", "noon"])
        .output();
    assert_eq!(Ran::of(asked.unwrap()).code, 64);
}
