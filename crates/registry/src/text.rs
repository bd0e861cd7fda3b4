//! Foreign text, and the one door through which it is shown.
//!
//! Invariant: a [`Shown`] holds no character that a terminal obeys, hides or reorders text by.

use std::fmt;
use std::iter;

use serde::{Deserialize, Serialize};
use unicode_width::UnicodeWidthChar;

/// Text that somebody else wrote: an agent, a tool, a person, a foreign server.
///
/// It has no `Display`: whoever wants to show it asks for a [`line`](Self::line) or a [`block`](Self::block).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted(String);

/// Text that is safe to put on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    text: String,
    altered: usize,
}

impl Untrusted {
    /// Takes any text as it is; nothing is cleaned on the way in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as it came, for the log, the wires and hashing only: never for a terminal.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How it begins, at most `bytes` of it, with a sign that there is more.
    pub fn cut(&self, bytes: usize) -> Self {
        const MORE: &str = "…";
        if self.0.len() <= bytes {
            return self.clone();
        }
        let kept = self.0.floor_char_boundary(bytes.saturating_sub(MORE.len()));
        Self(format!("{}{MORE}", &self.0[..kept]))
    }

    /// For a field of one row: a newline becomes `⏎`, a tab four spaces.
    pub fn line(&self) -> Shown {
        show(&self.0, "⏎")
    }

    /// For a text of many rows: newlines stay, CRLF is one of them, a tab becomes four spaces.
    pub fn block(&self) -> Shown {
        show(&self.0, "\n")
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// Escaped too: a debug print ends on a terminal as often as any other.
impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted(\"{}\")", self.line())
    }
}

impl Shown {
    /// The safe text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many characters are shown as something else. Tabs and newlines are layout and do not count.
    pub fn altered(&self) -> usize {
        self.altered
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// `cost_centre` as «Cost centre»: a name for people, with blanks for the signs that stand `between` its words. A name
/// that is nothing but such signs stays as it is.
pub fn readable_name(name: &str, between: &[char]) -> String {
    let words = name.replace(between, " ");
    let mut letters = words.trim().chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => name.to_owned(),
    }
}

/// Makes a JSON text safe to print, and loses nothing: what the door would alter is written as `\uXXXX`.
///
/// `text` must be valid JSON, as a serialiser wrote it. Blanks between its tokens stay, but for a carriage return.
pub fn json_safe(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for (c, fate) in fates(text) {
        match fate {
            Fate::Kept | Fate::Tab | Fate::Newline => safe.push(c),
            Fate::Folded => {}
            // In valid JSON a bare one stands only between tokens, where an escape would not.
            Fate::Altered if c == '\r' => safe.push(' '),
            Fate::Altered => safe.push_str(&json_escape(c)),
        }
    }
    safe
}

/// What the door does with one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Tab,
    Newline,
    /// The carriage return of a CRLF.
    Folded,
    Altered,
}

/// What has just passed the door: a few characters are harmless only behind the right one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behind {
    #[default]
    Other,
    /// A digit, `#` or `*`: the base of a keycap emoji.
    KeycapBase,
    Emoji,
    /// An emoji with its variation selector.
    StyledEmoji,
}

#[derive(Default)]
struct Door {
    behind: Behind,
    marks_left: usize,
}

/// More than any living script stacks, and too few to run into the rows above and below.
const MARKS_PER_BASE: usize = 4;
const TAB: &str = "    ";
const JOINER: char = '\u{200d}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

fn show(text: &str, newline: &str) -> Shown {
    let mut shown = Shown {
        text: String::with_capacity(text.len()),
        altered: 0,
    };
    if is_plain(text) {
        shown.text.push_str(text);
        return shown;
    }
    for (c, fate) in fates(text) {
        match fate {
            Fate::Kept => shown.text.push(c),
            Fate::Tab => shown.text.push_str(TAB),
            Fate::Newline => shown.text.push_str(newline),
            Fate::Folded => {}
            Fate::Altered => {
                shown.altered += 1;
                shown.text.push_str(&escape(c));
            }
        }
    }
    shown
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn fates(text: &str) -> impl Iterator<Item = (char, Fate)> {
    let mut door = Door::default();
    let mut chars = text.chars().peekable();
    iter::from_fn(move || {
        let c = chars.next()?;
        Some((c, door.pass(c, chars.peek().copied())))
    })
}

impl Door {
    fn pass(&mut self, c: char, next: Option<char>) -> Fate {
        let fate = self.judge(c, next);
        self.remember(c, fate);
        fate
    }

    fn judge(&self, c: char, next: Option<char>) -> Fate {
        match c {
            ' '..='~' => Fate::Kept,
            '\t' => Fate::Tab,
            '\n' => Fate::Newline,
            '\r' if next == Some('\n') => Fate::Folded,
            JOINER => kept_if(self.joins(next)),
            TEXT_STYLE | EMOJI_STYLE => kept_if(self.takes_style(next)),
            _ if is_unseen(c) => Fate::Altered,
            _ if is_mark(c) => kept_if(self.marks_left > 0),
            _ => Fate::Kept,
        }
    }

    fn joins(&self, next: Option<char>) -> bool {
        matches!(self.behind, Behind::Emoji | Behind::StyledEmoji)
            && next.is_some_and(is_pictograph)
    }

    fn takes_style(&self, next: Option<char>) -> bool {
        match self.behind {
            Behind::Emoji => true,
            Behind::KeycapBase => next == Some(KEYCAP),
            Behind::StyledEmoji | Behind::Other => false,
        }
    }

    /// An altered character is no base: what follows a mark too many is too many as well.
    fn remember(&mut self, c: char, fate: Fate) {
        let (behind, marks_left) = match c {
            _ if fate != Fate::Kept => (Behind::Other, 0),
            TEXT_STYLE | EMOJI_STYLE if self.behind == Behind::Emoji => {
                (Behind::StyledEmoji, self.marks_left)
            }
            TEXT_STYLE | EMOJI_STYLE | JOINER => (Behind::Other, self.marks_left),
            _ if is_mark(c) => (Behind::Other, self.marks_left - 1),
            '0'..='9' | '#' | '*' => (Behind::KeycapBase, MARKS_PER_BASE),
            _ if is_pictograph(c) => (Behind::Emoji, MARKS_PER_BASE),
            _ => (Behind::Other, MARKS_PER_BASE),
        };
        *self = Self { behind, marks_left };
    }
}

fn kept_if(harmless: bool) -> Fate {
    if harmless { Fate::Kept } else { Fate::Altered }
}

/// A terminal draws it over its neighbour: combining marks, and the vowels and finals of Hangul syllables.
fn is_mark(c: char) -> bool {
    c.width() == Some(0)
}

/// Obeyed, hidden, blank, reordering the text around it, or of no agreed meaning.
fn is_unseen(c: char) -> bool {
    let nonchar = u32::from(c) & 0xfffe == 0xfffe;
    nonchar
        || matches!(c,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'     // C0, DEL, C1
            | '\u{ad}'                                // soft hyphen
            | '\u{34f}'                               // grapheme joiner
            | '\u{61c}'                               // Arabic letter mark
            | '\u{115f}'..='\u{1160}'                 // Hangul fillers
            | '\u{17b4}'..='\u{17b5}'                 // Khmer vowels nobody draws
            | '\u{180b}'..='\u{180f}'                 // Mongolian selectors and vowel separator
            | '\u{200b}'..='\u{200f}'                 // zero width, left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}'                 // separators, bidi embeddings and overrides
            | '\u{2060}'..='\u{206f}'                 // word joiner, invisible operators, bidi isolates
            | '\u{3164}'                              // Hangul filler
            | '\u{e000}'..='\u{f8ff}'                 // private use
            | '\u{fdd0}'..='\u{fdef}'                 // noncharacters
            | '\u{fe00}'..='\u{fe0f}'                 // variation selectors
            | '\u{feff}'                              // byte order mark
            | '\u{ffa0}'                              // half-width Hangul filler
            | '\u{fff0}'..='\u{fffb}'                 // unassigned ignorables, interlinear annotation
            | '\u{13430}'..='\u{1343f}'               // hieroglyph layout
            | '\u{1bca0}'..='\u{1bca3}'               // shorthand layout
            | '\u{1d173}'..='\u{1d17a}'               // musical layout
            | '\u{e0000}'..='\u{e0fff}'               // tags, more selectors
            | '\u{f0000}'..='\u{10ffff}'              // private use
        )
}

/// Roughly the characters that emoji are made of; too many here only lets a joiner live between two symbols.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{2199}' | '\u{21a9}'..='\u{21aa}'
        | '\u{231a}'..='\u{231b}' | '\u{2328}' | '\u{23cf}' | '\u{23e9}'..='\u{23fa}' | '\u{24c2}'
        | '\u{25aa}'..='\u{25ab}' | '\u{25b6}' | '\u{25c0}' | '\u{25fb}'..='\u{25fe}'
        | '\u{2600}'..='\u{27bf}' | '\u{2934}'..='\u{2935}'
        | '\u{2b05}'..='\u{2b07}' | '\u{2b1b}'..='\u{2b1c}' | '\u{2b50}' | '\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}'
    )
}

fn escape(c: char) -> String {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).into_iter().collect(),
        '\u{7f}' => "␡".to_owned(),
        _ => format!("‹U+{:04X}›", u32::from(c)),
    }
}

fn json_escape(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units)
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    /// Case C01 and the table of the dashboard's blueprint: (foreign, as a line, altered).
    #[test]
    fn nothing_a_terminal_obeys_gets_through() {
        let zalgo = format!("a{}b", "\u{300}".repeat(6));
        let rows: &[(&str, &str, usize)] = &[
            ("", "", 0),
            ("plain ~ text", "plain ~ text", 0),
            (
                "A\x1b[2J\x1b]0;x\x07\x1b]52;c;QUJD\x07\u{9b}31m\rB\x08\x7f\u{85}C",
                "A␛[2J␛]0;x␇␛]52;c;QUJD␇‹U+009B›31m␍B␈␡‹U+0085›C",
                10,
            ),
            ("\0", "␀", 1),
            ("a\u{202e}b\u{2066}c", "a‹U+202E›b‹U+2066›c", 2),
            (
                "\u{200b}\u{feff}\u{ad}\u{200e}\u{200c}",
                "‹U+200B›‹U+FEFF›‹U+00AD›‹U+200E›‹U+200C›",
                5,
            ),
            ("\u{e0041}", "‹U+E0041›", 1),
            (
                "\u{3164}\u{115f}\u{1160}\u{ffa0}",
                "‹U+3164›‹U+115F›‹U+1160›‹U+FFA0›",
                4,
            ),
            (
                "\u{e000}\u{fdd0}\u{ffff}\u{10ffff}",
                "‹U+E000›‹U+FDD0›‹U+FFFF›‹U+10FFFF›",
                4,
            ),
            (
                "\u{2028}\u{180e}\u{fff9}\u{fe00}",
                "‹U+2028›‹U+180E›‹U+FFF9›‹U+FE00›",
                4,
            ),
            ("a\tb", "a    b", 0),
            ("a\nb\r\nc", "a⏎b⏎c", 0),
            (&zalgo, "a\u{300}\u{300}\u{300}\u{300}‹U+0300›‹U+0300›b", 2),
            ("\u{301}x", "‹U+0301›x", 1),
            // Living text stays: accents, Thai, decomposed Hangul, Hebrew, wide characters.
            (
                "e\u{301} ที่ \u{1112}\u{1161}\u{11ab} שלום 发布",
                "e\u{301} ที่ \u{1112}\u{1161}\u{11ab} שלום 发布",
                0,
            ),
            // Emoji stay whole; the same characters between letters or digits do not.
            (
                "👨\u{200d}🌾 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} 👍🏽",
                "👨\u{200d}🌾 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} 👍🏽",
                0,
            ),
            (
                "a\u{200d}b 👨\u{200d}b 1\u{fe0f}0",
                "a‹U+200D›b 👨‹U+200D›b 1‹U+FE0F›0",
                3,
            ),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}‹U+FE0F›", 1),
        ];
        for (foreign, line, altered) in rows {
            let shown = Untrusted::from(*foreign).line();
            assert_eq!(
                (shown.as_str(), shown.altered()),
                (*line, *altered),
                "{foreign:?}"
            );
        }
    }

    #[test]
    fn a_block_keeps_its_rows() {
        let shown = Untrusted::from("a\r\nb\n\tc\rd").block();
        assert_eq!((shown.as_str(), shown.altered()), ("a\nb\n    c␍d", 1));
    }

    #[test]
    fn a_debug_print_is_escaped_too() {
        assert_eq!(
            format!("{:?}", Untrusted::from("\x1b[2J\u{202e}")),
            "Untrusted(\"␛[2J‹U+202E›\")"
        );
    }

    #[test]
    fn blanks_between_json_tokens_stay() {
        let pretty = "{\r\n\t\"a\": \"\u{7f}\u{e0041}\"\r}";
        let safe = json_safe(pretty);
        assert_eq!(safe, "{\n\t\"a\": \"\\u007f\\udb40\\udc41\" }");
        let read = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&safe), read(pretty));
    }

    fn hostile() -> impl Strategy<Value = String> {
        let odd: Vec<char> = "\u{200b}\u{200d}\u{202e}\u{2066}\u{feff}\u{fe0e}\u{fe0f}\u{20e3}\u{300}\u{11ab}\u{2028}\
            ❤👨🌾⏎‹›␛1#é发\t\n\r\"\\\u{e0041}\u{3164}\u{e000}"
            .chars()
            .collect();
        let c = prop_oneof![
            proptest::char::range('\0', '\u{1f}'),
            proptest::char::range(' ', '~'),
            proptest::char::range('\u{7f}', '\u{9f}'),
            proptest::sample::select(odd.clone()),
            proptest::sample::select(odd),
            any::<char>(),
        ];
        proptest::collection::vec(c, 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn what_is_shown_holds_nothing_to_alter(foreign in hostile()) {
            let text = Untrusted::new(foreign);
            let line = text.line();
            prop_assert!(!line.as_str().contains(|c: char| c.is_control() || (is_unseen(c) && c != TEXT_STYLE && c != EMOJI_STYLE && c != JOINER)));
            let block = text.block();
            prop_assert!(!block.as_str().contains(|c: char| c.is_control() && c != '\n'));
            prop_assert_eq!(block.altered(), line.altered());
            // Through the door twice is through the door once.
            for shown in [line, block] {
                let again = Untrusted::from(shown.as_str()).block();
                prop_assert_eq!((again.as_str(), again.altered()), (shown.as_str(), 0));
            }
        }

        #[test]
        fn unaltered_means_unchanged(foreign in hostile()) {
            let foreign = foreign.replace(['\t', '\n'], "");
            let shown = Untrusted::from(foreign.as_str()).line();
            prop_assert_eq!(shown.altered() == 0, shown.as_str() == foreign);
        }

        #[test]
        fn safe_json_loses_nothing(foreign in hostile()) {
            let json = serde_json::to_string(&[&foreign]).unwrap();
            let safe = json_safe(&json);
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), vec![foreign]);
            prop_assert_eq!(Untrusted::from(safe.as_str()).line().altered(), 0);
        }
    }
}
