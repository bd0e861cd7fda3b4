//! Looking for what ended.
//!
//! Invariant: one call looks at [`LOOKED_AT`] ends at most, however rare what is looked for is; whoever wants more asks for
//! the next page.

use super::LogError;
use crate::{
    approval::{Decision, Outcome, Settled, Why},
    escalation::{Cause, Closed, Ended, How, ItemId},
    event::Seq,
    refusal::Refusal,
    run::{RunId, RunKey},
    text::Untrusted,
    time::Timestamp,
    who::{Decider, Name, Tenant},
};

/// Ends that one call looks at, counted.
pub const LOOKED_AT: usize = 1000;

/// One page of what ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Of whom.
    pub tenant: Tenant,
    /// What ended before this event; none begins with the newest.
    pub before: Option<Seq>,
    /// How many at most.
    pub limit: usize,
    /// Which of them.
    pub filter: Filter,
}

impl HistoryQuery {
    /// All that ended of a tenant, newest first.
    pub fn all(tenant: &Tenant, before: Option<Seq>, limit: usize) -> Self {
        Self {
            tenant: tenant.clone(),
            before,
            limit,
            filter: Filter::default(),
        }
    }
}

/// Which of what ended; everything that is given has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Stands somewhere in what people read of it, in capitals or not.
    pub text: Option<String>,
    /// Our id of the run, or the agent's own.
    pub run: Option<Untrusted>,
    /// The agent that asked.
    pub agent: Option<Untrusted>,
    /// Who decided or answered, or on whose behalf: `user:ada`, or `ada`.
    pub decider: Option<String>,
    /// How it ended.
    pub outcome: Option<EndedAs>,
    /// Labels that it has, with these values.
    pub labels: Vec<(Untrusted, Untrusted)>,
    /// Ended then or later.
    pub since: Option<Timestamp>,
    /// Ended then or before.
    pub until: Option<Timestamp>,
}

/// How something ended, in the word that lists have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAs(&'static str);

impl EndedAs {
    /// Every word: those of approvals, then those of escalations.
    pub const WORDS: [&'static str; 12] = [
        "granted",
        "rejected",
        "expired",
        "withdrawn",
        "resumed",
        "steered",
        "cancelled",
        "answered",
        "superseded",
        "aborted",
        "run ended",
        "went on",
    ];

    /// Reads such a word; a dash stands for a blank.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] that names them all.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let said = word.replace('-', " ");
        let known = Self::WORDS.into_iter().find(|known| *known == said);
        known.map(Self).ok_or_else(|| {
            let words = Self::WORDS.map(|word| word.replace(' ', "-")).join(", ");
            Refusal::Invalid(format!("an outcome is one of {words}"))
        })
    }

    /// The word.
    pub fn word(self) -> &'static str {
        self.0
    }
}

/// One page, and where to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPage {
    /// What was found, newest first. There may be more where this is empty.
    pub ended: Vec<Ended>,
    /// Ask for what ended before this event to go on; none at the end.
    pub next: Option<Seq>,
}

/// What a search needs of a log.
pub(super) trait Ends {
    /// At most `limit` ends of a tenant before `before`, newest first.
    fn ends(
        &self,
        tenant: &Tenant,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, ItemId)>, LogError>;

    /// What ended.
    fn whole(&self, id: ItemId) -> Result<Option<Ended>, LogError>;

    /// The first event that was recorded at `at` or later; the one after the newest if there is none.
    fn first_at(&self, at: Timestamp) -> Result<Seq, LogError>;
}

/// One page of the history of a log.
pub(super) fn page(log: &impl Ends, query: &HistoryQuery) -> Result<HistoryPage, LogError> {
    let (filter, mut before) = (&query.filter, query.before.unwrap_or(Seq::MAX));
    if let Some(until) = filter.until {
        let later = Timestamp::from_ms(until.ms().saturating_add(1));
        before = before.min(log.first_at(later)?);
    }
    let since = filter.since.map(|since| log.first_at(since));
    let first = since.transpose()?.unwrap_or_default();
    let text = filter.text.as_ref().map(|text| text.to_lowercase());
    let mut ended = Vec::new();
    if query.limit == 0 {
        return Ok(HistoryPage { ended, next: None });
    }
    let ends = log.ends(&query.tenant, before, LOOKED_AT)?;
    let last = ends.len() < LOOKED_AT;
    for (n, (seq, id)) in ends.iter().enumerate() {
        if *seq < first {
            return Ok(HistoryPage { ended, next: None });
        }
        let found = log.whole(*id)?;
        ended.extend(found.filter(|ended| filter.takes(ended, text.as_deref())));
        if ended.len() == query.limit {
            let done = last && n + 1 == ends.len();
            let next = (!done).then_some(*seq);
            return Ok(HistoryPage { ended, next });
        }
    }
    let next = ends.last().filter(|_| !last).map(|(seq, _)| *seq);
    Ok(HistoryPage { ended, next })
}

impl Filter {
    /// `text` is the one looked for, in small letters.
    fn takes(&self, ended: &Ended, text: Option<&str>) -> bool {
        let (run, from) = place(ended);
        let named = |named: &Untrusted| {
            *named == from.invocation || named.raw().eq_ignore_ascii_case(&run.to_string())
        };
        self.run.as_ref().is_none_or(named)
            && self.agent.as_ref().is_none_or(|agent| *agent == from.agent)
            && self.outcome.is_none_or(|outcome| outcome.0 == word(ended))
            && self.decider.as_ref().is_none_or(|who| decided(ended, who))
            && self.labels.iter().all(|label| labelled(ended, label))
            && text.is_none_or(|text| reads(ended, text))
    }
}

fn place(ended: &Ended) -> (RunId, &RunKey) {
    match ended {
        Ended::Approval(settled) => (settled.approval.run, &settled.approval.from),
        Ended::Escalation(closed) => (closed.escalation.run, &closed.escalation.from),
    }
}

fn word(ended: &Ended) -> &'static str {
    match ended {
        Ended::Approval(settled) => settled.outcome.word(),
        Ended::Escalation(closed) => closed.how.word(),
    }
}

fn labelled(ended: &Ended, (key, value): &(Untrusted, Untrusted)) -> bool {
    match ended {
        Ended::Approval(settled) => settled.approval.labels.get(key) == Some(value),
        Ended::Escalation(_) => false,
    }
}

fn decided(ended: &Ended, who: &str) -> bool {
    let is = |name: &Name| {
        let name = name.as_str();
        name == who || name.split_once(':').is_some_and(|(_, bare)| bare == who)
    };
    match ended {
        Ended::Approval(Settled { outcome, votes, .. }) => match outcome {
            Outcome::Granted(decision) | Outcome::Rejected(decision) => {
                let behind = |decision: &Decision| {
                    let Decider {
                        by,
                        on_behalf_of,
                        via,
                    } = &decision.decider;
                    let behind = [on_behalf_of, via].into_iter().flatten();
                    [by].into_iter().chain(behind).any(is)
                };
                votes.iter().chain([decision]).any(behind)
            }
            Outcome::Withdrawn(Why::Dismissed { by, .. } | Why::Cancelled { by }) => is(by),
            Outcome::Withdrawn(_) | Outcome::Expired => false,
        },
        Ended::Escalation(closed) => closed.how.by().is_some_and(is),
    }
}

/// Whether `text` stands in what people read of it.
fn reads(ended: &Ended, text: &str) -> bool {
    let (_, from) = place(ended);
    let has = |read: &&Untrusted| read.raw().to_lowercase().contains(text);
    let own = match ended {
        Ended::Approval(settled) => words_of_approval(settled),
        Ended::Escalation(closed) => words_of_escalation(closed),
    };
    [&from.agent, &from.invocation]
        .into_iter()
        .chain(own)
        .any(|read| has(&read))
}

fn words_of_approval(settled: &Settled) -> Vec<&Untrusted> {
    let approval = &settled.approval;
    let note = match &settled.outcome {
        Outcome::Granted(decision) | Outcome::Rejected(decision) => Some(&decision.note),
        Outcome::Withdrawn(why) => match why {
            Why::Agent { reason: said }
            | Why::AnsweredElsewhere { detail: said, .. }
            | Why::Dismissed { note: said, .. } => Some(said),
            Why::RunEnded(_) | Why::Cancelled { .. } | Why::Superseded { .. } => None,
        },
        Outcome::Expired => None,
    };
    let asked = [&approval.title, &approval.target, approval.subject.task()];
    asked
        .into_iter()
        .chain(approval.subject.tool())
        .chain(note)
        .collect()
}

fn words_of_escalation(closed: &Closed) -> Vec<&Untrusted> {
    let cause = match &closed.escalation.cause {
        Cause::Drift(drift) => vec![&drift.detail, &drift.task],
        Cause::Paused { note, .. } => vec![note],
    };
    let note = match &closed.how {
        How::Answered { note, .. } => Some(note),
        How::Superseded { .. } | How::RunEnded(_) | How::WentOn => None,
    };
    cause.into_iter().chain(note).collect()
}

/// The first of `1..=head` that was recorded at `at` or later: in a log, time never runs backwards.
pub(super) fn first_at(
    head: Seq,
    at: Timestamp,
    of: impl Fn(Seq) -> Result<Option<Timestamp>, LogError>,
) -> Result<Seq, LogError> {
    let (mut low, mut high) = (1, head + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match of(middle)? {
            Some(found) if found < at => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}
