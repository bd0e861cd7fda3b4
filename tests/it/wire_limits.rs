//! How much is taken over the wire, and that what is refused leaves nothing behind.

use std::time::{Duration, Instant};

use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, Asks, Verdict},
    status::refused,
};
use tonic::Code;

use crate::house::{Agent, House, decision, file, get, open, question, run_of, waiting, word};

fn field(name: &str) -> pb::Field {
    pb::Field {
        name: name.into(),
        r#type: pb::FieldType::Text.into(),
        presence: pb::FieldPresence::Optional.into(),
        default_value: Some("x".into()),
        ..Default::default()
    }
}

fn with_detail(run: &str, change: impl FnOnce(&mut pb::Detail)) -> pb::FileRequest {
    let mut filing = question(run, "t", Asks::Operator);
    change(filing.detail.as_mut().unwrap());
    filing
}

fn with_args(run: &str, args: &[u8]) -> pb::FileRequest {
    with_detail(run, |detail| detail.args_json = Some(args.into()))
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let before = house.head().await;
    let plain = || question(&run, "t", Asks::Operator);
    let fields =
        |count: usize| -> Vec<pb::Field> { (0..count).map(|n| field(&format!("f{n}"))).collect() };
    let labels = |count: usize| (0..count).map(|n| (format!("l{n}"), "v".into())).collect();
    let long = |bytes: usize| "x".repeat(bytes);
    let helped = |help: usize| {
        let help = long(help);
        pb::Field { help, ..field("f") }
    };
    let rows: Vec<(&str, pb::FileRequest, &str)> = vec![
        (
            "title",
            pb::FileRequest {
                title: long(257),
                ..plain()
            },
            "too_large",
        ),
        // 86 letters of three bytes: bytes are counted.
        (
            "title",
            pb::FileRequest {
                title: "界".repeat(86),
                ..plain()
            },
            "too_large",
        ),
        (
            "target",
            pb::FileRequest {
                target_id: long(1025),
                ..plain()
            },
            "too_large",
        ),
        (
            "no target",
            pb::FileRequest {
                target_id: String::new(),
                ..plain()
            },
            "invalid",
        ),
        (
            "step",
            pb::FileRequest {
                step: long(1025),
                ..plain()
            },
            "too_large",
        ),
        (
            "key",
            pb::FileRequest {
                key: long(257),
                ..plain()
            },
            "invalid",
        ),
        (
            "labels",
            pb::FileRequest {
                labels: labels(33),
                ..plain()
            },
            "invalid",
        ),
        (
            "label",
            pb::FileRequest {
                labels: [(long(257), "v".into())].into(),
                ..plain()
            },
            "too_large",
        ),
        (
            "value",
            pb::FileRequest {
                labels: [("k".into(), long(257))].into(),
                ..plain()
            },
            "too_large",
        ),
        (
            "prompt",
            with_detail(&run, |detail| detail.prompt = long(256 * 1024 + 1)),
            "too_large",
        ),
        (
            "detail",
            with_detail(&run, |detail| {
                detail.prompt = long(100 * 1024);
                detail.body = long(100 * 1024);
                detail.facts = long(56 * 1024);
            }),
            "too_large",
        ),
        (
            "args",
            with_args(
                &run,
                format!("{{\"a\":\"{}\"}}", long(256 * 1024)).as_bytes(),
            ),
            "too_large",
        ),
        (
            "fields",
            with_detail(&run, |detail| detail.fields = fields(65)),
            "invalid",
        ),
        (
            "form",
            with_detail(&run, |detail| detail.fields = vec![helped(64 * 1024)]),
            "too_large",
        ),
        (
            "name",
            with_detail(&run, |detail| detail.fields = vec![field(&long(65))]),
            "invalid",
        ),
        (
            "deadline",
            pb::FileRequest {
                deadline: deadline(59),
                ..plain()
            },
            "invalid",
        ),
        (
            "deadline",
            pb::FileRequest {
                deadline: deadline(30 * 86_400 + 1),
                ..plain()
            },
            "invalid",
        ),
        (
            "deadline",
            pb::FileRequest {
                deadline: deadline(-1),
                ..plain()
            },
            "invalid",
        ),
        (
            "no subject",
            pb::FileRequest {
                subject: None,
                ..plain()
            },
            "invalid",
        ),
    ];
    for (what, filing, expected) in rows {
        let answer = agent.file(filing).await;
        assert_eq!(word(&answer), expected, "{what}: {answer:?}");
        let status = answer.unwrap_err();
        if expected == "too_large" {
            assert_eq!(status.code(), Code::ResourceExhausted, "{what}");
            assert_eq!(refused(&status).unwrap().http, 413);
        }
        assert_eq!(house.head().await, before, "{what} was recorded");
    }
    let run_named = pb::OpenRunRequest {
        session: long(1025),
        ..run_of("r2", "")
    };
    assert_eq!(word(&agent.open_run(run_named).await), "too_large");
    let context = pb::OpenRunRequest {
        context: format!("\"{}\"", long(16 * 1024)),
        ..run_of("r2", "")
    };
    assert_eq!(word(&agent.open_run(context).await), "too_large");
    let said = pb::SayRequest {
        run_id: run.clone(),
        text: long(64 * 1024 + 1),
    };
    assert_eq!(word(&agent.say(said).await), "too_large");
    assert_eq!(house.head().await, before);

    // The largest of each is taken.
    let largest = pb::FileRequest {
        title: long(256),
        target_id: long(1024),
        labels: labels(32),
        deadline: deadline(30 * 86_400),
        ..with_detail(&run, |detail| {
            detail.prompt = long(256 * 1024 - 10);
            detail.fields = fields(64);
        })
    };
    let filed = file(&mut agent, largest).await;
    let got = house.get(&filed.approval_id).await.detail.unwrap();
    assert_eq!((got.prompt.len(), got.fields.len()), (256 * 1024 - 10, 64));
}

fn deadline(seconds: i64) -> Option<pb::Deadline> {
    let after = Some(prost_types::Duration { seconds, nanos: 0 });
    Some(pb::Deadline {
        after,
        on_deadline: 0,
    })
}

#[tokio::test]
async fn an_answer_that_is_too_large_decides_nothing() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = with_detail(&run, |detail| detail.fields = vec![field("why")]);
    let card = file(&mut agent, card).await;
    let mut person = house.person("operator:ops");
    let before = house.head().await;
    let plain = || decision(&card, Verdict::Approve, "d1");
    let answers = |bytes: usize| [("why".to_owned(), "x".repeat(bytes))].into();
    let rows = [
        (
            "answers",
            pb::DecideRequest {
                answers: answers(64 * 1024 - 2),
                ..plain()
            },
            "too_large",
        ),
        (
            "note",
            pb::DecideRequest {
                note: "x".repeat(8193),
                ..plain()
            },
            "too_large",
        ),
        (
            "decision id",
            pb::DecideRequest {
                decision_id: "x".repeat(257),
                ..plain()
            },
            "invalid",
        ),
        (
            "no decision id",
            pb::DecideRequest {
                decision_id: String::new(),
                ..plain()
            },
            "invalid",
        ),
        (
            "no digest",
            pb::DecideRequest {
                digest: String::new(),
                ..plain()
            },
            "invalid",
        ),
        (
            "digest",
            pb::DecideRequest {
                digest: "0".repeat(64),
                ..plain()
            },
            "stale",
        ),
        (
            "seen",
            pb::DecideRequest {
                seen: 99,
                ..plain()
            },
            "invalid",
        ),
        (
            "for",
            pb::DecideRequest {
                on_behalf_of: "system:deadline".into(),
                ..plain()
            },
            "invalid",
        ),
    ];
    for (what, wish, expected) in rows {
        let answer = person.decide(wish).await;
        assert_eq!(word(&answer), expected, "{what}: {answer:?}");
        assert_eq!(house.head().await, before, "{what} was recorded");
    }
    let largest = pb::DecideRequest {
        answers: answers(64 * 1024 - 3),
        note: "x".repeat(8192),
        ..plain()
    };
    assert_eq!(word(&person.decide(largest).await), "ok");
}

/// What never fits is refused by the transport; the connection goes on, and so does the server.
#[tokio::test]
async fn a_message_of_two_mebibytes_ends_nothing_but_its_call() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let waiter = pb::AwaitRequest {
        patience: Some(prost_types::Duration {
            seconds: 20,
            nanos: 0,
        }),
        wait_id: "w1".into(),
        ..waiting(&card.approval_id)
    };
    let before = house.head().await;
    // On the same connection as the large ones.
    let mut held = agent.clone();
    let held = tokio::spawn(async move { held.r#await(waiter).await });
    for _ in 0..3 {
        let huge = with_detail(&run, |detail| detail.body = "x".repeat(2 * 1024 * 1024));
        let answer = agent.file(huge).await;
        let code = answer.unwrap_err().code();
        let by_the_transport = [Code::OutOfRange, Code::ResourceExhausted];
        assert!(by_the_transport.contains(&code), "{code:?}");
    }
    assert_eq!(house.head().await, before);
    let said = pb::SayRequest {
        run_id: run,
        text: "still here".into(),
    };
    assert_eq!(word(&agent.say(said).await), "ok");
    assert!(!held.is_finished(), "the other call of this connection");
    let wish = decision(&card, Verdict::Approve, "d1");
    house.person("operator:ops").decide(wish).await.unwrap();
    let answer = held.await.unwrap().unwrap().into_inner();
    let settled = matches!(answer.state, Some(pb::await_response::State::Settled(_)));
    assert!(settled, "{answer:?}");
}

async fn refiled(agent: &mut Agent, run: &str, n: usize, args: &[u8]) -> String {
    let mut filing = with_args(run, args);
    filing.target_id = format!("t{n}");
    filing.key = format!("{run}/{n}");
    match agent.file(filing).await {
        Ok(filed) => filed.into_inner().approval_id,
        Err(status) => panic!("{}: {status:?}", String::from_utf8_lossy(args)),
    }
}

#[tokio::test]
async fn arguments_come_back_byte_for_byte() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let rows: [&str; 9] = [
        r#"{"n":1.10}"#,
        r#"{"n":12345678901234567890123}"#,
        r#"{ "b" : 1 ,  "a" : [ 1e2 , -0, 0.0 ] }"#,
        "{\"t\":\"\\u00e4\\n\\u0000\",\"u\":\"ä\u{202e}\u{200b}\"}",
        "\n{\"a\"\t:\r\n1}\n",
        r#"{"a":0.1000000000000000055511151231257827}"#,
        r#"{"approved":true,"decision":"approve","x-actor":"admin"}"#,
        r#"{"":{"":[]}}"#,
        "{}",
    ];
    for (n, args) in rows.into_iter().enumerate() {
        let id = refiled(&mut agent, &run, n, args.as_bytes()).await;
        let got = house.get(&id).await;
        let Some(pb::get_response::Item::Pending(pending)) = got.item else {
            panic!("what arguments say decides nothing: {args}");
        };
        let detail = got.detail.unwrap();
        assert_eq!(detail.args_json.as_deref(), Some(args.as_bytes()), "{args}");
        let hash = registry::digest::Sha256::of(args).to_string();
        assert_eq!(pending.approval.unwrap().args_sha256, hash, "{args}");
        let shown = house.server.show(&id);
        assert_eq!(shown["args_json"], args);
        assert_eq!(shown["digest_matches"], true);
    }
    let before = house.head().await;
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    let deepest = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let bad: [&[u8]; 13] = [
        br#"{"a":1,"a":2}"#,
        br#"{"x":{"a":1,"b":2,"\u0061":3}}"#,
        br#"{"n":1e400}"#,
        br#"{"n":-1e999}"#,
        b"[]",
        b"1",
        b"null",
        b"",
        b"{",
        b"{} {}",
        b"{\"a\":\"\xff\"}",
        deep.as_bytes(),
        deepest.as_bytes(),
    ];
    for args in bad {
        let answer = agent.file(with_args(&run, args)).await;
        assert_eq!(word(&answer), "invalid", "{args:?}: {answer:?}");
    }
    assert_eq!(house.head().await, before, "nothing was recorded");
}

/// The kernel holds small writes back for 40 ms where nobody tells it not to.
#[tokio::test]
async fn an_answer_is_not_held_back_until_the_one_before_is_acknowledged() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let mut person = house.person("viewer:v");
        let from = Instant::now();
        for _ in 0..3 {
            person.get(get(&card.approval_id)).await.unwrap();
        }
        fastest = fastest.min(from.elapsed());
    }
    assert!(fastest < Duration::from_millis(35), "{fastest:?}");
}
