//! What has ended, as far back as was looked.

use std::{collections::BTreeMap, sync::Arc};

use registry::{ApprovalId, Recorded, Seq, Settled, State};

use super::listing::Listing;

/// What the screen of the history stands on.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// By the event that ended it, newest first.
    pub(super) list: Listing<Seq>,
    ended: BTreeMap<Seq, Arc<Settled>>,
    pub(super) older: Older,
}

/// What is before the oldest that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Older {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// There may be more before this event.
    More(Option<Seq>),
    /// That is being fetched.
    UnderWay(Option<Seq>),
    /// It could not be.
    Failed(Option<Seq>, String),
    /// Nothing.
    Nothing,
}

impl Past {
    /// Begins with what State has; what is older is fetched when somebody gets there.
    pub(super) fn restart(&mut self, state: &State) {
        self.ended.clear();
        self.list.order.clear();
        self.take(state.all_settled().cloned());
        self.older = Older::More(self.ended.keys().next().copied());
    }

    /// Takes what has ended; what is known already is known anew.
    pub(super) fn take(&mut self, settled: impl IntoIterator<Item = Arc<Settled>>) {
        let ended = settled.into_iter().map(|settled| (settled.seq, settled));
        self.ended.extend(ended);
        if self.ended.len() != self.list.order.len() {
            self.list
                .reorder(self.ended.keys().rev().copied().collect());
        }
    }

    /// What ends now, and what comes of what has ended.
    pub(super) fn follow(&mut self, state: &State, events: &[Recorded]) {
        let about = events.iter().filter_map(|event| event.event.approval());
        let settled: Vec<_> = about.filter_map(|id| state.settled(id)).cloned().collect();
        self.take(settled);
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Arc<Settled>> {
        self.ended.get(&seq)
    }

    pub(super) fn selected(&self) -> Option<&Arc<Settled>> {
        self.get(self.list.selected?)
    }

    /// What was asked under this id, if it is under the hand.
    pub(super) fn under_hand(&self, id: ApprovalId) -> Option<&Settled> {
        let selected = self.selected()?;
        (selected.approval.id == id).then_some(&**selected)
    }
}
