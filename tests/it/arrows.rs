//! Who may import whom: the arrows between our modules, and no others.
//!
//! The table is the layout of the design. A module that is not in it, or a new arrow, fails.

use std::{fs, io, path::Path};

use proc_macro2::{
    Spacing, TokenStream,
    TokenTree::{self, Group, Ident, Punct},
};

/// Every module under `src/`, and what it may import besides itself and the registry.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("pb", &[]),
    ("wire", &["pb"]),
    ("serve", &["wire"]),
    ("sources", &["wire", "serve::owner"]),
    ("connect", &["wire"]),
    ("demo", &["connect"]),
    ("dashboard", &[]),
    ("terminal", &["dashboard"]),
];

const REGISTRY: &str = "registry";

/// They tie the others together.
const TIE: &[&str] = &["main", "lib", "cli"];

/// They share a parent, and never name each other.
const STRANGERS: [&str; 2] = ["dashboard::update", "dashboard::view"];

/// Words that only some files may name, whatever stands before them.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("crossterm", &["src/terminal"]),
    ("SystemTime", CLOCKS),
    // tokio's is a timer: it bounds a wait, and says no time.
    ("std::time::Instant", CLOCKS),
    ("Timestamp::now", CLOCKS),
    ("Zoned::now", CLOCKS),
];

const CLOCKS: &[&str] = &["src/serve/clock.rs", "src/terminal"];

#[test]
fn our_modules_import_only_what_the_design_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for place in ["src", "crates/registry/src"] {
        read_below(root, place, &mut files).expect("our sources can be read");
    }
    for expected in ["src/lib.rs", "src/main.rs", "crates/registry/src/lib.rs"] {
        assert!(
            files.iter().any(|(file, _)| file == expected),
            "{expected} was not read"
        );
    }

    let faults: Vec<String> = files
        .iter()
        .flat_map(|(file, text)| faults_in(file, text))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_forbidden_arrow_is_reported() {
    const NONE: &str = "";
    let rows = [
        ("crates/registry/src/lib.rs", "use crate::form::Form;", NONE),
        (
            "crates/registry/src/lib.rs",
            "use pilothouse::wire;",
            "imports wire",
        ),
        (
            "crates/registry/src/lib.rs",
            "let t = jiff::Timestamp::now();",
            "names Timestamp::now",
        ),
        (
            "src/wire/mod.rs",
            "use registry::form::Form; use crate::pb::Event;",
            NONE,
        ),
        (
            "src/wire/mod.rs",
            "/// crate::serve\nconst S: &str = \"crate::serve\"; // crate::serve",
            NONE,
        ),
        (
            "src/wire/mod.rs",
            "use crate::serve::owner::Owner;",
            "imports serve::owner::Owner",
        ),
        (
            "src/wire/mod.rs",
            "pub(crate) fn f() { g!(x, crate::serve::f()) }",
            "imports serve::f",
        ),
        (
            "src/serve/agents.rs",
            "use crate::wire; use super::owner::Owner;",
            NONE,
        ),
        (
            "src/serve/agents.rs",
            "use crate::pb::Event;",
            "imports pb::Event",
        ),
        (
            "src/serve/agents.rs",
            "fn f() { crate::connect::dial() }",
            "imports connect::dial",
        ),
        (
            "src/serve/mod.rs",
            "use super::connect::Client;",
            "imports connect::Client",
        ),
        (
            "src/serve/clock.rs",
            "fn now() -> SystemTime { std::time::SystemTime::now() }",
            NONE,
        ),
        (
            "src/serve/owner.rs",
            "let now = SystemTime::now();",
            "names SystemTime",
        ),
        (
            "src/connect/mod.rs",
            "use crate::{wire, serve::{clock}};",
            "imports serve::clock",
        ),
        (
            "src/connect.rs",
            "use super::serve as wire;",
            "imports serve",
        ),
        (
            "src/connect.rs",
            "use std::time::{Duration, Instant};",
            "names std::time::Instant",
        ),
        (
            "src/connect.rs",
            "let t = tokio::time::Instant::now();",
            NONE,
        ),
        (
            "src/sources/goldfive.rs",
            "use crate::serve::owner::{Owner as O, Answer};",
            NONE,
        ),
        (
            "src/sources/goldfive.rs",
            "use crate::{serve::{owner}, wire as w};",
            NONE,
        ),
        (
            "src/sources/goldfive.rs",
            "use crate::serve::{self};",
            "imports serve",
        ),
        (
            "src/sources/goldfive.rs",
            "use crate::serve::*;",
            "imports serve::*",
        ),
        (
            "src/sources/goldfive.rs",
            "use super::super::serve::clock;",
            "imports serve::clock",
        ),
        ("src/demo/agent.rs", "use crate::connect::Client;", NONE),
        (
            "src/demo/agent.rs",
            "use crate::serve::clock::Clock;",
            "imports serve::clock::Clock",
        ),
        ("src/dashboard/forms.rs", "use super::model::Model;", NONE),
        (
            "src/dashboard/forms.rs",
            "use crate::wire::form;",
            "imports wire::form",
        ),
        (
            "src/dashboard/forms.rs",
            "use ratatui::crossterm::event;",
            "names crossterm",
        ),
        (
            "src/dashboard/update.rs",
            "use super::view::draw;",
            "imports dashboard::view::draw",
        ),
        (
            "src/dashboard/view/card.rs",
            "use super::super::update;",
            "imports dashboard::update",
        ),
        (
            "src/dashboard/view.rs",
            "use super::*;",
            "imports dashboard::*",
        ),
        (
            "src/dashboard/view.rs",
            "mod tests { use super::*; use super::super::model; }",
            NONE,
        ),
        (
            "src/dashboard/view.rs",
            "mod tests { use super::super::update; }",
            "imports dashboard::update",
        ),
        (
            "src/terminal/mod.rs",
            "use crossterm::event; use crate::dashboard::Msg;",
            NONE,
        ),
        (
            "src/terminal/mod.rs",
            "use crate::connect::Client;",
            "imports connect::Client",
        ),
        ("src/terminal/mod.rs", "use crate::*;", "imports *"),
        ("src/cli.rs", "use crate::{serve, connect, terminal};", NONE),
        ("src/main.rs", "use pilothouse::{cli, serve::owner};", NONE),
        ("src/store/mod.rs", "", "a module without a row"),
        ("src/wire/mod.rs", "fn f( {", "cannot be read"),
    ];
    for (file, text, expected) in rows {
        let faults = faults_in(file, text);
        let as_expected = match &faults[..] {
            [] => expected == NONE,
            [fault] => expected != NONE && fault.ends_with(expected),
            _ => false,
        };
        assert!(
            as_expected,
            "{file}: {text}\nexpected {expected:?}, got {faults:?}"
        );
    }
}

/// What `file`, a path from the top of the repository, imports or names and may not.
fn faults_in(file: &str, text: &str) -> Vec<String> {
    let Ok(tokens) = text.parse::<TokenStream>() else {
        return vec![format!("{file} cannot be read")];
    };
    let home = module_of(file);
    let mut mentions = Vec::new();
    collect(tokens, &home, &[], &mut mentions);

    let mut faults = Vec::new();
    if home.first().is_some_and(|top| !is_ours(top)) {
        faults.push(format!("{file} is a module without a row"));
    }
    for mention in &mentions {
        if let Some(target) = mention.target()
            && !may_import(&home, &target)
        {
            faults.push(format!("{file} imports {}", target.join("::")));
        }
        for (word, places) in ONLY_IN {
            if mention.names(word) && !places.iter().any(|place| file.starts_with(place)) {
                faults.push(format!("{file} names {word}"));
            }
        }
    }
    faults
}

fn is_ours(top: &str) -> bool {
    top == REGISTRY || TIE.contains(&top) || MAY_IMPORT.iter().any(|(module, _)| *module == top)
}

fn may_import(home: &[String], target: &[String]) -> bool {
    let (Some(from), Some(to)) = (home.first(), target.first()) else {
        return true;
    };
    if TIE.contains(&from.as_str()) {
        return true;
    }
    if from == to {
        return !estranged(home, target);
    }
    MAY_IMPORT
        .iter()
        .filter(|(module, _)| module == from)
        .flat_map(|(_, allowed)| *allowed)
        .any(|allowed| is_below(target, allowed))
}

/// Between the two strangers, or from one of them to everything beside it.
fn estranged(home: &[String], target: &[String]) -> bool {
    let [one, other] = STRANGERS;
    let (from_one, from_other) = (is_below(home, one), is_below(home, other));
    let everything =
        home.first() == target.first() && target.get(1).is_some_and(|name| name == "*");
    from_one && is_below(target, other)
        || from_other && is_below(target, one)
        || (from_one || from_other) && everything
}

fn is_below(path: &[String], module: &str) -> bool {
    let mut path = path.iter();
    module
        .split("::")
        .all(|name| path.next().is_some_and(|segment| segment == name))
}

/// `src/serve/clock.rs` is `serve::clock`; everything in the core is `registry`.
fn module_of(file: &str) -> Vec<String> {
    let Some(path) = file.strip_prefix("src/") else {
        return vec![REGISTRY.to_owned()];
    };
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// A path as it is written, and the module in which it stands.
struct Mention {
    home: Vec<String>,
    path: Vec<String>,
}

impl Mention {
    /// Where it leads inside our library, from its root. None: elsewhere, or within the core.
    fn target(&self) -> Option<Vec<String>> {
        let inside_core = self.home.first().is_some_and(|top| top == REGISTRY);
        let (head, rest) = self.path.split_first()?;
        match head.as_str() {
            "pilothouse" => Some(rest.to_vec()),
            "crate" | "self" | "super" if inside_core => None,
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.home, rest].concat()),
            "super" => {
                let ups = self.path.iter().take_while(|name| *name == "super").count();
                let above = self.home.len().saturating_sub(ups);
                Some([&self.home[..above], &self.path[ups..]].concat())
            }
            _ => None,
        }
    }

    fn names(&self, word: &str) -> bool {
        (0..self.path.len()).any(|from| is_below(&self.path[from..], word))
    }
}

/// Every path in `tokens`, with the groups of a `use` spelled out; comments and texts hold none.
fn collect(tokens: TokenStream, home: &[String], prefix: &[String], found: &mut Vec<Mention>) {
    let mention = |path| Mention {
        home: home.to_vec(),
        path,
    };
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &tokens[..];
    loop {
        rest = match rest {
            [] => return,
            [Ident(word), Ident(name), Group(body), rest @ ..] if word == "mod" => {
                let inner = [home, &[name.to_string()]].concat();
                collect(body.stream(), &inner, &[], found);
                rest
            }
            [Ident(word), Ident(_), rest @ ..] if word == "as" && !prefix.is_empty() => rest,
            [Punct(star), rest @ ..] if star.as_char() == '*' && !prefix.is_empty() => {
                found.push(mention([prefix, &["*".to_owned()]].concat()));
                rest
            }
            [Ident(first), rest @ ..] => {
                let mut path = prefix.to_vec();
                if first != "self" || prefix.is_empty() {
                    path.push(first.to_string());
                }
                let (rest, group) = follow(rest, &mut path);
                match group {
                    Some(group) => collect(group, home, &path, found),
                    None => found.push(mention(path)),
                }
                rest
            }
            [Group(body), rest @ ..] => {
                collect(body.stream(), home, &[], found);
                rest
            }
            [_, rest @ ..] => rest,
        };
    }
}

/// Reads on while `::` goes on, and returns what is left and the group that ends a `use`, if any.
fn follow<'a>(
    mut rest: &'a [TokenTree],
    path: &mut Vec<String>,
) -> (&'a [TokenTree], Option<TokenStream>) {
    while let [Punct(one), Punct(two), next, after @ ..] = rest
        && one.as_char() == ':'
        && one.spacing() == Spacing::Joint
        && two.as_char() == ':'
    {
        match next {
            Ident(name) => path.push(name.to_string()),
            Punct(star) if star.as_char() == '*' => path.push("*".to_owned()),
            Group(group) => return (after, Some(group.stream())),
            _ => return (rest, None),
        }
        rest = after;
    }
    (rest, None)
}

/// Every Rust file below `place`: its path from the top of the repository, and its text.
fn read_below(root: &Path, place: &str, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(place))? {
        let entry = entry?;
        let name = format!("{place}/{}", entry.file_name().display());
        if entry.file_type()?.is_dir() {
            read_below(root, &name, files)?;
        } else if name.ends_with(".rs") {
            files.push((name, fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}
