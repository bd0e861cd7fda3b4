//! Keys and pasted text in, in the dashboard's words.

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;

use crate::dashboard::keys::{Code, Key};

/// What an operator did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Pressed a key.
    Key(Key),
    /// Pasted text. Never a command.
    Paste(String),
    /// Changed the window: columns, rows. Also sent with the old size; then somebody else may be looking on, and all is to
    /// be drawn again.
    Resize(u16, u16),
    /// Came to this window.
    FocusGained,
    /// Left this window.
    FocusLost,
}

/// What the terminal sends, from now on.
pub struct Inputs {
    events: EventStream,
}

impl Inputs {
    /// Reads the terminal that a [`Screen`](super::Screen) has taken.
    #[must_use]
    pub fn read() -> Self {
        Self {
            events: EventStream::new(),
        }
    }

    /// The next input; none when the terminal cannot be read any more. Cancel safe.
    pub async fn next(&mut self) -> Option<Input> {
        loop {
            match self.events.next().await?.map(translate).ok()? {
                Some(input) => return Some(input),
                None => continue,
            }
        }
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Self::read()
    }
}

fn translate(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) => translate_key(key).map(Input::Key),
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Resize(width, height) => Some(Input::Resize(width, height)),
        Event::FocusGained => Some(Input::FocusGained),
        Event::FocusLost => Some(Input::FocusLost),
        Event::Mouse(_) => None,
    }
}

fn translate_key(
    KeyEvent {
        code,
        modifiers,
        kind,
        ..
    }: KeyEvent,
) -> Option<Key> {
    let ours = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT;
    if kind == KeyEventKind::Release || !(modifiers - ours).is_empty() {
        return None;
    }
    let held = |modifier| modifiers.contains(modifier);
    let (ctrl, alt, shift) = (
        held(KeyModifiers::CONTROL),
        held(KeyModifiers::ALT),
        held(KeyModifiers::SHIFT),
    );
    let key = |code| Some(Key::new(code, ctrl, alt, shift));
    match code {
        KeyCode::Char(c) => key(Code::Char(c)),
        KeyCode::Enter => key(Code::Enter),
        KeyCode::Esc => key(Code::Esc),
        KeyCode::Tab => key(Code::Tab),
        KeyCode::BackTab => Some(Key::new(Code::Tab, ctrl, alt, true)),
        KeyCode::Null => Some(Key::new(Code::Char(' '), true, alt, false)),
        KeyCode::Backspace => key(Code::Backspace),
        KeyCode::Delete => key(Code::Delete),
        KeyCode::Insert => key(Code::Insert),
        KeyCode::Up => key(Code::Up),
        KeyCode::Down => key(Code::Down),
        KeyCode::Left => key(Code::Left),
        KeyCode::Right => key(Code::Right),
        KeyCode::Home => key(Code::Home),
        KeyCode::End => key(Code::End),
        KeyCode::PageUp => key(Code::PageUp),
        KeyCode::PageDown => key(Code::PageDown),
        KeyCode::F(n) => key(Code::F(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Input> {
        translate(Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn every_way_to_report_a_key_is_the_same_key() {
        let none = KeyModifiers::NONE;
        for (code, modifiers, key) in [
            (KeyCode::Char('A'), none, Key::char('A')),
            (KeyCode::Char('A'), KeyModifiers::SHIFT, Key::char('A')),
            (KeyCode::Char('a'), KeyModifiers::SHIFT, Key::char('A')),
            (KeyCode::Char('?'), KeyModifiers::SHIFT, Key::char('?')),
            (
                KeyCode::BackTab,
                KeyModifiers::SHIFT,
                Key::new(Code::Tab, false, false, true),
            ),
            (
                KeyCode::BackTab,
                none,
                Key::new(Code::Tab, false, false, true),
            ),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Key::ctrl('c')),
        ] {
            assert_eq!(
                pressed(code, modifiers),
                Some(Input::Key(key)),
                "{code:?} {modifiers:?}"
            );
        }
    }

    #[test]
    fn a_released_key_and_a_foreign_modifier_are_nothing() {
        let released = KeyEvent::new_with_kind(
            KeyCode::Char('a'),
            KeyModifiers::NONE,
            KeyEventKind::Release,
        );
        assert_eq!(translate(Event::Key(released)), None);
        assert_eq!(pressed(KeyCode::Char('a'), KeyModifiers::SUPER), None);
    }
}
