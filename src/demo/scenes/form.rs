//! A form with a field of every type: what the bird watchers' logbook publishes, and for whom.

use registry::{
    Detail, Untrusted,
    approval::Outcome,
    form::{Answer, Answers, Choice, Field, Form, Kind, Presence},
    run::{
        End,
        TaskState::{Cancelled, Completed, Pending},
    },
};

use crate::demo::agent::{Actor, Asked, Played, Run, task, words};

/// Headline, entries, how many birds.
const DAYS: [(&str, &str, &str); 3] = [
    (
        "Herons at the north pond",
        "4 x heron\n1 x kingfisher\n2 x grebe",
        "7",
    ),
    ("An owl in the old mill", "1 x barn owl\n3 x jackdaw", "4"),
    (
        "First swallows of the year",
        "11 x swallow\n2 x white stork",
        "13",
    ),
];

pub(super) async fn play(actor: &mut Actor<'_>) -> Played {
    let (headline, entries, birds) = actor.story(DAYS);
    let mut run = actor.open("logbook").await?;
    run.plans(
        "Publish what was seen",
        [
            ("t1", "Collect the entries", Completed),
            ("t2", "Publish them", Pending),
            ("t3", "Tell the readers", Pending),
        ],
    )
    .await?;
    let form = form(headline, birds, &run.today().await?)?;
    let publish = task(
        "t2",
        "Publish the logbook?",
        Detail {
            body: entries.into(),
            form,
            ..words(
                "These entries came in. Look them over, and say who may read them: that one I do not guess.",
                "I publish what the form says, for whom it says.",
                "they stay a draft, filed under what the form says: a rejection fills it in, too.",
            )
        },
    );
    let (asked, outcome) = run.asks_and_waits(publish).await?;
    match outcome {
        Outcome::Granted(decision) => published(run, &asked, &decision.answers).await,
        Outcome::Rejected(decision) => {
            let draft = format!(
                "a draft, filed under {}",
                said(&decision.answers, "visibility")
            );
            run.moves("t2", Cancelled, &draft).await?;
            run.left_it(&asked, &draft).await?;
            run.ends(End::Completed, "kept as a draft").await
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {
            run.ends(End::Cancelled, "the question was taken away")
                .await
        }
    }
}

async fn published(mut run: Run<'_>, asked: &Asked, answers: &Answers) -> Played {
    let of = |name| said(answers, name);
    let what = format!(
        "«{}» of {}, {} birds, sure to {}, for {}",
        of("headline"),
        of("seen_on"),
        of("birds"),
        of("certainty"),
        of("visibility"),
    );
    run.moves("t2", Completed, &what).await?;
    run.did(asked, &format!("published {what}")).await?;
    if answers.get("tell_readers") != Some(&Answer::Boolean(true)) {
        return run.ends(End::Completed, "published; nobody was told").await;
    }
    let tell = task(
        "t3",
        "Tell the readers?",
        words(
            &format!(
                "You wanted the readers told. May I send «{}» to all 412 of them?",
                of("headline")
            ),
            "they get it now.",
            "they find it by themselves.",
        ),
    );
    let (asked, outcome) = run.asks_and_waits(tell).await?;
    match outcome {
        Outcome::Granted(_) => {
            run.moves("t3", Completed, "412 letters sent").await?;
            run.did(&asked, "412 letters sent").await?;
        }
        Outcome::Rejected(_) => {
            run.moves("t3", Cancelled, "nobody was told").await?;
            run.left_it(&asked, "nobody was told").await?;
        }
        Outcome::Expired | Outcome::Withdrawn(_) => {}
    }
    run.ends(End::Completed, "published").await
}

/// An answer, as it was typed.
fn said(answers: &Answers, field: &str) -> String {
    answers.get(field).map(Answer::to_raw).unwrap_or_default()
}

fn form(headline: &str, birds: &str, today: &str) -> Played<Form> {
    let standing = |kind: &Kind, text: &str| kind.parse(text).map(Presence::Defaulted);
    let field = |name: &str, kind: Kind, presence, help: &str| Field {
        name: name.into(),
        label: Untrusted::default(),
        help: help.into(),
        kind,
        presence,
        secrecy: registry::form::Secrecy::Open,
    };
    let defaulted = |name: &str, kind: Kind, text: &str, help: &str| {
        let presence = standing(&kind, text)?;
        Played::Ok(field(name, kind, presence, help))
    };
    let readers = ["public", "members", "wardens"].map(|value| Choice {
        value: value.into(),
        label: Untrusted::default(),
    });
    let nothing = Presence::Optional(Answer::Text(Untrusted::default()));
    Ok(Form::new(vec![
        field(
            "visibility",
            Kind::Enum(readers.into()),
            Presence::Required,
            "",
        ),
        defaulted("headline", Kind::String, headline, "")?,
        defaulted("birds", Kind::Integer, birds, "")?,
        defaulted("certainty", Kind::Number, "0.9", "from 0 to 1")?,
        defaulted("seen_on", Kind::Date, today, "")?,
        defaulted(
            "tell_readers",
            Kind::Boolean,
            "true",
            "if so, I ask once more before I write to them",
        )?,
        field("remarks", Kind::Text, nothing, ""),
    ])?)
}
