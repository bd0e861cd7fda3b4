//! A list under the hand: its order, what is selected in it, and where its window begins.
//!
//! Invariant: the selection is a thing, not a place; when the thing goes, its nearest neighbour takes the selection.

use std::collections::BTreeSet;

use super::msg::Rows;

/// A list of things that are called by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing<Id> {
    pub(super) order: Vec<Id>,
    pub(super) selected: Option<Id>,
    pub(super) top: usize,
}

impl<Id> Default for Listing<Id> {
    fn default() -> Self {
        Self {
            order: Vec::new(),
            selected: None,
            top: 0,
        }
    }
}

impl<Id: Copy + Ord> Listing<Id> {
    /// Where the selection stands.
    pub(super) fn position(&self) -> Option<usize> {
        self.order.iter().position(|id| Some(*id) == self.selected)
    }

    /// What stands so many places from the selection, or at the end on that side.
    pub(super) fn beside(&self, by: isize) -> Option<Id> {
        let last = self.order.len().saturating_sub(1);
        let to = self
            .position()
            .map_or(0, |at| at.saturating_add_signed(by).min(last));
        self.order.get(to).copied()
    }

    /// Takes a new order.
    pub(super) fn reorder(&mut self, order: Vec<Id>) {
        let before = std::mem::replace(&mut self.order, order);
        let there: BTreeSet<Id> = self.order.iter().copied().collect();
        if self.selected.is_some_and(|id| there.contains(&id)) {
            return;
        }
        let was = before.iter().position(|id| Some(*id) == self.selected);
        let was = was.unwrap_or(0);
        let after = before.iter().skip(was).find(|id| there.contains(id));
        let earlier = before.iter().take(was).rev().find(|id| there.contains(id));
        let neighbour = self.selected.and(after.or(earlier));
        self.selected = neighbour.or(self.order.first()).copied();
    }

    /// Which rows are shown where `height` fit: those of the last time, but never without the selection.
    pub(super) fn window(&self, height: usize) -> Rows {
        let (at, all) = (self.position().unwrap_or(0), self.order.len());
        let top = self
            .top
            .min(at)
            .max((at + 1).saturating_sub(height))
            .min(all.saturating_sub(height));
        Rows { top, height, all }
    }

    /// What stands in these rows.
    pub(super) fn shown(&self, rows: Rows) -> impl Iterator<Item = Id> {
        let shown = self.order.iter().skip(rows.top).take(rows.height);
        shown.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_stays_with_its_thing_or_goes_to_its_neighbour() {
        type Selected<'a> = (&'a [u8], Option<u8>);
        let rows: &[(Selected, Selected)] = &[
            ((&[], None), (&[1, 2], Some(1))),
            ((&[1, 2, 3], Some(2)), (&[3, 2, 1], Some(2))),
            ((&[1, 2, 3], Some(2)), (&[1, 3], Some(3))),
            ((&[1, 2, 3], Some(3)), (&[2, 1], Some(2))),
            ((&[1, 2, 3], Some(2)), (&[7], Some(7))),
            ((&[1], Some(1)), (&[], None)),
        ];
        for ((before, selected), (after, expected)) in rows {
            let mut list = Listing {
                order: before.to_vec(),
                selected: *selected,
                top: 0,
            };
            list.reorder(after.to_vec());
            assert_eq!(list.selected, *expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn the_window_follows_the_selection_and_moves_no_further() {
        let list = |selected, top| Listing {
            order: (0_u8..10).collect(),
            selected: Some(selected),
            top,
        };
        let rows = [
            (0, 0, 0),
            (3, 0, 0),
            (4, 0, 1),
            (9, 0, 6),
            (2, 6, 2),
            (7, 6, 6),
        ];
        for (selected, top, expected) in rows {
            assert_eq!(
                list(selected, top).window(4).top,
                expected,
                "{selected} {top}"
            );
        }
        assert_eq!(list(5, 5).window(20).top, 0);
        assert_eq!(list(5, 0).beside(-9), Some(0));
        assert_eq!(list(5, 0).beside(isize::MAX / 2), Some(9));
    }
}
