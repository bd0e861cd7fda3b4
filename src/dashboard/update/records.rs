//! What is fetched for the lists: the record of a run, and what ended long ago.

use registry::{Recorded, RunId, Seq, Untrusted, escalation::Ended};

use super::super::{
    model::{Model, Screen},
    msg::Effect,
    past::Older,
    runs::{Fetched, Record},
};

/// The record of the selected run, unless it is here or on its way.
pub(super) fn fetch_record(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.runs.list.selected else {
        return Vec::new();
    };
    if model.screen != Screen::Runs || !model.is_online() || model.runs.records.contains_key(&id) {
        return Vec::new();
    }
    model.runs.records.insert(id, Record::default());
    model.runs.forget();
    vec![Effect::FetchRun(id)]
}

pub(super) fn receive_record(
    model: &mut Model,
    id: RunId,
    told: Result<Vec<Recorded>, String>,
) -> Vec<Effect> {
    let Some(record) = model.runs.records.get_mut(&id) else {
        return Vec::new();
    };
    match told {
        Ok(events) => {
            record.take(events);
            record.fetched = Fetched::Whole;
        }
        // A call that failed late takes nothing away that has come since.
        Err(_) if record.fetched == Fetched::Whole => {}
        Err(why) => record.fetched = Fetched::Failed(Untrusted::new(why).line().to_string()),
    }
    model.changed();
    Vec::new()
}

/// What is older, once the selection stands at the end of what is known.
pub(super) fn fetch_older(model: &mut Model) -> Vec<Effect> {
    let list = &model.past.list;
    let at_end = list.position().is_none_or(|at| at + 1 == list.order.len());
    let Older::More(before) = model.past.older else {
        return Vec::new();
    };
    if model.screen != Screen::History || !model.is_online() || !at_end {
        return Vec::new();
    }
    model.past.older = Older::UnderWay(before);
    vec![Effect::FetchHistory { before }]
}

pub(super) fn receive_page(
    model: &mut Model,
    before: Option<Seq>,
    page: Result<(Vec<Ended>, Option<Seq>), String>,
) -> Vec<Effect> {
    if model.past.older != Older::UnderWay(before) {
        return Vec::new();
    }
    model.changed();
    match page {
        Ok((ended, next)) => {
            model.past.take(ended);
            // A server that leads in circles is not followed.
            let next = next.filter(|next| before.is_none_or(|before| *next < before));
            model.past.older = next.map_or(Older::Nothing, |next| Older::More(Some(next)));
            fetch_older(model)
        }
        Err(why) => {
            let why = Untrusted::new(why).line().to_string();
            model.past.older = Older::Failed(before, why);
            Vec::new()
        }
    }
}

/// A new connection knows nothing of what the old one was asked; and what failed is tried again.
pub(super) fn fetch_again(model: &mut Model) -> Vec<Effect> {
    match model.screen {
        Screen::Inbox => Vec::new(),
        Screen::Runs => {
            let whole = |record: &Record| record.fetched == Fetched::Whole;
            model.runs.records.retain(|_, record| whole(record));
            fetch_record(model)
        }
        Screen::History => {
            if let Older::UnderWay(before) | Older::Failed(before, _) = model.past.older {
                model.past.older = Older::More(before);
            }
            fetch_older(model)
        }
    }
}
