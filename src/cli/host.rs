//! A server in this process: what `serve` is, and what local mode keeps behind its dashboard.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use tokio::{
    io::DuplexStream,
    net::{TcpListener, UnixListener},
    sync::mpsc,
    task::JoinHandle,
};

use super::{args, exit::Stopped, place::hash_of_token};
use crate::{
    connect::Client,
    serve::{
        Listeners, Server, SocketFile, checkpoint,
        clock::Clock,
        home::Home,
        identity::Identity,
        listen_on_loopback, listen_on_socket,
        owner::{Fatal, Owner},
        retention::Retention,
        sealed::Sealer,
        stop::Stop,
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
    pub(crate) identity: Identity,
    pub(crate) goldfive: Option<(TcpListener, Option<registry::digest::Sha256>)>,
}

impl Doors {
    /// Only the socket.
    pub(crate) fn local(socket: PathBuf) -> Self {
        Self {
            socket,
            tcp: None,
            identity: Identity::of_the_socket(),
            goldfive: None,
        }
    }

    /// As the command line says.
    pub(crate) async fn of(serve: &args::Serve, socket: PathBuf) -> Result<Self, Stopped> {
        let mut doors = Self::local(socket);
        if let (Some(address), Some(tokens)) = (serve.listen, &serve.tokens) {
            doors.identity = Identity::with_tokens(tokens).map_err(Stopped::usage)?;
            let listener = listen_on_loopback(address).await;
            doors.tcp = Some(listener.map_err(Stopped::usage)?);
        }
        if let Some(address) = serve.goldfive {
            let hash = serve.goldfive_token_file.as_deref().map(hash_of_token);
            let hash = hash.transpose()?;
            let listener = listen_on_loopback(address).await;
            doors.goldfive = Some((listener.map_err(Stopped::usage)?, hash));
        }
        Ok(doors)
    }
}

impl Host {
    /// Opens the log of a data directory, and begins to answer.
    pub(crate) fn start(
        home: Home,
        doors: Doors,
        clock: Clock,
        fatal: Fatal,
    ) -> Result<Self, Stopped> {
        let socket = open_socket(&doors.socket)?;
        let log = home
            .log()
            .map_err(|error| Stopped::fault(error.to_string()))?;
        let owner = Owner::start(Box::new(log), clock, Some(home.reserve()), fatal)
            .map_err(|error| Stopped::fault(error.to_string()))?;
        owner.keep(Retention::default());
        owner.seal_with(Sealer::of(home.dir()).map_err(Stopped::fault)?);
        let stop = Stop::default();
        let tcp = doors.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let goldfive = doors
            .goldfive
            .as_ref()
            .and_then(|(tcp, _)| tcp.local_addr().ok());
        let tcp = tcp.map(|at| format!("http://{at}"));
        let goldfive = goldfive.map(|at| format!("{at} for goldfive agents"));
        let also = tcp.into_iter().chain(goldfive).collect();
        let (pipe, pipes) = mpsc::channel(PIPES);
        let listeners = Listeners {
            socket: Some(socket),
            tcp: doors.tcp,
            pipe: Some(pipes),
        };
        let server = Server::new(owner.clone(), doors.identity, stop.clone());
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

/// The socket, in a directory that only its owner can enter.
fn open_socket(path: &Path) -> Result<UnixListener, Stopped> {
    if let Some(dir) = path.parent() {
        let make = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir);
        make.map_err(|error| Stopped::usage(format!("{}: {error}", dir.display())))?;
    }
    listen_on_socket(path).map_err(Stopped::usage)
}
