//! Streams: what stands now, then every fact that the watcher may see.
//!
//! Invariant: nothing queues for a watcher but the few messages that are on their way. One that does not read holds up
//! only itself, and after a while not even that.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use registry::{Name, Principal, Seq, Tenant, event::Recorded, state::Row, who::sees};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, timeout, timeout_at},
};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    Server,
    limits::seconds,
    metrics::Metrics,
    owner::Owner,
    rates::{Place, SeldomBy},
    stop::{Stop, Until},
};
use crate::wire::{pb::pilothouse::v1::WatchResponse, pilothouse as wire};

/// Messages on their way to one watcher, counted; past it the flow control of the stream holds its reader.
const IN_FLIGHT: usize = 16;
/// How often it is said of one caller that their streams are not read.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Who holds a stream.
pub(super) type StreamPlace = Place<(Tenant, Name)>;

impl Server {
    /// The stream of one watcher; its place is let go with it.
    pub(super) fn watching(
        &self,
        by: Principal,
        after: Option<Seq>,
        place: StreamPlace,
    ) -> Watching {
        let (to, messages) = mpsc::channel(IN_FLIGHT);
        let last = Last::default();
        let watcher = Watcher {
            owner: self.owner.clone(),
            stop: self.stop.clone(),
            metrics: self.metrics.clone(),
            stalls: self.stalls.clone(),
            stalled: seconds(self.limits.stalled_seconds),
            tick: seconds(self.limits.tick_seconds),
            by,
            to,
            last: last.clone(),
            prev: 0,
            passed: 0,
        };
        tokio::spawn(watcher.run(after));
        Watching {
            messages,
            last,
            _place: place,
        }
    }
}

/// Why a stream ended; said after what was on its way, which may be read late.
#[derive(Clone, Default)]
struct Last(Arc<Mutex<Option<Status>>>);

impl Last {
    fn say(&self, why: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn take(&self) -> Option<Status> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.take()
    }
}

/// What tonic sends to one watcher.
pub(super) struct Watching {
    messages: mpsc::Receiver<WatchResponse>,
    last: Last,
    _place: StreamPlace,
}

impl Stream for Watching {
    type Item = Result<WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = std::task::ready!(self.messages.poll_recv(context));
        Poll::Ready(match message {
            Some(message) => Some(Ok(message)),
            None => self.last.take().map(Err),
        })
    }
}

/// What fills the stream of one watcher.
struct Watcher {
    owner: Owner,
    stop: Stop,
    metrics: Arc<Metrics>,
    stalls: SeldomBy<Name>,
    /// How long it is waited for a reader.
    stalled: Duration,
    tick: Duration,
    by: Principal,
    to: mpsc::Sender<WatchResponse>,
    last: Last,
    prev: Seq,
    /// The newest event of which all that it may see was sent.
    passed: Seq,
}

/// The reader has gone, or will be gone.
struct Gone;

impl Watcher {
    async fn run(mut self, after: Option<Seq>) {
        let (stop, to) = (self.stop.clone(), self.to.clone());
        let ended = {
            let gone = to.closed();
            tokio::pin!(gone);
            let work = stop.wait().until(self.tell_all(after));
            tokio::select! {
                biased;
                () = &mut gone => return,
                ended = work => ended,
            }
        };
        let upto = self.passed;
        if ended.is_none() {
            // How far it was, for whoever has room for it.
            let _ = self.to.try_send(wire::tick(upto, self.owner.now()));
            let why = format!("the server is stopping; all up to event {upto} was sent");
            self.last.say(Status::unavailable(why));
        }
    }

    async fn tell_all(&mut self, after: Option<Seq>) -> Result<(), Gone> {
        let after = match after {
            Some(seq) => seq,
            None => self.begin().await?,
        };
        (self.prev, self.passed) = (after, after);
        let mut cursor = self.owner.cursor(after);
        let mut tick = Instant::now() + self.tick;
        loop {
            match timeout_at(tick, cursor.next()).await {
                Ok(Some(events)) => self.tell(&events).await?,
                Ok(None) => {
                    let why = Status::unavailable("the log cannot be read");
                    self.last.say(why);
                    return Err(Gone);
                }
                Err(_) => {
                    self.send(wire::tick(self.passed, self.owner.now())).await?;
                    tick = Instant::now() + self.tick;
                }
            }
        }
    }

    /// The rows of the committed State, and the event up to which they hold.
    async fn begin(&mut self) -> Result<Seq, Gone> {
        let (rows, seq, at) = self.owner.snapshot();
        let mine = rows
            .into_iter()
            .filter(|row: &Row| sees(&self.by, &row.scope()));
        for row in mine.collect::<Vec<_>>() {
            self.send(wire::row(&row)).await?;
        }
        let end = wire::snapshot_end(self.owner.epoch(), seq, at, self.owner.now());
        self.send(end).await?;
        Ok(seq)
    }

    async fn tell(&mut self, events: &[Arc<Recorded>]) -> Result<(), Gone> {
        for recorded in events {
            if sees(&self.by, &recorded.scope) {
                self.send(wire::recorded(recorded, self.prev)).await?;
                self.prev = recorded.seq;
            }
            self.passed = recorded.seq;
        }
        Ok(())
    }

    /// Waits for room, but not for ever.
    async fn send(&self, message: WatchResponse) -> Result<(), Gone> {
        let message = match self.to.try_send(message) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Gone),
            Err(TrySendError::Full(message)) => message,
        };
        match timeout(self.stalled, self.to.send(message)).await {
            Ok(sent) => sent.map_err(|_| Gone),
            Err(_) => {
                self.metrics.stalled.add(1);
                let (who, upto) = (self.by.name(), self.passed);
                if self.stalls.now(who.clone(), SAID_EVERY) {
                    let secs = self.stalled.as_secs();
                    tracing::warn!(
                        who = who.as_str(),
                        upto,
                        "a stream was not read for {secs} s; it is ended"
                    );
                }
                self.last.say(Status::unavailable(format!(
                    "this stream was not read for {} s; all up to event {upto} was sent: go on from there",
                    self.stalled.as_secs()
                )));
                Err(Gone)
            }
        }
    }
}
