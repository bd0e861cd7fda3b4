//! The first row: where we are, whether it is live, how much waits, and who we are.

use ratatui::layout::Rect;
use registry::Untrusted;

use super::{
    super::{
        lines::{columns, cut},
        msg::Link,
        theme::Role,
        words,
    },
    Pen, Scene,
};

impl Scene<'_> {
    pub(super) fn header(&self, pen: &mut Pen<'_, '_>, row: Rect) {
        let me = self.me();
        let counts = self.counts();
        let server = cut(&self.server(), usize::from(row.width) / 3, pen.signs.more);
        let server = pen.spelled(&server);
        let (role, state) = self.link_state(pen);
        let left = [
            (Role::Strong, " pilothouse"),
            (Role::Text, "  "),
            (Role::Muted, server.as_str()),
            (Role::Text, "  "),
            (role, state.as_str()),
        ];
        let end = pen.pieces(row, row.x, row.y, &left);
        let me = format!("{me} ");
        let mut room = row;
        if pen.put_right(row, end + 2, row.y, Role::Muted, &me) {
            room.width -= u16::try_from(columns(&me)).unwrap_or(0);
        }
        let counts = pen.spelled(&counts);
        let width = u16::try_from(columns(&counts)).unwrap_or(u16::MAX);
        let middle = row.x + row.width.saturating_sub(width) / 2;
        let at = middle.max(end + 3);
        if at.saturating_add(width) + 1 < room.right() {
            pen.put(room, at, row.y, Role::Strong, &counts);
        } else {
            pen.put_right(room, end + 2, row.y, Role::Strong, &format!("{counts} "));
        }
    }

    fn server(&self) -> String {
        let label = Untrusted::new(self.model.setup.server_label.as_str()).line();
        match &self.model.link {
            Link::Online { server, .. } if !server.is_empty() => {
                format!("{label} · {}", Untrusted::new(server.as_str()).line())
            }
            Link::Online { .. } | Link::Connecting { .. } | Link::Offline { .. } => {
                label.to_string()
            }
        }
    }

    fn link_state(&self, pen: &Pen<'_, '_>) -> (Role, String) {
        match &self.model.link {
            Link::Online { .. } => (Role::Ok, format!("{} live", pen.signs.live)),
            // The next try does not make what is shown any newer.
            Link::Connecting { .. } if self.model.synced => {
                (Role::Danger, format!("{} offline", pen.signs.offline))
            }
            Link::Connecting { .. } => (Role::Warn, format!("{} connecting", pen.signs.sent)),
            Link::Offline { .. } => (Role::Danger, format!("{} offline", pen.signs.offline)),
        }
    }

    fn counts(&self) -> String {
        if !self.model.synced {
            return String::new();
        }
        let waiting = self.model.waiting;
        match self.model.expiring() {
            0 => format!("{waiting} waiting"),
            expiring => format!("{waiting} waiting · {expiring} expiring"),
        }
    }

    fn me(&self) -> String {
        let Some(me) = &self.model.me else {
            return String::new();
        };
        let roles: Vec<&str> = me.roles.iter().map(|role| role.word()).collect();
        format!("{} ({})", words::safe(&me.name), roles.join(", "))
    }
}
