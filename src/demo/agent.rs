//! A simulated agent: an actor who plays one scene, in one run, by the calls that every agent makes.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use registry::{
    ApprovalId, Asks, Detail, Name, Refusal, RunId, Untrusted,
    approval::{AppliedResult, Filing, Hold, OnDeadline, Outcome, Risk, Subject, Why},
    command::Ending,
    drift::Level,
    form::{FormError, Problem},
    names::{DriftId, Key, WaitId},
    run::{End, PlanTask, TaskState},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    scenes::Scene,
    seed::Dice,
    standing::{Shared, Stance, Standing, Told},
};
use crate::connect::{Awaited, CallError, Client, DriftReport, Opening};

/// How long one call waits for an answer that is waited for without end.
const HELD: Duration = Duration::from_secs(50);

const QUOTED_CHARS: usize = 60;

/// Why a scene could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Name(#[from] Refusal),
    #[error(transparent)]
    Form(#[from] FormError),
    #[error("a default {0}")]
    Default(#[from] Problem),
}

pub(super) type Played<T = ()> = Result<T, Fault>;

/// What is the same for all runs of a seat.
#[derive(Clone)]
pub(super) struct Cast {
    pub(super) client: Client,
    pub(super) seed: u64,
    pub(super) patience: Patience,
    /// Told when the first questions stand.
    pub(super) entered: Arc<Notify>,
}

/// Whether agents do anything because time goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// They do: they lose patience, or come and go.
    Ends,
    /// They wait for ever: where the clock stands still, so do they.
    Endless,
}

impl Cast {
    /// Takes a question back, unless it was answered meanwhile: then that stands.
    pub(super) async fn takes_back(&self, asked: ApprovalId, reason: &str) -> Played {
        match self.client.withdraw(asked, &reason.into()).await {
            Ok(()) | Err(CallError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Who plays a scene once. What happens follows from these, and from the answers.
pub(super) struct Actor<'a> {
    cast: &'a Cast,
    standing: Shared,
    /// How often the scene was played before.
    lap: u64,
    first_story: u64,
    first_run: u64,
    pub(super) dice: Dice,
}

impl<'a> Actor<'a> {
    pub(super) fn new(cast: &'a Cast, scene: Scene, lap: u64, standing: Shared) -> Self {
        let (seed, scene) = (cast.seed, scene as u64);
        let mut first = Dice::of([seed, scene, u64::MAX]);
        Self {
            cast,
            standing,
            lap,
            first_story: first.between(0, 59),
            first_run: first.between(0x1000, 0xffff),
            dice: Dice::of([seed, scene, lap]),
        }
    }

    pub(super) fn plays_first(&self) -> bool {
        self.lap == 0
    }

    /// Another one each time, until all were told.
    pub(super) fn story<T: Copy, const N: usize>(&self, stories: [T; N]) -> T {
        let nth = self.first_story.wrapping_add(self.lap);
        stories[(nth % N as u64) as usize]
    }

    /// From so many seconds to so many.
    pub(super) fn span(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_secs(self.dice.between(low, high))
    }

    /// The same, before it comes to what there is to see: who looks for the first time sees it at once.
    pub(super) fn lead_in(&mut self, low: u64, high: u64) -> Duration {
        let span = self.span(low, high);
        if self.plays_first() {
            Duration::ZERO
        } else {
            span
        }
    }

    /// A run begins.
    pub(super) async fn open(&self, agent: &str) -> Played<Run<'a>> {
        self.open_for(agent, None).await
    }

    /// A run begins, for a user.
    pub(super) async fn open_for(&self, agent: &str, user: Option<Name>) -> Played<Run<'a>> {
        let opening = Opening {
            agent: agent.into(),
            session: "demo".into(),
            invocation: format!("{:04x}", self.first_run.wrapping_add(self.lap) % 0x1_0000).into(),
            user,
            ..Opening::default()
        };
        let id = self.cast.client.open_run(&opening).await?;
        self.standing.change(|run| run.run = Some(id));
        Ok(Run {
            cast: self.cast,
            standing: self.standing.clone(),
            id,
            opening,
            asked: 0,
        })
    }
}

/// A run, as its agent holds it.
pub(super) struct Run<'a> {
    cast: &'a Cast,
    standing: Shared,
    id: RunId,
    opening: Opening,
    /// How many questions its scene has asked since it began.
    asked: usize,
}

/// A question that was asked.
pub(super) struct Asked(ApprovalId);

/// A drift, as its agent reports it.
pub(super) struct Drift {
    pub(super) kind: &'static str,
    pub(super) severity: &'static str,
    pub(super) detail: String,
    pub(super) task: &'static str,
}

/// When it does anything.
impl Run<'_> {
    /// Does it, unless it is to stand still: then when it goes on.
    async fn does<T>(&self, doing: impl Future<Output = Result<T, CallError>>) -> Played<T> {
        let mut doing = pin!(doing);
        loop {
            self.standing.until(|run| run.stance != Stance::Still).await;
            tokio::select! {
                biased;
                () = self.standing.until(|run| run.stance == Stance::Still) => {}
                done = &mut doing => return Ok(done?),
            }
        }
    }

    /// Whether it only remembers what it did: a task that comes later is done once more.
    fn remembers(&self) -> bool {
        self.standing.look(|run| !run.again.is_empty())
    }

    fn comes_to(&self, task: &str) -> bool {
        self.standing.change(|run| run.comes_to(&task.into()))
    }

    /// Works for so long.
    pub(super) async fn works(&self, span: Duration) -> Played {
        if self.remembers() {
            return Ok(());
        }
        let working = async {
            sleep(span).await;
            Ok(())
        };
        self.does(working).await
    }

    /// Makes no call for so long, hears nothing, and is there again.
    pub(super) async fn is_gone(&self, span: Duration) -> Played {
        let gone = async {
            self.standing.change(|run| run.stance = Stance::Gone);
            sleep(span).await;
            self.cast.client.open_run(&self.opening).await?;
            self.standing.change(|run| run.stance = Stance::AtWork);
            Ok(())
        };
        self.does(gone).await
    }
}

/// What it says and does.
impl Run<'_> {
    /// A plan: the tasks in order, as `id`, title and state.
    pub(super) async fn plans<const N: usize>(
        &mut self,
        summary: &str,
        tasks: [(&str, &str, TaskState); N],
    ) -> Played {
        if self.remembers() {
            return self.does_what_is_done(tasks).await;
        }
        self.plans_for("", summary, tasks).await
    }

    /// A plan in place of the one before, because of the last drift.
    pub(super) async fn revises<const N: usize>(
        &mut self,
        summary: &str,
        tasks: [(&str, &str, TaskState); N],
    ) -> Played {
        if self.remembers() {
            return Ok(());
        }
        let drift = self.standing.look(|run| run.last_drift.clone());
        let cause = drift.as_ref().map_or("", DriftId::as_str);
        self.plans_for(cause, summary, tasks).await
    }

    async fn plans_for<const N: usize>(
        &self,
        cause: &str,
        summary: &str,
        tasks: [(&str, &str, TaskState); N],
    ) -> Played {
        let tasks = tasks.map(|(id, title, state)| PlanTask {
            id: id.into(),
            title: title.into(),
            state,
        });
        let planning = async {
            self.standing.change(|run| {
                run.summary = summary.into();
                run.tasks = tasks.into();
                run.revision += 1;
            });
            let plan = self.standing.look(Standing::plan);
            let cause = cause.into();
            self.cast.client.report_plan(self.id, &plan, &cause).await
        };
        self.does(planning).await
    }

    /// What stands in its plan as done, and is to be done once more.
    async fn does_what_is_done<const N: usize>(
        &self,
        tasks: [(&str, &str, TaskState); N],
    ) -> Played {
        for (id, _, state) in tasks {
            if state == TaskState::Completed && self.comes_to(id) {
                self.moves(id, TaskState::Running, "once more").await?;
                self.moves(id, state, "done once more").await?;
            }
        }
        Ok(())
    }

    pub(super) async fn moves(&self, task: &str, to: TaskState, detail: &str) -> Played {
        if !self.comes_to(task) {
            return Ok(());
        }
        let (task, detail) = (task.into(), detail.into());
        let title = Untrusted::default();
        let moving = async {
            self.standing.change(|run| run.moves(&task, &to));
            let client = &self.cast.client;
            let moved = client.report_task(self.id, &task, &title, &to, &detail);
            moved.await
        };
        self.does(moving).await
    }

    pub(super) async fn says(&self, text: &str) -> Played {
        if self.remembers() {
            return Ok(());
        }
        self.does(self.cast.client.say(self.id, &text.into())).await
    }

    /// The day it is where the server is, as `YYYY-MM-DD`.
    pub(super) async fn today(&self) -> Played<String> {
        let now = self.cast.client.heartbeat(&[self.id]).await?.to_string();
        Ok(now.chars().take("YYYY-MM-DD".len()).collect())
    }

    pub(super) async fn ends(self, how: End, reason: &str) -> Played {
        let (how, reason) = (Ending::Over(how), reason.into());
        self.does(self.cast.client.end_run(self.id, how, &reason))
            .await
    }
}

/// What goes wrong, and what it is told then.
impl Run<'_> {
    /// Something goes wrong; gives how strongly it is answered.
    pub(super) async fn drifts(&self, drift: Drift) -> Played<Level> {
        if !self.comes_to(drift.task) {
            return Ok(Level::Observe);
        }
        let report = self.report(drift)?;
        self.does(self.drift(&report)).await
    }

    /// The same, of a run that is held and does not keep still.
    pub(super) async fn drifts_though_held(&self, drift: Drift) -> Played<Level> {
        let report = self.report(drift)?;
        Ok(self.drift(&report).await?)
    }

    /// What was said to it before was said to something else.
    async fn drift(&self, report: &DriftReport) -> Result<Level, CallError> {
        self.standing.change(|run| run.told = None);
        self.cast.client.report_drift(self.id, report).await
    }

    fn report(&self, drift: Drift) -> Played<DriftReport> {
        let nth = self.standing.change(|run| {
            run.drifted += 1;
            run.drifted
        });
        let id = DriftId::parse(&format!("{}:drift-{nth}", self.name()))?;
        self.standing
            .change(|run| run.last_drift = Some(id.clone()));
        Ok(DriftReport {
            id,
            kind: drift.kind.into(),
            severity: drift.severity.into(),
            detail: drift.detail.into(),
            task: drift.task.into(),
        })
    }

    /// How a run that is held goes on, however long that takes to say.
    pub(super) async fn is_told(&self) -> Told {
        loop {
            self.standing.until(|run| run.told.is_some()).await;
            if let Some(told) = self.standing.change(|run| run.told.take()) {
                return told;
            }
        }
    }

    /// The same with a patience that ends.
    pub(super) async fn is_told_within(&self, patience: Duration) -> Option<Told> {
        match self.cast.patience {
            Patience::Ends => timeout(patience, self.is_told()).await.ok(),
            Patience::Endless => Some(self.is_told().await),
        }
    }

    fn name(&self) -> String {
        let Opening {
            agent, invocation, ..
        } = &self.opening;
        format!("{}:{}", agent.raw(), invocation.raw())
    }
}

/// What it asks, and hears.
impl Run<'_> {
    pub(super) async fn asks(&mut self, filing: Filing) -> Played<Asked> {
        let nth = self.asked;
        self.asked += 1;
        let within = filing.subject.task().clone();
        if !self.standing.change(|run| run.comes_to(&within))
            && let Some((before, _)) = self.standing.look(|run| run.asked.get(nth).cloned())
        {
            return Ok(Asked(before));
        }
        let count = self.standing.change(|run| {
            run.again.clear();
            run.filed += 1;
            run.filed
        });
        let filing = Filing {
            key: Some(Key::parse(&format!("{}:{count}", self.name()))?),
            ..filing
        };
        let asking = async {
            let filed = self.cast.client.file(self.id, &filing).await?;
            self.standing.change(|run| run.asks(nth, filed.id, &filing));
            Ok(Asked(filed.id))
        };
        self.does(asking).await
    }

    /// Asks, and waits for as long as it takes.
    pub(super) async fn asks_and_waits(&mut self, filing: Filing) -> Played<(Asked, Outcome)> {
        let asked = self.asks(filing).await?;
        let outcome = self.hears(&asked).await?;
        Ok((asked, outcome))
    }

    /// How a question ends, however long that takes.
    pub(super) async fn hears(&self, asked: &Asked) -> Played<Outcome> {
        loop {
            if let Some(outcome) = self.hears_within(HELD, asked).await? {
                return Ok(outcome);
            }
        }
    }

    /// How a question ends, if it ends so soon. That it did not is nobody's business.
    pub(super) async fn hears_within(
        &self,
        held: Duration,
        asked: &Asked,
    ) -> Played<Option<Outcome>> {
        self.cast.entered.notify_one();
        let polled = self.does(self.cast.client.poll(asked.0, held)).await?;
        Ok(ended(polled).await)
    }

    /// How a question ends, if that is before it has something else to do.
    pub(super) async fn hears_meanwhile(
        &self,
        span: Duration,
        asked: &Asked,
    ) -> Played<Option<Outcome>> {
        match self.cast.patience {
            Patience::Ends => self.hears_within(span, asked).await,
            Patience::Endless => self.hears(asked).await.map(Some),
        }
    }

    /// The same with a patience that ends: that it did is recorded, and the question stays open.
    pub(super) async fn waits(&self, patience: Duration, asked: &Asked) -> Played<Option<Outcome>> {
        if self.cast.patience == Patience::Endless {
            return self.hears(asked).await.map(Some);
        }
        self.cast.entered.notify_one();
        let wait = WaitId::parse("patience")?;
        let waited = self.cast.client.await_(asked.0, &wait, patience);
        Ok(ended(self.does(waited).await?).await)
    }

    pub(super) async fn did(&self, asked: &Asked, what: &str) -> Played {
        self.applied(asked, AppliedResult::Done, what).await
    }

    pub(super) async fn left_it(&self, asked: &Asked, why: &str) -> Played {
        self.applied(asked, AppliedResult::Skipped, why).await
    }

    async fn applied(&self, asked: &Asked, result: AppliedResult, detail: &str) -> Played {
        if self.remembers() {
            return Ok(());
        }
        let detail = detail.into();
        self.does(self.cast.client.report_applied(asked.0, result, &detail))
            .await
    }

    /// Takes a question back, unless it was answered meanwhile: then that stands.
    pub(super) async fn takes_back(&self, asked: &Asked, reason: &str) -> Played {
        self.standing.until(|run| run.stance != Stance::Still).await;
        self.cast.takes_back(asked.0, reason).await
    }
}

/// What was taken back because the run is called off never ends here: the order to stop is on its way.
async fn ended(awaited: Awaited) -> Option<Outcome> {
    match awaited {
        Awaited::Settled(settled) => match settled.outcome {
            Outcome::Withdrawn(Why::Cancelled { .. }) => pending().await,
            outcome => Some(outcome),
        },
        Awaited::Pending { .. } | Awaited::TimedOut(_) => None,
    }
}

/// May this task go on?
pub(super) fn task(id: &str, title: &str, detail: Detail) -> Filing {
    let task = Subject::Task { task: id.into() };
    filing(id, title, task, detail)
}

/// May this tool run, with these arguments, within this task?
pub(super) fn tool(
    name: &str,
    args: String,
    within: (&str, &str),
    title: &str,
    detail: Detail,
) -> Filing {
    let (task, call) = within;
    let tool = Subject::Tool {
        name: name.into(),
        task: task.into(),
    };
    let args = Some(args.into());
    filing(call, title, tool, Detail { args, ..detail })
}

fn filing(target: &str, title: &str, subject: Subject, detail: Detail) -> Filing {
    Filing {
        key: None,
        target: target.into(),
        step: Untrusted::default(),
        subject,
        title: title.into(),
        detail,
        asks: Asks::Operator,
        labels: [].into(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}

/// A question, and what either answer leads to.
pub(super) fn words(prompt: &str, yes: &str, no: &str) -> Detail {
    Detail {
        prompt: prompt.into(),
        facts: format!("approve: {yes}\nreject:  {no}").into(),
        ..Detail::default()
    }
}

/// So much of what a person said as fits into a sentence.
pub(super) fn quote(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", words[..end].trim_end()),
        None => words,
    }
}

/// What a person wrote beside their decision, for the agent's next sentence.
pub(super) fn note(decision: &registry::approval::Decision) -> String {
    let note = decision.note.raw().trim();
    if note.is_empty() {
        "without a note".into()
    } else {
        format!("with the note «{note}»")
    }
}
