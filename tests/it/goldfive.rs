//! Recorded goldfive agents at the door: their questions come in, the answers go out.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use pilothouse::wire::pb::{
    goldfive::v1::ControlKind,
    harmonograf::v1::{TelemetryUp, harmonograf_client::HarmonografClient},
};
use prost::Message as _;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    replay::{Arrived, Replay, lines},
    server::Server,
};

/// A server with its goldfive door open, and where that is.
pub(crate) fn with_door() -> (Server, String) {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = free.to_string();
    (
        Server::with(&["--goldfive", &address]),
        format!("http://{address}"),
    )
}

/// Looks until it is there.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let from = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            from.elapsed() < Duration::from_secs(20),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open_item(server: &Server, session: &str) -> Value {
    eventually("the question", || {
        let items = server
            .run(&["list", "--json", "--session", session])
            .objects();
        items.into_iter().next()
    })
}

fn kind(arrived: &Arrived) -> ControlKind {
    arrived.event.kind()
}

fn delivery(server: &Server, id: &str) -> String {
    server.show(id)["delivery"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_task_is_approved_by_the_cli_and_the_agent_confirms_it() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-approved.frames").await;
        assert!(agent.until_control().await);
        let item = open_item(&server, "sess-approved");
        assert_eq!(item["target_id"], "t7");
        assert_eq!(item["task_id"], "t7");
        assert_eq!(item["source"], "goldfive");
        assert_eq!(item["asks"], "operator");
        assert_eq!(
            item["deadline"],
            Value::Null,
            "goldfive questions wait for ever"
        );
        let id = item["id"].as_str().unwrap();
        let run = item["run_id"].as_str().unwrap();
        let task = server.show(run)["tasks"][0].clone();
        assert_eq!(
            (&task["id"], &task["state"]),
            (&"t7".into(), &"blocked".into()),
            "{task}"
        );

        let decided = server.decide("approve", id, &["--note", "fine, up to $500"]);
        assert_eq!(decided.code, 0, "{decided:?}");
        let control = agent.control().await;
        assert_eq!(kind(&control), ControlKind::Approve);
        assert_eq!(control.decision(), ("t7", "fine, up to $500"));
        assert!(control.agent_id().starts_with("checkout-agent-"));
        agent.rest().await;
        let settled = eventually("the confirmation", || {
            let shown = server.show(id);
            (shown["delivery"] == "confirmed").then_some(shown)
        });
        assert_eq!(settled["status"], "granted");
        assert_eq!(settled["applied"]["result"], "done");
        eventually("the run's end", || {
            (server.show(run)["state"] == "completed").then_some(())
        });
        let all = agent.finish().await;
        assert_eq!(all.len(), 1, "one decision, one control: {all:?}");
    });
}

#[test]
fn a_tool_is_rejected_and_its_arguments_came_as_they_were_sent() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-rejected-tool.frames").await;
        assert!(agent.until_control().await);
        // Its envelope names no session: the stream's hello does.
        let item = open_item(&server, "sess-rejected-tool");
        let id = item["id"].as_str().unwrap();
        let shown = server.show(id);
        assert_eq!(shown["subject"], "tool");
        let args: Value = serde_json::from_str(shown["args_json"].as_str().unwrap()).unwrap();
        assert!(args.is_object());
        assert_eq!(shown["digest_matches"], true);
        assert_eq!(
            server
                .decide("reject", id, &["--note", "not on a Friday"])
                .code,
            0
        );
        let control = agent.control().await;
        assert_eq!(kind(&control), ControlKind::Reject);
        assert_eq!(
            control.decision(),
            (item["target_id"].as_str().unwrap(), "not on a Friday")
        );
        agent.rest().await;
        let settled = eventually("the confirmation", || {
            let shown = server.show(id);
            (shown["delivery"] == "confirmed").then_some(shown)
        });
        assert_eq!(
            settled["applied"]["result"], "skipped",
            "its event came before its ack"
        );
        agent.finish().await;
    });
}

#[test]
fn two_sessions_ask_under_one_target_and_each_gets_its_own_answer() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-two-sessions.frames").await;
        assert!(agent.until_control().await);
        let a = open_item(&server, "sess-a");
        let b = open_item(&server, "sess-b");
        assert_eq!(a["target_id"], b["target_id"]);
        assert_ne!(a["id"], b["id"]);
        let (a, b) = (a["id"].as_str().unwrap(), b["id"].as_str().unwrap());
        assert_eq!(server.decide("approve", a, &["--note", "for a"]).code, 0);
        let first = agent.control().await;
        assert_eq!(
            (kind(&first), first.decision()),
            (ControlKind::Approve, ("t7", "for a"))
        );
        assert!(agent.until_control().await);
        assert_eq!(server.decide("reject", b, &["--note", "for b"]).code, 0);
        let second = agent.control().await;
        assert_eq!(
            (kind(&second), second.decision()),
            (ControlKind::Reject, ("t7", "for b"))
        );
        assert!(second.subscription.ends_with(".sess:sess-b"), "{second:?}");
        agent.rest().await;
        eventually("both confirmations", || {
            let both = delivery(&server, a) == "confirmed" && delivery(&server, b) == "confirmed";
            both.then_some(())
        });
        assert_eq!(server.show(a)["status"], "granted");
        assert_eq!(server.show(b)["status"], "rejected");
        agent.finish().await;
    });
}

#[test]
fn an_agent_that_is_killed_leaves_its_question_open_and_unanswerable() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-open-task.frames").await;
        assert!(
            !agent.until_control().await,
            "nobody answers in this recording"
        );
        let item = open_item(&server, "sess-open-task");
        let id = item["id"].as_str().unwrap();
        let present = server.run(&["dismiss", id]);
        assert_eq!(present.code, 4, "its agent is there: {present:?}");
        agent.kill();
        let run = item["run_id"].as_str().unwrap();
        eventually("the agent's absence", || {
            server.show(run)["presence"]["away_since"]
                .is_string()
                .then_some(())
        });
        assert_eq!(server.open().len(), 1, "a lost connection decides nothing");
        let late = server.decide("approve", id, &[]);
        assert_eq!(late.code, 4);
        assert!(
            late.err.contains("cannot be delivered any more"),
            "{late:?}"
        );
        assert_eq!(server.run(&["dismiss", id, "--note", "it is gone"]).code, 0);
        assert!(server.open().is_empty());
    });
}

/// Its client never comes back: after a restart of the server the card says so, and what was on its way has failed.
#[test]
fn after_a_restart_of_the_server_its_agents_are_gone() {
    let (mut server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agent = Replay::open(&door, "session-two-sessions.frames").await;
        assert!(agent.until_control().await);
        let a = open_item(&server, "sess-a")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let b = open_item(&server, "sess-b")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(server.decide("approve", &a, &[]).code, 0);
        eventually("the control on its way", || {
            (delivery(&server, &a) == "sent").then_some(())
        });
        server.restart();
        let failed = eventually("the end of the delivery", || {
            let shown = server.show(&a);
            (shown["delivery"] == "failed").then_some(shown)
        });
        assert!(
            failed["delivery_detail"]
                .as_str()
                .unwrap()
                .contains("not known"),
            "{failed}"
        );
        let late = server.decide("reject", &b, &[]);
        assert_eq!(late.code, 4);
        assert!(
            late.err.contains("cannot be delivered any more"),
            "{late:?}"
        );
        assert_eq!(server.run(&["dismiss", &b]).code, 0);
        drop(agent);
    });
}

/// Case E10: an agent that says "granted" grants nothing here. The recording has two contradictory
/// answers, neither of them ours, and comes without a hello.
#[test]
fn what_an_agent_says_was_granted_is_answered_elsewhere() {
    let (server, door) = with_door();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut client = HarmonografClient::connect(door).await.unwrap();
        let up = lines("telemetry-up-1.hex");
        let up: Vec<_> = up
            .iter()
            .map(|line| TelemetryUp::decode(&*line.bytes).unwrap())
            .collect();
        let answers = client
            .stream_telemetry(tokio_stream::iter(up))
            .await
            .unwrap();
        let mut answers = answers.into_inner();
        while let Ok(Some(_)) = answers.message().await {}
    });
    let history = eventually("both ended cards", || {
        let history = server.run(&["history", "--json"]).objects();
        (history.len() == 2).then_some(history)
    });
    let elsewhere = |ended: &&Value| {
        let why = ended["why_text"].as_str();
        why.is_some_and(|why| why.starts_with("answered elsewhere"))
    };
    assert_eq!(history.iter().filter(elsewhere).count(), 1, "{history:#?}");
    for ended in &history {
        assert_eq!(ended["status"], "withdrawn", "{ended}");
        assert_eq!(ended["decision"], Value::Null, "nobody here decided");
    }
}
