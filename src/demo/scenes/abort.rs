//! An agent that goes astray: it is held; what it does once more then, told or not, ends its run.

use registry::{
    drift::Level,
    run::{
        End,
        TaskState::{Completed, Pending, Running},
    },
};

use crate::demo::{
    agent::{Actor, Drift, Played, Run},
    standing::Told,
};

/// A table, and how many rows it has.
const TABLES: [(&str, u32); 3] = [
    ("prices", 88_000),
    ("addresses", 412_000),
    ("stock", 23_500),
];

pub(super) async fn play(actor: &mut Actor<'_>) -> Played {
    let (table, all) = actor.story(TABLES);
    let changed = actor.dice.between(112, 486);
    let patience = actor.span(45, 60);
    let (lead_in, pace) = (actor.lead_in(40, 90), actor.span(4, 8));
    let mut run = actor.open("etl-nightly").await?;
    run.plans(
        &format!("Load the {changed} {table} that changed"),
        [
            ("t1", "Fetch what changed", Completed),
            ("t2", "Load it", Running),
            ("t3", "Publish", Pending),
        ],
    )
    .await?;
    run.works(lead_in).await?;
    let patience_s = patience.as_secs();
    let wants = format!(
        "about to rewrite all {all} {table}, not the {changed} that changed; without a word from you I go on in {patience_s} s"
    );
    let drift = |detail| Drift {
        kind: "INTENT_DIVERGENCE",
        severity: "critical",
        detail,
        task: "t2",
    };
    let mut level = run.drifts(drift(wants)).await?;
    while level >= Level::PauseEscalate {
        let told = match level {
            Level::Terminate => Some(run.is_told().await),
            _ => run.is_told_within(patience).await,
        };
        level = match told {
            Some(Told::Resume) => break,
            Some(Told::Steer(words)) => {
                run.says(&format!("I try to keep to «{words}».")).await?;
                run.works(pace).await?;
                let again = format!("told «{words}», and still rewrites all {all} {table}");
                run.drifts(drift(again)).await?
            }
            None => {
                let ignored =
                    format!("nobody said a word for {patience_s} s: rewrites all {all} {table}");
                run.drifts_though_held(drift(ignored)).await?
            }
        };
    }
    is_finished(run, &format!("all {all} {table} rewritten")).await
}

async fn is_finished(run: Run<'_>, how: &str) -> Played {
    run.moves("t2", Completed, how).await?;
    run.moves("t3", Completed, "published").await?;
    run.ends(End::Completed, how).await
}
