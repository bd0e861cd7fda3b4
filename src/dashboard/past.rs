//! What has ended, as far back as was looked.

use std::collections::BTreeMap;

use registry::{
    ApprovalId, EscalationId, Recorded, Seq, Settled, State,
    escalation::{Closed, Ended},
};

use super::listing::Listing;

/// What the screen of the history stands on.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// By the event that ended it, newest first.
    pub(super) list: Listing<Seq>,
    ended: BTreeMap<Seq, Ended>,
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
        self.take(state.all_ended());
        self.older = Older::More(self.ended.keys().next().copied());
    }

    /// Takes what has ended; what is known already is known anew.
    pub(super) fn take(&mut self, ended: impl IntoIterator<Item = Ended>) {
        let ended = ended.into_iter().map(|ended| (ended.seq(), ended));
        self.ended.extend(ended);
        if self.ended.len() != self.list.order.len() {
            self.list
                .reorder(self.ended.keys().rev().copied().collect());
        }
    }

    /// What ends now, and what comes of what has ended.
    pub(super) fn follow(&mut self, state: &State, events: &[Recorded]) {
        let about = events.iter().filter_map(|event| event.event.item());
        self.take(about.filter_map(|id| state.ended(id)).collect::<Vec<_>>());
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Ended> {
        self.ended.get(&seq)
    }

    pub(super) fn selected(&self) -> Option<&Ended> {
        self.get(self.list.selected?)
    }

    /// What was asked under this id, if it is under the hand.
    pub(super) fn under_hand(&self, id: ApprovalId) -> Option<&Settled> {
        match self.selected()? {
            Ended::Approval(settled) => (settled.approval.id == id).then_some(settled),
            Ended::Escalation(_) => None,
        }
    }

    /// The run that stood still under this id, if it is under the hand.
    pub(super) fn held_under_hand(&self, id: EscalationId) -> Option<&Closed> {
        match self.selected()? {
            Ended::Approval(_) => None,
            Ended::Escalation(closed) => (closed.escalation.id == id).then_some(closed),
        }
    }
}
