//! Wishes: what agents, people and our own timers want done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    approval::{AppliedResult, ApprovalId, Filing, Seen, Settled, Verdict},
    control::Verb,
    digest::Digest,
    drift::{Drift, Level},
    escalation::{Closed, EscalationId},
    form::{Form, RawAnswers},
    gate::Ruling,
    names::{ClaimToken, ControlId, DecisionId, DriftId, Key, WaitId},
    run::{End, InterruptKind, Plan, RunId, RunKey, TaskState},
    text::Untrusted,
    who::{Name, Principal, Tenant},
};

/// A wish, and whose it is. It may be refused.
#[derive(Clone, Debug)]
pub struct Command {
    /// Who wishes; made by the identity layer.
    pub by: Principal,
    /// What.
    pub wish: Wish,
}

/// What may be wished for.
#[derive(Clone, Debug)]
pub enum Wish {
    /// A run begins, or its agent comes back.
    OpenRun(OpenRun),
    /// A run ends, or its turn ends while it waits.
    EndRun {
        /// Which.
        run: RunId,
        /// How.
        how: Ending,
        /// The agent's words.
        reason: Untrusted,
    },
    /// A task moves.
    ReportTask {
        /// Of which run.
        run: RunId,
        /// The agent's id of it.
        task: Untrusted,
        /// What it is about; empty keeps what is known.
        title: Untrusted,
        /// Where to.
        state: TaskState,
        /// The agent's words.
        detail: Untrusted,
    },
    /// A plan was made or revised.
    ReportPlan {
        /// Of which run.
        run: RunId,
        /// The plan.
        plan: Plan,
        /// What caused the revision: the id of a drift, or of an operator's control.
        cause: Untrusted,
    },
    /// The run says something, for its record.
    Say {
        /// Which run.
        run: RunId,
        /// What.
        text: Untrusted,
    },
    /// Something went wrong in a run.
    ReportDrift(Box<ReportDrift>),
    /// A person has a run do something.
    Direct(Box<Direct>),
    /// An order was handed to the agent.
    HandOver {
        /// To which run.
        run: RunId,
        /// Which order.
        control: ControlId,
    },
    /// The agent took an order, or did not.
    Ack(Box<Ack>),
    /// The agent came or went.
    Attend {
        /// Of which run.
        run: RunId,
        /// Whether it is there.
        here: bool,
    },
    /// An agent asks a human.
    File(Box<File>),
    /// An agent asks whether a tool may run.
    Gate(Box<GateCall>),
    /// An agent takes a question back.
    Withdraw {
        /// Which.
        id: ApprovalId,
        /// Its reason.
        reason: Untrusted,
        /// What the log knows of it, if State does not.
        past: Option<Arc<Settled>>,
    },
    /// A waiter's patience has ended.
    GiveUp {
        /// On which question.
        id: ApprovalId,
        /// Which waiter.
        wait: WaitId,
    },
    /// A person answers.
    Decide(Box<Decide>),
    /// An operator moves a deadline.
    Extend {
        /// Of which question.
        id: ApprovalId,
        /// To how long from now.
        span: Duration,
        /// What the log knows of it, if State does not.
        past: Option<Arc<Settled>>,
    },
    /// An operator takes a card away.
    Dismiss {
        /// Which.
        id: ApprovalId,
        /// What they write beside it.
        note: Untrusted,
        /// What the log knows of it, if State does not.
        past: Option<Arc<Settled>>,
    },
    /// A process of the agent takes the decisions of a step.
    Claim(Box<TakeStep>),
    /// It gives them back.
    Restore(Box<GiveBack>),
    /// It begins with one of them.
    ReportStarted {
        /// With which.
        id: ApprovalId,
        /// As whom it took it.
        token: ClaimToken,
        /// What the log knows of it, if State does not.
        past: Option<Arc<Settled>>,
    },
    /// The agent says what came of a decision.
    ReportApplied {
        /// Which question it was.
        id: ApprovalId,
        /// Whether it worked.
        result: AppliedResult,
        /// The agent's words.
        detail: Untrusted,
        /// What the log knows of it, if State does not.
        past: Option<Arc<Settled>>,
    },
    /// What a foreign agent did already: never refused for policy or limits.
    Observe(Observation),
}

/// A run begins, or its agent comes back.
#[derive(Clone, Debug)]
pub struct OpenRun {
    /// The id it gets if it is new.
    pub id: RunId,
    /// What makes it this run.
    pub key: RunKey,
    /// The project it belongs to.
    pub project: Untrusted,
    /// The conversation.
    pub thread: Untrusted,
    /// What started it.
    pub origin: Untrusted,
    /// The user it works for.
    pub owner: Option<Name>,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// Whether it can take up an answer after its turn ended.
    pub can_resume: bool,
    /// What else the caller says of it: JSON text, kept as it is.
    pub context: Untrusted,
}

/// Something went wrong in a run.
#[derive(Clone, Debug)]
pub struct ReportDrift {
    /// Which run.
    pub run: RunId,
    /// What. Its level and its time are found here.
    pub drift: Drift,
    /// What an escalation gets, if it comes to one.
    pub raise: Raise,
}

/// The ids that an escalation gets.
#[derive(Clone, Debug)]
pub struct Raise {
    /// The escalation's own.
    pub escalation: EscalationId,
    /// That of the order to the run.
    pub control: ControlId,
    /// That of the drift which it is recorded as.
    pub drift: DriftId,
}

/// What a person has a run do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The client's own id of it: made once, and sent again with every retry.
    pub id: ControlId,
    /// Which run.
    pub run: RunId,
    /// What.
    pub verb: Verb,
    /// The direction of a steer; of all others the reason.
    pub note: Untrusted,
    /// The escalation that it answers.
    pub answers: Option<EscalationId>,
}

/// A person has a run do something.
#[derive(Clone, Debug)]
pub struct Direct {
    /// What.
    pub order: Order,
    /// The id that an escalation gets, if the order is to pause.
    pub raise: EscalationId,
    /// What the log knows of the escalation, if State does not.
    pub past: Option<Arc<Closed>>,
}

/// The agent took an order, or did not.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Which run.
    pub run: RunId,
    /// Which order.
    pub control: ControlId,
    /// What became of it.
    pub result: AckResult,
    /// The agent's words.
    pub detail: Untrusted,
    /// The id that an escalation gets, if the run still stands still and needs another answer.
    pub raise: EscalationId,
}

/// What an agent says to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckResult {
    /// It does it.
    Success,
    /// It could not.
    Failure,
    /// It does not know how.
    Unsupported,
    /// Nothing, and nothing will come.
    NoAnswer,
}

/// How a turn or run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The run is over.
    Over(End),
    /// Only the turn is over.
    Paused(InterruptKind),
}

/// An agent asks a human.
#[derive(Clone, Debug)]
pub struct File {
    /// The id it gets if it is new.
    pub id: ApprovalId,
    /// Who asks.
    pub run: RunId,
    /// What.
    pub filing: Filing,
    /// What the log knows under its key, if State does not.
    pub past: Option<Arc<Settled>>,
}

/// An agent asks whether a tool may run, before it does.
#[derive(Clone, Debug)]
pub struct GateCall {
    /// The question that is asked, if one has to be.
    pub file: File,
    /// The rule that fits, if one does: looked up in the server's config.
    pub ruling: Option<Ruling>,
}

/// A process of the agent takes the decisions of a step.
#[derive(Clone, Debug)]
pub struct TakeStep {
    /// Of which run.
    pub run: RunId,
    /// Which step.
    pub step: Untrusted,
    /// What it is about to run, by the agent's own ids, recomputed from what stands there now (DF-36).
    pub digests: BTreeMap<Untrusted, Digest>,
    /// Who takes them.
    pub token: ClaimToken,
    /// What the log knows of the step, if State has forgotten some of it.
    pub past: Vec<Arc<Settled>>,
}

/// A process of the agent gives the decisions of a step back (DF-37).
#[derive(Clone, Debug)]
pub struct GiveBack {
    /// Of which run.
    pub run: RunId,
    /// Which step.
    pub step: Untrusted,
    /// As whom it took them.
    pub token: ClaimToken,
    /// What the log knows of the step, if State has forgotten some of it.
    pub past: Vec<Arc<Settled>>,
}

/// A person answers.
#[derive(Clone, Debug)]
pub struct Decide {
    /// What.
    pub id: ApprovalId,
    /// The client's own id of this decision.
    pub decision: DecisionId,
    /// Yes or no.
    pub verdict: Verdict,
    /// What they saw.
    pub digest: Digest,
    /// The form, as typed.
    pub answers: RawAnswers,
    /// What they write beside it.
    pub note: Untrusted,
    /// How much they had seen.
    pub seen: Seen,
    /// The user they decide for.
    pub on_behalf_of: Option<Name>,
    /// The form, read by the owning thread from the Detail.
    pub form: Form,
    /// What the log knows of the question, if State does not.
    pub past: Option<Arc<Settled>>,
    /// Which question this decision id decided before, if State does not know it.
    pub decided_before: Option<ApprovalId>,
}

/// What a foreign agent did already.
#[derive(Clone, Debug)]
pub enum Observation {
    /// It asked.
    Asked(Box<File>),
    /// It says that a question of its own was answered.
    Resolved {
        /// Of which run.
        run: RunId,
        /// The agent's own id of the question.
        target: Untrusted,
        /// Whether it was granted.
        granted: bool,
        /// The agent's text.
        detail: Untrusted,
    },
    /// Something went wrong in its run, and its own ladder deals with it.
    Drifted {
        /// In which run.
        run: RunId,
        /// What.
        drift: Drift,
        /// Whether its run stands still by this, as far as one can tell, and the id that the escalation gets.
        holds: Option<EscalationId>,
    },
    /// It does something that shows that its run does not stand still.
    GoesOn {
        /// Which run.
        run: RunId,
    },
    /// It said how strongly it answers a drift.
    Levelled {
        /// Of which run.
        run: RunId,
        /// Which drift.
        drift: DriftId,
        /// How strongly.
        level: Level,
    },
    /// We handed it a decision.
    Sent {
        /// Which question was decided.
        id: ApprovalId,
        /// Our id of the delivery.
        control: ControlId,
    },
    /// It took the decision, or did not.
    Acked {
        /// Which question was decided.
        id: ApprovalId,
        /// Our id of the delivery.
        control: ControlId,
        /// Whether it took it.
        success: bool,
        /// The agent's text.
        detail: Untrusted,
    },
}

/// What the owning thread has to read from the log before a command can be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The Detail of this approval, for its form.
    Form(ApprovalId),
    /// This approval, which State has forgotten.
    Past(ApprovalId),
    /// This escalation, which State has forgotten.
    Closed(EscalationId),
    /// What was asked in this step of a run, of which State has forgotten some.
    Step(RunId, Untrusted),
    /// What was filed under this key, which State has forgotten.
    Key(Tenant, Key),
    /// What this decision id decided, which State has forgotten.
    Decision(Tenant, DecisionId),
}

/// What the log said to a [`Need`].
#[derive(Clone, Debug)]
pub enum Found {
    /// The form.
    Form(Form),
    /// The approval, or the one under that key.
    Past(Arc<Settled>),
    /// All that ended of a step.
    Step(Vec<Arc<Settled>>),
    /// The escalation.
    Closed(Arc<Closed>),
    /// What the decision id decided.
    Decision(ApprovalId),
}
