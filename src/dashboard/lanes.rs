//! What the tasks of a run did over time: a lane each, made from the run's record.
//!
//! Invariant: the stretches of a lane follow each other in time and do not overlap; an end is a stretch without length.

use registry::{Event, Recorded, Timestamp, Untrusted, run::TaskState};

/// One task over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The agent's id of it.
    pub task: Untrusted,
    /// What it is about; the agent's words.
    pub title: Untrusted,
    /// What it did, oldest first.
    pub stretches: Vec<Stretch>,
}

/// A time in which a task was one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Since when.
    pub from: Timestamp,
    /// Until when; the same, where it is an end.
    pub to: Timestamp,
    /// What it was.
    pub what: What,
}

/// What a task was. The later ones are more telling: where several share a column, the last of these is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Waiting for something outside.
    Blocked,
    /// Held, with its whole run.
    Paused,
    /// No longer needed.
    NotNeeded,
    /// Called off.
    Cancelled,
    /// Done.
    Done,
    /// Could not be done.
    Failed,
}

impl What {
    /// All of them, in the order of the legend.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Blocked,
        Self::Paused,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::NotNeeded,
    ];

    /// The word at the end of a lane, and in the legend.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::NotNeeded => "not needed",
        }
    }

    /// Whether the task is over.
    #[must_use]
    pub fn is_end(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Blocked | Self::Paused => false,
            Self::Done | Self::Failed | Self::Cancelled | Self::NotNeeded => true,
        }
    }

    fn of(state: &TaskState) -> Self {
        match state {
            TaskState::Pending => Self::Pending,
            TaskState::Running => Self::Running,
            TaskState::Blocked { .. } => Self::Blocked,
            TaskState::Completed => Self::Done,
            TaskState::Failed => Self::Failed,
            TaskState::Cancelled => Self::Cancelled,
            TaskState::NotNeeded => Self::NotNeeded,
        }
    }
}

/// Whether lanes are made from it; the rest of a record need not be kept.
#[must_use]
pub fn counts(event: &Event) -> bool {
    matches!(
        event,
        Event::RunOpened { .. }
            | Event::RunEnded { .. }
            | Event::TaskReported { .. }
            | Event::PlanReported { .. }
            | Event::PauseMoved { .. }
    )
}

/// The lanes of a run, in the order in which its tasks were first named. `paused` are the times, oldest first, in which
/// the whole run was held: they lie over what was running or blocked.
#[must_use]
pub fn lanes<'a>(
    record: impl IntoIterator<Item = &'a Recorded>,
    paused: &[(Timestamp, Timestamp)],
    now: Timestamp,
) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut end = now;
    for recorded in record {
        let at = recorded.at;
        match &*recorded.event {
            Event::TaskReported {
                task, title, state, ..
            } => enter(&mut lanes, task, title, state, at),
            Event::PlanReported { plan, .. } => {
                for task in &plan.tasks {
                    enter(&mut lanes, &task.id, &task.title, &task.state, at);
                }
            }
            Event::RunEnded { .. } => end = at,
            _ => {}
        }
    }
    for lane in &mut lanes {
        lane.finish(end);
        lane.hold(paused);
    }
    lanes
}

/// From when to when the lanes of a run go.
#[must_use]
pub fn span<'a>(
    record: impl IntoIterator<Item = &'a Recorded>,
    now: Timestamp,
) -> (Timestamp, Timestamp) {
    let (mut from, mut to) = (None, None);
    for recorded in record {
        from = from.or(Some(recorded.at));
        if matches!(*recorded.event, Event::RunEnded { .. }) {
            to = Some(recorded.at);
        }
    }
    let to = to.unwrap_or(now);
    (from.unwrap_or(to), to)
}

fn enter(
    lanes: &mut Vec<Lane>,
    task: &Untrusted,
    title: &Untrusted,
    state: &TaskState,
    at: Timestamp,
) {
    let known = lanes.iter().position(|lane| lane.task == *task);
    let known = known.unwrap_or_else(|| {
        lanes.push(Lane {
            task: task.clone(),
            title: title.clone(),
            stretches: Vec::new(),
        });
        lanes.len() - 1
    });
    let lane = &mut lanes[known];
    if !title.is_empty() {
        lane.title = title.clone();
    }
    lane.move_to(What::of(state), at);
}

impl Lane {
    /// What the task is now, or was when its run ended.
    #[must_use]
    pub fn last(&self) -> Option<What> {
        self.stretches.last().map(|stretch| stretch.what)
    }

    /// What to show in each of `width` columns between two moments.
    #[must_use]
    pub fn columns(&self, (from, to): (Timestamp, Timestamp), width: usize) -> Vec<Option<What>> {
        let mut columns = vec![None; width];
        let Some(last) = width.checked_sub(1) else {
            return columns;
        };
        let span = to.since(from).as_millis().max(1);
        let place = |at: Timestamp| at.since(from).as_millis() * width as u128;
        let column = |place: u128| usize::try_from(place / span).unwrap_or(last).min(last);
        for stretch in &self.stretches {
            let first = place(stretch.from);
            // What ends where a column begins is not in that column.
            let until = place(stretch.to).saturating_sub(1).max(first);
            for shown in &mut columns[column(first)..=column(until)] {
                *shown = (*shown).max(Some(stretch.what));
            }
        }
        columns
    }

    fn move_to(&mut self, what: What, at: Timestamp) {
        if self.last() == Some(what) {
            return;
        }
        self.finish(at);
        let (from, to) = (at, at);
        self.stretches.push(Stretch { from, to, what });
    }

    /// What goes on goes on until then.
    fn finish(&mut self, at: Timestamp) {
        if let Some(last) = self.stretches.last_mut()
            && !last.what.is_end()
        {
            last.to = last.to.max(at);
        }
    }

    fn hold(&mut self, paused: &[(Timestamp, Timestamp)]) {
        for pause in paused {
            let whole = std::mem::take(&mut self.stretches);
            self.stretches = whole
                .into_iter()
                .flat_map(|stretch| stretch.held(*pause))
                .collect();
        }
    }
}

impl Stretch {
    fn held(self, (from, to): (Timestamp, Timestamp)) -> impl Iterator<Item = Self> {
        let works = matches!(self.what, What::Running | What::Blocked);
        let (from, to) = (from.max(self.from), to.min(self.to));
        let piece = |from, to, what| Self { from, to, what };
        let pieces = if works && from < to {
            [
                piece(self.from, from, self.what),
                piece(from, to, What::Paused),
                piece(to, self.to, self.what),
            ]
            .map(|piece| Some(piece).filter(|piece| piece.from < piece.to))
        } else {
            [Some(self), None, None]
        };
        pieces.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::sync::Arc;

    use registry::{
        RunId, Tenant,
        event::Scope,
        run::{End, Plan, PlanTask},
    };

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms(seconds * 1000)
    }

    fn state(word: &str) -> TaskState {
        match word {
            "pending" => TaskState::Pending,
            "running" => TaskState::Running,
            "blocked" => TaskState::Blocked {
                blocker: "awaiting_approval".into(),
                needed: "ok?".into(),
            },
            "done" => TaskState::Completed,
            "failed" => TaskState::Failed,
            "cancelled" => TaskState::Cancelled,
            "not-needed" => TaskState::NotNeeded,
            other => panic!("{other}"),
        }
    }

    /// `0 plan t1,t2`, `5 t1 running`, `9 end`: when, and what.
    fn record(lines: &str) -> Vec<Recorded> {
        let run = RunId::mint(at(0), 1);
        let event = |line: &str| {
            let (seconds, what) = line.trim().split_once(' ').unwrap();
            let (first, rest) = what.split_once(' ').unwrap_or((what, ""));
            let event = match first {
                "end" => Event::RunEnded {
                    run,
                    end: End::Completed,
                    reason: Untrusted::default(),
                },
                "plan" => Event::PlanReported {
                    run,
                    plan: Plan {
                        revision: 1,
                        summary: Untrusted::default(),
                        tasks: rest.split(',').map(task).collect(),
                    },
                    cause: Untrusted::default(),
                },
                "said" => Event::Said {
                    run,
                    text: rest.into(),
                },
                task => Event::TaskReported {
                    run,
                    task: task.into(),
                    title: Untrusted::default(),
                    state: state(rest),
                    detail: Untrusted::default(),
                },
            };
            (at(seconds.parse().unwrap()), event)
        };
        let task = |(at, event)| Recorded {
            seq: 1,
            at,
            scope: Scope {
                tenant: Tenant::local(),
                owner: None,
            },
            event: Arc::new(event),
        };
        lines.split(';').map(event).map(task).collect()
    }

    fn task(id: &str) -> PlanTask {
        PlanTask {
            id: id.into(),
            title: format!("the {id}").into(),
            state: TaskState::Pending,
        }
    }

    fn written(lanes: &[Lane]) -> String {
        let stretch = |stretch: &Stretch| {
            let (from, to) = (stretch.from.ms() / 1000, stretch.to.ms() / 1000);
            format!("{} {from}-{to}", stretch.what.word())
        };
        let lane = |lane: &Lane| {
            let stretches: Vec<String> = lane.stretches.iter().map(stretch).collect();
            format!("{}: {}", lane.task.line(), stretches.join(", "))
        };
        lanes.iter().map(lane).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_lane_is_what_its_task_was_told_to_be() {
        let rows = [
            ("0 said hello", ""),
            ("0 t1 running", "t1: running 0-20"),
            ("0 t1 running; 8 t1 done", "t1: running 0-8, done 8-8"),
            (
                "0 plan t1,t2; 2 t2 running; 4 t2 blocked; 9 t2 running; 10 t2 done",
                "t1: pending 0-20; t2: pending 0-2, running 2-4, blocked 4-9, running 9-10, done 10-10",
            ),
            // Said twice, it is one stretch; begun again, there is a gap.
            (
                "0 t1 running; 3 t1 running; 5 t1 failed; 9 t1 running",
                "t1: running 0-5, failed 5-5, running 9-20",
            ),
            // What the run leaves undone ends with it.
            (
                "0 t1 running; 1 t2 blocked; 6 t2 cancelled; 12 end",
                "t1: running 0-12; t2: blocked 1-6, cancelled 6-6",
            ),
            (
                "0 t1 not-needed; 3 plan t1",
                "t1: not needed 0-0, pending 3-20",
            ),
        ];
        for (lines, expected) in rows {
            assert_eq!(
                written(&lanes(&record(lines), &[], at(20))),
                expected,
                "{lines}"
            );
        }
        let named = lanes(&record("0 t1 running; 1 plan t1"), &[], at(2));
        assert_eq!(named[0].title.raw(), "the t1");
    }

    #[test]
    fn a_pause_lies_over_all_that_was_at_work() {
        let lines = "0 plan t1,t2,t3; 2 t1 running; 3 t2 blocked; 12 t1 done";
        let rows: &[(&[(i64, i64)], &str)] = &[
            (
                &[(5, 9)],
                "t1: pending 0-2, running 2-5, paused 5-9, running 9-12, done 12-12; \
                 t2: pending 0-3, blocked 3-5, paused 5-9, blocked 9-20; t3: pending 0-20",
            ),
            (
                &[(1, 4), (15, 20)],
                "t1: pending 0-2, paused 2-4, running 4-12, done 12-12; \
                 t2: pending 0-3, paused 3-4, blocked 4-15, paused 15-20; t3: pending 0-20",
            ),
            (
                &[(12, 13)],
                "t1: pending 0-2, running 2-12, done 12-12; \
                 t2: pending 0-3, blocked 3-12, paused 12-13, blocked 13-20; t3: pending 0-20",
            ),
        ];
        for (paused, expected) in rows {
            let paused: Vec<_> = paused
                .iter()
                .map(|(from, to)| (at(*from), at(*to)))
                .collect();
            let made = lanes(&record(lines), &paused, at(20));
            assert_eq!(written(&made), *expected, "{paused:?}");
        }
    }

    /// `.` pending, `=` running, `#` blocked, `|` paused, `+` done, a blank for nothing.
    #[test]
    fn columns_show_the_most_telling_of_what_they_hold() {
        let rows = [
            ("0 t1 running", 10, "=========="),
            ("0 t1 pending; 10 t1 running", 10, ".....====="),
            (
                "0 t1 running; 5 t1 blocked; 15 t1 running; 19 t1 done",
                10,
                "==######=+",
            ),
            ("0 t1 running; 19 t1 blocked", 4, "===#"),
            ("0 t1 running; 20 t1 done", 5, "====+"),
            ("0 t2 running; 10 t1 running; 11 t1 done", 10, "     +    "),
            ("0 t2 running; 10 t1 running; 14 t1 done", 10, "     ==+  "),
            ("0 t1 running", 1, "="),
            ("0 t1 running", 0, ""),
        ];
        for (lines, width, expected) in rows {
            let record = record(lines);
            let made = lanes(&record, &[], at(20));
            let lane = made.iter().find(|lane| lane.task.raw() == "t1").unwrap();
            let shown = lane.columns(span(&record, at(20)), width);
            let signs = shown.iter().map(|what| match what {
                None => ' ',
                Some(What::Pending) => '.',
                Some(What::Running) => '=',
                Some(What::Blocked) => '#',
                Some(What::Paused) => '|',
                Some(_) => '+',
            });
            assert_eq!(signs.collect::<String>(), expected, "{lines}");
        }
        // A run that has only just begun.
        let record = record("20 t1 running");
        let made = lanes(&record, &[], at(20));
        let shown = made[0].columns(span(&record, at(20)), 3);
        assert_eq!(shown, [Some(What::Running), None, None]);
    }
}
