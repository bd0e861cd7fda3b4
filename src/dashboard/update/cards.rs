//! The text of cards: fetched when one is opened, kept for a while.

use registry::{ApprovalId, Detail, Untrusted};

use super::super::{
    card::Card,
    draft::Draft,
    model::{CARDS_KEPT, Hand, Model, Slot, Stands},
    msg::{Effect, Moment},
    words::{self, notice},
};
use super::keys::press;
use super::writing::{cannot_edit, open_form};

pub(super) fn receive(
    model: &mut Model,
    at: Moment,
    id: ApprovalId,
    detail: Result<Detail, String>,
) -> Vec<Effect> {
    let Some(approval) = model.stands(id).map(Stands::approval) else {
        return Vec::new();
    };
    let slot = match detail {
        Ok(detail) => Slot::Here(Box::new(Card::new(approval, &detail))),
        // A call that failed late takes nothing away that has come since.
        Err(_) if matches!(model.cards.get(&id), Some(Slot::Here(_))) => return Vec::new(),
        Err(why) => Slot::Failed(Untrusted::new(why).line().to_string()),
    };
    if let Slot::Here(card) = &slot {
        let draft = model.drafts.entry(id).or_default();
        if !draft.is_for(&card.form) {
            draft.fields = Draft::new(&card.form).fields;
        }
    }
    let here = model.open_approval() == Some(id);
    if here && matches!(slot, Slot::Here(_)) {
        model.unsay(&[
            notice::LOADING,
            notice::NOT_FETCHED,
            notice::FORM_LATER,
            notice::FORM_OFFLINE,
        ]);
    }
    let awaited = here && awaits_form(model);
    model.cards.insert(id, slot);
    forget_cards(model);
    model.changed();
    if awaited {
        return form_arrived(model, at, id);
    }
    Vec::new()
}

/// Whether the keyboard is in a form that is not here yet.
pub(super) fn awaits_form(model: &Model) -> bool {
    matches!(model.hand, Hand::Field(_))
        && model
            .open_approval()
            .is_some_and(|id| matches!(model.cards.get(&id), Some(Slot::Fetching) | None))
}

/// What was typed while the form was on its way is typed now.
fn form_arrived(model: &mut Model, at: Moment, id: ApprovalId) -> Vec<Effect> {
    let early = std::mem::take(&mut model.early);
    let front = model.front.take();
    model.hand = Hand::Card;
    model.notice = None;
    match model.stands(id) {
        Some(Stands::Ended(settled)) => {
            let why = format!("already {}", words::ended(settled));
            cannot_edit(model, at, why);
        }
        Some(Stands::Waits(_)) | None => open_form(model, at, id),
    }
    let mut effects = Vec::new();
    if matches!(model.hand, Hand::Field(_)) {
        for key in early {
            effects.extend(press(model, at, key));
        }
    }
    model.front = front;
    effects
}

fn forget_cards(model: &mut Model) {
    while model.cards.len() > CARDS_KEPT {
        let open = model.open_approval();
        let Some(id) = model.cards.keys().copied().find(|id| Some(*id) != open) else {
            return;
        };
        model.cards.remove(&id);
    }
}

/// A new connection knows nothing of what the old one was asked.
pub(super) fn refetch(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.open_approval() else {
        return Vec::new();
    };
    match model.cards.get(&id) {
        Some(Slot::Here(_)) => Vec::new(),
        Some(Slot::Fetching | Slot::Failed(_)) | None => fetch(model, id),
    }
}

/// What could not be fetched is tried again.
pub(super) fn fetch_unless_here(model: &mut Model, id: ApprovalId) -> Vec<Effect> {
    match model.cards.get(&id) {
        Some(Slot::Here(_) | Slot::Fetching) => Vec::new(),
        Some(Slot::Failed(_)) | None => fetch(model, id),
    }
}

pub(super) fn fetch(model: &mut Model, id: ApprovalId) -> Vec<Effect> {
    model.cards.insert(id, Slot::Fetching);
    vec![Effect::FetchDetail(id)]
}
