//! Going from screen to screen.

use super::super::{
    model::{Front, Hand, Model, Screen},
    msg::{Effect, Moment},
    past::Past,
};
use super::{
    moving::follow,
    records::{fetch_older, fetch_record},
};

/// Shows a screen with its list under the hand; what stood in front of another is gone.
pub(super) fn show(model: &mut Model, at: Moment, screen: Screen) -> Vec<Effect> {
    model.front = None;
    model.steering.writing = None;
    if model.screen == screen {
        return Vec::new();
    }
    leave(model);
    model.screen = screen;
    model.hand = Hand::List;
    match screen {
        Screen::Inbox => {}
        Screen::Runs => model.runs.lanes_top = 0,
        Screen::History => model.past.restart(&model.state),
    }
    model.put_in_order(at);
    arrive(model)
}

/// What the screen needs to be whole.
pub(super) fn arrive(model: &mut Model) -> Vec<Effect> {
    match model.screen {
        Screen::Inbox => follow(model),
        Screen::Runs => fetch_record(model),
        Screen::History => fetch_older(model),
    }
}

pub(super) fn cycle(model: &mut Model, at: Moment, by: usize) -> Vec<Effect> {
    let all = Screen::ALL;
    let here = all.iter().position(|screen| *screen == model.screen);
    let next = all[(here.unwrap_or(0) + by) % all.len()];
    show(model, at, next)
}

/// What has ended is many; it is looked up again.
fn leave(model: &mut Model) {
    if model.screen == Screen::History {
        model.past = Past::default();
        model.opened.remove(&Screen::History);
    }
}

/// The help of the place where the keyboard is; there it leaves.
pub(super) fn help(model: &mut Model) -> Vec<Effect> {
    model.front = match &model.front {
        Some(Front::Help { .. }) => None,
        Some(_) | None => Some(Front::Help {
            of: model.context(),
            top: 0,
        }),
    };
    Vec::new()
}
