//! A terminal for tests: a program runs in a pseudo-terminal, and what it draws is read as a person would, from an emulated
//! screen.
//!
//! Invariant: every wait is for a whole frame, never for bytes that went by, and fails with the screen in its message.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io::{Read, Write},
    mem,
    num::NonZeroU16,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

/// Generous, since machines that build share their cores.
const PATIENCE: Duration = Duration::from_secs(20);

const SHOW_CURSOR: u16 = 25;
const SYNCHRONIZED_UPDATE: u16 = 2026;

/// A program in a terminal of its own. Dropping it kills the program.
pub(crate) struct Pty {
    child: Box<dyn Child + Send + Sync>,
    terminal: Option<(Box<dyn MasterPty + Send>, Box<dyn Write + Send>)>,
    shared: Arc<Shared>,
    before: Settings,
    home: TempDir,
}

/// What `tcgetattr` says, to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings(String);

/// Whether the terminal is the session's, so that closing it sends SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    Controlling,
    NotControlling,
}

struct Shared {
    emulator: Mutex<Emulator>,
    changed: Condvar,
}

struct Emulator {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    modes: Modes,
    reading: Reading,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Going,
    Stopping,
    Ended,
}

impl Pty {
    /// Starts a program with nothing of our environment but the path, in its own empty home.
    pub(crate) fn spawn(
        program: impl AsRef<OsStr>,
        args: &[&str],
        env: &[(&str, &str)],
        rows: u16,
        cols: u16,
    ) -> Self {
        Self::spawn_on(Terminal::Controlling, program, args, env, rows, cols)
    }

    /// Like [`Pty::spawn`], with a say in what the terminal is to the program.
    pub(crate) fn spawn_on(
        terminal: Terminal,
        program: impl AsRef<OsStr>,
        args: &[&str],
        env: &[(&str, &str)],
        rows: u16,
        cols: u16,
    ) -> Self {
        let pair = native_pty_system().openpty(size(rows, cols)).unwrap();
        let home = TempDir::new().unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(home.path());
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home.path());
        command.env("TERM", "xterm-256color");
        command.env("COLORTERM", "truecolor");
        command.env("LANG", "C.UTF-8");
        for (name, value) in env {
            command.env(name, value);
        }
        command.set_controlling_tty(terminal == Terminal::Controlling);
        let before = settings(pair.master.as_ref());
        let child = pair.slave.spawn_command(command).unwrap();
        let reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let shared = Arc::new(Shared::new(rows, cols));
        let theirs = Arc::clone(&shared);
        thread::spawn(move || theirs.read_from(reader));
        Self {
            child,
            terminal: Some((pair.master, writer)),
            shared,
            before,
            home,
        }
    }

    /// The program's home directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, text: &str) {
        let (_, writer) = self.terminal.as_mut().expect("the terminal is closed");
        writer.write_all(text.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Presses keys, one after the other, written as in `keymap.toml`: `"j j enter"`.
    pub(crate) fn keys(&mut self, keys: &str) {
        for key in keys.split_whitespace() {
            self.send(&bytes_of(key));
        }
    }

    /// Pastes, as a terminal does that was asked to mark it.
    pub(crate) fn paste(&mut self, text: &str) {
        self.send(&format!("\x1b[200~{text}\x1b[201~"));
    }

    /// Changes the size of the window; the program gets SIGWINCH.
    pub(crate) fn resize(&mut self, rows: u16, cols: u16) {
        let mut emulator = self.shared.lock();
        emulator.parser.set_size(at_least_1(rows), at_least_1(cols));
        drop(emulator);
        let (master, _) = self.terminal.as_ref().expect("the terminal is closed");
        master.resize(size(rows, cols)).unwrap();
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// The program's process.
    pub(crate) fn pid(&self) -> Pid {
        let id = self.child.process_id().expect("a process");
        Pid::from_raw(id.try_into().unwrap())
    }

    /// The process that has the terminal, where a shell has started it.
    pub(crate) fn foreground(&self) -> Pid {
        let (master, _) = self.terminal.as_ref().expect("the terminal is closed");
        Pid::from_raw(master.process_group_leader().expect("a foreground process"))
    }

    /// Waits until a frame is whole and as described; `what` is for the message when it never is.
    pub(crate) fn wait_for(&mut self, is_so: impl Fn(&vt100::Screen) -> bool, what: &str) {
        let until = Instant::now() + PATIENCE;
        let mut emulator = self.shared.lock();
        loop {
            let whole = !emulator.modes.on.contains(&SYNCHRONIZED_UPDATE);
            if whole && is_so(emulator.parser.screen()) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let why = match emulator.reading {
                _ if left.is_zero() => "in 20 s",
                Reading::Going => "",
                Reading::Stopping | Reading::Ended => "before the program ended",
            };
            assert!(
                why.is_empty(),
                "no {what} {why}; the screen:\n{}",
                show(emulator.parser.screen())
            );
            emulator = self.shared.wait(emulator, left);
        }
    }

    /// Waits until a text stands somewhere on the screen, within a row.
    pub(crate) fn wait_text(&mut self, text: &str) {
        self.wait_for(
            |screen| has_text(screen, text),
            &format!("{text:?} on the screen"),
        );
    }

    /// The screen as it is now.
    pub(crate) fn screen(&self) -> vt100::Screen {
        self.shared.lock().parser.screen().clone()
    }

    /// Everything that was written so far. For what the screen cannot say; never to wait for something.
    pub(crate) fn raw_bytes(&self) -> Vec<u8> {
        self.shared.lock().bytes.clone()
    }

    /// Fails where the program has ended, so that a crash does not pass for silence.
    pub(crate) fn assert_alive(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "the program ended, {ended:?}; the screen:\n{}",
            show(&self.screen())
        );
    }

    /// Waits for the end of the program, and of what it wrote.
    pub(crate) fn exit_status(&mut self) -> ExitStatus {
        self.exit_status_within(PATIENCE)
    }

    /// Like [`Pty::exit_status`], with less patience.
    pub(crate) fn exit_status_within(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < until,
                "no end in {patience:?}; the screen:\n{}",
                show(&self.screen())
            );
            thread::sleep(Duration::from_millis(5));
        };
        let mut emulator = self.shared.lock();
        let until = Instant::now() + PATIENCE;
        while self.terminal.is_some()
            && emulator.reading == Reading::Going
            && Instant::now() < until
        {
            emulator = self.shared.wait(emulator, Duration::from_millis(50));
        }
        status
    }

    /// How the terminal was set before the program began.
    pub(crate) fn settings_before(&self) -> &Settings {
        &self.before
    }

    /// How the terminal is set now.
    pub(crate) fn settings(&self) -> Settings {
        let (master, _) = self.terminal.as_ref().expect("the terminal is closed");
        settings(master.as_ref())
    }

    /// The private modes that are on and would not be in a new terminal: alternate screen (1049), paste marks (2004),
    /// focus (1004), mouse (1000 to 1006), synchronized update (2026); and 25 if the cursor is hidden.
    pub(crate) fn modes_left_on(&self) -> BTreeSet<u16> {
        self.shared.lock().modes.changed()
    }

    /// Fails where the program has not given the terminal back as it was.
    pub(crate) fn assert_restored(&self) {
        let screen = self.screen();
        assert_eq!(
            self.modes_left_on(),
            BTreeSet::new(),
            "modes left on; the screen:\n{}",
            show(&screen)
        );
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
        assert_eq!(self.settings(), self.before);
    }

    /// Closes the terminal, as a dropped connection does.
    pub(crate) fn hang_up(&mut self) {
        let (master, writer) = self
            .terminal
            .take()
            .expect("the terminal is closed already");
        self.shared.lock().reading = Reading::Stopping;
        // The reader sleeps in a read that holds the terminal open; a byte from the other side wakes it.
        let name = master.tty_name().expect("a terminal with a name");
        nudge(&name);
        let mut emulator = self.shared.lock();
        while emulator.reading != Reading::Ended {
            emulator = self.shared.wait(emulator, Duration::from_millis(50));
        }
        drop((writer, master));
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shared {
    fn new(rows: u16, cols: u16) -> Self {
        let parser = vt100::Parser::new(at_least_1(rows), at_least_1(cols), 0);
        let emulator = Emulator {
            parser,
            bytes: Vec::new(),
            modes: Modes::default(),
            reading: Reading::Going,
        };
        Self {
            emulator: Mutex::new(emulator),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Emulator> {
        self.emulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        held: MutexGuard<'a, Emulator>,
        patience: Duration,
    ) -> MutexGuard<'a, Emulator> {
        self.changed
            .wait_timeout(held, patience)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn read_from(&self, mut reader: Box<dyn Read + Send>) {
        let mut buffer = [0; 64 * 1024];
        loop {
            let read = reader.read(&mut buffer).unwrap_or(0);
            let mut emulator = self.lock();
            if read == 0 || emulator.reading == Reading::Stopping {
                break;
            }
            let bytes = &buffer[..read];
            emulator.parser.process(bytes);
            emulator.bytes.extend_from_slice(bytes);
            bytes.iter().for_each(|byte| emulator.modes.take(*byte));
            self.changed.notify_all();
        }
        drop(reader);
        self.lock().reading = Reading::Ended;
        self.changed.notify_all();
    }
}

/// Follows `CSI ? n ; m h` and `l` in a stream that may be cut anywhere.
#[derive(Default)]
struct Modes {
    on: BTreeSet<u16>,
    off: BTreeSet<u16>,
    sequence: Vec<u8>,
}

impl Modes {
    fn take(&mut self, byte: u8) {
        let begun = mem::take(&mut self.sequence);
        match (begun.as_slice(), byte) {
            (_, 0x1b) => self.sequence = vec![byte],
            ([0x1b], b'[') | ([0x1b, b'['], b'?') => self.sequence = [begun, vec![byte]].concat(),
            ([0x1b, b'[', b'?', ..], b'0'..=b'9' | b';') => {
                self.sequence = [begun, vec![byte]].concat()
            }
            ([0x1b, b'[', b'?', numbers @ ..], b'h') => self.set(numbers, true),
            ([0x1b, b'[', b'?', numbers @ ..], b'l') => self.set(numbers, false),
            _ => {}
        }
    }

    fn set(&mut self, numbers: &[u8], on: bool) {
        let numbers = String::from_utf8_lossy(numbers);
        let (to, from) = if on {
            (&mut self.on, &mut self.off)
        } else {
            (&mut self.off, &mut self.on)
        };
        for number in numbers.split(';').filter_map(|number| number.parse().ok()) {
            from.remove(&number);
            to.insert(number);
        }
    }

    fn changed(&self) -> BTreeSet<u16> {
        let hidden = self.off.contains(&SHOW_CURSOR).then_some(SHOW_CURSOR);
        self.on
            .iter()
            .copied()
            .filter(|mode| *mode != SHOW_CURSOR)
            .chain(hidden)
            .collect()
    }
}

/// What the program would have to write for a person to see this text: spread over no row's end.
pub(crate) fn has_text(screen: &vt100::Screen, text: &str) -> bool {
    let (_, cols) = screen.size();
    screen.rows(0, cols.get()).any(|row| row.contains(text))
}

/// The screen in a frame, for messages.
pub(crate) fn show(screen: &vt100::Screen) -> String {
    let (_, cols) = screen.size();
    let line = "─".repeat(cols.get().into());
    let rows: String = screen
        .rows(0, cols.get())
        .map(|row| format!("│{row}\n"))
        .collect();
    format!("┌{line}\n{rows}└{line}")
}

fn settings(master: &dyn MasterPty) -> Settings {
    Settings(format!("{:?}", master.get_termios()))
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

/// The emulator knows no screen without cells.
fn at_least_1(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN)
}

fn nudge(tty: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut tty = options
        .write(true)
        .custom_flags(nix::libc::O_NOCTTY)
        .open(tty)
        .unwrap();
    tty.write_all(b" ").unwrap();
}

/// What a plain xterm sends for a key.
fn bytes_of(key: &str) -> String {
    if let Some(key) = key.strip_prefix("alt-").filter(|key| !key.is_empty()) {
        return format!("\x1b{}", bytes_of(key));
    }
    if let Some(&[letter @ b'a'..=b'z']) = key.strip_prefix("ctrl-").map(str::as_bytes) {
        return char::from(letter - b'a' + 1).to_string();
    }
    let code = match key {
        "enter" => "\r",
        "esc" => "\x1b",
        "tab" => "\t",
        "shift-tab" => "\x1b[Z",
        "space" => " ",
        "backspace" => "\x7f",
        "delete" => "\x1b[3~",
        "insert" => "\x1b[2~",
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        "home" => "\x1b[H",
        "end" => "\x1b[F",
        "pgup" => "\x1b[5~",
        "pgdn" => "\x1b[6~",
        "f1" => "\x1bOP",
        "f2" => "\x1bOQ",
        "f3" => "\x1bOR",
        "f4" => "\x1bOS",
        _ if key.chars().count() == 1 => key,
        _ => panic!("{key:?} is not in the table of keys"),
    };
    code.to_owned()
}

#[test]
fn a_frame_is_waited_for_until_it_is_whole() {
    let script = r#"printf '\033[?2026hhalf'; read line; printf ' and whole: %s\033[?2026l' "$line"; read line"#;
    let mut pty = Pty::spawn("/bin/sh", &["-c", script], &[], 5, 40);
    pty.send("typed\n");
    pty.wait_for(|screen| has_text(screen, "half"), "frame");
    assert!(has_text(&pty.screen(), "and whole: typed"));
    pty.assert_alive();
    pty.keys("enter");
    assert!(pty.exit_status().success());
    pty.assert_restored();
}

#[test]
fn a_window_can_be_resized_and_what_is_left_on_is_seen() {
    let script = r"trap 'stty size' WINCH; printf '\033[?1049h\033[?25;2004h\033[?25l'; stty -echo; echo ready; while :; do sleep 0.05; done";
    let mut pty = Pty::spawn("/bin/sh", &["-c", script], &[], 5, 40);
    pty.wait_text("ready");
    pty.resize(7, 50);
    pty.wait_text("7 50");
    pty.signal(Signal::SIGKILL);
    assert!(!pty.exit_status().success());
    assert_eq!(pty.modes_left_on(), BTreeSet::from([25, 1049, 2004]));
    assert_ne!(&pty.settings(), pty.settings_before());
}

#[test]
#[should_panic(
    expected = "no \"never\" on the screen before the program ended; the screen:\n┌────────\n│once"
)]
fn a_wait_that_fails_shows_the_screen() {
    Pty::spawn("/bin/sh", &["-c", "echo once"], &[], 2, 8).wait_text("never");
}
