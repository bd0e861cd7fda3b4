//! The goldfive door: the two RPCs of harmonograf that an agent dials.
//!
//! An agent's client that loses its connection never comes back (`wire/goldfive.md` §0.6). So the
//! door refuses nothing that it can read, says no goodbye, and marks the agent's runs away when the
//! stream ends.

mod agents;
mod facts;
mod stream;

use std::pin::Pin;

use registry::digest::Sha256;
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
