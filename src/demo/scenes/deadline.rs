//! A question that ends by itself: a fare that is held for a minute, then one that is held longer.

use std::time::Duration;

use registry::{
    approval::{Filing, Outcome},
    run::End,
};

use crate::demo::agent::{Actor, Played, note, tool, words};

/// Where from, where to, the fare, and the one after it.
const TRIPS: [(&str, &str, u32, u32); 3] = [
    ("HAM", "OSL", 214, 239),
    ("TRD", "CPH", 168, 191),
    ("VIE", "LIS", 302, 347),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (from, to, fare, later) = actor.story(TRIPS);
    let flight = actor.dice.between(400, 899);
    // Who has just come sees one end; who stays has time.
    let held = match actor.plays_first() {
        true => Duration::from_secs(60),
        false => Duration::from_secs(60 * actor.dice.between(3, 8)),
    };
    let mut run = actor.open("travel-desk").await?;
    let offers = [(fare, held), (later, Duration::from_secs(5 * 60))];
    for (n, (fare, held)) in (1..).zip(offers) {
        let book = tool(
            "book_flight",
            format!(
                r#"{{"flight": "SK {flight}", "from": "{from}", "to": "{to}", "fare": {fare}, "currency": "EUR"}}"#
            ),
            ("", &format!("offer-{n}")),
            &format!("Book {from}–{to}, {fare} EUR?"),
            words(
                &format!(
                    "The airline holds this fare for {} minutes, and then it is gone. Book?",
                    held.as_secs() / 60
                ),
                "I book; a ticket cannot be given back.",
                "I let it go, and take the train.",
            ),
        );
        let book = Filing {
            deadline: Some(held),
            ..book
        };
        let (asked, outcome) = run.asks_and_waits(book).await?;
        match outcome {
            Outcome::Granted(_) => {
                run.did(&asked, &format!("booked SK {flight} for {fare} EUR"))
                    .await?;
                return run.ends(End::Completed, "booked").await;
            }
            Outcome::Rejected(decision) => {
                let why = format!("took the train, rejected {}", note(&decision));
                run.left_it(&asked, &why).await?;
                return run.ends(End::Completed, "by train").await;
            }
            Outcome::Expired => {
                let gone = format!(
                    "Nobody decided: the fare of {fare} EUR is gone. A decision now would be refused."
                );
                run.says(&gone).await?;
            }
            Outcome::Withdrawn(_) => {
                return run
                    .ends(End::Cancelled, "the question was taken away")
                    .await;
            }
        }
    }
    run.ends(End::Failed, "both fares are gone").await
}
