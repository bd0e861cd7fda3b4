//! Each answer goes to the question it was given to, once, and to nothing else.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pilothouse::{
    connect::{CallError, Client},
    wire::{
        pb::pilothouse::v1::{self as pb, Asks, Verdict},
        pilothouse::{Awaited, Opening},
        status::refused,
    },
};
use registry::{
    ApprovalId, Detail, Event, RunId, Seq, Untrusted,
    approval::{
        Decision, Filing, Hold, OnDeadline, Outcome, Risk, Seen, Subject, Verdict as Wish, Why,
    },
    command::Decide,
    form::{Form, RawAnswers},
    log::{Log as _, Sqlite},
    names::{DecisionId, Key, WaitId},
    run::End,
};
use tokio::sync::Barrier;
use tonic::Code;

use crate::{
    house::{Agent, House, Person, Standing, decision, file, open, question, waiting, word},
    server::Server,
    steering,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn waiter(id: &str) -> pb::AwaitRequest {
    pb::AwaitRequest {
        wait_id: "w1".into(),
        patience: Some(prost_types::Duration {
            seconds: 30,
            nanos: 0,
        }),
        ..waiting(id)
    }
}

async fn answer_to(mut agent: Agent, id: String) -> pb::Settled {
    match agent.r#await(waiter(&id)).await.unwrap().into_inner().state {
        Some(pb::await_response::State::Settled(settled)) => settled,
        other => panic!("{other:?}"),
    }
}

fn decision_of(settled: &pb::Settled) -> (&'static str, &pb::Decision) {
    match settled.outcome.as_ref().unwrap() {
        pb::settled::Outcome::Granted(decision) => ("granted", decision),
        pb::settled::Outcome::Rejected(decision) => ("rejected", decision),
        other => panic!("{other:?}"),
    }
}

/// Case A25: yes and no at the same instant from two people, and each of them presses twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_answers_at_once_one_wins() {
    const QUESTIONS: usize = 1000;
    const AT_ONCE: usize = 50;
    let mut house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let (ops, eve) = (house.person("operator:ops"), house.person("operator:eve"));
    let wins = Arc::new(AtomicUsize::new(0));
    let mut history = vec![];
    for batch in 0..QUESTIONS / AT_ONCE {
        let mut racing = vec![];
        for n in 0..AT_ONCE {
            let target = format!("t{batch}-{n}");
            let filing = question(&run, &target, Asks::Operator);
            let (ops, eve, wins) = (ops.clone(), eve.clone(), wins.clone());
            let mut agent = agent.clone();
            racing.push(tokio::spawn(async move {
                let card = file(&mut agent, filing).await;
                let waiting = answer_to(agent, card.approval_id.clone());
                let waiting = tokio::spawn(waiting);
                let start = Arc::new(Barrier::new(4));
                let press = |mut person: Person, verdict, id: &str| {
                    let (wish, start) = (decision(&card, verdict, id), start.clone());
                    tokio::spawn(async move {
                        start.wait().await;
                        person.decide(wish).await
                    })
                };
                let yes = format!("yes-{target}");
                let no = format!("no-{target}");
                let presses = [
                    press(ops.clone(), Verdict::Approve, &yes),
                    press(eve.clone(), Verdict::Reject, &no),
                    press(ops, Verdict::Approve, &yes),
                    press(eve, Verdict::Reject, &no),
                ];
                let mut answers = vec![];
                for press in presses {
                    answers.push(press.await.unwrap());
                }
                let waited = waiting.await.unwrap();
                let (outcome, stored) = decision_of(&waited);
                let (winner, loser) = match outcome {
                    "granted" => ([0, 2], [1, 3]),
                    _ => ([1, 3], [0, 2]),
                };
                wins.fetch_add(winner[0], Ordering::Relaxed);
                for n in winner {
                    let said = answers[n].as_ref().unwrap().get_ref();
                    let settled = said.settled.as_ref().unwrap();
                    assert_eq!(settled, &waited, "the waiter gets what is stored");
                }
                for n in loser {
                    let status = answers[n].as_ref().unwrap_err();
                    assert_eq!(status.code(), Code::AlreadyExists);
                    let told = refused(status).unwrap();
                    assert_eq!(told.word, "already_settled");
                    assert_eq!(told.http, 409);
                    assert_eq!(told.approval.as_ref(), Some(&card.approval_id));
                    assert_eq!(told.outcome.as_deref(), Some(outcome));
                    assert_eq!(told.decided_by.as_ref(), Some(&stored.by));
                    let at = waited.at.unwrap();
                    let ms = at.seconds * 1000 + i64::from(at.nanos) / 1_000_000;
                    assert_eq!(told.at.unwrap().ms(), ms);
                }
                (card.approval_id.clone(), waited)
            }));
        }
        for race in racing {
            history.push(race.await.unwrap());
        }
    }
    let wins = wins.load(Ordering::Relaxed);
    assert!((10..QUESTIONS - 10).contains(&wins), "no race: {wins}");
    for (id, told) in history.iter().step_by(50) {
        assert_eq!(&house.settled(id).await, told, "history never changes");
    }
    house.server.kill();
    let facts = facts(house.server.dir());
    let decided = facts.iter().filter(|event| is_decision(event)).count();
    assert_eq!(decided, QUESTIONS, "one decision each, for ever");
}

fn is_decision(event: &Event) -> bool {
    matches!(
        event,
        Event::ApprovalGranted { .. } | Event::ApprovalRejected { .. }
    )
}

/// All that a killed server left.
fn facts(dir: &Path) -> Vec<Arc<Event>> {
    let log = Sqlite::open(dir.join("pilothouse.db")).unwrap();
    let recorded = log.reader().unwrap().read(0, usize::MAX).unwrap();
    assert_eq!(log.verify().unwrap(), recorded.len() as Seq);
    recorded
        .into_iter()
        .map(|recorded| recorded.event)
        .collect()
}

/// Case A02: two questions of one step, answered in any order by two people at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_questions_of_one_step_get_each_its_own_answer() {
    const TIMES: usize = 200;
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let people = ["operator:ops", "operator:eve"].map(|who| house.person(who));
    let pairs: Vec<_> = (0..TIMES)
        .map(|n| tokio::spawn(both_sides(agent.clone(), people.clone(), run.clone(), n)))
        .collect();
    for pair in pairs {
        pair.await.unwrap();
    }
}

async fn both_sides(agent: Agent, mut people: [Person; 2], run: String, n: usize) {
    let mut waits = vec![];
    let mut cards = vec![];
    for side in ["l", "r"] {
        let mut filing = question(&run, &format!("{side}{n}"), Asks::Operator);
        filing.step = format!("step{n}");
        filing.title = "The same words".into();
        let card = file(&mut agent.clone(), filing).await;
        let waiting = answer_to(agent.clone(), card.approval_id.clone());
        waits.push((side, card.approval_id.clone(), tokio::spawn(waiting)));
        cards.push((side, card));
    }
    assert_ne!(cards[0].1.approval_id, cards[1].1.approval_id);
    // Neither the order nor who answers which says anything.
    let chance = getrandom::u32().unwrap();
    if chance & 1 == 1 {
        cards.reverse();
    }
    if chance & 2 == 2 {
        people.reverse();
    }
    let press = |((side, card), mut person): ((&str, pb::FileResponse), Person)| {
        let verdict = match side {
            "l" => Verdict::Approve,
            _ => Verdict::Reject,
        };
        let wish = pb::DecideRequest {
            note: format!("{side}{n}"),
            ..decision(&card, verdict, &format!("d-{side}{n}"))
        };
        tokio::spawn(async move { person.decide(wish).await })
    };
    let presses: Vec<_> = cards.into_iter().zip(people).map(press).collect();
    for press in presses {
        press.await.unwrap().unwrap();
    }
    for (side, id, waiting) in waits {
        let settled = waiting.await.unwrap();
        assert_eq!(settled.approval.as_ref().unwrap().id, id);
        let (outcome, stored) = decision_of(&settled);
        let wanted = if side == "l" { "granted" } else { "rejected" };
        assert_eq!((outcome, &stored.note), (wanted, &format!("{side}{n}")));
    }
}

/// Case A03: an answer names its question, by our id of it, also if there is only one.
#[tokio::test]
async fn an_answer_without_a_question_is_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let only = file(&mut agent, question(&run, "t1", Asks::Operator)).await;
    let mut person = house.person("operator:ops");
    for open_ones in 1..=2 {
        if open_ones == 2 {
            file(&mut agent, question(&run, "t2", Asks::Operator)).await;
        }
        let before = house.head().await;
        let rows = [
            ("", "invalid"),
            (" ", "invalid"),
            ("t1", "invalid"),
            ("r1", "invalid"),
            (run.as_str(), "not_found"),
            (&only.approval_id[..25], "invalid"),
            ("00000000000000000000000000", "not_found"),
            ("ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "invalid"),
            ("*", "invalid"),
        ];
        for (id, expected) in rows {
            let wish = pb::DecideRequest {
                id: id.into(),
                ..decision(&only, Verdict::Approve, "d1")
            };
            let answer = person.decide(wish).await;
            assert_eq!(word(&answer), expected, "{id:?}: {answer:?}");
            let words = [
                word(&person.dismiss(crate::house::dismissal(id)).await),
                word(&person.extend(crate::house::extension(id, 7200)).await),
                word(&person.get(crate::house::get(id)).await),
                word(&agent.r#await(waiting(id)).await),
            ];
            assert_eq!(words, [expected; 4], "{id:?}");
        }
        assert_eq!(house.head().await, before, "nothing was recorded");
        let listed = person.list(pb::ListRequest::default()).await.unwrap();
        assert_eq!(listed.into_inner().items.len(), open_ones);
    }
}

/// Case A05: an agent that comes back and files again what it had filed is asked nothing twice.
#[tokio::test]
async fn what_is_filed_again_is_not_asked_again() {
    let mut house = House::open();
    let run = |house: &House| {
        let mut agent = house.agent("agent:a1");
        async move { open(&mut agent, "r1", "").await }
    };
    let first = run(&house).await;
    let mut agent = house.agent("agent:a1");
    let mut cards = vec![];
    for target in ["a", "b", "c"] {
        cards.push(file(&mut agent, question(&first, target, Asks::Operator)).await);
    }
    let wish = decision(&cards[0], Verdict::Approve, "d1");
    house.person("operator:ops").decide(wish).await.unwrap();
    // The agent's process is a new one; the second time, the server's is, too.
    for restart in [false, true] {
        if restart {
            house.server.restart();
        }
        assert_eq!(run(&house).await, first);
        let mut agent = house.agent("agent:a1");
        for (target, card) in ["a", "b", "c"].into_iter().zip(&cards) {
            let again = file(&mut agent, question(&first, target, Asks::Operator)).await;
            assert_eq!(&again, card, "{target}");
        }
        let answer = agent.r#await(waiting(&cards[0].approval_id)).await;
        let Some(pb::await_response::State::Settled(settled)) = answer.unwrap().into_inner().state
        else {
            panic!("its answer is there at once");
        };
        assert_eq!(decision_of(&settled).0, "granted");
        let open: Vec<String> = house
            .server
            .open()
            .iter()
            .map(|item| item["target_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(open, ["b", "c"]);
    }
    house.server.kill();
    let asked = |event: &&Arc<Event>| matches!(&***event, Event::ApprovalRequested { .. });
    assert_eq!(facts(house.server.dir()).iter().filter(asked).count(), 3);
}

/// Case A28: what a run that is over had asked is over with it, and grants nothing to the run that came after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_that_is_over_had_asked_cannot_be_answered() {
    let mut server = Server::start();
    let mut stale = vec![];
    for end in [End::Completed, End::Failed, End::Cancelled, End::Aborted] {
        let old = steering::Agent::start(&server, &format!("old-{}", end.word())).await;
        let asked = old.asks("call").await;
        let digest = server.show(&asked.to_string())["digest"].clone();
        // Tried again by another run, which asks the same and gets its yes.
        let retry = steering::Agent::start(&server, &format!("retry-{}", end.word())).await;
        let twin = retry.asks("call").await;
        assert_ne!(twin, asked);
        assert_eq!(server.decide("approve", &twin.to_string(), &[]).code, 0);
        retry.ends(End::Completed).await;
        let open: Vec<_> = server
            .open()
            .iter()
            .map(|item| item["id"].clone())
            .collect();
        assert_eq!(open, [asked.to_string()], "that yes was for the other");
        old.ends(end).await;
        assert!(server.open().is_empty());
        let told = steering::answer(old.client.clone(), asked).await;
        let ended = Why::RunEnded(end);
        assert_eq!(told.outcome, Outcome::Withdrawn(ended));
        stale.push((asked.to_string(), digest.as_str().unwrap().to_owned()));
    }
    for restart in [false, true] {
        if restart {
            server.restart();
        }
        for (id, digest) in &stale {
            for verb in ["approve", "reject"] {
                let late = steering::refused(&server, &[verb, id, "--digest", digest]);
                assert!(late.contains("already withdrawn"), "{late}");
            }
            assert_eq!(server.show(id)["status"], "withdrawn");
        }
    }
}

/// Cases A28 and A29. Slow: an agent may be silent for 15 s before its run is marked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_being_there_decides_nothing() {
    let mut server = Server::start();
    let agent = steering::Agent::start(&server, "r1").await;
    let (run, id) = (agent.run, agent.asks("call").await);
    let filed = server.open().remove(0);
    assert_eq!(filed["away_since"], serde_json::Value::Null);

    // Somebody looks on, and is killed.
    let mut looking = steering::spawn(&server, &["watch", "--json"]);
    let mut seen = [0];
    let mut out = looking.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut seen).unwrap();
    looking.kill().unwrap();
    looking.wait().unwrap();

    // The agent's connection drops while it waits.
    let waiting = tokio::spawn(steering::answer(agent.client.clone(), id));
    tokio::time::sleep(Duration::from_millis(200)).await;
    waiting.abort();
    drop(agent);
    let from = std::time::Instant::now();
    let away = loop {
        let item = server.open().remove(0);
        if item["away_since"].is_string() {
            break item;
        }
        assert!(from.elapsed() < Duration::from_secs(60), "it is not away");
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    let people = steering::done(&server, &["list"]).out;
    assert!(people.contains("its agent is away since"), "{people}");
    server.restart(); // kill -9

    let mut expected = filed;
    expected["away_since"] = away["away_since"].clone();
    assert_eq!(server.open(), [expected], "and filed when it was filed");
    let agent = steering::Agent::start(&server, "r1").await;
    assert_eq!(agent.run, run);
    let waiting = tokio::spawn(steering::answer(agent.client.clone(), id));
    assert_eq!(server.decide("approve", &id.to_string(), &[]).code, 0);
    let told = waiting.await.unwrap();
    assert!(matches!(told.outcome, Outcome::Granted(_)), "{told:?}");

    server.kill();
    let of_it = facts(server.dir());
    let of_it: Vec<_> = of_it
        .iter()
        .filter(|event| event.approval() == Some(id))
        .collect();
    assert!(
        matches!(
            of_it.iter().map(|event| &***event).collect::<Vec<_>>()[..],
            [
                Event::ApprovalRequested { .. },
                Event::ApprovalGranted { .. }
            ]
        ),
        "{of_it:?}"
    );
}

/// An agent as one should be: its tool runs on an explicit yes to exactly that call.
struct Careful {
    client: Client,
    run: RunId,
    ran: Vec<String>,
}

impl Careful {
    async fn start(house: &House) -> Self {
        let client = house.client("agent:a1");
        let run = Opening {
            agent: "careful".into(),
            invocation: "r1".into(),
            ..Opening::default()
        };
        let run = client.open_run(&run).await.unwrap();
        let ran = vec![];
        Self { client, run, ran }
    }

    async fn ask(&self, call: &str, args: &str) -> Result<ApprovalId, CallError> {
        let filed = self.client.file(self.run, &asking(call, args)).await?;
        Ok(filed.id)
    }

    /// Waits, and runs the tool if that is what was granted; says why not.
    async fn carry_out(&mut self, id: ApprovalId, call: &str, patience: Duration) -> String {
        let wait = WaitId::parse(&format!("w-{call}")).unwrap();
        let settled = match self.client.await_(id, &wait, patience).await {
            Ok(Awaited::Settled(settled)) => settled,
            Ok(other) => return format!("skipped: no answer: {other:?}"),
            Err(error) => return format!("skipped: {error}"),
        };
        match &settled.outcome {
            Outcome::Granted(_) if settled.approval.target == Untrusted::new(call) => {
                self.ran.push(call.to_owned());
                "ran".into()
            }
            outcome => format!("skipped: {}", outcome.word()),
        }
    }
}

pub(crate) fn asking(call: &str, args: &str) -> Filing {
    Filing {
        key: Some(Key::parse(&format!("careful/{call}/{}", args.len())).unwrap()),
        target: call.into(),
        step: Untrusted::default(),
        subject: Subject::Tool {
            name: "pay".into(),
            task: Untrusted::default(),
        },
        title: format!("Pay {call}").into(),
        detail: Detail {
            args: Some(args.into()),
            ..Detail::default()
        },
        asks: registry::Asks::Operator,
        labels: Default::default(),
        deadline: Some(Duration::from_secs(60)),
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}

async fn answer(client: &Client, id: ApprovalId, verdict: Wish) -> Result<(), CallError> {
    let digest = match client.get(id).await?.asked {
        pilothouse::wire::pilothouse::Asked::Pending(pending) => pending.approval.digest,
        pilothouse::wire::pilothouse::Asked::Settled(settled) => settled.approval.digest,
        other => panic!("not a question: {other:?}"),
    };
    let decide = Decide {
        id,
        decision: DecisionId::parse(&format!("d-{id}")).unwrap(),
        verdict,
        digest,
        answers: RawAnswers::new(),
        note: Untrusted::default(),
        seen: Seen::Whole,
        on_behalf_of: None,
        form: Form::default(),
        past: None,
        decided_before: None,
    };
    client.decide(&decide).await.map(|_| ())
}

/// Case A06: nothing runs but on a yes to exactly that call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_runs_on_a_yes_to_that_very_call_only() {
    let mut house = House::open();
    let mut agent = Careful::start(&house).await;
    let person = house.client("operator:ops");

    let id = agent.ask("rejected", "{}").await.unwrap();
    answer(&person, id, Wish::Reject).await.unwrap();
    let said = agent.carry_out(id, "rejected", PATIENCE).await;
    assert_eq!(said, "skipped: rejected");

    let id = agent.ask("withdrawn", "{}").await.unwrap();
    agent.client.withdraw(id, &"no need".into()).await.unwrap();
    let said = agent.carry_out(id, "withdrawn", PATIENCE).await;
    assert_eq!(said, "skipped: withdrawn");

    // Asked anew with other arguments: the yes to the old ones is for nothing.
    let old = agent.ask("changed", "{}").await.unwrap();
    let new = agent.ask("changed", r#"{"to":"me"}"#).await.unwrap();
    let late = answer(&person, old, Wish::Approve).await.unwrap_err();
    let CallError::Refused(late) = late else {
        panic!("{late}");
    };
    assert_eq!(late.word, "already_settled");
    assert_eq!(
        agent.carry_out(old, "changed", PATIENCE).await,
        "skipped: withdrawn"
    );
    answer(&person, new, Wish::Reject).await.unwrap();
    assert_eq!(
        agent.carry_out(new, "changed", PATIENCE).await,
        "skipped: rejected"
    );

    // Nobody answers: patience ends, and then the server is gone.
    let unanswered = agent.ask("unanswered", "{}").await.unwrap();
    let said = agent
        .carry_out(unanswered, "unanswered", Duration::from_millis(100))
        .await;
    assert!(said.starts_with("skipped: no answer: TimedOut"), "{said}");

    // A batch: one yes, one no.
    let yes = agent.ask("yes", "{}").await.unwrap();
    let no = agent.ask("no", "{}").await.unwrap();
    answer(&person, no, Wish::Reject).await.unwrap();
    answer(&person, yes, Wish::Approve).await.unwrap();
    let batch = [
        agent.carry_out(yes, "yes", PATIENCE).await,
        agent.carry_out(no, "no", PATIENCE).await,
    ];
    assert_eq!(batch, ["ran", "skipped: rejected"]);
    // A yes to one call is none to another.
    assert_eq!(
        agent.carry_out(yes, "another", PATIENCE).await,
        "skipped: granted"
    );

    house.server.kill();
    let said = agent
        .carry_out(unanswered, "gone", Duration::from_secs(2))
        .await;
    assert!(said.starts_with("skipped: no server"), "{said}");
    let error = agent.ask("never-filed", "{}").await.unwrap_err();
    assert!(matches!(error, CallError::NoServer(_)), "{error}");
    assert_eq!(agent.ran, ["yes"]);
    let granted = |event: &&Arc<Event>| {
        matches!(
            &***event,
            Event::ApprovalGranted {
                decision: Decision { .. },
                ..
            }
        )
    };
    assert_eq!(facts(house.server.dir()).iter().filter(granted).count(), 1);
}

/// The same of a deadline, on a clock of our own: nothing runs on a yes that came too late.
#[tokio::test]
async fn a_tool_does_not_run_on_a_yes_that_came_too_late() {
    let standing = Standing::start();
    let client = &standing.client;
    let run = Opening {
        agent: "careful".into(),
        invocation: "r1".into(),
        ..Opening::default()
    };
    let run = client.open_run(&run).await.unwrap();
    let mut agent = Careful {
        client: client.clone(),
        run,
        ran: vec![],
    };
    let id = agent.ask("late", "{}").await.unwrap();
    standing.pass(Duration::from_millis(60_001));
    let late = answer(client, id, Wish::Approve).await.unwrap_err();
    assert!(late.to_string().contains("expired at"), "{late}");
    assert_eq!(
        agent.carry_out(id, "late", PATIENCE).await,
        "skipped: expired"
    );
    assert!(agent.ran.is_empty());
    standing.stop().await;
}
