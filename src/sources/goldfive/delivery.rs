//! What is carried to an agent under an id of its own, and what is recorded of its way: decisions and orders alike.

use registry::{
    ApprovalId, Control, EscalationId, Refusal, Run, RunId, Settled, Wish,
    approval::{Decision, Outcome},
    command::{Ack, AckResult, Observation},
    control::Verb,
    decide::Reply,
    limits,
    names::ControlId,
};

use super::{
    facts,
    persist::{randomness, until_judged, warn_of},
};
use crate::{
    serve::owner::Owner,
    wire::{
        goldfive::{self, Wish as Theirs},
        pb::goldfive::v1::ControlEvent,
    },
};

/// Something that goes to an agent.
#[derive(Clone)]
pub(super) struct Delivery {
    /// The id of it that the agent acks.
    pub(super) control: ControlId,
    /// What it is to us.
    of: Of,
    /// The run that it is for.
    pub(super) run: RunId,
    /// Whose run that is.
    pub(super) agent: String,
}

#[derive(Clone, Copy)]
enum Of {
    /// The answer to a question.
    Decision(ApprovalId),
    /// What else a run is to do.
    Order,
}

impl Delivery {
    /// That of a decision, for which nobody chose an id before.
    pub(super) fn of_decision(settled: &Settled, control: ControlId) -> Self {
        let approval = &settled.approval;
        Self {
            control,
            of: Of::Decision(approval.id),
            run: approval.run,
            agent: approval.from.agent.raw().into(),
        }
    }

    /// That of an order, under the order's own id.
    pub(super) fn of_order(run: &Run, order: &Control) -> Self {
        Self {
            control: order.id.clone(),
            of: Of::Order,
            run: run.id,
            agent: run.key.agent.raw().into(),
        }
    }

    /// What its ack is known by: who says it, and of what.
    pub(super) fn to_ack(&self) -> (String, ControlId) {
        (self.agent.clone(), self.control.clone())
    }

    /// A decision says what it is about; an order is for whoever gets it.
    pub(super) fn names_its_target(&self) -> bool {
        matches!(self.of, Of::Decision(_))
    }

    /// How it goes to the agent.
    pub(super) fn control(&self, wish: Theirs, now_ms: i64) -> ControlEvent {
        goldfive::control(self.control.as_str(), &self.agent, wish, now_ms)
    }

    /// Records that it is sent, before it is.
    pub(super) async fn sent(&self, owner: &Owner) -> Result<Reply, Refusal> {
        let control = self.control.clone();
        let wish = match self.of {
            Of::Decision(id) => Wish::Observe(Observation::Sent { id, control }),
            Of::Order => Wish::HandOver {
                run: self.run,
                control,
            },
        };
        let by = facts::principal(&self.agent);
        until_judged(|| owner.submit(by.clone(), wish.clone())).await
    }

    /// Records what the agent says to it.
    pub(super) async fn acked(&self, owner: &Owner, result: AckResult, detail: &str) {
        let control = self.control.clone();
        let wish = match self.of {
            Of::Decision(id) => {
                let detail = match result {
                    AckResult::Unsupported => format!("unsupported: {detail}"),
                    _ => detail.to_owned(),
                };
                Wish::Observe(Observation::Acked {
                    id,
                    control,
                    success: result == AckResult::Success,
                    detail: facts::short(&detail, limits::SAID),
                })
            }
            Of::Order => Wish::Ack(Box::new(Ack {
                run: self.run,
                control,
                result,
                detail: facts::short(detail, limits::SAID),
                raise: EscalationId::mint(owner.now(), randomness().await),
            })),
        };
        let by = facts::principal(&self.agent);
        if let Err(refusal) = until_judged(|| owner.submit(by.clone(), wish.clone())).await {
            warn_of("an ack was not recorded", &refusal);
        }
    }

    /// Records that nobody will say what became of it.
    pub(super) async fn lost(&self, owner: &Owner, why: &str) {
        if self.is_unsent_decision(owner)
            && let Err(refusal) = self.sent(owner).await
        {
            warn_of("a delivery was not recorded", &refusal);
        }
        self.acked(owner, AckResult::NoAnswer, why).await;
    }

    /// Only what was sent can fail.
    fn is_unsent_decision(&self, owner: &Owner) -> bool {
        let Of::Decision(id) = self.of else {
            return false;
        };
        let state = owner.state();
        state
            .settled(id)
            .is_some_and(|settled| settled.delivery.is_none())
    }
}

/// What answers a question, in the agent's words; none where nobody decided.
pub(super) fn answer(settled: &Settled) -> Option<Theirs> {
    let target_id = settled.approval.target.raw().to_owned();
    let detail = |decision: &Decision| decision.note.raw().to_owned();
    match &settled.outcome {
        Outcome::Granted(decision) => Some(Theirs::Approve {
            target_id,
            detail: detail(decision),
        }),
        Outcome::Rejected(decision) => Some(Theirs::Reject {
            target_id,
            detail: detail(decision),
        }),
        Outcome::Expired | Outcome::Withdrawn(_) => None,
    }
}

/// An order in the agent's words. What goldfive knows a steer by, and names as the cause of the new plan, is the
/// order's own id.
pub(super) fn order(order: &Control) -> Theirs {
    match &order.verb {
        Verb::Pause => Theirs::Pause,
        Verb::Resume => Theirs::Resume,
        Verb::Cancel => Theirs::Cancel,
        Verb::StatusQuery => Theirs::StatusQuery,
        Verb::Rewind { task } => Theirs::Rewind {
            task_id: task.raw().into(),
        },
        Verb::Steer => Theirs::Steer {
            note: order.note.raw().into(),
            suggested_action: String::new(),
            author: order.by.to_string(),
            annotation_id: order.id.to_string(),
        },
    }
}
