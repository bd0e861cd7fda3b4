//! An agent that comes and goes: it runs on a laptop, and gets its answer when the lid is open again.

use std::time::Duration;

use registry::{
    approval::{Filing, Outcome, Risk},
    run::End,
};

use crate::demo::agent::{Actor, Played, note, tool, words};

const HERE: Duration = Duration::from_secs(15);
/// Longer than the server's lease of 15 s.
const GONE: Duration = Duration::from_secs(45);

const PATHS: [&str; 3] = [
    "/var/cache/builds",
    "~/.cache/thumbnails",
    "/srv/ci/workspaces",
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let path = actor.story(PATHS);
    let gigabytes = actor.dice.between(11, 48);
    let mut run = actor.open("laptop-ci").await?;
    let clean = tool(
        "Bash",
        format!(r#"{{"command": "rm -rf {path}/*", "timeout_ms": 60000}}"#),
        ("", "call-1"),
        &format!("Free {gigabytes} GB?"),
        words(
            &format!(
                "The next build needs room: may I empty {path}? I run on a laptop whose lid is often shut, \
                 so I may be away when you answer. Answer all the same: I get it when I am back."
            ),
            "I empty it as soon as I am here.",
            "I build without the cache.",
        ),
    );
    let clean = Filing {
        risk: Risk::High,
        ..clean
    };
    let asked = run.asks(clean).await?;
    let outcome = loop {
        match run.hears_within(HERE, &asked).await? {
            Some(outcome) => break outcome,
            None => run.is_gone(GONE).await?,
        }
    };
    match outcome {
        Outcome::Granted(_) => {
            run.did(&asked, &format!("I am here, and {gigabytes} GB are free"))
                .await?;
        }
        Outcome::Rejected(decision) => {
            let why = format!(
                "I am here, and build without the cache: rejected {}",
                note(&decision)
            );
            run.left_it(&asked, &why).await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.says("I was away, and my question is gone: I build without the cache.")
                .await?;
        }
    }
    run.ends(End::Completed, "built").await
}
