//! The rules once more, as one map: written from DESIGN §4.1 and not from the code, it says what is answered to everything
//! that a few agents and people may wish, in any order (`ENGINE` §7, row 12).
//!
//! The model writes rows: what was asked, and what has to come back. The registry plays them, in memory, and on a file that is
//! opened again now and then.

use std::{collections::BTreeMap, fmt::Write as _};

use proptest::prelude::*;

use crate::{script::play_text, world::Registry};

/// Minutes since the beginning.
type Minute = u64;

/// How long the rules may take an ended run to be known, in minutes; nothing is asked of one that is older.
const KNOWN: Minute = 20 * 60;

/// One wish, before the model knows what there is to wish about: numbers that it reads as it needs them.
#[derive(Clone, Copy, Debug)]
struct Wish {
    verb: u8,
    on: usize,
    a: usize,
    b: usize,
    wait: u8,
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let wish = (
        any::<u8>(),
        0..1000_usize,
        0..1000_usize,
        0..1000_usize,
        any::<u8>(),
    );
    let wish = wish.prop_map(|(verb, on, a, b, wait)| Wish {
        verb,
        on,
        a,
        b,
        wait,
    });
    prop::collection::vec(wish, 200)
}

/// One question, as the design has it.
#[derive(Debug)]
struct Question {
    run: usize,
    target: String,
    /// Everything that its digest is made of, and nothing else.
    content: String,
    /// Its form has one field, which is required.
    has_form: bool,
    asks_admin: bool,
    deadline: Option<Minute>,
    stays_open: bool,
    end: Option<End>,
    applied: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct End {
    word: &'static str,
    by: Option<&'static str>,
    at: Minute,
    /// What decided it.
    decision: Option<String>,
}

#[derive(Debug)]
struct Run {
    here: bool,
    ended: Option<Minute>,
}

/// The one map, and what it is asked under.
#[derive(Default)]
struct Model {
    now: Minute,
    questions: BTreeMap<usize, Question>,
    keys: BTreeMap<String, usize>,
    decisions: BTreeMap<String, usize>,
    runs: Vec<Run>,
    /// In the order in which they ended; what ended in one moment, in any.
    ended: Vec<usize>,
    rows: String,
}

const OPERATORS: [&str; 2] = ["operator:ada", "operator:eve"];
const ADMIN: &str = "admin:grace";

fn time(at: Minute) -> String {
    format!("{:02}:{:02}", at / 60, at % 60)
}

impl Model {
    fn write(wishes: &[Wish]) -> String {
        let mut model = Self {
            rows: "== by chance\n".into(),
            ..Self::default()
        };
        model.open_run();
        model.open_run();
        for wish in wishes {
            model.wish(*wish);
        }
        model.rows
    }

    fn row(&mut self, what: &str, answer: &str) {
        let _ = writeln!(self.rows, "{} {what} -> {answer}", time(self.now));
    }

    fn open_run(&mut self) {
        self.runs.push(Run {
            here: true,
            ended: None,
        });
        let name = format!("r{}", self.runs.len());
        self.row(&format!("run {name}"), &name);
    }

    fn wish(&mut self, wish: Wish) {
        self.now += match wish.wait {
            0..130 => 0,
            130..215 => u64::from(wish.wait % 13),
            215..253 => u64::from(wish.wait) * 2,
            _ => 25 * 60, // memory forgets
        };
        self.let_pass();
        self.row("tick", "done");
        match wish.verb % 20 {
            0..6 => self.file(wish),
            6..11 => self.decide(wish),
            11 => self.withdraw(wish),
            12 => self.extend(wish),
            13 => self.dismiss(wish),
            14 | 15 => self.apply(wish),
            16 => self.attend(wish),
            17 if wish.a.is_multiple_of(4) => self.end_run(wish),
            17 | 18 => self.show(wish),
            _ => self.history(),
        }
        if wish.b.is_multiple_of(3) {
            self.inbox();
        }
    }

    /// A deadline has passed once it is later than that: then, and with nobody asking.
    fn let_pass(&mut self) {
        let late = |q: &Question| {
            q.end.is_none() && !q.stays_open && q.deadline.is_some_and(|d| d < self.now)
        };
        let mut passed: Vec<(Option<Minute>, usize)> = self
            .questions
            .iter()
            .filter(|(_, q)| late(q))
            .map(|(n, q)| (q.deadline, *n))
            .collect();
        passed.sort_unstable();
        let at = self.now;
        for (_, n) in passed {
            self.end(
                n,
                End {
                    word: "expired",
                    by: None,
                    at,
                    decision: None,
                },
            );
        }
    }

    fn end(&mut self, n: usize, end: End) {
        self.questions.get_mut(&n).unwrap().end = Some(end);
        self.ended.push(n);
    }

    fn state(&self, n: usize) -> String {
        let end = self.questions[&n].end.as_ref();
        format!("a{n} {}", end.map_or("pending", |end| end.word))
    }

    /// What somebody is told who comes too late; none if nobody has come yet.
    fn too_late(&self, n: usize) -> Option<String> {
        let question = &self.questions[&n];
        let end = question.end.as_ref()?;
        if end.word == "expired" {
            let at = time(question.deadline.unwrap());
            return Some(format!(
                "expired: expired at {at}: nobody decided before the deadline"
            ));
        }
        let by = end.by.map_or(String::new(), |by| format!(" by {by}"));
        Some(format!(
            "already_settled: already {}{by} at {}",
            end.word,
            time(end.at)
        ))
    }

    fn some_question(&self, wish: Wish) -> Option<usize> {
        // Mostly the newer ones, of which some are open.
        let count = self.questions.len();
        let newest = wish.on % count.clamp(1, if wish.b.is_multiple_of(5) { 1000 } else { 6 });
        (count > 0).then(|| count - newest)
    }

    fn file(&mut self, wish: Wish) {
        let run = wish.on % self.runs.len();
        if wish.on.is_multiple_of(37) {
            self.open_run();
        }
        let target = format!("t{}", wish.a % 3);
        let title = ["Pay", "Burn"][wish.a / 3 % 2];
        let has_form = (wish.a / 6).is_multiple_of(4);
        let asks_admin = (wish.a / 24).is_multiple_of(5);
        let key = (!wish.b.is_multiple_of(3)).then(|| format!("k{}", wish.b / 3 % 60));
        let content = format!("{title} {has_form} {asks_admin}");
        let mut line = format!("file {target} run=r{} title={title}", run + 1);
        for (is, words) in [
            (has_form, " form=\"why string\""),
            (asks_admin, " asks=admin"),
        ] {
            line += if is { words } else { "" };
        }
        line += &key
            .as_ref()
            .map_or(String::new(), |key| format!(" key={key}"));
        let mut deadline = None;
        if (wish.b / 180).is_multiple_of(2) {
            // No two pass in one moment: in which order they do is nobody's business.
            let mut span = 1 + u64::try_from(wish.b % 97).unwrap() * 3;
            while self
                .questions
                .values()
                .any(|q| q.deadline == Some(self.now + span))
            {
                span += 1;
            }
            deadline = Some(self.now + span);
            line += &format!(" deadline={}", time(span));
        }
        let stays_open = deadline.is_some() && (wish.a / 120).is_multiple_of(3);
        line += if stays_open { " then=stay_open" } else { "" };

        let known = key.as_ref().and_then(|key| self.keys.get(key).copied());
        if let Some(known) = known {
            let question = &self.questions[&known];
            let same = question.content == content && question.run == run;
            let answer = if same {
                self.state(known)
            } else {
                "key_reused: this idempotency key was used before, for something else".into()
            };
            if self.is_known(run) {
                self.row(&line, &answer);
            }
            return;
        }
        if let Some(ended) = self.runs[run].ended {
            if self.now < ended + KNOWN {
                self.row(&line, "run_over: the run has ended");
            }
            return;
        }
        let open =
            |(_, q): &(&usize, &Question)| q.end.is_none() && q.run == run && q.target == target;
        let open = self.questions.iter().find(open).map(|(n, _)| *n);
        let joined = open.filter(|open| self.questions[open].content == content);
        let n = joined.unwrap_or(self.questions.len() + 1);
        if joined.is_none() {
            if let Some(open) = open {
                let at = self.now;
                self.end(
                    open,
                    End {
                        word: "withdrawn",
                        by: None,
                        at,
                        decision: None,
                    },
                );
            }
            let question = Question {
                run,
                target,
                content,
                has_form,
                asks_admin,
                deadline,
                stays_open,
                end: None,
                applied: None,
            };
            self.questions.insert(n, question);
        }
        if let Some(key) = key {
            self.keys.insert(key, n);
        }
        let answer = self.state(n);
        self.row(&line, &answer);
    }

    fn is_known(&self, run: usize) -> bool {
        self.runs[run]
            .ended
            .is_none_or(|ended| self.now < ended + KNOWN)
    }

    fn decide(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let by = [OPERATORS[0], OPERATORS[1], ADMIN, "viewer:v"][wish.a % 4];
        let (verb, word) = [("approve", "granted"), ("reject", "rejected")][wish.a / 4 % 2];
        // Some of them are sent again.
        let decision = format!("d{}", wish.a / 8 % 40 + 40 * (wish.b % 3));
        let fills_in = !(wish.b / 3).is_multiple_of(4);
        let other = self.questions.len() - wish.b / 12 % self.questions.len();
        let saw = if wish.b.is_multiple_of(9) { other } else { n };
        let question = &self.questions[&n];
        let mut line = format!("{verb} a{n} by={by} id={decision} digest=a{saw}");
        if question.has_form && fills_in {
            line += " answer.why=because";
        }
        let allowed = match by {
            ADMIN => true,
            "viewer:v" => false,
            _ => !question.asks_admin,
        };
        let retry = question
            .end
            .as_ref()
            .is_some_and(|end| end.decision.as_ref() == Some(&decision) && end.by == Some(by));
        let answer = if !allowed {
            "not_yours: …".to_owned()
        } else if retry {
            self.state(n)
        } else if let Some(late) = self.too_late(n) {
            late
        } else if self.questions[&saw].content != question.content {
            "stale: …".into()
        } else if self.decisions.contains_key(&decision) {
            "key_reused: this decision id was used before, for something else".into()
        } else if question.has_form && !fills_in {
            "answers: …".into()
        } else {
            let at = self.now;
            self.decisions.insert(decision.clone(), n);
            self.end(
                n,
                End {
                    word,
                    by: Some(by),
                    at,
                    decision: Some(decision),
                },
            );
            self.state(n)
        };
        self.row(&line, &answer);
    }

    fn withdraw(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let late = self.too_late(n);
        if late.is_none() {
            let at = self.now;
            self.end(
                n,
                End {
                    word: "withdrawn",
                    by: None,
                    at,
                    decision: None,
                },
            );
        }
        self.row(
            &format!("withdraw a{n} by=agent:billing"),
            &late.unwrap_or("done".into()),
        );
    }

    fn extend(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let mut span = 1 + u64::try_from(wish.a).unwrap();
        while self
            .questions
            .values()
            .any(|q| q.deadline == Some(self.now + span))
        {
            span += 1;
        }
        let until = self.now + span;
        let deadline = self.questions[&n].deadline;
        let answer = match (self.too_late(n), deadline) {
            (Some(late), _) => late,
            (None, None) => "not_now: it has no deadline: it waits for ever".into(),
            (None, Some(deadline)) if until <= deadline => "not_now: …".into(),
            (None, Some(_)) => {
                self.questions.get_mut(&n).unwrap().deadline = Some(until);
                "done".into()
            }
        };
        self.row(
            &format!("extend a{n} by=operator:ada span={}", time(span)),
            &answer,
        );
    }

    fn dismiss(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let by = OPERATORS[wish.a % 2];
        let here = self.runs[self.questions[&n].run].here;
        let answer = match self.too_late(n) {
            Some(late) => late,
            None if here => "not_now: …".into(),
            None => {
                let at = self.now;
                self.end(
                    n,
                    End {
                        word: "withdrawn",
                        by: Some(by),
                        at,
                        decision: None,
                    },
                );
                "done".into()
            }
        };
        self.row(&format!("dismiss a{n} by={by}"), &answer);
    }

    fn apply(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let said = ["done", "failed", "skipped"][wish.a % 3];
        let question = &self.questions[&n];
        let decided = question
            .end
            .as_ref()
            .is_some_and(|end| end.decision.is_some());
        let answer = match (&question.end, question.applied) {
            (None, _) => "still_pending: still pending: nobody has decided yet".into(),
            (Some(_), _) if !decided => self.too_late(n).unwrap(),
            (_, Some(first)) if first != said => "not_now: …".into(),
            _ => {
                self.questions.get_mut(&n).unwrap().applied = Some(said);
                "done".into()
            }
        };
        self.row(&format!("applied a{n} {said} by=agent:billing"), &answer);
    }

    fn attend(&mut self, wish: Wish) {
        let at = wish.on % self.runs.len();
        if self.runs[at].ended.is_none() {
            let here = wish.a.is_multiple_of(3);
            self.runs[at].here = here;
            let word = if here { "here" } else { "gone" };
            self.row(&format!("attend r{} {word}", at + 1), "done");
        }
    }

    /// The end of a run takes back what it still asks.
    fn end_run(&mut self, wish: Wish) {
        let run = wish.on % self.runs.len();
        if self.runs[run].ended.is_some() {
            return;
        }
        self.runs[run].ended = Some(self.now);
        let open = |(_, q): &(&usize, &Question)| q.end.is_none() && q.run == run;
        let open: Vec<usize> = self
            .questions
            .iter()
            .filter(open)
            .map(|(n, _)| *n)
            .collect();
        let at = self.now;
        for n in open {
            self.end(
                n,
                End {
                    word: "withdrawn",
                    by: None,
                    at,
                    decision: None,
                },
            );
        }
        self.row(&format!("end r{} completed", run + 1), "done");
        self.open_run();
    }

    fn show(&mut self, wish: Wish) {
        let Some(n) = self.some_question(wish) else {
            return;
        };
        let question = &self.questions[&n];
        let shown = match &question.end {
            None => "pending…".to_owned(),
            Some(End {
                word,
                by: Some(by),
                decision: Some(_),
                ..
            }) => format!("{word} by {by}…"),
            Some(End { word, .. }) => format!("{word}…"),
        };
        self.row(&format!("show a{n}"), &shown);
    }

    /// Newest first, as far back as it is known in which order they ended.
    fn history(&mut self) {
        let at = |n: &usize| self.questions[n].end.as_ref().unwrap().at;
        let newest = self.ended.iter().rev();
        let pairs = newest.clone().zip(newest.clone().skip(1));
        let sure = pairs.take_while(|(n, before)| at(n) != at(before)).count();
        let page: Vec<String> = newest.take(sure.min(5)).map(|n| self.state(*n)).collect();
        if !page.is_empty() {
            let line = format!("history limit={}", page.len());
            self.row(&line, &page.join(", "));
        }
    }

    fn inbox(&mut self) {
        let open = self.questions.iter().filter(|(_, q)| q.end.is_none());
        let mut names: Vec<String> = open.map(|(n, _)| format!("a{n}")).collect();
        names.sort_unstable();
        let answer = if names.is_empty() {
            "nothing".into()
        } else {
            names.join(", ")
        };
        self.row("inbox", &answer);
    }
}

/// How much more is done than CI has time for.
fn times() -> u32 {
    let more = std::env::var("PILOTHOUSE_PROOF");
    more.map_or(1, |more| {
        more.parse().expect("PILOTHOUSE_PROOF is a number")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256 * times(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn everything_is_answered_as_one_map_answers_it(wishes in wishes()) {
        let rows = Model::write(&wishes);
        let in_memory = play_text("model", &rows, Registry::in_memory_and_quick);
        prop_assert!(in_memory.is_empty(), "in memory these came out otherwise:\n{in_memory}\n{rows}");
        if times() == 1 && !wishes[0].on.is_multiple_of(4) {
            return Ok(()); // a file takes longer
        }
        let dir = quick_dir();
        let on_a_file = || Registry::reopened_now_and_then(dir.path().join("log"));
        let on_a_file = play_text("model", &rows, on_a_file);
        prop_assert!(on_a_file.is_empty(), "on a file these came out otherwise:\n{on_a_file}\n{rows}");
    }
}

/// In memory, where there is such a place: that what is synced lasts is proved elsewhere.
fn quick_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}
