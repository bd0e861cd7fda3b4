//! Who is asked: the user that a run works for, and an admin.

use registry::{
    Asks, Name,
    approval::{Filing, Outcome},
    run::End,
};

use crate::demo::agent::{Actor, Played, note, tool, words};

const CUSTOMERS: [(&str, &str, &str); 3] = [
    ("kim", "K. Weber", "k.weber@acme.example"),
    ("noor", "N. Haddad", "haddad@nordlicht.example"),
    ("bo", "B. Lindqvist", "bo@lindqvist.example"),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (user, customer, address) = actor.story(CUSTOMERS);
    let contract = actor.dice.between(2_100, 2_999);
    let rows = actor.dice.between(1_200, 9_800);
    let mut run = actor
        .open_for("crm", Some(Name::parse(&format!("user:{user}"))?))
        .await?;
    let send = tool(
        "send_email",
        format!(
            r#"{{"to": "{address}", "subject": "Your contract", "attachments": ["contract-{contract}.pdf"]}}"#
        ),
        ("", "call-1"),
        &format!("Write to {customer}?"),
        words(
            &format!(
                "Dear {user}, {customer} asks for the signed contract. Shall I send it in your name?"
            ),
            "the letter goes out.",
            "it stays in the drafts.",
        ),
    );
    let send = Filing {
        asks: Asks::EndUser,
        ..send
    };
    run.says(&format!(
        "I work for {user}: what goes out in that name, that user decides, or an admin."
    ))
    .await?;
    let (asked, outcome) = run.asks_and_waits(send).await?;
    match outcome {
        Outcome::Granted(_) => run.did(&asked, &format!("sent to {address}")).await?,
        Outcome::Rejected(decision) => {
            let why = format!("left in the drafts, rejected {}", note(&decision));
            run.left_it(&asked, &why).await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {}
    }
    let export = tool(
        "export_customers",
        format!(r#"{{"format": "csv", "rows": {rows}, "to": "sftp://auditor.example/in/"}}"#),
        ("", "call-2"),
        &format!("Export {rows} customers?"),
        words(
            "The auditor wants the list of customers. It leaves the house, so only an admin can say yes.",
            "the auditor gets the file.",
            "the auditor gets a letter that says who said no.",
        ),
    );
    let export = Filing {
        asks: Asks::Admin,
        ..export
    };
    let (asked, outcome) = run.asks_and_waits(export).await?;
    match outcome {
        Outcome::Granted(_) => run.did(&asked, &format!("{rows} rows delivered")).await?,
        Outcome::Rejected(decision) => {
            let who = decision.decider.by.as_str();
            run.left_it(&asked, &format!("wrote to the auditor: {who} said no"))
                .await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {}
    }
    run.ends(End::Completed, "nothing else to do").await
}
