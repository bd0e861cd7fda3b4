//! Filling in the form and the note of a card.

use registry::ApprovalId;

use super::super::{
    decide,
    draft::{Draft, Intent},
    keys::{Code, Key},
    model::{DEAF, Hand, Model, Slot, Stands},
    msg::{Effect, Moment},
    order,
    words::{self, notice},
};
use super::moving::open_selected;

/// In a list alone the card is not on the screen: the first press shows it.
pub(super) fn decide_here(model: &mut Model, at: Moment, intent: Intent) -> Vec<Effect> {
    if model.hand == Hand::List
        && !model.is_wide()
        && model.is_online()
        && model.inbox.selected.is_some()
    {
        let effects = open_selected(model);
        model.say(notice::READ_FIRST);
        return effects;
    }
    if model.open_held().is_some() {
        model.warn(notice::NO_QUESTION);
        return Vec::new();
    }
    decide::decide(model, at, intent)
}

pub(super) fn edit_form(model: &mut Model, at: Moment) -> Vec<Effect> {
    let (id, effects) = to_edit(model, at);
    if let Some(id) = id {
        open_form(model, at, id);
    }
    effects
}

/// A note needs nothing of the card but its being there.
pub(super) fn edit_note(model: &mut Model, at: Moment) -> Vec<Effect> {
    let (id, effects) = to_edit(model, at);
    if let Some(id) = id {
        model.drafts.entry(id).or_default();
        model.hand = Hand::Note;
    }
    effects
}

/// Opens the card if need be. None: nothing can be written for it, and the letters that follow mean nothing else.
fn to_edit(model: &mut Model, at: Moment) -> (Option<ApprovalId>, Vec<Effect>) {
    let effects = match model.inbox.selected {
        Some(_) if model.open().is_none() => open_selected(model),
        Some(_) | None => Vec::new(),
    };
    let stands = model
        .open_approval()
        .and_then(|id| Some((id, model.stands(id)?)));
    let why = match stands {
        Some((id, Stands::Waits(_))) => return (Some(id), effects),
        Some((_, Stands::Ended(settled))) => format!("already {}", words::ended(settled)),
        None if model.open_held().is_some() => notice::NO_QUESTION.to_owned(),
        None => notice::NO_CARD.to_owned(),
    };
    cannot_edit(model, at, why);
    (None, effects)
}

pub(super) fn cannot_edit(model: &mut Model, at: Moment, why: impl Into<String>) {
    model.warn(why);
    model.deaf = Some(at + DEAF);
}

/// Hands the keyboard to the form, also where it is still on its way.
pub(super) fn open_form(model: &mut Model, at: Moment, id: ApprovalId) {
    match model.cards.get(&id) {
        Some(Slot::Here(card)) if card.matches => {
            let draft = model.drafts.entry(id).or_default();
            if draft.fields.is_empty() {
                return cannot_edit(model, at, notice::NO_FORM);
            }
            model.hand = Hand::Field(draft.first_wrong().unwrap_or(0));
        }
        Some(Slot::Here(_)) => cannot_edit(model, at, notice::MISMATCH),
        Some(Slot::Failed(_)) => cannot_edit(model, at, notice::NOT_FETCHED),
        Some(Slot::Fetching) | None => {
            model.early.clear();
            model.hand = Hand::Field(0);
            let online = model.is_online();
            model.warn(if online {
                notice::FORM_LATER
            } else {
                notice::FORM_OFFLINE
            });
        }
    }
}

/// In a text of several lines, up and down move the cursor first.
pub(super) fn field_or_text(model: &mut Model, key: Key, by: isize) -> Vec<Effect> {
    let arrow = matches!(key.code, Code::Up | Code::Down);
    if arrow && field_takes(model, key) {
        return Vec::new();
    }
    step_field(model, by);
    Vec::new()
}

pub(super) fn choice_or_text(model: &mut Model, key: Key, forward: bool) -> Vec<Effect> {
    let chosen = with_field(model, |draft, field| draft.choose(field, forward));
    if !chosen {
        field_takes(model, key);
    }
    Vec::new()
}

fn field_takes(model: &mut Model, key: Key) -> bool {
    with_field(model, |draft, field| draft.key(field, key))
}

fn with_field(model: &mut Model, then: impl FnOnce(&mut Draft, usize) -> bool) -> bool {
    match (
        model.hand,
        model
            .open_approval()
            .and_then(|id| model.drafts.get_mut(&id)),
    ) {
        (Hand::Field(field), Some(draft)) => then(draft, field),
        _ => false,
    }
}

pub(super) fn step_field(model: &mut Model, by: isize) {
    let fields = model
        .open_approval()
        .and_then(|id| model.drafts.get(&id))
        .map_or(0, |d| d.fields.len());
    if let Hand::Field(field) = &mut model.hand
        && fields > 0
    {
        *field = (*field + fields).saturating_add_signed(by) % fields;
    }
}

/// Done with the text. Where a decision waits for the form, it goes on now.
pub(super) fn submit(model: &mut Model, at: Moment) -> Vec<Effect> {
    if model.steering.writing.is_some() {
        return order::steer(model, at);
    }
    let Some(id) = model.open_approval() else {
        return Vec::new();
    };
    let intent = model.drafts.get(&id).and_then(|draft| draft.intent);
    match (model.hand, intent) {
        (Hand::Field(_), Some(intent)) => decide::decide(model, at, intent),
        (Hand::Field(_), None) => {
            leave_form(model, id);
            Vec::new()
        }
        (Hand::List | Hand::Card | Hand::Note, _) => {
            model.hand = Hand::Card;
            Vec::new()
        }
    }
}

fn leave_form(model: &mut Model, id: ApprovalId) {
    let (Some(Slot::Here(card)), Some(draft)) = (model.cards.get(&id), model.drafts.get_mut(&id))
    else {
        // Not here yet, so nothing was typed into it.
        model.early.clear();
        model.hand = Hand::Card;
        model.notice = None;
        return;
    };
    match draft.check(&card.form) {
        Some(field) => {
            let error = draft.errors.get(&draft.fields[field].name).cloned();
            model.hand = Hand::Field(field);
            model.warn(error.unwrap_or_default());
        }
        None => {
            model.hand = Hand::Card;
            model.say("the answers are kept; nothing is decided yet");
        }
    }
}
