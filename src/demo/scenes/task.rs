//! A task that waits for approval: a new version, first for a few, then for everybody.

use registry::{
    approval::{Decision, Outcome},
    run::{
        End,
        TaskState::{self, Completed, Failed, NotNeeded, Pending, Running},
    },
};

use crate::demo::agent::{Actor, Asked, Played, Run, note, task, words};

const RELEASES: [(&str, &str); 4] = [
    ("checkout", "4.2.0"),
    ("search", "11.0.3"),
    ("mail-gateway", "2.19.0"),
    ("invoices", "7.1.1"),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (service, version) = actor.story(RELEASES);
    let percent = 5 * actor.dice.between(1, 4);
    let errors = actor.dice.between(11, 39);
    let mut run = actor.open("release-bot").await?;
    run.plans(
        &format!("Bring {service} {version} to everybody"),
        [
            ("t1", "Build and test", Completed),
            ("t2", "Roll out to a few", Pending),
            ("t3", "Roll out to everybody", Pending),
        ],
    )
    .await?;
    run.says(&format!(
        "{service} {version} is built; all 1184 tests pass."
    ))
    .await?;
    let few = task(
        "t2",
        &format!("Roll out {service} to {percent} %?"),
        words(
            &format!(
                "{service} {version} is built and tested. May I give it to {percent} % of the users?"
            ),
            "t2 goes on; then I show you the error rate and ask about everybody.",
            "t2 fails, t3 is not needed, and nobody gets this version.",
        ),
    );
    let (asked, outcome) = run.asks_and_waits(few).await?;
    match outcome {
        Outcome::Granted(_) => {
            let came = format!("{percent} % of the users have {version}; error rate 0.{errors} %");
            run.moves("t2", Running, "rolling out").await?;
            run.moves("t2", Completed, &came).await?;
            run.did(&asked, &came).await?;
            everybody(run, service, &came).await
        }
        Outcome::Rejected(decision) => stop(run, &asked, &decision).await,
        Outcome::Expired | Outcome::Withdrawn(_) => give_up(run, "t2").await,
    }
}

async fn everybody(mut run: Run, service: &str, so_far: &str) -> Played {
    let all = task(
        "t3",
        &format!("{service}: to all?"),
        words(
            &format!("{so_far}, as before. May everybody have it?"),
            "t3 goes on, and the rollout is complete.",
            "it stays where it is; t3 is called off.",
        ),
    );
    let (asked, outcome) = run.asks_and_waits(all).await?;
    match outcome {
        Outcome::Granted(_) => {
            run.moves("t3", Completed, "everybody has it").await?;
            run.did(&asked, "everybody has it").await?;
            run.ends(End::Completed, "rolled out").await
        }
        Outcome::Rejected(decision) => {
            let why = format!("stays with a few: rejected {}", note(&decision));
            run.moves("t3", TaskState::Cancelled, &why).await?;
            run.left_it(&asked, &why).await?;
            run.ends(End::Completed, "stays with a few").await
        }
        Outcome::Expired | Outcome::Withdrawn(_) => give_up(run, "t3").await,
    }
}

async fn stop(run: Run, asked: &Asked, decision: &Decision) -> Played {
    let why = format!("rejected {}", note(decision));
    run.moves("t2", Failed, &why).await?;
    run.moves("t3", NotNeeded, "").await?;
    run.left_it(asked, "nothing was rolled out").await?;
    run.ends(End::Failed, &why).await
}

async fn give_up(run: Run, task: &str) -> Played {
    run.moves(task, NotNeeded, "nobody decides about it any more")
        .await?;
    run.ends(End::Cancelled, "the question was taken away")
        .await
}
