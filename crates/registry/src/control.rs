//! What a person, or the ladder, has a run do; and how far that has come.
//!
//! ```text
//! issued --handed over--> sent --acked--> acked --an event of the agent--> confirmed
//!                              --> failed | unsupported | no answer
//! ```
//! Success is never inferred from a call that returned (DESIGN §4.4).

use serde::{Deserialize, Serialize};

use crate::{
    drift::{Kind, Level},
    escalation::EscalationId,
    names::{ControlId, DriftId},
    run::RunId,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Verb as Right},
};

/// What a run is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Stand still before the next task.
    Pause,
    /// Go on as before.
    Resume,
    /// Plan anew, with the note in mind, and go on.
    Steer,
    /// Stop for good.
    Cancel,
    /// Do this task, and all that follow it, once more.
    Rewind {
        /// The agent's id of the task.
        task: Untrusted,
    },
    /// Say where it is; changes nothing.
    StatusQuery,
}

impl Verb {
    /// The word in lists and on the command line.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Steer => "steer",
            Self::Cancel => "cancel",
            Self::Rewind { .. } => "rewind",
            Self::StatusQuery => "status",
        }
    }

    /// What shows that it was done, beyond the agent's own word for it.
    pub fn confirmed_by(&self) -> Confirmation {
        match self {
            Self::Pause | Self::Resume | Self::StatusQuery => Confirmation::Ack,
            Self::Steer => Confirmation::Plan,
            Self::Cancel => Confirmation::End,
            Self::Rewind { .. } => Confirmation::Task,
        }
    }

    /// The right that it takes.
    pub fn right(&self) -> Right {
        match self {
            Self::Pause | Self::Resume | Self::Steer | Self::Cancel => Right::Direct,
            Self::Rewind { .. } | Self::StatusQuery => Right::Inspect,
        }
    }

    /// Whether it answers an escalation.
    pub fn answers(&self) -> bool {
        matches!(self, Self::Resume | Self::Steer | Self::Cancel)
    }
}

/// What shows that a control was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The ack itself: there is nothing more to see.
    Ack,
    /// A plan that names the control as its cause.
    Plan,
    /// The end of the run.
    End,
    /// The task is pending again.
    Task,
}

/// One order to one run, and its life so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The client's own id of it; also what a revised plan names as its cause.
    pub id: ControlId,
    /// Who is to do it.
    pub run: RunId,
    /// What.
    pub verb: Verb,
    /// The direction of a steer; of all others the reason.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub note: Untrusted,
    /// Whose order it is.
    pub by: Name,
    /// The escalation that it answers, or was raised with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationId>,
    /// The drift behind it, where the ladder gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Behind>,
    /// Until when it is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When it was given.
    pub at: Timestamp,
    /// What became of it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// The drift behind a control of the ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// Which.
    pub id: DriftId,
    /// Of which kind.
    pub kind: Kind,
    /// How strongly it is answered.
    pub level: Level,
}

/// One step in the life of a control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How far it came.
    pub stage: Stage,
    /// The agent's own text, or what confirms it.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
    /// When.
    pub at: Timestamp,
}

/// How far a control came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Recorded; nobody has taken it yet.
    Issued,
    /// Handed to the agent.
    Sent,
    /// The agent says that it does it.
    Acked,
    /// An event of the agent shows that it was done.
    Confirmed,
    /// The agent could not do it.
    Failed,
    /// The agent does not know how.
    Unsupported,
    /// The agent ended or went away before it said anything.
    Unanswered,
}

impl Stage {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Issued => "not sent",
            Self::Sent => "sent",
            Self::Acked => "acked",
            Self::Confirmed => "confirmed",
            Self::Failed => "failed",
            Self::Unsupported => "unsupported",
            Self::Unanswered => "no answer",
        }
    }

    /// Whether it was not done.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Unsupported | Self::Unanswered)
    }
}

impl Control {
    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.steps.last().map_or(Stage::Issued, |step| step.stage)
    }

    /// Whether nothing more is to come of it.
    pub fn is_over(&self) -> bool {
        match self.stage() {
            Stage::Issued | Stage::Sent => false,
            Stage::Acked => self.verb.confirmed_by() == Confirmation::Ack,
            Stage::Confirmed | Stage::Failed | Stage::Unsupported | Stage::Unanswered => true,
        }
    }

    /// Whether the agent has not said anything to it yet.
    pub fn waits_for_ack(&self) -> bool {
        self.stage() <= Stage::Sent
    }

    /// Whether the agent took it.
    pub fn was_taken(&self) -> bool {
        matches!(self.stage(), Stage::Acked | Stage::Confirmed)
    }
}
