//! The runs, and the records of those that were looked at.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use registry::{Recorded, Run, RunId, Seq, State, Timestamp, run::Presence};

use super::{lanes, listing::Listing};

/// Records that are kept, besides the one that is shown.
const RECORDS_KEPT: usize = 16;

/// What the screen of the runs stands on.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) list: Listing<RunId>,
    pub(super) records: BTreeMap<RunId, Record>,
    /// The first lane that is shown.
    pub(super) lanes_top: usize,
}

/// As much of a run's record as lanes are made from.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) events: BTreeMap<Seq, Recorded>,
    pub(super) fetched: Fetched,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Fetched {
    #[default]
    UnderWay,
    Whole,
    Failed(String),
}

impl Record {
    /// What is in it already is not put in twice: a page and the stream may tell the same.
    pub(super) fn take(&mut self, events: impl IntoIterator<Item = Recorded>) {
        let told = events
            .into_iter()
            .filter(|recorded| lanes::counts(&recorded.event));
        self.events
            .extend(told.map(|recorded| (recorded.seq, recorded)));
    }
}

impl Runs {
    /// The record of the selected run, if there is one to show.
    pub(super) fn record(&self) -> Option<&Record> {
        self.records.get(&self.list.selected?)
    }

    /// What goes on is told by the stream.
    pub(super) fn follow(&mut self, events: &[Recorded]) {
        for recorded in events {
            let run = recorded.event.run();
            if let Some(record) = run.and_then(|run| self.records.get_mut(&run)) {
                record.take([recorded.clone()]);
            }
        }
    }

    /// What is held first, then what goes on, and of each what moved last.
    pub(super) fn put_in_order(&mut self, state: &State) {
        let mut runs: Vec<_> = state
            .runs()
            .map(|run| (place(state, run), run.id))
            .collect();
        runs.sort_unstable();
        self.list
            .reorder(runs.into_iter().map(|(_, id)| id).collect());
    }

    /// Lets go of records that nobody looks at.
    pub(super) fn forget(&mut self) {
        let shown = self.list.selected;
        let mut others: BTreeSet<RunId> = self.records.keys().copied().collect();
        others.retain(|id| Some(*id) != shown);
        while others.len() > RECORDS_KEPT
            && let Some(id) = others.pop_first()
        {
            self.records.remove(&id);
        }
    }
}

fn place(state: &State, run: &Run) -> (bool, bool, Reverse<Timestamp>) {
    let goes_on = run.held_by.is_none();
    let moved_at = Reverse(moved_at(state, run));
    (run.state.is_over(), goes_on, moved_at)
}

/// When the run last did something, or was told something, that its State tells of.
pub(super) fn moved_at(state: &State, run: &Run) -> Timestamp {
    let asked = run.open.iter().filter_map(|id| state.pending(*id));
    let asked = asked.map(|pending| pending.approval.filed_at);
    let left = match run.presence {
        Presence::Away { since } => Some(since),
        Presence::Attached | Presence::Detached => None,
    };
    let tasks = run.tasks.values().map(|task| task.at);
    let drifts = run.drifts.iter().map(|drift| drift.at);
    let orders = run.controls.iter();
    let orders = orders.flat_map(|order| order.steps.iter().map(|step| step.at).chain([order.at]));
    let held = run.held_by.and_then(|id| state.escalation(id));
    let held = held.map(|held| held.at);
    let moved = tasks.chain(asked).chain(left).chain(drifts);
    let moved = moved.chain(orders).chain(held).max();
    moved.map_or(run.opened_at, |moved| moved.max(run.opened_at))
}
