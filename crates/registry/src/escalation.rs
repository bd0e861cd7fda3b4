//! A run that stands still until a person says how it goes on.
//!
//! An escalation has its own type and its own verbs: it cannot be approved (DESIGN §4.3).

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    approval::{ApprovalId, Settled, parse_ulid, ulid_at},
    control::{Control, Verb},
    drift::Drift,
    event::{Scope, Seq},
    refusal::Refusal,
    run::{End, RunId, RunKey},
    text::Untrusted,
    time::Timestamp,
    who::Name,
};

/// The id of an escalation: a ULID, minted by the owning thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EscalationId(Ulid);

impl EscalationId {
    /// No other comes after this one.
    pub(crate) const LAST: Self = Self(Ulid(u128::MAX));

    /// The id for an escalation raised at `now`, with 80 bits of `randomness`.
    pub fn mint(now: Timestamp, randomness: u128) -> Self {
        Self(ulid_at(now, randomness))
    }
}

impl fmt::Display for EscalationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EscalationId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        parse_ulid(text).map(Self)
    }
}

/// What a person is asked about: a question, or a run that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemId {
    /// A run that stands still; these come first.
    Escalation(EscalationId),
    /// A question.
    Approval(ApprovalId),
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval(id) => id.fmt(f),
            Self::Escalation(id) => id.fmt(f),
        }
    }
}

impl From<ApprovalId> for ItemId {
    fn from(id: ApprovalId) -> Self {
        Self::Approval(id)
    }
}

impl From<EscalationId> for ItemId {
    fn from(id: EscalationId) -> Self {
        Self::Escalation(id)
    }
}

/// A run that stands still, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// Ours.
    pub id: EscalationId,
    /// Which run.
    pub run: RunId,
    /// What makes it that run.
    pub from: RunKey,
    /// The user it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// What holds it.
    pub cause: Cause,
    /// What held it before, and nobody answered: this took its place. Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Cause>,
    /// An answer that came to nothing, so that another one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Undone>,
    /// When it was raised.
    pub at: Timestamp,
    /// Of level 5: when the run is aborted at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_at: Option<Timestamp>,
}

/// What holds a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A drift of level 4 or 5.
    Drift(Drift),
    /// A person paused it.
    Paused {
        /// Who.
        by: Name,
        /// What they wrote.
        note: Untrusted,
    },
}

/// An answer that the agent could not, or would not, carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// What was answered.
    pub verb: Verb,
    /// By whom.
    pub by: Name,
    /// What the agent said to it.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
}

impl Escalation {
    /// The word in lists: `escalation`, or `paused` where a person did it.
    pub fn kind(&self) -> &'static str {
        match self.cause {
            Cause::Drift(_) => "escalation",
            Cause::Paused { .. } => "paused",
        }
    }

    /// The drift behind it.
    pub fn drift(&self) -> Option<&Drift> {
        match &self.cause {
            Cause::Drift(drift) => Some(drift),
            Cause::Paused { .. } => None,
        }
    }

    /// Everything that holds it: what is answered with it.
    pub fn causes(&self) -> impl Iterator<Item = &Cause> {
        self.also.iter().chain([&self.cause])
    }

    /// The line in the list: the kind of the drift, or who paused it. Foreign text.
    pub fn title(&self) -> Untrusted {
        match &self.cause {
            Cause::Drift(drift) => drift.kind.text().clone(),
            Cause::Paused { by, .. } => Untrusted::new(format!("paused by {by}")),
        }
    }

    /// The task it is about; empty is the run itself.
    pub fn task(&self) -> Untrusted {
        self.drift()
            .map(|drift| drift.task.clone())
            .unwrap_or_default()
    }

    /// Whether the run is being aborted by us: nobody can answer that.
    pub fn is_abort(&self) -> bool {
        self.abort_at.is_some()
    }

    /// Who may see it.
    pub fn scope(&self) -> Scope {
        Scope {
            tenant: self.from.tenant.clone(),
            owner: self.owner.clone(),
        }
    }
}

/// An escalation that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// What it was.
    pub escalation: Arc<Escalation>,
    /// How it ended.
    pub how: How,
    /// When.
    pub at: Timestamp,
    /// The event that says so.
    pub seq: Seq,
    /// The order that carries the answer to the agent, and how far it has come.
    pub control: Option<Control>,
}

impl Closed {
    /// When it was closed, or its answer came further.
    pub fn moved_at(&self) -> Timestamp {
        let steps = self.control.iter().flat_map(|control| &control.steps);
        steps.map(|step| step.at).fold(self.at, Timestamp::max)
    }
}

/// How an escalation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A person answered.
    Answered {
        /// `Resume`, `Steer` or `Cancel`.
        verb: Verb,
        /// Who.
        by: Name,
        /// The direction, or what they wrote beside it.
        note: Untrusted,
    },
    /// Another drift took its place.
    Superseded {
        /// What stands there now.
        by: EscalationId,
    },
    /// Its run ended.
    RunEnded(End),
    /// Nothing held it: its agent's own events show that the run goes on.
    WentOn,
}

impl How {
    /// The word in lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Answered { verb, .. } => match verb {
                Verb::Resume => "resumed",
                Verb::Steer => "steered",
                Verb::Cancel => "cancelled",
                Verb::Pause | Verb::Rewind { .. } | Verb::StatusQuery => "answered",
            },
            Self::Superseded { .. } => "superseded",
            Self::RunEnded(End::Aborted) => "aborted",
            Self::RunEnded(_) => "run ended",
            Self::WentOn => "went on",
        }
    }

    /// Who answered, if a person did.
    pub fn by(&self) -> Option<&Name> {
        match self {
            Self::Answered { by, .. } => Some(by),
            Self::Superseded { .. } | Self::RunEnded(_) | Self::WentOn => None,
        }
    }
}

/// What a person was asked about, and is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// A question.
    Approval(Settled),
    /// A run that stood still.
    Escalation(Closed),
}

impl Ended {
    /// The event that ended it.
    pub fn seq(&self) -> Seq {
        match self {
            Self::Approval(settled) => settled.seq,
            Self::Escalation(closed) => closed.seq,
        }
    }

    /// What it was.
    pub fn id(&self) -> ItemId {
        match self {
            Self::Approval(settled) => settled.approval.id.into(),
            Self::Escalation(closed) => closed.escalation.id.into(),
        }
    }

    /// When it ended.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Approval(settled) => settled.at,
            Self::Escalation(closed) => closed.at,
        }
    }

    /// Who may see it.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Approval(settled) => settled.approval.scope(),
            Self::Escalation(closed) => closed.escalation.scope(),
        }
    }
}
