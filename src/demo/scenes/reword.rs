//! Two questions at once: what is answered to one changes the other, or takes it back.

use std::time::Duration;

use registry::{
    Detail,
    approval::Outcome,
    run::{
        End,
        TaskState::{Cancelled, Completed, NotNeeded, Pending},
    },
};

use crate::demo::agent::{Actor, Asked, Played, Run, task, words};

const SUBJECTS: [(&str, &str); 3] = [
    ("the harbour fire of 1911", "the maritime museum"),
    ("the first tide tables", "the observatory"),
    ("the lost lighthouse", "the coast guard"),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (subject, museum) = actor.story(SUBJECTS);
    let euros = actor.dice.between(20, 60);
    let mut run = actor.open("research-9").await?;
    run.plans(
        &format!("Find sources on {subject}"),
        [
            ("t1", "Search what is free", Completed),
            ("t2", "Search the paid archive", Pending),
            ("t3", &format!("Ask {museum}"), Pending),
        ],
    )
    .await?;
    let archive = task(
        "t2",
        "Use the paid archive?",
        words(
            &format!("The paid archive has scans on {subject}, for {euros} EUR. May I?"),
            &format!("I buy them, and take back my other question, about {museum}."),
            "I ask that other question again, in other words: watch the list.",
        ),
    );
    let letter = task(
        "t3",
        &format!("Write to {museum}?"),
        words(
            &format!("May I ask {museum} for what they have on {subject}?"),
            "a letter goes out.",
            "I write without them.",
        ),
    );
    let archive = run.asks(archive).await?;
    let letter = run.asks(letter).await?;
    match run.hears(&archive).await? {
        Outcome::Granted(_) => {
            let bought = format!("bought the scans for {euros} EUR");
            run.moves("t2", Completed, &bought).await?;
            run.did(
                &archive,
                &format!("{bought}; took back the question about {museum}"),
            )
            .await?;
            run.takes_back(&letter, "the scans have it all").await?;
            answered(run, &letter).await
        }
        Outcome::Rejected(_) => {
            run.moves("t2", Cancelled, "too expensive").await?;
            run.left_it(
                &archive,
                &format!("did not buy; asking about {museum} anew"),
            )
            .await?;
            ask_anew(run, &letter, subject, museum).await
        }
        Outcome::Expired | Outcome::Withdrawn(_) => answered(run, &letter).await,
    }
}

async fn ask_anew(mut run: Run, before: &Asked, subject: &str, museum: &str) -> Played {
    if run.hears_within(Duration::ZERO, before).await?.is_some() {
        return answered(run, before).await;
    }
    let letter = task(
        "t3",
        &format!("Write to {museum} (reworded)?"),
        Detail {
            body: "This takes the place of my earlier question on the same task; that one is withdrawn."
                .into(),
            ..words(
                &format!(
                    "Without the archive, {museum} is all there is on {subject}. \
                     May I write to them, and pay for copies up to 10 EUR?"
                ),
                "a letter goes out, with that limit.",
                "I write without them, and say so.",
            )
        },
    );
    let letter = run.asks(letter).await?;
    answered(run, &letter).await
}

async fn answered(run: Run, letter: &Asked) -> Played {
    match run.hears(letter).await? {
        Outcome::Granted(_) => {
            run.moves("t3", Completed, "the letter is out").await?;
            run.did(letter, "the letter is out").await?;
        }
        Outcome::Rejected(_) => {
            run.moves("t3", Cancelled, "no letter").await?;
            run.left_it(letter, "no letter").await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.moves("t3", NotNeeded, "no longer asked").await?;
        }
    }
    run.ends(End::Completed, "written with what there was")
        .await
}
