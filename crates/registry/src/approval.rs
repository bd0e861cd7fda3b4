//! One question to a human: what was asked, and how it ended.
//!
//! Invariant: an [`Approval`] never changes. A question whose content changed is another approval
//! with another id; what happens to one stands beside it, in [`Pending`] or [`Settled`].

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    digest::{Digest, Envelope, Sha256},
    form::{Answers, Form},
    limits,
    names::{ClaimToken, ControlId, DecisionId, Key, WaitId},
    refusal::Refusal,
    run::{End, RunId, RunKey},
    text::{Untrusted, readable_name},
    time::Timestamp,
    who::{Decider, Name},
};

/// The id of an approval: a ULID, minted by the owning thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(Ulid);

impl ApprovalId {
    /// None comes before this one.
    pub(crate) const FIRST: Self = Self(Ulid(u128::MIN));
    /// None comes after this one.
    pub(crate) const LAST: Self = Self(Ulid(u128::MAX));

    /// The id for something filed at `now`, with 80 bits of `randomness`.
    pub fn mint(now: Timestamp, randomness: u128) -> Self {
        Self(ulid_at(now, randomness))
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ApprovalId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        parse_ulid(text).map(Self)
    }
}

pub(crate) fn ulid_at(now: Timestamp, randomness: u128) -> Ulid {
    Ulid::from_parts(u64::try_from(now.ms()).unwrap_or(0), randomness)
}

/// An id is read in any case, and never guessed at: an empty one names nothing (case A03), and one
/// beyond 128 bits, which the parser would cut, is not another spelling of a smaller one.
pub(crate) fn parse_ulid(text: &str) -> Result<Ulid, Refusal> {
    let fits = text.as_bytes().first().is_some_and(|first| *first <= b'7');
    let ulid = Ulid::from_string(text).ok().filter(|_| fits);
    ulid.ok_or_else(|| {
        Refusal::Invalid("an id is needed: 26 characters, as `pilothouse list` shows it".into())
    })
}

/// Who may answer. There is no default: what asks nobody is refused at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// The user that the run works for.
    EndUser,
    /// Whoever is on call.
    Operator,
    /// An admin of the tenant, as themselves.
    Admin,
}

impl Asks {
    /// The word on the wire, in the digest and in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::EndUser => "end_user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Who that is, as the card says it.
    pub fn people(self) -> &'static str {
        match self {
            Self::EndUser => "its user",
            Self::Operator => "whoever is on call",
            Self::Admin => "an admin",
        }
    }
}

/// What the question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// May this task go on? An empty task is the run itself (GF-65).
    Task {
        /// The agent's task id.
        task: Untrusted,
    },
    /// May this tool run? Its arguments are in the [`Detail`].
    Tool {
        /// The tool's name.
        name: Untrusted,
        /// The task it would run in; empty for the run itself.
        task: Untrusted,
    },
}

impl Subject {
    /// `task` or `tool`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Tool { .. } => "tool",
        }
    }

    /// The task it belongs to; empty for the run itself.
    pub fn task(&self) -> &Untrusted {
        match self {
            Self::Task { task } | Self::Tool { task, .. } => task,
        }
    }

    /// The tool's name, where there is one.
    pub fn tool(&self) -> Option<&Untrusted> {
        match self {
            Self::Task { .. } => None,
            Self::Tool { name, .. } => Some(name),
        }
    }
}

/// What happens at the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// It ends: nobody decided.
    #[default]
    Expire,
    /// It stays open; only the passing is recorded.
    StayOpen,
}

/// Whether the run's thread stands still while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// A long-running call: the conversation goes on.
    #[default]
    Nothing,
    /// A parked run: nothing new starts on its thread.
    Thread,
}

/// How dangerous the tool says it is. Raise-only, and never read from a prompt.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Nothing was said.
    #[default]
    Normal,
    /// Approving asks once more.
    High,
}

/// What is large: immutable, on disk, sent on request. State holds only its hash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The agent's question, in its own words.
    pub prompt: Untrusted,
    /// The card's static text.
    pub body: Untrusted,
    /// What the agent's program (not its model) computed for the card.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub facts: Untrusted,
    /// The tool's arguments: JSON text exactly as filed, which are the bytes the tool gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Untrusted>,
    /// What the person fills in.
    #[serde(default, skip_serializing_if = "Form::is_empty")]
    pub form: Form,
}

impl Detail {
    /// The hash of the arguments as filed; of nothing, where there are none.
    pub fn args_sha256(&self) -> Sha256 {
        Sha256::of(self.args.as_ref().map_or("", Untrusted::raw).as_bytes())
    }

    /// How many bytes of foreign text it holds.
    pub fn bytes(&self) -> usize {
        let args = self.args.as_ref().map_or(0, |args| args.raw().len());
        self.prompt.raw().len() + self.body.raw().len() + self.facts.raw().len() + args
    }
}

/// What an agent asks: an [`Approval`] before it has an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Filing {
    /// What makes filing again the same filing.
    pub key: Option<Key>,
    /// The agent's own id of the question: a task or tool-call id.
    pub target: Untrusted,
    /// The checkpoint or turn it was asked in; empty means the target.
    pub step: Untrusted,
    /// What it is about.
    pub subject: Subject,
    /// One line for the list.
    pub title: Untrusted,
    /// All the rest that is shown.
    pub detail: Detail,
    /// Who may answer.
    pub asks: Asks,
    /// What lists can be filtered by.
    pub labels: BTreeMap<Untrusted, Untrusted>,
    /// How long it may wait; none means for ever.
    pub deadline: Option<Duration>,
    /// What happens then.
    pub on_deadline: OnDeadline,
    /// Whether its thread stands still.
    pub hold: Hold,
    /// How dangerous the tool says it is.
    pub risk: Risk,
    /// How many different people have to say yes.
    pub votes: u8,
}

/// One question to a human, as State and lists hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Ours.
    pub id: ApprovalId,
    /// The run that asks.
    pub run: RunId,
    /// Who the run is: where the card came from.
    pub from: RunKey,
    /// The user the run works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// The credential that filed it.
    pub filed_by: Name,
    /// When.
    pub filed_at: Timestamp,
    /// Idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// The agent's own id of the question.
    pub target: Untrusted,
    /// The checkpoint or turn it was asked in.
    pub step: Untrusted,
    /// What it is about.
    pub subject: Subject,
    /// One line for the list.
    pub title: Untrusted,
    /// Who may answer.
    pub asks: Asks,
    /// What lists can be filtered by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Untrusted, Untrusted>,
    /// What was shown and will run.
    pub digest: Digest,
    /// Over the arguments as filed.
    pub args_sha256: Sha256,
    /// Over the stored [`Detail`].
    pub detail_sha256: Sha256,
    /// How many fields the form has.
    pub fields: u32,
    /// When it ends; none means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What happens then.
    #[serde(default)]
    pub on_deadline: OnDeadline,
    /// Whether its thread stands still.
    #[serde(default)]
    pub hold: Hold,
    /// How dangerous.
    #[serde(default)]
    pub risk: Risk,
    /// How many different people have to say yes; one no is enough.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub votes: u8,
}

fn one() -> u8 {
    1
}

fn is_one(votes: &u8) -> bool {
    *votes == 1
}

/// The digest of what a card shows (DESIGN §4.1.2): the server computes it when it is filed, the
/// dashboard again before it draws.
pub fn digest_of(
    from: &RunKey,
    subject: &Subject,
    title: &Untrusted,
    asks: Asks,
    labels: &BTreeMap<Untrusted, Untrusted>,
    detail: &Detail,
) -> Digest {
    Envelope {
        kind: subject.word(),
        agent: from.agent.raw(),
        tool: subject.tool().map_or("", Untrusted::raw),
        args_sha256: &detail.args_sha256().to_string(),
        title: title.raw(),
        prompt: detail.prompt.raw(),
        body: detail.body.raw(),
        facts: detail.facts.raw(),
        form: &detail.form,
        asks: asks.word(),
        labels,
    }
    .digest()
}

impl Approval {
    /// Whether `detail` is what this approval's digest was made from.
    pub fn matches(&self, detail: &Detail) -> bool {
        let shown = digest_of(
            &self.from,
            &self.subject,
            &self.title,
            self.asks,
            &self.labels,
            detail,
        );
        shown == self.digest && detail.args_sha256() == self.args_sha256
    }
}

/// A question that nobody has answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// What was asked.
    pub approval: Arc<Approval>,
    /// Other keys under which the same was filed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<Key>,
    /// When it ends now: the deadline as asked, or as extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When it is to be said that little time is left; none once it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_at: Option<Timestamp>,
    /// When its deadline passed, for one that stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<Timestamp>,
    /// The waiters whose patience ended: their agent has moved on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<WaitTimeout>,
    /// Who tried what they may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Who has said yes, of several that have to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Decision>,
}

impl Pending {
    /// The next moment at which something about it passes by itself.
    pub fn due(&self) -> Option<Timestamp> {
        let deadline = self.deadline.filter(|_| self.passed_at.is_none());
        deadline.map(|deadline| self.warn_at.unwrap_or(deadline).min(deadline))
    }

    /// How many of how many people have said yes: `1 of 2 approved`.
    pub fn yes(&self) -> String {
        format!("{} of {} approved", self.votes.len(), self.approval.votes)
    }

    /// Whether it was said that little time is left.
    pub fn ends_soon(&self) -> bool {
        self.deadline.is_some() && self.warn_at.is_none()
    }
}

/// When to say of a deadline that was set at `from` that little time is left: a tenth of the time, or ten minutes, whichever
/// is less (DESIGN §4.1.6).
pub(crate) fn warns_at(from: Timestamp, deadline: Timestamp) -> Timestamp {
    let left = (deadline.since(from) / 10).min(limits::WARN_BEFORE);
    Timestamp::from_ms(deadline.ms() - i64::try_from(left.as_millis()).unwrap_or(0))
}

/// A waiter gave up; the question stays open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitTimeout {
    /// Which waiter.
    pub wait: WaitId,
    /// When.
    pub at: Timestamp,
}

/// Somebody tried what they may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Whose credential it was.
    pub by: Name,
    /// What they tried: `approve`, `reject`, `extend`, `dismiss`.
    pub verb: String,
    /// When.
    pub at: Timestamp,
}

/// A question that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// What was asked.
    pub approval: Arc<Approval>,
    /// Other keys under which the same was filed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<Key>,
    /// The deadline that held when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
    /// The event that says so.
    pub seq: crate::event::Seq,
    /// How far the answer has come on its way to a foreign agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Who said yes before the last that was needed, or before it ended otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Decision>,
    /// Who of its agent's processes took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
}

impl Settled {
    /// The same with its secret answers, for the agent that filed it.
    #[must_use]
    pub fn opened(&self, secrets: &Answers) -> Self {
        let mut opened = self.clone();
        if let Outcome::Granted(decision) | Outcome::Rejected(decision) = &mut opened.outcome {
            decision.answers = std::mem::take(&mut decision.answers).opened(secrets);
        }
        opened
    }

    /// The decision of a person, where one decided.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.outcome {
            Outcome::Granted(decision) | Outcome::Rejected(decision) => Some(decision),
            Outcome::Expired | Outcome::Withdrawn(_) => None,
        }
    }

    /// The claim of whoever has it, and has not given it back.
    pub fn held(&self) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.is_held())
    }

    /// Whether it was superseded by the same question in other words: then nobody takes it.
    pub fn was_superseded(&self) -> bool {
        matches!(self.outcome, Outcome::Withdrawn(Why::Superseded { .. }))
    }
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A person said yes.
    Granted(Decision),
    /// A person said no.
    Rejected(Decision),
    /// Nobody decided before the deadline.
    Expired,
    /// It was taken back.
    Withdrawn(Why),
}

impl Outcome {
    /// The word in lists: `granted`, `rejected`, `expired`, `withdrawn`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Granted(_) => "granted",
            Self::Rejected(_) => "rejected",
            Self::Expired => "expired",
            Self::Withdrawn(_) => "withdrawn",
        }
    }
}

/// The wish of the person who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

impl Verdict {
    /// `approve` or `reject`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// How much of the action had been on the decider's screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// All of it.
    Whole,
    /// Not all, and the decider said so.
    Unread,
    /// The decider quoted its digest, on the CLI or through the API.
    #[default]
    Quoted,
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The client's own id of it.
    pub id: DecisionId,
    /// Who.
    pub decider: Decider,
    /// The form, typed.
    #[serde(default)]
    pub answers: Answers,
    /// What they wrote beside it.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub note: Untrusted,
    /// How much they had seen.
    #[serde(default)]
    pub seen: Seen,
}

/// Why a question was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its run ended.
    RunEnded(End),
    /// Its run was called off; it may not have ended yet.
    Cancelled {
        /// Who called it off.
        by: Name,
    },
    /// The agent asked the same thing in other words.
    Superseded {
        /// What took its place.
        by: ApprovalId,
    },
    /// The agent took it back.
    Agent {
        /// Its reason.
        reason: Untrusted,
    },
    /// Somebody answered it elsewhere; nothing was decided here.
    AnsweredElsewhere {
        /// Whether the agent says it was granted.
        granted: bool,
        /// The agent's own text.
        detail: Untrusted,
    },
    /// An operator took the card away.
    Dismissed {
        /// Who.
        by: Name,
        /// What they wrote.
        note: Untrusted,
    },
}

impl Why {
    /// One line without foreign text, for lists.
    pub fn words(&self) -> String {
        match self {
            Self::RunEnded(end) => format!("the run {}", end.word()),
            Self::Cancelled { by } => format!("its run was cancelled by {by}"),
            Self::Superseded { by } => format!("superseded by {by}"),
            Self::Agent { .. } => "taken back by the agent".into(),
            Self::AnsweredElsewhere { granted, .. } => {
                let said = if *granted { "granted" } else { "rejected" };
                format!("answered elsewhere ({said}), by whom is unknown")
            }
            Self::Dismissed { by, .. } => format!("dismissed by {by}"),
        }
    }
}

/// The delivery of a decision to a foreign agent: sent → acked → confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Our id of it.
    pub control: ControlId,
    /// How far it came.
    pub state: DeliveryState,
    /// The agent's own text.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
    /// When it came so far.
    pub at: Timestamp,
}

/// How far a delivery came. Success is never inferred from a call that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// On its way.
    Sent,
    /// The agent took it.
    Acked,
    /// The agent's own event says that it acted on it.
    Confirmed,
    /// The agent refused it, or reports the opposite.
    Failed,
}

impl DeliveryState {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Acked => "acked",
            Self::Confirmed => "confirmed",
            Self::Failed => "failed",
        }
    }
}

/// One process of an agent took the decisions of a step, so that no other acts on them (DF-35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Whoever shows the same again is the same process.
    pub token: ClaimToken,
    /// When.
    pub at: Timestamp,
    /// How far it came.
    pub stage: ClaimStage,
}

/// How far whoever took a decision came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStage {
    /// It has it, and can still give it back.
    Taken,
    /// It gave it back: another one may take it.
    GivenBack {
        /// When.
        at: Timestamp,
    },
    /// It began. From now on nobody begins again: a death from here reads «taken, outcome unknown».
    Started {
        /// When.
        at: Timestamp,
    },
}

impl Claim {
    /// How far it came, in words, where nothing was said of what came of it.
    pub fn words(&self) -> String {
        match self.stage {
            ClaimStage::Taken => format!("taken at {}, not begun with", self.at),
            ClaimStage::GivenBack { at } => format!("taken, and given back at {at}"),
            ClaimStage::Started { at } => format!("taken, outcome unknown: begun with at {at}"),
        }
    }

    /// Whether somebody has the decision.
    pub fn is_held(&self) -> bool {
        !matches!(self.stage, ClaimStage::GivenBack { .. })
    }

    /// Whether whoever shows `token` has the decision.
    pub fn is_held_by(&self, token: &ClaimToken) -> bool {
        self.is_held() && self.token == *token
    }
}

/// What came of a decision, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Whether it worked.
    pub result: AppliedResult,
    /// The agent's own text.
    #[serde(default, skip_serializing_if = "Untrusted::is_empty")]
    pub detail: Untrusted,
    /// When.
    pub at: Timestamp,
}

/// Whether carrying a decision out worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliedResult {
    /// The agent acted on it.
    Done,
    /// It tried, and failed.
    Failed,
    /// It did not run the action: what a rejection leads to.
    Skipped,
}

impl AppliedResult {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Detail {
    /// As it is stored, and hashed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Maps with text keys, strings, numbers that were checked: nothing that JSON cannot say.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`Detail::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are not a stored Detail.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// The line in the list for a question that came without one (EL-38): the tool's name made
/// readable, or how the prompt begins.
pub fn title_for(subject: &Subject, prompt: &Untrusted) -> Untrusted {
    let title = match subject.tool() {
        Some(tool) => readable_name(tool.raw(), &['_', '-']),
        None => prompt
            .raw()
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned(),
    };
    Untrusted::new(title).cut(crate::limits::TITLE)
}
