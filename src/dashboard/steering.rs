//! Orders to runs, as the dashboard keeps them: what each is given to, what was typed for it, and how far it has come.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use ratatui_textarea::TextArea;
use registry::{
    Control, Escalation, EscalationId, ItemId, Run, RunId, State, Timestamp, Untrusted,
    command::Order,
    control::{Stage, Verb},
    escalation::Closed,
    limits,
    names::ControlId,
    run::{Evidence, Pause, Presence, RunState, Task},
    who,
};

use super::{
    draft::{Pasted, area_key, typable},
    keys::Key,
    model::{Model, Progress, Screen},
    msg::{Moment, RunFace},
    order, words,
};

/// A text that is pasted may be longer than a direction, so that it can be shortened there.
const PASTE_LIMIT: usize = 8 * limits::STEER;

/// All that the dashboard knows of orders, besides the facts.
#[derive(Debug, Default)]
pub(super) struct Steering {
    pub(super) drafts: BTreeMap<RunId, Direction>,
    /// Whose direction has the keyboard.
    pub(super) writing: Option<Aim>,
    /// Orders of ours that have not come back as facts.
    pub(super) sent: BTreeMap<RunId, Given>,
    /// What the server said to one that it did not take.
    pub(super) refused: BTreeMap<RunId, String>,
    /// Orders of ours that no card shows: what becomes of them is said.
    pub(super) followed: BTreeSet<ControlId>,
    /// What stood on the screen, whether «are you sure?» stood before it, and since when.
    pub(super) standing: Option<(RunFace, bool, Moment)>,
}

/// What an order is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aim {
    pub(super) run: RunId,
    /// The escalation that it answers.
    pub(super) answers: Option<EscalationId>,
}

/// An order of ours that has not come back as a fact.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) order: Order,
    pub(super) progress: Progress,
}

/// A direction that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    pub(super) text: TextArea<'static>,
}

/// A run that stands still, or stood still.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held<'a> {
    Waits(&'a Escalation),
    Closed(&'a Closed),
}

/// How far a run that is held stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stillness {
    Paused,
    /// Inferred; or acked by an agent whose ack may mean nothing.
    Perhaps,
    Pausing,
    /// Its agent goes on.
    Not,
    Aborting,
}

impl Stillness {
    pub(super) fn of(escalation: &Escalation, run: Option<&Run>) -> Self {
        match run.and_then(|run| run.pause) {
            _ if escalation.is_abort() => Self::Aborting,
            // Some foreign executors ack a pause and go on.
            Some(Pause::Holds(Evidence::Acked)) if escalation.from.source.is_foreign() => {
                Self::Perhaps
            }
            Some(Pause::Holds(Evidence::Acked)) => Self::Paused,
            Some(Pause::Holds(Evidence::Inferred)) => Self::Perhaps,
            Some(Pause::Asked) => Self::Pausing,
            None => Self::Not,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Perhaps => "paused?",
            Self::Pausing => "pausing",
            Self::Not => "held",
            Self::Aborting => "aborting",
        }
    }
}

impl Steering {
    /// Lets go of what is about runs that are not there any more.
    pub(super) fn forget(&mut self, state: &State) {
        let known = |run: &RunId| state.run(*run).is_some();
        self.drafts.retain(|run, _| known(run));
        self.refused
            .retain(|run, _| state.run(*run).is_some_and(|run| run.held_by.is_some()));
        self.writing.take_if(|aim| !known(&aim.run));
    }
}

impl<'a> Held<'a> {
    pub(super) fn escalation(self) -> &'a Escalation {
        match self {
            Self::Waits(escalation) => escalation,
            Self::Closed(closed) => &closed.escalation,
        }
    }
}

impl Direction {
    pub(super) fn text(&self) -> String {
        self.text.lines().join("\n")
    }

    /// In UTF-8, as the server counts it.
    pub(super) fn bytes(&self) -> usize {
        let lines = self.text.lines();
        lines.iter().map(String::len).sum::<usize>() + lines.len().saturating_sub(1)
    }

    pub(super) fn key(&mut self, key: Key) {
        area_key(&mut self.text, key);
    }

    /// None: it is far too long.
    pub(super) fn paste(&mut self, text: &str) -> Option<Pasted> {
        let (text, pasted) = typable(text);
        if self.bytes() + text.len() > PASTE_LIMIT {
            return None;
        }
        self.text.insert_str(&text);
        Some(pasted)
    }

    /// Why it cannot be sent.
    pub(super) fn check(&self) -> Result<(), String> {
        let (bytes, limit) = (self.bytes(), limits::STEER);
        if bytes > limit {
            let over = words::count(bytes - limit, "byte");
            return Err(format!(
                "not sent: {bytes} of {limit} bytes, {over} too many"
            ));
        }
        if self.text().trim().is_empty() {
            return Err("not sent: a steer says where to".to_owned());
        }
        Ok(())
    }
}

impl Aim {
    pub(super) fn of(escalation: &Escalation) -> Self {
        Self {
            run: escalation.run,
            answers: Some(escalation.id),
        }
    }
}

impl Model {
    pub(super) fn held(&self, id: EscalationId) -> Option<Held<'_>> {
        let waits = self.state.escalation(id).map(|held| Held::Waits(held));
        let closed = || self.state.closed(id).map(|closed| &**closed);
        let closed = || closed().or_else(|| self.past.held_under_hand(id));
        waits.or_else(|| closed().map(Held::Closed))
    }

    /// The run that stands still and is open.
    pub(super) fn open_held(&self) -> Option<EscalationId> {
        match self.open()?.id {
            ItemId::Escalation(id) => Some(id),
            ItemId::Approval(_) => None,
        }
    }

    /// What an order goes to: to what is on the screen.
    pub(super) fn aim(&self) -> Option<Aim> {
        if self.screen == Screen::Runs {
            let run = self.state.run(self.runs.list.selected?)?;
            return run.held_by.is_none().then_some(Aim {
                run: run.id,
                answers: None,
            });
        }
        let held = self.held(self.open_held()?)?;
        Some(Aim::of(held.escalation()))
    }

    /// The same, also where only its row is there, and its card is shown first.
    fn aim_of_row(&self) -> Option<Aim> {
        let id = match self.screen {
            Screen::Inbox => self.inbox.selected?,
            Screen::Runs => ItemId::Escalation(self.selected_held()?),
            Screen::History => return None,
        };
        match id {
            ItemId::Escalation(id) => Some(Aim::of(self.held(id)?.escalation())),
            ItemId::Approval(_) => None,
        }
    }

    pub(super) fn aim_under_hand(&self) -> Option<Aim> {
        let open = self.open().is_some();
        let row = || self.aim_of_row().filter(|_| !open);
        self.aim().or_else(row)
    }

    /// What holds the run that is selected among the runs.
    pub(super) fn selected_held(&self) -> Option<EscalationId> {
        self.state.run(self.runs.list.selected?)?.held_by
    }

    /// Whether an order has something to go to, and is ours to give.
    pub(super) fn may_order(&self, verb: &Verb) -> bool {
        self.aim_under_hand()
            .is_some_and(|aim| order::may_be_ordered(self, aim, verb).is_ok())
    }

    /// Whether something stands still there, and is ours to answer.
    pub(super) fn may_answer_held(&self) -> bool {
        let held = self.aim_under_hand().filter(|aim| aim.answers.is_some());
        held.is_some() && self.may_order(&Verb::Resume)
    }

    /// What stands still, the longest first; what nobody can answer comes last.
    pub(super) fn held_in_order(&self) -> Vec<ItemId> {
        let held = self.state.all_escalations();
        let (aborts, waits): (Vec<_>, Vec<_>) = held.partition(|held| held.is_abort());
        let order = waits.into_iter().chain(aborts);
        order.map(|held| ItemId::Escalation(held.id)).collect()
    }

    /// How many are held, by how far they stand still.
    pub(super) fn stillness(&self) -> BTreeMap<Stillness, usize> {
        let mut counts = BTreeMap::new();
        for held in self.state.all_escalations() {
            let run = self.state.run(held.run).map(|run| &**run);
            *counts.entry(Stillness::of(held, run)).or_default() += 1;
        }
        counts
    }

    /// `1 paused · 1 aborting`; where there is no room for that, `2 held`. None where nothing is held.
    pub(super) fn held_counts(&self, whole: bool) -> Option<String> {
        let counts = self.stillness();
        if counts.len() > 1 && !whole {
            return Some(format!("{} held", self.paused));
        }
        let counts = counts.iter().map(|(how, n)| format!("{n} {}", how.word()));
        counts.reduce(|before, one| format!("{before} · {one}"))
    }

    /// What the run is now, and the escalation that an order to it would answer. A run that is not known any more has a
    /// face only where that is over.
    pub(super) fn run_face(&self, aim: Aim) -> Option<RunFace> {
        let held = aim.answers.and_then(|id| self.held(id));
        let closed = matches!(held, Some(Held::Closed(_)));
        let face = RunFace {
            run: aim.run,
            held: aim.answers,
            closed,
            state: None,
            away: false,
            unheard: false,
            drifted: (0, None),
            plan: 0,
        };
        let Some(run) = self.state.run(aim.run) else {
            return closed.then_some(face);
        };
        Some(RunFace {
            state: Some(run.state),
            away: away_since(run).is_some(),
            unheard: unheard(run).is_some(),
            drifted: (run.drifts.len(), run.drifts.last().map(|drift| drift.at)),
            plan: plan_hash(run),
            ..face
        })
    }

    /// How much of the bar is filled, of 1000; none once it is full.
    pub(super) fn run_settling(&self, face: RunFace, at: Moment) -> Option<u32> {
        if face.closed {
            return None;
        }
        let standing = self.steering.standing;
        let since = standing.filter(|(standing, ..)| *standing == face);
        Self::filled(at, since.map(|(.., since)| since))
    }

    /// Why we may not, in the server's words; none where we may. What is taken, the server says.
    pub(super) fn not_directed(&self, run: &Run, verb: &Verb) -> Option<String> {
        let me = self.me.as_ref()?.principal();
        let refused = who::may(&me, verb.right(), run.owner.as_ref(), None).err()?;
        Some(refused.to_string())
    }

    /// In how long what is shown of it reads otherwise.
    pub(super) fn held_changes(&self, id: EscalationId, now: Timestamp) -> Vec<Duration> {
        let Some(held) = self.held(id) else {
            return Vec::new();
        };
        let escalation = held.escalation();
        let run = self.state.run(escalation.run);
        let away = run.and_then(|run| away_since(run));
        let orders = run.into_iter().flat_map(|run| &run.controls);
        let answer = match held {
            Held::Waits(_) => None,
            Held::Closed(closed) => closed.control.as_ref(),
        };
        let unanswered = orders.chain(answer).filter_map(unanswered_since);
        let older = unanswered.chain(away).chain([escalation.at]);
        let older = older.map(|then| words::until_older(now.since(then)));
        let left = escalation.abort_at.map(|end| end.since(now));
        let left = left.filter(|left| !left.is_zero());
        older.chain(left.map(words::until_shorter)).collect()
    }
}

/// Since when its agent is not there.
pub(super) fn away_since(run: &Run) -> Option<Timestamp> {
    match run.presence {
        Presence::Away { since } => Some(since),
        Presence::Attached | Presence::Detached => None,
    }
}

/// Since when an order has been with the agent without a word from it.
pub(super) fn unanswered_since(order: &Control) -> Option<Timestamp> {
    let last = order.steps.last()?;
    (last.stage == Stage::Sent).then_some(last.at)
}

/// The first order that no agent has taken.
pub(super) fn unheard(run: &Run) -> Option<&Control> {
    let waits = |order: &&Control| order.stage() == Stage::Issued;
    run.controls.iter().find(waits)
}

/// An answer can no longer reach its agent: a foreign one that is gone does not come back.
pub(super) fn is_unreachable(run: &Run) -> bool {
    run.key.source.is_foreign() && away_since(run).is_some()
}

/// Its turn has ended: what it is told, it hears when it takes up its work again.
pub(super) fn is_parked(run: &Run) -> bool {
    matches!(run.state, RunState::Parked(_))
}

/// The tasks in the order of the plan, by their ids; those that no plan names come last.
pub(super) fn tasks(run: &Run) -> impl Iterator<Item = (&Untrusted, &Task)> {
    let planned = run.plan.iter().flat_map(|plan| &plan.tasks);
    let planned: Vec<_> = planned.map(|task| &task.id).collect();
    let named: BTreeSet<_> = planned.iter().copied().collect();
    let others = run.tasks.keys().filter(move |id| !named.contains(id));
    let all = planned.into_iter().chain(others);
    all.filter_map(|id| Some((id, run.tasks.get(id)?)))
}

/// Differs where the plan does, or the tasks and questions that end with the run.
fn plan_hash(run: &Run) -> u64 {
    let mut hash = DefaultHasher::new();
    run.plan.as_ref().map(|plan| plan.revision).hash(&mut hash);
    for (id, task) in tasks(run) {
        (id.raw(), task.title.raw()).hash(&mut hash);
    }
    for id in unfinished(run) {
        id.raw().hash(&mut hash);
    }
    for id in &run.open {
        id.to_string().hash(&mut hash);
    }
    hash.finish()
}

/// What ends as cancelled where the run is called off.
pub(super) fn unfinished(run: &Run) -> impl Iterator<Item = &Untrusted> {
    let left = tasks(run).filter(|(_, task)| !task.state.is_over());
    left.map(|(id, _)| id)
}
