//! The goldfive door: the two RPCs of harmonograf that an agent dials.
//!
//! An agent's client that loses its connection never comes back (`wire/goldfive.md` §0.6). So the
//! door refuses nothing that it can read, says no goodbye, and marks the agent's runs away when the
//! stream ends.

mod agents;
mod facts;
mod stream;

use std::{pin::Pin, sync::Arc};

use registry::{
    Run, Settled, Wish,
    approval::DeliveryState,
    command::Observation,
    digest::Sha256,
    names::ControlId,
    run::{Presence, Source},
};
use tokio::{net::TcpListener, sync::watch};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Request, Response, Status, Streaming, metadata::MetadataMap, transport::server::TcpIncoming,
};

use self::agents::Agents;
use crate::{
    serve::owner::Owner,
    wire::pb::{
        goldfive::v1::ControlEvent,
        harmonograf::v1::{
            SubscribeControlRequest, TelemetryDown, TelemetryUp,
            harmonograf_server::{Harmonograf, HarmonografServer},
        },
    },
};

/// The largest frame that is taken, in bytes: an error would end that agent's connection for life.
const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// After a start: agents that were there have lost their connection, and do not come back. What was on its way to them
/// may have arrived; nobody will say.
pub async fn part_from_the_lost(owner: &Owner) {
    let (runs, decided) = {
        let state = owner.state();
        let theirs = |run: &&Arc<Run>| {
            run.key.source == Source::Goldfive && run.presence == Presence::Attached
        };
        let runs: Vec<_> = state.runs().filter(theirs).cloned().collect();
        let decided: Vec<_> = state
            .all_settled()
            .filter(|it| is_under_way(it))
            .cloned()
            .collect();
        (runs, decided)
    };
    for run in runs.iter().filter(|run| !run.state.is_over()) {
        let away = Wish::Attend {
            run: run.id,
            here: false,
        };
        tell(owner, run.key.agent.raw(), away).await;
    }
    for settled in decided {
        let (id, agent) = (settled.approval.id, settled.approval.from.agent.raw());
        let known = settled
            .delivery
            .as_ref()
            .map(|delivery| delivery.control.clone());
        let control = match known {
            Some(control) => control,
            None => {
                let Ok(control) = ControlId::parse(&format!("ctl_{}", agents::hex())) else {
                    continue;
                };
                let sent = Observation::Sent {
                    id,
                    control: control.clone(),
                };
                tell(owner, agent, Wish::Observe(sent)).await;
                control
            }
        };
        let detail =
            "the server was restarted before the agent answered; whether it took this is not known"
                .into();
        let acked = Observation::Acked {
            id,
            control,
            success: false,
            detail,
        };
        tell(owner, agent, Wish::Observe(acked)).await;
    }
}

fn is_under_way(settled: &Settled) -> bool {
    let sent = settled
        .delivery
        .as_ref()
        .is_none_or(|delivery| delivery.state == DeliveryState::Sent);
    settled.approval.from.source == Source::Goldfive && settled.decision().is_some() && sent
}

async fn tell(owner: &Owner, agent: &str, wish: Wish) {
    if let Err(refusal) = owner.submit(stream::principal(agent), wish).await {
        tracing::warn!("goldfive: not recorded: {refusal}");
    }
}

/// The door, once for each connection.
#[derive(Clone)]
pub struct Door {
    owner: Owner,
    agents: Agents,
    token: Option<Sha256>,
    stopping: watch::Receiver<bool>,
}

impl Door {
    /// A door into what `owner` owns. `token` is the bearer token's SHA-256, where one is asked for;
    /// `stopping` says when to let go.
    pub fn new(owner: Owner, token: Option<Sha256>, stopping: watch::Receiver<bool>) -> Self {
        let agents = Agents::new(owner.clone());
        Self {
            owner,
            agents,
            token,
            stopping,
        }
    }

    /// Answers on `listener` until it is told to stop.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self, listener: TcpListener) -> Result<(), tonic::transport::Error> {
        let delivering = tokio::spawn(self.agents.clone().deliver_for_ever());
        let mut stopping = self.stopping.clone();
        let stopped = async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        // What is written is sent, and not held back for an acknowledgement.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = HarmonografServer::new(self).max_decoding_message_size(FRAME_BYTES);
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(std::time::Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(std::time::Duration::from_secs(10)))
            .add_service(service)
            .serve_with_incoming_shutdown(incoming.filter(Result::is_ok), stopped)
            .await;
        delivering.abort();
        served
    }

    /// The token is taken as `bearer TOKEN` and bare, as harmonograf takes it.
    fn admit(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let said = metadata
            .get("authorization")
            .and_then(|said| said.to_str().ok());
        let said = said.unwrap_or_default();
        let bare = match said.split_once(' ') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest,
            _ => said,
        };
        if Sha256::of(bare.trim()) == *token {
            return Ok(());
        }
        Err(Status::unauthenticated("missing or invalid bearer token"))
    }
}

#[tonic::async_trait]
impl Harmonograf for Door {
    type StreamTelemetryStream = Pin<Box<dyn Stream<Item = Result<TelemetryDown, Status>> + Send>>;

    async fn stream_telemetry(
        &self,
        request: Request<Streaming<TelemetryUp>>,
    ) -> Result<Response<Self::StreamTelemetryStream>, Status> {
        self.admit(request.metadata())?;
        let down = stream::listen(
            self.owner.clone(),
            self.agents.clone(),
            self.stopping.clone(),
            request.into_inner(),
        );
        Ok(Response::new(Box::pin(down)))
    }

    type SubscribeControlStream = Pin<Box<dyn Stream<Item = Result<ControlEvent, Status>> + Send>>;

    async fn subscribe_control(
        &self,
        request: Request<SubscribeControlRequest>,
    ) -> Result<Response<Self::SubscribeControlStream>, Status> {
        self.admit(request.metadata())?;
        let wish = crate::wire::goldfive::subscription(request.into_inner());
        let controls = self.agents.subscribe(wish).await;
        Ok(Response::new(Box::pin(controls.map(Ok))))
    }
}
