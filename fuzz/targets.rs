// What is done with bytes that came from anywhere. One function for each door; it panics on a fault and on nothing else.
//
// Included twice: by the fuzz targets beside it, and by `tests/it/corpus.rs`, which plays the kept corpus on every run of CI.

use pilothouse::{
    connect::{Server, Token},
    wire::{
        goldfive::{envelope, frame, subscription},
        pb::{harmonograf::v1 as hg, pilothouse::v1 as pb},
        pilothouse as wire,
    },
};
use prost::Message;
use registry::{
    ApprovalId, Asks, Detail, Digest, EscalationId, Event, Recorded, RunId, State, Timestamp,
    Untrusted,
    approval::{Subject, digest_of},
    event::Scope,
    form::{Choice, Kind, RawAnswers},
    json::check_args,
    names::{ControlId, DecisionId, DriftId, Key, WaitId},
    run::{RunKey, Source},
    who::{Name, Tenant},
};

/// A door, and what comes in there.
pub(crate) type Target = fn(&[u8]);

/// All of them, by the names of their corpora.
pub(crate) const ALL: &[(&str, Target)] = &[
    ("form", form),
    ("args", args),
    ("tokens", tokens),
    ("events", events),
    ("wire", wire_messages),
    ("goldfive", goldfive),
];

/// A stored form, and answers to it: JSON, then names and values, a zero byte between them.
pub(crate) fn form(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0);
    let stored = parts.next().unwrap_or_default();
    let texts: Vec<String> = parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    let options = ["public", "internal"].map(|word| Choice {
        value: word.into(),
        label: word.into(),
    });
    let kinds = [
        Kind::String,
        Kind::Text,
        Kind::Number,
        Kind::Integer,
        Kind::Boolean,
        Kind::Date,
        Kind::Enum(options.into()),
    ];
    for text in &texts {
        for kind in &kinds {
            if let Ok(answer) = kind.parse(text) {
                let again = kind.parse(&answer.to_raw());
                assert_eq!(
                    again.ok(),
                    Some(answer),
                    "{kind:?} of {text:?} is read as something else"
                );
            }
        }
    }
    let Ok(detail) = Detail::from_bytes(stored) else {
        return;
    };
    let written = Detail::from_bytes(&detail.to_bytes());
    assert_eq!(
        written.ok().as_ref(),
        Some(&detail),
        "what is stored is read back"
    );
    let pairs = texts
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()));
    let raw: RawAnswers = pairs.collect();
    if let Ok(answers) = detail.form.read(&raw) {
        for (name, _) in answers.iter() {
            assert!(detail.form.fields().iter().any(|field| field.name == name));
        }
    }
    let _ = detail.form.cannot_be_declined_in_one_step();
}

/// The arguments of a tool, and all the texts of a card.
pub(crate) fn args(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if check_args(bytes).is_ok() {
        let value: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
        assert!(value.is_ok(), "taken, and no JSON: {:?}", value.err());
    }
    let detail = Detail {
        prompt: text.as_str().into(),
        args: Some(text.as_str().into()),
        ..Detail::default()
    };
    let subject = Subject::Tool {
        name: text.as_str().into(),
        task: "".into(),
    };
    let key = RunKey {
        tenant: Tenant::local(),
        source: Source::Native,
        agent: text.as_str().into(),
        session: "".into(),
        invocation: "".into(),
    };
    let title = Untrusted::new(text.as_str());
    let digest = |title: &Untrusted| {
        digest_of(
            &key,
            &subject,
            title,
            Asks::Operator,
            &Default::default(),
            &detail,
        )
    };
    assert_ne!(
        digest(&title),
        digest(&format!("{text}.").into()),
        "another title, the same digest"
    );
    for shown in [title.line(), title.block()] {
        let drawn = shown.as_str().chars().filter(|c| *c != '\n');
        for c in drawn {
            assert!(!c.is_control(), "{c:?} reaches the terminal");
        }
    }
}

/// Everything that is one word: ids, names, tokens, places, and where a page begins.
pub(crate) fn tokens(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    macro_rules! reads_back {
        ($($parsed:expr),* $(,)?) => {$(
            if let Ok(parsed) = $parsed(text) {
                assert_eq!($parsed(&parsed.to_string()).ok(), Some(parsed), "{text:?} is read as something else");
            }
        )*};
    }
    reads_back!(
        str::parse::<ApprovalId>,
        str::parse::<EscalationId>,
        str::parse::<RunId>,
        str::parse::<Digest>,
        Name::parse,
        Key::parse,
        DecisionId::parse,
        WaitId::parse,
        ControlId::parse,
        DriftId::parse,
    );
    let _ = (
        Tenant::parse(text),
        Token::parse(text),
        text.parse::<Server>(),
    );
    let (page_token, id) = (text.to_owned(), text.to_owned());
    let _ = wire::list(pb::ListRequest {
        page_token: page_token.clone(),
        ..Default::default()
    });
    let _ = wire::history(pb::HistoryRequest {
        page_token,
        ..Default::default()
    });
    let _ = wire::get(pb::GetRequest { id });
    let after = Some(pb::Cursor {
        epoch: text.to_owned(),
        seq: 1,
    });
    let _ = wire::watch(pb::WatchRequest { after });
}

/// Events as they are stored, one on each line, folded one after the other.
pub(crate) fn events(bytes: &[u8]) {
    let mut state = State::default();
    for (n, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            continue;
        };
        let Ok(body) = serde_json::to_string(&event) else {
            panic!("it was read and cannot be written: {event:?}");
        };
        let again: Result<Event, _> = serde_json::from_str(&body);
        assert_eq!(
            again.ok().as_ref(),
            Some(&event),
            "it is read back as something else"
        );
        let _ = (
            event.kind(),
            event.item(),
            event.run(),
            event.key(),
            event.decision(),
        );
        let scope = state.scope_of(&event).unwrap_or(Scope {
            tenant: Tenant::local(),
            owner: None,
        });
        let recorded = Recorded {
            seq: n,
            at: Timestamp::from_ms(1_800_000_000_000),
            scope,
            event: event.into(),
        };
        state.apply(&recorded);
    }
    let rows = state.rows();
    let mirror = State::from_rows(state.head(), state.last_at(), rows.clone());
    assert_eq!(mirror.rows().len(), rows.len());
}

/// Every message of our own wire: the first byte says which, the rest is what came.
pub(crate) fn wire_messages(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let at = Timestamp::from_ms(1_800_000_000_000);
    let by = registry::Principal::new(
        match Name::parse("agent:a1") {
            Ok(name) => name,
            Err(error) => panic!("{error}"),
        },
        Tenant::local(),
        [registry::Role::Agent],
    );
    let raise = EscalationId::mint(at, 1);
    macro_rules! read {
        ($($number:literal $message:ident $read:expr;)*) => {
            match which {
                $($number => {
                    if let Ok(message) = pb::$message::decode(bytes) {
                        let read = $read;
                        let _ = read(message);
                    }
                })*
                _ => {}
            }
        };
    }
    read! {
        0 OpenRunRequest |m| wire::open_run(m, &by, RunId::mint(at, 1));
        1 EndRunRequest wire::end_run;
        2 ReportTaskRequest wire::report_task;
        3 ReportPlanRequest wire::report_plan;
        4 SayRequest wire::say;
        5 FileRequest |m| wire::file(m, ApprovalId::mint(at, 1));
        6 AwaitRequest wire::await_;
        7 WithdrawRequest wire::withdraw;
        8 ReportAppliedRequest wire::report_applied;
        9 HeartbeatRequest wire::heartbeat;
        10 AckControlRequest |m| wire::ack_control(m, raise);
        11 DecideRequest wire::decide;
        12 ControlRequest |m| wire::control(m, raise);
        13 ExtendRequest wire::extend;
        14 DismissRequest wire::dismiss;
        15 ListRequest wire::list;
        16 HistoryRequest wire::history;
        17 GetRunRequest wire::get_run;
        18 WatchRequest wire::watch;
        19 WatchResponse wire::watched;
        20 GetResponse wire::got_back;
        21 GetRunResponse wire::run_record;
        22 HistoryResponse wire::history_back;
        23 ListResponse wire::page_back;
        24 AwaitResponse wire::awaited;
        25 DecideResponse wire::decided_as;
        26 ControlResponse wire::controlled_as;
        27 WhoamiResponse wire::me;
        28 ControlsResponse wire::order_of;
        29 HeartbeatResponse wire::server_time;
        30 ExtendResponse wire::extended_to;
    }
}

/// Frames of a goldfive agent, and the events in them by themselves.
pub(crate) fn goldfive(bytes: &[u8]) {
    if let Ok(up) = hg::TelemetryUp::decode(bytes) {
        let read = frame(up.clone());
        let again = hg::TelemetryUp::decode(&*up.encode_to_vec());
        if let Ok(again) = again {
            assert_eq!(
                frame(again),
                read,
                "written and read again it is something else"
            );
        }
    }
    if let Ok(request) = hg::SubscribeControlRequest::decode(bytes) {
        let _ = subscription(request);
    }
    let _ = envelope(bytes.to_vec());
}
