//! From a line to a wish, and from what stands to a line: the same wherever the rows are run.

use std::{collections::BTreeMap, sync::Arc};

use registry::{
    Approval, ApprovalId, Command, Control, Detail, Digest, Escalation, EscalationId, Event,
    Pending, Refusal, Run, RunId, Settled, State, Timestamp, Untrusted, Wish,
    approval::{
        Applied, AppliedResult, Claim, ClaimStage, Delivery, Filing, Hold, OnDeadline, Outcome,
        Risk, Seen, Subject, Verdict,
    },
    command::{
        Ack, AckResult, Decide, Direct, Ending, File, GateCall, GiveBack, Observation, OpenRun,
        Order, Raise, ReportDrift, TakeStep,
    },
    control::Verb,
    decide::Gated,
    drift::{Drift, Kind, Level, Severity},
    escalation::{Cause, Closed, How},
    form::Form,
    gate::{Ruling, Unattended},
    names::{ClaimToken, ControlId, DecisionId, DriftId, Key, WaitId},
    run::{
        End, Evidence, InterruptKind, Plan, PlanTask, Presence, RunKey, RunState, Source, TaskState,
    },
    who::Name,
};

use crate::script::{Line, principal};

/// What a line leaves out is taken from what is known already.
pub(crate) trait Known {
    fn run(&self, id: RunId) -> Option<Arc<Run>>;
    fn approval(&self, id: ApprovalId) -> Option<Arc<Approval>>;
    /// What makes the next id another one.
    fn mint(&mut self) -> u128;
}

pub(crate) fn command(
    known: &mut impl Known,
    now: Timestamp,
    line: &Line,
) -> Result<Command, Refusal> {
    let agent = agent_of(known, line);
    let by = line.by(&agent);
    let wish = match line.command.as_str() {
        "run" => return Ok(open_run(known, now, line)),
        "end" => Wish::EndRun {
            run: line.word(0).parse()?,
            how: ending(line.word(1)),
            reason: line.text("reason"),
        },
        "task" => Wish::ReportTask {
            run: line.word(0).parse()?,
            task: line.word(1).into(),
            title: line.text("title"),
            state: task_state(line.word(2)),
            detail: line.text("detail"),
        },
        "plan" => Wish::ReportPlan {
            run: line.word(0).parse()?,
            plan: plan(line),
            cause: line.text("cause"),
        },
        "say" => Wish::Say {
            run: line.word(0).parse()?,
            text: line.word(1).into(),
        },
        "attend" => Wish::Attend {
            run: line.word(0).parse()?,
            here: line.word(1) == "here",
        },
        "file" => Wish::File(file(known, now, line)?),
        "gate" => Wish::Gate(Box::new(GateCall {
            file: *file(known, now, line)?,
            ruling: ruling(line),
        })),
        "asked" => Wish::Observe(Observation::Asked(file(known, now, line)?)),
        "resolved" => Wish::Observe(Observation::Resolved {
            run: line.get("run").unwrap_or_default().parse()?,
            target: line.word(0).into(),
            granted: line.word(1) == "granted",
            detail: line.text("detail"),
        }),
        "sent" => Wish::Observe(Observation::Sent {
            id: line.word(0).parse()?,
            control: control(line)?,
        }),
        "acked" => Wish::Observe(Observation::Acked {
            id: line.word(0).parse()?,
            control: control(line)?,
            success: line.word(1) == "ok",
            detail: line.text("detail"),
        }),
        "drift" => report_drift(known, now, line)?,
        "drifted" => Wish::Observe(Observation::Drifted {
            run: line.get("run").unwrap_or_default().parse()?,
            drift: drift(line)?,
            holds: (line.word(2) == "holds").then(|| EscalationId::mint(now, known.mint())),
        }),
        "goeson" => Wish::Observe(Observation::GoesOn {
            run: line.word(0).parse()?,
        }),
        "levelled" => Wish::Observe(Observation::Levelled {
            run: line.get("run").unwrap_or_default().parse()?,
            drift: DriftId::parse(line.word(0))?,
            level: Level::from_word(line.word(1)).expect("a level"),
        }),
        "pause" => direct(known, now, line, Verb::Pause)?,
        "resume" => direct(known, now, line, Verb::Resume)?,
        "steer" => direct(known, now, line, Verb::Steer)?,
        "cancel" => direct(known, now, line, Verb::Cancel)?,
        "rewind" => {
            let task = line.text("task");
            direct(known, now, line, Verb::Rewind { task })?
        }
        "status" => direct(known, now, line, Verb::StatusQuery)?,
        "handover" => Wish::HandOver {
            run: line.get("run").unwrap_or_default().parse()?,
            control: order(known, line)?,
        },
        "ack" => Wish::Ack(Box::new(Ack {
            run: line.get("run").unwrap_or_default().parse()?,
            control: order(known, line)?,
            result: ack_result(line.word(1)),
            detail: line.text("detail"),
            raise: EscalationId::mint(now, known.mint()),
        })),
        "withdraw" => Wish::Withdraw {
            id: line.word(0).parse()?,
            reason: line.text("reason"),
            past: None,
        },
        "giveup" => Wish::GiveUp {
            id: line.word(0).parse()?,
            wait: WaitId::parse(line.get("wait").unwrap_or("w1"))?,
        },
        "approve" => decide(known, line, Verdict::Approve)?,
        "reject" => decide(known, line, Verdict::Reject)?,
        "extend" => Wish::Extend {
            id: line.word(0).parse()?,
            span: line.span("span").expect("extend says by how much"),
            past: None,
        },
        "dismiss" => Wish::Dismiss {
            id: line.word(0).parse()?,
            note: line.text("note"),
            past: None,
        },
        "claim" => Wish::Claim(Box::new(TakeStep {
            run: line.get("run").unwrap_or_default().parse()?,
            step: line.word(0).into(),
            digests: taken(known, line)?,
            token: claim_token(line)?,
            past: vec![],
        })),
        "restore" => Wish::Restore(Box::new(GiveBack {
            run: line.get("run").unwrap_or_default().parse()?,
            step: line.word(0).into(),
            token: claim_token(line)?,
            past: vec![],
        })),
        "started" => Wish::ReportStarted {
            id: line.word(0).parse()?,
            token: claim_token(line)?,
            past: None,
        },
        "applied" => Wish::ReportApplied {
            id: line.word(0).parse()?,
            result: applied_result(line.word(1)),
            detail: line.text("detail"),
            past: None,
        },
        other => panic!("line {}: there is no command {other}", line.number),
    };
    Ok(Command { by, wish })
}

/// The rule that fits, if the line says one.
fn ruling(line: &Line) -> Option<Ruling> {
    line.get("rule").map(|rule| Ruling {
        rule: rule.into(),
        asks: line.asks(),
        votes: line.get("votes").map_or(1, |votes| votes.parse().unwrap()),
        risk: Risk::High,
        unattended: match line.get("unattended") {
            Some("allow") => Unattended::Allow,
            _ => Unattended::Deny,
        },
    })
}

/// What the gate says.
pub(crate) fn shown_gated(gated: &Gated) -> String {
    match gated {
        Gated::Free => "free".into(),
        Gated::Asked(id) => format!("asked {id}"),
        Gated::Blocked(id, missing) => format!("{id}: {}", missing.line()),
    }
}

fn claim_token(line: &Line) -> Result<ClaimToken, Refusal> {
    ClaimToken::parse(line.get("token").unwrap_or("w1"))
}

/// What is about to run: the questions that the line names, `as` others, and a target that nobody asked about.
fn taken(known: &impl Known, line: &Line) -> Result<BTreeMap<Untrusted, Digest>, Refusal> {
    let mut taken = BTreeMap::new();
    for word in &line.words[1..] {
        let approval = known
            .approval(word.parse()?)
            .ok_or(Refusal::NotFound("approval"))?;
        let shown = match line.get("digest") {
            Some(named) => known
                .approval(named.parse()?)
                .ok_or(Refusal::NotFound("approval"))?,
            None => approval.clone(),
        };
        taken.insert(approval.target.clone(), shown.digest);
    }
    if let Some(target) = line.get("also") {
        taken.insert(target.into(), Digest::of("nothing"));
    }
    Ok(taken)
}

/// Whoever the line is about speaks for itself, if it does not say who does.
fn agent_of(known: &impl Known, line: &Line) -> String {
    let word = line.word(0);
    let run = line.get("run").unwrap_or(word).parse().ok();
    let run = run.and_then(|id: RunId| known.run(id));
    let approval = word.parse().ok().and_then(|id| known.approval(id));
    let spelt = |name: &Name, key: &RunKey| format!("{name}@{}", key.tenant.as_str());
    let run = run.map(|run| spelt(&run.opened_by, &run.key));
    let filed = approval.map(|approval| spelt(&approval.filed_by, &approval.from));
    run.or(filed).unwrap_or("agent:billing".into())
}

fn open_run(known: &mut impl Known, now: Timestamp, line: &Line) -> Command {
    let agent = line.get("agent").unwrap_or("billing");
    let by = line.by(&format!("agent:{agent}"));
    let open = OpenRun {
        id: RunId::mint(now, known.mint()),
        key: RunKey {
            tenant: by.tenant().clone(),
            source: source(line.get("source").unwrap_or("native")),
            agent: agent.into(),
            session: line.text("session"),
            invocation: line.get("invocation").unwrap_or(line.word(0)).into(),
        },
        project: line.text("project"),
        thread: line.text("thread"),
        origin: line.text("origin"),
        owner: line.get("user").map(|user| principal(user).name().clone()),
        parent: line.get("parent").and_then(|parent| parent.parse().ok()),
        can_resume: line.get("resume") != Some("no"),
        context: line.text("context"),
    };
    let wish = Wish::OpenRun(open);
    Command { by, wish }
}

fn file(known: &mut impl Known, now: Timestamp, line: &Line) -> Result<Box<File>, Refusal> {
    let task = line.get("task");
    let subject = match line.get("tool") {
        Some(tool) => Subject::Tool {
            name: tool.into(),
            task: task.unwrap_or_default().into(),
        },
        None => Subject::Task {
            task: task.unwrap_or(line.word(0)).into(),
        },
    };
    let filing = Filing {
        key: line.get("key").map(Key::parse).transpose()?,
        target: line.word(0).into(),
        step: line.text("step"),
        subject,
        title: line.get("title").unwrap_or("Pay").into(),
        detail: Detail {
            prompt: line.text("prompt"),
            body: line.text("body"),
            facts: line.text("facts"),
            args: line.get("args").map(Into::into),
            form: line.form(),
        },
        asks: line.asks(),
        labels: line
            .all("label.")
            .map(|(k, v)| (k.into(), v.into()))
            .collect(),
        deadline: line.span("deadline"),
        on_deadline: match line.get("then") {
            Some("stay_open") => OnDeadline::StayOpen,
            _ => OnDeadline::Expire,
        },
        hold: match line.get("hold") {
            Some("thread") => Hold::Thread,
            _ => Hold::Nothing,
        },
        risk: Risk::Normal,
        votes: line.get("votes").map_or(1, |votes| votes.parse().unwrap()),
    };
    let mut filing = filing;
    if let Some(count) = line.get("labels") {
        let count: usize = count.parse().unwrap();
        filing.labels = (0..count)
            .map(|n| (format!("l{n}").into(), "v".into()))
            .collect();
    }
    Ok(Box::new(File {
        id: ApprovalId::mint(now, known.mint()),
        run: line.get("run").unwrap_or_default().parse()?,
        filing,
        past: None,
    }))
}

fn decide(known: &impl Known, line: &Line, verdict: Verdict) -> Result<Wish, Refusal> {
    let id = line.word(0).parse()?;
    // The one that was drawn: of this card, or of the one the line names.
    let shown = line
        .get("digest")
        .map_or(Some(id), |named| named.parse().ok());
    let shown = shown.and_then(|id| known.approval(id));
    let number = format!("d{}", line.number);
    Ok(Wish::Decide(Box::new(Decide {
        id,
        decision: DecisionId::parse(line.get("id").unwrap_or(&number))?,
        verdict,
        digest: shown.map_or(Digest::of("nothing"), |approval| approval.digest),
        answers: line
            .all("answer.")
            .map(|(k, v)| (k.into(), v.into()))
            .collect(),
        note: line.text("note"),
        seen: Seen::Quoted,
        on_behalf_of: line.get("for").map(|user| principal(user).name().clone()),
        form: Form::default(),
        past: None,
        decided_before: None,
    })))
}

fn report_drift(known: &mut impl Known, now: Timestamp, line: &Line) -> Result<Wish, Refusal> {
    let number = line.number;
    Ok(Wish::ReportDrift(Box::new(ReportDrift {
        run: line.get("run").unwrap_or_default().parse()?,
        drift: drift(line)?,
        raise: Raise {
            escalation: EscalationId::mint(now, known.mint()),
            control: ControlId::parse(&format!("ladder{number}"))?,
            drift: DriftId::parse(&format!("escalated{number}"))?,
        },
    })))
}

fn drift(line: &Line) -> Result<Drift, Refusal> {
    let number = format!("drift{}", line.number);
    Ok(Drift {
        id: DriftId::parse(line.get("id").unwrap_or(&number))?,
        kind: Kind::of(line.word(0)),
        severity: Severity::of(line.word(1)),
        detail: line.text("detail"),
        task: line.text("task"),
        level: None,
        from: None,
        at: Timestamp::default(),
    })
}

fn direct(
    known: &mut impl Known,
    now: Timestamp,
    line: &Line,
    verb: Verb,
) -> Result<Wish, Refusal> {
    let number = format!("order{}", line.number);
    Ok(Wish::Direct(Box::new(Direct {
        order: Order {
            id: ControlId::parse(line.get("control").unwrap_or(&number))?,
            run: line.word(0).parse()?,
            verb,
            note: line.text("note"),
            answers: line.get("on").map(str::parse).transpose()?,
        },
        raise: EscalationId::mint(now, known.mint()),
        past: None,
    })))
}

/// The order that a line names; `ladder` is the newest one that the ladder gave the run.
fn order(known: &impl Known, line: &Line) -> Result<ControlId, Refusal> {
    let word = line.word(0);
    if word != "ladder" {
        return ControlId::parse(word);
    }
    let run = line.get("run").unwrap_or_default().parse()?;
    let run = known.run(run).ok_or(Refusal::NotFound("run"))?;
    let mut orders = run.controls.iter().rev();
    let newest = orders.find(|control| control.by == Name::system("ladder"));
    newest.map_or(ControlId::parse(word), |order| Ok(order.id.clone()))
}

fn ack_result(word: &str) -> AckResult {
    match word {
        "ok" => AckResult::Success,
        "failed" => AckResult::Failure,
        "unsupported" => AckResult::Unsupported,
        "none" => AckResult::NoAnswer,
        other => panic!("there is no ack {other}"),
    }
}

fn control(line: &Line) -> Result<ControlId, Refusal> {
    ControlId::parse(line.get("control").unwrap_or("c1"))
}

fn source(word: &str) -> Source {
    let known = [Source::Native, Source::Cli, Source::Goldfive];
    known
        .into_iter()
        .find(|source| source.word() == word)
        .expect("a source")
}

fn ending(word: &str) -> Ending {
    use InterruptKind::{Approval, Confirmation, Input, Tool};
    if let Some(kind) = word.strip_prefix("paused:") {
        let known = [Approval, Tool, Confirmation, Input];
        let kind = known.into_iter().find(|known| known.word() == kind);
        return Ending::Paused(kind.expect("an interrupt"));
    }
    let known = [End::Completed, End::Failed, End::Cancelled, End::Aborted];
    let end = known.into_iter().find(|known| known.word() == word);
    Ending::Over(end.expect("an end"))
}

fn task_state(word: &str) -> TaskState {
    match word {
        "pending" => TaskState::Pending,
        "running" => TaskState::Running,
        "completed" => TaskState::Completed,
        "failed" => TaskState::Failed,
        "cancelled" => TaskState::Cancelled,
        "not_needed" => TaskState::NotNeeded,
        other => panic!("there is no task state {other}"),
    }
}

fn plan(line: &Line) -> Plan {
    let task = |id: &String| PlanTask {
        id: id.as_str().into(),
        title: id.as_str().into(),
        state: TaskState::Pending,
    };
    Plan {
        revision: line.get("revision").map_or(1, |n| n.parse().unwrap()),
        summary: line.text("summary"),
        tasks: line.words[1..].iter().map(task).collect(),
    }
}

fn applied_result(word: &str) -> AppliedResult {
    let known = [
        AppliedResult::Done,
        AppliedResult::Failed,
        AppliedResult::Skipped,
    ];
    known
        .into_iter()
        .find(|known| known.word() == word)
        .expect("a result")
}

// === What stands, in one line ===

pub(crate) fn list(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    if words.is_empty() {
        return "nothing".into();
    }
    words.join(", ")
}

/// The event's own name, as it is stored.
pub(crate) fn word(event: &Event) -> String {
    let stored = serde_json::to_value(event).unwrap();
    stored["what"].as_str().unwrap().to_owned()
}

pub(crate) fn shown_run(run: &Run) -> String {
    let state = match run.state {
        RunState::Parked(kind) => format!("parked ({})", kind.word()),
        RunState::Consumed(kind) => format!("consumed ({})", kind.word()),
        RunState::Paused(Evidence::Acked) => "paused (acked)".to_owned(),
        RunState::Paused(Evidence::Inferred) => "paused (inferred)".to_owned(),
        state => state.word().to_owned(),
    };
    let presence = match run.presence {
        Presence::Attached => "attached".to_owned(),
        Presence::Away { since } => format!("away since {since}"),
        Presence::Detached => "detached".to_owned(),
    };
    let mut shown = match run.mode.is_unattended() {
        true => format!("{state}, {presence}, {}", run.mode.word()),
        false => format!("{state}, {presence}"),
    };
    for (id, task) in &run.tasks {
        shown += &format!("; {} {}", id.line(), task.state.word());
        if let TaskState::Blocked { blocker, needed } = &task.state {
            shown += &format!(" ({}: {})", blocker.line(), needed.line());
        }
    }
    if let Some(id) = run.held_by {
        shown += &format!("; held by {id}");
    }
    for control in &run.controls {
        shown += &format!("; {}", shown_control(control));
    }
    shown
}

pub(crate) fn shown_control(control: &Control) -> String {
    let mut shown = control.verb.word().to_owned();
    if let Verb::Rewind { task } = &control.verb {
        shown += &format!(" {}", task.line());
    }
    shown += &format!(" by {} {}", control.by, control.stage().word());
    let detail = control.steps.last().map(|step| &step.detail);
    if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
        shown += &format!(" ({})", detail.line());
    }
    shown
}

/// What the ladder, or a person, ordered in the words that go along.
pub(crate) fn shown_orders(run: &Run) -> String {
    list(run.controls.iter().map(|control| {
        let mut shown = shown_control(control);
        if !control.note.is_empty() {
            shown += &format!(": {}", control.note.line());
        }
        if let Some(behind) = &control.drift {
            let (id, level) = (&behind.id, behind.level.number());
            shown += &format!("; behind it {id} {} {level}", behind.kind.text().line());
        }
        if let Some(deadline) = control.deadline {
            shown += &format!("; until {deadline}");
        }
        shown
    }))
}

pub(crate) fn shown_drifts(run: &Run) -> String {
    list(run.drifts.iter().map(|drift| {
        let (kind, severity) = (drift.kind.text().line(), drift.severity.word());
        let mut shown = format!("{kind} {}", severity.line());
        if let Some(level) = drift.level {
            shown += &format!(" {}", level.number());
        }
        if !drift.task.is_empty() {
            shown += &format!(" in {}", drift.task.line());
        }
        if !drift.detail.is_empty() {
            shown += &format!(": {}", drift.detail.line());
        }
        shown
    }))
}

pub(crate) fn shown_escalation(escalation: &Escalation) -> String {
    let mut shown = escalation.title().line().to_string();
    let detail = match &escalation.cause {
        Cause::Drift(drift) => &drift.detail,
        Cause::Paused { note, .. } => note,
    };
    if let Some(level) = escalation.drift().and_then(|drift| drift.level) {
        shown += &format!(" {}", level.number());
    }
    if !escalation.task().is_empty() {
        shown += &format!(" in {}", escalation.task().line());
    }
    if !detail.is_empty() {
        shown += &format!(": {}", detail.line());
    }
    if let Some(abort_at) = escalation.abort_at {
        shown += &format!("; aborted at {abort_at}");
    }
    for cause in &escalation.also {
        match cause {
            Cause::Drift(drift) => shown += &format!("; also {}", drift.kind.text().line()),
            Cause::Paused { by, .. } => shown += &format!("; also paused by {by}"),
        }
    }
    if let Some(after) = &escalation.after {
        let (verb, by, said) = (after.verb.word(), &after.by, after.detail.line());
        shown += &format!("; {verb} by {by} came to nothing ({said})");
    }
    shown
}

pub(crate) fn shown_closed(closed: &Closed) -> String {
    let mut shown = closed.how.word().to_owned();
    match &closed.how {
        How::Answered { by, note, .. } if note.is_empty() => shown += &format!(" by {by}"),
        How::Answered { by, note, .. } => shown += &format!(" by {by}: {}", note.line()),
        How::Superseded { by } => shown += &format!(" by {by}"),
        How::RunEnded(_) | How::WentOn => {}
    }
    if let Some(control) = &closed.control {
        shown += &format!("; {}", shown_control(control));
    }
    shown
}

/// The level of a drift, and the escalation that it was raised as, if it was.
pub(crate) fn shown_level(state: &State, level: Level, drift: &DriftId) -> String {
    let shown = format!("{} {}", level.number(), level.word());
    let open = state.all_escalations();
    let closed = state.all_closed().map(|closed| &closed.escalation);
    let mut all = open.chain(closed);
    let raised = |escalation: &&Arc<Escalation>| {
        escalation.after.is_none() && escalation.drift().is_some_and(|of| of.id == *drift)
    };
    match all.find(raised) {
        Some(escalation) => format!("{shown}, {}", escalation.id),
        None => shown,
    }
}

/// How far an order is, which a person gave.
pub(crate) fn shown_order(state: &State, run: RunId, id: &ControlId) -> String {
    let run = state.run(run);
    let control = run.and_then(|run| run.control(id));
    control.map_or("unknown".into(), shown_control)
}

pub(crate) fn shown_pending(pending: &Pending) -> String {
    let mut shown = "pending".to_owned();
    if let Some(deadline) = pending.deadline {
        shown += &format!(", until {deadline}");
    }
    if let Some(at) = pending.passed_at {
        shown += &format!(", passed at {at}");
    } else if pending.ends_soon() {
        shown += ", soon";
    }
    if pending.approval.votes > 1 {
        let votes = pending.votes.iter().map(|vote| vote.decider.by.to_string());
        shown += &format!(", {} by {}", pending.yes(), list(votes));
    }
    for timeout in &pending.timed_out {
        shown += &format!(", {} gave up at {}", timeout.wait, timeout.at);
    }
    for attempt in &pending.attempts {
        shown += &format!(
            ", {} tried to {} at {}",
            attempt.by, attempt.verb, attempt.at
        );
    }
    shown
}

pub(crate) fn shown_settled(settled: &Settled) -> String {
    let mut shown = match &settled.outcome {
        Outcome::Granted(_) | Outcome::Rejected(_) => decided(settled),
        Outcome::Expired => "expired".to_owned(),
        Outcome::Withdrawn(why) => format!("withdrawn: {}", why.words()),
    };
    if let Some(Delivery { state, control, .. }) = &settled.delivery {
        shown += &format!("; {control} {}", state.word());
    }
    if let Some(Claim { token, at, stage }) = &settled.claim {
        shown += &format!("; taken by {token} at {at}");
        match stage {
            ClaimStage::Taken => {}
            ClaimStage::GivenBack { at } => shown += &format!(", given back at {at}"),
            ClaimStage::Started { at } => shown += &format!(", begun with at {at}"),
        }
    }
    if let Some(Applied { result, at, .. }) = &settled.applied {
        shown += &format!("; applied {} at {at}", result.word());
    }
    shown
}

/// What a claim has taken, and how each of it ended, by target.
pub(crate) fn shown_claimed(taken: impl Iterator<Item = Settled>) -> String {
    let taken = taken.map(|settled| {
        let (target, outcome) = (settled.approval.target.line(), settled.outcome.word());
        format!("{target} {outcome}")
    });
    let mut taken: Vec<String> = taken.collect();
    taken.sort();
    list(taken)
}

fn decided(settled: &Settled) -> String {
    let decision = settled.decision().expect("somebody decided");
    let mut shown = format!("{} by {}", settled.outcome.word(), decision.decider.by);
    for vote in &settled.votes {
        shown += &format!(" and {}", vote.decider.by);
    }
    if let Some(user) = &decision.decider.on_behalf_of {
        shown += &format!(" for {user}");
    }
    for (name, answer) in decision.answers.iter() {
        shown += &format!("; {name}={}", Untrusted::new(answer.to_raw()).line());
    }
    if !decision.note.is_empty() {
        shown += &format!("; note {}", decision.note.line());
    }
    shown
}
