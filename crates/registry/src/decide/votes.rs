//! Questions that take several people (DESIGN §4.1.5): the n-th different person grants, one rejects.

use crate::{
    approval::{Approval, Decision, Pending},
    command::Decide,
    event::Event,
    form::{Answers, Field, Form},
    refusal::Refusal,
    who::{Decider, Name, Principal},
};

/// Whoever asked is no second pair of eyes; yes and no are one right.
pub(super) fn may_vote(approval: &Approval, decider: &Decider) -> Result<(), Refusal> {
    let asked = [Some(&approval.filed_by), approval.owner.as_ref()];
    if approval.votes > 1 && asked.contains(&Some(person(decider))) {
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
pub(super) fn approved(
    pending: &Pending,
    form: &Form,
    decision: Decision,
) -> Result<Event, Refusal> {
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
    for vote in &pending.votes {
        if let Some(field) = differs(form, &vote.answers, &decision.answers) {
            return Err(Refusal::NotNow(format!(
                "{} answered '{}' otherwise: the votes have to agree; look at what they filled in",
                vote.decider.by,
                field.label.line()
            )));
        }
    }
    let last = pending.votes.len() + 1 >= usize::from(pending.approval.votes);
    Ok(match last {
        true => Event::ApprovalGranted { id, decision },
        false => Event::VoteCast { id, decision },
    })
}

/// The first field that two people answered differently.
fn differs<'a>(form: &'a Form, one: &Answers, other: &Answers) -> Option<&'a Field> {
    let answer = |answers: &Answers, name: &str| {
        let mut named = answers.iter();
        named
            .find(|(known, _)| *known == name)
            .map(|(_, answer)| answer.clone())
    };
    let mut fields = form.fields().iter();
    fields.find(|field| answer(one, &field.name) != answer(other, &field.name))
}

/// Who stands behind a decision: a backend only carries it.
fn person(decider: &Decider) -> &Name {
    decider.on_behalf_of.as_ref().unwrap_or(&decider.by)
}
