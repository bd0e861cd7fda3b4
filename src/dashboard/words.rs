//! The words and signs of the dashboard: what an operator reads that no agent wrote.

use std::time::Duration;

use registry::{
    Approval, Pending, Settled, Timestamp, Untrusted,
    approval::{Outcome, Risk, Subject, Verdict},
    control::Verb,
    escalation::{Closed, How},
    form::{Answers, Choice},
    run::{End, RunState},
};

use super::theme::Role;

/// The signs, in two spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// A question.
    pub waiting: &'static str,
    /// One of high risk.
    pub risk: &'static str,
    /// Said yes.
    pub granted: &'static str,
    /// Said no, or wrong.
    pub rejected: &'static str,
    /// Too late.
    pub expired: &'static str,
    /// Taken back.
    pub withdrawn: &'static str,
    /// A run that stands still.
    pub held: &'static str,
    /// Sent another way.
    pub steered: &'static str,
    /// On its way.
    pub sent: &'static str,
    /// The agent is not there.
    pub away: &'static str,
    /// Something hidden, or to beware of.
    pub beware: &'static str,
    /// Connected.
    pub live: &'static str,
    /// Not connected.
    pub offline: &'static str,
    /// For ever.
    pub ever: &'static str,
    /// Something was cut off here.
    pub more: &'static str,
    /// There is more below.
    pub down: &'static str,
    /// Stands between facts.
    pub dot: &'static str,
    /// The next step of a delivery.
    pub then: &'static str,
    /// Marks the row under the hand.
    pub here: &'static str,
    /// The bar of the agent's words.
    pub says: &'static str,
    /// A choice that is taken.
    pub chosen: &'static str,
    /// A choice that is not.
    pub open: &'static str,
    /// A piece of time in which a task has not begun.
    pub pending: &'static str,
    /// At work.
    pub running: &'static str,
    /// Its turn ended while it waits.
    pub parked: &'static str,
    /// A piece of time in which a run stood still.
    pub paused: &'static str,
    /// A piece of time in which a task waits for something.
    pub blocked: &'static str,
    /// Not needed any more.
    pub skipped: &'static str,
    /// A filled piece of the bar.
    pub full: &'static str,
    /// An empty piece of it.
    pub empty: &'static str,
    /// Enter.
    pub enter: &'static str,
}

/// For terminals that can.
pub const SIGNS: Signs = Signs {
    waiting: "?",
    risk: "!",
    granted: "✓",
    rejected: "✗",
    expired: "⌛",
    withdrawn: "⊘",
    held: "‖",
    steered: "»",
    sent: "…",
    away: "☠",
    beware: "⚠",
    live: "●",
    offline: "▲",
    ever: "∞",
    more: "…",
    down: "↓",
    dot: "·",
    then: "›",
    here: "▌",
    says: "│ ",
    chosen: "(•)",
    open: "( )",
    pending: "·",
    running: "▶",
    parked: "◌",
    paused: "‖",
    blocked: "░",
    skipped: "○",
    full: "━",
    empty: "─",
    enter: "↵",
};

/// For terminals that cannot.
pub const ASCII_SIGNS: Signs = Signs {
    waiting: "?",
    risk: "!",
    granted: "+",
    rejected: "x",
    expired: "%",
    withdrawn: "-",
    held: "||",
    steered: ">>",
    sent: "~",
    away: "@",
    beware: "!",
    live: "*",
    offline: "^",
    ever: "-",
    more: "..",
    down: "v",
    dot: "-",
    then: ">",
    here: ">",
    says: "| ",
    chosen: "(*)",
    open: "( )",
    pending: ".",
    running: ">",
    parked: "o",
    paused: "|",
    blocked: "#",
    skipped: "o",
    full: "=",
    empty: "-",
    enter: "enter",
};

/// How long something takes, in one unit: `20s`, `4m`, `1h`, `6d`.
#[must_use]
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// When [`span`] of something that grows reads otherwise.
#[must_use]
pub fn until_older(span: Duration) -> Duration {
    let unit = unit(span);
    Duration::from_millis(unit - ms(span) % unit)
}

/// When [`span`] of something that shrinks reads otherwise.
#[must_use]
pub fn until_shorter(span: Duration) -> Duration {
    Duration::from_millis(ms(span) % unit(span) + 1)
}

fn unit(span: Duration) -> u64 {
    match span.as_secs() {
        0..60 => 1_000,
        60..3_600 => 60_000,
        3_600..86_400 => 3_600_000,
        _ => 86_400_000,
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The time of day of a moment: `14:04:22Z`.
#[must_use]
pub fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('T')
        .map_or_else(|| text.clone(), |(_, clock)| clock.to_owned())
}

/// The time of day; for another day than that of `beside`, the day too.
#[must_use]
pub fn moment(at: Timestamp, beside: Timestamp) -> String {
    if day(at) == day(beside) {
        return clock(at);
    }
    format!("{} {}", day(at), clock(at))
}

/// In five columns: the time of day, or the day where that is another than today.
#[must_use]
pub fn day_or_time(at: Timestamp, now: Option<Timestamp>) -> String {
    let (day_of_at, today) = (day(at), now.map(day));
    if today.is_none_or(|today| today == day_of_at) {
        return clock(at).get(..5).unwrap_or_default().to_owned();
    }
    day_of_at.get(5..).unwrap_or_default().to_owned()
}

fn day(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('T')
        .map_or_else(|| text.clone(), |(day, _)| day.to_owned())
}

/// Through the door: a name was checked where it was given, but who knows by whom.
#[must_use]
pub fn safe(text: impl std::fmt::Display) -> String {
    Untrusted::new(text.to_string()).line().to_string()
}

/// `1 line`, `12 lines`.
#[must_use]
pub fn count(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

/// What kind of question: `tool`, `task`, `form`.
#[must_use]
pub fn kind(approval: &Approval) -> &'static str {
    match approval.subject {
        Subject::Tool { .. } => "tool",
        Subject::Task { .. } if approval.fields > 0 => "form",
        Subject::Task { .. } => "task",
    }
}

/// The sign of a question that waits.
#[must_use]
pub fn sign(signs: &Signs, pending: &Pending) -> &'static str {
    match pending.approval.risk {
        Risk::Normal => signs.waiting,
        Risk::High => signs.risk,
    }
}

/// The sign of what a run does.
#[must_use]
pub fn run_sign(signs: &Signs, state: RunState) -> (Role, &'static str) {
    match state {
        RunState::Running => (Role::Active, signs.running),
        RunState::Waiting => (Role::Hint, signs.waiting),
        RunState::Parked(_) | RunState::Consumed(_) => (Role::Warn, signs.parked),
        RunState::Pausing | RunState::Paused(_) => (Role::Danger, signs.held),
        RunState::Ended(End::Completed) => (Role::Ok, signs.granted),
        RunState::Ended(End::Failed) => (Role::Danger, signs.rejected),
        RunState::Ended(End::Cancelled | End::Aborted) => (Role::Muted, signs.withdrawn),
    }
}

/// The sign of how a question ended.
#[must_use]
pub fn ended_sign(signs: &Signs, outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Granted(_) => signs.granted,
        Outcome::Rejected(_) => signs.rejected,
        Outcome::Expired => signs.expired,
        Outcome::Withdrawn(_) => signs.withdrawn,
    }
}

/// How a question ended, and by whom.
#[must_use]
pub fn ended(settled: &Settled) -> String {
    let at = clock(settled.at);
    match &settled.outcome {
        Outcome::Granted(decision) | Outcome::Rejected(decision) => {
            let by = safe(&decision.decider.by);
            let whom = decision.decider.on_behalf_of.as_ref();
            let whom = whom
                .map(|user| format!(" for {}", safe(user)))
                .unwrap_or_default();
            let via = decision.decider.via.as_ref();
            let via = via
                .map(|backend| format!(" via {}", safe(backend)))
                .unwrap_or_default();
            format!("{} by {by}{whom}{via} at {at}", settled.outcome.word())
        }
        Outcome::Expired => {
            let at = clock(settled.deadline.unwrap_or(settled.at));
            format!("expired at {at}: nobody decided")
        }
        Outcome::Withdrawn(why) => format!("withdrawn at {at}: {}", safe(why.words())),
    }
}

/// The sign of how it ended that a run stood still.
#[must_use]
pub fn closed_sign(signs: &Signs, how: &How) -> &'static str {
    match how {
        How::Answered { verb, .. } => match verb {
            Verb::Steer => signs.steered,
            Verb::Cancel => signs.rejected,
            Verb::Pause | Verb::Resume | Verb::Rewind { .. } | Verb::StatusQuery => signs.granted,
        },
        How::Superseded { .. } | How::RunEnded(_) | How::WentOn => signs.withdrawn,
    }
}

/// How it ended that a run stood still, and by whom.
#[must_use]
pub fn closed(closed: &Closed) -> String {
    let (word, at) = (closed.how.word(), clock(closed.at));
    match &closed.how {
        How::Answered { by, .. } => format!("{word} by {} at {at}", safe(by)),
        How::Superseded { .. } => format!("{word} at {at}: another drift took its place"),
        How::RunEnded(end) => format!("over at {at}: the run was {}", end.word()),
        How::WentOn => format!("{word} at {at}: its agent's own events show it"),
    }
}

/// What was answered, in the order of the names of the fields.
#[must_use]
pub fn answers(answers: &Answers) -> String {
    let said = answers.iter().map(|(_, answer)| answer.to_raw());
    safe(said.collect::<Vec<_>>().join(", "))
}

/// Who may answer, as the card says it.
#[must_use]
pub fn asks(approval: &Approval) -> String {
    format!("asks {}", approval.asks.people())
}

/// What is being sent: `approval`, `rejection`.
#[must_use]
pub fn wish(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approve => "approval",
        Verdict::Reject => "rejection",
    }
}

/// An option as it is shown: its label, and the value that is answered where the label does not say it.
#[must_use]
pub fn choice(choice: &Choice) -> String {
    let (label, value) = (choice.label.line(), choice.value.line());
    if label.as_str().eq_ignore_ascii_case(value.as_str()) {
        return label.to_string();
    }
    format!("{label} ({value})")
}

/// What the key that ends a form does where a decision waits for it.
#[must_use]
pub fn sends(verdict: Verdict) -> String {
    format!("sends the {}", wish(verdict).to_uppercase())
}

/// Answers to keys that cannot be followed now.
pub mod notice {
    /// No connection.
    pub const OFFLINE: &str = "offline: not sent";
    /// 250 ms.
    pub const SETTLING: &str = "this card has just appeared or changed: look, then press again";
    /// Pasted where no text goes.
    pub const PASTE: &str =
        "pasted text was ignored: it goes only into a field that you are typing in";
    /// Nothing to decide.
    pub const NO_CARD: &str = "no card is open";
    /// Not drawn yet.
    pub const READ_FIRST: &str = "this is what you decide: read it, then press again";
    /// What was asked once more is not so any more.
    pub const WITHDRAWN: &str = "nothing was sent: the run has changed; look, then ask again";
    /// Fetching.
    pub const LOADING: &str = "the card is still loading";
    /// Fetching, with a form wanted.
    pub const FORM_LATER: &str = "the form opens when its card is here; what you type is kept";
    /// The same, without a connection.
    pub const FORM_OFFLINE: &str = "offline: the form opens when its card is here";
    /// The same, and it did not come.
    pub const NOT_FETCHED: &str = "the card could not be fetched";
    /// Digest.
    pub const MISMATCH: &str =
        "what the server sent does not match the digest: this cannot be decided here";
    /// Foreign and gone.
    pub const UNREACHABLE: &str =
        "cannot be delivered any more: its agent is gone and does not come back";
    /// Approve or reject where a run stands still.
    pub const NO_QUESTION: &str =
        "this run stands still, it asks nothing: resume, steer or cancel it";
    /// Resume, steer or cancel where a question is.
    pub const NO_RUN: &str = "this is a question: approve or reject it";
    /// Level 5.
    pub const ABORTING: &str =
        "the run is being aborted, and nobody can answer that: the same drift had held it before";
    /// The decision is under way.
    pub const UNDER_WAY: &str = "already sent: waiting for the server";
    /// No form.
    pub const NO_FORM: &str = "this card has no form";
    /// The connection went while a decision was on its way.
    pub const LOST: &str = "the connection was lost before the server answered";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_in_one_unit_and_say_when_they_change() {
        let rows = [
            (0, "0s", 1_000, 1),
            (20_500, "20s", 500, 501),
            (59_999, "59s", 1, 1_000),
            (60_000, "1m", 60_000, 1),
            (245_000, "4m", 55_000, 5_001),
            (3_600_000, "1h", 3_600_000, 1),
            (86_399_999, "23h", 1, 3_600_000),
            (6 * 86_400_000, "6d", 86_400_000, 1),
        ];
        for (ms, text, older, shorter) in rows {
            let of = Duration::from_millis(ms);
            assert_eq!(span(of), text);
            assert_eq!(until_older(of), Duration::from_millis(older), "{ms}");
            assert_eq!(until_shorter(of), Duration::from_millis(shorter), "{ms}");
            assert_ne!(span(of + until_older(of)), text);
            if ms > 0 {
                assert_ne!(span(of - until_shorter(of).min(of)), text, "{ms}");
            }
        }
    }
}
