//! Whether agents are there: a run whose agent is not heard of for a while is marked away, which
//! ends, decides and withdraws nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use registry::{Principal, Refusal, RunId, Wish, run::Presence};
use tokio::time::Instant;

use super::owner::Owner;

/// How long an agent of ours may be silent before its runs are marked away.
const LEASE: Duration = Duration::from_secs(15);

/// When each run was last heard of.
#[derive(Clone, Default)]
pub(super) struct Leases(Arc<Mutex<HashMap<RunId, Lease>>>);

struct Lease {
    by: Principal,
    heard: Instant,
    held: usize,
}

/// An open call of an agent: while it lasts, its run is there.
pub(super) struct Held {
    leases: Leases,
    run: RunId,
}

impl Leases {
    /// The run was heard of just now.
    pub(super) fn hear(&self, run: RunId, by: &Principal) {
        self.change(run, by, |_| {});
    }

    /// The run is there until the returned value is dropped.
    pub(super) fn hold(&self, run: RunId, by: &Principal) -> Held {
        self.change(run, by, |lease| lease.held += 1);
        let leases = self.clone();
        Held { leases, run }
    }

    fn change(&self, run: RunId, by: &Principal, change: impl FnOnce(&mut Lease)) {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = leases.entry(run).or_insert_with(|| Lease {
            by: by.clone(),
            heard: Instant::now(),
            held: 0,
        });
        lease.heard = Instant::now();
        change(lease);
    }

    fn was_heard(&self, run: RunId) -> bool {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.contains_key(&run)
    }

    /// Takes out the runs that have been silent for too long.
    fn silent(&self) -> Vec<(RunId, Principal)> {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = |lease: &mut Lease| lease.held == 0 && lease.heard.elapsed() > LEASE;
        let silent = leases.extract_if(|_, lease| gone(lease));
        silent.map(|(run, lease)| (run, lease.by)).collect()
    }

    /// Marks silent runs away, for ever.
    pub(super) async fn watch(self, owner: Owner) {
        self.expect_all(&owner);
        let mut ticks = tokio::time::interval(LEASE / 3);
        loop {
            ticks.tick().await;
            for (run, by) in self.silent() {
                let away = Wish::Attend { run, here: false };
                // A run that has ended since needs no mark; what could not be done now is tried again.
                match owner.submit(by.clone(), away).await {
                    Err(Refusal::Busy | Refusal::Unavailable(_)) => self.hear(run, &by),
                    // It was heard of just then, perhaps in a call that is held long: it is not away.
                    Ok(_) if self.was_heard(run) && is_away(&owner, run) => {
                        let here = Wish::Attend { run, here: true };
                        let _ = owner.submit(by, here).await;
                    }
                    _ => {}
                }
            }
        }
    }

    /// After a start, agents that were there are given a lease's time to come back.
    fn expect_all(&self, owner: &Owner) {
        let state = owner.state();
        let here = |run: &&Arc<registry::Run>| {
            run.presence == Presence::Attached
                && !run.state.is_over()
                && !run.key.source.is_foreign()
        };
        for run in state.runs().filter(here) {
            let tenant = run.key.tenant.clone();
            let by = Principal::new(run.opened_by.clone(), tenant, [registry::Role::Agent]);
            self.hear(run.id, &by);
        }
    }
}

fn is_away(owner: &Owner, run: RunId) -> bool {
    let state = owner.state();
    let run = state.run(run);
    run.is_some_and(|run| matches!(run.presence, Presence::Away { .. }))
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut leases = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = leases.get_mut(&self.run) {
            lease.held = lease.held.saturating_sub(1);
            lease.heard = Instant::now();
        }
    }
}
