//! The list of what waits. Only the rows that fit are made.

use ratatui::layout::Rect;
use registry::{ApprovalId, ItemId, escalation::Ended};

use super::{
    super::{
        actions::{Action, Context},
        lines::{columns, cut, fit},
        listing::Listing,
        model::{Hand, Progress, Stands, URGENT},
        msg::ListDrawn,
        theme::Role,
        words,
    },
    Pen, Scene,
    pen::Titles,
};

/// `tool`, `task`, `form`, `sent`: what waits; how something ended takes more.
const WORD_COLUMNS: usize = 5;
const TIME_COLUMNS: usize = 4;

impl Scene<'_> {
    pub(super) fn inbox(&self, pen: &mut Pen<'_, '_>, area: Rect) -> ListDrawn {
        let model = self.model;
        let place = place(&model.inbox);
        let active = model.hand == Hand::List && model.front.is_none();
        let role = if active { Role::Active } else { Role::Frame };
        let titles = Titles {
            left: &[(Role::Strong, "Needs you")],
            below_left: &place,
            ..Titles::default()
        };
        let inside = pen.frame(area, role, &titles);
        let (rows, line_after) = self.inbox_rows(usize::from(inside.height));
        if rows.all == 0 {
            self.nothing(pen, inside);
        }
        let shown = model.inbox.shown(rows).filter_map(|id| match id {
            ItemId::Approval(id) => Some(model.stands(id)?.approval()),
            ItemId::Escalation(_) => None,
        });
        let agents = shown.map(|approval| columns(approval.from.agent.line().as_str()));
        let widest = agents.max().unwrap_or(0);
        for (n, id) in model.inbox.shown(rows).enumerate() {
            let below_line = line_after.is_some_and(|line| n >= line);
            let y = inside.y + u16::try_from(n).unwrap_or(u16::MAX) + u16::from(below_line);
            if line_after == Some(n) {
                pen.rule(area, y - 1, role, None);
            }
            let row = Rect {
                y,
                height: 1,
                ..inside
            };
            match id {
                ItemId::Approval(id) => self.approval_row(pen, row, id, widest),
                ItemId::Escalation(id) => self.held_row(pen, row, id),
            }
            if !model.is_online() {
                pen.dim(row);
            }
            if Some(id) == model.inbox.selected {
                pen.select(row);
            }
        }
        ListDrawn { rows }
    }

    /// One row. The agents' column is as wide as the widest of those shown, `widest`, where there is room.
    fn approval_row(&self, pen: &mut Pen<'_, '_>, row: Rect, id: ApprovalId, widest: usize) {
        let Some(stands) = self.model.stands(id) else {
            return;
        };
        let approval = stands.approval();
        let here = if Some(ItemId::Approval(id)) == self.model.inbox.selected {
            pen.signs.here
        } else {
            " "
        };
        let (role, sign, word) = self.row_words(pen, id, stands);
        let (waited, left) = self.times(stands, pen);
        let width = usize::from(row.width);
        let word_room = columns(word).max(WORD_COLUMNS);
        let fixed = 1 + 2 + word_room + 1 + 2 + TIME_COLUMNS + 1 + TIME_COLUMNS + 1;
        let room = width.saturating_sub(fixed);
        let agent_room = (room * 2 / 5).min(widest);
        let title_room = room.saturating_sub(agent_room + 1);
        let more = pen.signs.more;
        let title = fit(approval.title.line().as_str(), title_room, more);
        let agent = fit(approval.from.agent.line().as_str(), agent_room, more);
        let word = format!("{sign} {}", fit(word, word_room, ""));
        let soon = self.is_soon(stands);
        let (old, new) = if soon {
            (Role::Muted, Role::Warn)
        } else {
            (Role::Text, Role::Muted)
        };
        let strong = if soon { Role::Strong } else { Role::Text };
        pen.pieces(
            row,
            row.x,
            row.y,
            &[
                (Role::Active, here),
                (role, &word),
                (Role::Text, " "),
                (strong, &title),
                (Role::Text, " "),
                (Role::Muted, &agent),
                (Role::Text, "  "),
                (old, &format!("{waited:>TIME_COLUMNS$}")),
                (Role::Text, " "),
                (new, &right(&left, TIME_COLUMNS)),
            ],
        );
    }

    fn row_words(
        &self,
        pen: &Pen<'_, '_>,
        id: ApprovalId,
        stands: Stands<'_>,
    ) -> (Role, &'static str, &'static str) {
        match stands {
            Stands::Ended(settled) => {
                let sign = words::ended_sign(pen.signs, &settled.outcome);
                (Role::Muted, sign, settled.outcome.word())
            }
            Stands::Waits(pending) => match self.model.sent.get(&id) {
                Some(sent) if sent.progress == Progress::UnderWay => {
                    (Role::Warn, pen.signs.sent, "sent")
                }
                Some(_) | None if self.model.is_unreachable(&pending.approval) => {
                    (Role::Muted, pen.signs.away, words::kind(&pending.approval))
                }
                Some(_) | None => {
                    let sign = words::sign(pen.signs, pending);
                    let role = if sign == pen.signs.risk {
                        Role::Danger
                    } else {
                        Role::Hint
                    };
                    (role, sign, words::kind(&pending.approval))
                }
            },
        }
    }

    /// How long it has waited, and how long it has left.
    pub(super) fn times(&self, stands: Stands<'_>, pen: &Pen<'_, '_>) -> (String, String) {
        let waited = self.age(stands.approval().filed_at);
        let left = match stands {
            Stands::Ended(_) => String::new(),
            Stands::Waits(pending) => match (pending.deadline, self.now) {
                (None, _) => pen.signs.ever.to_owned(),
                (Some(_), _) if pending.passed_at.is_some() => "late".to_owned(),
                (Some(end), Some(now)) => words::span(end.since(now)),
                (Some(_), None) => String::new(),
            },
        };
        (waited, left)
    }

    pub(super) fn is_soon(&self, stands: Stands<'_>) -> bool {
        match (stands, self.now) {
            (Stands::Waits(pending), Some(now)) => {
                pending.deadline.is_some_and(|end| end.since(now) < URGENT)
            }
            _ => false,
        }
    }

    /// Nothing waits: says how something would, and what was decided lately.
    fn nothing(&self, pen: &mut Pen<'_, '_>, inside: Rect) {
        let text = Rect {
            x: inside.x + 1,
            width: inside.width.saturating_sub(2),
            ..inside
        };
        let mut y = text.y + 1;
        let mut say = |pen: &mut Pen<'_, '_>, role, words: &str| {
            let words = pen.spelled(words);
            pen.put(text, text.x, y, role, &words);
            y += 1;
        };
        if !self.model.synced {
            say(pen, Role::Muted, "connecting…");
            return;
        }
        say(
            pen,
            Role::Ok,
            &format!("{} Nothing waits for you.", pen.signs.granted),
        );
        say(pen, Role::Text, "");
        say(
            pen,
            Role::Muted,
            "An agent asks through its client, or try it:",
        );
        say(pen, Role::Text, "  pilothouse file --title \"Deploy?\"");
        say(pen, Role::Text, "");
        let history = self.model.history();
        if history.is_empty() {
            return;
        }
        say(pen, Role::Active, "LATELY");
        for ended in history.iter().take(usize::from(text.height)) {
            let row = self.lately(pen, ended, usize::from(text.width));
            say(pen, Role::Muted, &row);
        }
    }

    fn lately(&self, pen: &Pen<'_, '_>, ended: &Ended, width: usize) -> String {
        let clock = words::clock(ended.at());
        let clock = clock.get(..5).unwrap_or_default();
        let (sign, word, title, by) = match ended {
            Ended::Approval(settled) => (
                words::ended_sign(pen.signs, &settled.outcome),
                settled.outcome.word(),
                settled.approval.title.clone(),
                settled.decision().map(|decision| &decision.decider.by),
            ),
            Ended::Escalation(closed) => (
                words::closed_sign(pen.signs, &closed.how),
                closed.how.word(),
                closed.escalation.title(),
                closed.how.by(),
            ),
        };
        // The widest sign is two.
        let (sign, word) = (fit(sign, 2, ""), fit(word, 10, ""));
        let by = by.map_or_else(
            || "nobody".to_owned(),
            |by| format!("by {}", words::safe(by)),
        );
        let start = format!("{clock} {sign} {word} ");
        let room = width.saturating_sub(columns(&start));
        let by = cut(&by, room / 2, pen.signs.more);
        let title_room = room.saturating_sub(columns(&by) + 1);
        let title = fit(title.line().as_str(), title_room, pen.signs.more);
        format!("{start}{title} {by}")
    }

    /// Which key opens; for the panel that has no card.
    pub(super) fn open_hint(&self) -> String {
        format!(
            "{} opens what is selected",
            self.key(Context::Inbox, Action::Open)
        )
    }
}

/// Which one of how many is selected.
pub(super) fn place<Id: Copy + Ord>(list: &Listing<Id>) -> String {
    match list.order.len() {
        0 => String::new(),
        all => format!("{}/{all}", list.position().unwrap_or(0) + 1),
    }
}

/// Filled up at the left: a sign may be wider than it is long.
fn right(text: &str, width: usize) -> String {
    let fill = width.saturating_sub(columns(text));
    format!("{:fill$}{text}", "")
}
