//! What happened changes the model, and may want something done.

use registry::{
    ApprovalId, Detail, Event, Recorded, Timestamp,
    approval::{Risk, Verdict},
    limits,
};

use super::{
    actions::{Action, Context},
    card::Card,
    decide,
    draft::{Draft, Intent, Pasted},
    keymap::Resolved,
    keys::{Code, Key},
    model::{BELL_GAP, CARDS_KEPT, DEAF, EARLY_KEYS, Front, Hand, Model, Open, Slot, Stands},
    msg::{Drawn, Effect, Link, Moment, Msg},
    words::{self, notice},
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
        Msg::Snapshot { state, server_now } => {
            model.state = state;
            model.synced = true;
            mirror(model, at, server_now)
        }
        Msg::Recorded { events, server_now } => record(model, at, &events, server_now),
        Msg::Detail { id, detail } => receive(model, at, id, detail),
        Msg::Decided { decision, result } => {
            decide::answered(model, &decision, result);
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
    let soon = model.now(at).map(|now| now.plus(super::model::URGENT));
    if soon.is_some_and(|soon| model.state.overdue(soon).count() != model.urgent) {
        model.put_in_order(at);
    }
    model.changed();
}

// === What comes from the server ===

fn connect(model: &mut Model, at: Moment, link: Link) -> Vec<Effect> {
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
            model.front = model
                .front
                .take()
                .filter(|front| matches!(front, Front::Help { .. }));
            decide::lose_own(model);
            Vec::new()
        }
        (false, true) => {
            model.link_since = at;
            model.unsay(&[notice::OFFLINE, notice::FORM_OFFLINE]);
            refetch(model)
        }
    }
}

fn record(
    model: &mut Model,
    at: Moment,
    events: &[Recorded],
    server_now: Timestamp,
) -> Vec<Effect> {
    let none_waited = model.state.all_pending().next().is_none();
    for event in events {
        model.state.apply(event);
    }
    if !events.iter().any(|recorded| shows(&recorded.event)) {
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
fn shows(event: &Event) -> bool {
    event.approval().is_some() || matches!(event, Event::PresenceChanged { .. })
}

/// Whether somebody should look up.
fn calls(event: &Event, none_waited: bool) -> bool {
    match event {
        Event::ApprovalRequested { approval } => none_waited || approval.risk == Risk::High,
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

/// After the mirror changed. The card stays where it is, whatever the list does.
fn mirror(model: &mut Model, at: Moment, server_now: Timestamp) -> Vec<Effect> {
    model.clock = Some((server_now, at));
    if model
        .open
        .is_some_and(|open| model.state.settled(open.id).is_some())
    {
        model.unsay(&[
            notice::LOADING,
            notice::SETTLING,
            notice::READ_FIRST,
            notice::UNDER_WAY,
            notice::UNREACHABLE,
        ]);
    }
    decide::settle_own(model);
    let gone = model.open.filter(|open| model.stands(open.id).is_none());
    if gone.is_some() {
        if model.hand.context().takes_text() {
            model.deaf = Some(at + DEAF);
        }
        close(model);
        model.warn("the card that was open is not known to the server any more");
    }
    model.put_in_order(at);
    let state = &model.state;
    model.drafts.retain(|id, _| state.approval(*id).is_some());
    model
        .seen
        .retain(|(id, ..), _| state.approval(*id).is_some());
    model.cards.retain(|id, _| state.approval(*id).is_some());
    model.changed();
    let mut effects = follow(model);
    if let Some(open) = model
        .open
        .filter(|open| !model.cards.contains_key(&open.id))
    {
        effects.extend(fetch(model, open.id));
    }
    effects.extend(title(model));
    effects
}

fn receive(
    model: &mut Model,
    at: Moment,
    id: ApprovalId,
    detail: Result<Detail, String>,
) -> Vec<Effect> {
    let Some(approval) = model.state.approval(id) else {
        return Vec::new();
    };
    let slot = match detail {
        Ok(detail) => Slot::Here(Box::new(Card::new(approval, &detail))),
        // A call that failed late takes nothing away that has come since.
        Err(_) if matches!(model.cards.get(&id), Some(Slot::Here(_))) => return Vec::new(),
        Err(why) => Slot::Failed(registry::Untrusted::new(why).line().to_string()),
    };
    if let Slot::Here(card) = &slot {
        let draft = model.drafts.entry(id).or_default();
        if !draft.is_for(&card.form) {
            draft.fields = Draft::new(&card.form).fields;
        }
    }
    let here = model.open.is_some_and(|open| open.id == id);
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
fn awaits_form(model: &Model) -> bool {
    matches!(model.hand, Hand::Field(_))
        && model
            .open
            .is_some_and(|open| matches!(model.cards.get(&open.id), Some(Slot::Fetching) | None))
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
        let open = model.open.map(|open| open.id);
        let Some(id) = model.cards.keys().copied().find(|id| Some(*id) != open) else {
            return;
        };
        model.cards.remove(&id);
    }
}

/// A new connection knows nothing of what the old one was asked.
fn refetch(model: &mut Model) -> Vec<Effect> {
    let Some(open) = model.open else {
        return Vec::new();
    };
    match model.cards.get(&open.id) {
        Some(Slot::Here(_)) => Vec::new(),
        Some(Slot::Fetching | Slot::Failed(_)) | None => fetch(model, open.id),
    }
}

fn fetch(model: &mut Model, id: ApprovalId) -> Vec<Effect> {
    model.cards.insert(id, Slot::Fetching);
    vec![Effect::FetchDetail(id)]
}

fn title(model: &mut Model) -> Option<Effect> {
    let waiting = model.waiting;
    // Its name, without the way to it.
    let name = model.setup.server_label.split(" · ").next();
    let label = registry::Untrusted::new(name.unwrap_or_default()).line();
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

// === What comes from the terminal ===

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
        model.list_top = list.rows.top;
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
        if let Some(open) = model.open.as_mut().filter(|open| open.id == card.face.id) {
            open.top = card.rows.top;
        }
    }
    if let (Some(Front::Help { top, .. }), Some(rows)) = (&mut model.front, drawn.help) {
        *top = rows.top;
    }
    model.drawn = Some(drawn);
    model.wake = model.wakes_after(at);
    Vec::new()
}

/// Pasted text is text, wherever the keyboard is.
fn paste(model: &mut Model, text: &str) -> Vec<Effect> {
    model.changed();
    model.typed.clear();
    if awaits_form(model) {
        model.warn("not pasted: the form is not here yet");
        return Vec::new();
    }
    let draft = model.open.and_then(|open| model.drafts.get_mut(&open.id));
    let (pasted, limit) = match (&model.front, model.hand, draft) {
        (None, Hand::Field(field), Some(draft)) => {
            (draft.paste(field, text, limits::ANSWERS), limits::ANSWERS)
        }
        (None, Hand::Note, Some(draft)) => (draft.note_paste(text, limits::NOTE), limits::NOTE),
        (Some(_), ..) | (None, Hand::List | Hand::Card, _) | (None, _, None) => {
            model.warn(notice::PASTE);
            return Vec::new();
        }
    };
    match pasted {
        Some(Pasted { dropped: 0 }) => model.notice = None,
        Some(Pasted { dropped }) => {
            model.warn(format!(
                "{} left out of what was pasted",
                words::count(dropped, "hidden char")
            ));
        }
        None => model.warn(format!(
            "not pasted: the field offers choices, or would be longer than {limit} bytes"
        )),
    }
    Vec::new()
}

fn press(model: &mut Model, at: Moment, key: Key) -> Vec<Effect> {
    let context = model.context();
    if let Some(until) = model.deaf.take()
        && at < until
        && key.text().is_some()
        && !context.takes_text()
    {
        model.deaf = Some(at + DEAF);
        return Vec::new();
    }
    let waiting = awaits_form(model) && model.front.is_none();
    if !waiting {
        model.notice = None;
    }
    model.changed();
    match model.setup.keymap.resolve(context, &model.typed, key) {
        Resolved::Action(action) if waiting && is_of_fields(action) => {
            model.typed.clear();
            type_early(model, key);
            Vec::new()
        }
        Resolved::Action(action) => {
            model.typed.clear();
            act(model, at, action, key)
        }
        Resolved::Pending => {
            model.typed.push(key);
            Vec::new()
        }
        Resolved::Nothing => {
            model.typed.clear();
            if waiting {
                type_early(model, key);
            } else if context.takes_text() {
                type_text(model, key);
            }
            Vec::new()
        }
    }
}

fn is_of_fields(action: Action) -> bool {
    use Action::{ChoiceNext, ChoicePrevious, FieldNext, FieldPrevious};
    matches!(
        action,
        FieldNext | FieldPrevious | ChoiceNext | ChoicePrevious
    )
}

fn type_early(model: &mut Model, key: Key) {
    if model.early.len() < EARLY_KEYS {
        model.early.push(key);
    }
}

fn type_text(model: &mut Model, key: Key) {
    let Some(draft) = model.open.and_then(|open| model.drafts.get_mut(&open.id)) else {
        return;
    };
    match model.hand {
        Hand::Field(field) => {
            if !draft.key(field, key) && key.code == Code::Enter {
                step_field(model, 1);
            }
        }
        Hand::Note if draft.note().len() >= limits::NOTE && key.text().is_some() => {
            model.warn(format!("a note has at most {} bytes", limits::NOTE));
        }
        Hand::Note => drop(draft.note_key(key)),
        Hand::List | Hand::Card => {}
    }
}

fn act(model: &mut Model, at: Moment, action: Action, key: Key) -> Vec<Effect> {
    use Verdict::{Approve, Reject};
    let wish = |verdict, unread| Intent { verdict, unread };
    match action {
        Action::Open => open_selected(model),
        Action::Back => back(model),
        Action::Next => step(model, 1),
        Action::Previous => step(model, -1),
        Action::First => step(model, isize::MIN / 2),
        Action::Last => step(model, isize::MAX / 2),
        Action::PageDown => page(model, 1),
        Action::PageUp => page(model, -1),
        Action::Approve => decide_here(model, at, wish(Approve, false)),
        Action::ApproveUnread => decide_here(model, at, wish(Approve, true)),
        Action::Reject => decide_here(model, at, wish(Reject, false)),
        Action::EditForm => edit_form(model, at),
        Action::EditNote => edit_note(model, at),
        Action::CopyId => copy_id(model),
        Action::ShowRaw => show_raw(model),
        Action::FieldNext => field_or_text(model, key, 1),
        Action::FieldPrevious => field_or_text(model, key, -1),
        Action::ChoiceNext => choice_or_text(model, key, true),
        Action::ChoicePrevious => choice_or_text(model, key, false),
        Action::Submit => submit(model, at),
        Action::Confirm => decide::confirmed(model, at),
        Action::Dismiss => dismiss(model),
        Action::RetryNow => retry_now(model),
        Action::Redraw => vec![Effect::Repaint],
        Action::Suspend => vec![Effect::Suspend],
        Action::Help => help(model),
        Action::Quit => vec![Effect::Quit],
    }
}

// === Moving ===

/// Opens what is selected, and hands it the keyboard.
fn open_selected(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.selected else {
        return Vec::new();
    };
    let effects = open(model, id);
    model.hand = Hand::Card;
    effects
}

fn open(model: &mut Model, id: ApprovalId) -> Vec<Effect> {
    if model.open.is_some_and(|open| open.id == id) {
        return Vec::new();
    }
    let left = model.open.replace(Open {
        id,
        top: 0,
        raw: false,
    });
    model.selected = Some(id);
    if left.is_some_and(|left| model.state.pending(left.id).is_none()) {
        drop_ended(model);
    }
    match model.cards.get(&id) {
        Some(Slot::Here(_) | Slot::Fetching) => Vec::new(),
        Some(Slot::Failed(_)) | None => fetch(model, id),
    }
}

/// Where list and card stand side by side, a card is always open.
fn follow(model: &mut Model) -> Vec<Effect> {
    match model.selected {
        Some(id) if model.is_wide() && model.open.is_none() => open(model, id),
        Some(_) | None => Vec::new(),
    }
}

/// A question that ended stays in the list only while it is under the hand.
fn drop_ended(model: &mut Model) {
    let open = model.open.map(|open| open.id);
    let state = &model.state;
    model
        .order
        .retain(|id| Some(*id) == open || state.pending(*id).is_some());
    if let Some(selected) = model.selected
        && !model.order.contains(&selected)
    {
        model.selected = model.order.first().copied();
    }
}

fn close(model: &mut Model) {
    model.open = None;
    model.hand = Hand::List;
    model.front = model
        .front
        .take()
        .filter(|front| matches!(front, Front::Help { .. }));
}

fn back(model: &mut Model) -> Vec<Effect> {
    match model.hand {
        Hand::Field(_) | Hand::Note => {
            if let Some(draft) = model.open.and_then(|open| model.drafts.get_mut(&open.id)) {
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
        Hand::Card | Hand::List if model.is_wide() => {
            model.hand = Hand::List;
            Vec::new()
        }
        Hand::Card | Hand::List => {
            let beside = neighbour(model);
            close(model);
            drop_ended(model);
            model.selected = beside
                .filter(|id| model.order.contains(id))
                .or(model.selected);
            Vec::new()
        }
    }
}

/// The selection if it still waits; else what comes after it, or before.
fn neighbour(model: &Model) -> Option<ApprovalId> {
    let selected = model.selected?;
    if model.state.pending(selected).is_some() {
        return Some(selected);
    }
    let at = model.order.iter().position(|id| *id == selected)?;
    let after = model.order.get(at + 1);
    after
        .or_else(|| model.order.get(at.checked_sub(1)?))
        .copied()
}

fn dismiss(model: &mut Model) -> Vec<Effect> {
    if model.front.take().is_some() {
        return Vec::new();
    }
    let ended = model
        .open
        .is_some_and(|open| model.state.pending(open.id).is_none());
    if !ended {
        return Vec::new();
    }
    let beside = neighbour(model);
    close(model);
    drop_ended(model);
    model.selected = beside
        .filter(|id| model.order.contains(id))
        .or(model.order.first().copied());
    follow(model)
}

fn step(model: &mut Model, by: isize) -> Vec<Effect> {
    if let Some(Front::Help { top, .. }) = &mut model.front {
        *top = clamp(*top, by, usize::MAX / 4);
        return Vec::new();
    }
    match model.hand {
        Hand::List => select(model, by),
        Hand::Card | Hand::Field(_) | Hand::Note => scroll(model, by),
    }
}

fn clamp(from: usize, by: isize, last: usize) -> usize {
    from.saturating_add_signed(by).min(last)
}

fn select(model: &mut Model, by: isize) -> Vec<Effect> {
    let selected = model.selected;
    let at = model.order.iter().position(|id| Some(*id) == selected);
    let last = model.order.len().saturating_sub(1);
    let to = at.map_or(0, |at| clamp(at, by, last));
    let Some(id) = model.order.get(to).copied() else {
        return Vec::new();
    };
    if selected == Some(id) {
        // Nowhere to go; but what has ended is left behind.
        return dismiss(model);
    }
    model.selected = Some(id);
    if model.is_wide() {
        return open(model, id);
    }
    if model.open.take_if(|open| open.id != id).is_some() {
        drop_ended(model);
    }
    Vec::new()
}

fn scroll(model: &mut Model, by: isize) -> Vec<Effect> {
    let rows = model
        .drawn
        .as_ref()
        .and_then(|drawn| drawn.card.as_ref())
        .map(|card| card.rows);
    let last = rows.map_or(0, |rows| rows.all.saturating_sub(rows.height));
    if let Some(open) = &mut model.open {
        open.top = clamp(open.top, by, last);
    }
    Vec::new()
}

fn page(model: &mut Model, pages: isize) -> Vec<Effect> {
    let drawn = model.drawn.as_ref();
    let height = match (&model.front, model.hand) {
        (Some(_), _) => drawn.and_then(|drawn| drawn.help).map(|rows| rows.height),
        (None, Hand::List) => drawn
            .and_then(|drawn| drawn.list)
            .map(|list| list.rows.height),
        (None, _) => drawn
            .and_then(|drawn| drawn.card.as_ref())
            .map(|card| card.rows.height),
    };
    let rows = height.unwrap_or(10).saturating_sub(1).max(1);
    step(model, pages * isize::try_from(rows).unwrap_or(10))
}

// === Deciding and typing ===

/// In a list alone the card is not on the screen: the first press shows it.
fn decide_here(model: &mut Model, at: Moment, intent: Intent) -> Vec<Effect> {
    if model.hand == Hand::List && !model.is_wide() && model.is_online() && model.selected.is_some()
    {
        let effects = open_selected(model);
        model.say(notice::READ_FIRST);
        return effects;
    }
    decide::decide(model, at, intent)
}

fn edit_form(model: &mut Model, at: Moment) -> Vec<Effect> {
    let (id, effects) = to_edit(model, at);
    if let Some(id) = id {
        open_form(model, at, id);
    }
    effects
}

/// A note needs nothing of the card but its being there.
fn edit_note(model: &mut Model, at: Moment) -> Vec<Effect> {
    let (id, effects) = to_edit(model, at);
    if let Some(id) = id {
        model.drafts.entry(id).or_default();
        model.hand = Hand::Note;
    }
    effects
}

/// Opens the card if need be. None: nothing can be written for it, and the letters that follow mean nothing else.
fn to_edit(model: &mut Model, at: Moment) -> (Option<ApprovalId>, Vec<Effect>) {
    let effects = match model.selected {
        Some(_) if model.open.is_none() => open_selected(model),
        Some(_) | None => Vec::new(),
    };
    let stands = model
        .open
        .and_then(|open| Some((open.id, model.stands(open.id)?)));
    let why = match stands {
        Some((id, Stands::Waits(_))) => return (Some(id), effects),
        Some((_, Stands::Ended(settled))) => format!("already {}", words::ended(settled)),
        None => notice::NO_CARD.to_owned(),
    };
    cannot_edit(model, at, why);
    (None, effects)
}

fn cannot_edit(model: &mut Model, at: Moment, why: impl Into<String>) {
    model.warn(why);
    model.deaf = Some(at + DEAF);
}

/// Hands the keyboard to the form, also where it is still on its way.
fn open_form(model: &mut Model, at: Moment, id: ApprovalId) {
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
fn field_or_text(model: &mut Model, key: Key, by: isize) -> Vec<Effect> {
    let arrow = matches!(key.code, Code::Up | Code::Down);
    if arrow && field_takes(model, key) {
        return Vec::new();
    }
    step_field(model, by);
    Vec::new()
}

fn choice_or_text(model: &mut Model, key: Key, forward: bool) -> Vec<Effect> {
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
        model.open.and_then(|open| model.drafts.get_mut(&open.id)),
    ) {
        (Hand::Field(field), Some(draft)) => then(draft, field),
        _ => false,
    }
}

fn step_field(model: &mut Model, by: isize) {
    let fields = model
        .open
        .and_then(|open| model.drafts.get(&open.id))
        .map_or(0, |d| d.fields.len());
    if let Hand::Field(field) = &mut model.hand
        && fields > 0
    {
        *field = (*field + fields).saturating_add_signed(by) % fields;
    }
}

/// Done with the text. Where a decision waits for the form, it goes on now.
fn submit(model: &mut Model, at: Moment) -> Vec<Effect> {
    let Some(open) = model.open else {
        return Vec::new();
    };
    let intent = model.drafts.get(&open.id).and_then(|draft| draft.intent);
    match (model.hand, intent) {
        (Hand::Field(_), Some(intent)) => decide::decide(model, at, intent),
        (Hand::Field(_), None) => {
            leave_form(model, open.id);
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

// === The rest ===

fn copy_id(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.open.map(|open| open.id).or(model.selected) else {
        return Vec::new();
    };
    model.say(format!("copied {id}"));
    vec![Effect::Copy(id.to_string())]
}

fn show_raw(model: &mut Model) -> Vec<Effect> {
    if let Some(open) = &mut model.open {
        open.raw = !open.raw;
        open.top = 0;
    }
    Vec::new()
}

fn retry_now(model: &mut Model) -> Vec<Effect> {
    if !model.is_online() {
        return vec![Effect::RetryNow];
    }
    refetch_failed(model)
}

fn refetch_failed(model: &mut Model) -> Vec<Effect> {
    match model.open.map(|open| (open.id, model.cards.get(&open.id))) {
        Some((id, Some(Slot::Failed(_)))) => fetch(model, id),
        Some(_) | None => {
            model.say("connected");
            Vec::new()
        }
    }
}

fn help(model: &mut Model) -> Vec<Effect> {
    let about = |of| Some(Front::Help { of, top: 0 });
    model.front = match model.front.take() {
        Some(Front::Help { .. }) => None,
        Some(Front::Sure { .. }) => about(Context::Confirm),
        None => about(model.hand.context()),
    };
    Vec::new()
}
