//! The palette: below everything else, so that it covers nothing.

use ratatui::layout::{Position, Rect};

use super::{
    super::{
        actions::Action,
        lines::{columns, cut, fit},
        palette::Palette,
        theme::Role,
        words,
    },
    Pen, Scene,
    footer::preferred,
    pen::Titles,
};

/// With its frame and the row that is typed into.
const ROWS: u16 = 12;
/// `previous-screen`.
const WORD_COLUMNS: usize = 16;

/// How much of the screen it takes.
pub(super) fn height(area: Rect) -> u16 {
    ROWS.min(area.height / 2)
}

impl Scene<'_> {
    pub(super) fn palette(&self, pen: &mut Pen<'_, '_>, area: Rect, palette: &Palette) {
        let found = palette.find(self.model.offered());
        let count = match found.len() {
            0 => "no command is called so".to_owned(),
            all => format!("{}/{all}", palette.at + 1),
        };
        let titles = Titles {
            left: &[(Role::Strong, "Commands")],
            below_left: &count,
            ..Titles::default()
        };
        let inside = pen.frame(area, Role::Active, &titles);
        let height = usize::from(inside.height.saturating_sub(1));
        let top = (palette.at + 1).saturating_sub(height);
        let shown = found.iter().enumerate().skip(top).take(height);
        for ((at, action), y) in shown.zip(inside.y..inside.bottom()) {
            let row = Rect {
                y,
                height: 1,
                ..inside
            };
            self.command(pen, row, *action, at == palette.at);
            if at == palette.at {
                pen.select(row);
            }
        }
        let y = inside.bottom().saturating_sub(1);
        let typed = format!(":{}", words::safe(&palette.text));
        let x = pen.put(inside, inside.x + 1, y, Role::Input, &typed);
        pen.cursor(Position { x, y });
    }

    fn command(&self, pen: &mut Pen<'_, '_>, row: Rect, action: Action, selected: bool) {
        let here = if selected { pen.signs.here } else { " " };
        let keys = self.model.setup.keymap.keys_for(self.model.place(), action);
        let key = match keys.is_empty() {
            true => String::new(),
            false => self
                .model
                .key_for(self.model.place(), action, preferred(action)),
        };
        let key = format!("{key} ");
        let word = fit(action.word(), WORD_COLUMNS, pen.signs.more);
        let before = 1 + columns(&word) + 1 + 1 + columns(&key);
        let room = usize::from(row.width).saturating_sub(before);
        let what = cut(action.describe(), room, pen.signs.more);
        let pieces = [
            (Role::Active, here),
            (Role::Strong, word.as_str()),
            (Role::Text, " "),
            (Role::Muted, &what),
        ];
        let x = pen.pieces(row, row.x, row.y, &pieces);
        pen.put_right(row, x, row.y, Role::Hint, &key);
    }
}
