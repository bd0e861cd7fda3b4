//! From a key to an action, or into the text that is being typed.

use registry::{approval::Verdict, control, limits};

use super::super::{
    actions::{Action, Context},
    decide,
    draft::{Intent, Pasted},
    keymap::Resolved,
    keys::{Code, Key},
    model::{DEAF, EARLY_KEYS, Front, Hand, Model, Slot},
    msg::{Effect, Moment},
    order,
    words::{self, notice},
};
use super::cards::{awaits_form, fetch};
use super::moving::{back, dismiss, open_selected, page, step};
use super::steering::{order_here, paste_direction, type_direction, why, write};
use super::writing::{
    choice_or_text, decide_here, edit_form, edit_note, field_or_text, step_field, submit,
};

pub(super) fn press(model: &mut Model, at: Moment, key: Key) -> Vec<Effect> {
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
            } else if context == Context::Steer {
                type_direction(model, key);
            } else if context.takes_text() {
                type_text(model, key);
            }
            Vec::new()
        }
    }
}

/// Pasted text is text, wherever the keyboard is.
pub(super) fn paste(model: &mut Model, text: &str) -> Vec<Effect> {
    model.changed();
    model.typed.clear();
    if let (None, Some(aim)) = (&model.front, model.steering.writing) {
        return paste_direction(model, aim, text);
    }
    if awaits_form(model) {
        model.warn("not pasted: the form is not here yet");
        return Vec::new();
    }
    let draft = model
        .open_approval()
        .and_then(|id| model.drafts.get_mut(&id));
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
    let Some(draft) = model
        .open_approval()
        .and_then(|id| model.drafts.get_mut(&id))
    else {
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
        Action::Resume => order_here(model, at, control::Verb::Resume),
        Action::Cancel => order_here(model, at, control::Verb::Cancel),
        Action::Steer => write(model, at),
        Action::Why => why(model),
        Action::FieldNext => field_or_text(model, key, 1),
        Action::FieldPrevious => field_or_text(model, key, -1),
        Action::ChoiceNext => choice_or_text(model, key, true),
        Action::ChoicePrevious => choice_or_text(model, key, false),
        Action::Submit => submit(model, at),
        Action::Confirm => confirm(model, at),
        Action::Dismiss => dismiss(model),
        Action::RetryNow => retry_now(model),
        Action::Redraw => vec![Effect::Repaint],
        Action::Suspend => vec![Effect::Suspend],
        Action::Help => help(model),
        Action::Quit => vec![Effect::Quit],
    }
}

fn confirm(model: &mut Model, at: Moment) -> Vec<Effect> {
    match model.front {
        Some(Front::Stop(face)) => order::confirmed(model, at, face),
        _ => decide::confirmed(model, at),
    }
}

fn copy_id(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.open.map(|open| open.id).or(model.inbox.selected) else {
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
    match model.open_approval().map(|id| (id, model.cards.get(&id))) {
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
        Some(Front::Sure { .. } | Front::Stop(_)) => about(Context::Confirm),
        None => about(model.place()),
    };
    Vec::new()
}
