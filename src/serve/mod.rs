//! The server: the thread that owns the registry, identity, and one file per surface.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    task::Poll,
    time::Duration,
};

use registry::{Name, Principal, Refusal, Wish, decide::Reply};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, UnixListener},
    sync::{Notify, mpsc},
};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{ReceiverStream, UnixListenerStream},
};
use tonic::{
    Request, Status,
    service::{Interceptor, Routes, interceptor::InterceptedService},
    transport::server::{TcpConnectInfo, TcpIncoming, TlsConnectInfo},
};

use self::{
    calls::{Call, Calls},
    door::{Comes, Door},
    gate::Gate,
    identity::{Caller, Identity, Surface},
    limits::{Limits, seconds},
    metrics::Metrics,
    owner::Owner,
    presence::Leases,
    rates::{Paced, Rates, SeldomBy},
    stop::{Stop, Until},
    tls::Tls,
    waits::Waits,
    watching::StreamPlace,
};
use crate::wire::{
    pb::pilothouse::v1::{
        agent_service_server::AgentServiceServer, operator_service_server::OperatorServiceServer,
    },
    status::status,
};

pub mod checkpoint;
pub mod clock;
pub mod config;
pub mod gate;
pub mod home;
pub mod identity;
pub mod limits;
pub mod metrics;
pub mod owner;
pub mod reserve;
pub mod retention;
pub mod sealed;
pub mod stop;
pub mod tls;

mod agent;
mod calls;
mod controls;
mod door;
mod operator;
mod pipe;
mod presence;
mod rates;
mod waits;
mod watching;

pub use pipe::Pipe;

/// What tonic takes at most; our own limits are lower and answer in words.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// What we send at most: what every client takes that was told nothing else.
const SENT_BYTES: usize = 4 * 1024 * 1024;
/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked whether a file of identity has changed.
const FRESH: Duration = Duration::from_secs(2);
/// How often it is looked whether the credential of an open stream is still good.
const STILL_KNOWN: Duration = Duration::from_secs(2);
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
    reload: std::sync::Arc<Notify>,
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
    rates: Rates,
    stalls: SeldomBy<Name>,
}

/// Where callers come in.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The socket; the uid of the peer is the identity.
    pub socket: Option<UnixListener>,
    /// TCP on loopback; a token is the identity.
    pub tcp: Option<TcpListener>,
    /// TCP anywhere, with what secures it; a certificate or a token is the identity.
    pub tls: Option<(TcpListener, std::sync::Arc<Tls>)>,
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
            reload: std::sync::Arc::default(),
            limits: Arc::default(),
            metrics: Arc::default(),
            rates: Rates::default(),
            stalls: SeldomBy::default(),
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits.into();
        self
    }

    /// What it counts.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// The same, with rules for what has to be asked about.
    #[must_use]
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = gate.into();
        self
    }

    /// Whoever notifies it has the files of identity looked at again, at once.
    pub fn reload(&self) -> std::sync::Arc<Notify> {
        self.reload.clone()
    }

    /// Answers until it is told to stop; then open calls end within a few seconds.
    ///
    /// # Errors
    /// If a listener fails.
    pub async fn run(self, listeners: Listeners) -> Result<(), tonic::transport::Error> {
        let (stop, inside) = (self.stop.clone(), self.inside().await);
        let leases = tokio::spawn(self.leases.clone().watch(self.owner.clone()));
        let secure = listeners.tls.as_ref().map(|(_, tls)| tls.clone());
        let fresh = tokio::spawn(keep_fresh(
            self.identity.clone(),
            secure,
            self.reload.clone(),
        ));
        let socket = listeners
            .socket
            .map(|socket| answer(&inside, &stop, accepted(UnixListenerStream::new(socket))));
        let tcp = listeners
            .tcp
            .map(|tcp| answer(&inside, &stop, accepted(at_once(tcp))));
        let tls = listeners
            .tls
            .map(|(tcp, tls)| answer(&inside, &stop, tls::secured(accepted(at_once(tcp)), tls)));
        let pipe = listeners.pipe.map(|pipe| {
            let pipes = ReceiverStream::new(pipe).map(|end| Ok::<_, std::io::Error>(Pipe(end)));
            answer(&inside, &stop, pipes)
        });
        let all = async {
            let (socket, tcp, tls, pipe) =
                tokio::join!(maybe(socket), maybe(tcp), maybe(tls), maybe(pipe));
            socket.and(tcp).and(tls).and(pipe)
        };
        let grace = async {
            stop.wait().await;
            tokio::time::sleep(GRACE).await;
        };
        let ended = grace.until(all).await.unwrap_or(Ok(()));
        leases.abort();
        fresh.abort();
        ended
    }

    async fn inside(&self) -> Inside {
        Inside {
            routes: self.routes().await,
            calls: Calls {
                limits: self.limits.clone(),
                metrics: self.metrics.clone(),
                last: Arc::new(AtomicU64::new(1)),
            },
            door: Door::new(self.limits.clone(), self.metrics.clone()),
        }
    }

    async fn routes(&self) -> Routes {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<AgentServiceServer<Self>>().await;
        reporter.set_serving::<OperatorServiceServer<Self>>().await;
        let agent = AgentServiceServer::new(self.clone())
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(SENT_BYTES);
        let operator = OperatorServiceServer::new(self.clone())
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(SENT_BYTES);
        // Nothing but health is asked by somebody unknown (case E12): a method that is new is behind the door, too.
        let agent = InterceptedService::new(agent, self.door(Surface::Agent));
        let operator = InterceptedService::new(operator, self.door(Surface::Operator));
        Routes::new(agent).add_service(operator).add_service(health)
    }

    /// Lets in whoever is known, and says who it is.
    fn door(&self, surface: Surface) -> impl Interceptor + Clone + Send + Sync + 'static {
        let (identity, owner) = (self.identity.clone(), self.owner.clone());
        move |mut request: Request<()>| {
            let (extensions, metadata) = (request.extensions(), request.metadata());
            let caller = identity.caller(surface, extensions, metadata, owner.now());
            let caller = caller.map_err(|refusal| status(&refusal))?;
            request.extensions_mut().insert(caller);
            Ok(request)
        }
    }

    fn caller<T>(&self, surface: Surface, request: &Request<T>) -> Result<Caller, Status> {
        let caller = request.extensions().get::<Caller>();
        let caller = caller.filter(|caller| caller.surface() == surface);
        let caller = caller.cloned().ok_or_else(|| {
            let nobody = Refusal::Unauthenticated("nobody has looked who calls".into());
            status(&nobody)
        })?;
        let paced = self.pace(&caller.principal, request);
        paced.map_err(|refusal| status(&refusal))?;
        Ok(caller)
    }

    /// A stream that ends once the credential of its caller does, or is taken away: within [`STILL_KNOWN`].
    fn while_known<T: Send + 'static>(
        &self,
        caller: Caller,
        stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> impl Stream<Item = Result<T, Status>> + Send + 'static {
        let (identity, owner) = (self.identity.clone(), self.owner.clone());
        let mut lost = Box::pin(async move {
            loop {
                tokio::time::sleep(STILL_KNOWN).await;
                if !identity.still_knows(&caller, owner.now()) {
                    let gone = "the credential has expired, or was taken away";
                    break status(&Refusal::Unauthenticated(gone.into()));
                }
            }
        });
        let (mut stream, mut over) = (Box::pin(stream), false);
        futures_util::stream::poll_fn(move |context| {
            if over {
                return Poll::Ready(None);
            }
            if let Poll::Ready(gone) = lost.as_mut().poll(context) {
                over = true;
                return Poll::Ready(Some(Err(gone)));
            }
            stream.as_mut().poll_next(context)
        })
    }

    /// Takes one of the caller's share of what is called.
    fn pace<T>(&self, by: &Principal, request: &Request<T>) -> Result<(), Refusal> {
        let Some(call) = request.extensions().get::<Call>() else {
            return Ok(());
        };
        let _ = call.who.set(by.name().to_string());
        let Some(what) = Paced::of(&call.path) else {
            return Ok(());
        };
        let times = self.times(self.is_local(request));
        self.rates.take(by, what, &self.limits, times)
    }

    /// Whether a call came over the socket, or from within: a process of this machine, and not the network.
    fn is_local<T>(&self, request: &Request<T>) -> bool {
        let seen = request.extensions();
        let clear = seen.get::<TcpConnectInfo>().is_some();
        !clear && seen.get::<TlsConnectInfo<TcpConnectInfo>>().is_none()
    }

    fn times(&self, local: bool) -> u32 {
        if local { self.limits.local_times } else { 1 }
    }

    /// Room for one more stream of this caller.
    fn stream_place(&self, by: &Principal, local: bool) -> Result<StreamPlace, Status> {
        let limit = self.limits.streams.saturating_mul(self.times(local));
        let key = (by.tenant().clone(), by.name().clone());
        let place = self.metrics.watchers.take(key, limit);
        place.ok_or_else(|| status(&too_many("streams", limit)))
    }

    /// Room for one more call of this caller that waits.
    fn wait_place(&self, by: &Principal, local: bool) -> Result<StreamPlace, Status> {
        let limit = self.limits.waits.saturating_mul(self.times(local));
        let key = (by.tenant().clone(), by.name().clone());
        let place = self.metrics.waits.take(key, limit);
        place.ok_or_else(|| status(&too_many("calls that wait", limit)))
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

/// Reads the files of identity again when they change, and at once when it is asked to.
async fn keep_fresh(
    identity: std::sync::Arc<Identity>,
    tls: Option<std::sync::Arc<Tls>>,
    reload: std::sync::Arc<Notify>,
) {
    loop {
        let _ = tokio::time::timeout(FRESH, reload.notified()).await;
        let (identity, tls) = (identity.clone(), tls.clone());
        let read = tokio::task::spawn_blocking(move || {
            identity.refresh();
            tls.iter().for_each(|tls| tls.refresh());
        });
        let _ = read.await;
    }
}

/// What every listener leads to.
struct Inside {
    routes: Routes,
    calls: Calls,
    door: Door,
}

fn too_many(what: &'static str, limit: u32) -> Refusal {
    Refusal::TooMany {
        what,
        limit: limit.into(),
        who: "whoever calls ends some of theirs",
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
    inside: &Inside,
    stop: &Stop,
    incoming: S,
) -> Result<(), tonic::transport::Error>
where
    S: Stream<Item = Result<IO, E>>,
    IO: tokio::io::AsyncRead
        + tokio::io::AsyncWrite
        + tonic::transport::server::Connected
        + Comes
        + Unpin
        + Send
        + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = &inside.calls.limits;
    tonic::transport::Server::builder()
        .layer(inside.calls.clone())
        .max_concurrent_streams(Some(128))
        .http2_max_pending_accept_reset_streams(Some(20))
        .http2_max_local_error_reset_streams(Some(256))
        .http2_max_header_list_size(Some(8 * 1024))
        .http2_keepalive_interval(Some(seconds(limits.ping_seconds)))
        .http2_keepalive_timeout(Some(seconds(limits.pong_seconds)))
        .initial_stream_window_size(Some(64 * 1024))
        .initial_connection_window_size(Some(1024 * 1024))
        .add_routes(inside.routes.clone())
        .serve_with_incoming_shutdown(inside.door.let_in(incoming), stop.wait())
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

/// Listens on any address, for TLS.
///
/// # Errors
/// A sentence that says why not.
pub async fn listen_for_tls(address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Has everybody reach a socket, since the config lets others in; who they are, the kernel says at each call.
///
/// # Errors
/// A sentence that says which directory keeps them out, or has to.
pub fn open_to_others(socket: &std::path::Path, data: &std::path::Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let at = socket.display();
    let real = |path: &std::path::Path| {
        let real = std::fs::canonicalize(path);
        real.map_err(|error| format!("{}: {error}", path.display()))
    };
    let (dir, data) = (
        real(socket.parent().unwrap_or(std::path::Path::new(".")))?,
        real(data)?,
    );
    if dir.starts_with(&data) {
        return Err(format!(
            "{at}: [socket] lets others in, and nobody else may enter the data directory: say --socket PATH, somewhere else"
        ));
    }
    for dir in dir.ancestors() {
        let rights =
            std::fs::metadata(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        if rights.permissions().mode() & 0o001 == 0 {
            let dir = dir.display();
            return Err(format!(
                "{at}: [socket] lets others in, and {dir} keeps them out: run `chmod o+x {dir}`, or say --socket PATH, somewhere else"
            ));
        }
    }
    let everybody = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(socket, everybody).map_err(|error| format!("{at}: {error}"))
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
