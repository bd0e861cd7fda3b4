//! The limits: the same work with nothing of ours around it.

use std::{
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use pilothouse::wire::pb::pilothouse::v1::{
    self as pb,
    operator_service_server::{OperatorService, OperatorServiceServer},
};
use rusqlite::{Connection, params};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{BroadcastStream, ReceiverStream},
};
use tonic::{Request, Response, Status};

use crate::ours::Fault;

/// As many as ours takes in one turn.
const BATCH: usize = 1024;

/// What a decision of ours says, to the byte or nearly.
const BODY: &str = r#"{"what":"approval_granted","id":"01JDZ8Q2T3M4N5P6Q7R8S9T0V1","decision":{"id":"d01JDZ8Q2T3M4N5P6Q7R8S9T0V1","decider":{"by":"operator:ops"},"answers":{},"seen":"whole"}}"#;

/// A bare rusqlite program: one thread, one insert each, whoever came during the last commit in the next.
#[derive(Clone)]
pub(crate) struct BareStore {
    queue: SyncSender<oneshot::Sender<()>>,
}

impl BareStore {
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let db = Connection::open(path)?;
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;
             PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864;
             CREATE TABLE ev(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenant TEXT NOT NULL, owner TEXT, run TEXT,
                subject TEXT, kind INTEGER NOT NULL, actor TEXT NOT NULL, decision_id TEXT, key TEXT,
                body TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
             CREATE UNIQUE INDEX ev_end ON ev(subject) WHERE kind BETWEEN 10 AND 19;
             CREATE UNIQUE INDEX ev_decision ON ev(tenant, decision_id) WHERE decision_id IS NOT NULL;",
        )?;
        let (queue, jobs) = sync_channel(8192);
        std::thread::spawn(move || serve(&db, &jobs).expect("a disk"));
        Ok(Self { queue })
    }

    pub(crate) async fn insert(&self) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(answer)?;
        Ok(answered.await?)
    }
}

fn serve(db: &Connection, jobs: &Receiver<oneshot::Sender<()>>) -> rusqlite::Result<()> {
    let mut seq = 0_i64;
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        db.execute_batch("BEGIN IMMEDIATE")?;
        let sql = "INSERT INTO ev VALUES (?1, ?2, 'default', NULL, NULL, ?3, 10, 'operator:ops', ?4, NULL, ?5, ?6)";
        let mut insert = db.prepare_cached(sql)?;
        for _ in &batch {
            seq += 1;
            // Nearly in order, as ids of one moment are.
            let subject = format!("01JD{:012X}{:010X}", seq / 16, spread(seq));
            insert.execute(params![
                seq,
                seq,
                subject,
                format!("d{subject}"),
                BODY,
                [7_u8; 32]
            ])?;
        }
        db.execute_batch("COMMIT")?;
        batch.into_iter().for_each(|answer| {
            let _ = answer.send(());
        });
        if seq % 8192 < BATCH as i64 {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
    }
    Ok(())
}

/// Random in its lower bits, as an id is.
fn spread(seq: i64) -> u64 {
    seq.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24
}

/// A bare server: it streams what it is given, and answers one call with nothing.
#[derive(Clone)]
pub(crate) struct BareServer {
    messages: Arc<Vec<pb::WatchResponse>>,
    live: broadcast::Sender<Arc<pb::WatchResponse>>,
}

impl BareServer {
    pub(crate) fn of(messages: Vec<pb::WatchResponse>) -> Self {
        let messages = messages.into();
        let live = broadcast::Sender::new(4096);
        Self { messages, live }
    }

    pub(crate) fn send(&self, message: pb::WatchResponse) {
        let _ = self.live.send(Arc::new(message));
    }

    /// On a socket, with the settings of ours that cost something.
    pub(crate) fn serve(&self, path: &Path) -> Result<(), Fault> {
        let socket = tokio::net::UnixListener::bind(path)?;
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(socket);
        let service = OperatorServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder()
            .initial_stream_window_size(Some(64 * 1024))
            .initial_connection_window_size(Some(1024 * 1024))
            .add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        Ok(())
    }
}

type Answered<T> = Result<Response<T>, Status>;

fn not_here<T>() -> Answered<T> {
    Err(Status::unimplemented("bare"))
}

#[tonic::async_trait]
impl OperatorService for BareServer {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

    /// With a cursor: all messages, as fast as they are taken. Without: what is sent from now on.
    async fn watch(&self, request: Request<pb::WatchRequest>) -> Answered<Self::WatchStream> {
        if request.into_inner().after.is_none() {
            let live = BroadcastStream::new(self.live.subscribe());
            let live = live.map(|message| match message {
                Ok(message) => Ok((*message).clone()),
                Err(lagged) => Err(Status::data_loss(lagged.to_string())),
            });
            return Ok(Response::new(Box::pin(live)));
        }
        let (to, stream) = mpsc::channel(64);
        let messages = self.messages.clone();
        tokio::spawn(async move {
            for message in messages.iter() {
                if to.send(Ok(message.clone())).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn whoami(&self, _: Request<pb::WhoamiRequest>) -> Answered<pb::WhoamiResponse> {
        Ok(Response::new(pb::WhoamiResponse::default()))
    }

    async fn list(&self, _: Request<pb::ListRequest>) -> Answered<pb::ListResponse> {
        not_here()
    }
    async fn get(&self, _: Request<pb::GetRequest>) -> Answered<pb::GetResponse> {
        not_here()
    }
    async fn get_run(&self, _: Request<pb::GetRunRequest>) -> Answered<pb::GetRunResponse> {
        not_here()
    }
    async fn history(&self, _: Request<pb::HistoryRequest>) -> Answered<pb::HistoryResponse> {
        not_here()
    }
    async fn decide(&self, _: Request<pb::DecideRequest>) -> Answered<pb::DecideResponse> {
        not_here()
    }
    async fn control(&self, _: Request<pb::ControlRequest>) -> Answered<pb::ControlResponse> {
        not_here()
    }
    async fn extend(&self, _: Request<pb::ExtendRequest>) -> Answered<pb::ExtendResponse> {
        not_here()
    }
    async fn dismiss(&self, _: Request<pb::DismissRequest>) -> Answered<pb::DismissResponse> {
        not_here()
    }
    async fn mint_ticket(
        &self,
        _: Request<pb::MintTicketRequest>,
    ) -> Answered<pb::MintTicketResponse> {
        not_here()
    }
}
