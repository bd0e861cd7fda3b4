//! Watch over a real connection: whoever folds it stands where the server stands.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, Asks, Verdict},
    pilothouse::{ListWish, Open, Watched, ask_watch, watched},
    status::refused,
};
use registry::{
    Recorded, Seq, State, Timestamp, Untrusted,
    escalation::Ended,
    log::{Log as _, Sqlite},
    run::Presence,
    state::Row,
};
use tonic::{Code, Streaming};

use crate::house::{
    Agent, Headers, House, decision, dismissal, extension, file, open, question, run_of, waiting,
    word,
};

/// One stream, and what has been read of it.
struct Stream {
    messages: Streaming<pb::WatchResponse>,
    /// The newest event that it has told of.
    last: Seq,
}

impl Stream {
    async fn open(house: &House, by: impl Into<Headers>, after: Option<(&str, Seq)>) -> Self {
        let opened = house.person(by).watch(ask_watch(after)).await;
        Self {
            messages: opened.unwrap().into_inner(),
            last: after.map_or(0, |(_, seq)| seq),
        }
    }

    async fn next(&mut self) -> Watched {
        let message = tokio::time::timeout(Duration::from_secs(20), self.messages.message());
        let message = message.await.expect("a message in time").unwrap();
        watched(message.expect("the stream goes on")).unwrap()
    }

    /// What stands now, and which log it is.
    async fn snapshot(&mut self) -> (State, String) {
        let mut rows: Vec<Row> = vec![];
        loop {
            match self.next().await {
                Watched::Row(row) => rows.push(row),
                Watched::End {
                    epoch,
                    seq,
                    last_at,
                    ..
                } => {
                    self.last = seq;
                    return (State::from_rows(seq, last_at, rows), epoch);
                }
                other => panic!("{other:?} before the snapshot is complete"),
            }
        }
    }

    /// The events up to `seq`, each of which follows the one before.
    async fn until(&mut self, seq: Seq) -> Vec<Recorded> {
        let mut events = vec![];
        while self.last < seq {
            if let Some(recorded) = self.event().await {
                events.push(recorded);
            }
        }
        events
    }

    async fn event(&mut self) -> Option<Recorded> {
        match self.next().await {
            Watched::Recorded { recorded, prev_seq } => {
                assert_eq!(prev_seq, self.last, "what came before is missing");
                assert!(recorded.seq > prev_seq);
                self.last = recorded.seq;
                Some(recorded)
            }
            Watched::Tick { .. } => None,
            other => panic!("{other:?} after the snapshot"),
        }
    }
}

/// Everything that may happen to a question, to some of `count` of them.
async fn happenings(house: &House, agent: &mut Agent, invocation: &str, user: &str, count: usize) {
    let run = open(agent, invocation, user).await;
    let mut person = house.person("admin:root");
    for n in 0..count {
        let card = question(&run, &format!("t{n}"), Asks::Operator);
        let card = file(agent, card).await;
        let id = card.approval_id.clone();
        let done = match n % 6 {
            0 => word(&person.decide(decision(&card, Verdict::Approve, &id)).await),
            1 => word(&person.decide(decision(&card, Verdict::Reject, &id)).await),
            2 => word(&person.extend(extension(&id, 7200)).await),
            3 => {
                let withdrawn = pb::WithdrawRequest {
                    approval_id: id,
                    reason: "no need".into(),
                };
                word(&agent.withdraw(withdrawn).await)
            }
            4 => {
                let tried = house.person("viewer:v").dismiss(dismissal(&id)).await;
                assert_eq!(word(&tried), "not_yours");
                "ok".into()
            }
            _ => "ok".into(),
        };
        assert_eq!(done, "ok", "{n}");
    }
    troubles(house, agent, &run).await;
}

/// It goes wrong, a person says that it is nothing, and it goes wrong again.
async fn troubles(house: &House, agent: &mut Agent, run: &str) {
    let run_id = run.to_owned();
    let listening = pb::ControlsRequest { run_id };
    let mut orders = agent.controls(listening).await.unwrap().into_inner();
    for n in 0..3 {
        let drift = pb::ReportDriftRequest {
            run_id: run.into(),
            kind: "INTENT_DIVERGENCE".into(),
            severity: "critical".into(),
            detail: format!("for the {n}. time"),
            drift_id: format!("d{n}"),
            ..Default::default()
        };
        let level = agent.report_drift(drift).await.unwrap().into_inner().level;
        assert_eq!(level, 4);
        take(agent, &mut orders).await;
        if n < 2 {
            let named = Untrusted::new(run);
            let held = house.client("admin:root").get_run(&named, 0).await;
            let resume = pb::ControlRequest {
                run_id: run.into(),
                kind: pb::ControlKind::Resume.into(),
                control_id: format!("c{n}"),
                escalation_id: held.unwrap().run.held_by.unwrap().to_string(),
                ..Default::default()
            };
            let answer = house.person("operator:ops").control(resume).await;
            assert_eq!(word(&answer), "ok");
            take(agent, &mut orders).await;
        }
    }
}

async fn take(agent: &mut Agent, orders: &mut Streaming<pb::ControlsResponse>) {
    let order = tokio::time::timeout(Duration::from_secs(20), orders.message()).await;
    let order = order.expect("an order in time").unwrap().unwrap();
    let order = order.control.unwrap();
    let ack = pb::AckControlRequest {
        run_id: order.run_id,
        control_id: order.id,
        result: pb::AckResult::Success.into(),
        detail: String::new(),
    };
    agent.ack_control(ack).await.unwrap();
}

async fn stands_where_the_server_stands(house: &House, who: &str, mirror: &State) {
    let listed = house.client(who).list(&ListWish::default()).await.unwrap();
    assert!(!listed.is_empty());
    let held = mirror.all_escalations().cloned().map(Open::Escalation);
    let pending = mirror.all_pending().cloned().map(Open::Pending);
    let mine: Vec<_> = held.chain(pending).collect();
    let theirs: Vec<_> = listed.iter().map(|item| item.open.clone()).collect();
    assert_eq!(mine, theirs);
    for item in &listed {
        let named = Untrusted::new(item.run.id.to_string());
        let whole = house.client(who).get_run(&named, 0).await.unwrap();
        assert_eq!(**mirror.run(item.run.id).unwrap(), whole.run);
        assert!(!whole.run.controls.is_empty() && !whole.run.drifts.is_empty());
    }
    let (ended, _) = house.client(who).history(500, None).await.unwrap();
    for ended in &ended {
        match ended {
            Ended::Approval(theirs) => {
                assert_eq!(**mirror.settled(theirs.approval.id).unwrap(), *theirs);
            }
            Ended::Escalation(theirs) => {
                assert_eq!(**mirror.closed(theirs.escalation.id).unwrap(), *theirs);
            }
        }
    }
}

#[tokio::test]
async fn what_stands_and_what_follows_is_what_the_server_lists() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    happenings(&house, &mut agent, "r1", "", 12).await;
    let mut early = Stream::open(&house, "viewer:v", None).await;
    let (mut mirror, epoch) = early.snapshot().await;
    stands_where_the_server_stands(&house, "viewer:v", &mirror).await;
    happenings(&house, &mut agent, "r2", "", 12).await;
    let head = house.head().await;
    for recorded in early.until(head).await {
        mirror.apply(&recorded);
    }
    stands_where_the_server_stands(&house, "viewer:v", &mirror).await;
    // Whoever comes late stands there too, and so does whoever folds all of it.
    let (late, _) = Stream::open(&house, "viewer:v", None)
        .await
        .snapshot()
        .await;
    assert_eq!(late.head(), head);
    stands_where_the_server_stands(&house, "viewer:v", &late).await;
    let mut whole = State::default();
    let mut all = Stream::open(&house, "viewer:v", Some((&epoch, 0))).await;
    for recorded in all.until(head).await {
        whole.apply(&recorded);
    }
    stands_where_the_server_stands(&house, "viewer:v", &whole).await;
}

#[tokio::test]
async fn a_user_is_told_of_their_own_runs_only_and_misses_nothing_of_them() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let mut elsewhere = house.agent("agent:elsewhere");
    happenings(&house, &mut agent, "r1", "user:ada", 6).await;
    let mut ada = Stream::open(&house, "user:ada", None).await;
    let (mut mirror, epoch) = ada.snapshot().await;
    happenings(&house, &mut agent, "r2", "user:bob", 6).await;
    open(&mut elsewhere, "r3", "user:ada").await;
    happenings(&house, &mut agent, "r4", "user:ada", 6).await;
    happenings(&house, &mut agent, "r5", "", 6).await;
    let head = house.head().await;
    let mut all = Stream::open(&house, "admin:root", Some((&epoch, 0))).await;
    // The other tenant's run is the one thing that an admin is not told of either.
    let all = all.until(head).await;
    assert_eq!(all.len() as Seq, head - 1);
    let owner = |recorded: &Recorded| recorded.scope.owner.as_ref().map(|name| name.to_string());
    let hers: Vec<_> = all
        .iter()
        .filter(|recorded| owner(recorded).as_deref() == Some("user:ada"))
        .cloned()
        .collect();
    let last = hers.last().unwrap().seq;
    assert!(last < head, "something comes after hers");
    let mut whole = Stream::open(&house, "user:ada", Some((&epoch, 0))).await;
    assert_eq!(whole.until(last).await, hers);
    for recorded in ada.until(last).await {
        mirror.apply(&recorded);
    }
    stands_where_the_server_stands(&house, "user:ada", &mirror).await;
    assert!(mirror.runs().all(|run| {
        run.owner
            .as_ref()
            .is_some_and(|name| name.as_str() == "user:ada")
            && run.key.tenant.as_str() == "default"
    }));
    // From the middle of what is not hers, too.
    let middle = hers.iter().map(|recorded| recorded.seq).max().unwrap() - 3;
    let mut rest = Stream::open(&house, "user:ada", Some((&epoch, middle))).await;
    let rest = rest.until(last).await;
    let expected = hers.iter().filter(|recorded| recorded.seq > middle);
    assert_eq!(rest, expected.cloned().collect::<Vec<_>>());
}

#[tokio::test]
async fn after_a_crash_the_stream_goes_on_where_it_was_cut() {
    let mut house = House::open();
    let mut stream = Stream::open(&house, "admin:root", None).await;
    let (_, epoch) = stream.snapshot().await;
    let mut told = vec![];
    for round in 0..4 {
        let mut agent = house.agent("agent:a1");
        happenings(&house, &mut agent, &format!("r{round}"), "", 6).await;
        let head = house.head().await;
        // Cut in the middle of it.
        let cut = told.len() as Seq + (head - told.len() as Seq) / 2;
        told.extend(stream.until(cut).await);
        house.server.restart(); // kill -9
        stream = Stream::open(&house, "admin:root", Some((&epoch, cut))).await;
    }
    let head = house.head().await;
    told.extend(stream.until(head).await);
    house.server.kill();
    let log = Sqlite::open(house.server.dir().join("pilothouse.db")).unwrap();
    let recorded = log.reader().unwrap().read(0, usize::MAX).unwrap();
    assert_eq!(told, recorded, "each once, in order");
}

#[tokio::test]
async fn a_place_in_another_log_is_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    open(&mut agent, "r1", "").await;
    let head = house.head().await;
    let me = house.client("admin:root").whoami().await.unwrap();
    let epoch = me.epoch.as_str();
    let rows = [
        (Some(("another", 1)), "diverged"),
        (Some(("another", 0)), "diverged"),
        (Some((epoch, head + 1)), "diverged"),
        (Some((epoch, Seq::MAX)), "diverged"),
        (Some(("", 1)), "invalid"),
        (Some((epoch, head)), "ok"),
        (None, "ok"),
    ];
    for (after, expected) in rows {
        let answer = house.person("admin:root").watch(ask_watch(after)).await;
        assert_eq!(word(&answer), expected, "{after:?}");
        if let Err(status) = answer
            && expected == "diverged"
        {
            assert_eq!(status.code(), Code::FailedPrecondition);
            assert_eq!(refused(&status).unwrap().http, 409);
        }
    }
}

/// More than the flow control of one stream lets through.
async fn say_much(agent: &Agent, run: &str, times: usize) {
    for batch in 0..times / 100 {
        let says = (0..100).map(|n| {
            let mut agent = agent.clone();
            let said = pb::SayRequest {
                run_id: run.into(),
                text: format!("{batch} {n} {}", "x".repeat(2000)),
            };
            async move { agent.say(said).await.unwrap() }
        });
        join_all(says).await;
    }
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_up_nobody() {
    const SAID: usize = 2000;
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let mut stalled = Stream::open(&house, "admin:root", None).await;
    let (_, epoch) = stalled.snapshot().await;
    let before = house.head().await;
    let mut reading = Stream::open(&house, "admin:root", Some((&epoch, before))).await;
    let from = Instant::now();
    let much = say_much(&agent, &run, SAID);
    let (_, read) = tokio::join!(much, reading.until(before + SAID as Seq));
    assert_eq!(read.len(), SAID);
    // A question is asked and answered meanwhile, and the other watcher is told at once.
    let asked = Instant::now();
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let wish = decision(&card, Verdict::Approve, "d1");
    house.person("operator:ops").decide(wish).await.unwrap();
    let head = house.head().await;
    assert!(!reading.until(head).await.is_empty());
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
    assert!(
        from.elapsed() < Duration::from_secs(30),
        "{:?}",
        from.elapsed()
    );
    // It was left behind, and loses nothing.
    let late = stalled.until(head).await;
    assert_eq!(late[..SAID], read);
}

#[tokio::test]
async fn a_server_that_stops_ends_what_is_open_in_time() {
    let mut house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let mut stalled = Stream::open(&house, "admin:root", None).await;
    stalled.snapshot().await;
    say_much(&agent, &run, 500).await;
    let mut open_ones = vec![];
    for _ in 0..10 {
        let mut stream = Stream::open(&house, "operator:ops", None).await;
        stream.snapshot().await;
        let mut messages = stream.messages;
        open_ones.push(tokio::spawn(async move {
            loop {
                match messages.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it ends with the reason"),
                    Err(status) => return status,
                }
            }
        }));
        let mut agent = agent.clone();
        let waiter = pb::AwaitRequest {
            wait_id: "w1".into(),
            ..waiting(&card.approval_id)
        };
        open_ones.push(tokio::spawn(async move {
            agent.r#await(waiter).await.unwrap_err()
        }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let from = Instant::now();
    let stopped = tokio::task::spawn_blocking(move || (house.server.terminate(), house));
    let (code, mut house) = stopped.await.unwrap();
    assert_eq!(code, Some(128 + 15));
    assert!(
        from.elapsed() < Duration::from_secs(8),
        "{:?}",
        from.elapsed()
    );
    for ended in open_ones {
        let status = ended.await.unwrap();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
    house.server.restart();
    let open_now = house.server.open();
    assert_eq!(open_now.len(), 1, "stopping decides nothing");
    assert_eq!(
        house.server.show(&card.approval_id)["waits_timed_out"],
        serde_json::json!([])
    );
}

/// Slow: an agent may be silent for 15 s before its run is marked.
#[tokio::test]
async fn an_agent_that_is_silent_is_away_until_it_is_heard_of() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let silent = open(&mut agent, "silent", "").await;
    let card = file(&mut agent, question(&silent, "t", Asks::Operator)).await;
    let waits = open(&mut agent, "waits", "").await;
    let waited = file(&mut agent, question(&waits, "t", Asks::Operator)).await;
    let listens = open(&mut agent, "listens", "").await;
    let listening = pb::ControlsRequest {
        run_id: listens.clone(),
    };
    let orders = agent.controls(listening).await.unwrap();
    let gone = pb::OpenRunRequest {
        detached: true,
        ..run_of("gone", "")
    };
    let gone = agent.open_run(gone).await.unwrap().into_inner().run_id;
    // An open call of its agent is a sign of life.
    let mut held = agent.clone();
    let held = tokio::spawn(async move {
        let waiter = pb::AwaitRequest {
            wait_id: "w1".into(),
            ..waiting(&waited.approval_id)
        };
        held.r#await(waiter).await
    });
    // Another tenant's agent, and another agent, say nothing of it.
    let (silent_id, from) = (silent.clone(), Instant::now());
    let noise = ["agent:elsewhere", "agent:a2"].map(|who| house.agent(who));
    let client = house.client("viewer:v");
    let presence = async |run: &str| {
        let named = Untrusted::new(run);
        client.get_run(&named, 0).await.unwrap().run.presence
    };
    let heard = house.client("viewer:v").whoami().await.unwrap().server_now;
    let since: Timestamp = loop {
        for mut other in noise.clone() {
            let beat = pb::HeartbeatRequest {
                run_ids: vec![silent_id.clone()],
            };
            assert_eq!(word(&other.heartbeat(beat).await), "ok");
        }
        if let Presence::Away { since } = presence(&silent).await {
            break since;
        }
        assert!(from.elapsed() < Duration::from_secs(30), "it is not away");
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    assert!(from.elapsed() > Duration::from_secs(14), "too early");
    assert!(since > heard);
    assert_eq!(presence(&waits).await, Presence::Attached);
    assert_eq!(presence(&listens).await, Presence::Attached);
    drop(orders);
    assert_eq!(presence(&gone).await, Presence::Detached, "never away");
    assert!(!held.is_finished());
    let pending = house.pending(&card.approval_id).await;
    assert_eq!(pending.timed_out, [], "being away decides nothing");

    let beat = pb::HeartbeatRequest {
        run_ids: vec![silent.clone()],
    };
    agent.heartbeat(beat).await.unwrap();
    assert_eq!(presence(&silent).await, Presence::Attached);
    let wish = decision(&card, Verdict::Approve, "d1");
    assert_eq!(word(&house.person("operator:ops").decide(wish).await), "ok");
    held.abort();
}
