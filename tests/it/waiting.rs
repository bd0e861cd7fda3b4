//! How long an agent waits, whether it is there meanwhile, and that the answer finds it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pilothouse::{
    connect::Client,
    wire::{
        pb::pilothouse::v1::{self as pb, Asks, Verdict},
        pilothouse::{Awaited, Opening},
    },
};
use registry::{
    Event, RunId, Untrusted,
    approval::AppliedResult,
    command::Ending,
    log::{Log as _, Sqlite},
    names::{ClaimToken, WaitId},
    run::{InterruptKind, Presence},
};

use crate::{
    answers::asking,
    claims::client_of,
    house::{Agent, House, decision, file, open, question, waiting, word},
    relay::Relay,
    server::Server,
};

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
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

async fn presence(client: &Client, run: RunId) -> Presence {
    let named = Untrusted::new(run.to_string());
    client.get_run(&named, 0).await.unwrap().run.presence
}

/// Looks until the run is away: its agent has been silent for 15 s.
async fn until_away(client: &Client, run: RunId) {
    let from = Instant::now();
    while !matches!(presence(client, run).await, Presence::Away { .. }) {
        assert!(from.elapsed() < Duration::from_secs(60), "it is not away");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// What came of one call of `Await`: the patience left, or that it ended.
async fn armed(mut agent: Agent, wait: pb::AwaitRequest) -> Option<Duration> {
    match agent.r#await(wait).await.unwrap().into_inner().state {
        Some(pb::await_response::State::Pending(pending)) => {
            let left = pending.left.unwrap();
            Some(Duration::try_from(left).unwrap())
        }
        Some(pb::await_response::State::TimedOut(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// DESIGN §4.1.7, GF-33. Slow: one call is held for 55 s.
#[tokio::test]
async fn a_call_is_held_for_55_s_and_patience_is_one_over_all_calls() {
    let house = House::open();
    let agent = house.agent("agent:a1");
    let run = open(&mut agent.clone(), "r1", "").await;
    let card = file(&mut agent.clone(), question(&run, "t", Asks::Operator)).await;
    let wait = |wait_id: &str, patience| pb::AwaitRequest {
        wait_id: wait_id.into(),
        patience,
        ..waiting(&card.approval_id)
    };
    let from = Instant::now();
    let (unset, short, poll) = tokio::join!(
        armed(agent.clone(), wait("unset", None)),
        armed(agent.clone(), wait("short", seconds(57))),
        armed(agent.clone(), wait("", seconds(3600))),
    );
    let held = from.elapsed();
    assert!(held > Duration::from_secs(54), "{held:?}");
    let unset = unset.expect("it waits on");
    let span = Duration::from_secs(530)..Duration::from_secs(546);
    assert!(span.contains(&unset), "600 s in all: {unset:?}");
    let short = short.expect("it waits on");
    assert!(short <= Duration::from_secs(2), "{short:?}");
    assert!(poll.is_some());
    let pending = house.pending(&card.approval_id).await;
    assert_eq!(pending.timed_out, [], "nothing is recorded until then");

    // Armed again, it has what is left, and not all of it anew.
    let from = Instant::now();
    let ended = armed(agent.clone(), wait("short", seconds(57))).await;
    assert_eq!(ended, None);
    assert!(from.elapsed() < Duration::from_secs(40));
    assert_eq!(armed(agent.clone(), wait("short", seconds(57))).await, None);
    let pending = house.pending(&card.approval_id).await;
    let gave_up: Vec<_> = pending.timed_out.iter().map(|gave| &gave.wait_id).collect();
    assert_eq!(gave_up, ["short"], "once, and of the waiter alone");
    let held = house.get_run(&run).await;
    assert_eq!(held.drifts.len(), 1, "{:?}", held.drifts);
    assert_eq!(held.drifts[0].kind, "HUMAN_INTERVENTION_REQUIRED");
    assert_eq!(held.drifts[0].severity, "warning");
    assert_eq!(held.controls, [], "no ladder answers it");
    assert_eq!(house.server.open().len(), 1, "nor is anything escalated");
    let wish = decision(&card, Verdict::Approve, "d1");
    assert_eq!(word(&house.person("operator:ops").decide(wish).await), "ok");
}

/// GF-33: `PILOTHOUSE_WAIT_DEFAULT_MS`; what is no length of time is no reason not to wait.
#[tokio::test]
async fn the_patience_of_who_does_not_say_is_configured() {
    for (said, gives_up) in [("150", true), ("0", false), ("soon", false)] {
        let house = House::open_in(&[("PILOTHOUSE_WAIT_DEFAULT_MS", said)]);
        let mut agent = house.agent("agent:a1");
        let run = open(&mut agent, "r1", "").await;
        let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
        let wait = pb::AwaitRequest {
            wait_id: "w1".into(),
            ..waiting(&card.approval_id)
        };
        let waited = tokio::time::timeout(Duration::from_secs(2), armed(agent, wait)).await;
        assert_eq!(waited.ok(), gives_up.then_some(None), "{said}");
        let pending = house.pending(&card.approval_id).await;
        assert_eq!(pending.timed_out.len(), usize::from(gives_up), "{said}");
    }
}

/// DESIGN §4.1.7: an agent that no longer asks is away, and has not given up. Slow: a lease is 15 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_stops_asking_is_away_and_has_not_given_up() {
    let house = House::open();
    let (client, looking) = (house.client("agent:a1"), house.client("viewer:v"));
    let run = client.open_run(&opening("r1")).await.unwrap();
    let filed = client.file(run, &asking("call", "{}")).await.unwrap();
    let wait = WaitId::parse("w1").unwrap();
    let waiting = {
        let (client, wait) = (client.clone(), wait.clone());
        let patience = Duration::from_secs(2);
        tokio::spawn(async move { client.await_(filed.id, &wait, patience).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    waiting.abort();
    until_away(&looking, run).await;
    let pending = house.pending(&filed.id.to_string()).await;
    assert_eq!(pending.timed_out, [], "its patience is long over");
    let known = house.get_run(&run.to_string()).await;
    assert_eq!(known.drifts, []);

    // It asks again under the same name: now its patience ends while it asks.
    let told = client.await_(filed.id, &wait, Duration::from_secs(2)).await;
    assert!(matches!(told, Ok(Awaited::TimedOut(_))), "{told:?}");
    assert_eq!(presence(&looking, run).await, Presence::Attached);
    let pending = house.pending(&filed.id.to_string()).await;
    assert_eq!(pending.timed_out.len(), 1);
}

/// DESIGN §4.1.11: who is gone is away, by whatever it was there; a parked run never is. Slow: a lease is 15 s, twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_gone_is_away_and_a_parked_run_never() {
    let mut server = Server::start();
    let client = client_of(&server);
    let filing = async |name: &str| {
        let run = client.open_run(&opening(name)).await.unwrap();
        let filed = client.file(run, &asking(name, "{}")).await.unwrap();
        (run, filed)
    };
    let parked = async |name: &str| {
        let (run, filed) = filing(name).await;
        let paused = Ending::Paused(InterruptKind::Approval);
        client.end_run(run, paused, &"".into()).await.unwrap();
        (run, filed)
    };
    let (rests, _) = parked("rests").await;
    let (beats, _) = filing("beats").await;
    let (asks, question) = filing("asks").await;
    let (takes, taken) = parked("takes").await;
    let (begins, begun) = parked("begins").await;

    // A process of its own waits, and is killed with the call open.
    let id = question.id.to_string();
    let mut process = server.command(&["wait", &id]).spawn().unwrap();
    // Longer than a lease and a look at it. Other processes take what the parked ones asked, and say no more.
    for card in [&taken, &begun] {
        let ran = server.decide("approve", &card.id.to_string(), &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    tokio::time::sleep(Duration::from_secs(21)).await;
    client.heartbeat(&[beats]).await.unwrap();
    let worker = client_of(&server);
    let token = ClaimToken::parse("worker").unwrap();
    for (run, card, call) in [(takes, &taken, "takes"), (begins, &begun, "begins")] {
        let live = BTreeMap::from([(Untrusted::new(call), card.digest)]);
        let step = Untrusted::new(call);
        worker.claim(run, &step, &live, &token).await.unwrap();
        assert_eq!(presence(&client, run).await, Presence::Attached);
    }
    worker.report_started(begun.id, &token).await.unwrap();
    assert_eq!(
        presence(&client, asks).await,
        Presence::Attached,
        "an open call is a sign of life"
    );
    assert!(process.try_wait().unwrap().is_none());
    process.kill().unwrap();
    process.wait().unwrap();
    drop(worker);

    let beating = {
        let client = client.clone();
        tokio::spawn(async move {
            loop {
                let _ = client.heartbeat(&[beats]).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        })
    };
    for gone in [asks, takes, begins] {
        until_away(&client, gone).await;
    }
    assert_eq!(presence(&client, beats).await, Presence::Attached);
    assert_eq!(presence(&client, rests).await, Presence::Attached);
    let shown = server.run(&["show", &begun.id.to_string()]).out;
    assert!(shown.contains("outcome unknown"), "{shown}");

    // Another process of its agent is heard of: it is there, and has not begun by that.
    client.heartbeat(&[takes]).await.unwrap();
    assert_eq!(presence(&client, takes).await, Presence::Attached);
    let named = Untrusted::new(takes.to_string());
    let known = client.get_run(&named, 0).await.unwrap().run;
    assert_eq!(known.state.word(), "consumed");

    // The server is killed, and the agent that was there with it.
    beating.abort();
    let _ = beating.await;
    server.restart();
    assert_eq!(
        presence(&client, beats).await,
        Presence::Attached,
        "it is given the time of a lease"
    );
    until_away(&client, beats).await;
    assert_eq!(presence(&client, rests).await, Presence::Attached);
    server.kill();
    let log = Sqlite::open(server.dir().join("pilothouse.db")).unwrap();
    let recorded = log.reader().unwrap().read(0, usize::MAX).unwrap();
    let of_it = |event: &Event| matches!(event, Event::PresenceChanged { run, presence: Presence::Away { .. } } if *run == rests);
    assert!(!recorded.iter().any(|recorded| of_it(&recorded.event)));
}

/// Case A18, on one server: answered from elsewhere while its agent is cut off, the answer waits for it, and until there
/// is word of it the row does not look done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_elsewhere_reaches_an_agent_that_was_cut_off() {
    let mut server = Server::start();
    let relay = Relay::to(&server);
    let place = format!("unix:{}", relay.dir().join("sock").display());
    let agent = Client::connect(place.parse().unwrap(), None);
    let run = agent.open_run(&opening("r1")).await.unwrap();
    for (call, dies) in [("cut", false), ("died", true)] {
        let filed = agent.file(run, &asking(call, "{}")).await.unwrap();
        let waiting = {
            let (agent, id) = (agent.clone(), filed.id);
            let wait = WaitId::parse(call).unwrap();
            let patience = Duration::from_secs(60);
            tokio::spawn(async move { agent.await_(id, &wait, patience).await })
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The answer is given and recorded, and does not arrive.
        relay.hold();
        let id = filed.id.to_string();
        let ran = server.decide("approve", &id, &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let row = |server: &Server| {
            let history = server.run(&["history"]).out;
            let rows = history.lines().find(|row| row.contains(&id));
            rows.unwrap().to_owned()
        };
        assert!(row(&server).contains("granted"), "{}", row(&server));
        assert!(
            row(&server).contains("no word from its agent yet"),
            "{}",
            row(&server)
        );
        assert!(!waiting.is_finished());
        if dies {
            server.restart(); // kill -9
        }
        relay.cut();
        let told = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        let told = told.expect("in time").unwrap().unwrap();
        let Awaited::Settled(settled) = told else {
            panic!("{told:?}");
        };
        assert_eq!(settled.outcome.word(), "granted");
        // That it was sent proves nothing.
        assert!(row(&server).contains("no word from its agent yet"));
        let done = AppliedResult::Done;
        agent
            .report_applied(filed.id, done, &"".into())
            .await
            .unwrap();
        assert!(!row(&server).contains("no word"), "{}", row(&server));
        assert!(row(&server).contains("applied: done"), "{}", row(&server));
    }
}
