//! A simulated agent: an actor who plays one scene, in one run, by the calls that every agent makes.

use std::{sync::Arc, time::Duration};

use registry::{
    ApprovalId, Asks, Detail, Name, Refusal, RunId, Untrusted,
    approval::{AppliedResult, Filing, Hold, OnDeadline, Outcome, Risk, Subject},
    command::Ending,
    form::{FormError, Problem},
    names::{Key, WaitId},
    run::{End, Plan, PlanTask, TaskState},
};
use tokio::{sync::Notify, time::sleep};

use super::{scenes::Scene, seed::Dice};
use crate::connect::{Awaited, CallError, Client, Opening};

/// How long one call waits for an answer that is waited for without end.
const HELD: Duration = Duration::from_secs(50);

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

/// Who plays a scene once. What happens follows from these, and from the answers.
pub(super) struct Actor {
    client: Client,
    /// How often the scene was played before.
    lap: u64,
    first_story: u64,
    first_run: u64,
    pub(super) dice: Dice,
    /// Told when the first questions stand.
    entered: Arc<Notify>,
}

impl Actor {
    pub(super) fn new(
        client: Client,
        seed: u64,
        scene: Scene,
        lap: u64,
        entered: Arc<Notify>,
    ) -> Self {
        let scene = scene as u64;
        let mut first = Dice::of([seed, scene, u64::MAX]);
        Self {
            client,
            lap,
            first_story: first.between(0, 59),
            first_run: first.between(0x1000, 0xffff),
            dice: Dice::of([seed, scene, lap]),
            entered,
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

    /// A run begins.
    pub(super) async fn open(&self, agent: &str) -> Played<Run> {
        self.open_for(agent, None).await
    }

    /// A run begins, for a user.
    pub(super) async fn open_for(&self, agent: &str, user: Option<Name>) -> Played<Run> {
        let opening = Opening {
            agent: agent.into(),
            session: "demo".into(),
            invocation: format!("{:04x}", self.first_run.wrapping_add(self.lap) % 0x1_0000).into(),
            user,
            ..Opening::default()
        };
        Ok(Run {
            client: self.client.clone(),
            id: self.client.open_run(&opening).await?,
            opening,
            asked: 0,
            revision: 0,
            entered: self.entered.clone(),
        })
    }
}

/// A run, as its agent holds it.
pub(super) struct Run {
    client: Client,
    id: RunId,
    opening: Opening,
    asked: u32,
    revision: u32,
    entered: Arc<Notify>,
}

/// A question that was asked.
pub(super) struct Asked(ApprovalId);

/// What it says and does.
impl Run {
    /// A plan, in place of the one before; the tasks in order, as `id`, title and state.
    pub(super) async fn plans<const N: usize>(
        &mut self,
        summary: &str,
        tasks: [(&str, &str, TaskState); N],
    ) -> Played {
        self.revision += 1;
        let tasks = tasks.map(|(id, title, state)| PlanTask {
            id: id.into(),
            title: title.into(),
            state,
        });
        let plan = Plan {
            revision: self.revision,
            summary: summary.into(),
            tasks: tasks.into(),
        };
        let cause = Untrusted::default();
        Ok(self.client.report_plan(self.id, &plan, &cause).await?)
    }

    pub(super) async fn moves(&self, task: &str, to: TaskState, detail: &str) -> Played {
        let (task, detail) = (task.into(), detail.into());
        let title = Untrusted::default();
        let moved = self
            .client
            .report_task(self.id, &task, &title, &to, &detail);
        Ok(moved.await?)
    }

    pub(super) async fn says(&self, text: &str) -> Played {
        Ok(self.client.say(self.id, &text.into()).await?)
    }

    /// The day it is where the server is, as `YYYY-MM-DD`.
    pub(super) async fn today(&self) -> Played<String> {
        let now = self.client.heartbeat(&[self.id]).await?.to_string();
        Ok(now.chars().take("YYYY-MM-DD".len()).collect())
    }

    pub(super) async fn ends(self, how: End, reason: &str) -> Played {
        let how = Ending::Over(how);
        Ok(self.client.end_run(self.id, how, &reason.into()).await?)
    }
}

/// What it asks, and hears.
impl Run {
    pub(super) async fn asks(&mut self, filing: Filing) -> Played<Asked> {
        self.asked += 1;
        let Opening {
            agent, invocation, ..
        } = &self.opening;
        let key = format!("{}:{}:{}", agent.raw(), invocation.raw(), self.asked);
        let filing = Filing {
            key: Some(Key::parse(&key)?),
            ..filing
        };
        Ok(Asked(self.client.file(self.id, &filing).await?.id))
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
        self.entered.notify_one();
        Ok(ended(self.client.poll(asked.0, held).await?))
    }

    /// The same with a patience that ends: that it did is recorded, and the question stays open.
    pub(super) async fn waits(&self, patience: Duration, asked: &Asked) -> Played<Option<Outcome>> {
        self.entered.notify_one();
        let wait = WaitId::parse("patience")?;
        Ok(ended(self.client.await_(asked.0, &wait, patience).await?))
    }

    pub(super) async fn did(&self, asked: &Asked, what: &str) -> Played {
        self.applied(asked, AppliedResult::Done, what).await
    }

    pub(super) async fn left_it(&self, asked: &Asked, why: &str) -> Played {
        self.applied(asked, AppliedResult::Skipped, why).await
    }

    pub(super) async fn applied(
        &self,
        asked: &Asked,
        result: AppliedResult,
        detail: &str,
    ) -> Played {
        let detail = detail.into();
        Ok(self.client.report_applied(asked.0, result, &detail).await?)
    }

    /// Takes a question back, unless it was answered meanwhile: then that stands.
    pub(super) async fn takes_back(&self, asked: &Asked, reason: &str) -> Played {
        match self.client.withdraw(asked.0, &reason.into()).await {
            Ok(()) | Err(CallError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes no call for so long, and is there again.
    pub(super) async fn is_gone(&self, span: Duration) -> Played {
        sleep(span).await;
        self.client.open_run(&self.opening).await?;
        Ok(())
    }
}

fn ended(awaited: Awaited) -> Option<Outcome> {
    match awaited {
        Awaited::Settled(settled) => Some(settled.outcome),
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

/// What a person wrote beside their decision, for the agent's next sentence.
pub(super) fn note(decision: &registry::approval::Decision) -> String {
    let note = decision.note.raw().trim();
    if note.is_empty() {
        "without a note".into()
    } else {
        format!("with the note «{note}»")
    }
}
