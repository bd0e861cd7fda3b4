//! How long the content of what ended is kept, and when the log is swept.

use std::time::Duration;

use registry::{
    Timestamp,
    log::{Sweep, Swept},
};
use tokio::time::Instant;

/// What is kept where nothing else is said, in days.
const DEFAULT_DAYS: u16 = 90;
/// The longest that can be asked for, in days: a hundred years.
const MOST_DAYS: u16 = 36_500;
/// Events that one slice looks at or empties; a decision that comes meanwhile waits for no more.
const SLICE_EVENTS: usize = 500;
/// Between two slices of one sweep.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two sweeps.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// After that long without a jump the clock is believed.
const STEADY: Duration = Duration::from_secs(24 * 60 * 60);
/// By how much the clock may differ from the time that passed without having jumped.
const DRIFT: Duration = Duration::from_secs(60 * 60);

/// How long the content of what ended is kept: `[retention] days` in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    days: u16,
}

impl Default for Retention {
    fn default() -> Self {
        let days = DEFAULT_DAYS;
        Self { days }
    }
}

impl Retention {
    /// So many days.
    ///
    /// # Errors
    /// A sentence for whoever wrote the number: nothing is kept for less than a day, and `0` or `-1` do not mean for ever.
    pub fn of_days(days: i64) -> Result<Self, String> {
        let taken = u16::try_from(days)
            .ok()
            .filter(|days| (1..=MOST_DAYS).contains(days));
        taken.map(|days| Self { days }).ok_or_else(|| {
            format!(
                "retention: {days} days are not possible: 1 to {MOST_DAYS} are (to keep everything, say {MOST_DAYS})"
            )
        })
    }

    /// How many days.
    pub fn days(self) -> u16 {
        self.days
    }

    fn span(self) -> i64 {
        i64::from(self.days) * 24 * 60 * 60 * 1000
    }
}

/// When to sweep next; kept by the owning thread.
#[derive(Debug)]
pub(super) struct Sweeper {
    due: Instant,
    /// Since when the clock has gone steadily, and what it said then.
    steady: (Instant, Timestamp),
    /// Whether it was said that nothing is trimmed.
    said: bool,
}

impl Sweeper {
    /// One that begins at once.
    pub(super) fn new(clock: Timestamp) -> Self {
        let now = Instant::now();
        Self {
            due: now,
            steady: (now, clock),
            said: false,
        }
    }

    /// How long until the next slice.
    pub(super) fn pause(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// The next slice, where it is time for one.
    pub(super) fn next(&mut self, retention: Retention, clock: Timestamp) -> Option<Sweep> {
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        let (since, then) = self.steady;
        let should = then.plus(now.duration_since(since));
        if clock.since(should).max(should.since(clock)) > DRIFT {
            self.steady = (now, clock);
        }
        Some(Sweep {
            before: Timestamp::from_ms(clock.ms().saturating_sub(retention.span())),
            now: clock,
            rows: SLICE_EVENTS,
            steady: now.duration_since(self.steady.0) >= STEADY,
        })
    }

    /// What came of a slice.
    pub(super) fn came(&mut self, swept: &Swept) {
        let pause = match swept {
            Swept::More => PAUSE,
            Swept::Done(_) | Swept::Held(_) => EVERY,
        };
        self.due = Instant::now() + pause;
        match swept {
            Swept::Held(jump) if !self.said => {
                tracing::warn!("{jump}");
                self.said = true;
            }
            Swept::Held(_) => {}
            Swept::More | Swept::Done(_) => self.said = false,
        }
    }

    /// The log could not be swept now.
    pub(super) fn later(&mut self, why: &registry::log::LogError) {
        tracing::warn!("history is not trimmed now, and will be later: {why}");
        self.due = Instant::now() + EVERY;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Case D13: neither for ever nor at once is what a slip of the pen means.
    #[test]
    fn only_a_number_of_days_is_a_retention() {
        for days in [-1, 0, i64::from(MOST_DAYS) + 1, i64::MAX, i64::MIN] {
            let why = Retention::of_days(days).unwrap_err();
            assert!(why.contains(&format!("{days} days are not possible: 1 to 36500")));
        }
        for days in [1, 90, i64::from(MOST_DAYS)] {
            assert_eq!(i64::from(Retention::of_days(days).unwrap().days()), days);
        }
        assert_eq!(Retention::default().days(), 90);
    }

    #[test]
    fn a_clock_that_jumped_is_not_believed() {
        let then = Timestamp::from_ms(1_000_000_000);
        let mut sweeper = Sweeper::new(then);
        let long_ago = Instant::now().checked_sub(STEADY).unwrap();
        sweeper.steady = (long_ago, Timestamp::from_ms(then.ms() - 24 * 3_600_000));
        assert!(sweeper.next(Retention::default(), then).unwrap().steady);
        let jumped = Timestamp::from_ms(then.ms() + 2 * 3_600_000);
        assert!(!sweeper.next(Retention::default(), jumped).unwrap().steady);
        sweeper.came(&Swept::Done(Vec::new()));
        assert_eq!(sweeper.next(Retention::default(), jumped).map(|_| ()), None);
    }
}
