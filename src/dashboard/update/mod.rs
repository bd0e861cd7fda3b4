//! What happened changes the model, and may want something done.

mod cards;
mod keys;
mod moving;
mod palette;
mod records;
mod screens;
mod steering;
mod stream;
mod writing;

use registry::ItemId;

use self::cards::receive;
use self::keys::{paste, press};
use self::moving::follow;
use self::records::{receive_page, receive_record};
use self::stream::{connect, record, stand};

use super::{
    decide,
    model::{Front, Model, Screen, URGENT},
    msg::{Drawn, Effect, Moment, Msg},
    order,
};

/// Changes the model, and says what is to be done. `at` never goes back.
pub fn update(model: &mut Model, at: Moment, msg: Msg) -> Vec<Effect> {
    model.latest = at;
    forget_notice(model, at);
    wake(model, at);
    match msg {
        Msg::Key(key) => press(model, at, key),
        Msg::Paste(text) => paste(model, &text),
        Msg::Resized(columns, rows) => resize(model, columns, rows),
        Msg::Focus(focused) => focus(model, focused),
        Msg::Tick => Vec::new(),
        Msg::Link(link) => connect(model, at, link),
        Msg::Snapshot { state, server_now } => stand(model, at, state, server_now),
        Msg::Recorded { events, server_now } => record(model, at, &events, server_now),
        Msg::Detail { id, detail } => receive(model, at, id, detail),
        Msg::RunRecord { id, record } => receive_record(model, id, record),
        Msg::History { before, page } => receive_page(model, before, page),
        Msg::Decided { decision, result } => {
            decide::answered(model, &decision, result);
            model.changed();
            Vec::new()
        }
        Msg::Ordered { order, result } => {
            order::answered(model, &order, result);
            model.changed();
            Vec::new()
        }
        Msg::Drawn(drawn) => drew(model, at, drawn),
    }
}

/// The key hints come back.
fn forget_notice(model: &mut Model, at: Moment) {
    if model.notice.take_if(|notice| notice.until <= at).is_some() {
        model.changed();
    }
}

/// What is shown may read otherwise by now.
fn wake(model: &mut Model, at: Moment) {
    if model.wake.is_none_or(|wake| at < wake) {
        return;
    }
    model.wake = None;
    let soon = model.now(at).map(|now| now.plus(URGENT));
    if soon.is_some_and(|soon| model.state.ending_before(soon).len() != model.urgent) {
        model.put_in_order(at);
    }
    model.changed();
}

fn resize(model: &mut Model, columns: u16, rows: u16) -> Vec<Effect> {
    model.size = (columns, rows);
    model.changed();
    follow(model)
}

fn focus(model: &mut Model, focused: bool) -> Vec<Effect> {
    model.focused = Some(focused);
    Vec::new()
}

/// The frame was written: what it showed was seen, and the card in it begins to stand, or stands on.
fn drew(model: &mut Model, at: Moment, drawn: Drawn) -> Vec<Effect> {
    model.drawn_generation = Some(drawn.generation);
    if let Some(list) = drawn.list {
        let top = match model.screen {
            Screen::Inbox => &mut model.inbox.top,
            Screen::Runs => &mut model.runs.list.top,
            Screen::History => &mut model.past.list.top,
        };
        *top = list.rows.top;
    }
    let standing = drawn
        .card
        .as_ref()
        .map(|card| (card.face, drawn.confirming));
    model.standing = standing.map(|(face, confirming)| match model.standing {
        Some((same, sure, since)) if same == face && sure == confirming => (face, sure, since),
        _ => (face, confirming, at),
    });
    if let Some(card) = &drawn.card {
        let seen = model
            .seen
            .entry((card.face.id, card.face.digest, card.raw))
            .or_default();
        for range in &card.seen {
            seen.add(range.clone());
        }
        let drawn_id = ItemId::Approval(card.face.id);
        if let Some(open) = model.open_mut().filter(|open| open.id == drawn_id) {
            open.top = card.rows.top;
        }
    }
    drew_run(model, at, &drawn);
    if let (Some(Front::Help { top, .. }), Some(rows)) = (&mut model.front, drawn.help) {
        *top = rows.top;
    }
    if let Some(lanes) = drawn.lanes {
        model.runs.lanes_top = lanes.top;
    }
    model.drawn = Some(drawn);
    model.wake = model.wakes_after(at);
    Vec::new()
}

/// The same for the card of a run that stands still.
fn drew_run(model: &mut Model, at: Moment, drawn: &Drawn) {
    let confirming = drawn.confirming;
    let before = model.steering.standing;
    model.steering.standing = drawn.run.map(|run| match before {
        Some((same, sure, since)) if same == run.face && sure == confirming => (same, sure, since),
        _ => (run.face, confirming, at),
    });
    let drawn_id = drawn.run.and_then(|run| run.face.held);
    if let (Some(id), Some(run)) = (model.open_held(), drawn.run)
        && drawn_id == Some(id)
        && let Some(open) = model.open_mut()
    {
        open.top = run.rows.top;
    }
}
