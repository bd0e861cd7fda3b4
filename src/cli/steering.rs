//! Telling runs what to do from the command line.

use std::time::Duration;

use registry::{
    Control, Escalation, EscalationId, Run, RunId, Untrusted,
    command::Order,
    control::Verb,
    escalation::{Closed, How},
    names::ControlId,
};
use tokio::time::{Instant, sleep};

use super::{
    args::Place,
    exit::{self, Stopped},
    held, print, verbs,
};
use crate::{
    connect::{CallError, Client},
    wire::pilothouse::Asked,
};

/// Between two looks at what becomes of something.
const LOOK: Duration = Duration::from_millis(500);
/// How long the answer to a status query is waited for.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it is waited for that an agent takes any other order.
const TAKEN: Duration = Duration::from_secs(2);
/// Between two looks at an order that was given just now.
const SOON: Duration = Duration::from_millis(200);

/// What an order is given to.
struct Aim {
    run: RunId,
    answers: Option<EscalationId>,
    named: Named,
}

/// What was named on the command line.
#[derive(PartialEq, Eq)]
enum Named {
    Escalation,
    Run,
}

/// Gives the order, and says how far it has come.
pub(crate) async fn direct(
    place: &Place,
    named: &str,
    verb: Verb,
    note: String,
) -> Result<u8, Stopped> {
    let client = verbs::client(place)?;
    let aim = aim(&client, named).await?;
    let note = match verb {
        Verb::Steer => without_controls(&note),
        _ => note,
    };
    let answers = aim.answers.filter(|_| verb.answers());
    let unseen = match answers {
        Some(held) if aim.named == Named::Run => holds(&client, held).await?,
        _ => None,
    };
    if let Some(held) = &unseen {
        let question = format!("{held}\n{} it?", verb.word());
        if verbs::on_a_terminal() && !verbs::says_yes(&question)? {
            return Err(Stopped::refused("nothing was ordered"));
        }
    }
    let order = Order {
        id: ControlId::parse(&verbs::random_id("cli")?)?,
        run: aim.run,
        answers,
        verb,
        note: note.into(),
    };
    let control = client.control(&order).await?;
    if let Some(held) = unseen {
        print::aside(format!("pilothouse: answers {held}"));
    }
    let (control, run) = followed(&client, control).await;
    print::line(held::control_line(&control, run.as_ref()))?;
    Ok(exit::DONE)
}

/// An escalation by its id, or a run and what holds it.
async fn aim(client: &Client, named: &str) -> Result<Aim, Stopped> {
    if let Ok(id) = named.parse::<EscalationId>() {
        match client.get(id).await {
            Ok(got) => return aim_at(&got.asked),
            Err(CallError::Refused(told)) if told.word == "not_found" => {}
            Err(error) => return Err(error.into()),
        }
    }
    let run = find(client, named).await?;
    Ok(Aim {
        run: run.id,
        answers: run.held_by,
        named: Named::Run,
    })
}

/// What holds a run, for whoever named only the run.
async fn holds(client: &Client, id: EscalationId) -> Result<Option<String>, Stopped> {
    Ok(match client.get(id).await?.asked {
        Asked::Escalation(held) => Some(held::cause_line(&held)),
        Asked::Closed(_) | Asked::Pending(_) | Asked::Settled(_) => None,
    })
}

fn aim_at(asked: &Asked) -> Result<Aim, Stopped> {
    let at = |escalation: &Escalation| Aim {
        run: escalation.run,
        answers: Some(escalation.id),
        named: Named::Escalation,
    };
    match asked {
        Asked::Escalation(escalation) => Ok(at(escalation)),
        Asked::Closed(closed) => Ok(at(&closed.escalation)),
        Asked::Pending(_) | Asked::Settled(_) => {
            Err(Stopped::refused("this is a question: approve or reject it"))
        }
    }
}

async fn find(client: &Client, named: &str) -> Result<Run, Stopped> {
    match client.get_run(&named.into(), 0).await {
        Ok(whole) => Ok(whole.run),
        Err(CallError::Refused(told)) if told.word == "not_found" => {
            Err(Stopped::refused("there is no such escalation or run"))
        }
        Err(error) => Err(error.into()),
    }
}

/// What goldfive's bridge would drop without a word (`wire/goldfive.md` §2.6) is dropped here, and said.
fn without_controls(note: &str) -> String {
    let kept = |c: &char| *c >= ' ' || matches!(c, '\t' | '\n');
    let clean: String = note.chars().filter(kept).collect();
    let dropped = note.chars().count() - clean.chars().count();
    if dropped > 0 {
        print::aside(format!(
            "pilothouse: note: left out {dropped} control characters"
        ));
    }
    clean
}

/// The order once its agent has said something to it, or after a while; and its run. It was given, whatever the looking
/// meets.
async fn followed(client: &Client, mut control: Control) -> (Control, Option<Run>) {
    let patience = match control.verb {
        Verb::StatusQuery => ANSWER,
        _ => TAKEN,
    };
    let until = Instant::now() + patience;
    let named = Untrusted::new(control.run.to_string());
    loop {
        let run = match client.get_run(&named, 0).await {
            Ok(whole) => whole.run,
            Err(error) => {
                print::aside(format!(
                    "pilothouse: it was given; what becomes of it: {error}"
                ));
                return (control, None);
            }
        };
        control = run.control(&control.id).cloned().unwrap_or(control);
        if !control.waits_for_ack() || Instant::now() >= until {
            return (control, Some(run));
        }
        sleep(SOON).await;
    }
}

/// Waits until a run that stands still has been answered, whatever holds it by then.
pub(crate) async fn wait(
    client: &Client,
    mut id: EscalationId,
    until: Option<Instant>,
) -> Result<u8, Stopped> {
    loop {
        match client.get(id).await {
            Ok(got) => match &got.asked {
                Asked::Closed(closed) => match closed.how {
                    How::Superseded { by } => {
                        print::aside(format!("pilothouse: {by} took the place of {id}"));
                        id = by;
                        continue;
                    }
                    How::Answered { .. } | How::RunEnded(_) | How::WentOn => {
                        return ended(closed, got.run.as_ref());
                    }
                },
                Asked::Escalation(_) | Asked::Pending(_) | Asked::Settled(_) => {}
            },
            Err(CallError::NoServer(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            print::aside("pilothouse: not yet");
            return Ok(exit::NOT_YET);
        }
        sleep(LOOK).await;
    }
}

fn ended(closed: &Closed, run: Option<&Run>) -> Result<u8, Stopped> {
    print::object(&held::closed_item(closed, run))?;
    Ok(match &closed.how {
        How::Answered { verb, .. } if *verb == Verb::Cancel => exit::REJECTED,
        How::Answered { .. } => exit::DONE,
        How::Superseded { .. } | How::RunEnded(_) | How::WentOn => exit::ENDED,
    })
}
