//! Questions that take several people (DESIGN §4.1.5): the n-th different person grants, one rejects.

use crate::{
    approval::{Approval, Decision, Pending, Verdict},
    command::Decide,
    event::Event,
    refusal::Refusal,
    who::{Decider, Name, Principal},
};

/// Whoever asked is no second pair of eyes.
pub(super) fn may_vote(approval: &Approval, by: &Principal, wish: &Decide) -> Result<(), Refusal> {
    let asked = [Some(&approval.filed_by), approval.owner.as_ref()];
    let asks = asked.contains(&Some(by.name()));
    if approval.votes > 1 && wish.verdict == Verdict::Approve && asks {
        return Err(Refusal::NotYours(
            "this one takes several people, and whoever asked, or whose run asks, is none of them",
        ));
    }
    Ok(())
}

/// The same vote of the same person, sent again.
pub(super) fn is_cast(votes: &[Decision], by: &Principal, wish: &Decide) -> bool {
    let same = |vote: &Decision| vote.id == wish.decision && vote.decider.by == *by.name();
    votes.iter().any(same)
}

/// A yes that is one of several, or the last that was needed.
pub(super) fn approved(pending: &Pending, decision: Decision) -> Result<Event, Refusal> {
    let id = pending.approval.id;
    if pending.approval.votes <= 1 {
        return Ok(Event::ApprovalGranted { id, decision });
    }
    let person = person(&decision.decider);
    if let Some(vote) = pending
        .votes
        .iter()
        .find(|vote| self::person(&vote.decider) == person)
    {
        return Err(Refusal::NotNow(format!(
            "{} has approved it already; it takes {} different people",
            vote.decider.by, pending.approval.votes
        )));
    }
    // One answer comes of it, and each of them stands for it.
    if let Some(vote) = pending
        .votes
        .iter()
        .find(|vote| vote.answers != decision.answers)
    {
        return Err(Refusal::NotNow(format!(
            "{} filled the form in otherwise: the votes have to agree; look at what they answered",
            vote.decider.by
        )));
    }
    let last = pending.votes.len() + 1 >= usize::from(pending.approval.votes);
    Ok(match last {
        true => Event::ApprovalGranted { id, decision },
        false => Event::VoteCast { id, decision },
    })
}

/// Who stands behind a decision: a backend only carries it.
fn person(decider: &Decider) -> &Name {
    decider.on_behalf_of.as_ref().unwrap_or(&decider.by)
}
