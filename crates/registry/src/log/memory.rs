//! A log in memory: for tests, and for what need not outlive its process.
//!
//! Invariant: what a commit refuses, it has not begun to write.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    Epoch, FRAMES_KEPT, Log, LogError, Reader, Tip, Turn, Writes, asked_in, body, broken_assertion,
    fold_closed, fold_settled,
    history::{Ends, HistoryPage, HistoryQuery, first_at, page},
    trim::{Sweep, Swept, Tally, done, of},
};
use crate::{
    approval::{ApprovalId, Settled},
    digest::Sha256,
    escalation::{Closed, Ended, EscalationId, ItemId},
    event::{Event, Recorded, Seq},
    names::{DecisionId, Key},
    run::RunId,
    text::Untrusted,
    time::Timestamp,
    who::Tenant,
};

/// A log in memory; several of them may share one store.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    epoch: Epoch,
    seen: Seq,
}

impl Memory {
    /// An empty log.
    pub fn new(epoch: impl Into<Epoch>) -> Self {
        let epoch = epoch.into();
        let shared = Arc::new(Shared {
            turn: Mutex::new(()),
            store: Mutex::new(Store::new(&epoch)),
        });
        Self {
            shared,
            epoch,
            seen: 0,
        }
    }

    /// Another log on the same store, which has seen nothing yet: as another process would be.
    pub fn another(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            epoch: self.epoch.clone(),
            seen: 0,
        }
    }

    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(super) fn tip(&self) -> Tip {
        self.shared.store.lock().unwrap().tip
    }
}

impl Log for Memory {
    fn turn(&mut self, wall: Timestamp) -> Result<Box<dyn Turn + '_>, LogError> {
        let held = lock(&self.shared.turn)?;
        let store = lock(&self.shared.store)?;
        let missed = store.whole_after(self.seen).cloned().collect();
        self.seen = store.tip.seq;
        Ok(Box::new(MemoryTurn {
            missed,
            now: wall.max(store.tip.at),
            head: store.tip.seq,
            seen: &mut self.seen,
            store: &self.shared.store,
            _held: held,
        }))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(MemoryReader(self.shared.clone())))
    }

    fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    fn trim(&mut self, sweep: &Sweep) -> Result<Swept, LogError> {
        let _held = lock(&self.shared.turn)?;
        lock(&self.shared.store)?.trim(sweep)
    }
}

/// Whoever holds the turn may still be read beside.
#[derive(Debug)]
struct Shared {
    turn: Mutex<()>,
    store: Mutex<Store>,
}

struct MemoryTurn<'a> {
    _held: MutexGuard<'a, ()>,
    store: &'a Mutex<Store>,
    seen: &'a mut Seq,
    head: Seq,
    missed: Vec<Recorded>,
    now: Timestamp,
}

impl Turn for MemoryTurn<'_> {
    fn missed(&self) -> &[Recorded] {
        &self.missed
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn head(&self) -> Seq {
        self.head
    }

    fn commit(self: Box<Self>, writes: Writes) -> Result<(), LogError> {
        let mut store = lock(self.store)?;
        let tip = store.check(&writes)?;
        store.write(writes, tip);
        *self.seen = tip.seq;
        Ok(())
    }
}

#[derive(Debug)]
struct Store {
    first: Tip,
    tip: Tip,
    events: Vec<Recorded>,
    subjects: HashMap<ItemId, Vec<Seq>>,
    records: HashMap<RunId, Vec<Seq>>,
    ended: HashMap<Tenant, Vec<(Seq, ItemId)>>,
    taken: HashMap<Taken, ItemId>,
    details: HashMap<ApprovalId, Vec<u8>>,
    sealed: HashMap<ApprovalId, Vec<u8>>,
    trimmed: HashSet<Seq>,
    swept: Seq,
    tally: Tally,
    frames: HashMap<RunId, VecDeque<Vec<u8>>>,
}

/// What there may be one of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Taken {
    Decision(Tenant, DecisionId),
    Key(Tenant, Key),
    End(ItemId),
}

impl Store {
    fn new(epoch: &str) -> Self {
        Self {
            first: Tip::of_nothing(epoch),
            tip: Tip::of_nothing(epoch),
            events: Vec::new(),
            subjects: HashMap::new(),
            records: HashMap::new(),
            ended: HashMap::new(),
            taken: HashMap::new(),
            details: HashMap::new(),
            sealed: HashMap::new(),
            trimmed: HashSet::new(),
            swept: 0,
            tally: Tally::new(),
            frames: HashMap::new(),
        }
    }

    fn after(&self, seq: Seq) -> &[Recorded] {
        let seen = usize::try_from(seq).unwrap_or(usize::MAX);
        self.events.get(seen..).unwrap_or_default()
    }

    fn at(&self, seq: Seq) -> Option<&Recorded> {
        self.after(seq.checked_sub(1)?).first()
    }

    /// Those whose content is still there.
    fn whole_after(&self, seq: Seq) -> impl Iterator<Item = &Recorded> {
        let whole = |recorded: &&Recorded| !self.trimmed.contains(&recorded.seq);
        self.after(seq).iter().filter(whole)
    }

    fn whole_at(&self, seq: Seq) -> Option<&Recorded> {
        self.at(seq).filter(|_| !self.trimmed.contains(&seq))
    }

    /// Followed from the beginning: nobody asks a log in memory often.
    fn hash_at(&self, seq: Seq) -> Result<Option<Sha256>, LogError> {
        let Some(last) = self.at(seq) else {
            return Ok(None);
        };
        let mut tip = self.first;
        for recorded in self.after(0).iter().take_while(|next| next.seq <= last.seq) {
            tip = tip.then(recorded, &body(&recorded.event)?)?;
        }
        Ok(Some(tip.hash))
    }

    /// Where the log ends once this is written.
    fn check(&self, writes: &Writes) -> Result<Tip, LogError> {
        let mut tip = self.tip;
        let mut new = HashSet::new();
        for entry in &writes.events {
            let recorded = &entry.recorded;
            tip = tip.then(recorded, &body(&recorded.event)?)?;
            for taken in takes(recorded) {
                if self.taken.contains_key(&taken) || !new.insert(taken.clone()) {
                    return Err(broken_assertion(format!("there are two of {taken:?}")));
                }
            }
        }
        let mut details = HashSet::new();
        for (id, _) in &writes.details {
            if self.details.contains_key(id) || !details.insert(id) {
                return Err(broken_assertion(format!("there are two details of {id}")));
            }
        }
        Ok(tip)
    }

    fn write(&mut self, writes: Writes, tip: Tip) {
        for entry in writes.events {
            self.push(entry.recorded);
        }
        self.tip = tip;
        self.details.extend(writes.details);
        self.sealed.extend(writes.sealed);
        for id in writes.unsealed {
            self.sealed.remove(&id);
        }
        for (run, frame) in writes.frames {
            let frames = self.frames.entry(run).or_default();
            frames.push_back(frame);
            if frames.len() > FRAMES_KEPT {
                frames.pop_front();
            }
        }
    }

    fn push(&mut self, recorded: Recorded) {
        let (seq, event) = (recorded.seq, recorded.event.clone());
        if event.kind() == Event::HISTORY_TRIMMED {
            self.tally.clear();
        }
        if let Some(id) = event.item() {
            let taken = takes(&recorded).into_iter().map(|taken| (taken, id));
            self.taken.extend(taken);
            self.subjects.entry(id).or_default().push(seq);
            if event.is_terminal() {
                let tenant = recorded.scope.tenant.clone();
                self.ended.entry(tenant).or_default().push((seq, id));
            }
        }
        if let Some(run) = event.run()
            && Event::RECORD.contains(&event.kind())
        {
            self.records.entry(run).or_default().push(seq);
        }
        self.events.push(recorded);
    }

    fn approval(&self, taken: &Taken) -> Option<ApprovalId> {
        match self.taken.get(taken)? {
            ItemId::Approval(id) => Some(*id),
            ItemId::Escalation(_) => None,
        }
    }

    fn settled(&self, id: ApprovalId) -> Option<Settled> {
        fold_settled(self.about(id.into()))
    }

    fn closed(&self, id: EscalationId) -> Option<Closed> {
        fold_closed(self.about(id.into()))
    }

    fn ended(&self, id: ItemId) -> Option<Ended> {
        match id {
            ItemId::Approval(id) => self.settled(id).map(Ended::Approval),
            ItemId::Escalation(id) => self.closed(id).map(Ended::Escalation),
        }
    }

    fn about(&self, id: ItemId) -> impl Iterator<Item = Recorded> {
        let seqs = self.subjects.get(&id).into_iter().flatten();
        seqs.filter_map(|seq| self.whole_at(*seq)).cloned()
    }
}

/// Trimming, all of it at once.
impl Store {
    fn floor(&self) -> Seq {
        self.trimmed.iter().copied().max().unwrap_or_default()
    }

    fn trim(&mut self, sweep: &Sweep) -> Result<Swept, LogError> {
        let at = |seq| Ok(self.at(seq).map(|recorded| recorded.at));
        let (head, swept) = (self.tip.seq, self.swept);
        let cut = sweep.cut(head, at)?;
        if swept >= cut {
            return Ok(done(self.tally.clone(), self.floor()));
        }
        if let Some(jump) = sweep.is_held((swept, cut, head), at)? {
            return Ok(Swept::Held(jump));
        }
        let last = usize::try_from(cut).unwrap_or(usize::MAX);
        let upto: Vec<Recorded> = self.events.iter().take(last).cloned().collect();
        let over = self.runs_over(&upto);
        for recorded in &upto {
            let (seq, event, tenant) = (recorded.seq, &recorded.event, &recorded.scope.tenant);
            if event.is_terminal()
                && let Some(id) = event.approval()
            {
                self.sealed.remove(&id);
                if self.details.remove(&id).is_some() {
                    let trimmed = of(&mut self.tally, tenant);
                    trimmed.reaches(recorded.at);
                    trimmed.details += 1;
                }
            }
            let goes = Event::is_trimmed(event.kind(), event.item().is_some());
            let ended = self.run_of(event).filter(|run| over.contains(run));
            if let Some(run) = ended
                && goes
                && self.trimmed.insert(seq)
            {
                let frames = self.frames.remove(&run).map_or(0, |frames| frames.len());
                let trimmed = of(&mut self.tally, tenant);
                trimmed.reaches(recorded.at);
                trimmed.events += 1;
                trimmed.frames += frames as u64;
            }
        }
        self.swept = cut;
        Ok(Swept::More)
    }

    /// Runs that have ended, with all that they asked.
    fn runs_over(&self, events: &[Recorded]) -> HashSet<RunId> {
        let over: HashSet<ItemId> = events
            .iter()
            .filter(|recorded| recorded.event.is_terminal())
            .filter_map(|recorded| recorded.event.item())
            .collect();
        let asked = |recorded: &&Recorded| matches!(recorded.event.kind(), 1 | 3);
        let open: HashSet<RunId> = self
            .events
            .iter()
            .filter(asked)
            .filter(|asked| asked.event.item().is_some_and(|id| !over.contains(&id)))
            .filter_map(|asked| asked.event.run())
            .collect();
        let ended = events
            .iter()
            .filter(|recorded| recorded.event.kind() == Event::RUN_ENDED);
        let ended = ended.filter_map(|recorded| recorded.event.run());
        ended.filter(|run| !open.contains(run)).collect()
    }

    fn run_of(&self, event: &Event) -> Option<RunId> {
        event.run().or_else(|| {
            let first = self.subjects.get(&event.item()?)?.first()?;
            self.at(*first)?.event.run()
        })
    }
}

impl Ends for Store {
    fn ends(
        &self,
        tenant: &Tenant,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, ItemId)>, LogError> {
        let ended = self.ended.get(tenant).map_or(&[][..], Vec::as_slice);
        let ended = &ended[..ended.partition_point(|(seq, _)| *seq < before)];
        Ok(ended.iter().rev().take(limit).copied().collect())
    }

    fn whole(&self, id: ItemId) -> Result<Option<Ended>, LogError> {
        Ok(self.ended(id))
    }

    fn first_at(&self, at: Timestamp) -> Result<Seq, LogError> {
        first_at(self.tip.seq, at, |seq| {
            Ok(self.at(seq).map(|event| event.at))
        })
    }
}

fn takes(recorded: &Recorded) -> Vec<Taken> {
    let (tenant, event) = (&recorded.scope.tenant, &recorded.event);
    let decision = event.decision().cloned();
    let decision = decision.map(|id| Taken::Decision(tenant.clone(), id));
    let key = event.key().cloned();
    let key = key.map(|key| Taken::Key(tenant.clone(), key));
    let end = event.item().filter(|_| event.is_terminal());
    let end = end.map(Taken::End);
    [decision, key, end].into_iter().flatten().collect()
}

struct MemoryReader(Arc<Shared>);

impl Reader for MemoryReader {
    fn head(&self) -> Result<Seq, LogError> {
        Ok(lock(&self.0.store)?.tip.seq)
    }

    fn read(&self, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError> {
        let store = lock(&self.0.store)?;
        Ok(store.whole_after(after).take(limit).cloned().collect())
    }

    fn floor(&self) -> Result<Seq, LogError> {
        Ok(lock(&self.0.store)?.floor())
    }

    fn hash_at(&self, seq: Seq) -> Result<Option<Sha256>, LogError> {
        lock(&self.0.store)?.hash_at(seq)
    }

    fn detail(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError> {
        Ok(lock(&self.0.store)?.details.get(&id).cloned())
    }

    fn sealed(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError> {
        Ok(lock(&self.0.store)?.sealed.get(&id).cloned())
    }

    fn settled(&self, id: ApprovalId) -> Result<Option<Settled>, LogError> {
        Ok(lock(&self.0.store)?.settled(id))
    }

    fn closed(&self, id: EscalationId) -> Result<Option<Closed>, LogError> {
        Ok(lock(&self.0.store)?.closed(id))
    }

    fn settled_in(&self, run: RunId, step: &Untrusted) -> Result<Vec<Settled>, LogError> {
        let store = lock(&self.0.store)?;
        let of_run = store
            .events
            .iter()
            .filter(|event| event.event.run() == Some(run));
        let asked = asked_in(step, of_run.cloned());
        Ok(asked.filter_map(|id| store.settled(id)).collect())
    }

    fn filed_under(&self, tenant: &Tenant, key: &Key) -> Result<Option<ApprovalId>, LogError> {
        let key = Taken::Key(tenant.clone(), key.clone());
        Ok(lock(&self.0.store)?.approval(&key))
    }

    fn decided_by(
        &self,
        tenant: &Tenant,
        decision: &DecisionId,
    ) -> Result<Option<ApprovalId>, LogError> {
        let decision = Taken::Decision(tenant.clone(), decision.clone());
        Ok(lock(&self.0.store)?.approval(&decision))
    }

    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, LogError> {
        page(&*lock(&self.0.store)?, query)
    }

    fn record(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError> {
        let store = lock(&self.0.store)?;
        let seqs = store.records.get(&run).map_or(&[][..], Vec::as_slice);
        let seqs = &seqs[seqs.partition_point(|seq| *seq <= after)..];
        let events = seqs.iter().filter_map(|seq| store.whole_at(*seq));
        Ok(events.take(limit).cloned().collect())
    }

    fn frames(&self, run: RunId) -> Result<Vec<Vec<u8>>, LogError> {
        let store = lock(&self.0.store)?;
        let frames = store.frames.get(&run).into_iter().flatten();
        Ok(frames.cloned().collect())
    }
}

fn lock<T>(held: &Mutex<T>) -> Result<MutexGuard<'_, T>, LogError> {
    let poisoned = |_| LogError::Broken("a thread ended while it held the log".into());
    held.lock().map_err(poisoned)
}
