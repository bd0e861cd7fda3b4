//! Taking the content of what ended long ago out of a log.
//!
//! Invariant: nothing of a run that lives, of a question that waits, or of how anything ended is taken; every event keeps its
//! place, its time and its hash.

use std::{fmt, time::Duration};

use super::{LogError, history::first_at};
use crate::{
    event::{Seq, Trimmed},
    time::Timestamp,
    who::Tenant,
};

/// A clock that goes further than this at once is not believed at once.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a sweep takes.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// What ended before this moment.
    pub before: Timestamp,
    /// The moment of the sweep.
    pub now: Timestamp,
    /// Events that one slice looks at or empties, counted.
    pub rows: usize,
    /// Whether the clock has gone steadily for a day as far as the caller knows: then it is believed.
    pub steady: bool,
}

/// How far a sweep came.
#[derive(Clone, Debug, PartialEq)]
pub enum Swept {
    /// There is more to do.
    More,
    /// All of it: what was taken since the last sweep that was recorded, by tenant.
    Done(Vec<(Tenant, Trimmed)>),
    /// It would take more than half of the log just after the clock went forward by more than a day.
    Held(Jump),
}

/// A clock that went forward further than anybody worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// From when.
    pub from: Timestamp,
    /// To when.
    pub to: Timestamp,
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nothing is trimmed: the clock went from {} to {} at once, and more than half of the log would go; look at the \
             server's clock. If it is right, this goes on by itself a day later",
            self.from, self.to
        )
    }
}

impl Sweep {
    /// The last event that lies before the sweep's moment.
    pub(super) fn cut(
        &self,
        head: Seq,
        at: impl Fn(Seq) -> Result<Option<Timestamp>, LogError>,
    ) -> Result<Seq, LogError> {
        // The newest event stays whatever its age: whoever starts knows by it where the log ends.
        Ok((first_at(head, self.before, at)? - 1).min(head.saturating_sub(1)))
    }

    /// The jump of the clock after which it stands still, if it would take more than half of what was never swept. Seen in the
    /// log itself, so that a restart does not forget it: an event of the last day that is a day younger than the one before it.
    pub(super) fn is_held(
        &self,
        (swept, cut, head): (Seq, Seq, Seq),
        at: impl Fn(Seq) -> Result<Option<Timestamp>, LogError>,
    ) -> Result<Option<Jump>, LogError> {
        if self.steady || 2 * (cut - swept) <= head - swept {
            return Ok(None);
        }
        let day = i64::try_from(DAY.as_millis()).unwrap_or(i64::MAX);
        let yesterday = Timestamp::from_ms(self.now.ms().saturating_sub(day));
        let next = first_at(head, yesterday, &at)?;
        let to = at(next)?.unwrap_or(self.now);
        let from = at(next - 1)?.unwrap_or(to);
        Ok((to.since(from) > DAY).then_some(Jump { from, to }))
    }
}

/// What was taken of each tenant, so far.
pub(super) type Tally = Vec<(Tenant, Trimmed)>;

/// What was taken of one of them.
pub(super) fn of<'a>(tally: &'a mut Tally, tenant: &Tenant) -> &'a mut Trimmed {
    let known = tally.iter().position(|(known, _)| known == tenant);
    let place = known.unwrap_or_else(|| {
        tally.push((tenant.clone(), Trimmed::default()));
        tally.len() - 1
    });
    &mut tally[place].1
}

/// Of a whole sweep: those of whom something was taken.
pub(super) fn done(mut tally: Tally, floor: Seq) -> Swept {
    tally.retain(|(_, trimmed)| !trimmed.is_nothing());
    for (_, trimmed) in &mut tally {
        trimmed.floor = floor;
    }
    Swept::Done(tally)
}
