//! Drifts, and the ladder that says how strongly each is answered (DESIGN §4.3).
//!
//! [`ladder`] is one table. Where it comes from: `wire/goldfive.md` §2.3; the three budget kinds that
//! stand beside TASK_TIMEOUT are our choice, since the merged table could not be read.

use serde::{Deserialize, Serialize};

use crate::{limits, names::DriftId, text::Untrusted, time::Timestamp};

/// How strongly a drift is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It is noted.
    Observe,
    /// The plan is adapted.
    Absorb,
    /// The agent is told.
    Nudge,
    /// The agent is stopped and started again with a correction.
    CancelReinvoke,
    /// The run stands still until a person says how it goes on.
    PauseEscalate,
    /// The run is aborted.
    Terminate,
}

impl Level {
    /// All of them, from 0.
    pub const ALL: [Self; 6] = [
        Self::Observe,
        Self::Absorb,
        Self::Nudge,
        Self::CancelReinvoke,
        Self::PauseEscalate,
        Self::Terminate,
    ];

    /// 0 to 5.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The word that goldfive uses: `pause_escalate`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Absorb => "absorb",
            Self::Nudge => "nudge",
            Self::CancelReinvoke => "cancel_reinvoke",
            Self::PauseEscalate => "pause_escalate",
            Self::Terminate => "terminate",
        }
    }

    /// The level with this word; `signal` is what newer goldfives call a nudge.
    pub fn from_word(word: &str) -> Option<Self> {
        if word == "signal" {
            return Some(Self::Nudge);
        }
        Self::ALL.into_iter().find(|level| level.word() == word)
    }
}

/// How bad a drift is, as its agent says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a note.
    Info,
    /// Worth a look.
    Warning,
    /// The work suffers.
    Critical,
    /// In a word that we do not know: counts as INFO.
    Unknown(Untrusted),
}

impl Severity {
    /// Reads `INFO`, `warning`, `DRIFT_SEVERITY_CRITICAL`.
    pub fn of(said: &str) -> Self {
        match plain(said, "DRIFT_SEVERITY_").as_str() {
            "INFO" => Self::Info,
            "WARNING" => Self::Warning,
            "CRITICAL" => Self::Critical,
            _ => Self::Unknown(Untrusted::new(said).cut(limits::KIND)),
        }
    }

    /// The word in lists; foreign if it is not one of ours.
    pub fn word(&self) -> Untrusted {
        match self {
            Self::Info => Untrusted::new("info"),
            Self::Warning => Untrusted::new("warning"),
            Self::Critical => Untrusted::new("critical"),
            Self::Unknown(said) => said.clone(),
        }
    }

    /// Whether the work suffers.
    pub fn is_critical(&self) -> bool {
        *self == Self::Critical
    }
}

/// What went wrong: `LOOPING_TOOL_CALL`. One that the ladder does not know is kept as it was said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(Untrusted);

impl Kind {
    /// Reads `LOOPING_TOOL_CALL`, `looping_tool_call`, `DRIFT_KIND_LOOPING_TOOL_CALL`.
    pub fn of(said: &str) -> Self {
        Self(Untrusted::new(plain(said, "DRIFT_KIND_")).cut(limits::KIND))
    }

    /// What an escalation itself is recorded as: goldfive's number 37.
    pub fn human_intervention() -> Self {
        Self(Untrusted::new(HUMAN_INTERVENTION))
    }

    /// Whether a person is needed by its own name.
    pub fn is_human_intervention(&self) -> bool {
        self.0.raw() == HUMAN_INTERVENTION
    }

    /// Its name, in capitals; foreign text where the ladder does not know it.
    pub fn text(&self) -> &Untrusted {
        &self.0
    }
}

fn plain(said: &str, prefix: &str) -> String {
    let said = said.trim().to_ascii_uppercase();
    match said.strip_prefix(prefix) {
        Some(rest) => rest.to_owned(),
        None => said,
    }
}

/// One drift of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The agent's own id of it, or one that we made.
    pub id: DriftId,
    /// What went wrong.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// What happened; the agent's words.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
    /// In which task; empty is the run itself.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub task: Untrusted,
    /// How strongly it is answered; none where no ladder was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Of the drift that an escalation is recorded as: what it escalated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Kind>,
    /// When.
    pub at: Timestamp,
}

impl Drift {
    /// As State keeps it, with a text that is cut.
    pub fn kept(&self) -> Self {
        Self {
            detail: self.detail.cut(limits::TASK_KEPT),
            ..self.clone()
        }
    }

    /// What is counted together.
    pub fn condition(&self) -> (Kind, Untrusted) {
        (self.kind.clone(), self.task.clone())
    }
}

/// What a run has been through with one kind of drift in one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// CRITICAL drifts since a person last said that it was nothing.
    pub criticals: u32,
    /// Whether it has already held the run for a person.
    pub escalated: bool,
}

const HUMAN_INTERVENTION: &str = "HUMAN_INTERVENTION_REQUIRED";

/// Levels for INFO, WARNING, the first CRITICAL, and a CRITICAL that comes again.
type Cells = [u8; 4];

const STEERED: Cells = [0, 1, 3, 4];
const BUDGET: Cells = [0, 2, 4, 4];
const ANY_OTHER: Cells = [0, 1, 1, 4];

/// All kinds that are known, in the order of their numbers on goldfive's wire.
pub const KINDS: [(&str, Cells); 40] = [
    ("TOOL_ERROR", STEERED),
    ("AGENT_REFUSAL", STEERED),
    ("NEW_WORK_DISCOVERED", ANY_OTHER),
    ("PLAN_DIVERGENCE", STEERED),
    ("USER_STEER", ANY_OTHER),
    ("USER_CANCEL", ANY_OTHER),
    ("TASK_FAILED_RECOVERABLE", ANY_OTHER),
    ("TASK_FAILED_FATAL", ANY_OTHER),
    ("CONTEXT_PRESSURE", ANY_OTHER),
    ("BLOCKED", ANY_OTHER),
    ("WRONG_AGENT", ANY_OTHER),
    ("AGENT_TRANSFER", ANY_OTHER),
    ("MODEL_REFUSAL", STEERED),
    ("STOPPED_EARLY", ANY_OTHER),
    ("TOO_MANY_STEPS", BUDGET),
    ("GOAL_UNREACHABLE", ANY_OTHER),
    ("TASK_TIMEOUT", BUDGET),
    ("REPEATED_FAILURE", ANY_OTHER),
    ("UNEXPECTED_OUTPUT", ANY_OTHER),
    ("SCHEMA_VIOLATION", ANY_OTHER),
    ("HALLUCINATION_SUSPECTED", ANY_OTHER),
    ("SAFETY_CONCERN", ANY_OTHER),
    ("RESOURCE_EXHAUSTED", BUDGET),
    ("AMBIGUOUS_INTENT", ANY_OTHER),
    ("CUSTOM", ANY_OTHER),
    ("LOOPING_TOOL_CALL", STEERED),
    ("LOOPING_REASONING", [0, 1, 2, 4]),
    ("OFF_TOPIC", STEERED),
    ("INTENT_DIVERGENCE", [0, 1, 4, 4]),
    ("UNCERTAIN_PROGRESS", ANY_OTHER),
    ("SELF_REPORTED_STUCK", STEERED),
    ("REASONING_CLUSTER_TIGHTENING", [0, 0, 0, 0]),
    ("CONFABULATION_RISK", STEERED),
    ("RUNAWAY_DELEGATION", [0, 0, 3, 4]),
    ("REFINE_VALIDATION_FAILED", [0, 0, 4, 4]),
    (HUMAN_INTERVENTION, [0, 0, 4, 5]),
    ("GOAL_DRIFT", [0, 2, 2, 3]),
    ("LLM_CALL_TIMEOUT", BUDGET),
    ("JUSTIFIED_DEVIATION", [0, 1, 1, 1]),
    ("CAPABILITY_MISMATCH", ANY_OTHER),
];

/// How strongly a drift is answered: by its kind, its severity, and whether a CRITICAL one of that
/// kind was there before in that task.
pub fn ladder(kind: &Kind, severity: &Severity, repeat: bool) -> Level {
    let known = KINDS.iter().find(|(name, _)| *name == kind.0.raw());
    let cells = known.map_or(ANY_OTHER, |(_, cells)| *cells);
    let cell = match severity {
        Severity::Info | Severity::Unknown(_) => cells[0],
        Severity::Warning => cells[1],
        Severity::Critical if !repeat => cells[2],
        Severity::Critical => cells[3],
    };
    Level::ALL[usize::from(cell)]
}
