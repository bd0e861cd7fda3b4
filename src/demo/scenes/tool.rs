//! A tool and its arguments: a payment with hidden characters in it, then something that cannot be undone.

use registry::{
    Detail,
    approval::{Filing, Outcome, Risk},
    run::{
        End,
        TaskState::{Cancelled, Completed, Pending},
    },
};

use crate::demo::agent::{Actor, Played, Run, note, tool, words};

/// Payee, account, amount, and the memo as it came.
const INVOICES: [(&str, &str, &str, &str); 3] = [
    (
        "ACME GmbH",
        "DE02 1203 0000 0000 2020 51",
        "1250.00",
        "INV-2291\u{202e}",
    ),
    (
        "Nordlicht AB",
        "SE45 5000 0000 0583 9825 7466",
        "318.40",
        "No. 77\u{200b}41",
    ),
    (
        "Weber & Sons",
        "AT61 1904 3002 3457 3201",
        "96.00",
        "\u{2066}R-0815\u{2069} thanks",
    ),
];

pub(super) async fn play(actor: &mut Actor) -> Played {
    let (payee, iban, amount, memo) = actor.story(INVOICES);
    let reference = actor.dice.between(100_000, 999_999);
    let drafts = actor.dice.between(212, 980);
    let mut run = actor.open("billing-agent").await?;
    run.plans(
        "Pay what is due, and tidy up",
        [
            ("t1", "Read the inbox", Completed),
            ("t2", "Pay the invoice that is due", Pending),
            ("t3", "Delete old drafts", Pending),
        ],
    )
    .await?;
    let pay = tool(
        "wire_transfer",
        format!(r#"{{"to": "{payee}", "iban": "{iban}", "amount": {amount}, "memo": "{memo}"}}"#),
        ("t2", "call-1"),
        &format!("Pay {payee}?"),
        words(
            &format!("The invoice of {payee} is due today. Shall I pay {amount} EUR?"),
            "the bank gets exactly these bytes, the hidden ones too.",
            "nothing is paid; I ask for a clean invoice.",
        ),
    );
    let (asked, outcome) = run.asks_and_waits(pay).await?;
    match outcome {
        Outcome::Granted(_) => {
            let paid = format!("paid {amount} EUR to {payee}, reference {reference}");
            run.moves("t2", Completed, &paid).await?;
            run.did(&asked, &paid).await?;
        }
        Outcome::Rejected(decision) => {
            let why = format!("not paid, rejected {}", note(&decision));
            run.moves("t2", Cancelled, &why).await?;
            run.left_it(&asked, &format!("asked {payee} for a clean invoice"))
                .await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.moves("t2", Cancelled, "nobody decides about it any more")
                .await?;
        }
    }
    tidy_up(run, drafts).await
}

async fn tidy_up(mut run: Run, drafts: u64) -> Played {
    let delete = tool(
        "delete_records",
        format!(r#"{{"table": "invoice_drafts", "where": "updated < now() - interval '1 year'", "rows": {drafts}}}"#),
        ("t3", "call-2"),
        &format!("Delete {drafts} drafts?"),
        Detail {
            body: "This tool calls itself one of high risk: approving asks you once more, with the cursor on «no».".into(),
            ..words(
                &format!("{drafts} drafts have not been touched for a year. Delete them?"),
                "they are gone, and there is no copy.",
                "they stay.",
            )
        },
    );
    let delete = Filing {
        risk: Risk::High,
        ..delete
    };
    let (asked, outcome) = run.asks_and_waits(delete).await?;
    match outcome {
        Outcome::Granted(_) => {
            let gone = format!("{drafts} drafts deleted");
            run.moves("t3", Completed, &gone).await?;
            run.did(&asked, &gone).await?;
        }
        Outcome::Rejected(_) => {
            run.moves("t3", Cancelled, "the drafts stay").await?;
            run.left_it(&asked, "the drafts stay").await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.moves("t3", Cancelled, "nobody decides about it any more")
                .await?;
        }
    }
    run.ends(End::Completed, "that was all for today").await
}
