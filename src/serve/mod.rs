//! The server: the thread that owns the registry, identity, and one file per surface.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use registry::{Principal, Refusal, Wish, decide::Reply};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, UnixListener},
    sync::mpsc,
};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{ReceiverStream, UnixListenerStream},
};
use tonic::{Request, Status, service::Routes, transport::server::TcpIncoming};

use self::{
    gate::Gate,
    identity::{Caller, Identity, Surface},
    owner::Owner,
    presence::Leases,
    stop::{Stop, Until},
    waits::Waits,
};
use crate::wire::{
    pb::pilothouse::v1::{
        agent_service_server::AgentServiceServer, operator_service_server::OperatorServiceServer,
    },
    status::status,
};

pub mod checkpoint;
pub mod clock;
pub mod gate;
pub mod home;
pub mod identity;
pub mod owner;
pub mod reserve;
pub mod retention;
pub mod sealed;
pub mod stop;

mod agent;
mod controls;
mod operator;
mod pipe;
mod presence;
mod waits;

pub use pipe::Pipe;

/// What tonic takes at most; our own limits are lower and answer in words.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long open calls may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// What answers on every listener.
#[derive(Clone)]
pub struct Server {
    owner: Owner,
    identity: std::sync::Arc<Identity>,
    leases: Leases,
    waits: Waits,
    patience: Duration,
    gate: std::sync::Arc<Gate>,
    stop: Stop,
}

/// Where callers come in.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The socket; the uid of the peer is the identity.
    pub socket: Option<UnixListener>,
    /// TCP on loopback; a token is the identity.
    pub tcp: Option<TcpListener>,
    /// Connections from within this process.
    pub pipe: Option<mpsc::Receiver<DuplexStream>>,
}

impl Server {
    /// A server of what `owner` owns.
    pub fn new(owner: Owner, identity: Identity, stop: Stop) -> Self {
        Self {
            owner,
            identity: identity.into(),
            leases: Leases::default(),
            waits: Waits::default(),
            patience: agent::default_patience(),
            gate: Default::default(),
            stop,
        }
    }

    /// The same, with rules for what has to be asked about.
    #[must_use]
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = gate.into();
        self
    }

    /// Answers until it is told to stop; then open calls end within a few seconds.
    ///
    /// # Errors
    /// If a listener fails.
    pub async fn run(self, listeners: Listeners) -> Result<(), tonic::transport::Error> {
        let (stop, routes) = (self.stop.clone(), self.routes().await);
        let leases = tokio::spawn(self.leases.clone().watch(self.owner.clone()));
        let socket = listeners
            .socket
            .map(|socket| answer(&routes, &stop, accepted(UnixListenerStream::new(socket))));
        let tcp = listeners
            .tcp
            .map(|tcp| answer(&routes, &stop, accepted(at_once(tcp))));
        let pipe = listeners.pipe.map(|pipe| {
            let pipes = ReceiverStream::new(pipe).map(|end| Ok::<_, std::io::Error>(Pipe(end)));
            answer(&routes, &stop, pipes)
        });
        let all = async {
            let (socket, tcp, pipe) = tokio::join!(maybe(socket), maybe(tcp), maybe(pipe));
            socket.and(tcp).and(pipe)
        };
        let grace = async {
            stop.wait().await;
            tokio::time::sleep(GRACE).await;
        };
        let ended = grace.until(all).await.unwrap_or(Ok(()));
        leases.abort();
        ended
    }

    async fn routes(&self) -> Routes {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<AgentServiceServer<Self>>().await;
        reporter.set_serving::<OperatorServiceServer<Self>>().await;
        let agent = AgentServiceServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES);
        let operator =
            OperatorServiceServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES);
        Routes::new(agent).add_service(operator).add_service(health)
    }

    fn caller<T>(&self, surface: Surface, request: &Request<T>) -> Result<Caller, Status> {
        self.identity
            .caller(surface, request.extensions(), request.metadata())
            .map_err(|refusal| status(&refusal))
    }

    async fn submit(&self, by: Principal, wish: Wish) -> Result<Reply, Status> {
        let reply = self.judge(by, wish).await;
        reply.map_err(|refusal| status(&refusal))
    }

    /// Whoever tries what they may not stands in the server's own log, too.
    async fn judge(&self, by: Principal, wish: Wish) -> Result<Reply, Refusal> {
        let who = by.name().clone();
        let reply = self.owner.submit(by, wish).await;
        reply.inspect_err(|refusal| {
            if let Refusal::NotYours(_) = refusal {
                tracing::warn!(who = who.as_str(), "refused: {refusal}");
            }
        })
    }
}

/// Connections that came to be. One that did not is no reason to stop, nor to spin: out of file descriptors, the next one
/// fails as well.
fn accepted<IO, E>(
    incoming: impl Stream<Item = Result<IO, E>>,
) -> impl Stream<Item = Result<IO, E>> {
    let paced = incoming.then(|connection| async {
        if connection.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        connection
    });
    paced.filter(Result::is_ok)
}

/// What is written is sent: without this a new connection's first answers wait 40 ms each for the
/// acknowledgement of what was sent before.
fn at_once(tcp: TcpListener) -> TcpIncoming {
    TcpIncoming::from(tcp).with_nodelay(Some(true))
}

async fn maybe<T, E>(work: Option<impl Future<Output = Result<T, E>>>) -> Result<(), E> {
    match work {
        Some(work) => work.await.map(|_| ()),
        None => Ok(()),
    }
}

/// One listener. Settings of HTTP/2 are those of `ENGINE` §8.
async fn answer<S, IO, E>(
    routes: &Routes,
    stop: &Stop,
    incoming: S,
) -> Result<(), tonic::transport::Error>
where
    S: Stream<Item = Result<IO, E>>,
    IO: tokio::io::AsyncRead
        + tokio::io::AsyncWrite
        + tonic::transport::server::Connected
        + Unpin
        + Send
        + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    tonic::transport::Server::builder()
        .max_concurrent_streams(Some(128))
        .http2_max_pending_accept_reset_streams(Some(20))
        .http2_max_header_list_size(Some(8 * 1024))
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(Some(64 * 1024))
        .initial_connection_window_size(Some(1024 * 1024))
        .add_routes(routes.clone())
        .serve_with_incoming_shutdown(incoming, stop.wait())
        .await
}

/// Listens on loopback, and nowhere else: tokens travel in the clear.
///
/// # Errors
/// A sentence that says why not.
pub async fn listen_on_loopback(address: SocketAddr) -> Result<TcpListener, String> {
    if !address.ip().is_loopback() {
        return Err(format!(
            "{address} is not a loopback address: there is no TLS yet, so nothing else is listened on"
        ));
    }
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Listens on a Unix socket that only its owner can open.
///
/// # Errors
/// A sentence that says why not; also if a server answers there.
pub fn listen_on_socket(path: &std::path::Path) -> Result<UnixListener, String> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(format!(
            "{}: a server answers there already",
            path.display()
        ));
    }
    // A socket that nobody answers on was left by a server that was killed; anything else is not ours to take away.
    match std::fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => std::fs::remove_file(path).map_err(fault)?,
        Ok(_) => return Err(format!("{}: it is there, and no socket", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fault(error)),
    }
    let listener = UnixListener::bind(path).map_err(fault)?;
    let only_its_owner = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, only_its_owner).map_err(fault)?;
    Ok(listener)
}

/// A socket's file, taken away with this.
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
