//! Which key does what: `keymap.toml`, the built-in one and an operator's own laid over it.
//!
//! Invariant: in a [`Keymap`] every binding can be typed, and every context keeps a way out, a way to quit and a way to
//! the help.

use std::{collections::BTreeMap, fmt};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

pub use super::actions::{Action, Context};
pub use super::keys::{Code, Key, KeyFault};
use super::keys::{nearest, parse_sequence, write_sequence};

/// The built-in keys, as a file to start one's own from.
pub const BUILT_IN: &str = include_str!("../../keymap.toml");

/// More than anybody binds; a file that is longer is not a keymap.
const LONGEST_FILE_IN_BYTES: usize = 64 * 1024;

/// What every key does in every context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    sections: BTreeMap<Context, Vec<Bound>>,
}

/// What a key press came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Do this, and forget the keys before.
    Action(Action),
    /// A sequence has begun: keep the key, and hand it in again with the next one.
    Pending,
    /// No command. Forget the keys before; where text is typed, the key may be text.
    Nothing,
}

/// One line of the help: keys as a footer shows them, and what they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// "↵", "g g", "ctrl-s".
    pub keys: String,
    /// What they do.
    pub action: Action,
}

/// A keymap file that cannot be used: where, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub struct KeymapError {
    /// The name given to the reader.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: Box<Fault>,
}

/// What can be wrong with a keymap. Variants stand in the order they are looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nobody wrote this by hand.
    #[error(
        "the file has {bytes} bytes, more than {LONGEST_FILE_IN_BYTES}; name only the keys that differ"
    )]
    TooLong {
        /// Of the whole file.
        bytes: usize,
    },
    /// The TOML parser refuses it.
    #[error("{message}; a line reads \"key\" = \"action\", each key once in its section")]
    NotToml {
        /// The parser's words.
        message: String,
    },
    /// A binding before the first `[section]`.
    #[error(
        "{keys:?} stands outside a section; write it under [global] or the context where it holds"
    )]
    OutsideSection {
        /// As it stands in the file.
        keys: String,
    },
    /// No context has this name.
    #[error("[{section}] is not a section; {}", section_suggestion(section))]
    UnknownSection {
        /// As it stands in the file.
        section: String,
    },
    /// Not a key, or none that can be sent.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// A number, a list or a table where an action belongs.
    #[error("the action for {keys:?} must be a word in quotes, such as \"help\"; it is {found}")]
    NotAWord {
        /// As it stands in the file.
        keys: String,
        /// What stands there.
        found: &'static str,
    },
    /// The word is no action, or not one of this section.
    #[error("{word:?} is not an action of {context}; {}", action_suggestion(word, *context))]
    UnknownAction {
        /// As it stands in the file.
        word: String,
        /// The section.
        context: Context,
    },
    /// Two spellings of one key.
    #[error("{keys:?} is the same key as {same:?} on line {line}; keep one of them")]
    SameKey {
        /// As it stands in the file.
        keys: String,
        /// The other spelling.
        same: String,
        /// Where the other one stands.
        line: usize,
    },
    /// A plain character cannot be a command where text is typed.
    #[error("{keys:?} is text in {context}; take a key with ctrl or alt, or an F-key")]
    TypesText {
        /// As it stands in the file.
        keys: String,
        /// The section.
        context: Context,
    },
    /// Enter never permits anything.
    #[error("\"enter\" must not {}: it is pressed too easily; take another key", action.word())]
    EnterPermits {
        /// What was bound to it.
        action: Action,
    },
    /// One binding is the beginning of another.
    #[error(
        "{short} is the beginning of {long}, which so can never be typed; set one of them to \"none\""
    )]
    Prefix {
        /// The binding that comes first.
        short: Standing,
        /// The binding that it hides.
        long: Standing,
    },
    /// A context without a way out.
    #[error("no key is left for \"{}\" in {context}; add one, such as {example:?} = \"{}\"", action.word(), action.word())]
    Unreachable {
        /// What cannot be done any more.
        action: Action,
        /// Where.
        context: Context,
        /// The built-in key for it.
        example: String,
    },
}

/// A binding, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As it is written.
    pub keys: String,
    /// What it does.
    pub action: Action,
    /// In this file; none: it is built in.
    pub line: Option<usize>,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self
            .line
            .map_or_else(|| "built in".to_owned(), |line| format!("line {line}"));
        write!(f, "{:?} = {:?} ({place})", self.keys, self.action.word())
    }
}

fn section_suggestion(section: &str) -> String {
    match nearest(section, Context::ALL.iter().map(|context| context.word())) {
        Some(meant) => format!("did you mean [{meant}]?"),
        None => format!(
            "the sections are {}",
            list(Context::ALL.iter().map(Context::to_string))
        ),
    }
}

fn action_suggestion(word: &str, context: Context) -> String {
    if let Some(action) = Action::from_word(word) {
        return format!(
            "it belongs to {}",
            list(action.contexts().iter().map(Context::to_string))
        );
    }
    let here = || {
        Action::ALL
            .iter()
            .filter(|action| action.contexts().contains(&context))
            .map(|action| action.word())
    };
    match nearest(word, here().chain(["none"])) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("its actions are {}", list(here().map(str::to_owned))),
    }
}

fn list(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// One binding: no action means that the key does nothing, not even what `[global]` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    keys: Vec<Key>,
    action: Option<Action>,
    /// In the file that is being read; none for what was there before.
    line: Option<usize>,
}

impl Bound {
    fn standing(&self) -> Option<Standing> {
        let keys = write_sequence(&self.keys, Key::to_string);
        Some(Standing {
            keys,
            action: self.action?,
            line: self.line,
        })
    }
}

impl Default for Keymap {
    /// The built-in keys.
    fn default() -> Self {
        match Self::parse(BUILT_IN, "keymap.toml") {
            Ok(keymap) => keymap,
            Err(error) => unreachable!("the built-in keymap is checked by a test: {error}"),
        }
    }
}

impl Keymap {
    /// Reads a whole keymap: what the text does not bind has no key. `name` is what an error calls the file.
    pub fn parse(text: &str, name: &str) -> Result<Self, KeymapError> {
        Self {
            sections: BTreeMap::new(),
        }
        .overlaid(text, name)
    }

    /// Reads an operator's own keymap, laid over the built-in one: what it does not name stays as it is.
    pub fn merged(text: &str, name: &str) -> Result<Self, KeymapError> {
        Self::default().overlaid(text, name)
    }

    /// What a key does in a context, after the keys that were [`Resolved::Pending`] before it. Esc ends a sequence and does
    /// nothing else; a key that does not continue it is dropped with it.
    #[must_use]
    pub fn resolve(&self, context: Context, pending: &[Key], key: Key) -> Resolved {
        let typed = [pending, &[key]].concat();
        if let Some(action) = self
            .live(context)
            .find(|bound| bound.keys == typed)
            .and_then(|bound| bound.action)
        {
            return Resolved::Action(action);
        }
        if self
            .live(context)
            .any(|bound| bound.keys.starts_with(&typed))
        {
            return Resolved::Pending;
        }
        Resolved::Nothing
    }

    /// Everything that has a key in a context: its own first, then what is global, in the order of the files.
    #[must_use]
    pub fn bindings(&self, context: Context) -> Vec<Binding> {
        self.live(context)
            .filter_map(|bound| {
                Some(Binding {
                    keys: write_sequence(&bound.keys, |key| key.pretty()),
                    action: bound.action?,
                })
            })
            .collect()
    }

    /// How a sequence that has begun goes on in a context: the keys that are left, and what they do.
    #[must_use]
    pub fn continuations(&self, context: Context, begun: &[Key]) -> Vec<Binding> {
        self.live(context)
            .filter_map(|bound| {
                let rest = bound.keys.strip_prefix(begun)?;
                Some(Binding {
                    keys: write_sequence(rest, |key| key.pretty()),
                    action: bound.action.filter(|_| !rest.is_empty())?,
                })
            })
            .collect()
    }

    /// The keys for an action in a context, as a footer shows them; the first is the one to show if there is room for one.
    #[must_use]
    pub fn keys_for(&self, context: Context, action: Action) -> Vec<String> {
        self.bindings(context)
            .into_iter()
            .filter(|binding| binding.action == action)
            .map(|binding| binding.keys)
            .collect()
    }

    /// The bindings that count in a context: a global one only where the context has no word on the same keys.
    fn live(&self, context: Context) -> impl Iterator<Item = &Bound> {
        let own = self.section(context);
        let global = if context == Context::Global {
            &[]
        } else {
            self.section(Context::Global)
        };
        let heard = move |bound: &&Bound| {
            let in_text = bound.keys.first().is_some_and(|key| key.commands_in_text());
            (in_text || !context.takes_text()) && !own.iter().any(|mine| mine.keys == bound.keys)
        };
        own.iter()
            .chain(global.iter().filter(heard))
            .filter(|bound| bound.action.is_some())
    }

    fn section(&self, context: Context) -> &[Bound] {
        self.sections.get(&context).map_or(&[], Vec::as_slice)
    }

    fn overlaid(mut self, text: &str, name: &str) -> Result<Self, KeymapError> {
        self.sections
            .values_mut()
            .flatten()
            .for_each(|bound| bound.line = None);
        let base = self.clone();
        let complain = |(line, fault)| KeymapError {
            file: name.to_owned(),
            line,
            fault: Box::new(fault),
        };
        for (context, bound) in read(text).map_err(complain)? {
            let section = self.sections.entry(context).or_default();
            match section.iter_mut().find(|before| before.keys == bound.keys) {
                Some(before) => *before = bound,
                None => section.push(bound),
            }
        }
        for context in Context::ALL {
            self.check_prefixes(context).map_err(complain)?;
        }
        for context in Context::ALL {
            self.check_required(context, &base).map_err(complain)?;
        }
        Ok(self)
    }

    fn check_prefixes(&self, context: Context) -> Result<(), (usize, Fault)> {
        let pairs = self
            .live(context)
            .flat_map(|short| self.live(context).map(move |long| (short, long)));
        let hidden = |(short, long): &(&Bound, &Bound)| {
            long.keys.len() > short.keys.len() && long.keys.starts_with(&short.keys)
        };
        let Some((short, long)) = pairs
            .filter(hidden)
            .min_by_key(|(short, long)| short.line.max(long.line))
        else {
            return Ok(());
        };
        let (Some(short), Some(long)) = (short.standing(), long.standing()) else {
            return Ok(());
        };
        Err((
            short.line.max(long.line).unwrap_or(1),
            Fault::Prefix { short, long },
        ))
    }

    /// `base` is what stood before this file: the line that took the last key away is the one to name.
    fn check_required(&self, context: Context, base: &Self) -> Result<(), (usize, Fault)> {
        let reachable = |action: &Action| {
            self.live(context)
                .any(|bound| bound.action == Some(*action))
        };
        let Some(action) = context
            .required()
            .iter()
            .copied()
            .find(|action| !reachable(action))
        else {
            return Ok(());
        };
        let had: Vec<&Bound> = base
            .live(context)
            .filter(|bound| bound.action == Some(action))
            .collect();
        let takes = |bound: &&Bound| had.iter().any(|before| before.keys == bound.keys);
        let here = [context, Context::Global]
            .into_iter()
            .flat_map(|context| self.section(context));
        let line = here
            .filter(takes)
            .filter_map(|bound| bound.line)
            .max()
            .unwrap_or(1);
        let example = had.first().map_or_else(
            || "f2".to_owned(),
            |bound| write_sequence(&bound.keys, Key::to_string),
        );
        Err((
            line,
            Fault::Unreachable {
                action,
                context,
                example,
            },
        ))
    }
}

/// The bindings of a file, in its order; or the first line that is wrong.
fn read(text: &str) -> Result<Vec<(Context, Bound)>, (usize, Fault)> {
    if text.len() > LONGEST_FILE_IN_BYTES {
        return Err((1, Fault::TooLong { bytes: text.len() }));
    }
    let line = |offset: usize| {
        1 + text
            .bytes()
            .take(offset)
            .filter(|byte| *byte == b'\n')
            .count()
    };
    let file = DeTable::parse(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        (
            error.span().map_or(1, |span| line(span.start)),
            Fault::NotToml { message },
        )
    })?;
    let mut read: Vec<(Context, Bound)> = Vec::new();
    for (section, value) in in_order(file.get_ref()) {
        let at = line(section.span().start);
        let DeValue::Table(entries) = value.get_ref() else {
            return Err((
                at,
                Fault::OutsideSection {
                    keys: section.get_ref().to_string(),
                },
            ));
        };
        let context = Context::from_word(section.get_ref()).ok_or_else(|| {
            (
                at,
                Fault::UnknownSection {
                    section: section.get_ref().to_string(),
                },
            )
        })?;
        for (keys, value) in in_order(entries) {
            let at = line(keys.span().start);
            let bound =
                bind(context, keys.get_ref(), value.get_ref(), at).map_err(|fault| (at, fault))?;
            if let Some((_, same)) = read
                .iter()
                .find(|(c, before)| *c == context && before.keys == bound.keys)
            {
                let fault = same_key(keys.get_ref(), same);
                return Err((at, fault));
            }
            read.push((context, bound));
        }
    }
    Ok(read)
}

fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> Vec<(
    &'a Spanned<toml::de::DeString<'i>>,
    &'a Spanned<DeValue<'i>>,
)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn bind(context: Context, written: &str, value: &DeValue<'_>, line: usize) -> Result<Bound, Fault> {
    let keys = parse_sequence(written)?;
    let DeValue::String(word) = value else {
        return Err(Fault::NotAWord {
            keys: written.to_owned(),
            found: a(value.type_str()),
        });
    };
    let bound = |action| Bound {
        keys: keys.clone(),
        action,
        line: Some(line),
    };
    if word == "none" {
        return Ok(bound(None));
    }
    let action = Action::from_word(word)
        .filter(|action| action.contexts().contains(&context))
        .ok_or_else(|| Fault::UnknownAction {
            word: word.to_string(),
            context,
        })?;
    let for_choices = matches!(action, Action::ChoiceNext | Action::ChoicePrevious);
    if context.takes_text() && !for_choices && keys.first().is_some_and(|key| key.text().is_some())
    {
        return Err(Fault::TypesText {
            keys: written.to_owned(),
            context,
        });
    }
    if action.permits() && keys == [Key::plain(Code::Enter)] {
        return Err(Fault::EnterPermits { action });
    }
    Ok(bound(Some(action)))
}

fn same_key(written: &str, before: &Bound) -> Fault {
    let same = write_sequence(&before.keys, Key::to_string);
    Fault::SameKey {
        keys: written.to_owned(),
        same,
        line: before.line.unwrap_or(1),
    }
}

fn a(kind: &str) -> &'static str {
    match kind {
        "integer" | "float" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "table" => "a table: quote a key that has a point in it",
        _ => "a date",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::{fs, path::Path};

    use super::*;

    fn fixtures(kind: &str) -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/keymaps")
            .join(kind);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (
                    path.file_name().unwrap().to_string_lossy().into_owned(),
                    fs::read_to_string(&path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    }

    /// `c06.toml` is called by its own name in the messages, so that a fixture reads as an operator would see it.
    #[test]
    fn every_bad_keymap_says_where_and_what_to_write() {
        let files = fixtures("invalid");
        assert!(files.len() >= 18);
        let wrong: Vec<String> = files
            .iter()
            .filter_map(|(name, text)| {
                let expected = text
                    .lines()
                    .find_map(|line| line.strip_prefix("# expect: "))
                    .unwrap_or("no `# expect:` line");
                let said = Keymap::merged(text, name)
                    .err()
                    .map_or_else(|| "accepted".to_owned(), |error| error.to_string());
                (said != expected)
                    .then(|| format!("{name}\n  expected {expected}\n  said     {said}"))
            })
            .collect();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    /// `# inbox: Q = quit` in a fixture: the key, or the sequence, does that there; `# form: q =` that it does nothing.
    #[test]
    fn every_good_keymap_does_what_it_says() {
        for (name, text) in fixtures("valid") {
            let keymap = Keymap::merged(&text, &name).unwrap_or_else(|error| panic!("{error}"));
            let mut rows = 0;
            for line in text.lines().filter_map(|line| line.strip_prefix("# ")) {
                let Some((context, rule)) = line.split_once(": ") else {
                    continue;
                };
                let Some(context) = Context::from_word(context) else {
                    continue;
                };
                let (keys, action) = rule.split_once(" =").expect("`# context: keys = action`");
                assert_eq!(
                    press(&keymap, context, keys),
                    Action::from_word(action.trim()),
                    "{name}: {line}"
                );
                rows += 1;
            }
            assert!(rows > 0, "{name} states nothing");
        }
    }

    fn press(keymap: &Keymap, context: Context, keys: &str) -> Option<Action> {
        let mut pending = Vec::new();
        for key in parse_sequence(keys).expect("a key") {
            match keymap.resolve(context, &pending, key) {
                Resolved::Action(action) => return Some(action),
                Resolved::Pending => pending.push(key),
                Resolved::Nothing => return None,
            }
        }
        None
    }

    #[test]
    fn the_built_in_keys_bind_every_action_wherever_it_belongs() {
        let keymap = Keymap::parse(BUILT_IN, "keymap.toml").unwrap();
        for context in Context::ALL {
            for action in Action::ALL
                .iter()
                .filter(|action| action.contexts().contains(&context))
            {
                let elsewhere = *action == Action::Dismiss || *action == Action::RetryNow;
                assert!(
                    elsewhere || !keymap.keys_for(context, *action).is_empty(),
                    "{context} {action:?}"
                );
            }
        }
    }

    #[test]
    fn esc_ends_a_sequence_and_a_wrong_key_does_not_decide() {
        let keymap = Keymap::default();
        let g = Key::char('g');
        assert_eq!(keymap.resolve(Context::Card, &[], g), Resolved::Pending);
        assert_eq!(
            keymap.resolve(Context::Card, &[g], g),
            Resolved::Action(Action::First)
        );
        assert_eq!(
            keymap.resolve(Context::Card, &[g], Key::plain(Code::Esc)),
            Resolved::Nothing
        );
        assert_eq!(
            keymap.resolve(Context::Card, &[g], Key::char('a')),
            Resolved::Nothing
        );
    }

    #[test]
    fn typed_text_is_never_a_command() {
        let keymap = Keymap::default();
        for context in [Context::Form, Context::Note] {
            for c in (' '..='~').filter(|c| *c != ' ') {
                assert_eq!(
                    keymap.resolve(context, &[], Key::char(c)),
                    Resolved::Nothing,
                    "{context} {c}"
                );
            }
            assert_eq!(
                keymap.resolve(context, &[], Key::ctrl('c')),
                Resolved::Action(Action::Quit)
            );
            assert_eq!(
                keymap.resolve(context, &[], Key::plain(Code::F(1))),
                Resolved::Action(Action::Help)
            );
        }
    }

    #[test]
    fn the_help_shows_the_keys_that_hold() {
        let keymap = Keymap::merged(
            "[inbox]\n\"a\" = \"none\"\n\"p\" = \"approve\"",
            "mine.toml",
        )
        .unwrap();
        assert_eq!(keymap.keys_for(Context::Inbox, Action::Approve), ["p"]);
        assert_eq!(keymap.keys_for(Context::Card, Action::Approve), ["a"]);
        assert_eq!(keymap.keys_for(Context::Inbox, Action::Open), ["↵"]);
        assert_eq!(
            keymap.keys_for(Context::Inbox, Action::First),
            ["g g", "home"]
        );
        assert_eq!(keymap.keys_for(Context::Note, Action::Quit), ["ctrl-c"]);
    }

    #[test]
    fn a_byte_order_mark_and_dos_lines_are_read() {
        let keymap =
            Keymap::merged("\u{feff}[inbox]\r\n\"p\" = \"approve\"\r\n", "mine.toml").unwrap();
        assert_eq!(press(&keymap, Context::Inbox, "p"), Some(Action::Approve));
        let error =
            Keymap::merged("\u{feff}[inbox]\r\n\"p\" = \"aprove\"\r\n", "mine.toml").unwrap_err();
        assert_eq!(error.line, 2);
        let long = Keymap::merged(&"#\n".repeat(5_000_000), "mine.toml").unwrap_err();
        assert_eq!(*long.fault, Fault::TooLong { bytes: 10_000_000 });
    }
}
