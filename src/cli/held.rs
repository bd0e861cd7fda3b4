//! How the commands print runs that stand still, drifts and orders.

use registry::{
    Control, Escalation, Run, Untrusted,
    control::Verb,
    drift::{Drift, Level},
    escalation::{Cause, Closed, How},
    run::{Presence, RunState},
};
use serde_json::{Map, Value, json};

use super::print::{away, away_since, quoted, time};
use crate::dashboard::words::span;

/// A run that stands still, as `list --json` has it.
pub(crate) fn held_item(held: &Escalation, run: &Run) -> Value {
    let mut item = escalation(held, Some(run));
    item.insert("status".into(), json!("pending"));
    let controls = run.controls.iter().map(control);
    item.insert("controls".into(), Value::Array(controls.collect()));
    item.insert(
        "drifts".into(),
        Value::Array(run.drifts.iter().map(drift).collect()),
    );
    Value::Object(item)
}

/// A run that stood still, as `history --json` has it.
pub(crate) fn closed_item(closed: &Closed, run: Option<&Run>) -> Value {
    let mut item = escalation(&closed.escalation, run);
    item.insert("status".into(), json!(closed.how.word()));
    item.insert("ended_at".into(), json!(closed.at.to_string()));
    item.insert("seq".into(), json!(closed.seq));
    if let How::Answered { verb, by, note } = &closed.how {
        let answer = json!({"verb": verb.word(), "by": by.as_str(), "note": note.raw()});
        item.insert("answer".into(), answer);
    }
    if let How::Superseded { by } = &closed.how {
        item.insert("superseded_by".into(), json!(by.to_string()));
    }
    if let Some(order) = &closed.control {
        item.insert("control".into(), control(order));
        item.insert("delivery".into(), json!(order.stage().word()));
    }
    Value::Object(item)
}

fn escalation(held: &Escalation, run: Option<&Run>) -> Map<String, Value> {
    let behind = held.drift();
    let value = json!({
        "id": held.id.to_string(),
        "kind": held.kind(),
        "target_id": behind.map_or("", |drift| drift.id.as_str()),
        "title": held.title().raw(),
        "digest": null,
        "asks": "operator",
        "labels": {},
        "run_id": held.run.to_string(),
        "run_state": run.map(|run| run.state.word()),
        "away_since": time(run.and_then(away_since)),
        "task_id": held.task().raw(),
        "session_id": held.from.session.raw(),
        "invocation": held.from.invocation.raw(),
        "agent": held.from.agent.raw(),
        "source": held.from.source.word(),
        "filed_at": held.at.to_string(),
        "deadline": time(held.abort_at),
        "drift": behind.map(drift),
        "paused_by": match &held.cause {
            Cause::Paused { by, note } => json!({"by": by.as_str(), "note": note.raw()}),
            Cause::Drift(_) => Value::Null,
        },
        "after": held.after.as_ref().map(|undone| json!({
            "verb": undone.verb.word(),
            "by": undone.by.as_str(),
            "detail": undone.detail.raw(),
        })),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(super) fn drift(drift: &Drift) -> Value {
    json!({
        "id": drift.id.as_str(),
        "kind": drift.kind.text().raw(),
        "severity": drift.severity.word().raw(),
        "level": drift.level.map(Level::number),
        "level_word": drift.level.map(Level::word),
        "detail": drift.detail.raw(),
        "task_id": drift.task.raw(),
        "from": drift.from.as_ref().map(|kind| kind.text().raw()),
        "at": drift.at.to_string(),
    })
}

pub(super) fn control(order: &Control) -> Value {
    let steps = order.steps.iter().map(|step| {
        json!({
            "stage": step.stage.word(),
            "detail": step.detail.raw(),
            "at": step.at.to_string(),
        })
    });
    json!({
        "id": order.id.as_str(),
        "verb": order.verb.word(),
        "task_id": rewinds(order).map(Untrusted::raw),
        "note": order.note.raw(),
        "by": order.by.as_str(),
        "drift": order.drift.as_ref().map(|behind| json!({
            "id": behind.id.as_str(),
            "kind": behind.kind.text().raw(),
            "level": behind.level.number(),
            "level_word": behind.level.word(),
        })),
        "deadline": time(order.deadline),
        "escalation_id": order.escalation.map(|id| id.to_string()),
        "at": order.at.to_string(),
        "stage": order.stage().word(),
        "steps": steps.collect::<Vec<_>>(),
    })
}

/// The task that it has done again, and all that follow.
fn rewinds(order: &Control) -> Option<&Untrusted> {
    match &order.verb {
        Verb::Rewind { task } => Some(task),
        Verb::Pause | Verb::Resume | Verb::Steer | Verb::Cancel | Verb::StatusQuery => None,
    }
}

/// What holds a run, in a line: the drift, or who paused it and why.
pub(crate) fn cause_line(held: &Escalation) -> String {
    let why = match &held.cause {
        Cause::Drift(drift) => &drift.detail,
        Cause::Paused { note, .. } => note,
    };
    if why.is_empty() {
        return held.title().line().to_string();
    }
    format!("{}: {}", held.title().line(), why.line())
}

/// A line for people: a run that stands still.
pub(crate) fn held_line(held: &Escalation, run: &Run, now: registry::Timestamp) -> String {
    let left = held.abort_at.map_or("no deadline".into(), |at| {
        format!("{} left", span(at.since(now)))
    });
    format!(
        "{}  {:<8} {:<9} waited {:>4}  {left:>11}  {}  {}{}",
        held.id,
        run.state.word(),
        "operator",
        span(now.since(held.at)),
        held.from.agent.line(),
        held.title().line(),
        away(run),
    )
}

/// A run that stands still, for people.
pub(crate) fn held_card(held: &Escalation, run: &Run) -> String {
    let mut lines = vec![format!(
        "{} is {} · {}",
        held.from.agent.line(),
        run.state.word(),
        cause_line(held)
    )];
    if let Some(behind) = held.drift() {
        lines.push(format!("  {}", drift_line(behind)));
    }
    if let Some(undone) = &held.after {
        let (verb, by) = (undone.verb.word(), &undone.by);
        lines.push(format!(
            "  {verb} by {by} came to nothing: {}",
            undone.detail.line()
        ));
    }
    lines.push("how it came to this".into());
    lines.extend(
        run.drifts
            .iter()
            .map(|drift| format!("  {}", drift_line(drift))),
    );
    if !run.controls.is_empty() {
        lines.push("what it was told".into());
        lines.extend(
            run.controls
                .iter()
                .map(|order| format!("  {}", control_line(order, Some(run)))),
        );
    }
    lines.push(format!("resume, steer or cancel {}", held.id));
    lines.join("\n")
}

fn drift_line(drift: &Drift) -> String {
    let level = drift.level.map_or_else(String::new, |level| {
        format!(" level {} {}", level.number(), level.word())
    });
    format!(
        "{}  {} {}{level}  {}",
        drift.at,
        drift.kind.text().line(),
        drift.severity.word().line(),
        drift.detail.line()
    )
}

/// An order, and how far it has come; `run` says why nobody has taken it yet.
pub(crate) fn control_line(order: &Control, run: Option<&Run>) -> String {
    let steps = order.steps.iter().map(|step| {
        let detail = quoted(&step.detail);
        format!(" › {} {}{detail}", step.stage.word(), step.at)
    });
    let steps: String = steps.collect();
    let steps = match order.steps.is_empty() {
        true => format!(
            " › not taken yet{}",
            run.map_or_else(String::new, why_not_taken)
        ),
        false => steps,
    };
    let task = rewinds(order).map_or_else(String::new, |task| format!(" {}", task.line()));
    format!(
        "{}{task} by {} {}{}{steps}",
        order.verb.word(),
        order.by,
        order.at,
        quoted(&order.note)
    )
}

fn why_not_taken(run: &Run) -> String {
    match (&run.state, &run.presence) {
        (RunState::Parked(_), _) => ": its run is parked; it meets its next turn".into(),
        (_, Presence::Away { since }) => format!(": its agent is away since {since}"),
        (_, Presence::Attached | Presence::Detached) => {
            ": its agent does not listen for orders".into()
        }
    }
}

/// A line for people: a run that stood still.
pub(crate) fn closed_line(closed: &Closed) -> String {
    let (by, note) = match &closed.how {
        How::Answered { by, note, .. } => (format!("by {by}"), quoted(note)),
        How::Superseded { by } => (format!("by {by}"), String::new()),
        How::RunEnded(end) => (format!("the run {}", end.word()), String::new()),
        How::WentOn => ("its agent's own events show it".into(), String::new()),
    };
    let delivery = closed.control.as_ref();
    let delivery = delivery.map_or_else(String::new, |order| {
        format!("  delivery: {}", order.stage().word())
    });
    format!(
        "{}  {}  {:<9} {}  {}  {by}{note}{delivery}",
        closed.at,
        closed.escalation.id,
        closed.how.word(),
        closed.escalation.from.agent.line(),
        closed.escalation.title().line(),
    )
}
