//! The commands that call a server and print what it says.

use std::{io::IsTerminal as _, io::Write as _, path::Path, time::Duration};

use tokio_stream::StreamExt as _;

use registry::{
    Approval, ApprovalId, Name, Recorded, Role, Run, Tenant, Untrusted,
    approval::{Seen, Verdict},
    command::Decide,
    digest::Sha256,
    escalation::Ended,
    form::{Form, RawAnswers},
    names::DecisionId,
};

use super::{
    args::{self, Answer, Place, RoleWord},
    exit::{self, Stopped},
    held,
    host::{Doors, Host},
    print,
};
use crate::{
    connect::{CallError, Client, Feed, RetryNow},
    serve::{clock::Clock, home::Home, identity::go_together, owner::randomness},
    wire::pilothouse::{Asked, Decided, Got, ListWish, Open},
};

/// The largest page that a server gives.
const PAGE: usize = 500;

pub(crate) const APPROVE: Verdict = Verdict::Approve;
pub(crate) const REJECT: Verdict = Verdict::Reject;

/// A client of the server that the command line names.
pub(crate) fn client(place: &Place) -> Result<Client, Stopped> {
    Ok(Client::connect(place.address()?, place.token()?))
}

/// An id nobody else has.
pub(crate) fn random_id(what: &str) -> Result<String, Stopped> {
    let bits = randomness().map_err(|error| Stopped::fault(format!("no randomness: {error}")))?;
    Ok(format!("{what}-{bits:032x}"))
}

/// Keeps the registry until it is told to stop.
pub(crate) async fn serve(place: &Place, serve: &args::Serve) -> Result<u8, Stopped> {
    log_to_stderr();
    let dir = place.dir()?;
    let fault = |error: std::io::Error| Stopped::fault(error.to_string());
    let asked_to_end = signals().map_err(fault)?;
    tokio::pin!(asked_to_end);
    let home = Home::take(&dir).map_err(Stopped::fault)?;
    let doors = Doors::of(serve, place.socket()?).await?;
    let mut host = Host::start(home, doors, Clock::System, Box::new(fatal))?;
    let at = host.addresses();
    tracing::info!(data = %dir.display(), "serving on {at}");
    tokio::select! {
        ended = host.until_it_ends() => ended.map(|()| exit::DONE),
        signal = &mut asked_to_end => {
            host.stop.stop();
            tokio::select! {
                ended = host.until_it_ends() => ended?,
                // Asked twice: at once.
                again = signals().map_err(fault)? => return Ok(exit::killed_by(again)),
            }
            Ok(exit::killed_by(signal))
        }
    }
}

/// The number of the first signal that asks us to end.
fn signals() -> std::io::Result<impl Future<Output = u8>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => 15,
            _ = interrupt.recv() => 2,
            _ = hangup.recv() => 1,
            _ = quit.recv() => 3,
        }
    })
}

/// The log is broken: go on, and answers could be lost. Whoever restarts us gets what is on disk.
pub(crate) fn fatal(why: &str) {
    crate::terminal::restore();
    print::aside(format!("pilothouse: {}", Untrusted::new(why).block()));
    std::process::exit(70);
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PILOTHOUSE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // A second subscriber in one process is the only way this fails; the first one stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

pub(crate) async fn list(place: &Place, list: args::List) -> Result<u8, Stopped> {
    let labels = list.labels.into_iter();
    let wish = ListWish {
        limit: PAGE,
        after: None,
        labels: labels
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        run: list.run.map(Untrusted::new),
        session: list.session.map(Untrusted::new),
    };
    let client = client(place)?;
    let now = client.whoami().await?.server_now;
    let items = client.list(&wish).await?;
    if items.is_empty() && !list.json {
        print::aside("pilothouse: nothing waits");
    }
    for item in items {
        match (&item.open, list.json) {
            (Open::Pending(pending), true) => print::object(&print::open_item(pending, &item.run))?,
            (Open::Pending(pending), false) => {
                print::line(print::open_line(pending, Some(&item.run), now))?;
            }
            (Open::Escalation(held), true) => print::object(&held::held_item(held, &item.run))?,
            (Open::Escalation(held), false) => {
                print::line(held::held_line(held, &item.run, now))?;
            }
        }
    }
    Ok(exit::DONE)
}

pub(crate) async fn history(place: &Place, json: bool, limit: usize) -> Result<u8, Stopped> {
    let client = client(place)?;
    let (mut left, mut before) = (limit, None);
    while left > 0 {
        let (page, next) = client.history(left.min(PAGE), before).await?;
        left = left.saturating_sub(page.len());
        for ended in page {
            match (&ended, json) {
                (Ended::Approval(settled), true) => {
                    print::object(&print::ended_item(settled, None))?;
                }
                (Ended::Approval(settled), false) => print::line(print::ended_line(settled))?,
                (Ended::Escalation(closed), true) => {
                    print::object(&held::closed_item(closed, None))?;
                }
                (Ended::Escalation(closed), false) => print::line(held::closed_line(closed))?,
            }
        }
        before = next;
        if before.is_none() {
            break;
        }
    }
    Ok(exit::DONE)
}

/// What is open, then what happens; both as they would stand in `list` and in the log.
pub(crate) async fn watch(place: &Place, json: bool) -> Result<u8, Stopped> {
    let client = client(place)?;
    // Whoever may not see is told so, and not again and again.
    client.history(1, None).await?;
    let mut feed = crate::connect::watch(client, None, RetryNow::default());
    while let Some(news) = feed.next().await {
        match news {
            Feed::Snapshot { state, server_now } => {
                for held in state.all_escalations() {
                    let run = state.run(held.run);
                    match (json, run) {
                        (true, Some(run)) => print::object(&held::held_item(held, run))?,
                        (false, Some(run)) => print::line(held::held_line(held, run, server_now))?,
                        (_, None) => {}
                    }
                }
                for pending in state.all_pending() {
                    let run = state.run(pending.approval.run);
                    match (json, run) {
                        (true, Some(run)) => print::object(&print::open_item(pending, run))?,
                        (_, run) => {
                            let run = run.map(AsRef::as_ref);
                            print::line(print::open_line(pending, run, server_now))?;
                        }
                    }
                }
            }
            Feed::Recorded { events, .. } => {
                for recorded in events {
                    let value = print::event(&recorded);
                    if json {
                        print::object(&value)?;
                    } else {
                        let what = value["what"].as_str().unwrap_or_default().to_owned();
                        let about = recorded.event.item().map(|id| id.to_string());
                        let about = about.or(recorded.event.run().map(|run| run.to_string()));
                        let about = about.unwrap_or_default();
                        print::line(format!("{}  {what:<20} {about}", recorded.at))?;
                    }
                }
            }
            Feed::Offline { why, .. } => {
                print::aside(format!(
                    "pilothouse: offline: {}",
                    Untrusted::new(why).line()
                ));
            }
            Feed::Connecting { .. } | Feed::Online { .. } => {}
        }
    }
    Ok(exit::DONE)
}

pub(crate) async fn show(place: &Place, id: &str, json: bool) -> Result<u8, Stopped> {
    let client = client(place)?;
    if let Ok(approval) = id.parse::<ApprovalId>() {
        match client.get(approval).await {
            Ok(got) => return show_item(&got, json),
            Err(CallError::Refused(told)) if told.word == "not_found" => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (run, record) = match whole_run(&client, &id.into()).await {
        Err(Unshown::NotThere) => {
            return Err(Stopped::refused(
                "there is no such approval, escalation or run",
            ));
        }
        Err(Unshown::Stopped(stopped)) => return Err(stopped),
        Ok(whole) => whole,
    };
    let value = print::run(&run, &record);
    if json {
        print::object(&value)?;
    } else {
        print::line(registry::text::json_safe(
            &serde_json::to_string_pretty(&value).unwrap_or_default(),
        ))?;
    }
    Ok(exit::DONE)
}

/// Why a run is not shown.
enum Unshown {
    NotThere,
    Stopped(Stopped),
}

impl From<CallError> for Unshown {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(told) if told.word == "not_found" => Self::NotThere,
            other => Self::Stopped(other.into()),
        }
    }
}

/// A run, and all of its record.
async fn whole_run(client: &Client, named: &Untrusted) -> Result<(Run, Vec<Recorded>), Unshown> {
    let mut whole = client.get_run(named, 0).await?;
    let mut record = whole.record;
    while whole.has_more {
        let after = record.last().map_or(0, |recorded| recorded.seq);
        whole = client.get_run(named, after).await?;
        record.append(&mut whole.record);
    }
    Ok((whole.run, record))
}

fn show_item(got: &Got, json: bool) -> Result<u8, Stopped> {
    let whole = |item, approval| print::with_detail(item, approval, &got.detail);
    match (&got.asked, &got.run) {
        (Asked::Pending(pending), Some(run)) if json => {
            let item = print::with_waiting(print::open_item(pending, run), pending);
            print::object(&whole(item, &pending.approval))?;
        }
        (Asked::Settled(settled), run) if json => {
            let item = print::ended_item(settled, run.as_ref());
            print::object(&whole(item, &settled.approval))?;
        }
        (Asked::Escalation(held), Some(run)) if json => {
            print::object(&held::held_item(held, run))?;
        }
        (Asked::Closed(closed), run) if json => {
            print::object(&held::closed_item(closed, run.as_ref()))?;
        }
        (Asked::Pending(pending), _) if !json => {
            print::line(print::card(&pending.approval, &got.detail))?;
        }
        (Asked::Settled(settled), _) => {
            print::line(print::card(&settled.approval, &got.detail))?;
            print::line(print::ended_line(settled))?;
        }
        (Asked::Escalation(held), Some(run)) => print::line(held::held_card(held, run))?,
        (Asked::Closed(closed), _) => print::line(held::closed_line(closed))?,
        (Asked::Pending(_) | Asked::Escalation(_), _) => {
            return Err(Stopped::fault("something that waits, of no run"));
        }
    }
    Ok(exit::DONE)
}

/// Decides what the digest names, or, on a terminal, what the card shows.
pub(crate) async fn decide(place: &Place, answer: Answer, verdict: Verdict) -> Result<u8, Stopped> {
    let id: ApprovalId = answer.id.parse()?;
    let client = client(place)?;
    let digest = match &answer.digest {
        Some(digest) => digest
            .parse()
            .map_err(|error| Stopped::usage(format!("--digest: {error}")))?,
        None => match confirmed(&client, id, verdict).await? {
            Some(digest) => digest,
            None => return Err(Stopped::refused("nothing was decided")),
        },
    };
    let decision = match &answer.decision_id {
        Some(decision) => decision.clone(),
        None => random_id("cli")?,
    };
    let behalf = answer.on_behalf_of.as_deref().map(Name::parse);
    let decide = Decide {
        id,
        decision: DecisionId::parse(&decision)?,
        verdict,
        digest,
        answers: answer.answers.into_iter().collect::<RawAnswers>(),
        note: answer.note.into(),
        seen: Seen::Quoted,
        on_behalf_of: behalf.transpose()?,
        form: Form::default(),
        past: None,
        decided_before: None,
    };
    let words = match client.decide(&decide).await? {
        Decided::Settled(settled) => print::ended_line(&settled),
        Decided::Voted(pending) => format!(
            "{}  {}: more people have to approve it",
            pending.approval.id,
            pending.yes()
        ),
    };
    print::line(words)?;
    Ok(exit::DONE)
}

/// The whole card, and one question. No terminal, no question: a pipe cannot see a card.
async fn confirmed(
    client: &Client,
    id: ApprovalId,
    verdict: Verdict,
) -> Result<Option<registry::Digest>, Stopped> {
    if !on_a_terminal() {
        return Err(Stopped::usage(format!(
            "say what you saw: --digest D; `pilothouse show {id} --json` has it as \"digest\""
        )));
    }
    let got = client.get(id).await?;
    let Some(approval) = asked_approval(&got.asked) else {
        return Err(Stopped::refused(
            "this is a run that stands still: resume, steer or cancel it",
        ));
    };
    if !approval.matches(&got.detail) {
        return Err(Stopped::fault(
            "what the server sent does not match its own digest",
        ));
    }
    if let Asked::Settled(settled) = &got.asked {
        return Err(Stopped::refused(format!(
            "already {}",
            settled.outcome.word()
        )));
    }
    print::aside(print::card(approval, &got.detail));
    let away = got.run.as_ref().and_then(print::away_since);
    if let Some(since) = away {
        print::aside(format!(
            "\nits agent is away since {since}: nobody waits for the answer now"
        ));
    }
    let yes = says_yes(&format!("\n{} this?", verdict.word()))?;
    Ok(yes.then_some(approval.digest))
}

/// Whether there is a person to ask.
pub(super) fn on_a_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the person at the terminal; anything but a yes is a no.
pub(super) fn says_yes(question: &str) -> Result<bool, Stopped> {
    let asked = write!(std::io::stderr(), "{question} [y/N] ");
    asked.map_err(|error| Stopped::fault(format!("standard error: {error}")))?;
    let mut said = String::new();
    let read = std::io::stdin().read_line(&mut said);
    read.map_err(|error| Stopped::fault(format!("standard input: {error}")))?;
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

pub(crate) async fn extend(place: &Place, id: &str, by: Duration) -> Result<u8, Stopped> {
    let deadline = client(place)?.extend(id.parse()?, by).await?;
    print::line(format!("waits until {deadline}"))?;
    Ok(exit::DONE)
}

pub(crate) async fn dismiss(place: &Place, id: &str, note: String) -> Result<u8, Stopped> {
    client(place)?.dismiss(id.parse()?, &note.into()).await?;
    print::line("dismissed")?;
    Ok(exit::DONE)
}

pub(crate) async fn whoami(place: &Place) -> Result<u8, Stopped> {
    let me = client(place)?.whoami().await?;
    let on_the_socket = me.by.contains("on the socket");
    let roles: Vec<&str> = me.roles.iter().map(|role| role.word()).collect();
    print::line(format!(
        "{} · {} · tenant {} · known by {} · server {}",
        me.name,
        roles.join(", "),
        me.tenant.as_str(),
        Untrusted::new(me.by).line(),
        Untrusted::new(me.version).line(),
    ))?;
    if on_the_socket {
        print::aside(
            "pilothouse: on the socket, an agent that runs this program as the same user cannot be told from you",
        );
    }
    Ok(exit::DONE)
}

/// Makes a token: the secret goes to standard output, what the server keeps to standard error, as
/// it may be appended to a token file.
pub(crate) fn token(name: &str, roles: &[RoleWord], tenant: &str) -> Result<u8, Stopped> {
    let name = Name::parse(name)?;
    let tenant = Tenant::parse(tenant)?;
    let roles: Vec<Role> = roles.iter().copied().map(role_of).collect();
    go_together(&roles).map_err(Stopped::usage)?;
    let secret = random_id("ph")? + &random_id("")?;
    let words: Vec<&str> = roles.iter().map(|role| role.word()).collect();
    print::aside("# Add this to the server's token file; the token itself is printed once.");
    print::aside(format!(
        "[[token]]\nname = {}\nroles = {words:?}\ntenant = {:?}\nsha256 = \"{}\"\n",
        toml::Value::from(name.as_str()),
        tenant.as_str(),
        Sha256::of(&secret),
    ));
    print::line(secret)?;
    Ok(exit::DONE)
}

fn role_of(word: RoleWord) -> Role {
    match word {
        RoleWord::Agent => Role::Agent,
        RoleWord::Viewer => Role::Viewer,
        RoleWord::User => Role::User,
        RoleWord::Backend => Role::Backend,
        RoleWord::Operator => Role::Operator,
        RoleWord::Admin => Role::Admin,
    }
}

fn asked_approval(asked: &Asked) -> Option<&Approval> {
    match asked {
        Asked::Pending(pending) => Some(&pending.approval),
        Asked::Settled(settled) => Some(&settled.approval),
        Asked::Escalation(_) | Asked::Closed(_) => None,
    }
}

/// Whether a server answers on this socket.
pub(crate) async fn answers(socket: &Path) -> bool {
    tokio::net::UnixStream::connect(socket).await.is_ok()
}
