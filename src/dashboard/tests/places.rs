//! The runs, the history, the palette, and the keys between them.

use std::sync::Arc;

use registry::{
    Event, ItemId, Role, RunId, Settled, State, Tenant, Untrusted,
    approval::{
        Applied, AppliedResult, Decision, Delivery, DeliveryState, Outcome, Risk, Seen, Verdict,
        Why,
    },
    escalation::Ended,
    form::{Answer, Answers},
    names::{ControlId, DecisionId},
    run::{End, InterruptKind, Plan, PlanTask, Presence, RunKey, Source, TaskState},
    who::Decider,
};

use super::desk::*;
use crate::dashboard::{
    Effect, Link, Me, Msg, Theme,
    actions::{Action, Context},
    model::{Front, Hand, Screen},
    words::notice,
};

const MINUTE: i64 = 60;

fn run_id(n: u128) -> RunId {
    RunId::mint(ago(20 * MINUTE), 100 + n)
}

fn key(agent: &str, invocation: &str) -> RunKey {
    RunKey {
        tenant: Tenant::local(),
        source: Source::Goldfive,
        agent: agent.into(),
        session: "demo1".into(),
        invocation: invocation.into(),
    }
}

fn task(id: &str, title: &str) -> PlanTask {
    PlanTask {
        id: id.into(),
        title: title.into(),
        state: TaskState::Pending,
    }
}

fn plan(run: RunId, tasks: &[(&str, &str)]) -> Event {
    Event::PlanReported {
        run,
        plan: Plan {
            revision: 2,
            summary: Untrusted::default(),
            tasks: tasks.iter().map(|(id, title)| task(id, title)).collect(),
        },
        cause: Untrusted::default(),
    }
}

fn moved(run: RunId, task: &str, state: TaskState) -> Event {
    Event::TaskReported {
        run,
        task: task.into(),
        title: Untrusted::default(),
        state,
        detail: Untrusted::default(),
    }
}

fn blocked() -> TaskState {
    TaskState::Blocked {
        blocker: "awaiting_approval".into(),
        needed: "ok?".into(),
    }
}

/// A run in the middle of its plan, one that asks, one that is parked, one whose agent is away, and two that ended.
fn at_work(desk: &mut Desk) {
    use TaskState::{Cancelled, Completed, Failed, NotNeeded, Running};
    let research = run_id(1);
    let tasks = [
        ("t1", "Understand the question"),
        ("t2", "Find the archives"),
        ("t3", "Ask for access"),
        ("t4", "Collect sources"),
        ("t5", "Write the summary"),
        ("t6", "Translate it"),
    ];
    let story: [(i64, Event); 13] = [
        (
            1_200,
            begun(research, key("research-7", "7c21"), ago(1_200)),
        ),
        (1_190, plan(research, &tasks)),
        (1_180, moved(research, "t1", Running)),
        (1_000, moved(research, "t1", Completed)),
        (1_000, moved(research, "t2", Running)),
        (800, moved(research, "t2", Failed)),
        (780, moved(research, "t3", Running)),
        (760, moved(research, "t3", blocked())),
        (400, moved(research, "t3", Cancelled)),
        (390, moved(research, "t4", Running)),
        (300, moved(research, "t4", blocked())),
        (90, moved(research, "t4", Running)),
        (60, moved(research, "t6", NotNeeded)),
    ];
    for (seconds, event) in story {
        desk.record_at(ago(seconds), [event]);
    }
    let (parked, away, done, stopped) = (run_id(2), run_id(3), run_id(4), run_id(5));
    desk.record_at(
        ago(900),
        [
            begun(parked, key("etl-nightly", "n-0412"), ago(900)),
            begun(away, key("scout", "s-9"), ago(800)),
            begun(done, key("logbook", "l-1"), ago(700)),
            begun(stopped, key("crm \u{202e}bot", "c-77"), ago(600)),
            moved(stopped, "send", Running),
        ],
    );
    let since = ago(120);
    desk.record_at(
        ago(120),
        [
            Event::RunParked {
                run: parked,
                interrupt: InterruptKind::Approval,
            },
            Event::PresenceChanged {
                run: away,
                presence: Presence::Away { since },
            },
            Event::RunEnded {
                run: done,
                end: End::Completed,
                reason: Untrusted::default(),
            },
            Event::RunEnded {
                run: stopped,
                end: End::Aborted,
                reason: Untrusted::default(),
            },
        ],
    );
}

fn busy(width: u16, height: u16, change: impl FnOnce(&mut crate::dashboard::Setup)) -> Desk {
    let mut desk = Desk::with(width, height, change);
    desk.online();
    desk.send(Msg::Snapshot {
        state: State::default(),
        server_now: now(),
    });
    at_work(&mut desk);
    desk.file(&[wire_transfer()]);
    desk.show();
    desk
}

fn lived(width: u16, height: u16, change: impl FnOnce(&mut crate::dashboard::Setup)) -> Desk {
    let mut desk = Desk::with(width, height, change);
    desk.settle_in(&full_inbox());
    let asks = full_inbox();
    let id = |text: &str| DecisionId::parse(text).unwrap();
    let answers = [
        ("cost_centre".to_owned(), Answer::Integer(4711)),
        ("vis".to_owned(), Answer::Text("internal".into())),
    ];
    let granted = Decision {
        id: id("g-1"),
        decider: Decider {
            by: name("user:ada"),
            on_behalf_of: None,
        },
        answers: Answers::written(answers),
        note: Untrusted::default(),
        seen: Seen::Whole,
    };
    let rejected = Decision {
        id: id("g-2"),
        decider: Decider {
            by: name("backend:crm"),
            on_behalf_of: Some(name("user:grace")),
        },
        answers: Answers::default(),
        note: "not on the prod box".into(),
        seen: Seen::Whole,
    };
    let at = ago(30);
    let steps = [
        (3_600, Event::ApprovalExpired { id: asks[4].id() }),
        (
            600,
            Event::ApprovalRejected {
                id: asks[3].id(),
                decision: rejected,
            },
        ),
        (
            500,
            Event::ApprovalWithdrawn {
                id: asks[2].id(),
                why: Why::Agent {
                    reason: "no longer".into(),
                },
            },
        ),
        (
            60,
            Event::ApprovalGranted {
                id: asks[0].id(),
                decision: granted,
            },
        ),
        (
            30,
            Event::DecisionApplied {
                id: asks[0].id(),
                applied: Applied {
                    result: AppliedResult::Done,
                    detail: "paid 1250.00".into(),
                    at,
                },
            },
        ),
        (
            29,
            Event::DeliveryMoved {
                id: asks[3].id(),
                delivery: Delivery {
                    control: ControlId::parse("c-1").unwrap(),
                    state: DeliveryState::Confirmed,
                    detail: Untrusted::default(),
                    at,
                },
            },
        ),
    ];
    for (seconds, event) in steps {
        desk.record_at(ago(seconds), [event]);
    }
    desk.show();
    desk
}

/// What ended yesterday and before, as a server sends it.
fn long_ago(n: u64) -> Settled {
    let asked = ask(u128::from(n) + 50, &format!("Older {n}"));
    Settled {
        approval: Arc::new(asked.approval()),
        joined: Vec::new(),
        deadline: None,
        outcome: Outcome::Expired,
        at: ago(86_400 + i64::try_from(n).unwrap()),
        seq: 1_000 - n,
        delivery: None,
        claim: None,
        votes: vec![],
        applied: None,
    }
}

fn fetches(effects: &[Effect]) -> Vec<Effect> {
    let fetch =
        |effect: &&Effect| matches!(effect, Effect::FetchRun(_) | Effect::FetchHistory { .. });
    effects.iter().filter(fetch).cloned().collect()
}

macro_rules! screen {
    ($name:ident, $at:ident, $size:expr, $keys:expr) => {
        screen!($name, $at, $size, |_| {}, $keys);
    };
    ($name:ident, $at:ident, $size:expr, $change:expr, $keys:expr) => {
        #[test]
        fn $name() {
            let (width, height) = $size;
            let mut desk = $at(width, height, $change);
            desk.press($keys);
            insta::assert_snapshot!(stringify!($name), desk.screen());
        }
    };
}

screen!(runs, busy, (120, 34), "2");
screen!(runs_80, busy, (80, 24), "2");
screen!(runs_40, busy, (40, 10), "2 j");
screen!(run_zoomed_80, busy, (80, 24), "2 enter");
screen!(runs_ascii, busy, (80, 24), |setup| setup.ascii = true, "2");
screen!(run_asking, busy, (80, 24), "2 j j");
screen!(run_stopped, busy, (120, 24), "2 G k");
screen!(history, lived, (120, 34), "3 j");
screen!(history_80, lived, (80, 24), "3 j");
screen!(
    history_ascii,
    lived,
    (80, 24),
    |setup| setup.ascii = true,
    "3"
);
screen!(history_card_80, lived, (80, 24), "3 enter");
screen!(palette, lived, (120, 34), ":");
screen!(palette_found, lived, (80, 24), ": s c r e e n down");
screen!(
    palette_ascii,
    busy,
    (80, 24),
    |setup| setup.ascii = true,
    "2 :"
);
screen!(which_key_80, lived, (80, 24), "g");

#[test]
fn keys_go_from_screen_to_screen() {
    let rows = [
        ("2", Screen::Runs),
        ("3", Screen::History),
        ("1", Screen::Inbox),
        ("tab", Screen::Runs),
        ("tab tab", Screen::Inbox),
        ("shift-tab", Screen::History),
        ("shift-tab esc", Screen::Inbox),
        ("2 ? 3", Screen::History),
        ("esc j enter 2 1", Screen::Inbox),
    ];
    for width in [120, 60] {
        let mut desk = busy(width, 30, |_| {});
        for (keys, screen) in rows {
            desk.press(keys);
            assert_eq!(
                (desk.model.screen, desk.model.hand),
                (screen, Hand::List),
                "{keys}"
            );
        }
    }
}

#[test]
fn the_inbox_is_found_as_it_was_left() {
    let mut desk = Desk::showing(120, 34, &full_inbox());
    desk.press("j j v");
    let open = desk.model.open();
    desk.press("2 3 1");
    assert_eq!(desk.model.open(), open);
    assert_eq!(
        ItemId::Approval(desk.drawn.card.as_ref().unwrap().face.id),
        open.unwrap().id
    );
    assert_eq!(submits(&desk.press("x")).len(), 1);
}

#[test]
fn no_key_decides_where_no_card_is() {
    let mut desk = Desk::showing(120, 34, &full_inbox());
    for keys in ["2", "enter", "esc", "3", "enter"] {
        desk.press(keys);
        for key in ["a", "x", "A", "y"] {
            assert_eq!(submits(&desk.press(key)), [], "{keys} {key}");
        }
    }
}

#[test]
fn a_record_is_fetched_once_and_goes_on_by_itself() {
    let mut desk = busy(120, 34, |_| {});
    let asked = desk.press("2 j k");
    let fetched = fetches(&asked);
    assert_eq!(fetched.len(), 2, "{fetched:?}");
    let lane = |desk: &Desk, title: &str| {
        let screen = desk.screen();
        let row = screen.lines().find(|row| row.contains(title));
        row.unwrap_or_default().to_owned()
    };
    assert!(
        lane(&desk, "Collect sources").contains("━ running"),
        "{}",
        desk.screen()
    );
    desk.record([moved(run_id(1), "t4", TaskState::Completed)]);
    desk.show();
    assert!(
        lane(&desk, "Collect sources").contains("✓ done"),
        "{}",
        desk.screen()
    );
    assert_eq!(fetches(&desk.effects).len(), 2);
}

#[test]
fn what_is_recorded_while_the_record_is_fetched_is_not_lost() {
    let mut desk = busy(120, 34, |_| {});
    desk.answers = false;
    desk.press("2");
    assert!(desk.screen().contains("fetching…"), "{}", desk.screen());
    let id = desk.model.runs.list.selected.unwrap();
    assert_eq!(id, run_id(1));
    desk.record([moved(id, "t9", TaskState::Running)]);
    desk.send(Msg::RunRecord {
        id,
        record: Ok(Vec::new()),
    });
    desk.show();
    assert!(desk.screen().contains("t9"), "{}", desk.screen());
}

#[test]
fn a_record_that_did_not_come_is_said_and_asked_for_again() {
    let mut desk = busy(120, 34, |_| {});
    desk.answers = false;
    let asked = fetches(&desk.press("2"));
    let [Effect::FetchRun(id)] = asked[..] else {
        panic!("{asked:?}")
    };
    desk.send(Msg::RunRecord {
        id,
        record: Err("gone \u{1b}[31m".into()),
    });
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("could not be fetched (r again): gone ␛[31m"),
        "{screen}"
    );
    assert_eq!(fetches(&desk.press("r")), asked);
    // A new connection knows nothing of what the old one was asked.
    desk.offline();
    desk.effects.clear();
    desk.online();
    assert_eq!(fetches(&desk.effects), asked);
}

#[test]
fn runs_that_go_on_come_first_and_the_selection_stays_with_its_run() {
    let mut desk = busy(120, 34, |_| {});
    desk.press("2");
    let agents = |desk: &Desk| -> Vec<String> {
        let state = &desk.model.state;
        let order = desk.model.runs.list.order.iter();
        order
            .map(|id| state.run(*id).unwrap().key.agent.line().to_string())
            .collect()
    };
    assert_eq!(agents(&desk)[..2], ["research-7", "scout"]);
    assert_eq!(agents(&desk)[4..], ["crm ‹U+202E›bot", "logbook"]);
    desk.press("j");
    let selected = desk.model.runs.list.selected;
    desk.record([moved(run_id(2), "t1", TaskState::Running)]);
    desk.show();
    assert_eq!(agents(&desk)[0], "etl-nightly");
    assert_eq!(desk.model.runs.list.selected, selected);
}

#[test]
fn many_lanes_are_scrolled() {
    let mut desk = busy(80, 24, |_| {});
    let many: Vec<String> = (10..60).map(|n| format!("x{n}")).collect();
    let tasks: Vec<(&str, &str)> = many.iter().map(|id| (id.as_str(), "")).collect();
    desk.record([plan(run_id(1), &tasks)]);
    desk.press("2");
    assert!(desk.screen().contains("more ↓"), "{}", desk.screen());
    desk.press("enter G");
    let screen = desk.screen();
    assert!(
        screen.contains("x59") && !screen.contains("more ↓"),
        "{screen}"
    );
    desk.press("g g");
    assert!(desk.screen().contains("t1 Understand"), "{}", desk.screen());
}

#[test]
fn what_is_older_is_fetched_when_the_hand_gets_there() {
    let mut desk = lived(120, 34, |_| {});
    let oldest = desk
        .model
        .state
        .all_settled()
        .map(|settled| settled.seq)
        .min();
    assert_eq!(fetches(&desk.press("3 j")), []);
    assert!(desk.screen().contains("older ↓"), "{}", desk.screen());
    let asked = fetches(&desk.press("G"));
    assert_eq!(asked, [Effect::FetchHistory { before: oldest }]);
    assert_eq!(fetches(&desk.press("k j")), [], "not twice");
    let known = desk.model.state.all_settled().next().unwrap();
    let mut page: Vec<Settled> = (990..1_000).map(long_ago).collect();
    let overlap = Settled::clone(known);
    page.push(overlap);
    desk.send(Msg::History {
        before: oldest,
        page: Ok((page.into_iter().map(Ended::Approval).collect(), Some(1))),
    });
    desk.show();
    assert_eq!(desk.model.past.list.order.len(), 4 + 10, "nothing twice");
    let before = Some(1);
    assert_eq!(fetches(&desk.press("G")), [Effect::FetchHistory { before }]);
    desk.send(Msg::History {
        before,
        page: Err("gone".into()),
    });
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("could not be fetched (r again): gone"),
        "{screen}"
    );
    assert_eq!(fetches(&desk.press("r")), [Effect::FetchHistory { before }]);
    desk.send(Msg::History {
        before,
        page: Ok((Vec::new(), None)),
    });
    desk.show();
    assert!(!desk.screen().contains("older"), "{}", desk.screen());
    assert_eq!(fetches(&desk.press("g g G")), []);
}

#[test]
fn what_ended_long_ago_is_opened_like_anything_else() {
    let mut desk = Desk::new(80, 24);
    desk.settle_in(&[]);
    let asked = fetches(&desk.press("3"));
    assert_eq!(asked, [Effect::FetchHistory { before: None }]);
    let settled = long_ago(1);
    let id = settled.approval.id;
    let old = ask(51, "Older 1");
    desk.know(&old);
    desk.send(Msg::History {
        before: None,
        page: Ok((vec![Ended::Approval(settled)], None)),
    });
    desk.show();
    let opened = desk.press("enter");
    assert!(opened.contains(&Effect::FetchDetail(id)), "{opened:?}");
    let screen = desk.screen();
    assert!(screen.contains("⌛ expired at"), "{screen}");
    assert!(screen.contains("May I?"), "{screen}");
    // What happens elsewhere does not take it away.
    desk.file(&[ask(1, "Deploy")]);
    desk.show();
    assert!(desk.screen().contains("May I?"), "{}", desk.screen());
    desk.press("a");
    assert!(
        desk.notice().starts_with("already expired"),
        "{}",
        desk.notice()
    );
    desk.press("esc esc");
    assert_eq!(desk.model.screen, Screen::Inbox);
}

#[test]
fn what_ends_now_appears_in_the_history_and_moves_nothing() {
    let mut desk = lived(120, 34, |_| {});
    desk.press("3 j");
    let selected = desk.model.past.list.selected;
    let asks = full_inbox();
    let decision = DecisionId::parse("g-9").unwrap();
    desk.record([decided(&asks[1], Verdict::Approve, "user:grace", decision)]);
    desk.show();
    assert_eq!(desk.model.past.list.order.len(), 5);
    assert_eq!(desk.model.past.list.selected, selected);
    assert!(desk.screen().contains("by user:grace"), "{}", desk.screen());
}

#[test]
fn the_palette_does_what_its_key_would() {
    // What was typed, what came of it.
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.press(":");
    desk.type_text("repl");
    desk.press("esc");
    assert_eq!(desk.model.front, None);
    desk.press(":");
    desk.type_text("hist");
    desk.press("enter");
    assert_eq!(desk.model.screen, Screen::History);
    desk.press(": i n b enter");
    assert_eq!(desk.model.screen, Screen::Inbox);
    // What lets an agent do something has to stand there as a whole word.
    assert_eq!(submits(&desk.press(": a p enter")), []);
    assert!(desk.screen().contains(":approve"), "{}", desk.screen());
    assert_eq!(submits(&desk.press("enter")).len(), 1);
    desk.press(": z z z enter");
    assert!(matches!(desk.model.front, Some(Front::Palette(_))));
    assert_eq!(desk.notice(), "no command is called so here");
    desk.press("backspace backspace backspace");
    assert!(matches!(desk.model.front, Some(Front::Palette(_))));
    desk.press("backspace");
    assert_eq!(desk.model.front, None);
    // Pasted text is no command.
    desk.press(":");
    desk.send(Msg::Paste("quit\n".into()));
    assert_eq!(desk.notice(), notice::PASTE);
}

/// The card has to be readable and to have stood there, as for the key.
#[test]
fn the_palette_decides_nothing_that_its_key_would_not() {
    let long: Vec<String> = (0..60).map(|n| format!("line {n}")).collect();
    let asked = Ask {
        prompt: long.join("\n"),
        ..ask(1, "Read me")
    };
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    assert_eq!(submits(&desk.press(": a p enter enter")), []);
    assert!(desk.notice().contains("unseen"), "{}", desk.notice());
    let risky = Ask {
        risk: Risk::High,
        ..ask(2, "Bash")
    };
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&risky));
    assert_eq!(submits(&desk.press(": a p enter enter")), []);
    assert_eq!(desk.model.context(), Context::Confirm);
    // A card that changed under the palette has just changed.
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.press(": a p p r o v e");
    desk.record([Event::DeadlineExtended {
        id: asked.id(),
        deadline: ago(-600),
        by: name("user:grace"),
    }]);
    assert_eq!(submits(&desk.hit("enter")), []);
    assert_eq!(desk.notice(), notice::SETTLING);
}

#[test]
fn only_what_is_possible_is_offered() {
    let offered = |desk: &Desk| desk.model.offered().collect::<Vec<_>>();
    let mut desk = Desk::showing(120, 34, &[ask(1, "Deploy")]);
    let here = offered(&desk);
    assert!(here.contains(&Action::Approve) && here.contains(&Action::ShowRuns));
    for not in [
        Action::EditForm,
        Action::RetryNow,
        Action::Confirm,
        Action::Command,
    ] {
        assert!(!here.contains(&not), "{not:?}");
    }
    desk.press("2");
    let here = offered(&desk);
    assert!(
        !here.contains(&Action::Approve) && here.contains(&Action::Back),
        "{here:?}"
    );
    let mut desk = Desk::showing(120, 34, &[]);
    desk.press("j");
    let here = offered(&desk);
    assert!(
        !here.contains(&Action::Open) && !here.contains(&Action::Next),
        "{here:?}"
    );
}

#[test]
fn who_may_not_answer_is_told_who_may() {
    let mut desk = Desk::showing(120, 34, &[wire_transfer(), ask(2, "Deploy")]);
    desk.send(Msg::Link(Link::Online {
        me: Me {
            name: name("user:bob"),
            roles: vec![Role::Operator],
            tenant: Tenant::local(),
        },
        epoch: "e1".into(),
    }));
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("an admin of the tenant decides this one"),
        "{screen}"
    );
    assert!(!screen.contains("a approve"), "{screen}");
    desk.press("j");
    let screen = desk.screen();
    assert!(screen.contains("a approve"), "{screen}");
}

#[test]
fn a_sequence_that_has_begun_says_how_it_goes_on() {
    for keys in ["", "2", "3"] {
        let mut desk = busy(120, 34, |setup| setup.theme = Theme::Mono);
        desk.press(keys);
        desk.press("g");
        let footer = |desk: &Desk| desk.screen().lines().last().unwrap_or_default().to_owned();
        assert!(
            footer(&desk).contains("g…  g go to the top  esc leave"),
            "{}",
            footer(&desk)
        );
        desk.press("esc");
        assert!(
            !footer(&desk).contains("go to the top"),
            "{}",
            footer(&desk)
        );
        assert_eq!(desk.model.typed, []);
    }
}

#[test]
fn ids_are_copied_from_every_list() {
    let mut desk = busy(120, 34, |_| {});
    let copied = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Copy(text) => Some(text.clone()),
            _ => None,
        })
    };
    let id = wire_transfer().id();
    assert_eq!(copied(&desk.press("y")), Some(id.to_string()));
    let first = desk.press("2 y");
    let selected = desk.model.runs.list.selected.unwrap();
    assert_eq!(copied(&first), Some(selected.to_string()));
    assert_eq!(copied(&desk.press("3 y")), None);
}
