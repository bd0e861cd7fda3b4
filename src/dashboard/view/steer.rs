//! The direction that is being written for a run.

use ratatui::layout::Rect;
use registry::limits;

use super::{
    super::{
        actions::{Action, Context},
        lines::{Line, Page, Part},
        steering::Direction,
        theme::Role,
    },
    Pen, Scene,
    form::area_lines,
    pen::Titles,
};

/// With its frame.
const MOST_ROWS: u16 = 12;
const LEAST_ROWS: u16 = 5;

impl Scene<'_> {
    /// Over the lower part of what it is about, which stays in sight.
    pub(super) fn steer(&self, pen: &mut Pen<'_, '_>, area: Rect) {
        let Some(aim) = self.model.steering.writing else {
            return;
        };
        let empty = Direction::default();
        let draft = self.model.steering.drafts.get(&aim.run).unwrap_or(&empty);
        let width = usize::from(area.width.saturating_sub(4));
        let lines = area_lines(&draft.text, 0, true);
        let page = Page::lay(lines.into_iter().map(line).collect(), width);
        let rows = u16::try_from(page.rows.len()).unwrap_or(u16::MAX);
        let most = MOST_ROWS.min(area.height / 2).max(LEAST_ROWS);
        let height = rows
            .saturating_add(2)
            .clamp(LEAST_ROWS, most)
            .min(area.height);
        let boxed = Rect {
            y: area.bottom() - height,
            height,
            ..area
        };
        pen.clear(boxed);
        self.steer_frame(pen, boxed, aim.run, draft);
        let text = Rect {
            x: boxed.x + 2,
            y: boxed.y + 1,
            width: boxed.width.saturating_sub(4),
            height: boxed.height.saturating_sub(2),
        };
        let shown = usize::from(text.height);
        let has_cursor = |row: &&super::super::lines::Row| {
            page.pieces(row).any(|(role, _)| role == Role::Cursor)
        };
        let at = page
            .rows
            .iter()
            .rposition(|row| has_cursor(&row))
            .unwrap_or(0);
        let top = (at + 1).saturating_sub(shown);
        for (row, y) in page.rows.iter().skip(top).zip(text.y..text.bottom()) {
            let cursor = pen.row(text, y, &page, row);
            if let Some(cursor) = cursor.filter(|_| self.model.front.is_none()) {
                pen.cursor(cursor);
            }
        }
    }

    fn steer_frame(
        &self,
        pen: &mut Pen<'_, '_>,
        boxed: Rect,
        run: registry::RunId,
        draft: &Direction,
    ) {
        let agent = self.model.state.run(run).map(|run| run.key.agent.line());
        let agent = agent.map(|agent| agent.to_string()).unwrap_or_default();
        let (bytes, limit) = (draft.bytes(), limits::STEER);
        let sign = if bytes > limit { "⚠ " } else { "" };
        let used = format!("{sign}{bytes} of {limit} bytes");
        let keys = format!(
            "{} send   {} keep as draft",
            self.key(Context::Steer, Action::Submit),
            self.key(Context::Steer, Action::Back)
        );
        let name = format!("Steer {agent}");
        let titles = Titles {
            left: &[(Role::Strong, &name)],
            right: &used,
            below_left: &keys,
            ..Titles::default()
        };
        pen.frame(boxed, Role::Active, &titles);
    }
}

fn line(parts: Vec<Part>) -> Line {
    // The bar of a field is left out: the frame says that this is a text.
    let parts = parts.into_iter().skip(2).map(|part| match part.role {
        Role::Editing => Part::new(Role::Input, part.text),
        _ => part,
    });
    Line {
        parts: parts.collect(),
        ..Line::default()
    }
}
