//! A line between a dashboard and its server that can be held or cut.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

use tempfile::TempDir;

use crate::server::Server;

/// Takes connections on a socket of its own, in `dir()/sock`, and passes them on.
pub(crate) struct Relay {
    dir: TempDir,
    line: Arc<Line>,
}

#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: bool,
    /// Counts the cuts: what was held before one is never delivered.
    cuts: u64,
    sockets: Vec<UnixStream>,
}

impl Relay {
    pub(crate) fn to(server: &Server) -> Self {
        let relay = Self {
            dir: TempDir::new().unwrap(),
            line: Arc::default(),
        };
        let listener = UnixListener::bind(relay.dir.path().join("sock")).unwrap();
        let (line, to) = (Arc::clone(&relay.line), server.socket());
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(connection) = connection else { return };
                line.join(connection, &to);
            }
        });
        relay
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// From now on the server hears everything and is not heard.
    pub(crate) fn hold(&self) {
        self.line.lock().held = true;
    }

    /// What was held arrives.
    pub(crate) fn release(&self) {
        self.line.lock().held = false;
        self.line.changed.notify_all();
    }

    /// All connections end; what was held is lost.
    pub(crate) fn cut(&self) {
        let mut state = self.line.lock();
        state.cuts += 1;
        state.held = false;
        for socket in state.sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.line.changed.notify_all();
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn join(self: &Arc<Self>, dashboard: UnixStream, server: &PathBuf) {
        // Dropped, where no server is: the dashboard sees its connection end.
        let Ok(server) = UnixStream::connect(server) else {
            return;
        };
        let mut state = self.lock();
        let cuts = state.cuts;
        state.sockets.push(dashboard.try_clone().unwrap());
        state.sockets.push(server.try_clone().unwrap());
        drop(state);
        let (from, to) = (dashboard.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || pass(from, to, || true));
        let line = Arc::clone(self);
        thread::spawn(move || pass(server, dashboard, || line.may_pass(cuts)));
    }

    /// Waits while the line is held. False: it was cut.
    fn may_pass(&self, cuts: u64) -> bool {
        let state = self.lock();
        let waiting = |state: &mut State| state.held && state.cuts == cuts;
        let state = self.changed.wait_while(state, waiting).unwrap();
        state.cuts == cuts
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, may_pass: impl Fn() -> bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !may_pass() || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
