//! Which bytes of a text have been on the screen.
//!
//! Invariant: the ranges are sorted, not empty, and do not touch each other.

use std::ops::Range;

/// A set of bytes, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<usize>>);

impl Ranges {
    /// Adds these bytes. Says whether any of them was new.
    pub fn add(&mut self, new: Range<usize>) -> bool {
        if new.is_empty() || self.covers(&new) {
            return false;
        }
        let first = self.0.partition_point(|range| range.end < new.start);
        let after = self.0.partition_point(|range| range.start <= new.end);
        let touched = &self.0[first..after];
        let start = touched
            .first()
            .map_or(new.start, |range| range.start.min(new.start));
        let end = touched
            .last()
            .map_or(new.end, |range| range.end.max(new.end));
        self.0.splice(first..after, std::iter::once(start..end));
        true
    }

    /// Whether all of these bytes are in it.
    #[must_use]
    pub fn covers(&self, asked: &Range<usize>) -> bool {
        if asked.is_empty() {
            return true;
        }
        let at = self.0.partition_point(|range| range.end <= asked.start);
        self.0
            .get(at)
            .is_some_and(|range| range.start <= asked.start && asked.end <= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, clippy::type_complexity)]
    fn what_was_seen_adds_up_and_nothing_between_is_guessed() {
        let rows: &[(&[Range<usize>], &[Range<usize>])] = &[
            (&[], &[]),
            (&[3..3], &[]),
            (&[0..4, 4..9], &[0..9]),
            (&[5..9, 0..4], &[0..4, 5..9]),
            (&[0..4, 8..9, 2..8], &[0..9]),
            (&[0..2, 4..6, 8..10, 5..8], &[0..2, 4..10]),
            (&[3..4, 0..10], &[0..10]),
            (&[0..10, 3..4], &[0..10]),
        ];
        for (added, expected) in rows {
            let mut seen = Ranges::default();
            for range in *added {
                seen.add(range.clone());
            }
            assert_eq!(seen.0, *expected, "{added:?}");
        }
    }

    #[test]
    fn a_gap_of_one_byte_is_not_covered() {
        let mut seen = Ranges::default();
        assert!(seen.add(0..5));
        assert!(!seen.add(1..3));
        assert!(seen.add(6..9));
        assert!(!seen.covers(&(0..9)));
        assert!(seen.covers(&(6..9)));
        assert!(seen.covers(&(4..4)));
        assert!(seen.add(5..6));
        assert!(seen.covers(&(0..9)));
    }
}
