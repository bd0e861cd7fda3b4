//! Puts text on the frame: clipped, in roles, and in ASCII where the terminal has no more.

use ratatui::{
    Frame,
    layout::{Position, Rect},
    style::{Modifier, Style},
};

use super::super::{
    decide::ascii_key,
    lines::{Lane, Page, Row, columns, cut},
    model::Model,
    theme::{Role, Theme},
    words::Signs,
};

pub(super) struct Pen<'p, 'f> {
    frame: &'p mut Frame<'f>,
    theme: Theme,
    ascii: bool,
    pub(super) signs: &'static Signs,
}

/// What stands in the frame of a box.
#[derive(Default)]
pub(super) struct Titles<'a> {
    pub(super) left: &'a [(Role, &'a str)],
    pub(super) right: &'a str,
    pub(super) below_left: &'a str,
    pub(super) below_right: (Role, &'a str),
}

impl<'p, 'f> Pen<'p, 'f> {
    pub(super) fn new(frame: &'p mut Frame<'f>, model: &Model) -> Self {
        Self {
            frame,
            theme: model.setup.theme,
            ascii: model.setup.ascii,
            signs: model.signs(),
        }
    }

    /// Our own words, in ASCII where that is asked for.
    pub(super) fn spelled(&self, words: &str) -> String {
        if !self.ascii {
            return words.to_owned();
        }
        let signs = [
            (" · ", " - "),
            ("…", ".."),
            ("✓", "+"),
            ("✗", "x"),
            ("⚠", "!"),
            ("«", "\""),
            ("»", "\""),
            ("│", "|"),
        ];
        signs.iter().fold(ascii_key(words), |words, (sign, ascii)| {
            words.replace(sign, ascii)
        })
    }

    /// Writes as much of the text as fits between `x` and the right end of `area`. Where it ended.
    pub(super) fn put(&mut self, area: Rect, x: u16, y: u16, role: Role, text: &str) -> u16 {
        let area = area.intersection(self.frame.area());
        if y < area.top() || y >= area.bottom() || x < area.left() || x >= area.right() {
            return x;
        }
        let room = usize::from(area.right() - x);
        let style = self.theme.style(role);
        let (end, _) = self.frame.buffer_mut().set_stringn(x, y, text, room, style);
        end
    }

    /// Writes pieces one after the other.
    pub(super) fn pieces(&mut self, area: Rect, x: u16, y: u16, pieces: &[(Role, &str)]) -> u16 {
        pieces
            .iter()
            .fold(x, |x, (role, text)| self.put(area, x, y, *role, text))
    }

    /// Writes so that it ends at the right end of `area`, if it fits right of `from`.
    pub(super) fn put_right(
        &mut self,
        area: Rect,
        from: u16,
        y: u16,
        role: Role,
        text: &str,
    ) -> bool {
        let width = u16::try_from(columns(text)).unwrap_or(u16::MAX);
        let Some(x) = area.right().checked_sub(width).filter(|x| *x >= from) else {
            return false;
        };
        self.put(area, x, y, role, text);
        true
    }

    /// Fills a whole row with the role, and writes on it.
    pub(super) fn across(&mut self, row: Rect, role: Role, text: &str) {
        let text = self.spelled(text);
        let text = cut(&text, usize::from(row.width), self.signs.more);
        self.put(row, row.x, row.y, role, &text);
        self.restyle(row, role);
    }

    /// Lays a role over all that stands there, whatever it was.
    pub(super) fn restyle(&mut self, area: Rect, role: Role) {
        let area = area.intersection(self.frame.area());
        let style = self.theme.style(role);
        for position in area.positions() {
            if let Some(cell) = self.frame.buffer_mut().cell_mut(position) {
                cell.set_style(style);
            }
        }
    }

    /// Lays the hand's colours over a row, up to the bar that begins it.
    pub(super) fn select(&mut self, row: Rect) {
        let rest = Rect {
            x: row.x + 1,
            width: row.width.saturating_sub(1),
            ..row
        };
        self.restyle(rest, Role::Selected);
    }

    /// Dims what stands there.
    pub(super) fn dim(&mut self, area: Rect) {
        let area = area.intersection(self.frame.area());
        let dim = Style::new().add_modifier(Modifier::DIM);
        let dim = dim.remove_modifier(Modifier::BOLD);
        self.frame.buffer_mut().set_style(area, dim);
    }

    pub(super) fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.frame.area());
        for position in area.positions() {
            if let Some(cell) = self.frame.buffer_mut().cell_mut(position) {
                cell.reset();
            }
        }
    }

    fn corners(&self) -> [&'static str; 8] {
        if self.ascii {
            ["+", "+", "+", "+", "-", "|", "+", "+"]
        } else {
            ["╭", "╮", "╰", "╯", "─", "│", "├", "┤"]
        }
    }

    /// Draws a frame with titles in it; returns what is inside.
    pub(super) fn frame(&mut self, area: Rect, role: Role, titles: &Titles<'_>) -> Rect {
        if area.width < 2 || area.height < 2 {
            return Rect {
                width: 0,
                height: 0,
                ..area
            };
        }
        let [top_left, top_right, low_left, low_right, flat, tall, ..] = self.corners();
        let (right, bottom) = (area.right() - 1, area.bottom() - 1);
        let line = flat.repeat(usize::from(area.width - 2));
        for (y, from, to) in [(area.y, top_left, top_right), (bottom, low_left, low_right)] {
            self.pieces(area, area.x, y, &[(role, from), (role, &line), (role, to)]);
        }
        for y in area.y + 1..bottom {
            self.put(area, area.x, y, role, tall);
            self.put(area, right, y, role, tall);
        }
        self.titles(area, titles);
        Rect {
            x: area.x + 1,
            y: area.y + 1,
            width: area.width - 2,
            height: area.height - 2,
        }
    }

    /// What stands at the right is kept; what stands at the left is cut.
    fn titles(&mut self, area: Rect, titles: &Titles<'_>) {
        let inside = Rect {
            x: area.x + 2,
            width: area.width.saturating_sub(4),
            ..area
        };
        let (role, below) = titles.below_right;
        let rows = [
            (area.y, titles.right, Role::Text),
            (area.bottom() - 1, below, role),
        ];
        let mut left_ends = [inside.right(), inside.right()];
        for ((y, words, role), end) in rows.into_iter().zip(&mut left_ends) {
            let words = self.spelled(words);
            let words = if words.is_empty() {
                words
            } else {
                format!(" {words} ")
            };
            let width = u16::try_from(columns(&words)).unwrap_or(u16::MAX);
            if self.put_right(inside, inside.x, y, role, &words) {
                *end = inside.right() - width;
            }
        }
        let room = Rect {
            width: left_ends[0].saturating_sub(inside.x),
            ..inside
        };
        if let [(role, words)] = titles.left {
            let words = cut(
                words,
                usize::from(room.width.saturating_sub(2)),
                self.signs.more,
            );
            self.pieces(
                room,
                room.x,
                area.y,
                &[(*role, " "), (*role, &words), (*role, " ")],
            );
        }
        if !titles.below_left.is_empty() {
            let room = Rect {
                width: left_ends[1].saturating_sub(inside.x),
                ..inside
            };
            let words = format!(" {} ", self.spelled(titles.below_left));
            self.put(room, room.x, area.bottom() - 1, Role::Muted, &words);
        }
    }

    /// A line across a box, from border to border; the first `filled` thousandths of it thick.
    pub(super) fn rule(&mut self, boxed: Rect, y: u16, role: Role, filled: Option<u32>) {
        let [.., flat, _, left, right] = self.corners();
        let width = u32::from(boxed.width.saturating_sub(2));
        let full = usize::try_from(filled.map_or(0, |filled| width * filled / 1000)).unwrap_or(0);
        let rest = usize::try_from(width).unwrap_or(0).saturating_sub(full);
        let thick = self.signs.full.repeat(full);
        let thin = flat.repeat(rest);
        self.pieces(
            boxed,
            boxed.x,
            y,
            &[
                (role, left),
                (Role::Warn, &thick),
                (role, &thin),
                (role, right),
            ],
        );
    }

    /// One row of a page; where the cursor stands in it, if it does.
    pub(super) fn row(&mut self, area: Rect, y: u16, page: &Page, row: &Row) -> Option<Position> {
        let line = &page.lines[row.line];
        let first = row.bytes.start == 0;
        let mut x = area.x;
        if line.lane == Lane::Says {
            x = self.put(area, x, y, Role::Active, self.signs.says);
        }
        if !first {
            let room = area.width / 2;
            x += u16::try_from(line.hang).unwrap_or(u16::MAX).min(room);
        }
        let mut cursor = None;
        for (role, text) in page.pieces(row) {
            if role == Role::Cursor {
                cursor = Some(Position {
                    x: x.min(area.right().saturating_sub(1)),
                    y,
                });
            }
            // These roles are ours; the words of others are never respelled.
            x = match role {
                Role::Warn | Role::Muted => {
                    let text = self.spelled(text);
                    self.put(area, x, y, role, &text)
                }
                role => self.put(area, x, y, role, text),
            };
        }
        if let Some(right) = line.right.as_ref().filter(|_| first) {
            self.put_right(area, x + 2, y, right.role, &right.text);
        }
        cursor
    }

    pub(super) fn cursor(&mut self, position: Position) {
        if self.frame.area().contains(position) {
            self.frame.set_cursor_position(position);
        }
    }
}
