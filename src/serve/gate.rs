//! Which calls have to be asked about: the server's `[gate]` and `[[votes]]` (DF-28 to DF-34).
//!
//! It is opt-in: without a rule nothing is gated. Whatever could be a slip of the pen keeps the server from starting: a gate
//! that is misspelt would be open (case F03).

use std::cmp::Ordering;

use registry::{
    Asks, Untrusted,
    approval::{Filing, Risk},
    gate::{Ruling, Unattended},
    limits,
};
use serde::Deserialize;
use serde_json::Value;
use wildmatch::WildMatch;

/// `[gate]`, as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateTable {
    /// What a call gets that nobody follows.
    #[serde(default)]
    pub non_interactive: NonInteractive,
    /// The rules.
    #[serde(default)]
    pub tool: Vec<ToolTable>,
}

/// What unattended runs get.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NonInteractive {
    /// Denied at once.
    #[default]
    Deny,
    /// Let through at once; but never what has a form, takes several people, or asks an admin.
    Allow,
}

/// `[[gate.tool]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolTable {
    /// A tool's name, or a pattern with `*` and `?`.
    pub name: String,
    /// What has to hold of the arguments; all of it. Left out: nothing has to.
    pub when: Option<Vec<When>>,
    /// Whether it is asked about.
    #[serde(default)]
    pub ask: Ask,
    /// Who is asked.
    pub asks: Option<AsksWord>,
    /// How many different people have to say yes.
    pub votes: Option<u8>,
    /// How dangerous it is.
    pub risk: Option<RiskWord>,
}

/// Whether a call is asked about.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Each one.
    #[default]
    Always,
    /// None: an exception to a wider pattern.
    Never,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AsksWord {
    /// Whoever is on call.
    Operator,
    /// An admin.
    Admin,
}

/// How dangerous a call is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RiskWord {
    /// As any.
    Normal,
    /// Approving asks once more.
    High,
}

/// One predicate on one argument. Exactly one of the words stands beside `arg`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// A JSON pointer into the arguments (RFC 6901): `/target/env`.
    pub arg: String,
    is: Option<toml::Value>,
    is_not: Option<toml::Value>,
    one_of: Option<Vec<toml::Value>>,
    matches: Option<String>,
    above: Option<toml::Value>,
    below: Option<toml::Value>,
    exists: Option<bool>,
}

/// `[[votes]]`: what takes several people, however it is asked. It raises, and never lowers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VotesTable {
    /// A tool's name, or a pattern with `*` and `?`.
    pub tool: String,
    /// How many different people.
    pub needs: u8,
}

/// The rules, checked.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    unattended: Unattended,
    rules: Vec<Rule>,
    votes: Vec<(Pattern, u8)>,
}

#[derive(Clone, Debug)]
struct Rule {
    tool: Pattern,
    when: Vec<Predicate>,
    ask: Ask,
    asks: Asks,
    votes: u8,
    risk: Risk,
}

/// A name, or a pattern.
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    wild: WildMatch,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let wild = WildMatch::new(text);
        let text = text.to_owned();
        Self { text, wild }
    }

    fn is_exact(&self) -> bool {
        !self.text.contains(['*', '?'])
    }

    /// An exact name goes before a pattern, the longer pattern before the shorter.
    fn weight(&self) -> (bool, usize) {
        let letters = self.text.chars().filter(|c| !matches!(c, '*' | '?'));
        (self.is_exact(), letters.count())
    }

    /// Whether every name that `other` fits fits this one, as far as one can see: it fits the other's text.
    fn covers(&self, other: &Self) -> bool {
        !self.is_exact() && self.text != other.text && self.wild.matches(&other.text)
    }
}

#[derive(Clone, Debug)]
enum Predicate {
    Is(String, Value),
    IsNot(String, Value),
    OneOf(String, Vec<Value>),
    Matches(String, WildMatch),
    Above(String, Bound),
    Below(String, Bound),
    Exists(String, bool),
}

/// Whole numbers are compared as whole numbers, whatever their size.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Whole(i64),
    Real(f64),
}

impl Gate {
    /// Checks what the config says. `gate` is none where there is no `[gate]`.
    ///
    /// # Errors
    /// A sentence that names the rule, what is wrong with it, and what to do.
    pub fn of(gate: Option<&GateTable>, votes: &[VotesTable]) -> Result<Self, String> {
        let mut rules = Vec::new();
        for table in gate.map_or(&[][..], |gate| &gate.tool) {
            rules
                .push(rule(table).map_err(|why| format!("[[gate.tool]] {:?}: {why}", table.name))?);
        }
        if gate.is_some() && rules.is_empty() {
            return Err("[gate]: it has no [[gate.tool]], so it would gate nothing: add one, or leave [gate] out".into());
        }
        go_together(&rules)?;
        // The first that fits is the rule.
        rules.sort_by_key(|rule| std::cmp::Reverse((rule.tool.weight(), !rule.when.is_empty())));
        let unattended = match gate.map(|gate| gate.non_interactive).unwrap_or_default() {
            NonInteractive::Deny => Unattended::Deny,
            NonInteractive::Allow => Unattended::Allow,
        };
        let votes = votes.iter().map(|row| {
            let fault = |why: &str| format!("[[votes]] {:?}: {why}", row.tool);
            if row.tool.is_empty() {
                return Err(fault("`tool` is empty"));
            }
            if !(2..=limits::VOTES).contains(&row.needs) {
                return Err(fault(&format!("`needs` is 2 to {}", limits::VOTES)));
            }
            Ok((Pattern::new(&row.tool), row.needs))
        });
        Ok(Self {
            unattended,
            rules,
            votes: votes.collect::<Result<_, _>>()?,
        })
    }

    /// The rule that a call falls under; none lets it run. `args` is the JSON text of the call's arguments.
    #[must_use]
    pub fn ruling(&self, tool: &str, args: &str) -> Option<Ruling> {
        // What cannot be read was refused before it came here; if not, every predicate fails, and a rule without one holds.
        let args = serde_json::from_str(args).unwrap_or(Value::Null);
        let fits = |rule: &&Rule| {
            let named = rule.tool.wild.matches(tool);
            // What cannot be judged is asked about: it holds in a rule that asks, and not in an exception.
            let unjudged = rule.ask == Ask::Always;
            let mut when = rule.when.iter();
            named && when.all(|predicate| predicate.holds(&args).unwrap_or(unjudged))
        };
        let rule = self.rules.iter().find(fits)?;
        (rule.ask == Ask::Always).then(|| Ruling {
            rule: Untrusted::new(rule.tool.text.as_str()),
            asks: rule.asks,
            votes: rule.votes.max(self.needs(tool)),
            risk: rule.risk,
            unattended: self.unattended,
        })
    }

    /// Raises how many people a question takes to what the config says of its tool.
    pub fn raise(&self, filing: &mut Filing) {
        let needs = filing
            .subject
            .tool()
            .map_or(0, |tool| self.needs(tool.raw()));
        filing.votes = filing.votes.max(needs);
    }

    fn needs(&self, tool: &str) -> u8 {
        let fitting = self
            .votes
            .iter()
            .filter(|(pattern, _)| pattern.wild.matches(tool));
        fitting.map(|(_, needs)| *needs).max().unwrap_or_default()
    }
}

fn rule(table: &ToolTable) -> Result<Rule, String> {
    if table.name.trim() != table.name || table.name.is_empty() {
        return Err("a tool's name is not empty, and has no blanks around it".into());
    }
    if table.ask == Ask::Never
        && (table.asks.is_some() || table.votes.is_some() || table.risk.is_some())
    {
        return Err("`ask = \"never\"` asks nobody: leave out `asks`, `votes` and `risk`".into());
    }
    if table.when.as_ref().is_some_and(Vec::is_empty) {
        return Err("`when` is empty: leave it out where nothing has to hold".into());
    }
    let votes = table.votes.unwrap_or(1);
    if !(1..=limits::VOTES).contains(&votes) {
        return Err(format!("`votes` is 1 to {}", limits::VOTES));
    }
    let when = table.when.iter().flatten().map(predicate);
    Ok(Rule {
        tool: Pattern::new(&table.name),
        when: when.collect::<Result<_, _>>()?,
        ask: table.ask,
        asks: match table.asks {
            Some(AsksWord::Admin) => Asks::Admin,
            Some(AsksWord::Operator) | None => Asks::Operator,
        },
        votes,
        risk: match table.risk {
            Some(RiskWord::High) => Risk::High,
            Some(RiskWord::Normal) | None => Risk::Normal,
        },
    })
}

/// No two rules say different things of the same call without one of them being the narrower.
fn go_together(rules: &[Rule]) -> Result<(), String> {
    for (n, rule) in rules.iter().enumerate() {
        let bare = |rule: &Rule| rule.when.is_empty();
        let twin = |other: &&Rule| other.tool.text == rule.tool.text && bare(other) == bare(rule);
        if let Some(twin) = rules[..n].iter().find(twin) {
            return Err(format!(
                "[[gate.tool]] {:?}: it stands there twice{}",
                twin.tool.text,
                if bare(rule) {
                    ""
                } else {
                    ", both times with `when`: which of them counts could not be told"
                }
            ));
        }
        let tied = |other: &&Rule| {
            let both_patterns = !other.tool.is_exact() && !rule.tool.is_exact();
            let same_weight =
                other.tool.weight() == rule.tool.weight() && bare(other) == bare(rule);
            let meet = meet(&other.tool.text, &rule.tool.text);
            both_patterns && same_weight && meet && other.tool.text != rule.tool.text
        };
        if let Some(other) = rules[..n].iter().find(tied) {
            return Err(format!(
                "[[gate.tool]] {:?} and {:?}: both fit the same names, and neither is narrower",
                other.tool.text, rule.tool.text
            ));
        }
        if rule.ask == Ask::Never {
            let excepts = |other: &Rule| {
                let narrower = other.tool.covers(&rule.tool);
                let of_same = other.tool.text == rule.tool.text && bare(other) != bare(rule);
                other.ask == Ask::Always && (narrower || of_same)
            };
            if !rules.iter().any(excepts) {
                return Err(format!(
                    "[[gate.tool]] {:?}: `ask = \"never\"` is an exception to nothing: no wider rule asks about it",
                    rule.tool.text
                ));
            }
        }
    }
    Ok(())
}

/// Whether some name fits both patterns.
fn meet(one: &str, other: &str) -> bool {
    let first = |pattern: &str| pattern.chars().next();
    let rest = |pattern: &str| {
        let mut chars = pattern.chars();
        chars.next();
        chars.as_str().to_owned()
    };
    match (first(one), first(other)) {
        (None, None) => true,
        (Some('*'), _) => meet(&rest(one), other) || (!other.is_empty() && meet(one, &rest(other))),
        (_, Some('*')) => meet(other, one),
        (Some(a), Some(b)) => (a == b || a == '?' || b == '?') && meet(&rest(one), &rest(other)),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn predicate(when: &When) -> Result<Predicate, String> {
    let arg = &when.arg;
    if !arg.starts_with('/') {
        return Err(format!(
            "`arg` is a JSON pointer, as \"/{}\"",
            arg.trim_start_matches('.').replace('.', "/")
        ));
    }
    let said = [
        when.is.is_some(),
        when.is_not.is_some(),
        when.one_of.is_some(),
        when.matches.is_some(),
        when.above.is_some(),
        when.below.is_some(),
        when.exists.is_some(),
    ];
    if said.iter().filter(|said| **said).count() != 1 {
        return Err(format!(
            "{arg}: exactly one of is, is_not, one_of, matches, above, below, exists stands beside `arg`"
        ));
    }
    let arg = arg.clone();
    if let Some(value) = &when.is {
        return Ok(Predicate::Is(arg, json(value)?));
    }
    if let Some(value) = &when.is_not {
        return Ok(Predicate::IsNot(arg, json(value)?));
    }
    if let Some(values) = &when.one_of {
        if values.is_empty() {
            return Err(format!("{arg}: `one_of` is empty, so it would never hold"));
        }
        let values = values.iter().map(json).collect::<Result<_, _>>()?;
        return Ok(Predicate::OneOf(arg, values));
    }
    if let Some(pattern) = &when.matches {
        return Ok(Predicate::Matches(arg, WildMatch::new(pattern)));
    }
    if let Some(bound) = &when.above {
        return Ok(Predicate::Above(arg.clone(), number(&arg, bound)?));
    }
    if let Some(bound) = &when.below {
        return Ok(Predicate::Below(arg.clone(), number(&arg, bound)?));
    }
    Ok(Predicate::Exists(arg, when.exists.unwrap_or(true)))
}

fn json(value: &toml::Value) -> Result<Value, String> {
    match value {
        toml::Value::String(text) => Ok(Value::from(text.as_str())),
        toml::Value::Integer(n) => Ok(Value::from(*n)),
        toml::Value::Float(n) => Ok(Value::from(*n)),
        toml::Value::Boolean(flag) => Ok(Value::from(*flag)),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            Err("an argument is compared with a text, a number, true or false".into())
        }
    }
}

fn number(arg: &str, value: &toml::Value) -> Result<Bound, String> {
    match value {
        toml::Value::Integer(n) => Ok(Bound::Whole(*n)),
        toml::Value::Float(n) if n.is_finite() => Ok(Bound::Real(*n)),
        _ => Err(format!("{arg}: `above` and `below` take a number")),
    }
}

impl Predicate {
    /// Whether it holds; none where it speaks of another type than what stands there. What is not there is known to be absent:
    /// nothing is the same as it, above or below it; a rule that has to catch it says `exists = false`.
    fn holds(&self, args: &Value) -> Option<bool> {
        match self {
            Self::Is(arg, value) => is(args, arg, value),
            Self::IsNot(arg, value) => is(args, arg, value).map(|is| !is),
            Self::OneOf(arg, values) => {
                let mut judged = values.iter().map(|value| is(args, arg, value));
                let holds = judged.clone().any(|judged| judged == Some(true));
                (holds || judged.any(|judged| judged.is_some())).then_some(holds)
            }
            Self::Matches(arg, pattern) => match args.pointer(arg) {
                None => Some(false),
                Some(Value::String(found)) => Some(pattern.matches(found)),
                Some(_) => None,
            },
            Self::Above(arg, bound) => compared(args, arg, *bound, Ordering::is_gt),
            Self::Below(arg, bound) => compared(args, arg, *bound, Ordering::is_lt),
            Self::Exists(arg, wanted) => Some(args.pointer(arg).is_some() == *wanted),
        }
    }
}

fn is(args: &Value, arg: &str, value: &Value) -> Option<bool> {
    let Some(found) = args.pointer(arg) else {
        return Some(false);
    };
    let comparable = std::mem::discriminant(found) == std::mem::discriminant(value);
    comparable.then(|| same(found, value))
}

/// Numbers are the same if they are worth the same: 1 and 1.0 are.
fn same(found: &Value, value: &Value) -> bool {
    match (found, value) {
        (Value::Number(found), Value::Number(value)) => match (found.as_i128(), value.as_i128()) {
            (Some(found), Some(value)) => found == value,
            _ => found.as_f64() == value.as_f64(),
        },
        _ => found == value,
    }
}

fn compared(args: &Value, arg: &str, bound: Bound, holds: fn(Ordering) -> bool) -> Option<bool> {
    let found = match args.pointer(arg) {
        None => return Some(false),
        Some(Value::Number(found)) => found,
        Some(_) => return None,
    };
    let order = match (found.as_i128(), bound) {
        (Some(found), Bound::Whole(bound)) => found.cmp(&i128::from(bound)),
        (_, Bound::Whole(bound)) => found.as_f64()?.partial_cmp(&(bound as f64))?,
        (_, Bound::Real(bound)) => found.as_f64()?.partial_cmp(&bound)?,
    };
    Some(holds(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        gate: Option<GateTable>,
        #[serde(default)]
        votes: Vec<VotesTable>,
    }

    fn read(text: &str) -> Result<Gate, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        Gate::of(file.gate.as_ref(), &file.votes)
    }

    fn gate(rules: &str) -> Gate {
        read(&format!("[gate]\n{rules}")).expect(rules)
    }

    fn asked(gate: &Gate, tool: &str, args: &str) -> Option<&'static str> {
        gate.ruling(tool, args).map(|ruling| ruling.asks.word())
    }

    /// DF-28: opt-in, around selected tools.
    #[test]
    fn without_a_rule_nothing_is_gated() {
        let none = Gate::default();
        assert_eq!(none.ruling("deploy", "{}"), None);
        let one = gate("[[gate.tool]]\nname = \"deploy\"");
        assert_eq!(asked(&one, "deploy", "{}"), Some("operator"));
        assert_eq!(asked(&one, "Deploy", "{}"), None);
        assert_eq!(asked(&one, "deploy2", "{}"), None);
    }

    #[test]
    fn the_narrowest_rule_counts() {
        let gate = gate(
            r#"
            tool = [
                { name = "*" },
                { name = "db.*", asks = "admin" },
                { name = "db.read*", ask = "never" },
                { name = "db.drop", asks = "operator", when = [{ arg = "/dry", is = true }] },
                { name = "db.drop", asks = "admin" },
            ]"#,
        );
        assert_eq!(asked(&gate, "mail", "{}"), Some("operator"));
        assert_eq!(asked(&gate, "db.write", "{}"), Some("admin"));
        assert_eq!(asked(&gate, "db.read_rows", "{}"), None);
        assert_eq!(asked(&gate, "db.drop", r#"{"dry":true}"#), Some("operator"));
        assert_eq!(asked(&gate, "db.drop", r#"{"dry":false}"#), Some("admin"));
    }

    #[test]
    fn a_rule_holds_where_all_its_predicates_do() {
        let rows = [
            (
                r#"{ arg = "/a", is = "x" }"#,
                r#"{"a":"x"}"#,
                r#"{"a":"y"}"#,
            ),
            (
                r#"{ arg = "/a", is_not = "x" }"#,
                r#"{"a":"y"}"#,
                r#"{"a":"x"}"#,
            ),
            (r#"{ arg = "/a", is_not = "x" }"#, "{}", r#"{"a":"x"}"#),
            (
                r#"{ arg = "/a/b/0", one_of = ["x", 2] }"#,
                r#"{"a":{"b":[2]}}"#,
                r#"{"a":{"b":[3]}}"#,
            ),
            (
                r#"{ arg = "/a", matches = "*.prod" }"#,
                r#"{"a":"eu.prod"}"#,
                r#"{"a":"eu.dev"}"#,
            ),
            (
                r#"{ arg = "/a", above = 10 }"#,
                r#"{"a":10.5}"#,
                r#"{"a":10}"#,
            ),
            (
                r#"{ arg = "/a", below = 10 }"#,
                r#"{"a":-1}"#,
                r#"{"a":11}"#,
            ),
            (r#"{ arg = "/a", exists = true }"#, r#"{"a":null}"#, "{}"),
            (r#"{ arg = "/a", exists = false }"#, "{}", r#"{"a":1}"#),
            (r#"{ arg = "/a", is = 1 }"#, r#"{"a":1.0}"#, r#"{"a":2}"#),
            // Beyond 2^53, to the last digit.
            (
                r#"{ arg = "/a", above = 9007199254740992 }"#,
                r#"{"a":9007199254740993}"#,
                r#"{"a":9007199254740992}"#,
            ),
            (
                r#"{ arg = "/a", is = 9007199254740993 }"#,
                r#"{"a":9007199254740993}"#,
                r#"{"a":9007199254740992}"#,
            ),
            (
                r#"{ arg = "/a", above = 9223372036854775807 }"#,
                r#"{"a":9223372036854775808}"#,
                r#"{"a":9223372036854775807}"#,
            ),
            (
                r#"{ arg = "/a~1b", is = 1 }"#,
                r#"{"a/b":1}"#,
                r#"{"a":{"b":1}}"#,
            ),
        ];
        for (when, holds, fails) in rows {
            let gate = gate(&format!("[[gate.tool]]\nname = \"t\"\nwhen = [{when}]"));
            assert!(asked(&gate, "t", holds).is_some(), "{when} of {holds}");
            assert!(asked(&gate, "t", fails).is_none(), "{when} of {fails}");
        }
        let both = r#"when = [{ arg = "/a", is = 1 }, { arg = "/b", is = 2 }]"#;
        let gate = gate(&format!("[[gate.tool]]\nname = \"t\"\n{both}"));
        assert!(asked(&gate, "t", r#"{"a":1,"b":2}"#).is_some());
        assert!(asked(&gate, "t", r#"{"a":1}"#).is_none());
    }

    /// Closed where nobody can tell: in a rule that asks it holds, in an exception it does not.
    #[test]
    fn what_cannot_be_judged_is_asked_about() {
        let rows = [
            (r#"is = "prod""#, r#"{"a":["prod"]}"#),
            (r#"is_not = "dev""#, r#"{"a":null}"#),
            (r#"one_of = [1, 2]"#, r#"{"a":"1"}"#),
            (r#"matches = "*.prod""#, r#"{"a":{"host":"eu.prod"}}"#),
            ("above = 1000", r#"{"a":"5000"}"#),
            ("below = 10", r#"{"a":true}"#),
        ];
        for (said, args) in rows {
            let when = format!("when = [{{ arg = \"/a\", {said} }}]");
            let asks = gate(&format!("[[gate.tool]]\nname = \"t\"\n{when}"));
            assert!(asked(&asks, "t", args).is_some(), "{said} of {args}");
            let excepts = gate(&format!(
                "[[gate.tool]]\nname = \"*\"\n[[gate.tool]]\nname = \"t\"\nask = \"never\"\n{when}"
            ));
            assert!(
                asked(&excepts, "t", args).is_some(),
                "{said} of {args}, excepted"
            );
        }
    }

    /// Case F03: what could be a slip of the pen does not start.
    #[test]
    fn what_is_misspelt_or_contradicts_itself_is_refused() {
        let rows = [
            ("", "it has no [[gate.tool]]"),
            ("tool = []", "it has no [[gate.tool]]"),
            ("[[gate.tool]]\nname = \"\"", "not empty"),
            ("[[gate.tool]]\nname = \" t\"", "no blanks"),
            ("[[gate.tool]]\nnmae = \"t\"", "unknown field `nmae`"),
            (
                "[[gate.tool]]\nname = \"t\"\nask = \"allways\"",
                "unknown variant `allways`",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nasks = \"respond\"",
                "unknown variant `respond`",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nasks = \"end_user\"",
                "unknown variant `end_user`",
            ),
            (
                "non_interactive = \"ask\"\n[[gate.tool]]\nname = \"t\"",
                "unknown variant `ask`",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nvotes = 0",
                "`votes` is 1 to 16",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nvotes = 17",
                "`votes` is 1 to 16",
            ),
            ("[[gate.tool]]\nname = \"t\"\nwhen = []", "`when` is empty"),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"a.b\", is = 1 }]",
                "as \"/a/b\"",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\" }]",
                "exactly one of",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\", is = 1, above = 2 }]",
                "exactly one of",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\", one_of = [] }]",
                "would never hold",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\", is = [1] }]",
                "compared with a text",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\", above = \"x\" }]",
                "take a number",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nwhen = [{ arg = \"/a\", above = nan }]",
                "take a number",
            ),
            (
                "tool = [{ name = \"t\" }, { name = \"t\", asks = \"admin\" }]",
                "twice",
            ),
            (
                "tool = [{ name = \"a*\" }, { name = \"*a\" }]",
                "neither is narrower",
            ),
            (
                "tool = [{ name = \"a*\" }, { name = \"*b\" }]",
                "neither is narrower",
            ),
            (
                "[[gate.tool]]\nname = \"t\"\nask = \"never\"",
                "an exception to nothing",
            ),
            (
                "tool = [{ name = \"*\" }, { name = \"t\", ask = \"never\", risk = \"high\" }]",
                "asks nobody",
            ),
        ];
        for (rules, why) in rows {
            let error = read(&format!("[gate]\n{rules}")).expect_err(rules);
            assert!(error.contains(why), "{rules}: {error}");
        }
        let error = read("[[votes]]\ntool = \"deploy\"\nneeds = 1").unwrap_err();
        assert!(error.contains("`needs` is 2 to 16"), "{error}");
    }

    #[test]
    fn the_config_raises_how_many_people_a_call_takes() {
        let gate = read("[[votes]]\ntool = \"deploy*\"\nneeds = 2\n[[votes]]\ntool = \"*\"\nneeds = 3\n[gate]\n[[gate.tool]]\nname = \"deploy\"\nvotes = 2").unwrap();
        assert_eq!(
            gate.ruling("deploy", "{}").map(|ruling| ruling.votes),
            Some(3)
        );
        assert_eq!(gate.needs("mail"), 3);
        assert_eq!(Gate::default().needs("mail"), 0);
    }
}
