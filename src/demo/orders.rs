//! How an agent takes orders: while it works, while it waits, and while it stands still.

use std::{pin::Pin, time::Duration};

use registry::{
    Control, RunId, Untrusted,
    command::{AckResult, Ending},
    control::Verb,
    run::{End, TaskState},
};
use tokio::time::sleep;
use tokio_stream::{Stream, StreamExt as _};

use super::{
    agent::{Cast, Played, quote},
    standing::{Shared, Stance, Standing, Told},
};
use crate::connect::{CallError, Client};

/// Before a line that was cut is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// What follows from an order for the scene.
pub(super) enum Next {
    /// It goes on from where it is, or stands still there.
    Same,
    /// It is played from its beginning, and remembers what it need not do again.
    Again,
    /// Its run is over.
    CalledOff,
}

/// On which an agent hears its orders.
pub(super) struct Line {
    client: Client,
    standing: Shared,
    open: Option<Pin<Box<Heard>>>,
}

type Heard = dyn Stream<Item = Result<Control, CallError>> + Send;

impl Line {
    pub(super) fn new(client: &Client, standing: &Shared) -> Self {
        Self {
            client: client.clone(),
            standing: standing.clone(),
            open: None,
        }
    }

    /// The next one. What was not acked when a line was cut comes again on the next.
    pub(super) async fn next(&mut self) -> Control {
        loop {
            let can_hear = |run: &Standing| run.run.is_some() && run.stance != Stance::Gone;
            self.standing.until(can_hear).await;
            if let Some(run) = self.standing.look(|run| run.run)
                && let Some(order) = self.hear(run).await
            {
                return order;
            }
            self.open = None;
        }
    }

    async fn hear(&mut self, run: RunId) -> Option<Control> {
        let line = match &mut self.open {
            Some(line) => line,
            line @ None => match self.client.controls(run).await {
                Ok(opened) => line.insert(Box::pin(opened)),
                Err(_) => {
                    sleep(REOPEN).await;
                    return None;
                }
            },
        };
        tokio::select! {
            heard = line.next() => match heard {
                Some(Ok(order)) => return Some(order),
                Some(Err(_)) | None => sleep(REOPEN).await,
            },
            () = self.standing.until(|run| run.stance == Stance::Gone) => {}
        }
        None
    }
}

/// The agent that does as it is told.
pub(super) struct Orders<'a> {
    pub(super) cast: &'a Cast,
    pub(super) standing: Shared,
}

impl Orders<'_> {
    pub(super) async fn take(&self, order: &Control) -> Played<Next> {
        match &order.verb {
            Verb::Pause => self.pause(order).await,
            Verb::Resume => self.resume(order).await,
            Verb::Steer => self.steer(order).await,
            Verb::Cancel => self.cancel(order).await,
            Verb::Rewind { task } => self.rewind(order, task).await,
            Verb::StatusQuery => self.say_where(order).await,
        }
    }

    async fn pause(&self, order: &Control) -> Played<Next> {
        self.standing.change(|run| run.stance = Stance::Still);
        self.ack(order, "paused").await?;
        self.cast.entered.notify_one();
        Ok(Next::Same)
    }

    async fn resume(&self, order: &Control) -> Played<Next> {
        self.ack(order, "resumed").await?;
        self.go_on(Told::Resume);
        Ok(Next::Same)
    }

    async fn steer(&self, order: &Control) -> Played<Next> {
        self.ack(order, "steer queued").await?;
        let words = quote(order.note.raw());
        self.standing.change(|run| {
            run.directions.push(words.clone());
            run.revision += 1;
        });
        let plan = self.standing.look(Standing::plan);
        let (client, cause) = (&self.cast.client, order.id.as_str().into());
        client.report_plan(order.run, &plan, &cause).await?;
        let by = &order.by;
        let kept =
            format!("{by} says «{words}»: my plan is revised, and what is left keeps to that.");
        client.say(order.run, &kept.into()).await?;
        self.go_on(Told::Steer(words));
        Ok(Next::Same)
    }

    fn go_on(&self, told: Told) {
        self.standing.change(|run| {
            run.stance = Stance::AtWork;
            run.told = Some(told);
        });
    }

    /// What is left is called off first: of a drift of level 5, the ack is the end of the run.
    async fn cancel(&self, order: &Control) -> Played<Next> {
        let (end, why) = match &order.drift {
            Some(drift) => (End::Aborted, format!("level {}", drift.level.number())),
            None => (End::Cancelled, format!("called off by {}", order.by)),
        };
        for task in self.standing.look(Standing::left) {
            self.move_task(order, &task, TaskState::Cancelled, &why)
                .await?;
        }
        self.ack(order, "stopping").await?;
        let (client, ended) = (&self.cast.client, Ending::Over(end));
        client.end_run(order.run, ended, &why.into()).await?;
        Ok(Next::CalledOff)
    }

    async fn rewind(&self, order: &Control, task: &Untrusted) -> Played<Next> {
        let refused = match self.standing.look(|run| run.state_of(task).cloned()) {
            None => "unknown task",
            Some(TaskState::Pending) => "that task has not begun",
            Some(_) => return self.do_again(order, task).await,
        };
        self.answer(order, AckResult::Failure, refused).await?;
        Ok(Next::Same)
    }

    /// What it asks within these tasks it will ask again.
    async fn do_again(&self, order: &Control, from: &Untrusted) -> Played<Next> {
        let (tasks, asked) = self
            .standing
            .look(|run| (run.from(from), run.asked_from(from)));
        self.ack(order, &format!("{} once more", from.raw()))
            .await?;
        let why = format!("once more, says {}", order.by);
        for asked in asked {
            self.cast.takes_back(asked, &why).await?;
        }
        for task in &tasks {
            self.move_task(order, task, TaskState::Pending, &why)
                .await?;
        }
        self.standing.change(|run| run.again = tasks);
        Ok(Next::Again)
    }

    async fn say_where(&self, order: &Control) -> Played<Next> {
        let here = self.standing.look(Standing::says_where);
        self.ack(order, &here).await?;
        Ok(Next::Same)
    }

    async fn move_task(
        &self,
        order: &Control,
        task: &Untrusted,
        to: TaskState,
        why: &str,
    ) -> Played {
        self.standing.change(|run| run.moves(task, &to));
        let (title, why) = (Untrusted::default(), why.into());
        let client = &self.cast.client;
        let moved = client.report_task(order.run, task, &title, &to, &why);
        Ok(moved.await?)
    }

    async fn ack(&self, order: &Control, detail: &str) -> Played {
        self.answer(order, AckResult::Success, detail).await
    }

    async fn answer(&self, order: &Control, result: AckResult, detail: &str) -> Played {
        let (client, detail) = (&self.cast.client, detail.into());
        let acked = client.ack_control(order.run, &order.id, result, &detail);
        Ok(acked.await?)
    }
}
