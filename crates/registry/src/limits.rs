//! How much is taken, in bytes unless the name says otherwise (`ENGINE` §8). More is refused before
//! anything is stored; what a foreign agent did already is cut instead.

use std::time::Duration;

/// The line in the list.
pub const TITLE: usize = 256;
/// Prompt, body, facts and arguments together.
pub const DETAIL: usize = 256 * 1024;
/// A form as it is stored.
pub const FORM: usize = 64 * 1024;
/// All answers of one decision.
pub const ANSWERS: usize = 64 * 1024;
/// A note beside a decision.
pub const NOTE: usize = 8192;
/// A name or id that an agent chooses.
pub const NAME: usize = 1024;
/// One thing that a run says; also a reason and what comes of a decision.
pub const SAID: usize = 64 * 1024;
/// What else a caller says of a run.
pub const CONTEXT: usize = 16 * 1024;
/// Labels of one approval, counted.
pub const LABELS_COUNT: usize = 32;
/// Tasks of one run, counted.
pub const TASKS_COUNT: usize = 1000;
/// How much of a task's texts State keeps; the whole is in the event.
pub const TASK_KEPT: usize = 512;
/// Other keys under which one question may be filed, counted.
pub const JOINED_COUNT: usize = 64;
/// Refused attempts kept on one card, counted.
pub const ATTEMPTS_COUNT: usize = 32;
/// The name of a drift's kind, or of its severity.
pub const KIND: usize = 64;
/// What a run is steered with (`wire/goldfive.md` §2.6).
pub const STEER: usize = 8192;
/// Drifts of one run that State keeps, counted; all of them are in its record.
pub const DRIFTS_KEPT: usize = 64;
/// Kinds and tasks of one run whose drifts are counted.
pub const COUNTS_KEPT: usize = 1024;
/// Orders to one run that its agent has said something to, and that State keeps, counted.
pub const CONTROLS_KEPT: usize = 32;
/// Orders to one run that its agent has said nothing to, counted.
pub const CONTROLS_UNDER_WAY: usize = 32;
/// What held a run before the drift that holds it now, and nobody answered, counted.
pub const CAUSES_KEPT: usize = 16;
/// People that one question may take, counted.
pub const VOTES: u8 = 16;
/// Waiters whose giving up is recorded on one card, counted.
pub const GIVEN_UP_COUNT: usize = 64;

/// The shortest deadline (EL-58).
pub const DEADLINE_MIN: Duration = Duration::from_secs(60);
/// How long before a deadline it is said, at most, that little time is left.
pub const WARN_BEFORE: Duration = Duration::from_secs(10 * 60);
/// How long a run may take to end by itself once it is to be aborted (`wire/goldfive.md` §2.5).
pub const ABORT_AFTER: Duration = Duration::from_secs(600);
/// The longest deadline, also of an extension.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
