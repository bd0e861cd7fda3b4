//! The last row: what the keys do here, or the answer to the last one.

use ratatui::layout::Rect;

use super::{
    super::{
        actions::{Action, Context},
        keymap::Binding,
        lines::{columns, cut},
        model::Hand,
        theme::Role,
    },
    Pen, Scene,
};

/// From this width on, the key that finds every other is never dropped.
const COMMAND_FROM: u16 = 80;

/// In the order in which they are kept when there is little room.
fn hints(context: Context) -> &'static [(Action, &'static str)] {
    match context {
        Context::Global => &[],
        Context::Inbox => &[
            (Action::Open, "open"),
            (Action::Approve, "approve"),
            (Action::Reject, "reject"),
            (Action::Resume, "resume"),
            (Action::Steer, "steer"),
            (Action::Cancel, "cancel"),
            (Action::Why, "why"),
            (Action::EditForm, "form"),
            (Action::EditNote, "note"),
            (Action::ShowRuns, "runs"),
            (Action::ShowHistory, "history"),
            (Action::Next, "next"),
            (Action::ShowRaw, "raw"),
            (Action::CopyId, "copy id"),
        ],
        Context::Runs => &[
            (Action::Open, "lanes"),
            (Action::Pause, "pause"),
            (Action::Resume, "resume"),
            (Action::Steer, "steer"),
            (Action::Cancel, "cancel"),
            (Action::Status, "status"),
            (Action::Rewind, "rewind"),
            (Action::Next, "next"),
            (Action::Back, "back"),
            (Action::CopyId, "copy id"),
            (Action::ShowInbox, "inbox"),
            (Action::ShowHistory, "history"),
        ],
        Context::History => &[
            (Action::Open, "open"),
            (Action::Next, "next"),
            (Action::Back, "back"),
            (Action::CopyId, "copy id"),
            (Action::ShowInbox, "inbox"),
            (Action::ShowRuns, "runs"),
        ],
        Context::Palette => &[
            (Action::Run, "run"),
            (Action::Dismiss, "leave"),
            (Action::Next, "next"),
        ],
        Context::Card => &[
            (Action::Back, "back"),
            (Action::Approve, "approve"),
            (Action::Reject, "reject"),
            (Action::Next, "scroll"),
            (Action::EditForm, "form"),
            (Action::EditNote, "note"),
            (Action::ShowRaw, "raw"),
            (Action::CopyId, "copy id"),
        ],
        Context::Escalation => &[
            (Action::Back, "back"),
            (Action::Resume, "resume"),
            (Action::Steer, "steer"),
            (Action::Cancel, "cancel"),
            (Action::Why, "why"),
            (Action::Next, "scroll"),
            (Action::CopyId, "copy id"),
        ],
        Context::Rewind => &[
            (Action::Confirm, "yes, do it again"),
            (Action::Dismiss, "no"),
            (Action::Next, "next task"),
        ],
        Context::Steer => &[(Action::Submit, "send"), (Action::Back, "keep as draft")],
        Context::Form => &[
            (Action::Submit, "keep"),
            (Action::Back, "back"),
            (Action::FieldNext, "next field"),
            (Action::ChoiceNext, "choose"),
        ],
        Context::Note => &[(Action::Submit, "keep"), (Action::Back, "back")],
        Context::Confirm => &[(Action::Confirm, "yes"), (Action::Dismiss, "no")],
        Context::Help => &[(Action::Dismiss, "close"), (Action::Next, "scroll")],
    }
}

/// Which key to name, where several do it.
pub(super) fn preferred(action: Action) -> &'static str {
    match action {
        Action::Next => "↓",
        Action::Previous => "↑",
        Action::ChoiceNext => "→",
        Action::Help => "?",
        Action::Quit => "q",
        Action::Dismiss => "n",
        Action::ShowInbox => "1",
        _ => "",
    }
}

impl Scene<'_> {
    pub(super) fn footer(&self, pen: &mut Pen<'_, '_>, row: Rect) {
        let context = self.model.context();
        let last = [
            (Action::Command, "command"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
        ];
        let is_kept = |action: Action| match action {
            Action::Command => {
                let lists = [Context::Inbox, Context::Runs, Context::History];
                lists.contains(&context) && self.model.notice.is_none() && row.width >= COMMAND_FROM
            }
            Action::Help => context != Context::Help,
            _ => true,
        };
        let last: Vec<(String, &str)> = last
            .into_iter()
            .filter(|(action, _)| self.model.typed.is_empty() && is_kept(*action))
            .map(|(action, word)| (self.key(context, action), word))
            .collect();
        let kept: usize = last.iter().map(|(key, word)| hint_columns(key, word)).sum();
        let room = Rect {
            width: row
                .width
                .saturating_sub(u16::try_from(kept + 1).unwrap_or(u16::MAX)),
            ..row
        };
        let mut x = match &self.model.notice {
            Some(notice) => {
                let role = if notice.bad { Role::Warn } else { Role::Strong };
                let sign = if notice.bad {
                    pen.signs.beware
                } else {
                    pen.signs.dot
                };
                let words = pen.spelled(&format!(" {sign} {}", notice.words));
                let words = cut(&words, usize::from(room.width), pen.signs.more);
                pen.put(room, row.x, row.y, role, &words) + 2
            }
            None if !self.model.typed.is_empty() => self.continuations(pen, room, context),
            None => self.hints(pen, room, context),
        };
        for (key, word) in &last {
            x = pen.pieces(
                row,
                x,
                row.y,
                &[(Role::Hint, key), (Role::Muted, &format!(" {word}  "))],
            );
        }
    }

    fn hints(&self, pen: &mut Pen<'_, '_>, room: Rect, context: Context) -> u16 {
        let mut x = room.x + 1;
        for (action, word) in hints(context)
            .iter()
            .filter(|(action, _)| self.model.is_possible(*action))
        {
            let word = self.word(*action, word);
            let key = self.key(context, *action);
            let width = u16::try_from(hint_columns(&key, &word)).unwrap_or(u16::MAX);
            if x.saturating_add(width) > room.right() {
                break;
            }
            x = pen.pieces(
                room,
                x,
                room.y,
                &[(Role::Hint, &key), (Role::Muted, &format!(" {word}  "))],
            );
        }
        x
    }

    /// A sequence has begun: what the next key makes of it.
    fn continuations(&self, pen: &mut Pen<'_, '_>, room: Rect, context: Context) -> u16 {
        let model = self.model;
        let begun: Vec<String> = model.typed.iter().map(|key| key.pretty()).collect();
        let begun = pen.spelled(&format!(" {}…  ", begun.join(" ")));
        let mut x = pen.put(room, room.x, room.y, Role::Strong, &begun);
        for Binding { keys, action } in model.setup.keymap.continuations(context, &model.typed) {
            let (key, what) = (pen.spelled(&keys), format!(" {}  ", action.describe()));
            x = pen.pieces(room, x, room.y, &[(Role::Hint, &key), (Role::Muted, &what)]);
        }
        let leave = [(Role::Hint, "esc"), (Role::Muted, " leave  ")];
        pen.pieces(room, x, room.y, &leave)
    }

    /// In a form that stood in the way of a decision, the key that keeps the text also sends it.
    fn word(&self, action: Action, word: &str) -> String {
        let draft = self
            .model
            .open_approval()
            .and_then(|id| self.model.draft_of(id));
        let intent = draft.and_then(|draft| draft.intent);
        match (action, self.model.hand, intent) {
            (Action::Next, Hand::Card, _) => "scroll".to_owned(),
            (Action::Submit, Hand::Field(_), Some(intent)) => super::words::sends(intent.verdict),
            _ => word.to_owned(),
        }
    }

    pub(super) fn key(&self, context: Context, action: Action) -> String {
        self.model.key_for(context, action, preferred(action))
    }
}

fn hint_columns(key: &str, word: &str) -> usize {
    columns(key) + columns(word) + 3
}
