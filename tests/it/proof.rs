//! What the proofs share: how often, by which chance, and a server in this process whose clock stands until it is moved.
//!
//! `docs/TESTING.md` says how to run more of them, and how to play one seed again.

use std::{
    future::Future,
    path::{Path, PathBuf},
    time::Duration,
};

use pilothouse::{
    serve::{
        Listeners, Server, clock::Clock, identity::Identity, listen_on_loopback, owner::Owner,
        stop::Stop,
    },
    wire::pb::pilothouse::v1::{
        agent_service_client::AgentServiceClient, operator_service_client::OperatorServiceClient,
    },
};
use registry::{Recorded, Timestamp, log::Log as _, log::Sqlite};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use crate::house::{Agent, Headers, Person, everybody, free_port, plenty};

/// How often something is done: as often as CI has time for, times `PILOTHOUSE_PROOF`.
pub(crate) fn times(in_ci: u64) -> u64 {
    let more = std::env::var("PILOTHOUSE_PROOF");
    in_ci
        * more.map_or(1, |more| {
            more.parse().expect("PILOTHOUSE_PROOF is a number")
        })
}

/// Plays `count` seeds, or the one that `PILOTHOUSE_SEED` names. One that fails says how it is played again.
pub(crate) fn seeds(test: &str, count: u64, mut case: impl FnMut(u64)) {
    let only = std::env::var("PILOTHOUSE_SEED").ok();
    let only = only.map(|seed| seed.parse().expect("PILOTHOUSE_SEED is a number"));
    let all = only.map_or(1..=count, |seed| seed..=seed);
    for seed in all {
        let replay = Replay { test, seed };
        case(seed);
        drop(replay);
    }
}

struct Replay<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!("to play it again: PILOTHOUSE_SEED={seed} cargo test --test it {test}");
        }
    }
}

/// Chance that comes out the same for the same seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        // Drawn once, so that two seeds next to each other are not one chance, a step apart.
        Self(Self(!seed).next())
    }

    /// Another one, which the draws from this one do not move.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let len = u64::try_from(of.len()).unwrap();
        &of[usize::try_from(self.below(len)).unwrap()]
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let end = u64::try_from(last + 1).unwrap();
            all.swap(last, usize::try_from(self.below(end)).unwrap());
        }
    }
}

/// A server in this process: a file, a port, a token for everybody, and a clock that stands until it is moved.
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    dir: TempDir,
    port: u16,
    serving: Option<Serving>,
}

struct Serving {
    owner: Owner,
    stop: Stop,
    task: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// When the clock of a stage stands at first: far enough from nothing that it can go back, too.
pub(crate) const BEGINNING: Timestamp = Timestamp::from_ms(1_800_000_000_000);

impl Stage {
    pub(crate) async fn open() -> Self {
        Self::with(Clock::standing(BEGINNING)).await
    }

    pub(crate) async fn with(clock: Clock) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("tokens.toml"), everybody()).unwrap();
        let mut stage = Self {
            clock,
            dir,
            port: free_port(),
            serving: None,
        };
        stage.start().await;
        stage
    }

    async fn start(&mut self) {
        let log = Sqlite::open(self.file()).unwrap();
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(Box::new(log), self.clock.clone(), None, fatal).unwrap();
        let identity = Identity::with_tokens(&self.dir.path().join("tokens.toml")).unwrap();
        let stop = Stop::default();
        let server = Server::new(owner.clone(), identity, stop.clone()).with_limits(plenty());
        let address = format!("127.0.0.1:{}", self.port).parse().unwrap();
        let tcp = Some(listen_on_loopback(address).await.unwrap());
        let listeners = Listeners {
            tcp,
            ..Listeners::default()
        };
        let task = tokio::spawn(server.run(listeners));
        self.serving = Some(Serving { owner, stop, task });
    }

    /// Ends every stream and starts again from the file: nothing of the log is in memory then.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub(crate) async fn stop(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.stop.stop();
        serving.task.await.unwrap().unwrap();
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.serving.as_ref().unwrap().owner
    }

    pub(crate) fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    /// A connection of its own.
    pub(crate) fn channel(&self) -> Channel {
        let url = format!("http://127.0.0.1:{}", self.port);
        Endpoint::from_shared(url).unwrap().connect_lazy()
    }

    pub(crate) fn agent(&self, by: &str) -> Agent {
        AgentServiceClient::with_interceptor(self.channel(), Headers::from(by))
    }

    pub(crate) fn person(&self, by: &str) -> Person {
        OperatorServiceClient::with_interceptor(self.channel(), Headers::from(by))
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("pilothouse.db")
    }

    /// The whole log as it lies on disk; its chain holds.
    pub(crate) fn log(&self) -> Vec<Recorded> {
        read_whole(&self.file())
    }
}

/// The whole log in a file. Its chain holds, no number is missing, and time never runs backwards.
pub(crate) fn read_whole(file: &Path) -> Vec<Recorded> {
    let log = Sqlite::open(file).unwrap();
    let recorded = log.reader().unwrap().read(0, usize::MAX).unwrap();
    let head = u64::try_from(recorded.len()).unwrap();
    assert!(
        recorded.iter().map(|recorded| recorded.seq).eq(1..=head),
        "a gap"
    );
    let at: Vec<_> = recorded.iter().map(|recorded| recorded.at).collect();
    assert!(at.is_sorted(), "time ran backwards");
    assert_eq!(log.verify().unwrap(), head, "the chain of hashes");
    recorded
}

/// On a runtime of its own, with as many threads as there are cores: what races is to race.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}
