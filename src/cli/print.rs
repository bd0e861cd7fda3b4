//! What the commands print: one JSON object a line for scripts, plain lines for people.
//!
//! Foreign text goes through the one door here too: plain lines show it, JSON escapes it.

use std::{
    fmt::Display,
    io::{self, Write},
};

use registry::{
    Approval, Detail, Pending, Recorded, Run, Settled, Shown, Untrusted,
    approval::{Decision, Outcome, Why},
    form::{Answer, Answers, Field, Form, Kind, Presence},
    run::{Presence as There, RunState, TaskState},
    text::json_safe,
};
use serde_json::{Map, Value, json};

use super::{
    exit::Stopped,
    held::{control, drift},
};
use crate::dashboard::words::span;

/// One line on standard output. A reader that has gone away ends the program without a word.
pub(crate) fn line(text: impl Display) -> Result<(), Stopped> {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stopped {
            why: String::new(),
            code: super::exit::DONE,
        }),
        Err(error) => Err(Stopped::fault(format!("standard output: {error}"))),
    }
}

/// One line on standard error, for people. Where nobody can read it, nothing is lost.
pub(crate) fn aside(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// One JSON object on a line, safe for a terminal and without loss.
pub(crate) fn object(value: &Value) -> Result<(), Stopped> {
    line(json_safe(&value.to_string()))
}

/// An open item, as `list --json` has it.
pub(crate) fn open_item(pending: &Pending, run: &Run) -> Value {
    let mut item = item(&pending.approval, Some(run));
    item.insert("status".into(), json!("pending"));
    item.insert("deadline".into(), time(pending.deadline));
    Value::Object(item)
}

fn item(approval: &Approval, run: Option<&Run>) -> Map<String, Value> {
    let labels: Map<String, Value> = approval
        .labels
        .iter()
        .map(|(key, value)| (key.raw().to_owned(), json!(value.raw())))
        .collect();
    let value = json!({
        "id": approval.id.to_string(),
        "kind": "approval",
        "target_id": approval.target.raw(),
        "title": approval.title.raw(),
        "digest": approval.digest.to_string(),
        "asks": approval.asks.word(),
        "labels": labels,
        "run_id": approval.run.to_string(),
        "run_state": run.map(|run| run.state.word()),
        "away_since": time(run.and_then(away_since)),
        "task_id": approval.subject.task().raw(),
        "session_id": approval.from.session.raw(),
        "invocation": approval.from.invocation.raw(),
        "agent": approval.from.agent.raw(),
        "source": approval.from.source.word(),
        "filed_at": approval.filed_at.to_string(),
        "deadline": time(approval.deadline),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Since when nobody is there to take an answer.
pub(super) fn away_since(run: &Run) -> Option<registry::Timestamp> {
    match run.presence {
        There::Away { since } => Some(since),
        There::Attached | There::Detached => None,
    }
}

/// The same, behind a line for people.
pub(super) fn away(run: &Run) -> String {
    let since = away_since(run);
    since.map_or_else(String::new, |since| {
        format!("  its agent is away since {since}")
    })
}

pub(super) fn time(at: Option<registry::Timestamp>) -> Value {
    at.map_or(Value::Null, |at| json!(at.to_string()))
}

/// An approval that has ended, as `history --json` has it.
pub(crate) fn ended_item(settled: &Settled, run: Option<&Run>) -> Value {
    let mut item = item(&settled.approval, run);
    item.insert("deadline".into(), time(settled.deadline));
    item.insert("status".into(), json!(settled.outcome.word()));
    item.insert("ended_at".into(), json!(settled.at.to_string()));
    item.insert("seq".into(), json!(settled.seq));
    if let Some(decision) = settled.decision() {
        item.insert("decision".into(), decided(decision));
    }
    if !settled.votes.is_empty() {
        item.insert(
            "votes".into(),
            json!(settled.votes.iter().map(decided).collect::<Vec<_>>()),
        );
    }
    if let Outcome::Withdrawn(why) = &settled.outcome {
        item.insert("why".into(), json!(why));
        item.insert("why_text".into(), json!(why.words()));
    }
    if let Some(delivery) = &settled.delivery {
        item.insert("delivery".into(), json!(delivery.state.word()));
        item.insert("delivery_detail".into(), json!(delivery.detail.raw()));
        item.insert("control_id".into(), json!(delivery.control.as_str()));
    }
    if let Some(claim) = &settled.claim {
        item.insert("claim".into(), json!(claim));
    }
    if let Some(applied) = &settled.applied {
        let applied = json!({
            "result": applied.result.word(),
            "detail": applied.detail.raw(),
            "at": applied.at.to_string(),
        });
        item.insert("applied".into(), applied);
    }
    Value::Object(item)
}

fn decided(decision: &Decision) -> Value {
    json!({
        "id": decision.id.as_str(),
        "by": decision.decider.by.as_str(),
        "on_behalf_of": decision.decider.on_behalf_of.as_ref().map(registry::Name::as_str),
        "via": decision.decider.via.as_ref().map(registry::Name::as_str),
        "answers": answers(&decision.answers),
        "note": decision.note.raw(),
        "seen": decision.seen,
    })
}

fn answers(answers: &Answers) -> Value {
    let value = |answer: &Answer| match answer {
        Answer::Text(text) => json!(text.raw()),
        Answer::Number(number) => json!(number.get()),
        Answer::Integer(integer) => json!(integer),
        Answer::Boolean(boolean) => json!(boolean),
        Answer::Date(_) => json!(answer.to_raw()),
        Answer::Sealed => json!({"sealed": true}),
    };
    let pairs = answers
        .iter()
        .map(|(name, answer)| (name.to_owned(), value(answer)));
    Value::Object(pairs.collect())
}

/// The whole of an approval: the item, and what is large of it.
pub(crate) fn with_detail(item: Value, approval: &Approval, detail: &Detail) -> Value {
    let Value::Object(mut map) = item else {
        return item;
    };
    let tool = approval.subject.tool().map(Untrusted::raw);
    map.insert("subject".into(), json!(approval.subject.word()));
    map.insert("tool".into(), json!(tool));
    map.insert(
        "args_json".into(),
        json!(detail.args.as_ref().map(Untrusted::raw)),
    );
    map.insert(
        "args_sha256".into(),
        json!(approval.args_sha256.to_string()),
    );
    map.insert("prompt".into(), json!(detail.prompt.raw()));
    map.insert("body".into(), json!(detail.body.raw()));
    map.insert("facts".into(), json!(detail.facts.raw()));
    map.insert("fields".into(), form(&detail.form));
    map.insert(
        "owner".into(),
        json!(approval.owner.as_ref().map(registry::Name::as_str)),
    );
    map.insert("filed_by".into(), json!(approval.filed_by.as_str()));
    map.insert("step".into(), json!(approval.step.raw()));
    map.insert(
        "high_risk".into(),
        json!(approval.risk == registry::approval::Risk::High),
    );
    map.insert("digest_matches".into(), json!(approval.matches(detail)));
    Value::Object(map)
}

/// What has happened to a question that waits.
pub(crate) fn with_waiting(item: Value, pending: &Pending) -> Value {
    let Value::Object(mut map) = item else {
        return item;
    };
    map.insert("waits_timed_out".into(), json!(pending.timed_out));
    map.insert("refused_attempts".into(), json!(pending.attempts));
    map.insert("deadline_passed_at".into(), time(pending.passed_at));
    map.insert("ends_soon".into(), json!(pending.ends_soon()));
    map.insert(
        "votes".into(),
        json!(pending.votes.iter().map(decided).collect::<Vec<_>>()),
    );
    map.insert("votes_needed".into(), json!(pending.approval.votes));
    Value::Object(map)
}

fn form(form: &Form) -> Value {
    let fields = form.fields().iter().map(|field| {
        let options = match &field.kind {
            Kind::Enum(choices) => choices
                .iter()
                .map(|choice| json!({"value": choice.value.raw(), "label": choice.label.raw()}))
                .collect(),
            _ => Vec::new(),
        };
        let (required, default) = match &field.presence {
            Presence::Required => (true, None),
            Presence::Defaulted(default) => (true, Some(default.to_raw())),
            Presence::Optional(default) => (false, Some(default.to_raw())),
        };
        json!({
            "name": field.name,
            "label": field.label.raw(),
            "help": field.help.raw(),
            "type": field.kind.word(),
            "options": options,
            "required": required,
            "default": default,
            "secret": !field.secrecy.is_open(),
        })
    });
    Value::Array(fields.collect())
}

/// A run, whole.
pub(crate) fn run(run: &Run, record: &[Recorded]) -> Value {
    let presence = match run.presence {
        There::Attached => json!("attached"),
        There::Away { since } => json!({"away_since": since.to_string()}),
        There::Detached => json!("detached"),
    };
    let tasks = run.tasks.iter().map(|(id, task)| {
        json!({
            "id": id.raw(),
            "title": task.title.raw(),
            "state": task.state.word(),
            "blocker": blocked(&task.state).map(|(blocker, _)| blocker.raw()),
            "needed": blocked(&task.state).map(|(_, needed)| needed.raw()),
            "detail": task.detail.raw(),
            "at": task.at.to_string(),
        })
    });
    let plan = run.plan.as_ref().map(|plan| {
        json!({
            "revision": plan.revision,
            "summary": plan.summary.raw(),
            "tasks": plan.tasks.iter().map(|task| task.id.raw()).collect::<Vec<_>>(),
        })
    });
    let interrupt = match run.state {
        RunState::Parked(interrupt) | RunState::Consumed(interrupt) => Some(interrupt.word()),
        _ => None,
    };
    json!({
        "id": run.id.to_string(),
        "kind": "run",
        "source": run.key.source.word(),
        "agent": run.key.agent.raw(),
        "session_id": run.key.session.raw(),
        "invocation": run.key.invocation.raw(),
        "project": run.project.raw(),
        "thread": run.thread.raw(),
        "origin": run.origin.raw(),
        "owner": run.owner.as_ref().map(registry::Name::as_str),
        "opened_by": run.opened_by.as_str(),
        "parent_run_id": run.parent.map(|id| id.to_string()),
        "can_resume": run.can_resume,
        "opened_at": run.opened_at.to_string(),
        "state": run.state.word(),
        "interrupt_kind": interrupt,
        "presence": presence,
        "tasks": tasks.collect::<Vec<_>>(),
        "plan": plan,
        "open": run.open.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "held_by": run.held_by.map(|id| id.to_string()),
        "drifts": run.drifts.iter().map(drift).collect::<Vec<_>>(),
        "controls": run.controls.iter().map(control).collect::<Vec<_>>(),
        "record": record.iter().map(event).collect::<Vec<_>>(),
    })
}

fn blocked(state: &TaskState) -> Option<(&Untrusted, &Untrusted)> {
    match state {
        TaskState::Blocked { blocker, needed } => Some((blocker, needed)),
        _ => None,
    }
}

/// A fact, as `watch --json` has it.
pub(crate) fn event(recorded: &Recorded) -> Value {
    let mut value = serde_json::to_value(&*recorded.event).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        map.insert("seq".into(), json!(recorded.seq));
        map.insert("at".into(), json!(recorded.at.to_string()));
    }
    value
}

/// A line for people: what is open.
pub(crate) fn open_line(pending: &Pending, run: Option<&Run>, now: registry::Timestamp) -> String {
    let approval = &pending.approval;
    let left = pending.deadline.map_or("no deadline".into(), |at| {
        let soon = if pending.ends_soon() { ", soon" } else { "" };
        format!("{} left{soon}", span(at.since(now)))
    });
    let votes = match approval.votes {
        0 | 1 => String::new(),
        _ => format!("  ({})", pending.yes()),
    };
    format!(
        "{}  {:<8} {:<9} waited {:>4}  {:>11}  {}  {}{votes}{}",
        approval.id,
        approval.subject.word(),
        approval.asks.word(),
        span(now.since(approval.filed_at)),
        left,
        approval.from.agent.line(),
        approval.title.line(),
        run.map(away).unwrap_or_default(),
    )
}

/// A line for people: what has ended.
pub(crate) fn ended_line(settled: &Settled) -> String {
    let approval = &settled.approval;
    let (by, note) = match (settled.decision(), &settled.outcome) {
        (Some(decision), _) => {
            let votes = settled
                .votes
                .iter()
                .map(|vote| format!(" and {}", by_whom(vote)));
            let votes: String = votes.collect();
            let by = format!(
                "by {}{votes}  {}{}",
                by_whom(decision),
                decision.seen.words(),
                answered(&decision.answers)
            );
            (by, quoted(&decision.note))
        }
        (None, Outcome::Withdrawn(why)) => (why.words(), quoted(words_of(why))),
        (None, _) => ("nobody decided".into(), String::new()),
    };
    let applied = match (&settled.applied, &settled.claim) {
        (Some(applied), _) => format!("  applied: {}", applied.result.word()),
        (None, Some(claim)) => format!("  {}", claim.words()),
        (None, None) if settled.has_no_word() => "  no word from its agent yet".into(),
        (None, None) => String::new(),
    };
    let delivery = settled.delivery.as_ref();
    let delivery = delivery.map_or_else(String::new, |delivery| {
        format!("  delivery: {}", delivery.state.word())
    });
    format!(
        "{}  {}  {:<9} {}  {}  {by}{note}{applied}{delivery}",
        settled.at,
        approval.id,
        settled.outcome.word(),
        approval.from.agent.line(),
        approval.title.line(),
    )
}

fn answered(answers: &Answers) -> String {
    let said = answers
        .iter()
        .map(|(name, answer)| format!("{name}={}", answer.to_raw()));
    let said = said.collect::<Vec<_>>().join(", ");
    if said.is_empty() {
        return said;
    }
    format!("  {}", Untrusted::new(said).line())
}

fn by_whom(decision: &Decision) -> String {
    let by = &decision.decider.by;
    match (&decision.decider.on_behalf_of, &decision.decider.via) {
        (Some(user), _) => format!("{by} for {user}"),
        (None, Some(backend)) => format!("{by} via {backend}"),
        (None, None) => by.to_string(),
    }
}

fn words_of(why: &Why) -> &Untrusted {
    static NONE: std::sync::LazyLock<Untrusted> = std::sync::LazyLock::new(Untrusted::default);
    match why {
        Why::Agent { reason } => reason,
        Why::AnsweredElsewhere { detail, .. } => detail,
        Why::Dismissed { note, .. } => note,
        Why::RunEnded(_) | Why::Superseded { .. } | Why::Cancelled { .. } => &NONE,
    }
}

pub(super) fn quoted(text: &Untrusted) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("  «{}»", text.line())
    }
}

/// A card for people: everything that the digest covers, and who asks.
pub(crate) fn card(approval: &Approval, detail: &Detail) -> String {
    let mut card = Card(String::new());
    card.row("title", &approval.title.line());
    if approval.risk == registry::approval::Risk::High {
        card.row(
            "risk",
            &Untrusted::new("HIGH: the tool says that it is dangerous").line(),
        );
    }
    card.row("agent", &approval.from.agent.line());
    card.row(
        "source",
        &Untrusted::new(approval.from.source.word()).line(),
    );
    card.row("run", &approval.from.invocation.line());
    card.row("task", &approval.subject.task().line());
    if let Some(owner) = &approval.owner {
        card.row("for", &Untrusted::new(owner.as_str()).line());
    }
    let people = match approval.votes {
        0 | 1 => approval.asks.people().to_owned(),
        votes => format!(
            "{}: {votes} different people, and not whoever asked",
            approval.asks.people()
        ),
    };
    card.row("asks", &Untrusted::new(people).line());
    for (key, value) in &approval.labels {
        let label = format!("{}={}", key.raw(), value.raw());
        card.row("label", &Untrusted::new(label).line());
    }
    if let Some(deadline) = approval.deadline {
        card.row("deadline", &Untrusted::new(deadline.to_string()).line());
    }
    card.row("prompt", &detail.prompt.block());
    card.row("body", &detail.body.block());
    card.row("program", &detail.facts.block());
    if let Some(tool) = approval.subject.tool() {
        card.row("tool", &tool.line());
    }
    if let Some(args) = &detail.args {
        card.row("arguments", &args.block());
    }
    for field in detail.form.fields() {
        card.row("field", &Untrusted::new(field_text(field)).block());
    }
    card.row("id", &Untrusted::new(approval.id.to_string()).line());
    card.row(
        "digest",
        &Untrusted::new(approval.digest.to_string()).line(),
    );
    card.0.truncate(card.0.trim_end().len());
    card.0
}

/// Rows of a name and a text; further lines of the text stand below its first.
struct Card(String);

impl Card {
    fn row(&mut self, name: &str, value: &Shown) {
        for (n, line) in value.as_str().lines().enumerate() {
            let name = if n == 0 { name } else { "" };
            self.0.push_str(&format!("{name:<10} {line}\n"));
        }
    }
}

/// One field of a form, with all that its answer depends on.
fn field_text(field: &Field) -> String {
    let presence = match &field.presence {
        Presence::Required => "required".into(),
        Presence::Defaulted(default) => format!("default {}", default.to_raw()),
        Presence::Optional(default) => format!("optional, default {:?}", default.to_raw()),
    };
    let kind = field.kind.word();
    let mut text = format!(
        "{}: {} · {kind} · {presence}",
        field.name,
        field.label.raw()
    );
    if let Kind::Enum(choices) = &field.kind {
        for choice in choices {
            let (value, label) = (choice.value.raw(), choice.label.raw());
            let said = if value == label {
                String::new()
            } else {
                format!(" ({label})")
            };
            text.push_str(&format!("\n  {value}{said}"));
        }
    }
    if !field.help.is_empty() {
        text.push_str(&format!("\n  {}", field.help.raw()));
    }
    text
}
