//! Who acts on the decisions of a step: one process of its agent, once (DESIGN §4.1.9).

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    approval::{Approval, ApprovalId, Claim, ClaimStage, Settled},
    command::{GiveBack, TakeStep},
    event::Event,
    limits,
    names::ClaimToken,
    refusal::Refusal,
    run::Run,
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::Principal,
};

use super::{
    Decided,
    answering::{Stands, files, look},
    runs::{live_run, own_run, within},
};

/// Takes all that was asked in a step, or nothing: what is about to run is exactly what was asked, and all of it is decided
/// (DF-35, DF-36).
pub(super) fn claim(state: &State, by: &Principal, wish: &TakeStep, now: Timestamp) -> Decided {
    readable(&wish.step, wish.digests.keys())?;
    let run = live_run(state, by, wish.run)?;
    let step = Step::of(state, run, &wish.step, &wish.past);
    same_questions(&step, wish)?;
    let settled = step.all_settled()?;
    if let Some(claim) = settled.iter().find_map(|settled| settled.held())
        && claim.token != wish.token
    {
        let taken = match claim.stage {
            ClaimStage::Started { at } => format!("begun with at {at}"),
            _ => format!("taken at {}", claim.at),
        };
        return Err(Refusal::NotNow(format!(
            "these decisions are {taken}, under another token"
        )));
    }
    let not_taken = settled.iter().filter(|settled| settled.held().is_none());
    let taken = not_taken.map(|settled| Event::DecisionClaimed {
        id: settled.approval.id,
        run: run.id,
        claim: Claim {
            token: wish.token.clone(),
            at: now,
            stage: ClaimStage::Taken,
        },
    });
    Ok(taken.collect())
}

/// What a claim has taken.
pub(super) fn claimed(state: &State, wish: &TakeStep) -> Vec<ApprovalId> {
    let run = state.run(wish.run);
    let step = run.map(|run| Step::of(state, run, &wish.step, &wish.past));
    let asked = step.into_iter().flat_map(|step| step.0.into_values());
    asked.map(|stands| stands.approval().id).collect()
}

/// Gives back what was taken and not begun with, so that another process can take it (DF-37, DF-38). Anything else is no
/// error of the caller's that it could mend: it is told how things stand.
pub(super) fn restore(state: &State, by: &Principal, wish: &GiveBack) -> Decided {
    readable(&wish.step, [])?;
    let run = own_run(state, by, wish.run)?;
    if run.state.is_over() {
        return Err(Refusal::NotNow("the run has ended".into()));
    }
    let step = Step::of(state, run, &wish.step, &wish.past);
    let settled = step.settled();
    let claims = || settled.iter().filter_map(|settled| settled.claim.as_ref());
    let ours = |claim: &&Claim| claim.token == wish.token;
    if claims().any(|claim| claim.is_held() && !ours(&claim)) {
        return Err(Refusal::NotNow("another process has taken them".into()));
    }
    if claims().filter(ours).count() == 0 {
        return Err(Refusal::NotNow(
            "nothing of this step was taken under this token".into(),
        ));
    }
    let begun = |claim: &Claim| match claim.stage {
        ClaimStage::Started { at } => Some(at),
        ClaimStage::Taken | ClaimStage::GivenBack { .. } => None,
    };
    if let Some(at) = claims().find_map(begun) {
        return Err(Refusal::NotNow(format!(
            "they were begun with at {at}: nobody begins again"
        )));
    }
    let held = settled.iter().filter(|settled| settled.held().is_some());
    let restored = held.map(|settled| Event::DecisionRestored {
        id: settled.approval.id,
        run: run.id,
        token: wish.token.clone(),
    });
    Ok(restored.collect())
}

/// Whoever took a decision begins with it. From now on nobody begins again (EL-57).
pub(super) fn report_started(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    token: &ClaimToken,
    past: Option<&Settled>,
) -> Decided {
    let stands = look(state, by, id, past)?;
    files(stands.approval(), by)?;
    let settled = match stands {
        Stands::Open(_) => return Err(Refusal::StillPending),
        Stands::Ended(settled) => settled,
    };
    let run = live_run(state, by, settled.approval.run)?;
    let claim = settled
        .claim
        .as_ref()
        .filter(|claim| claim.is_held_by(token));
    match claim.map(|claim| claim.stage) {
        Some(ClaimStage::Started { .. }) => Ok(vec![]),
        Some(ClaimStage::Taken) => Ok(vec![Event::DecisionStarted {
            id,
            run: run.id,
            token: token.clone(),
        }]),
        Some(ClaimStage::GivenBack { .. }) | None => Err(Refusal::NotNow(
            "it is not taken under this token: claim its step first".into(),
        )),
    }
}

fn readable<'a>(
    step: &Untrusted,
    targets: impl IntoIterator<Item = &'a Untrusted>,
) -> Result<(), Refusal> {
    within("the step", step, limits::NAME)?;
    let mut targets = targets.into_iter();
    targets.try_for_each(|target| within("a target", target, limits::NAME))
}

/// Nothing missing, nothing extra, nothing else than what was asked.
fn same_questions(step: &Step, wish: &TakeStep) -> Result<(), Refusal> {
    let invalid = |what: String| Err(Refusal::Invalid(what));
    if step.0.is_empty() {
        return invalid("nothing was asked in this step of the run".into());
    }
    if let Some(target) = step
        .0
        .keys()
        .find(|target| !wish.digests.contains_key(target))
    {
        return invalid(format!(
            "'{}' was asked in this step as well: all of a step is taken, or nothing",
            target.line()
        ));
    }
    for (target, digest) in &wish.digests {
        let Some(stands) = step.0.get(target) else {
            return invalid(format!("'{}' was not asked in this step", target.line()));
        };
        let now = stands.approval().digest;
        if *digest != now {
            return Err(Refusal::Stale { now });
        }
    }
    Ok(())
}

/// What was asked in one step of a run: of each target the newest.
struct Step<'a>(BTreeMap<Untrusted, Stands<'a>>);

impl<'a> Step<'a> {
    fn of(state: &'a State, run: &Run, step: &Untrusted, past: &'a [Arc<Settled>]) -> Self {
        let in_step = |approval: &Approval| approval.run == run.id && approval.step == *step;
        let remembered = state.settled_of(run.id);
        let ended = past.iter().chain(remembered);
        let ended = ended.filter(|settled| in_step(&settled.approval) && !settled.was_superseded());
        let mut asked: BTreeMap<Untrusted, Stands<'a>> = BTreeMap::new();
        for settled in ended {
            let newer = match asked.get(&settled.approval.target) {
                Some(Stands::Ended(known)) => known.seq <= settled.seq,
                Some(Stands::Open(_)) | None => true,
            };
            if newer {
                asked.insert(settled.approval.target.clone(), Stands::Ended(settled));
            }
        }
        let open = run.open.iter().filter_map(|id| state.pending(*id));
        for pending in open.filter(|pending| in_step(&pending.approval)) {
            asked.insert(pending.approval.target.clone(), Stands::Open(pending));
        }
        Self(asked)
    }

    fn settled(&self) -> Vec<&'a Settled> {
        let settled = self.0.values().filter_map(|stands| match stands {
            Stands::Open(_) => None,
            Stands::Ended(settled) => Some(*settled),
        });
        settled.collect()
    }

    fn all_settled(&self) -> Result<Vec<&'a Settled>, Refusal> {
        let settled = self.settled();
        if settled.len() < self.0.len() {
            return Err(Refusal::StillPending);
        }
        Ok(settled)
    }
}
