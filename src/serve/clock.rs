//! The one clock of the server.
//!
//! Time that did not pass is not believed at once: a wall clock that is set forward ends no question (`ENGINE` §5.4).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use registry::Timestamp;

/// More than this, in ms, is a jump; less is a clock that is being put right.
const JUMP_MS: i64 = 5 * 60 * 1000;
/// How long a jump is not believed, in ms; a shorter jump, for as long as it is.
const DOUBT_MS: i64 = 10 * 60 * 1000;

/// Where the owning thread reads the time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    System,
    /// One that stands still until it is moved.
    Manual(Arc<AtomicI64>),
    /// One whose hands can be set without any time passing.
    Settable {
        /// What the clock on the wall shows, in ms.
        wall: Arc<AtomicI64>,
        /// How long the machine has been there, in ms, asleep or awake.
        up: Arc<AtomicI64>,
    },
}

impl Clock {
    /// A clock that stands at `at` until it is moved.
    pub fn standing(at: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(at.ms())))
    }

    /// A clock that stands at `at`, and whose hands can be set.
    pub fn settable(at: Timestamp) -> Self {
        Self::Settable {
            wall: Arc::new(AtomicI64::new(at.ms())),
            up: Arc::default(),
        }
    }

    /// What time it is.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Timestamp::from_ms(since.map_or(0, |span| span.as_millis() as i64))
            }
            Self::Manual(ms) | Self::Settable { wall: ms, .. } => {
                Timestamp::from_ms(ms.load(Ordering::SeqCst))
            }
        }
    }

    /// Sets the hands of a clock of ours; the machine's stays as it is.
    pub fn set(&self, at: Timestamp) {
        if let Self::Manual(ms) | Self::Settable { wall: ms, .. } = self {
            ms.store(at.ms(), Ordering::SeqCst);
        }
    }

    /// Lets time pass on a clock of ours.
    pub fn pass(&self, span: Duration) {
        self.set(self.now().plus(span));
        if let Self::Settable { up, .. } = self {
            let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            up.fetch_add(span, Ordering::SeqCst);
        }
    }

    /// How long the machine has been there, in ms. It goes on while the machine sleeps, and nobody can set it.
    fn up_ms(&self) -> i64 {
        match self {
            Self::System => machine_up_ms(),
            Self::Manual(ms) => ms.load(Ordering::SeqCst),
            Self::Settable { up, .. } => up.load(Ordering::SeqCst),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const UP: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UP: nix::time::ClockId = nix::time::ClockId::CLOCK_MONOTONIC;

fn machine_up_ms() -> i64 {
    let up = nix::time::clock_gettime(UP);
    up.map_or(0, |up| {
        up.tv_sec().saturating_mul(1000) + up.tv_nsec() / 1_000_000
    })
}

/// A clock, and how far it is believed.
///
/// While the wall clock is more than five minutes ahead of where the time that passed would have it, that time counts: no
/// deadline passes by the jump, and what is recorded is stamped as if there had been none. Whoever is responsible has ten minutes
/// to set the clock right; then the wall clock is believed. A step back needs no such care: the log's time never runs backwards.
#[derive(Debug)]
pub struct Believed {
    clock: Clock,
    belief: Mutex<Belief>,
}

#[derive(Clone, Copy, Debug)]
struct Belief {
    /// What the wall clock shows, less how long the machine has been there, in ms.
    offset: i64,
    /// How long the machine had been there when its wall clock was first seen to differ by a jump.
    differs_since: Option<i64>,
}

impl Believed {
    /// Believes what the clock shows now.
    pub fn new(clock: Clock) -> Self {
        let offset = clock.now().ms() - clock.up_ms();
        let belief = Belief {
            offset,
            differs_since: None,
        };
        Self {
            clock,
            belief: Mutex::new(belief),
        }
    }

    /// What time it is, as far as that is believed.
    pub fn now(&self) -> Timestamp {
        self.look().0
    }

    /// How far the wall clock is ahead of what is believed, while it is.
    pub fn jump(&self) -> Option<Duration> {
        self.look().1
    }

    fn look(&self) -> (Timestamp, Option<Duration>) {
        let (wall, up) = (self.clock.now().ms(), self.clock.up_ms());
        let mut held = self.belief.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.differs_since;
        let (now, ahead) = held.judge(wall, up);
        let after = held.differs_since;
        drop(held);
        match (before, after, ahead) {
            (None, Some(_), Some(ahead)) => tracing::warn!(
                seconds = ahead.as_secs(),
                "CLOCK_JUMP: the wall clock was set forward; no deadline passes by that. Set it right: in 10 minutes it is believed"
            ),
            (Some(_), None, _) => tracing::warn!(
                "CLOCK_JUMP is over: the wall clock is believed, and shows {}",
                Timestamp::from_ms(wall)
            ),
            _ => {}
        }
        (Timestamp::from_ms(now), ahead)
    }
}

impl Belief {
    /// The time that counts, and how far the wall is ahead of it.
    fn judge(&mut self, wall: i64, up: i64) -> (i64, Option<Duration>) {
        let offset = wall.saturating_sub(up);
        let ahead = offset.saturating_sub(self.offset);
        if (-JUMP_MS..=JUMP_MS).contains(&ahead) {
            (self.offset, self.differs_since) = (offset, None);
            return (wall, None);
        }
        let since = *self.differs_since.get_or_insert(up);
        if up - since >= DOUBT_MS.min(ahead.saturating_abs()) {
            (self.offset, self.differs_since) = (offset, None);
            return (wall, None);
        }
        match u64::try_from(ahead) {
            Ok(ahead) => (up + self.offset, Some(Duration::from_millis(ahead))),
            Err(_) => (wall, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const DAY: i64 = 24 * 60 * MINUTE;
    const FROM: i64 = 1_800_000_000_000;

    /// So long after the machine came up, in minutes, the wall is set ahead by so much, in minutes: what counts is ahead by?
    fn play(rows: &[(i64, i64, i64)]) {
        let mut belief = Belief {
            offset: FROM,
            differs_since: None,
        };
        for (after, set, counts) in rows {
            let up = after * MINUTE;
            let (now, jump) = belief.judge(FROM + up + set * MINUTE, up);
            assert_eq!(
                (now - FROM - up) / MINUTE,
                *counts,
                "after {after}: {rows:?}"
            );
            assert_eq!(jump.is_some(), *set > *counts, "after {after}: {rows:?}");
        }
    }

    #[test]
    fn a_clock_that_is_put_right_is_followed() {
        play(&[
            (0, 0, 0),
            (1, 5, 5),
            (2, 9, 9),
            (3, 12, 12),
            (4, 8, 8),
            (5, 3, 3),
        ]);
    }

    #[test]
    fn a_jump_counts_for_nothing_until_ten_minutes_have_passed() {
        let week = 7 * 24 * 60;
        play(&[
            (0, 0, 0),
            (1, week, 0),
            (2, week, 0),
            (10, week, 0),
            (11, week, week),
            (12, week, week),
        ]);
    }

    #[test]
    fn a_jump_that_is_taken_back_never_was() {
        play(&[
            (0, 0, 0),
            (1, 600, 0),
            (9, 600, 0),
            (10, 1, 1),
            (30, 600, 1),
            (39, 600, 1),
            (40, 600, 600),
        ]);
    }

    #[test]
    fn a_short_jump_is_doubted_for_as_long_as_it_is() {
        play(&[(0, 0, 0), (1, 7, 0), (7, 7, 0), (8, 7, 7)]);
    }

    #[test]
    fn a_machine_that_slept_has_not_jumped() {
        play(&[
            (0, 0, 0),
            (DAY / MINUTE * 3, 0, 0),
            (DAY / MINUTE * 30, 1, 1),
        ]);
    }

    #[test]
    fn a_step_back_is_followed_and_so_is_the_step_forward_that_takes_it_back() {
        play(&[
            (0, 0, 0),
            (1, -60, -60),
            (5, -60, -60),
            (6, 0, 0),
            (7, 0, 0),
        ]);
        // Where it stays there for long, that is where it is.
        play(&[
            (0, 0, 0),
            (1, -60, -60),
            (11, -60, -60),
            (12, 0, -60),
            (22, 0, 0),
        ]);
    }

    #[test]
    fn the_machine_knows_how_long_it_has_been_there() {
        let before = Clock::System.up_ms();
        assert!(before > 0);
        assert!(Clock::System.up_ms() >= before);
        let believed = Believed::new(Clock::System);
        assert_eq!(believed.jump(), None);
    }
}
