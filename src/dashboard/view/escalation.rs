//! One run that stands still: what holds it, how it came to this, and the pinned rows of what each answer does.

use ratatui::layout::Rect;
use registry::{
    Control, Escalation, EscalationId, Name, Run, Timestamp, Untrusted,
    control::{Stage, Verb},
    drift::{Drift, Level, Severity},
    escalation::{Cause, Closed, How},
    run::{Evidence, Pause, RunKey, Task, TaskState},
};

use super::{
    super::{
        actions::{Action, Context},
        lines::{Lane, Line, Page, Part, columns, fit},
        model::{Hand, Progress},
        msg::{Rows, RunDrawn, RunFace},
        steering::{
            Aim, Held, Stillness, away_since, is_parked, is_unreachable, tasks, unfinished,
        },
        theme::Role,
        words::{self, notice},
    },
    Pen, Scene,
    orders::life,
    pen::Titles,
};

const FORGOTTEN: &str = "its run ended long ago; what it reported is in the record";
const ACK_ALONE: &str = "its agent acked the pause; in some executors that changes nothing";
const LABEL_COLUMNS: usize = 9;
/// Between the history and the plan, where they stand side by side.
const GAP_COLUMNS: usize = 4;
/// So many tasks are named where they end with their run.
const NAMED_TASKS: usize = 4;
/// The rows around the tasks where one is chosen.
const TASKS_AROUND: usize = 6;

impl Scene<'_> {
    pub(super) fn held_panel(
        &self,
        pen: &mut Pen<'_, '_>,
        area: Rect,
        id: EscalationId,
    ) -> Option<RunDrawn> {
        let held = self.model.held(id)?;
        let escalation = held.escalation();
        let face = self.model.run_face(Aim::of(escalation))?;
        let run = self.model.state.run(escalation.run).map(|run| &**run);
        let width = usize::from(area.width.saturating_sub(4));
        let most = usize::from((area.height / 3).max(1));
        let bar = self.answers(pen, held, run, width, most);
        let bar_rows = u16::try_from(bar.rows.len()).unwrap_or(1).max(1);
        let bar_rows = bar_rows.min(area.height / 2);
        let text = Rect {
            x: area.x + 2,
            y: area.y + 1,
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(3 + bar_rows),
        };
        let open = self.model.open()?;
        let lines = match open.raw {
            true => self.evidence(pen, escalation, run, width),
            false => self.sheet_of_held(pen, held, run, width),
        };
        let page = Page::lay(lines, width);
        let (height, all) = (usize::from(text.height), page.rows.len());
        let top = open.top.min(all.saturating_sub(height));
        let rows = Rows { top, height, all };
        self.held_frame(pen, area, held, run, rows);
        for (row, y) in page.rows.iter().skip(top).zip(text.y..text.bottom()) {
            pen.row(text, y, &page, row);
        }
        let rule = area.bottom().saturating_sub(2 + bar_rows);
        let filled = self.model.run_settling(face, self.at);
        pen.rule(area, rule, self.held_role(), filled);
        let below = rule + 1..area.bottom().saturating_sub(1);
        for (row, y) in bar.rows.iter().zip(below) {
            pen.row(
                Rect {
                    y,
                    height: 1,
                    ..text
                },
                y,
                &bar,
                row,
            );
        }
        Some(RunDrawn { face, rows })
    }

    fn held_role(&self) -> Role {
        let active = self.model.hand != Hand::List && self.model.front.is_none();
        if active { Role::Active } else { Role::Frame }
    }

    fn held_frame(
        &self,
        pen: &mut Pen<'_, '_>,
        area: Rect,
        held: Held<'_>,
        run: Option<&Run>,
        rows: Rows,
    ) {
        let escalation = held.escalation();
        let name = format!(
            "{} {}",
            escalation.from.agent.line(),
            how_it_stands(held, run)
        );
        let since = self.age(escalation.at);
        let times = match (held, escalation.abort_at, self.now) {
            (Held::Closed(closed), ..) => closed.how.word().to_owned(),
            (_, Some(end), Some(now)) => format!("aborts in {}", words::span(end.since(now))),
            _ => format!("since {since} · waits for you"),
        };
        let why = self.key(Context::Escalation, Action::Why);
        let side = match self.model.open().is_some_and(|open| open.raw) {
            true => format!("evidence · {why} back"),
            false => format!("{why} why do you think so?"),
        };
        let below = match rows.all.saturating_sub(rows.top + rows.height) {
            0 => String::new(),
            n => format!("{n} more {} ↓", if n == 1 { "line" } else { "lines" }),
        };
        let titles = Titles {
            left: &[(Role::Strong, &name)],
            right: &times,
            below_left: &side,
            below_right: (Role::Warn, &below),
        };
        pen.frame(area, self.held_role(), &titles);
    }

    // === What is known ===

    fn sheet_of_held(
        &self,
        pen: &Pen<'_, '_>,
        held: Held<'_>,
        run: Option<&Run>,
        width: usize,
    ) -> Vec<Line> {
        let escalation = held.escalation();
        let mut lines = what_holds(pen, escalation);
        lines.extend(escalation.also.iter().map(also));
        let Some(run) = run else {
            let whence = whence(&escalation.from, escalation.owner.as_ref());
            lines.push(fact("run", Role::Text, pen.spelled(&whence)));
            lines.extend(came_to_nothing(pen, escalation));
            lines.push(Line::of(Role::Text, ""));
            lines.push(Line::of(Role::Muted, FORGOTTEN));
            return lines;
        };
        let whence = whence(&run.key, run.owner.as_ref());
        lines.push(fact("run", Role::Text, pen.spelled(&whence)));
        lines.extend(task_line(pen, escalation, run));
        lines.extend(self.paused(pen, held, run));
        lines.extend(self.told(pen, held, run));
        lines.extend(came_to_nothing(pen, escalation));
        lines.push(Line::of(Role::Text, ""));
        match side_by_side(history(run, 0), plan(pen, run, Said::Sign), width) {
            Some(both) => lines.extend(both),
            None => {
                lines.extend(history(run, width));
                lines.push(Line::of(Role::Text, ""));
                lines.extend(plan(pen, run, Said::SignAndWord));
            }
        }
        lines
    }

    /// Whether it really stands still, and who says so.
    fn paused(&self, pen: &Pen<'_, '_>, held: Held<'_>, run: &Run) -> Option<Line> {
        let Held::Waits(escalation) = held else {
            return None;
        };
        let (role, words) = match run.pause {
            None if escalation.is_abort() => return None,
            None => (Role::Warn, "no: its agent goes on".to_owned()),
            Some(Pause::Holds(Evidence::Inferred)) => (
                Role::Warn,
                "probably: inferred from what it reported; it says nothing of it".to_owned(),
            ),
            Some(Pause::Holds(Evidence::Acked)) if run.key.source.is_foreign() => {
                (Role::Warn, ACK_ALONE.to_owned())
            }
            Some(Pause::Holds(Evidence::Acked)) => (Role::Ok, acked(run)),
            Some(Pause::Asked) => (Role::Warn, self.not_acked(run)),
        };
        Some(fact("paused?", role, pen.spelled(&words)))
    }

    /// How far the newest order has come, and what was said to it; of a pause, the line above says that.
    fn told(&self, pen: &Pen<'_, '_>, held: Held<'_>, run: &Run) -> Option<Line> {
        let newest = run.controls.last();
        let newest = newest.filter(|order| order.verb != Verb::Pause);
        let order = newest.filter(|_| matches!(held, Held::Waits(_)))?;
        let mut line = fact("told", Role::Text, "");
        line.parts
            .extend(life(pen, Some(run), order, None, self.now).parts);
        Some(line)
    }

    fn not_acked(&self, run: &Run) -> String {
        let Some(order) = pause_of(run) else {
            return "asked, not acked yet".to_owned();
        };
        let asked = words::clock(order.at);
        match order.stage() {
            Stage::Issued if away_since(run).is_some() => {
                format!("not yet: its agent is away, the order of {asked} waits for it")
            }
            Stage::Issued if is_parked(run) => {
                format!("not yet: its turn ended, the order of {asked} meets the next turn")
            }
            Stage::Issued => "cannot be paused: its agent does not listen for orders".to_owned(),
            Stage::Sent => {
                let since = order.steps.last().map_or(order.at, |step| step.at);
                format!(
                    "asked {asked}, not acked yet: no answer for {}",
                    self.age(since)
                )
            }
            stage => format!("no: the pause was not taken: {}", stage.word()),
        }
    }

    // === What says so ===

    fn evidence(
        &self,
        pen: &Pen<'_, '_>,
        escalation: &Escalation,
        run: Option<&Run>,
        width: usize,
    ) -> Vec<Line> {
        let mut lines = vec![
            Line::of(Role::Active, "WHY DO YOU THINK SO?"),
            fact("id", Role::Text, escalation.id.to_string()),
            fact("raised", Role::Text, escalation.at.to_string()),
        ];
        let Some(run) = run else {
            lines.push(Line::of(Role::Text, ""));
            lines.push(Line::of(Role::Muted, FORGOTTEN));
            return lines;
        };
        lines.extend(pause_evidence(run));
        if let Some(drift) = escalation.drift() {
            lines.extend(drift_evidence(drift, run));
        }
        lines.push(Line::of(Role::Text, ""));
        lines.push(Line::of(Role::Active, "WHAT IT WAS TOLD"));
        if run.controls.is_empty() {
            lines.push(Line::of(Role::Muted, "nothing"));
        }
        for order in &run.controls {
            lines.push(Line {
                hang: 2,
                ..life(pen, Some(run), order, None, self.now)
            });
            let (by, at) = (words::safe(&order.by), self.moment(order.at));
            lines.push(Line {
                hang: 2,
                ..Line::of(Role::Muted, format!("  {} by {by} at {at}", order.id))
            });
        }
        lines.push(Line::of(Role::Text, ""));
        lines.push(Line::of(Role::Active, "WHAT IT REPORTED"));
        for drift in &run.drifts {
            lines.extend(drift_lines(drift, &self.moment(drift.at), width));
            let id = format!("  {} in {}", words::safe(&drift.id), task_name(&drift.task));
            lines.push(Line::of(Role::Muted, id));
        }
        lines
    }

    /// To the second; with the day, where that is another than today.
    fn moment(&self, at: Timestamp) -> String {
        words::moment(at, self.now.unwrap_or(at))
    }

    // === The pinned rows ===

    /// What can be done, and what each of it does here; the keys alone where there is no room for more.
    fn answers(
        &self,
        pen: &Pen<'_, '_>,
        held: Held<'_>,
        run: Option<&Run>,
        width: usize,
        most: usize,
    ) -> Page {
        let escalation = match held {
            Held::Closed(closed) => return Page::lay(self.outcome_of(pen, closed, run), width),
            Held::Waits(escalation) => escalation,
        };
        let Some(run) = run else {
            return Page::lay(Vec::new(), width);
        };
        let mut lines = self.so_far(pen, run);
        let can = match self.cannot(escalation, run) {
            Some(why) => {
                lines.push(Line::of(Role::Warn, pen.spelled(&why)));
                false
            }
            None => !self.is_sent(run),
        };
        if !can {
            return Page::lay(lines, width);
        }
        let with = |more: Vec<Line>| Page::lay([lines.clone(), more].concat(), width);
        let whole = with(self.verbs(pen, run));
        if whole.rows.len() <= most {
            return whole;
        }
        with(vec![self.keys_alone()])
    }

    fn is_sent(&self, run: &Run) -> bool {
        let sent = self.model.steering.sent.get(&run.id);
        sent.is_some_and(|given| given.progress == Progress::UnderWay)
    }

    /// What became of an order of ours that is no fact yet.
    fn so_far(&self, pen: &Pen<'_, '_>, run: &Run) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(given) = self.model.steering.sent.get(&run.id) {
            let verb = given.order.verb.word();
            let words = match &given.progress {
                Progress::UnderWay => {
                    format!("{} {verb} sent, waiting for the server", pen.signs.sent)
                }
                Progress::Lost(why) => {
                    let sign = pen.signs.beware;
                    format!("{sign} {verb} perhaps not sent: {why}; the same again sends it again")
                }
            };
            lines.push(Line::of(Role::Warn, words));
        }
        if let Some(why) = self.model.steering.refused.get(&run.id) {
            let words = format!("{} not taken: {why}", pen.signs.rejected);
            lines.push(Line::of(Role::Danger, words));
        }
        lines
    }

    /// Why nothing can be answered.
    fn cannot(&self, escalation: &Escalation, run: &Run) -> Option<String> {
        if escalation.is_abort() {
            let end = escalation.abort_at.map(words::clock).unwrap_or_default();
            return Some(format!(
                "{}; it ends when its agent acks that, at {end} at the latest",
                notice::ABORTING
            ));
        }
        if is_unreachable(run) {
            return Some(notice::UNREACHABLE.to_owned());
        }
        let not_ours = self.model.not_directed(run, &Verb::Resume);
        not_ours.map(|why| format!("not yours to answer: {why}"))
    }

    fn verbs(&self, pen: &Pen<'_, '_>, run: &Run) -> Vec<Line> {
        let foreign = run.key.source.is_foreign();
        let resume = match foreign {
            true => "it was nothing: go on; its agent acks that even where nothing comes of it",
            false => "it was nothing: go on as before",
        };
        let steer = "give a direction; the plan is revised and the run restarts with it";
        let cancel = what_ends(run);
        let rows = [
            (Action::Resume, "resume", resume),
            (Action::Steer, "steer", steer),
            (Action::Cancel, "cancel", cancel.as_str()),
        ];
        let mut lines = Vec::new();
        lines.extend(self.beware(pen, run));
        for (action, word, does) in rows {
            let key = self.key(Context::Escalation, action);
            let word = format!(" {}", fit(word, 8, ""));
            lines.push(Line {
                hang: columns(&key) + columns(&word),
                parts: vec![
                    Part::new(Role::Hint, key),
                    Part::new(Role::Strong, word),
                    Part::new(Role::Text, does),
                ],
                ..Line::default()
            });
        }
        if self
            .model
            .steering
            .drafts
            .get(&run.id)
            .is_some_and(|draft| draft.bytes() > 0)
        {
            let key = self.key(Context::Escalation, Action::Steer);
            let words = format!("a direction is kept: {key} goes on with it");
            lines.push(Line::of(Role::Muted, words));
        }
        lines
    }

    /// What is in the way of any answer.
    fn beware(&self, pen: &Pen<'_, '_>, run: &Run) -> Option<Line> {
        let words = if let Some(since) = away_since(run) {
            let away = self.age(since);
            format!(
                "{} agent away {away}: an answer waits for it",
                pen.signs.away
            )
        } else if is_parked(run) {
            format!(
                "{} its turn ended: an answer meets the next turn",
                pen.signs.beware
            )
        } else if run.key.source.is_foreign() {
            let sign = pen.signs.beware;
            format!("{sign} goldfive's overlay executor does nothing on pause and resume")
        } else {
            return None;
        };
        Some(Line::of(Role::Warn, words))
    }

    fn keys_alone(&self) -> Line {
        let keys = [
            (Action::Resume, "resume"),
            (Action::Steer, "steer"),
            (Action::Cancel, "cancel"),
        ];
        let mut parts = Vec::new();
        for (action, word) in keys {
            parts.push(Part::new(Role::Hint, self.key(Context::Escalation, action)));
            parts.push(Part::new(Role::Text, format!(" {word}   ")));
        }
        Line {
            parts,
            ..Line::default()
        }
    }

    fn outcome_of(&self, pen: &Pen<'_, '_>, closed: &Closed, run: Option<&Run>) -> Vec<Line> {
        let sign = words::closed_sign(pen.signs, &closed.how);
        let words = format!("{sign} {}", words::closed(closed));
        let mut lines = vec![Line::of(Role::Strong, words)];
        // What took its place is not under the hand: what came of that is said here.
        let over = run.filter(|run| run.state.is_over());
        if let (How::Superseded { .. }, Some(run)) = (&closed.how, over) {
            let words = format!("the run was {}", run.state.word());
            lines.push(Line::of(Role::Danger, words));
        }
        let Some(order) = &closed.control else {
            return lines;
        };
        if !order.note.is_empty() {
            let note = format!("\"{}\"", order.note.line());
            lines.push(Line::of(Role::Said, note));
        }
        let key = match order.verb {
            Verb::Resume => Some(Action::Resume),
            Verb::Steer => Some(Action::Steer),
            Verb::Cancel => Some(Action::Cancel),
            Verb::Pause | Verb::Rewind { .. } | Verb::StatusQuery => None,
        };
        let key = key.map(|action| self.key(Context::Escalation, action));
        lines.push(life(pen, run, order, key.as_deref(), self.now));
        lines
    }

    // === «Call it off?» ===

    pub(super) fn stop(&self, pen: &mut Pen<'_, '_>, area: Rect, face: &RunFace) {
        let Some(run) = self.model.state.run(face.run) else {
            return;
        };
        let agent = run.key.agent.line();
        let lines = vec![
            Line::of(
                Role::Strong,
                format!("{agent} · run {}", run.key.invocation.line()),
            ),
            Line::of(Role::Text, what_ends(run)),
        ];
        self.sure(pen, area, "! Call this run off?", lines, "yes, cancel it");
    }

    /// Which task is done again, and all that follow it.
    pub(super) fn again(&self, pen: &mut Pen<'_, '_>, area: Rect, face: &RunFace, of: &Untrusted) {
        let Some(run) = self.model.state.run(face.run) else {
            return;
        };
        let room = usize::from(area.height).saturating_sub(TASKS_AROUND).max(1);
        let all = tasks(run).count();
        let at = tasks(run).position(|(id, _)| id == of).unwrap_or(0);
        let top = (at + 1).saturating_sub(room);
        let mut lines = Vec::new();
        for (n, (id, task)) in tasks(run).enumerate().skip(top).take(room) {
            let here = if n == at { pen.signs.here } else { " " };
            let role = if n == at { Role::Strong } else { Role::Text };
            let [sign, state] = task_state(pen, task);
            let name = format!("{} {}  ", id.line(), task.title.line());
            lines.push(Line {
                parts: vec![
                    Part::new(Role::Active, format!("{here} ")),
                    sign,
                    Part::new(role, name),
                    state,
                ],
                ..Line::default()
            });
        }
        let last = format!(
            "task {} of {all}; all that follow it are done again too",
            at + 1
        );
        lines.push(Line::of(Role::Muted, last));
        self.sure(pen, area, "! Do a task again?", lines, "yes, do it again");
    }
}

// === Lines ===

fn fact(label: &str, role: Role, words: impl Into<String>) -> Line {
    Line {
        parts: vec![
            Part::new(Role::Key, fit(label, LABEL_COLUMNS, "")),
            Part::new(role, words),
        ],
        hang: LABEL_COLUMNS,
        ..Line::default()
    }
}

fn how_it_stands(held: Held<'_>, run: Option<&Run>) -> &'static str {
    let escalation = match held {
        Held::Closed(_) => return "was paused",
        Held::Waits(escalation) => escalation,
    };
    match Stillness::of(escalation, run) {
        Stillness::Aborting => "is being aborted",
        Stillness::Paused => "is paused",
        Stillness::Perhaps => "is probably paused",
        Stillness::Pausing => "is to pause",
        Stillness::Not => "needs you",
    }
}

/// The kind under which it is recorded, how bad, how strongly it is answered; and what that came from.
fn what_holds(pen: &Pen<'_, '_>, escalation: &Escalation) -> Vec<Line> {
    let drift = match &escalation.cause {
        Cause::Drift(drift) => drift,
        Cause::Paused { by, note } => {
            let by = format!("paused by {}", words::safe(by));
            let note = (!note.is_empty()).then(|| fact("note", Role::Text, note.line().as_str()));
            return [fact("cause", Role::Strong, by)]
                .into_iter()
                .chain(note)
                .collect();
        }
    };
    let as_kind = registry::drift::Kind::human_intervention();
    let mut head = fact("drift", Role::Strong, as_kind.text().line().as_str());
    head.parts.push(Part::new(Role::Text, "  "));
    head.parts.push(severity(&drift.severity));
    if let Some(level) = drift.level {
        let words = format!("  level {} {}", level.number(), level_word(level));
        head.parts.push(Part::new(Role::Text, words));
    }
    let origin = drift
        .from
        .as_ref()
        .or((!drift.kind.is_human_intervention()).then_some(&drift.kind));
    let kind = origin.map(|kind| format!("{}: ", kind.text().line()));
    let mut from = fact("from", Role::Strong, kind.unwrap_or_default());
    from.parts
        .push(Part::new(Role::Said, drift.detail.line().as_str()));
    let mut lines = vec![head, from];
    if escalation.is_abort() {
        let words = format!("{} the same drift had held it before", pen.signs.beware);
        lines.push(fact("aborts", Role::Danger, words));
    }
    lines
}

fn severity(severity: &Severity) -> Part {
    let role = match severity {
        Severity::Critical => Role::Danger,
        Severity::Warning => Role::Warn,
        Severity::Info | Severity::Unknown(_) => Role::Muted,
    };
    Part::new(role, severity.word().line().as_str())
}

fn whence(key: &RunKey, owner: Option<&Name>) -> String {
    let mut facts = vec![key.invocation.line().to_string()];
    if !key.session.is_empty() {
        facts.push(format!("session {}", key.session.line()));
    }
    facts.push(format!("agent {}", key.agent.line()));
    facts.push(key.source.word().to_owned());
    if let Some(owner) = owner {
        facts.push(format!("for {}", words::safe(owner)));
    }
    facts.join(" · ")
}

fn task_line(pen: &Pen<'_, '_>, escalation: &Escalation, run: &Run) -> Option<Line> {
    let id = escalation.task();
    if id.is_empty() {
        return None;
    }
    let mut line = fact("task", Role::Strong, format!("{} ", id.line()));
    if let Some(task) = run.tasks.get(&id) {
        line.parts
            .push(Part::new(Role::Said, format!("\"{}\" ", task.title.line())));
        line.parts.extend(task_state(pen, task));
    }
    Some(line)
}

fn task_state(pen: &Pen<'_, '_>, task: &Task) -> [Part; 2] {
    let signs = pen.signs;
    let (role, sign) = match task.state {
        TaskState::Pending => (Role::Muted, signs.pending),
        TaskState::Running => (Role::Strong, signs.running),
        TaskState::Blocked { .. } => (Role::Warn, signs.waiting),
        TaskState::Completed => (Role::Ok, signs.granted),
        TaskState::Failed => (Role::Danger, signs.rejected),
        TaskState::Cancelled => (Role::Muted, signs.withdrawn),
        TaskState::NotNeeded => (Role::Muted, signs.skipped),
    };
    [
        Part::new(role, format!("{sign} ")),
        Part::new(role, task.state.word()),
    ]
}

/// What held the run before, and is answered along with what holds it now.
fn also(cause: &Cause) -> Line {
    let words = match cause {
        Cause::Drift(drift) => {
            format!("{}: {}", drift.kind.text().line(), drift.detail.line())
        }
        Cause::Paused { by, note } if note.is_empty() => format!("paused by {}", words::safe(by)),
        Cause::Paused { by, note } => format!("paused by {}: {}", words::safe(by), note.line()),
    };
    fact("also", Role::Warn, words)
}

fn came_to_nothing(pen: &Pen<'_, '_>, escalation: &Escalation) -> Option<Line> {
    let undone = escalation.after.as_ref()?;
    let (verb, by) = (undone.verb.word(), words::safe(&undone.by));
    let words = format!(
        "{} the {verb} by {by} came to nothing: {}",
        pen.signs.rejected,
        undone.detail.line()
    );
    Some(fact("after", Role::Danger, words))
}

fn pause_of(run: &Run) -> Option<&Control> {
    let pauses = |order: &&Control| order.verb == Verb::Pause;
    run.controls.iter().rev().find(pauses)
}

fn acked(run: &Run) -> String {
    let step = pause_of(run).and_then(|order| {
        let acked = |step: &&registry::control::Step| step.stage == Stage::Acked;
        order.steps.iter().find(acked)
    });
    step.map_or_else(
        || "yes: its agent acked the pause".to_owned(),
        |step| {
            format!(
                "yes: its agent acked the pause at {}",
                words::clock(step.at)
            )
        },
    )
}

fn history(run: &Run, width: usize) -> Vec<Line> {
    let mut lines = vec![Line::of(Role::Active, "HOW IT CAME TO THIS")];
    if run.drifts.is_empty() {
        lines.push(Line::of(Role::Muted, "no drift was reported"));
    }
    for drift in &run.drifts {
        let clock = words::clock(drift.at);
        lines.extend(drift_lines(
            drift,
            clock.get(..5).unwrap_or_default(),
            width,
        ));
    }
    lines
}

/// Both, if they fit; no line of either is wrapped then.
fn side_by_side(left: Vec<Line>, right: Vec<Line>, width: usize) -> Option<Vec<Line>> {
    let widest = |lines: &[Line]| lines.iter().map(line_columns).max().unwrap_or(0);
    let from = widest(&left) + GAP_COLUMNS;
    if from + widest(&right) > width {
        return None;
    }
    let rows = left.len().max(right.len());
    let [mut left, mut right] = [left, right].map(Vec::into_iter);
    let row = |_| {
        let mut line = left.next().unwrap_or_default();
        if let Some(beside) = right.next() {
            let gap = from - line_columns(&line);
            line.parts.push(Part::new(Role::Text, " ".repeat(gap)));
            line.parts.extend(beside.parts);
        }
        line
    };
    Some((0..rows).map(row).collect())
}

fn line_columns(line: &Line) -> usize {
    let parts = line.parts.iter().map(|part| columns(&part.text));
    line.lane.columns() + parts.sum::<usize>()
}

/// When, what, how bad, how strongly answered; and the agent's words, where they say more.
fn drift_lines(drift: &Drift, when: &str, width: usize) -> Vec<Line> {
    let mut parts = vec![
        Part::new(Role::Muted, format!("{when}  ")),
        Part::new(Role::Text, format!("{}  ", drift.kind.text().line())),
        severity(&drift.severity),
    ];
    if let Some(level) = drift.level {
        let words = format!("  {} {}", level.number(), level_word(level));
        parts.push(Part::new(Role::Text, words));
    }
    let hang = columns(when) + 2;
    let mut head = Line {
        parts,
        hang,
        ..Line::default()
    };
    let from = drift.from.as_ref();
    let from = from.map(|from| format!("  from {}", from.text().line()));
    let from = from.and_then(|from| {
        if line_columns(&head) + columns(&from) <= width {
            head.parts.push(Part::new(Role::Text, from));
            return None;
        }
        let (gap, from) = (" ".repeat(hang), from.trim_start());
        Some(Line::of(Role::Text, format!("{gap}{from}")))
    });
    let says = drift.from.is_none() && !drift.detail.is_empty();
    let says = says.then(|| Line {
        lane: Lane::Says,
        ..Line::of(Role::Said, drift.detail.line().as_str())
    });
    [head].into_iter().chain(from).chain(says).collect()
}

/// What is done on a level, in two words.
fn level_word(level: Level) -> &'static str {
    match level {
        Level::Observe => "observe",
        Level::Absorb => "absorb",
        Level::Nudge => "nudge",
        Level::CancelReinvoke => "cancel & restart",
        Level::PauseEscalate => "pause",
        Level::Terminate => "terminate",
    }
}

/// How a task stands is told by a sign, and by a word where there is room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Sign,
    SignAndWord,
}

fn plan(pen: &Pen<'_, '_>, run: &Run, said: Said) -> Vec<Line> {
    let revision = run.plan.as_ref().map(|plan| plan.revision);
    let head = match revision {
        Some(revision) => format!("PLAN, revision {revision}"),
        None => "TASKS".to_owned(),
    };
    let mut lines = vec![Line::of(Role::Active, head)];
    let mut all = tasks(run).peekable();
    if all.peek().is_none() {
        lines.push(Line::of(Role::Muted, "none was reported"));
    }
    for (id, task) in all {
        let [sign, state] = task_state(pen, task);
        let name = format!("{} {}", id.line(), task.title.line());
        let mut parts = vec![sign, Part::new(Role::Text, name)];
        if said == Said::SignAndWord {
            parts.extend([Part::new(Role::Text, "  "), state]);
        }
        lines.push(Line {
            parts,
            hang: 2,
            ..Line::default()
        });
    }
    lines
}

fn what_ends(run: &Run) -> String {
    let left: Vec<String> = unfinished(run).map(|id| id.line().to_string()).collect();
    let tasks = match left.as_slice() {
        [] => String::new(),
        [one] => format!(": {one} ends as cancelled"),
        many if many.len() > NAMED_TASKS => format!(": {} tasks end as cancelled", many.len()),
        many => {
            let (last, first) = many.split_last().unwrap_or((&many[0], &[]));
            format!(": {} and {last} end as cancelled", first.join(", "))
        }
    };
    let asked = match run.open.len() {
        0 => String::new(),
        1 => ", 1 open question is taken back".to_owned(),
        n => format!(", {n} open questions are taken back"),
    };
    format!("abort the run{tasks}{asked}")
}

fn pause_evidence(run: &Run) -> Vec<Line> {
    let words = match run.pause {
        None => "nothing says that it stands still",
        Some(Pause::Asked) => "it was told to stand still, and has not said that it does",
        Some(Pause::Holds(Evidence::Acked)) => "its agent acked the order to pause, below",
        Some(Pause::Holds(Evidence::Inferred)) => {
            "inferred: it reported a critical HUMAN_INTERVENTION_REQUIRED that its own ladder or \
             planner could not deal with; goldfive pauses then and says nothing of it, and one that \
             only observes does not pause at all"
        }
    };
    vec![fact("paused?", Role::Text, words)]
}

fn drift_evidence(drift: &Drift, run: &Run) -> Vec<Line> {
    let kind = drift.kind.text().line();
    let mut lines = vec![fact(
        "drift",
        Role::Text,
        format!("{} {kind}", words::safe(&drift.id)),
    )];
    let count = run.count(&drift.kind, &drift.task).criticals;
    let words = match (run.key.source.is_foreign(), drift.level) {
        (true, Some(level)) => format!(
            "its own ladder says level {} {}",
            level.number(),
            level.word()
        ),
        (true, None) => "its own ladder told no level".to_owned(),
        (false, _) => {
            let task = task_name(&drift.task);
            format!(
                "{} critical {kind} in {task} since a person last said that it was nothing",
                ordinal(count)
            )
        }
    };
    lines.push(fact("counted", Role::Text, words));
    lines
}

fn task_name(task: &registry::Untrusted) -> String {
    match task.is_empty() {
        true => "the run itself".to_owned(),
        false => format!("task {}", task.line()),
    }
}

fn ordinal(n: u32) -> String {
    let ending = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}
