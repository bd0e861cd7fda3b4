//! A server that takes what is sent and does not answer, in front of a person who decides.

use std::time::{Duration, Instant};

use crate::{
    dashboard::decisions,
    desk::attach,
    pty::{has_text, show},
    server::Server,
};

/// A call is made four times, each for 10 s at most; and a stream is given up after 25 s.
const GIVEN_UP: Duration = Duration::from_secs(90);

/// Case A10. Slow: the calls have to run out of their time.
#[test]
fn a_server_that_hangs_costs_neither_the_desk_nor_the_decision() {
    let server = Server::start();
    let id = server.file(&["--title", "Go on?"]);
    let mut desk = attach(&server);
    desk.wait_text("all seen ✓");
    server.freeze();
    desk.decide("a", "approval sent, waiting for the server");

    // Nothing of that stands in the way of a key.
    let from = Instant::now();
    for _ in 0..3 {
        desk.press("?", "esc close");
        desk.keys("esc");
        desk.wait_gone("esc close");
    }
    let all_three = from.elapsed();
    assert!(all_three < Duration::from_secs(5), "{all_three:?}");

    // It does not say for ever that it waits.
    let from = Instant::now();
    while has_text(&desk.screen(), "waiting for the server") {
        let screen = desk.screen();
        assert!(from.elapsed() < GIVEN_UP, "{}", show(&screen));
        std::thread::sleep(Duration::from_millis(100));
    }
    desk.wait_text("approval perhaps not sent");
    assert!(!has_text(&desk.screen(), "✓ granted"));

    // Pressed again, before and after the server goes on: the same decision.
    desk.keys("a");
    server.thaw();
    let from = Instant::now();
    while !has_text(&desk.screen(), "✓ granted by") {
        let screen = desk.screen();
        assert!(from.elapsed() < GIVEN_UP, "{}", show(&screen));
        desk.keys("a");
        std::thread::sleep(Duration::from_millis(500));
    }
    let decided = decisions(&server, &id);
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert!(decided[0].ends_with("-1"), "{decided:?}");
    desk.assert_alive();
}
