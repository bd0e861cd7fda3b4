//! The rules: which wishes become facts (DESIGN §4.1).
//!
//! ```text
//! Pending --Decide(Approve)--> Granted --Applied--> applied, once
//! Pending --Decide(Reject)---> Rejected --Applied--> applied, once
//! Pending --deadline---------> Expired      (or stays Pending, where it says StayOpen)
//! Pending --withdraw | run ended | superseded | answered elsewhere | dismissed--> Withdrawn
//! every other pair is a Refusal
//! ```

use std::sync::Arc;

use crate::{
    approval::{
        Applied, AppliedResult, Approval, ApprovalId, Attempt, Decision, Delivery, DeliveryState,
        Filing, OnDeadline, Outcome, Pending, Settled, Verdict, Why, digest_of,
    },
    command::{Command, Decide, Ending, File, Found, Need, Observation, OpenRun, Wish},
    digest::Sha256,
    event::Event,
    json, limits,
    names::{ControlId, WaitId},
    refusal::Refusal,
    run::{End, Plan, Presence, Run, RunId, RunState, Source, TaskState},
    state::State,
    text::Untrusted,
    time::Timestamp,
    who::{Principal, Verb, may},
};

type Decided = Result<Vec<Event>, Refusal>;

/// Judges a wish. Looks, and changes nothing: what is to change comes back as events, and no
/// events at all means that it has been done already.
///
/// # Errors
/// The first [`Refusal`] that applies, in the order of its variants.
pub fn decide(state: &State, command: &Command, now: Timestamp) -> Decided {
    let by = &command.by;
    match &command.wish {
        Wish::OpenRun(open) => open_run(state, by, open, now),
        Wish::EndRun { run, how, reason } => end_run(state, by, *run, *how, reason),
        Wish::ReportTask {
            run,
            task,
            title,
            state: to,
            detail,
        } => report_task(state, by, *run, [task, title, detail], to),
        Wish::ReportPlan { run, plan, cause } => report_plan(state, by, *run, plan, cause),
        Wish::Say { run, text } => say(state, by, *run, text),
        Wish::Attend { run, here } => attend(state, by, *run, *here, now),
        Wish::File(filed) => file(state, by, filed, now),
        Wish::Withdraw { id, reason, past } => withdraw(state, by, *id, reason, past.as_deref()),
        Wish::GiveUp { id, wait } => give_up(state, by, *id, wait),
        Wish::Decide(decision) => decide_approval(state, by, decision, now),
        Wish::Extend { id, span, past } => extend(state, by, *id, *span, past.as_deref(), now),
        Wish::Dismiss { id, note, past } => dismiss(state, by, *id, note, past.as_deref()),
        Wish::ReportApplied {
            id,
            result,
            detail,
            past,
        } => report_applied(state, by, *id, *result, detail, past.as_deref(), now),
        Wish::Observe(Observation::Asked(filed)) => observe_asked(state, by, filed, now),
        Wish::Observe(Observation::Resolved {
            run,
            target,
            granted,
            detail,
        }) => observe_resolved(state, by, *run, target, *granted, detail, now),
        Wish::Observe(Observation::Sent { id, control }) => {
            observe_sent(state, by, *id, control, now)
        }
        Wish::Observe(Observation::Acked {
            id,
            control,
            success,
            detail,
        }) => observe_acked(state, by, *id, control, *success, detail, now),
    }
}

/// What passes by itself: deadlines that lie before `now`, at most `limit` of them. Settled before
/// a command is judged, so that a late answer is refused without any timer.
pub fn overdue(state: &State, now: Timestamp, limit: usize) -> Vec<Event> {
    let due: Vec<&Pending> = state.overdue(now).take(limit).map(AsRef::as_ref).collect();
    let mut events = Vec::new();
    for (n, pending) in due.iter().enumerate() {
        events.extend(pass(state, &due[..n], pending));
    }
    events
}

/// What passes with `pending`, after `earlier` ones have passed in the same breath.
fn pass(state: &State, earlier: &[&Pending], pending: &Pending) -> Vec<Event> {
    let id = pending.approval.id;
    match pending.approval.on_deadline {
        OnDeadline::StayOpen => vec![Event::DeadlinePassed { id }],
        OnDeadline::Expire => {
            let ended = |other: &&&Pending| {
                let other = &other.approval;
                other.run == pending.approval.run && other.on_deadline == OnDeadline::Expire
            };
            let event = Event::ApprovalExpired { id };
            let foregone = earlier.iter().filter(ended).count();
            with_its_run(state, pending, event, foregone)
        }
    }
}

/// What the record says of somebody who tried what they may not: once for each person and verb.
pub fn attempted(
    state: &State,
    command: &Command,
    refusal: &Refusal,
    now: Timestamp,
) -> Option<Event> {
    let (Refusal::NotYours(_), Some((id, verb))) = (refusal, tried(&command.wish)) else {
        return None;
    };
    let pending = state.pending(id)?;
    let by = command.by.name();
    let known = |attempt: &Attempt| attempt.by == *by && attempt.verb == verb;
    let full = pending.attempts.len() >= limits::ATTEMPTS_COUNT;
    if full || pending.attempts.iter().any(known) {
        return None;
    }
    let attempt = Attempt {
        by: by.clone(),
        verb: verb.into(),
        at: now,
    };
    Some(Event::AttemptRefused { id, attempt })
}

fn tried(wish: &Wish) -> Option<(ApprovalId, &'static str)> {
    match wish {
        Wish::Decide(decide) => Some((decide.id, decide.verdict.word())),
        Wish::Extend { id, .. } => Some((*id, "extend")),
        Wish::Dismiss { id, .. } => Some((*id, "dismiss")),
        _ => None,
    }
}

/// What a command is about, once it was done: what its caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing more to say.
    Done,
    /// This run.
    Run(RunId),
    /// This approval.
    Approval(ApprovalId),
}

/// What to tell the caller of a command whose events are folded into `state`.
pub fn reply(state: &State, command: &Command) -> Reply {
    match &command.wish {
        Wish::OpenRun(open) => state
            .run_by_key(&open.key)
            .map_or(Reply::Done, |run| Reply::Run(run.id)),
        Wish::File(filed) | Wish::Observe(Observation::Asked(filed)) => {
            filed_as(state, &command.by, filed).map_or(Reply::Done, Reply::Approval)
        }
        Wish::Decide(decide) => Reply::Approval(decide.id),
        _ => Reply::Done,
    }
}

fn filed_as(state: &State, by: &Principal, filed: &File) -> Option<ApprovalId> {
    let key = filed.filing.key.as_ref();
    let by_key = key.and_then(|key| state.filed_under(by.tenant(), key));
    let past = filed.past.as_ref().map(|past| past.approval.id);
    by_key
        .or(past)
        .or_else(|| state.latest(filed.run, &filed.filing.target))
}

/// Before a command is judged: what of it lies in the log, and not in State.
impl Command {
    /// What the owning thread has to read.
    pub fn needs(&self, state: &State) -> Vec<Need> {
        let gone = |id: ApprovalId| state.has_forgotten() && state.approval(id).is_none();
        match &self.wish {
            Wish::Decide(decide) => self.needs_to_decide(state, decide),
            Wish::File(file) => self.needs_to_file(state, file),
            Wish::Observe(Observation::Asked(file)) => self.needs_to_file(state, file),
            Wish::Withdraw { id, .. }
            | Wish::Extend { id, .. }
            | Wish::Dismiss { id, .. }
            | Wish::ReportApplied { id, .. }
                if gone(*id) =>
            {
                vec![Need::Past(*id)]
            }
            _ => Vec::new(),
        }
    }

    fn needs_to_decide(&self, state: &State, decide: &Decide) -> Vec<Need> {
        let tenant = self.by.tenant();
        let mut needs = Vec::new();
        match state.pending(decide.id) {
            Some(pending) if pending.approval.fields > 0 => needs.push(Need::Form(decide.id)),
            Some(_) => {}
            None if state.has_forgotten() && state.settled(decide.id).is_none() => {
                needs.push(Need::Past(decide.id));
            }
            None => {}
        }
        if state.has_forgotten() && state.decided_by(tenant, &decide.decision).is_none() {
            needs.push(Need::Decision(tenant.clone(), decide.decision.clone()));
        }
        needs
    }

    fn needs_to_file(&self, state: &State, file: &File) -> Vec<Need> {
        let tenant = self.by.tenant();
        match &file.filing.key {
            Some(key) if state.has_forgotten() && state.filed_under(tenant, key).is_none() => {
                vec![Need::Key(tenant.clone(), key.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// What the log knows of the approval that this is about: its scope is that of the events,
    /// where State has forgotten it.
    pub fn past(&self) -> Option<&Arc<Settled>> {
        match &self.wish {
            Wish::Decide(decide) => decide.past.as_ref(),
            Wish::File(file) | Wish::Observe(Observation::Asked(file)) => file.past.as_ref(),
            Wish::Withdraw { past, .. }
            | Wish::Extend { past, .. }
            | Wish::Dismiss { past, .. }
            | Wish::ReportApplied { past, .. } => past.as_ref(),
            Wish::OpenRun(_)
            | Wish::EndRun { .. }
            | Wish::ReportTask { .. }
            | Wish::ReportPlan { .. }
            | Wish::Say { .. }
            | Wish::Attend { .. }
            | Wish::GiveUp { .. }
            | Wish::Observe(_) => None,
        }
    }

    /// Takes in what the log said.
    pub fn take(&mut self, found: Found) {
        match (&mut self.wish, found) {
            (Wish::Decide(decide), Found::Form(form)) => decide.form = form,
            (Wish::Decide(decide), Found::Decision(id)) => decide.decided_before = Some(id),
            (Wish::Decide(decide), Found::Past(settled)) => decide.past = Some(settled),
            (Wish::File(file) | Wish::Observe(Observation::Asked(file)), Found::Past(settled)) => {
                file.past = Some(settled);
            }
            (
                Wish::Withdraw { past, .. }
                | Wish::Extend { past, .. }
                | Wish::Dismiss { past, .. }
                | Wish::ReportApplied { past, .. },
                Found::Past(settled),
            ) => *past = Some(settled),
            _ => {}
        }
    }
}

// === Runs ===

fn open_run(state: &State, by: &Principal, open: &OpenRun, now: Timestamp) -> Decided {
    let key = &open.key;
    for name in [
        &key.agent,
        &key.session,
        &key.invocation,
        &open.project,
        &open.thread,
        &open.origin,
    ] {
        within("a name of a run", name, limits::NAME)?;
    }
    within("the context", &open.context, limits::CONTEXT)?;
    if key.agent.is_empty() || key.invocation.is_empty() {
        return Err(Refusal::Invalid("a run names its agent and itself".into()));
    }
    works(by)?;
    let known = state.run_by_key(key);
    if let Some(run) = known.filter(|run| !run.state.is_over()) {
        return come_back(run, by, now);
    }
    if let Some(run) = known.filter(|_| !key.source.is_foreign()) {
        belongs(run, by)?;
        return Err(Refusal::RunOver);
    }
    let detached = key.source == Source::Cli;
    let run = Run {
        id: open.id,
        key: key.clone(),
        project: open.project.clone(),
        thread: open.thread.clone(),
        origin: open.origin.clone(),
        owner: if detached {
            Some(by.name().clone())
        } else {
            open.owner.clone()
        },
        opened_by: by.name().clone(),
        parent: open.parent,
        can_resume: open.can_resume,
        opened_at: now,
        state: RunState::Running,
        presence: if detached {
            Presence::Detached
        } else {
            Presence::Attached
        },
        tasks: Default::default(),
        plan: None,
        open: Default::default(),
    };
    Ok(vec![Event::RunOpened {
        run: Box::new(run),
        context: open.context.clone(),
    }])
}

/// The agent of a run is there again; answers that it missed are still there.
fn come_back(run: &Run, by: &Principal, now: Timestamp) -> Decided {
    belongs(run, by)?;
    Ok(presence(run, true, now).into_iter().collect())
}

fn presence(run: &Run, here: bool, now: Timestamp) -> Option<Event> {
    let parked = matches!(run.state, RunState::Parked(_));
    let presence = match (run.presence, here) {
        (Presence::Attached, true) if parked => Presence::Attached,
        (Presence::Away { .. }, true) => Presence::Attached,
        // A parked run has no agent by design.
        (Presence::Attached, false) if !parked => Presence::Away { since: now },
        _ => return None,
    };
    Some(Event::PresenceChanged {
        run: run.id,
        presence,
    })
}

fn attend(state: &State, by: &Principal, id: RunId, here: bool, now: Timestamp) -> Decided {
    let run = live_run(state, by, id)?;
    Ok(presence(run, here, now).into_iter().collect())
}

fn end_run(state: &State, by: &Principal, id: RunId, how: Ending, reason: &Untrusted) -> Decided {
    within("the reason", reason, limits::SAID)?;
    let run = own_run(state, by, id)?;
    match (how, run.state) {
        (Ending::Over(end), RunState::Ended(already)) if end == already => Ok(vec![]),
        (_, RunState::Ended(_)) => Err(Refusal::RunOver),
        (Ending::Paused(interrupt), RunState::Parked(already)) if interrupt == already => {
            Ok(vec![])
        }
        (Ending::Paused(interrupt), _) => Ok(vec![Event::RunParked { run: id, interrupt }]),
        (Ending::Over(end), _) => Ok(over(run, end, reason)),
    }
}

/// The end of a run takes back what it still asks (DESIGN §4.1.11).
fn over(run: &Run, end: End, reason: &Untrusted) -> Vec<Event> {
    let withdrawn = run.open.iter().map(|id| Event::ApprovalWithdrawn {
        id: *id,
        why: Why::RunEnded(end),
    });
    let ended = Event::RunEnded {
        run: run.id,
        end,
        reason: reason.clone(),
    };
    withdrawn.chain([ended]).collect()
}

fn report_task(
    state: &State,
    by: &Principal,
    id: RunId,
    [task, title, detail]: [&Untrusted; 3],
    to: &TaskState,
) -> Decided {
    within("the task's id", task, limits::NAME)?;
    within("the task's title", title, limits::NAME)?;
    within("the task's detail", detail, limits::SAID)?;
    let run = live_run(state, by, id)?;
    room_for_tasks(run, [task])?;
    let known = run.tasks.get(task);
    let same = |known: &crate::run::Task| {
        known.state == *to && known.detail == *detail && (title.is_empty() || known.title == *title)
    };
    if known.is_some_and(same) {
        return Ok(vec![]);
    }
    Ok(vec![Event::TaskReported {
        run: id,
        task: task.clone(),
        title: title.clone(),
        state: to.clone(),
        detail: detail.clone(),
    }])
}

fn report_plan(
    state: &State,
    by: &Principal,
    id: RunId,
    plan: &Plan,
    cause: &Untrusted,
) -> Decided {
    within("the plan's summary", &plan.summary, limits::SAID)?;
    within("the cause", cause, limits::NAME)?;
    for task in &plan.tasks {
        within("a task's id", &task.id, limits::NAME)?;
        within("a task's title", &task.title, limits::NAME)?;
    }
    let run = live_run(state, by, id)?;
    room_for_tasks(run, plan.tasks.iter().map(|task| &task.id))?;
    if run.plan.as_ref() == Some(plan) {
        return Ok(vec![]);
    }
    Ok(vec![Event::PlanReported {
        run: id,
        plan: plan.clone(),
        cause: cause.clone(),
    }])
}

fn room_for_tasks<'a>(
    run: &Run,
    tasks: impl IntoIterator<Item = &'a Untrusted>,
) -> Result<(), Refusal> {
    let unknown = tasks.into_iter().filter(|id| !run.tasks.contains_key(id));
    if run.tasks.len() + unknown.count() > limits::TASKS_COUNT {
        return Err(Refusal::Invalid(format!(
            "a run has at most {} tasks",
            limits::TASKS_COUNT
        )));
    }
    Ok(())
}

fn say(state: &State, by: &Principal, id: RunId, text: &Untrusted) -> Decided {
    within("what the run says", text, limits::SAID)?;
    live_run(state, by, id)?;
    let text = text.clone();
    Ok(vec![Event::Said { run: id, text }])
}

fn works(by: &Principal) -> Result<(), Refusal> {
    may(by, Verb::Work, None, None).map(|_| ())
}

fn belongs(run: &Run, by: &Principal) -> Result<(), Refusal> {
    works(by)?;
    if run.opened_by != *by.name() {
        return Err(Refusal::NotYours("another agent opened this run"));
    }
    Ok(())
}

fn own_run<'a>(state: &'a State, by: &Principal, id: RunId) -> Result<&'a Arc<Run>, Refusal> {
    let run = state.run(id).filter(|run| run.key.tenant == *by.tenant());
    let run = run.ok_or(Refusal::NotFound("run"))?;
    belongs(run, by)?;
    Ok(run)
}

fn live_run<'a>(state: &'a State, by: &Principal, id: RunId) -> Result<&'a Arc<Run>, Refusal> {
    let run = own_run(state, by, id)?;
    if run.state.is_over() {
        return Err(Refusal::RunOver);
    }
    Ok(run)
}

fn within(what: &'static str, text: &Untrusted, limit: usize) -> Result<(), Refusal> {
    let bytes = text.raw().len();
    if bytes > limit {
        return Err(Refusal::TooLarge { what, bytes, limit });
    }
    Ok(())
}

// === Filing ===

fn file(state: &State, by: &Principal, filed: &File, now: Timestamp) -> Decided {
    readable(&filed.filing)?;
    fits(&filed.filing)?;
    let run = own_run(state, by, filed.run)?;
    file_in(state, by, run, filed, now)
}

fn file_in(state: &State, by: &Principal, run: &Run, filed: &File, now: Timestamp) -> Decided {
    let filing = &filed.filing;
    let approval = asked(by, run, filed, now);
    if let Some(known) = filed_before(state, by, filed) {
        // The first filing under a key is the one that counts (DESIGN §4.1.3).
        return if known.digest == approval.digest && known.run == run.id {
            Ok(vec![])
        } else {
            Err(Refusal::KeyReused("this idempotency key"))
        };
    }
    if run.state.is_over() {
        return Err(Refusal::RunOver);
    }
    let open = state.latest(run.id, &filing.target);
    match open.and_then(|id| state.pending(id)) {
        Some(pending) if pending.approval.digest == approval.digest => Ok(join(pending, filing)),
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

fn filed_before<'a>(
    state: &'a State,
    by: &Principal,
    filed: &'a File,
) -> Option<&'a Arc<Approval>> {
    let key = filed.filing.key.as_ref()?;
    let known = state.filed_under(by.tenant(), key);
    let known = known.and_then(|id| state.approval(id));
    known.or_else(|| filed.past.as_ref().map(|past| &past.approval))
}

fn join(pending: &Pending, filing: &Filing) -> Vec<Event> {
    let id = pending.approval.id;
    let key = filing.key.clone().into_iter();
    key.map(|key| Event::ApprovalJoined { id, key }).collect()
}

/// The task is recorded as blocked before anybody waits (GF-12, GF-24).
fn request(run: &Run, filing: &Filing, approval: Approval) -> Vec<Event> {
    let task = filing.subject.task();
    let blocked = TaskState::Blocked {
        blocker: "awaiting_approval".into(),
        needed: cut(&filing.detail.prompt, limits::NEEDED),
    };
    let stands = run.tasks.get(task).map(|task| &task.state);
    let already = matches!(stands, Some(TaskState::Blocked { .. }));
    let is_task = filing.subject.tool().is_none() && !task.is_empty();
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

fn asked(by: &Principal, run: &Run, filed: &File, now: Timestamp) -> Approval {
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
    }
}

fn readable(filing: &Filing) -> Result<(), Refusal> {
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
    if let Some(span) = filing.deadline
        && !(limits::DEADLINE_MIN..=limits::DEADLINE_MAX).contains(&span)
    {
        return Err(Refusal::Invalid(
            "a deadline is between 1 minute and 30 days".into(),
        ));
    }
    Ok(())
}

fn fits(filing: &Filing) -> Result<(), Refusal> {
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

/// The beginning of a text, at most `bytes` of it, and a sign that there is more.
pub fn cut(text: &Untrusted, bytes: usize) -> Untrusted {
    let raw = text.raw();
    if raw.len() <= bytes {
        return text.clone();
    }
    let sign = "…";
    let kept = &raw[..raw.floor_char_boundary(bytes.saturating_sub(sign.len()))];
    Untrusted::new(format!("{kept}{sign}"))
}

// === Asked questions ===

/// A question as `by` may know of it: another tenant's does not exist.
enum Stands<'a> {
    Open(&'a Pending),
    Ended(&'a Settled),
}

fn look<'a>(
    state: &'a State,
    by: &Principal,
    id: ApprovalId,
    past: Option<&'a Settled>,
) -> Result<Stands<'a>, Refusal> {
    let pending = state.pending(id).map(|pending| Stands::Open(pending));
    let settled = || state.settled(id).map(|settled| Stands::Ended(settled));
    let past = past
        .filter(|past| past.approval.id == id)
        .map(Stands::Ended);
    let stands = pending.or_else(settled).or(past);
    stands
        .filter(|stands| stands.approval().from.tenant == *by.tenant())
        .ok_or(Refusal::NotFound("approval"))
}

impl<'a> Stands<'a> {
    fn approval(&self) -> &'a Arc<Approval> {
        match self {
            Self::Open(pending) => &pending.approval,
            Self::Ended(settled) => &settled.approval,
        }
    }

    fn open(self) -> Result<&'a Pending, Refusal> {
        match self {
            Self::Open(pending) => Ok(pending),
            Self::Ended(settled) => Err(ended(settled)),
        }
    }
}

fn ended(settled: &Settled) -> Refusal {
    match &settled.outcome {
        Outcome::Expired => Refusal::Expired { at: settled.at },
        Outcome::Granted(_) | Outcome::Rejected(_) | Outcome::Withdrawn(_) => {
            let decider = settled
                .decision()
                .map(|decision| decision.decider.by.clone());
            let dismissed = match &settled.outcome {
                Outcome::Withdrawn(Why::Dismissed { by, .. }) => Some(by.clone()),
                _ => None,
            };
            Refusal::AlreadySettled {
                id: settled.approval.id,
                outcome: settled.outcome.word().into(),
                by: decider.or(dismissed),
                at: settled.at,
            }
        }
    }
}

fn decide_approval(state: &State, by: &Principal, wish: &Decide, now: Timestamp) -> Decided {
    within("the note", &wish.note, limits::NOTE)?;
    answers_fit(wish)?;
    let stands = look(state, by, wish.id, wish.past.as_deref())?;
    let approval = stands.approval();
    let decider = may(
        by,
        Verb::Decide(approval.asks),
        approval.owner.as_ref(),
        wish.on_behalf_of.as_ref(),
    )?;
    let pending = match stands {
        Stands::Open(pending) => pending,
        Stands::Ended(settled) if is_retry(settled, by, wish) => return Ok(vec![]),
        Stands::Ended(settled) => return Err(ended(settled)),
    };
    if is_late(pending, now) {
        let at = pending.deadline.unwrap_or(now);
        return Err(Refusal::Expired { at });
    }
    if wish.digest != approval.digest {
        let now = approval.digest;
        return Err(Refusal::Stale { now });
    }
    let known = state.decided_by(by.tenant(), &wish.decision);
    if known.or(wish.decided_before).is_some() {
        return Err(Refusal::KeyReused("this decision id"));
    }
    reachable(state, approval)?;
    let answers = wish.form.read(&wish.answers).map_err(Refusal::Answers)?;
    let decision = Decision {
        id: wish.decision.clone(),
        decider,
        answers,
        note: wish.note.clone(),
        seen: wish.seen,
    };
    let id = wish.id;
    let event = match wish.verdict {
        Verdict::Approve => Event::ApprovalGranted { id, decision },
        Verdict::Reject => Event::ApprovalRejected { id, decision },
    };
    Ok(with_its_run(state, pending, event, 0))
}

/// The same decision of the same person, sent again: answered with the first result, for ever.
fn is_retry(settled: &Settled, by: &Principal, wish: &Decide) -> bool {
    settled
        .decision()
        .is_some_and(|first| first.id == wish.decision && first.decider.by == *by.name())
}

fn is_late(pending: &Pending, now: Timestamp) -> bool {
    let ends = pending.approval.on_deadline == OnDeadline::Expire;
    ends && pending.deadline.is_some_and(|deadline| deadline < now)
}

fn answers_fit(wish: &Decide) -> Result<(), Refusal> {
    let bytes = wish
        .answers
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > limits::ANSWERS {
        let (what, limit) = ("the filled-in form", limits::ANSWERS);
        return Err(Refusal::TooLarge { what, bytes, limit });
    }
    Ok(())
}

/// A foreign agent that is gone does not come back (`wire/goldfive.md` §0.6).
fn reachable(state: &State, approval: &Approval) -> Result<(), Refusal> {
    let foreign = approval.from.source.is_foreign();
    let run = state.run(approval.run);
    let away = run.is_some_and(|run| matches!(run.presence, Presence::Away { .. }));
    if foreign && away {
        return Err(Refusal::Unreachable);
    }
    Ok(())
}

/// A run of the CLI is one question: it ends with it, where no other waits but the
/// `foregone`, which end in the same breath.
fn with_its_run(state: &State, pending: &Pending, event: Event, foregone: usize) -> Vec<Event> {
    let approval = &pending.approval;
    let run = state.run(approval.run);
    let last = run.is_some_and(|run| run.open.len() == foregone + 1);
    let ends = last && approval.from.source == Source::Cli;
    let end = Event::RunEnded {
        run: approval.run,
        end: End::Completed,
        reason: Untrusted::default(),
    };
    std::iter::once(event).chain(ends.then_some(end)).collect()
}

fn withdraw(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    reason: &Untrusted,
    past: Option<&Settled>,
) -> Decided {
    within("the reason", reason, limits::SAID)?;
    let stands = look(state, by, id, past)?;
    files(stands.approval(), by)?;
    let pending = stands.open()?;
    let why = Why::Agent {
        reason: reason.clone(),
    };
    Ok(with_its_run(
        state,
        pending,
        Event::ApprovalWithdrawn { id, why },
        0,
    ))
}

/// Only the credential that filed a question waits for it, takes it back and reports on it.
fn files(approval: &Approval, by: &Principal) -> Result<(), Refusal> {
    works(by)?;
    if approval.filed_by != *by.name() {
        return Err(Refusal::NotYours("another agent filed this one"));
    }
    Ok(())
}

fn give_up(state: &State, by: &Principal, id: ApprovalId, wait: &WaitId) -> Decided {
    let stands = look(state, by, id, None)?;
    files(stands.approval(), by)?;
    let Stands::Open(pending) = stands else {
        return Ok(vec![]);
    };
    let known = pending.timed_out.iter().any(|known| known.wait == *wait);
    if known || pending.timed_out.len() >= limits::GIVEN_UP_COUNT {
        return Ok(vec![]);
    }
    let wait = wait.clone();
    Ok(vec![Event::WaitTimedOut { id, wait }])
}

fn extend(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    span: std::time::Duration,
    past: Option<&Settled>,
    now: Timestamp,
) -> Decided {
    if !(limits::DEADLINE_MIN..=limits::DEADLINE_MAX).contains(&span) {
        return Err(Refusal::Invalid(
            "a deadline is extended to between 1 minute and 30 days from now".into(),
        ));
    }
    let stands = look(state, by, id, past)?;
    let decider = may(by, Verb::Extend, stands.approval().owner.as_ref(), None)?;
    let pending = stands.open()?;
    let Some(current) = pending.deadline else {
        return Err(Refusal::Invalid(
            "it has no deadline: it waits for ever".into(),
        ));
    };
    if is_late(pending, now) {
        return Err(Refusal::Expired { at: current });
    }
    let deadline = now.plus(span);
    if deadline <= current {
        return Err(Refusal::Invalid(format!(
            "its deadline is {current}; extending moves it later, never earlier"
        )));
    }
    Ok(vec![Event::DeadlineExtended {
        id,
        deadline,
        by: decider.by,
    }])
}

fn dismiss(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    note: &Untrusted,
    past: Option<&Settled>,
) -> Decided {
    within("the note", note, limits::NOTE)?;
    let stands = look(state, by, id, past)?;
    let decider = may(by, Verb::Dismiss, stands.approval().owner.as_ref(), None)?;
    let pending = stands.open()?;
    let run = state.run(pending.approval.run);
    let there = |run: &Arc<Run>| {
        run.presence == Presence::Attached && !matches!(run.state, RunState::Parked(_))
    };
    if run.is_some_and(there) {
        return Err(Refusal::Invalid(
            "its agent is there: decide it, or let the agent take it back".into(),
        ));
    }
    let why = Why::Dismissed {
        by: decider.by,
        note: note.clone(),
    };
    Ok(with_its_run(
        state,
        pending,
        Event::ApprovalWithdrawn { id, why },
        0,
    ))
}

fn report_applied(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    result: AppliedResult,
    detail: &Untrusted,
    past: Option<&Settled>,
    now: Timestamp,
) -> Decided {
    within("the detail", detail, limits::SAID)?;
    let stands = look(state, by, id, past)?;
    files(stands.approval(), by)?;
    let settled = match stands {
        Stands::Open(_) => return Err(Refusal::StillPending),
        Stands::Ended(settled) => settled,
    };
    if settled.decision().is_none() {
        return Err(ended(settled));
    }
    let applied = Applied {
        result,
        detail: detail.clone(),
        at: now,
    };
    match &settled.applied {
        None => Ok(vec![Event::DecisionApplied { id, applied }]),
        Some(first) if first.result == result => Ok(vec![]),
        Some(_) => Err(Refusal::Invalid(
            "what came of it was reported before, and differently".into(),
        )),
    }
}

// === What foreign agents did already ===

/// What our own agents do, they say themselves: nobody observes it.
fn foreign_run<'a>(state: &'a State, by: &Principal, id: RunId) -> Result<&'a Arc<Run>, Refusal> {
    let run = state.run(id).filter(|run| run.key.tenant == *by.tenant());
    let foreign = run.filter(|run| run.key.source.is_foreign());
    foreign.ok_or(Refusal::NotFound("run"))
}

fn observe_asked(state: &State, by: &Principal, filed: &File, now: Timestamp) -> Decided {
    let run = foreign_run(state, by, filed.run)?;
    match file_in(state, by, run, filed, now) {
        Err(Refusal::KeyReused(_) | Refusal::RunOver) => Ok(vec![]),
        decided => decided,
    }
}

/// A foreign agent says that its question was answered. That never grants anything: it confirms
/// what we sent, or says that somebody answered elsewhere (DESIGN §4.1.12, case E10).
fn observe_resolved(
    state: &State,
    by: &Principal,
    run: RunId,
    target: &Untrusted,
    granted: bool,
    detail: &Untrusted,
    now: Timestamp,
) -> Decided {
    let run = foreign_run(state, by, run)?;
    let Some(id) = state.latest(run.id, target) else {
        return Ok(vec![]);
    };
    let detail = detail.clone();
    if state.pending(id).is_some() {
        let why = Why::AnsweredElsewhere { granted, detail };
        return Ok(vec![Event::ApprovalWithdrawn { id, why }]);
    }
    let Some((settled, delivery)) = delivered(state, by, id) else {
        return Ok(vec![]);
    };
    let ours = matches!(settled.outcome, Outcome::Granted(_));
    let to = if ours == granted {
        DeliveryState::Confirmed
    } else {
        DeliveryState::Failed
    };
    if delivery.state == DeliveryState::Confirmed || delivery.state == to {
        return Ok(vec![]);
    }
    let moved = moved(id, delivery, to, detail.clone(), now);
    if to == DeliveryState::Failed {
        return Ok(vec![moved]);
    }
    let result = if granted {
        AppliedResult::Done
    } else {
        AppliedResult::Skipped
    };
    let applied = Applied {
        result,
        detail,
        at: now,
    };
    Ok(vec![moved, Event::DecisionApplied { id, applied }])
}

fn observe_sent(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    control: &ControlId,
    now: Timestamp,
) -> Decided {
    let Stands::Ended(settled) = look(state, by, id, None)? else {
        return Err(Refusal::StillPending);
    };
    if settled.decision().is_none() {
        return Err(ended(settled));
    }
    if settled.delivery.is_some() {
        return Err(Refusal::KeyReused("this delivery"));
    }
    let delivery = Delivery {
        control: control.clone(),
        state: DeliveryState::Sent,
        detail: Untrusted::default(),
        at: now,
    };
    Ok(vec![Event::DeliveryMoved { id, delivery }])
}

/// An ack may come before or after the event that confirms; it never takes a step back.
fn observe_acked(
    state: &State,
    by: &Principal,
    id: ApprovalId,
    control: &ControlId,
    success: bool,
    detail: &Untrusted,
    now: Timestamp,
) -> Decided {
    let Some((_, delivery)) = delivered(state, by, id) else {
        return Ok(vec![]);
    };
    if delivery.control != *control || delivery.state != DeliveryState::Sent {
        return Ok(vec![]);
    }
    let to = if success {
        DeliveryState::Acked
    } else {
        DeliveryState::Failed
    };
    Ok(vec![moved(id, delivery, to, detail.clone(), now)])
}

fn delivered<'a>(
    state: &'a State,
    by: &Principal,
    id: ApprovalId,
) -> Option<(&'a Settled, &'a Delivery)> {
    match look(state, by, id, None) {
        Ok(Stands::Ended(settled)) => Some((settled, settled.delivery.as_ref()?)),
        Ok(Stands::Open(_)) | Err(_) => None,
    }
}

fn moved(
    id: ApprovalId,
    delivery: &Delivery,
    state: DeliveryState,
    detail: Untrusted,
    at: Timestamp,
) -> Event {
    let control = delivery.control.clone();
    let delivery = Delivery {
        control,
        state,
        detail,
        at,
    };
    Event::DeliveryMoved { id, delivery }
}
