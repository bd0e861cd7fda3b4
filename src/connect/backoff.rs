//! How long to leave a server alone that did not answer.

use std::time::Duration;

/// The shortest pause.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The pause after the `attempt`th attempt (from 1): anything up to a ceiling that doubles, so
/// that many clients of a server that comes back do not all come at once.
pub(super) fn pause(attempt: u32) -> Duration {
    // Without randomness all wait for the whole ceiling, which is only less polite.
    between(attempt, getrandom::u32().unwrap_or(u32::MAX))
}

fn between(attempt: u32, random: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.min(16));
    let ceiling = PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX);
    let part = f64::from(random) / f64::from(u32::MAX);
    PAUSE_MIN + (ceiling - PAUSE_MIN).mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_tenth_of_a_second_to_five_seconds() {
        for attempt in [0, 1, 2, 3, 6, 100, u32::MAX] {
            assert_eq!(between(attempt, 0), PAUSE_MIN);
            for random in [0, 1, u32::MAX / 2, u32::MAX] {
                let pause = between(attempt, random);
                assert!((PAUSE_MIN..=PAUSE_MAX).contains(&pause), "{pause:?}");
            }
            assert!((PAUSE_MIN..=PAUSE_MAX).contains(&pause(attempt)));
        }
        let ceilings = [1, 2, 3, 6, 7].map(|attempt| between(attempt, u32::MAX).as_millis());
        assert_eq!(ceilings, [200, 400, 800, 5000, 5000]);
    }
}
