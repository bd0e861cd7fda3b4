//! Keys: what a terminal can send, and how it is written.
//!
//! Invariant: keys made by [`Key::new`] are equal exactly when they are the same key for an operator, whatever way the
//! terminal has of reporting it.

use std::fmt;

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A printable character, the blank included.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab; with shift it is back-tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Insert.
    Insert,
    /// Up.
    Up,
    /// Down.
    Down,
    /// Left.
    Left,
    /// Right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// F1 to F12.
    F(u8),
}

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which key.
    pub code: Code,
    /// With ctrl.
    pub ctrl: bool,
    /// With alt.
    pub alt: bool,
    /// With shift. Never for a character: the character itself says it.
    pub shift: bool,
}

/// Why something is no key. Variants stand in the order they are looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Nothing between the quotes.
    #[error("the key is empty; write one such as \"a\", \"ctrl-s\" or \"space\"")]
    Empty,
    /// Neither one character nor the name of a key.
    #[error("{written:?} is not a key; {}", suggest(suggestion))]
    Unknown {
        /// As it stands in the file.
        written: String,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// Terminals have no bytes for it, or the bytes of another key.
    #[error("no terminal can send {written:?}{}; {instead}", because(reason))]
    Unsendable {
        /// As it stands in the file.
        written: String,
        /// Why, where it is not obvious.
        reason: &'static str,
        /// What to write.
        instead: String,
    },
    /// Esc ends a sequence that has begun.
    #[error(
        "\"esc\" ends a sequence, so {written:?} can never be typed to its end; bind it without \"esc\""
    )]
    EscInside {
        /// As it stands in the file.
        written: String,
    },
}

fn suggest(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => "write one character or a name such as \"enter\", after ctrl-, alt- or shift-"
            .to_owned(),
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}

/// The named keys, as they are written, and as a footer shows them.
const NAMES: [(Code, &str, &str); 15] = [
    (Code::Enter, "enter", "↵"),
    (Code::Esc, "esc", "esc"),
    (Code::Tab, "tab", "tab"),
    (Code::Char(' '), "space", "space"),
    (Code::Backspace, "backspace", "backspace"),
    (Code::Delete, "delete", "delete"),
    (Code::Insert, "insert", "insert"),
    (Code::Up, "up", "↑"),
    (Code::Down, "down", "↓"),
    (Code::Left, "left", "←"),
    (Code::Right, "right", "→"),
    (Code::Home, "home", "home"),
    (Code::End, "end", "end"),
    (Code::PageUp, "pgup", "pgup"),
    (Code::PageDown, "pgdn", "pgdn"),
];

/// What people write elsewhere, for "did you mean".
const ELSEWHERE: [(&str, &str); 13] = [
    ("escape", "esc"),
    ("return", "enter"),
    ("cr", "enter"),
    ("bs", "backspace"),
    ("del", "delete"),
    ("ins", "insert"),
    ("pageup", "pgup"),
    ("page-up", "pgup"),
    ("pagedown", "pgdn"),
    ("page-down", "pgdn"),
    ("pgdown", "pgdn"),
    ("spc", "space"),
    ("backtab", "shift-tab"),
];

const MODIFIERS_ELSEWHERE: [(&str, &str); 6] = [
    ("c-", "ctrl-"),
    ("control-", "ctrl-"),
    ("s-", "shift-"),
    ("m-", "alt-"),
    ("a-", "alt-"),
    ("meta-", "alt-"),
];

impl Key {
    /// The key as an operator means it: `Char('A')` with and without shift is `A`, and so is `Char('a')` with shift; every
    /// other character drops its shift, ctrl drops the case.
    #[must_use]
    pub fn new(code: Code, ctrl: bool, alt: bool, shift: bool) -> Self {
        match code {
            Code::Char(c) if ctrl => Self {
                code: Code::Char(c.to_ascii_lowercase()),
                ctrl,
                alt,
                shift: false,
            },
            Code::Char(c) if shift => Self {
                code: Code::Char(upper(c)),
                ctrl,
                alt,
                shift: false,
            },
            code => Self {
                code,
                ctrl,
                alt,
                shift: shift && !matches!(code, Code::Char(_)),
            },
        }
    }

    /// A character without modifiers.
    #[must_use]
    pub fn char(c: char) -> Self {
        Self::new(Code::Char(c), false, false, false)
    }

    /// A named key without modifiers.
    #[must_use]
    pub fn plain(code: Code) -> Self {
        Self::new(code, false, false, false)
    }

    /// A character with ctrl.
    #[must_use]
    pub fn ctrl(c: char) -> Self {
        Self::new(Code::Char(c), true, false, false)
    }

    /// The text that it types, if it types any.
    #[must_use]
    pub fn text(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// Whether it means a command even where text is typed: with ctrl or alt, Esc, or an F-key.
    #[must_use]
    pub fn commands_in_text(self) -> bool {
        self.ctrl || self.alt || matches!(self.code, Code::Esc | Code::F(_))
    }

    /// As a footer shows it: "↵", "ctrl-s".
    #[must_use]
    pub fn pretty(self) -> String {
        self.spell(|(_, _, shown)| shown)
    }

    fn spell(self, pick: fn((Code, &'static str, &'static str)) -> &'static str) -> String {
        let mut written = String::new();
        for (held, word) in [
            (self.ctrl, "ctrl-"),
            (self.alt, "alt-"),
            (self.shift, "shift-"),
        ] {
            if held {
                written.push_str(word);
            }
        }
        match (
            NAMES.into_iter().find(|(code, ..)| *code == self.code),
            self.code,
        ) {
            (Some(name), _) => written.push_str(pick(name)),
            (None, Code::Char(c)) => written.push(c),
            (None, Code::F(n)) => written.push_str(&format!("f{n}")),
            (None, _) => {}
        }
        written
    }

    /// Reads one key: modifiers, then one character or a name.
    pub(super) fn parse(written: &str) -> Result<Self, KeyFault> {
        let (ctrl, alt, shift, name) = split_modifiers(written);
        let code = code(name).ok_or_else(|| KeyFault::Unknown {
            written: written.to_owned(),
            suggestion: meant(written),
        })?;
        sendable(written, code, ctrl, alt, shift)?;
        Ok(Self::new(code, ctrl, alt, shift))
    }
}

/// As it is written in `keymap.toml`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spell(|(_, written, _)| written))
    }
}

/// Reads what stands left of `=`: one key, or several with blanks between.
pub(super) fn parse_sequence(written: &str) -> Result<Vec<Key>, KeyFault> {
    let keys = written
        .split_whitespace()
        .map(Key::parse)
        .collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(KeyFault::Empty);
    }
    if keys.len() > 1 && keys.contains(&Key::plain(Code::Esc)) {
        return Err(KeyFault::EscInside {
            written: written.to_owned(),
        });
    }
    Ok(keys)
}

/// Writes a sequence with one blank between its keys.
pub(super) fn write_sequence(keys: &[Key], spell: fn(&Key) -> String) -> String {
    keys.iter().map(spell).collect::<Vec<_>>().join(" ")
}

fn split_modifiers(written: &str) -> (bool, bool, bool, &str) {
    let (mut ctrl, mut alt, mut shift, mut rest) = (false, false, false, written);
    loop {
        let (held, after) = match rest.split_once('-') {
            Some(("ctrl", after)) => (&mut ctrl, after),
            Some(("alt", after)) => (&mut alt, after),
            Some(("shift", after)) => (&mut shift, after),
            _ => return (ctrl, alt, shift, rest),
        };
        if after.is_empty() || *held {
            return (ctrl, alt, shift, rest);
        }
        *held = true;
        rest = after;
    }
}

fn code(name: &str) -> Option<Code> {
    if let Some((code, ..)) = NAMES.into_iter().find(|(_, written, _)| *written == name) {
        return Some(code);
    }
    if let Some(n) = name
        .strip_prefix('f')
        .and_then(|n| n.parse().ok())
        .filter(|n| (1..=12).contains(n))
    {
        return Some(Code::F(n));
    }
    let mut chars = name.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !c.is_control() && !c.is_whitespace() => Some(Code::Char(c)),
        _ => None,
    }
}

/// Refuses what terminals, without special protocols, send as another key or not at all.
fn sendable(written: &str, code: Code, ctrl: bool, alt: bool, shift: bool) -> Result<(), KeyFault> {
    let no = |reason: &'static str, instead: String| {
        Err(KeyFault::Unsendable {
            written: written.to_owned(),
            reason,
            instead,
        })
    };
    let write = |key: &str| format!("write {key:?}");
    let other_letter = || "take ctrl with one of the letters a to z".to_owned();
    match code {
        Code::Char('i') if ctrl => no("it arrives as tab", write("tab")),
        Code::Char('m') if ctrl => no("it arrives as enter", write("enter")),
        Code::Char('[') if ctrl => no("it arrives as esc", write("esc")),
        Code::Char('h') if ctrl => no("on many it arrives as backspace", write("backspace")),
        Code::Char(c) if ctrl && (shift || c.is_ascii_uppercase()) => {
            let plain = Key::new(code, ctrl, alt, false).to_string();
            let instead = if Key::parse(&plain).is_ok() {
                write(&plain)
            } else {
                other_letter()
            };
            no("ctrl hides shift", instead)
        }
        Code::Char(c) if ctrl && !(c.is_ascii_lowercase() || c == ' ') => {
            no("ctrl goes with letters only", other_letter())
        }
        Code::Char('[' | 'O') if alt => no(
            "it begins the code of other keys",
            "take another letter with alt".to_owned(),
        ),
        Code::Char(' ') if shift => no("", write("space")),
        Code::Char(c) if shift && !c.is_alphabetic() => no(
            "shift with it is another character",
            "write that character itself, such as \"?\"".to_owned(),
        ),
        Code::Esc if ctrl || alt || shift => no("", write("esc")),
        Code::Tab if ctrl => no("", write("tab")),
        Code::Enter if ctrl || shift => no("", "write \"enter\" or \"alt-enter\"".to_owned()),
        Code::Backspace if ctrl || shift => {
            no("", "write \"backspace\" or \"alt-backspace\"".to_owned())
        }
        _ => Ok(()),
    }
}

/// What may have been meant by something that is no key.
fn meant(written: &str) -> Option<String> {
    let small = written
        .trim_matches(['<', '>'])
        .to_lowercase()
        .replace('+', "-");
    let small = MODIFIERS_ELSEWHERE
        .iter()
        .find_map(|(theirs, ours)| {
            small
                .strip_prefix(theirs)
                .filter(|rest| !rest.is_empty())
                .map(|rest| format!("{ours}{rest}"))
        })
        .unwrap_or(small);
    let (.., name) = split_modifiers(&small);
    let modifiers = small.strip_suffix(name).unwrap_or_default();
    let known = NAMES.iter().map(|(_, name, _)| *name);
    let name = match ELSEWHERE.iter().find(|(theirs, _)| *theirs == name) {
        Some((_, ours)) => (*ours).to_owned(),
        None if code(name).is_some() => name.to_owned(),
        None => nearest(name, known)
            .map(str::to_owned)
            .or_else(|| apart(name))?,
    };
    Some(format!("{modifiers}{name}")).filter(|meant| parse_sequence(meant).is_ok())
}

/// "gg" was meant as the sequence "g g".
fn apart(name: &str) -> Option<String> {
    let keys: Vec<String> = name.chars().map(String::from).collect();
    (keys.len() == 2).then(|| keys.join(" "))
}

/// The candidate that differs least from the word, if it is near enough to have been meant.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let (distance, candidate) = candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .min_by_key(|(d, _)| *d)?;
    (distance <= 2 && distance < word.chars().count()).then_some(candidate)
}

/// How many characters must be put in, taken out, or replaced to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_is_the_same_however_the_terminal_reports_it() {
        let big = Key::char('A');
        assert_eq!(Key::new(Code::Char('A'), false, false, true), big);
        assert_eq!(Key::new(Code::Char('a'), false, false, true), big);
        assert_eq!(Key::parse("shift-a").unwrap(), big);
        assert_eq!(
            Key::new(Code::Char('?'), false, false, true),
            Key::char('?')
        );
        assert_eq!(
            Key::new(Code::Char('S'), true, false, false),
            Key::ctrl('s')
        );
        assert_ne!(Key::char('a'), big);
        assert_ne!(
            Key::new(Code::Tab, false, false, true),
            Key::plain(Code::Tab)
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        for written in [
            "a",
            "A",
            "?",
            "ö",
            "-",
            "space",
            "ctrl-s",
            "alt-enter",
            "shift-tab",
            "ctrl-alt-x",
            "f12",
            "ctrl-left",
            "alt--",
        ] {
            assert_eq!(Key::parse(written).unwrap().to_string(), written);
        }
    }
}
