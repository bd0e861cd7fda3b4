//! Asking: what may be filed, and what filing again means.

use std::sync::Arc;

use crate::{
    approval::{Approval, Filing, Pending, Why, digest_of},
    command::File,
    digest::Sha256,
    event::Event,
    json, limits,
    refusal::Refusal,
    run::{Run, TaskState},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::Principal,
};

use super::{
    Decided,
    orders::stopping,
    runs::{own_run, within, works},
};

pub(super) fn file(state: &State, by: &Principal, filed: &File, now: Timestamp) -> Decided {
    readable(&filed.filing)?;
    fits(&filed.filing)?;
    let run = own_run(state, by, filed.run);
    match (filed_before(state, by, filed), run) {
        (_, Err(refusal @ Refusal::NotYours(_))) => Err(refusal),
        (Some(known), _) => again(state, by, filed, known),
        (None, run) => {
            let run = run?;
            match stopping(state, run) {
                Some(refusal) => Err(refusal),
                None => file_in(state, by, run, filed, now),
            }
        }
    }
}

/// The first filing under a key is the one that counts (DESIGN §4.1.3), also when its run has ended or is forgotten.
fn again(state: &State, by: &Principal, filed: &File, known: &Approval) -> Decided {
    works(by)?;
    let filing = &filed.filing;
    let digest = digest_of(
        &known.from,
        &filing.subject,
        &filing.title,
        filing.asks,
        &filing.labels,
        &filing.detail,
    );
    let run = state.run(filed.run);
    let same_run = known.run == filed.run || run.is_some_and(|run| run.key == known.from);
    if digest == known.digest && same_run && known.filed_by == *by.name() {
        return Ok(vec![]);
    }
    Err(Refusal::KeyReused("this idempotency key"))
}

pub(super) fn file_in(
    state: &State,
    by: &Principal,
    run: &Run,
    filed: &File,
    now: Timestamp,
) -> Decided {
    let filing = &filed.filing;
    let approval = asked(by, run, filed, now);
    if run.state.is_over() {
        return Err(Refusal::RunOver);
    }
    let open = state.latest(run.id, &filing.target);
    match open.and_then(|id| state.pending(id)) {
        Some(pending) if pending.approval.digest == approval.digest => join(pending, filing),
        Some(pending) => {
            let why = Why::Superseded { by: approval.id };
            let mut events = vec![Event::ApprovalWithdrawn {
                id: pending.approval.id,
                why,
            }];
            events.extend(request(run, filing, approval));
            Ok(events)
        }
        None => Ok(request(run, filing, approval)),
    }
}

pub(super) fn filed_before<'a>(
    state: &'a State,
    by: &Principal,
    filed: &'a File,
) -> Option<&'a Arc<Approval>> {
    let key = filed.filing.key.as_ref()?;
    let known = state.filed_under(by.tenant(), key);
    let known = known.and_then(|id| state.approval(id));
    known.or_else(|| filed.past.as_ref().map(|past| &past.approval))
}

fn join(pending: &Pending, filing: &Filing) -> Decided {
    if pending.joined.len() >= limits::JOINED_COUNT {
        return Err(Refusal::NotNow(format!(
            "it was filed under {} keys already: use one of them",
            limits::JOINED_COUNT
        )));
    }
    let id = pending.approval.id;
    let key = filing.key.clone().into_iter();
    Ok(key.map(|key| Event::ApprovalJoined { id, key }).collect())
}

/// The task is recorded as blocked before anybody waits (GF-12, GF-24).
pub(super) fn request(run: &Run, filing: &Filing, approval: Approval) -> Vec<Event> {
    let task = filing.subject.task();
    let blocked = TaskState::Blocked {
        blocker: "awaiting_approval".into(),
        needed: filing.detail.prompt.cut(limits::TASK_KEPT),
    };
    let stands = run.tasks.get(task).map(|task| &task.state);
    let already = matches!(stands, Some(TaskState::Blocked { .. }));
    let has_room = stands.is_some() || run.tasks.len() < limits::TASKS_COUNT;
    let is_task = filing.subject.tool().is_none() && !task.is_empty() && has_room;
    let block = Event::TaskReported {
        run: run.id,
        task: task.clone(),
        title: Untrusted::default(),
        state: blocked,
        detail: Untrusted::default(),
    };
    let requested = Event::ApprovalRequested {
        approval: Arc::new(approval),
    };
    let block = (is_task && !already).then_some(block);
    block.into_iter().chain([requested]).collect()
}

pub(super) fn asked(by: &Principal, run: &Run, filed: &File, now: Timestamp) -> Approval {
    let filing = &filed.filing;
    let step = if filing.step.is_empty() {
        &filing.target
    } else {
        &filing.step
    };
    Approval {
        id: filed.id,
        run: run.id,
        from: run.key.clone(),
        owner: run.owner.clone(),
        filed_by: by.name().clone(),
        filed_at: now,
        key: filing.key.clone(),
        target: filing.target.clone(),
        step: step.clone(),
        subject: filing.subject.clone(),
        title: filing.title.clone(),
        asks: filing.asks,
        labels: filing.labels.clone(),
        digest: digest_of(
            &run.key,
            &filing.subject,
            &filing.title,
            filing.asks,
            &filing.labels,
            &filing.detail,
        ),
        args_sha256: filing.detail.args_sha256(),
        detail_sha256: Sha256::of(filing.detail.to_bytes()),
        fields: u32::try_from(filing.detail.form.fields().len()).unwrap_or(u32::MAX),
        deadline: filing.deadline.map(|span| now.plus(span)),
        on_deadline: filing.on_deadline,
        hold: filing.hold,
        risk: filing.risk,
        votes: filing.votes.max(1),
    }
}

pub(super) fn readable(filing: &Filing) -> Result<(), Refusal> {
    if filing.target.is_empty() {
        return Err(Refusal::Invalid(
            "an approval names its target: the id of the task or tool call".into(),
        ));
    }
    if filing.title.is_empty() {
        return Err(Refusal::Invalid("an approval has a title".into()));
    }
    if filing.subject.tool().is_some_and(Untrusted::is_empty) {
        return Err(Refusal::Invalid("a tool has a name".into()));
    }
    if let Some(args) = &filing.detail.args {
        json::check_args(args.raw().as_bytes())
            .map_err(|error| Refusal::Invalid(error.to_string()))?;
    }
    if filing.votes > limits::VOTES {
        return Err(Refusal::Invalid(format!(
            "a question takes at most {} people",
            limits::VOTES
        )));
    }
    if let Some(span) = filing.deadline
        && !(limits::DEADLINE_MIN..=limits::DEADLINE_MAX).contains(&span)
    {
        return Err(Refusal::Invalid(
            "a deadline is between 1 minute and 30 days".into(),
        ));
    }
    Ok(())
}

pub(super) fn fits(filing: &Filing) -> Result<(), Refusal> {
    let too_large = |what, bytes, limit| Err(Refusal::TooLarge { what, bytes, limit });
    within("the title", &filing.title, limits::TITLE)?;
    within("the target", &filing.target, limits::NAME)?;
    within("the step", &filing.step, limits::NAME)?;
    within("the task's id", filing.subject.task(), limits::NAME)?;
    if let Some(tool) = filing.subject.tool() {
        within("the tool's name", tool, limits::NAME)?;
    }
    if filing.labels.len() > limits::LABELS_COUNT {
        return Err(Refusal::Invalid(format!(
            "an approval has at most {} labels",
            limits::LABELS_COUNT
        )));
    }
    for (key, value) in &filing.labels {
        within("a label", key, limits::TITLE)?;
        within("a label's value", value, limits::TITLE)?;
    }
    if filing.detail.bytes() > limits::DETAIL {
        return too_large("the whole question", filing.detail.bytes(), limits::DETAIL);
    }
    let form = serde_json::to_vec(&filing.detail.form)
        .unwrap_or_default()
        .len();
    if form > limits::FORM {
        return too_large("the form", form, limits::FORM);
    }
    Ok(())
}
