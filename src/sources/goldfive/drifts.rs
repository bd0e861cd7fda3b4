//! Drifts of a goldfive run, and whether it stands still by one.
//!
//! Nothing on the wire says that a run is paused (`wire/goldfive.md` §0.8): it is inferred, and never where it is
//! known that the run only observes (§0.7, §2.4). What its run does afterwards takes it back.

use std::collections::HashSet;

use registry::{
    EscalationId, Run, RunId, Timestamp, Wish,
    command::Observation,
    digest::Sha256,
    drift::{Drift, Kind, Level, Severity},
    limits,
    names::DriftId,
    run::{Evidence, Pause},
};

use super::facts::{short, word};
use crate::wire::goldfive::{Drift as Theirs, Force, TaskStep, What};

/// The runs of one stream of which it is known that their ladder changes nothing.
#[derive(Default)]
pub(super) struct Observers(HashSet<RunId>);

impl Observers {
    pub(super) fn note(&mut self, run: RunId, what: &What) {
        if only_observes(what) {
            self.0.insert(run);
        }
    }

    /// Whether the run probably stands still by what happened.
    pub(super) fn stands_still(&self, run: RunId, what: &What) -> bool {
        let holds = matches!(what, What::Drift(drift) if holds(drift));
        holds && !self.0.contains(&run)
    }
}

/// Whether it shows that its run only observes.
pub(super) fn only_observes(what: &What) -> bool {
    match what {
        What::Policy { name, outcome, .. } => {
            name == "observation_only_gate" && outcome == "suppressed"
        }
        What::Plan(plan) => plan.force == Force::DryRun,
        _ => false,
    }
}

/// What shows that the run goes on, if it was inferred that it stands still.
pub(super) fn went_on(run: &Run, what: &What) -> Option<Wish> {
    let inferred = run.pause == Some(Pause::Holds(Evidence::Inferred));
    let shown = only_observes(what) || matches!(what, What::Task { step, .. } if works(step));
    let goes_on = Observation::GoesOn { run: run.id };
    (inferred && shown).then_some(Wish::Observe(goes_on))
}

/// Whether a task is begun. Outside the overlay a task in hand goes on until it is done, and only before the next one the
/// run stands still (§2.5); that tasks are called off or wait for a person comes with a pause, too.
fn works(step: &TaskStep) -> bool {
    match step {
        TaskStep::Started { .. } => true,
        TaskStep::Progress { .. }
        | TaskStep::Completed { .. }
        | TaskStep::Failed { .. }
        | TaskStep::Blocked { .. }
        | TaskStep::Cancelled { .. } => false,
        TaskStep::Moved { to, source, .. } => source == "executor_dispatch" && to == "RUNNING",
    }
}

/// The three sources of kind 37 that pause a run; the time-out of an approval and a refused revision are of the same
/// kind, and pause nothing.
fn holds(drift: &Theirs) -> bool {
    let pauses = [
        "escalated from ",
        "refine handler exhausted for ",
        "task progress stalled for ",
    ];
    kind(drift).is_human_intervention()
        && severity(drift).is_critical()
        && pauses.iter().any(|begins| drift.detail.starts_with(begins))
}

/// A drift is known by the agent's id of it, or by what stands for that.
pub(super) fn id(theirs: &str, instead: impl FnOnce() -> Sha256) -> Option<DriftId> {
    let hash = || match theirs.is_empty() {
        true => instead(),
        false => Sha256::of(theirs),
    };
    let known = DriftId::parse(theirs);
    known
        .or_else(|_| DriftId::parse(&format!("sha256-{}", hash())))
        .ok()
}

pub(super) fn drifted(
    run: RunId,
    id: DriftId,
    drift: &Theirs,
    holds: Option<EscalationId>,
) -> Wish {
    let kind = kind(drift);
    let from = escalated_from(&drift.detail).filter(|_| kind.is_human_intervention());
    let drift = Drift {
        id,
        kind,
        severity: severity(drift),
        detail: short(&drift.detail, limits::SAID),
        task: short(&drift.task_id, limits::NAME),
        level: None,
        from,
        at: Timestamp::default(),
    };
    Wish::Observe(Observation::Drifted { run, drift, holds })
}

/// A level in a word that we do not know is no level.
pub(super) fn levelled(run: RunId, drift: &str, to: &str) -> Option<Wish> {
    let unnamed = drift.is_empty();
    let level = Level::from_word(to).filter(|_| !unnamed)?;
    let drift = id(drift, || Sha256::of(drift))?;
    Some(Wish::Observe(Observation::Levelled { run, drift, level }))
}

fn kind(drift: &Theirs) -> Kind {
    Kind::of(&word(drift.kind))
}

fn severity(drift: &Theirs) -> Severity {
    Severity::of(&word(drift.severity))
}

/// What an escalation says that it came from.
fn escalated_from(detail: &str) -> Option<Kind> {
    let (kind, _) = detail.strip_prefix("escalated from ")?.split_once(": ")?;
    Some(Kind::of(kind))
}
