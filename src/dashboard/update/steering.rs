//! Having runs do something, and writing the direction for it.

use registry::{ItemId, control::Verb, run::TaskState};

use super::super::{
    keys::Key,
    model::{DEAF, Front, Hand, Model, Screen},
    msg::{Effect, Moment},
    order,
    steering::{Aim, tasks},
    words::{self, notice},
};
use super::moving::{open, open_selected};
use super::screens::show;
use super::writing::cannot_edit;

/// In a list alone the card is not on the screen: the first press shows it.
pub(super) fn order_here(model: &mut Model, at: Moment, verb: Verb) -> Vec<Effect> {
    if let Some(effects) = shown_first(model, at) {
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
    let effects = shown_first(model, at).unwrap_or_default();
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
pub(super) fn why(model: &mut Model, at: Moment) -> Vec<Effect> {
    let effects = shown_first(model, at).unwrap_or_default();
    match (model.open_held(), model.open_mut()) {
        (Some(_), Some(open)) => {
            open.raw = !open.raw;
            open.top = 0;
            effects
        }
        _ => refuse(model),
    }
}

/// Opens the card of what is selected, where it is not on the screen.
fn shown_first(model: &mut Model, at: Moment) -> Option<Vec<Effect>> {
    if model.screen == Screen::Runs {
        let held = model.selected_held()?;
        let mut effects = show(model, at, Screen::Inbox);
        effects.extend(open(model, ItemId::Escalation(held)));
        model.hand = Hand::Card;
        return Some(effects);
    }
    let hidden = model.hand == Hand::List && !model.is_wide() && model.inbox.selected.is_some();
    hidden.then(|| open_selected(model))
}

/// Which task is to be done again.
pub(super) fn choose_task(model: &mut Model, at: Moment) -> Vec<Effect> {
    if let Some(effects) = shown_first(model, at) {
        model.say(notice::READ_FIRST);
        return effects;
    }
    let Some(aim) = model.aim() else {
        return refuse(model);
    };
    // For the same people as a rewind.
    if let Err(why) = order::may_be_ordered(model, aim, &Verb::StatusQuery) {
        model.warn(why);
        return Vec::new();
    }
    let face = model.run_face(aim);
    let run = model.state.run(aim.run);
    let running = |run| tasks(run).find(|(_, task)| task.state == TaskState::Running);
    let task = run.and_then(|run| running(run).or_else(|| tasks(run).next()));
    match (face, task.map(|(id, _)| id.clone())) {
        (Some(face), Some(task)) => model.front = Some(Front::Again { face, task }),
        (Some(_), None) | (None, _) => {
            model.warn("no task was reported that could be done again");
        }
    }
    Vec::new()
}

pub(super) fn step_task(model: &mut Model, by: isize) {
    if let Some(Front::Again { face, task }) = &mut model.front
        && let Some(run) = model.state.run(face.run)
    {
        let all: Vec<_> = tasks(run).map(|(id, _)| id).collect();
        let at = all.iter().position(|id| *id == task).unwrap_or(0);
        let last = all.len().saturating_sub(1);
        if let Some(other) = all.get(at.saturating_add_signed(by).min(last)) {
            *task = (*other).clone();
        }
    }
}

/// «Yes» to what was asked once more is about the run as it was asked about.
pub(super) fn withdraw(model: &mut Model, at: Moment) {
    let (Some(Front::Stop(face)) | Some(Front::Again { face, .. })) = &model.front else {
        return;
    };
    if model.run_face(order::aim_of(*face)) != Some(*face) {
        model.front = None;
        model.deaf = Some(at + DEAF);
        model.warn(notice::WITHDRAWN);
    }
}

fn refuse(model: &mut Model) -> Vec<Effect> {
    let words = match (model.screen, model.open()) {
        (Screen::Inbox, Some(_)) => notice::NO_RUN,
        _ => notice::NO_CARD,
    };
    model.warn(words);
    Vec::new()
}
