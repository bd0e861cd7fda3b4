//! Secret fields: what a person typed there is for the agent that filed, and stands nowhere else.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use pilothouse::wire::pb::pilothouse::v1 as pb;
use rusqlite::Connection;

use crate::{
    desk::attach_to,
    house::{House, decision, file, open, question, waiting},
    pty::{has_text, show},
    server::{PROGRAM, Ran, Server, command_at},
};

/// Nothing else says this.
const CANARY: &str = "cnry-7f3a-Rotkehlchen";

/// How a leak could be written: as it is, as hexadecimal digits, as base64 from each of its places.
fn spellings() -> Vec<String> {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![CANARY.to_owned(), hex.to_uppercase(), hex];
    for before in 0..3 {
        let text = base64(&[vec![0; before], CANARY.as_bytes().to_vec()].concat());
        // What stands between is the same whatever stands around it.
        all.push(text[4..text.len() - 4].to_owned());
    }
    all
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let padded = [three, &[0; 2]].concat();
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for n in 0..4 {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * n)) as usize & 63]));
        }
    }
    text
}

fn leaks(what: &str, bytes: &[u8]) {
    for spelling in spellings() {
        let found = bytes
            .windows(spelling.len())
            .any(|window| window == spelling.as_bytes());
        assert!(!found, "the secret stands in {what}, as {spelling}");
    }
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert_eq!(base64(b"pilot"), "cGlsb3QA");
    for (n, before) in ["", "x", "xy"].iter().enumerate() {
        let text = base64(format!("{before}{CANARY}behind it").as_bytes());
        assert!(
            spellings().iter().any(|spelling| text.contains(spelling)),
            "{n}: {text}"
        );
    }
}

/// A server that says all it can.
struct Loud {
    dir: tempfile::TempDir,
    child: Child,
}

impl Loud {
    fn start() -> Self {
        let dir = tempfile::TempDir::new().unwrap();
        let child = Self::serve(dir.path());
        Self { dir, child }
    }

    fn serve(dir: &Path) -> Child {
        let log = File::options()
            .append(true)
            .create(true)
            .open(dir.join("stderr"))
            .unwrap();
        let child = Command::new(PROGRAM)
            .args(["serve", "--data"])
            .arg(dir)
            .env("PILOTHOUSE_LOG", "trace")
            .env("RUST_LOG", "trace")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let from = Instant::now();
        while std::os::unix::net::UnixStream::connect(dir.join("sock")).is_err() {
            assert!(from.elapsed() < Duration::from_secs(20), "it did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// kill -9, and again.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = Self::serve(self.dir.path());
    }

    fn run(&self, args: &[&str]) -> Ran {
        let ran = command_at(self.dir.path(), args)
            .env("RUST_LOG", "trace")
            .output();
        Ran::of(ran.unwrap())
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Issue 4, the way of case E09.
#[test]
fn a_secret_answer_stands_nowhere_but_with_the_agent() {
    let mut server = Loud::start();
    let watched = server.dir.path().join("watched");
    let mut watch = command_at(server.dir.path(), &["watch", "--json"])
        .stdout(File::create(&watched).unwrap())
        .spawn()
        .unwrap();
    let filed = server.run(&[
        "file",
        "--title",
        "The PIN?",
        "--field",
        "pin:secret",
        "--field",
        "why:string",
    ]);
    assert_eq!(filed.code, 0, "{filed:?}");
    let id = filed.out.trim();
    let typed = server.dir.path().join("typed");
    fs::write(&typed, format!("{CANARY}\n")).unwrap();
    let digest = server.run(&["show", id, "--json"]).objects()[0]["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = format!("pin={}", typed.display());
    let decided = server.run(&[
        "approve",
        id,
        "--digest",
        &digest,
        "--answer",
        "why=lost",
        "--answer-file",
        &answer,
    ]);
    assert_eq!(decided.code, 0, "{decided:?}");
    fs::remove_file(&typed).unwrap();
    server.restart();

    let outputs: Vec<(&str, Ran)> = vec![
        ("approve", decided),
        ("list", server.run(&["list", "--json"])),
        ("show", server.run(&["show", id])),
        ("show --json", server.run(&["show", id, "--json"])),
        ("history", server.run(&["history"])),
        ("history --json", server.run(&["history", "--json"])),
        ("audit export", server.run(&["audit", "export"])),
    ];
    for (what, ran) in &outputs {
        assert_eq!(ran.code, 0, "{what}: {ran:?}");
        leaks(what, ran.out.as_bytes());
        leaks(what, ran.err.as_bytes());
    }
    let shown = &outputs[3].1.objects()[0]["decision"]["answers"];
    assert_eq!(shown["pin"]["sealed"], true, "{shown}");
    assert_eq!(shown["why"], "lost");

    let backup = server.dir.path().join("backup.db");
    let made = server.run(&["backup", backup.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let heard = fs::read_to_string(&watched).unwrap();
    assert!(
        heard.contains("approval_granted") && heard.contains("sealed"),
        "{heard}"
    );
    // The events, the log's files with all that is in them, the server's own log, what was watched.
    let db = Connection::open(server.dir.path().join("pilothouse.db")).unwrap();
    let sealed = |db: &Connection| -> i64 {
        db.query_row("SELECT count(*) FROM sealed", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(sealed(&db), 1);
    drop(db);
    for entry in fs::read_dir(server.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            leaks(&path.display().to_string(), &fs::read(&path).unwrap());
        }
    }

    // The agent gets it, also of a server that was killed in between.
    let told = server.run(&["wait", id]);
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(told.objects()[0]["decision"]["answers"]["pin"], CANARY);
    leaks(
        "stderr",
        &fs::read(server.dir.path().join("stderr")).unwrap(),
    );
}

/// On a screen it is as many dots as there are characters.
#[test]
fn a_secret_that_is_typed_stands_on_no_screen() {
    let server = Server::start();
    let id = server.file(&["--title", "The PIN?", "--field", "pin:secret"]);
    let mut desk = attach_to(server.dir(), &[], 34, 120);
    desk.wait_text("only the agent gets it");
    desk.decide("a", "ctrl-s sends the APPROVAL; 'Pin' needs an answer");
    desk.send(CANARY);
    desk.wait_text(&"●".repeat(CANARY.chars().count()));
    desk.keys("ctrl-s");
    desk.wait_text("✓ granted by");
    desk.wait_text("(sealed)");
    assert!(
        !has_text(&desk.screen(), CANARY),
        "{}",
        show(&desk.screen())
    );
    leaks("the terminal", &desk.raw_bytes());
    let told = server.run(&["wait", &id]);
    assert_eq!(told.objects()[0]["decision"]["answers"]["pin"], CANARY);
}

fn pin_of(answer: &pb::AwaitResponse) -> pb::answer::Value {
    let Some(pb::await_response::State::Settled(settled)) = &answer.state else {
        panic!("{answer:?}");
    };
    let Some(pb::settled::Outcome::Granted(decision)) = &settled.outcome else {
        panic!("{settled:?}");
    };
    decision.answers[0].value.clone().unwrap()
}

/// Only the agent that filed is told, and only until it says what came of it.
#[tokio::test]
async fn a_secret_is_told_to_the_agent_that_filed_until_it_is_applied() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let mut filing = question(&run, "t1", pb::Asks::Operator);
    filing.detail.as_mut().unwrap().fields = vec![pb::Field {
        name: "pin".into(),
        r#type: pb::FieldType::String.into(),
        secret: true,
        ..Default::default()
    }];
    let filed = file(&mut agent, filing).await;
    let mut wish = decision(&filed, pb::Verdict::Approve, "d1");
    wish.answers = [("pin".to_owned(), CANARY.to_owned())].into();
    let decided = house
        .person("operator:ops")
        .decide(wish.clone())
        .await
        .unwrap();
    leaks("the decider's answer", format!("{decided:?}").as_bytes());
    let again = house.person("operator:ops").decide(wish).await.unwrap();
    leaks("the retry's answer", format!("{again:?}").as_bytes());
    for who in ["operator:ops", "admin:root", "viewer:v"] {
        let got = house
            .person(who)
            .get(crate::house::get(&filed.approval_id))
            .await;
        leaks(who, format!("{got:?}").as_bytes());
    }
    assert!(
        house
            .agent("agent:a2")
            .r#await(waiting(&filed.approval_id))
            .await
            .is_err()
    );

    use pb::answer::Value::{Sealed, Text};
    for _ in 0..2 {
        let told = agent.r#await(waiting(&filed.approval_id)).await.unwrap();
        assert_eq!(pin_of(told.get_ref()), Text(CANARY.into()));
    }
    let applied = pb::ReportAppliedRequest {
        approval_id: filed.approval_id.clone(),
        result: pb::AppliedResult::Done.into(),
        detail: String::new(),
    };
    agent.report_applied(applied).await.unwrap();
    let told = agent.r#await(waiting(&filed.approval_id)).await.unwrap();
    assert_eq!(pin_of(told.get_ref()), Sealed(true));
    let db = Connection::open(house.server.dir().join("pilothouse.db")).unwrap();
    let left: i64 = db
        .query_row("SELECT count(*) FROM sealed", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// Without its key it is not given out, and nobody is told something else instead.
#[test]
fn another_key_opens_nothing_and_says_so() {
    let mut server = Server::start();
    let id = server.file(&["--title", "The PIN?", "--field", "pin:secret"]);
    let answer = format!("pin={CANARY}");
    assert_eq!(
        server.decide("approve", &id, &["--answer", &answer]).code,
        0
    );
    server.terminate();
    fs::remove_file(server.dir().join("sealed.key")).unwrap();
    server.restart();
    let told = server.run(&["wait", &id, "--timeout", "1s"]);
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("sealed with another key"), "{told:?}");
    assert_eq!(server.run(&["show", &id]).code, 0);
}
