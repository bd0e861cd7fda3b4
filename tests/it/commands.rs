//! The commands: what scripts may rely on.

use std::process::Stdio;

use crate::server::{PROGRAM, Ran, Server};

#[test]
fn a_script_asks_a_human_and_learns_the_answer() {
    let server = Server::start();
    let yes = server.file(&[
        "--title", "Deploy?", "--prompt", "to prod", "--label", "team=web",
    ]);
    let no = server.file(&["--title", "Drop the table?"]);
    let items = server.open();
    assert_eq!(items.len(), 2);
    for key in [
        "id",
        "kind",
        "target_id",
        "title",
        "status",
        "digest",
        "asks",
        "labels",
        "run_id",
        "run_state",
        "task_id",
        "session_id",
        "agent",
        "source",
        "filed_at",
        "deadline",
    ] {
        assert!(
            items[0].get(key).is_some(),
            "an open item has {key}: {}",
            items[0]
        );
    }
    assert_eq!(items[0]["kind"], "approval");
    assert_eq!(items[0]["asks"], "operator");
    assert_eq!(items[0]["source"], "cli");
    assert_eq!(items[0]["run_state"], "waiting");
    assert_eq!(items[0]["labels"]["team"], "web");

    assert_eq!(
        server.run(&["wait", &yes, "--timeout", "0s"]).code,
        3,
        "not yet"
    );
    assert_eq!(server.decide("approve", &yes, &[]).code, 0);
    assert_eq!(
        server.decide("reject", &no, &["--note", "not today"]).code,
        0
    );
    assert_eq!(server.run(&["wait", &yes]).code, 0);
    let rejected = server.run(&["wait", &no]);
    assert_eq!(rejected.code, 1);
    assert!(rejected.out.contains("not today"), "{rejected:?}");
    assert!(server.open().is_empty());
    assert_eq!(
        server.show(&yes)["run_state"],
        "completed",
        "a run of the CLI ends with its question"
    );
}

#[test]
fn a_waiter_is_woken_by_the_answer() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let waiting = server
        .command(&["wait", &id])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(server.decide("approve", &id, &[]).code, 0);
    let waited = Ran::of(waiting.wait_with_output().unwrap());
    assert_eq!(waited.code, 0, "{waited:?}");
}

#[test]
fn a_poll_that_ends_records_nothing() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let before = server.run(&["whoami"]);
    assert_eq!(before.code, 0);
    assert_eq!(server.run(&["wait", &id, "--timeout", "1s"]).code, 3);
    assert_eq!(server.show(&id)["waits_timed_out"], serde_json::json!([]));
}

#[test]
fn the_first_decision_wins_and_a_retry_is_answered_with_it() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    assert_eq!(
        server.decide("approve", &id, &["--decision-id", "d1"]).code,
        0
    );
    assert_eq!(
        server.decide("approve", &id, &["--decision-id", "d1"]).code,
        0,
        "the same decision"
    );
    let second = server.decide("reject", &id, &["--decision-id", "d2"]);
    assert_eq!(second.code, 4);
    assert!(
        second.err.contains("already granted by user:"),
        "{second:?}"
    );
}

#[test]
fn a_decision_is_bound_to_what_was_seen() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let other = "0".repeat(64);
    let stale = server.run(&["approve", &id, "--digest", &other]);
    assert_eq!(stale.code, 4);
    assert!(stale.err.contains("not the one you saw"), "{stale:?}");
    let blind = server.run(&["approve", &id]);
    assert_eq!(
        blind.code, 64,
        "without a digest and without a terminal it is usage: {blind:?}"
    );
    assert!(
        blind.err.contains("--json"),
        "and says where the digest is: {blind:?}"
    );
    assert_eq!(server.open().len(), 1);
}

#[test]
fn a_form_is_answered_or_refused_field_by_field() {
    let server = Server::start();
    let id = server.file(&[
        "--title",
        "Publish",
        "--field",
        "visibility:enum:public|internal=internal",
        "--field",
        "copies:integer",
        "--field",
        "day:date=2026-12-01",
    ]);
    let wrong = server.decide(
        "approve",
        &id,
        &[
            "--answer",
            "visibility=everybody",
            "--answer",
            "copies=2.5",
            "--answer",
            "day=2026-02-30",
            "--answer",
            "x=1",
        ],
    );
    assert_eq!(wrong.code, 4);
    for fault in [
        "'Visibility' must be one of public, internal",
        "'Copies' must be a whole number",
        "'Day' must be a day that exists",
        "'x' is not a field of this form",
    ] {
        assert!(
            wrong.err.contains(fault),
            "all of it at once: {fault}: {wrong:?}"
        );
    }
    let no = server.decide("reject", &id, &[]);
    assert!(
        no.err.contains("'Copies' needs an answer"),
        "a rejection satisfies the form too: {no:?}"
    );
    assert_eq!(
        server.decide("reject", &id, &["--answer", "copies=3"]).code,
        0
    );
    let shown = server.show(&id);
    assert_eq!(shown["decision"]["answers"]["copies"], 3);
    assert_eq!(shown["decision"]["answers"]["visibility"], "internal");
}

#[test]
fn exit_codes_are_what_they_say() {
    let server = Server::start();
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(
        server.run(&["show", unknown]).code,
        4,
        "no such thing is a refusal"
    );
    assert_eq!(server.run(&["approve"]).code, 64, "usage");
    assert_eq!(server.run(&["frobnicate"]).code, 64, "usage");
    assert_eq!(server.run(&["--help"]).code, 0);
    assert_eq!(
        server
            .run(&["file", "--title", "x", "--deadline", "59s"])
            .code,
        4
    );
    assert_eq!(
        server
            .run(&["file", "--title", "x", "--tool", "t", "--args", "{"])
            .code,
        64
    );
    assert_eq!(
        server.run(&["wait", ""]).code,
        64,
        "an empty id names nothing"
    );
    let dir = tempfile::TempDir::new().unwrap();
    let alone = std::process::Command::new(PROGRAM)
        .args(["list", "--data"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(Ran::of(alone).code, 5, "no server");
    let piped = server.run(&[]);
    assert_eq!(piped.code, 64, "not a terminal: {piped:?}");
}

#[test]
fn a_second_server_says_who_holds_the_directory() {
    let server = Server::start();
    let socket = server.dir().join("other");
    let second = std::process::Command::new(PROGRAM)
        .args(["serve", "--data"])
        .arg(server.dir())
        .arg("--socket")
        .arg(socket)
        .output()
        .unwrap();
    let second = Ran::of(second);
    assert_eq!(second.code, 70);
    assert!(
        second.err.contains("lock") && second.err.contains("process "),
        "{second:?}"
    );
}

#[test]
fn the_server_ends_in_time_with_a_waiter_open() {
    let mut server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let mut waiting = server
        .command(&["wait", &id])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut watching = server
        .command(&["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let from = std::time::Instant::now();
    assert_eq!(server.terminate(), Some(128 + 15));
    assert!(
        from.elapsed() < std::time::Duration::from_secs(8),
        "{:?}",
        from.elapsed()
    );
    let _ = (
        waiting.kill(),
        waiting.wait(),
        watching.kill(),
        watching.wait(),
    );
    server.restart();
    assert_eq!(server.open().len(), 1, "the question is still there");
}
