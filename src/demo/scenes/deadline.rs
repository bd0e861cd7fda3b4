//! A question that ends by itself: a fare that is held for some minutes, then one that is held longer.

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
    // Who has just come sees one end soon; who stays has time.
    let minutes = if actor.plays_first() {
        3
    } else {
        actor.dice.between(4, 9)
    };
    let mut run = actor.open("travel-desk").await?;
    let offers = [(fare, minutes), (later, minutes + 2)];
    for (n, (fare, minutes)) in (1..).zip(offers) {
        let flight = format!(r#""flight": "SK {flight}", "from": "{from}", "to": "{to}""#);
        let book = tool(
            "book_flight",
            format!(r#"{{{flight}, "fare": {fare}, "currency": "EUR"}}"#),
            ("", &format!("offer-{n}")),
            &format!("Book {from}–{to}, {fare} EUR?"),
            words(
                &format!(
                    "The airline holds this fare for {minutes} minutes; then it is gone. Book?"
                ),
                "I book; a ticket cannot be given back.",
                "I let it go, and take the train.",
            ),
        );
        let book = Filing {
            deadline: Some(Duration::from_secs(60 * minutes)),
            ..book
        };
        let (asked, outcome) = run.asks_and_waits(book).await?;
        match outcome {
            Outcome::Granted(_) => {
                run.did(&asked, &format!("booked for {fare} EUR")).await?;
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
                let why = "the question was taken away";
                return run.ends(End::Cancelled, why).await;
            }
        }
    }
    run.ends(End::Failed, "both fares are gone").await
}
