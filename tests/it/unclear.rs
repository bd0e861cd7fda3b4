//! What is not said clearly is refused, and is never a yes.

use std::time::Duration;

use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, Asks, Verdict},
    pilothouse::{Asked, Opening, awaited, claimed_back},
};
use prost::Message as _;
use tonic::Code;

use crate::{
    answers::asking,
    house::{House, Standing, decision, extension, file, open, question, waiting, word},
};

/// Lengths that are none, or none that a deadline may have.
const NO_DEADLINES: [(i64, i32); 10] = [
    (0, 0),
    (-1, 0),
    (59, 999_999_999),
    (2_592_000, 1),
    (i64::MAX, 0),
    (i64::MAX, 999_999_999),
    (i64::MIN, 0),
    (3600, -1),
    (3600, 1_000_000_000),
    (3600, i32::MIN),
];

fn span((seconds, nanos): (i64, i32)) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos }
}

/// Case A11: refused with both bounds, and never a moment in the past.
#[tokio::test]
async fn a_deadline_that_is_none_is_refused_and_names_the_bounds() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t0", Asks::Operator)).await;
    let mut person = house.person("operator:ops");
    let before = house.head().await;
    for length in NO_DEADLINES {
        let deadline = pb::Deadline {
            after: Some(span(length)),
            on_deadline: 0,
        };
        let filing = pb::FileRequest {
            deadline: Some(deadline),
            ..question(&run, "t1", Asks::Operator)
        };
        let refused = agent.file(filing).await;
        assert_eq!(word(&refused), "invalid", "{length:?}");
        let said = refused.unwrap_err();
        assert!(said.message().contains("1 minute"), "{said:?}");
        assert!(said.message().contains("30 days"), "{said:?}");
        let longer = pb::ExtendRequest {
            after: Some(span(length)),
            ..extension(&card.approval_id, 0)
        };
        assert_eq!(word(&person.extend(longer).await), "invalid", "{length:?}");
    }
    let nothing = pb::FileRequest {
        deadline: Some(pb::Deadline::default()),
        ..question(&run, "t1", Asks::Operator)
    };
    assert_eq!(word(&agent.file(nothing).await), "invalid");
    assert_eq!(house.head().await, before, "nothing was recorded");

    // The longest patience is no fault, and no moment either.
    let patient = pb::AwaitRequest {
        wait_id: "w1".into(),
        patience: Some(span((i64::MAX, 999_999_999))),
        ..waiting(&card.approval_id)
    };
    let held = tokio::time::timeout(Duration::from_millis(300), agent.r#await(patient)).await;
    assert!(held.is_err(), "it waits: {held:?}");
    for length in [(-1, 0), (0, -1), (1, 1_000_000_000)] {
        let impatient = pb::AwaitRequest {
            wait_id: "w2".into(),
            patience: Some(span(length)),
            ..waiting(&card.approval_id)
        };
        assert_eq!(word(&agent.r#await(impatient).await), "invalid");
    }
    assert_eq!(house.head().await, before, "nothing was recorded");
}

/// Case A11: a minute is a whole minute from the moment that the question is recorded, however late somebody looks.
#[tokio::test]
async fn a_deadline_counts_from_the_record() {
    let standing = Standing::start();
    let client = &standing.client;
    let run = Opening {
        agent: "careful".into(),
        invocation: "r1".into(),
        ..Opening::default()
    };
    let run = client.open_run(&run).await.unwrap();
    standing.pass(Duration::from_secs(7));
    let mut filing = asking("call-1", "{}");
    filing.deadline = Some(Duration::from_secs(60));
    let filed = client.file(run, &filing).await.unwrap();
    // Nobody was told of it until now.
    standing.pass(Duration::from_secs(59));
    let Asked::Pending(pending) = client.get(filed.id).await.unwrap().asked else {
        panic!("it stands for its whole time");
    };
    let now = client.whoami().await.unwrap().server_now;
    let left = pending.deadline.unwrap().since(now);
    assert_eq!(left, Duration::from_secs(1));
    standing.stop().await;
}

/// Case A23: only APPROVE is a yes, and only REJECT a no; all else leaves it pending.
#[tokio::test]
async fn a_verdict_that_is_none_decides_nothing() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t1", Asks::Operator)).await;
    let mut person = house.person("admin:root");
    let before = house.head().await;
    let chance = std::iter::repeat_with(|| getrandom::u32().unwrap().cast_signed());
    let known = [Verdict::Approve as i32, Verdict::Reject as i32];
    let numbers = [0, -1, 3, 4, 255, i32::MIN, i32::MAX];
    let random = chance.filter(|number| !known.contains(number)).take(30);
    for (n, verdict) in numbers.into_iter().chain(random).enumerate() {
        let wish = pb::DecideRequest {
            verdict,
            ..decision(&card, Verdict::Approve, &format!("d{n}"))
        };
        let answer = person.decide(wish).await;
        assert_eq!(word(&answer), "invalid", "{verdict}");
    }
    // As a caller would send it who knows nothing of verdicts.
    let mut bytes = decision(&card, Verdict::Approve, "d").encode_to_vec();
    let said = pb::DecideRequest {
        verdict: Verdict::Approve as i32,
        ..Default::default()
    };
    let said = said.encode_to_vec();
    let at = bytes.windows(said.len()).position(|part| part == said);
    let at = at.unwrap();
    bytes.drain(at..at + said.len());
    let missing = pb::DecideRequest::decode(&*bytes).unwrap();
    assert_eq!(missing.verdict, 0);
    assert_eq!(word(&person.decide(missing).await), "invalid");
    let odd = pb::DecideRequest {
        seen: 99,
        ..decision(&card, Verdict::Approve, "d")
    };
    assert_eq!(word(&person.decide(odd).await), "invalid");
    assert_eq!(house.head().await, before, "nothing was recorded");
    house.pending(&card.approval_id).await;
    assert_eq!(
        word(&agent.r#await(waiting(&card.approval_id)).await),
        "ok",
        "still waiting"
    );

    // What else an agent may say wrongly is no end of its run, and no fact.
    let rows = [
        word(
            &agent
                .end_run(pb::EndRunRequest {
                    run_id: run.clone(),
                    ..Default::default()
                })
                .await,
        ),
        word(
            &agent
                .end_run(pb::EndRunRequest {
                    run_id: run.clone(),
                    how: Some(pb::end_run_request::How::Ended(99)),
                    ..Default::default()
                })
                .await,
        ),
        word(
            &agent
                .end_run(pb::EndRunRequest {
                    run_id: run.clone(),
                    how: Some(pb::end_run_request::How::Paused(0)),
                    ..Default::default()
                })
                .await,
        ),
        word(
            &agent
                .report_applied(pb::ReportAppliedRequest {
                    approval_id: card.approval_id.clone(),
                    result: 99,
                    ..Default::default()
                })
                .await,
        ),
        word(
            &agent
                .file(pb::FileRequest {
                    asks: 99,
                    ..question(&run, "t2", Asks::Operator)
                })
                .await,
        ),
        word(
            &agent
                .file(pb::FileRequest {
                    hold: 99,
                    ..question(&run, "t2", Asks::Operator)
                })
                .await,
        ),
        word(
            &agent
                .file(pb::FileRequest {
                    risk: 99,
                    ..question(&run, "t2", Asks::Operator)
                })
                .await,
        ),
    ];
    assert_eq!(rows, ["invalid"; 7]);
    assert_eq!(house.head().await, before, "nothing was recorded");
}

/// Case A23: an outcome that a newer server knows and we do not is no yes, to whoever waits and to whoever takes a step.
#[tokio::test]
async fn an_outcome_that_is_not_known_here_is_no_yes() {
    /// `Settled.outcome` of a server to come: a field that we do not have.
    const NEWER: [u8; 4] = [0xfa, 0x07, 1, b'x']; // field 127, one byte long
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t1", Asks::Operator)).await;
    let wish = decision(&card, Verdict::Approve, "d1");
    house.person("operator:ops").decide(wish).await.unwrap();
    let answer = agent.r#await(waiting(&card.approval_id)).await;
    let answer = answer.unwrap().into_inner();
    assert!(awaited(answer.clone()).is_ok(), "as it is");

    let Some(pb::await_response::State::Settled(settled)) = answer.state else {
        panic!("it is decided");
    };
    let newer = pb::Settled {
        outcome: None,
        ..settled
    };
    let mut bytes = newer.encode_to_vec();
    bytes.extend(NEWER);
    let newer = pb::Settled::decode(&*bytes).unwrap();
    let state = Some(pb::await_response::State::Settled(newer.clone()));
    let unknown = awaited(pb::AwaitResponse { state }).unwrap_err();
    assert!(unknown.to_string().contains("how it ended"), "{unknown}");
    let decisions = vec![newer];
    assert!(claimed_back(pb::ClaimResponse { decisions }).is_err());
    // Nor is a state that is not known, or none.
    assert!(awaited(pb::AwaitResponse { state: None }).is_err());
    let unknown = pb::AwaitResponse::decode(&NEWER[..]).unwrap();
    assert!(awaited(unknown).is_err());

    // A call that is refused by something else than a server of ours is no answer either.
    let nobody = house.agent(crate::house::Headers::none());
    let refused = nobody.clone().r#await(waiting(&card.approval_id)).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
}
