//! What ends or stops the dashboard from outside: signals, a terminal that is gone, a panic elsewhere.

use std::{io, os::fd::AsFd, process, thread, time::Duration};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, mpsc},
    time::sleep,
};

use super::guard;

/// How long the loop has for its farewell: what asks the program to end expects that within 2 s.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Set by the panic hook.
static PANICKED: Notify = Notify::const_new();

/// Something from outside that the loop must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Leave the loop, drop the screen, exit with [`Ending::code`].
    End(Ending),
    /// Somebody sent SIGTSTP: call [`Screen::suspend`](super::Screen::suspend).
    Suspend,
    /// Stopped and continued: call [`Screen::resume`](super::Screen::resume) and draw.
    Continue,
}

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM, SIGHUP, SIGINT or SIGQUIT, by number.
    Signal(u8),
    /// The terminal is gone, with or without a SIGHUP.
    HungUp,
    /// Another thread or task panicked: the terminal is restored, and the message is out.
    Panicked,
}

impl Ending {
    /// What the program exits with: 128 + n for a signal, that of SIGHUP for a hang-up, 70 for a panic.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Signal(number) => 128 + number,
            Self::HungUp => 129,
            Self::Panicked => 70,
        }
    }
}

/// Interrupts, in the order in which they came.
pub struct Interrupts {
    coming: mpsc::UnboundedReceiver<Interrupt>,
}

impl Interrupts {
    /// Listens from now on, in tasks of its own: a loop that hangs, say in a write to a stalled line, is ended 1.5 s after
    /// a signal has asked for it. Needs a runtime with several threads for that.
    pub fn listen() -> io::Result<Self> {
        let (send, coming) = mpsc::unbounded_channel();
        for (kind, interrupt) in [
            (SignalKind::terminate(), ended_by(SignalKind::terminate())),
            (SignalKind::hangup(), ended_by(SignalKind::hangup())),
            (SignalKind::interrupt(), ended_by(SignalKind::interrupt())),
            (SignalKind::quit(), ended_by(SignalKind::quit())),
            (
                SignalKind::from_raw(nix::sys::signal::SIGTSTP as i32),
                Interrupt::Suspend,
            ),
            (
                SignalKind::from_raw(nix::sys::signal::SIGCONT as i32),
                Interrupt::Continue,
            ),
        ] {
            tokio::spawn(forward(signal(kind)?, interrupt, send.clone()));
        }
        tokio::spawn(forward_panic(send.clone()));
        thread::Builder::new()
            .name("hang-up".to_owned())
            .spawn(move || watch_terminal(&send))?;
        Ok(Self { coming })
    }

    /// The next one. Cancel safe.
    pub async fn next(&mut self) -> Interrupt {
        match self.coming.recv().await {
            Some(interrupt) => interrupt,
            // Only when the runtime is going down: then nothing is left to follow.
            None => std::future::pending().await,
        }
    }
}

/// Called by the panic hook, on the thread that panics.
pub(super) fn report_panic() {
    PANICKED.notify_one();
}

fn ended_by(kind: SignalKind) -> Interrupt {
    Interrupt::End(Ending::Signal(
        u8::try_from(kind.as_raw_value()).unwrap_or(u8::MAX - 128),
    ))
}

async fn forward(mut signal: Signal, interrupt: Interrupt, send: mpsc::UnboundedSender<Interrupt>) {
    while signal.recv().await.is_some() {
        let _ = send.send(interrupt);
        if let Interrupt::End(ending) = interrupt {
            end_after_farewell(ending).await;
        }
    }
}

async fn forward_panic(send: mpsc::UnboundedSender<Interrupt>) {
    PANICKED.notified().await;
    let _ = send.send(Interrupt::End(Ending::Panicked));
    end_after_farewell(Ending::Panicked).await;
}

async fn end_after_farewell(ending: Ending) {
    sleep(FAREWELL).await;
    guard::restore();
    process::exit(ending.code().into());
}

/// A terminal that is not the controlling one, or whose session leader has gone, hangs up without a signal; reading from it
/// would spin. So this thread waits for nothing but the hang-up.
fn watch_terminal(send: &mpsc::UnboundedSender<Interrupt>) {
    let stdin = io::stdin();
    let hang_up = || {
        poll(
            &mut [PollFd::new(stdin.as_fd(), PollFlags::empty())],
            PollTimeout::NONE,
        )
    };
    while matches!(hang_up(), Ok(0) | Err(Errno::EINTR | Errno::EAGAIN)) {}
    let _ = send.send(Interrupt::End(Ending::HungUp));
    thread::sleep(FAREWELL);
    guard::restore();
    process::exit(Ending::HungUp.code().into());
}
