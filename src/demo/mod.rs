//! The demo: simulated agents, ordinary clients of AgentService, that ask whoever sits at the dashboard.
//!
//! Invariant: what is asked follows from the seed and the answers alone; an answer that does not come in time is one, too.

mod agent;
mod scenes;
mod seed;

use std::{sync::Arc, time::Duration};

use tokio::{sync::Notify, task::JoinSet, time::sleep};

pub use self::scenes::{NoSuchScene, Scene};
use self::{agent::Actor, scenes::Scene::*};
use crate::connect::Client;

/// After a scene that a call put an end to: the disk is full, the server stops.
const PAUSE: Duration = Duration::from_secs(5);

/// A place on the stage: its scenes are played one after the other, again and again, each time by a new run.
struct Seat {
    scenes: &'static [Scene],
    /// How long ago its first question was asked, where the clock stands still: ages that read the same for a while.
    ago: Duration,
}

/// What is played side by side: one question each at first, so that the first screen can be read.
const SEATS: [Seat; 6] = [
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

/// The agents; they leave when it is dropped.
pub struct Demo {
    playing: JoinSet<()>,
}

impl Demo {
    /// Lets the agents in, one after the other: all of them, or the one of a scene. Their first questions stand when
    /// this returns, in the same order each time. `before` each it is said how long ago that is to have been, so that
    /// a clock that stands still can be set.
    pub async fn begin(
        client: &Client,
        seed: u64,
        only: Option<Scene>,
        mut before: impl FnMut(Duration),
    ) -> Self {
        let mut demo = Self {
            playing: JoinSet::new(),
        };
        for seat in &SEATS {
            let wanted = |scene: &Scene| only.is_none_or(|only| only == *scene);
            let scenes: Vec<Scene> = seat.scenes.iter().copied().filter(wanted).collect();
            if scenes.is_empty() {
                continue;
            }
            before(seat.ago);
            let entered = Arc::new(Notify::new());
            let playing = play(client.clone(), seed, scenes, entered.clone());
            demo.playing.spawn(playing);
            entered.notified().await;
        }
        before(Duration::ZERO);
        demo
    }
}

async fn play(client: Client, seed: u64, scenes: Vec<Scene>, entered: Arc<Notify>) {
    for lap in 0.. {
        for scene in &scenes {
            let mut actor = Actor::new(client.clone(), seed, *scene, lap, entered.clone());
            if let Err(fault) = scene.play(&mut actor).await {
                tracing::warn!(scene = scene.name(), "broken off: {fault}");
                entered.notify_one();
                sleep(PAUSE).await;
            }
        }
    }
}
