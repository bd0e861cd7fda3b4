//! What the loop tells the dashboard, and what the dashboard wants done.

use std::{ops::Range, time::Duration};

use registry::{
    Approval, ApprovalId, Detail, Digest, EscalationId, Name, Principal, Recorded, Refusal, Role,
    RunId, Seq, State, Tenant, Timestamp, Untrusted,
    approval::{Seen, Verdict},
    command::Order,
    escalation::Ended,
    form::RawAnswers,
    names::{ControlId, DecisionId},
    run::RunState,
    who::{Verb, may},
};

use super::keys::Key;

/// A moment of the loop's monotonic clock: how long after its start.
pub type Moment = Duration;

/// What happened.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted: never a command.
    Paste(String),
    /// The terminal has another size now: columns, rows.
    Resized(u16, u16),
    /// The terminal window has the focus, or lost it.
    Focus(bool),
    /// Time passed.
    Tick,
    /// The connection changed.
    Link(Link),
    /// All that stands now; it replaces the mirror. Drafts stay.
    Snapshot {
        /// The mirror.
        state: State,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// What was recorded after that, in order.
    Recorded {
        /// The events.
        events: Vec<Recorded>,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// What was fetched for a card; or why it could not be.
    Detail {
        /// Which card.
        id: ApprovalId,
        /// Its detail.
        detail: Result<Detail, String>,
    },
    /// The record of a run; or why it could not be fetched.
    RunRecord {
        /// Which run.
        id: RunId,
        /// Its events, in order; those that lanes are not made from may be left out.
        record: Result<Vec<Recorded>, String>,
    },
    /// What ended before an event; or why it could not be fetched.
    History {
        /// As it was asked for.
        before: Option<Seq>,
        /// A page, newest first, and before which event the next one begins.
        page: Result<(Vec<Ended>, Option<Seq>), String>,
    },
    /// The server answered a decision. The fact itself comes as an event.
    Decided {
        /// Which decision.
        decision: DecisionId,
        /// Whether it was taken.
        result: Result<(), SubmitError>,
    },
    /// The server answered an order. What becomes of it comes as events.
    Ordered {
        /// Which order.
        order: ControlId,
        /// Whether it was taken.
        result: Result<(), SubmitError>,
    },
    /// The frame that `view` returned this for was written.
    Drawn(Drawn),
}

/// How the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Trying.
    Connecting {
        /// Counted from 1.
        attempt: u32,
    },
    /// Connected.
    Online {
        /// Who we are there.
        me: Me,
        /// Which log it is.
        epoch: String,
    },
    /// Not connected.
    Offline {
        /// In plain words.
        why: String,
        /// When the next try begins.
        retry_at: Moment,
    },
}

/// Who we are, as the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// What the record will say.
    pub name: Name,
    /// What we may do.
    pub roles: Vec<Role>,
    /// Whose cards we see.
    pub tenant: Tenant,
}

impl Me {
    /// Whether we may answer this, for what is offered; what is taken, the server says.
    ///
    /// # Errors
    /// [`Refusal::NotYours`] that says who may.
    pub(super) fn may_answer(&self, approval: &Approval) -> Result<(), Refusal> {
        may(
            &self.principal(),
            Verb::Decide(approval.asks),
            approval.owner.as_ref(),
            None,
        )
        .map(drop)
    }

    pub(super) fn principal(&self) -> Principal {
        let roles = self.roles.iter().copied();
        Principal::new(self.name.clone(), self.tenant.clone(), roles)
    }
}

/// Why a decision was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The server said no.
    Refused(Refused),
    /// It did not reach the server, or its answer did not reach us. The same decision may be sent again.
    NotSent(String),
}

/// A refusal, as it came over the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// `already_settled`, `stale`, `answers`: what programs match on.
    pub word: String,
    /// For the operator.
    pub message: String,
    /// Field name and message, where answers were wrong.
    pub fields: Vec<(String, String)>,
}

/// What the dashboard wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Fetch the detail of a card.
    FetchDetail(ApprovalId),
    /// Fetch the record of a run.
    FetchRun(RunId),
    /// Fetch a page of what ended before an event; of what ended last, where none is named.
    FetchHistory {
        /// The event.
        before: Option<Seq>,
    },
    /// Send a decision.
    Submit(Submit),
    /// Give an order to a run.
    Order(Order),
    /// Connect now.
    RetryNow,
    /// Leave.
    Quit,
    /// Stop, and go back to the shell.
    Suspend,
    /// Clear the terminal and draw everything.
    Repaint,
    /// Put this on the clipboard.
    Copy(String),
    /// Ring.
    Bell,
    /// Call the window so. Holds no foreign text.
    Title(String),
}

/// A decision, bound to the card that was on the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    /// Which card.
    pub id: ApprovalId,
    /// What it showed.
    pub digest: Digest,
    /// Kept for every retry of the same decision.
    pub decision: DecisionId,
    /// Yes or no.
    pub verdict: Verdict,
    /// As typed; what was left alone is left out.
    pub answers: RawAnswers,
    /// What was written beside it.
    pub note: Untrusted,
    /// How much had been seen.
    pub seen: Seen,
}

/// What a frame showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// [`Model::generation`](super::Model::generation) of what was drawn.
    pub generation: u64,
    /// Columns and rows.
    pub size: (u16, u16),
    /// The list, where it was drawn.
    pub list: Option<ListDrawn>,
    /// The card, where it was drawn and nothing stood before it.
    pub card: Option<CardDrawn>,
    /// The run that an order would go to, where its card was drawn and nothing stood before it.
    pub run: Option<RunDrawn>,
    /// Whether «are you sure?» stood before the card.
    pub confirming: bool,
    /// Rows of the help: the first, how many fit, how many there are.
    pub help: Option<Rows>,
    /// The lanes of a run, likewise.
    pub lanes: Option<Rows>,
}

impl Drawn {
    /// The rows of the card, whatever it is about.
    pub(super) fn card_rows(&self) -> Option<Rows> {
        let card = self.card.as_ref().map(|card| card.rows);
        card.or(self.run.map(|run| run.rows))
    }
}

/// Which rows of a longer text were on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The first.
    pub top: usize,
    /// How many fit.
    pub height: usize,
    /// How many there are.
    pub all: usize,
}

/// The list as it was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListDrawn {
    /// Its rows.
    pub rows: Rows,
}

/// The card as it was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardDrawn {
    /// What it was.
    pub face: Face,
    /// Its rows.
    pub rows: Rows,
    /// Whether it was drawn with its escapes spelled out.
    pub raw: bool,
    /// Which bytes of its text could be read.
    pub seen: Vec<Range<usize>>,
    /// Rows that have not been on the screen yet, this frame counted.
    pub unseen_rows: usize,
    /// How many of them are above the window.
    pub unseen_above: usize,
}

/// What a card was when it was drawn; while this is the same, it is the same card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// Which card.
    pub id: ApprovalId,
    /// What it shows.
    pub digest: Digest,
    /// Whether its detail was there.
    pub readable: bool,
    /// Whether it had ended.
    pub settled: bool,
    /// What happened to it meanwhile: counts attempts, waiters that gave up, moved deadlines.
    pub happened: u64,
}

/// A run, or the card of one that stands still, as it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunDrawn {
    /// What it was.
    pub face: RunFace,
    /// The rows of its card.
    pub rows: Rows,
}

/// What a run was when it was drawn; while this is the same, an order to it means the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFace {
    /// Which run.
    pub run: RunId,
    /// The escalation that is answered.
    pub held: Option<EscalationId>,
    /// Whether that was over.
    pub closed: bool,
    /// What the run did; none where it is not known any more.
    pub state: Option<RunState>,
    /// Whether its agent was gone.
    pub away: bool,
    /// Whether an order waited for an agent that takes it.
    pub unheard: bool,
    /// How many drifts of it were known, and when the newest came.
    pub drifted: (usize, Option<Timestamp>),
    /// Its plan, and what would end with it: a hash of both.
    pub plan: u64,
}
