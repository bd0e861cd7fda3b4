//! «Are you sure?», with the cursor on "no".

use ratatui::layout::Rect;

use super::{
    super::{
        actions::{Action, Context},
        lines::{columns, cut},
        msg::Face,
        theme::Role,
    },
    Pen, Scene,
    pen::Titles,
};

const HEIGHT: u16 = 7;

impl Scene<'_> {
    pub(super) fn confirm(&self, pen: &mut Pen<'_, '_>, area: Rect, face: &Face) {
        let Some(stands) = self.model.stands(face.id) else {
            return;
        };
        let approval = stands.approval();
        let width = 60.min(area.width.saturating_sub(4));
        let height = HEIGHT.min(area.height);
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
        let no = format!(
            "{} no ({}) ",
            pen.signs.here,
            self.key(Context::Confirm, Action::Dismiss)
        );
        let yes = format!(
            "yes, approve ({})",
            self.key(Context::Confirm, Action::Confirm)
        );
        let y = text.y + 3;
        let x = pen.put(text, text.x, y, Role::Selected, &no);
        pen.put(
            text,
            x.max(text.x + u16::try_from(columns(&no)).unwrap_or(0)) + 3,
            y,
            Role::Text,
            &yes,
        );
    }
}
