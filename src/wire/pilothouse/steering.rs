//! Drifts, escalations and controls, both ways.

use std::sync::Arc;

use registry::{
    Control, Escalation, Name, Tenant, Untrusted,
    control::{Behind, Stage, Step, Verb},
    drift::{Count, Drift, Kind, Level, Severity},
    escalation::{Cause, Closed, How, Undone},
    names::{ControlId, DriftId},
    run::{Counts, Evidence, Pause, RunKey},
};

use super::{
    Garbled, Word, missing, moment_out, pb, read::maybe_moment, read::moment, said, unknown, word,
};

type Read<T> = Result<T, Garbled>;

// === Out ===

fn text(text: &Untrusted) -> String {
    text.raw().to_owned()
}

fn or_nothing<T: ToString>(said: Option<&T>) -> String {
    said.map(T::to_string).unwrap_or_default()
}

pub(super) fn drift_out(drift: &Drift) -> pb::Drift {
    let from = drift.from.as_ref();
    pb::Drift {
        id: drift.id.to_string(),
        kind: text(drift.kind.text()),
        severity: text(&drift.severity.word()),
        detail: text(&drift.detail),
        task_id: text(&drift.task),
        level: level_out(drift.level),
        from_kind: from.map(|kind| text(kind.text())).unwrap_or_default(),
        at: Some(moment_out(drift.at)),
    }
}

pub(super) fn counts_out(counts: &Counts) -> Vec<pb::DriftCount> {
    let counts = counts.0.iter();
    let count = |((kind, task), count): (&(Kind, Untrusted), &Count)| pb::DriftCount {
        kind: text(kind.text()),
        task_id: text(task),
        criticals: count.criticals,
        escalated: count.escalated,
    };
    counts.map(count).collect()
}

pub(super) fn level_out(level: Option<Level>) -> i32 {
    level.map_or(pb::Level::Unspecified as i32, Word::number)
}

pub(super) fn pause_out(pause: Option<Pause>) -> i32 {
    let pause = match pause {
        None => pb::Pause::Unspecified,
        Some(Pause::Asked) => pb::Pause::Asked,
        Some(Pause::Holds(Evidence::Acked)) => pb::Pause::Acked,
        Some(Pause::Holds(Evidence::Inferred)) => pb::Pause::Inferred,
    };
    pause as i32
}

pub(super) fn verb_out(verb: &Verb) -> (i32, String) {
    use pb::ControlKind as Kind;
    let (kind, task) = match verb {
        Verb::Pause => (Kind::Pause, String::new()),
        Verb::Resume => (Kind::Resume, String::new()),
        Verb::Steer => (Kind::Steer, String::new()),
        Verb::Cancel => (Kind::Cancel, String::new()),
        Verb::Rewind { task } => (Kind::Rewind, text(task)),
        Verb::StatusQuery => (Kind::StatusQuery, String::new()),
    };
    (kind as i32, task)
}

pub(super) fn control_out(control: &Control) -> pb::Control {
    let (kind, task_id) = verb_out(&control.verb);
    let drift = control.drift.as_ref();
    pb::Control {
        id: control.id.to_string(),
        run_id: control.run.to_string(),
        kind,
        note: text(&control.note),
        task_id,
        by: control.by.to_string(),
        escalation_id: or_nothing(control.escalation.as_ref()),
        drift_id: or_nothing(drift.map(|drift| &drift.id)),
        drift_kind: drift
            .map(|drift| text(drift.kind.text()))
            .unwrap_or_default(),
        level: level_out(drift.map(|drift| drift.level)),
        deadline: control.deadline.map(moment_out),
        at: Some(moment_out(control.at)),
        steps: control.steps.iter().map(step_out).collect(),
    }
}

pub(super) fn step_out(step: &Step) -> pb::ControlStep {
    pb::ControlStep {
        stage: stage_out(step.stage),
        detail: text(&step.detail),
        at: Some(moment_out(step.at)),
    }
}

fn stage_out(stage: Stage) -> i32 {
    let stage = match stage {
        Stage::Issued => pb::Stage::Unspecified,
        Stage::Sent => pb::Stage::Sent,
        Stage::Acked => pb::Stage::Acked,
        Stage::Confirmed => pb::Stage::Confirmed,
        Stage::Failed => pb::Stage::Failed,
        Stage::Unsupported => pb::Stage::Unsupported,
        Stage::Unanswered => pb::Stage::Unanswered,
    };
    stage as i32
}

pub(super) fn escalation_out(escalation: &Escalation) -> pb::Escalation {
    let cause = cause_out(
        &escalation.cause,
        pb::escalation::Cause::Drift,
        pb::escalation::Cause::PausedBy,
    );
    let from = &escalation.from;
    pb::Escalation {
        id: escalation.id.to_string(),
        run_id: escalation.run.to_string(),
        tenant: from.tenant.as_str().to_owned(),
        source: from.source.number(),
        agent: text(&from.agent),
        session: text(&from.session),
        invocation: text(&from.invocation),
        owner: or_nothing(escalation.owner.as_ref()),
        cause: Some(cause),
        after: escalation.after.as_ref().map(undone_out),
        at: Some(moment_out(escalation.at)),
        abort_at: escalation.abort_at.map(moment_out),
        also: escalation.also.iter().map(held_by_out).collect(),
    }
}

fn held_by_out(cause: &Cause) -> pb::HeldBy {
    use pb::held_by::Cause as Out;
    pb::HeldBy {
        cause: Some(cause_out(cause, Out::Drift, Out::PausedBy)),
    }
}

fn cause_out<C>(
    cause: &Cause,
    drifted: impl FnOnce(pb::Drift) -> C,
    paused: impl FnOnce(pb::PausedBy) -> C,
) -> C {
    match cause {
        Cause::Drift(drift) => drifted(drift_out(drift)),
        Cause::Paused { by, note } => paused(pb::PausedBy {
            by: by.to_string(),
            note: text(note),
        }),
    }
}

fn undone_out(undone: &Undone) -> pb::Undone {
    pb::Undone {
        kind: verb_out(&undone.verb).0,
        by: undone.by.to_string(),
        detail: text(&undone.detail),
    }
}

pub(super) fn how_out(how: &How) -> pb::ClosedHow {
    use pb::closed_how::How as Out;
    let how = match how {
        How::Answered { verb, by, note } => Out::Answered(pb::Answered {
            kind: verb_out(verb).0,
            by: by.to_string(),
            note: text(note),
        }),
        How::Superseded { by } => Out::SupersededBy(by.to_string()),
        How::RunEnded(end) => Out::RunEnded(end.number()),
        How::WentOn => Out::WentOn(pb::WentOn {}),
    };
    pb::ClosedHow { how: Some(how) }
}

pub(super) fn closed_out(closed: &Closed) -> pb::Closed {
    pb::Closed {
        escalation: Some(escalation_out(&closed.escalation)),
        how: Some(how_out(&closed.how)),
        at: Some(moment_out(closed.at)),
        seq: closed.seq,
        control: closed.control.as_ref().map(control_out),
    }
}

// === Back ===

pub(super) fn drift(drift: pb::Drift) -> Read<Drift> {
    Ok(Drift {
        id: DriftId::parse(&drift.id)?,
        kind: Kind::of(&drift.kind),
        severity: Severity::of(&drift.severity),
        detail: drift.detail.into(),
        task: drift.task_id.into(),
        level: level(drift.level)?,
        from: (!drift.from_kind.is_empty()).then(|| Kind::of(&drift.from_kind)),
        at: moment("when it drifted", drift.at)?,
    })
}

pub(super) fn counts(counts: Vec<pb::DriftCount>) -> Counts {
    let count = |count: pb::DriftCount| {
        let condition = (Kind::of(&count.kind), count.task_id.into());
        let (criticals, escalated) = (count.criticals, count.escalated);
        (
            condition,
            Count {
                criticals,
                escalated,
            },
        )
    };
    Counts(counts.into_iter().map(count).collect())
}

/// Nothing said is no level.
pub(super) fn level(number: i32) -> Read<Option<Level>> {
    match number {
        0 => Ok(None),
        _ => word(number).map(Some),
    }
}

pub(super) fn pause(number: i32) -> Read<Option<Pause>> {
    match pb::Pause::try_from(number) {
        Ok(pb::Pause::Unspecified) => Ok(None),
        Ok(pb::Pause::Asked) => Ok(Some(Pause::Asked)),
        Ok(pb::Pause::Acked) => Ok(Some(Pause::Holds(Evidence::Acked))),
        Ok(pb::Pause::Inferred) => Ok(Some(Pause::Holds(Evidence::Inferred))),
        Err(_) => Err(unknown("the pause", number)),
    }
}

pub(super) fn verb(number: i32, task: String) -> Read<Verb> {
    use pb::ControlKind as Kind;
    match Kind::try_from(number) {
        Ok(Kind::Pause) => Ok(Verb::Pause),
        Ok(Kind::Resume) => Ok(Verb::Resume),
        Ok(Kind::Steer) => Ok(Verb::Steer),
        Ok(Kind::Cancel) => Ok(Verb::Cancel),
        Ok(Kind::Rewind) => Ok(Verb::Rewind { task: task.into() }),
        Ok(Kind::StatusQuery) => Ok(Verb::StatusQuery),
        Ok(Kind::Unspecified) | Err(_) => Err(unknown("what the run is to do", number)),
    }
}

pub(super) fn control(control: pb::Control) -> Read<Control> {
    let behind = said(&control.drift_id, DriftId::parse)?;
    let level = level(control.level)?;
    let behind = behind.map(|id| {
        let kind = Kind::of(&control.drift_kind);
        let level = level.ok_or_else(|| missing("the level of its drift"))?;
        Ok::<_, Garbled>(Behind { id, kind, level })
    });
    let steps = control.steps.into_iter().map(step);
    Ok(Control {
        id: ControlId::parse(&control.id)?,
        run: control.run_id.parse()?,
        verb: verb(control.kind, control.task_id)?,
        note: control.note.into(),
        by: Name::written(&control.by)?,
        escalation: said(&control.escalation_id, str::parse)?,
        drift: behind.transpose()?,
        deadline: maybe_moment("until when it is waited for", control.deadline)?,
        at: moment("when it was given", control.at)?,
        steps: steps.collect::<Read<_>>()?,
    })
}

pub(super) fn step(step: pb::ControlStep) -> Read<Step> {
    let stage = match pb::Stage::try_from(step.stage) {
        Ok(pb::Stage::Sent) => Stage::Sent,
        Ok(pb::Stage::Acked) => Stage::Acked,
        Ok(pb::Stage::Confirmed) => Stage::Confirmed,
        Ok(pb::Stage::Failed) => Stage::Failed,
        Ok(pb::Stage::Unsupported) => Stage::Unsupported,
        Ok(pb::Stage::Unanswered) => Stage::Unanswered,
        Ok(pb::Stage::Unspecified) | Err(_) => {
            return Err(unknown("how far it came", step.stage));
        }
    };
    Ok(Step {
        stage,
        detail: step.detail.into(),
        at: moment("when it came so far", step.at)?,
    })
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn escalation(escalation: pb::Escalation) -> Read<Escalation> {
    use pb::escalation::Cause as In;
    let cause = escalation
        .cause
        .ok_or_else(|| missing("what holds the run"))?;
    Ok(Escalation {
        id: escalation.id.parse()?,
        run: escalation.run_id.parse()?,
        from: RunKey {
            tenant: Tenant::parse(&escalation.tenant)?,
            source: word(escalation.source)?,
            agent: escalation.agent.into(),
            session: escalation.session.into(),
            invocation: escalation.invocation.into(),
        },
        owner: said(&escalation.owner, Name::written)?,
        cause: match cause {
            In::Drift(behind) => Cause::Drift(drift(behind)?),
            In::PausedBy(by) => paused(by)?,
        },
        also: escalation
            .also
            .into_iter()
            .map(held_by)
            .collect::<Read<_>>()?,
        after: escalation.after.map(undone).transpose()?,
        at: moment("when it was raised", escalation.at)?,
        abort_at: maybe_moment("when the run is aborted", escalation.abort_at)?,
    })
}

fn held_by(held: pb::HeldBy) -> Read<Cause> {
    use pb::held_by::Cause as In;
    match held.cause.ok_or_else(|| missing("what held the run"))? {
        In::Drift(behind) => drift(behind).map(Cause::Drift),
        In::PausedBy(by) => paused(by),
    }
}

fn paused(paused: pb::PausedBy) -> Read<Cause> {
    Ok(Cause::Paused {
        by: Name::written(&paused.by)?,
        note: paused.note.into(),
    })
}

fn undone(undone: pb::Undone) -> Read<Undone> {
    Ok(Undone {
        verb: verb(undone.kind, String::new())?,
        by: Name::written(&undone.by)?,
        detail: undone.detail.into(),
    })
}

pub(super) fn how(how: Option<pb::ClosedHow>) -> Read<How> {
    use pb::closed_how::How as In;
    let how = how.and_then(|how| how.how);
    match how.ok_or_else(|| missing("how it ended"))? {
        In::Answered(answered) => Ok(How::Answered {
            verb: verb(answered.kind, String::new())?,
            by: Name::written(&answered.by)?,
            note: answered.note.into(),
        }),
        In::SupersededBy(by) => Ok(How::Superseded { by: by.parse()? }),
        In::RunEnded(end) => word(end).map(How::RunEnded),
        In::WentOn(pb::WentOn {}) => Ok(How::WentOn),
    }
}

/// # Errors
/// [`Garbled`] that says what cannot be read.
pub fn closed(closed: pb::Closed) -> Read<Closed> {
    let was = closed.escalation.ok_or_else(|| missing("the escalation"))?;
    Ok(Closed {
        escalation: Arc::new(escalation(was)?),
        how: how(closed.how)?,
        at: moment("when it ended", closed.at)?,
        seq: closed.seq,
        control: closed.control.map(control).transpose()?,
    })
}
