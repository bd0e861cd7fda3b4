//! The dashboard, from the key to the agent's answer: the real program, the real server, a terminal between.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use pilothouse::wire::{pb::goldfive::v1::ControlKind, pilothouse::Awaited};
use registry::{
    approval::{Outcome, Seen},
    form::{Answer, Field, Kind, Presence},
    run::TaskState,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    desk::{Native, Waiting, attach, attach_to, login, run_of, tool_call},
    escapes::only_ours,
    goldfive::{eventually, with_door},
    pty::{Pty, Terminal, has_text, show},
    relay::Relay,
    replay::Replay,
    server::{PROGRAM, Ran, Server, command_at},
};

/// The footer, where the card has the keyboard and keys decide.
const CARD: &str = "esc back  a approve";

fn field(name: &str, kind: Kind, presence: Presence) -> Field {
    Field {
        name: name.into(),
        label: "".into(),
        help: "".into(),
        kind,
        presence,
        secrecy: registry::form::Secrecy::Open,
    }
}

// === Local mode ===

/// DESIGN §7.
#[test]
fn the_program_alone_keeps_the_registry_for_agents_and_other_dashboards() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().to_str().unwrap();
    let run = |args: &[&str]| Ran::of(command_at(dir.path(), args).output().unwrap());
    let file = |title: &str| run(&["file", "--title", title]).out.trim().to_owned();
    let wait = |id: &str| Waiting::start(command_at(dir.path(), &["wait", id]));
    let open = || Pty::spawn(PROGRAM, &["--data", place], &[], 30, 110);

    let mut first = open();
    first.wait_text("Nothing waits for you");
    first.wait_text("● live");
    let yes = file("Ship it?");
    let waiting = wait(&yes);
    first.wait_text("Ship it?");
    first.decide("a", &format!("✓ granted by user:{}", login()));
    let ended = waiting.end();
    assert_eq!(ended.code, 0, "{ended:?}");

    let no = file("Drop it?");
    let waiting = wait(&no);
    first.wait_text("Drop it?");
    first.press("esc", "all seen ✓");
    first.press("n", "YOUR ANSWER");
    first.send("not on a Friday");
    first.press("ctrl-s", CARD);
    first.decide("x", &format!("✗ rejected by user:{}", login()));
    let ended = waiting.end();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("not on a Friday"), "{ended:?}");

    file("Tomorrow?");
    first.wait_text("Tomorrow?");
    first.keys("q");
    assert_eq!(first.exit_status().exit_code(), 0);
    first.assert_restored();
    let said = show(&first.screen());
    assert!(
        said.contains("1 question still open; they are kept in"),
        "{said}"
    );
    assert_eq!(run(&["list"]).code, 5, "nobody answers any more");

    let mut again = open();
    again.wait_text("Tomorrow?");
    again.wait_text("local");
    let mut second = open();
    second.wait_text("Tomorrow?");
    second.wait_text("unix:");
    second.decide("x", "✗ rejected by");
    again.wait_text("✗ rejected by");
    again.assert_alive();
}

// === Screens ===

/// GF-83: what the tasks of a run did is read from its record; the history from the server.
#[test]
fn a_run_is_seen_over_time_and_what_ended_in_the_history() {
    let server = Server::start();
    let agent = Native::of(&server);
    let run = agent.open(&run_of("research-7"));
    agent.report(run, "t1", "Find the archives", &TaskState::Completed);
    agent.report(run, "t2", "Collect sources", &TaskState::Running);
    let filed = agent.file(run, &tool_call("call-1", "{}", Vec::new()));
    let waiting = agent.wait(&filed);

    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    desk.decide("a", "✓ granted by");
    drop(agent.answer(waiting));
    desk.press("2", "✓ done");
    desk.wait_text("t2 Collect sources");
    desk.wait_text("━ running");
    agent.report(run, "t2", "", &TaskState::Failed);
    desk.wait_text("✗ failed");
    desk.press("3", "pilothouse › history");
    desk.wait_text(&format!("by user:{}", login()));
    desk.press(":", "Commands");
    desk.send("inbox");
    desk.wait_text(":inbox");
    desk.keys("enter");
    desk.wait_text("Needs you");
    only_ours(&desk.raw_bytes());
}

// === Agents ===

/// Case E15: who decided is the login of the socket.
#[test]
fn an_agent_that_awaits_gets_the_typed_answers_and_history_names_the_login() {
    let server = Server::start();
    let agent = Native::of(&server);
    let run = agent.open(&run_of("billing-agent"));
    let form = vec![
        field("cost_centre", Kind::Integer, Presence::Required),
        field(
            "dry_run",
            Kind::Boolean,
            Presence::Defaulted(Answer::Boolean(true)),
        ),
        field(
            "limit",
            Kind::Number,
            Presence::Defaulted(Kind::Number.parse("10").unwrap()),
        ),
    ];
    let args = r#"{"to": "ACME GmbH", "amount": 1250.00}"#;
    let filed = agent.file(run, &tool_call("call-1", args, form));
    let waiting = agent.wait(&filed);

    let env = [("USER", "bob"), ("LOGNAME", "bob")];
    let mut desk = attach_to(server.dir(), &env, 40, 120);
    desk.wait_text("1250.00");
    desk.wait_text("all seen ✓");
    desk.decide(
        "a",
        "ctrl-s sends the APPROVAL; 'Cost centre' needs an answer",
    );
    desk.send("4711");
    desk.press("tab", "▌ Dry run");
    desk.press("right", "(•) false");
    desk.press("tab", "▌ Limit");
    desk.keys("ctrl-u");
    desk.send("2.5");
    desk.wait_text("[ 2.5");
    desk.keys("ctrl-s");
    desk.wait_text("✓ granted by");

    let Awaited::Settled(settled) = agent.answer(waiting) else {
        panic!("not settled");
    };
    let Outcome::Granted(decision) = &settled.outcome else {
        panic!("{:?}", settled.outcome);
    };
    let answers = &decision.answers;
    assert_eq!(answers.get("cost_centre"), Some(&Answer::Integer(4711)));
    assert_eq!(answers.get("dry_run"), Some(&Answer::Boolean(false)));
    assert_eq!(
        answers.get("limit"),
        Some(&Kind::Number.parse("2.5").unwrap())
    );
    assert_eq!(decision.seen, Seen::Whole);
    let history = server.run(&["history", "--json"]).objects();
    assert_eq!(history[0]["decision"]["by"], format!("user:{}", login()));
    assert!(!show(&desk.screen()).contains("bob"));
}

/// A goldfive agent, unchanged: its question is answered by keys, and the card says how far the answer came.
#[test]
fn a_goldfive_task_is_approved_by_keys_and_the_card_follows_the_answer() {
    let (server, door) = with_door();
    Runtime::new().unwrap().block_on(async {
        let mut agent = Replay::open(&door, "session-approved.frames").await;
        assert!(agent.until_control().await);
        let mut desk = attach(&server);
        desk.wait_text("asks whoever is on call");
        desk.press("n", "YOUR ANSWER");
        desk.send("fine, up to $500");
        desk.press("ctrl-s", CARD);
        desk.decide("a", "delivery: sent ");
        let control = agent.control().await;
        assert_eq!(control.event.kind(), ControlKind::Approve);
        assert_eq!(control.decision(), ("t7", "fine, up to $500"));
        assert!(
            !has_text(&desk.screen(), "acked"),
            "{}",
            show(&desk.screen())
        );
        agent.step().await;
        desk.wait_text("sent › acked ");
        assert!(!has_text(&desk.screen(), "confirmed"));
        agent.rest().await;
        desk.wait_text("sent › acked › confirmed");
        desk.wait_text("applied: done");
        assert_eq!(agent.finish().await.len(), 1);
    });
}

#[test]
fn a_goldfive_tool_is_rejected_by_keys_with_a_note() {
    let (server, door) = with_door();
    Runtime::new().unwrap().block_on(async {
        let mut agent = Replay::open(&door, "session-rejected-tool.frames").await;
        assert!(agent.until_control().await);
        let mut desk = attach(&server);
        desk.wait_text("WHAT WILL RUN");
        desk.press("n", "YOUR ANSWER");
        desk.send("not on a Friday");
        desk.press("ctrl-s", CARD);
        desk.decide("x", "✗ rejected by");
        let control = agent.control().await;
        assert_eq!(control.event.kind(), ControlKind::Reject);
        assert_eq!(control.decision().1, "not on a Friday");
        agent.rest().await;
        desk.wait_text("confirmed");
        desk.wait_text("applied: skipped");
        agent.finish().await;
    });
}

// === Forms ===

const A31: [&str; 6] = [
    "--field",
    "reason_code:enum:fraud|duplicate",
    "--field",
    "amount:integer=1",
    "--field",
    "remark:text=",
];

fn file_form(server: &Server, title: &str, fields: &[&str]) -> String {
    let mut args = vec!["--title", title];
    args.extend(fields);
    server.file(&args)
}

/// Case A31: a rejection satisfies the form too, and what was wanted, typed and noted is kept until it does.
#[test]
fn a_rejection_that_lacks_an_answer_jumps_to_the_field_and_keeps_everything() {
    let server = Server::start();
    let id = file_form(&server, "Refund", &A31);
    let mut desk = attach(&server);
    desk.wait_text("Reason code");
    desk.press("n", "▌ Note");
    desk.send("asked twice");
    desk.press("ctrl-s", CARD);

    desk.decide("x", "✗ 'Reason code' needs an answer");
    desk.wait_text("▌ Reason code");
    desk.wait_text("ctrl-s sends the REJECTION");
    desk.press("right", "(•) fraud");
    desk.press("tab", "▌ Amount");
    desk.keys("ctrl-u");
    desk.send("abc");
    desk.wait_text("[ abc");
    desk.press("ctrl-s", "✗ 'Amount' must be a whole number, like 42");
    desk.wait_text("▌ Amount");
    for kept in ["[ abc", "(•) fraud", "asked twice"] {
        assert!(has_text(&desk.screen(), kept), "{}", show(&desk.screen()));
    }
    assert_eq!(server.open().len(), 1);
    desk.keys("ctrl-u");
    desk.send("7");
    desk.wait_text("[ 7");
    desk.press("ctrl-s", "✗ rejected by");
    let decision = server.show(&id)["decision"].clone();
    let wanted = serde_json::json!({"reason_code": "fraud", "amount": 7, "remark": ""});
    assert_eq!(decision["answers"], wanted);
    assert_eq!(decision["note"], "asked twice");
}

/// Case A31: the second press of reject completes it, with the defaults for what was left alone.
#[test]
fn a_second_press_of_reject_completes_it_with_the_defaults() {
    let server = Server::start();
    for (key, word, ended) in [
        ("x", "rejection", "✗ rejected by"),
        ("a", "approval", "✓ granted by"),
    ] {
        let id = file_form(&server, word, &A31);
        let mut desk = attach(&server);
        desk.wait_text("Reason code");
        desk.decide(key, &format!("ctrl-s sends the {}", word.to_uppercase()));
        desk.press("right", "(•) fraud");
        desk.press("esc", CARD);
        desk.decide(key, ended);
        let wanted = serde_json::json!({"reason_code": "fraud", "amount": 1, "remark": ""});
        assert_eq!(server.show(&id)["decision"]["answers"], wanted);
    }
}

/// Case A12: form rules hold when it is answered, and are said at the fields, all of them.
#[test]
fn a_wrong_answer_is_said_at_its_field_and_decides_nothing() {
    let server = Server::start();
    let fields = [
        "--field",
        "n:integer=5",
        "--field",
        "vis:enum:public|internal",
        "--field",
        "d:date=2026-12-01",
    ];
    let id = file_form(&server, "Publish", &fields);
    let mut desk = attach(&server);
    desk.wait_text("Vis");
    desk.press("e", "▌ N ");
    let kept = |desk: &Pty, typed: &str| {
        assert!(has_text(&desk.screen(), typed), "{}", show(&desk.screen()));
        assert_eq!(server.open().len(), 1, "{typed} decided");
    };
    // The server's words for the same answers.
    let refused = |answer: &str| server.decide("approve", &id, &["--answer", answer]).err;
    for typed in ["2.5", "١٢", "1e3", ""] {
        desk.keys("ctrl-u");
        desk.send(typed);
        let shown = format!("[ {typed}");
        desk.wait_text(shown.trim_end());
        desk.keys("ctrl-s");
        let words = match typed {
            "" => "'N' needs an answer",
            _ => "'N' must be a whole number, like 42",
        };
        desk.wait_text(&format!("✗ {words}"));
        kept(&desk, shown.trim_end());
        assert!(refused(&format!("n={typed}")).contains(words));
        desk.send("x");
        desk.wait_gone("✗ 'N'");
    }
    desk.keys("ctrl-u");
    desk.send("2.5");
    // A choice is not typed: letters do nothing.
    desk.press("tab", "▌ Vis");
    desk.send("Public");
    desk.press("tab", "▌ D ");
    for (typed, words) in [
        ("30/02/2026", "'D' must be a date written as YYYY-MM-DD"),
        ("2026-02-30", "'D' must be a day that exists"),
    ] {
        desk.keys("ctrl-u");
        desk.send(typed);
        desk.wait_text(typed);
        desk.press("ctrl-s", &format!("✗ {words}"));
        desk.wait_text("✗ 'N' must be a whole number, like 42");
        desk.wait_text("✗ 'Vis' needs an answer");
        desk.wait_text("▌ N ");
        kept(&desk, typed);
        assert!(refused(&format!("d={typed}")).contains(words));
        desk.press("tab", "▌ Vis");
        desk.press("tab", "▌ D ");
    }
    desk.assert_alive();
}

// === What decides nothing ===

#[test]
fn pasted_text_never_decides() {
    let server = Server::start();
    let id = file_form(&server, "Refund", &A31);
    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    // Keys count by now, and one would decide.
    desk.decide("a", "ctrl-s sends the APPROVAL");
    desk.press("right", "(•) fraud");
    for place in [CARD, "↵ open  a approve"] {
        desk.press("esc", place);
        desk.paste("a\nx\n");
        desk.wait_text("pasted text was ignored");
        desk.assert_alive();
        assert_eq!(server.open().len(), 1);
        desk.press("f2", place);
    }
    desk.press("n", "▌ Note");
    desk.paste("a\nx\n");
    desk.wait_text("4 of 8192");
    assert_eq!(server.open().len(), 1);
    desk.press("ctrl-s", CARD);
    desk.decide("a", "✓ granted by");
    assert_eq!(server.show(&id)["decision"]["note"], "a\nx\n");
}

/// What is typed after `n` or `e` in the list alone is text, also before the card is there.
#[test]
fn letters_after_note_or_form_in_the_list_alone_decide_nothing() {
    const TYPED: &str = "wait a minute, xa";
    let server = Server::start();
    server.file(&["--title", "Deploy"]);
    let relay = Relay::to(&server);
    let mut at_once = attach_to(relay.dir(), &[], 24, 80);
    at_once.wait_text("Deploy");
    relay.hold();
    at_once.send(&format!("n{TYPED}"));
    at_once.wait_text("fetching…");
    at_once.wait_text(TYPED);
    relay.release();
    at_once.wait_text("asked by cli");
    let mut slowly = attach_to(server.dir(), &[], 24, 80);
    slowly.wait_text("Deploy");
    slowly.press("n", "▌ Note");
    slowly.send(TYPED);
    slowly.wait_text(TYPED);
    let mut no_form = attach_to(server.dir(), &[], 24, 80);
    no_form.wait_text("Deploy");
    no_form.send(&format!("e{TYPED}"));
    no_form.wait_text("this card has no form");
    for desk in [&mut at_once, &mut slowly, &mut no_form] {
        desk.assert_alive();
    }
    assert_eq!(server.open().len(), 1);
    slowly.press("ctrl-s", CARD);
    slowly.decide("x", "✗ rejected by");
    let history = server.run(&["history", "--json"]).objects();
    assert_eq!(history[0]["decision"]["note"], TYPED);
}

/// DESIGN §6.2: 250 ms, also where nothing has to be fetched.
#[test]
fn a_key_that_comes_with_the_card_decides_nothing() {
    let server = Server::start();
    server.file(&["--title", "First"]);
    server.file(&["--title", "Second"]);
    let mut narrow = attach_to(server.dir(), &[], 24, 80);
    narrow.wait_text("Second");
    narrow.press("enter", "all seen ✓");
    narrow.press("esc", "Needs you");
    narrow.send("\ra");
    let mut wide = attach(&server);
    wide.wait_text("─ First ─");
    wide.wait_text("all seen ✓");
    wide.press("j", "─ Second ─");
    wide.wait_text("all seen ✓");
    wide.press("k", "─ First ─");
    wide.send("ja");
    for desk in [&mut narrow, &mut wide] {
        desk.wait_text("this card has just appeared or changed");
        desk.assert_alive();
    }
    assert_eq!(server.open().len(), 2);
    for desk in [&mut narrow, &mut wide] {
        desk.keys("f2");
        desk.wait_gone("this card has just");
        desk.decide("a", "✓ granted by");
    }
    assert!(server.open().is_empty());
}

/// How many lines have not been on the screen, as the card says it.
fn unseen(screen: &vt100::Screen) -> Option<usize> {
    let (_, cols) = screen.size();
    let bottom = screen.rows(0, cols.get()).find_map(|row| {
        let counts = [" unread line", " more line"];
        let counts = counts.into_iter().filter_map(|words| {
            let (before, _) = row.split_once(words)?;
            before.rsplit(' ').next()?.parse::<usize>().ok()
        });
        counts.reduce(|above, below| above + below)
    });
    if has_text(screen, "all seen ✓") {
        return Some(0);
    }
    bottom
}

/// DESIGN §6.3.
#[test]
fn approving_waits_until_the_whole_card_was_on_the_screen() {
    let server = Server::start();
    let body: Vec<String> = (1..=60).map(|n| format!("line {n} of the plan")).collect();
    let body = body.join("\n");
    let id = server.file(&["--title", "Long plan", "--body", &body]);
    let mut desk = attach_to(server.dir(), &[], 24, 80);
    desk.wait_text("Long plan");
    desk.press("enter", "more lines ↓");
    desk.decide("a", "lines unseen: ↓ to read, A to accept unread");
    // What was jumped over was not seen.
    desk.press("G", "line 60 of the plan");
    let jumped = unseen(&desk.screen()).unwrap();
    assert!(jumped > 0, "{}", show(&desk.screen()));
    desk.decide("a", &format!("{jumped} lines unseen"));
    assert_eq!(server.open().len(), 1);
    desk.keys("g g");
    desk.wait_text("THE AGENT SAYS");
    let mut left = jumped;
    while left > 0 {
        desk.keys("pgdn");
        desk.wait_for(
            |screen| unseen(screen).is_some_and(|n| n < left),
            "new lines",
        );
        left = unseen(&desk.screen()).unwrap();
    }
    desk.decide("a", "✓ granted by");
    assert_eq!(server.show(&id)["decision"]["seen"], "whole");
}

#[test]
fn what_is_accepted_or_rejected_unread_is_recorded_as_such() {
    let server = Server::start();
    let body = "a line\n".repeat(60);
    for (key, ended) in [("A", "✓ granted by"), ("x", "✗ rejected by")] {
        let id = server.file(&["--title", "Long plan", "--body", &body]);
        let mut desk = attach(&server);
        desk.wait_text("more lines ↓");
        desk.decide(key, ended);
        assert_eq!(server.show(&id)["decision"]["seen"], "unread");
    }
}

/// DESIGN §6.2.
#[test]
fn high_risk_asks_once_more_with_the_cursor_on_no() {
    let server = Server::start();
    let id = server.file(&["--title", "Drop the table", "--high-risk"]);
    let mut desk = attach(&server);
    desk.wait_text("HIGH RISK: approving asks once more");
    desk.decide("a", "! HIGH RISK: approve?");
    assert!(has_text(&desk.screen(), "▌ no"), "{}", show(&desk.screen()));
    desk.keys("enter");
    desk.wait_gone("! HIGH RISK: approve?");
    assert_eq!(server.open().len(), 1);
    // The key that comes with the question does not answer it.
    let until = Instant::now() + Duration::from_secs(20);
    while !has_text(&desk.screen(), "! HIGH RISK: approve?") {
        assert!(Instant::now() < until, "{}", show(&desk.screen()));
        desk.keys("f2");
        desk.wait_gone("copied");
        desk.send("ay");
        desk.wait_for(
            |screen| has_text(screen, "copied") || has_text(screen, "this card has just"),
            "answer to y",
        );
    }
    desk.wait_text("this card has just");
    assert_eq!(server.open().len(), 1);
    desk.decide("y", "✓ granted by");
    assert_eq!(server.show(&id)["decision"]["seen"], "whole");
    // Rejecting asks nothing.
    server.file(&["--title", "Drop it all", "--high-risk"]);
    desk.wait_text("Drop it all");
    desk.press("esc", "all seen ✓");
    desk.decide("x", "✗ rejected by");
}

// === A server that goes away ===

fn banner(screen: &vt100::Screen) -> bool {
    let (rows, cols) = screen.size();
    (0..rows.get()).any(|row| {
        let cells = (0..cols.get()).filter_map(|col| screen.cell(row, col));
        let said = screen.contents_between(row, 0, row, cols.get());
        said.contains("▲ OFFLINE") && cells.into_iter().all(vt100::Cell::inverse)
    })
}

/// How often a question was decided, and the id of the decision.
pub(crate) fn decisions(server: &Server, id: &str) -> Vec<String> {
    let history = server.run(&["history", "--json"]).objects();
    let of_this = history.iter().filter(|ended| ended["id"] == id);
    of_this
        .map(|ended| ended["decision"]["id"].as_str().unwrap().to_owned())
        .collect()
}

/// DESIGN §6.6.
#[test]
fn a_server_that_dies_costs_no_draft_and_takes_no_key() {
    let mut server = Server::start();
    let id = file_form(&server, "Refund", &A31);
    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    desk.press("n", "▌ Note");
    desk.send("typed before");
    desk.press("ctrl-s", CARD);
    desk.press("e", "▌ Reason code");
    desk.press("right", "(•) fraud");
    desk.press("esc", CARD);
    server.kill();
    desk.wait_for(banner, "banner across the whole width");
    for key in ["a", "x", "A"] {
        desk.press(key, "offline: not sent");
        desk.keys("f2");
        desk.wait_gone("offline: not sent");
    }
    for kept in ["Refund", "typed before", "(•) fraud"] {
        assert!(has_text(&desk.screen(), kept), "{}", show(&desk.screen()));
    }
    server.restart();
    desk.keys("r");
    desk.wait_text("● live");
    assert!(!banner(&desk.screen()));
    assert_eq!(
        server.open().len(),
        1,
        "what was pressed offline is not sent later"
    );
    assert!(has_text(&desk.screen(), "typed before"));
    desk.decide("x", "✗ rejected by");
    let decision = server.show(&id)["decision"].clone();
    assert_eq!(decision["note"], "typed before");
    assert_eq!(decision["answers"]["reason_code"], "fraud");
}

/// The key arrives, the answer does not: pressed again or not, it is one decision.
#[test]
fn a_decision_whose_answer_is_lost_counts_once() {
    let server = Server::start();
    let relay = Relay::to(&server);
    let id = server.file(&["--title", "Go on?"]);
    let mut desk = attach_to(relay.dir(), &[], 34, 120);
    desk.wait_text("all seen ✓");
    relay.hold();
    desk.decide("a", "approval sent, waiting for the server");
    eventually("the decision", || {
        (server.show(&id)["status"] == "granted").then_some(())
    });
    desk.keys("a x a");
    desk.wait_text("already sent: waiting for the server");
    relay.cut();
    desk.wait_text("✓ granted by");
    desk.wait_text("● live");
    let decided = decisions(&server, &id);
    assert_eq!(decided.len(), 1);
    assert!(decided[0].starts_with("tui-") && decided[0].ends_with("-1"));
    desk.assert_alive();
}

/// The server dies with the key in its mailbox: the same key again is the same decision.
#[test]
fn a_decision_that_dies_with_the_server_is_sent_again_as_the_same() {
    let mut server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    server.freeze();
    desk.decide("a", "approval sent, waiting for the server");
    server.kill();
    desk.wait_text("perhaps not sent");
    desk.wait_for(banner, "banner");
    server.restart();
    desk.keys("r");
    desk.wait_text("● live");
    // The client may have sent it again by itself.
    if !has_text(&desk.screen(), "✓ granted by") {
        desk.decide("a", "✓ granted by");
    }
    let decided = decisions(&server, &id);
    assert_eq!(decided.len(), 1);
    assert!(decided[0].ends_with("-1"), "{decided:?}");
}

// === Others decide, too ===

/// DESIGN §4.1.2: what was seen is what is decided.
#[test]
fn a_key_for_a_superseded_question_does_not_decide_the_new_one() {
    let server = Server::start();
    let agent = Native::of(&server);
    let run = agent.open(&run_of("billing-agent"));
    let relay = Relay::to(&server);
    let old = agent.file(run, &tool_call("call-1", r#"{"amount": 10}"#, vec![]));
    let mut desk = attach_to(relay.dir(), &[], 34, 120);
    desk.wait_text("amount   10");
    desk.wait_text("all seen ✓");

    relay.hold();
    let new = agent.file(run, &tool_call("call-1", r#"{"amount": 99999}"#, vec![]));
    assert_ne!(old.id, new.id);
    desk.decide("a", "approval sent, waiting for the server");
    relay.release();
    desk.wait_text("⊘ withdrawn at");
    let open = server.open();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["id"], new.id.to_string());
    assert!(has_text(&desk.screen(), "amount   10"));
    desk.keys("a");
    desk.wait_text("already withdrawn");
    assert_eq!(server.open().len(), 1);
    assert_eq!(server.show(&old.id.to_string())["decision"], Value::Null);

    desk.press("esc", "amount   99999");
    desk.decide("x", "✗ rejected by");
    assert_eq!(server.show(&new.id.to_string())["status"], "rejected");
}

/// Case A25.
#[test]
fn of_two_dashboards_one_wins_and_the_other_says_who() {
    let tokens = TempDir::new().unwrap();
    let file = tokens.path().join("tokens.toml");
    let mut table = String::new();
    for name in ["ada", "grace"] {
        let made = Command::new(PROGRAM)
            .args(["token", "--role", "operator", "--name"])
            .arg(format!("user:{name}"))
            .output();
        let made = Ran::of(made.unwrap());
        crate::server::write_secret(tokens.path().join(name), made.out);
        let told = made.err.find("[[token]]").unwrap();
        table.push_str(&made.err[told..]);
    }
    std::fs::write(&file, table).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let file = file.to_str().unwrap();
    let server = Server::with(&["--listen", &address, "--tokens", file]);
    let place = format!("http://{address}");
    let desk = |name: &str| {
        let token = tokens.path().join(name);
        let token = token.to_str().unwrap();
        let args = ["attach", "--server", &place, "--token-file", token];
        Pty::spawn(PROGRAM, &args, &[], 34, 120)
    };
    let (mut ada, mut grace) = (desk("ada"), desk("grace"));
    for title in ["First", "Second", "Third"] {
        let id = file_form(&server, title, &A31);
        for desk in [&mut ada, &mut grace] {
            desk.wait_text(title);
            if title != "First" {
                desk.press("esc", "↵ open");
                desk.press("esc", "all seen ✓");
            }
            desk.wait_text("all seen ✓");
            // Its keys count by now.
            desk.decide("a", "ctrl-s sends the APPROVAL");
            desk.press("right", "(•) fraud");
            desk.press("esc", CARD);
        }
        ada.send("a");
        grace.send("x");
        for desk in [&mut ada, &mut grace] {
            desk.wait_text("ed by user:");
        }
        let won = server.show(&id)["status"].as_str().unwrap().to_owned();
        let (by, lost) = match won.as_str() {
            "granted" => ("ada", &mut grace),
            _ => ("grace", &mut ada),
        };
        lost.wait_text("was not taken: already");
        let id = decisions(&server, &id);
        assert_eq!(id.len(), 1);
        ada.wait_text(&format!("{won} by user:{by}"));
        grace.wait_text(&format!("{won} by user:{by}"));
    }
}

// === Hostile text ===

/// Case C01, and what hides or reorders text.
const HOSTILE: &str =
    "A\x1b[2J\x1b]0;x\x07\x1b]52;c;QUJD\x07\u{9b}31m\rB\x08\x7f\u{85}C\u{202e}\u{2066}\u{200b}";

/// A question of which every word is hostile.
fn file_hostile(server: &Server) -> String {
    let agent = Native::of(server);
    let run = agent.open(&pilothouse::wire::pilothouse::Opening {
        session: HOSTILE.into(),
        invocation: HOSTILE.into(),
        project: HOSTILE.into(),
        ..run_of(HOSTILE)
    });
    let escaped = serde_json::to_string(HOSTILE).unwrap();
    let choice = registry::form::Choice {
        value: HOSTILE.into(),
        label: HOSTILE.into(),
    };
    let form = [
        ("remark", Kind::String),
        ("several", Kind::Text),
        ("word", Kind::Enum(vec![choice])),
    ];
    let form = form.map(|(name, kind)| Field {
        label: HOSTILE.into(),
        help: HOSTILE.into(),
        ..field(name, kind, Presence::Required)
    });
    let args = format!(r#"{{{escaped}: [{escaped}, "\u001b]52;c;QUJD\u0007\u009b\u202e"]}}"#);
    let mut call = tool_call(HOSTILE, &args, form.into());
    call.title = HOSTILE.into();
    call.detail.prompt = HOSTILE.into();
    call.detail.body = HOSTILE.into();
    call.detail.facts = HOSTILE.into();
    call.labels = [(HOSTILE.into(), HOSTILE.into())].into();
    call.step = HOSTILE.into();
    call.subject = registry::approval::Subject::Tool {
        name: HOSTILE.into(),
        task: HOSTILE.into(),
    };
    agent.file(run, &call).id.to_string()
}

/// Case C01: in the dashboard, whatever is opened, typed or pasted.
#[test]
fn no_foreign_text_drives_the_terminal() {
    let server = Server::start();
    let id = file_hostile(&server);
    for (rows, cols) in [(60, 160), (24, 80)] {
        let mut desk = attach_to(server.dir(), &[], rows, cols);
        desk.wait_text("␛[2J");
        desk.press("enter", CARD);
        desk.wait_text("hidden char");
        desk.press("v", "raw · v back");
        desk.keys("pgdn pgdn G g g");
        desk.press("v", "chars · v raw");
        desk.keys("pgdn pgdn pgdn pgdn g g");
        desk.press("e", "esc back  tab next field");
        desk.paste(HOSTILE);
        desk.wait_text("left out of what was pasted");
        for c in ["\u{9b}", "\u{85}", "\u{202e}", "x"] {
            desk.send(c);
        }
        desk.keys("tab");
        desk.paste(HOSTILE);
        desk.wait_text("left out of what was pasted");
        desk.keys("ctrl-s");
        desk.wait_text("needs an answer");
        desk.press("esc", CARD);
        desk.press("n", "▌ Note");
        desk.paste(HOSTILE);
        desk.wait_text("left out of what was pasted");
        desk.press("ctrl-s", CARD);
        desk.press("?", "esc close");
        desk.keys("q");
        desk.wait_text(CARD);
        desk.keys("x");
        desk.wait_text("needs an answer");
        let sent = only_ours(&desk.raw_bytes());
        assert!(sent.bells <= 1, "{sent:?}");
        for title in &sent.titles {
            assert!(
                ["pilothouse prod", "(1) pilothouse prod"].contains(&&**title),
                "{title}"
            );
        }
        desk.assert_alive();
    }
    // What an operator wrote is foreign to the next one, too.
    let word = format!("word={HOSTILE}");
    let decided = [
        "--answer",
        "remark=x",
        "--answer",
        "several=\u{1b}[2J",
        "--answer",
        &word,
    ];
    let decided = [&decided[..], &["--note", HOSTILE]].concat();
    let mut desk = attach_to(server.dir(), &[], 60, 160);
    desk.wait_text("hidden char");
    let ran = server.decide("reject", &id, &decided);
    assert_eq!(ran.code, 0, "{ran:?}");
    desk.wait_text("note: A␛[2J");
    only_ours(&desk.raw_bytes());
}

/// Case C01: what the commands print on a terminal.
#[test]
fn no_foreign_text_drives_the_terminal_through_a_command() {
    let server = Server::start();
    let on_terminal = |args: &[&str], until: &str| {
        let dir = server.dir().to_str().unwrap();
        let args = [args, &["--data", dir]].concat();
        let mut pty = Pty::spawn(PROGRAM, &args, &[], 60, 160);
        pty.wait_text(until);
        if args[0] == "watch" {
            pty.signal(Signal::SIGTERM);
        }
        pty.exit_status();
        let sent = only_ours(&pty.raw_bytes());
        assert_eq!((sent.escapes, sent.bells), (0, 0), "{args:?}: {sent:?}");
    };
    let id = file_hostile(&server);
    let run = server.show(&id)["run_id"].as_str().unwrap().to_owned();
    on_terminal(&["list"], "␛[2J");
    on_terminal(&["list", "--json"], "\\u001b[2J");
    on_terminal(&["show", &id], "␛[2J");
    on_terminal(&["show", &id, "--json"], "\\u001b[2J");
    on_terminal(&["show", &run], "\\u001b[2J");
    on_terminal(&["watch"], "␛[2J");
    on_terminal(&["watch", "--json"], "\\u001b[2J");
    let digest = server.show(&id)["digest"].as_str().unwrap().to_owned();
    on_terminal(&["approve", &id, "--digest", &digest], "␛[2J");
    on_terminal(&["approve", &id, "--digest", HOSTILE], "--digest");
    on_terminal(
        &["approve", &id, "--digest", &digest, "--answer", "word=no"],
        "␛[2J",
    );
    on_terminal(&["show", &format!("{HOSTILE}?")], "pilothouse:");
    on_terminal(&["list", "--server", HOSTILE], "␛[2J");
    let word = format!("word={HOSTILE}");
    let answers = [
        "--answer",
        "remark=x",
        "--answer",
        "several=y",
        "--answer",
        &word,
    ];
    let answers = [&answers[..], &["--note", HOSTILE]].concat();
    assert_eq!(server.decide("approve", &id, &answers).code, 0);
    on_terminal(&["history"], "␛[2J");
    on_terminal(&["history", "--json"], "\\u001b[2J");
    on_terminal(&["wait", &id], "\\u001b[2J");
}

// === The ends ===

/// What asks the program to end expects that in this time.
const END: Duration = Duration::from_secs(2);

/// Case C05.
#[test]
fn a_signal_gives_the_terminal_back_and_ends_with_its_number() {
    let server = Server::start();
    server.file(&["--title", "Go on?"]);
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGQUIT, 131),
    ] {
        let mut desk = attach(&server);
        desk.wait_text("Go on?");
        assert!(desk.screen().alternate_screen());
        assert_ne!(&desk.settings(), desk.settings_before());
        desk.signal(signal);
        assert_eq!(desk.exit_status_within(END).exit_code(), code, "{signal}");
        desk.assert_restored();
    }
}

/// Case C05, where the registry ends, too.
#[test]
fn a_signal_ends_the_registry_as_well_and_the_next_start_has_it_all() {
    let dir = TempDir::new().unwrap();
    let args = ["--data", dir.path().to_str().unwrap()];
    let file = |title: &str| {
        let ran = Ran::of(
            command_at(dir.path(), &["file", "--title", title])
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    for (title, signal, code) in [
        ("First", Signal::SIGTERM, 143),
        ("Second", Signal::SIGKILL, 1),
        ("Third", Signal::SIGHUP, 129),
    ] {
        let mut desk = Pty::spawn(PROGRAM, &args, &[], 34, 120);
        desk.wait_text("local");
        desk.wait_text("● live");
        file(title);
        desk.wait_text(title);
        desk.signal(signal);
        assert_eq!(desk.exit_status_within(END).exit_code(), code, "{signal}");
        if signal != Signal::SIGKILL {
            desk.assert_restored();
            let said = show(&desk.screen());
            assert!(said.contains("still open"), "{said}");
        }
    }
    let mut desk = Pty::spawn(PROGRAM, &args, &[], 34, 120);
    desk.wait_text("3 waiting");
}

/// Case C05: an SSH connection that drops.
#[test]
fn a_terminal_that_is_gone_ends_the_dashboard() {
    let server = Server::start();
    let dir = TempDir::new().unwrap();
    let local = ["--data", dir.path().to_str().unwrap()];
    let attached = ["attach", "--data", server.dir().to_str().unwrap()];
    for terminal in [Terminal::Controlling, Terminal::NotControlling] {
        for args in [&attached[..], &local[..]] {
            let mut desk = Pty::spawn_on(terminal, PROGRAM, args, &[], 24, 80);
            desk.wait_text("● live");
            let place = std::path::Path::new(args[args.len() - 1]);
            let filed = command_at(place, &["file", "--title", "Go on?"]).output();
            assert!(filed.unwrap().status.success());
            desk.hang_up();
            assert_eq!(
                desk.exit_status_within(END).exit_code(),
                129,
                "{terminal:?} {args:?}"
            );
        }
    }
}

/// Case C05: the screen is there at once; the server comes when it comes.
#[test]
fn a_server_that_never_answered_is_waited_for() {
    let mut server = Server::start();
    server.file(&["--title", "Go on?"]);
    server.kill();
    let mut desk = attach(&server);
    desk.wait_for(banner, "banner");
    desk.press("a", "offline: not sent");
    server.restart();
    desk.keys("r");
    desk.wait_text("Go on?");
    desk.wait_text("● live");
    desk.decide("a", "✓ granted by");

    // Nor is a place where nothing ever was an end.
    let nowhere = TempDir::new().unwrap();
    let mut desk = attach_to(nowhere.path(), &[], 24, 80);
    desk.wait_text("OFFLINE");
    desk.wait_text("0 s · retrying in");
    desk.keys("q");
    assert_eq!(desk.exit_status_within(END).exit_code(), 0);
    desk.assert_restored();
}

/// Case C05: where nothing can be drawn, nothing is touched.
#[test]
fn without_a_terminal_nothing_is_touched() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    for args in [&["--data", data][..], &["attach", "--data", data]] {
        for term in ["dumb", ""] {
            let mut desk = Pty::spawn(PROGRAM, args, &[("TERM", term)], 24, 80);
            assert_eq!(desk.exit_status().exit_code(), 64);
            assert!(
                has_text(&desk.screen(), "TERM is"),
                "{}",
                show(&desk.screen())
            );
            assert_eq!(only_ours(&desk.raw_bytes()).escapes, 0);
            desk.assert_restored();
            assert_eq!(std::fs::read_dir(desk.home()).unwrap().count(), 0);
        }
        let piped = Command::new(PROGRAM).args(args).output().unwrap();
        let piped = Ran::of(piped);
        assert_eq!(piped.code, 64, "{piped:?}");
        assert!(
            piped.out.is_empty() && !piped.err.contains('\x1b'),
            "{piped:?}"
        );
        assert!(
            !std::path::Path::new(data).exists(),
            "{args:?} made its directory"
        );
    }
}

// === Sizes ===

#[test]
fn a_small_window_has_the_list_and_the_card_as_two_screens() {
    let server = Server::start();
    server.file(&["--title", "First", "--prompt", "May I?"]);
    server.file(&["--title", "Second"]);
    let mut desk = attach_to(server.dir(), &[], 24, 80);
    desk.wait_text("Second");
    assert!(
        !has_text(&desk.screen(), "May I?"),
        "{}",
        show(&desk.screen())
    );
    desk.wait_text("? help  q quit");
    // In a list alone the first press shows what it would decide.
    desk.press("a", "this is what you decide: read it, then press again");
    desk.wait_text("May I?");
    assert!(
        !has_text(&desk.screen(), "Needs you"),
        "{}",
        show(&desk.screen())
    );
    assert_eq!(server.open().len(), 2);
    desk.press("esc", "Needs you");
    desk.keys("j");
    desk.press("enter", "─ Second ─");
    desk.press("esc", "Needs you");
    desk.keys("k");
    desk.press("enter", "May I?");
    desk.decide("a", "✓ granted by");
    desk.press("esc", "Needs you");
    assert!(has_text(&desk.screen(), "1 waiting") && !has_text(&desk.screen(), "First"));
}

#[test]
fn the_smallest_window_still_decides_and_a_smaller_one_says_so() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?", "--prompt", "May I?"]);
    let mut desk = attach_to(server.dir(), &[], 10, 40);
    desk.wait_text("Go on?");
    desk.wait_text("q quit");
    desk.press("enter", "esc back");
    desk.resize(9, 39);
    desk.wait_text("1 waiting · make the window larger");
    desk.keys("a");
    desk.resize(10, 40);
    desk.wait_text("a approve");
    assert_eq!(
        server.open().len(),
        1,
        "what is not on the screen is not decided"
    );
    let until = Instant::now() + Duration::from_secs(20);
    while unseen(&desk.screen()) != Some(0) {
        assert!(Instant::now() < until, "{}", show(&desk.screen()));
        let before = desk.screen().contents();
        desk.keys("down");
        desk.wait_for(|screen| screen.contents() != before, "another row");
    }
    desk.decide("a", "✓ granted by");
    assert_eq!(server.show(&id)["decision"]["seen"], "whole");
}

#[test]
fn a_resize_keeps_the_card_what_was_typed_and_what_was_seen() {
    let server = Server::start();
    let id = file_form(&server, "Refund", &A31);
    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    desk.press("e", "▌ Reason code");
    desk.press("right", "(•) fraud");
    desk.press("tab", "▌ Amount");
    desk.keys("ctrl-u");
    desk.send("42");
    desk.wait_text("[ 42");
    desk.resize(24, 80);
    desk.wait_gone("Needs you");
    desk.wait_text("[ 42");
    desk.wait_text("▌ Amount");
    desk.resize(40, 140);
    desk.wait_text("Needs you");
    desk.wait_text("[ 42");
    desk.wait_text("all seen ✓");
    desk.press("esc", CARD);
    desk.decide("a", "✓ granted by");
    assert_eq!(server.show(&id)["decision"]["answers"]["amount"], 42);
}

#[test]
fn no_color_sends_no_color() {
    let server = Server::start();
    server.file(&[
        "--title",
        "Go on?",
        "--high-risk",
        "--tool",
        "t",
        "--args",
        r#"{"a":1}"#,
    ]);
    let looks = |env: &[(&str, &str)]| {
        let mut desk = attach_to(server.dir(), env, 34, 120);
        desk.wait_text("all seen ✓");
        desk.press("?", "close");
        desk.keys("esc");
        desk.wait_text("all seen ✓");
        desk.keys("q");
        assert_eq!(desk.exit_status().exit_code(), 0);
        only_ours(&desk.raw_bytes()).looks
    };
    let is_color = |look: &String| {
        let number: u16 = look.parse().unwrap_or(0);
        matches!(number, 30..=38 | 40..=48 | 90..=107)
    };
    assert!(looks(&[]).iter().any(is_color));
    let without = looks(&[("NO_COLOR", "1")]);
    assert!(!without.iter().any(is_color), "{without:?}");
    assert!(
        without.contains(&"7".to_owned()),
        "what is selected is reversed"
    );
}
