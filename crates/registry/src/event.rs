//! Facts: what happened. They are recorded once, in order, and never refused.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    approval::{Applied, Approval, ApprovalId, Attempt, Claim, Decision, Delivery, Why},
    control::{Control, Step},
    drift::{Drift, Level},
    escalation::{Escalation, EscalationId, How, ItemId},
    names::{ClaimToken, ControlId, DecisionId, DriftId, Key, WaitId},
    run::{End, InterruptKind, Pause, Plan, Presence, Run, RunId, TaskState},
    text::Untrusted,
    time::Timestamp,
    who::{Name, Tenant},
};

/// The place of an event in the log: gapless, from 1.
pub type Seq = u64;

/// Who may see an event: a function of this alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// The user whose run it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
}

/// An event as the log keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its place.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// Who may see it.
    pub scope: Scope,
    /// What happened.
    pub event: Arc<Event>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Event {
    /// A run was first seen.
    RunOpened {
        /// The run as it begins.
        run: Box<Run>,
        /// What else the caller says of it: JSON text, as it was given.
        #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
        context: Untrusted,
    },
    /// An agent came or went.
    PresenceChanged {
        /// Of which run.
        run: RunId,
        /// How it is now.
        presence: Presence,
    },
    /// A turn ended while its run waits.
    RunParked {
        /// Which run.
        run: RunId,
        /// What it waits for.
        interrupt: InterruptKind,
    },
    /// A run ended.
    RunEnded {
        /// Which.
        run: RunId,
        /// How.
        end: End,
        /// The agent's words.
        #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
        reason: Untrusted,
    },
    /// A task moved.
    TaskReported {
        /// Of which run.
        run: RunId,
        /// The agent's id of it.
        task: Untrusted,
        /// What it is about; empty keeps what is known.
        #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
        title: Untrusted,
        /// Where to.
        state: TaskState,
        /// The agent's words.
        #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
        detail: Untrusted,
    },
    /// A plan was made or revised.
    PlanReported {
        /// Of which run.
        run: RunId,
        /// The plan.
        plan: Plan,
        /// What caused the revision.
        #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
        cause: Untrusted,
    },
    /// The run said something, for its record.
    Said {
        /// Which run.
        run: RunId,
        /// What.
        text: Untrusted,
    },
    /// Something went wrong in a run.
    DriftReported {
        /// Which run.
        run: RunId,
        /// What.
        drift: Drift,
    },
    /// A foreign agent said how strongly it answers a drift.
    DriftLevelled {
        /// Of which run.
        run: RunId,
        /// Which drift.
        drift: DriftId,
        /// How strongly.
        level: Level,
    },
    /// A run is to stand still, stands still, or goes on.
    PauseMoved {
        /// Which run.
        run: RunId,
        /// How it is now; none if it goes on.
        pause: Option<Pause>,
    },
    /// A run is given an order.
    ControlIssued {
        /// Which.
        control: Box<Control>,
    },
    /// An order came further.
    ControlMoved {
        /// To which run.
        run: RunId,
        /// Which order.
        id: ControlId,
        /// The escalation that it answers, or was raised with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalation: Option<EscalationId>,
        /// How far.
        step: Step,
    },
    /// A run stands still until a person says how it goes on.
    EscalationRaised {
        /// Why.
        escalation: Arc<Escalation>,
    },
    /// It does so no longer, or is being told to.
    EscalationClosed {
        /// Which.
        id: EscalationId,
        /// How it ended.
        how: How,
    },
    /// An agent asks a human.
    ApprovalRequested {
        /// What.
        approval: Arc<Approval>,
    },
    /// The same question was filed under another key, too.
    ApprovalJoined {
        /// Which.
        id: ApprovalId,
        /// The other key.
        key: Key,
    },
    /// A person said yes.
    ApprovalGranted {
        /// To what.
        id: ApprovalId,
        /// Who, and what they filled in.
        decision: Decision,
    },
    /// A person said no.
    ApprovalRejected {
        /// To what.
        id: ApprovalId,
        /// Who, and what they filled in.
        decision: Decision,
    },
    /// A person said yes to a question that takes several people.
    VoteCast {
        /// To what.
        id: ApprovalId,
        /// Who, and what they filled in.
        decision: Decision,
    },
    /// Nobody decided before the deadline.
    ApprovalExpired {
        /// Which.
        id: ApprovalId,
    },
    /// A question was taken back.
    ApprovalWithdrawn {
        /// Which.
        id: ApprovalId,
        /// Why.
        why: Why,
    },
    /// A deadline passed that ends nothing.
    DeadlinePassed {
        /// Whose.
        id: ApprovalId,
    },
    /// An operator moved a deadline.
    DeadlineExtended {
        /// Whose.
        id: ApprovalId,
        /// To when.
        deadline: Timestamp,
        /// Who.
        by: Name,
    },
    /// A waiter's patience ended; the question stays open (GF-36, GF-37).
    WaitTimedOut {
        /// On what.
        id: ApprovalId,
        /// Which waiter.
        wait: WaitId,
    },
    /// Somebody tried what they may not.
    AttemptRefused {
        /// On what.
        id: ApprovalId,
        /// Who, and what.
        attempt: Attempt,
    },
    /// A decision is on its way to a foreign agent, or came further.
    DeliveryMoved {
        /// The decision of what.
        id: ApprovalId,
        /// How far it came.
        delivery: Delivery,
    },
    /// Little time is left of a deadline.
    DeadlineWarned {
        /// Whose.
        id: ApprovalId,
    },
    /// A process of the agent took a decision; how it ended may also be that nobody decided.
    DecisionClaimed {
        /// Of what.
        id: ApprovalId,
        /// Of which run.
        run: RunId,
        /// Who.
        claim: Claim,
    },
    /// It gave it back.
    DecisionRestored {
        /// Of what.
        id: ApprovalId,
        /// Of which run.
        run: RunId,
        /// As whom it had taken it.
        token: ClaimToken,
    },
    /// It began to act on it.
    DecisionStarted {
        /// Of what.
        id: ApprovalId,
        /// Of which run.
        run: RunId,
        /// As whom it had taken it.
        token: ClaimToken,
    },
    /// The agent said what came of a decision.
    DecisionApplied {
        /// The decision of what.
        id: ApprovalId,
        /// What came of it.
        applied: Applied,
    },
    /// The content of what ended long ago was taken out of the log.
    HistoryTrimmed {
        /// Whose.
        tenant: Tenant,
        /// How much of it.
        trimmed: Trimmed,
    },
}

/// What one sweep took out of the log of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trimmed {
    /// Events whose content is gone; their place and their hash stay.
    pub events: u64,
    /// Details of approvals: prompts, arguments, forms.
    pub details: u64,
    /// Foreign originals.
    pub frames: u64,
    /// When the oldest of them was recorded.
    pub oldest: Timestamp,
    /// When the newest of them was recorded.
    pub newest: Timestamp,
    /// Events up to this one may be gone from the log.
    pub floor: Seq,
}

impl Trimmed {
    /// Nothing was taken.
    pub fn is_nothing(&self) -> bool {
        self.events == 0 && self.details == 0 && self.frames == 0
    }

    /// To be said of what was recorded at `at`, before it is counted.
    pub fn reaches(&mut self, at: Timestamp) {
        let first = self.events == 0 && self.details == 0;
        self.oldest = if first { at } else { self.oldest.min(at) };
        self.newest = self.newest.max(at);
    }
}

/// What kind of event it is, as the log's own column says it. Numbers are for ever.
impl Event {
    /// Kinds that end an approval or an escalation; at most one of them is recorded for each.
    pub const TERMINAL: std::ops::RangeInclusive<u8> = 10..=19;
    /// The kind that ends an escalation.
    pub const ESCALATION_CLOSED: u8 = 14;
    /// Kinds that make up a run's record.
    pub const RECORD: std::ops::RangeInclusive<u8> = 40..=49;
    /// The kind that ends a run.
    pub const RUN_ENDED: u8 = 42;
    /// The kind that says that something was trimmed.
    pub const HISTORY_TRIMMED: u8 = 60;

    /// The number of its kind.
    pub fn kind(&self) -> u8 {
        match self {
            Self::ApprovalRequested { .. } => 1,
            Self::ApprovalJoined { .. } => 2,
            Self::EscalationRaised { .. } => 3,
            Self::ApprovalGranted { .. } => 10,
            Self::ApprovalRejected { .. } => 11,
            Self::ApprovalExpired { .. } => 12,
            Self::ApprovalWithdrawn { .. } => 13,
            Self::EscalationClosed { .. } => Self::ESCALATION_CLOSED,
            Self::DeadlinePassed { .. } => 20,
            Self::DeadlineExtended { .. } => 21,
            Self::WaitTimedOut { .. } => 22,
            Self::AttemptRefused { .. } => 23,
            Self::DeliveryMoved { .. } => 24,
            Self::DecisionApplied { .. } => 25,
            Self::DecisionClaimed { .. } => 26,
            Self::DecisionRestored { .. } => 27,
            Self::DecisionStarted { .. } => 28,
            Self::DeadlineWarned { .. } => 29,
            Self::VoteCast { .. } => 30,
            Self::RunOpened { .. } => 40,
            Self::RunParked { .. } => 41,
            Self::RunEnded { .. } => 42,
            Self::TaskReported { .. } => 43,
            Self::PlanReported { .. } => 44,
            Self::Said { .. } => 45,
            Self::DriftReported { .. } => 46,
            Self::ControlIssued { .. } => 47,
            Self::ControlMoved { .. } => 48,
            Self::PauseMoved { .. } => 49,
            Self::DriftLevelled { .. } => 51,
            Self::PresenceChanged { .. } => 50,
            Self::HistoryTrimmed { .. } => Self::HISTORY_TRIMMED,
        }
    }

    /// The approval it is about.
    pub fn approval(&self) -> Option<ApprovalId> {
        match self {
            Self::ApprovalRequested { approval } => Some(approval.id),
            Self::ApprovalJoined { id, .. }
            | Self::ApprovalGranted { id, .. }
            | Self::ApprovalRejected { id, .. }
            | Self::VoteCast { id, .. }
            | Self::ApprovalExpired { id }
            | Self::ApprovalWithdrawn { id, .. }
            | Self::DeadlinePassed { id }
            | Self::DeadlineExtended { id, .. }
            | Self::WaitTimedOut { id, .. }
            | Self::AttemptRefused { id, .. }
            | Self::DeliveryMoved { id, .. }
            | Self::DeadlineWarned { id }
            | Self::DecisionClaimed { id, .. }
            | Self::DecisionRestored { id, .. }
            | Self::DecisionStarted { id, .. }
            | Self::DecisionApplied { id, .. } => Some(*id),
            Self::RunOpened { .. }
            | Self::RunParked { .. }
            | Self::RunEnded { .. }
            | Self::TaskReported { .. }
            | Self::PlanReported { .. }
            | Self::Said { .. }
            | Self::DriftReported { .. }
            | Self::DriftLevelled { .. }
            | Self::PauseMoved { .. }
            | Self::ControlIssued { .. }
            | Self::ControlMoved { .. }
            | Self::EscalationRaised { .. }
            | Self::EscalationClosed { .. }
            | Self::PresenceChanged { .. }
            | Self::HistoryTrimmed { .. } => None,
        }
    }

    /// The escalation it is about.
    pub fn escalation(&self) -> Option<EscalationId> {
        match self {
            Self::EscalationRaised { escalation } => Some(escalation.id),
            Self::EscalationClosed { id, .. } => Some(*id),
            Self::ControlIssued { control } => control.escalation,
            Self::ControlMoved { escalation, .. } => *escalation,
            _ => None,
        }
    }

    /// The approval or escalation it is about.
    pub fn item(&self) -> Option<ItemId> {
        let approval = self.approval().map(ItemId::Approval);
        approval.or_else(|| self.escalation().map(ItemId::Escalation))
    }

    /// The run it names itself; events of an approval or escalation name only that.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::RunOpened { run, .. } => Some(run.id),
            Self::ApprovalRequested { approval } => Some(approval.run),
            Self::EscalationRaised { escalation } => Some(escalation.run),
            Self::ControlIssued { control } => Some(control.run),
            Self::RunParked { run, .. }
            | Self::RunEnded { run, .. }
            | Self::TaskReported { run, .. }
            | Self::PlanReported { run, .. }
            | Self::Said { run, .. }
            | Self::DriftReported { run, .. }
            | Self::DriftLevelled { run, .. }
            | Self::PauseMoved { run, .. }
            | Self::ControlMoved { run, .. }
            | Self::DecisionClaimed { run, .. }
            | Self::DecisionRestored { run, .. }
            | Self::DecisionStarted { run, .. }
            | Self::PresenceChanged { run, .. } => Some(*run),
            _ => None,
        }
    }

    /// The decision id it carries.
    pub fn decision(&self) -> Option<&DecisionId> {
        match self {
            Self::ApprovalGranted { decision, .. }
            | Self::ApprovalRejected { decision, .. }
            | Self::VoteCast { decision, .. } => Some(&decision.id),
            _ => None,
        }
    }

    /// The idempotency key it takes.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::ApprovalRequested { approval } => approval.key.as_ref(),
            Self::ApprovalJoined { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Whether the content of such an event is trimmed once its run has ended long ago. What was asked, how it ended, who took
    /// it and what came of it stay, and so do the orders that answer an escalation: whoever asks again gets the first answer.
    pub fn is_trimmed(kind: u8, about_an_item: bool) -> bool {
        match kind {
            47 | 48 => !about_an_item,
            _ => matches!(kind, 20 | 22 | 23 | 29) || (40..=51).contains(&kind),
        }
    }

    /// Whether it ends an approval or an escalation.
    pub fn is_terminal(&self) -> bool {
        Self::TERMINAL.contains(&self.kind())
    }
}
