//! How a run stands: known to whoever plays it, and to whoever takes its orders.

use std::sync::Arc;

use registry::{
    ApprovalId, RunId, Untrusted,
    approval::Filing,
    names::DriftId,
    run::{
        Plan, PlanTask,
        TaskState::{self, Completed, Pending},
    },
};
use tokio::sync::watch;

/// Both hold it, and hear of every change.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<watch::Sender<Standing>>);

impl Shared {
    pub(super) fn look<T>(&self, at: impl FnOnce(&Standing) -> T) -> T {
        at(&self.0.borrow())
    }

    pub(super) fn change<T: Default>(&self, how: impl FnOnce(&mut Standing) -> T) -> T {
        let mut gives = T::default();
        self.0.send_modify(|standing| gives = how(standing));
        gives
    }

    pub(super) async fn until(&self, is_so: impl Fn(&Standing) -> bool) {
        let mut seen = self.0.subscribe();
        let _ = seen.wait_for(|standing| is_so(standing)).await;
    }
}

/// What there is to know of a run.
#[derive(Default)]
pub(super) struct Standing {
    /// Once it was opened.
    pub(super) run: Option<RunId>,
    pub(super) stance: Stance,
    /// Its plan, as its scene has it: without what people said to it.
    pub(super) summary: String,
    pub(super) tasks: Vec<PlanTask>,
    pub(super) revision: u32,
    /// What people said to it, a short piece of each.
    pub(super) directions: Vec<String>,
    /// What was asked, and within which task.
    pub(super) asked: Vec<(ApprovalId, Untrusted)>,
    /// What never counts back: questions and drifts have ids of their own.
    pub(super) filed: u32,
    pub(super) drifted: u32,
    pub(super) last_drift: Option<DriftId>,
    /// What was said to it since it drifted.
    pub(super) told: Option<Told>,
    /// What is done once more. Until its scene comes to one of these, it only remembers.
    pub(super) again: Vec<Untrusted>,
}

/// Whether it does anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stance {
    #[default]
    AtWork,
    /// It was told to.
    Still,
    /// It hears nothing, either.
    Gone,
}

/// What a person says to a run that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Resume,
    Steer(String),
}

impl Standing {
    /// Whether what is done for this task is done, and not only remembered.
    pub(super) fn comes_to(&mut self, task: &Untrusted) -> bool {
        if self.again.contains(task) {
            self.again.clear();
        }
        self.again.is_empty()
    }

    /// Asks, as the `nth` question of its scene; what was asked after that, when it did this before, no longer counts.
    pub(super) fn asks(&mut self, nth: usize, id: ApprovalId, filing: &Filing) {
        let task = filing.subject.task();
        self.asked.truncate(nth);
        self.asked.push((id, task.clone()));
        if filing.subject.tool().is_none() {
            let needed = filing.detail.prompt.clone();
            let blocker = "awaiting_approval".into();
            self.moves(task, &TaskState::Blocked { blocker, needed });
        }
    }

    pub(super) fn moves(&mut self, task: &Untrusted, to: &TaskState) {
        if let Some(known) = self.tasks.iter_mut().find(|known| known.id == *task) {
            known.state = to.clone();
        }
    }

    pub(super) fn state_of(&self, task: &Untrusted) -> Option<&TaskState> {
        let mut tasks = self.tasks.iter();
        tasks
            .find(|known| known.id == *task)
            .map(|known| &known.state)
    }

    /// This task, and all that follow it.
    pub(super) fn from(&self, task: &Untrusted) -> Vec<Untrusted> {
        let tasks = self.tasks.iter().map(|task| task.id.clone());
        tasks.skip_while(|id| id != task).collect()
    }

    /// What was asked within this task, and all that follow it.
    pub(super) fn asked_from(&self, task: &Untrusted) -> Vec<ApprovalId> {
        let tasks = self.from(task);
        let asked = self.asked.iter();
        let within = asked.filter(|(_, within)| tasks.contains(within));
        within.map(|(id, _)| *id).collect()
    }

    pub(super) fn left(&self) -> Vec<Untrusted> {
        let tasks = self.tasks.iter();
        let left = tasks.filter(|task| !task.state.is_over());
        left.map(|task| task.id.clone()).collect()
    }

    /// Its plan as others are to have it: what people said stands before all that is left to do.
    pub(super) fn plan(&self) -> Plan {
        let said = self.directions.iter().zip(1..).map(|(words, n)| PlanTask {
            id: format!("s{n}").into(),
            title: format!("Keep to «{words}»").into(),
            state: Completed,
        });
        let mut tasks = self.tasks.clone();
        let left = tasks.iter().position(|task| !task.state.is_over());
        let left = left.unwrap_or(tasks.len());
        tasks.splice(left..left, said);
        let told = self.directions.last();
        let told = told.map_or_else(String::new, |words| format!("as told: «{words}»"));
        let parts = [self.summary.as_str(), &told];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        Plan {
            revision: self.revision,
            summary: parts.collect::<Vec<_>>().join("; ").into(),
            tasks,
        }
    }

    /// Where it is: the task that it is at, and how many are done.
    pub(super) fn says_where(&self) -> String {
        let tasks = &self.tasks;
        let begun = tasks
            .iter()
            .find(|task| task.state != Pending && !task.state.is_over());
        let at = begun.or_else(|| tasks.iter().find(|task| task.state == Pending));
        let at = at.map_or_else(
            || "no task left".to_owned(),
            |task| {
                let (id, title, state) = (task.id.raw(), task.title.raw(), task.state.word());
                format!("{id} «{title}» {state}")
            },
        );
        let done = tasks.iter().filter(|task| task.state == Completed).count();
        let still = match self.stance {
            Stance::Still => "; standing still",
            Stance::AtWork | Stance::Gone => "",
        };
        match tasks.len() {
            0 => format!("{} asked, no plan{still}", self.asked.len()),
            all => format!("{at}, {done}/{all} done{still}"),
        }
    }
}
