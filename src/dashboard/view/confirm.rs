//! «Are you sure?», with the cursor on "no", and with what will run: the card behind it is covered.

use ratatui::layout::Rect;

use super::{
    super::{
        actions::{Action, Context},
        lines::{Line, Page, Part, columns, cut},
        msg::Face,
        theme::Role,
    },
    Pen, Scene,
    pen::Titles,
};

/// So many rows of the arguments are shown, the one that says how many more there are included.
const ARGS: usize = 7;
const WIDTH: u16 = 72;
/// The frame, whose question it is, a blank, and the answers.
const FIXED: u16 = 6;

impl Scene<'_> {
    pub(super) fn confirm(&self, pen: &mut Pen<'_, '_>, area: Rect, face: &Face) {
        let Some(stands) = self.model.stands(face.id) else {
            return;
        };
        let approval = stands.approval();
        let width = WIDTH.min(area.width.saturating_sub(4));
        let runs = self.runs(pen, face, usize::from(width.saturating_sub(4)), area.height);
        let rows = u16::try_from(runs.rows.len()).unwrap_or(0);
        let height = (FIXED + rows).min(area.height);
        let boxed = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        pen.clear(boxed);
        let titles = Titles {
            left: &[(Role::Danger, "! HIGH RISK: approve?")],
            ..Titles::default()
        };
        let inside = pen.frame(boxed, Role::Danger, &titles);
        let text = Rect {
            x: inside.x + 1,
            width: inside.width.saturating_sub(2),
            ..inside
        };
        let title = approval.title.line();
        let what = cut(title.as_str(), usize::from(text.width), pen.signs.more);
        pen.put(text, text.x, text.y, Role::Strong, &what);
        let by = format!(
            "{}  sha {}",
            approval.from.agent.line(),
            approval.digest.short()
        );
        let by = cut(&pen.spelled(&by), usize::from(text.width), pen.signs.more);
        pen.put(text, text.x, text.y + 1, Role::Muted, &by);
        for (row, y) in runs.rows.iter().zip(text.y + 2..text.bottom()) {
            pen.row(text, y, &runs, row);
        }
        self.no_or_yes(pen, text, "yes, approve");
    }

    /// The same for something else than a question, with what would follow.
    pub(super) fn sure(
        &self,
        pen: &mut Pen<'_, '_>,
        area: Rect,
        asks: &str,
        lines: Vec<Line>,
        yes: &str,
    ) {
        let width = WIDTH.min(area.width.saturating_sub(4));
        let page = Page::lay(lines, usize::from(width.saturating_sub(4)));
        let rows = u16::try_from(page.rows.len()).unwrap_or(0);
        let height = (rows + 4).min(area.height);
        let boxed = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        pen.clear(boxed);
        let titles = Titles {
            left: &[(Role::Danger, asks)],
            ..Titles::default()
        };
        let inside = pen.frame(boxed, Role::Danger, &titles);
        let text = Rect {
            x: inside.x + 1,
            width: inside.width.saturating_sub(2),
            ..inside
        };
        let answers = text.bottom().saturating_sub(1);
        for (row, y) in page.rows.iter().zip(text.y..answers) {
            pen.row(text, y, &page, row);
        }
        self.no_or_yes(pen, text, yes);
    }

    /// The answers in the last row, with the cursor on "no".
    fn no_or_yes(&self, pen: &mut Pen<'_, '_>, text: Rect, yes: &str) {
        let here = pen.signs.here;
        let no = format!(" no ({}) ", self.key(Context::Confirm, Action::Dismiss));
        let yes = format!("{yes} ({})", self.key(Context::Confirm, Action::Confirm));
        let y = text.bottom().saturating_sub(1);
        let pieces = [(Role::Danger, here), (Role::Selected, no.as_str())];
        let x = pen.pieces(text, text.x, y, &pieces);
        let x = x.max(text.x + 1 + u16::try_from(columns(&no)).unwrap_or(0));
        pen.put(text, x + 3, y, Role::Text, &yes);
    }

    /// The tool, and the first rows of its arguments as they stand on the card.
    fn runs(&self, pen: &Pen<'_, '_>, face: &Face, width: usize, height: u16) -> Page {
        let tool = self
            .model
            .stands(face.id)
            .and_then(|stands| stands.approval().subject.tool());
        let mut lines: Vec<Line> = Vec::new();
        if let Some(tool) = tool {
            let name = cut(
                tool.line().as_str(),
                width.saturating_sub(5),
                pen.signs.more,
            );
            lines.push(Line {
                parts: vec![
                    Part::new(Role::Muted, "runs "),
                    Part::new(Role::Strong, name),
                ],
                ..Line::default()
            });
        }
        let named = lines.len();
        let raw = self.model.open().is_some_and(|open| open.raw);
        if let Some(card) = self.model.card(face.id) {
            lines.extend(card.text(raw).args().iter().cloned());
        }
        let mut page = Page::lay(lines, width);
        let room = usize::from(height.saturating_sub(FIXED)).min(named + ARGS);
        let all = page.rows.len();
        if all > room {
            let kept = room.saturating_sub(1).max(named);
            page.rows.truncate(kept);
            if kept < room {
                let words = format!("    « {} more »", super::words::count(all - kept, "line"));
                let more = Page::lay(vec![Line::of(Role::Warn, pen.spelled(&words))], width);
                let line = page.lines.len();
                page.lines.extend(more.lines);
                page.rows.extend(
                    more.rows
                        .into_iter()
                        .map(|row| super::super::lines::Row { line, ..row }),
                );
            }
        }
        page
    }
}
