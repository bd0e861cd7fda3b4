//! The feed against a server that says, stream by stream, what the test tells it to.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::VecDeque, io, sync::Mutex};

use registry::{
    Event, Name, Principal, Refusal, RunId, Tenant,
    event::Scope,
    run::{Presence, Run, RunKey, RunState, Source},
    state::Row,
};
use tokio::io::DuplexStream;
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, transport};

use super::*;
use crate::wire::{
    pb::pilothouse::v1::{self as pb, operator_service_server as server},
    status::status,
};

/// One stream: the place from which it has to be asked for, what it says, and how it ends.
struct Script {
    from: Option<(&'static str, Seq)>,
    says: Vec<WatchResponse>,
    then: Then,
}

enum Then {
    Ends,
    Stays,
    Refuses(Refusal),
}

struct Fake {
    epoch: Mutex<&'static str>,
    scripts: Mutex<VecDeque<Script>>,
}

type Answer<T> = Result<Response<T>, Status>;
type Said = std::pin::Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl server::OperatorService for Arc<Fake> {
    type WatchStream = Said;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Answer<Said> {
        let from = wire::watch(request.into_inner()).unwrap();
        let Some(script) = self.scripts.lock().unwrap().pop_front() else {
            return Err(Status::unavailable("the script is over"));
        };
        let expected = script.from.map(|(epoch, seq)| (epoch.to_owned(), seq));
        if from != expected {
            return Err(Status::unimplemented(format!("asked from {from:?}")));
        }
        let says = tokio_stream::iter(script.says.into_iter().map(Ok));
        match script.then {
            Then::Ends => Ok(Response::new(Box::pin(says))),
            Then::Stays => Ok(Response::new(Box::pin(says.chain(tokio_stream::pending())))),
            Then::Refuses(refusal) => Err(status(&refusal)),
        }
    }

    async fn whoami(&self, _: Request<pb::WhoamiRequest>) -> Answer<pb::WhoamiResponse> {
        let epoch = *self.epoch.lock().unwrap();
        let who = Principal::new(Name::parse("user:ada").unwrap(), Tenant::local(), []);
        Ok(Response::new(wire::whoami(
            &who,
            "test",
            "0",
            epoch,
            100,
            now(),
        )))
    }

    async fn list(&self, _: Request<pb::ListRequest>) -> Answer<pb::ListResponse> {
        Err(Status::unimplemented(""))
    }
    async fn get(&self, _: Request<pb::GetRequest>) -> Answer<pb::GetResponse> {
        Err(Status::unimplemented(""))
    }
    async fn get_run(&self, _: Request<pb::GetRunRequest>) -> Answer<pb::GetRunResponse> {
        Err(Status::unimplemented(""))
    }
    async fn history(&self, _: Request<pb::HistoryRequest>) -> Answer<pb::HistoryResponse> {
        Err(Status::unimplemented(""))
    }
    async fn decide(&self, _: Request<pb::DecideRequest>) -> Answer<pb::DecideResponse> {
        Err(Status::unimplemented(""))
    }
    async fn control(&self, _: Request<pb::ControlRequest>) -> Answer<pb::ControlResponse> {
        Err(Status::unimplemented(""))
    }
    async fn extend(&self, _: Request<pb::ExtendRequest>) -> Answer<pb::ExtendResponse> {
        Err(Status::unimplemented(""))
    }
    async fn dismiss(&self, _: Request<pb::DismissRequest>) -> Answer<pb::DismissResponse> {
        Err(Status::unimplemented(""))
    }
}

fn now() -> Timestamp {
    Timestamp::from_ms(1_700_000_000_000)
}

fn run() -> RunId {
    RunId::mint(now(), 1)
}

fn row() -> WatchResponse {
    wire::row(&Row::Run(Arc::new(Run {
        id: run(),
        key: RunKey {
            tenant: Tenant::local(),
            source: Source::Native,
            agent: "probe".into(),
            session: "s".into(),
            invocation: "i".into(),
        },
        project: "".into(),
        thread: "".into(),
        origin: "".into(),
        owner: None,
        opened_by: Name::parse("agent:probe").unwrap(),
        parent: None,
        can_resume: false,
        mode: Default::default(),
        opened_at: now(),
        state: RunState::Running,
        presence: Presence::Attached,
        tasks: Default::default(),
        plan: None,
        open: Default::default(),
        pause: None,
        held_by: None,
        drifts: Vec::new(),
        counts: Default::default(),
        controls: Vec::new(),
    })))
}

fn end(epoch: &str, seq: Seq) -> WatchResponse {
    wire::snapshot_end(epoch, seq, now(), now())
}

fn said(seq: Seq, prev_seq: Seq) -> WatchResponse {
    let event = Event::Said {
        run: run(),
        text: "x".into(),
    };
    let recorded = Recorded {
        seq,
        at: now(),
        scope: Scope {
            tenant: Tenant::local(),
            owner: None,
        },
        event: Arc::new(event),
    };
    wire::recorded(&recorded, prev_seq)
}

fn script(from: Option<(&'static str, Seq)>, says: Vec<WatchResponse>, then: Then) -> Script {
    Script { from, says, then }
}

/// What the feed says, up to the last script; a line each, without attempts, pauses and clocks.
async fn told(cursor: Option<Cursor>, scripts: Vec<Script>) -> Vec<String> {
    let (pipes, accepted) = tokio::sync::mpsc::unbounded_channel::<io::Result<DuplexStream>>();
    let fake = Arc::new(Fake {
        epoch: Mutex::new("e1"),
        scripts: Mutex::new(scripts.into()),
    });
    let service = server::OperatorServiceServer::new(fake.clone());
    let serve = transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(UnboundedReceiverStream::new(accepted));
    tokio::spawn(serve);
    let client = Client::over(move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        pipes.send(Ok(theirs)).map_err(io::Error::other)?;
        Ok(ours)
    });
    let mut feed = watch(client, cursor, RetryNow::default());
    let mut lines = Vec::new();
    loop {
        let next = timeout(Duration::from_secs(5), feed.next()).await;
        match next
            .expect("the feed goes on")
            .expect("the feed never ends")
        {
            Feed::Connecting { .. } => {}
            Feed::Online { me, epoch, .. } => lines.push(format!("online {} {epoch}", me.name)),
            Feed::Snapshot { state, .. } => {
                lines.push(format!("{} runs at {}", state.runs().count(), state.head()));
            }
            Feed::Recorded { events, .. } => {
                let seqs: Vec<Seq> = events.iter().map(|event| event.seq).collect();
                lines.push(format!("{seqs:?}"));
            }
            Feed::Offline { why, retry_in } => {
                assert!((Duration::from_millis(100)..=PAUSE_MAX).contains(&retry_in));
                lines.push(format!("offline: {why}"));
            }
        }
        let over = fake.scripts.lock().unwrap().is_empty();
        if over && lines.last().is_some_and(|line| line == "[99]") {
            return lines;
        }
    }
}

/// Every test ends with the event 99.
fn last(from: Option<(&'static str, Seq)>, prev_seq: Seq) -> Script {
    let says = match from {
        Some(_) => vec![said(99, prev_seq)],
        None => vec![end("e1", 98), wire::tick(98, now()), said(99, 98)],
    };
    script(from, says, Then::Stays)
}

#[tokio::test]
async fn after_a_cut_it_goes_on_where_it_was() {
    let says = vec![row(), end("e1", 7), said(8, 7), said(12, 8)];
    let cut = script(None, says, Then::Ends);
    let lines = told(None, vec![cut, last(Some(("e1", 12)), 12)]).await;
    let expected = [
        "online user:ada e1",
        "1 runs at 7",
        "[8, 12]",
        "offline: the server ended the stream",
        "online user:ada e1",
        "[99]",
    ];
    // Whether two events come as one batch is a matter of time only.
    let joined = lines.join("\n").replace("[8]\n[12]", "[8, 12]");
    assert_eq!(joined, expected.join("\n"));
}

#[tokio::test]
async fn a_gap_brings_a_fresh_snapshot() {
    let gap = script(
        None,
        vec![end("e1", 7), wire::tick(9, now()), said(12, 11)],
        Then::Stays,
    );
    let lines = told(None, vec![gap, last(None, 0)]).await;
    let expected = [
        "online user:ada e1",
        "0 runs at 7",
        "[]",
        "offline: events are missing between 7 and 12 (which follows 11)",
        "online user:ada e1",
        "0 runs at 98",
        "[]",
        "[99]",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_place_in_another_log_is_forgotten() {
    let elsewhere = Cursor {
        epoch: "e0".into(),
        seq: 5,
    };
    let lines = told(Some(elsewhere), vec![last(None, 0)]).await;
    let expected = ["online user:ada e1", "0 runs at 98", "[]", "[99]"];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_place_that_the_server_refuses_is_forgotten() {
    let trimmed = Cursor {
        epoch: "e1".into(),
        seq: 5,
    };
    let refuses = Then::Refuses(Refusal::NotFound("place in the log"));
    let scripts = vec![script(Some(("e1", 5)), vec![], refuses), last(None, 0)];
    let expected = [
        "offline: there is no such place in the log",
        "online user:ada e1",
        "0 runs at 98",
        "[]",
        "[99]",
    ];
    assert_eq!(told(Some(trimmed), scripts).await, expected);
}

#[tokio::test]
async fn an_event_amid_what_stands_now_is_not_believed() {
    let early = script(None, vec![row(), said(8, 7)], Then::Stays);
    let expected = [
        "online user:ada e1",
        "offline: an event came before what stands now was complete",
        "online user:ada e1",
        "0 runs at 98",
        "[]",
        "[99]",
    ];
    assert_eq!(told(None, vec![early, last(None, 0)]).await, expected);
}

#[test]
fn only_the_next_event_is_followed() {
    let at = |told, passed| Place {
        epoch: "e1".into(),
        told,
        passed,
    };
    // told, passed by a tick; the event's number and the one it says it follows; whether it is the next
    let rows = [
        (7, 7, 8, 7, true),
        (7, 7, 12, 7, true),
        (7, 10, 12, 7, true),
        (7, 10, 12, 10, true),
        (7, 7, 12, 8, false),
        (7, 7, 12, 6, false),
        (7, 7, 7, 7, false),
        (7, 10, 9, 7, false),
        (7, 10, 12, 11, false),
    ];
    for (told, passed, seq, prev_seq, is_next) in rows {
        let Ok(Watched::Recorded { recorded, .. }) = wire::watched(said(seq, prev_seq)) else {
            panic!("an event")
        };
        let followed = at(told, passed).follow(&recorded, prev_seq);
        assert_eq!(
            followed.is_ok(),
            is_next,
            "{seq} after {prev_seq} at {told}/{passed}"
        );
    }
}
