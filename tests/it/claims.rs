//! Decisions are acted on by one process of an agent, once: through kills, races and retries.

use std::collections::BTreeMap;

use pilothouse::{
    connect::{CallError, Client},
    wire::pilothouse::{Asked, Filed, Opening},
};
use registry::{
    Digest, RunId, Settled, Untrusted,
    approval::{AppliedResult, ClaimStage, Filing, Hold, OnDeadline, Risk, Subject, Verdict},
    command::Ending,
    names::{ClaimToken, Key},
    run::InterruptKind,
};

use crate::{crash::deciding, server::Server};

/// Steps that two workers race for.
const RACES: usize = 50;

fn client_of(server: &Server) -> Client {
    let place = format!("unix:{}", server.socket().display());
    Client::connect(place.parse().unwrap(), None)
}

fn token(name: &str) -> ClaimToken {
    ClaimToken::parse(name).unwrap()
}

fn step() -> Untrusted {
    "turn-1".into()
}

fn call(run: RunId, target: &str) -> Filing {
    Filing {
        key: Some(Key::parse(&format!("{run}/{target}")).unwrap()),
        target: target.into(),
        step: step(),
        subject: Subject::Tool {
            name: "pay".into(),
            task: Untrusted::default(),
        },
        title: format!("Pay {target}").into(),
        detail: Default::default(),
        asks: registry::Asks::Operator,
        labels: Default::default(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Thread,
        risk: Risk::Normal,
        votes: 1,
    }
}

fn opening(name: &str) -> Opening {
    Opening {
        agent: "billing".into(),
        session: name.into(),
        invocation: name.into(),
        can_resume: true,
        ..Opening::default()
    }
}

/// What stands in the message that is about to be resumed.
type Live = BTreeMap<Untrusted, Digest>;

/// A parked run with two calls, one granted and one rejected.
async fn parked(client: &Client, name: &str) -> (RunId, Vec<Filed>, Live) {
    let run = client.open_run(&opening(name)).await.unwrap();
    let mut filed = vec![];
    let mut live = Live::new();
    for target in ["call-1", "call-2"] {
        let card = client.file(run, &call(run, target)).await.unwrap();
        live.insert(target.into(), card.digest);
        filed.push(card);
    }
    let paused = Ending::Paused(InterruptKind::Tool);
    client.end_run(run, paused, &"".into()).await.unwrap();
    for (card, verdict) in filed.iter().zip([Verdict::Approve, Verdict::Reject]) {
        let wish = deciding(card, &format!("{name}-{}", card.id), verdict);
        client.decide(&wish).await.unwrap();
    }
    (run, filed, live)
}

async fn settled(client: &Client, card: &Filed) -> Settled {
    match client.get(card.id).await.unwrap().asked {
        Asked::Settled(settled) => (*settled).clone(),
        other => panic!("{other:?}"),
    }
}

fn word(error: &CallError) -> &str {
    match error {
        CallError::Refused(told) => &told.word,
        other => panic!("{other}"),
    }
}

async fn state_of(client: &Client, run: RunId) -> &'static str {
    let whole = client.get_run(&run.to_string().as_str().into(), 0).await;
    whole.unwrap().run.state.word()
}

/// DF-35 to DF-38, EL-57: kill -9 of the server after every step; what was taken stays taken, and nothing happens twice.
#[tokio::test]
async fn a_claim_outlives_the_server_at_every_step() {
    let mut server = Server::start();
    let client = client_of(&server);
    let (run, filed, live) = parked(&client, "r1").await;
    assert_eq!(state_of(&client, run).await, "parked");
    server.kill();
    server.restart();

    let (one, two) = (token("one"), token("two"));
    let taken = client.claim(run, &step(), &live, &one).await.unwrap();
    let outcomes: Vec<_> = taken.iter().map(|settled| settled.outcome.word()).collect();
    assert_eq!(taken.len(), 2);
    assert!(outcomes.contains(&"granted") && outcomes.contains(&"rejected"));
    server.kill();
    server.restart();
    assert_eq!(state_of(&client, run).await, "consumed");

    // Sent again after a lost answer, it is the same; another process is told since when it is taken.
    assert_eq!(
        client.claim(run, &step(), &live, &one).await.unwrap(),
        taken
    );
    let refused = client.claim(run, &step(), &live, &two).await.unwrap_err();
    assert_eq!(word(&refused), "not_now");
    let restored = client.restore(run, &step(), &two).await.unwrap();
    assert!(restored.is_err());

    // The worker could not attach: the run is as it was (DF-37), and a good answer tries again (DF-38).
    client.restore(run, &step(), &one).await.unwrap().unwrap();
    server.kill();
    server.restart();
    assert_eq!(state_of(&client, run).await, "parked");
    client.claim(run, &step(), &live, &two).await.unwrap();
    client.report_started(filed[0].id, &two).await.unwrap();
    server.kill();
    server.restart();
    assert_eq!(state_of(&client, run).await, "running");
    let begun = settled(&client, &filed[0]).await;
    let claim = begun.claim.as_ref().unwrap();
    assert!(
        matches!(claim.stage, ClaimStage::Started { .. }),
        "{claim:?}"
    );
    assert!(claim.words().starts_with("taken, outcome unknown"));
    assert!(begun.applied.is_none(), "status and applied are two facts");
    let why = client
        .restore(run, &step(), &two)
        .await
        .unwrap()
        .unwrap_err();
    assert!(why.raw().contains("nobody begins again"), "{why:?}");

    let done = AppliedResult::Done;
    client
        .report_applied(filed[0].id, done, &"paid".into())
        .await
        .unwrap();
    client
        .report_applied(filed[0].id, done, &"paid".into())
        .await
        .unwrap();
    let skipped = AppliedResult::Skipped;
    client
        .report_applied(filed[1].id, skipped, &"".into())
        .await
        .unwrap();
    let over = settled(&client, &filed[0]).await;
    assert_eq!(over.applied.unwrap().result, done);
}

/// DF-35: of two workers that resume the same step at once, one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_workers_one_takes_a_step() {
    let server = Server::start();
    let client = client_of(&server);
    for n in 0..RACES {
        let (run, _, live) = parked(&client, &format!("r{n}")).await;
        let race = |name: &'static str| {
            let (client, live) = (client.clone(), live.clone());
            tokio::spawn(async move { client.claim(run, &step(), &live, &token(name)).await })
        };
        let (one, two) = (race("one"), race("two"));
        let answers = [one.await.unwrap(), two.await.unwrap()];
        let won = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(won, 1, "race {n}");
        let lost = answers.iter().find_map(|answer| answer.as_ref().err());
        assert_eq!(word(lost.unwrap()), "not_now", "race {n}");
    }
}

/// DF-44: a thread that waits takes no new run; its own agent comes back, and after the answer it is free.
#[tokio::test]
async fn a_thread_that_waits_takes_nothing_new() {
    let server = Server::start();
    let client = client_of(&server);
    let run = client.open_run(&opening("r1")).await.unwrap();
    let card = client.file(run, &call(run, "call-1")).await.unwrap();
    let new = Opening {
        invocation: "r2".into(),
        ..opening("r1")
    };
    let busy = client.open_run(&new).await.unwrap_err();
    assert_eq!(word(&busy), "thread_busy");
    assert_eq!(client.open_run(&opening("r1")).await.unwrap(), run);
    let wish = deciding(&card, "d", Verdict::Approve);
    client.decide(&wish).await.unwrap();
    assert_ne!(client.open_run(&new).await.unwrap(), run);
}
