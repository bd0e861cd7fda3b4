//! The terminal is given back, whichever way the program ends.
//!
//! The program under test is this very binary: [`the_program`] does what the variable says, and nothing without it.

use std::{process, time::Duration};

use nix::sys::signal::{Signal, kill};
use pilothouse::{
    dashboard::keys::Key,
    terminal::{
        Drawn, Ending, Input, Inputs, Interrupt, Interrupts, NoScreen, Screen, Suspended,
        install_panic_hook,
    },
};
use ratatui::widgets::Paragraph;

use crate::pty::{Pty, Terminal, has_text};

const PROGRAM: &str = "PILOTHOUSE_TEST_PROGRAM";

/// What asks the program to end expects that in this time.
const END: Duration = Duration::from_secs(2);

#[test]
#[ignore = "not a test: the program that the tests of this file run"]
fn the_program() {
    let Ok(what) = std::env::var(PROGRAM) else {
        return;
    };
    install_panic_hook();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    process::exit(runtime.block_on(run(&what)).into());
}

/// A loop such as the dashboard's, which draws what it was sent. `p` panics here, `b` in the background, `h` hangs.
async fn run(what: &str) -> u8 {
    let mut interrupts = Interrupts::listen().unwrap();
    let mut screen = match Screen::enter() {
        Ok(screen) => screen,
        Err(no) => {
            eprintln!("{no}");
            return no.exit_code();
        }
    };
    screen.set_title("Pilothouse\x1b\\ «2»").unwrap();
    let mut inputs = Inputs::read();
    let (mut seen, mut resized) = ("started".to_owned(), 0);
    loop {
        let (width, height) = screen.size().unwrap_or_default();
        let text = Paragraph::new(format!(
            "{what} {width}x{height}\n{seen}\nresized {resized}"
        ));
        match screen
            .draw(|frame| frame.render_widget(text, frame.area()))
            .unwrap()
        {
            Drawn::Written | Drawn::Skipped => {}
            Drawn::HungUp => return Ending::HungUp.code(),
        }
        if seen == "hanging" {
            std::thread::sleep(10 * END);
        }
        tokio::select! { biased;
            interrupt = interrupts.next() => match interrupt {
                Interrupt::End(ending) => return ending.code(),
                Interrupt::Suspend => seen = format!("{:?}", screen.suspend().unwrap()),
                Interrupt::Continue => { screen.resume().unwrap(); seen = "continued".to_owned(); }
            },
            input = inputs.next() => match input {
                None => return Ending::HungUp.code(),
                Some(Input::Resize(..)) => { screen.repaint(); resized += 1; }
                Some(Input::Key(key)) if key == Key::char('q') => return 0,
                Some(Input::Key(key)) if key == Key::char('p') => panic!("in the loop"),
                Some(Input::Key(key)) if key == Key::char('b') => { tokio::spawn(async { panic!("in the background") }); },
                Some(Input::Key(key)) if key == Key::char('h') => seen = "hanging".to_owned(),
                Some(Input::Key(key)) if key == Key::ctrl('z') => seen = match screen.suspend().unwrap() {
                    Suspended::Stopped => "stopped".to_owned(),
                    Suspended::NoShell => "nobody would continue us".to_owned(),
                },
                Some(other) => seen = format!("{other:?}"),
            },
        }
    }
}

const ARGS: [&str; 4] = ["--exact", "screen::the_program", "--ignored", "--nocapture"];

fn program() -> String {
    std::env::current_exe()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

fn start() -> Pty {
    let mut pty = Pty::spawn(program(), &ARGS, &[(PROGRAM, "screen")], 24, 80);
    pty.wait_text("screen 80x24");
    assert!(pty.screen().alternate_screen());
    assert_ne!(&pty.settings(), pty.settings_before());
    pty
}

fn ended(pty: &mut Pty) -> u32 {
    let status = pty.exit_status_within(END);
    assert_eq!(status.signal(), None, "ended by itself");
    pty.assert_restored();
    status.exit_code()
}

#[test]
fn a_signal_ends_the_program_with_128_and_its_number() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGQUIT, 131),
    ] {
        let mut pty = start();
        pty.signal(signal);
        assert_eq!(ended(&mut pty), code, "{signal}");
    }
}

#[test]
fn leaving_gives_the_terminal_back() {
    let mut pty = start();
    pty.keys("x");
    pty.wait_text("Char('x')");
    pty.keys("q");
    assert_eq!(ended(&mut pty), 0);
}

#[test]
fn a_program_that_hangs_still_ends_on_a_signal() {
    let mut pty = start();
    pty.keys("h");
    pty.wait_text("hanging");
    pty.signal(Signal::SIGTERM);
    assert_eq!(ended(&mut pty), 143);
}

#[test]
fn a_panic_is_printed_on_the_restored_terminal() {
    // What the loop itself panics with is for the program's `main` to turn into a code.
    for (key, message, code) in [("p", "in the loop", 101), ("b", "in the background", 70)] {
        let mut pty = start();
        pty.keys(key);
        assert_eq!(ended(&mut pty), code, "{message}");
        assert!(
            has_text(&pty.screen(), message),
            "{}",
            crate::pty::show(&pty.screen())
        );
    }
}

#[test]
fn a_terminal_that_is_gone_ends_the_program() {
    for terminal in [Terminal::Controlling, Terminal::NotControlling] {
        let mut pty = Pty::spawn_on(terminal, program(), &ARGS, &[(PROGRAM, "screen")], 24, 80);
        pty.wait_text("screen 80x24");
        pty.hang_up();
        assert_eq!(pty.exit_status_within(END).exit_code(), 129, "{terminal:?}");
    }
}

#[test]
fn a_resize_draws_everything_again_also_to_the_same_size() {
    let mut pty = start();
    pty.resize(30, 100);
    pty.wait_text("screen 100x30");
    let before = pty.raw_bytes().len();
    pty.signal(Signal::SIGWINCH);
    pty.wait_text("resized 2");
    let since = pty.raw_bytes()[before..].to_vec();
    assert!(
        String::from_utf8_lossy(&since).contains("screen"),
        "the first row was sent again"
    );
    pty.resize(1, 1);
    pty.resize(0, 0);
    pty.resize(24, 80);
    pty.wait_text("screen 80x24");
    pty.assert_alive();
}

#[test]
fn pasted_text_is_no_key() {
    let mut pty = start();
    pty.paste("q\rp");
    pty.wait_text(r#"Paste("q\rp")"#);
    pty.assert_alive();
}

#[test]
fn a_frame_is_one_whole_update() {
    let mut pty = start();
    pty.keys("x");
    pty.wait_text("Char('x')");
    let bytes = String::from_utf8_lossy(&pty.raw_bytes()).into_owned();
    let (begun, ended) = (
        bytes.matches("\x1b[?2026h").count(),
        bytes.matches("\x1b[?2026l").count(),
    );
    assert!(begun >= 2 && begun == ended, "{begun} {ended}");
    assert!(
        bytes.contains("\x1b]0;Pilothouse\\ 2\x07"),
        "the title has nothing but printable ASCII"
    );
    let asks = ["\x1b[6n", "\x1b[c", "\x1b[?u", "\x1b]11;?"];
    assert!(
        asks.iter().all(|ask| !bytes.contains(ask)),
        "the terminal was asked something"
    );
}

#[test]
fn without_a_shell_nothing_is_suspended() {
    let mut pty = start();
    pty.keys("ctrl-z");
    pty.wait_text("nobody would continue us");
    assert!(pty.screen().alternate_screen());
    pty.assert_alive();
}

#[test]
fn a_shell_stops_and_continues_the_program() {
    let line = format!("{PROGRAM}=screen {} {}\n", program(), ARGS.join(" "));
    for key in ["ctrl-z", ""] {
        let mut pty = Pty::spawn(
            "/bin/bash",
            &["--norc", "--noprofile", "--noediting", "-i"],
            &[("PS1", "shell> ")],
            24,
            80,
        );
        pty.wait_text("shell>");
        pty.send(&line);
        pty.wait_text("screen 80x24");
        if key.is_empty() {
            pty.send("x");
            pty.wait_text("Char('x')");
            kill(pty.foreground(), Signal::SIGTSTP).unwrap();
        } else {
            pty.keys(key);
        }
        pty.wait_for(
            |screen| !screen.alternate_screen() && has_text(screen, "Stopped"),
            "shell",
        );
        pty.send("stty -a\n");
        pty.wait_for(
            |screen| has_text(screen, " icanon") && has_text(screen, " echo "),
            "sane shell",
        );
        pty.send("fg\n");
        pty.wait_for(
            |screen| screen.alternate_screen() && has_text(screen, "continued"),
            "repainted screen",
        );
        assert!(has_text(&pty.screen(), "screen 80x24"));
        pty.keys("q");
        pty.wait_for(
            |screen| !screen.alternate_screen() && prompts(screen),
            "prompt",
        );
        pty.assert_restored();
        pty.send("exit\n");
        assert!(pty.exit_status().success());
    }
}

/// Whether the shell waits for a line.
fn prompts(screen: &vt100::Screen) -> bool {
    screen.contents().trim_end().lines().last() == Some("shell>")
}

#[test]
fn no_terminal_is_a_usage_error() {
    let mut pty = Pty::spawn(
        program(),
        &ARGS,
        &[(PROGRAM, "screen"), ("TERM", "dumb")],
        24,
        80,
    );
    assert_eq!(ended(&mut pty), 64);
    assert!(has_text(&pty.screen(), "TERM is \"dumb\""));
    let output = process::Command::new(program())
        .args(ARGS)
        .env(PROGRAM, "screen")
        .stdin(process::Stdio::null())
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard input is not a terminal"));
    assert_eq!(NoScreen::Taken.exit_code(), 70);
}
