//! The registry itself as the [`World`] of the rows: one thread, one log, no wire.
//!
//! A turn is what the owning thread does: fold what was missed, let pass what is overdue, judge
//! each command on the working State and fold it in at once, commit, fold into the committed State.

use std::{path::PathBuf, sync::Arc};

use registry::{
    Approval, ApprovalId, Command, Control, Detail, Escalation, EscalationId, Event, ItemId,
    Recorded, Refusal, Run, RunId, Seq, Settled, State, Timestamp, Wish,
    command::{Found, Need, Observation},
    decide::{self, Reply, attempted, overdue},
    escalation::{Closed, Ended},
    event::Scope,
    form::Form,
    log::{Entry, HistoryQuery, Log, Memory, Sqlite, Writes},
    state::Row,
    who::Name,
};

use crate::{
    script::{BEGINNING, Line, World},
    wishes::{
        Known, command, list, shown_claimed, shown_closed, shown_drifts, shown_escalation,
        shown_gated, shown_level, shown_order, shown_orders, shown_pending, shown_run,
        shown_settled, word,
    },
};

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
        self.committed.runs().for_each(|run| self.check_run(run));
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
        for state in [&mirror, &whole] {
            assert_eq!(state.next_deadline(), self.committed.next_deadline());
        }
        let reader = self.log.reader().unwrap();
        for closed in self.committed.all_closed() {
            let read = reader.closed(closed.escalation.id).unwrap();
            assert_eq!(read.as_ref(), Some(&**closed));
        }
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

    /// Whoever stands still has somebody asked, or an answer on its way to it; whoever is over has nothing left to do.
    fn check_run(&self, run: &Run) {
        let holds = |held: &&Arc<Escalation>| held.run == run.id;
        let held: Vec<EscalationId> = self
            .committed
            .all_escalations()
            .filter(holds)
            .map(|held| held.id)
            .collect();
        assert_eq!(held, Vec::from_iter(run.held_by), "{run:?}");
        let under_way = |control: &&Control| !control.is_over();
        let mut under_way = run.controls.iter().filter(under_way);
        if run.state.is_over() {
            assert!(held.is_empty() && run.open.is_empty(), "{run:?}");
            assert_eq!(under_way.next(), None);
        } else if run.pause.is_some() && held.is_empty() && !self.committed.has_forgotten() {
            assert!(under_way.any(|control| control.verb.answers()), "{run:?}");
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
            Need::Step(run, step) => {
                let settled = self.reader.settled_in(run, &step).unwrap();
                Some(Found::Step(settled.into_iter().map(Arc::new).collect()))
            }
            Need::Past(id) => past(id).map(|past| Found::Past(Arc::new(past))),
            Need::Closed(id) => {
                let closed = self.reader.closed(id).unwrap();
                closed.map(|closed| Found::Closed(Arc::new(closed)))
            }
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
        let file = match &command.wish {
            Wish::File(file) | Wish::Observe(Observation::Asked(file)) => &**file,
            Wish::Gate(wish) => &wish.file,
            _ => return,
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
        let commands: Vec<_> = lines.iter().map(|line| command(self, now, line)).collect();
        let wishes: Vec<_> = commands
            .iter()
            .map(|command| Some(command.as_ref().ok()?.wish.clone()))
            .collect();
        let answers = self.turn(now, commands).into_iter().zip(wishes);
        answers
            .map(|(answer, wish)| self.say(answer, wish.as_ref()))
            .collect()
    }

    fn is_escalation(&self, id: &str) -> bool {
        let id = id.parse().ok();
        id.is_some_and(|id: EscalationId| {
            let open = self.committed.escalation(id).is_some();
            open || self.closed(id).is_some()
        })
    }
}

/// Looking changes nothing.
impl Registry {
    fn look(&self, line: &Line) -> Option<String> {
        Some(match line.command.as_str() {
            "show" => self.show(line.word(0)),
            "wrote" => list(self.wrote.iter().map(|event| word(event))),
            "drifts" => self.of_run(line, shown_drifts),
            "orders" => self.of_run(line, shown_orders),
            "inbox" => self.inbox(),
            "history" => self.history(line),
            "record" => self.run_record(line),
            _ => return None,
        })
    }

    fn of_run(&self, line: &Line, shown: fn(&Run) -> String) -> String {
        let run = line.word(0).parse().ok();
        let run = run.and_then(|id| self.committed.run(id));
        run.map_or("nothing".into(), |run| shown(run))
    }

    fn inbox(&self) -> String {
        let asked = self.committed.all_pending().map(|p| p.approval.id.into());
        let held = self.committed.all_escalations().map(|e| e.id.into());
        list(asked.chain(held).map(|id: ItemId| id.to_string()))
    }

    fn show(&self, id: &str) -> String {
        if let Some(run) = id.parse().ok().and_then(|id| self.committed.run(id)) {
            return shown_run(run);
        }
        let held = id.parse().ok();
        if let Some(escalation) = held.and_then(|id| self.committed.escalation(id)) {
            return shown_escalation(escalation);
        }
        if let Some(closed) = held.and_then(|id| self.closed(id)) {
            return shown_closed(&closed);
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

    fn closed(&self, id: EscalationId) -> Option<Closed> {
        let known = self.committed.closed(id).map(|closed| (**closed).clone());
        known.or_else(|| self.log.reader().unwrap().closed(id).unwrap())
    }

    fn history(&self, line: &Line) -> String {
        let by = line.by("viewer:v");
        let limit = line
            .get("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let asked = |id: &str| self.past(id.parse().ok()?).map(|settled| settled.seq);
        let held = |id: &str| self.closed(id.parse().ok()?).map(|closed| closed.seq);
        let before = line.get("after").and_then(|id| asked(id).or(held(id)));
        let query = HistoryQuery::all(by.tenant(), before, limit);
        let page = self.log.reader().unwrap().history(&query).unwrap().ended;
        let row = |ended: &Ended| match ended {
            Ended::Approval(settled) => {
                format!("{} {}", settled.approval.id, settled.outcome.word())
            }
            Ended::Escalation(closed) => format!("{} {}", closed.escalation.id, closed.how.word()),
        };
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

    fn say(&self, answer: Result<Reply, Refusal>, wish: Option<&Wish>) -> String {
        match answer {
            Err(refusal) => format!("{}: {refusal}", refusal.word()),
            Ok(Reply::Done) => "done".into(),
            Ok(Reply::Run(id)) => id.to_string(),
            Ok(Reply::Approval(id)) => format!("{id} {}", self.standing(id)),
            Ok(Reply::Gated(gated)) => shown_gated(&gated),
            Ok(Reply::Claimed(ids)) => shown_claimed(ids.iter().map(|id| self.past(*id).unwrap())),
            Ok(Reply::Control(run, id)) => shown_order(&self.committed, run, &id),
            Ok(Reply::Level(level)) => match wish {
                Some(Wish::ReportDrift(report)) => {
                    shown_level(&self.committed, level, &report.drift.id)
                }
                other => panic!("{other:?} has no level"),
            },
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

impl Known for Registry {
    fn run(&self, id: RunId) -> Option<Arc<Run>> {
        self.committed.run(id).cloned()
    }

    fn approval(&self, id: ApprovalId) -> Option<Arc<Approval>> {
        let known = self.committed.approval(id).cloned();
        known.or_else(|| Some(self.past(id)?.approval))
    }

    /// In an order that says nothing: ids of one moment are random.
    fn mint(&mut self) -> u128 {
        self.minted += 1;
        self.minted
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            >> 48
    }
}
