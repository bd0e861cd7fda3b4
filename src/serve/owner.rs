//! The thread that owns the registry, and the handle to it.
//!
//! Invariant: nobody sees an event that a crash could take back. The thread decides a batch of
//! commands on its working State, commits, and only then folds the events into the committed State,
//! wakes the waiters, moves the head, and answers, in this order.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use registry::{
    Approval, ApprovalId, Command, Detail, Escalation, EscalationId, Event, Name, Pending,
    Principal, Recorded, Refusal, RunId, Seq, Settled, State, Tenant, Timestamp, Wish,
    command::{Found, Need, Observation},
    decide::{self, Reply},
    escalation::Closed,
    log::{Entry, Epoch, Log, LogError, Reader, Swept, Turn, Writes},
    state::Row,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::Instant,
};

use super::{
    clock::{Believed, Clock},
    metrics::Meter,
    reserve::Reserve,
    retention::{Retention, Sweeper},
    sealed::Sealer,
};

/// Commands that may wait; past it, callers are told `Busy`.
const QUEUE_COMMANDS: usize = 8192;
/// Commands decided in one turn (`ENGINE` §5.2).
const BATCH_COMMANDS: usize = 1024;
/// Foreign text in one turn, in bytes; at least one command is taken (`ENGINE` §5.2).
const BATCH_BYTES: usize = 1024 * 1024;
/// Deadlines that pass in one turn.
const BATCH_DEADLINES: usize = 512;
/// The newest events, kept for readers that are nearly there.
const RING_EVENTS: usize = 65_536;
/// Events read from disk at once, for readers that are far behind.
const PAGE_EVENTS: usize = 512;
/// How long the thread sleeps at most, so that a jump of the clock is noticed, and that it is to end.
const NAP: Duration = Duration::from_millis(200);

/// The handle of the owning thread: submit a command, read, wait.
#[derive(Clone)]
pub struct Owner {
    queue: SyncSender<Job>,
    shared: Arc<Shared>,
}

/// What everybody reads.
struct Shared {
    committed: RwLock<State>,
    ring: RwLock<VecDeque<Arc<Recorded>>>,
    head: watch::Sender<Seq>,
    waiters: Mutex<HashMap<ApprovalId, Arc<Notify>>>,
    reader: Mutex<Box<dyn Reader>>,
    epoch: Epoch,
    clock: Believed,
    retention: OnceLock<Retention>,
    sealer: OnceLock<Sealer>,
    meter: Meter,
    reserve_spent: AtomicBool,
    /// Whoever waits for the log to be closed.
    closing: Mutex<Option<oneshot::Sender<()>>>,
}

impl Shared {
    /// Where nobody gave a key that is kept, one for as long as this process lives.
    fn sealer(&self) -> Result<&Sealer, String> {
        if self.sealer.get().is_none() {
            let _ = self.sealer.set(Sealer::for_now()?);
        }
        self.sealer.get().ok_or_else(|| "no key".into())
    }
}

struct Job {
    command: Command,
    frame: Option<Vec<u8>>,
    answer: Caller,
}

impl Job {
    /// How much of it goes to disk, roughly: what is large is in what is filed.
    fn bytes(&self) -> usize {
        let frame = self.frame.as_ref().map_or(0, Vec::len);
        match &self.command.wish {
            Wish::File(file) | Wish::Observe(Observation::Asked(file)) => {
                frame + file.filing.detail.bytes()
            }
            Wish::Gate(wish) => frame + wish.file.filing.detail.bytes(),
            Wish::Say { text, .. } => frame + text.raw().len(),
            _ => frame,
        }
    }
}

type Caller = oneshot::Sender<Result<Reply, Refusal>>;
type Answers = Vec<(Caller, Result<Reply, Refusal>)>;

/// What the owning thread does when its log is broken: say so to a person, and end the process.
pub type Fatal = Box<dyn Fn(&str) + Send>;

impl Owner {
    /// Folds the log and starts the thread. It ends when the last handle is dropped.
    ///
    /// # Errors
    /// [`LogError`], if the log cannot be read.
    pub fn start(
        mut log: Box<dyn Log>,
        clock: Clock,
        reserve: Option<Reserve>,
        fatal: Fatal,
    ) -> Result<Self, LogError> {
        let clock = Believed::new(clock);
        let mut working = State::default();
        let turn = log.turn(clock.now())?;
        turn.missed()
            .iter()
            .for_each(|recorded| working.apply(recorded));
        drop(turn);
        let shared = Arc::new(Shared {
            ring: RwLock::default(),
            head: watch::Sender::new(working.head()),
            waiters: Mutex::default(),
            reader: Mutex::new(log.reader()?),
            epoch: log.epoch().clone(),
            retention: OnceLock::new(),
            committed: RwLock::new(working.clone()),
            clock,
            sealer: OnceLock::new(),
            meter: Meter::default(),
            reserve_spent: AtomicBool::new(false),
            closing: Mutex::default(),
        });
        let (queue, jobs) = sync_channel(QUEUE_COMMANDS);
        let desk = Desk {
            reader: log.reader()?,
            log,
            working,
            sweeper: Sweeper::new(shared.clock.now()),
            swept: Vec::new(),
            shared: shared.clone(),
            reserve,
        };
        thread::Builder::new()
            .name("registry".into())
            .spawn(move || desk.serve_until_dropped(&jobs, &fatal))
            .map_err(|error| LogError::Broken(format!("no thread: {error}")))?;
        Ok(Self { queue, shared })
    }

    /// From now on secret answers are sealed with this key. The first one stays.
    pub fn seal_with(&self, sealer: Sealer) {
        let _ = self.shared.sealer.set(sealer);
    }

    /// An approval that has ended, with its secret answers: for the agent that filed it, and nobody
    /// else. Once it was reported applied they are gone, and stand as sealed for it, too.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if they cannot be read.
    pub async fn opened(&self, by: &Name, settled: Arc<Settled>) -> Result<Arc<Settled>, Refusal> {
        let decision = settled.decision();
        let sealed = decision.is_some_and(|decision| decision.answers.has_sealed());
        if !sealed || settled.approval.filed_by != *by {
            return Ok(settled);
        }
        let id = settled.approval.id;
        let Some(sealed) = self.read_log(move |log| log.sealed(id)).await? else {
            return Ok(settled);
        };
        let sealer = self.shared.sealer().map_err(Refusal::Unavailable)?;
        let secrets = sealer.open(id, &sealed).ok_or_else(|| {
            Refusal::Unavailable(
                "the secret answers were sealed with another key than the server's sealed.key"
                    .into(),
            )
        })?;
        Ok(Arc::new(settled.opened(&secrets)))
    }

    /// Has a wish judged. What it changed is durable when this returns.
    ///
    /// # Errors
    /// Why it was not done; [`Refusal::Busy`] if too many are waiting.
    pub async fn submit(&self, by: Principal, wish: Wish) -> Result<Reply, Refusal> {
        self.send(Command { by, wish }, None).await
    }

    /// The same for what a foreign agent did, with the original that says so.
    ///
    /// # Errors
    /// As [`Owner::submit`].
    pub async fn observe(
        &self,
        by: Principal,
        wish: Wish,
        original: Vec<u8>,
    ) -> Result<Reply, Refusal> {
        self.send(Command { by, wish }, Some(original)).await
    }

    async fn send(&self, command: Command, frame: Option<Vec<u8>>) -> Result<Reply, Refusal> {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            command,
            frame,
            answer,
        };
        self.queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Busy,
            TrySendError::Disconnected(_) => stopping(),
        })?;
        self.shared.meter.queued();
        answered.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Trims the content of what ended longer ago than that, from now on. What was said first counts.
    pub fn keep(&self, retention: Retention) {
        let _ = self.shared.retention.set(retention);
    }

    /// The committed State, for a short look.
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        read(&self.shared.committed)
    }

    /// What the thread has counted.
    pub fn meter(&self) -> &Meter {
        &self.shared.meter
    }

    /// Whether filing is refused because the disk is full.
    pub fn is_reserve_spent(&self) -> bool {
        self.shared.reserve_spent.load(Ordering::Relaxed)
    }

    /// Ends the thread once it has done what it is at: what was committed is moved into the log's file. What is submitted
    /// from now on is refused.
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        *lock(&self.shared.closing) = Some(closed);
        // An error is the thread's end, too.
        let _ = done.await;
    }

    /// Which log this is.
    pub fn epoch(&self) -> &Epoch {
        &self.shared.epoch
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now().max(self.state().last_at())
    }

    /// How far the wall clock has jumped ahead of the server's time, while that is not believed.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.shared.clock.jump()
    }

    /// Everything that stands now, and the head it stands at.
    pub fn snapshot(&self) -> (Vec<Row>, Seq, Timestamp) {
        let state = self.state();
        (state.rows(), state.head(), state.last_at())
    }

    /// What happened after `after`, and what will.
    pub fn cursor(&self, after: Seq) -> Cursor {
        Cursor {
            owner: self.shared.clone(),
            moved: self.shared.head.subscribe(),
            after,
        }
    }

    /// An approval, waiting or ended, however long ago.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], also for another tenant's.
    pub async fn approval(&self, tenant: &Tenant, id: ApprovalId) -> Result<Stands, Refusal> {
        let known = {
            let state = self.state();
            let pending = state.pending(id).cloned().map(Stands::Pending);
            pending.or_else(|| state.settled(id).cloned().map(Stands::Settled))
        };
        let stands = match known {
            Some(stands) => Some(stands),
            None => self
                .read_log(move |reader| reader.settled(id))
                .await?
                .map(|settled| Stands::Settled(Arc::new(settled))),
        };
        stands
            .filter(|stands| stands.approval().from.tenant == *tenant)
            .ok_or(Refusal::NotFound("approval"))
    }

    /// An escalation, open or over, however long ago; none if there is none of that tenant.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if the log cannot be read.
    pub async fn escalation(
        &self,
        tenant: &Tenant,
        id: EscalationId,
    ) -> Result<Option<Held>, Refusal> {
        let known = {
            let state = self.state();
            let open = state.escalation(id).cloned().map(Held::Open);
            open.or_else(|| state.closed(id).cloned().map(Held::Closed))
        };
        let forgotten = self.state().has_forgotten();
        let held = match known {
            None if forgotten => {
                let closed = self.read_log(move |reader| reader.closed(id)).await?;
                closed.map(|closed| Held::Closed(Arc::new(closed)))
            }
            known => known,
        };
        Ok(held.filter(|held| held.escalation().from.tenant == *tenant))
    }

    /// What is large of an approval.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], or [`Refusal::Unavailable`] if it cannot be read.
    pub async fn detail(&self, id: ApprovalId) -> Result<Detail, Refusal> {
        let look = move |reader: &dyn Reader| Ok((reader.detail(id)?, reader.floor()?));
        let (bytes, floor) = self.read_log(look).await?;
        let bytes = bytes.ok_or(Refusal::Compacted { floor })?;
        Detail::from_bytes(&bytes).map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    /// Reads the log away from the async threads.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if it cannot be read.
    pub async fn read_log<T: Send + 'static>(
        &self,
        look: impl FnOnce(&dyn Reader) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let shared = self.shared.clone();
        let read = tokio::task::spawn_blocking(move || look(&**lock(&shared.reader)));
        let read = read.await.map_err(|_| stopping())?;
        read.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    /// Returns when the approval has ended; at once if it has. Registered before it looks, so that
    /// no end is missed.
    pub async fn until_settled(&self, id: ApprovalId) {
        let waiter = Waiter::on(&self.shared, id);
        loop {
            let woken = waiter.notify.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.state().pending(id).is_none() {
                return;
            }
            woken.await;
        }
    }
}

/// 80 random bits and more, for an id.
///
/// # Errors
/// If the machine has none.
pub fn randomness() -> Result<u128, getrandom::Error> {
    Ok((u128::from(getrandom::u64()?) << 64) | u128::from(getrandom::u64()?))
}

fn stopping() -> Refusal {
    Refusal::Unavailable("the server is stopping".into())
}

/// An approval, waiting or ended.
#[derive(Clone, Debug)]
pub enum Stands {
    /// It waits.
    Pending(Arc<Pending>),
    /// It has ended.
    Settled(Arc<Settled>),
}

impl Stands {
    /// What was asked.
    pub fn approval(&self) -> &Arc<Approval> {
        match self {
            Self::Pending(pending) => &pending.approval,
            Self::Settled(settled) => &settled.approval,
        }
    }
}

/// An escalation, open or over.
#[derive(Clone, Debug)]
pub enum Held {
    /// The run stands still.
    Open(Arc<Escalation>),
    /// It stood still.
    Closed(Arc<Closed>),
}

impl Held {
    /// What it is.
    pub fn escalation(&self) -> &Arc<Escalation> {
        match self {
            Self::Open(escalation) => escalation,
            Self::Closed(closed) => &closed.escalation,
        }
    }
}

/// One waiter's place in the table; it leaves with its last.
struct Waiter<'a> {
    shared: &'a Shared,
    id: ApprovalId,
    notify: Arc<Notify>,
}

impl<'a> Waiter<'a> {
    fn on(shared: &'a Shared, id: ApprovalId) -> Self {
        let notify = lock(&shared.waiters).entry(id).or_default().clone();
        Self { shared, id, notify }
    }
}

/// Its own hold on the notice is let go under the table's lock, so that the last of several that leave at once sees that
/// it is the last.
impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.shared.waiters);
        drop(std::mem::take(&mut self.notify));
        // The table's own is the only one: nobody waits.
        let alone = |notify: &Arc<Notify>| Arc::strong_count(notify) == 1;
        if waiters.get(&self.id).is_some_and(alone) {
            waiters.remove(&self.id);
        }
    }
}

/// A reader's place in the log. Catching up and being live are the same code, and nothing queues.
pub struct Cursor {
    owner: Arc<Shared>,
    moved: watch::Receiver<Seq>,
    after: Seq,
}

impl Cursor {
    /// The next events, at least one; waits for it. None when the log cannot be read any more.
    pub async fn next(&mut self) -> Option<Vec<Arc<Recorded>>> {
        while *self.moved.borrow_and_update() <= self.after {
            self.moved.changed().await.ok()?;
        }
        let events = match self.in_ring() {
            Some(events) => events,
            None => self.on_disk().await?,
        };
        self.after = events.last()?.seq;
        Some(events)
    }

    fn in_ring(&self) -> Option<Vec<Arc<Recorded>>> {
        let ring = read(&self.owner.ring);
        let first = ring.front()?.seq;
        let skip = usize::try_from((self.after + 1).checked_sub(first)?).ok()?;
        Some(ring.range(skip..).take(PAGE_EVENTS).cloned().collect())
    }

    async fn on_disk(&self) -> Option<Vec<Arc<Recorded>>> {
        let (shared, after) = (self.owner.clone(), self.after);
        let read = move || {
            let reader = lock(&shared.reader);
            let events = reader.read(after, PAGE_EVENTS)?;
            // Looked at afterwards: whoever read past something that was trimmed sees it here.
            Ok::<_, LogError>((events, reader.floor()?))
        };
        let (events, floor) = tokio::task::spawn_blocking(read).await.ok()?.ok()?;
        if floor > after {
            return None;
        }
        Some(events.into_iter().map(Arc::new).collect())
    }
}

// A panic under one of these locks has ended the process (see `serve_until_dropped`), or left
// nothing half done: each holder only looks, or makes one change.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// What the owning thread has on its desk.
struct Desk {
    log: Box<dyn Log>,
    reader: Box<dyn Reader>,
    working: State,
    shared: Arc<Shared>,
    reserve: Option<Reserve>,
    sweeper: Sweeper,
    /// What was trimmed, and has to be recorded.
    swept: Vec<Event>,
}

/// The events of one turn, before they are committed.
#[derive(Default)]
struct Batch {
    writes: Writes,
    recorded: Vec<Arc<Recorded>>,
    answers: Answers,
}

impl Desk {
    fn serve_until_dropped(mut self, jobs: &Receiver<Job>, fatal: &Fatal) {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve(jobs)));
        match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => fatal(&error.to_string()),
            Err(_) => fatal("the registry's thread panicked"),
        }
    }

    fn serve(&mut self, jobs: &Receiver<Job>) -> Result<(), LogError> {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(job) => Some(job),
                None => match jobs.recv_timeout(self.nap()) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                },
            };
            let batch = drain(first, jobs);
            self.shared.meter.taken(batch.len());
            if let Some(reserve) = &mut self.reserve {
                reserve.restore(self.shared.clock.now());
                let spent = reserve.is_spent();
                self.shared.reserve_spent.store(spent, Ordering::Relaxed);
            }
            if !batch.is_empty() || self.is_due() || !self.swept.is_empty() {
                self.turn(batch)?;
            }
            next = jobs.try_recv().ok();
            if next.is_none() {
                self.log.rest()?;
                if let Some(closed) = lock(&self.shared.closing).take() {
                    self.log.close()?;
                    let _ = closed.send(());
                    return Ok(());
                }
            }
            self.sweep()?;
        }
    }

    /// One slice, where it is time for one; what a whole sweep took is recorded by the next turn.
    fn sweep(&mut self) -> Result<(), LogError> {
        let now = self.shared.clock.now();
        let retention = self.shared.retention.get();
        let sweep = retention.and_then(|retention| self.sweeper.next(*retention, now));
        let Some(sweep) = sweep else { return Ok(()) };
        match self.log.trim(&sweep) {
            Ok(swept) => {
                self.sweeper.came(&swept);
                if let Swept::Done(tally) = swept {
                    let told = |(tenant, trimmed)| Event::HistoryTrimmed { tenant, trimmed };
                    self.swept = tally.into_iter().map(told).collect();
                }
                Ok(())
            }
            Err(why @ (LogError::Locked(_) | LogError::Full(_))) => {
                self.sweeper.later(&why);
                Ok(())
            }
            Err(broken) => Err(broken),
        }
    }

    fn nap(&self) -> Duration {
        let now = self.shared.clock.now();
        let due = self.working.next_deadline();
        let due = due.map_or(NAP, |due| due.since(now) + Duration::from_millis(1));
        let swept = match (self.swept.is_empty(), self.shared.retention.get()) {
            (false, _) => Duration::ZERO,
            (true, Some(_)) => self.sweeper.pause(),
            (true, None) => NAP,
        };
        due.min(swept).min(NAP)
    }

    fn is_due(&self) -> bool {
        let now = self.shared.clock.now();
        self.working.next_deadline().is_some_and(|due| due < now)
    }

    /// One turn: what others wrote, what has passed by itself, then the commands, then one commit.
    fn turn(&mut self, jobs: Vec<Job>) -> Result<(), LogError> {
        let mut turn = match self.log.turn(self.shared.clock.now()) {
            Ok(turn) => turn,
            Err(LogError::Locked(why)) => {
                refuse_all(jobs, &why);
                return Ok(());
            }
            Err(broken) => return Err(broken),
        };
        let desk = Decider {
            working: &mut self.working,
            shared: &self.shared,
            reader: &*self.reader,
            swept: std::mem::take(&mut self.swept),
            filing_refused: self.reserve.as_ref().is_some_and(Reserve::is_spent),
        };
        let batch = desk.decide(&mut *turn, jobs)?;
        if batch.recorded.is_empty() {
            drop(turn);
            answer(batch.answers);
            return Ok(());
        }
        let from = Instant::now();
        match turn.commit(batch.writes) {
            Ok(()) => {
                self.shared.meter.committed(from.elapsed(), &batch.recorded);
                publish(&self.shared, &batch.recorded);
                answer(batch.answers);
                Ok(())
            }
            Err(LogError::Full(why)) => {
                self.shared.meter.was_full();
                self.working = read(&self.shared.committed).clone();
                if let Some(reserve) = &mut self.reserve {
                    reserve.spend();
                }
                for (caller, _) in batch.answers {
                    let _ = caller.send(Err(Refusal::Unavailable(format!(
                        "{why}; nothing was recorded"
                    ))));
                }
                Ok(())
            }
            Err(broken) => Err(broken),
        }
    }
}

/// Whoever came during the last commit; no waiting for more (`ENGINE` §5.2).
fn drain(first: Option<Job>, jobs: &Receiver<Job>) -> Vec<Job> {
    let mut batch: Vec<Job> = first.into_iter().collect();
    let mut bytes: usize = batch.iter().map(Job::bytes).sum();
    while (1..BATCH_COMMANDS).contains(&batch.len())
        && bytes < BATCH_BYTES
        && let Ok(job) = jobs.try_recv()
    {
        bytes += job.bytes();
        batch.push(job);
    }
    batch
}

fn refuse_all(jobs: Vec<Job>, why: &str) {
    for job in jobs {
        let _ = job.answer.send(Err(Refusal::Unavailable(why.into())));
    }
}

/// A caller that has gone away is no reason to stop.
fn answer(answers: Answers) {
    for (caller, reply) in answers {
        let _ = caller.send(reply);
    }
}

/// Written, then applied, then seen: waiters first, readers next; the caller is answered last.
fn publish(shared: &Shared, recorded: &[Arc<Recorded>]) {
    {
        let mut committed = shared
            .committed
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        recorded
            .iter()
            .for_each(|recorded| committed.apply(recorded));
    }
    {
        let mut ring = shared.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.extend(recorded.iter().cloned());
        let excess = ring.len().saturating_sub(RING_EVENTS);
        ring.drain(..excess);
    }
    let ended = recorded
        .iter()
        .filter(|recorded| recorded.event.is_terminal());
    {
        let waiters = lock(&shared.waiters);
        let waiting = ended.filter_map(|recorded| waiters.get(&recorded.event.approval()?));
        waiting.for_each(|notify| notify.notify_waiters());
    }
    if let Some(last) = recorded.last() {
        shared.head.send_replace(last.seq);
    }
}

/// Decides one batch on the working State.
struct Decider<'a> {
    working: &'a mut State,
    shared: &'a Shared,
    reader: &'a dyn Reader,
    swept: Vec<Event>,
    filing_refused: bool,
}

impl Decider<'_> {
    fn decide(mut self, turn: &mut dyn Turn, jobs: Vec<Job>) -> Result<Batch, LogError> {
        let missed: Vec<_> = turn.missed().iter().cloned().map(Arc::new).collect();
        missed
            .iter()
            .for_each(|recorded| self.working.apply(recorded));
        publish(self.shared, &missed);

        let now = turn.now();
        let mut batch = Batch::default();
        let deadline = Name::system("deadline");
        let passed = decide::overdue(self.working, now, BATCH_DEADLINES);
        fold(self.working, &mut batch, passed, &deadline, None, now);
        let (swept, retention) = (std::mem::take(&mut self.swept), Name::system("retention"));
        fold(self.working, &mut batch, swept, &retention, None, now);
        for mut job in jobs {
            let judged = self.judge(&mut job.command, now)?;
            let judged = judged.and_then(|events| {
                self.keep_secrets(&mut batch.writes, &job.command.wish, &events)?;
                Ok(events)
            });
            let reply = match judged {
                Ok(events) => {
                    keep_detail(&mut batch.writes, &job, &events);
                    self.fold_all(&mut batch, events, &job.command, now);
                    Ok(decide::reply(self.working, &job.command))
                }
                Err(refusal) => {
                    let attempt = decide::attempted(self.working, &job.command, &refusal, now);
                    let attempt = attempt.into_iter().collect();
                    self.fold_all(&mut batch, attempt, &job.command, now);
                    Err(refusal)
                }
            };
            batch.answers.push((job.answer, reply));
        }
        Ok(batch)
    }

    /// What is secret of an answer goes to its own place, sealed, in the same commit; what was
    /// carried out needs its secrets no more.
    fn keep_secrets(
        &self,
        writes: &mut Writes,
        wish: &Wish,
        events: &[Event],
    ) -> Result<(), Refusal> {
        for event in events {
            match (event, wish) {
                (
                    Event::ApprovalGranted { id, decision }
                    | Event::ApprovalRejected { id, decision },
                    Wish::Decide(decide),
                ) if decision.answers.has_sealed() => {
                    let given = decide.form.read(&decide.answers);
                    let secrets = decide.form.secrets(&given.map_err(Refusal::Answers)?);
                    let sealer = self.shared.sealer().map_err(Refusal::Unavailable)?;
                    let sealed = sealer.seal(*id, &secrets).map_err(Refusal::Unavailable)?;
                    writes.sealed.push((*id, sealed));
                }
                (Event::DecisionApplied { id, .. }, _) => writes.unsealed.push(*id),
                _ => {}
            }
        }
        Ok(())
    }

    fn fold_all(
        &mut self,
        batch: &mut Batch,
        events: Vec<Event>,
        command: &Command,
        now: Timestamp,
    ) {
        let past = command.past().map(|past| &**past);
        fold(self.working, batch, events, command.by.name(), past, now);
    }

    fn judge(
        &self,
        command: &mut Command,
        now: Timestamp,
    ) -> Result<Result<Vec<Event>, Refusal>, LogError> {
        if self.filing_refused && !ends_something(&command.wish) {
            let why = "no space left on the server's disk; decisions still count".into();
            return Ok(Err(Refusal::Unavailable(why)));
        }
        for need in command.needs(self.working) {
            if let Some(found) = self.find(need)? {
                command.take(found);
            }
        }
        Ok(registry::decide(self.working, command, now))
    }

    fn find(&self, need: Need) -> Result<Option<Found>, LogError> {
        let past = |settled: Option<Settled>| settled.map(|past| Found::Past(Arc::new(past)));
        match need {
            Need::Form(id) => {
                let bytes = self.reader.detail(id)?.unwrap_or_default();
                let detail = Detail::from_bytes(&bytes)
                    .map_err(|error| LogError::Broken(format!("the detail of {id}: {error}")))?;
                Ok(Some(Found::Form(detail.form)))
            }
            Need::Closed(id) => {
                let closed = self.reader.closed(id)?;
                Ok(closed.map(|closed| Found::Closed(Arc::new(closed))))
            }
            Need::Step(run, step) => {
                let settled = self.reader.settled_in(run, &step)?;
                let settled = settled.into_iter().map(Arc::new);
                Ok(Some(Found::Step(settled.collect())))
            }
            Need::Past(id) => Ok(past(self.reader.settled(id)?)),
            Need::Key(tenant, key) => match self.reader.filed_under(&tenant, &key)? {
                Some(id) => Ok(past(self.reader.settled(id)?)),
                None => Ok(None),
            },
            Need::Decision(tenant, decision) => {
                let decided = self.reader.decided_by(&tenant, &decision)?;
                Ok(decided.map(Found::Decision))
            }
        }
    }
}

/// Folds at once, so that the next command of the batch sees it.
fn fold(
    working: &mut State,
    batch: &mut Batch,
    events: Vec<Event>,
    actor: &Name,
    past: Option<&Settled>,
    now: Timestamp,
) {
    for event in events {
        let forgotten = || past.map(|past| past.approval.scope());
        let Some(scope) = working.scope_of(&event).or_else(forgotten) else {
            continue;
        };
        let recorded = Recorded {
            seq: working.head() + 1,
            at: now,
            scope,
            event: Arc::new(event),
        };
        working.apply(&recorded);
        batch.writes.events.push(Entry {
            recorded: recorded.clone(),
            actor: actor.clone(),
        });
        batch.recorded.push(Arc::new(recorded));
    }
}

/// What may use the room that is kept for it on a full disk: what answers, ends or delivers.
fn ends_something(wish: &Wish) -> bool {
    match wish {
        Wish::Decide(_)
        | Wish::Extend { .. }
        | Wish::Dismiss { .. }
        | Wish::Withdraw { .. }
        | Wish::GiveUp { .. }
        | Wish::ReportApplied { .. }
        | Wish::Claim(_)
        | Wish::Restore(_)
        | Wish::ReportStarted { .. }
        | Wish::EndRun { .. }
        | Wish::Direct(_)
        | Wish::HandOver { .. }
        | Wish::Ack(_)
        | Wish::Attend { .. } => true,
        Wish::Observe(Observation::Asked(_) | Observation::Drifted { .. }) => false,
        Wish::Observe(_) => true,
        Wish::OpenRun(_)
        | Wish::File(_)
        | Wish::Gate(_)
        | Wish::ReportTask { .. }
        | Wish::ReportPlan { .. }
        | Wish::ReportDrift(_)
        | Wish::Say { .. } => false,
    }
}

/// The run that a foreign original is kept for.
fn run_of(wish: &Wish) -> Option<RunId> {
    match wish {
        Wish::OpenRun(open) => Some(open.id),
        Wish::File(file) | Wish::Observe(Observation::Asked(file)) => Some(file.run),
        Wish::EndRun { run, .. }
        | Wish::ReportTask { run, .. }
        | Wish::ReportPlan { run, .. }
        | Wish::Say { run, .. }
        | Wish::Attend { run, .. }
        | Wish::HandOver { run, .. }
        | Wish::Observe(
            Observation::Resolved { run, .. }
            | Observation::Drifted { run, .. }
            | Observation::Levelled { run, .. },
        ) => Some(*run),
        Wish::Ack(ack) => Some(ack.run),
        _ => None,
    }
}

/// What is large goes to disk beside its event, in the same commit.
fn keep_detail(writes: &mut Writes, job: &Job, events: &[Event]) {
    let filed = match &job.command.wish {
        Wish::File(file) | Wish::Observe(Observation::Asked(file)) => Some(&**file),
        Wish::Gate(wish) => Some(&wish.file),
        _ => None,
    };
    let new = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    if let Some(file) = filed
        && events.iter().any(new)
    {
        writes
            .details
            .push((file.id, file.filing.detail.to_bytes()));
    }
    let run = run_of(&job.command.wish).filter(|_| !events.is_empty());
    if let (Some(run), Some(frame)) = (run, &job.frame) {
        writes.frames.push((run, frame.clone()));
    }
}
