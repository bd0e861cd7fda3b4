//! kill -9 of the server under load, again and again: what was acknowledged is there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use pilothouse::{
    connect::{CallError, Client, Server as Place},
    wire::pilothouse::{Filed, Opening},
};
use registry::{
    ApprovalId, Asks, Event, Untrusted,
    approval::{Filing, Hold, OnDeadline, Outcome, Risk, Seen, Subject, Verdict},
    command::Decide,
    form::{Form, RawAnswers},
    log::{Log as _, Sqlite},
    names::{DecisionId, Key},
};

use crate::server::Server;

const KILLS: usize = 50;
/// Most of them pause at any moment, as clients of a server that is gone do.
const CLIENTS: usize = 48;

/// What a client was told.
#[derive(Default)]
struct Told {
    filed: Vec<(String, Filed)>,
    decided: Vec<(ApprovalId, DecisionId, Verdict)>,
    /// Told that it had been decided before, though only this client decides it.
    surprised: Vec<String>,
}

fn asking(key: &str) -> Filing {
    Filing {
        key: Some(Key::parse(key).unwrap()),
        target: key.into(),
        step: Untrusted::default(),
        subject: Subject::Task { task: "".into() },
        title: format!("Go on with {key}?").into(),
        detail: Default::default(),
        asks: Asks::Operator,
        labels: Default::default(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}

pub(crate) fn deciding(filed: &Filed, key: &str, verdict: Verdict) -> Decide {
    Decide {
        id: filed.id,
        decision: DecisionId::parse(&format!("d-{key}")).unwrap(),
        verdict,
        digest: filed.digest,
        answers: RawAnswers::new(),
        note: key.into(),
        seen: Seen::Whole,
        on_behalf_of: None,
        form: Form::default(),
        past: None,
        decided_before: None,
    }
}

/// Sends the same again for as long as nobody answers.
async fn until_heard<T>(
    over: &AtomicBool,
    mut call: impl AsyncFnMut() -> Result<T, CallError>,
) -> Option<Result<T, CallError>> {
    while !over.load(Ordering::Relaxed) {
        match call().await {
            Err(CallError::NoServer(_)) => {}
            Err(CallError::Refused(told)) if ["busy", "unavailable"].contains(&&*told.word) => {}
            heard => return Some(heard),
        }
    }
    None
}

/// Files, decides, files, decides, each with ids of its own that every retry keeps.
async fn work(client: Client, name: usize, over: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    let run = Opening {
        agent: "load".into(),
        invocation: format!("r{name}").into(),
        ..Opening::default()
    };
    let opened = until_heard(&over, async || client.open_run(&run).await).await;
    let Some(run) = opened.transpose().unwrap() else {
        return told;
    };
    for n in 0.. {
        let key = format!("k{name}-{n}");
        let filing = asking(&key);
        let filed = until_heard(&over, async || client.file(run, &filing).await).await;
        let Some(filed) = filed.transpose().unwrap() else {
            break;
        };
        told.filed.push((key.clone(), filed.clone()));
        let verdict = match n % 3 {
            0 => Verdict::Approve,
            1 => Verdict::Reject,
            _ => continue, // stays open
        };
        let wish = deciding(&filed, &key, verdict);
        match until_heard(&over, async || client.decide(&wish).await).await {
            Some(Ok(settled)) => {
                assert_eq!(
                    settled.settled().unwrap().decision().unwrap().id,
                    wish.decision
                );
                told.decided
                    .push((filed.id, wish.decision.clone(), verdict));
            }
            Some(Err(error)) => told.surprised.push(format!("{key}: {error}")),
            None => break,
        }
    }
    told
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    let mut server = Server::start();
    let place: Place = format!("unix:{}", server.socket().display())
        .parse()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let clients = {
        let (place, over) = (place.clone(), over.clone());
        let client = move |name| work(Client::connect(place.clone(), None), name, over.clone());
        std::thread::spawn(move || block_on(async { join_all((0..CLIENTS).map(client)).await }))
    };
    for _ in 0..KILLS {
        let lives_ms = 20 + u64::from(getrandom::u32().unwrap() % 131);
        std::thread::sleep(Duration::from_millis(lives_ms));
        server.restart(); // kills it first
    }
    std::thread::sleep(Duration::from_millis(300));
    over.store(true, Ordering::Relaxed);
    let all: Vec<Told> = clients.join().unwrap();
    let look = block_on(async { Client::connect(place, None).whoami().await });
    let head = look.unwrap().head;
    server.kill();

    let path = server.dir().join("pilothouse.db");
    let log = Sqlite::open(&path).unwrap();
    let recorded = log.reader().unwrap().read(0, usize::MAX).unwrap();
    assert_eq!(log.verify().unwrap(), head, "the chain of hashes");
    let seqs = recorded.iter().map(|recorded| recorded.seq);
    assert!(seqs.eq(1..=head), "a gap");
    let mut filed: HashMap<String, Vec<ApprovalId>> = HashMap::new();
    let mut decided: BTreeMap<ApprovalId, Vec<(DecisionId, Verdict)>> = BTreeMap::new();
    for recorded in &recorded {
        match &*recorded.event {
            Event::ApprovalRequested { approval } => {
                let key = approval.key.as_ref().unwrap().to_string();
                filed.entry(key).or_default().push(approval.id);
            }
            Event::ApprovalGranted { id, decision } => {
                let fact = (decision.id.clone(), Verdict::Approve);
                decided.entry(*id).or_default().push(fact);
            }
            Event::ApprovalRejected { id, decision } => {
                let fact = (decision.id.clone(), Verdict::Reject);
                decided.entry(*id).or_default().push(fact);
            }
            _ => {}
        }
    }
    assert!(filed.values().all(|ids| ids.len() == 1), "filed twice");
    assert!(decided.values().all(|facts| facts.len() == 1), "twice");
    let mut acknowledged = (0, 0);
    for told in &all {
        assert_eq!(told.surprised, Vec::<String>::new());
        for (key, told) in &told.filed {
            assert_eq!(filed.get(key), Some(&vec![told.id]), "{key}");
            acknowledged.0 += 1;
        }
        for (id, decision, verdict) in &told.decided {
            assert_eq!(decided.get(id), Some(&vec![(decision.clone(), *verdict)]));
            let settled = log.reader().unwrap().settled(*id).unwrap().unwrap();
            assert_eq!(settled.decision().unwrap().id, *decision);
            let granted = matches!(settled.outcome, Outcome::Granted(_));
            assert_eq!(granted, *verdict == Verdict::Approve);
            acknowledged.1 += 1;
        }
    }
    eprintln!("{KILLS} kills, {head} events; acknowledged (filed, decided): {acknowledged:?}");
    assert!(
        acknowledged.0 > KILLS && acknowledged.1 > KILLS / 2,
        "no load: {acknowledged:?}"
    );
    drop(log);
    integrity(&path);
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

/// What SQLite itself says of the file.
fn integrity(path: &std::path::Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    let said: String = file
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, "ok");
}

/// More at once than may wait: some are told to come again, and the same sent again is done once.
#[test]
fn a_client_that_is_told_busy_comes_again() {
    use pilothouse::serve::{clock::Clock, owner::Owner};
    use registry::{
        Principal, Refusal, Role, Tenant, Timestamp, Wish,
        log::{Log as _, Memory},
        who::Name,
    };
    block_on(async {
        let clock = Clock::standing(Timestamp::from_ms(1));
        let log = Memory::new("busy");
        let mut other = log.another();
        let owner =
            Owner::start(Box::new(log), clock, None, Box::new(|why| panic!("{why}"))).unwrap();
        let name = Name::parse("agent:a1").unwrap();
        let by = Principal::new(name, Tenant::local(), [Role::Agent]);
        let wish = || Wish::GiveUp {
            id: ApprovalId::mint(Timestamp::from_ms(1), 1),
            wait: registry::names::WaitId::parse("w").unwrap(),
        };
        let calls: Vec<_> = (0..12_000)
            .map(|_| {
                let (owner, by) = (owner.clone(), by.clone());
                async move {
                    let mut busy = 0;
                    while let Err(Refusal::Busy) = owner.submit(by.clone(), wish()).await {
                        busy += 1;
                        tokio::task::yield_now().await;
                    }
                    busy
                }
            })
            .collect();
        // Somebody else has the log's lock, so that nothing is taken from the queue until it is full.
        let turn = other.turn(Timestamp::from_ms(1)).unwrap();
        let let_go = async {
            drop(turn);
            std::future::pending::<()>().await;
        };
        let calls = join_all(calls);
        let busy: usize = tokio::select! {
            biased;
            busy = calls => busy.iter().sum(),
            () = let_go => unreachable!("it never ends"),
        };
        assert!(busy > 0, "the queue was never full");
    });
}
