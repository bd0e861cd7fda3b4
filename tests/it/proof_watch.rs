//! Whoever watches is told everything that they may see, once, in order, whatever becomes of their connection (`ENGINE` §7,
//! row 6); and whoever begins with what stands, and folds what follows, stands where the server stands, while others write
//! (row 7).

use std::time::Duration;

use futures_util::future::join_all;
use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, Asks, Verdict},
    pilothouse::{Watched, ask_watch, watched},
    status::refused,
};
use registry::{Recorded, Seq, State, state::Row};
use tonic::Streaming;

use crate::{
    house::{Agent, Person, decision, file, open, question},
    proof::{Chance, Stage, run, seeds, times},
};

/// Who watches; some see all of the tenant, and some only what is theirs.
const WATCHERS: [&str; 8] = [
    "admin:root",
    "operator:ops",
    "viewer:v",
    "user:ada",
    "user:ada",
    "user:bob",
    "operator:eve",
    "admin:elsewhere",
];

/// One who watches, and remembers.
struct Watcher {
    name: &'static str,
    chance: Chance,
    stream: Option<Streaming<pb::WatchResponse>>,
    /// Everything it was told, each time it began anew after the last of it.
    told: Vec<Recorded>,
    last: Seq,
    /// What the last tick said that the stream has passed.
    ticked: Seq,
    cuts: usize,
}

impl Watcher {
    fn new(name: &'static str, chance: Chance) -> Self {
        Self {
            name,
            chance,
            stream: None,
            told: vec![],
            last: 0,
            ticked: 0,
            cuts: 0,
        }
    }

    async fn resume(&mut self, stage: &Stage) {
        let epoch = stage.owner().epoch().clone();
        let after = ask_watch(Some((&epoch, self.last)));
        let mut person = stage.person(self.name);
        match person.watch(after).await {
            Ok(stream) => self.stream = Some(stream.into_inner()),
            // History may be trimmed one day, and then it is said: nobody is told a part of it as if it were all.
            Err(status) if refused(&status).is_some_and(|told| told.word == "compacted") => {
                panic!("nothing is trimmed in this run: {status:?}")
            }
            Err(status) => panic!("{status:?}"),
        }
    }

    /// Reads until it has passed `head`, with whatever happens to a connection on the way.
    async fn until(&mut self, stage: &Stage, head: Seq) {
        while self.last < head {
            if self.stream.is_none() {
                self.resume(stage).await;
            }
            match self.chance.below(200) {
                0 | 1 => {
                    self.stream = None; // cut
                    self.cuts += 1;
                    continue;
                }
                2 => tokio::time::sleep(Duration::from_millis(self.chance.below(30))).await,
                _ => {}
            }
            if !self.read().await {
                return;
            }
        }
    }

    /// Reads one message. False: the server went away.
    async fn read(&mut self) -> bool {
        let stream = self.stream.as_mut().unwrap();
        // Longer than the server is silent.
        let message = tokio::time::timeout(Duration::from_secs(60), stream.message()).await;
        let Ok(Some(message)) = message.expect("it is told that nothing happens") else {
            self.stream = None;
            tokio::time::sleep(Duration::from_millis(1)).await;
            return false;
        };
        match watched(message).unwrap() {
            Watched::Recorded { recorded, prev_seq } => {
                let name = self.name;
                assert_eq!(prev_seq, self.last, "{name}: something is missing");
                assert!(recorded.seq > self.last, "{name}: told twice");
                assert!(
                    recorded.seq > self.ticked,
                    "{name}: told after it was passed"
                );
                self.last = recorded.seq;
                self.told.push(recorded);
            }
            Watched::Tick { seq, .. } => {
                assert!(seq >= self.last);
                self.ticked = seq;
            }
            other => panic!("{other:?} after a place in the log"),
        }
        true
    }
}

/// Nothing happens for a while, and each is told so; what comes then is after that.
async fn ticks(stage: &Stage, watchers: &mut [Watcher]) {
    let waiting = watchers.iter_mut().map(|watcher| async move {
        watcher.resume(stage).await;
        let before = watcher.ticked;
        // An agent may be missed meanwhile: that is told before it.
        while watcher.ticked == before {
            assert!(watcher.read().await, "the server stays");
        }
        assert!(watcher.ticked <= stage.owner().state().head());
    });
    join_all(waiting).await;
    happenings(stage, 9, &mut Chance::new(9), 5).await;
}

/// Writes at random, for one user or none.
async fn write(
    stage: &Stage,
    by: &'static str,
    user: &str,
    name: &str,
    chance: &mut Chance,
    count: u64,
) {
    let mut agent = stage.agent(by);
    let person = if by.ends_with("elsewhere") {
        "admin:elsewhere"
    } else {
        "admin:root"
    };
    let mut person = stage.person(person);
    let run = open(&mut agent, name, user).await;
    let mut filed = vec![];
    for n in 0..count {
        match chance.below(5) {
            0 | 1 => {
                let text = format!(
                    "{n} {}",
                    "x".repeat(usize::try_from(chance.below(900)).unwrap())
                );
                let said = pb::SayRequest {
                    run_id: run.clone(),
                    text,
                };
                agent.say(said).await.unwrap();
            }
            2 | 3 => {
                let filing = question(&run, &format!("t{n}"), Asks::Operator);
                filed.push(file(&mut agent, filing).await);
            }
            _ => end_one(&mut agent, &mut person, &mut filed, chance, n).await,
        }
    }
    if chance.one_in(2) {
        let ended = pb::EndRunRequest {
            run_id: run,
            how: Some(pb::end_run_request::How::Ended(
                pb::RunState::Completed.into(),
            )),
            reason: String::new(),
        };
        agent.end_run(ended).await.unwrap();
    }
}

async fn end_one(
    agent: &mut Agent,
    person: &mut Person,
    filed: &mut Vec<pb::FileResponse>,
    chance: &mut Chance,
    n: u64,
) {
    let Some(card) = filed.pop() else { return };
    let verdict = *chance.pick(&[Verdict::Approve, Verdict::Reject]);
    if chance.one_in(4) {
        let withdrawn = pb::WithdrawRequest {
            approval_id: card.approval_id,
            reason: "no need".into(),
        };
        agent.withdraw(withdrawn).await.unwrap();
    } else {
        let id = format!("{}-{n}", card.approval_id);
        person.decide(decision(&card, verdict, &id)).await.unwrap();
    }
}

/// Several write at once, for several users and two tenants.
async fn happenings(stage: &Stage, round: u64, chance: &mut Chance, count: u64) {
    let writers = [
        ("agent:a1", "user:ada"),
        ("agent:a1", ""),
        ("agent:a2", "user:bob"),
        ("agent:elsewhere", "user:ada"),
    ];
    let writing = writers.iter().enumerate().map(|(n, (by, user))| {
        let mut chance = chance.fork();
        let name = format!("r{round}-{n}");
        async move { write(stage, by, user, &name, &mut chance, count).await }
    });
    join_all(writing).await;
}

fn may_see(name: &str, recorded: &Recorded) -> bool {
    let tenant = if name.ends_with("elsewhere") {
        "elsewhere"
    } else {
        "default"
    };
    let owner = recorded.scope.owner.as_ref().map(|owner| owner.as_str());
    let theirs = !name.starts_with("user:") || owner == Some(name);
    recorded.scope.tenant.as_str() == tenant && theirs
}

#[test]
fn each_watcher_is_told_exactly_the_log_that_is_theirs() {
    seeds("proof_watch::each_watcher", times(3), |seed| {
        run(async {
            let mut chance = Chance::new(seed);
            let mut stage = Stage::open().await;
            let mut watchers: Vec<Watcher> = WATCHERS
                .into_iter()
                .map(|name| Watcher::new(name, chance.fork()))
                .collect();
            for round in 0..4 {
                // They read while it happens; one of them reads nothing until it is over.
                let lazy = usize::try_from(chance.below(8)).unwrap();
                let over = std::sync::atomic::AtomicBool::new(false);
                let reading = watchers.iter_mut().enumerate().map(|(n, watcher)| {
                    let (stage, over) = (&stage, &over);
                    async move {
                        while !over.load(std::sync::atomic::Ordering::Relaxed) {
                            let head = stage.owner().state().head();
                            if n != lazy && watcher.last < head {
                                let last = last_theirs(stage, watcher.name, head).await;
                                watcher.until(stage, last).await;
                            }
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                });
                let writing = async {
                    happenings(&stage, round, &mut chance, 60).await;
                    over.store(true, std::sync::atomic::Ordering::Relaxed);
                };
                tokio::join!(join_all(reading), writing);
                if round % 2 == 0 {
                    // Nothing of the log is in memory then: who is behind reads it from disk.
                    watchers
                        .iter_mut()
                        .for_each(|watcher| watcher.stream = None);
                    stage.restart().await;
                }
            }
            all_is_told(&stage, &mut watchers).await;
            if seed == 1 {
                ticks(&stage, &mut watchers).await;
                all_is_told(&stage, &mut watchers).await;
            }
            let log = stage.log();
            let cuts: usize = watchers.iter().map(|watcher| watcher.cuts).sum();
            eprintln!("seed {seed}: {} events, {cuts} cuts", log.len());
            assert!(cuts > 20, "hardly anything was cut");
        });
    });
}

async fn all_is_told(stage: &Stage, watchers: &mut [Watcher]) {
    let log = stage.log();
    for watcher in watchers {
        let theirs = log
            .iter()
            .filter(|recorded| may_see(watcher.name, recorded));
        let theirs: Vec<&Recorded> = theirs.collect();
        let last = theirs.last().unwrap().seq;
        while watcher.last < last {
            watcher.until(stage, last).await;
        }
        // More may have happened since: agents are missed.
        let told = watcher.told.iter().filter(|recorded| recorded.seq <= last);
        let told: Vec<&Recorded> = told.collect();
        assert_eq!(told.len(), theirs.len(), "{}", watcher.name);
        assert!(told == theirs, "{} was told something else", watcher.name);
    }
}

/// The newest event up to `head` that somebody may see.
async fn last_theirs(stage: &Stage, name: &'static str, head: Seq) -> Seq {
    let read = move |log: &dyn registry::log::Reader| log.read(0, usize::MAX);
    let log = stage.owner().read_log(read).await.unwrap();
    let theirs = log.iter().take_while(|recorded| recorded.seq <= head);
    let theirs = theirs.filter(|recorded| may_see(name, recorded));
    theirs.last().map_or(0, |recorded| recorded.seq)
}

/// What stands, and what has followed so far.
struct Mirror {
    stream: Streaming<pb::WatchResponse>,
    state: State,
}

impl Mirror {
    async fn begin(stage: &Stage) -> Self {
        let opened = stage.person("admin:root").watch(ask_watch(None)).await;
        let mut stream = opened.unwrap().into_inner();
        let mut rows: Vec<Row> = vec![];
        loop {
            match watched(stream.message().await.unwrap().unwrap()).unwrap() {
                Watched::Row(row) => rows.push(row),
                Watched::End { seq, last_at, .. } => {
                    let state = State::from_rows(seq, last_at, rows);
                    return Self { stream, state };
                }
                other => panic!("{other:?} before what stands is complete"),
            }
        }
    }

    async fn follow(&mut self, head: Seq) {
        while self.state.head() < head {
            match watched(self.stream.message().await.unwrap().unwrap()).unwrap() {
                Watched::Recorded { recorded, .. } => self.state.apply(&recorded),
                Watched::Tick { .. } => {}
                other => panic!("{other:?} after what stands"),
            }
        }
    }
}

#[test]
fn what_stands_and_what_follows_is_the_state_while_others_write() {
    seeds("proof_watch::what_stands", times(3), |seed| {
        run(async {
            let mut chance = Chance::new(seed);
            let stage = Stage::open().await;
            let over = std::sync::atomic::AtomicBool::new(false);
            let beginning = async {
                let mut mirrors = vec![];
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut mirror = Mirror::begin(&stage).await;
                    let head = stage.owner().state().head();
                    mirror.follow(head.saturating_sub(100)).await;
                    mirrors.push(mirror);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                mirrors
            };
            let writing = async {
                for round in 0..3 {
                    // All in one tenant, so that one sees everything.
                    let writers = ["agent:a1", "agent:a2", "agent:a1", "agent:a2"];
                    let writing = writers.into_iter().enumerate().map(|(n, by)| {
                        let (mut chance, stage) = (chance.fork(), &stage);
                        let name = format!("r{round}-{n}");
                        async move { write(stage, by, "user:ada", &name, &mut chance, 50).await }
                    });
                    join_all(writing).await;
                }
                over.store(true, std::sync::atomic::Ordering::Relaxed);
            };
            let (mut mirrors, ()) = tokio::join!(beginning, writing);
            let (rows, head, _) = stage.owner().snapshot();
            let begun: Vec<Seq> = mirrors.iter().map(|mirror| mirror.state.head()).collect();
            for mirror in &mut mirrors {
                mirror.follow(head).await;
                assert_eq!(mirror.state.head(), head);
                assert!(mirror.state.rows() == rows, "it stands somewhere else");
            }
            let mut whole = State::default();
            let log = stage.log();
            let until_then = log.iter().filter(|recorded| recorded.seq <= head);
            until_then.for_each(|recorded| whole.apply(recorded));
            assert!(whole.rows() == rows, "the server stands somewhere else");
            eprintln!("seed {seed}: {head} events, begun after {begun:?}");
            assert!(begun.len() >= 5, "hardly anybody began in the middle of it");
        });
    });
}
