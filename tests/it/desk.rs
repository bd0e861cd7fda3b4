//! An operator at the real dashboard, and an agent that asks.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use pilothouse::{
    connect::{CallError, Client, Server as Place},
    wire::pilothouse::{Awaited, Filed, Opening},
};
use registry::{
    Asks, Detail, RunId, Untrusted,
    approval::{Filing, Hold, OnDeadline, Risk, Subject},
    form::{Field, Form},
    names::WaitId,
    run::TaskState,
};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{
    pty::{Pty, has_text, show},
    server::{PROGRAM, Ran, Server},
};

/// What a card says that has not stood long enough for a decision; narrow screens cut the rest.
const TOO_SOON: [&str; 2] = ["this card has", "still loading"];
/// Bound to nothing, wherever the keyboard is; like every key, it takes the last notice away.
const NO_KEY: &str = "f2";

/// The dashboard on a server.
pub(crate) fn attach(server: &Server) -> Pty {
    attach_to(server.dir(), &[], 34, 120)
}

/// The dashboard on the server of a directory.
pub(crate) fn attach_to(dir: &Path, env: &[(&str, &str)], rows: u16, cols: u16) -> Pty {
    let dir = dir.to_str().unwrap();
    let args = ["attach", "--data", dir, "--server-name", "prod"];
    Pty::spawn(PROGRAM, &args, env, rows, cols)
}

/// Who the socket knows us as.
pub(crate) fn login() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    user.unwrap().name
}

impl Pty {
    /// Presses a decision key until the card has stood long enough for it, and waits for what follows.
    pub(crate) fn decide(&mut self, key: &str, then: &str) {
        assert!(
            !has_text(&self.screen(), then),
            "{then:?} stands there before {key}; the screen:\n{}",
            show(&self.screen())
        );
        let too_soon =
            |screen: &vt100::Screen| TOO_SOON.iter().any(|words| has_text(screen, words));
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            self.keys(key);
            self.wait_for(
                |screen| has_text(screen, then) || too_soon(screen),
                &format!("{then:?} after {key}"),
            );
            if has_text(&self.screen(), then) {
                return;
            }
            assert!(Instant::now() < until, "the card never takes {key}");
            self.keys(NO_KEY);
            self.wait_for(
                |screen| !too_soon(screen) || has_text(screen, then),
                "notice gone",
            );
        }
    }

    /// Presses a key, and waits for what it brings; what stands there already proves nothing.
    pub(crate) fn press(&mut self, key: &str, then: &str) {
        assert!(
            !has_text(&self.screen(), then),
            "{then:?} stands there before {key}; the screen:\n{}",
            show(&self.screen())
        );
        self.keys(key);
        self.wait_text(then);
    }

    /// Waits until the panel on the right says this, in a row or over several.
    pub(crate) fn wait_panel(&mut self, words: &str) {
        self.wait_for(
            |screen| panel(screen).contains(words),
            &format!("{words:?} in the panel"),
        );
    }

    /// Waits until a text is gone.
    pub(crate) fn wait_gone(&mut self, text: &str) {
        self.wait_for(
            |screen| !has_text(screen, text),
            &format!("end of {text:?}"),
        );
    }
}

/// What the panel on the right says, or the only one: rows that go on in the next are put together, and the times of day
/// are left out.
pub(crate) fn panel(screen: &vt100::Screen) -> String {
    let (_, cols) = screen.size();
    let corner = |col: &u16| {
        let cell = screen.cell(1, *col);
        cell.is_some_and(|cell| cell.contents() == "╭")
    };
    let left = (0..cols.get()).rev().find(corner).unwrap_or(0);
    let rows = screen.rows(left, cols.get() - left);
    let text = rows.collect::<Vec<_>>().join(" ").replace('│', " ");
    let words = text.split_whitespace().filter(|word| !is_clock(word));
    words.collect::<Vec<_>>().join(" ")
}

/// `14:05:38Z`
fn is_clock(word: &str) -> bool {
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.strip_suffix('Z').map(|clock| clock.split(':'));
    parts.is_some_and(|mut parts| parts.clone().count() == 3 && parts.all(digits))
}

/// `pilothouse wait`, and what it ends with.
pub(crate) struct Waiting(Child);

impl Waiting {
    pub(crate) fn start(mut command: Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    pub(crate) fn end(self) -> Ran {
        Ran::of(self.0.wait_with_output().unwrap())
    }
}

/// An agent that speaks our own wire, with a connection of its own.
pub(crate) struct Native {
    runtime: Runtime,
    client: Client,
}

impl Native {
    pub(crate) fn of(server: &Server) -> Self {
        let runtime = Runtime::new().unwrap();
        let place = Place::Unix(server.socket());
        let client = runtime.block_on(async { Client::connect(place, None) });
        Self { runtime, client }
    }

    pub(crate) fn open(&self, run: &Opening) -> RunId {
        self.runtime.block_on(self.client.open_run(run)).unwrap()
    }

    pub(crate) fn report(&self, run: RunId, task: &str, title: &str, state: &TaskState) {
        let (task, title) = (Untrusted::new(task), Untrusted::new(title));
        let detail = Untrusted::default();
        let reported = self.client.report_task(run, &task, &title, state, &detail);
        self.runtime.block_on(reported).unwrap();
    }

    pub(crate) fn file(&self, run: RunId, filing: &Filing) -> Filed {
        self.runtime
            .block_on(self.client.file(run, filing))
            .unwrap()
    }

    /// Awaits the answer in a task, as an agent does.
    pub(crate) fn wait(&self, filed: &Filed) -> JoinHandle<Result<Awaited, CallError>> {
        let (client, id) = (self.client.clone(), filed.id);
        self.runtime.spawn(async move {
            let wait = WaitId::parse("wait-1").unwrap();
            client.await_(id, &wait, Duration::from_secs(60)).await
        })
    }

    pub(crate) fn answer(&self, waiting: JoinHandle<Result<Awaited, CallError>>) -> Awaited {
        self.runtime.block_on(waiting).unwrap().unwrap()
    }
}

/// A run of a native agent.
pub(crate) fn run_of(agent: &str) -> Opening {
    Opening {
        agent: agent.into(),
        session: "s1".into(),
        invocation: "7c21".into(),
        ..Opening::default()
    }
}

/// A tool call that asks.
pub(crate) fn tool_call(target: &str, args: &str, form: Vec<Field>) -> Filing {
    Filing {
        key: None,
        target: target.into(),
        step: Untrusted::default(),
        subject: Subject::Tool {
            name: "wire_transfer".into(),
            task: "t7".into(),
        },
        title: "Pay the invoice".into(),
        detail: Detail {
            prompt: "ok to pay the outstanding invoice?".into(),
            args: Some(args.into()),
            form: Form::new(form).unwrap(),
            ..Detail::default()
        },
        asks: Asks::Operator,
        labels: [].into(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}
