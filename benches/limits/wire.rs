//! Through gRPC: from an operator's key to the agent that waits.

use std::time::{Duration, Instant};

use pilothouse::wire::pb::pilothouse::v1::{
    self as pb, agent_service_client::AgentServiceClient,
    operator_service_client::OperatorServiceClient,
};
use registry::{Name, Principal, Role, Tenant, log::Memory};
use tonic::transport::Channel;

use crate::{
    bare::BareServer,
    ours::{Asked, Fault, Ours, Serving, connect, operator, runtime},
    report::{Goal, PAIRS, RawLog, Report, here, median, seconds},
    store::drive,
};

/// Answers in one turn of a pair.
const ANSWERS: usize = 100;
/// Decisions of many operators in one turn of a pair.
const DECISIONS: usize = 10_000;
/// Connections that many operators share.
const CHANNELS: usize = 8;
/// What a waiter needs to have arrived.
const ARRIVED: Duration = Duration::from_millis(3);

fn answer(asked: Asked) -> pb::DecideRequest {
    pb::DecideRequest {
        id: asked.id.to_string(),
        verdict: pb::Verdict::Approve.into(),
        digest: asked.digest.to_string(),
        decision_id: format!("d{}", asked.id),
        ..Default::default()
    }
}

fn waiting(asked: Asked) -> pb::AwaitRequest {
    pb::AwaitRequest {
        approval_id: asked.id.to_string(),
        wait_id: "w".into(),
        patience: None,
    }
}

/// R3: from the operator's send to the waiter's return, at most 1.7 times a bare call and a decision in process. R5: the waiter
/// has it within 1.1 times of what the operator waits.
pub(crate) fn wake(report: &mut Report) -> Result<(), Fault> {
    let runtime = runtime()?;
    runtime.block_on(wake_in(report))
}

async fn wake_in(report: &mut Report) -> Result<(), Fault> {
    let dir = here();
    let ours = Ours::in_file(&dir.path().join("ours"))?;
    let serving = Serving::start(ours.clone(), dir.path()).await?;
    let bare_at = dir.path().join("bare");
    BareServer::of(vec![]).serve(&bare_at)?;
    let mut person = OperatorServiceClient::new(serving.channel().await?);
    let agent = AgentServiceClient::new(serving.channel().await?);
    let mut bare = OperatorServiceClient::new(connect(&bare_at).await?);
    let mut raw = RawLog::new();
    // On the socket the uid is the identity: whoever waits is whoever filed.
    let me = person.whoami(pb::WhoamiRequest {}).await?.into_inner();
    let filer = Principal::new(Name::parse(&me.name)?, Tenant::local(), [Role::Agent]);
    let (mut ratios, mut to_acks) = (vec![], vec![]);
    for _ in 0..PAIRS {
        report.probe();
        let asked = ours.file_as(&filer, 2 * ANSWERS).await?;
        let (mut woken, mut acked, mut calls, mut inside) = (vec![], vec![], vec![], vec![]);
        for pair in asked.chunks(2) {
            let (through, within) = (pair[0], pair[1]);
            let mut waiter: AgentServiceClient<Channel> = agent.clone();
            let waiter = tokio::spawn(async move {
                let answered = waiter.r#await(waiting(through)).await;
                answered.map(|_| Instant::now())
            });
            tokio::time::sleep(ARRIVED).await;
            let began = Instant::now();
            person.decide(answer(through)).await?;
            acked.push(seconds(began.elapsed()));
            let woke = waiter.await??;
            woken.push(seconds(woke.duration_since(began)));

            let began = Instant::now();
            bare.whoami(pb::WhoamiRequest {}).await?;
            calls.push(seconds(began.elapsed()));
            let began = Instant::now();
            ours.decide(&operator(), within).await?;
            inside.push(seconds(began.elapsed()));
            raw.append();
        }
        let woken = median(woken);
        ratios.push(woken / (median(calls) + median(inside)));
        to_acks.push(woken / median(acked));
    }
    report.probe();
    let what = "p50 from decide to waiter / of a bare unary call and a decision in process";
    report.say("R3", what, median(ratios), Goal::AtMost(1.7));
    let what = "p50 until the waiter has it / until the operator has the ack";
    report.say("R5", what, median(to_acks), Goal::AtMost(1.1));
    serving.end().await
}

/// R4: durable decisions of 64 operators, at least 65 % of the same server without a store.
pub(crate) fn operators(report: &mut Report) -> Result<(), Fault> {
    let runtime = runtime()?;
    runtime.block_on(operators_in(report))
}

async fn operators_in(report: &mut Report) -> Result<(), Fault> {
    let dir = here();
    let durable = Ours::in_file(&dir.path().join("ours"))?;
    let durable = Serving::start(durable, dir.path()).await?;
    let storeless = Ours::on(Box::new(Memory::new("bench")))?;
    let storeless = Serving::start(storeless, dir.path()).await?;
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        report.probe();
        let ours = rate(&durable).await?;
        let theirs = rate(&storeless).await?;
        eprintln!("R4: durable {ours:.0}/s, without a store {theirs:.0}/s");
        ratios.push(ours / theirs);
    }
    report.probe();
    let what = "decisions/s of 64 operators through gRPC, in SQLite / in memory";
    report.say("R4", what, median(ratios), Goal::AtLeast(0.65));
    durable.end().await?;
    storeless.end().await
}

async fn rate(serving: &Serving) -> Result<f64, Fault> {
    let asked = serving.ours.file(DECISIONS).await?;
    let mut people = Vec::new();
    for _ in 0..CHANNELS {
        people.push(OperatorServiceClient::new(serving.channel().await?));
    }
    let began = Instant::now();
    drive(asked.into_iter().enumerate().collect(), |(n, asked)| {
        let mut person = people[n % CHANNELS].clone();
        async move {
            let decided = person.decide(answer(asked)).await;
            decided.map(|_| ()).map_err(|status| status.to_string())
        }
    })
    .await?;
    Ok(DECISIONS as f64 / seconds(began.elapsed()))
}
