//! An agent that turns in circles: its drifts climb the ladder until it is held, and a person says how it goes on.

use std::time::Duration;

use registry::{
    drift::Level,
    run::{
        End,
        TaskState::{self, Completed, Pending, Running},
    },
};

use crate::demo::{
    agent::{Actor, Drift, Played, Run, quote},
    standing::Told,
};

/// What is to be found out, and what is looked for again and again.
const QUESTIONS: [(&str, &str); 3] = [
    ("when the last tram ran", "last tram"),
    ("who drew the first sea chart", "sea chart"),
    ("why the old bridge was closed", "bridge closed"),
];

/// Somebody who searches.
struct Search {
    question: &'static str,
    query: &'static str,
    times: u64,
    pace: Duration,
}

pub(super) async fn play(actor: &mut Actor<'_>) -> Played {
    let (question, query) = actor.story(QUESTIONS);
    let search = Search {
        question,
        query,
        times: actor.dice.between(2, 4),
        pace: actor.span(2, 4),
    };
    let rounds = actor.dice.between(1, 2);
    let mut pace = actor.lead_in(5, 8);
    let mut run = actor.open("research-7").await?;
    run.plans(
        &format!("Find out {question}"),
        tasks("Collect sources", Running),
    )
    .await?;
    for _ in 0..rounds {
        match search.goes_in_circles(&mut run, pace).await? {
            Told::Resume => {
                run.says("It was nothing, I hear: I go on as before.")
                    .await?
            }
            Told::Steer(words) => {
                let told = format!("as told: «{words}»");
                return search.is_finished(run, &told).await;
            }
        }
        pace = search.pace;
    }
    search
        .is_finished(run, "with the sources that I have")
        .await
}

impl Search {
    /// The same search until it is held; each level of the ladder asks something else of it.
    async fn goes_in_circles(&self, run: &mut Run<'_>, pace: Duration) -> Played<Told> {
        for (severity, times) in [("warning", 1), ("critical", 2), ("critical", 3)] {
            run.works(pace).await?;
            let times = self.times * times;
            let drift = Drift {
                kind: "LOOPING_TOOL_CALL",
                severity,
                detail: format!("searched «{}» {times} times in vain", self.query),
                task: "t3",
            };
            match run.drifts(drift).await? {
                Level::Observe => {}
                Level::Absorb | Level::Nudge => self.is_adapted(run).await?,
                Level::CancelReinvoke => begins_anew(run).await?,
                Level::PauseEscalate | Level::Terminate => return Ok(run.is_told().await),
            }
        }
        Ok(Told::Resume)
    }

    async fn is_adapted(&self, run: &mut Run<'_>) -> Played {
        let summary = format!("Find out {}, with other words than before", self.question);
        let tasks = tasks("Collect sources, with other words", Running);
        run.revises(&summary, tasks).await
    }

    async fn is_finished(&self, run: Run<'_>, how: &str) -> Played {
        run.works(self.pace).await?;
        run.moves("t3", Completed, how).await?;
        run.moves("t4", Running, "").await?;
        run.works(self.pace).await?;
        run.moves("t4", Completed, how).await?;
        run.says(&format!("I know {}, {how}.", self.question))
            .await?;
        run.ends(End::Completed, &quote(how)).await
    }
}

async fn begins_anew(run: &Run<'_>) -> Played {
    run.says("I stop this attempt, and start t3 anew.").await?;
    run.moves("t3", Pending, "stopped").await?;
    run.moves("t3", Running, "anew").await
}

fn tasks(third: &str, stands: TaskState) -> [(&'static str, &str, TaskState); 4] {
    [
        ("t1", "Understand the question", Completed),
        ("t2", "Find the archives", Completed),
        ("t3", third, stands),
        ("t4", "Write the summary", Pending),
    ]
}
