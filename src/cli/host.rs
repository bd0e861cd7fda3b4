//! A server in this process: what `serve` is, and what local mode keeps behind its dashboard.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    io::DuplexStream,
    net::{TcpListener, UnixListener},
    sync::{Notify, mpsc},
    task::JoinHandle,
};

use super::{
    args,
    exit::{self, Stopped},
    place::hash_of_token,
    print,
};
use crate::{
    connect::Client,
    serve::{
        Listeners, Server, SocketFile, checkpoint,
        clock::Clock,
        config::{self, Config},
        gate::Gate,
        home::Home,
        identity::Identity,
        limits::Limits,
        listen_for_tls, listen_on_loopback, listen_on_socket,
        metrics::Page,
        open_to_others,
        owner::{Fatal, Owner},
        retention::Retention,
        sealed::Sealer,
        stop::Stop,
        tls::Tls,
    },
    sources::goldfive::{self, Door},
};

/// Connections from within that may wait to be taken.
const PIPES: usize = 4;
/// What one direction of the pipe within this process holds.
const PIPE_BYTES: usize = 64 * 1024;

/// A server in this process.
pub(crate) struct Host {
    pub(crate) owner: Owner,
    pub(crate) stop: Stop,
    /// Whoever notifies it has the files of identity read again.
    pub(crate) reload: Arc<Notify>,
    pipe: mpsc::Sender<DuplexStream>,
    serving: JoinHandle<Result<(), Stopped>>,
    _home: Home,
    socket: SocketFile,
    also: Vec<String>,
}

/// What it is to listen on.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) socket: PathBuf,
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) tls: Option<(TcpListener, Arc<Tls>)>,
    pub(crate) identity: Identity,
    /// Where the data is, if others than its owner may come in by the socket.
    open_beside: Option<PathBuf>,
    pub(crate) goldfive: Option<(TcpListener, Option<registry::digest::Sha256>)>,
    gate: Gate,
    pub(crate) metrics: Option<TcpListener>,
    limits: Limits,
    retention: Retention,
}

impl Doors {
    /// Only the socket.
    pub(crate) fn local(socket: PathBuf) -> Self {
        Self {
            socket,
            tcp: None,
            tls: None,
            open_beside: None,
            identity: Identity::of_the_socket(),
            goldfive: None,
            gate: Gate::default(),
            metrics: None,
            limits: Limits::default(),
            retention: Retention::default(),
        }
    }

    /// As the config file says, and the command line over it.
    pub(crate) async fn of(
        serve: &args::Serve,
        socket: PathBuf,
        data: &Path,
    ) -> Result<Self, Stopped> {
        let config = configured(serve)?;
        let mut doors = Self::local(socket);
        doors.identity = Identity::of(&config).map_err(Stopped::usage)?;
        doors.gate = config.rules().map_err(Stopped::usage)?;
        doors.open_beside = config.socket.maps_others().then(|| data.to_owned());
        if let (Some(address), Some(files)) = (config.listen.tls, &config.tls) {
            let tls = Tls::read(files, config.tokens.is_some() || config.oidc.is_some());
            let tls = tls.map_err(Stopped::usage)?.into();
            let listener = listen_for_tls(address).await;
            doors.tls = Some((listener.map_err(Stopped::usage)?, tls));
        }
        if let Some(address) = config.listen.tcp {
            let listener = listen_on_loopback(address).await;
            doors.tcp = Some(listener.map_err(Stopped::usage)?);
        }
        if let Some(door) = &config.goldfive {
            let hash = door.token_file.as_deref().map(hash_of_token);
            let hash = hash.transpose()?;
            let listener = listen_on_loopback(door.listen).await;
            doors.goldfive = Some((listener.map_err(Stopped::usage)?, hash));
        }
        doors.limits = config.limits.clone();
        doors.retention = config.keeps().map_err(Stopped::usage)?;
        let metrics = config.metrics.map(|metrics| metrics.listen);
        if let Some(address) = serve.metrics.or(metrics) {
            let listener = listen_on_loopback(address).await;
            doors.metrics = Some(listener.map_err(Stopped::usage)?);
        }
        Ok(doors)
    }
}

/// The config file, with the flags over it.
fn configured(serve: &args::Serve) -> Result<Config, Stopped> {
    let read = serve.config.as_deref().map(Config::read).transpose();
    let mut config = read.map_err(Stopped::usage)?.unwrap_or_default();
    config.listen.tcp = serve.listen.or(config.listen.tcp);
    if let Some(file) = serve.tokens.clone() {
        config.tokens = Some(config::Tokens { file });
    }
    if let Some(listen) = serve.goldfive {
        let token_file = config.goldfive.and_then(|door| door.token_file);
        config.goldfive = Some(config::Goldfive { listen, token_file });
    }
    if let Some(file) = serve.goldfive_token_file.clone() {
        let Some(door) = &mut config.goldfive else {
            let what = "--goldfive-token-file: there is no door for it: say --goldfive, or [goldfive] in the config";
            return Err(Stopped::usage(what));
        };
        door.token_file = Some(file);
    }
    config.check().map_err(Stopped::usage)?;
    Ok(config)
}

/// Reads a config file as [`Doors::of`] does, and says what it found.
pub(crate) fn check(file: &Path) -> Result<u8, Stopped> {
    let mut config = Config::read(file).map_err(Stopped::usage)?;
    // The server makes its key itself, as the user that it runs as.
    config.tickets.key = config.tickets.key.filter(|key| key.exists());
    Identity::of(&config).map_err(Stopped::usage)?;
    if let Some(files) = &config.tls {
        let bearer = config.tokens.is_some() || config.oidc.is_some();
        Tls::read(files, bearer).map_err(Stopped::usage)?;
    }
    if let Some(path) = config.goldfive.and_then(|door| door.token_file) {
        hash_of_token(&path)?;
    }
    print::line("ok")?;
    Ok(exit::DONE)
}

impl Host {
    /// Opens the log of a data directory, and begins to answer.
    pub(crate) fn start(
        home: Home,
        doors: Doors,
        clock: Clock,
        fatal: Fatal,
    ) -> Result<Self, Stopped> {
        let socket = open_socket(&doors.socket, doors.open_beside.as_deref())?;
        let log = home
            .log()
            .map_err(|error| Stopped::fault(error.to_string()))?;
        let owner = Owner::start(Box::new(log), clock, Some(home.reserve()), fatal)
            .map_err(|error| Stopped::fault(error.to_string()))?;
        owner.keep(doors.retention);
        owner.seal_with(Sealer::of(home.dir()).map_err(Stopped::fault)?);
        let stop = Stop::default();
        let tcp = doors.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let goldfive = doors
            .goldfive
            .as_ref()
            .and_then(|(tcp, _)| tcp.local_addr().ok());
        let tcp = tcp.map(|at| format!("http://{at}"));
        let tls = doors
            .tls
            .as_ref()
            .and_then(|(tcp, _)| tcp.local_addr().ok());
        let tls = tls.map(|at| format!("https://{at}"));
        let goldfive = goldfive.map(|at| format!("{at} for goldfive agents"));
        let also = tcp.into_iter().chain(tls).chain(goldfive).collect();
        let (pipe, pipes) = mpsc::channel(PIPES);
        let listeners = Listeners {
            socket: Some(socket),
            tcp: doors.tcp,
            tls: doors.tls,
            pipe: Some(pipes),
        };
        let server = Server::new(owner.clone(), doors.identity, stop.clone())
            .gated(doors.gate)
            .with_limits(doors.limits);
        let reload = server.reload();
        if let Some(listener) = doors.metrics {
            let page = Page {
                metrics: server.metrics(),
                owner: owner.clone(),
                wal: Some(home.wal()),
            };
            tokio::spawn(page.serve(listener, stop.clone()));
        }
        let door = doors.goldfive.map(|(listener, token)| {
            let door = Door::new(owner.clone(), token, stop.subscribe());
            (door, listener)
        });
        let lost = owner.clone();
        let mut checkpoints = checkpoint::Keeper::of(home.dir());
        let (noted, stopping) = (owner.clone(), stop.clone());
        let serving = tokio::spawn(async move {
            goldfive::part_from_the_lost(&lost).await;
            let door = async {
                match door {
                    Some((door, listener)) => door.run(listener).await,
                    None => Ok(()),
                }
            };
            let kept = checkpoints.keep(&noted, &stopping);
            let (served, let_in, ()) = tokio::join!(server.run(listeners), door, kept);
            // Whatever was recorded until the end is signed.
            checkpoints.write(&noted).await;
            served
                .and(let_in)
                .map_err(|error| Stopped::fault(format!("the server failed: {error}")))
        });
        Ok(Self {
            owner,
            stop,
            reload,
            pipe,
            serving,
            _home: home,
            socket: SocketFile(doors.socket),
            also,
        })
    }

    /// A client of it, without leaving this process.
    pub(crate) fn client(&self) -> Client {
        let pipe = self.pipe.clone();
        Client::over(move || {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            pipe.try_send(theirs).map_err(std::io::Error::other)?;
            Ok(ours)
        })
    }

    /// Where it answers, for people.
    pub(crate) fn addresses(&self) -> String {
        let socket = format!("unix:{}", self.socket.0.display());
        let all: Vec<String> = [socket]
            .into_iter()
            .chain(self.also.iter().cloned())
            .collect();
        all.join(", ")
    }

    /// Answers until it fails or is told to stop.
    pub(crate) async fn until_it_ends(&mut self) -> Result<(), Stopped> {
        let ended = (&mut self.serving).await;
        ended.unwrap_or_else(|error| Err(Stopped::fault(format!("the server failed: {error}"))))
    }
}

/// The socket, in a directory that only its owner can enter; or everybody, who then come in as the config says.
fn open_socket(path: &Path, open_beside: Option<&Path>) -> Result<UnixListener, Stopped> {
    if let Some(dir) = path.parent() {
        let make = fs::DirBuilder::new()
            .recursive(true)
            .mode(if open_beside.is_some() { 0o711 } else { 0o700 })
            .create(dir);
        make.map_err(|error| Stopped::usage(format!("{}: {error}", dir.display())))?;
    }
    let socket = listen_on_socket(path).map_err(Stopped::usage)?;
    if let Some(data) = open_beside {
        open_to_others(path, data).map_err(|why| {
            let _ = fs::remove_file(path);
            Stopped::usage(why)
        })?;
    }
    Ok(socket)
}
