//! The arguments of a call as a tree that a person can read.
//!
//! The text is cut up, never computed with: a number is shown in the digits it came in. Strings stay quoted, with `\"`
//! and `\\` as in JSON, so that no value can look like two.

use registry::Untrusted;

use super::{
    lines::{Line, Part, columns},
    theme::Role,
};

/// Deeper than anything that is filed here; beyond it the text is shown as it came.
const DEEPEST: usize = 128;
/// A longer key gets a line of its own.
const KEY_COLUMNS: usize = 24;
/// Deeper levels are not set in any further.
const INDENTED_LEVELS: usize = 10;

/// One value of the tree.
#[derive(Debug)]
enum Value<'a> {
    Word(&'a str),
    Text(String),
    List(Vec<Value<'a>>),
    Object(Vec<(String, Value<'a>)>),
}

/// The tree as lines, set in by `indent` columns, and how many characters had to be altered. None: it is no JSON.
#[must_use]
pub fn tree(json: &str, indent: usize) -> Option<(Vec<Line>, usize)> {
    let mut reader = Reader { text: json, at: 0 };
    let value = reader.value(0)?;
    reader.blank();
    if reader.at != json.len() {
        return None;
    }
    let mut out = Out::default();
    match &value {
        Value::Object(entries) if entries.is_empty() => out.put(indent, "", &value, "no arguments"),
        Value::Object(entries) => out.entries(entries, indent, 0),
        value => out.entry("", value, indent, 0, 0),
    }
    Some((out.lines, out.altered))
}

#[derive(Default)]
struct Out {
    lines: Vec<Line>,
    altered: usize,
}

impl Out {
    fn entries(&mut self, entries: &[(String, Value<'_>)], indent: usize, level: usize) {
        let keys: Vec<String> = entries.iter().map(|(key, _)| self.key(key)).collect();
        let widths = keys
            .iter()
            .map(|key| columns(key))
            .filter(|width| *width <= KEY_COLUMNS);
        let width = widths.max().unwrap_or(0);
        for (key, (_, value)) in keys.iter().zip(entries) {
            self.entry(key, value, indent, width, level);
        }
    }

    fn entry(&mut self, key: &str, value: &Value<'_>, indent: usize, width: usize, level: usize) {
        let deeper = if level < INDENTED_LEVELS {
            indent + 2
        } else {
            indent
        };
        let padded = format!(
            "{key}{:fill$}",
            "",
            fill = width.saturating_sub(columns(key))
        );
        match value {
            Value::Word(word) => self.scalar(indent, &padded, Role::Literal, word),
            Value::Text(text) => self.text(indent, &padded, text),
            Value::List(items) if items.is_empty() => {
                self.scalar(indent, &padded, Role::Muted, "[]");
            }
            Value::Object(entries) if entries.is_empty() => {
                self.scalar(indent, &padded, Role::Muted, "{}");
            }
            Value::List(items) => {
                let many = super::words::count(items.len(), "item");
                self.scalar(indent, &padded, Role::Muted, &many);
                for item in items {
                    self.entry("-", item, deeper, 1, level + 1);
                }
            }
            Value::Object(entries) => {
                self.heading(indent, &padded);
                self.entries(entries, deeper, level + 1);
            }
        }
    }

    fn put(&mut self, indent: usize, key: &str, _: &Value<'_>, words: &str) {
        self.scalar(indent, key, Role::Muted, words);
    }

    fn heading(&mut self, indent: usize, key: &str) {
        let parts = vec![blank(indent), Part::new(Role::Key, key)];
        self.push(parts, indent + 2);
    }

    fn scalar(&mut self, indent: usize, key: &str, role: Role, word: &str) {
        let word = Untrusted::new(word).line();
        self.altered += word.altered();
        self.keyed(indent, key, Part::new(role, word.as_str()));
    }

    /// A string of several rows shows where each of them ended.
    fn text(&mut self, indent: usize, key: &str, text: &str) {
        let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let shown = Untrusted::new(quoted).block();
        self.altered += shown.altered();
        let mut rows = shown.as_str().split('\n').peekable();
        let mut key = key.to_owned();
        while let Some(row) = rows.next() {
            let end = if rows.peek().is_some() { "⏎" } else { "" };
            self.keyed(indent, &key, Part::new(Role::Quoted, format!("{row}{end}")));
            key = " ".repeat(columns(&key));
        }
        if shown.altered() > 0 {
            self.warn(shown.altered());
        }
    }

    fn warn(&mut self, altered: usize) {
        if let Some(line) = self.lines.last_mut() {
            line.parts.push(hidden(altered));
        }
    }

    fn keyed(&mut self, indent: usize, key: &str, value: Part) {
        let width = columns(key);
        if width > KEY_COLUMNS {
            self.heading(indent, key);
            return self.push(vec![blank(indent + 2), value], indent + 2);
        }
        let gap = if width == 0 {
            0
        } else if key == "-" {
            1
        } else {
            3
        };
        let parts = vec![blank(indent), Part::new(Role::Key, key), blank(gap), value];
        self.push(parts, indent + width + gap);
    }

    fn push(&mut self, parts: Vec<Part>, hang: usize) {
        self.lines.push(Line {
            parts,
            hang,
            ..Line::default()
        });
    }

    /// A key that could be mistaken for something else is quoted.
    fn key(&mut self, key: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-$@".contains(c);
        if !key.is_empty() && key != "-" && key.chars().all(plain) {
            return key.to_owned();
        }
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let shown = Untrusted::new(quoted).line();
        self.altered += shown.altered();
        shown.as_str().to_owned()
    }
}

fn blank(columns: usize) -> Part {
    Part::new(Role::Text, " ".repeat(columns))
}

/// Says that something in the line was hidden.
pub(super) fn hidden(altered: usize) -> Part {
    let words = super::words::count(altered, "hidden char");
    Part::new(Role::Warn, format!("   ⚠ {words}"))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn take(&mut self, token: char) -> Option<()> {
        self.blank();
        self.rest()
            .starts_with(token)
            .then(|| self.at += token.len_utf8())
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > DEEPEST {
            return None;
        }
        self.blank();
        match self.rest().chars().next()? {
            '{' => self.object(depth),
            '[' => self.list(depth),
            '"' => self.string().map(Value::Text),
            _ => self.word().map(Value::Word),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value<'a>> {
        self.take('{')?;
        let mut entries = Vec::new();
        if self.take('}').is_some() {
            return Some(Value::Object(entries));
        }
        loop {
            self.blank();
            let key = self.string()?;
            self.take(':')?;
            entries.push((key, self.value(depth + 1)?));
            if self.take('}').is_some() {
                return Some(Value::Object(entries));
            }
            self.take(',')?;
        }
    }

    fn list(&mut self, depth: usize) -> Option<Value<'a>> {
        self.take('[')?;
        let mut items = Vec::new();
        if self.take(']').is_some() {
            return Some(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(']').is_some() {
                return Some(Value::List(items));
            }
            self.take(',')?;
        }
    }

    /// A number or one of the three words, exactly as it stands there.
    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let of_word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let word = &rest[..rest.len() - rest.trim_start_matches(of_word).len()];
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    fn string(&mut self) -> Option<String> {
        let rest = self.rest().strip_prefix('"')?;
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let token = self.text.get(self.at..self.at + end + 2)?;
        self.at += token.len();
        unescape(&token[1..=end])
    }
}

/// A lone half of a surrogate pair has no character: it is shown as it was written.
fn unescape(written: &str) -> Option<String> {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = rest[at + 1..].chars().next()?;
        rest = rest.get(at + 2..)?;
        match escape {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            '"' | '\\' | '/' => text.push(escape),
            'u' => {
                let (c, after) = unicode(rest)?;
                match c {
                    Some(c) => text.push(c),
                    None => text.push_str(&format!("\\u{}", &rest[..4])),
                }
                rest = after;
            }
            _ => return None,
        }
    }
    text.push_str(rest);
    Some(text)
}

fn unicode(rest: &str) -> Option<(Option<char>, &str)> {
    let unit = |text: &str| u32::from_str_radix(text.get(..4)?, 16).ok();
    let first = unit(rest)?;
    let after = &rest[4..];
    if let Some(second) = after.strip_prefix("\\u").and_then(unit)
        && (0xd800..0xdc00).contains(&first)
        && (0xdc00..0xe000).contains(&second)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Some((char::from_u32(code), &after[6..]));
    }
    Some((char::from_u32(first), after))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shown(json: &str) -> String {
        let (lines, _) = tree(json, 0).unwrap();
        let text = |line: &Line| {
            line.parts
                .iter()
                .map(|part| part.text.as_str())
                .collect::<String>()
        };
        lines.iter().map(text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn arguments_read_as_a_tree_with_every_digit_as_it_came() {
        let rows = [
            ("{}", "no arguments"),
            (
                r#"{"to":"ACME","amount":1250.00,"n":123456789012345678901234567890.10e+2,"ok":true,"x":null}"#,
                "to       \"ACME\"\namount   1250.00\nn        123456789012345678901234567890.10e+2\nok       true\nx        null",
            ),
            (
                r#"{"items":[1, "b", {"sku": "x", "n": -0}, []], "o": {}}"#,
                "items   4 items\n  - 1\n  - \"b\"\n  -\n    sku   \"x\"\n    n     -0\n  - []\no       {}",
            ),
            (
                r#"{"q":"say \"hi\" \\ \/","u":"\ud83d\ude00\ud800"}"#,
                "q   \"say \\\"hi\\\" \\\\ /\"\nu   \"😀\\\\ud800\"",
            ),
            (
                r#"{"sh":"set -e\nrm -rf x\n"}"#,
                "sh   \"set -e⏎\n     rm -rf x⏎\n     \"",
            ),
            (
                r#"{"a b":1,"-":2,"":3,"\u202e":"\u001b[2J"}"#,
                "\"a b\"        1\n\"-\"          2\n\"\"           3\n\"‹U+202E›\"   \"␛[2J\"   ⚠ 1 hidden char",
            ),
        ];
        for (json, expected) in rows {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_no_json_is_not_guessed_at() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for text in [
            "",
            "{",
            "{\"a\":}",
            "{} {}",
            "\"\\x\"",
            "[1,]",
            "\"\\u12\"",
            "{\"a\"",
            deep.as_str(),
        ] {
            assert!(tree(text, 0).is_none(), "{text}");
        }
    }
}
