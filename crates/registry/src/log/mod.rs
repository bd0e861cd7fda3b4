//! Where facts are kept.
//!
//! A [`Log`] is written in turns. A turn holds the lock of its store: what others wrote since the
//! last one is folded before anything is decided, so there is no conflict path and no second try.
//! A sequence number is taken under that lock: gapless, and visible only after all smaller ones.

use thiserror::Error;

use crate::{
    approval::{ApprovalId, Settled},
    digest::Sha256,
    escalation::{Closed, EscalationId},
    event::{Event, Recorded, Seq},
    names::{DecisionId, Key},
    run::RunId,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Tenant},
};

mod file;
mod history;
mod memory;
mod sqlite;
#[cfg(test)]
mod tests;
mod trim;

pub use file::{Copied, Fault, LogFile, Stored};
pub use history::{EndedAs, Filter, HistoryPage, HistoryQuery, LOOKED_AT};
pub use memory::Memory;
pub use sqlite::Sqlite;
pub use trim::{Jump, Sweep, Swept};

/// Which log this is: a cursor of another one means nothing here.
pub type Epoch = String;

/// Where facts are kept.
pub trait Log: Send {
    /// Takes the lock. `wall` is the caller's clock; time never runs backwards in a log, so the
    /// turn's own moment is the later of that and the last event's.
    ///
    /// # Errors
    /// [`LogError`]; nothing is held then.
    fn turn(&mut self, wall: Timestamp) -> Result<Box<dyn Turn + '_>, LogError>;

    /// A reader of what is committed, for another thread.
    ///
    /// # Errors
    /// [`LogError`], if the store cannot be opened once more.
    fn reader(&self) -> Result<Box<dyn Reader>, LogError>;

    /// Which log this is.
    fn epoch(&self) -> &Epoch;

    /// Work to do when nobody waits: moving what was written to its place.
    ///
    /// # Errors
    /// [`LogError`]; what was committed stays committed.
    fn rest(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    /// Before it ends: what was committed is all in one file.
    ///
    /// # Errors
    /// [`LogError`], if the disk fails.
    fn close(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    /// One slice of a sweep: takes the content of what ended long ago out of the log. Whoever sweeps asks again until it is
    /// [`Swept::Done`], records what was taken as [`Event::HistoryTrimmed`], and has then swept. A process that ends meanwhile
    /// leaves a sweep that the next one ends.
    ///
    /// # Errors
    /// [`LogError`], as for a commit.
    fn trim(&mut self, sweep: &Sweep) -> Result<Swept, LogError>;
}

/// One turn of writing. Dropped without a commit, it leaves nothing behind.
pub trait Turn {
    /// What others wrote since this Log's last turn, oldest first. On the first turn that is
    /// everything.
    fn missed(&self) -> &[Recorded];

    /// The moment at which this turn's events are recorded.
    fn now(&self) -> Timestamp;

    /// The newest event that is committed.
    fn head(&self) -> Seq;

    /// Writes it all, or nothing, and lets the lock go.
    ///
    /// # Errors
    /// [`LogError::Full`]: rolled back, and the log is as before. [`LogError::Broken`]: what is on
    /// disk is unknown, and the process has to end.
    fn commit(self: Box<Self>, writes: Writes) -> Result<(), LogError>;
}

/// What one turn writes.
#[derive(Debug, Default)]
pub struct Writes {
    /// The events, in order; the first has the number after the head.
    pub events: Vec<Entry>,
    /// What is large, by the approval it belongs to.
    pub details: Vec<(ApprovalId, Vec<u8>)>,
    /// Secret answers, sealed by whoever has the key, by the approval they belong to. They are in
    /// no event.
    pub sealed: Vec<(ApprovalId, Vec<u8>)>,
    /// Those that nobody needs any more.
    pub unsealed: Vec<ApprovalId>,
    /// Foreign originals of a run: why do we think so?
    pub frames: Vec<(RunId, Vec<u8>)>,
}

impl Writes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.details.is_empty()
            && self.sealed.is_empty()
            && self.unsealed.is_empty()
            && self.frames.is_empty()
    }
}

/// One event to be written.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The event as it will be recorded.
    pub recorded: Recorded,
    /// Whose wish it was.
    pub actor: Name,
}

/// Foreign originals kept for one run, counted; older ones make room.
pub const FRAMES_KEPT: usize = 256;

/// What is committed, read by anybody.
pub trait Reader: Send {
    /// The newest event.
    ///
    /// # Errors
    /// [`LogError`].
    fn head(&self) -> Result<Seq, LogError>;

    /// At most `limit` events after `after`, oldest first.
    ///
    /// # Errors
    /// [`LogError`].
    fn read(&self, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError>;

    /// The newest event whose content was trimmed; 0 where none was. A reader who stands before it has to begin anew.
    ///
    /// # Errors
    /// [`LogError`].
    fn floor(&self) -> Result<Seq, LogError>;

    /// The hash over an event and all before it; none where there is no such event.
    ///
    /// # Errors
    /// [`LogError`].
    fn hash_at(&self, seq: Seq) -> Result<Option<Sha256>, LogError>;

    /// The stored [`Detail`](crate::Detail) of an approval.
    ///
    /// # Errors
    /// [`LogError`].
    fn detail(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError>;

    /// The secret answers of an approval, sealed as they were written.
    ///
    /// # Errors
    /// [`LogError`].
    fn sealed(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError>;

    /// An approval that has ended, however long ago.
    ///
    /// # Errors
    /// [`LogError`].
    fn settled(&self, id: ApprovalId) -> Result<Option<Settled>, LogError>;

    /// An escalation that is over, however long ago.
    ///
    /// # Errors
    /// [`LogError`].
    fn closed(&self, id: EscalationId) -> Result<Option<Closed>, LogError>;

    /// What was asked in one step of a run and has ended, however long ago, in the order in which it was asked.
    ///
    /// # Errors
    /// [`LogError`].
    fn settled_in(&self, run: RunId, step: &Untrusted) -> Result<Vec<Settled>, LogError>;

    /// What was filed under a key.
    ///
    /// # Errors
    /// [`LogError`].
    fn filed_under(&self, tenant: &Tenant, key: &Key) -> Result<Option<ApprovalId>, LogError>;

    /// What a decision id decided.
    ///
    /// # Errors
    /// [`LogError`].
    fn decided_by(
        &self,
        tenant: &Tenant,
        decision: &DecisionId,
    ) -> Result<Option<ApprovalId>, LogError>;

    /// Approvals and escalations that ended, newest first: one page of them.
    ///
    /// # Errors
    /// [`LogError`].
    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, LogError>;

    /// What a run said, planned and did, oldest first, at most `limit` events after `after`.
    ///
    /// # Errors
    /// [`LogError`].
    fn record(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError>;

    /// The foreign originals of a run that are kept, oldest first.
    ///
    /// # Errors
    /// [`LogError`].
    fn frames(&self, run: RunId) -> Result<Vec<Vec<u8>>, LogError>;
}

/// Why a log could not do what it was asked.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk is full; nothing was written, and the log is as before.
    #[error("no space left: {0}")]
    Full(String),
    /// Somebody else holds the lock for too long.
    #[error("the log is locked by another process: {0}")]
    Locked(String),
    /// Written by a newer version, or not by us.
    #[error("cannot read this log: {0}")]
    Foreign(String),
    /// Reading or writing failed; what is on disk is unknown.
    #[error("the log is broken: {0}")]
    Broken(String),
}

/// The link of one event to all before it:
/// SHA-256(previous ‖ seq ‖ at ‖ body as stored), numbers as 8 bytes, big-endian. Before the first
/// stands the hash of the epoch, so that the chain of one log does not go on in another.
pub fn link(previous: &Sha256, seq: Seq, at: Timestamp, body: &str) -> Sha256 {
    let mut bytes = Vec::with_capacity(48 + body.len());
    bytes.extend_from_slice(previous.bytes());
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(&at.ms().to_be_bytes());
    bytes.extend_from_slice(body.as_bytes());
    Sha256::of(&bytes)
}

/// Where a log ends: the newest event, and the hash over it and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tip {
    seq: Seq,
    at: Timestamp,
    hash: Sha256,
}

impl Tip {
    fn of_nothing(epoch: &str) -> Self {
        Self {
            seq: 0,
            at: Timestamp::default(),
            hash: Sha256::of(epoch),
        }
    }

    /// The end after one more event: gapless, and never earlier than the one before.
    fn then(&self, next: &Recorded, body: &str) -> Result<Self, LogError> {
        let (seq, at) = (next.seq, next.at);
        if seq != self.seq + 1 || at < self.at {
            return Err(broken_assertion(format!(
                "event {seq} at {} ms cannot follow event {} at {} ms",
                at.ms(),
                self.seq,
                self.at.ms()
            )));
        }
        let hash = link(&self.hash, seq, at, body);
        Ok(Self { seq, at, hash })
    }
}

/// What the rules have already made impossible; the caller ends the process.
pub(crate) fn broken_assertion(what: impl std::fmt::Display) -> LogError {
    LogError::Broken(format!("assertion failed, nothing was written: {what}"))
}

/// An approval that has ended, folded from the events that are about it.
///
/// Nothing is forgotten on the way: what came of a decision may be told long after it.
pub(crate) fn fold_settled(events: impl IntoIterator<Item = Recorded>) -> Option<Settled> {
    let mut state = crate::State::default();
    let mut id = None;
    for recorded in events {
        id = id.or(recorded.event.approval());
        state.fold(&recorded);
    }
    state.settled(id?).map(|settled| (**settled).clone())
}

/// What was asked in one step, of all that was asked in its run.
pub(crate) fn asked_in(
    step: &Untrusted,
    requested: impl IntoIterator<Item = Recorded>,
) -> impl Iterator<Item = ApprovalId> {
    requested
        .into_iter()
        .filter_map(|recorded| match &*recorded.event {
            Event::ApprovalRequested { approval } => {
                (approval.step == *step).then_some(approval.id)
            }
            _ => None,
        })
}

/// An escalation that is over, folded from the events that are about it.
pub(crate) fn fold_closed(events: impl IntoIterator<Item = Recorded>) -> Option<Closed> {
    let mut state = crate::State::default();
    let mut id = None;
    for recorded in events {
        id = id.or(recorded.event.escalation());
        state.fold(&recorded);
    }
    state.closed(id?).map(|closed| (**closed).clone())
}

/// The body of an event as it is stored: JSON text.
pub(crate) fn body(event: &Event) -> Result<String, LogError> {
    // Tagged structs of strings, integers and checked finite numbers: JSON can always say them.
    serde_json::to_string(event).map_err(broken_assertion)
}
