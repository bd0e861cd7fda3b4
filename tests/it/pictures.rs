//! The pictures in `screenshots/`, drawn by the real program in a real terminal.
//!
//! The server's clock stands still, and the questions were filed minutes before it: what a picture shows does not depend
//! on when or how fast it is drawn. `UPDATE_SCREENSHOTS=1 cargo test pictures` draws them anew.

use std::{collections::BTreeMap, time::Duration};

use pilothouse::{
    connect::{Client, Token},
    serve::{
        Listeners, Server, clock::Clock, identity::Identity, listen_on_loopback, owner::Owner,
        stop::Stop,
    },
    wire::pilothouse::Opening,
};
use registry::{
    Asks, Detail, Timestamp, Untrusted,
    approval::{Filing, Hold, OnDeadline, Risk, Subject},
    digest::Sha256,
    form::{Answer, Choice, Field, Form, Kind, Presence},
    log::Memory,
    names::Key,
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, time::sleep};

use crate::{
    picture::{DARK, LIGHT, Theme, check_picture, picture},
    pty::{Pty, has_text},
    server::PROGRAM,
};

/// Stands on the screen while a card does not take keys yet.
const SETTLING: &str = "━";
/// 2026-11-30T14:04:22Z.
const NOW_MS: i64 = 1_796_047_462_000;

/// A server with a standing clock, an agent that asks, and a person who may answer.
struct Stage {
    runtime: Runtime,
    clock: Clock,
    agent: Client,
    address: String,
    dir: TempDir,
}

impl Stage {
    fn set() -> Self {
        let runtime = Runtime::new().unwrap();
        let dir = TempDir::new().unwrap();
        let row = |name: &str, role: &str, token: &str| {
            let hash = Sha256::of(token);
            format!("[[token]]\nname = \"{name}\"\nroles = [\"{role}\"]\nsha256 = \"{hash}\"\n")
        };
        let tokens = dir.path().join("tokens.toml");
        let rows = row("agent:all", "agent", "a-token") + &row("user:ada", "admin", "p-token");
        std::fs::write(&tokens, rows).unwrap();
        std::fs::write(dir.path().join("token"), "p-token").unwrap();
        let clock = Clock::standing(Timestamp::from_ms(NOW_MS));
        let log = Box::new(Memory::new("pictures"));
        let owner =
            Owner::start(log, clock.clone(), None, Box::new(|why| panic!("{why}"))).unwrap();
        let identity = Identity::with_tokens(&tokens).unwrap();
        let (address, agent) = runtime.block_on(async {
            let listener = listen_on_loopback("127.0.0.1:0".parse().unwrap())
                .await
                .unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let listeners = Listeners {
                tcp: Some(listener),
                ..Listeners::default()
            };
            tokio::spawn(Server::new(owner, identity, Stop::default()).run(listeners));
            let token = Token::parse("a-token").unwrap();
            (
                address.clone(),
                Client::connect(address.parse().unwrap(), Some(token)),
            )
        });
        Self {
            runtime,
            clock,
            agent,
            address,
            dir,
        }
    }

    /// An agent asked so long before now; it is still there.
    fn ask(&self, before: Duration, agent: &str, run: &str, filing: Filing) {
        let then = NOW_MS - i64::try_from(before.as_millis()).unwrap();
        self.clock.set(Timestamp::from_ms(then));
        let opening = Opening {
            agent: agent.into(),
            invocation: run.into(),
            session: "demo".into(),
            ..Opening::default()
        };
        let client = self.agent.clone();
        self.runtime.block_on(async {
            let run = client.open_run(&opening).await.unwrap();
            client.file(run, &filing).await.unwrap();
            let beating = client.clone();
            tokio::spawn(async move {
                loop {
                    let _ = beating.heartbeat(&[run]).await;
                    sleep(Duration::from_secs(3)).await;
                }
            });
        });
        self.clock.set(Timestamp::from_ms(NOW_MS));
    }

    fn open(&self, rows: u16, columns: u16, env: &[(&str, &str)]) -> Pty {
        let token = self.dir.path().join("token").display().to_string();
        let args = [
            "attach",
            "--server",
            &self.address,
            "--token-file",
            &token,
            "--server-name",
            "prod-eu",
        ];
        let mut pty = Pty::spawn(PROGRAM, &args, env, rows, columns);
        pty.wait_text("live");
        pty
    }
}

fn minutes(n: u64) -> Duration {
    // Some seconds more, so that a picture that takes a while shows the same.
    Duration::from_secs(n * 60 + 5)
}

fn filing(target: &str, title: &str, subject: Subject, detail: Detail) -> Filing {
    Filing {
        key: Some(Key::parse(&format!("picture:{target}")).unwrap()),
        target: target.into(),
        step: Untrusted::default(),
        subject,
        title: title.into(),
        detail,
        asks: Asks::Operator,
        labels: BTreeMap::new(),
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
    }
}

fn tool(name: &str, task: &str) -> Subject {
    Subject::Tool {
        name: name.into(),
        task: task.into(),
    }
}

fn field(name: &str, kind: Kind, presence: Presence) -> Field {
    Field {
        name: name.into(),
        label: Untrusted::default(),
        help: Untrusted::default(),
        kind,
        presence,
    }
}

fn visibility() -> Kind {
    let choice = |value: &str| Choice {
        value: value.into(),
        label: Untrusted::default(),
    };
    Kind::Enum(vec![choice("public"), choice("internal")])
}

/// Twelve in the morning, five agents.
fn a_busy_stage() -> Stage {
    let stage = Stage::set();
    let email = Detail {
        prompt: "The customer asks for the signed contract. Send it?".into(),
        args: Some(r#"{"to": "k.weber@acme.example", "subject": "Your contract", "attachments": ["contract-2291.pdf"]}"#.into()),
        ..Detail::default()
    };
    stage.ask(
        minutes(183),
        "crm",
        "run-88",
        filing("call-3", "send_email", tool("send_email", ""), email),
    );
    let publish = Detail {
        body: "3 entries:\n  - 4 x heron\n  - 1 x kingfisher\n  - 2 x grebe".into(),
        form: Form::new(vec![
            field("visibility", visibility(), Presence::Required),
            field(
                "reason",
                Kind::Text,
                Presence::Optional(Answer::Text(Untrusted::default())),
            ),
        ])
        .unwrap(),
        ..Detail::default()
    };
    let mut publish = filing(
        "call-7",
        "Publish the logbook",
        tool("publish_the_logbook", ""),
        publish,
    );
    publish.deadline = Some(Duration::from_secs(7 * 24 * 3600));
    stage.ask(minutes(61), "logbook", "inv-5", publish);
    let spend = Detail {
        prompt: "ok to spend $500 on the conference?".into(),
        ..Detail::default()
    };
    let mut spend = filing(
        "t2",
        "ok to spend $500 on the conference?",
        Subject::Task { task: "t2".into() },
        spend,
    );
    spend.deadline = Some(Duration::from_secs(19 * 60));
    stage.ask(minutes(12), "billing-agent", "7c20", spend);
    stage.ask(minutes(4), "billing-agent", "7c21", wire_transfer());
    let bash = Detail {
        prompt: "I need to free space before the build.".into(),
        args: Some(r#"{"command": "rm -rf /var/cache/builds/*", "timeout_ms": 60000}"#.into()),
        ..Detail::default()
    };
    let mut bash = filing("call-9", "Bash", tool("Bash", ""), bash);
    bash.risk = Risk::High;
    stage.ask(minutes(2), "claude ~/infra", "s-1f", bash);
    stage
}

fn wire_transfer() -> Filing {
    let integer = Presence::Defaulted(Answer::Integer(4711));
    let internal = Presence::Defaulted(Answer::Text("internal".into()));
    let day = Kind::Date.parse("2026-12-01").unwrap();
    let form = Form::new(vec![
        field("cost_centre", Kind::Integer, integer),
        field("visibility", visibility(), internal),
        field("pay_on", Kind::Date, Presence::Defaulted(day)),
    ]);
    let detail = Detail {
        prompt: "ok to pay the outstanding invoice for ACME?".into(),
        args: Some("{\"to\": \"ACME GmbH\", \"iban\": \"DE02 1203 0000 0000 2020 51\", \"amount\": 1250.00, \"memo\": \"INV-2291\u{202e}\"}".into()),
        form: form.unwrap(),
        ..Detail::default()
    };
    let mut transfer = filing("t7", "wire_transfer", tool("wire_transfer", "t7"), detail);
    transfer.asks = Asks::Admin;
    transfer.deadline = Some(Duration::from_secs(60 * 60));
    transfer
}

/// The bar of a new card has been drawn by then, and must go.
fn at_rest(pty: &mut Pty) {
    std::thread::sleep(Duration::from_millis(400));
    pty.wait_for(|screen| !has_text(screen, SETTLING), "a screen at rest");
}

fn draw(pty: &mut Pty, name: &str, theme: &Theme) {
    at_rest(pty);
    check_picture(name, &picture(&pty.screen(), theme));
}

/// The inbox and a card, 120 × 34, on dark and on light ground, and without colours.
#[test]
fn inbox() {
    let stage = a_busy_stage();
    let mut pty = stage.open(34, 120, &[]);
    pty.wait_text("5 waiting");
    to_the_transfer(&mut pty);
    draw(&mut pty, "inbox", &DARK);
    draw(&mut pty, "inbox-light", &LIGHT);
    let mut plain = stage.open(34, 120, &[("NO_COLOR", "1")]);
    plain.wait_text("5 waiting");
    to_the_transfer(&mut plain);
    draw(&mut plain, "inbox-no-color", &DARK);
}

fn to_the_transfer(pty: &mut Pty) {
    pty.wait_text(" 1/5 ");
    for place in 2..=5 {
        if has_text(&pty.screen(), "╭─ wire_transfer ") {
            break;
        }
        pty.keys("j");
        pty.wait_text(&format!(" {place}/5 "));
    }
    ready(pty);
}

/// A card stands there, whole, and takes a decision.
fn ready(pty: &mut Pty) {
    pty.wait_for(
        |screen| has_text(screen, "1250.00") && !has_text(screen, SETTLING),
        "the transfer, ready to be decided",
    );
}

/// A form with an error at its field, in the words of the server.
#[test]
fn form_with_an_error() {
    let stage = a_busy_stage();
    let mut pty = stage.open(34, 120, &[]);
    pty.wait_text("5 waiting");
    to_the_transfer(&mut pty);
    pty.keys("e");
    pty.wait_text("ctrl-s");
    pty.send("\x7f\x7f\x7f\x7f2.5");
    pty.wait_text("2.5");
    pty.keys("ctrl-s");
    pty.wait_for(
        |screen| has_text(screen, "must be a whole number") && !has_text(screen, SETTLING),
        "the error, and a card that takes keys again",
    );
    draw(&mut pty, "form-error", &DARK);
}

/// 80 × 24: the list and the card are two screens.
#[test]
fn small() {
    let stage = a_busy_stage();
    let mut pty = stage.open(24, 80, &[]);
    pty.wait_text("5 waiting");
    draw(&mut pty, "small-list", &DARK);
    for place in 2..=4 {
        pty.keys("j");
        pty.wait_text(&format!(" {place}/5 "));
    }
    pty.keys("enter");
    ready(&mut pty);
    draw(&mut pty, "small-card", &DARK);
}

/// The help, as the live keymap says it.
#[test]
fn help() {
    let stage = a_busy_stage();
    let mut pty = stage.open(34, 120, &[]);
    pty.wait_text("5 waiting");
    pty.send("?");
    pty.wait_text("HERE, IN THE INBOX");
    draw(&mut pty, "help", &DARK);
}
