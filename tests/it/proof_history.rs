//! What clients saw, against the one thing that can have happened: clients that lose the answers to what they sent, and send
//! it again under the same ids, see a question that is answered once, at one moment, for everybody (`ENGINE` §7, row 2).
//!
//! A question is a register that is written once, so a history is checked in one pass: one winner, nobody lost to it before
//! it was sent, and whoever looks after somebody has seen the end sees the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use hyper_util::rt::TokioIo;
use pilothouse::wire::{
    pb::pilothouse::v1::{
        self as pb, agent_service_client::AgentServiceClient,
        operator_service_client::OperatorServiceClient,
    },
    pilothouse::{Asked, Decided, decided_as, got_back},
    status::refused,
};
use registry::{Event, Recorded, Settled, Timestamp, approval::Outcome};
use tokio::net::UnixStream;
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint, Uri},
};

use crate::{
    house::{decision, get, question, run_of},
    proof::{Chance, read_whole, run, seeds, times},
    relay::Relay,
    server::Server,
};

const CLIENTS: u64 = 5;
const OPS_A_CLIENT: u64 = 60;
const QUESTIONS: u64 = 24;

/// One call of one client, as the client knows it.
#[derive(Clone, Debug)]
struct Seen {
    item: String,
    call: Instant,
    /// None: the client gave up before it heard anything; whether it was done is unknown.
    back: Option<Instant>,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// A wish to end it: the decision id, or `withdraw`.
    Wish { id: String, came: Came },
    /// A look at it: how it had ended, if it had.
    Look(Option<End>),
}

#[derive(Clone, Debug, PartialEq)]
enum Came {
    Won(End),
    Lost(End),
    Unknown,
}

/// How a question ended: the word, the decision id, when.
#[derive(Clone, Debug, PartialEq)]
struct End {
    word: String,
    /// Not told to those who lost.
    id: Option<String>,
    /// Not told to the one who took it back.
    at: Option<Timestamp>,
}

impl End {
    fn is(&self, truth: &End) -> bool {
        let same_id = self.id.is_none() || self.id == truth.id;
        let same_at = self.at.is_none() || self.at == truth.at;
        self.word == truth.word && same_at && same_id
    }

    fn of(settled: &Settled) -> Self {
        let id = settled.decision().map(|decision| decision.id.to_string());
        let withdrawn = matches!(settled.outcome, Outcome::Withdrawn(_));
        Self {
            word: settled.outcome.word().into(),
            id: id.or(withdrawn.then(|| "withdraw".into())),
            at: Some(settled.at),
        }
    }
}

/// Whether the one end that the log has explains everything that was seen.
fn check(seen: &[Seen], ends: &BTreeMap<String, End>) -> Result<(), String> {
    let items: BTreeSet<&str> = seen.iter().map(|seen| seen.item.as_str()).collect();
    for item in items {
        let about: Vec<&Seen> = seen.iter().filter(|seen| seen.item == item).collect();
        let end = ends.get(item);
        check_one(&about, end).map_err(|wrong| format!("{item}: {wrong}\n{end:?}\n{about:#?}"))?;
    }
    Ok(())
}

fn check_one(about: &[&Seen], end: Option<&End>) -> Result<(), String> {
    let told = |seen: &Seen| match &seen.what {
        What::Wish { came, .. } => match came {
            Came::Won(end) | Came::Lost(end) => Some(end.clone()),
            Came::Unknown => None,
        },
        What::Look(end) => end.clone(),
    };
    let Some(end) = end else {
        return match about.iter().find(|seen| told(seen).is_some()) {
            Some(seen) => Err(format!(
                "the log has no end, and this was told of one: {seen:?}"
            )),
            None => Ok(()),
        };
    };
    // Several take a question back under no id of their own: the first of them can have been it.
    let is_winner =
        |seen: &&&Seen| matches!(&seen.what, What::Wish { id, .. } if Some(id) == end.id.as_ref());
    let sent = about.iter().filter(is_winner).map(|seen| seen.call).min();
    let sent = sent.ok_or("nobody sent what won")?;
    let mut won = vec![];
    let mut known_since: Option<Instant> = None;
    for seen in about {
        let Some(told) = told(seen) else { continue };
        if !told.is(end) {
            return Err(format!(
                "it ended otherwise than this one was told: {seen:?}"
            ));
        }
        let back = seen.back.ok_or("an answer that never came")?;
        if back < sent {
            return Err(format!("told of the end before it was sent: {seen:?}"));
        }
        if let What::Wish {
            id,
            came: Came::Lost(_),
        } = &seen.what
            && id != "withdraw"
            && end.id.as_ref() == Some(id)
        {
            return Err(format!("sent again, it lost against itself: {seen:?}"));
        }
        known_since = Some(known_since.map_or(back, |since| since.min(back)));
        if let What::Wish {
            id,
            came: Came::Won(_),
        } = &seen.what
        {
            won.push(id);
        }
    }
    if won.len() > 1 || won.iter().any(|id| Some(*id) != end.id.as_ref()) {
        return Err(format!("these were told that they won: {won:?}"));
    }
    let forgot = about.iter().find(|seen| {
        seen.what == What::Look(None) && known_since.is_some_and(|since| seen.call > since)
    });
    match forgot {
        Some(seen) => Err(format!("open again after somebody saw its end: {seen:?}")),
        None => Ok(()),
    }
}

/// Sends the same again until somebody answers, or gives up for good.
async fn until_heard<T>(
    chance: &mut Chance,
    mut call: impl AsyncFnMut() -> Result<Response<T>, Status>,
) -> Option<Result<T, Status>> {
    loop {
        let answer = tokio::time::timeout(Duration::from_secs(10), call()).await;
        let status = match answer.expect("an answer, or the end of the connection") {
            Ok(answer) => return Some(Ok(answer.into_inner())),
            Err(status) => status,
        };
        match refused(&status).map(|told| told.word) {
            Some(word) if ["busy", "rate_limited", "unavailable"].contains(&&*word) => {}
            Some(_) => return Some(Err(status)),
            None if chance.one_in(6) => return None,
            None => {}
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn channel(socket: PathBuf) -> Channel {
    let connect = move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    };
    Endpoint::from_static("http://pilothouse.invalid")
        .connect_with_connector_lazy(tower::service_fn(connect))
}

/// One client, at random on a few questions.
async fn client(
    socket: PathBuf,
    name: u64,
    questions: &[pb::FileResponse],
    run: &str,
    mut chance: Chance,
) -> Vec<Seen> {
    let channel = channel(socket);
    let mut person = OperatorServiceClient::new(channel.clone());
    let mut agent = AgentServiceClient::new(channel);
    let mut seen = vec![];
    let per_op = OPS_A_CLIENT / QUESTIONS + 1;
    for n in 0..OPS_A_CLIENT {
        // All are about the same few at a time.
        let at = usize::try_from((n / per_op + chance.below(2)).min(QUESTIONS - 1)).unwrap();
        let filed = &questions[at];
        let item = filed.approval_id.clone();
        let call = Instant::now();
        let what = match chance.below(8) {
            0..4 => {
                let heard = until_heard(&mut chance, async || person.get(get(&item)).await).await;
                let Some(got) = heard else { continue };
                What::Look(match got_back(got.unwrap()).unwrap().asked {
                    Asked::Settled(settled) => Some(End::of(&settled)),
                    _ => None,
                })
            }
            4..7 => {
                let verdict = *chance.pick(&[pb::Verdict::Approve, pb::Verdict::Reject]);
                let id = format!("d{name}-{n}");
                let wish = decision(filed, verdict, &id);
                let again = async || person.decide(wish.clone()).await;
                let heard = until_heard(&mut chance, again).await;
                let won = heard.map(|heard| heard.map(|won| End::of(&ended(won))));
                What::Wish {
                    id,
                    came: came(won),
                }
            }
            _ => {
                let wish = pb::WithdrawRequest {
                    approval_id: item.clone(),
                    reason: format!("{name}-{n}"),
                };
                let again = async || agent.withdraw(wish.clone()).await;
                // It has no id of its own: sent again, it may meet itself, and is told that it was withdrawn.
                let heard = until_heard(&mut chance, again).await;
                let id = "withdraw".to_owned();
                let end = || End {
                    word: "withdrawn".into(),
                    id: Some("withdraw".into()),
                    at: None,
                };
                let won = heard.map(|heard| heard.map(|_| end()));
                What::Wish {
                    id,
                    came: came(won),
                }
            }
        };
        let unknown = matches!(
            &what,
            What::Wish {
                came: Came::Unknown,
                ..
            }
        );
        let back = (!unknown).then(Instant::now);
        seen.push(Seen {
            item,
            call,
            back,
            what,
        });
        if n % 7 == 0 {
            same_filing(&mut agent, &mut chance, run, at, filed).await;
        }
    }
    seen
}

/// The same filed again under its key is the same question, whether or not it has ended.
async fn same_filing(
    agent: &mut AgentServiceClient<Channel>,
    chance: &mut Chance,
    run: &str,
    at: usize,
    filed: &pb::FileResponse,
) {
    let filing = question(run, &format!("t{at}"), pb::Asks::Operator);
    let again = async || agent.file(filing.clone()).await;
    if let Some(again) = until_heard(chance, again).await {
        assert_eq!(again.unwrap().approval_id, filed.approval_id);
    }
}

fn ended(decided: pb::DecideResponse) -> Settled {
    match decided_as(decided).unwrap() {
        Decided::Settled(settled) => *settled,
        Decided::Voted(pending) => panic!("one yes is enough here: {pending:?}"),
    }
}

fn came(heard: Option<Result<End, Status>>) -> Came {
    match heard {
        None => Came::Unknown,
        Some(Ok(end)) => Came::Won(end),
        Some(Err(status)) => {
            let told = refused(&status).unwrap();
            assert_eq!(told.word, "already_settled", "{}", told.message);
            Came::Lost(End {
                word: told.outcome.unwrap(),
                id: None,
                at: Some(told.at.unwrap()),
            })
        }
    }
}

fn ends(log: &[Recorded]) -> BTreeMap<String, End> {
    let end = |recorded: &Recorded| {
        let (word, id) = match &*recorded.event {
            Event::ApprovalGranted { decision, .. } => ("granted", decision.id.to_string()),
            Event::ApprovalRejected { decision, .. } => ("rejected", decision.id.to_string()),
            Event::ApprovalWithdrawn { .. } => ("withdrawn", "withdraw".into()),
            _ => return None,
        };
        let end = End {
            word: word.into(),
            id: Some(id),
            at: Some(recorded.at),
        };
        Some((recorded.event.approval().unwrap().to_string(), end))
    };
    let all: Vec<_> = log.iter().filter_map(end).collect();
    let ends: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(ends.len(), all.len(), "something ended twice");
    ends
}

async fn history(server: &Server, seed: u64) -> Vec<Seen> {
    let mut chance = Chance::new(seed);
    let relay = Relay::to(server);
    let mut agent = AgentServiceClient::new(channel(server.socket()));
    let opened = agent.open_run(run_of("r", "")).await.unwrap();
    let run = opened.into_inner().run_id;
    let mut questions = vec![];
    for n in 0..QUESTIONS {
        let filing = question(&run, &format!("t{n}"), pb::Asks::Operator);
        questions.push(agent.file(filing).await.unwrap().into_inner());
    }
    let over = AtomicBool::new(false);
    let mut cuts = chance.fork();
    let cutting = async {
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(4 + cuts.below(20))).await;
            // What was sent is heard, and its answer is lost.
            relay.hold();
            tokio::time::sleep(Duration::from_millis(1 + cuts.below(8))).await;
            relay.cut();
        }
    };
    let clients = (0..CLIENTS).map(|name| {
        let socket = relay.dir().join("sock");
        client(socket, name, &questions, &run, chance.fork())
    });
    let all = async {
        let seen: Vec<Seen> = join_all(clients).await.into_iter().flatten().collect();
        over.store(true, Ordering::Relaxed);
        seen
    };
    tokio::join!(cutting, all).1
}

#[test]
fn what_every_client_saw_happened_once_and_in_one_order() {
    let mut kinds = BTreeMap::new();
    seeds("proof_history::what_every_client_saw", times(12), |seed| {
        let mut server = Server::start();
        let seen = run(history(&server, seed));
        server.kill();
        let log = read_whole(&server.dir().join("pilothouse.db"));
        let ends = ends(&log);
        if let Err(wrong) = check(&seen, &ends) {
            panic!("seed {seed}: {wrong}");
        }
        let filed =
            |recorded: &&Recorded| matches!(&*recorded.event, Event::ApprovalRequested { .. });
        let filed = log.iter().filter(filed).count();
        assert_eq!(u64::try_from(filed).unwrap(), QUESTIONS, "filed again");
        for seen in &seen {
            let kind = match &seen.what {
                What::Look(None) => "open",
                What::Look(Some(_)) => "ended",
                What::Wish {
                    came: Came::Won(_), ..
                } => "won",
                What::Wish {
                    came: Came::Lost(_),
                    ..
                } => "lost",
                What::Wish {
                    came: Came::Unknown,
                    ..
                } => "unknown",
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
    });
    eprintln!("{kinds:?}");
    for kind in ["open", "ended", "won", "lost", "unknown"] {
        assert!(kinds.contains_key(kind), "nothing {kind}: {kinds:?}");
    }
}

/// The checker finds each kind of fault in a history that has it.
#[test]
fn a_history_that_cannot_have_happened_is_found() {
    let from = Instant::now();
    let ms = |ms: u64| from + Duration::from_millis(ms);
    let end = End {
        word: "granted".into(),
        id: Some("d1".into()),
        at: Some(Timestamp::from_ms(7)),
    };
    let told = End {
        id: None,
        ..end.clone()
    };
    let seen = |call: u64, back: u64, what: What| Seen {
        item: "a".into(),
        call: ms(call),
        back: Some(ms(back)),
        what,
    };
    let wish = |id: &str, came: Came| What::Wish {
        id: id.into(),
        came,
    };
    let good = vec![
        seen(0, 1, What::Look(None)),
        seen(2, 6, wish("d1", Came::Won(end.clone()))),
        seen(3, 5, wish("d2", Came::Lost(told.clone()))),
        // Sent before anybody was back: either answer is right.
        seen(4, 9, What::Look(None)),
        seen(7, 8, What::Look(Some(end.clone()))),
    ];
    let ends = BTreeMap::from([("a".to_owned(), end.clone())]);
    check(&good, &ends).unwrap();
    let with = |more: Seen| [good.clone(), vec![more]].concat();
    let other = End {
        word: "rejected".into(),
        id: Some("d2".into()),
        ..end.clone()
    };
    let wrong = [
        (with(seen(6, 7, What::Look(None))), "open again"),
        (
            with(seen(0, 1, What::Look(Some(end.clone())))),
            "before it was sent",
        ),
        (
            with(seen(0, 1, wish("d3", Came::Lost(told.clone())))),
            "before it was sent",
        ),
        (
            with(seen(3, 5, wish("d2", Came::Won(end.clone())))),
            "told that they won",
        ),
        (with(seen(3, 5, What::Look(Some(other)))), "otherwise"),
        (
            with(seen(3, 5, wish("d1", Came::Lost(told.clone())))),
            "against itself",
        ),
        (good[3..].to_vec(), "nobody sent"),
    ];
    for (history, expected) in wrong {
        let wrong = check(&history, &ends).unwrap_err();
        assert!(wrong.contains(expected), "{expected}: {wrong}");
    }
    let lost = check(&good, &BTreeMap::new()).unwrap_err();
    assert!(lost.contains("the log has no end"), "{lost}");
}
