//! Bad input, over the wire: it is refused in words or by the transport, nothing of it is recorded, and the server goes on.

use std::{collections::BTreeSet, path::Path};

use pilothouse::wire::pb::pilothouse::v1::{
    self as pb, AckResult, AppliedResult, Asks, ControlKind, RunState, TaskState, Verdict,
};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
};

use crate::house::{Agent, House, Person, decision, file, open, question, run_of, token, word};

// === What is no message at all ===

/// Bytes as they are.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(to, &bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let bytes = prost::bytes::Buf::remaining(from);
        prost::bytes::Buf::advance(from, bytes);
        Ok(Some(()))
    }
}

/// Every method of a service, as its proto file has it: one that is added is tried, too.
fn methods(service: &str) -> Vec<String> {
    let file = match service {
        "AgentService" => "agent_service.proto",
        _ => "operator_service.proto",
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/pilothouse/v1");
    let text = std::fs::read_to_string(path.join(file)).unwrap();
    let rpcs = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("rpc "));
    let names = rpcs.map(|rpc| rpc.split('(').next().unwrap().to_owned());
    names.collect()
}

async fn send(house: &House, by: &str, method: &str, bytes: &[u8]) -> Code {
    let mut grpc = Grpc::new(house.channel());
    grpc.ready().await.unwrap();
    let mut request = Request::new(bytes.to_vec());
    let bearer = format!("Bearer {}", token(by)).parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    let path: PathAndQuery = method.parse().unwrap();
    match grpc.unary(request, path, Raw).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_by_every_method() {
    let house = House::open();
    let before = house.head().await;
    let groups = [0x0b; 4096];
    let rows: [(&str, &[u8]); 7] = [
        ("all ones", &[0xff; 64]),
        ("a number that does not end", &[0x08, 0x80, 0x80]),
        (
            "a text that is longer than the message",
            &[0x0a, 0x7f, b'x'],
        ),
        (
            "a length of 2^63",
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
        ("a wire type that there is none of", &[0x0f, 0x00]),
        ("field 0", &[0x00, 0x00]),
        ("groups in groups", &groups),
    ];
    let mut tried = 0;
    for (service, by) in [
        ("AgentService", "agent:a1"),
        ("OperatorService", "operator:ops"),
    ] {
        for method in methods(service) {
            let path = format!("/pilothouse.v1.{service}/{method}");
            for (what, bytes) in rows {
                let code = send(&house, by, &path, bytes).await;
                assert_eq!(code, Code::Internal, "{method}: {what}");
                tried += 1;
            }
            // The first field of every message but the empty one is no such text.
            if method != "Whoami" {
                let code = send(&house, by, &path, &[0x0a, 0x02, 0xff, 0xfe]).await;
                assert_ne!(code, Code::Ok, "{method}");
            }
        }
    }
    assert!(tried > 150, "{tried}");
    assert_eq!(house.head().await, before, "something was recorded");
}

/// A person's token on an agent's method and the other way round: told before anything is read.
#[tokio::test]
async fn whoever_is_not_known_is_told_so_before_anything_else() {
    let house = House::open();
    for (service, garbage) in [("AgentService", &[][..]), ("OperatorService", &[][..])] {
        for method in methods(service) {
            let path = format!("/pilothouse.v1.{service}/{method}");
            let code = send(&house, "nobody:at-all", &path, garbage).await;
            assert_eq!(code, Code::Unauthenticated, "{method}");
        }
    }
}

// === Words that mean nothing ===

fn with(run: &str, change: impl FnOnce(&mut pb::FileRequest)) -> pb::FileRequest {
    let mut filing = question(run, "t", Asks::Operator);
    change(&mut filing);
    filing
}

fn with_detail(run: &str, change: impl FnOnce(&mut pb::Detail)) -> pb::FileRequest {
    with(run, |filing| change(filing.detail.as_mut().unwrap()))
}

fn field(name: &str, kind: pb::FieldType) -> pb::Field {
    pb::Field {
        name: name.into(),
        r#type: kind.into(),
        presence: pb::FieldPresence::Required.into(),
        ..Default::default()
    }
}

/// A23: a value that is not known never counts as one that is, least of all as the harmless one.
#[tokio::test]
async fn values_that_nobody_knows_are_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t0", Asks::Operator)).await;
    let before = house.head().await;
    for unknown in [-1, 77, i32::MAX] {
        let on_deadline = |filing: &mut pb::FileRequest| {
            filing.deadline.as_mut().unwrap().on_deadline = unknown;
        };
        let a_field = |detail: &mut pb::Detail, kind, presence| {
            detail.fields = vec![pb::Field {
                r#type: kind,
                presence,
                ..field("f", pb::FieldType::Text)
            }];
        };
        let rows = [
            ("asks", with(&run, |filing| filing.asks = unknown)),
            ("hold", with(&run, |filing| filing.hold = unknown)),
            ("risk", with(&run, |filing| filing.risk = unknown)),
            ("on_deadline", with(&run, on_deadline)),
            (
                "a field's type",
                with_detail(&run, |detail| a_field(detail, unknown, 1)),
            ),
            (
                "a field's presence",
                with_detail(&run, |detail| a_field(detail, 1, unknown)),
            ),
        ];
        for (what, filing) in rows {
            let answer = agent.file(filing).await;
            assert_eq!(word(&answer), "invalid", "{what} = {unknown}: {answer:?}");
        }
        agent_says(&mut agent, &run, &card.approval_id, unknown).await;
        person_says(&mut house.person("operator:ops"), &run, &card, unknown).await;
    }
    // Nor what was left out, where there is no default.
    let nobody = with(&run, |filing| filing.asks = 0);
    assert_eq!(word(&agent.file(nobody).await), "invalid");
    agent_says(&mut agent, &run, &card.approval_id, 0).await;
    let unsaid = decision(&card, Verdict::Unspecified, "d1");
    assert_eq!(
        word(&house.person("operator:ops").decide(unsaid).await),
        "invalid"
    );
    assert_eq!(house.head().await, before, "something was recorded");
    house.pending(&card.approval_id).await;
}

async fn agent_says(agent: &mut Agent, run: &str, card: &str, unknown: i32) {
    use pb::end_run_request::How;
    for how in [How::Ended(unknown), How::Paused(unknown)] {
        let end = pb::EndRunRequest {
            run_id: run.into(),
            how: Some(how),
            ..Default::default()
        };
        assert_eq!(word(&agent.end_run(end).await), "invalid", "{how:?}");
    }
    let task = pb::ReportTaskRequest {
        run_id: run.into(),
        task: Some(pb::Task {
            id: "t".into(),
            state: unknown,
            ..Default::default()
        }),
    };
    assert_eq!(word(&agent.report_task(task).await), "invalid");
    let applied = pb::ReportAppliedRequest {
        approval_id: card.into(),
        result: unknown,
        ..Default::default()
    };
    assert_eq!(word(&agent.report_applied(applied).await), "invalid");
    let ack = pb::AckControlRequest {
        run_id: run.into(),
        control_id: "c1".into(),
        result: unknown,
        ..Default::default()
    };
    assert_eq!(word(&agent.ack_control(ack).await), "invalid");
    // Those that are known are known.
    let known = [
        RunState::Completed as i32,
        TaskState::Running as i32,
        AppliedResult::Done as i32,
        AckResult::Success as i32,
    ];
    assert!(!known.contains(&unknown));
}

async fn person_says(person: &mut Person, run: &str, card: &pb::FileResponse, unknown: i32) {
    let known = decision(card, Verdict::Approve, "d1");
    let rows = [
        pb::DecideRequest {
            verdict: unknown,
            ..known.clone()
        },
        pb::DecideRequest {
            seen: unknown,
            ..known
        },
    ];
    for wish in rows {
        assert_eq!(
            word(&person.decide(wish.clone()).await),
            "invalid",
            "{wish:?}"
        );
    }
    for kind in [unknown, ControlKind::Unspecified as i32] {
        let order = pb::ControlRequest {
            run_id: run.into(),
            kind,
            control_id: "c1".into(),
            ..Default::default()
        };
        assert_eq!(word(&person.control(order).await), "invalid", "{kind}");
    }
}

// === Numbers, dates and other JSON ===

#[tokio::test]
async fn arguments_that_readers_read_differently_are_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let before = house.head().await;
    let nested = |open: &str, close: &str| {
        let (open, close) = (open.repeat(10_000), close.repeat(10_000));
        format!("{{\"a\":{open}1{close}}}")
    };
    let (lists, objects) = (nested("[", "]"), nested("{\"a\":", "}"));
    let rows: [&[u8]; 14] = [
        b"{\"a\":NaN}",
        b"{\"a\":Infinity}",
        b"{\"a\":-Infinity}",
        b"{\"a\":+1}",
        b"{\"a\":01}",
        b"{\"a\":0x10}",
        b"{\"a\":1e999}",
        b"{\"a\":1,\"a\":1}",
        b"{\"a\":{\"b\":1,\"b\":2}}",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\xc3\x28\"}",
        b"{\"a\":\"\\ud800\"}",
        lists.as_bytes(),
        objects.as_bytes(),
    ];
    for args in rows {
        let filing = with_detail(&run, |detail| detail.args_json = Some(args.into()));
        let answer = agent.file(filing).await;
        let shown = String::from_utf8_lossy(&args[..args.len().min(40)]);
        assert_eq!(word(&answer), "invalid", "{shown}: {answer:?}");
    }
    for context in [lists.as_str(), "{", "{\"a\":NaN}", "nope"] {
        let opening = pb::OpenRunRequest {
            context: context.into(),
            ..run_of("r2", "")
        };
        let answer = agent.open_run(opening).await;
        assert!(answer.is_err(), "{}", &context[..context.len().min(40)]);
    }
    // What never fits is refused by the transport.
    let huge = with_detail(&run, |detail| {
        detail.args_json = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(20 * 1024 * 1024)).into());
    });
    let code = agent.file(huge).await.unwrap_err().code();
    assert!(
        [Code::OutOfRange, Code::ResourceExhausted].contains(&code),
        "{code:?}"
    );
    assert_eq!(house.head().await, before, "something was recorded");
}

/// Every fault of a form comes back, by the label that the person saw; and nothing of it is rounded.
#[tokio::test]
async fn answers_are_taken_to_the_last_digit_or_not_at_all() {
    use pb::FieldType::{Boolean, Date, Integer, Number};
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let form = |detail: &mut pb::Detail| {
        detail.fields = vec![
            field("i", Integer),
            field("n", Number),
            field("d", Date),
            field("b", Boolean),
        ];
    };
    let card = file(&mut agent, with_detail(&run, form)).await;
    let mut person = house.person("operator:ops");
    let before = house.head().await;
    let filled = |changes: &[(&str, &str)]| pb::DecideRequest {
        answers: [("i", "1"), ("n", "1"), ("d", "2026-01-01"), ("b", "true")]
            .iter()
            .chain(changes)
            .map(|(name, answer)| ((*name).to_owned(), (*answer).to_owned()))
            .collect(),
        ..decision(&card, Verdict::Approve, "d1")
    };
    let rows = [
        ("i", "9223372036854775808"),
        ("i", "-9223372036854775809"),
        ("i", "1.0"),
        ("i", "1e3"),
        ("i", "١"),
        ("i", ""),
        ("n", "NaN"),
        ("n", "inf"),
        ("n", "1e999"),
        ("n", "0x10"),
        ("d", "2026-02-29"),
        ("d", "2026-02-30"),
        ("d", "2026-13-01"),
        ("d", "2026-00-10"),
        ("d", "2026-1-1"),
        ("d", "2026-01-01T00:00:00Z"),
        ("d", "29.2.2028"),
        ("b", "yes"),
        ("b", "1"),
        ("nobody asked", "x"),
        ("I", "1"),
    ];
    for (name, answer) in rows {
        let told = person.decide(filled(&[(name, answer)])).await;
        assert_eq!(word(&told), "answers", "{name} = {answer:?}: {told:?}");
    }
    let many = filled(&[("i", "x"), ("d", "2026-02-30"), ("nobody asked", "x")]);
    let told = person.decide(many).await.unwrap_err();
    let fields = pilothouse::wire::status::refused(&told).unwrap().fields;
    let wrong: BTreeSet<_> = fields.iter().map(|fault| fault.0.clone()).collect();
    assert_eq!(wrong, ["d", "i", "nobody asked"].map(str::to_owned).into());
    assert_eq!(house.head().await, before, "something was recorded");

    let exact = filled(&[("i", "9007199254740993"), ("n", "0.1"), ("d", "2028-02-29")]);
    assert_eq!(word(&person.decide(exact).await), "ok");
    let Some(pb::settled::Outcome::Granted(granted)) =
        house.settled(&card.approval_id).await.outcome
    else {
        panic!("it was granted");
    };
    let integer = granted
        .answers
        .iter()
        .find_map(|answer| match answer.value {
            Some(pb::answer::Value::Integer(integer)) => Some(integer),
            _ => None,
        });
    assert_eq!(
        integer,
        Some(9_007_199_254_740_993),
        "a double would have made it …992"
    );
}

#[tokio::test]
async fn ids_digests_and_spans_that_are_none_are_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let mut person = house.person("operator:ops");
    let before = house.head().await;
    let digest = card.digest.as_str();
    let rows = [
        (String::new(), "invalid"),
        (digest[1..].to_owned(), "invalid"),
        (format!("{digest}0"), "invalid"),
        (format!("sha256:{digest}"), "invalid"),
        ("g".repeat(64), "invalid"),
        ("0".repeat(64), "stale"),
    ];
    for (digest, expected) in rows {
        let wish = pb::DecideRequest {
            digest: digest.clone(),
            ..decision(&card, Verdict::Approve, "d1")
        };
        let answer = person.decide(wish).await;
        assert_eq!(word(&answer), expected, "{digest:?}");
    }
    let long = "1".repeat(100_000);
    let ids = [
        "",
        "x",
        "../../etc/passwd",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "01ARZ3NDEKTSV4RRFFQ69G5FA\u{202e}",
        long.as_str(),
    ];
    for id in ids {
        let wish = pb::DecideRequest {
            id: id.into(),
            ..decision(&card, Verdict::Approve, "d1")
        };
        assert_eq!(word(&person.decide(wish).await), "invalid", "{id:.40}");
        assert_eq!(
            word(&agent.r#await(crate::house::waiting(id)).await),
            "invalid",
            "{id:.40}"
        );
        let filing = pb::FileRequest {
            run_id: id.into(),
            ..question(&run, "t2", Asks::Operator)
        };
        assert_eq!(word(&agent.file(filing).await), "invalid", "{id:.40}");
    }
    let spans = [
        (i64::MAX, 0),
        (i64::MIN, 0),
        (-1, 0),
        (60, -1),
        (60, i32::MAX),
        (0, i32::MIN),
    ];
    for (seconds, nanos) in spans {
        let after = Some(prost_types::Duration { seconds, nanos });
        let deadline = Some(pb::Deadline {
            after,
            on_deadline: 0,
        });
        let filing = pb::FileRequest {
            deadline,
            ..question(&run, "t3", Asks::Operator)
        };
        assert_eq!(
            word(&agent.file(filing).await),
            "invalid",
            "{seconds} s {nanos} ns"
        );
        // However long it wants to wait: a poll may.
        let patient = pb::AwaitRequest {
            patience: after.filter(|_| seconds != i64::MAX),
            ..crate::house::waiting(&card.approval_id)
        };
        let expected = if patient.patience.is_some() {
            "invalid"
        } else {
            "ok"
        };
        assert_eq!(word(&agent.r#await(patient).await), expected);
        let extend = pb::ExtendRequest {
            id: card.approval_id.clone(),
            after,
        };
        assert_eq!(
            word(&person.extend(extend).await),
            "invalid",
            "{seconds} s {nanos} ns"
        );
    }
    assert_eq!(house.head().await, before, "something was recorded");
}

// === What is accepted can be read ===

/// B06: a page of the largest entries, with a client that reads 4 MiB at most, as any does that was told nothing else.
#[tokio::test]
async fn the_largest_entries_are_listed_a_page_at_a_time() {
    const FILED: usize = 300;
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let label = |n| (format!("{n:02}{}", "l".repeat(254)), "v".repeat(256));
    for n in 0..FILED {
        let filing = pb::FileRequest {
            labels: (0..32).map(label).collect(),
            ..question(&run, &format!("t{n}"), Asks::Operator)
        };
        file(&mut agent, filing).await;
    }
    let mut person = house.person("operator:ops");
    let (mut seen, mut pages, mut page_token) = (BTreeSet::new(), 0, String::new());
    loop {
        let list = pb::ListRequest {
            page_size: 500,
            page_token,
            ..Default::default()
        };
        let page = person.list(list).await.unwrap().into_inner();
        pages += 1;
        for item in page.items {
            let Some(pb::open_item::Item::Pending(pending)) = item.item else {
                panic!("only questions wait");
            };
            assert!(seen.insert(pending.approval.unwrap().id));
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), FILED);
    assert!(pages > 1, "it would have been more than 4 MiB");
}
