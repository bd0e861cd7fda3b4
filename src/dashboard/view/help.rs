//! What every key does, from the keymap that holds.

use ratatui::layout::Rect;

use super::{
    super::{
        actions::Context,
        keymap::Binding,
        lines::{Line, Page, Part, columns},
        msg::Rows,
        theme::Role,
    },
    Pen, Scene,
    pen::Titles,
};

impl Scene<'_> {
    pub(super) fn help(&self, pen: &mut Pen<'_, '_>, area: Rect, of: Context, top: usize) -> Rows {
        let others = [
            Context::Inbox,
            Context::Card,
            Context::Form,
            Context::Note,
            Context::Escalation,
            Context::Steer,
            Context::Rewind,
            Context::Confirm,
            Context::Runs,
            Context::History,
            Context::Palette,
        ];
        let mut lines = Vec::new();
        self.section(pen, &mut lines, of, true);
        for context in others.into_iter().filter(|context| *context != of) {
            self.section(pen, &mut lines, context, false);
        }
        let page = Page::lay(lines, usize::from(area.width.saturating_sub(4)));
        let height = usize::from(area.height.saturating_sub(2));
        let top = top.min(page.rows.len().saturating_sub(height));
        let below = page.rows.len().saturating_sub(top + height);
        let more = if below > 0 {
            format!("{below} more ↓")
        } else {
            String::new()
        };
        let titles = Titles {
            left: &[(Role::Strong, "Keys")],
            below_right: (Role::Muted, &more),
            ..Titles::default()
        };
        let inside = pen.frame(area, Role::Active, &titles);
        let text = Rect {
            x: inside.x + 1,
            width: inside.width.saturating_sub(2),
            ..inside
        };
        for (row, y) in page.rows.iter().skip(top).zip(text.y..text.bottom()) {
            pen.row(text, y, &page, row);
        }
        Rows {
            top,
            height,
            all: page.rows.len(),
        }
    }

    fn section(
        &self,
        pen: &Pen<'_, '_>,
        lines: &mut Vec<Line>,
        context: Context,
        with_global: bool,
    ) {
        let keymap = &self.model.setup.keymap;
        let global = keymap.bindings(Context::Global);
        let mut rows: Vec<(String, Binding)> = Vec::new();
        for binding in keymap.bindings(context) {
            if !with_global && global.contains(&binding) {
                continue;
            }
            let keys = pen.spelled(&binding.keys);
            match rows
                .iter_mut()
                .find(|(_, before)| before.action == binding.action)
            {
                Some((all, _)) => all.push_str(&format!(", {keys}")),
                None => rows.push((keys, binding)),
            }
        }
        if !lines.is_empty() {
            lines.push(Line::of(Role::Text, ""));
        }
        let here = if with_global { "HERE, IN" } else { "IN" };
        lines.push(Line::of(Role::Active, format!("{here} {}", words(context))));
        let width = rows
            .iter()
            .map(|(keys, _)| columns(keys))
            .max()
            .unwrap_or(0)
            .clamp(8, 22);
        for (keys, binding) in rows {
            let fill = width.saturating_sub(columns(&keys)) + 2;
            lines.push(Line {
                parts: vec![
                    Part::new(Role::Hint, format!("  {keys}")),
                    Part::new(
                        Role::Text,
                        format!("{:fill$}{}", "", binding.action.describe()),
                    ),
                ],
                hang: width + 4,
                ..Line::default()
            });
        }
    }
}

fn words(context: Context) -> &'static str {
    match context {
        Context::Global => "EVERY PLACE",
        Context::Inbox => "THE INBOX",
        Context::Card => "A CARD",
        Context::Form => "A FORM",
        Context::Note => "A NOTE",
        Context::Escalation => "A RUN THAT STANDS STILL",
        Context::Steer => "A DIRECTION",
        Context::Rewind => "A TASK TO DO AGAIN",
        Context::Confirm => "«ARE YOU SURE?»",
        Context::Help => "THE HELP",
        Context::Runs => "THE RUNS",
        Context::History => "THE HISTORY",
        Context::Palette => "THE COMMANDS",
    }
}
