//! Having runs do something, and writing the direction for it.

use registry::control::Verb;

use super::super::{
    keys::Key,
    model::{Hand, Model},
    msg::{Effect, Moment},
    order,
    steering::Aim,
    words::{self, notice},
};
use super::moving::open_selected;
use super::writing::cannot_edit;

/// In a list alone the card is not on the screen: the first press shows it.
pub(super) fn order_here(model: &mut Model, at: Moment, verb: Verb) -> Vec<Effect> {
    if let Some(effects) = shown_first(model) {
        model.say(notice::READ_FIRST);
        return effects;
    }
    match model.aim() {
        Some(_) => order::order(model, at, verb),
        None => refuse(model),
    }
}

/// Hands the keyboard to the direction.
pub(super) fn write(model: &mut Model, at: Moment) -> Vec<Effect> {
    let effects = shown_first(model).unwrap_or_default();
    let Some(aim) = model.aim() else {
        cannot_edit(model, at, notice::NO_RUN);
        return effects;
    };
    match order::may_be_ordered(model, aim, &Verb::Steer) {
        Ok(()) => begin(model, aim),
        Err(why) => cannot_edit(model, at, why),
    }
    effects
}

fn begin(model: &mut Model, aim: Aim) {
    model.steering.drafts.entry(aim.run).or_default();
    model.steering.writing = Some(aim);
}

/// What was written is kept.
pub(super) fn leave(model: &mut Model) -> Vec<Effect> {
    let writing = model.steering.writing.take();
    let draft = writing.and_then(|aim| model.steering.drafts.get(&aim.run));
    if draft.is_some_and(|draft| draft.bytes() > 0) {
        model.say("the direction is kept; nothing is sent yet");
    }
    Vec::new()
}

pub(super) fn type_direction(model: &mut Model, key: Key) {
    let writing = model.steering.writing;
    if let Some(draft) = writing.and_then(|aim| model.steering.drafts.get_mut(&aim.run)) {
        draft.key(key);
    }
}

pub(super) fn paste_direction(model: &mut Model, aim: Aim, text: &str) -> Vec<Effect> {
    let draft = model.steering.drafts.entry(aim.run).or_default();
    match draft.paste(text).map(|pasted| pasted.dropped) {
        Some(0) => model.notice = None,
        Some(dropped) => {
            let dropped = words::count(dropped, "control or hidden char");
            model.warn(format!("{dropped} left out of what was pasted"));
        }
        None => model.warn("not pasted: far longer than a direction may be"),
    }
    Vec::new()
}

/// What says that it stands still; again, and it is the card.
pub(super) fn why(model: &mut Model) -> Vec<Effect> {
    let effects = shown_first(model).unwrap_or_default();
    match (model.open_held(), &mut model.open) {
        (Some(_), Some(open)) => {
            open.raw = !open.raw;
            open.top = 0;
            effects
        }
        _ => refuse(model),
    }
}

/// Opens what is selected where its card is not on the screen.
fn shown_first(model: &mut Model) -> Option<Vec<Effect>> {
    let hidden = model.hand == Hand::List && !model.is_wide() && model.inbox.selected.is_some();
    hidden.then(|| open_selected(model))
}

fn refuse(model: &mut Model) -> Vec<Effect> {
    let open = model.open().is_some();
    model.warn(if open {
        notice::NO_RUN
    } else {
        notice::NO_CARD
    });
    Vec::new()
}
