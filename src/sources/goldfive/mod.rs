//! The goldfive door: the two RPCs of harmonograf that an agent dials.
//!
//! An agent's client that loses its connection never comes back (`wire/goldfive.md` §0.6). So the
//! door refuses nothing that it can read, says no goodbye, and marks the agent's runs away when the
//! stream ends.

mod agents;
mod delivery;
mod drifts;
mod facts;
mod lost;
mod persist;
mod stream;

use std::{pin::Pin, time::Duration};

use registry::digest::Sha256;
use tokio::{net::TcpListener, sync::watch, time::sleep};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Request, Response, Status, Streaming, metadata::MetadataMap, transport::server::TcpIncoming,
};

use self::agents::Agents;
pub use self::lost::part_from_the_lost;
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
/// How long open streams may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

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

    /// Answers on `listener` until it is told to stop; then what is open ends within a few seconds.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self, listener: TcpListener) -> Result<(), tonic::transport::Error> {
        // From before anybody is let in, so that no decision is missed.
        let head = self.owner.state().head();
        let cursor = self.owner.cursor(head);
        let delivering = tokio::spawn(self.agents.clone().deliver_for_ever(cursor));
        // What is written is sent, and not held back for an acknowledgement.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let (stopped, stopped_for_long) = (self.stopped(), self.stopped());
        let service = HarmonografServer::new(self).max_decoding_message_size(FRAME_BYTES);
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .add_service(service)
            .serve_with_incoming_shutdown(incoming.filter(Result::is_ok), stopped);
        let grace = async {
            stopped_for_long.await;
            sleep(GRACE).await;
        };
        let served = tokio::select! {
            served = serving => served,
            () = grace => Ok(()),
        };
        delivering.abort();
        served
    }

    /// Returns once the server stops.
    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.clone();
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
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
            self.stopped(),
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
        let controls = self.agents.subscribe(wish).map(Ok);
        let controls = futures_util::StreamExt::take_until(controls, self.stopped());
        Ok(Response::new(Box::pin(controls)))
    }
}
