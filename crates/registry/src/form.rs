//! Forms of seven types, and the answers that satisfy them.
//!
//! Invariant: an [`Answers`] exists only if some [`Form`] accepted it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::IntErrorKind;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::{Untrusted, readable_name};

/// What an agent asks a person to fill in. On the wire it is the list of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Field>", into = "Vec<Field>")]
pub struct Form {
    fields: Vec<Field>,
}

/// One question of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The key of its answer: 1 to 64 characters of `[A-Za-z0-9_.-]`, unique in the form.
    pub name: String,
    /// What the person sees; left empty, a form makes one from the name.
    #[serde(default)]
    pub label: Untrusted,
    /// A sentence of advice, or empty.
    #[serde(default)]
    pub help: Untrusted,
    /// What an answer may be.
    pub kind: Kind,
    /// Whether there must be one.
    #[serde(default)]
    pub presence: Presence,
    /// Whether its answer is for the agent alone: everybody else sees that it was given, sealed.
    #[serde(default, skip_serializing_if = "Secrecy::is_open")]
    pub secrecy: Secrecy,
}

/// Who sees the answer to a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secrecy {
    /// Whoever sees the approval.
    #[default]
    Open,
    /// Only the agent that filed it.
    Secret,
}

impl Secrecy {
    /// Whether there is nothing to hide.
    pub fn is_open(&self) -> bool {
        *self == Self::Open
    }
}

/// What an answer may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One row of text.
    String,
    /// Text that keeps its newlines.
    Text,
    /// A finite decimal number.
    Number,
    /// A whole number of 64 bits.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// One of these, exactly as written.
    Enum(Vec<Choice>),
    /// A day, as `YYYY-MM-DD`.
    Date,
}

/// One option of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// What is answered: not empty, unique in its field.
    pub value: Untrusted,
    /// What the person sees; left empty, a form takes the value.
    #[serde(default)]
    pub label: Untrusted,
}

/// Whether a field must be answered. Left out, a default stands, for approve and reject alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// There is nothing to fall back to.
    #[default]
    Required,
    /// Given empty, it is refused.
    Defaulted(Answer),
    /// Given empty, it takes its default.
    Optional(Answer),
}

/// An answer in its declared type. A string, a text and an enum are all text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Of a string, a text or an enum.
    Text(Untrusted),
    /// Of a number.
    Number(Number),
    /// Of an integer.
    Integer(i64),
    /// Of a boolean.
    Boolean(bool),
    /// Of a date.
    Date(#[serde(with = "full_date")] Date),
    /// Of a secret field, as everybody sees it but the agent.
    Sealed,
}

/// What stands where a secret answer was given.
pub const SEALED: &str = "(sealed)";

/// A finite number, never minus zero: so equal numbers are written alike.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Number(f64);

/// Answers as the person typed them, by field name.
pub type RawAnswers = BTreeMap<String, String>;

/// Answers that a form accepted, by field name: one for each of its fields.
///
/// They are read back only from where they were written: our own log and wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answers(BTreeMap<String, Answer>);

/// Why a form was not accepted, for whoever files it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// Nobody fills in so many.
    #[error("a form has at most {MAX_FIELDS} fields, not {0}")]
    TooManyFields(usize),
    /// A name is a key for programs.
    #[error("'{}' is not a field name: 1 to {MAX_NAME_CHARS} letters, digits, '_', '.' or '-'", .0.line())]
    BadName(Untrusted),
    /// Two fields would answer to one key.
    #[error("the form has two fields named '{0}'")]
    TwoNamed(String),
    /// An enum without options has no answer.
    #[error("the enum '{0}' has no options")]
    NoOptions(String),
    /// An empty answer means no answer, so it cannot be an option.
    #[error("the enum '{0}' has an empty option")]
    EmptyOption(String),
    /// Two options would be one answer.
    #[error("the enum '{name}' has the option '{}' twice", value.line())]
    TwoOptions {
        /// The field.
        name: String,
        /// The option.
        value: Untrusted,
    },
    /// A default is an answer, and must be one of its kind.
    #[error("the default of '{name}' is not a valid {kind}")]
    BadDefault {
        /// The field.
        name: String,
        /// Its kind, as [`Kind::word`] says it.
        kind: &'static str,
    },
    /// Empty is what such a field refuses.
    #[error("the default of '{0}' is empty, but the field needs an answer: make it optional")]
    EmptyDefault(String),
    /// What is chosen from a list that everybody sees is no secret.
    #[error("'{0}' cannot be secret: only a string or a text can")]
    SecretKind(String),
    /// A default stands on the card, where everybody reads it.
    #[error("the secret field '{0}' cannot have a default: everybody would read it on the card")]
    SecretDefault(String),
}

/// What is wrong with one answer, by the label the person sees.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' {problem}", label.line())]
pub struct FieldError {
    /// The field's name; for [`Problem::NoSuchField`] the key as it came, which is foreign text.
    pub field: String,
    /// The field's label, or the unknown key.
    pub label: Untrusted,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an answer. Reads on after the label.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Left out or empty, and nothing to fall back to.
    #[error("needs an answer")]
    Missing,
    /// A string has one row.
    #[error("must be one line")]
    SeveralLines,
    /// No decimal number.
    #[error("must be a number, like 2.5")]
    NotANumber,
    /// Beyond what 64 bits of floating point hold.
    #[error("must be a smaller number")]
    NotFinite,
    /// No whole number in ASCII digits.
    #[error("must be a whole number, like 42")]
    NotAnInteger,
    /// Beyond what 64 bits hold.
    #[error("must be between {} and {}", i64::MIN, i64::MAX)]
    OutOfRange,
    /// Neither of the two words.
    #[error("must be true or false")]
    NotABoolean,
    /// None of the options.
    #[error("must be one of {}", list(.0))]
    NotAnOption(Vec<Untrusted>),
    /// Not written as a date.
    #[error("must be a date written as YYYY-MM-DD")]
    NotADate,
    /// Written as a date, but the calendar has no such day.
    #[error("must be a day that exists")]
    NoSuchDay,
    /// The form does not ask this.
    #[error("is not a field of this form")]
    NoSuchField,
}

const MAX_FIELDS: usize = 64;
const MAX_NAME_CHARS: usize = 64;

impl Form {
    /// Accepts the fields if a person can answer them all, and gives a label to what has none.
    pub fn new(fields: Vec<Field>) -> Result<Self, FormError> {
        if fields.len() > MAX_FIELDS {
            return Err(FormError::TooManyFields(fields.len()));
        }
        let mut names = BTreeSet::new();
        for field in &fields {
            field.check()?;
            if !names.insert(&field.name) {
                return Err(FormError::TwoNamed(field.name.clone()));
            }
        }
        Ok(Self {
            fields: fields.into_iter().map(Field::labelled).collect(),
        })
    }

    /// The fields, in the order they are asked.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Types the answers, or says all that is wrong at once: by field in the form's order, then the unknown keys.
    pub fn read(&self, raw: &RawAnswers) -> Result<Answers, Vec<FieldError>> {
        let mut answers = BTreeMap::new();
        let mut errors = Vec::new();
        for field in &self.fields {
            match field.read(raw.get(&field.name)) {
                Ok(answer) => drop(answers.insert(field.name.clone(), answer)),
                Err(problem) => errors.push(field.refuse(problem)),
            }
        }
        errors.extend(
            raw.keys()
                .filter(|key| !self.has(key))
                .map(|key| FieldError::unknown(key)),
        );
        if errors.is_empty() {
            Ok(Answers(answers))
        } else {
            Err(errors)
        }
    }

    /// The fields a person must fill in even to say no, since a rejection satisfies the form too.
    pub fn cannot_be_declined_in_one_step(&self) -> Vec<&Field> {
        self.fields
            .iter()
            .filter(|field| field.presence == Presence::Required)
            .collect()
    }

    /// What is secret of the answers, for the agent that filed the form.
    pub fn secrets(&self, answers: &Answers) -> Answers {
        let secret = answers.0.iter().filter(|(name, _)| self.hides(name));
        Answers(
            secret
                .map(|(name, answer)| (name.clone(), answer.clone()))
                .collect(),
        )
    }

    /// The answers as everybody may see them: of what is secret, only that it was given.
    #[must_use]
    pub fn sealed(&self, mut answers: Answers) -> Answers {
        let secret = answers.0.iter_mut().filter(|(name, _)| self.hides(name));
        secret.for_each(|(_, answer)| *answer = Answer::Sealed);
        answers
    }

    fn hides(&self, name: &str) -> bool {
        let secret = |field: &Field| field.name == name && !field.secrecy.is_open();
        self.fields.iter().any(secret)
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}

impl TryFrom<Vec<Field>> for Form {
    type Error = FormError;

    fn try_from(fields: Vec<Field>) -> Result<Self, FormError> {
        Self::new(fields)
    }
}

impl From<Form> for Vec<Field> {
    fn from(form: Form) -> Self {
        form.fields
    }
}

impl Field {
    fn check(&self) -> Result<(), FormError> {
        if !is_name(&self.name) {
            return Err(FormError::BadName(self.name.as_str().into()));
        }
        if let Kind::Enum(choices) = &self.kind {
            self.check_choices(choices)?;
        }
        if !self.secrecy.is_open() {
            self.check_secret()?;
        }
        match &self.presence {
            Presence::Required => Ok(()),
            Presence::Optional(default) => self.check_default(default),
            Presence::Defaulted(default) if default.to_raw().is_empty() => {
                Err(FormError::EmptyDefault(self.name.clone()))
            }
            Presence::Defaulted(default) => self.check_default(default),
        }
    }

    fn check_secret(&self) -> Result<(), FormError> {
        if !matches!(self.kind, Kind::String | Kind::Text) {
            return Err(FormError::SecretKind(self.name.clone()));
        }
        match &self.presence {
            Presence::Defaulted(_) => Err(FormError::SecretDefault(self.name.clone())),
            Presence::Optional(default) if !default.to_raw().is_empty() => {
                Err(FormError::SecretDefault(self.name.clone()))
            }
            Presence::Required | Presence::Optional(_) => Ok(()),
        }
    }

    fn check_choices(&self, choices: &[Choice]) -> Result<(), FormError> {
        if choices.is_empty() {
            return Err(FormError::NoOptions(self.name.clone()));
        }
        let mut values = BTreeSet::new();
        for Choice { value, .. } in choices {
            if value.is_empty() {
                return Err(FormError::EmptyOption(self.name.clone()));
            }
            if !values.insert(value) {
                return Err(FormError::TwoOptions {
                    name: self.name.clone(),
                    value: value.clone(),
                });
            }
        }
        Ok(())
    }

    /// A default is valid if a person could have typed it.
    fn check_default(&self, default: &Answer) -> Result<(), FormError> {
        if self.kind.parse(&default.to_raw()).as_ref() == Ok(default) {
            return Ok(());
        }
        Err(FormError::BadDefault {
            name: self.name.clone(),
            kind: self.kind.word(),
        })
    }

    fn labelled(mut self) -> Self {
        if is_blank(&self.label) {
            self.label = readable_name(&self.name, &['_', '.', '-']).into();
        }
        if let Kind::Enum(choices) = &mut self.kind {
            for choice in choices.iter_mut().filter(|choice| is_blank(&choice.label)) {
                choice.label = choice.value.clone();
            }
        }
        self
    }

    fn read(&self, raw: Option<&String>) -> Result<Answer, Problem> {
        use Presence::{Defaulted, Optional, Required};
        match (raw.map(|raw| self.kind.tidy(raw)), &self.presence) {
            (None, Required) | (Some(""), Required | Defaulted(_)) => Err(Problem::Missing),
            (None, Defaulted(default) | Optional(default)) | (Some(""), Optional(default)) => {
                Ok(default.clone())
            }
            (Some(given), Required | Defaulted(_) | Optional(_)) => self.kind.parse(given),
        }
    }

    fn refuse(&self, problem: Problem) -> FieldError {
        FieldError {
            field: self.name.clone(),
            label: self.label.clone(),
            problem,
        }
    }
}

impl FieldError {
    fn unknown(key: &str) -> Self {
        Self {
            field: key.to_owned(),
            label: key.into(),
            problem: Problem::NoSuchField,
        }
    }
}

impl Kind {
    /// Types one answer that was given. Blanks around it count only where it is text or an option.
    pub fn parse(&self, raw: &str) -> Result<Answer, Problem> {
        let raw = self.tidy(raw);
        match self {
            Self::String => one_line(raw).map(Answer::Text),
            Self::Text => Ok(Answer::Text(raw.into())),
            Self::Number => number(raw).map(Answer::Number),
            Self::Integer => integer(raw).map(Answer::Integer),
            Self::Boolean => boolean(raw).map(Answer::Boolean),
            Self::Enum(choices) => option(choices, raw).map(Answer::Text),
            Self::Date => date(raw).map(Answer::Date),
        }
    }

    /// The kind's name, on the wires and in the digest.
    pub fn word(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Text => "text",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Enum(_) => "enum",
            Self::Date => "date",
        }
    }

    fn tidy<'a>(&self, raw: &'a str) -> &'a str {
        match self {
            Self::String | Self::Text | Self::Enum(_) => raw,
            Self::Number | Self::Integer | Self::Boolean | Self::Date => raw.trim_ascii(),
        }
    }
}

impl Answer {
    /// The answer as a person would type it; its kind reads it back as the same answer. Of a sealed
    /// one, the mark that says so.
    pub fn to_raw(&self) -> String {
        match self {
            Self::Text(text) => text.raw().to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Integer(integer) => integer.to_string(),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::Date(date) => date.to_string(),
            Self::Sealed => SEALED.to_owned(),
        }
    }
}

impl Number {
    /// Nothing for infinities and for what is not a number.
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value + 0.0)) // -0.0 + 0.0 is 0.0
    }

    /// The number, finite.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// No number here is NaN.
impl Eq for Number {}

impl TryFrom<f64> for Number {
    type Error = Problem;

    fn try_from(value: f64) -> Result<Self, Problem> {
        Self::new(value).ok_or(Problem::NotFinite)
    }
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        number.0
    }
}

/// The shortest digits that read back as the same number, laid out as ECMAScript (and so RFC 8785) does.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scientific = format!("{:e}", self.0.abs());
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().map_err(|_| fmt::Error)?;
        if !(-6..21).contains(&exponent) {
            let plus = if exponent > 0 { "+" } else { "" };
            let sign = if self.0 < 0.0 { "-" } else { "" };
            return write!(f, "{sign}{mantissa}e{plus}{exponent}");
        }
        write!(f, "{}", self.0)
    }
}

impl Answers {
    /// Answers that a form accepted before they were written; only for log and wire.
    pub fn written(answers: impl IntoIterator<Item = (String, Answer)>) -> Self {
        Self(answers.into_iter().collect())
    }

    /// With what was sealed put back, for the agent that may have it.
    #[must_use]
    pub fn opened(mut self, secrets: &Self) -> Self {
        let sealed = self
            .0
            .iter_mut()
            .filter(|(_, answer)| **answer == Answer::Sealed);
        for (name, answer) in sealed {
            if let Some(secret) = secrets.0.get(name) {
                answer.clone_from(secret);
            }
        }
        self
    }

    /// Whether something in it is sealed.
    pub fn has_sealed(&self) -> bool {
        self.0.values().any(|answer| *answer == Answer::Sealed)
    }

    /// Whether nothing was answered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer to one field.
    pub fn get(&self, name: &str) -> Option<&Answer> {
        self.0.get(name)
    }

    /// All answers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Answer)> {
        self.0.iter().map(|(name, answer)| (name.as_str(), answer))
    }
}

fn is_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(of_name)
}

fn is_blank(text: &Untrusted) -> bool {
    text.raw().trim().is_empty()
}

fn one_line(raw: &str) -> Result<Untrusted, Problem> {
    if raw.contains(['\n', '\r']) {
        Err(Problem::SeveralLines)
    } else {
        Ok(raw.into())
    }
}

fn number(raw: &str) -> Result<Number, Problem> {
    let decimal =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    if !raw.bytes().all(decimal) {
        return Err(Problem::NotANumber); // the standard reader also knows "inf" and "nan"
    }
    let value: f64 = raw.parse().map_err(|_| Problem::NotANumber)?;
    Number::try_from(value)
}

fn integer(raw: &str) -> Result<i64, Problem> {
    raw.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Problem::OutOfRange,
        _ => Problem::NotAnInteger,
    })
}

fn boolean(raw: &str) -> Result<bool, Problem> {
    raw.parse().map_err(|_| Problem::NotABoolean)
}

fn option(choices: &[Choice], raw: &str) -> Result<Untrusted, Problem> {
    let values = choices.iter().map(|choice| &choice.value);
    match values.clone().find(|value| value.raw() == raw) {
        Some(value) => Ok(value.clone()),
        None => Err(Problem::NotAnOption(values.cloned().collect())),
    }
}

/// An RFC 3339 full-date and nothing else: the calendar's own reader takes more spellings.
fn date(raw: &str) -> Result<Date, Problem> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = raw.as_bytes() else {
        return Err(Problem::NotADate);
    };
    if ![y1, y2, y3, y4, m1, m2, d1, d2]
        .iter()
        .all(u8::is_ascii_digit)
    {
        return Err(Problem::NotADate);
    }
    raw.parse().map_err(|_| Problem::NoSuchDay)
}

fn list(options: &[Untrusted]) -> String {
    let shown: Vec<String> = options
        .iter()
        .map(|option| option.line().to_string())
        .collect();
    shown.join(", ")
}

mod full_date {
    use super::{Date, Deserialize};

    pub(super) fn serialize<S: serde::Serializer>(date: &Date, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(date)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Date, D::Error> {
        super::date(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    fn field(name: &str, kind: Kind, presence: Presence) -> Field {
        Field {
            name: name.to_owned(),
            label: Untrusted::default(),
            help: Untrusted::default(),
            kind,
            presence,
            secrecy: Secrecy::Open,
        }
    }

    fn options(values: &[&str]) -> Kind {
        let choice = |value: &&str| Choice {
            value: (*value).into(),
            label: Untrusted::default(),
        };
        Kind::Enum(values.iter().map(choice).collect())
    }

    fn text(text: &str) -> Answer {
        Answer::Text(text.into())
    }

    /// What was typed, and what comes of it.
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

    /// What comes of the answers, one line each: `name = answer`, or the refusals.
    fn outcome(form: &Form, answers: &[(&str, &str)]) -> Vec<String> {
        let raw = answers
            .iter()
            .map(|(name, answer)| ((*name).to_owned(), (*answer).to_owned()))
            .collect();
        match form.read(&raw) {
            Ok(answers) => answers
                .iter()
                .map(|(name, answer)| format!("{name} = {}", answer.to_raw()))
                .collect(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        }
    }

    /// Case A12; EL-29, EL-30, EL-31.
    #[test]
    fn every_wrong_answer_is_refused_by_its_label_and_all_at_once() {
        let form = Form::new(vec![
            field("n", Kind::Integer, Presence::Defaulted(Answer::Integer(5))),
            Field {
                label: "Visibility".into(),
                ..field("vis", options(&["public", "internal"]), Presence::Required)
            },
            field("d", Kind::Date, Presence::Required),
        ])
        .unwrap();
        let rows: &[Row] = &[
            (
                &[
                    ("n", "2.5"),
                    ("vis", "Public"),
                    ("d", "2026-02-30"),
                    ("x", "1"),
                ],
                &[
                    "'N' must be a whole number, like 42",
                    "'Visibility' must be one of public, internal",
                    "'D' must be a day that exists",
                    "'x' is not a field of this form",
                ],
            ),
            (
                &[("n", "١٢"), ("vis", "internal"), ("d", "30/02/2026")],
                &[
                    "'N' must be a whole number, like 42",
                    "'D' must be a date written as YYYY-MM-DD",
                ],
            ),
            (
                &[],
                &["'Visibility' needs an answer", "'D' needs an answer"],
            ),
            (
                &[("vis", "public"), ("d", "2028-02-29"), ("\x1b[2J", "1")],
                &["'␛[2J' is not a field of this form"],
            ),
            (
                &[("vis", "public"), ("d", "2028-02-29")],
                &["d = 2028-02-29", "n = 5", "vis = public"],
            ),
        ];
        for (answers, expected) in rows {
            assert_eq!(outcome(&form, answers), *expected, "{answers:?}");
        }
    }

    /// Case A31; EL-32, EL-33: the verb is not asked here, so approve and reject read alike.
    #[test]
    fn a_rejection_satisfies_the_form_too() {
        let form = Form::new(vec![
            field(
                "reason_code",
                options(&["cost", "risk"]),
                Presence::Required,
            ),
            field(
                "amount",
                Kind::Integer,
                Presence::Defaulted(Answer::Integer(1)),
            ),
            field("note", Kind::Text, Presence::Optional(text(""))),
        ])
        .unwrap();
        let rows: &[Row] = &[
            (&[], &["'Reason code' needs an answer"]),
            (
                &[("reason_code", "cost")],
                &["amount = 1", "note = ", "reason_code = cost"],
            ),
            (
                &[("amount", "abc")],
                &[
                    "'Reason code' needs an answer",
                    "'Amount' must be a whole number, like 42",
                ],
            ),
            (
                &[("reason_code", "cost"), ("verdict", "reject")],
                &["'verdict' is not a field of this form"],
            ),
            (
                &[("reason_code", "risk"), ("note", "a\nb")],
                &["amount = 1", "note = a\nb", "reason_code = risk"],
            ),
        ];
        for (answers, expected) in rows {
            assert_eq!(outcome(&form, answers), *expected, "{answers:?}");
        }
        let stuck: Vec<_> = form
            .cannot_be_declined_in_one_step()
            .iter()
            .map(|field| &field.name)
            .collect();
        assert_eq!(stuck, ["reason_code"]);
    }

    /// EL-24, EL-25, EL-26, EL-28: every type x presence x (left out, empty, good, bad).
    #[test]
    fn a_default_stands_where_nothing_is_said() {
        let day = Answer::Date(Date::constant(2026, 12, 1));
        let half = Answer::Number(Number::new(0.5).unwrap());
        let needs = "'X' needs an answer";
        // kind, default, (good, read as), (bad, refused with)
        let rows = [
            (
                Kind::String,
                text("red"),
                (" a b ", " a b "),
                ("a\nb", "'X' must be one line"),
            ),
            (Kind::Text, text("red"), ("a\r\nb\n", "a\r\nb\n"), ("", "")),
            (
                Kind::Number,
                half,
                (" -1.50e3\t", "-1500"),
                ("1,5", "'X' must be a number, like 2.5"),
            ),
            (
                Kind::Integer,
                Answer::Integer(-7),
                ("+12 ", "12"),
                ("1 2", "'X' must be a whole number, like 42"),
            ),
            (
                Kind::Boolean,
                Answer::Boolean(false),
                ("true", "true"),
                ("True", "'X' must be true or false"),
            ),
            (
                options(&["a", "b"]),
                text("a"),
                ("b", "b"),
                (" b", "'X' must be one of a, b"),
            ),
            (
                Kind::Date,
                day,
                ("2026-01-31", "2026-01-31"),
                ("2026-1-31", "'X' must be a date written as YYYY-MM-DD"),
            ),
        ];
        for (kind, default, (good, read_as), (bad, refusal)) in rows {
            let stands = format!("x = {}", default.to_raw());
            let presences = [
                (Presence::Required, needs, needs),
                (Presence::Defaulted(default.clone()), stands.as_str(), needs),
                (
                    Presence::Optional(default.clone()),
                    stands.as_str(),
                    stands.as_str(),
                ),
            ];
            for (presence, left_out, empty) in presences {
                let form = Form::new(vec![field("x", kind.clone(), presence.clone())]).unwrap();
                let of = |answers: &[(&str, &str)]| outcome(&form, answers).join("; ");
                assert_eq!(of(&[]), left_out, "{kind:?} {presence:?} left out");
                assert_eq!(of(&[("x", "")]), empty, "{kind:?} {presence:?} empty");
                assert_eq!(
                    of(&[("x", good)]),
                    format!("x = {read_as}"),
                    "{kind:?} {presence:?} good"
                );
                if !bad.is_empty() {
                    assert_eq!(of(&[("x", bad)]), refusal, "{kind:?} {presence:?} bad");
                }
            }
        }
    }

    /// EL-24, EL-28: the edges of each type.
    #[test]
    fn an_answer_is_of_its_type_exactly() {
        let rows = [
            (
                Kind::Integer,
                "9223372036854775807",
                Ok("9223372036854775807"),
            ),
            (
                Kind::Integer,
                "-9223372036854775808",
                Ok("-9223372036854775808"),
            ),
            (Kind::Integer, "9007199254740993", Ok("9007199254740993")),
            (
                Kind::Integer,
                "9223372036854775808",
                Err(Problem::OutOfRange),
            ),
            (Kind::Integer, "1e3", Err(Problem::NotAnInteger)),
            (Kind::Integer, "-", Err(Problem::NotAnInteger)),
            (Kind::Integer, "\u{a0}1", Err(Problem::NotAnInteger)),
            (Kind::Number, ".5", Ok("0.5")),
            (Kind::Number, "-0", Ok("0")),
            (Kind::Number, "1e20", Ok("100000000000000000000")),
            (Kind::Number, "-1e21", Ok("-1e+21")),
            (Kind::Number, "0.000001", Ok("0.000001")),
            (Kind::Number, "-12e-8", Ok("-1.2e-7")),
            (Kind::Number, "0.1", Ok("0.1")),
            (Kind::Number, "1e999", Err(Problem::NotFinite)),
            (Kind::Number, "inf", Err(Problem::NotANumber)),
            (Kind::Number, "NaN", Err(Problem::NotANumber)),
            (Kind::Number, "0x10", Err(Problem::NotANumber)),
            (Kind::Number, ".", Err(Problem::NotANumber)),
            (Kind::Number, "e5", Err(Problem::NotANumber)),
            (Kind::Number, "١.٥", Err(Problem::NotANumber)),
            (Kind::Boolean, " true\n", Ok("true")),
            (Kind::Boolean, "yes", Err(Problem::NotABoolean)),
            (Kind::Boolean, "1", Err(Problem::NotABoolean)),
            (Kind::Date, "0000-02-29", Ok("0000-02-29")),
            (Kind::Date, "2026-00-10", Err(Problem::NoSuchDay)),
            (Kind::Date, "2027-02-29", Err(Problem::NoSuchDay)),
            (Kind::Date, "20260210", Err(Problem::NotADate)),
            (Kind::Date, "+2026-02-1", Err(Problem::NotADate)),
            (Kind::Date, "2026-02-10T00:00:00Z", Err(Problem::NotADate)),
            (Kind::String, "a\rb", Err(Problem::SeveralLines)),
        ];
        for (kind, raw, expected) in rows {
            let answer = kind.parse(raw);
            let read = answer.as_ref().map(Answer::to_raw).map_err(Clone::clone);
            assert_eq!(read, expected.map(str::to_owned), "{kind:?} {raw:?}");
            if let Ok(answer) = answer {
                assert_eq!(
                    kind.parse(&answer.to_raw()),
                    Ok(answer.clone()),
                    "{raw:?} is read back"
                );
                let json = serde_json::to_string(&answer).unwrap();
                assert_eq!(
                    serde_json::from_str::<Answer>(&json).unwrap(),
                    answer,
                    "{json}"
                );
            }
        }
    }

    /// EL-25, EL-26: what cannot be answered is not filed; the same checks stand at every door.
    #[test]
    fn a_form_nobody_can_answer_is_refused() {
        let free = |name: &str| field(name, Kind::String, Presence::Required);
        let optional = |kind, default| vec![field("x", kind, Presence::Optional(default))];
        let many = (0..65).map(|n| free(&format!("f{n}"))).collect();
        let rows = [
            (many, "a form has at most 64 fields, not 65"),
            (
                vec![free("")],
                "'' is not a field name: 1 to 64 letters, digits, '_', '.' or '-'",
            ),
            (
                vec![free("a\u{202e}")],
                "'a‹U+202E›' is not a field name: 1 to 64 letters, digits, '_', '.' or '-'",
            ),
            (
                vec![free("a"), free("a")],
                "the form has two fields named 'a'",
            ),
            (
                vec![field("x", options(&[]), Presence::Required)],
                "the enum 'x' has no options",
            ),
            (
                vec![field("x", options(&["a", ""]), Presence::Required)],
                "the enum 'x' has an empty option",
            ),
            (
                vec![field("x", options(&["a", "a"]), Presence::Required)],
                "the enum 'x' has the option 'a' twice",
            ),
            (
                optional(options(&["a"]), text("b")),
                "the default of 'x' is not a valid enum",
            ),
            (
                optional(options(&["a"]), text("")),
                "the default of 'x' is not a valid enum",
            ),
            (
                optional(Kind::Integer, text("5")),
                "the default of 'x' is not a valid integer",
            ),
            (
                optional(Kind::String, text("a\nb")),
                "the default of 'x' is not a valid string",
            ),
            (
                optional(Kind::Date, Answer::Date(Date::constant(-1, 1, 1))),
                "the default of 'x' is not a valid date",
            ),
            (
                vec![field("x", Kind::Text, Presence::Defaulted(text("")))],
                "the default of 'x' is empty, but the field needs an answer: make it optional",
            ),
        ];
        for (fields, expected) in rows {
            let json = serde_json::to_string(&fields).unwrap();
            assert_eq!(Form::new(fields).unwrap_err().to_string(), expected);
            assert!(serde_json::from_str::<Form>(&json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_field_without_a_label_is_called_by_its_name() {
        let rows = [
            ("cost_centre", "Cost centre"),
            ("n", "N"),
            ("a.b-c", "A b c"),
            ("__", "__"),
            ("_x_", "X"),
        ];
        for (name, label) in rows {
            let form =
                Form::new(vec![field(name, options(&["eu-1"]), Presence::Required)]).unwrap();
            assert_eq!(form.fields()[0].label.raw(), label);
            let Kind::Enum(choices) = &form.fields()[0].kind else {
                panic!("still an enum")
            };
            assert_eq!(choices[0].label.raw(), "eu-1");
        }
    }

    #[test]
    fn forms_and_answers_survive_the_log() {
        let form: Form = serde_json::from_str(
            r#"[{"name":"vis","kind":{"enum":[{"value":"public"}]}},
                {"name":"n","kind":"integer","presence":{"defaulted":{"integer":9223372036854775807}}},
                {"name":"d","kind":"date","presence":{"optional":{"date":"2026-02-28"}}}]"#,
        )
        .unwrap();
        let json = serde_json::to_string(&form).unwrap();
        assert_eq!(serde_json::from_str::<Form>(&json).unwrap(), form);
        let answers = form
            .read(&[("vis".to_owned(), "public".to_owned())].into())
            .unwrap();
        let json = serde_json::to_string(&answers).unwrap();
        assert_eq!(
            json,
            r#"{"d":{"date":"2026-02-28"},"n":{"integer":9223372036854775807},"vis":{"text":"public"}}"#
        );
        assert_eq!(serde_json::from_str::<Answers>(&json).unwrap(), answers);
    }

    /// Issue 4: what everybody reads on the card, or chooses from it, is no secret.
    #[test]
    fn a_secret_is_typed_and_stands_nowhere_before() {
        let optional = |text: &str| Presence::Optional(Answer::Text(text.into()));
        let defaulted = Presence::Defaulted(text("hunter2"));
        let rows = [
            (Kind::String, Presence::Required, Ok(())),
            (Kind::Text, optional(""), Ok(())),
            (
                Kind::String,
                defaulted,
                Err(FormError::SecretDefault("f".into())),
            ),
            (
                Kind::Text,
                optional("hunter2"),
                Err(FormError::SecretDefault("f".into())),
            ),
            (
                Kind::Integer,
                Presence::Required,
                Err(FormError::SecretKind("f".into())),
            ),
            (
                options(&["a"]),
                Presence::Required,
                Err(FormError::SecretKind("f".into())),
            ),
        ];
        for (kind, presence, expected) in rows {
            let field = Field {
                secrecy: Secrecy::Secret,
                ..field("f", kind, presence)
            };
            assert_eq!(Form::new(vec![field]).map(drop), expected);
        }
    }

    #[test]
    fn a_sealed_answer_says_only_that_it_was_given_and_opens_for_who_has_the_secret() {
        let secret = Field {
            secrecy: Secrecy::Secret,
            ..field("pin", Kind::String, Presence::Required)
        };
        let form = Form::new(vec![secret, field("why", Kind::Text, Presence::Required)]).unwrap();
        let raw = [("pin", "hunter2"), ("why", "lost")].map(|(k, v)| (k.into(), v.into()));
        let given = form.read(&raw.into()).unwrap();
        let secrets = form.secrets(&given);
        let sealed = form.sealed(given.clone());
        assert!(sealed.has_sealed() && !given.has_sealed());
        let written = serde_json::to_string(&sealed).unwrap();
        assert_eq!(written, r#"{"pin":"sealed","why":{"text":"lost"}}"#);
        assert_eq!(serde_json::from_str::<Answers>(&written).unwrap(), sealed);
        assert!(!format!("{sealed:?}").contains("hunter2"));
        assert_eq!(secrets.iter().count(), 1);
        assert_eq!(sealed.opened(&secrets), given);
    }
}
