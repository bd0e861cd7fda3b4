//! One question: its three lanes, what happened to it meanwhile, and the pinned row of what can be done.

use std::sync::Arc;

use ratatui::layout::Rect;
use registry::{
    Approval,
    approval::{AppliedResult, Delivery, DeliveryState, Pending, Risk, Settled, Verdict},
    run::Source,
};

use super::{
    super::{
        actions::{Action, Context},
        draft::Draft,
        lines::{Line, Page, Part, Row},
        model::{Front, Hand, Open, Progress, Slot, Stands},
        msg::{CardDrawn, Face, Rows},
        seen::Ranges,
        theme::Role,
        words::{self, notice},
    },
    Pen, Scene,
    form::{self, Paper},
    pen::Titles,
};

/// The parts of a card one below the other, as one text to scroll in.
struct Sheet {
    pages: Vec<Arc<Page>>,
}

impl Sheet {
    fn rows(&self) -> impl Iterator<Item = (&Page, &Row)> {
        self.pages
            .iter()
            .flat_map(|page| page.rows.iter().map(move |row| (&**page, row)))
    }

    fn count(&self) -> usize {
        self.pages.iter().map(|page| page.rows.len()).sum()
    }

    /// The rows of the field that is being filled in.
    fn field(&self, field: usize) -> Option<(usize, usize)> {
        let of_field =
            |(_, (page, row)): &(usize, (&Page, &Row))| page.lines[row.line].field == Some(field);
        let rows: Vec<usize> = self
            .rows()
            .enumerate()
            .filter(of_field)
            .map(|(at, _)| at)
            .collect();
        Some((*rows.first()?, *rows.last()?))
    }
}

impl Scene<'_> {
    pub(super) fn card_panel(&self, pen: &mut Pen<'_, '_>, area: Rect) -> Option<CardDrawn> {
        let Some((open, face, stands)) = self.opened() else {
            self.no_card(pen, area);
            return None;
        };
        let bar = self.bar(pen, stands, usize::from(area.width.saturating_sub(4)));
        let bar_rows = u16::try_from(bar.rows.len())
            .unwrap_or(1)
            .min(area.height / 3)
            .max(1);
        let height = area.height.saturating_sub(3 + bar_rows);
        let text = Rect {
            x: area.x + 2,
            y: area.y + 1,
            width: area.width.saturating_sub(4),
            height,
        };
        let sheet = self.sheet(pen, open, stands, usize::from(text.width));
        let rows = self.window(&sheet, open, usize::from(height));
        let drawn = self.drawn(&sheet, open, face, rows);
        self.card_frame(pen, area, open, stands, &drawn);
        let visible = sheet.rows().skip(rows.top).zip(text.y..text.bottom());
        for ((page, row), y) in visible {
            let cursor = pen.row(text, y, page, row);
            if let Some(cursor) = cursor.filter(|_| self.model.front.is_none()) {
                pen.cursor(cursor);
            }
        }
        let rule = area.bottom().saturating_sub(2 + bar_rows);
        let filled = self.model.settling(self.at);
        pen.rule(area, rule, self.frame_role(), filled);
        for (row, y) in bar
            .rows
            .iter()
            .zip(rule + 1..area.bottom().saturating_sub(1))
        {
            pen.row(text_row(text, y), y, &bar, row);
        }
        Some(drawn)
    }

    fn opened(&self) -> Option<(Open, Face, Stands<'_>)> {
        let open = self.model.open()?;
        Some((
            open,
            self.model.face()?,
            self.model.stands(self.model.open_approval()?)?,
        ))
    }

    fn no_card(&self, pen: &mut Pen<'_, '_>, area: Rect) {
        let inside = pen.frame(area, Role::Frame, &Titles::default());
        if !self.model.inbox.order.is_empty() {
            let words = self.open_hint();
            pen.put(inside, inside.x + 1, inside.y + 1, Role::Muted, &words);
        }
    }

    fn frame_role(&self) -> Role {
        let active = self.model.hand != Hand::List && self.model.front.is_none();
        if active { Role::Active } else { Role::Frame }
    }

    fn card_frame(
        &self,
        pen: &mut Pen<'_, '_>,
        area: Rect,
        open: Open,
        stands: Stands<'_>,
        drawn: &CardDrawn,
    ) {
        let approval = stands.approval();
        let name = approval.subject.tool().unwrap_or(&approval.title).line();
        let (waited, left) = self.times(stands, pen);
        let times = match stands {
            Stands::Ended(settled) => settled.outcome.word().to_owned(),
            Stands::Waits(pending) if pending.deadline.is_none() => {
                format!("waiting {waited} · no deadline")
            }
            Stands::Waits(_) => format!("waiting {waited} · expires {left}"),
        };
        let seen = match (stands, drawn.face.readable) {
            (Stands::Ended(_), _) | (_, false) => (Role::Muted, String::new()),
            (Stands::Waits(_), true) => to_read(drawn),
        };
        let altered = self.model.card(approval.id).map_or(0, |card| card.altered);
        let raw = self.key(Context::Card, Action::ShowRaw);
        let hidden = match (open.raw, altered) {
            (true, _) => format!("raw · {raw} back"),
            (false, 0) => String::new(),
            (false, n) => format!("⚠ {} · {raw} raw", words::count(n, "hidden char")),
        };
        let titles = Titles {
            left: &[(Role::Strong, name.as_str())],
            right: &times,
            below_left: &hidden,
            below_right: (seen.0, &seen.1),
        };
        pen.frame(area, self.frame_role(), &titles);
    }

    fn sheet(&self, pen: &Pen<'_, '_>, open: Open, stands: Stands<'_>, width: usize) -> Sheet {
        let top = Arc::new(Page::lay(self.facts(pen, stands), width));
        let id = stands.approval().id;
        let card = match self.model.cards.get(&id) {
            Some(Slot::Here(card)) if card.matches => card,
            other => {
                let mut lines = self.unreadable(pen, stands.approval(), other);
                if let Some(draft) = self.model.draft_of(id) {
                    lines.extend(form::note_alone(pen.signs, width, self.model.hand, draft));
                }
                return Sheet {
                    pages: vec![top, Arc::new(Page::lay(lines, width))],
                };
            }
        };
        let empty = Draft::default();
        let draft = self.model.draft_of(id).unwrap_or(&empty);
        let paper = Paper {
            signs: pen.signs,
            width,
            hand: self.model.hand,
            raw: open.raw,
        };
        let form = form::lines(&paper, card, draft);
        let middle = card.text(open.raw).lay(width);
        Sheet {
            pages: vec![top, middle, Arc::new(Page::lay(form, width))],
        }
    }

    /// Which rows are on the screen: as the operator scrolled, but never without the field that has the cursor.
    fn window(&self, sheet: &Sheet, open: Open, height: usize) -> Rows {
        let all = sheet.count();
        let mut top = open.top.min(all.saturating_sub(height));
        let field = match self.model.hand {
            Hand::Field(field) => Some(field),
            Hand::Note => Some(usize::MAX),
            Hand::List | Hand::Card => None,
        };
        if let Some((first, last)) = field.and_then(|field| sheet.field(field)) {
            top = top.max((last + 1).saturating_sub(height)).min(first);
        }
        Rows { top, height, all }
    }

    fn drawn(&self, sheet: &Sheet, open: Open, face: Face, rows: Rows) -> CardDrawn {
        let mut known = self
            .model
            .seen
            .get(&(face.id, face.digest, open.raw))
            .cloned()
            .unwrap_or_default();
        let readable = face.readable && !matches!(self.model.front, Some(Front::Help { .. }));
        let visible = sheet.rows().skip(rows.top).take(rows.height);
        let seen: Vec<_> = visible
            .map(|(_, row)| row.counted.clone())
            .filter(|counted| readable && !counted.is_empty())
            .collect();
        for counted in &seen {
            known.add(counted.clone());
        }
        let unseen = |known: &Ranges, first: usize| {
            sheet
                .rows()
                .take(first)
                .filter(|(_, row)| !known.covers(&row.counted))
                .count()
        };
        let whole = self
            .model
            .card(face.id)
            .is_some_and(|card| self.model.is_seen(face.id, face.digest, card));
        let (unseen_rows, unseen_above) = match whole {
            true => (0, 0),
            false => (unseen(&known, usize::MAX), unseen(&known, rows.top)),
        };
        CardDrawn {
            face,
            rows,
            raw: open.raw,
            seen,
            unseen_rows,
            unseen_above,
        }
    }

    // === What is known around the text ===

    fn facts(&self, pen: &Pen<'_, '_>, stands: Stands<'_>) -> Vec<Line> {
        let approval = stands.approval();
        let mut lines = vec![Line::of(Role::Muted, pen.spelled(&self.whence(approval)))];
        if approval.risk == Risk::High {
            let words = format!("{} HIGH RISK: approving asks once more", pen.signs.risk);
            lines.push(Line::of(Role::Danger, words));
        }
        if let Some(since) = self.model.away_since(approval) {
            let words = format!("{} agent away {}", pen.signs.away, self.age(since));
            lines.push(Line::of(Role::Warn, words));
        }
        if let Stands::Waits(pending) = stands {
            lines.extend(self.meanwhile(pending));
        }
        lines
    }

    fn whence(&self, approval: &Approval) -> String {
        let from = &approval.from;
        let mut facts = vec![from.source.word().to_owned()];
        // A run of the CLI is this question and nothing else; its name says nothing.
        if from.source != Source::Cli {
            facts.push(format!("run {}", from.invocation.line()));
        }
        if !approval.subject.task().is_empty() {
            facts.push(format!("task {}", approval.subject.task().line()));
        }
        if let Some(owner) = &approval.owner {
            facts.push(format!("for {}", words::safe(owner)));
        }
        facts.push(words::asks(approval));
        facts.join(" · ")
    }

    fn meanwhile(&self, pending: &Pending) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(passed) = pending.passed_at {
            let words = format!(
                "its deadline passed {} ago; an answer still counts",
                self.age(passed)
            );
            lines.push(Line::of(Role::Warn, words));
        }
        if pending.approval.votes > 1 {
            let votes = pending.votes.iter();
            let who: Vec<String> = votes
                .map(|vote| {
                    let by = vote
                        .decider
                        .on_behalf_of
                        .as_ref()
                        .unwrap_or(&vote.decider.by);
                    words::safe(by)
                })
                .collect();
            let who = if who.is_empty() {
                String::new()
            } else {
                format!(": {}", who.join(", "))
            };
            let words = format!(
                "takes {} different people, and not whoever asked · {}{who}",
                pending.approval.votes,
                pending.yes()
            );
            lines.push(Line::of(Role::Strong, words));
        }
        if let Some(last) = pending.timed_out.last() {
            let waiters = words::count(pending.timed_out.len(), "waiter");
            let words = format!(
                "{waiters} gave up {} ago: the agent went on; an answer still counts",
                self.age(last.at)
            );
            lines.push(Line::of(Role::Warn, words));
        }
        for attempt in pending.attempts.iter().rev().take(3) {
            let verb = registry::Untrusted::new(attempt.verb.as_str()).line();
            let words = format!(
                "{} tried to {verb} {} ago",
                words::safe(&attempt.by),
                self.age(attempt.at)
            );
            lines.push(Line::of(Role::Warn, words));
        }
        if pending.attempts.len() > 3 {
            let words = format!("and {} more tried", pending.attempts.len() - 3);
            lines.push(Line::of(Role::Warn, words));
        }
        lines
    }

    fn unreadable(&self, pen: &Pen<'_, '_>, approval: &Approval, slot: Option<&Slot>) -> Vec<Line> {
        let mut lines = vec![Line::of(Role::Text, "")];
        match slot {
            Some(Slot::Here(_)) => {
                lines.push(Line::of(
                    Role::Danger,
                    format!("{} does not match", pen.signs.beware),
                ));
                lines.push(Line::of(Role::Text, notice::MISMATCH));
                lines.push(Line::of(
                    Role::Muted,
                    format!("expected sha {}", approval.digest.short()),
                ));
            }
            Some(Slot::Failed(why)) => {
                let key = self.key(Context::Card, Action::RetryNow);
                lines.push(Line::of(
                    Role::Danger,
                    format!("{} could not be fetched", pen.signs.beware),
                ));
                lines.push(Line::of(Role::Text, why.as_str()));
                lines.push(Line::of(Role::Muted, format!("{key} tries again")));
            }
            Some(Slot::Fetching) | None => {
                lines.push(Line::of(Role::Muted, pen.spelled("fetching…")))
            }
        }
        lines
    }

    // === The pinned rows ===

    fn bar(&self, pen: &Pen<'_, '_>, stands: Stands<'_>, width: usize) -> Page {
        let lines = match stands {
            Stands::Ended(settled) => outcome(pen, settled),
            Stands::Waits(pending) => self.standing(pen, pending),
        };
        Page::lay(lines, width)
    }

    fn standing(&self, pen: &Pen<'_, '_>, pending: &Pending) -> Vec<Line> {
        let id = pending.approval.id;
        let mut lines = Vec::new();
        let again = |verdict| match verdict {
            Verdict::Approve => self.key(Context::Card, Action::Approve),
            Verdict::Reject => self.key(Context::Card, Action::Reject),
        };
        if let Some(sent) = self.model.sent.get(&id) {
            let verdict = sent.submit.verdict;
            let wish = words::wish(verdict);
            match &sent.progress {
                Progress::UnderWay => {
                    let words = format!("{} {wish} sent, waiting for the server", pen.signs.sent);
                    return vec![Line::of(Role::Warn, words)];
                }
                Progress::Lost(why) => {
                    let words = format!(
                        "{} {wish} perhaps not sent: {why}; {} sends it again",
                        pen.signs.beware,
                        again(verdict)
                    );
                    lines.push(Line::of(Role::Warn, words));
                }
            }
        }
        if let Some(why) = self.model.refused.get(&id) {
            lines.push(Line::of(
                Role::Danger,
                format!("{} not taken: {why}", pen.signs.rejected),
            ));
        }
        if self.model.is_unreachable(&pending.approval) {
            let words = format!("{} {}", pen.signs.away, notice::UNREACHABLE);
            lines.push(Line::of(Role::Warn, words));
            return lines;
        }
        match self.model.not_ours(&pending.approval) {
            Some(why) => lines.push(Line::of(Role::Muted, why)),
            None => lines.push(self.actions(&pending.approval)),
        }
        lines
    }

    fn actions(&self, approval: &Approval) -> Line {
        let context = self.model.context();
        // While text is typed the other keys are letters.
        if context.takes_text() {
            let leave = match context {
                Context::Palette => Action::Dismiss,
                _ => Action::Back,
            };
            let words = format!(
                "{} first; then {} approves, {} rejects",
                self.model.key_for(context, leave, "esc"),
                self.key(Context::Card, Action::Approve),
                self.key(Context::Card, Action::Reject),
            );
            return Line::of(Role::Muted, words);
        }
        let mut actions = vec![(Action::Approve, "approve"), (Action::Reject, "reject")];
        if approval.fields > 0 {
            actions.push((Action::EditForm, "edit form"));
        }
        actions.extend([
            (Action::EditNote, "note"),
            (Action::CopyId, "copy"),
            (Action::ShowRaw, "raw"),
        ]);
        let mut parts = Vec::new();
        for (action, word) in actions {
            parts.push(Part::new(Role::Hint, self.key(Context::Card, action)));
            parts.push(Part::new(Role::Text, format!(" {word}   ")));
        }
        Line {
            parts,
            ..Line::default()
        }
    }
}

/// What is left to read, and where; where nothing is, what stands below the edge all the same.
fn to_read(drawn: &CardDrawn) -> (Role, String) {
    let rows = drawn.rows;
    let more = |n: usize| format!("{n} more {} ↓", if n == 1 { "line" } else { "lines" });
    let above = drawn.unseen_above;
    let below = drawn.unseen_rows - above;
    let unread = words::count(above, "unread line");
    match (above, below) {
        (0, 0) => match rows.all.saturating_sub(rows.top + rows.height) {
            0 => (Role::Ok, "all seen ✓".to_owned()),
            n => (Role::Ok, format!("all seen ✓ · {}", more(n))),
        },
        (0, _) => (Role::Warn, more(below)),
        (_, 0) => (Role::Warn, format!("{unread} ↑")),
        _ => (Role::Warn, format!("{unread} ↑ · {}", more(below))),
    }
}

fn text_row(text: Rect, y: u16) -> Rect {
    Rect {
        y,
        height: 1,
        ..text
    }
}

/// How it ended, how far the answer came, and what came of it: three facts.
fn outcome(pen: &Pen<'_, '_>, settled: &Settled) -> Vec<Line> {
    let sign = words::ended_sign(pen.signs, &settled.outcome);
    let mut lines = vec![Line::of(
        Role::Strong,
        format!("{sign} {}", words::ended(settled)),
    )];
    let decision = settled.decision();
    let answers = decision.map(|decision| words::answers(&decision.answers));
    if let Some(answers) = answers.filter(|answers| !answers.is_empty()) {
        lines.push(Line::of(Role::Muted, format!("answered: {answers}")));
    }
    if let Some(decision) = decision.filter(|decision| !decision.note.is_empty()) {
        lines.push(Line::of(
            Role::Muted,
            format!("note: {}", decision.note.line()),
        ));
    }
    if let Some(delivery) = &settled.delivery {
        lines.push(delivered(pen, delivery));
    }
    if let (Some(claim), None) = (&settled.claim, &settled.applied) {
        lines.push(Line::of(Role::Warn, claim.words()));
    }
    if let Some(applied) = &settled.applied {
        let role = match applied.result {
            AppliedResult::Done => Role::Ok,
            AppliedResult::Skipped => Role::Muted,
            AppliedResult::Failed => Role::Danger,
        };
        let words = format!(
            "applied: {} {}",
            applied.result.word(),
            applied.detail.line()
        );
        lines.push(Line::of(role, words));
    }
    lines
}

fn delivered(pen: &Pen<'_, '_>, delivery: &Delivery) -> Line {
    let then = pen.signs.then;
    let (role, so_far) = match delivery.state {
        DeliveryState::Sent => (Role::Warn, "sent".to_owned()),
        DeliveryState::Acked => (Role::Text, format!("sent {then} acked")),
        DeliveryState::Confirmed => (Role::Ok, format!("sent {then} acked {then} confirmed")),
        DeliveryState::Failed => (Role::Danger, format!("sent {then} failed")),
    };
    let detail = delivery.detail.line();
    Line::of(
        role,
        format!("delivery: {so_far} {} {detail}", words::clock(delivery.at)),
    )
}
