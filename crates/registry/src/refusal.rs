//! Why a wish was not done, for the person who can fix it.
//!
//! The variants stand in the order in which they are looked for (DESIGN §4.5); one table maps each
//! to one gRPC code and one HTTP status.

use std::time::Duration;

use thiserror::Error;

use crate::{digest::Digest, escalation::ItemId, form::FieldError, time::Timestamp, who::Name};

/// Why a wish was not done.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// No credential, or none that we know.
    #[error("not signed in: {0}")]
    Unauthenticated(String),
    /// The request cannot be read; says nothing about any id.
    #[error("{0}")]
    Invalid(String),
    /// More than we take.
    #[error("{what} has {bytes} bytes; at most {limit} are taken")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// Too many requests of one principal.
    #[error("too many requests of yours; the same one is taken in {} ms", again.as_millis() + 1)]
    RateLimited {
        /// In how long the same request would be taken.
        again: Duration,
    },
    /// As many as there may be are there already.
    #[error("too many {what}: there may be {limit}; {who}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: u64,
        /// Who can make room, and how.
        who: &'static str,
    },
    /// The queue is full; the same request may be sent again.
    #[error("busy; send the same request again in a moment")]
    Busy,
    /// There is no such thing, or it is another tenant's.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Somebody else may do this.
    #[error("not yours: {0}")]
    NotYours(&'static str),
    /// It has ended already.
    #[error("already {outcome}{} at {at}", by_whom(by.as_ref()))]
    AlreadySettled {
        /// Which.
        id: ItemId,
        /// How it ended: `granted`, `rejected`, `withdrawn`, `resumed`.
        outcome: String,
        /// Who decided, if a person did.
        by: Option<Name>,
        /// When.
        at: Timestamp,
    },
    /// Its deadline has passed; nobody decided.
    #[error("expired at {at}: nobody decided before the deadline")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The answer is to something else than what stands there.
    #[error("the question is not the one you saw: it is {} now; look at it again", now.short())]
    Stale {
        /// The digest of what stands there.
        now: Digest,
    },
    /// The reader's cursor is of another log, or beyond this one.
    #[error("this is not the log that you read before: begin anew")]
    Diverged,
    /// The reader's cursor, or what is asked for, lies in what was trimmed.
    #[error(
        "of what ended long ago only how it ended is kept: history up to event {floor} was trimmed; begin anew"
    )]
    Compacted {
        /// The newest event of which that is so.
        floor: u64,
    },
    /// The key or decision id was used for something else.
    #[error("{0} was used before, for something else")]
    KeyReused(&'static str),
    /// Not as things stand; says how they stand.
    #[error("{0}")]
    NotNow(String),
    /// A parked run holds the thread.
    #[error("the thread waits for an answer; nothing new starts on it")]
    ThreadBusy,
    /// It has not been decided yet.
    #[error("still pending: nobody has decided yet")]
    StillPending,
    /// The run has ended.
    #[error("the run has ended")]
    RunOver,
    /// The answer can no longer reach the agent.
    #[error("cannot be delivered any more: its agent is gone and does not come back")]
    Unreachable,
    /// The form was not satisfied; every field that is wrong.
    #[error("{}", all_fields(.0))]
    Answers(Vec<FieldError>),
    /// Cannot be done now; nothing was recorded.
    #[error("not available: {0}")]
    Unavailable(String),
}

impl Refusal {
    /// The word that clients match on.
    pub fn word(&self) -> &'static str {
        self.row().0
    }

    /// The gRPC status code.
    pub fn grpc(&self) -> i32 {
        self.row().1
    }

    /// The HTTP status.
    pub fn http(&self) -> u16 {
        self.row().2
    }

    fn row(&self) -> (&'static str, i32, u16) {
        match self {
            Self::Unauthenticated(_) => ("unauthenticated", 16, 401),
            Self::Invalid(_) => ("invalid", 3, 400),
            Self::TooLarge { .. } => ("too_large", 8, 413),
            Self::RateLimited { .. } => ("rate_limited", 8, 429),
            Self::TooMany { .. } => ("too_many", 8, 429),
            Self::Busy => ("busy", 8, 429),
            Self::NotFound(_) => ("not_found", 5, 404),
            Self::NotYours(_) => ("not_yours", 7, 403),
            Self::AlreadySettled { .. } => ("already_settled", 6, 409),
            Self::Expired { .. } => ("expired", 9, 410),
            Self::Stale { .. } => ("stale", 9, 409),
            Self::Diverged => ("diverged", 9, 409),
            Self::Compacted { .. } => ("compacted", 11, 410),
            Self::KeyReused(_) => ("key_reused", 6, 409),
            Self::NotNow(_) => ("not_now", 9, 409),
            Self::ThreadBusy => ("thread_busy", 9, 409),
            Self::StillPending => ("still_pending", 9, 409),
            Self::RunOver => ("run_over", 9, 409),
            Self::Unreachable => ("unreachable", 9, 409),
            Self::Answers(_) => ("answers", 3, 400),
            Self::Unavailable(_) => ("unavailable", 14, 503),
        }
    }
}

fn by_whom(by: Option<&Name>) -> String {
    by.map(|name| format!(" by {name}")).unwrap_or_default()
}

fn all_fields(errors: &[FieldError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
