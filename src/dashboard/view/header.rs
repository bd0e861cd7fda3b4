//! The first row: where we are, whether it is live, how much waits, and who we are.

use ratatui::layout::Rect;
use registry::Untrusted;

use super::{
    super::{
        lines::{columns, cut},
        model::Screen,
        msg::Link,
        theme::Role,
        words,
    },
    Pen, Scene,
};

/// What the label keeps while who we are stands in the row.
const LABEL: usize = 8;
/// The blanks around the counts.
const GAPS: usize = 3;

impl Scene<'_> {
    pub(super) fn header(&self, pen: &mut Pen<'_, '_>, row: Rect) {
        let me = self.me();
        let (role, state) = self.link_state(pen);
        let server = pen.spelled(&self.server());
        let name = match self.model.screen {
            Screen::Inbox => " pilothouse".to_owned(),
            other => format!(" pilothouse {} {}", pen.signs.then, other.word()),
        };
        // The counts win; the label gives way, and who we are before it is unreadable.
        let least = LABEL.min(columns(&server));
        let beside = |counts: &str| {
            let fixed = columns(&name) + 4 + columns(&state) + columns(counts) + GAPS;
            usize::from(row.width).saturating_sub(fixed)
        };
        let counts = pen.spelled(&self.counts(true));
        let counts = match beside(&counts) {
            room if room < least => self.counts(false),
            _ => counts,
        };
        let room = beside(&counts);
        let beside_me = room.saturating_sub(columns(&me) + 2);
        let (room, me) = if beside_me >= least {
            (beside_me, me)
        } else {
            (room, String::new())
        };
        let room = room.min(usize::from(row.width) / 3);
        let server = cut(&server, room, pen.signs.more);
        let left = [
            (Role::Strong, name.as_str()),
            (Role::Text, "  "),
            (Role::Muted, server.as_str()),
            (Role::Text, "  "),
            (role, state.as_str()),
        ];
        let end = pen.pieces(row, row.x, row.y, &left);
        let me = format!("{me} ");
        let mut room = row;
        if me != " " && pen.put_right(row, end + 2, row.y, Role::Muted, &me) {
            room.width -= u16::try_from(columns(&me)).unwrap_or(0);
        }
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
        let label = Untrusted::new(self.model.setup.server_label.as_str());
        label.line().to_string()
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

    fn counts(&self, whole: bool) -> String {
        if !self.model.synced {
            return String::new();
        }
        let model = self.model;
        let held = model.held_counts(whole);
        let waiting = format!("{} waiting", model.waiting);
        let expiring = model.expiring();
        let expiring = (expiring > 0 && whole).then(|| format!("{expiring} expiring"));
        let counts = held.into_iter().chain([waiting]).chain(expiring);
        counts.collect::<Vec<_>>().join(" · ")
    }

    fn me(&self) -> String {
        let Some(me) = &self.model.me else {
            return String::new();
        };
        let roles: Vec<&str> = me.roles.iter().map(|role| role.word()).collect();
        format!("{} ({})", words::safe(&me.name), roles.join(", "))
    }
}
