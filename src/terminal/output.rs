//! Frames out: each in a single write, between the marks of a synchronized update.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use crossterm::clipboard::CopyToClipboard;
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate, SetTitle};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getpgrp, getsid},
};
use ratatui::{Frame, Terminal, backend::CrosstermBackend, layout::Rect};

use super::guard::{self, NoScreen, Sent};

/// The bytes of one full frame at 300 × 80 fit more than twice.
const FRAME_BYTES: usize = 64 * 1024;

/// Window titles get no longer than this.
const TITLE_CHARS: usize = 80;

/// The terminal while it is ours. Dropping it gives the terminal back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Sheet>>,
    sheet: Sheet,
    whole: bool,
    title: String,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It is on the terminal.
    Written,
    /// Nothing was drawn: the terminal takes no bytes now, has no size, or is suspended. Try again later.
    Skipped,
    /// The terminal is gone: leave quietly.
    HungUp,
}

/// What became of the wish to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// The process group was stopped; [`Interrupt::Continue`](super::Interrupt) says when it goes on.
    Stopped,
    /// Nobody could bring us back: no shell with job control has started us.
    NoShell,
}

impl Screen {
    /// Takes the terminal: raw mode, alternate screen, pasted text marked as such.
    pub fn enter() -> Result<Self, NoScreen> {
        guard::check()?;
        guard::take()?;
        let sheet = Sheet::default();
        let terminal = Terminal::new(CrosstermBackend::new(sheet.clone()));
        let terminal = terminal.inspect_err(|_| guard::restore())?;
        Ok(Self {
            terminal,
            sheet,
            whole: true,
            title: String::new(),
        })
    }

    /// Draws a frame and sends what differs from the last one.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<Drawn> {
        self.try_draw(view).or_else(|error| {
            if gone(&error) {
                Ok(Drawn::HungUp)
            } else {
                Err(error)
            }
        })
    }

    fn try_draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<Drawn> {
        if !guard::is_taken() {
            return Ok(Drawn::Skipped);
        }
        let (width, height) = self.size()?;
        if width == 0 || height == 0 || !guard::is_ready() {
            return Ok(Drawn::Skipped);
        }
        let mut codes = String::new();
        guard::put(&mut codes, BeginSynchronizedUpdate);
        self.sheet.write_all(codes.as_bytes())?;
        if mem::take(&mut self.whole) {
            self.terminal.resize(Rect::new(0, 0, width, height))?;
        }
        self.terminal.draw(view)?;
        codes.clear();
        guard::put(&mut codes, EndSynchronizedUpdate);
        self.sheet.write_all(codes.as_bytes())?;
        let sent = guard::write(&self.sheet.tear_off());
        self.whole = !matches!(sent, Ok(Sent::Whole));
        Ok(match sent? {
            Sent::Whole => Drawn::Written,
            Sent::NotOurs => Drawn::Skipped,
        })
    }

    /// Makes the next frame a full one: after a resize, also to the same size, since that is how a multiplexer tells that
    /// somebody else looks on now; and when the operator asks for it.
    pub fn repaint(&mut self) {
        self.whole = true;
    }

    /// Gives the terminal back and stops the process group, as the shell expects of Ctrl-Z. Nothing is drawn until
    /// [`Screen::resume`].
    pub fn suspend(&mut self) -> io::Result<Suspended> {
        // Without job control our group is that of the session's leader, and nobody is left to say `fg`.
        if getsid(None)? == getpgrp() {
            return Ok(Suspended::NoShell);
        }
        guard::restore();
        // Not SIGTSTP: we catch it. The whole group, so that what wraps us stops with us.
        kill(Pid::from_raw(0), Signal::SIGSTOP)?;
        Ok(Suspended::Stopped)
    }

    /// Takes the terminal again after a stop, whoever stopped us: the shell may have changed it. A terminal that is gone is
    /// no error here: a hang-up continues the stopped, too, and the [`Interrupt`](super::Interrupt) that says so is coming.
    pub fn resume(&mut self) -> Result<(), NoScreen> {
        guard::restore();
        match guard::take() {
            Err(_) if guard::is_gone() => return Ok(()),
            taken => taken?,
        }
        self.whole = true;
        let title = mem::take(&mut self.title);
        let _ = self.set_title(&title);
        Ok(())
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        let size = crossterm::terminal::window_size()?;
        Ok((size.columns, size.rows))
    }

    /// Names the window. Only printable ASCII, and 80 characters of it, get there.
    pub fn set_title(&mut self, title: &str) -> io::Result<()> {
        let title: String = title
            .chars()
            .filter(|c| matches!(c, ' '..='~'))
            .take(TITLE_CHARS)
            .collect();
        if title == self.title {
            return Ok(());
        }
        let mut codes = String::new();
        guard::put(&mut codes, SetTitle(&title));
        self.title = title;
        send(codes.as_bytes())
    }

    /// Puts text on the clipboard of the terminal that the operator sits at, also over SSH (OSC 52).
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut codes = String::new();
        guard::put(&mut codes, CopyToClipboard::to_clipboard_from(text));
        send(codes.as_bytes())
    }

    /// Rings.
    pub fn bell(&mut self) -> io::Result<()> {
        send(b"\x07")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        guard::restore();
    }
}

/// Sends what is no frame. A terminal that is gone is no error here: the [`Interrupt`](super::Interrupt) that says so is
/// coming.
fn send(codes: &[u8]) -> io::Result<()> {
    match guard::write(codes) {
        Err(error) if !gone(&error) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether an error says that nobody is at the other end.
fn gone(error: &io::Error) -> bool {
    guard::is_gone()
        || error.kind() == io::ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(nix::errno::Errno::EIO as i32)
}

/// Where a frame is put together. Flushing does nothing, since the drawing library flushes within a frame; and nothing
/// fails, since its destructor prints errors.
#[derive(Clone)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Default for Sheet {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Vec::with_capacity(FRAME_BYTES))))
    }
}

impl Sheet {
    fn tear_off(&self) -> Vec<u8> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut bytes, Vec::with_capacity(FRAME_BYTES))
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
