//! The scenes: one way in which an agent asks, each, and what it does with every answer.

use std::str::FromStr;

use super::agent::{Actor, Played};

mod asks;
mod away;
mod deadline;
mod form;
mod reword;
mod task;
mod timeout;
mod tool;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// May this task go on?
    Task,
    /// May this tool run with these arguments?
    Tool,
    /// A form with a field of every type.
    Form,
    /// Its user is asked, and an admin.
    Asks,
    /// An agent that does not wait for ever.
    Timeout,
    /// A question that ends by itself.
    Deadline,
    /// An agent that comes and goes.
    Away,
    /// A question in other words, and one that is taken back.
    Reword,
}

use Scene::{Asks, Away, Deadline, Form, Reword, Task, Timeout, Tool};

impl Scene {
    /// All of them, in the order in which they are numbered, from 1.
    pub const ALL: [Self; 8] = [Task, Tool, Form, Asks, Timeout, Deadline, Away, Reword];

    /// The word that picks it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What there is to see.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Task => ("task", "a task waits for approval: a rollout"),
            Tool => (
                "tool",
                "a tool and its arguments, one of them with hidden characters; then one of high risk",
            ),
            Form => ("form", "a form with a field of every type"),
            Asks => ("asks", "questions for the user of a run, and for an admin"),
            Timeout => (
                "timeout",
                "an agent that goes on without an answer, and takes a late one",
            ),
            Deadline => ("deadline", "an offer that ends by itself, in three minutes"),
            Away => (
                "away",
                "an agent that is gone for a while, and gets its answer when it is back",
            ),
            Reword => (
                "reword",
                "questions that are asked in other words, or taken back",
            ),
        }
    }

    /// Once, to the end of its run.
    pub(super) async fn play(self, actor: &mut Actor) -> Played {
        match self {
            Task => task::play(actor).await,
            Tool => tool::play(actor).await,
            Form => form::play(actor).await,
            Asks => asks::play(actor).await,
            Timeout => timeout::play(actor).await,
            Deadline => deadline::play(actor).await,
            Away => away::play(actor).await,
            Reword => reword::play(actor).await,
        }
    }
}

/// There is no such scene; the others, for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such scene; there are, by name or number:{}", list())]
pub struct NoSuchScene;

fn list() -> String {
    let rows = Scene::ALL.iter().zip(1..);
    rows.map(|(scene, n)| format!("\n  {n}  {:<9}  {}", scene.name(), scene.about()))
        .collect()
}

impl FromStr for Scene {
    type Err = NoSuchScene;

    fn from_str(text: &str) -> Result<Self, NoSuchScene> {
        let mut numbered = Self::ALL.into_iter().zip(1..);
        let found =
            numbered.find(|(scene, n): &(Self, u32)| scene.name() == text || n.to_string() == text);
        found.map(|(scene, _)| scene).ok_or(NoSuchScene)
    }
}
