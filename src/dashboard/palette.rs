//! The palette: every command that is possible here, found by a few of its letters.

use registry::{ItemId, control::Verb};
use unicode_segmentation::UnicodeSegmentation;

use super::{
    actions::Action,
    keys::{Code, Key},
    model::{Hand, Model, Screen, Stands},
};

/// Longer than every word.
const TEXT_CHARS: usize = 40;

/// What is typed, and which of the commands that it finds is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Palette {
    pub(super) text: String,
    pub(super) at: usize,
}

impl Palette {
    /// Whether the key changed the text.
    pub(super) fn key(&mut self, key: Key) -> bool {
        match (key.text(), key.code) {
            (Some(c), _) if self.text.chars().count() < TEXT_CHARS => self.text.push(c),
            (None, Code::Backspace) => {
                let last = self.text.grapheme_indices(true).next_back();
                self.text.truncate(last.map_or(0, |(at, _)| at));
            }
            _ => return false,
        }
        self.at = 0;
        true
    }

    /// The whole word stands there.
    pub(super) fn complete(&mut self, action: Action) {
        self.text = action.word().to_owned();
        self.at = 0;
    }

    /// Of these, what the text finds: first the words that begin with it, then what holds it, then what has its letters
    /// in their order.
    pub(super) fn find(&self, offered: impl IntoIterator<Item = Action>) -> Vec<Action> {
        let text = self.text.trim().to_lowercase().replace(' ', "-");
        let mut found: Vec<(Match, Action)> = offered
            .into_iter()
            .filter_map(|action| Some((Match::of(&text, action)?, action)))
            .collect();
        found.sort_by_key(|(how, action)| (*how, action.moves()));
        found.into_iter().map(|(_, action)| action).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Begins,
    Holds,
    Describes,
    Letters,
}

impl Match {
    fn of(text: &str, action: Action) -> Option<Self> {
        let word = action.word();
        let described = action.describe().to_lowercase().replace(' ', "-");
        if word.starts_with(text) {
            Some(Self::Begins)
        } else if word.contains(text) {
            Some(Self::Holds)
        } else if described.contains(text) {
            Some(Self::Describes)
        } else {
            has_letters(word, text).then_some(Self::Letters)
        }
    }
}

fn has_letters(word: &str, text: &str) -> bool {
    let mut rest = word.chars();
    text.chars().all(|c| rest.any(|other| other == c))
}

impl Model {
    /// What can be done where the keyboard is, whatever stands in front.
    pub(super) fn offered(&self) -> impl Iterator<Item = Action> {
        let place = self.place();
        let others = |action: &Action| !matches!(action, Action::Command | Action::Dismiss);
        let here = Action::ALL.iter().copied().filter(others);
        here.filter(move |action| action.contexts().contains(&place) && self.is_possible(*action))
    }

    /// Whether an action has something to act on. What the connection or the eyes stand in the way of is said when it is
    /// tried.
    pub(super) fn is_possible(&self, action: Action) -> bool {
        use Action::{
            Approve, ApproveUnread, Cancel, CopyId, Dismiss, EditForm, EditNote, Open, Pause,
            Reject, Resume, RetryNow, Rewind, ShowRaw, Status, Steer, Why,
        };
        let listed = match self.screen {
            Screen::Inbox => !self.inbox.order.is_empty(),
            Screen::Runs => !self.runs.list.order.is_empty(),
            Screen::History => !self.past.list.order.is_empty(),
        };
        match action {
            Approve | ApproveUnread | Reject | EditNote => self.may_answer(),
            EditForm => self.may_answer() && self.has_form(),
            ShowRaw => self.open_approval().is_some(),
            Why => self
                .aim_under_hand()
                .is_some_and(|aim| aim.answers.is_some()),
            Resume => self.may_answer_held(),
            Steer => self.may_order(&Verb::Steer),
            Cancel => self.may_order(&Verb::Cancel),
            Pause => !self.may_answer_held() && self.may_order(&Verb::Pause),
            Rewind | Status => self.may_order(&Verb::StatusQuery),
            Open => listed && (self.screen == Screen::Inbox || self.hand == Hand::List),
            CopyId => listed,
            Dismiss => self.front.is_some(),
            RetryNow => !self.is_online() || self.has_failed(),
            action if action.moves() => listed || self.front.is_some(),
            _ => true,
        }
    }

    /// The question that a decision key is about.
    fn asked(&self) -> Option<Stands<'_>> {
        let selected = (self.hand == Hand::List).then_some(self.inbox.selected);
        let open = self.open().map(|open| open.id);
        let item = open.or(selected.flatten())?;
        match item {
            ItemId::Approval(id) => self.stands(id),
            ItemId::Escalation(_) => None,
        }
    }

    /// Whether there is a question that waits, and we are among those who may answer it.
    fn may_answer(&self) -> bool {
        match self.asked() {
            Some(Stands::Waits(pending)) => self.not_ours(&pending.approval).is_none(),
            Some(Stands::Ended(_)) | None => false,
        }
    }

    fn has_form(&self) -> bool {
        self.asked()
            .is_some_and(|stands| stands.approval().fields > 0)
    }
}
