//! Watch as a stream that never ends: it connects again, goes on where it was, and says so.
//!
//! Invariant: whoever applies every [`Feed::Recorded`] to the last [`Feed::Snapshot`] has missed
//! nothing that they may see. Where that cannot be shown, a fresh snapshot comes first.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::FutureExt;
use registry::{Recorded, Seq, State, Timestamp};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, timeout},
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use super::{
    backoff::{PAUSE_MAX, pause},
    client::{CALL_TIMEOUT, CallError, Client},
};
use crate::wire::{
    pb::pilothouse::v1::WatchResponse,
    pilothouse::{self as wire, Garbled, Me, Watched},
};

/// Ticks come every 10 s: two may be late, then the connection is dead.
const SILENCE_MAX: Duration = Duration::from_secs(25);
/// Events in one [`Feed::Recorded`], counted.
const BATCH_COUNT: usize = 512;
/// Messages that wait for the reader, counted; beyond them the server waits.
const FEED_COUNT: usize = 16;

/// A place in a log. Of another log it means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Which log.
    pub epoch: String,
    /// The newest event that is known.
    pub seq: Seq,
}

/// What a watcher is told. Every `server_now` is the server's clock, which goes on ticking here between two messages.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // who we are comes once for each connection
pub enum Feed {
    /// It tries to reach the server.
    Connecting {
        /// For how many times since it last was there, from 1.
        attempt: u32,
    },
    /// The server answers.
    Online {
        /// Who we are to it.
        me: Me,
        /// Which log it has.
        epoch: String,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// What stands now, in place of all that was known.
    Snapshot {
        /// All of it.
        state: Box<State>,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// What happened since.
    Recorded {
        /// In order, without a gap. None of them, where only the clock is told.
        events: Vec<Recorded>,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// The server is not there; what is known ages.
    Offline {
        /// Why, for people.
        why: String,
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// Ends the pause between two attempts.
#[derive(Clone, Debug, Default)]
pub struct RetryNow(Arc<Notify>);

impl RetryNow {
    /// Now. Nothing happens where nobody pauses.
    pub fn now(&self) {
        self.0.notify_waiters();
    }
}

/// Follows the server's log for as long as the stream is held: from `cursor`, or from what stands
/// now. To be called inside a tokio runtime.
pub fn watch(
    client: Client,
    cursor: Option<Cursor>,
    retry: RetryNow,
) -> impl Stream<Item = Feed> + Send + Unpin + use<> {
    let (out, feed) = mpsc::channel(FEED_COUNT);
    let watcher = Watcher {
        client,
        out: out.clone(),
        place: cursor.map(Place::at),
        online_since: None,
        clock: (Timestamp::default(), Instant::now()),
    };
    tokio::spawn(async move {
        tokio::select! {
            () = out.closed() => {}
            _ = watcher.keep_on(retry) => {}
        }
    });
    ReceiverStream::new(feed)
}

struct Watcher {
    client: Client,
    out: mpsc::Sender<Feed>,
    place: Option<Place>,
    online_since: Option<Instant>,
    /// What the server's clock said, and when.
    clock: (Timestamp, Instant),
}

/// How far we are in which log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    epoch: String,
    /// The newest event that was told.
    told: Seq,
    /// The newest event that was passed, told or not ours to see.
    passed: Seq,
}

impl Place {
    fn at(Cursor { epoch, seq }: Cursor) -> Self {
        let (told, passed) = (seq, seq);
        Self {
            epoch,
            told,
            passed,
        }
    }

    /// Takes the next event, if it is the next one.
    fn follow(&mut self, recorded: &Recorded, prev_seq: Seq) -> Result<(), Lost> {
        let known = (self.told..=self.passed).contains(&prev_seq);
        if !known || recorded.seq <= self.passed {
            return Err(Lost::Gap {
                after: self.told,
                prev_seq,
                seq: recorded.seq,
            });
        }
        (self.told, self.passed) = (recorded.seq, recorded.seq);
        Ok(())
    }
}

/// The reader of the feed is gone.
struct NobodyReads;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("the server ended the stream")]
    Ended,
    #[error("no sign of life for {} s", SILENCE_MAX.as_secs())]
    Silent,
    #[error("events are missing between {after} and {seq} (which follows {prev_seq})")]
    Gap { after: Seq, prev_seq: Seq, seq: Seq },
    #[error("an event came before what stands now was complete")]
    TooEarly,
    #[error("nobody reads")]
    NobodyReads,
}

impl From<Garbled> for Lost {
    fn from(garbled: Garbled) -> Self {
        Self::Call(CallError::Garbled(garbled))
    }
}

impl From<NobodyReads> for Lost {
    fn from(_: NobodyReads) -> Self {
        Self::NobodyReads
    }
}

impl Lost {
    /// Whether to begin again with what stands now: where the log does not go on as we know it, the
    /// server refuses our place, or cannot say what happened.
    fn loses_place(&self) -> bool {
        match self {
            Self::Gap { .. } | Self::TooEarly | Self::Call(CallError::Garbled(_)) => true,
            Self::Call(CallError::Refused(told)) => {
                !["unauthenticated", "unavailable", "busy", "rate_limited"].contains(&&*told.word)
            }
            Self::Call(CallError::NoServer(_)) | Self::Ended | Self::Silent | Self::NobodyReads => {
                false
            }
        }
    }
}

impl Lost {
    /// Whether the server is there, and only our place in its log is not: there is nothing to wait for. The place is let go of,
    /// so it is said once.
    fn begins_anew(&self) -> bool {
        let Self::Call(CallError::Refused(told)) = self else {
            return false;
        };
        ["compacted", "diverged"].contains(&&*told.word)
    }
}

impl Watcher {
    async fn keep_on(mut self, retry: RetryNow) -> Result<Infallible, NobodyReads> {
        let mut attempt = 0_u32;
        loop {
            attempt = attempt.saturating_add(1);
            self.say(Feed::Connecting { attempt }).await?;
            let Err(lost) = self.follow().await;
            if lost.loses_place() {
                self.place = None;
            }
            let online_since = self.online_since.take();
            if online_since.is_some_and(|since| since.elapsed() >= PAUSE_MAX) {
                attempt = 0;
            }
            self.client.reconnect();
            let retry_in = match lost.begins_anew() {
                true => Duration::ZERO,
                false => pause(attempt),
            };
            let why = lost.to_string();
            self.say(Feed::Offline { why, retry_in }).await?;
            tokio::select! {
                () = sleep(retry_in) => {}
                () = retry.0.notified() => {}
            }
        }
    }

    async fn follow(&mut self) -> Result<Infallible, Lost> {
        let mut line = self.connect().await?;
        let mut rows = Vec::new();
        loop {
            match line.next().await? {
                Watched::Row(row) => rows.push(row),
                Watched::End {
                    epoch,
                    seq,
                    last_at,
                    server_now,
                } => {
                    let state = State::from_rows(seq, last_at, std::mem::take(&mut rows));
                    self.stand(Cursor { epoch, seq }, state, server_now).await?;
                }
                Watched::Recorded { .. } if !rows.is_empty() => return Err(Lost::TooEarly),
                Watched::Recorded { recorded, prev_seq } => {
                    self.go_on(&mut line, recorded, prev_seq).await?;
                }
                Watched::Tick { seq, server_now } => self.tick(seq, server_now).await?,
            }
        }
    }

    async fn connect(&mut self) -> Result<Line, Lost> {
        let me = self.client.whoami_once().await?;
        // Another log, or one that was put back to an earlier time: our place means nothing in it.
        let goes_on = |place: &Place| place.epoch == me.epoch && place.passed <= me.head;
        self.place = self.place.take().filter(goes_on);
        if let Some(place) = &mut self.place {
            // All of ours up to there was told: so a watcher to whom nothing happens moves on, too.
            place.told = place.passed;
        }
        let after = self.place.as_ref();
        let request = wire::ask_watch(after.map(|place| (place.epoch.as_str(), place.told)));
        let mut operator = self.client.operator();
        let stream = match timeout(CALL_TIMEOUT, operator.watch(request)).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(CallError::of(&status).into()),
            Err(_) => return Err(CallError::silent(CALL_TIMEOUT).into()),
        };
        self.online_since = Some(Instant::now());
        let (epoch, server_now) = (me.epoch.clone(), self.set_clock(me.server_now));
        self.say(Feed::Online {
            me,
            epoch,
            server_now,
        })
        .await?;
        let held = None;
        Ok(Line { stream, held })
    }

    async fn stand(
        &mut self,
        cursor: Cursor,
        state: State,
        server_now: Timestamp,
    ) -> Result<(), NobodyReads> {
        self.place = Some(Place::at(cursor));
        let server_now = self.set_clock(server_now);
        let state = Box::new(state);
        self.say(Feed::Snapshot { state, server_now }).await
    }

    /// Tells this event, and those that are at hand already.
    async fn go_on(
        &mut self,
        line: &mut Line,
        recorded: Recorded,
        prev_seq: Seq,
    ) -> Result<(), Lost> {
        let place = self.place.as_mut().ok_or(Lost::TooEarly)?;
        let mut events = Vec::new();
        let mut next = Some((recorded, prev_seq));
        while let Some((recorded, prev_seq)) = next {
            place.follow(&recorded, prev_seq)?;
            events.push(recorded);
            let room = events.len() < BATCH_COUNT;
            next = room.then(|| line.event_at_hand()).flatten();
        }
        let server_now = self.server_now();
        self.say(Feed::Recorded { events, server_now }).await?;
        Ok(())
    }

    async fn tick(&mut self, seq: Seq, server_now: Timestamp) -> Result<(), NobodyReads> {
        if let Some(place) = &mut self.place {
            place.passed = place.passed.max(seq);
        }
        let server_now = self.set_clock(server_now);
        let events = Vec::new();
        self.say(Feed::Recorded { events, server_now }).await
    }

    async fn say(&self, feed: Feed) -> Result<(), NobodyReads> {
        self.out.send(feed).await.map_err(|_| NobodyReads)
    }

    fn set_clock(&mut self, server_now: Timestamp) -> Timestamp {
        self.clock = (server_now, Instant::now());
        server_now
    }

    /// An event says when it was recorded, which may be long ago; so the clock is kept here.
    fn server_now(&self) -> Timestamp {
        let (told, since) = self.clock;
        told.plus(since.elapsed())
    }
}

/// One stream of the server, and what was read ahead of it.
struct Line {
    stream: Streaming<WatchResponse>,
    held: Option<Result<Watched, Lost>>,
}

impl Line {
    async fn next(&mut self) -> Result<Watched, Lost> {
        if let Some(held) = self.held.take() {
            return held;
        }
        match timeout(SILENCE_MAX, self.stream.message()).await {
            Ok(message) => read(message),
            Err(_) => Err(Lost::Silent),
        }
    }

    /// The next event, if it has arrived and is the next message.
    fn event_at_hand(&mut self) -> Option<(Recorded, Seq)> {
        match read(self.stream.message().now_or_never()?) {
            Ok(Watched::Recorded { recorded, prev_seq }) => Some((recorded, prev_seq)),
            other => {
                self.held = Some(other);
                None
            }
        }
    }
}

fn read(message: Result<Option<WatchResponse>, Status>) -> Result<Watched, Lost> {
    match message {
        Ok(Some(message)) => Ok(wire::watched(message)?),
        Ok(None) => Err(Lost::Ended),
        Err(status) => Err(CallError::of(&status).into()),
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
