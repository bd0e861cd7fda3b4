//! The demo: simulated agents, ordinary clients of AgentService, that ask whoever sits at the dashboard, and do as told.
//!
//! Invariant: what is asked, and what goes wrong, follows from the seed, the answers and the orders alone; that none comes in
//! time is one, too.

mod agent;
mod orders;
mod scenes;
mod seed;
mod standing;

use std::{pin::pin, sync::Arc, time::Duration};

use registry::{command::Ending, run::End};
use tokio::{sync::Notify, task::JoinSet, time::sleep};

pub use self::{
    agent::Patience,
    scenes::{NoSuchScene, Scene},
};
use self::{
    agent::{Actor, Cast, Played},
    orders::{Line, Next, Orders},
    scenes::Scene::*,
    standing::Shared,
};
use crate::connect::Client;

/// After a run that a person called off, or that a call put an end to: the disk is full, the server stops.
const PAUSE: Duration = Duration::from_secs(5);

/// A place on the stage: its scenes are played one after the other, again and again, each time by a new run.
struct Seat {
    scenes: &'static [Scene],
    /// How long ago its first question was asked, where the clock stands still: ages that read the same for a while.
    ago: Duration,
}

/// What is played side by side: one question each at first, so that the first screen can be read.
const SEATS: [Seat; 8] = [
    Seat::of(&[Escalation], 14 * 60 + 5),
    Seat::of(&[Abort], 13 * 60 + 5),
    Seat::of(&[Tool, Asks], 12 * 60 + 5),
    Seat::of(&[Form], 9 * 60 + 5),
    Seat::of(&[Task, Reword], 4 * 60 + 5),
    Seat::of(&[Away], 2 * 60 + 5),
    Seat::of(&[Timeout], 70),
    Seat::of(&[Deadline], 65),
];

impl Seat {
    const fn of(scenes: &'static [Scene], ago_seconds: u64) -> Self {
        Self {
            scenes,
            ago: Duration::from_secs(ago_seconds),
        }
    }
}

/// What they play.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// What is asked follows from it, and from the answers.
    pub seed: u64,
    /// One scene instead of all.
    pub only: Option<Scene>,
    /// Whether it follows from the time, too.
    pub patience: Patience,
}

/// The agents; they leave when it is dropped.
pub struct Demo {
    playing: JoinSet<()>,
}

impl Demo {
    /// Lets the agents in, one after the other: all of them, or the one of a scene. Their first questions stand when
    /// this returns, in the same order each time. `before` each it is said how long ago that is to have been, so that
    /// a clock that stands still can be set.
    pub async fn begin(client: &Client, script: Script, mut before: impl FnMut(Duration)) -> Self {
        let mut demo = Self {
            playing: JoinSet::new(),
        };
        for seat in &SEATS {
            let wanted = |scene: &Scene| script.only.is_none_or(|only| only == *scene);
            let scenes: Vec<Scene> = seat.scenes.iter().copied().filter(wanted).collect();
            if scenes.is_empty() {
                continue;
            }
            before(seat.ago);
            let cast = Cast {
                client: client.clone(),
                seed: script.seed,
                patience: script.patience,
                entered: Arc::new(Notify::new()),
            };
            demo.playing.spawn(play(cast.clone(), scenes));
            cast.entered.notified().await;
        }
        before(Duration::ZERO);
        demo
    }
}

/// A scene after the other, for ever.
async fn play(cast: Cast, scenes: Vec<Scene>) {
    for lap in 0.. {
        for scene in &scenes {
            let standing = Shared::default();
            match perform(&cast, *scene, lap, &standing).await {
                Ok(Exit::Done) => {}
                Ok(Exit::CalledOff) => sleep(PAUSE).await,
                Err(fault) => {
                    tracing::warn!(scene = scene.name(), "broken off: {fault}");
                    cast.entered.notify_one();
                    give_up(&cast, &standing).await;
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Nobody plays that run any more: what it asks is not left behind, if the server can still be told.
async fn give_up(cast: &Cast, standing: &Shared) {
    let Some(run) = standing.look(|standing| standing.run) else {
        return;
    };
    let (failed, why) = (Ending::Over(End::Failed), "broken off".into());
    if let Err(error) = cast.client.end_run(run, failed, &why).await {
        tracing::warn!(%run, "not ended: {error}");
    }
}

/// How a run was left.
enum Exit {
    Done,
    CalledOff,
}

/// A scene once; meanwhile its run takes orders.
async fn perform(cast: &Cast, scene: Scene, lap: u64, standing: &Shared) -> Played<Exit> {
    let mut line = Line::new(&cast.client, standing);
    let orders = Orders {
        cast,
        standing: standing.clone(),
    };
    loop {
        let mut actor = Actor::new(cast, scene, lap, standing.clone());
        let mut playing = pin!(scene.play(&mut actor));
        loop {
            let order = tokio::select! {
                played = &mut playing => return played.map(|()| Exit::Done),
                order = line.next() => order,
            };
            match orders.take(&order).await? {
                Next::Same => {}
                Next::Again => break,
                Next::CalledOff => return Ok(Exit::CalledOff),
            }
        }
    }
}
