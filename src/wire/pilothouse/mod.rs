//! Our own wire: requests to wishes, facts to responses, and back again in the client.
//!
//! | module | which way |
//! |---|---|
//! | `agent`, `operator` | a request comes in at the server's door, and is a wish or a refusal |
//! | `out` | facts go out: the server's responses |
//! | `read` | facts come back: what the client makes of a response |
//! | `ask` | a wish goes out: the client's requests |
//! | `steering` | drifts, escalations and controls, both ways |
//! | `words` | the one table of enum values, for all four |
//!
//! Invariant: nothing is read as what it is not. A number that we have no word for is an error, never
//! the first value, and the bytes of a tool's arguments are the same on both sides.

mod agent;
mod ask;
mod operator;
mod out;
mod read;
mod steering;
#[cfg(test)]
mod tests;
mod words;

use std::{collections::BTreeMap, collections::HashMap, sync::Arc, time::Duration};

use registry::{
    Detail, Escalation, Pending, Recorded, Refusal, Run, Seq, Settled, Timestamp, Untrusted,
    approval::Subject,
    escalation::Closed,
    form::{Choice, Field, Form, FormError, Kind, Presence, Secrecy},
    run::{Plan, PlanTask, TaskState},
};

use super::pb::pilothouse::v1 as pb;
use words::Word;

pub use agent::{
    AwaitWish, DriftIds, ack_control, await_, claim, controls, end_run, file, gate, heartbeat,
    open_run, report_applied, report_drift, report_plan, report_started, report_task, restore, say,
    withdraw,
};
pub use ask::{
    DriftReport, Opening, ask_ack_control, ask_await, ask_claim, ask_control, ask_controls,
    ask_decide, ask_dismiss, ask_end_run, ask_extend, ask_file, ask_gate, ask_get, ask_get_run,
    ask_heartbeat, ask_history, ask_list, ask_mint_ticket, ask_open_run, ask_report_applied,
    ask_report_drift, ask_report_plan, ask_report_started, ask_report_task, ask_restore, ask_say,
    ask_watch, ask_whoami, ask_withdraw,
};
pub use operator::{
    HistoryWish, ListWish, control, decide, dismiss, extend, get, get_run, history, list,
    mint_ticket, watch,
};
pub use out::{
    Room, blocked, claimed, controlled, decided, drifted, ended_item, extended, filed, free,
    gate_asked, gave_up, got, got_run, handed_over, heartbeat_answer, history_page, minted,
    open_item, opened, page, pending_left, record_item, recorded, restored, row, settled_await,
    snapshot_end, tick, voted, whoami, with_clock_ahead,
};
pub use read::{
    Awaited, Decided, Filed, GateSays, Me, Opened, Page, RunRecord, approval, awaited,
    claimed_back, controlled_as, decided_as, decision, detail, drifted_as, extended_to, filed_as,
    gate_said, got_back, history_back, me, minted_as, opened_as, order_of, page_back, pending,
    restored_back, run, run_record, server_time, settled, watched,
};

pub use steering::{closed, escalation};

/// What cannot be read: the sentence says what, and of which field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Garbled(pub String);

/// At the server's door, what cannot be read is refused.
impl From<Garbled> for Refusal {
    fn from(garbled: Garbled) -> Self {
        Self::Invalid(garbled.0)
    }
}

/// In the client, an id or name that its own parser refuses is one that cannot be read.
impl From<Refusal> for Garbled {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

/// What is open, and the run it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The question, or the run that stands still.
    pub open: Open,
    /// Its run.
    pub run: Run,
}

/// What waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    /// A question.
    Pending(Arc<Pending>),
    /// A run that stands still.
    Escalation(Arc<Escalation>),
}

/// One approval or escalation, waiting or ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A question that waits.
    Pending(Arc<Pending>),
    /// A question that has ended.
    Settled(Arc<Settled>),
    /// A run that stands still.
    Escalation(Arc<Escalation>),
    /// A run that stood still.
    Closed(Arc<Closed>),
}

/// One approval or escalation, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    /// What it is, and how it stands.
    pub asked: Asked,
    /// What is large of a question.
    pub detail: Detail,
    /// Its run; none if it ended so long ago that it has left the server's memory.
    pub run: Option<Run>,
}

/// One message of Watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// A part of what stands now.
    Row(registry::state::Row),
    /// What stands now is complete.
    End {
        /// Which log it is.
        epoch: String,
        /// The newest event that is folded in.
        seq: Seq,
        /// When that was recorded.
        last_at: Timestamp,
        /// The server's clock.
        server_now: Timestamp,
    },
    /// Something happened.
    Recorded {
        /// What.
        recorded: Recorded,
        /// The event before it in this stream.
        prev_seq: Seq,
    },
    /// Nothing happened; the stream is alive.
    Tick {
        /// The newest event that this stream has passed.
        seq: Seq,
        /// The server's clock.
        server_now: Timestamp,
    },
}

// === What both ends read alike ===

fn missing(what: &str) -> Garbled {
    Garbled(format!("{what} is missing"))
}

fn unknown(what: &str, number: i32) -> Garbled {
    Garbled(match number {
        0 => format!("{what} is not said"),
        _ => format!("{what} {number} is not one that is known here"),
    })
}

/// A word that has to be said.
fn word<W: Word>(number: i32) -> Result<W, Garbled> {
    W::of(number).ok_or_else(|| unknown(W::WHAT, number))
}

/// A word that has a default where nothing is said; one that we do not know is still an error.
fn word_or_default<W: Word + Default>(number: i32) -> Result<W, Garbled> {
    match number {
        0 => Ok(W::default()),
        _ => word(number),
    }
}

/// Nothing said is the empty text; `parse` reads all else.
fn said<T, E>(text: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<Option<T>, E> {
    match text {
        "" => Ok(None),
        text => parse(text).map(Some),
    }
}

fn span_of(what: &str, span: prost_types::Duration) -> Result<Duration, Garbled> {
    // By hand: the conversion that there is negates what may be the smallest number.
    match (u64::try_from(span.seconds), u32::try_from(span.nanos)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(Garbled(format!("{what} is not a length of time"))),
    }
}

fn span_out(span: Duration) -> prost_types::Duration {
    let longest = prost_types::Duration {
        seconds: 315_576_000_000, // ten thousand years, the most that protobuf's own rules allow
        nanos: 0,
    };
    prost_types::Duration::try_from(span).map_or(longest, |span| {
        if span.seconds < longest.seconds {
            span
        } else {
            longest
        }
    })
}

/// A moment, to the millisecond; what protobuf says in seconds and nanoseconds.
pub(super) fn moment_of(what: &str, at: prost_types::Timestamp) -> Result<Timestamp, Garbled> {
    let part = (0..1_000_000_000).contains(&at.nanos);
    let ms = at.seconds.checked_mul(1000);
    let ms = ms.and_then(|ms| ms.checked_add(i64::from(at.nanos / 1_000_000)));
    match ms {
        Some(ms) if part => Ok(Timestamp::from_ms(ms)),
        _ => Err(Garbled(format!("{what} is not a moment"))),
    }
}

pub(super) fn moment_out(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.ms().div_euclid(1000),
        // Less than a thousand milliseconds.
        nanos: i32::try_from(at.ms().rem_euclid(1000) * 1_000_000).unwrap_or_default(),
    }
}

fn labels_of(labels: HashMap<String, String>) -> BTreeMap<Untrusted, Untrusted> {
    let pairs = labels.into_iter();
    pairs
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn labels_out(labels: &BTreeMap<Untrusted, Untrusted>) -> HashMap<String, String> {
    let pairs = labels.iter();
    pairs
        .map(|(key, value)| (key.raw().to_owned(), value.raw().to_owned()))
        .collect()
}

fn task_subject(task: pb::TaskSubject) -> Subject {
    Subject::Task {
        task: task.task_id.into(),
    }
}

fn tool_subject(tool: pb::ToolSubject) -> Subject {
    Subject::Tool {
        name: tool.name.into(),
        task: tool.task_id.into(),
    }
}

fn subject_out<S>(
    subject: &Subject,
    task: impl FnOnce(pb::TaskSubject) -> S,
    tool: impl FnOnce(pb::ToolSubject) -> S,
) -> S {
    let task_id = subject.task().raw().to_owned();
    match subject {
        Subject::Task { .. } => task(pb::TaskSubject { task_id }),
        Subject::Tool { name, .. } => tool(pb::ToolSubject {
            name: name.raw().to_owned(),
            task_id,
        }),
    }
}

fn detail_of(detail: pb::Detail) -> Result<Detail, Garbled> {
    let fields = detail.fields.into_iter().map(field);
    let form = Form::new(fields.collect::<Result<_, _>>()?).map_err(bad_form)?;
    Ok(Detail {
        prompt: detail.prompt.into(),
        body: detail.body.into(),
        facts: detail.facts.into(),
        args: detail.args_json.map(args).transpose()?,
        form,
    })
}

/// The bytes stay exactly as they are: they are what is hashed, and what the tool gets.
fn args(bytes: Vec<u8>) -> Result<Untrusted, Garbled> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Garbled(format!("the arguments are not UTF-8 from byte {at}"))
    })?;
    Ok(text.into())
}

fn bad_form(error: FormError) -> Garbled {
    Garbled(error.to_string())
}

fn field(field: pb::Field) -> Result<Field, Garbled> {
    let kind = kind(&field)?;
    let (presence, default) = (field.presence, field.default_value);
    let mut read = Field {
        name: field.name,
        label: field.label.into(),
        help: field.help.into(),
        kind,
        presence: Presence::Required,
        secrecy: if field.secret {
            Secrecy::Secret
        } else {
            Secrecy::Open
        },
    };
    // Before its default is read, so that a fault of the default names a field whose name is one.
    Form::new(vec![read.clone()]).map_err(bad_form)?;
    read.presence = presence_of(&read, presence, default)?;
    Ok(read)
}

fn kind(field: &pb::Field) -> Result<Kind, Garbled> {
    let name = Untrusted::new(field.name.as_str()).line();
    let kind = match pb::FieldType::try_from(field.r#type) {
        Ok(pb::FieldType::String) => Kind::String,
        Ok(pb::FieldType::Text) => Kind::Text,
        Ok(pb::FieldType::Number) => Kind::Number,
        Ok(pb::FieldType::Integer) => Kind::Integer,
        Ok(pb::FieldType::Boolean) => Kind::Boolean,
        Ok(pb::FieldType::Enum) => Kind::Enum(field.options.iter().map(choice).collect()),
        Ok(pb::FieldType::Date) => Kind::Date,
        Ok(pb::FieldType::Unspecified) | Err(_) => {
            return Err(unknown(
                &format!("the type of field '{name}'"),
                field.r#type,
            ));
        }
    };
    if !field.options.is_empty() && !matches!(kind, Kind::Enum(_)) {
        return Err(Garbled(format!(
            "field '{name}' has options, but is not an enum"
        )));
    }
    Ok(kind)
}

fn choice(option: &pb::FieldOption) -> Choice {
    Choice {
        value: option.value.as_str().into(),
        label: option.label.as_str().into(),
    }
}

fn presence_of(field: &Field, presence: i32, default: Option<String>) -> Result<Presence, Garbled> {
    let typed = |raw: &str| {
        let name = field.name.clone();
        let kind = field.kind.word();
        let bad = |_| bad_form(FormError::BadDefault { name, kind });
        field.kind.parse(raw).map_err(bad)
    };
    match (pb::FieldPresence::try_from(presence), default.as_deref()) {
        (Ok(pb::FieldPresence::Unspecified | pb::FieldPresence::Required), None) => {
            Ok(Presence::Required)
        }
        (Ok(pb::FieldPresence::Unspecified | pb::FieldPresence::Required), Some("")) => {
            Err(bad_form(FormError::EmptyDefault(field.name.clone())))
        }
        (Ok(pb::FieldPresence::Unspecified | pb::FieldPresence::Required), Some(raw)) => {
            typed(raw).map(Presence::Defaulted)
        }
        (Ok(pb::FieldPresence::Optional), Some(raw)) => typed(raw).map(Presence::Optional),
        (Ok(pb::FieldPresence::Optional), None) => Err(Garbled(format!(
            "field '{}' is optional, so it needs a default",
            field.name
        ))),
        (Err(_), _) => {
            let what = format!("the presence of field '{}'", field.name);
            Err(unknown(&what, presence))
        }
    }
}

fn detail_out(detail: &Detail) -> pb::Detail {
    pb::Detail {
        prompt: detail.prompt.raw().to_owned(),
        body: detail.body.raw().to_owned(),
        facts: detail.facts.raw().to_owned(),
        args_json: detail.args.as_ref().map(|args| args.raw().into()),
        fields: detail.form.fields().iter().map(field_out).collect(),
    }
}

fn field_out(field: &Field) -> pb::Field {
    let options = match &field.kind {
        Kind::Enum(choices) => choices.iter().map(choice_out).collect(),
        _ => Vec::new(),
    };
    let (presence, default) = match &field.presence {
        Presence::Required => (pb::FieldPresence::Required, None),
        Presence::Defaulted(default) => (pb::FieldPresence::Required, Some(default.to_raw())),
        Presence::Optional(default) => (pb::FieldPresence::Optional, Some(default.to_raw())),
    };
    pb::Field {
        name: field.name.clone(),
        label: field.label.raw().to_owned(),
        help: field.help.raw().to_owned(),
        r#type: kind_out(&field.kind) as i32,
        options,
        presence: presence as i32,
        default_value: default,
        secret: !field.secrecy.is_open(),
    }
}

fn kind_out(kind: &Kind) -> pb::FieldType {
    match kind {
        Kind::String => pb::FieldType::String,
        Kind::Text => pb::FieldType::Text,
        Kind::Number => pb::FieldType::Number,
        Kind::Integer => pb::FieldType::Integer,
        Kind::Boolean => pb::FieldType::Boolean,
        Kind::Enum(_) => pb::FieldType::Enum,
        Kind::Date => pb::FieldType::Date,
    }
}

fn choice_out(choice: &Choice) -> pb::FieldOption {
    pb::FieldOption {
        value: choice.value.raw().to_owned(),
        label: choice.label.raw().to_owned(),
    }
}

fn task_state(task: &pb::Task) -> Result<TaskState, Garbled> {
    match pb::TaskState::try_from(task.state) {
        Ok(pb::TaskState::Pending) => Ok(TaskState::Pending),
        Ok(pb::TaskState::Running) => Ok(TaskState::Running),
        Ok(pb::TaskState::Blocked) => Ok(TaskState::Blocked {
            blocker: task.blocker.as_str().into(),
            needed: task.needed.as_str().into(),
        }),
        Ok(pb::TaskState::Completed) => Ok(TaskState::Completed),
        Ok(pb::TaskState::Failed) => Ok(TaskState::Failed),
        Ok(pb::TaskState::Cancelled) => Ok(TaskState::Cancelled),
        Ok(pb::TaskState::NotNeeded) => Ok(TaskState::NotNeeded),
        Ok(pb::TaskState::Unspecified) | Err(_) => Err(unknown("the task's state", task.state)),
    }
}

/// A task without its detail and time, which not everybody knows.
fn task_out(id: &Untrusted, title: &Untrusted, state: &TaskState) -> pb::Task {
    let (word, [blocker, needed]) = match state {
        TaskState::Pending => (pb::TaskState::Pending, Default::default()),
        TaskState::Running => (pb::TaskState::Running, Default::default()),
        TaskState::Blocked { blocker, needed } => (
            pb::TaskState::Blocked,
            [blocker, needed].map(|text| text.raw().to_owned()),
        ),
        TaskState::Completed => (pb::TaskState::Completed, Default::default()),
        TaskState::Failed => (pb::TaskState::Failed, Default::default()),
        TaskState::Cancelled => (pb::TaskState::Cancelled, Default::default()),
        TaskState::NotNeeded => (pb::TaskState::NotNeeded, Default::default()),
    };
    pb::Task {
        id: id.raw().to_owned(),
        title: title.raw().to_owned(),
        state: word as i32,
        blocker,
        needed,
        detail: String::new(),
        at: None,
    }
}

/// A plan names its tasks; details and times of tasks are told apart from it.
fn plan_of(plan: pb::Plan) -> Result<Plan, Garbled> {
    let task = |task: pb::Task| {
        Ok(PlanTask {
            state: task_state(&task)?,
            id: task.id.into(),
            title: task.title.into(),
        })
    };
    let tasks: Result<_, Garbled> = plan.tasks.into_iter().map(task).collect();
    Ok(Plan {
        revision: plan.revision,
        summary: plan.summary.into(),
        tasks: tasks?,
    })
}

fn plan_out(plan: &Plan) -> pb::Plan {
    let tasks = plan.tasks.iter();
    pb::Plan {
        revision: plan.revision,
        summary: plan.summary.raw().to_owned(),
        tasks: tasks
            .map(|task| task_out(&task.id, &task.title, &task.state))
            .collect(),
    }
}
