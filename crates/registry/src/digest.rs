//! What was shown and will run, as one hash.
//!
//! Invariant: two envelopes have one digest only if every word a person could read in them is the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use thiserror::Error;

use crate::form::{Answer, Choice, Field, Form, Kind, Presence};
use crate::text::Untrusted;

/// A SHA-256, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

/// The hash of an [`Envelope`]: what a decision is bound to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(Sha256);

/// The text is no SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a SHA-256 is written as 64 lower-case hex digits")]
pub struct NotASha256;

/// All that a person is shown and that will run; ids, runs, owners, times, presence and risk stay outside.
///
/// The texts are hashed as they came, not as they are shown.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// What kind of approval.
    pub kind: &'a str,
    /// Who asks.
    pub agent: &'a str,
    /// The tool that will run, or empty.
    pub tool: &'a str,
    /// The hash of the bytes the tool gets; of no bytes, where there is none.
    pub args_sha256: &'a str,
    /// One row.
    pub title: &'a str,
    /// The question.
    pub prompt: &'a str,
    /// The text to read before the answer.
    pub body: &'a str,
    /// What is known apart from the agent's words.
    pub facts: &'a str,
    /// What the person fills in.
    pub form: &'a Form,
    /// Who may answer.
    pub asks: &'a str,
    /// Names and values that are shown beside it.
    pub labels: &'a BTreeMap<Untrusted, Untrusted>,
}

impl Sha256 {
    /// The hash itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A hash that was stored as its bytes.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash of these bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(sha2::Sha256::digest(bytes.as_ref()).into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

/// Upper case is refused: a hash has one spelling.
impl FromStr for Sha256 {
    type Err = NotASha256;

    fn from_str(text: &str) -> Result<Self, NotASha256> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(NotASha256);
        };
        if pairs.len() != 32 {
            return Err(NotASha256);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Sha256 {
    type Error = NotASha256;

    fn try_from(text: String) -> Result<Self, NotASha256> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(hash: Sha256) -> Self {
        hash.to_string()
    }
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::of(bytes))
    }

    /// Its first and last four digits, `9f3a·c01d`: for eyes only, never to decide by.
    pub fn short(&self) -> String {
        let [a, b, .., y, z] = self.0.0;
        format!("{a:02x}{b:02x}·{y:02x}{z:02x}")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = NotASha256;

    fn from_str(text: &str) -> Result<Self, NotASha256> {
        text.parse().map(Self)
    }
}

impl<'a> Envelope<'a> {
    /// The SHA-256 of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical())
    }

    /// The envelope as canonical JSON: keys in the order of their UTF-16 units, no blanks, escapes as in RFC 8785.
    ///
    /// The version is its only number, always `1`. The numbers of a form are strings, so no reader can round them.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.json().write(&mut text);
        text
    }

    fn json(self) -> Json<'a> {
        let labels = self
            .labels
            .iter()
            .map(|(name, value)| (name.raw(), Json::text(value.raw())));
        Json::Object(vec![
            ("v", Json::Version1),
            ("kind", Json::text(self.kind)),
            ("agent", Json::text(self.agent)),
            ("tool", Json::text(self.tool)),
            ("args_sha256", Json::text(self.args_sha256)),
            ("title", Json::text(self.title)),
            ("prompt", Json::text(self.prompt)),
            ("body", Json::text(self.body)),
            ("facts", Json::text(self.facts)),
            (
                "form",
                Json::List(self.form.fields().iter().map(field).collect()),
            ),
            ("asks", Json::text(self.asks)),
            ("labels", Json::Object(labels.collect())),
        ])
    }
}

/// As much of JSON as an envelope needs.
enum Json<'a> {
    Version1,
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(&'a str, Json<'a>)>),
}

impl<'a> Json<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text(text.into())
    }

    fn write(self, out: &mut String) {
        match self {
            Self::Version1 => out.push('1'),
            Self::Text(text) => write_text(&text, out),
            Self::List(items) => write_list(items, out),
            Self::Object(entries) => write_object(entries, out),
        }
    }
}

fn field(field: &Field) -> Json<'_> {
    let (presence, default) = match &field.presence {
        Presence::Required => ("required", None),
        Presence::Defaulted(default) => ("defaulted", Some(default)),
        Presence::Optional(default) => ("optional", Some(default)),
    };
    let mut entries = vec![
        ("name", Json::text(&field.name)),
        ("label", Json::text(field.label.raw())),
        ("help", Json::text(field.help.raw())),
        ("type", Json::text(field.kind.word())),
        ("presence", Json::text(presence)),
    ];
    entries.extend(default.map(|default| ("default", answer(default))));
    // Only where there is one, so that what was filed before keeps its digest.
    if !field.secrecy.is_open() {
        entries.push(("secrecy", Json::text("secret")));
    }
    if let Kind::Enum(choices) = &field.kind {
        entries.push(("options", Json::List(choices.iter().map(choice).collect())));
    }
    Json::Object(entries)
}

fn answer(answer: &Answer) -> Json<'_> {
    Json::Text(answer.to_raw().into())
}

fn choice(choice: &Choice) -> Json<'_> {
    Json::Object(vec![
        ("value", Json::text(choice.value.raw())),
        ("label", Json::text(choice.label.raw())),
    ])
}

fn write_list(items: Vec<Json<'_>>, out: &mut String) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        write_comma(index, out);
        item.write(out);
    }
    out.push(']');
}

fn write_object(mut entries: Vec<(&str, Json<'_>)>, out: &mut String) {
    entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        write_comma(index, out);
        write_text(key, out);
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

fn write_comma(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            // A String takes whatever is written to it.
            '\0'..='\u{1f}' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn nibble(hex: u8) -> Result<u8, NotASha256> {
    match hex {
        b'0'..=b'9' => Ok(hex - b'0'),
        b'a'..=b'f' => Ok(hex - b'a' + 10),
        _ => Err(NotASha256),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        name: String,
        input: Input,
        args_sha256: String,
        canonical: String,
        digest: Digest,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        kind: String,
        agent: String,
        tool: String,
        /// The bytes the tool gets; none, where no tool runs.
        args: Option<String>,
        title: String,
        prompt: String,
        body: String,
        facts: String,
        form: Form,
        asks: String,
        labels: BTreeMap<Untrusted, Untrusted>,
    }

    /// The same file is checked by `tests/golden/check_digest.py`.
    #[test]
    fn the_golden_vectors_hold() {
        let cases: Vec<Golden> =
            serde_json::from_str(include_str!("../tests/golden/digest.json")).unwrap();
        assert!(cases.len() >= 8);
        for Golden {
            name,
            input,
            args_sha256,
            canonical,
            digest,
        } in cases
        {
            let hashed = input
                .args
                .map(|args| Sha256::of(args).to_string())
                .unwrap_or_default();
            assert_eq!(hashed, args_sha256, "{name}");
            let envelope = Envelope {
                kind: &input.kind,
                agent: &input.agent,
                tool: &input.tool,
                args_sha256: &hashed,
                title: &input.title,
                prompt: &input.prompt,
                body: &input.body,
                facts: &input.facts,
                form: &input.form,
                asks: &input.asks,
                labels: &input.labels,
            };
            assert_eq!(envelope.canonical(), canonical, "{name}");
            assert_eq!(envelope.digest(), digest, "{name}");
        }
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = Sha256::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(Digest::of("abc").short(), "ba78·15ad");
        assert_eq!(
            serde_json::to_string(&Digest::of("abc")).unwrap(),
            format!("\"{text}\"")
        );
        for wrong in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}00"),
            &text.replace('b', "g"),
        ] {
            assert_eq!(wrong.parse::<Sha256>(), Err(NotASha256), "{wrong}");
            assert!(
                serde_json::from_str::<Digest>(&format!("\"{wrong}\"")).is_err(),
                "{wrong}"
            );
        }
    }
}
