//! The rows of the inbox that are runs which stand still, and the line below them.

use ratatui::layout::Rect;
use registry::{EscalationId, ItemId, drift::Severity};

use super::{
    super::{
        lines::{columns, fit},
        model::Progress,
        msg::Rows,
        steering::{Held, Stillness, is_unreachable},
        theme::Role,
        words,
    },
    Pen, Scene,
};

const WORD_COLUMNS: usize = 7;
const TIME_COLUMNS: usize = 4;

impl Scene<'_> {
    /// Which rows of the inbox fit, and below which of them the line between runs and questions is drawn.
    pub(super) fn inbox_rows(&self, height: usize) -> (Rows, Option<usize>) {
        let list = &self.model.inbox;
        let is_run = |id: &ItemId| matches!(id, ItemId::Escalation(_));
        let runs = list.order.iter().take_while(|id| is_run(id)).count();
        let inside = |rows: Rows| (rows.top + 1..rows.top + rows.height).contains(&runs);
        let rows = list.window(height);
        if runs == list.order.len() || !inside(rows) {
            return (rows, None);
        }
        let rows = list.window(height.saturating_sub(1));
        (rows, inside(rows).then(|| runs - rows.top))
    }

    /// `‖ paused  research-7   LOOPING_TOOL_CALL   3m crit`
    pub(super) fn held_row(&self, pen: &mut Pen<'_, '_>, row: Rect, id: EscalationId) {
        let Some(held) = self.model.held(id) else {
            return;
        };
        let escalation = held.escalation();
        let here = if Some(ItemId::Escalation(id)) == self.model.inbox.selected {
            pen.signs.here
        } else {
            " "
        };
        let (role, sign, word) = self.held_words(pen, held);
        let word_room = columns(word).max(WORD_COLUMNS);
        let word = format!("{sign} {}", fit(word, word_room, ""));
        let waited = self.age(escalation.at);
        let left = match (escalation.abort_at, self.now, held) {
            (_, _, Held::Closed(_)) => String::new(),
            (Some(end), Some(now), _) => words::span(end.since(now)),
            _ => escalation
                .drift()
                .map_or("", |drift| short(&drift.severity))
                .to_owned(),
        };
        let fixed = 1 + columns(&word) + 1 + 1 + 1 + TIME_COLUMNS + 1 + TIME_COLUMNS + 1;
        let room = usize::from(row.width).saturating_sub(fixed);
        let agent_room = (room * 2 / 5).max(room.min(10));
        let more = pen.signs.more;
        let agent = fit(escalation.from.agent.line().as_str(), agent_room, more);
        let title = fit(escalation.title().line().as_str(), room - agent_room, more);
        let bad = escalation
            .drift()
            .is_some_and(|drift| drift.severity.is_critical());
        let severity = if bad { Role::Danger } else { Role::Muted };
        pen.pieces(
            row,
            row.x,
            row.y,
            &[
                (Role::Active, here),
                (role, &word),
                (Role::Text, " "),
                (Role::Strong, &agent),
                (Role::Text, " "),
                (Role::Text, &title),
                (Role::Text, " "),
                (Role::Text, &format!("{waited:>TIME_COLUMNS$}")),
                (Role::Text, " "),
                (severity, &format!("{left:>TIME_COLUMNS$}")),
            ],
        );
    }

    fn held_words(&self, pen: &Pen<'_, '_>, held: Held<'_>) -> (Role, &'static str, &'static str) {
        let escalation = match held {
            Held::Closed(closed) => {
                let sign = words::closed_sign(pen.signs, &closed.how);
                return (Role::Muted, sign, closed.how.word());
            }
            Held::Waits(escalation) => escalation,
        };
        let run = self.model.state.run(escalation.run);
        let sent = self.model.steering.sent.get(&escalation.run);
        if sent.is_some_and(|given| given.progress == Progress::UnderWay) {
            return (Role::Warn, pen.signs.sent, "sent");
        }
        let still = Stillness::of(escalation, run.map(|run| &**run));
        if still == Stillness::Aborting {
            return (Role::Danger, pen.signs.rejected, "aborts");
        }
        let word = still.word();
        if run.is_some_and(|run| is_unreachable(run)) {
            return (Role::Muted, pen.signs.away, word);
        }
        (Role::Warn, pen.signs.held, word)
    }
}

fn short(severity: &Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warn",
        Severity::Critical => "crit",
        Severity::Unknown(_) => "?",
    }
}
