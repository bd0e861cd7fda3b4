//! What stands now: the fold of all facts.
//!
//! [`State::apply`] is written once and used three times: to recover from the log, to serve, and
//! inside the dashboard, whose mirror may know only a part. So it never fails: what is about
//! something unknown changes nothing.

mod held;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use crate::{
    approval::{
        Applied, Approval, ApprovalId, Attempt, Claim, ClaimStage, Decision, Delivery, Hold,
        Outcome, Pending, Settled, WaitTimeout, Why, warns_at,
    },
    escalation::{Closed, Ended, Escalation, EscalationId, ItemId},
    event::{Event, Recorded, Scope, Seq},
    names::{ClaimToken, DecisionId, Key, WaitId},
    run::{
        End, InterruptKind, Pause, Plan, Presence, Run, RunId, RunKey, RunState, Task, TaskState,
        Thread,
    },
    text::Untrusted,
    time::Timestamp,
    who::Tenant,
};

/// How long what has ended stays in memory, by the recorded time, so that every fold agrees.
pub const KEEP_ENDED: Duration = Duration::from_secs(24 * 60 * 60);

/// What stands now.
#[derive(Clone, Debug, Default)]
pub struct State {
    head: Seq,
    last_at: Timestamp,
    runs: BTreeMap<RunId, Arc<Run>>,
    runs_by_key: HashMap<RunKey, RunId>,
    pending: BTreeMap<ApprovalId, Arc<Pending>>,
    /// How many wait, of those that have any.
    waiting: HashMap<Tenant, usize>,
    settled: BTreeMap<ApprovalId, Arc<Settled>>,
    latest: HashMap<(RunId, Untrusted), ApprovalId>,
    keys: HashMap<(Tenant, Key), ApprovalId>,
    decisions: HashMap<(Tenant, DecisionId), ApprovalId>,
    escalations: BTreeMap<EscalationId, Arc<Escalation>>,
    closed: BTreeMap<EscalationId, Arc<Closed>>,
    settled_of: BTreeSet<(RunId, ApprovalId)>,
    holding: BTreeSet<(Thread, ApprovalId)>,
    deadlines: BTreeSet<(Timestamp, ItemId)>,
    ended: VecDeque<(Timestamp, Gone)>,
    has_forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
enum Gone {
    Run(RunId),
    Item(ItemId),
}

/// One row of a State, for a reader that begins with what stands now.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A run.
    Run(Arc<Run>),
    /// A question that waits.
    Pending(Arc<Pending>),
    /// A question that has ended.
    Settled(Arc<Settled>),
    /// A run that stands still.
    Escalation(Arc<Escalation>),
    /// A run that stood still.
    Closed(Arc<Closed>),
}

impl Row {
    /// Who may see it.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Run(run) => run.scope(),
            Self::Pending(pending) => pending.approval.scope(),
            Self::Settled(settled) => settled.approval.scope(),
            Self::Escalation(escalation) => escalation.scope(),
            Self::Closed(closed) => closed.escalation.scope(),
        }
    }
}

impl Run {
    /// Who may see what is about it.
    pub fn scope(&self) -> Scope {
        Scope {
            tenant: self.key.tenant.clone(),
            owner: self.owner.clone(),
        }
    }
}

impl Approval {
    /// Who may see what is about it.
    pub fn scope(&self) -> Scope {
        Scope {
            tenant: self.from.tenant.clone(),
            owner: self.owner.clone(),
        }
    }
}

/// Reading.
impl State {
    /// The newest event that is folded in.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// When it was recorded.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// Whether something has left memory, and may have to be read from the log.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// A run.
    pub fn run(&self, id: RunId) -> Option<&Arc<Run>> {
        self.runs.get(&id)
    }

    /// The run with this key.
    pub fn run_by_key(&self, key: &RunKey) -> Option<&Arc<Run>> {
        self.run(*self.runs_by_key.get(key)?)
    }

    /// All runs that are in memory, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.values()
    }

    /// A question that waits.
    pub fn pending(&self, id: ApprovalId) -> Option<&Arc<Pending>> {
        self.pending.get(&id)
    }

    /// How many approvals of a tenant wait.
    pub fn waiting(&self, tenant: &Tenant) -> usize {
        self.waiting.get(tenant).copied().unwrap_or_default()
    }

    /// All questions that wait, oldest first.
    pub fn all_pending(&self) -> impl DoubleEndedIterator<Item = &Arc<Pending>> {
        self.pending.values()
    }

    /// Everything after `id` that waits for a person: runs that stand still, then questions, oldest
    /// first.
    pub fn open_after(&self, id: Option<ItemId>) -> impl Iterator<Item = ItemId> {
        let (held, asked) = match id {
            None => (Bound::Unbounded, Bound::Unbounded),
            Some(ItemId::Escalation(id)) => (Bound::Excluded(id), Bound::Unbounded),
            // The largest there is: of the runs that stand still, none comes after a question.
            Some(ItemId::Approval(id)) => {
                (Bound::Excluded(EscalationId::LAST), Bound::Excluded(id))
            }
        };
        let held = self.escalations.range((held, Bound::Unbounded));
        let asked = self.pending.range((asked, Bound::Unbounded));
        held.map(|(id, _)| ItemId::Escalation(*id))
            .chain(asked.map(|(id, _)| ItemId::Approval(*id)))
    }

    /// A question that has ended, while it is in memory.
    pub fn settled(&self, id: ApprovalId) -> Option<&Arc<Settled>> {
        self.settled.get(&id)
    }

    /// All questions that have ended and are in memory, by id.
    pub fn all_settled(&self) -> impl DoubleEndedIterator<Item = &Arc<Settled>> {
        self.settled.values()
    }

    /// What ended and is in memory, in no order.
    pub fn all_ended(&self) -> impl Iterator<Item = Ended> {
        let asked = self.settled.values();
        let held = self.closed.values();
        asked
            .map(|settled| Ended::Approval((**settled).clone()))
            .chain(held.map(|closed| Ended::Escalation((**closed).clone())))
    }

    /// What ended under `id`, while it is in memory.
    pub fn ended(&self, id: ItemId) -> Option<Ended> {
        match id {
            ItemId::Approval(id) => {
                let settled = self.settled.get(&id)?;
                Some(Ended::Approval((**settled).clone()))
            }
            ItemId::Escalation(id) => {
                let closed = self.closed.get(&id)?;
                Some(Ended::Escalation((**closed).clone()))
            }
        }
    }

    /// What was asked under `id`, waiting or ended.
    pub fn approval(&self, id: ApprovalId) -> Option<&Arc<Approval>> {
        let pending = self.pending.get(&id).map(|pending| &pending.approval);
        pending.or_else(|| self.settled.get(&id).map(|settled| &settled.approval))
    }

    /// What a run asked and is over, while it is in memory, in no order that means anything.
    pub fn settled_of(&self, run: RunId) -> impl Iterator<Item = &Arc<Settled>> {
        let of_run = (run, ApprovalId::FIRST)..=(run, ApprovalId::LAST);
        let ids = self.settled_of.range(of_run);
        ids.filter_map(|(_, id)| self.settled.get(id))
    }

    /// Whether a question that waits keeps anything new from starting on a thread (DF-44).
    pub fn holds(&self, thread: &Thread) -> bool {
        let on_thread = (thread.clone(), ApprovalId::FIRST)..=(thread.clone(), ApprovalId::LAST);
        self.holding.range(on_thread).next().is_some()
    }

    /// The newest question that a run asked under the agent's own id.
    pub fn latest(&self, run: RunId, target: &Untrusted) -> Option<ApprovalId> {
        self.latest.get(&(run, target.clone())).copied()
    }

    /// What was filed under a key.
    pub fn filed_under(&self, tenant: &Tenant, key: &Key) -> Option<ApprovalId> {
        self.keys.get(&(tenant.clone(), key.clone())).copied()
    }

    /// What a decision id decided.
    pub fn decided_by(&self, tenant: &Tenant, decision: &DecisionId) -> Option<ApprovalId> {
        self.decisions
            .get(&(tenant.clone(), decision.clone()))
            .copied()
    }

    /// A run that stands still.
    pub fn escalation(&self, id: EscalationId) -> Option<&Arc<Escalation>> {
        self.escalations.get(&id)
    }

    /// All runs that stand still, longest first.
    pub fn all_escalations(&self) -> impl DoubleEndedIterator<Item = &Arc<Escalation>> {
        self.escalations.values()
    }

    /// An escalation that is over, while it is in memory.
    pub fn closed(&self, id: EscalationId) -> Option<&Arc<Closed>> {
        self.closed.get(&id)
    }

    /// All escalations that are over and in memory, by id.
    pub fn all_closed(&self) -> impl DoubleEndedIterator<Item = &Arc<Closed>> {
        self.closed.values()
    }

    /// Who may see an item, waiting or ended.
    pub fn scope_of_item(&self, id: ItemId) -> Option<Scope> {
        match id {
            ItemId::Approval(id) => self.approval(id).map(|approval| approval.scope()),
            ItemId::Escalation(id) => {
                let open = self.escalations.get(&id);
                let closed = || self.closed.get(&id).map(|closed| &closed.escalation);
                open.or_else(closed).map(|escalation| escalation.scope())
            }
        }
    }

    /// The next deadline, if one is near or far.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Questions of which something passes before `now`: their deadline, or the moment to say that it is near; earliest first.
    pub fn overdue(&self, now: Timestamp) -> impl Iterator<Item = &Arc<Pending>> {
        self.deadlines
            .iter()
            .take_while(move |(at, _)| *at < now)
            .filter_map(|(_, id)| match id {
                ItemId::Approval(id) => self.pending.get(id),
                ItemId::Escalation(_) => None,
            })
    }

    /// Questions whose deadline lies before `moment`, earliest first.
    pub fn ending_before(&self, moment: Timestamp) -> Vec<&Arc<Pending>> {
        // What is due of a question is due at its deadline at the latest.
        let ends = |pending: &&Arc<Pending>| pending.deadline.is_some_and(|end| end < moment);
        let mut ending: Vec<_> = self.overdue(moment).filter(ends).collect();
        ending.sort_by_key(|pending| pending.deadline);
        ending
    }

    /// The first deadline of a question that does not lie before `moment`.
    pub fn next_ending(&self, moment: Timestamp) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for (due, id) in &self.deadlines {
            if next.is_some_and(|next| next <= *due) {
                break;
            }
            let pending = match id {
                ItemId::Approval(id) => self.pending.get(id),
                ItemId::Escalation(_) => None,
            };
            let end = pending.and_then(|pending| pending.deadline);
            let later = end.filter(|end| *end >= moment);
            next = next.into_iter().chain(later).min();
        }
        next
    }

    /// The first run whose time to end by itself was over before `now`.
    pub fn overdue_abort(&self, now: Timestamp) -> Option<&Arc<Escalation>> {
        let past = self.deadlines.iter().take_while(|(at, _)| *at < now);
        let mut aborts = past.filter_map(|(_, id)| match id {
            ItemId::Approval(_) => None,
            ItemId::Escalation(id) => self.escalations.get(id),
        });
        aborts.next()
    }

    /// Who may see an event about what stands here; none where that is not known.
    pub fn scope_of(&self, event: &Event) -> Option<Scope> {
        match event {
            Event::RunOpened { run, .. } => Some(run.scope()),
            Event::ApprovalRequested { approval } => Some(approval.scope()),
            Event::EscalationRaised { escalation } => Some(escalation.scope()),
            Event::HistoryTrimmed { tenant, .. } => Some(Scope {
                tenant: tenant.clone(),
                owner: None,
            }),
            other => match (other.run(), other.item()) {
                (Some(run), _) => self.run(run).map(|run| run.scope()),
                (None, Some(id)) => self.scope_of_item(id),
                (None, None) => None,
            },
        }
    }

    /// Everything, as rows from which [`State::from_rows`] makes the same again.
    pub fn rows(&self) -> Vec<Row> {
        let runs = self.runs.values().cloned().map(Row::Run);
        let pending = self.pending.values().cloned().map(Row::Pending);
        let settled = self.settled.values().cloned().map(Row::Settled);
        let escalations = self.escalations.values().cloned().map(Row::Escalation);
        let closed = self.closed.values().cloned().map(Row::Closed);
        let questions = runs.chain(pending).chain(settled);
        questions.chain(escalations).chain(closed).collect()
    }
}

/// Folding.
impl State {
    /// The State of which `rows` are all there is, at the event `head` recorded at `at`.
    pub fn from_rows(head: Seq, at: Timestamp, rows: impl IntoIterator<Item = Row>) -> Self {
        let mut state = Self {
            head,
            last_at: at,
            has_forgotten: true,
            ..Self::default()
        };
        for row in rows {
            match row {
                Row::Run(run) => state.put_run(run),
                Row::Pending(pending) => state.put_pending(pending),
                Row::Settled(settled) => state.put_settled(settled),
                Row::Escalation(escalation) => state.put_escalation(escalation),
                Row::Closed(closed) => state.put_closed(closed),
            }
        }
        state.ended.make_contiguous().sort_by_key(|(at, _)| *at);
        state
    }

    /// Folds one fact in. Never fails, and never looks at a clock.
    pub fn apply(&mut self, recorded: &Recorded) {
        self.fold(recorded);
        self.forget(recorded.at);
    }

    /// Folds one fact in, and lets go of nothing.
    pub fn fold(&mut self, recorded: &Recorded) {
        let (seq, at) = (recorded.seq, recorded.at);
        self.head = seq;
        self.last_at = at;
        match &*recorded.event {
            Event::RunOpened { run, .. } => self.put_run(Arc::new((**run).clone())),
            Event::PresenceChanged { run, presence } => self.attend(*run, *presence),
            Event::RunParked { run, interrupt } => self.park(*run, *interrupt),
            Event::RunEnded { run, end, .. } => self.end(*run, *end, at),
            Event::TaskReported {
                run,
                task,
                title,
                state,
                detail,
            } => {
                self.report_task(*run, task, title, state, detail, at);
            }
            Event::PlanReported { run, plan, .. } => self.report_plan(*run, plan, at),
            Event::Said { run, .. } => self.change_run(*run, Run::go_on),
            Event::DriftReported { run, drift } => self.drift(*run, drift, at),
            Event::DriftLevelled { run, drift, level } => self.level(*run, drift, *level),
            Event::PauseMoved { run, pause } => self.pause(*run, *pause),
            Event::ControlIssued { control } => self.issue(control),
            Event::ControlMoved {
                run,
                id,
                escalation,
                step,
            } => self.move_control(*run, id, *escalation, step),
            Event::EscalationRaised { escalation } => self.raise(escalation),
            Event::EscalationClosed { id, how } => self.close(*id, how, at, seq),
            Event::ApprovalRequested { approval } => self.request(approval),
            Event::ApprovalJoined { id, key } => self.join(*id, key),
            Event::ApprovalGranted { id, decision } => {
                self.decide(*id, decision, Outcome::Granted, at, seq);
            }
            Event::ApprovalRejected { id, decision } => {
                self.decide(*id, decision, Outcome::Rejected, at, seq);
            }
            Event::VoteCast { id, decision } => self.vote(*id, decision),
            Event::ApprovalExpired { id } => self.settle(*id, Outcome::Expired, at, seq),
            Event::ApprovalWithdrawn { id, why } => self.withdraw(*id, why, at, seq),
            Event::DeadlinePassed { id } => self.pass(*id, at),
            Event::DeadlineExtended { id, deadline, .. } => self.extend(*id, *deadline, at),
            Event::WaitTimedOut { id, wait } => self.give_up(*id, wait, at),
            Event::AttemptRefused { id, attempt } => self.attempted(*id, attempt),
            Event::DeliveryMoved { id, delivery } => self.deliver(*id, delivery),
            Event::DeadlineWarned { id } => self.warned(*id),
            Event::DecisionClaimed { id, run, claim } => self.claim(*run, *id, claim),
            Event::DecisionRestored { id, run, token } => self.restore(*run, *id, token, at),
            Event::DecisionStarted { id, run, token } => self.start(*run, *id, token, at),
            Event::DecisionApplied { id, applied } => self.applied(*id, applied),
            Event::HistoryTrimmed { .. } => {}
        }
    }

    fn put_run(&mut self, run: Arc<Run>) {
        self.runs_by_key.insert(run.key.clone(), run.id);
        if run.state.is_over() {
            // A row does not say since when: it is let go of later than elsewhere, never earlier.
            self.ended.push_back((self.last_at, Gone::Run(run.id)));
        }
        self.runs.insert(run.id, run);
    }

    fn put_pending(&mut self, pending: Arc<Pending>) {
        let approval = &pending.approval;
        self.index(approval, &pending.joined);
        self.index_votes(approval, &pending.votes);
        // Of one target at most one question waits, and it is the newest.
        let target = (approval.run, approval.target.clone());
        self.latest.insert(target, approval.id);
        if let Some(held) = self.held_by(approval) {
            self.holding.insert(held);
        }
        if let Some(due) = pending.due() {
            self.deadlines.insert((due, approval.id.into()));
        }
        let tenant = approval.from.tenant.clone();
        if self.pending.insert(approval.id, pending).is_none() {
            *self.waiting.entry(tenant).or_default() += 1;
        }
    }

    fn put_settled(&mut self, settled: Arc<Settled>) {
        let approval = &settled.approval;
        self.index(approval, &settled.joined);
        let target = (approval.run, approval.target.clone());
        if self.ended_before(&target, &settled) {
            self.latest.insert(target, approval.id);
        }
        self.index_votes(approval, &settled.votes);
        self.index_votes(approval, settled.decision());
        self.ended
            .push_back((settled.at, Gone::Item(approval.id.into())));
        self.settled_of.insert((approval.run, approval.id));
        self.settled.insert(approval.id, settled);
    }

    /// The thread that a question holds for as long as it waits.
    fn held_by(&self, approval: &Approval) -> Option<(Thread, ApprovalId)> {
        let run = self.runs.get(&approval.run)?;
        let thread = run.thread().filter(|_| approval.hold == Hold::Thread)?;
        Some((thread, approval.id))
    }

    fn put_escalation(&mut self, escalation: Arc<Escalation>) {
        if let Some(abort_at) = escalation.abort_at {
            self.deadlines.insert((abort_at, escalation.id.into()));
        }
        self.escalations.insert(escalation.id, escalation);
    }

    fn put_closed(&mut self, closed: Arc<Closed>) {
        let id = closed.escalation.id;
        self.ended
            .push_back((closed.moved_at(), Gone::Item(id.into())));
        self.closed.insert(id, closed);
    }

    /// Whether all that is known of `target` ended before `settled` did. Ids say nothing here: two
    /// of one moment stand in any order.
    fn ended_before(&self, target: &(RunId, Untrusted), settled: &Settled) -> bool {
        let newest = self.latest.get(target);
        newest.is_none_or(|newest| {
            let known = self.settled.get(newest);
            known.is_some_and(|known| known.seq < settled.seq)
        })
    }

    fn index(&mut self, approval: &Approval, joined: &[Key]) {
        for key in approval.key.iter().chain(joined) {
            let key = (approval.from.tenant.clone(), key.clone());
            self.keys.insert(key, approval.id);
        }
    }

    fn index_votes<'a>(
        &mut self,
        approval: &Approval,
        votes: impl IntoIterator<Item = &'a Decision>,
    ) {
        for vote in votes {
            let key = (approval.from.tenant.clone(), vote.id.clone());
            self.decisions.insert(key, approval.id);
        }
    }

    fn change_run(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.runs.get_mut(&id) {
            change(Arc::make_mut(run));
        }
    }

    fn change_pending(&mut self, id: ApprovalId, change: impl FnOnce(&mut Pending)) {
        if let Some(pending) = self.pending.get_mut(&id) {
            change(Arc::make_mut(pending));
        }
    }

    fn change_settled(&mut self, id: ApprovalId, change: impl FnOnce(&mut Settled)) {
        if let Some(settled) = self.settled.get_mut(&id) {
            change(Arc::make_mut(settled));
        }
    }

    fn attend(&mut self, id: RunId, presence: Presence) {
        self.change_run(id, |run| {
            run.presence = presence;
            if presence == Presence::Attached && matches!(run.state, RunState::Parked(_)) {
                run.state = RunState::Running;
            }
            run.settle_state();
        });
    }

    /// A parked run has no agent by design: it is not away.
    fn park(&mut self, id: RunId, interrupt: InterruptKind) {
        self.change_run(id, |run| {
            run.state = RunState::Parked(interrupt);
            run.comes_to_rest();
        });
    }

    fn end(&mut self, id: RunId, end: End, at: Timestamp) {
        self.change_run(id, |run| run.state = RunState::Ended(end));

        self.ended.push_back((at, Gone::Run(id)));
    }

    fn report_task(
        &mut self,
        id: RunId,
        task: &Untrusted,
        title: &Untrusted,
        state: &TaskState,
        detail: &Untrusted,
        at: Timestamp,
    ) {
        self.change_run(id, |run| {
            run.put_task(task, title, state, detail, at);
            run.go_on();
        });
    }

    fn report_plan(&mut self, id: RunId, plan: &Plan, at: Timestamp) {
        self.change_run(id, |run| {
            for task in &plan.tasks {
                run.put_task(
                    &task.id,
                    &task.title,
                    &task.state,
                    &Untrusted::default(),
                    at,
                );
            }
            run.plan = Some(plan.kept());
            run.go_on();
        });
    }

    fn request(&mut self, approval: &Arc<Approval>) {
        self.change_run(approval.run, |run| {
            run.open.insert(approval.id);
            run.go_on();
        });
        self.put_pending(Arc::new(Pending {
            approval: approval.clone(),
            joined: Vec::new(),
            deadline: approval.deadline,
            warn_at: approval.deadline.map(|at| warns_at(approval.filed_at, at)),
            passed_at: None,
            timed_out: Vec::new(),
            attempts: Vec::new(),
            votes: Vec::new(),
        }));
    }

    fn join(&mut self, id: ApprovalId, key: &Key) {
        self.change_pending(id, |pending| pending.joined.push(key.clone()));
        if let Some(approval) = self.approval(id) {
            let key = (approval.from.tenant.clone(), key.clone());
            self.keys.insert(key, id);
        }
    }

    fn decide(
        &mut self,
        id: ApprovalId,
        decision: &Decision,
        outcome: fn(Decision) -> Outcome,
        at: Timestamp,
        seq: Seq,
    ) {
        self.settle(id, outcome(decision.clone()), at, seq);
    }

    fn vote(&mut self, id: ApprovalId, decision: &Decision) {
        self.change_pending(id, |pending| pending.votes.push(decision.clone()));
        if let Some(approval) = self.approval(id).cloned() {
            self.index_votes(&approval, [decision]);
        }
    }

    fn withdraw(&mut self, id: ApprovalId, why: &Why, at: Timestamp, seq: Seq) {
        self.settle(id, Outcome::Withdrawn(why.clone()), at, seq);
    }

    fn settle(&mut self, id: ApprovalId, outcome: Outcome, at: Timestamp, seq: Seq) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        let tenant = &pending.approval.from.tenant;
        if let Some(count) = self.waiting.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(tenant);
            }
        }
        if let Some(due) = pending.due() {
            self.deadlines.remove(&(due, id.into()));
        }
        if let Some(held) = self.held_by(&pending.approval) {
            self.holding.remove(&held);
        }
        self.change_run(pending.approval.run, |run| {
            run.open.remove(&id);
            run.settle_state();
        });
        self.put_settled(Arc::new(Settled {
            approval: pending.approval.clone(),
            joined: pending.joined.clone(),
            deadline: pending.deadline,
            outcome,
            at,
            seq,
            delivery: None,
            votes: pending.votes.clone(),
            claim: None,
            applied: None,
        }));
    }

    fn pass(&mut self, id: ApprovalId, at: Timestamp) {
        self.change_due(id, |pending| pending.passed_at = Some(at));
    }

    fn warned(&mut self, id: ApprovalId) {
        self.change_due(id, |pending| pending.warn_at = None);
    }

    fn extend(&mut self, id: ApprovalId, deadline: Timestamp, at: Timestamp) {
        self.change_due(id, |pending| {
            pending.deadline = Some(deadline);
            pending.warn_at = Some(warns_at(at, deadline));
            pending.passed_at = None;
        });
    }

    /// Changes a question, and keeps its one place among the deadlines.
    fn change_due(&mut self, id: ApprovalId, change: impl FnOnce(&mut Pending)) {
        let due = |state: &Self| state.pending.get(&id).and_then(|pending| pending.due());
        if let Some(due) = due(self) {
            self.deadlines.remove(&(due, id.into()));
        }
        self.change_pending(id, change);
        if let Some(due) = due(self) {
            self.deadlines.insert((due, id.into()));
        }
    }

    fn claim(&mut self, run: RunId, id: ApprovalId, claim: &Claim) {
        self.change_settled(id, |settled| settled.claim = Some(claim.clone()));
        self.change_run(run, |run| {
            if let RunState::Parked(interrupt) = run.state {
                run.state = RunState::Consumed(interrupt);
            }
        });
    }

    fn restore(&mut self, run: RunId, id: ApprovalId, token: &ClaimToken, at: Timestamp) {
        self.move_claim(id, token, ClaimStage::GivenBack { at });
        self.change_run(run, |run| {
            if let RunState::Consumed(interrupt) = run.state {
                run.state = RunState::Parked(interrupt);
                run.comes_to_rest();
            }
        });
    }

    fn start(&mut self, run: RunId, id: ApprovalId, token: &ClaimToken, at: Timestamp) {
        self.move_claim(id, token, ClaimStage::Started { at });
        self.change_run(run, Run::go_on);
    }

    fn move_claim(&mut self, id: ApprovalId, token: &ClaimToken, stage: ClaimStage) {
        self.change_settled(id, |settled| {
            let claim = settled.claim.as_mut().filter(|claim| claim.token == *token);
            if let Some(claim) = claim {
                claim.stage = stage;
            }
        });
    }

    fn give_up(&mut self, id: ApprovalId, wait: &WaitId, at: Timestamp) {
        let wait = wait.clone();
        self.change_pending(id, |pending| {
            pending.timed_out.push(WaitTimeout { wait, at })
        });
    }

    fn attempted(&mut self, id: ApprovalId, attempt: &Attempt) {
        self.change_pending(id, |pending| pending.attempts.push(attempt.clone()));
    }

    fn deliver(&mut self, id: ApprovalId, delivery: &Delivery) {
        self.change_settled(id, |settled| settled.delivery = Some(delivery.clone()));
    }

    fn applied(&mut self, id: ApprovalId, applied: &Applied) {
        self.change_settled(id, |settled| settled.applied = Some(applied.clone()));
    }

    /// Lets go of what ended more than [`KEEP_ENDED`] before `at`.
    fn forget(&mut self, at: Timestamp) {
        while let Some((ended_at, what)) = self.ended.front().copied()
            && at.since(ended_at) > KEEP_ENDED
        {
            self.ended.pop_front();
            self.has_forgotten = true;
            match what {
                Gone::Run(id) => self.forget_run(id),
                Gone::Item(ItemId::Approval(id)) => self.forget_approval(id),
                Gone::Item(ItemId::Escalation(id)) => self.forget_closed(id, at),
            }
        }
    }

    fn forget_run(&mut self, id: RunId) {
        if let Some(run) = self.runs.remove(&id)
            && self.runs_by_key.get(&run.key) == Some(&id)
        {
            self.runs_by_key.remove(&run.key);
        }
    }

    fn forget_approval(&mut self, id: ApprovalId) {
        let Some(settled) = self.settled.remove(&id) else {
            return;
        };
        let approval = &settled.approval;
        self.settled_of.remove(&(approval.run, id));
        let target = (approval.run, approval.target.clone());
        if self.latest.get(&target) == Some(&id) {
            self.latest.remove(&target);
        }
        for key in approval.key.iter().chain(&settled.joined) {
            self.keys
                .remove(&(approval.from.tenant.clone(), key.clone()));
        }
        for decision in settled.votes.iter().chain(settled.decision()) {
            let key = (approval.from.tenant.clone(), decision.id.clone());
            self.decisions.remove(&key);
        }
    }
}

impl Run {
    /// Whether it parks or ends its agent says; what it does else follows from what holds it and
    /// what it asks.
    fn settle_state(&mut self) {
        self.state = match (self.state, self.pause) {
            (RunState::Parked(_) | RunState::Consumed(_) | RunState::Ended(_), _) => return,
            (_, Some(Pause::Asked)) => RunState::Pausing,
            (_, Some(Pause::Holds(evidence))) => RunState::Paused(evidence),
            (_, None) if self.open.is_empty() => RunState::Running,
            (_, None) => RunState::Waiting,
        };
    }

    /// Its agent does something: whoever took its decisions has begun.
    fn go_on(&mut self) {
        if matches!(self.state, RunState::Consumed(_)) {
            self.state = RunState::Running;
        }
        self.settle_state();
    }

    /// A run that has no agent by design is not away.
    fn comes_to_rest(&mut self) {
        if matches!(self.presence, Presence::Away { .. }) {
            self.presence = Presence::Attached;
        }
    }

    fn put_task(
        &mut self,
        id: &Untrusted,
        title: &Untrusted,
        state: &TaskState,
        detail: &Untrusted,
        at: Timestamp,
    ) {
        let task = Task::kept(self.tasks.get(id), title, state, detail, at);
        self.tasks.insert(id.clone(), task);
    }
}
