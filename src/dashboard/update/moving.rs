//! Going from card to card, and about in one.

use registry::{ItemId, escalation::Ended};

use super::super::{
    model::{Front, Hand, Model, Open, Screen},
    msg::{Drawn, Effect, Moment},
};
use super::cards::{awaits_form, fetch_unless_here};
use super::palette::step_command;
use super::records::{fetch_older, fetch_record};
use super::screens::show;
use super::steering::{leave, step_task};

/// Hands the keyboard to what is selected.
pub(super) fn enter(model: &mut Model) -> Vec<Effect> {
    match model.screen {
        Screen::Inbox => open_selected(model),
        Screen::Runs => {
            model.hand = Hand::Card;
            Vec::new()
        }
        Screen::History => open_ended(model),
    }
}

/// What has ended is opened like anything else.
fn open_ended(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.past.selected().map(Ended::id) else {
        return Vec::new();
    };
    model.opened.insert(Screen::History, Open::of(id));
    model.hand = Hand::Card;
    match id {
        ItemId::Approval(id) => fetch_unless_here(model, id),
        // All that it shows is here.
        ItemId::Escalation(_) => Vec::new(),
    }
}

/// Opens what is selected, and hands it the keyboard.
pub(super) fn open_selected(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.inbox.selected else {
        return Vec::new();
    };
    let effects = open(model, id);
    model.hand = Hand::Card;
    effects
}

pub(super) fn open(model: &mut Model, id: ItemId) -> Vec<Effect> {
    if model.open().is_some_and(|open| open.id == id) {
        return Vec::new();
    }
    let left = model.opened.insert(Screen::Inbox, Open::of(id));
    model.inbox.selected = Some(id);
    if left.is_some_and(|left| !model.waits(left.id)) {
        drop_ended(model);
    }
    match id {
        ItemId::Approval(id) => fetch_unless_here(model, id),
        // All that it shows came with the stream.
        ItemId::Escalation(_) => Vec::new(),
    }
}

/// Where list and card stand side by side, a card is always open.
pub(super) fn follow(model: &mut Model) -> Vec<Effect> {
    match model.inbox.selected {
        Some(id) if model.is_wide() && model.open().is_none() => open(model, id),
        Some(_) | None => Vec::new(),
    }
}

/// A question that ended stays in the list only while it is under the hand.
fn drop_ended(model: &mut Model) {
    let open = model.open().map(|open| open.id);
    let kept = model.inbox.order.iter().copied();
    let kept: Vec<ItemId> = kept
        .filter(|id| Some(*id) == open || model.waits(*id))
        .collect();
    let left = model.inbox.selected.filter(|id| kept.contains(id));
    model.inbox.selected = left.or(kept.first().copied());
    model.inbox.order = kept;
}

pub(super) fn close(model: &mut Model) {
    model.opened.remove(&model.screen);
    model.hand = Hand::List;
    model.front = model.front.take().filter(|front| !front.decides());
}

pub(super) fn back(model: &mut Model, at: Moment) -> Vec<Effect> {
    if model.steering.writing.is_some() {
        return leave(model);
    }
    match model.hand {
        Hand::Field(_) | Hand::Note => {
            if let Some(draft) = model
                .open_approval()
                .and_then(|id| model.drafts.get_mut(&id))
            {
                draft.intent = None;
            }
            if !model.early.is_empty() {
                model.early.clear();
                model.warn("the form was not here yet: what was typed is dropped");
            } else if awaits_form(model) {
                model.notice = None;
            }
            model.hand = Hand::Card;
            Vec::new()
        }
        Hand::List if model.screen != Screen::Inbox => show(model, at, Screen::Inbox),
        Hand::Card if model.screen != Screen::Inbox => {
            close(model);
            Vec::new()
        }
        Hand::Card | Hand::List if model.is_wide() => {
            model.hand = Hand::List;
            Vec::new()
        }
        Hand::Card | Hand::List => {
            let beside = neighbour(model);
            close(model);
            drop_ended(model);
            model.inbox.selected = beside
                .filter(|id| model.inbox.order.contains(id))
                .or(model.inbox.selected);
            Vec::new()
        }
    }
}

/// The selection if it still waits; else what comes after it, or before.
fn neighbour(model: &Model) -> Option<ItemId> {
    let selected = model.inbox.selected?;
    if model.waits(selected) {
        return Some(selected);
    }
    let at = model.inbox.order.iter().position(|id| *id == selected)?;
    let after = model.inbox.order.get(at + 1);
    after
        .or_else(|| model.inbox.order.get(at.checked_sub(1)?))
        .copied()
}

pub(super) fn dismiss(model: &mut Model) -> Vec<Effect> {
    if model.front.take().is_some() {
        return Vec::new();
    }
    let ended = model.open().is_some_and(|open| !model.waits(open.id));
    if !ended {
        return Vec::new();
    }
    if model.screen != Screen::Inbox {
        close(model);
        return Vec::new();
    }
    let beside = neighbour(model);
    close(model);
    drop_ended(model);
    model.inbox.selected =
        beside
            .filter(|id| model.inbox.order.contains(id))
            .or(model.inbox.order.first().copied());
    follow(model)
}

pub(super) fn step(model: &mut Model, by: isize) -> Vec<Effect> {
    match &mut model.front {
        Some(Front::Help { top, .. }) => {
            *top = clamp(*top, by, usize::MAX / 4);
            return Vec::new();
        }
        Some(Front::Palette(_)) => {
            step_command(model, by);
            return Vec::new();
        }
        Some(Front::Again { .. }) => {
            step_task(model, by);
            return Vec::new();
        }
        Some(Front::Sure { .. } | Front::Stop(_)) | None => {}
    }
    match (model.screen, model.hand) {
        (Screen::Inbox, Hand::List) => select(model, by),
        (Screen::Runs, Hand::List) => select_run(model, by),
        (Screen::History, Hand::List) => select_ended(model, by),
        (Screen::Runs, _) => scroll_lanes(model, by),
        (Screen::Inbox | Screen::History, Hand::Card | Hand::Field(_) | Hand::Note) => {
            scroll(model, by)
        }
    }
}

fn clamp(from: usize, by: isize, last: usize) -> usize {
    from.saturating_add_signed(by).min(last)
}

fn select(model: &mut Model, by: isize) -> Vec<Effect> {
    let Some(id) = model.inbox.beside(by) else {
        return Vec::new();
    };
    if model.inbox.selected == Some(id) {
        // Nowhere to go; but what has ended is left behind.
        return dismiss(model);
    }
    model.inbox.selected = Some(id);
    if model.is_wide() {
        return open(model, id);
    }
    if model.open().is_some_and(|open| open.id != id) {
        model.opened.remove(&Screen::Inbox);
        drop_ended(model);
    }
    Vec::new()
}

fn select_run(model: &mut Model, by: isize) -> Vec<Effect> {
    model.runs.list.selected = model.runs.list.beside(by);
    model.runs.lanes_top = 0;
    fetch_record(model)
}

fn select_ended(model: &mut Model, by: isize) -> Vec<Effect> {
    model.past.list.selected = model.past.list.beside(by);
    fetch_older(model)
}

fn scroll_lanes(model: &mut Model, by: isize) -> Vec<Effect> {
    let rows = model.drawn.as_ref().and_then(|drawn| drawn.lanes);
    let last = rows.map_or(0, |rows| rows.all.saturating_sub(rows.height));
    model.runs.lanes_top = clamp(model.runs.lanes_top, by, last);
    Vec::new()
}

fn scroll(model: &mut Model, by: isize) -> Vec<Effect> {
    let rows = model.drawn.as_ref().and_then(Drawn::card_rows);
    let last = rows.map_or(0, |rows| rows.all.saturating_sub(rows.height));
    if let Some(open) = model.open_mut() {
        open.top = clamp(open.top, by, last);
    }
    Vec::new()
}

pub(super) fn page(model: &mut Model, pages: isize) -> Vec<Effect> {
    let drawn = model.drawn.as_ref();
    let height = match (&model.front, model.hand) {
        (Some(_), _) => drawn.and_then(|drawn| drawn.help).map(|rows| rows.height),
        (None, Hand::List) => drawn
            .and_then(|drawn| drawn.list)
            .map(|list| list.rows.height),
        (None, _) if model.screen == Screen::Runs => {
            drawn.and_then(|drawn| drawn.lanes).map(|rows| rows.height)
        }
        (None, _) => drawn.and_then(Drawn::card_rows).map(|rows| rows.height),
    };
    let rows = height.unwrap_or(10).saturating_sub(1).max(1);
    step(model, pages * isize::try_from(rows).unwrap_or(10))
}
