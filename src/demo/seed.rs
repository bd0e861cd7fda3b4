//! Chance that is the same every time: splitmix64.

/// What falls follows from what it was made of.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn of(parts: [u64; 3]) -> Self {
        let mut dice = Self(0);
        for part in parts {
            dice = Self(dice.roll() ^ part);
        }
        dice
    }

    /// One of the whole numbers from `low` to `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_falls_the_same() {
        let five = |parts| {
            let mut dice = Dice::of(parts);
            [0; 5].map(|_| dice.between(3, 9))
        };
        assert_eq!(five([7, 1, 0]), five([7, 1, 0]));
        assert_ne!(five([7, 1, 0]), five([7, 1, 1]));
        assert_ne!(five([7, 1, 0]), five([8, 1, 0]));
        assert!(five([7, 1, 0]).iter().all(|n| (3..=9).contains(n)));
    }
}
