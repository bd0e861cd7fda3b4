//! (fixture, keys, screen).

use super::desk::*;

macro_rules! screen {
    ($name:ident, $size:expr, $asks:expr, $keys:expr) => {
        #[test]
        fn $name() {
            let (width, height) = $size;
            let mut desk = Desk::showing(width, height, &$asks);
            desk.press($keys);
            insta::assert_snapshot!(stringify!($name), desk.screen());
        }
    };
}

screen!(inbox_and_card, (120, 34), full_inbox(), "j j j");
screen!(form_with_an_error, (120, 34), full_inbox(), "j j j a");
screen!(high_risk, (120, 34), full_inbox(), "j j j j a");
screen!(high_risk_80, (80, 24), full_inbox(), "j j j j enter a");
screen!(form_80, (80, 24), full_inbox(), "j j j enter x");
screen!(inbox_80, (80, 24), full_inbox(), "j");
screen!(card_80, (80, 24), full_inbox(), "j j j enter");
screen!(inbox_40, (40, 10), full_inbox(), "j");
screen!(card_40, (40, 10), full_inbox(), "j j j enter");
screen!(help_80, (80, 24), full_inbox(), "?");
screen!(too_small, (39, 9), full_inbox(), "");

#[test]
fn offline() {
    let mut desk = Desk::showing(120, 34, &full_inbox());
    desk.offline();
    desk.wait(1_000);
    desk.press("x");
    insta::assert_snapshot!("offline", desk.screen());
}

#[test]
fn empty_inbox() {
    let asked = ask(1, "Deploy to production");
    let mut desk = Desk::showing(120, 20, std::slice::from_ref(&asked));
    let sent = submits(&desk.press("a")).remove(0);
    desk.record([decided(&asked, sent.verdict, "user:ada", sent.decision)]);
    desk.press("j");
    insta::assert_snapshot!("empty_inbox", desk.screen());
}

#[test]
fn ascii() {
    let mut desk = Desk::with(100, 30, |setup| setup.ascii = true);
    desk.settle_in(&full_inbox());
    desk.press("j j j");
    insta::assert_snapshot!("ascii", desk.screen());
}
