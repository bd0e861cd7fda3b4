//! What has ended: how, by whom, with what answer, and what came of it.

use ratatui::layout::Rect;
use registry::{
    Settled,
    approval::{AppliedResult, Claim, ClaimStage, DeliveryState, Outcome, Why},
    control::Stage,
    escalation::{Closed, Ended, How},
};

use super::{
    super::{
        actions::{Action, Context},
        lines::{columns, fit},
        msg::ListDrawn,
        past::Older,
        theme::Role,
        words,
    },
    Pen, Scene,
    inbox::place,
    pen::Titles,
};

/// `14:04`, or `11-29`.
const TIME_COLUMNS: usize = 5;
/// The widest is two.
const SIGN_COLUMNS: usize = 2;
/// `superseded`.
const WORD_COLUMNS: usize = 10;
/// All that stands before the columns that share the rest, and the gaps between those.
const FIXED: usize = 1 + TIME_COLUMNS + 2 + SIGN_COLUMNS + 1 + WORD_COLUMNS + 5 * 2;
/// From this width on, the answers have a column.
const ANSWERS_FROM: usize = 90;

impl Scene<'_> {
    pub(super) fn history(&self, pen: &mut Pen<'_, '_>, area: Rect) -> ListDrawn {
        let past = &self.model.past;
        let (role, older) = self.older();
        let titles = Titles {
            left: &[(Role::Strong, "History")],
            below_left: &place(&past.list),
            below_right: (role, &older),
            ..Titles::default()
        };
        let active = self.model.front.is_none();
        let role = if active { Role::Active } else { Role::Frame };
        let inside = pen.frame(area, role, &titles);
        let rows = past.list.window(usize::from(inside.height));
        if rows.all == 0 && past.older == Older::Nothing {
            let words = "Nothing has ended yet.";
            pen.put(inside, inside.x + 2, inside.y + 1, Role::Muted, words);
        }
        let shown: Vec<_> = past
            .list
            .shown(rows)
            .filter_map(|seq| past.get(seq))
            .collect();
        let room = usize::from(inside.width).saturating_sub(FIXED);
        let widths = share(widest(&shown, usize::from(inside.width)), room);
        for (ended, y) in shown.into_iter().zip(inside.y..inside.bottom()) {
            let row = Rect {
                y,
                height: 1,
                ..inside
            };
            self.ended_row(pen, row, ended, widths);
            if !self.model.is_online() {
                pen.dim(row);
            }
            if Some(ended.seq()) == past.list.selected {
                pen.select(row);
            }
        }
        ListDrawn { rows }
    }

    fn older(&self) -> (Role, String) {
        match &self.model.past.older {
            Older::Unknown | Older::Nothing => (Role::Muted, String::new()),
            Older::More(_) => (Role::Muted, "older ↓".to_owned()),
            Older::UnderWay(_) => (Role::Muted, "fetching what is older…".to_owned()),
            Older::Failed(_, why) => {
                let key = self.key(Context::History, Action::RetryNow);
                let words = format!("⚠ what is older could not be fetched ({key} again): {why}");
                (Role::Danger, words)
            }
        }
    }

    fn ended_row(&self, pen: &mut Pen<'_, '_>, row: Rect, ended: &Ended, widths: Widths) {
        let here = if Some(ended.seq()) == self.model.past.list.selected {
            pen.signs.here
        } else {
            " "
        };
        let more = pen.signs.more;
        let at = words::day_or_time(ended.at(), self.now);
        let at = fit(&at, TIME_COLUMNS, "");
        let (sign, word) = match ended {
            Ended::Approval(settled) => (
                words::ended_sign(pen.signs, &settled.outcome),
                settled.outcome.word(),
            ),
            Ended::Escalation(closed) => (
                words::closed_sign(pen.signs, &closed.how),
                closed.how.word(),
            ),
        };
        let sign = fit(sign, SIGN_COLUMNS, "");
        let word = fit(word, WORD_COLUMNS, "");
        let texts = texts(ended);
        let [title, agent, by, said, came] = std::array::from_fn(|column| {
            let gap = if widths[column] == 0 { "" } else { "  " };
            format!("{gap}{}", fit(&texts[column], widths[column], more))
        });
        pen.pieces(
            row,
            row.x,
            row.y,
            &[
                (Role::Active, here),
                (ended_role(ended), &format!("{at}  {sign} {word}")),
                (Role::Text, &title),
                (Role::Muted, &agent),
                (Role::Text, &by),
                (Role::Muted, &said),
                (came_role(ended), &came),
            ],
        );
    }
}

/// Of the columns after time and word.
type Widths = [usize; 5];

/// Title, agent, by whom, what was said, and what came of it.
fn texts(ended: &Ended) -> [String; 5] {
    match ended {
        Ended::Approval(settled) => [
            settled.approval.title.line().to_string(),
            settled.approval.from.agent.line().to_string(),
            by(settled),
            said(settled),
            came(settled),
        ],
        Ended::Escalation(closed) => [
            closed.escalation.title().line().to_string(),
            closed.escalation.from.agent.line().to_string(),
            closed_by(closed),
            closed_with(closed),
            came_of(closed),
        ],
    }
}

fn closed_by(closed: &Closed) -> String {
    let by = closed.how.by();
    by.map_or_else(
        || "nobody".to_owned(),
        |by| format!("by {}", words::safe(by)),
    )
}

fn closed_with(closed: &Closed) -> String {
    match &closed.how {
        How::Answered { note, .. } if note.is_empty() => String::new(),
        How::Answered { note, .. } => format!("\"{}\"", note.line()),
        How::Superseded { .. } => "another drift took its place".to_owned(),
        How::RunEnded(end) => format!("the run {}", end.word()),
        How::WentOn => "its agent's own events show it".to_owned(),
    }
}

/// How far the answer came.
fn came_of(closed: &Closed) -> String {
    let Some(order) = &closed.control else {
        return String::new();
    };
    let word = order.stage().word();
    match order.steps.last().filter(|step| !step.detail.is_empty()) {
        Some(step) => format!("{word}: {}", step.detail.line()),
        None => word.to_owned(),
    }
}

/// As much as the longest text needs. What was said has a column only where there is room for it.
fn widest(shown: &[&Ended], width: usize) -> Widths {
    let mut widest = [0; 5];
    for ended in shown {
        for (widest, text) in widest.iter_mut().zip(texts(ended)) {
            *widest = columns(&text).max(*widest);
        }
    }
    if width < ANSWERS_FROM {
        widest[3] = 0;
    }
    widest
}

/// Everybody gets what they need, or as much as everybody else.
fn share(needs: Widths, room: usize) -> Widths {
    let given = |most: usize| needs.map(|need| need.min(most));
    let fits = |most: &usize| given(*most).iter().sum::<usize>() <= room;
    given((0..=room).rev().find(fits).unwrap_or(0))
}

fn ended_role(ended: &Ended) -> Role {
    match ended {
        Ended::Approval(settled) => match settled.outcome {
            Outcome::Granted(_) => Role::Ok,
            Outcome::Rejected(_) => Role::Danger,
            Outcome::Expired => Role::Warn,
            Outcome::Withdrawn(_) => Role::Muted,
        },
        Ended::Escalation(closed) => match closed.how {
            How::Answered { .. } => Role::Ok,
            How::Superseded { .. } | How::WentOn => Role::Muted,
            How::RunEnded(_) => Role::Danger,
        },
    }
}

fn by(settled: &Settled) -> String {
    match &settled.outcome {
        Outcome::Granted(decision) | Outcome::Rejected(decision) => {
            let by = words::safe(&decision.decider.by);
            match (&decision.decider.on_behalf_of, &decision.decider.via) {
                (Some(user), _) => format!("by {by} for {}", words::safe(user)),
                (None, Some(backend)) => format!("by {by} via {}", words::safe(backend)),
                (None, None) => format!("by {by}"),
            }
        }
        Outcome::Withdrawn(Why::Dismissed { by, .. }) => format!("by {}", words::safe(by)),
        Outcome::Expired | Outcome::Withdrawn(_) => "nobody".to_owned(),
    }
}

/// What was answered and noted; or why it ended without.
fn said(settled: &Settled) -> String {
    match &settled.outcome {
        Outcome::Granted(decision) | Outcome::Rejected(decision) => {
            let answers = words::answers(&decision.answers);
            let note = match decision.note.is_empty() {
                true => String::new(),
                false => format!("\"{}\"", decision.note.line()),
            };
            let gap = if answers.is_empty() || note.is_empty() {
                ""
            } else {
                " "
            };
            format!("{answers}{gap}{note}")
        }
        Outcome::Expired => {
            let deadline = settled.deadline.unwrap_or(settled.at);
            format!("deadline {}", words::clock(deadline))
        }
        Outcome::Withdrawn(why) => words::safe(why.words()),
    }
}

/// How far the answer came, and what came of it.
fn came(settled: &Settled) -> String {
    let (word, detail) = match (&settled.applied, &settled.delivery) {
        (Some(applied), _) => match applied.result {
            AppliedResult::Done => ("applied", &applied.detail),
            failed_or_skipped => (failed_or_skipped.word(), &applied.detail),
        },
        (None, Some(delivery)) => (delivery.state.word(), &delivery.detail),
        (None, None) if settled.has_no_word() => return "no word yet".to_owned(),
        (None, None) => return settled.claim.as_ref().map_or_else(String::new, taken),
    };
    match detail.is_empty() {
        true => word.to_owned(),
        false => format!("{word}: {}", detail.line()),
    }
}

/// Nobody has said what came of it.
fn taken(claim: &Claim) -> String {
    match claim.stage {
        ClaimStage::Taken => "taken",
        ClaimStage::GivenBack { .. } => "given back",
        ClaimStage::Started { .. } => "taken, outcome unknown",
    }
    .to_owned()
}

fn came_role(ended: &Ended) -> Role {
    let settled = match ended {
        Ended::Approval(settled) => settled,
        Ended::Escalation(closed) => return came_of_role(closed),
    };
    let applied = settled.applied.as_ref().map(|applied| applied.result);
    let delivered = settled.delivery.as_ref().map(|delivery| delivery.state);
    match (applied, delivered) {
        (Some(AppliedResult::Done), _) => Role::Ok,
        (Some(AppliedResult::Failed), _) | (None, Some(DeliveryState::Failed)) => Role::Danger,
        (None, Some(DeliveryState::Sent)) => Role::Warn,
        (None, None) if settled.held().is_some() => Role::Warn,
        (Some(AppliedResult::Skipped), _)
        | (None, Some(DeliveryState::Acked | DeliveryState::Confirmed) | None) => Role::Muted,
    }
}

fn came_of_role(closed: &Closed) -> Role {
    match closed.control.as_ref().map(|order| order.stage()) {
        Some(stage) if stage.is_failure() => Role::Danger,
        Some(Stage::Issued | Stage::Sent) => Role::Warn,
        _ => Role::Muted,
    }
}
