//! The registry itself as the [`World`] of the rows: one thread, one log, no wire.
//!
//! A turn is what the owning thread does: fold what was missed, let pass what is overdue, judge
//! each command on the working State and fold it in at once, commit, fold into the committed State.

use std::{path::PathBuf, sync::Arc};

use registry::{
    Approval, ApprovalId, Command, Detail, Digest, Event, Pending, Recorded, Refusal, Run, RunId,
    Seq, Settled, State, Timestamp, Wish,
    approval::{
        Applied, AppliedResult, Delivery, Filing, Hold, OnDeadline, Outcome, Risk, Seen, Subject,
        Verdict,
    },
    command::{Decide, Ending, File, Found, Need, Observation, OpenRun},
    decide::{self, Reply, attempted, overdue},
    event::Scope,
    form::Form,
    log::{Entry, Log, Memory, Sqlite, Writes},
    names::{ControlId, DecisionId, Key, WaitId},
    run::{End, InterruptKind, Plan, PlanTask, Presence, RunKey, RunState, Source, TaskState},
    state::Row,
    who::Name,
};

use crate::script::{BEGINNING, Line, World, principal};

/// The registry on a log.
pub(crate) struct Registry {
    log: Box<dyn Log>,
    /// Opened again from here after every turn.
    file: Option<PathBuf>,
    working: State,
    committed: State,
    minted: u128,
    wrote: Vec<Arc<Event>>,
}

impl Registry {
    /// On a log in memory.
    pub(crate) fn in_memory() -> Self {
        Self::new(Box::new(Memory::new("rows")), None)
    }

    /// On a file that is closed and opened again after every turn.
    pub(crate) fn reopened(file: PathBuf) -> Self {
        let log = Sqlite::open(&file).unwrap();
        Self::new(Box::new(log), Some(file))
    }

    fn new(log: Box<dyn Log>, file: Option<PathBuf>) -> Self {
        Self {
            log,
            file,
            working: State::default(),
            committed: State::default(),
            minted: 0,
            wrote: Vec::new(),
        }
    }

    /// What stands now.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.committed.rows()
    }

    /// Judges the commands in one turn.
    pub(crate) fn turn(
        &mut self,
        wall: Timestamp,
        commands: Vec<Result<Command, Refusal>>,
    ) -> Vec<Result<Reply, Refusal>> {
        let before = self.committed.clone();
        let reader = self.log.reader().unwrap();
        let turn = self.log.turn(wall).unwrap();
        for missed in turn.missed() {
            self.working.apply(missed);
            self.committed.apply(missed);
        }
        let mut batch = Batch {
            state: &mut self.working,
            reader: &*reader,
            now: turn.now(),
            head: turn.head(),
            writes: Writes::default(),
        };
        batch.let_pass();
        let answers: Vec<_> = commands
            .into_iter()
            .map(|command| batch.judge(command?))
            .collect();
        let writes = batch.writes;
        let events: Vec<Recorded> = writes.events.iter().map(|e| e.recorded.clone()).collect();
        turn.commit(writes).unwrap();
        for recorded in &events {
            self.committed.apply(recorded);
        }
        self.wrote = events.iter().map(|r| r.event.clone()).collect();
        self.check(&before, &events);
        self.reopen();
        answers
    }

    /// Whoever folds comes to the same: the working State, a start from the log, and a mirror
    /// that began with rows.
    fn check(&self, before: &State, events: &[Recorded]) {
        assert_eq!(self.committed.rows(), self.working.rows());
        let mut whole = State::default();
        for recorded in self.log.reader().unwrap().read(0, usize::MAX).unwrap() {
            whole.apply(&recorded);
        }
        assert_eq!(whole.rows(), self.committed.rows());
        assert_eq!(whole.head(), self.committed.head());
        let mut mirror = State::from_rows(before.head(), before.last_at(), before.rows());
        events.iter().for_each(|recorded| mirror.apply(recorded));
        // A mirror does not know since when a run is over, and lets go of it later.
        let live = |row: &Row| !matches!(row, Row::Run(run) if run.state.is_over());
        let rows = |state: &State| state.rows().into_iter().filter(live).collect::<Vec<_>>();
        assert_eq!(rows(&mirror), rows(&self.committed));
        let asked = self
            .committed
            .all_settled()
            .map(|settled| &settled.approval);
        let waiting = self
            .committed
            .all_pending()
            .map(|pending| &pending.approval);
        for approval in asked.chain(waiting) {
            let latest = |state: &State| state.latest(approval.run, &approval.target);
            assert_eq!(latest(&mirror), latest(&self.committed));
            assert_eq!(latest(&whole), latest(&self.committed));
        }
    }

    fn reopen(&mut self) {
        let Some(file) = &self.file else { return };
        self.log = Box::new(Memory::new("closed"));
        let mut log = Sqlite::open(file).unwrap();
        let mut state = State::default();
        let turn = log.turn(BEGINNING).unwrap();
        turn.missed().iter().for_each(|missed| state.apply(missed));
        drop(turn);
        assert_eq!(state.rows(), self.committed.rows());
        self.working = state.clone();
        self.committed = state;
        self.log = Box::new(log);
    }
}

/// One turn, before it is committed.
struct Batch<'a> {
    state: &'a mut State,
    reader: &'a dyn registry::log::Reader,
    now: Timestamp,
    head: Seq,
    writes: Writes,
}

impl Batch<'_> {
    fn let_pass(&mut self) {
        loop {
            let events = overdue(self.state, self.now, 64);
            if events.is_empty() {
                return;
            }
            self.record(events, &Name::system("deadline"), None);
        }
    }

    fn judge(&mut self, mut command: Command) -> Result<Reply, Refusal> {
        for need in command.needs(self.state) {
            if let Some(found) = self.find(need) {
                command.take(found);
            }
        }
        let judged = decide::decide(self.state, &command, self.now);
        let events = match &judged {
            Ok(events) => events.clone(),
            Err(refusal) => attempted(self.state, &command, refusal, self.now)
                .into_iter()
                .collect(),
        };
        self.keep_detail(&command, &events);
        let past = command.past().map(|past| past.approval.scope());
        self.record(events, command.by.name(), past);
        judged.map(|_| decide::reply(self.state, &command))
    }

    fn find(&self, need: Need) -> Option<Found> {
        let past = |id: ApprovalId| self.reader.settled(id).unwrap();
        match need {
            Need::Form(id) => self.form(id).map(Found::Form),
            Need::Past(id) => past(id).map(|past| Found::Past(Arc::new(past))),
            Need::Key(tenant, key) => {
                let id = self.reader.filed_under(&tenant, &key).unwrap()?;
                past(id).map(|past| Found::Past(Arc::new(past)))
            }
            Need::Decision(tenant, decision) => {
                let id = self.reader.decided_by(&tenant, &decision).unwrap();
                id.map(Found::Decision)
            }
        }
    }

    /// The form may have been filed in this very turn.
    fn form(&self, id: ApprovalId) -> Option<Form> {
        let mut new = self.writes.details.iter();
        let new = new
            .find(|(known, _)| *known == id)
            .map(|(_, bytes)| bytes.clone());
        let bytes = new.or_else(|| self.reader.detail(id).unwrap())?;
        Some(Detail::from_bytes(&bytes).unwrap().form)
    }

    fn keep_detail(&mut self, command: &Command, events: &[Event]) {
        let (Wish::File(file) | Wish::Observe(Observation::Asked(file))) = &command.wish else {
            return;
        };
        let asked = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
        if events.iter().any(asked) {
            let detail = file.filing.detail.to_bytes();
            self.writes.details.push((file.id, detail));
        }
    }

    fn record(&mut self, events: Vec<Event>, actor: &Name, past: Option<Scope>) {
        for event in events {
            self.head += 1;
            let scope = self.state.scope_of(&event).or(past.clone());
            let recorded = Recorded {
                seq: self.head,
                at: self.now,
                scope: scope.expect("an event is about something"),
                event: Arc::new(event),
            };
            self.state.apply(&recorded);
            self.writes.events.push(Entry {
                recorded,
                actor: actor.clone(),
            });
        }
    }
}

// === What the rows say ===

impl World for Registry {
    fn run(&mut self, now: Timestamp, lines: &[Line]) -> Vec<String> {
        if let [line] = lines
            && let Some(answer) = self.look(line)
        {
            return vec![answer];
        }
        if let [line] = lines
            && line.command == "tick"
        {
            self.turn(now, vec![]);
            return vec!["done".into()];
        }
        let commands = lines.iter().map(|line| self.command(now, line)).collect();
        let answers = self.turn(now, commands);
        answers.into_iter().map(|answer| self.say(answer)).collect()
    }
}

/// Looking changes nothing.
impl Registry {
    fn look(&self, line: &Line) -> Option<String> {
        Some(match line.command.as_str() {
            "show" => self.show(line.word(0)),
            "wrote" => list(self.wrote.iter().map(|event| word(event))),
            "inbox" => list(
                self.committed
                    .all_pending()
                    .map(|p| p.approval.id.to_string()),
            ),
            "history" => self.history(line),
            "record" => self.run_record(line),
            _ => return None,
        })
    }

    fn show(&self, id: &str) -> String {
        if let Some(run) = id.parse().ok().and_then(|id| self.committed.run(id)) {
            return shown_run(run);
        }
        let Ok(id) = id.parse() else {
            return "nothing".into();
        };
        if let Some(pending) = self.committed.pending(id) {
            return shown_pending(pending);
        }
        let settled = self.past(id);
        settled.map_or("nothing".into(), |settled| shown_settled(&settled))
    }

    fn past(&self, id: ApprovalId) -> Option<Settled> {
        let known = self
            .committed
            .settled(id)
            .map(|settled| (**settled).clone());
        known.or_else(|| self.log.reader().unwrap().settled(id).unwrap())
    }

    fn approval(&self, id: ApprovalId) -> Option<Arc<Approval>> {
        let known = self.committed.approval(id).cloned();
        known.or_else(|| Some(self.past(id)?.approval))
    }

    fn history(&self, line: &Line) -> String {
        let by = line.by("viewer:v");
        let limit = line
            .get("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let after: Option<ApprovalId> = line.get("after").map(|id| id.parse().unwrap());
        let before = after
            .and_then(|id| self.past(id))
            .map(|settled| settled.seq);
        let page = self.log.reader().unwrap();
        let page = page.history(by.tenant(), before, limit).unwrap();
        let row = |settled: &Settled| format!("{} {}", settled.approval.id, settled.outcome.word());
        list(page.iter().map(row))
    }

    fn run_record(&self, line: &Line) -> String {
        let run: RunId = line.word(0).parse().unwrap();
        let events = self
            .log
            .reader()
            .unwrap()
            .record(run, 0, usize::MAX)
            .unwrap();
        list(events.iter().map(|recorded| word(&recorded.event)))
    }

    fn say(&self, answer: Result<Reply, Refusal>) -> String {
        match answer {
            Err(refusal) => format!("{}: {refusal}", refusal.word()),
            Ok(Reply::Done) => "done".into(),
            Ok(Reply::Run(id)) => id.to_string(),
            Ok(Reply::Approval(id)) => format!("{id} {}", self.standing(id)),
        }
    }

    fn standing(&self, id: ApprovalId) -> &'static str {
        if self.committed.pending(id).is_some() {
            return "pending";
        }
        self.past(id)
            .map_or("unknown", |settled| settled.outcome.word())
    }
}

/// From a line to a wish.
impl Registry {
    fn command(&mut self, now: Timestamp, line: &Line) -> Result<Command, Refusal> {
        let agent = self.agent_of(line);
        let by = line.by(&agent);
        let wish = match line.command.as_str() {
            "run" => return Ok(self.open_run(now, line)),
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
            "file" => Wish::File(self.file(now, line)?),
            "asked" => Wish::Observe(Observation::Asked(self.file(now, line)?)),
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
            "withdraw" => Wish::Withdraw {
                id: line.word(0).parse()?,
                reason: line.text("reason"),
                past: None,
            },
            "giveup" => Wish::GiveUp {
                id: line.word(0).parse()?,
                wait: WaitId::parse(line.get("wait").unwrap_or("w1"))?,
            },
            "approve" => self.decide(line, Verdict::Approve)?,
            "reject" => self.decide(line, Verdict::Reject)?,
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

    /// Whoever the line is about speaks for itself, if it does not say who does.
    fn agent_of(&self, line: &Line) -> String {
        let word = line.word(0);
        let run = line.get("run").unwrap_or(word).parse().ok();
        let run = run.and_then(|id: RunId| self.committed.run(id));
        let approval = word.parse().ok().and_then(|id| self.approval(id));
        let spelt = |name: &Name, key: &RunKey| format!("{name}@{}", key.tenant.as_str());
        let run = run.map(|run| spelt(&run.opened_by, &run.key));
        let filed = approval.map(|approval| spelt(&approval.filed_by, &approval.from));
        run.or(filed).unwrap_or("agent:billing".into())
    }

    fn open_run(&mut self, now: Timestamp, line: &Line) -> Command {
        let agent = line.get("agent").unwrap_or("billing");
        let by = line.by(&format!("agent:{agent}"));
        let open = OpenRun {
            id: RunId::mint(now, self.mint()),
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
            parent: None,
            can_resume: true,
            context: line.text("context"),
        };
        let wish = Wish::OpenRun(open);
        Command { by, wish }
    }

    fn file(&mut self, now: Timestamp, line: &Line) -> Result<Box<File>, Refusal> {
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
            hold: Hold::Nothing,
            risk: Risk::Normal,
        };
        let mut filing = filing;
        if let Some(count) = line.get("labels") {
            let count: usize = count.parse().unwrap();
            filing.labels = (0..count)
                .map(|n| (format!("l{n}").into(), "v".into()))
                .collect();
        }
        Ok(Box::new(File {
            id: ApprovalId::mint(now, self.mint()),
            run: line.get("run").unwrap_or_default().parse()?,
            filing,
            past: None,
        }))
    }

    fn decide(&self, line: &Line, verdict: Verdict) -> Result<Wish, Refusal> {
        let id = line.word(0).parse()?;
        // The one that was drawn: of this card, or of the one the line names.
        let shown = line
            .get("digest")
            .map_or(Some(id), |named| named.parse().ok());
        let shown = shown.and_then(|id| self.approval(id));
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

    /// In an order that says nothing: ids of one moment are random.
    fn mint(&mut self) -> u128 {
        self.minted += 1;
        self.minted
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            >> 48
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

fn list(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    if words.is_empty() {
        return "nothing".into();
    }
    words.join(", ")
}

/// The event's own name, as it is stored.
fn word(event: &Event) -> String {
    let stored = serde_json::to_value(event).unwrap();
    stored["what"].as_str().unwrap().to_owned()
}

fn shown_run(run: &Run) -> String {
    let state = match run.state {
        RunState::Parked(kind) => format!("parked ({})", kind.word()),
        state => state.word().to_owned(),
    };
    let presence = match run.presence {
        Presence::Attached => "attached".to_owned(),
        Presence::Away { since } => format!("away since {since}"),
        Presence::Detached => "detached".to_owned(),
    };
    let mut shown = format!("{state}, {presence}");
    for (id, task) in &run.tasks {
        shown += &format!("; {} {}", id.line(), task.state.word());
        if let TaskState::Blocked { blocker, needed } = &task.state {
            shown += &format!(" ({}: {})", blocker.line(), needed.line());
        }
    }
    shown
}

fn shown_pending(pending: &Pending) -> String {
    let mut shown = "pending".to_owned();
    if let Some(deadline) = pending.deadline {
        shown += &format!(", until {deadline}");
    }
    if let Some(at) = pending.passed_at {
        shown += &format!(", passed at {at}");
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

fn shown_settled(settled: &Settled) -> String {
    let mut shown = match &settled.outcome {
        Outcome::Granted(_) | Outcome::Rejected(_) => decided(settled),
        Outcome::Expired => "expired".to_owned(),
        Outcome::Withdrawn(why) => format!("withdrawn: {}", why.words()),
    };
    if let Some(Delivery { state, control, .. }) = &settled.delivery {
        shown += &format!("; {control} {}", state.word());
    }
    if let Some(Applied { result, at, .. }) = &settled.applied {
        shown += &format!("; applied {} at {at}", result.word());
    }
    shown
}

fn decided(settled: &Settled) -> String {
    let decision = settled.decision().expect("somebody decided");
    let mut shown = format!("{} by {}", settled.outcome.word(), decision.decider.by);
    if let Some(user) = &decision.decider.on_behalf_of {
        shown += &format!(" for {user}");
    }
    for (name, answer) in decision.answers.iter() {
        shown += &format!(
            "; {name}={}",
            registry::Untrusted::new(answer.to_raw()).line()
        );
    }
    if !decision.note.is_empty() {
        shown += &format!("; note {}", decision.note.line());
    }
    shown
}
