//! Whether one caller asks for more than their share, and how much each holds open.
//!
//! A caller is (tenant, principal). Nobody's share depends on what another takes.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry::{Name, Principal, Refusal, Tenant};
use tokio::time::Instant;

use super::limits::{Limits, Rate};

/// Callers remembered before those that have been quiet are forgotten, counted.
const SWEEP_COUNT: usize = 1024;

/// What is counted by the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Paced {
    File,
    Decide,
    List,
    Watch,
}

impl Paced {
    /// By the method's path.
    pub(super) fn of(path: &str) -> Option<Self> {
        match path.rsplit('/').next()? {
            "File" | "Gate" | "Controls" => Some(Self::File),
            "Decide" | "Extend" | "Dismiss" | "Control" => Some(Self::Decide),
            "List" | "History" => Some(Self::List),
            "Watch" => Some(Self::Watch),
            _ => None,
        }
    }

    fn rate(self, limits: &Limits) -> Rate {
        match self {
            Self::File => limits.file,
            Self::Decide => limits.decide,
            Self::List => limits.list,
            Self::Watch => limits.watch,
        }
    }
}

/// When each caller will have paid for what they asked for.
#[derive(Clone, Default)]
pub(super) struct Rates(Arc<Mutex<Paid>>);

type Paid = HashMap<(Tenant, Name, Paced), Instant>;

impl Rates {
    /// Takes one of the caller's share.
    pub(super) fn take(
        &self,
        by: &Principal,
        what: Paced,
        limits: &Limits,
        times: u32,
    ) -> Result<(), Refusal> {
        let rate = what.rate(limits);
        let (cost, now) = (rate.cost(times), Instant::now());
        let room = cost.saturating_mul(rate.burst.saturating_mul(times));
        let mut paid = lock(&self.0);
        if paid.len() >= SWEEP_COUNT {
            paid.retain(|_, at| *at > now);
        }
        let key = (by.tenant().clone(), by.name().clone(), what);
        let at = paid.get(&key).map_or(now, |at| (*at).max(now)) + cost;
        let ahead = at.saturating_duration_since(now);
        if ahead > room {
            return Err(Refusal::RateLimited {
                again: ahead.saturating_sub(room),
            });
        }
        paid.insert(key, at);
        Ok(())
    }
}

/// How many of something each holds.
pub(super) struct Held<K: Eq + Hash>(Arc<Mutex<HashMap<K, u32>>>);

impl<K: Eq + Hash> Clone for Held<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Eq + Hash> Default for Held<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> Held<K> {
    /// One more, until the place is let go; none if they hold `limit` already.
    pub(super) fn take(&self, key: K, limit: u32) -> Option<Place<K>> {
        let mut held = lock(&self.0);
        let count = held.entry(key.clone()).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Place {
            held: self.clone(),
            key,
        })
    }

    /// All that is held.
    pub(super) fn count(&self) -> u64 {
        lock(&self.0).values().map(|count| u64::from(*count)).sum()
    }
}

/// One of what somebody holds.
pub(super) struct Place<K: Eq + Hash> {
    held: Held<K>,
    key: K,
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut held = lock(&self.held.0);
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

/// True at most once in a while, so that a flood does not fill the log.
pub(super) struct SeldomBy<K: Eq + Hash>(Arc<Mutex<HashMap<K, Instant>>>);

impl<K: Eq + Hash> Clone for SeldomBy<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Eq + Hash> Default for SeldomBy<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash> SeldomBy<K> {
    pub(super) fn now(&self, key: K, pause: Duration) -> bool {
        let now = Instant::now();
        let mut said = lock(&self.0);
        if said.len() >= SWEEP_COUNT {
            said.retain(|_, at| now.saturating_duration_since(*at) < pause);
        }
        let due = said
            .get(&key)
            .is_none_or(|at| now.saturating_duration_since(*at) >= pause);
        // A flood of keys that are all new is said less often still.
        let due = due && said.len() < SWEEP_COUNT;
        if due {
            said.insert(key, now);
        }
        due
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
