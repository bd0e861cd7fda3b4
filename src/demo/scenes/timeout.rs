//! An agent that does not wait for ever: it goes on, says so, and takes the late answer, too.

use std::time::Duration;

use registry::{
    approval::Outcome,
    run::{
        End,
        TaskState::{Completed, NotNeeded, Pending, Running},
    },
};

use crate::demo::agent::{Actor, Asked, Played, Run, note, task, words};

const TABLES: [(&str, &str); 3] = [
    ("orders.csv", "a price of «n/a»"),
    ("parcels.csv", "no postcode"),
    ("meters.csv", "a reading from next year"),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (file, fault) = actor.story(TABLES);
    let rows = actor.dice.between(3, 17);
    let patience = actor.dice.between(20, 30);
    let mut run = actor.open("etl-nightly").await?;
    run.plans(
        &format!("Load {file} before six"),
        [
            ("t1", "Fetch the file", Completed),
            ("t2", &format!("Load the {rows} odd rows"), Pending),
            ("t3", "Load the rest, and publish", Pending),
        ],
    )
    .await?;
    let odd = task(
        "t2",
        &format!("Load {rows} odd rows?"),
        words(
            &format!(
                "{rows} rows of {file} have {fault}. Load them as they are? \
                 I wait {patience} s, then I go on without them; this question stays, and a late answer counts."
            ),
            "I load them, now or after the rest.",
            "I leave them out.",
        ),
    );
    let odd = run.asks(odd).await?;
    let in_time = run.waits(Duration::from_secs(patience), &odd).await?;
    if let Some(outcome) = in_time {
        odd_rows(&run, &odd, outcome, "in time").await?;
        let rest = rest(&mut run, file).await?;
        rest_loaded(&run, &rest).await?;
    } else {
        run.says(&format!(
            "No answer about the {rows} odd rows within {patience} s: I go on without them. The question stays open."
        ))
        .await?;
        let rest = rest(&mut run, file).await?;
        let late =
            async { odd_rows(&run, &odd, run.hears(&odd).await?, "late, but it counts").await };
        tokio::try_join!(late, rest_loaded(&run, &rest))?;
    }
    run.ends(End::Completed, "the night is done").await
}

async fn odd_rows(run: &Run, asked: &Asked, outcome: Outcome, when: &str) -> Played {
    match outcome {
        Outcome::Granted(_) => {
            run.moves("t2", Completed, when).await?;
            run.did(asked, &format!("{when}: the odd rows are loaded"))
                .await
        }
        Outcome::Rejected(decision) => {
            let why = format!("{when}: left out, {}", note(&decision));
            run.moves("t2", NotNeeded, &why).await?;
            run.left_it(asked, &why).await
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.moves("t2", NotNeeded, "the question was taken away")
                .await
        }
    }
}

async fn rest(run: &mut Run, file: &str) -> Played<Asked> {
    run.moves("t3", Running, "loading the rest").await?;
    run.asks(task(
        "t3",
        &format!("Publish {file}?"),
        words(
            &format!("The rest of {file} is loaded. May the reports use it?"),
            "the reports are built from it.",
            "they go on with yesterday's.",
        ),
    ))
    .await
}

async fn rest_loaded(run: &Run, asked: &Asked) -> Played {
    match run.hears(asked).await? {
        Outcome::Granted(_) => {
            run.moves("t3", Completed, "published").await?;
            run.did(asked, "the reports are built from it").await
        }
        Outcome::Rejected(_) => {
            run.moves("t3", NotNeeded, "not published").await?;
            run.left_it(asked, "the reports show yesterday").await
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.moves("t3", NotNeeded, "the question was taken away")
                .await
        }
    }
}
