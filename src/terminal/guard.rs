//! Taking the terminal and giving it back.
//!
//! Invariant: bytes reach the terminal only while it is ours; [`restore`] may be called from any thread, any number of
//! times, and never prints, waits long, or fails.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::{AsFd, BorrowedFd},
    panic,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crossterm::{
    Command, cursor,
    event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange},
    style::ResetColor,
    terminal::{self, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen},
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::signals;

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Standard output, unbuffered. The lock keeps a frame from being written after another thread has restored the terminal.
static TTY: Mutex<Option<File>> = Mutex::new(None);

/// XTerm keeps titles on a stack; others ignore both.
const PUSH_TITLE: &str = "\x1b[22;0t";
const POP_TITLE: &str = "\x1b[23;0t";

/// How often, every 10 ms, a restore tries to get hold of a terminal that is being written to.
const LOCK_TRIES: u32 = 20;

/// How long a restore waits for a terminal that takes no bytes.
const STALLED_MS: u16 = 200;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum NoScreen {
    /// Output or input goes elsewhere.
    #[error("{0} is not a terminal; the dashboard needs one")]
    NotATerminal(&'static str),
    /// No way to place anything.
    #[error(
        "TERM is {0:?}, which cannot place text; set it to what your terminal is, such as xterm-256color"
    )]
    Dumb(String),
    /// There is one screen, and it is in use.
    #[error("the screen is in use already")]
    Taken,
    /// The terminal refused.
    #[error("the terminal cannot be set up: {0}")]
    Io(#[from] io::Error),
}

impl NoScreen {
    /// What the program exits with: 64, a usage error, where the caller can do something about it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotATerminal(_) | Self::Dumb(_) => 64,
            Self::Taken | Self::Io(_) => 70,
        }
    }
}

/// Whether the bytes are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    NotOurs,
}

/// Makes every panic give the terminal back first, then print as before, then end the loop with
/// [`Ending::Panicked`](super::Ending). Call it after `color_eyre` has installed its own.
pub fn install_panic_hook() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore();
        // Printing to a terminal that is gone would panic within the panic.
        if !hung_up(io::stderr().as_fd()) {
            print(info);
        }
        signals::report_panic();
    }));
}

/// Gives the terminal back as it was. Does nothing where that has been done.
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    if let Some(file) = hold().as_mut().and_then(|tty| tty.as_mut())
        && ready(file.as_fd(), STALLED_MS)
    {
        let _ = file.write_all(leaving().as_bytes());
    }
    let _ = terminal::disable_raw_mode();
}

/// Says no where there is nothing to draw on, and touches nothing.
///
/// # Errors
/// [`NoScreen`], and what to do about it.
pub fn check() -> Result<(), NoScreen> {
    if !io::stdin().is_terminal() {
        return Err(NoScreen::NotATerminal("standard input"));
    }
    if !io::stdout().is_terminal() {
        return Err(NoScreen::NotATerminal("standard output"));
    }
    let term = env::var("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        return Err(NoScreen::Dumb(term));
    }
    Ok(())
}

/// Takes the terminal: raw first, so that nothing typed meanwhile is echoed over the first frame.
pub(super) fn take() -> Result<(), NoScreen> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(NoScreen::Taken);
    }
    let taken = set_up();
    if taken.is_err() {
        restore();
    }
    Ok(taken?)
}

fn set_up() -> io::Result<()> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    *TTY.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    terminal::enable_raw_mode()?;
    write(entering().as_bytes()).map(|_| ())
}

fn entering() -> String {
    let mut codes = PUSH_TITLE.to_owned();
    put(&mut codes, EnterAlternateScreen);
    put(&mut codes, EnableBracketedPaste);
    put(&mut codes, EnableFocusChange);
    put(&mut codes, cursor::Hide);
    codes
}

fn leaving() -> String {
    let mut codes = String::new();
    put(&mut codes, EndSynchronizedUpdate);
    put(&mut codes, ResetColor);
    put(&mut codes, DisableFocusChange);
    put(&mut codes, DisableBracketedPaste);
    put(&mut codes, LeaveAlternateScreen);
    put(&mut codes, cursor::Show);
    codes.push_str(POP_TITLE);
    codes
}

/// Appends a terminal's code for a command. Writing to a string cannot fail.
pub(super) fn put(codes: &mut String, command: impl Command) {
    let _ = command.write_ansi(codes);
}

/// Writes everything in one go, or nothing if the terminal is not ours any more.
pub(super) fn write(bytes: &[u8]) -> io::Result<Sent> {
    let mut tty = TTY.lock().unwrap_or_else(PoisonError::into_inner);
    match tty.as_mut() {
        Some(file) if is_taken() => write_whole(file, bytes).map(|()| Sent::Whole),
        _ => Ok(Sent::NotOurs),
    }
}

/// Like `write_all`, also where somebody has made the terminal non-blocking.
fn write_whole(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready(file.as_fd(), STALLED_MS);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the terminal is ours.
pub(super) fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// Whether the terminal takes bytes now: a stopped or slow line does not.
pub(super) fn is_ready() -> bool {
    ready(io::stdout().as_fd(), 0)
}

fn ready(tty: BorrowedFd<'_>, patience_ms: u16) -> bool {
    let mut waiting = [PollFd::new(tty, PollFlags::POLLOUT)];
    // A hang-up counts as ready, so that the write fails and says so.
    !matches!(poll(&mut waiting, PollTimeout::from(patience_ms)), Ok(0))
}

/// Whether nobody is at the other end of the terminal.
pub(super) fn is_gone() -> bool {
    hung_up(io::stdout().as_fd())
}

fn hung_up(tty: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(tty, PollFlags::empty())];
    matches!(poll(&mut asked, PollTimeout::ZERO), Ok(1..))
}

/// The terminal, unless a write is stuck in it.
fn hold() -> Option<MutexGuard<'static, Option<File>>> {
    for _ in 0..LOCK_TRIES {
        match TTY.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
        }
    }
    None
}
