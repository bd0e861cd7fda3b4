//! Rules as rows: the time, what was asked, what came back.
//!
//! ```text
//! == A25: the first decision wins
//! 00:00 run r1 agent=billing user=eu:42
//! 00:00 file t7 run=r1 asks=admin title=Pay       -> a1 pending
//! 00:05 batch {
//!       approve a1 by=admin:grace                 -> a1 granted
//!       reject a1 by=admin:linus                  -> already_settled: already granted by admin:grace at 00:05
//! }
//! 00:06 wrote                                     -> approval_granted
//! ```
//!
//! - `==` begins a new, empty world. A time is hours:minutes[:seconds] since its beginning.
//! - A line is a command, words, and `name=value` pairs. A value is a bare word, `"quoted"` with the
//!   escapes of JSON, a JSON object, or `x*300`: x, 300 times. `#` begins a comment.
//! - What stands after `->` is the whole answer, or how it begins, if it ends with `…`. A line
//!   without an arrow has to succeed: its answer is no refusal.
//! - Runs are called what `run` calls them, approvals a1, a2, … and escalations e1, e2, … in the order
//!   in which they are first heard of; moments in answers are written as the times of the rows are.
//! - The commands of a `batch` are judged in one turn.
//! - A principal is `role:name`, `role+role:name`, or `role:name@tenant`; its name is all of that
//!   before the `@`, and `nobody:x` has no role.
//! - A form is `field; field; …`, and a field `name type`, `name 'Label' type`, followed by nothing
//!   (required), `= default` (defaulted) or `?= default` (optional). A type is one of the seven;
//!   `enum(a,b)` lists its options.
//!
//! The commands:
//!
//! ```text
//! run NAME agent= user= source=native|cli|goldfive invocation= …     end RUN completed|failed|cancelled|aborted|paused:KIND reason=
//! attend RUN here|gone      say RUN TEXT      task RUN TASK STATE title= detail=      plan RUN TASK…
//! file TARGET run= asks=end_user|operator|admin key= title= task= tool= args= prompt= form= deadline= then=stay_open hold=thread votes=2 …
//! withdraw APPROVAL reason=      giveup APPROVAL wait=      applied APPROVAL done|failed|skipped detail=
//! approve|reject APPROVAL by= for= id= note= digest=APPROVAL answer.FIELD=      extend APPROVAL by= span=      dismiss APPROVAL by= note=
//! asked TARGET run= …      resolved TARGET granted|rejected run= detail=      sent APPROVAL control=      acked APPROVAL ok|failed control=
//! drift KIND SEVERITY run= task= detail= id=      drifted KIND SEVERITY [holds] run= …      levelled DRIFT LEVEL run=
//! pause|resume|steer|cancel|rewind|status RUN by= on=ESCALATION note= control= task=
//! handover CONTROL run=      ack CONTROL ok|failed|unsupported|none run= detail=      (`ladder`: its newest order to that run)
//! gate TARGET run= tool= rule=NAME asks= unattended=allow votes= …      (the rule that fits is said; without one, none does)
//! claim STEP APPROVAL… run= token= digest=APPROVAL also=TARGET      restore STEP run= token=      started APPROVAL token=
//! tick                                    only time passes
//! wrote                                   the events of the turn before
//! show ID    orders RUN    drifts RUN    inbox    record RUN      what stands; `nothing` where there is nothing
//! history by= after= limit=               newest first
//! ```
//!
//! This module knows nothing of who carries a line out: that is the [`World`]'s, so the same files
//! are run in memory, reopened from disk after every line, and over gRPC.

use std::{collections::BTreeMap, fmt::Write as _, path::Path, time::Duration};

use registry::{
    Asks, Principal, Role, Tenant, Timestamp, Untrusted,
    form::{Choice, Field, Form, Kind, Presence, Secrecy},
    who::Name,
};

/// 2026-01-01T00:00:00Z: what the rows call 00:00.
pub(crate) const BEGINNING: Timestamp = Timestamp::from_ms(1_767_225_600_000);

/// What may stand before `=`; `answer.NAME` and `label.NAME` as well. All else is a slip of the pen.
const NAMES: &[&str] = &[
    "after",
    "agent",
    "also",
    "args",
    "asks",
    "body",
    "by",
    "cause",
    "context",
    "control",
    "deadline",
    "detail",
    "digest",
    "facts",
    "for",
    "form",
    "hold",
    "id",
    "invocation",
    "key",
    "labels",
    "limit",
    "note",
    "on",
    "origin",
    "parent",
    "project",
    "prompt",
    "reason",
    "resume",
    "revision",
    "rule",
    "run",
    "session",
    "source",
    "span",
    "step",
    "summary",
    "task",
    "then",
    "thread",
    "title",
    "token",
    "tool",
    "unattended",
    "user",
    "votes",
    "wait",
];

/// Whoever carries lines out.
pub(crate) trait World {
    /// Carries out the lines of one turn at `now`; one answer for each. A refusal is answered as
    /// `word: message`; ids and moments are answered as they are.
    fn run(&mut self, now: Timestamp, lines: &[Line]) -> Vec<String>;

    /// Whether this is the id of an escalation.
    fn is_escalation(&self, id: &str) -> bool;
}

/// One command, with the ids of what it names.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What is asked for.
    pub(crate) command: String,
    /// What it is asked of.
    pub(crate) words: Vec<String>,
    /// The rest.
    pub(crate) named: BTreeMap<String, String>,
    /// Its number in the file: unique, and the same wherever the file is run.
    pub(crate) number: usize,
    expected: Option<String>,
    text: String,
}

impl Line {
    /// The word at `place`, or nothing.
    pub(crate) fn word(&self, place: usize) -> &str {
        self.words.get(place).map_or("", String::as_str)
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// The value of `name`, or nothing.
    pub(crate) fn text(&self, name: &str) -> Untrusted {
        self.get(name).unwrap_or_default().into()
    }

    /// The value of `name` as a span: hours:minutes[:seconds].
    pub(crate) fn span(&self, name: &str) -> Option<Duration> {
        self.get(name).map(|text| span(text).expect(text))
    }

    /// The pairs whose name begins with `prefix`, without it.
    pub(crate) fn all<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.named.iter();
        pairs.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// Whose wish it is; `otherwise`, if the line does not say.
    pub(crate) fn by(&self, otherwise: &str) -> Principal {
        principal(self.get("by").unwrap_or(otherwise))
    }

    /// Who is asked; `operator`, if the line does not say.
    pub(crate) fn asks(&self) -> Asks {
        let word = self.get("asks").unwrap_or("operator");
        let known = [Asks::EndUser, Asks::Operator, Asks::Admin];
        known
            .into_iter()
            .find(|asks| asks.word() == word)
            .expect(word)
    }

    /// The form to be filled in.
    pub(crate) fn form(&self) -> Form {
        let text = self.get("form").unwrap_or_default();
        let fields = text
            .split(';')
            .map(str::trim)
            .filter(|field| !field.is_empty());
        Form::new(fields.map(field).collect()).expect(text)
    }
}

/// `role:name`, `role+role:name`, `role:name@tenant`.
pub(crate) fn principal(text: &str) -> Principal {
    let (name, tenant) = text.split_once('@').unwrap_or((text, "default"));
    let roles = name.split(':').next().unwrap_or_default().split('+');
    let role = |word: &str| Role::ALL.into_iter().find(|role| role.word() == word);
    let name = Name::parse(name).expect(name);
    Principal::new(
        name,
        Tenant::parse(tenant).expect(tenant),
        roles.filter_map(role),
    )
}

/// Runs every scenario of a file, each in a world of its own; says all that came out otherwise.
pub(crate) fn play<W: World>(path: &Path, world: impl FnMut() -> W) -> String {
    let text = std::fs::read_to_string(path).expect("a file of rows");
    play_text(&path.display().to_string(), &text, world)
}

/// The same, of rows that stand at no path.
pub(crate) fn play_text<W: World>(place: &str, text: &str, mut world: impl FnMut() -> W) -> String {
    let scenarios = scenarios(text);
    assert!(!scenarios.is_empty(), "{place} has no scenario");
    let mut wrong = String::new();
    for scenario in &scenarios {
        for (line, answer) in scenario.tell(&mut world()) {
            if !line.accepts(&answer) {
                let (number, name, text) = (line.number, &scenario.name, &line.text);
                let _ = write!(
                    wrong,
                    "\n{place}:{number} ({name})\n    {text}\n    -> {answer}\n"
                );
            }
        }
    }
    wrong
}

/// What is answered to each line of one scenario, whatever was expected.
pub(crate) fn tell(text: &str, world: &mut impl World) -> Vec<String> {
    let scenarios = scenarios(text);
    let answers = scenarios.iter().flat_map(|scenario| scenario.tell(world));
    answers.map(|(_, answer)| answer).collect()
}

struct Scenario {
    name: String,
    steps: Vec<Step>,
}

impl Scenario {
    fn tell(&self, world: &mut impl World) -> Vec<(&Line, String)> {
        let mut told = Told::default();
        let steps = self.steps.iter();
        steps.flat_map(|step| told.step(world, step)).collect()
    }
}

struct Step {
    at: Duration,
    lines: Vec<Line>,
}

/// What the rows call what the world has told of.
#[derive(Default)]
struct Told {
    ids: Vec<(String, String)>,
    approvals: usize,
    escalations: usize,
}

impl Told {
    fn step<'a>(&mut self, world: &mut impl World, step: &'a Step) -> Vec<(&'a Line, String)> {
        let now = BEGINNING.plus(step.at);
        let lines: Vec<Line> = step.lines.iter().map(|line| self.with_ids(line)).collect();
        let answers = world.run(now, &lines);
        assert_eq!(answers.len(), lines.len());
        let lines = step.lines.iter().zip(answers);
        lines
            .map(|(line, answer)| (line, self.hear(world, line, &answer)))
            .collect()
    }

    fn hear(&mut self, world: &impl World, line: &Line, answer: &str) -> String {
        if line.command == "run" && ulid_at(answer).is_some() {
            self.ids.push((answer.to_owned(), line.word(0).to_owned()));
        }
        let answer = with_times(&self.with_names(world, answer));
        match line.command.as_str() {
            "inbox" => sorted(&answer),
            _ => answer,
        }
    }

    fn with_ids(&self, line: &Line) -> Line {
        let id = |word: &mut String| {
            // The newest first: a name may be given again.
            let mut known = self.ids.iter().rev();
            if let Some((id, _)) = known.find(|(_, name)| name == word) {
                word.clone_from(id);
            }
        };
        let mut line = line.clone();
        // What `run` opens has its own name, and may name the run that starts it.
        if let Some(parent) = line.named.get_mut("parent") {
            id(parent);
        }
        if line.command != "run" {
            line.words.iter_mut().for_each(id);
            line.named.values_mut().for_each(id);
        }
        line
    }

    fn with_names(&mut self, world: &impl World, answer: &str) -> String {
        let mut named = String::new();
        let mut rest = answer;
        while let Some(c) = rest.chars().next() {
            let length = match ulid_at(rest) {
                Some(id) => {
                    named.push_str(&self.name(world, id));
                    id.len()
                }
                None => {
                    named.push(c);
                    c.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        named
    }

    fn name(&mut self, world: &impl World, id: &str) -> String {
        if let Some((_, name)) = self.ids.iter().find(|(known, _)| known == id) {
            return name.clone();
        }
        let (letter, count) = if world.is_escalation(id) {
            ('e', &mut self.escalations)
        } else {
            ('a', &mut self.approvals)
        };
        *count += 1;
        let name = format!("{letter}{count}");
        self.ids.push((id.to_owned(), name.clone()));
        name
    }
}

impl Line {
    fn accepts(&self, answer: &str) -> bool {
        match self.expected.as_deref() {
            None => !is_refusal(answer),
            Some(expected) => match expected.strip_suffix('…') {
                Some(beginning) => answer.starts_with(beginning),
                None => answer == expected,
            },
        }
    }
}

/// What was filed in one moment stands in any order.
fn sorted(list: &str) -> String {
    let mut names: Vec<&str> = list.split(", ").collect();
    names.sort_unstable();
    names.join(", ")
}

/// `word: message`, the word as clients match on it.
fn is_refusal(answer: &str) -> bool {
    let Some((word, _)) = answer.split_once(": ") else {
        return false;
    };
    let is_word = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_word && !["withdrawn", "steered", "resumed", "cancelled"].contains(&word)
}

// === Reading ===

fn scenarios(text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut batch: Option<Step> = None;
    for (index, text) in text.lines().enumerate() {
        let (number, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix("== ") {
            let (name, steps) = (name.to_owned(), Vec::new());
            scenarios.push(Scenario { name, steps });
            continue;
        }
        let steps = &mut scenarios
            .last_mut()
            .expect("a scenario begins with ==")
            .steps;
        if text == "}" {
            steps.push(batch.take().expect("} closes a batch"));
            continue;
        }
        if let Some(batch) = &mut batch {
            batch.lines.push(line(number, text));
            continue;
        }
        let (time, rest) = text.split_once(' ').expect(text);
        let at = span(time).unwrap_or_else(|| panic!("line {number}: a line begins with its time"));
        let lines = Vec::new();
        match rest.trim() {
            "batch {" => batch = Some(Step { at, lines }),
            rest => steps.push(Step {
                at,
                lines: vec![line(number, rest)],
            }),
        }
    }
    assert!(batch.is_none(), "a batch is not closed");
    scenarios
}

fn line(number: usize, text: &str) -> Line {
    let (asked, expected) = match text.split_once(" -> ") {
        Some((asked, expected)) => (asked, Some(expected.trim().to_owned())),
        None => (text, None),
    };
    let mut tokens = tokens(asked).into_iter();
    let command = tokens.next().map(|(_, word)| word).expect(text);
    let mut line = Line {
        command,
        words: Vec::new(),
        named: BTreeMap::new(),
        number,
        expected,
        text: text.to_owned(),
    };
    for (name, value) in tokens {
        if let Some(name) = &name {
            let free = name.starts_with("answer.") || name.starts_with("label.");
            let known = free || NAMES.contains(&name.as_str());
            assert!(known, "line {number}: there is no {name}=");
        }
        match name {
            Some(name) => drop(line.named.insert(name, value)),
            None => line.words.push(value),
        }
    }
    line
}

/// `word` or `name=value`, split at blanks that stand in no quotes and no JSON.
fn tokens(text: &str) -> Vec<(Option<String>, String)> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && !rest.starts_with("# ") {
        let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
        let name = rest
            .find(|c| !plain(c))
            .filter(|end| rest[*end..].starts_with('='));
        let start = name.map_or(0, |end| end + 1);
        let length = value_length(&rest[start..]);
        let value = value(&rest[start..start + length]);
        tokens.push((name.map(|end| rest[..end].to_owned()), value));
        rest = rest[start + length..].trim_start();
    }
    tokens
}

fn value_length(text: &str) -> usize {
    let (mut quoted, mut escaped, mut depth) = (false, false, 0_usize);
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth = depth.saturating_sub(1),
            ' ' if !quoted && depth == 0 => return place,
            _ => {}
        }
    }
    assert!(!quoted && depth == 0, "not closed: {text}");
    text.len()
}

fn value(text: &str) -> String {
    if text.starts_with('"') {
        return serde_json::from_str(text).expect(text);
    }
    if let Some((what, times)) = text.rsplit_once('*')
        && let Ok(times) = times.parse()
    {
        return what.repeat(times);
    }
    text.to_owned()
}

fn field(text: &str) -> Field {
    let (asked, default) = match text.split_once('=') {
        Some((asked, default)) => (asked, Some(value(default.trim()))),
        None => (text, None),
    };
    let (asked, optional) = match asked.strip_suffix('?') {
        Some(asked) => (asked, true),
        None => (asked, false),
    };
    let (name, rest) = asked.trim().split_once(' ').expect(text);
    let (label, kind) = match rest.trim().strip_prefix('\'') {
        Some(rest) => rest.split_once('\'').expect(text),
        None => ("", rest),
    };
    let (kind, secrecy) = match kind.trim().strip_prefix("secret ") {
        Some(kind) => (kind, Secrecy::Secret),
        None => (kind, Secrecy::Open),
    };
    let kind = kind_of(kind.trim());
    let answer = default.map(|default| kind.parse(&default).expect(text));
    let presence = match answer {
        None => Presence::Required,
        Some(answer) if optional => Presence::Optional(answer),
        Some(answer) => Presence::Defaulted(answer),
    };
    Field {
        name: name.to_owned(),
        label: label.into(),
        help: "".into(),
        kind,
        presence,
        secrecy,
    }
}

fn kind_of(word: &str) -> Kind {
    let options = word
        .strip_prefix("enum(")
        .and_then(|rest| rest.strip_suffix(')'));
    match (word, options) {
        (_, Some(options)) => Kind::Enum(options.split(',').map(choice).collect()),
        ("string", _) => Kind::String,
        ("text", _) => Kind::Text,
        ("number", _) => Kind::Number,
        ("integer", _) => Kind::Integer,
        ("boolean", _) => Kind::Boolean,
        ("date", _) => Kind::Date,
        _ => panic!("no such type: {word}"),
    }
}

fn choice(value: &str) -> Choice {
    Choice {
        value: value.trim().into(),
        label: "".into(),
    }
}

// === Times and ids ===

/// `25:00`, `00:00:30`.
fn span(text: &str) -> Option<Duration> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str| {
        let digits = part.len() >= 2 && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse::<u64>().ok()).flatten()
    };
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return None,
    };
    Some(Duration::from_secs(hours * 3600 + minutes * 60 + seconds))
}

/// The id that `text` begins with.
fn ulid_at(text: &str) -> Option<&str> {
    let id = text.get(..26)?;
    let is_id = id
        .bytes()
        .all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    is_id.then_some(id)
}

/// `2026-01-02T01:00:00Z` → `25:00`.
fn with_times(answer: &str) -> String {
    const LENGTH: usize = "2026-01-01T00:00:00Z".len();
    let mut shown = String::new();
    let mut rest = answer;
    while let Some(c) = rest.chars().next() {
        let time = rest.get(..LENGTH).and_then(time_of);
        let length = match time {
            Some(time) => {
                shown.push_str(&time);
                LENGTH
            }
            None => {
                shown.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    shown
}

fn time_of(text: &str) -> Option<String> {
    let rest = text.strip_suffix('Z')?;
    let (date, time) = rest.split_once('T')?;
    let days = days_of(date)?;
    let time = span(time)?;
    let all = Duration::from_secs(days * 24 * 3600) + time;
    let (minutes, seconds) = (all.as_secs() / 60, all.as_secs() % 60);
    let seconds = if seconds == 0 {
        String::new()
    } else {
        format!(":{seconds:02}")
    };
    Some(format!("{:02}:{:02}{seconds}", minutes / 60, minutes % 60))
}

/// Days since the first of January 2026, which is no leap year.
fn days_of(date: &str) -> Option<u64> {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let month_and_day = date.strip_prefix("2026-")?;
    let (month, day) = month_and_day.split_once('-')?;
    let month: usize = month.parse().ok()?;
    let day: u64 = day.parse().ok()?;
    Some(BEFORE.get(month.checked_sub(1)?)? + day.checked_sub(1)?)
}
