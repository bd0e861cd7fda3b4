//! From a key to an action, or into the text that is being typed.

use registry::{approval::Verdict, control, limits};

use super::super::{
    actions::{Action, Context},
    decide,
    draft::{Intent, Pasted},
    keymap::Resolved,
    keys::{Code, Key},
    model::{DEAF, EARLY_KEYS, Front, Hand, Model, Screen, Slot},
    msg::{Effect, Moment},
    order,
    words::{self, notice},
};
use super::cards::{awaits_form, fetch};
use super::moving::{back, dismiss, enter, page, step};
use super::palette::{open_palette, run_command, type_command};
use super::records::fetch_again;
use super::screens::{cycle, help, show};
use super::steering::{choose_task, order_here, paste_direction, type_direction, why, write};
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
            if context == Context::Palette {
                type_command(model, key);
            } else if waiting {
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

pub(super) fn act(model: &mut Model, at: Moment, action: Action, key: Key) -> Vec<Effect> {
    use Verdict::{Approve, Reject};
    let wish = |verdict, unread| Intent { verdict, unread };
    match action {
        Action::Open => enter(model),
        Action::Back => back(model, at),
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
        Action::Pause => order_here(model, at, control::Verb::Pause),
        Action::Status => order_here(model, at, control::Verb::StatusQuery),
        Action::Rewind => choose_task(model, at),
        Action::Steer => write(model, at),
        Action::Why => why(model, at),
        Action::FieldNext => field_or_text(model, key, 1),
        Action::FieldPrevious => field_or_text(model, key, -1),
        Action::ChoiceNext => choice_or_text(model, key, true),
        Action::ChoicePrevious => choice_or_text(model, key, false),
        Action::Submit => submit(model, at),
        Action::Confirm => confirm(model, at),
        Action::ShowInbox => show(model, at, Screen::Inbox),
        Action::ShowRuns => show(model, at, Screen::Runs),
        Action::ShowHistory => show(model, at, Screen::History),
        Action::NextScreen => cycle(model, at, 1),
        Action::PreviousScreen => cycle(model, at, 2),
        Action::Command => open_palette(model),
        Action::Run => run_command(model, at, key),
        Action::Dismiss => dismiss(model),
        Action::RetryNow => retry_now(model),
        Action::Redraw => vec![Effect::Repaint],
        Action::Suspend => vec![Effect::Suspend],
        Action::Help => help(model),
        Action::Quit => vec![Effect::Quit],
    }
}

fn confirm(model: &mut Model, at: Moment) -> Vec<Effect> {
    use control::Verb::{Cancel, Rewind};
    match model.front.clone() {
        Some(Front::Sure { .. }) => decide::confirmed(model, at),
        Some(Front::Stop(face)) => order::confirmed(model, at, face, Cancel),
        Some(Front::Again { face, task }) => order::confirmed(model, at, face, Rewind { task }),
        Some(Front::Help { .. } | Front::Palette(_)) | None => Vec::new(),
    }
}

fn copy_id(model: &mut Model) -> Vec<Effect> {
    let Some(id) = id_under_hand(model) else {
        return Vec::new();
    };
    model.say(format!("copied {id}"));
    vec![Effect::Copy(id)]
}

fn id_under_hand(model: &Model) -> Option<String> {
    let open = model.open().map(|open| open.id.to_string());
    open.or_else(|| match model.screen {
        Screen::Inbox => Some(model.inbox.selected?.to_string()),
        Screen::Runs => Some(model.runs.list.selected?.to_string()),
        Screen::History => Some(model.past.selected()?.id().to_string()),
    })
}

fn show_raw(model: &mut Model) -> Vec<Effect> {
    if let Some(open) = model.open_mut() {
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
    if model.screen != Screen::Inbox && model.open().is_none() && model.has_failed() {
        return fetch_again(model);
    }
    match model.open_approval().map(|id| (id, model.cards.get(&id))) {
        Some((id, Some(Slot::Failed(_)))) => fetch(model, id),
        Some(_) | None => {
            model.say("connected");
            Vec::new()
        }
    }
}
