//! Who may be connected: so many from one place, and each has to say soon that it speaks our protocol.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use super::{
    Pipe,
    limits::{Limits, seconds},
    metrics::Metrics,
    rates::{Place, SeldomBy},
};

/// HTTP/2 begins with 24 bytes and a frame of settings, whose head has 9.
const FIRST_WORD_BYTES: usize = 24 + 9;
/// How often it is said of one place that its connections are refused.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whence {
    Address(IpAddr),
    Socket,
    Within,
}

impl Whence {
    fn limit(self, limits: &Limits) -> u32 {
        match self {
            Self::Address(ip) if ip.is_loopback() => limits.connections_loopback,
            Self::Address(_) => limits.connections_per_address,
            Self::Socket => limits.connections_socket,
            Self::Within => u32::MAX,
        }
    }
}

/// A connection that says where it comes from; none if it is gone already.
pub(super) trait Comes {
    fn whence(&self) -> Option<Whence>;
}

impl Comes for TcpStream {
    fn whence(&self) -> Option<Whence> {
        let peer = self.peer_addr().ok()?;
        Some(Whence::Address(peer.ip().to_canonical()))
    }
}

impl Comes for tokio_rustls::server::TlsStream<TcpStream> {
    fn whence(&self) -> Option<Whence> {
        self.get_ref().0.whence()
    }
}

impl Comes for UnixStream {
    fn whence(&self) -> Option<Whence> {
        Some(Whence::Socket)
    }
}

impl Comes for Pipe {
    fn whence(&self) -> Option<Whence> {
        Some(Whence::Within)
    }
}

/// The door of every listener.
#[derive(Clone)]
pub(super) struct Door {
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
    said: SeldomBy<Whence>,
}

impl Door {
    pub(super) fn new(limits: Arc<Limits>, metrics: Arc<Metrics>) -> Self {
        Self {
            limits,
            metrics,
            said: SeldomBy::default(),
        }
    }

    /// The connections that are let in. The others are closed at once: what they cost is one `accept`.
    pub(super) fn let_in<IO: Comes, E>(
        &self,
        incoming: impl Stream<Item = Result<IO, E>>,
    ) -> impl Stream<Item = Result<LetIn<IO>, E>> {
        let door = self.clone();
        incoming.filter_map(move |connection| match connection {
            Ok(io) => door.one(io).map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    fn one<IO: Comes>(&self, io: IO) -> Option<LetIn<IO>> {
        let from = io.whence()?;
        let limit = from.limit(&self.limits);
        let Some(place) = self.metrics.connections.take(from, limit) else {
            self.metrics.connections_refused.add(1);
            if self.said.now(from, SAID_EVERY) {
                tracing::warn!("{from:?}: {limit} connections are open; more are closed at once");
            }
            return None;
        };
        let patience = sleep(seconds(self.limits.first_word_seconds));
        Some(LetIn {
            io,
            _place: place,
            patience: Some(Box::pin(patience)),
            heard: 0,
        })
    }
}

/// A connection that was let in.
pub(super) struct LetIn<IO> {
    io: IO,
    _place: Place<Whence>,
    /// Gone once it has said its first word.
    patience: Option<Pin<Box<Sleep>>>,
    heard: usize,
}

impl<IO: Connected> Connected for LetIn<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for LetIn<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if let Some(patience) = &mut self.patience {
            let late = patience.as_mut().poll(context).is_ready();
            self.heard += buffer.filled().len() - before;
            if self.heard >= FIRST_WORD_BYTES {
                self.patience = None;
            } else if late {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for LetIn<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
