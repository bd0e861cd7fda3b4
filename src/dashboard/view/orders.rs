//! An order, and how far it has come, in one line.

use registry::{
    Control, Run, Timestamp,
    control::{Confirmation, Stage, Step},
};

use super::{
    super::{
        lines::{Line, Part},
        steering::{away_since, is_parked, is_unreachable, unanswered_since},
        theme::Role,
        words,
    },
    Pen,
};

/// `s steer  sent 14:05:01Z › acked 14:05:01Z "steer queued" › confirmed 14:05:38Z plan revision 3`
pub(super) fn life(
    pen: &Pen<'_, '_>,
    run: Option<&Run>,
    order: &Control,
    key: Option<&str>,
    now: Option<Timestamp>,
) -> Line {
    let mut parts = Vec::new();
    parts.extend(key.map(|key| Part::new(Role::Hint, format!("{key} "))));
    parts.push(Part::new(Role::Strong, format!("{}  ", order.verb.word())));
    let then = format!(" {} ", pen.signs.then);
    for (n, step) in order.steps.iter().enumerate() {
        if n > 0 {
            parts.push(Part::new(Role::Muted, then.clone()));
        }
        parts.extend(step_parts(step));
    }
    if let Some(waits) = waits_for(run, order, now) {
        if !order.steps.is_empty() {
            parts.push(Part::new(Role::Muted, then));
        }
        parts.push(Part::new(Role::Warn, pen.spelled(&waits)));
    }
    Line {
        parts,
        hang: 2,
        ..Line::default()
    }
}

fn step_parts(step: &Step) -> Vec<Part> {
    let role = match step.stage {
        Stage::Confirmed => Role::Ok,
        stage if stage.is_failure() => Role::Danger,
        _ => Role::Text,
    };
    let words = format!("{} {}", step.stage.word(), words::clock(step.at));
    let mut parts = vec![Part::new(role, words)];
    if !step.detail.is_empty() {
        let detail = step.detail.line();
        let detail = match step.stage {
            Stage::Confirmed => format!(" {detail}"),
            _ => format!(" \"{detail}\""),
        };
        parts.push(Part::new(Role::Said, detail));
    }
    parts
}

/// What it still takes until it is done; none where nothing more comes of it, or its run is not known any more.
fn waits_for(run: Option<&Run>, order: &Control, now: Option<Timestamp>) -> Option<String> {
    let run = run.filter(|_| !order.is_over())?;
    Some(match order.stage() {
        Stage::Issued if is_unreachable(run) => {
            "not sent: its agent is gone and does not come back".to_owned()
        }
        Stage::Issued if away_since(run).is_some() => {
            "not sent: its agent is away, it waits for it".to_owned()
        }
        Stage::Issued if is_parked(run) => "not sent: it meets the next turn".to_owned(),
        Stage::Issued => "not sent: its agent does not listen".to_owned(),
        Stage::Sent => {
            let since = unanswered_since(order).unwrap_or(order.at);
            let since = now.map(|now| words::span(now.since(since)));
            format!("no answer for {}", since.unwrap_or_default())
        }
        Stage::Acked
        | Stage::Confirmed
        | Stage::Failed
        | Stage::Unsupported
        | Stage::Unanswered => match order.verb.confirmed_by() {
            Confirmation::Ack => return None,
            Confirmation::Plan => "not confirmed: no new plan yet".to_owned(),
            Confirmation::End => "not confirmed: the run has not ended yet".to_owned(),
            Confirmation::Task => "not confirmed: the task is not there again yet".to_owned(),
        },
    })
}
