//! Streams: one watcher that reads everything, and a thousand that read what comes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, operator_service_client::OperatorServiceClient},
    pilothouse as wire,
};
use tokio::sync::Mutex;

use crate::{
    bare::BareServer,
    ours::{Fault, Ours, Serving, connect, operator, runtime},
    report::{Goal, PAIRS, Report, here, median, quantile, seconds},
};

/// Events that one watcher reads in one turn of a pair.
const EVENTS: usize = 50_000;
const WATCHERS: usize = 1000;
/// Watchers share connections, as dashboards behind a proxy do.
const CONNECTIONS: usize = 50;
/// Events that are watched in one turn of a pair, and how far apart they are sent.
const LIVE: usize = 100;
const APART: Duration = Duration::from_millis(10);
/// Of those that are measured; all of them read.
const MEASURED: usize = 200;

/// R13: one subscriber reads the whole log through gRPC, at least half as fast as a bare stream of the same messages.
pub(crate) fn replay(report: &mut Report) -> Result<(), Fault> {
    runtime()?.block_on(replay_in(report))
}

async fn replay_in(report: &mut Report) -> Result<(), Fault> {
    let dir = here();
    let ours = Ours::in_file(&dir.path().join("ours"))?;
    ours.file(EVENTS).await?;
    let reader =
        registry::log::Log::reader(&registry::log::Sqlite::open(dir.path().join("ours"))?)?;
    let events = reader.read(0, usize::MAX)?;
    let messages = events
        .iter()
        .map(|event| wire::recorded(event, event.seq - 1));
    let count = events.len();
    let bare_at = dir.path().join("bare");
    BareServer::of(messages.collect()).serve(&bare_at)?;
    let epoch = ours.owner.epoch().clone();
    let serving = Serving::start(ours, dir.path()).await?;
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        report.probe();
        let our = read_all(serving.channel().await?, &epoch, count).await?;
        let their = read_all(connect(&bare_at).await?, &epoch, count).await?;
        ratios.push(their / our);
    }
    report.probe();
    let what = "messages/s of a full replay by one subscriber, ours / a bare tonic stream";
    report.say("R13", what, median(ratios), Goal::AtLeast(0.5));
    serving.end().await
}

async fn read_all(
    channel: tonic::transport::Channel,
    epoch: &str,
    count: usize,
) -> Result<f64, Fault> {
    let mut person = OperatorServiceClient::new(channel);
    let after = pb::Cursor {
        epoch: epoch.into(),
        seq: 0,
    };
    let request = pb::WatchRequest { after: Some(after) };
    let began = Instant::now();
    let mut stream = person.watch(request).await?.into_inner();
    for _ in 0..count {
        stream.message().await?.ok_or("the stream ended")?;
    }
    Ok(seconds(began.elapsed()))
}

/// R14: a thousand watchers at a hundred events a second, at most 1.3 times the p99 of a bare broadcast; one that stalls costs
/// the others less than a tenth.
pub(crate) fn watchers(report: &mut Report) -> Result<(), Fault> {
    runtime()?.block_on(watchers_in(report))
}

async fn watchers_in(report: &mut Report) -> Result<(), Fault> {
    let dir = here();
    let ours = Ours::in_file(&dir.path().join("ours"))?;
    let asked = ours.file(1).await?[0];
    let serving = Serving::start(ours.clone(), dir.path()).await?;
    let bare_at = dir.path().join("bare");
    let bare = BareServer::of(vec![]);
    bare.serve(&bare_at)?;

    let mut our_channels = Vec::new();
    let mut bare_channels = Vec::new();
    for _ in 0..CONNECTIONS {
        our_channels.push(serving.channel().await?);
        bare_channels.push(connect(&bare_at).await?);
    }
    let message = {
        let state = ours.owner.state();
        let approval = state.approval(asked.id).ok_or("it is not there")?.clone();
        let event = registry::Event::ApprovalRequested {
            approval: approval.clone(),
        };
        let recorded = registry::Recorded {
            seq: 1,
            at: approval.filed_at,
            scope: approval.scope(),
            event: event.into(),
        };
        wire::recorded(&recorded, 0)
    };
    let our_crowd = Crowd::join(&our_channels, is_filing).await?;
    let bare_crowd = Crowd::join(&bare_channels, |_| true).await?;
    let (mut ratios, mut stalls) = (vec![], vec![]);
    for _ in 0..PAIRS {
        report.probe();
        let our = our_crowd.watch_filing(&ours).await?;
        let their = bare_crowd.watch_sent(&bare, &message).await?;
        ratios.push(our / their);
        // One that never reads: it is opened, and then nobody takes anything from it.
        let mut person = OperatorServiceClient::new(serving.channel().await?);
        let stalled = person.watch(pb::WatchRequest::default()).await?;
        let beside = our_crowd.watch_filing(&ours).await?;
        drop(stalled);
        eprintln!("R14: ours {our:.4} s, bare {their:.4} s, beside a stalled one {beside:.4} s");
        stalls.push(beside / our);
    }
    report.probe();
    let what = "p99 of 1,000 watchers at 100 events/s, ours / a bare broadcast";
    report.say("R14", what, median(ratios), Goal::AtMost(1.3));
    let what = "p99 of 1,000 watchers beside a stalled one / without it";
    report.say("R14 stalled", what, median(stalls), Goal::AtMost(1.1));
    let _ = operator();
    serving.end().await
}

fn is_filing(message: &pb::WatchResponse) -> bool {
    let Some(pb::watch_response::What::Recorded(recorded)) = &message.what else {
        return false;
    };
    matches!(
        recorded
            .event
            .as_ref()
            .and_then(|event| event.what.as_ref()),
        Some(pb::event::What::ApprovalRequested(_))
    )
}

/// A thousand watchers; some of them say when something came.
struct Crowd {
    seen: Arc<Mutex<Vec<tokio::sync::mpsc::Receiver<Instant>>>>,
}

impl Crowd {
    async fn join(
        channels: &[tonic::transport::Channel],
        counts: fn(&pb::WatchResponse) -> bool,
    ) -> Result<Self, Fault> {
        let mut seen = Vec::new();
        for n in 0..WATCHERS {
            let mut person = OperatorServiceClient::new(channels[n % channels.len()].clone());
            let mut stream = person
                .watch(pb::WatchRequest::default())
                .await?
                .into_inner();
            let (to, from) = tokio::sync::mpsc::channel(4 * LIVE);
            if n < MEASURED {
                seen.push(from);
            }
            tokio::spawn(async move {
                while let Ok(Some(message)) = stream.message().await {
                    if counts(&message) {
                        let _ = to.try_send(Instant::now());
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let crowd = Self {
            seen: Arc::new(Mutex::new(seen)),
        };
        crowd.forget().await;
        Ok(crowd)
    }

    async fn forget(&self) {
        for seen in self.seen.lock().await.iter_mut() {
            while seen.try_recv().is_ok() {}
        }
    }

    async fn watch_filing(&self, ours: &Ours) -> Result<f64, Fault> {
        self.forget().await;
        let mut sent = Vec::new();
        for _ in 0..LIVE {
            sent.push(Instant::now());
            ours.file(1).await?;
            tokio::time::sleep_until((sent[sent.len() - 1] + APART).into()).await;
        }
        self.p99(&sent).await
    }

    async fn watch_sent(
        &self,
        bare: &BareServer,
        message: &pb::WatchResponse,
    ) -> Result<f64, Fault> {
        self.forget().await;
        let mut sent = Vec::new();
        for _ in 0..LIVE {
            sent.push(Instant::now());
            bare.send(message.clone());
            tokio::time::sleep_until((sent[sent.len() - 1] + APART).into()).await;
        }
        self.p99(&sent).await
    }

    async fn p99(&self, sent: &[Instant]) -> Result<f64, Fault> {
        let mut took = Vec::new();
        for seen in self.seen.lock().await.iter_mut() {
            for sent in sent {
                let came = tokio::time::timeout(Duration::from_secs(30), seen.recv()).await?;
                took.push(seconds(came.ok_or("a stream ended")?.duration_since(*sent)));
            }
        }
        Ok(quantile(&mut took, 0.99))
    }
}
