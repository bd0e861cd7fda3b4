//! One piece of agent work, as its agent reports it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    approval::{ApprovalId, parse_ulid, ulid_at},
    control::{Control, Verb},
    drift::{Count, Drift, Kind},
    escalation::EscalationId,
    limits,
    names::ControlId,
    policy::Mode,
    refusal::Refusal,
    text::Untrusted,
    time::Timestamp,
    who::{Name, Tenant},
};

/// The id of a run: a ULID, minted by the owning thread, for one [`RunKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Ulid);

impl RunId {
    /// The id for a run first seen at `now`, with 80 bits of `randomness`.
    pub fn mint(now: Timestamp, randomness: u128) -> Self {
        Self(ulid_at(now, randomness))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        parse_ulid(text).map(Self)
    }
}

/// Through which door a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A client of our own AgentService.
    Native,
    /// `pilothouse file`.
    Cli,
    /// A goldfive agent, over harmonograf's wire.
    Goldfive,
}

impl Source {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Cli => "cli",
            Self::Goldfive => "goldfive",
        }
    }

    /// Whether decisions are delivered by us, and what the agent says is observed, not asked.
    pub fn is_foreign(self) -> bool {
        match self {
            Self::Native | Self::Cli => false,
            Self::Goldfive => true,
        }
    }
}

/// What makes a run this run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose.
    pub tenant: Tenant,
    /// Through which door.
    pub source: Source,
    /// The agent's own name.
    pub agent: Untrusted,
    /// Its session.
    pub session: Untrusted,
    /// The run id as the agent says it.
    pub invocation: Untrusted,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It did its work.
    Completed,
    /// It could not.
    Failed,
    /// Somebody called it off.
    Cancelled,
    /// It was stopped.
    Aborted,
}

impl End {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Aborted => "aborted",
        }
    }
}

/// What a turn that ended without its run ending waits for; the first of several wins (EL-65).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// Somebody outside the conversation decides.
    Approval,
    /// A long-running tool.
    Tool,
    /// A confirmation in the chat.
    Confirmation,
    /// More input.
    Input,
}

impl InterruptKind {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Tool => "tool",
            Self::Confirmation => "confirmation",
            Self::Input => "input",
        }
    }
}

/// What a run does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It works.
    Running,
    /// It asks something; neither success nor failure (DF-39).
    Waiting,
    /// Its turn ended while it waits; it has no agent by design.
    Parked(InterruptKind),
    /// It was parked, and one of its agent's processes took its decisions; it has not begun with them yet.
    Consumed(InterruptKind),
    /// It is to stand still, and its agent has not said that it does.
    Pausing,
    /// It stands still until a person says how it goes on.
    Paused(Evidence),
    /// It ended.
    Ended(End),
}

impl RunState {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Parked(_) => "parked",
            Self::Consumed(_) => "consumed",
            Self::Pausing => "pausing",
            Self::Paused(_) => "paused",
            Self::Ended(end) => end.word(),
        }
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// How a run comes to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// It was told to, and has not said that it does.
    Asked,
    /// It does.
    Holds(Evidence),
}

/// Why we think that a run stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Its agent acked a pause.
    Acked,
    /// Nothing that it said, but what it did: probably.
    Inferred,
}

/// Whether the agent is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Its connection is open.
    Attached,
    /// It was there, and is not.
    Away {
        /// Since when.
        since: Timestamp,
    },
    /// Filed by a process that does not stay, like the CLI: never "away".
    Detached,
}

/// A run, as State and lists hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Ours.
    pub id: RunId,
    /// What makes it this run.
    pub key: RunKey,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub project: Untrusted,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub thread: Untrusted,
    /// What started it, as the caller says.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub origin: Untrusted,
    /// The user it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// The credential that opened it, and alone may report for it.
    pub opened_by: Name,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Whether it can take up an answer after its turn ended. Left out means no.
    #[serde(default)]
    pub can_resume: bool,
    /// Whether somebody follows it, and may be asked.
    #[serde(default, skip_serializing_if = "Mode::is_interactive")]
    pub mode: Mode,
    /// When it was first seen.
    pub opened_at: Timestamp,
    /// What it does now.
    pub state: RunState,
    /// Whether its agent is there.
    pub presence: Presence,
    /// Its tasks, by the agent's own ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<Untrusted, Task>,
    /// The newest plan's revision, and its tasks in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// What it asks now.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub open: BTreeSet<ApprovalId>,
    /// Whether it stands still, or is to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The escalation that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<EscalationId>,
    /// Its newest drifts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<Drift>,
    /// What it has been through with each kind of drift in each task.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
    /// What it is and was told, oldest first; of what is over only the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
}

/// By kind of drift and task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    from = "Vec<(Kind, Untrusted, Count)>",
    into = "Vec<(Kind, Untrusted, Count)>"
)]
pub struct Counts(pub BTreeMap<(Kind, Untrusted), Count>);

impl Counts {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<(Kind, Untrusted, Count)>> for Counts {
    fn from(rows: Vec<(Kind, Untrusted, Count)>) -> Self {
        let rows = rows.into_iter();
        Self(
            rows.map(|(kind, task, count)| ((kind, task), count))
                .collect(),
        )
    }
}

impl From<Counts> for Vec<(Kind, Untrusted, Count)> {
    fn from(counts: Counts) -> Self {
        let rows = counts.0.into_iter();
        rows.map(|((kind, task), count)| (kind, task, count))
            .collect()
    }
}

/// The conversation that a run belongs to: nothing new starts on one that waits for an answer (DF-44).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    tenant: Tenant,
    project: Untrusted,
    name: Untrusted,
}

impl Thread {
    /// The thread of that name; the session where it has none. Without either, a run shares its conversation with no other.
    pub fn of(key: &RunKey, project: &Untrusted, thread: &Untrusted) -> Option<Self> {
        let names = [thread, &key.session];
        let name = names.into_iter().find(|name| !name.is_empty())?;
        Some(Self {
            tenant: key.tenant.clone(),
            project: project.clone(),
            name: name.clone(),
        })
    }
}

impl Run {
    /// The conversation that it belongs to, where it shares one.
    pub fn thread(&self) -> Option<Thread> {
        Thread::of(&self.key, &self.project, &self.thread)
    }

    /// One of its orders.
    pub fn control(&self, id: &ControlId) -> Option<&Control> {
        self.controls.iter().find(|control| control.id == *id)
    }

    /// The order to stop for good that is under way, if there is one.
    pub fn called_off(&self) -> Option<&Control> {
        let cancels = |control: &&Control| control.verb == Verb::Cancel && !control.is_over();
        self.controls.iter().find(cancels)
    }

    /// What it has been through with one kind of drift in one task.
    pub fn count(&self, kind: &Kind, task: &Untrusted) -> Count {
        let condition = (kind.clone(), task.clone());
        self.counts.0.get(&condition).copied().unwrap_or_default()
    }
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What it is about; the agent's words.
    pub title: Untrusted,
    /// How it stands.
    pub state: TaskState,
    /// The agent's words about that.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
    /// Since when.
    pub at: Timestamp,
}

impl Task {
    /// A task that is reported, as State keeps it: with the title that is known where none is told, and with texts that
    /// are cut.
    pub fn kept(
        known: Option<&Self>,
        title: &Untrusted,
        state: &TaskState,
        detail: &Untrusted,
        at: Timestamp,
    ) -> Self {
        let known = known.filter(|_| title.is_empty());
        let state = match state {
            TaskState::Blocked { blocker, needed } => TaskState::Blocked {
                blocker: blocker.cut(limits::TASK_KEPT),
                needed: needed.cut(limits::TASK_KEPT),
            },
            other => other.clone(),
        };
        Self {
            title: known
                .map_or(title, |known| &known.title)
                .cut(limits::TASK_KEPT),
            state,
            detail: detail.cut(limits::TASK_KEPT),
            at,
        }
    }
}

/// How a task stands; the agent moves it, a decision never does (GF-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Waiting for something outside.
    Blocked {
        /// For what: `awaiting_approval`.
        blocker: Untrusted,
        /// What is needed: the prompt.
        needed: Untrusted,
    },
    /// Done.
    Completed,
    /// Could not be done.
    Failed,
    /// Called off.
    Cancelled,
    /// No longer needed.
    NotNeeded,
}

impl TaskState {
    /// Whether nothing more is done for it.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Blocked { .. } => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::NotNeeded => true,
        }
    }

    /// The word in lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Blocked { .. } => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::NotNeeded => "not needed",
        }
    }
}

/// The newest plan of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Counted by the agent.
    pub revision: u32,
    /// The agent's words.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub summary: Untrusted,
    /// Its tasks, in order.
    pub tasks: Vec<PlanTask>,
}

impl Plan {
    /// As State keeps it, with texts that are cut.
    pub fn kept(&self) -> Self {
        let task = |task: &PlanTask| {
            let kept = Task::kept(
                None,
                &task.title,
                &task.state,
                &Untrusted::default(),
                Timestamp::default(),
            );
            PlanTask {
                id: task.id.clone(),
                title: kept.title,
                state: kept.state,
            }
        };
        Self {
            revision: self.revision,
            summary: self.summary.cut(limits::TASK_KEPT),
            tasks: self.tasks.iter().map(task).collect(),
        }
    }
}

/// One task as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTask {
    /// The agent's id of it.
    pub id: Untrusted,
    /// What it is about.
    pub title: Untrusted,
    /// How it stands.
    pub state: TaskState,
}
