//! What an operator has typed for one card: kept while the list moves, the connection drops, or the help is read.
//!
//! A field that nobody touched is left out of the answers, so that its default stands.

use std::collections::BTreeMap;

use ratatui_textarea::{Input as AreaInput, Key as AreaKey, TextArea};
use registry::{
    Untrusted,
    approval::Verdict,
    form::{Answer, Field, Form, Kind, Presence, RawAnswers},
};
use tui_input::{Input, InputRequest};
use unicode_segmentation::UnicodeSegmentation;

use super::keys::{Code, Key};

/// What was typed for one card.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// In the form's order.
    pub fields: Vec<FieldDraft>,
    /// What goes beside the decision.
    pub note: TextArea<'static>,
    /// What the operator wanted when a field stood in the way.
    pub intent: Option<Intent>,
    /// What is wrong, by field name.
    pub errors: BTreeMap<String, String>,
}

/// A decision that waits for the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Yes or no.
    pub verdict: Verdict,
    /// Whether it was accepted unread.
    pub unread: bool,
}

/// What was typed into one field.
#[derive(Clone, Debug)]
pub struct FieldDraft {
    /// Its name.
    pub name: String,
    /// Where it is typed.
    pub editor: Editor,
    /// Whether a hand was on it: only then it is sent.
    pub touched: bool,
}

/// Where a field is typed.
#[derive(Clone, Debug)]
pub enum Editor {
    /// One line.
    Line(Input),
    /// Several.
    Text(Box<TextArea<'static>>),
    /// One of the values, or none yet.
    Choice {
        /// What may be answered.
        values: Vec<String>,
        /// Which of them is.
        taken: Option<usize>,
    },
}

/// What a paste came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pasted {
    /// How many characters were left out because nobody would see them.
    pub dropped: usize,
}

impl Draft {
    /// An empty draft for the form; a default stands in its field until it is touched.
    #[must_use]
    pub fn new(form: &Form) -> Self {
        Self {
            fields: form.fields().iter().map(FieldDraft::new).collect(),
            ..Self::default()
        }
    }

    /// Whether it was made for this form.
    #[must_use]
    pub fn is_for(&self, form: &Form) -> bool {
        let names = self.fields.iter().map(|field| field.name.as_str());
        names.eq(form.fields().iter().map(|field| field.name.as_str()))
    }

    /// The answers as typed.
    #[must_use]
    pub fn answers(&self) -> RawAnswers {
        let touched = self.fields.iter().filter(|field| field.touched);
        touched
            .filter_map(|field| Some((field.name.clone(), field.editor.value()?)))
            .collect()
    }

    /// The note as typed.
    #[must_use]
    pub fn note(&self) -> String {
        self.note.lines().join("\n")
    }

    /// Reads the answers as the server will, and keeps what is wrong. The first wrong field, if there is one.
    pub fn check(&mut self, form: &Form) -> Option<usize> {
        let errors = form.read(&self.answers()).err().unwrap_or_default();
        self.errors = errors
            .into_iter()
            .map(|error| (error.field.clone(), error.to_string()))
            .collect();
        self.first_wrong()
    }

    /// The first field with an error.
    #[must_use]
    pub fn first_wrong(&self) -> Option<usize> {
        self.fields
            .iter()
            .position(|field| self.errors.contains_key(&field.name))
    }

    /// Hands a key to a field. Whether it changed anything.
    pub fn key(&mut self, field: usize, key: Key) -> bool {
        let Some(field) = self.fields.get_mut(field) else {
            return false;
        };
        let (used, changed) = field.editor.key(key);
        if changed {
            field.touched = true;
            self.errors.remove(&field.name);
        }
        used
    }

    /// Takes the next or the previous choice. False: the field offers none.
    pub fn choose(&mut self, field: usize, forward: bool) -> bool {
        let Some(field) = self.fields.get_mut(field) else {
            return false;
        };
        let Editor::Choice { values, taken } = &mut field.editor else {
            return false;
        };
        let all = values.len().max(1);
        *taken = Some(match (*taken, forward) {
            (None, true) => 0,
            (None, false) => all - 1,
            (Some(at), true) => (at + 1) % all,
            (Some(at), false) => (at + all - 1) % all,
        });
        field.touched = true;
        self.errors.remove(&field.name);
        true
    }

    /// Pastes into a field, at most `limit` bytes in all. None: it is no field for text, or would grow too long.
    pub fn paste(&mut self, field: usize, text: &str, limit: usize) -> Option<Pasted> {
        let field = self.fields.get_mut(field)?;
        let (text, pasted) = typable(text);
        if field.editor.value().map_or(0, |value| value.len()) + text.len() > limit {
            return None;
        }
        match &mut field.editor {
            Editor::Line(input) => insert(input, &text.replace('\n', " ")),
            Editor::Text(area) => drop(area.insert_str(&text)),
            Editor::Choice { .. } => return None,
        }
        field.touched = true;
        self.errors.remove(&field.name);
        Some(pasted)
    }

    /// Hands a key to the note.
    pub fn note_key(&mut self, key: Key) -> bool {
        area_key(&mut self.note, key).0
    }

    /// Pastes into the note.
    pub fn note_paste(&mut self, text: &str, limit: usize) -> Option<Pasted> {
        let (text, pasted) = typable(text);
        if self.note().len() + text.len() > limit {
            return None;
        }
        self.note.insert_str(&text);
        Some(pasted)
    }
}

impl FieldDraft {
    fn new(field: &Field) -> Self {
        let default = match &field.presence {
            Presence::Required => None,
            Presence::Defaulted(default) | Presence::Optional(default) => Some(default),
        };
        Self {
            name: field.name.clone(),
            editor: Editor::new(&field.kind, default),
            touched: false,
        }
    }
}

impl Editor {
    fn new(kind: &Kind, default: Option<&Answer>) -> Self {
        let default = default.map(Answer::to_raw);
        let choice = |values: Vec<String>| {
            let taken = default
                .as_ref()
                .and_then(|raw| values.iter().position(|value| value == raw));
            Self::Choice { values, taken }
        };
        match kind {
            Kind::Boolean => choice(vec!["true".into(), "false".into()]),
            Kind::Enum(choices) => choice(
                choices
                    .iter()
                    .map(|choice| choice.value.raw().to_owned())
                    .collect(),
            ),
            Kind::Text => {
                let lines = default.clone().unwrap_or_default();
                Self::Text(Box::new(TextArea::new(
                    lines.split('\n').map(str::to_owned).collect(),
                )))
            }
            Kind::String | Kind::Number | Kind::Integer | Kind::Date => {
                Self::Line(Input::new(default.clone().unwrap_or_default()))
            }
        }
    }

    /// What stands there; none where nothing was chosen.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        match self {
            Self::Line(input) => Some(input.value().to_owned()),
            Self::Text(area) => Some(area.lines().join("\n")),
            Self::Choice { values, taken } => values.get((*taken)?).cloned(),
        }
    }

    fn key(&mut self, key: Key) -> (bool, bool) {
        match self {
            Self::Line(input) => line_key(input, key),
            Self::Text(area) => area_key(area, key),
            Self::Choice { .. } => (false, false),
        }
    }
}

/// (whether it meant something, whether the text changed)
fn line_key(input: &mut Input, key: Key) -> (bool, bool) {
    use InputRequest::{
        DeleteFromStart, DeleteNextChar, DeletePrevChar, DeletePrevWord, DeleteTillEnd, GoToEnd,
        GoToNextChar, GoToNextWord, GoToPrevChar, GoToPrevWord, GoToStart, InsertChar,
    };
    let request = match (key.code, key.ctrl) {
        (Code::Char(c), false) if !key.alt && may_be_typed(c) => InsertChar(c),
        (Code::Char('a'), true) | (Code::Home, _) => GoToStart,
        (Code::Char('e'), true) | (Code::End, _) => GoToEnd,
        (Code::Char('w'), true) => DeletePrevWord,
        (Code::Char('u'), true) => DeleteFromStart,
        (Code::Char('k'), true) => DeleteTillEnd,
        (Code::Backspace, _) => DeletePrevChar,
        (Code::Delete, _) => DeleteNextChar,
        (Code::Left, true) => GoToPrevWord,
        (Code::Right, true) => GoToNextWord,
        (Code::Left, false) => GoToPrevChar,
        (Code::Right, false) => GoToNextChar,
        _ => return (false, false),
    };
    let changed = input.handle(request);
    (
        changed.is_some(),
        changed.is_some_and(|changed| changed.value),
    )
}

pub(super) fn area_key(area: &mut TextArea<'static>, key: Key) -> (bool, bool) {
    let code = match key.code {
        Code::Char(c) if may_be_typed(c) => AreaKey::Char(c),
        Code::Char(_) | Code::Esc | Code::Tab | Code::Insert | Code::F(_) => return (false, false),
        Code::Enter => AreaKey::Enter,
        Code::Backspace => AreaKey::Backspace,
        Code::Delete => AreaKey::Delete,
        Code::Up => AreaKey::Up,
        Code::Down => AreaKey::Down,
        Code::Left => AreaKey::Left,
        Code::Right => AreaKey::Right,
        Code::Home => AreaKey::Home,
        Code::End => AreaKey::End,
        // Its pages are those of a widget that we do not draw.
        Code::PageUp | Code::PageDown => return (false, false),
    };
    let before = area.cursor();
    let input = AreaInput {
        key: code,
        ctrl: key.ctrl,
        alt: key.alt,
        shift: key.shift,
    };
    let changed = area.input(input);
    area.cancel_selection();
    (changed || area.cursor() != before, changed)
}

/// At once: one character after the other takes seconds where there are many.
fn insert(input: &mut Input, text: &str) {
    let value = input.value();
    let before = value.chars().take(input.cursor());
    let after = value.chars().skip(input.cursor());
    let whole = before.chain(text.chars()).chain(after).collect();
    let cursor = input.cursor() + text.chars().count();
    *input = Input::new(whole).with_cursor(cursor);
}

/// A mark is judged behind a letter, since that is where it is typed.
fn may_be_typed(c: char) -> bool {
    !c.is_control() && Untrusted::new(format!("a{c}")).line().altered() == 0
}

/// What a person could have typed and would see: the rest is left out, and counted.
pub(super) fn typable(text: &str) -> (String, Pasted) {
    let mut kept = String::with_capacity(text.len());
    let mut pasted = Pasted::default();
    for grapheme in text.graphemes(true) {
        match grapheme {
            "\r\n" | "\r" => kept.push('\n'),
            grapheme if Untrusted::new(grapheme).block().altered() == 0 => kept.push_str(grapheme),
            grapheme => pasted.dropped += grapheme.chars().count(),
        }
    }
    (kept, pasted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn form() -> Form {
        serde_json::from_str(
            r#"[{"name":"n","kind":"integer","presence":{"defaulted":{"integer":5}}},
                {"name":"vis","kind":{"enum":[{"value":"public"},{"value":"internal"}]}},
                {"name":"memo","kind":"text","presence":{"optional":{"text":""}}}]"#,
        )
        .unwrap()
    }

    #[test]
    fn what_nobody_touched_is_left_out() {
        let mut draft = Draft::new(&form());
        assert_eq!(draft.answers(), RawAnswers::new());
        assert_eq!(draft.check(&form()), Some(1));
        assert_eq!(draft.errors["vis"], "'Vis' needs an answer");
        draft.choose(1, true);
        assert_eq!(draft.check(&form()), None);
        assert_eq!(
            draft.answers(),
            [("vis".to_owned(), "public".to_owned())].into()
        );
        draft.key(0, Key::char('x'));
        assert_eq!(draft.check(&form()), Some(0));
        assert_eq!(draft.errors["n"], "'N' must be a whole number, like 42");
        draft.key(0, Key::plain(Code::Backspace));
        assert_eq!(draft.check(&form()), None);
        assert_eq!(draft.answers()["n"], "5");
    }

    #[test]
    fn what_is_pasted_holds_nothing_hidden() {
        let mut draft = Draft::new(&form());
        let hostile = "A\x1b[2J\u{202e}B\r\nC e\u{301} 👨\u{200d}🌾";
        assert_eq!(draft.paste(2, hostile, 1000), Some(Pasted { dropped: 2 }));
        assert_eq!(draft.answers()["memo"], "A[2JB\nC e\u{301} 👨\u{200d}🌾");
        assert_eq!(draft.paste(2, hostile, 20), None);
        assert_eq!(draft.paste(1, "public", 1000), None);
        assert!(draft.paste(0, "1\n2", 1000).is_some());
        assert_eq!(draft.answers()["n"], "51 2");
        for c in ['\u{202e}', '\u{200d}', '\u{9b}', '\u{7f}', '\u{e0041}'] {
            assert!(!draft.key(0, Key::char(c)));
        }
        assert!(draft.key(0, Key::char('\u{301}')));
    }
}
