//! The runs: which there are, and what the tasks of one did over time.

use ratatui::layout::Rect;
use registry::{
    Event, Run, RunId, Timestamp,
    run::{Pause, Presence},
};

use super::{
    super::{
        actions::{Action, Context},
        lanes::{self, Lane, What},
        lines::{Page, columns, cut, fit},
        model::Hand,
        msg::{Drawn, ListDrawn, Rows, RunDrawn},
        runs::{Fetched, Record},
        theme::Role,
        words::{self, Signs},
    },
    Pen, Scene,
    inbox::place,
    orders::life,
    pen::Titles,
};

/// `completed`, `cancelled`.
const STATE_COLUMNS: usize = 9;
const TIME_COLUMNS: usize = 4;
/// `left running`, and its sign.
const END_COLUMNS: usize = 14;
/// From this width on, run ids and sessions have columns.
const NAMES_FROM: usize = 60;
/// Below so many rows, the list and the lanes are two screens.
const BOTH_ROWS: u16 = 14;
/// So many of the questions of a run are named.
const ASKS: usize = 3;
/// So many rows say what it was told last, and what came of that.
const TOLD_ROWS: usize = 4;

impl Scene<'_> {
    pub(super) fn runs_panels(&self, pen: &mut Pen<'_, '_>, area: Rect, drawn: &mut Drawn) {
        let model = self.model;
        let face = model.aim().and_then(|aim| model.run_face(aim));
        drawn.run = face.map(|face| RunDrawn {
            face,
            rows: Rows::default(),
        });
        if model.hand != Hand::List {
            drawn.lanes = self.run_panel(pen, area);
            return;
        }
        if area.height < BOTH_ROWS {
            drawn.list = Some(self.run_list(pen, area));
            return;
        }
        let rows = u16::try_from(model.runs.list.order.len()).unwrap_or(u16::MAX);
        let height = rows.saturating_add(2).clamp(5, area.height * 2 / 5);
        let (list, panel) = (
            Rect { height, ..area },
            Rect {
                y: area.y + height,
                height: area.height - height,
                ..area
            },
        );
        drawn.list = Some(self.run_list(pen, list));
        drawn.lanes = self.run_panel(pen, panel);
    }

    // === The list ===

    fn run_list(&self, pen: &mut Pen<'_, '_>, area: Rect) -> ListDrawn {
        let list = &self.model.runs.list;
        let active = self.model.hand == Hand::List && self.model.front.is_none();
        let titles = Titles {
            left: &[(Role::Strong, "Runs")],
            below_left: &place(list),
            ..Titles::default()
        };
        let role = if active { Role::Active } else { Role::Frame };
        let inside = pen.frame(area, role, &titles);
        let rows = list.window(usize::from(inside.height));
        if rows.all == 0 {
            let words = match self.model.synced {
                true => "No agent is at work, and none was today.",
                false => "connecting…",
            };
            let words = pen.spelled(words);
            pen.put(inside, inside.x + 2, inside.y + 1, Role::Muted, &words);
        }
        let shown: Vec<&Run> = list.shown(rows).filter_map(|id| self.run(id)).collect();
        let widths = widths(&shown, usize::from(inside.width));
        for (run, y) in shown.into_iter().zip(inside.y..inside.bottom()) {
            let row = Rect {
                y,
                height: 1,
                ..inside
            };
            self.run_row(pen, row, run, widths);
            if !self.model.is_online() {
                pen.dim(row);
            }
            if Some(run.id) == list.selected {
                pen.select(row);
            }
        }
        ListDrawn { rows }
    }

    fn run(&self, id: RunId) -> Option<&Run> {
        self.model.state.run(id).map(|run| &**run)
    }

    fn run_row(&self, pen: &mut Pen<'_, '_>, row: Rect, run: &Run, widths: [usize; 3]) {
        let here = if Some(run.id) == self.model.runs.list.selected {
            pen.signs.here
        } else {
            " "
        };
        let (role, sign) = words::run_sign(pen.signs, run.state);
        let more = pen.signs.more;
        let word = format!("{sign} {}  ", fit(run.state.word(), STATE_COLUMNS, more));
        let names = [&run.key.agent, &run.key.invocation, &run.key.session];
        let [agent, invocation, session] = std::array::from_fn(|at| {
            let gap = if widths[at] == 0 { "" } else { "  " };
            format!("{}{gap}", fit(names[at].line().as_str(), widths[at], more))
        });
        let age = format!("{:>TIME_COLUMNS$}  ", self.age(run.opened_at));
        let (asks_role, asks) = self.row_asks(pen, run);
        let before = [
            (Role::Active, here),
            (role, word.as_str()),
            (Role::Text, &agent),
            (Role::Muted, &invocation),
            (Role::Muted, &session),
            (Role::Muted, &age),
        ];
        let x = pen.pieces(row, row.x, row.y, &before);
        let asks = cut(&asks, usize::from(row.right().saturating_sub(x)), more);
        pen.put(row, x, row.y, asks_role, &asks);
    }

    /// What the run asks, or why it does not go on.
    fn row_asks(&self, pen: &Pen<'_, '_>, run: &Run) -> (Role, String) {
        let mut open = run
            .open
            .iter()
            .filter_map(|id| self.model.state.pending(*id));
        if let Presence::Away { since } = run.presence {
            let words = format!("{} agent away {}", pen.signs.away, self.age(since));
            return (Role::Warn, words);
        }
        let held = run.held_by.and_then(|id| self.model.state.escalation(id));
        if let Some(held) = held {
            let words = format!("{} {}", pen.signs.held, held.title().line());
            return (Role::Danger, words);
        }
        let Some(first) = open.next() else {
            return (Role::Muted, String::new());
        };
        let others = match open.count() {
            0 => String::new(),
            n => format!("+{n} "),
        };
        (
            Role::Text,
            format!("{others}{}", first.approval.title.line()),
        )
    }

    // === One run ===

    fn run_panel(&self, pen: &mut Pen<'_, '_>, area: Rect) -> Option<Rows> {
        let active = self.model.hand != Hand::List && self.model.front.is_none();
        let role = if active { Role::Active } else { Role::Frame };
        let selected = self.model.runs.list.selected;
        let Some(run) = selected.and_then(|id| self.run(id)) else {
            pen.frame(area, role, &Titles::default());
            return None;
        };
        let record = self.model.runs.record();
        let chart = record.map(|record| self.chart(run, record));
        let asks = self.asks(pen, run);
        let told = self.newest_order(pen, run, usize::from(area.width.saturating_sub(4)));
        let told_rows = told.rows.len().min(TOLD_ROWS);
        // The frame, what is known, what is asked, what it was told, the axis and the legend.
        let fixed = 2 + 1 + asks.len() + told_rows + 2;
        let height = usize::from(area.height).saturating_sub(fixed);
        let all = chart.as_ref().map_or(0, |chart| chart.lanes.len());
        let top = self.model.runs.lanes_top.min(all.saturating_sub(height));
        let below = match all.saturating_sub(top + height) {
            0 => String::new(),
            n => format!("{n} more ↓"),
        };
        let (_, sign) = words::run_sign(pen.signs, run.state);
        let state = format!("{sign} {} · {}", run.state.word(), self.age(run.opened_at));
        let (agent, invocation) = (run.key.agent.line(), run.key.invocation.line());
        let name = format!("{agent} {} run {invocation}", pen.signs.dot);
        let unfinished = match all {
            0 => String::new(),
            _ => self.unfinished(record),
        };
        let titles = Titles {
            left: &[(Role::Strong, &name)],
            right: &state,
            below_left: &unfinished,
            below_right: (Role::Warn, &below),
        };
        let inside = pen.frame(area, role, &titles);
        let text = Rect {
            x: inside.x + 1,
            width: inside.width.saturating_sub(2),
            ..inside
        };
        let width = usize::from(text.width);
        let more = pen.signs.more;
        let facts = cut(&pen.spelled(&facts(run)), width, more);
        pen.put(text, text.x, text.y, Role::Muted, &facts);
        let mut y = text.y + 1;
        for ask in &asks {
            pen.put(text, text.x, y, Role::Text, &cut(ask, width, more));
            y += 1;
        }
        for row in told.rows.iter().take(told_rows) {
            pen.row(text, y, &told, row);
            y += 1;
        }
        if told.rows.len() > told_rows {
            pen.put_right(text, text.x, y - 1, Role::Warn, &format!(" {more}"));
        }
        let below = Rect {
            y,
            height: text.bottom().saturating_sub(y),
            ..text
        };
        let rows = Rows { top, height, all };
        match chart {
            Some(chart) if all > 0 => self.lanes(pen, below, &chart, rows),
            _ => {
                let (role, words) = self.no_lanes(pen, record);
                pen.put(below, below.x, below.y + 1, role, &cut(&words, width, more));
            }
        }
        Some(rows)
    }

    fn chart(&self, run: &Run, record: &Record) -> Chart {
        let now = self.now.unwrap_or_else(|| self.model.state.last_at());
        Chart {
            lanes: lanes::lanes(record.events.values(), &paused(record, now), now),
            span: lanes::span(record.events.values(), now),
            is_over: run.state.is_over(),
        }
    }

    fn asks(&self, pen: &Pen<'_, '_>, run: &Run) -> Vec<String> {
        let open = run
            .open
            .iter()
            .filter_map(|id| self.model.state.pending(*id));
        let ask = |pending: &std::sync::Arc<registry::Pending>| {
            let approval = &pending.approval;
            let (sign, kind) = (words::sign(pen.signs, pending), words::kind(approval));
            let waited = self.age(approval.filed_at);
            format!("{sign} {kind} waits {waited}: {}", approval.title.line())
        };
        let mut asks: Vec<String> = open.map(ask).collect();
        if asks.len() > ASKS {
            let words = format!("  and {} more", asks.len() + 1 - ASKS);
            asks.truncate(ASKS - 1);
            asks.push(words);
        }
        asks
    }

    /// Its newest order, and what its agent made of it.
    fn newest_order(&self, pen: &Pen<'_, '_>, run: &Run, width: usize) -> Page {
        let newest = run.controls.last();
        let newest = newest.map(|order| life(pen, Some(run), order, None, self.now));
        Page::lay(newest.into_iter().collect(), width)
    }

    /// What is shown may not be all.
    fn unfinished(&self, record: Option<&Record>) -> String {
        match record.map(|record| &record.fetched) {
            Some(Fetched::Whole) | None => String::new(),
            Some(Fetched::UnderWay) => "fetching…".to_owned(),
            Some(Fetched::Failed(_)) => {
                let key = self.key(Context::Runs, Action::RetryNow);
                format!("⚠ the record is not whole · {key} tries again")
            }
        }
    }

    fn no_lanes(&self, pen: &Pen<'_, '_>, record: Option<&Record>) -> (Role, String) {
        let (role, words) = match record.map(|record| &record.fetched) {
            Some(Fetched::Whole) => (Role::Muted, "no tasks were reported".to_owned()),
            Some(Fetched::UnderWay) => (Role::Muted, "fetching…".to_owned()),
            Some(Fetched::Failed(why)) => {
                let key = self.key(Context::Runs, Action::RetryNow);
                let sign = pen.signs.beware;
                let words = format!("{sign} its record could not be fetched ({key} again): {why}");
                return (Role::Danger, words);
            }
            None => (Role::Muted, "its record is not here".to_owned()),
        };
        (role, pen.spelled(&words))
    }

    // === The lanes ===

    /// A lane for each task: its name, its time, and the word for what it is now.
    fn lanes(&self, pen: &mut Pen<'_, '_>, area: Rect, chart: &Chart, rows: Rows) {
        let width = usize::from(area.width);
        let shown = chart.lanes.iter().skip(rows.top).take(rows.height);
        let names: Vec<String> = shown.clone().map(name).collect();
        let widest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let name_room = widest.min(width * 3 / 10);
        let bar = width.saturating_sub(name_room + 2 + 2 + END_COLUMNS);
        let bar_x = area.x + u16::try_from(name_room + 2).unwrap_or(u16::MAX);
        self.axis(pen, area, bar_x, bar, chart);
        for ((lane, name), y) in shown
            .zip(names)
            .zip(area.y + 1..area.bottom().saturating_sub(1))
        {
            let row = Rect {
                y,
                height: 1,
                ..area
            };
            let name = fit(&name, name_room, pen.signs.more);
            let mut x = pen.put(row, row.x, y, Role::Text, &format!("{name}  "));
            for (what, cells) in runs_of(&lane.columns(chart.span, bar)) {
                let (role, sign) = what.map_or((Role::Text, " "), |what| look(pen.signs, what));
                x = pen.put(row, x, y, role, &sign.repeat(cells));
            }
            let Some(last) = lane.last() else {
                continue;
            };
            let left = if chart.is_over && !last.is_end() {
                "left "
            } else {
                ""
            };
            let (role, sign) = look(pen.signs, last);
            pen.put(
                row,
                x + 2,
                y,
                role,
                &format!("{sign} {left}{}", last.word()),
            );
        }
        self.legend(pen, area, chart);
    }

    fn axis(&self, pen: &mut Pen<'_, '_>, area: Rect, x: u16, bar: usize, chart: &Chart) {
        let (from, to) = chart.span;
        let begin = words::moment(from, to);
        let end = match chart.is_over {
            true => format!("ended {}", words::clock(to)),
            false => format!("now {}", words::clock(to)),
        };
        let room = Rect {
            width: u16::try_from(bar).unwrap_or(u16::MAX),
            x,
            ..area
        };
        let from = pen.put(room, x, area.y, Role::Muted, &begin);
        pen.put_right(room, from + 1, area.y, Role::Muted, &end);
    }

    /// The words for the signs that occur.
    fn legend(&self, pen: &mut Pen<'_, '_>, area: Rect, chart: &Chart) {
        let y = area.bottom().saturating_sub(1);
        let occurs = |what: &What| {
            let mut all = chart.lanes.iter().flat_map(|lane| &lane.stretches);
            all.any(|stretch| stretch.what == *what)
        };
        let mut x = area.x;
        for what in What::ALL.into_iter().filter(occurs) {
            let (role, sign) = look(pen.signs, what);
            let word = format!(" {}  ", what.word());
            x = pen.pieces(area, x, y, &[(role, sign), (Role::Muted, &word)]);
        }
    }
}

/// What is drawn of a run's time.
struct Chart {
    lanes: Vec<Lane>,
    span: (Timestamp, Timestamp),
    is_over: bool,
}

/// When the whole run was held.
fn paused(record: &Record, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let mut held = Vec::new();
    let mut since = None;
    for recorded in record.events.values() {
        match *recorded.event {
            Event::PauseMoved {
                pause: Some(Pause::Holds(_)),
                ..
            } => since = since.or(Some(recorded.at)),
            // Asked alone, its agent goes on.
            Event::PauseMoved { pause: None, .. } | Event::RunEnded { .. } => {
                held.extend(since.take().map(|from| (from, recorded.at)));
            }
            _ => {}
        }
    }
    held.extend(since.map(|from| (from, now)));
    held
}

fn facts(run: &Run) -> String {
    let mut facts = vec![run.key.source.word().to_owned()];
    let named = [
        ("session", &run.key.session),
        ("thread", &run.thread),
        ("project", &run.project),
        ("from", &run.origin),
    ];
    for (what, text) in named {
        if !text.is_empty() {
            facts.push(format!("{what} {}", text.line()));
        }
    }
    if let Some(owner) = &run.owner {
        facts.push(format!("for {}", words::safe(owner)));
    }
    if let Some(plan) = &run.plan {
        facts.push(format!("plan revision {}", plan.revision));
    }
    facts.join(" · ")
}

/// How wide agents, run ids and sessions are; where there is little room, the agent alone is named.
fn widths(shown: &[&Run], width: usize) -> [usize; 3] {
    let widest = |text: fn(&Run) -> &registry::Untrusted, room: usize| {
        let texts = shown.iter().map(|run| columns(text(run).line().as_str()));
        texts.max().unwrap_or(0).min(room)
    };
    if width < NAMES_FROM {
        return [widest(|run| &run.key.agent, width / 3), 0, 0];
    }
    [
        widest(|run| &run.key.agent, width / 5),
        widest(|run| &run.key.invocation, width / 8),
        widest(|run| &run.key.session, width / 8),
    ]
}

fn name(lane: &Lane) -> String {
    let (task, title) = (lane.task.line(), lane.title.line());
    if lane.title.is_empty() || lane.title == lane.task {
        return task.to_string();
    }
    format!("{task} {title}")
}

fn look(signs: &Signs, what: What) -> (Role, &'static str) {
    match what {
        What::Pending => (Role::Muted, signs.pending),
        What::Running => (Role::Active, signs.full),
        What::Blocked => (Role::Warn, signs.blocked),
        What::Paused => (Role::Danger, signs.paused),
        What::Done => (Role::Ok, signs.granted),
        What::Failed => (Role::Danger, signs.rejected),
        What::Cancelled => (Role::Muted, signs.withdrawn),
        What::NotNeeded => (Role::Muted, signs.skipped),
    }
}

/// Equal neighbours, counted.
fn runs_of(columns: &[Option<What>]) -> impl Iterator<Item = (Option<What>, usize)> {
    columns
        .chunk_by(|one, next| one == next)
        .filter_map(|same| Some((*same.first()?, same.len())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::super::words, What, look};

    #[test]
    fn every_stretch_has_a_sign_of_its_own() {
        for signs in [&words::SIGNS, &words::ASCII_SIGNS] {
            let looks: BTreeSet<&str> = What::ALL.map(|what| look(signs, what).1).into();
            assert_eq!(looks.len(), What::ALL.len(), "{looks:?}");
        }
    }
}
