//! The dashboard: one loop, in which nothing waits for the network.

use std::time::Duration;

use registry::{
    ApprovalId, Recorded, RunId, Seq, Untrusted,
    command::{Decide, Order},
};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::{Stream, StreamExt as _};

use super::{
    args::Place,
    exit::{self, Stopped},
    host::{Doors, Host},
    print, verbs,
};
use crate::{
    connect::{CallError, Client, Feed, RetryNow},
    dashboard::{
        self, Drawn, Effect, Link, Model, Msg, Setup, Submit, SubmitError, Theme,
        keymap::Keymap,
        lanes,
        msg::{Me, Refused},
    },
    serve::{clock::Clock, home::Home},
    terminal::{self, Ending, Input, Inputs, Interrupt, Interrupts, NoScreen, Screen, Suspended},
};

/// What the network makes is drawn at most this often; what a hand does is drawn at once.
const FRAME: Duration = Duration::from_millis(33);

/// So much of the history is fetched at a time, counted.
const HISTORY_PAGE: usize = 100;

/// How long the first frame waits for a server to say that we may not see.
const FIRST_ANSWER: Duration = Duration::from_millis(300);
/// How long a decision that is under way holds up an operator who leaves.
const FAREWELL: Duration = Duration::from_secs(2);

/// Opens the dashboard on the server that answers; where none does, this process keeps the registry
/// itself, for agents and the CLI too.
pub(crate) async fn local(place: &Place) -> Result<u8, Stopped> {
    if place.server.is_some() || verbs::answers(&place.socket()?).await {
        return attach(place).await;
    }
    needs_a_terminal()?;
    let (dir, socket) = (place.dir()?, place.socket()?);
    let home = Home::take(&dir).map_err(Stopped::fault)?;
    let doors = Doors::local(socket);
    let mut host = Host::start(home, doors, Clock::System, Box::new(verbs::fatal))?;
    let label = place.server_name.clone().unwrap_or_else(|| "local".into());
    let code = run(host.client(), label, None).await?;
    let open = {
        let state = host.owner.state();
        still_open(state.all_pending().count(), state.all_escalations().count())
    };
    host.stop.stop();
    host.until_it_ends().await?;
    if let Some(open) = open {
        print::aside(format!(
            "pilothouse: {open} still open; they are kept in {} and wait for the next start",
            Untrusted::new(dir.display().to_string()).line()
        ));
    }
    Ok(code)
}

/// What is left behind, counted; none if nothing is.
fn still_open(questions: usize, held: usize) -> Option<String> {
    let counted = |n: usize, one: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {one}s")),
    };
    let kinds = [counted(questions, "question"), counted(held, "held run")];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    (!kinds.is_empty()).then(|| kinds.join(" and "))
}

/// Opens the dashboard on a server that answers already.
pub(crate) async fn attach(place: &Place) -> Result<u8, Stopped> {
    needs_a_terminal()?;
    let address = place.address()?;
    let label = match &place.server_name {
        Some(name) => format!("{name} · {}", address.way()),
        None => address.to_string(),
    };
    let client = place.client()?;
    // Whoever may not see is told so; a server that is away may come, and the dashboard waits for it.
    let asked = tokio::time::timeout(FIRST_ANSWER, client.history(1, None)).await;
    if let Ok(Err(CallError::Refused(told))) = asked {
        return Err(Stopped::refused(told.message));
    }
    run(client, label, None).await
}

/// Before anything is opened, made or locked.
pub(crate) fn needs_a_terminal() -> Result<(), Stopped> {
    terminal::check().map_err(|no| match no {
        NoScreen::NotATerminal(_) => Stopped::usage(format!(
            "{no}; `pilothouse list` and `pilothouse watch --json` do not"
        )),
        other => no_screen(&other),
    })
}

fn no_screen(no: &NoScreen) -> Stopped {
    Stopped {
        code: no.exit_code(),
        why: no.to_string(),
    }
}

/// The dashboard, until the operator leaves it; `banner` stands across the screen all the time.
pub(crate) async fn run(
    client: Client,
    server_label: String,
    banner: Option<String>,
) -> Result<u8, Stopped> {
    let (keymap, fault) = keymap();
    let banners: Vec<String> = banner.into_iter().chain(fault).collect();
    let setup = Setup {
        keymap,
        theme: theme(),
        ascii: !speaks_utf8(),
        seed: getrandom::u64().map_err(|error| Stopped::fault(error.to_string()))?,
        server_label,
        banner: (!banners.is_empty()).then(|| banners.join(" · ")),
    };
    terminal::install_panic_hook();
    let interrupts = Interrupts::listen().map_err(|error| Stopped::fault(error.to_string()))?;
    let screen = Screen::enter().map_err(|no| no_screen(&no))?;
    let (done, results) = mpsc::unbounded_channel();
    let retry = RetryNow::default();
    let feed = crate::connect::watch(client.clone(), None, retry.clone());
    let desk = Desk {
        model: Model::new(setup),
        screen,
        client,
        retry: retry.clone(),
        began: Instant::now(),
        done,
        leaving: None,
    };
    desk.serve(feed, Inputs::read(), interrupts, results).await
}

/// The user's keys over the built-in ones; a file that is wrong is said, and changes nothing.
fn keymap() -> (Keymap, Option<String>) {
    let dirs = directories::ProjectDirs::from("", "", "pilothouse");
    let Some(path) = dirs.map(|dirs| dirs.config_dir().join("keymap.toml")) else {
        return (Keymap::default(), None);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return (Keymap::default(), None);
        }
        Err(error) => {
            return (
                Keymap::default(),
                Some(format!("{}: {error}", path.display())),
            );
        }
    };
    match Keymap::merged(&text, &path.display().to_string()) {
        Ok(keymap) => (keymap, None),
        Err(error) => (Keymap::default(), Some(error.to_string())),
    }
}

fn theme() -> Theme {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if no_color {
        Theme::Mono
    } else {
        Theme::default()
    }
}

fn speaks_utf8() -> bool {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = said("LC_ALL")
        .or_else(|| said("LC_CTYPE"))
        .or_else(|| said("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Everything that the loop holds.
struct Desk {
    model: Model,
    screen: Screen,
    client: Client,
    retry: RetryNow,
    began: Instant,
    done: mpsc::UnboundedSender<Msg>,
    /// The operator has left; until then what is under way may arrive.
    leaving: Option<Instant>,
}

/// Whether the loop goes on.
enum Next {
    Go,
    Leave(u8),
}

impl Desk {
    async fn serve(
        mut self,
        mut feed: impl Stream<Item = Feed> + Unpin,
        mut inputs: Inputs,
        mut interrupts: Interrupts,
        mut results: mpsc::UnboundedReceiver<Msg>,
    ) -> Result<u8, Stopped> {
        if let Ok((columns, rows)) = self.screen.size() {
            self.tell(Msg::Resized(columns, rows))?;
        }
        let mut next_frame = self.began;
        let mut at_once = true;
        loop {
            let due = self.model.is_dirty() && (at_once || Instant::now() >= next_frame);
            if due {
                if let Next::Leave(code) = self.draw()? {
                    return Ok(code);
                }
                next_frame = Instant::now() + FRAME;
                at_once = false;
            }
            let frame = self.model.is_dirty().then_some(next_frame);
            if let Some(until) = self.leaving
                && (self.model.under_way() == 0 || Instant::now() >= until)
            {
                return Ok(exit::DONE);
            }
            let wake = self.model.next_deadline(self.at());
            let wake = wake.map(|at| self.began + at);
            let wake = wake.into_iter().chain(self.leaving).min();
            let next = tokio::select! {
                biased;
                interrupt = interrupts.next() => self.interrupted(interrupt)?,
                input = inputs.next() => {
                    at_once = true;
                    match input {
                        Some(input) => self.typed(input)?,
                        None => Next::Leave(Ending::HungUp.code()),
                    }
                }
                Some(result) = results.recv() => {
                    at_once = true;
                    self.tell(result)?
                }
                Some(news) = feed.next() => self.heard(news)?,
                () = until(frame) => Next::Go,
                () = until(wake) => self.tell(Msg::Tick)?,
            };
            if let Next::Leave(code) = next {
                return Ok(code);
            }
        }
    }

    fn at(&self) -> Duration {
        self.began.elapsed()
    }

    fn draw(&mut self) -> Result<Next, Stopped> {
        let at = self.at();
        let mut drawn = Drawn::default();
        let model = &self.model;
        let written = self
            .screen
            .draw(|frame| drawn = dashboard::view(model, at, frame));
        match written.map_err(|error| Stopped::fault(format!("the terminal: {error}")))? {
            terminal::Drawn::Written => self.tell(Msg::Drawn(drawn)),
            terminal::Drawn::Skipped => Ok(Next::Go),
            terminal::Drawn::HungUp => Ok(Next::Leave(Ending::HungUp.code())),
        }
    }

    fn tell(&mut self, msg: Msg) -> Result<Next, Stopped> {
        let at = self.at();
        let effects = dashboard::update(&mut self.model, at, msg);
        for effect in effects {
            if let Next::Leave(code) = self.carry_out(effect)? {
                return Ok(Next::Leave(code));
            }
        }
        Ok(Next::Go)
    }

    fn interrupted(&mut self, interrupt: Interrupt) -> Result<Next, Stopped> {
        match interrupt {
            Interrupt::End(ending) => Ok(Next::Leave(ending.code())),
            Interrupt::Suspend => self.suspend(),
            Interrupt::Continue => {
                let resumed = self.screen.resume();
                resumed.map_err(|error| Stopped::fault(error.to_string()))?;
                self.resized()
            }
        }
    }

    fn suspend(&mut self) -> Result<Next, Stopped> {
        match self.screen.suspend() {
            Ok(Suspended::Stopped) => Ok(Next::Go),
            // Nobody could bring us back: say nothing, go on.
            Ok(Suspended::NoShell) => Ok(Next::Go),
            Err(error) => Err(Stopped::fault(format!("the terminal: {error}"))),
        }
    }

    fn resized(&mut self) -> Result<Next, Stopped> {
        self.screen.repaint();
        match self.screen.size() {
            Ok((columns, rows)) => self.tell(Msg::Resized(columns, rows)),
            Err(_) => Ok(Next::Leave(Ending::HungUp.code())),
        }
    }

    fn typed(&mut self, input: Input) -> Result<Next, Stopped> {
        match input {
            Input::Key(key) => self.tell(Msg::Key(key)),
            Input::Paste(text) => self.tell(Msg::Paste(text)),
            Input::Resize(..) => self.resized(),
            Input::FocusGained => self.tell(Msg::Focus(true)),
            Input::FocusLost => self.tell(Msg::Focus(false)),
        }
    }

    fn heard(&mut self, news: Feed) -> Result<Next, Stopped> {
        let at = self.at();
        self.tell(match news {
            Feed::Connecting { attempt } => Msg::Link(Link::Connecting { attempt }),
            Feed::Online { me, epoch, .. } => Msg::Link(Link::Online {
                me: Me {
                    name: me.name,
                    roles: me.roles.into_iter().collect(),
                    tenant: me.tenant,
                },
                epoch,
            }),
            Feed::Snapshot { state, server_now } => Msg::Snapshot {
                state: *state,
                server_now,
            },
            Feed::Recorded { events, server_now } => Msg::Recorded { events, server_now },
            Feed::Offline { why, retry_in } => Msg::Link(Link::Offline {
                why,
                retry_at: at + retry_in,
            }),
        })
    }

    fn carry_out(&mut self, effect: Effect) -> Result<Next, Stopped> {
        let fault = |error: std::io::Error| Stopped::fault(format!("the terminal: {error}"));
        match effect {
            Effect::FetchDetail(id) => self.fetch(id),
            Effect::FetchRun(id) => self.fetch_run(id),
            Effect::FetchHistory { before } => self.fetch_history(before),
            Effect::Submit(submit) => self.submit(submit),
            Effect::Order(order) => self.order(order),
            Effect::RetryNow => self.retry.now(),
            Effect::Quit => return Ok(self.leave()),
            Effect::Suspend => return self.suspend(),
            Effect::Repaint => self.screen.repaint(),
            Effect::Copy(text) => self.screen.copy(&text).map_err(fault)?,
            Effect::Bell => self.screen.bell().map_err(fault)?,
            Effect::Title(title) => self.screen.set_title(&title).map_err(fault)?,
        }
        Ok(Next::Go)
    }

    /// At once, or as soon as what was decided has arrived; asked twice, at once.
    fn leave(&mut self) -> Next {
        if self.model.under_way() == 0 || self.leaving.is_some() {
            return Next::Leave(exit::DONE);
        }
        self.leaving = Some(Instant::now() + FAREWELL);
        Next::Go
    }

    fn fetch(&self, id: ApprovalId) {
        let (client, done) = (self.client.clone(), self.done.clone());
        tokio::spawn(async move {
            let got = client.get(id).await;
            let detail = got.map(|got| got.detail).map_err(|error| error.to_string());
            // The loop has ended: nobody wants to know.
            let _ = done.send(Msg::Detail { id, detail });
        });
    }

    fn fetch_run(&self, id: RunId) {
        let (client, done) = (self.client.clone(), self.done.clone());
        tokio::spawn(async move {
            let record = record_of(&client, id).await;
            let record = record.map_err(|error| error.to_string());
            let _ = done.send(Msg::RunRecord { id, record });
        });
    }

    fn fetch_history(&self, before: Option<Seq>) {
        let (client, done) = (self.client.clone(), self.done.clone());
        tokio::spawn(async move {
            let page = client.history(HISTORY_PAGE, before).await;
            let page = page.map_err(|error| error.to_string());
            let _ = done.send(Msg::History { before, page });
        });
    }

    fn submit(&self, submit: Submit) {
        let (client, done) = (self.client.clone(), self.done.clone());
        tokio::spawn(async move {
            let decision = submit.decision.clone();
            let decide = Decide {
                id: submit.id,
                decision: submit.decision,
                verdict: submit.verdict,
                digest: submit.digest,
                answers: submit.answers,
                note: submit.note,
                seen: submit.seen,
                on_behalf_of: None,
                form: registry::form::Form::default(),
                past: None,
                decided_before: None,
            };
            let result = client.decide(&decide).await;
            let result = result.map(|_| ()).map_err(why_not);
            let _ = done.send(Msg::Decided { decision, result });
        });
    }

    fn order(&self, order: Order) {
        let (client, done) = (self.client.clone(), self.done.clone());
        tokio::spawn(async move {
            let result = client.control(&order).await;
            let result = result.map(|_| ()).map_err(why_not);
            let _ = done.send(Msg::Ordered {
                order: order.id,
                result,
            });
        });
    }
}

/// All pages of a run's record, as far as lanes are made from them.
async fn record_of(client: &Client, id: RunId) -> Result<Vec<Recorded>, CallError> {
    let named = Untrusted::new(id.to_string());
    let (mut record, mut after) = (Vec::new(), 0);
    loop {
        let page = client.get_run(&named, after).await?;
        let last = page.record.last().map_or(after, |recorded| recorded.seq);
        let told = page.record.into_iter();
        record.extend(told.filter(|recorded| lanes::counts(&recorded.event)));
        if !page.has_more || last <= after {
            return Ok(record);
        }
        after = last;
    }
}

fn why_not(error: CallError) -> SubmitError {
    match error {
        CallError::Refused(told) => SubmitError::Refused(Refused {
            word: told.word,
            message: told.message,
            fields: told.fields,
        }),
        other => SubmitError::NotSent(other.to_string()),
    }
}

/// Until then; for ever, if there is no then.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_that_stand_still_are_left_behind_like_questions() {
        let rows = [
            (0, 0, None),
            (1, 0, Some("1 question")),
            (0, 1, Some("1 held run")),
            (2, 1, Some("2 questions and 1 held run")),
        ];
        for (questions, held, said) in rows {
            assert_eq!(super::still_open(questions, held).as_deref(), said);
        }
    }
}
