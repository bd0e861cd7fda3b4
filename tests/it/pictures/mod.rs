//! The pictures in `screenshots/`, drawn by the real program in a real terminal.
//!
//! The server's clock stands still, and all happened minutes before it: what a picture shows does not depend on when or
//! how fast it is drawn. `UPDATE_SCREENSHOTS=1 cargo test pictures` draws them anew.

mod scenes;
mod stage;

use std::time::Duration;

use vt100::Screen;

use self::{
    scenes::{DIRECTION, a_busy_stage, a_quiet_stage, has_revised, takes},
    stage::{NOW, Stage},
};
use crate::{
    picture::{DARK, LIGHT, Theme, check_picture, picture},
    pty::{Pty, has_text},
};

/// Stands on the screen while a card does not take keys yet.
const SETTLING: &str = "├━";
const NO_COLOR: &[(&str, &str)] = &[("NO_COLOR", "1")];

/// 120 × 34, in which all is seen at once.
fn wide(stage: &Stage) -> Pty {
    stage.open(34, 120, &[])
}

/// 80 × 24: the list and the card are two screens.
fn small(stage: &Stage) -> Pty {
    stage.open(24, 80, &[])
}

fn draw(pty: &mut Pty, name: &str, theme: &Theme) {
    at_rest(pty);
    check_picture(name, &picture(&standing(&pty.screen()), theme));
}

/// The bar of a new card has been drawn by then, and must go.
fn at_rest(pty: &mut Pty) {
    std::thread::sleep(Duration::from_millis(400));
    pty.wait_for(|screen| !has_text(screen, SETTLING), "a screen at rest");
}

/// A card stands there, whole, and takes a decision.
fn ready(pty: &mut Pty, with: &str) {
    pty.wait_for(
        |screen| has_text(screen, with) && !has_text(screen, SETTLING),
        &format!("{with:?} on a card that takes keys"),
    );
}

/// Down the list, to what has this title.
fn to(pty: &mut Pty, all: usize, title: &str) {
    for place in 2..=all {
        if has_text(&pty.screen(), title) {
            break;
        }
        pty.keys("j");
        pty.wait_text(&format!(" {place}/{all} "));
    }
    pty.wait_text(title);
}

fn to_the_transfer(pty: &mut Pty) {
    pty.wait_text(" 1/7 ");
    to(pty, 7, "╭─ wire_transfer ");
    ready(pty, "1250.00");
}

/// The screen with what chance and the real clock put there made the same: ids, and seconds that run on.
fn standing(screen: &Screen) -> Screen {
    let (rows, columns) = screen.size();
    let mut parser = vt100::Parser::new(rows, columns, 0);
    let mut text = with_the_same_ids(screen);
    for (before, after) in [
        (" OFFLINE ", "3"),
        ("retrying in ", "4"),
        ("what you see is from ", NOW),
        ("as of ", NOW),
        ("now ", NOW),
    ] {
        text = with_the_same(&text, before, after);
    }
    parser.process(text.as_bytes());
    parser.screen().clone()
}

/// What is as long and begins with the same kind of character.
fn with_the_same(text: &str, before: &str, after: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((left, right)) = rest.split_once(before) {
        let is_number = right.starts_with(|c: char| c.is_ascii_digit());
        let replaced = right.get(after.len()..).filter(|_| is_number);
        done = done + left + before + replaced.map_or("", |_| after);
        rest = replaced.unwrap_or(right);
    }
    done + rest
}

/// Of ids that are minted, only the length and the alphabet are the same each time.
fn with_the_same_ids(screen: &Screen) -> String {
    let is_minted = |word: &&str| matches!(word.len(), 26 | 32) && word.contains(['0', '7', '3']);
    let words = screen.contents();
    let words = words.split(|c: char| !c.is_ascii_alphanumeric());
    let mut text = screen.state_formatted();
    for (n, minted) in words.filter(is_minted).enumerate() {
        let same = "01M8PC52Y82NT910Z724F3EDMD5QK7";
        let same = format!("{}{n:02}", &same[..minted.len() - 2]);
        text = text.replace(minted, &same);
    }
    text
}

// === The inbox ===

/// Paused runs first, and the card of a tool, on dark and on light ground, and without colours.
#[test]
fn inbox() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = wide(&stage);
    to_the_transfer(&mut pty);
    draw(&mut pty, "inbox", &DARK);
    draw(&mut pty, "inbox-light", &LIGHT);
    pty.press("g", "esc leave");
    draw(&mut pty, "which-key", &DARK);
    pty.keys("esc");
    pty.wait_gone("esc leave");
    pty.press(":", "Commands");
    draw(&mut pty, "palette", &DARK);
    pty.keys("esc");
    pty.wait_gone("Commands");
    pty.press("?", "HERE, IN THE INBOX");
    draw(&mut pty, "help", &DARK);
    let mut plain = stage.open(34, 120, NO_COLOR);
    to_the_transfer(&mut plain);
    draw(&mut plain, "inbox-no-color", &DARK);
}

#[test]
fn small_inbox() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = small(&stage);
    pty.wait_text(" 1/7 ");
    draw(&mut pty, "small-list", &DARK);
    pty.press("enter", "is paused");
    ready(&mut pty, "R resume");
    draw(&mut pty, "small-escalation", &DARK);
    pty.press("s", "Steer research-7");
    pty.send(DIRECTION);
    pty.wait_text("of 8192 bytes");
    pty.wait_text("missing.");
    draw(&mut pty, "small-steer", &DARK);
    pty.keys("esc");
    pty.wait_gone("Steer research-7");
    pty.keys("esc");
    to_the_transfer_when_small(&mut pty);
    draw(&mut pty, "small-card", &DARK);
    types_no_number(&mut pty);
    draw(&mut pty, "small-form-error", &DARK);
}

fn to_the_transfer_when_small(pty: &mut Pty) {
    pty.wait_text(" 1/7 ");
    let chosen = |screen: &Screen| {
        screen
            .rows(0, 80)
            .any(|row| row.contains("▌? tool  wire_transfer"))
    };
    for place in 2..=7 {
        if chosen(&pty.screen()) {
            break;
        }
        pty.keys("j");
        pty.wait_text(&format!(" {place}/7 "));
    }
    pty.keys("enter");
    ready(pty, "1250.00");
}

/// Nothing waits, and what was decided lately; then the whole history.
#[test]
fn empty_and_history() {
    let stage = a_quiet_stage();
    let mut pty = wide(&stage);
    pty.wait_text("LATELY");
    draw(&mut pty, "empty", &DARK);
    to_the_history(&mut pty);
    draw(&mut pty, "history", &DARK);
    draw(&mut pty, "history-light", &LIGHT);
    let mut plain = stage.open(34, 120, NO_COLOR);
    plain.wait_text("LATELY");
    to_the_history(&mut plain);
    draw(&mut plain, "history-no-color", &DARK);
    let mut narrow = small(&stage);
    narrow.wait_text("LATELY");
    to_the_history(&mut narrow);
    draw(&mut narrow, "small-history", &DARK);
}

fn to_the_history(pty: &mut Pty) {
    pty.keys("3");
    pty.wait_for(
        |screen| has_text(screen, "› history") && !has_text(screen, "fetching"),
        "the whole history",
    );
}

/// A form with an error at its field, in the words of the server.
#[test]
fn form_error() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = wide(&stage);
    to_the_transfer(&mut pty);
    types_no_number(&mut pty);
    draw(&mut pty, "form-error", &DARK);
    draw(&mut pty, "form-error-light", &LIGHT);
    let mut plain = stage.open(34, 120, NO_COLOR);
    to_the_transfer(&mut plain);
    types_no_number(&mut plain);
    draw(&mut plain, "form-error-no-color", &DARK);
}

fn types_no_number(pty: &mut Pty) {
    pty.press("e", "ctrl-s");
    pty.send("\x7f\x7f\x7f\x7f2.5");
    pty.wait_text("2.5");
    pty.keys("ctrl-s");
    ready(pty, "must be a whole number");
}

/// The connection is lost while a card is open.
#[test]
fn offline() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = wide(&stage);
    to_the_transfer(&mut pty);
    let mut narrow = small(&stage);
    narrow.wait_text(" 1/7 ");
    stage.without_server();
    for (pty, name) in [(&mut pty, "offline"), (&mut narrow, "small-offline")] {
        at_rest(pty);
        pty.wait_for(
            |screen| {
                screen
                    .rows(0, 120)
                    .any(|row| row.contains(" s · retrying in "))
            },
            "the line that says so",
        );
        check_picture(name, &picture(&standing(&pty.screen()), &DARK));
    }
}

// === Runs that stand still ===

#[test]
fn escalation() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = wide(&stage);
    ready(&mut pty, "R resume");
    draw(&mut pty, "escalation", &DARK);
    draw(&mut pty, "escalation-light", &LIGHT);
    pty.press("w", "WHY DO YOU THINK SO?");
    draw(&mut pty, "evidence", &DARK);
    pty.keys("w");
    pty.wait_gone("WHY DO YOU THINK SO?");
    ready(&mut pty, "R resume");
    pty.press("c", "yes, cancel it");
    draw(&mut pty, "cancel", &DARK);
    let mut plain = stage.open(34, 120, NO_COLOR);
    ready(&mut plain, "R resume");
    draw(&mut plain, "escalation-no-color", &DARK);
    let mut wider = stage.open(40, 160, &[]);
    ready(&mut wider, "R resume");
    draw(&mut wider, "escalation-wide", &DARK);
}

/// A direction is written, sent, taken, and shows in a new plan.
#[test]
fn steer() {
    let (stage, mut orders) = a_busy_stage();
    let mut plain = stage.open(34, 120, NO_COLOR);
    writes_a_direction(&mut plain);
    draw(&mut plain, "steer-no-color", &DARK);
    let mut pty = wide(&stage);
    writes_a_direction(&mut pty);
    draw(&mut pty, "steer", &DARK);
    draw(&mut pty, "steer-light", &LIGHT);
    stage.later(Duration::from_secs(39));
    pty.keys("ctrl-s");
    let steer = takes(&stage, &mut orders, "steer queued");
    stage.later(Duration::from_secs(76));
    has_revised(&stage, &steer);
    pty.wait_text("plan revision 3");
    pty.wait_text("1 pausing");
    draw(&mut pty, "steered", &DARK);
}

fn writes_a_direction(pty: &mut Pty) {
    ready(pty, "R resume");
    pty.press("s", "Steer research-7");
    pty.send(DIRECTION);
    pty.wait_text("missing.");
}

// === Runs ===

#[test]
fn runs() {
    let (stage, _orders) = a_busy_stage();
    let mut pty = wide(&stage);
    to_the_run(&mut pty);
    draw(&mut pty, "runs", &DARK);
    draw(&mut pty, "runs-light", &LIGHT);
    let mut plain = stage.open(34, 120, NO_COLOR);
    to_the_run(&mut plain);
    draw(&mut plain, "runs-no-color", &DARK);
    let mut narrow = small(&stage);
    to_the_run(&mut narrow);
    draw(&mut narrow, "small-runs", &DARK);
}

fn to_the_run(pty: &mut Pty) {
    pty.wait_text(" 1/7 ");
    pty.press("2", "› runs");
    pty.wait_text(" 1/8 ");
    to(pty, 8, "─ research-7 · run 7c21");
    pty.wait_text("running");
}
