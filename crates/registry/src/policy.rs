//! May this run ask a human at all? Resolved once, from the run's context, for every door (DESIGN §4.2, DF-1 to DF-27).
//!
//! Invariant: what decides it is believed only of an internal caller. From anybody else it is dropped, wherever it stands.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{json, limits, refusal::Refusal, run::Run, text::Untrusted};

/// How a run is attended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A person is there, and may be asked.
    #[default]
    Interactive,
    /// A timer started it.
    Scheduled,
    /// Another system started it.
    Webhook,
    /// It works by itself.
    Autonomous,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [
        Self::Interactive,
        Self::Scheduled,
        Self::Webhook,
        Self::Autonomous,
    ];

    /// The exact word, in a context and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Scheduled => "scheduled",
            Self::Webhook => "webhook",
            Self::Autonomous => "autonomous",
        }
    }

    /// Whether nobody is there who could be waited for.
    pub fn is_unattended(self) -> bool {
        self != Self::Interactive
    }

    pub(crate) fn is_interactive(&self) -> bool {
        *self == Self::Interactive
    }

    /// What an agent's program tells its model about people, in each mode (DF-4 to DF-14).
    pub fn guidance(self) -> &'static str {
        match self {
            Self::Interactive => {
                "A person follows this run. Look at what is there first, and go on by yourself with what can be undone or does \
                 not depend on the answer. Ask when something essential is unknown, when a choice has consequences that are \
                 theirs to weigh, or when a risky action is not authorised yet. No fixed order of asking, planning and acting \
                 is needed."
            }
            Self::Scheduled | Self::Webhook | Self::Autonomous => {
                "Nobody follows this run, and nothing in it waits for an answer. Use what is there; assume as little as \
                 possible, and only what can be undone; list what you assumed in your result. Where an action is risky or \
                 cannot be undone and nobody authorised it, do not take it: end with a result that begins with BLOCKED and names \
                 the decision that is missing, and who could make it. A question that is refused is no permission."
            }
        }
    }
}

/// The keys that decide it: an internal caller's only.
const KEYS: [&str; 4] = [
    "interaction_mode",
    "non_interactive",
    "disable_clarification",
    "channel_name",
];

/// Of those, the ones that hold for this one call and are never kept (DF-26).
const NEVER_KEPT: [&str; 2] = ["disable_clarification", "channel_name"];

/// What a context comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// How the run is attended.
    pub mode: Mode,
    /// What of the context is kept: JSON text.
    pub context: Untrusted,
    /// What started the run, where that is believed.
    pub origin: Untrusted,
    /// What was not believed, as JSON pointers and `origin`.
    pub dropped: Vec<String>,
}

/// Resolves how a run is attended (DF-15 to DF-21): the mode that is said, else `non_interactive`, else the channel `github`,
/// else `disable_clarification`, else interactive.
///
/// # Errors
/// [`Refusal::Invalid`] for a context that is no JSON object, a mode that is none, and a flag that is neither true nor false;
/// [`Refusal::TooLarge`].
pub fn admit(context: &Untrusted, origin: &Untrusted, internal: bool) -> Result<Admitted, Refusal> {
    let bytes = context.raw().len();
    if bytes > limits::CONTEXT {
        let (what, limit) = ("the context", limits::CONTEXT);
        return Err(Refusal::TooLarge { what, bytes, limit });
    }
    let mut said = read(context)?;
    let mode = if internal {
        resolve(&said)?
    } else {
        Mode::Interactive
    };
    let mut dropped = BTreeSet::new();
    let keys: &[&str] = if internal { &NEVER_KEPT } else { &KEYS };
    drop_keys(&mut said, keys, &mut String::new(), &mut dropped);
    let kept = match dropped.is_empty() {
        // To the byte as it was said.
        true => context.clone(),
        false => Untrusted::new(Value::Object(said).to_string()),
    };
    let believed = if internal {
        origin.clone()
    } else {
        Untrusted::default()
    };
    if internal {
        dropped.clear();
    } else if !origin.is_empty() {
        dropped.insert("origin".to_owned());
    }
    Ok(Admitted {
        mode,
        context: kept,
        origin: believed,
        dropped: dropped.into_iter().collect(),
    })
}

/// The mode of a run with a parent: a parent only restricts. Who is started by an unattended run is unattended.
pub fn under(parent: Option<&Run>, mode: Mode) -> Mode {
    match parent {
        Some(parent) if mode == Mode::Interactive => parent.mode,
        _ => mode,
    }
}

/// Why nobody may be asked to let a run's tool run: whoever calls it answers by itself, and nobody waits (DF-23, DF-24, DF-34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotAsk {
    /// Another run started it: always denied, also in an interactive run.
    Subagent,
    /// It cannot take up an answer: always denied.
    CannotResume,
    /// Nobody follows it: as the server's config says for unattended runs.
    Unattended(Mode),
}

/// Whether a gated call of this run may wait for a person, and if not, why.
pub fn may_ask(run: &Run) -> Result<(), CannotAsk> {
    if run.parent.is_some() {
        return Err(CannotAsk::Subagent);
    }
    if !run.can_resume {
        return Err(CannotAsk::CannotResume);
    }
    if run.mode.is_unattended() {
        return Err(CannotAsk::Unattended(run.mode));
    }
    Ok(())
}

impl CannotAsk {
    /// The reason, for the record and for the model.
    pub fn words(self) -> String {
        match self {
            Self::Subagent => "a subagent asks nobody".into(),
            Self::CannotResume => "this run cannot take up an answer".into(),
            Self::Unattended(mode) => format!("nobody follows a run that is {}", mode.word()),
        }
    }
}

fn read(context: &Untrusted) -> Result<Map<String, Value>, Refusal> {
    if context.is_empty() {
        return Ok(Map::new());
    }
    let text = context.raw();
    let unreadable = |why: String| {
        let why = why.replace("the arguments are", "the context is");
        Refusal::Invalid(why.replace("the arguments must", "the context must"))
    };
    json::check_args(text.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))
}

fn resolve(said: &Map<String, Value>) -> Result<Mode, Refusal> {
    if let Some(mode) = said.get("interaction_mode").filter(|mode| !mode.is_null()) {
        let known = |word: &str| Mode::ALL.into_iter().find(|mode| mode.word() == word);
        return mode.as_str().and_then(known).ok_or_else(|| {
            Refusal::Invalid(
                "`interaction_mode` must be one of interactive, scheduled, webhook, autonomous"
                    .into(),
            )
        });
    }
    // In this order; each of them is read, so that a slip of the pen in any is an error.
    let scheduled = flag(said, "non_interactive")?;
    let webhook = channel(said)? == Some("github");
    let autonomous = flag(said, "disable_clarification")?;
    Ok(match (scheduled, webhook, autonomous) {
        (true, _, _) => Mode::Scheduled,
        (false, true, _) => Mode::Webhook,
        (false, false, true) => Mode::Autonomous,
        (false, false, false) => Mode::Interactive,
    })
}

fn flag(said: &Map<String, Value>, key: &str) -> Result<bool, Refusal> {
    match said.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Refusal::Invalid(format!("`{key}` must be true or false"))),
    }
}

fn channel(said: &Map<String, Value>) -> Result<Option<&str>, Refusal> {
    match said.get("channel_name") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err(Refusal::Invalid("`channel_name` must be a text".into())),
    }
}

/// Takes the keys out wherever they stand: what is copied on into another program's configuration counts there.
fn drop_keys(
    object: &mut Map<String, Value>,
    keys: &[&str],
    at: &mut String,
    dropped: &mut BTreeSet<String>,
) {
    for key in keys {
        if object.remove(*key).is_some() {
            dropped.insert(format!("{at}/{key}"));
        }
    }
    for (key, value) in object.iter_mut() {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        drop_inside(value, keys, at, dropped);
        at.truncate(length);
    }
}

fn drop_inside(value: &mut Value, keys: &[&str], at: &mut String, dropped: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => drop_keys(object, keys, at, dropped),
        Value::Array(items) => {
            for (n, item) in items.iter_mut().enumerate() {
                let length = at.len();
                at.push_str(&format!("/{n}"));
                drop_inside(item, keys, at, dropped);
                at.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(context: &str, internal: bool) -> Result<Admitted, Refusal> {
        admit(&context.into(), &"cron".into(), internal)
    }

    /// DF-15 to DF-21: precedence, every pair of two.
    #[test]
    fn the_first_that_is_said_counts() {
        let rows = [
            ("", Mode::Interactive),
            ("{}", Mode::Interactive),
            (r#"{"interaction_mode":"interactive"}"#, Mode::Interactive),
            (r#"{"interaction_mode":"scheduled"}"#, Mode::Scheduled),
            (r#"{"interaction_mode":"webhook"}"#, Mode::Webhook),
            (r#"{"interaction_mode":"autonomous"}"#, Mode::Autonomous),
            (
                r#"{"interaction_mode":"interactive","non_interactive":true}"#,
                Mode::Interactive,
            ),
            (
                r#"{"interaction_mode":"webhook","disable_clarification":true}"#,
                Mode::Webhook,
            ),
            (
                r#"{"interaction_mode":null,"non_interactive":true}"#,
                Mode::Scheduled,
            ),
            (r#"{"non_interactive":true}"#, Mode::Scheduled),
            (
                r#"{"non_interactive":true,"channel_name":"github"}"#,
                Mode::Scheduled,
            ),
            (
                r#"{"non_interactive":false,"channel_name":"github"}"#,
                Mode::Webhook,
            ),
            (
                r#"{"channel_name":"github","disable_clarification":true}"#,
                Mode::Webhook,
            ),
            (
                r#"{"channel_name":"slack","disable_clarification":true}"#,
                Mode::Autonomous,
            ),
            (r#"{"channel_name":"GitHub"}"#, Mode::Interactive),
            (r#"{"disable_clarification":true}"#, Mode::Autonomous),
            (r#"{"disable_clarification":false}"#, Mode::Interactive),
        ];
        for (context, mode) in rows {
            assert_eq!(
                admitted(context, true).map(|a| a.mode),
                Ok(mode),
                "{context}"
            );
        }
    }

    /// DF-16: never a fallback.
    #[test]
    fn what_means_nothing_is_an_error() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        let rows = [
            (
                r#"{"interaction_mode":"Interactive"}"#,
                "must be one of interactive",
            ),
            (r#"{"interaction_mode":""}"#, "must be one of interactive"),
            (r#"{"interaction_mode":true}"#, "must be one of interactive"),
            (
                r#"{"non_interactive":"yes"}"#,
                "`non_interactive` must be true or false",
            ),
            (
                r#"{"non_interactive":1}"#,
                "`non_interactive` must be true or false",
            ),
            (
                r#"{"non_interactive":true,"disable_clarification":"x"}"#,
                "`disable_clarification` must be",
            ),
            (r#"{"channel_name":7}"#, "`channel_name` must be a text"),
            (r#"[]"#, "the context must be a JSON object"),
            (r#"{"a":1,"a":2}"#, "stands twice"),
            (r#"{"a":NaN}"#, "the context is not JSON"),
            ("{", "the context is not JSON"),
            (&deep, "nested deeper"),
        ];
        for (context, why) in rows {
            let refused = admitted(context, true).unwrap_err().to_string();
            assert!(
                refused.contains(why),
                "{}: {refused}",
                &context[..context.len().min(60)]
            );
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::CONTEXT));
        assert!(matches!(
            admitted(&large, true),
            Err(Refusal::TooLarge { .. })
        ));
    }

    /// DF-25, DF-27: a public caller cannot silence questions, pose as a webhook, or make a scheduled run interactive.
    #[test]
    fn a_public_caller_decides_nothing_wherever_it_says_so() {
        let context = r#"{"keep":{"n":9007199254740993},"interaction_mode":"autonomous","configurable":{"channel_name":"github","keep":1},"list":[{"non_interactive":true},2],"a/b":{"disable_clarification":true}}"#;
        let public = admitted(context, false).unwrap();
        assert_eq!(public.mode, Mode::Interactive);
        let kept =
            r#"{"a/b":{},"configurable":{"keep":1},"keep":{"n":9007199254740993},"list":[{},2]}"#;
        assert_eq!(public.context.raw(), kept);
        assert_eq!(
            public.dropped,
            [
                "/a~1b/disable_clarification",
                "/configurable/channel_name",
                "/interaction_mode",
                "/list/0/non_interactive",
                "origin"
            ]
        );
        assert!(public.origin.is_empty());
        // Not even an error tells it anything.
        let wrong = admitted(r#"{"interaction_mode":"no such"}"#, false).unwrap();
        assert_eq!((wrong.mode, wrong.context.raw()), (Mode::Interactive, "{}"));
        // What holds nothing of it is kept to the byte.
        let plain = r#"{ "n": 1e2 }"#;
        assert_eq!(admitted(plain, false).unwrap().context.raw(), plain);
    }

    /// DF-26: also from an internal caller, two of them are for this call only.
    #[test]
    fn what_holds_for_one_call_is_not_kept() {
        let context = r#"{"channel_name":"github","interaction_mode":"webhook","x":{"disable_clarification":true}}"#;
        let internal = admitted(context, true).unwrap();
        assert_eq!(
            internal.context.raw(),
            r#"{"interaction_mode":"webhook","x":{}}"#
        );
        assert!(internal.dropped.is_empty());
        assert_eq!(internal.origin.raw(), "cron");
    }

    /// DF-4 to DF-14.
    #[test]
    fn the_guidance_of_an_unattended_run_never_says_go_ahead() {
        for mode in Mode::ALL {
            let words = mode.guidance();
            assert_eq!(words.contains("BLOCKED"), mode.is_unattended());
            assert_eq!(words.contains("Ask when"), !mode.is_unattended());
            assert!(!words.to_lowercase().contains("go ahead"), "{words}");
        }
    }
}
