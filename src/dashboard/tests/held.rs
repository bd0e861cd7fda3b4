//! Runs that stand still: what is shown of them, and what a key has them do.

use std::time::Duration;

use registry::{
    Control, Escalation, EscalationId, Event, ItemId, Role, RunId, Tenant, Timestamp, Untrusted,
    command::Order,
    control::{Stage, Step, Verb},
    drift::{Drift, Kind, Level, Severity},
    escalation::{Cause, Closed, Ended, How, Undone},
    limits,
    names::{ControlId, DriftId},
    run::{
        End, Evidence, InterruptKind, Pause, Plan, PlanTask, Presence, RunKey, Source, TaskState,
    },
};

use super::{
    desk::*,
    hostile::{HOSTILE, check},
    property::Dice,
};
use crate::dashboard::{
    Effect, Link, Me, Msg, Setup, SubmitError,
    keys::{Code, Key},
    model::Front,
    msg::Refused,
    words::notice,
};

fn nothing() -> Untrusted {
    Untrusted::default()
}

/// One run that stands still, or is to: the parts that differ.
#[derive(Clone)]
struct Stuck {
    n: u128,
    agent: &'static str,
    source: Source,
    kind: &'static str,
    detail: &'static str,
    level: Level,
    pause: Option<Pause>,
    ago_s: i64,
}

fn stuck() -> Stuck {
    Stuck {
        n: 50,
        agent: "research-7",
        source: Source::Native,
        kind: "LOOPING_TOOL_CALL",
        detail: "same search 6 times, no new result",
        level: Level::PauseEscalate,
        pause: Some(Pause::Holds(Evidence::Acked)),
        ago_s: 192,
    }
}

fn step(stage: Stage, detail: &str, at: Timestamp) -> Step {
    Step {
        stage,
        detail: detail.into(),
        at,
    }
}

impl Stuck {
    fn run(&self) -> RunId {
        RunId::mint(ago(900), self.n)
    }

    fn id(&self) -> EscalationId {
        EscalationId::mint(ago(self.ago_s), self.n)
    }

    fn key(&self) -> RunKey {
        RunKey {
            tenant: Tenant::local(),
            source: self.source,
            agent: self.agent.into(),
            session: "demo1".into(),
            invocation: "7c21".into(),
        }
    }

    fn drift(&self, n: u32, severity: Severity, level: Level) -> Drift {
        Drift {
            id: DriftId::parse(&format!("d{}-{n}", self.n)).unwrap(),
            kind: Kind::of(self.kind),
            severity,
            detail: self.detail.into(),
            task: "t4".into(),
            level: Some(level),
            from: None,
            at: ago(self.ago_s),
        }
    }

    fn escalation(&self) -> Escalation {
        Escalation {
            id: self.id(),
            run: self.run(),
            from: self.key(),
            owner: None,
            cause: Cause::Drift(self.drift(3, Severity::Critical, self.level)),
            also: Vec::new(),
            after: None,
            at: ago(self.ago_s),
            abort_at: (self.level == Level::Terminate).then(|| ago(self.ago_s - 600)),
        }
    }

    fn order(&self, id: &str, verb: Verb, by: &str, at: Timestamp) -> Control {
        Control {
            id: ControlId::parse(id).unwrap(),
            run: self.run(),
            escalation: Some(self.id()).filter(|_| verb.answers() || verb == Verb::Pause),
            verb,
            note: nothing(),
            by: name(by),
            drift: None,
            deadline: None,
            at,
            steps: Vec::new(),
        }
    }

    fn moved(&self, id: &str, step: Step) -> Event {
        Event::ControlMoved {
            run: self.run(),
            id: ControlId::parse(id).unwrap(),
            escalation: Some(self.id()),
            step,
        }
    }

    /// A plan of four tasks, of which two are left.
    fn begins(&self) -> Vec<Event> {
        let task = |id: &str, title: &str, state| PlanTask {
            id: id.into(),
            title: title.into(),
            state,
        };
        let plan = Event::PlanReported {
            run: self.run(),
            plan: Plan {
                revision: 2,
                summary: nothing(),
                tasks: vec![
                    task("t1", "Understand the question", TaskState::Completed),
                    task("t2", "Find the archives", TaskState::Completed),
                    task("t4", "Collect sources", TaskState::Running),
                    task("t5", "Write the summary", TaskState::Pending),
                ],
            },
            cause: nothing(),
        };
        vec![begun(self.run(), self.key(), ago(900)), plan]
    }

    fn comes_to_stand_still(&self) -> Vec<Event> {
        let recorded = Drift {
            kind: Kind::human_intervention(),
            from: Some(Kind::of(self.kind)),
            level: None,
            ..self.drift(4, Severity::Critical, self.level)
        };
        let run = self.run();
        let reported = |drift| Event::DriftReported { run, drift };
        let pause = format!("ladder-{}", self.n);
        let mut order = self.order(&pause, Verb::Pause, "agent:ladder", ago(self.ago_s));
        if self.pause == Some(Pause::Holds(Evidence::Acked)) {
            let acked = ago(self.ago_s - 1);
            order.steps = vec![
                step(Stage::Sent, "", ago(self.ago_s)),
                step(Stage::Acked, "paused", acked),
            ];
        }
        let raised = Event::EscalationRaised {
            escalation: self.escalation().into(),
        };
        let mut events = vec![
            reported(self.drift(3, Severity::Critical, self.level)),
            reported(recorded),
            raised,
        ];
        if self.pause.is_some() && self.pause != Some(Pause::Holds(Evidence::Inferred)) {
            let control = Box::new(order);
            events.push(Event::ControlIssued { control });
        }
        events.push(Event::PauseMoved {
            run,
            pause: self.pause,
        });
        events
    }

    fn happens(&self, desk: &mut Desk) {
        desk.record_at(ago(900), self.begins());
        let run = self.run();
        for (n, (seconds, severity, level)) in [
            (780, Severity::Warning, Level::Absorb),
            (600, Severity::Critical, Level::CancelReinvoke),
        ]
        .into_iter()
        .enumerate()
        {
            let drift = self.drift(u32::try_from(n).unwrap(), severity, level);
            desk.record_at(ago(seconds), [Event::DriftReported { run, drift }]);
        }
        desk.record_at(ago(self.ago_s), self.comes_to_stand_still());
    }
}

/// A desk with runs that stand still, and the usual questions.
fn desk(width: u16, height: u16, stuck: &[Stuck], change: impl FnOnce(&mut Setup)) -> Desk {
    let mut desk = Desk::with(width, height, change);
    desk.settle_in(&[]);
    for stuck in stuck {
        stuck.happens(&mut desk);
    }
    desk.file(&full_inbox());
    desk.show();
    desk
}

fn one(stuck: Stuck) -> Desk {
    desk(120, 34, &[stuck], |_| {})
}

fn orders(effects: &[Effect]) -> Vec<Order> {
    let order = |effect: &Effect| match effect {
        Effect::Order(order) => Some(order.clone()),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

/// What the server records where it takes an order.
fn taken(stuck: &Stuck, order: &Order, by: &str) -> Vec<Event> {
    let how = How::Answered {
        verb: order.verb.clone(),
        by: name(by),
        note: order.note.clone(),
    };
    let control = Control {
        note: order.note.clone(),
        ..stuck.order(order.id.as_str(), order.verb.clone(), by, now())
    };
    vec![
        Event::EscalationClosed {
            id: stuck.id(),
            how,
        },
        Event::ControlIssued {
            control: control.into(),
        },
    ]
}

fn says(desk: &Desk, words: &str) {
    let screen = desk.screen();
    // A long line of a card goes on in the next row.
    let flat: String = screen.replace(['│', '\n'], " ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(words), "{words:?} is not in\n{screen}");
}

fn says_not(desk: &Desk, words: &str) {
    assert!(
        !desk.screen().contains(words),
        "{words:?}\n{}",
        desk.screen()
    );
}

macro_rules! screen {
    ($name:ident, $size:expr, $stuck:expr, $ascii:expr, $keys:expr) => {
        #[test]
        fn $name() {
            let (width, height) = $size;
            let mut desk = desk(width, height, &$stuck, |setup| setup.ascii = $ascii);
            desk.press($keys);
            insta::assert_snapshot!(stringify!($name), desk.screen());
        }
    };
}

fn two() -> Vec<Stuck> {
    let other = Stuck {
        n: 51,
        agent: "etl-nightly",
        kind: "INTENT_DIVERGENCE",
        pause: Some(Pause::Asked),
        ago_s: 100,
        ..stuck()
    };
    vec![stuck(), other]
}

screen!(held, (120, 34), two(), false, "k k k k k k k");
screen!(held_ascii, (120, 34), two(), true, "k k k k k k k");
screen!(held_80, (80, 24), two(), false, "g g enter");
screen!(held_list_80, (80, 24), two(), false, "g g");
screen!(held_40, (40, 10), two(), false, "g g enter");
screen!(held_why, (120, 34), two(), false, "g g w");
screen!(held_cancel_80, (80, 24), two(), false, "g g enter c");
screen!(held_runs, (120, 34), two(), false, "2");
screen!(held_rewind, (120, 34), two(), false, "g g b");

#[test]
fn steer_is_written_sent_and_followed_to_its_end() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    desk.press("g g s");
    desk.type_text("Stop searching the archive. Use the two sources you have and write the");
    desk.press("enter");
    desk.type_text("summary; say plainly what is missing.");
    insta::assert_snapshot!("held_steer", desk.screen());
    says(&desk, "108 of 8192 bytes");
    let order = orders(&desk.press("ctrl-s")).remove(0);
    assert_eq!((order.run, order.answers), (stuck.run(), Some(stuck.id())));
    assert_eq!(order.verb, Verb::Steer);
    assert!(
        order
            .note
            .raw()
            .ends_with("write the\nsummary; say plainly what is missing.")
    );
    says(&desk, "steer sent, waiting for the server");
    assert!(orders(&desk.press("s R")).is_empty(), "not twice");
    assert_eq!(desk.notice(), notice::UNDER_WAY);

    desk.send(Msg::Ordered {
        order: order.id.clone(),
        result: Ok(()),
    });
    desk.record(taken(&stuck, &order, "user:ada"));
    desk.show();
    says(&desk, "» steered by user:ada at 14:05");
    says(&desk, "s steer not sent: its agent does not listen");
    assert!(!desk.model.steering.drafts.contains_key(&stuck.run()));
    let id = order.id.as_str();
    let at = desk.server_now();
    desk.record([stuck.moved(id, step(Stage::Sent, "", at))]);
    desk.wait(12_000);
    desk.show();
    says(&desk, "› no answer for 12s");
    desk.wait(1_000);
    assert!(desk.model.is_dirty(), "it counts by itself");
    let at = desk.server_now();
    desk.record([stuck.moved(id, step(Stage::Acked, "steer queued", at))]);
    desk.show();
    says(&desk, "\"steer queued\" › not confirmed: no new plan yet");
    let at = desk.server_now();
    desk.record([stuck.moved(id, step(Stage::Confirmed, "plan revision 3", at))]);
    desk.show();
    says(&desk, "› confirmed 14:05:");
    says(&desk, "plan revision 3");
    insta::assert_snapshot!("held_steered", desk.screen());
    desk.press("3");
    insta::assert_snapshot!("held_history", desk.screen());
    desk.press("enter");
    says(&desk, "research-7 was paused");
    desk.press("esc 1");
    // It stays under the hand until it is left.
    assert_eq!(desk.model.inbox.order[0], ItemId::Escalation(stuck.id()));
    desk.press("esc");
    assert!(
        !desk
            .model
            .inbox
            .order
            .contains(&ItemId::Escalation(stuck.id()))
    );
}

#[test]
fn a_control_that_comes_to_nothing_is_said_in_words() {
    for (stage, detail, words) in [
        (
            Stage::Failed,
            "no planner",
            "failed 14:05:01Z \"no planner\"",
        ),
        (Stage::Unsupported, "", "unsupported 14:05:01Z"),
        (Stage::Unanswered, "the run ended", "no answer 14:05:01Z"),
    ] {
        let stuck = stuck();
        let mut desk = one(stuck.clone());
        let order = orders(&desk.press("g g R")).remove(0);
        desk.record(taken(&stuck, &order, "user:ada"));
        let id = order.id.as_str();
        let at = now().plus(Duration::from_secs(1));
        desk.record([
            stuck.moved(id, step(Stage::Sent, "", now())),
            stuck.moved(id, step(stage, detail, at)),
        ]);
        desk.show();
        says(&desk, words);
    }
}

#[test]
fn resume_takes_one_key_and_cancel_two() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    assert!(orders(&desk.press("g g c")).is_empty());
    says(&desk, "abort the run: t4 and t5 end as cancelled");
    assert!(
        orders(&desk.press("enter")).is_empty(),
        "the cursor is on no"
    );
    desk.press("c");
    let order = orders(&desk.press("y")).remove(0);
    assert_eq!(
        (order.verb, order.answers),
        (Verb::Cancel, Some(stuck.id()))
    );

    let mut desk = one(stuck.clone());
    let order = orders(&desk.press("g g R")).remove(0);
    assert_eq!(
        (order.verb, order.answers),
        (Verb::Resume, Some(stuck.id()))
    );
    assert_eq!(order.id.as_str(), "tui-0000000000000007-1");
}

#[test]
fn a_run_that_has_just_come_or_changed_takes_no_verb_for_250_ms() {
    let stuck = stuck();
    let mut desk = Desk::new(120, 34);
    desk.online();
    desk.settle_in(&[]);
    stuck.happens(&mut desk);
    assert!(orders(&desk.hit("R")).is_empty());
    assert_eq!(desk.notice(), notice::SETTLING);
    desk.draw();
    desk.wait(249);
    desk.draw();
    assert!(orders(&desk.hit("R")).is_empty());
    desk.wait(1);
    desk.draw();
    let run = stuck.run();
    let drift = stuck.drift(9, Severity::Warning, Level::Absorb);
    desk.record([Event::DriftReported { run, drift }]);
    assert!(orders(&desk.hit("R")).is_empty(), "it changed");
    desk.show();
    assert_eq!(orders(&desk.hit("R")).len(), 1);
}

#[test]
fn a_list_that_moves_does_not_move_the_card_of_a_run() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    desk.press("g g");
    let longer = Stuck {
        n: 60,
        ago_s: 4_000,
        agent: "older",
        ..stuck.clone()
    };
    longer.happens(&mut desk);
    desk.show();
    assert_eq!(desk.model.inbox.order[0], ItemId::Escalation(longer.id()));
    let order = orders(&desk.press("R")).remove(0);
    assert_eq!(order.answers, Some(stuck.id()));
}

#[test]
fn pasted_text_answers_nothing() {
    let mut desk = one(stuck());
    desk.press("g g");
    assert!(desk.send(Msg::Paste("RscyR".into())).is_empty());
    assert_eq!(desk.notice(), notice::PASTE);
}

#[test]
fn offline_no_order_leaves_and_the_direction_is_kept() {
    let mut desk = one(stuck());
    desk.press("g g s");
    desk.type_text("Use what you have.");
    desk.offline();
    desk.show();
    assert!(orders(&desk.press("ctrl-s")).is_empty());
    assert_eq!(desk.notice(), notice::OFFLINE);
    desk.press("esc");
    assert!(orders(&desk.press("R")).is_empty());
    assert_eq!(desk.notice(), notice::OFFLINE);
    desk.online();
    desk.show();
    says(&desk, "a direction is kept: s goes on with it");
    let order = orders(&desk.press("s ctrl-s")).remove(0);
    assert_eq!(order.note.raw(), "Use what you have.");
}

#[test]
fn a_direction_is_counted_in_bytes_and_checked_before_it_is_sent() {
    let mut desk = one(stuck());
    assert!(orders(&desk.press("g g s ctrl-s")).is_empty());
    assert_eq!(desk.notice(), "not sent: a steer says where to");
    desk.send(Msg::Paste("é\x1b[2J\u{7}".into()));
    desk.show();
    assert_eq!(
        desk.notice(),
        "2 control or hidden chars left out of what was pasted"
    );
    says(&desk, "5 of 8192 bytes");
    desk.send(Msg::Paste("x".repeat(limits::STEER)));
    desk.show();
    says(&desk, "8197 of 8192 bytes");
    assert!(orders(&desk.press("ctrl-s")).is_empty());
    assert_eq!(
        desk.notice(),
        "not sent: 8197 of 8192 bytes, 5 bytes too many"
    );
    desk.press("backspace backspace backspace backspace backspace");
    assert_eq!(orders(&desk.press("ctrl-s")).len(), 1);
}

#[test]
fn the_first_verb_wins_and_who_was_first_is_said() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    let mine = orders(&desk.press("g g R")).remove(0);
    let theirs = Order {
        id: ControlId::parse("g-1").unwrap(),
        verb: Verb::Cancel,
        ..mine.clone()
    };
    desk.record(taken(&stuck, &theirs, "user:grace"));
    desk.show();
    assert_eq!(
        desk.notice(),
        "the resume was not taken: already cancelled by user:grace at 14:05:01Z"
    );
    says(&desk, "✗ cancelled by user:grace at 14:05:01Z");
    assert!(orders(&desk.press("R")).is_empty());
    assert!(desk.notice().starts_with("already cancelled by user:grace"));
}

#[test]
fn an_answer_that_was_lost_is_the_same_order_again() {
    let mut desk = one(stuck());
    let first = orders(&desk.press("g g R")).remove(0);
    desk.offline();
    desk.online();
    desk.show();
    says(&desk, "resume perhaps not sent");
    let again = orders(&desk.press("R")).remove(0);
    assert_eq!(again, first);
    let refused = Refused {
        word: "not_now".into(),
        message: "its agent\x1b is busy".into(),
        fields: Vec::new(),
    };
    desk.send(Msg::Ordered {
        order: first.id,
        result: Err(SubmitError::Refused(refused)),
    });
    desk.show();
    says(&desk, "not taken: its agent");
    says(&desk, "is busy");
}

#[test]
fn what_stands_in_the_way_is_said_on_the_card() {
    let away = Event::PresenceChanged {
        run: stuck().run(),
        presence: Presence::Away { since: ago(60) },
    };
    let parked = Event::RunParked {
        run: stuck().run(),
        interrupt: InterruptKind::Input,
    };
    let foreign = Stuck {
        source: Source::Goldfive,
        pause: Some(Pause::Holds(Evidence::Inferred)),
        ..stuck()
    };
    let asked = Stuck {
        pause: Some(Pause::Asked),
        ..stuck()
    };
    let sent = asked.moved("ladder-50", step(Stage::Sent, "", ago(12)));
    let abort = Stuck {
        level: Level::Terminate,
        pause: None,
        ..stuck()
    };
    let rows: Vec<(Stuck, Option<Event>, &[&str], bool)> = vec![
        (
            stuck(),
            None,
            &["is paused", "yes: its agent acked the pause at 14:01:49Z"],
            true,
        ),
        (
            stuck(),
            Some(away.clone()),
            &["agent away 1m: an answer waits for it"],
            true,
        ),
        (
            stuck(),
            Some(parked),
            &["an answer meets the next turn"],
            true,
        ),
        (
            asked.clone(),
            None,
            &[
                "is to pause",
                "cannot be paused: its agent does not listen for orders",
            ],
            true,
        ),
        (
            asked,
            Some(sent),
            &["asked 14:01:48Z, not acked yet: no answer for 13s"],
            true,
        ),
        (
            foreign.clone(),
            None,
            &[
                "is probably paused",
                "probably: inferred from what it reported",
                "goldfive's overlay executor does nothing on pause and resume",
            ],
            true,
        ),
        (foreign, Some(away), &[notice::UNREACHABLE], false),
        (
            abort,
            None,
            &["is being aborted", "aborts in 6m", "nobody can answer that"],
            false,
        ),
    ];
    for (stuck, event, words, takes) in rows {
        let mut desk = one(stuck);
        desk.record(event);
        desk.press("g g");
        for words in words {
            says(&desk, words);
        }
        assert_eq!(
            orders(&desk.press("R")).len(),
            usize::from(takes),
            "{words:?}"
        );
    }
}

#[test]
fn an_earlier_answer_that_came_to_nothing_is_said() {
    let stuck = stuck();
    let mut desk = Desk::showing(120, 34, &[]);
    desk.record(stuck.begins());
    let escalation = Escalation {
        after: Some(Undone {
            verb: Verb::Steer,
            by: name("user:grace"),
            detail: "the planner refused".into(),
        }),
        ..stuck.escalation()
    };
    desk.record([Event::EscalationRaised {
        escalation: escalation.into(),
    }]);
    desk.show();
    says(
        &desk,
        "✗ the steer by user:grace came to nothing: the planner refused",
    );
}

#[test]
fn a_person_who_paused_a_run_is_named() {
    let stuck = stuck();
    let mut desk = Desk::showing(120, 34, &[]);
    desk.record(stuck.begins());
    let escalation = Escalation {
        cause: Cause::Paused {
            by: name("user:grace"),
            note: "hands off the archive".into(),
        },
        ..stuck.escalation()
    };
    desk.record([Event::EscalationRaised {
        escalation: escalation.into(),
    }]);
    desk.show();
    says(&desk, "cause paused by user:grace");
    says(&desk, "note hands off the archive");
}

#[test]
fn only_those_who_may_are_offered_the_verbs() {
    let mut desk = one(stuck());
    let me = Me {
        name: name("user:eve"),
        roles: vec![Role::Viewer],
        tenant: Tenant::local(),
    };
    desk.send(Msg::Link(Link::Online {
        me,
        epoch: "e1".into(),
    }));
    desk.press("g g");
    says(&desk, "not yours to answer: not yours: an operator on call");
    says_not(&desk, "R resume");
    for key in ["R", "s", "c", "S"] {
        assert!(orders(&desk.press(key)).is_empty());
        assert!(desk.notice().starts_with("not yours"), "{}", desk.notice());
        desk.wait(1_500);
    }
}

#[test]
fn a_question_is_not_resumed_and_a_run_not_approved() {
    let mut desk = one(stuck());
    desk.press("G R");
    assert_eq!(desk.notice(), notice::NO_RUN);
    desk.press("g g a");
    assert_eq!(desk.notice(), notice::NO_QUESTION);
    assert!(submits(&desk.effects).is_empty());
}

#[test]
fn in_a_list_alone_the_first_press_shows_the_card() {
    let mut desk = desk(80, 24, &[stuck()], |_| {});
    assert!(orders(&desk.press("g g R")).is_empty());
    assert_eq!(desk.notice(), notice::READ_FIRST);
    assert_eq!(orders(&desk.press("R")).len(), 1);
}

#[test]
fn a_run_that_goes_on_is_paused_steered_asked_and_called_off_among_the_runs() {
    let stuck = stuck();
    let mut desk = Desk::showing(120, 34, &[]);
    desk.record_at(ago(900), stuck.begins());
    desk.press("2");
    let order = orders(&desk.press("p")).remove(0);
    assert_eq!((&order.verb, order.answers), (&Verb::Pause, None));
    let refuse = |order: Order| Msg::Ordered {
        order: order.id,
        result: Err(SubmitError::Refused(Refused::default())),
    };
    let mut given = vec![order];
    for (keys, verb) in [("S", Verb::StatusQuery), ("c y", Verb::Cancel)] {
        desk.send(refuse(given.pop().unwrap()));
        desk.show();
        given = orders(&desk.press(keys));
        assert_eq!(given[0].verb, verb);
    }
    desk.send(refuse(given.pop().unwrap()));
    desk.press("s");
    desk.type_text("Hurry.");
    assert_eq!(orders(&desk.press("ctrl-s"))[0].note.raw(), "Hurry.");
}

#[test]
fn what_a_run_says_where_it_is_asked_is_said() {
    let stuck = stuck();
    let goldfive = "status_query control_id=tui-0000000000000007-1 current_task=t4 completed=2/4";
    let long = "one thing after another, ".repeat(40);
    let rows = [
        ((120, 34), "current_task=t4", "acked"),
        ((80, 24), goldfive, "completed=2/4\""),
        ((80, 24), &long, "… │"),
    ];
    for ((width, height), words, shown) in rows {
        let mut desk = Desk::showing(width, height, &[]);
        desk.record_at(ago(900), stuck.begins());
        let order = orders(&desk.press("2 S")).remove(0);
        let control = Control {
            escalation: None,
            ..stuck.order(order.id.as_str(), Verb::StatusQuery, "user:ada", now())
        };
        let said = Event::ControlMoved {
            run: stuck.run(),
            id: order.id,
            escalation: None,
            step: step(Stage::Acked, words, now()),
        };
        desk.record([
            Event::ControlIssued {
                control: control.into(),
            },
            said,
        ]);
        let notice = format!("status research-7: acked {words}");
        assert_eq!(desk.notice(), notice);
        desk.press("f2");
        desk.show();
        assert!(desk.screen().contains(shown), "{}", desk.screen());
        assert!(desk.screen().contains("t5 Write"), "{}", desk.screen());
    }
}

#[test]
fn a_run_that_is_held_is_answered_on_its_card_also_from_the_runs() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    desk.press("2 g g");
    while desk.model.runs.list.selected != Some(stuck.run()) {
        desk.press("j");
    }
    assert!(orders(&desk.press("R")).is_empty());
    assert_eq!(desk.notice(), notice::READ_FIRST);
    says(&desk, "research-7 is paused");
    assert_eq!(orders(&desk.press("R"))[0].answers, Some(stuck.id()));
}

#[test]
fn a_task_is_chosen_to_be_done_again() {
    let stuck = stuck();
    let mut desk = Desk::showing(120, 34, &[]);
    desk.record_at(ago(900), stuck.begins());
    assert!(orders(&desk.press("2 b")).is_empty());
    says(&desk, "task 3 of 4");
    assert!(orders(&desk.press("k enter")).is_empty());
    desk.press("b k");
    let order = orders(&desk.press("y")).remove(0);
    assert_eq!(order.verb, Verb::Rewind { task: "t2".into() });
}

/// The plan with one task more in the front, and with as many left as before.
fn revised(stuck: &Stuck, revision: u32) -> Event {
    let mut begins = stuck.begins();
    let Some(Event::PlanReported { run, plan, cause }) = begins.pop() else {
        unreachable!("a run begins with a plan");
    };
    let mut tasks = plan.tasks;
    tasks[2].state = TaskState::Completed;
    let new = PlanTask {
        id: format!("t0{revision}").into(),
        title: "Ask the archive".into(),
        state: TaskState::Pending,
    };
    tasks.insert(0, new);
    let plan = Plan {
        revision,
        tasks,
        ..plan
    };
    Event::PlanReported { run, plan, cause }
}

#[test]
fn what_is_asked_once_more_is_withdrawn_where_the_plan_changes() {
    let stuck = stuck();
    for keys in ["g g b k", "g g c"] {
        let mut desk = one(stuck.clone());
        desk.press(keys);
        assert!(desk.drawn.confirming, "{keys}");
        desk.record([revised(&stuck, 3)]);
        assert_eq!(desk.notice(), notice::WITHDRAWN, "{keys}");
        assert!(orders(&desk.hit("y")).is_empty(), "{keys}");
        assert_eq!(desk.notice(), notice::WITHDRAWN, "{keys}");
        desk.show();
        assert!(!desk.drawn.confirming, "{keys}");
        assert!(orders(&desk.press("y")).is_empty(), "{keys}");
    }
}

#[test]
fn an_ack_alone_of_a_foreign_agent_is_no_pause() {
    let foreign = Stuck {
        source: Source::Goldfive,
        ..stuck()
    };
    let mut desk = one(foreign);
    desk.press("g g");
    says(&desk, "1 paused? · 5 waiting");
    says(&desk, "‖ paused? research-7");
    says(&desk, "research-7 is probably paused");
    says(&desk, "its agent acked the pause; in some executors that");
}

#[test]
fn what_is_held_is_counted_by_how_far_it_stands_still() {
    let aborted = Stuck {
        n: 52,
        level: Level::Terminate,
        ..stuck()
    };
    let mut desk = desk(120, 34, &[two(), vec![aborted]].concat(), |_| {});
    says(&desk, "1 paused · 1 pausing · 1 aborting · 5 waiting");
    desk.resize(60, 24);
    desk.show();
    says(&desk, "3 held · 5 waiting");
}

#[test]
fn what_a_held_run_says_stays_on_its_card() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    let order = orders(&desk.press("g g S")).remove(0);
    let control = stuck.order(order.id.as_str(), Verb::StatusQuery, "user:ada", now());
    let acked = step(Stage::Acked, "current_task=t4", now());
    let control = control.into();
    desk.record([
        Event::ControlIssued { control },
        stuck.moved(order.id.as_str(), acked),
    ]);
    desk.show();
    desk.press("k");
    says(&desk, "told status acked");
    says(&desk, "current_task=t4");
}

#[test]
fn what_is_held_comes_first_among_the_runs_and_then_what_moved_last() {
    let of = |n, ago_s| Stuck {
        n,
        ago_s,
        ..stuck()
    };
    let (held, drifted, still) = (of(50, 500), of(51, 300), of(52, 300));
    let mut desk = Desk::showing(120, 34, &[]);
    held.happens(&mut desk);
    desk.record_at(ago(900), drifted.begins());
    desk.record_at(ago(800), still.begins());
    let run = drifted.run();
    let drift = drifted.drift(1, Severity::Info, Level::Observe);
    desk.record_at(ago(300), [Event::DriftReported { run, drift }]);
    desk.press("2");
    let order = [held.run(), drifted.run(), still.run()];
    assert_eq!(desk.model.runs.list.order, order);
}

/// Among the runs, with a record that begins now.
fn beginning(stuck: &Stuck) -> Desk {
    let mut desk = Desk::showing(120, 34, &[]);
    desk.record_at(ago(900), stuck.begins());
    desk.press("2");
    let id = stuck.run();
    let record = Ok(Vec::new());
    desk.send(Msg::RunRecord { id, record });
    desk.record_at(ago(600), [stuck.begins().remove(1)]);
    desk
}

#[test]
fn lanes_stand_still_when_the_run_does_not_when_it_is_told_to() {
    let stuck = stuck();
    let mut desk = beginning(&stuck);
    let run = stuck.run();
    let asked = Some(Pause::Asked);
    desk.record_at(ago(400), [Event::PauseMoved { run, pause: asked }]);
    desk.show();
    says_not(&desk, "‖ paused");
    let pause = Some(Pause::Holds(Evidence::Acked));
    desk.record_at(ago(300), [Event::PauseMoved { run, pause }]);
    desk.show();
    says(&desk, "‖ paused");
}

#[test]
fn a_run_that_is_not_known_any_more_leaves_the_card_of_what_held_it() {
    let stuck = stuck();
    for (width, height) in [(120, 34), (80, 24)] {
        let mut desk = Desk::new(width, height);
        desk.settle_in(&[]);
        desk.press("3");
        let mut control = stuck.order("tui-9", Verb::Steer, "user:grace", ago(90_000));
        control.note = "Use two sources.".into();
        control.steps = vec![step(Stage::Sent, "", ago(90_000))];
        let closed = Closed {
            escalation: stuck.escalation().into(),
            how: How::Answered {
                verb: Verb::Steer,
                by: name("user:grace"),
                note: control.note.clone(),
            },
            at: ago(90_000),
            seq: 7,
            control: Some(control),
        };
        desk.send(Msg::History {
            before: None,
            page: Ok((vec![Ended::Escalation(closed)], None)),
        });
        desk.show();
        desk.press("enter");
        says(&desk, "research-7 was paused");
        says(&desk, "LOOPING_TOOL_CALL");
        says(&desk, "\"Use two sources.\"");
        says(&desk, "steer sent");
        for keys in ["w", "w", "j", "R", "s", "c", "b"] {
            assert!(orders(&desk.press(keys)).is_empty(), "{keys}");
            says(&desk, "its run ended long ago");
        }
    }
}

#[test]
fn a_run_that_comes_to_stand_still_rings_and_is_counted_in_the_title() {
    let mut desk = Desk::showing(120, 34, &[ask(1, "Deploy")]);
    desk.wait(31_000);
    desk.effects.clear();
    stuck().happens(&mut desk);
    assert!(desk.effects.contains(&Effect::Bell));
    let titled =
        |effect: &Effect| matches!(effect, Effect::Title(title) if title.starts_with("(2)"));
    assert!(desk.effects.iter().any(titled));
    desk.show();
    says(&desk, "1 paused · 1 waiting");
}

#[test]
fn a_run_that_ends_lets_go_of_its_card() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    desk.press("g g s");
    desk.type_text("Too late.");
    desk.record([
        Event::EscalationClosed {
            id: stuck.id(),
            how: How::RunEnded(End::Completed),
        },
        Event::RunEnded {
            run: stuck.run(),
            end: End::Completed,
            reason: nothing(),
        },
    ]);
    desk.show();
    assert!(orders(&desk.press("ctrl-s")).is_empty());
    assert!(
        desk.notice().starts_with("already over at"),
        "{}",
        desk.notice()
    );
    says(&desk, "Too late.");
}

#[test]
fn nothing_of_a_run_that_stands_still_reaches_the_terminal_as_it_came() {
    let evil = Stuck {
        agent: HOSTILE,
        kind: HOSTILE,
        detail: HOSTILE,
        ..stuck()
    };
    let task = Event::TaskReported {
        run: evil.run(),
        task: HOSTILE.into(),
        title: format!("{HOSTILE} title").into(),
        state: TaskState::Running,
        detail: HOSTILE.into(),
    };
    for (width, height) in [(120, 60), (80, 24), (40, 10)] {
        let mut desk = desk(width, height, std::slice::from_ref(&evil), |_| {});
        desk.record([task.clone()]);
        for keys in [
            "g g", "enter", "w", "G", "w", "c", "esc", "b", "j", "esc", "s",
        ] {
            desk.press(keys);
            check(&desk);
        }
        desk.send(Msg::Paste(HOSTILE.into()));
        desk.type_text("\u{9b}\u{202e}Go on.");
        check(&desk);
        let order = orders(&desk.press("ctrl-s")).remove(0);
        assert!(!order.note.raw().contains(|c: char| c < ' ' && c != '\n'));
        let result = Err(SubmitError::NotSent(HOSTILE.into()));
        desk.send(Msg::Ordered {
            order: order.id.clone(),
            result,
        });
        desk.show();
        check(&desk);
        let order = Order {
            note: HOSTILE.into(),
            ..order
        };
        desk.record(taken(&evil, &order, "user:ada"));
        let id = order.id.as_str();
        desk.record([evil.moved(id, step(Stage::Failed, HOSTILE, now()))]);
        for keys in ["j", "k", "2", "enter", "esc"] {
            desk.press(keys);
            check(&desk);
        }
    }
}

/// One key of a hand that does not know what it does.
fn some_key(dice: &mut Dice) -> Key {
    let often = "RRRssccwSbyynjjkkgGq?x";
    match dice.roll(8) {
        0 => Key::plain(Code::Enter),
        1 => Key::plain(Code::Esc),
        2 => Key::ctrl('s'),
        _ => {
            let at = usize::try_from(dice.roll(often.len() as u64)).unwrap();
            Key::char(often.chars().nth(at).unwrap())
        }
    }
}

fn something_happens(dice: &mut Dice, desk: &mut Desk, all: &[Stuck], n: u32) {
    let some = &all[usize::try_from(dice.roll(all.len() as u64)).unwrap()];
    let run = some.run();
    match dice.roll(14) {
        12..14 => desk.record([revised(some, 3 + n % 5)]),
        0 => {
            let drift = some.drift(100 + n, Severity::Warning, Level::Absorb);
            desk.record([Event::DriftReported { run, drift }]);
        }
        1 => {
            let order = Order {
                id: ControlId::parse(&format!("g-{n}")).unwrap(),
                run,
                verb: Verb::Resume,
                note: nothing(),
                answers: Some(some.id()),
            };
            desk.record(taken(some, &order, "user:grace"));
        }
        2 => {
            let presence = Presence::Away { since: now() };
            desk.record([Event::PresenceChanged { run, presence }]);
        }
        3 => desk.offline(),
        4 => {
            let sizes = [(120, 34), (80, 24), (40, 10)];
            let (width, height) = sizes[usize::try_from(dice.roll(3)).unwrap()];
            desk.resize(width, height);
        }
        5 => {
            if let Some(order) = orders(&desk.effects).pop() {
                let result = Err(SubmitError::NotSent("timeout".into()));
                let order = order.id;
                desk.send(Msg::Ordered { order, result });
            }
        }
        _ => desk.online(),
    }
}

#[test]
fn no_sequence_orders_what_was_not_on_the_screen() {
    let all: Vec<Stuck> = (0..4)
        .map(|n| Stuck {
            n: 50 + n,
            ago_s: 100 + i64::try_from(n).unwrap(),
            ..stuck()
        })
        .collect();
    let (mut given, mut sure, mut again) = (0, 0, 0);
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut desk = desk(120, 34, &all[..2], |_| {});
        desk.press("g g");
        let before = desk.at - Duration::from_millis(300);
        let first = desk.drawn.run.map(|run| (run.face, desk.drawn.confirming));
        let mut shown = first.map(|first| (first, before));
        let (mut ids, mut chosen) = (Vec::new(), None);
        for n in 0..200 {
            let effects = match dice.roll(20) {
                0..10 => {
                    let yes = desk.drawn.confirming && dice.roll(2) == 0;
                    let key = some_key(&mut dice);
                    let effects = desk.send(Msg::Key(if yes { Key::char('y') } else { key }));
                    // By the hand alone, whatever is recorded meanwhile.
                    if let Some(Front::Again { task, .. }) = &desk.model.front {
                        chosen = Some(task.clone());
                    }
                    effects
                }
                10 => desk.send(Msg::Paste("RyRcy".into())),
                11..15 => {
                    desk.draw();
                    let now = desk.drawn.run.map(|run| (run.face, desk.drawn.confirming));
                    let since = shown.filter(|(before, _)| Some(*before) == now);
                    shown = now.map(|now| (now, since.map_or(desk.at, |(_, since)| since)));
                    Vec::new()
                }
                15..18 => {
                    desk.at += Duration::from_millis(dice.roll(400));
                    desk.send(Msg::Tick)
                }
                18 if n == 50 => {
                    all[2..].iter().for_each(|stuck| stuck.happens(&mut desk));
                    Vec::new()
                }
                _ => {
                    something_happens(&mut dice, &mut desk, &all, n);
                    Vec::new()
                }
            };
            for order in orders(&effects) {
                let ((face, confirming), since) = shown.expect("a run was drawn");
                assert!(desk.model.is_online(), "seed {seed}");
                assert_eq!(order.run, face.run, "seed {seed}");
                assert_eq!(order.answers, face.held.filter(|_| order.verb.answers()));
                assert!(desk.at - since >= Duration::from_millis(250), "seed {seed}");
                let asks = matches!(order.verb, Verb::Cancel | Verb::Rewind { .. });
                assert!(
                    !asks || confirming || ids.contains(&order.id),
                    "seed {seed}"
                );
                if let Verb::Rewind { task } = &order.verb {
                    assert!(chosen.as_ref() == Some(task) || ids.contains(&order.id));
                    again += 1;
                }
                ids.push(order.id);
                given += 1;
                sure += usize::from(asks && confirming);
            }
        }
    }
    assert!(
        given > 30 && sure > 0 && again > 0,
        "now and then: {given}, {sure}, {again}"
    );
}

#[test]
fn what_held_the_run_before_stands_on_the_card() {
    let stuck = stuck();
    let mut desk = one(stuck.clone());
    let mut next = stuck.escalation();
    next.id = EscalationId::mint(ago(60), 77);
    next.also = vec![Cause::Paused {
        by: registry::Name::parse("user:grace").unwrap(),
        note: "lunch".into(),
    }];
    let by = next.id;
    desk.record([
        Event::EscalationClosed {
            id: stuck.id(),
            how: How::Superseded { by },
        },
        Event::EscalationRaised {
            escalation: next.into(),
        },
    ]);
    desk.press("g g");
    desk.show();
    says(&desk, "paused by user:grace: lunch");
}
