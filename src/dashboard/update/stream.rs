//! What the server tells: the mirror follows it, and what is on the screen follows the mirror.

use registry::{Event, Recorded, State, Timestamp, Untrusted, approval::Risk};

use super::super::{
    decide,
    model::{BELL_GAP, DEAF, Model, Open, Screen},
    msg::{Effect, Link, Moment},
    order,
    words::notice,
};
use super::cards::{fetch, refetch};
use super::moving::close;
use super::records::fetch_again;
use super::screens::arrive;
use super::steering::withdraw;

pub(super) fn connect(model: &mut Model, at: Moment, link: Link) -> Vec<Effect> {
    let was_online = model.is_online();
    if let Link::Online { me, .. } = &link {
        model.me = Some(me.clone());
    }
    model.link = link;
    model.changed();
    match (was_online, model.is_online()) {
        (true, true) | (false, false) => Vec::new(),
        (true, false) => {
            model.link_since = at;
            model.front = model.front.take().filter(|front| !front.decides());
            decide::lose_own(model);
            order::lose_own(model);
            Vec::new()
        }
        (false, true) => {
            model.link_since = at;
            model.unsay(&[notice::OFFLINE, notice::FORM_OFFLINE]);
            let mut effects = refetch(model);
            effects.extend(fetch_again(model));
            effects
        }
    }
}

pub(super) fn record(
    model: &mut Model,
    at: Moment,
    events: &[Recorded],
    server_now: Timestamp,
) -> Vec<Effect> {
    let none_waited = model.state.all_pending().next().is_none();
    for event in events {
        model.state.apply(event);
        order::tell(model, &event.event);
    }
    model.runs.follow(events);
    if model.screen == Screen::History {
        model.past.follow(&model.state, events);
    }
    if !events.iter().any(|recorded| shows(model, &recorded.event)) {
        model.clock = Some((server_now, at));
        return Vec::new();
    }
    let rings = events
        .iter()
        .any(|recorded| calls(&recorded.event, none_waited));
    let mut effects = mirror(model, at, server_now);
    effects.extend(rings.then(|| ring(model, at)).flatten());
    effects
}

/// Whether anything that is on the screen may follow from it.
fn shows(model: &Model, event: &Event) -> bool {
    let of_runs = model.screen == Screen::Runs && event.run().is_some();
    let held = event.run().and_then(|run| model.state.run(run)?.held_by);
    let of_open = || model.aim().is_some_and(|aim| event.run() == Some(aim.run));
    let seen = of_runs || held.is_some() || event.item().is_some() || of_open();
    seen || matches!(event, Event::PresenceChanged { .. })
}

/// Whether somebody should look up.
fn calls(event: &Event, none_waited: bool) -> bool {
    match event {
        Event::ApprovalRequested { approval } => none_waited || approval.risk == Risk::High,
        Event::EscalationRaised { .. } => true,
        _ => false,
    }
}

fn ring(model: &mut Model, at: Moment) -> Option<Effect> {
    let lately = model
        .rang_at
        .is_some_and(|rang| at.saturating_sub(rang) < BELL_GAP);
    if lately || model.focused == Some(true) {
        return None;
    }
    model.rang_at = Some(at);
    Some(Effect::Bell)
}

/// All that stands now. What happened in between is in no record that was fetched before.
pub(super) fn stand(
    model: &mut Model,
    at: Moment,
    state: State,
    server_now: Timestamp,
) -> Vec<Effect> {
    model.state = state;
    model.synced = true;
    model.runs.records.clear();
    if model.screen == Screen::History {
        model.past.restart(&model.state);
    }
    mirror(model, at, server_now)
}

/// After the mirror changed. The card stays where it is, whatever the list does.
fn mirror(model: &mut Model, at: Moment, server_now: Timestamp) -> Vec<Effect> {
    model.clock = Some((server_now, at));
    if model.open().is_some_and(|open| !model.waits(open.id)) {
        model.unsay(&[
            notice::LOADING,
            notice::SETTLING,
            notice::READ_FIRST,
            notice::UNDER_WAY,
            notice::UNREACHABLE,
        ]);
    }
    decide::settle_own(model);
    order::settle_own(model);
    withdraw(model, at);
    let gone = model.open().filter(|open| !model.knows(open.id));
    if gone.is_some() {
        if model.place().takes_text() {
            model.deaf = Some(at + DEAF);
        }
        close(model);
        model.warn("the card that was open is not known to the server any more");
    }
    model.steering.forget(&model.state);
    model.put_in_order(at);
    let there = |open: &Open| model.knows(open.id);
    let there = model.opened.iter().filter(|(_, open)| there(open));
    model.opened = there.map(|(screen, open)| (*screen, *open)).collect();
    let (state, past) = (&model.state, &model.past);
    let known = |id| state.approval(id).is_some() || past.under_hand(id).is_some();
    model.drafts.retain(|id, _| known(*id));
    model.seen.retain(|(id, ..), _| known(*id));
    model.cards.retain(|id, _| known(*id));
    model.changed();
    let mut effects = arrive(model);
    let open = model.open_approval();
    if let Some(id) = open.filter(|id| !model.cards.contains_key(id)) {
        effects.extend(fetch(model, id));
    }
    effects.extend(title(model));
    effects
}

fn title(model: &mut Model) -> Option<Effect> {
    let waiting = model.waiting + model.paused;
    // Its name, without the way to it.
    let name = model.setup.server_label.split(" · ").next();
    let label = Untrusted::new(name.unwrap_or_default()).line();
    let count = if waiting == 0 {
        String::new()
    } else {
        format!("({waiting}) ")
    };
    let title = format!("{count}pilothouse {label}");
    (model.title != title).then(|| {
        model.title = title.clone();
        Effect::Title(title)
    })
}
