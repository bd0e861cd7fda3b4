//! Asking a human from a shell script, and waiting for the answer.

use std::{collections::BTreeMap, io::Read as _, time::Duration};

use registry::{
    Asks, Detail, Untrusted,
    approval::{Filing, Hold, OnDeadline, Outcome, Risk, Settled, Subject},
    form::{Choice, Field, Form, Kind, Presence, Secrecy},
    names::Key,
};

use tokio::time::Instant;

use super::{
    args::{self, AsksWord, Place},
    exit::{self, Stopped},
    print, steering, verbs,
};
use crate::{
    connect::CallError,
    wire::pilothouse::{Awaited, Opening},
};

/// The longest that one call of `wait` asks to be held.
const HELD: Duration = Duration::from_secs(50);

/// Between two tries while the server is away.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// Files, and prints the id.
pub(crate) async fn file(place: &Place, file: args::File) -> Result<u8, Stopped> {
    let random = verbs::random_id("cli")?;
    let key = file.key.clone().unwrap_or_else(|| random.clone());
    let key = Key::parse(&key)?;
    let run = Opening {
        session: file.session.as_str().into(),
        // The same key is the same run, so that filing again is the same filing.
        invocation: key.as_str().into(),
        agent: file.agent.as_str().into(),
        detached: true,
        ..Opening::default()
    };
    let filing = filing(file, key)?;
    let client = verbs::client(place)?;
    let run = client.open_run(&run).await?;
    let filed = client.file(run, &filing).await?;
    for warning in filed.warnings {
        print::aside(format!(
            "pilothouse: note: {}",
            Untrusted::new(warning).line()
        ));
    }
    print::line(filed.id)?;
    Ok(exit::DONE)
}

fn filing(file: args::File, key: Key) -> Result<Filing, Stopped> {
    let form = file.fields.iter().map(|field| field_of(field));
    let form = form.collect::<Result<Vec<_>, _>>()?;
    let form = Form::new(form).map_err(|error| Stopped::usage(format!("--field: {error}")))?;
    let body = body(&file)?;
    if let Some(args) = &file.args {
        registry::json::check_args(args.as_bytes())
            .map_err(|error| Stopped::usage(format!("--args: {error}")))?;
    }
    let subject = match file.tool {
        Some(name) => Subject::Tool {
            name: name.into(),
            task: Untrusted::default(),
        },
        None => Subject::Task {
            task: Untrusted::default(),
        },
    };
    let asks = match file.asks {
        AsksWord::EndUser => Asks::EndUser,
        AsksWord::Operator => Asks::Operator,
        AsksWord::Admin => Asks::Admin,
    };
    let labels = file.labels.into_iter();
    let labels: BTreeMap<_, _> = labels
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    Ok(Filing {
        target: key.as_str().into(),
        key: Some(key),
        step: Untrusted::default(),
        subject,
        title: file.title.into(),
        detail: Detail {
            prompt: file.prompt.into(),
            body: body.into(),
            facts: Untrusted::default(),
            args: file.args.map(Untrusted::new),
            form,
        },
        asks,
        labels,
        deadline: Some(file.deadline),
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: if file.high_risk {
            Risk::High
        } else {
            Risk::Normal
        },
        votes: file.votes,
    })
}

fn body(file: &args::File) -> Result<String, Stopped> {
    let Some(path) = &file.body_file else {
        return Ok(file.body.clone().unwrap_or_default());
    };
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Stopped::usage(format!("{}: {error}", path.display())))?;
    Ok(text)
}

/// `NAME:TYPE[:A|B|C][=DEFAULT]`
fn field_of(text: &str) -> Result<Field, Stopped> {
    let fault = |what: String| Stopped::usage(format!("--field '{text}': {what}"));
    let (declared, default) = match text.split_once('=') {
        Some((declared, default)) => (declared, Some(default)),
        None => (text, None),
    };
    let mut parts = declared.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let word = parts.next().ok_or_else(|| {
        fault("write NAME:TYPE, as in visibility:enum:public|internal=public".into())
    })?;
    let options = parts.next();
    let kind = match word {
        "string" | "secret" => Kind::String,
        "text" => Kind::Text,
        "number" => Kind::Number,
        "integer" => Kind::Integer,
        "boolean" => Kind::Boolean,
        "date" => Kind::Date,
        "enum" => {
            let options =
                options.ok_or_else(|| fault("an enum names its options: A|B|C".into()))?;
            let choice = |value: &str| Choice {
                value: value.into(),
                label: Untrusted::default(),
            };
            Kind::Enum(options.split('|').map(choice).collect())
        }
        other => {
            let types = "string, text, number, integer, boolean, enum, date, secret";
            return Err(fault(format!("'{other}' is not one of {types}")));
        }
    };
    let presence = match default {
        None => Presence::Required,
        Some("") if matches!(kind, Kind::String | Kind::Text) => {
            Presence::Optional(registry::form::Answer::Text(Untrusted::default()))
        }
        Some(default) => {
            let default = kind.parse(default);
            Presence::Defaulted(default.map_err(|problem| fault(format!("the default {problem}")))?)
        }
    };
    let secrecy = match word {
        "secret" => Secrecy::Secret,
        _ => Secrecy::Open,
    };
    Ok(Field {
        name: name.into(),
        label: Untrusted::default(),
        help: Untrusted::default(),
        kind,
        presence,
        secrecy,
    })
}

/// Waits for the answer; a wait that ends early records nothing.
pub(crate) async fn wait(
    place: &Place,
    id: &str,
    timeout: Option<Duration>,
) -> Result<u8, Stopped> {
    let (id, escalation) = (id.parse()?, id.parse()?);
    let client = verbs::client(place)?;
    let began = Instant::now();
    let mut was_there = false;
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        let held = left.map_or(HELD, |left| left.min(HELD));
        match client.poll(id, held).await {
            Ok(Awaited::Settled(settled)) => return ended(&settled),
            Ok(Awaited::Pending { .. } | Awaited::TimedOut(_)) => was_there = true,
            // A server that was there comes back: the question is kept.
            Err(CallError::NoServer(_)) if was_there => tokio::time::sleep(AWAY_PAUSE).await,
            Err(CallError::Refused(told)) if told.word == "not_found" => {
                let until = timeout.map(|timeout| began + timeout);
                return steering::wait(&client, escalation, until).await;
            }
            Err(error) => return Err(error.into()),
        }
        if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
            print::aside("pilothouse: not yet");
            return Ok(exit::NOT_YET);
        }
    }
}

fn ended(settled: &Settled) -> Result<u8, Stopped> {
    print::object(&print::ended_item(settled, None))?;
    Ok(match &settled.outcome {
        Outcome::Granted(_) => exit::DONE,
        Outcome::Rejected(_) => exit::REJECTED,
        Outcome::Expired | Outcome::Withdrawn(_) => exit::ENDED,
    })
}
