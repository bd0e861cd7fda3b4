//! The model as a picture. Looks at everything, changes nothing, and says what it drew.

mod banner;
mod card;
mod confirm;
mod escalation;
mod footer;
mod form;
mod header;
mod held;
mod help;
mod history;
mod inbox;
mod orders;
mod palette;
mod pen;
mod runs;
mod steer;

use ratatui::{Frame, layout::Rect};
use registry::Timestamp;

use self::pen::Pen;
use super::{
    model::{Front, Hand, Model, SMALLEST, Screen, WIDE_COLUMNS},
    msg::{Drawn, Moment},
    theme::Role,
    words,
};

/// Draws the model as it is at `at`. Hand what this returns back as [`Msg::Drawn`](super::Msg::Drawn) once the frame was
/// written, and not before.
pub fn view(model: &Model, at: Moment, frame: &mut Frame<'_>) -> Drawn {
    let area = frame.area();
    let mut drawn = Drawn {
        generation: model.generation,
        size: (area.width, area.height),
        ..Drawn::default()
    };
    let scene = Scene {
        model,
        at,
        now: model.now(at),
    };
    let mut pen = Pen::new(frame, model);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        scene.tiny(&mut pen, area);
    } else {
        scene.whole(&mut pen, area, &mut drawn);
    }
    drawn
}

/// What every part of the picture is drawn from.
struct Scene<'a> {
    model: &'a Model,
    at: Moment,
    now: Option<Timestamp>,
}

impl Scene<'_> {
    fn tiny(&self, pen: &mut Pen<'_, '_>, area: Rect) {
        let words = format!("{} · make the window larger", self.waiting());
        let words = pen.spelled(&words);
        pen.put(area, area.x, area.y, Role::Strong, &words);
    }

    fn waiting(&self) -> String {
        let waiting = self.model.waiting;
        let held = self.model.held_counts(false);
        let held = held.map_or_else(String::new, |held| format!("{held} · "));
        let link = if self.model.is_online() {
            ""
        } else {
            "offline · "
        };
        format!("{link}{held}{waiting} waiting")
    }

    fn whole(&self, pen: &mut Pen<'_, '_>, area: Rect, drawn: &mut Drawn) {
        let mut rest = area;
        self.header(pen, take_top(&mut rest));
        if let Some(words) = &self.model.setup.banner {
            let row = take_top(&mut rest);
            pen.across(row, Role::Alarm, &format!(" {}", words::safe(words)));
        }
        if let Some(words) = self.offline(usize::from(area.width)) {
            let row = take_top(&mut rest);
            pen.across(row, Role::Alarm, &words);
        }
        let footer = take_bottom(&mut rest);
        match &self.model.front {
            Some(Front::Help { of, top }) => drawn.help = Some(self.help(pen, rest, *of, *top)),
            Some(Front::Sure { face, .. }) => {
                self.panels(pen, rest, drawn);
                if let Some(card) = &mut drawn.card {
                    card.seen.clear();
                    drawn.confirming = true;
                }
                self.confirm(pen, rest, face);
            }
            Some(Front::Stop(face)) => {
                self.panels(pen, rest, drawn);
                drawn.confirming = drawn.run.is_some();
                self.stop(pen, rest, face);
            }
            Some(Front::Again { face, task }) => {
                self.panels(pen, rest, drawn);
                drawn.confirming = drawn.run.is_some();
                self.again(pen, rest, face, task);
            }
            Some(Front::Palette(palette)) => {
                let rows = palette::height(rest);
                let below = take_rows_below(&mut rest, rows);
                self.panels(pen, rest, drawn);
                self.palette(pen, below, palette);
            }
            None => {
                self.panels(pen, rest, drawn);
                self.steer(pen, rest);
            }
        }
        self.footer(pen, footer);
    }

    fn panels(&self, pen: &mut Pen<'_, '_>, area: Rect, drawn: &mut Drawn) {
        match self.model.screen {
            Screen::Inbox => self.inbox_panels(pen, area, drawn),
            Screen::Runs => self.runs_panels(pen, area, drawn),
            Screen::History if self.model.open().is_some() => {
                self.open_card(pen, area, drawn);
            }
            Screen::History => drawn.list = Some(self.history(pen, area)),
        }
    }

    fn inbox_panels(&self, pen: &mut Pen<'_, '_>, area: Rect, drawn: &mut Drawn) {
        let open = self.model.open();
        if area.width >= WIDE_COLUMNS {
            let left = (area.width * 44).div_ceil(100).clamp(40, 64);
            let (list, card) = (
                Rect {
                    width: left,
                    ..area
                },
                Rect {
                    x: area.x + left,
                    width: area.width - left,
                    ..area
                },
            );
            drawn.list = Some(self.inbox(pen, list));
            self.open_card(pen, card, drawn);
        } else if open.is_some() && self.model.hand != Hand::List {
            self.open_card(pen, area, drawn);
        } else {
            drawn.list = Some(self.inbox(pen, area));
        }
    }

    fn open_card(&self, pen: &mut Pen<'_, '_>, area: Rect, drawn: &mut Drawn) {
        match self.model.open_held() {
            Some(id) => drawn.run = self.held_panel(pen, area, id),
            None => drawn.card = self.card_panel(pen, area),
        }
    }

    fn age(&self, since: Timestamp) -> String {
        self.now
            .map(|now| words::span(now.since(since)))
            .unwrap_or_default()
    }
}

fn take_top(area: &mut Rect) -> Rect {
    let row = Rect {
        height: area.height.min(1),
        ..*area
    };
    area.y += row.height;
    area.height -= row.height;
    row
}

fn take_bottom(area: &mut Rect) -> Rect {
    take_rows_below(area, 1)
}

fn take_rows_below(area: &mut Rect, rows: u16) -> Rect {
    let height = area.height.min(rows);
    area.height -= height;
    Rect {
        y: area.y + area.height,
        height,
        ..*area
    }
}
