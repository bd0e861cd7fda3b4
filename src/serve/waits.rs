//! When each waiter began, so that its patience is one over all its calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use registry::{ApprovalId, Name, names::WaitId};
use tokio::time::Instant;

/// Waiters of one caller that are remembered; past it the oldest begins its patience anew.
const WAITS_COUNT: usize = 10_000;

type Began = HashMap<(ApprovalId, WaitId), Instant>;

/// The waiters of every caller.
#[derive(Clone, Default)]
pub(super) struct Waits(Arc<Mutex<HashMap<Name, Began>>>);

impl Waits {
    /// When this waiter began: now, if it is new.
    pub(super) fn began(&self, by: &Name, id: ApprovalId, wait: &WaitId) -> Instant {
        let mut callers = self.lock();
        let waits = callers.entry(by.clone()).or_default();
        let key = (id, wait.clone());
        if waits.len() >= WAITS_COUNT && !waits.contains_key(&key) {
            let oldest = waits.iter().min_by_key(|(_, began)| **began);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                waits.remove(&oldest);
            }
        }
        *waits.entry(key).or_insert_with(Instant::now)
    }

    /// It waits no longer.
    pub(super) fn forget(&self, by: &Name, id: ApprovalId, wait: &WaitId) {
        let mut callers = self.lock();
        if let Some(waits) = callers.get_mut(by) {
            waits.remove(&(id, wait.clone()));
            if waits.is_empty() {
                callers.remove(by);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Began>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
