//! Cases C01, C03, C07, C14: what others wrote never drives the terminal, and no size breaks the picture.

use ratatui::style::Modifier;
use registry::{
    Event, Untrusted,
    approval::{Applied, AppliedResult, Attempt, Delivery, DeliveryState, Verdict, Why},
    form::{Answer, Answers},
    names::{ControlId, DecisionId},
    run::{Source, TaskState},
};

use super::desk::*;
use crate::dashboard::{Link, Msg, SubmitError, Theme, lines::columns, msg::Refused};

pub(super) const HOSTILE: &str = "A\x1b[2J\x1b]0;x\x07\x1b]52;c;QUJD\x07\u{9b}31m\rB\x08\x7f\u{85}C\u{202e}\u{2066}\u{200b}\u{e0041}\u{3164}\u{fe0f}\u{ad}";

fn hostile() -> Ask {
    let json = serde_json::to_string(HOSTILE).unwrap();
    let form: &'static str = Box::leak(
        format!(
            r#"[{{"name":"f","label":{json},"help":{json},"kind":"string","presence":{{"optional":{{"text":{json2}}}}}}},
            {{"name":"e","label":{json},"kind":{{"enum":[{{"value":{json},"label":{json}}}]}}}}]"#,
            json2 = serde_json::to_string(&HOSTILE.replace(['\r', '\n'], "")).unwrap(),
        )
        .into_boxed_str(),
    );
    Ask {
        agent: HOSTILE,
        tool: Some(HOSTILE),
        prompt: format!("{HOSTILE}\n{HOSTILE}"),
        args: Some(format!(
            "{{{json}:{json},\"n\":[{json},1,{{{json}:{json}}}]}}"
        )),
        form,
        source: Source::Goldfive,
        ..ask(1, HOSTILE)
    }
}

pub(super) fn check(desk: &Desk) {
    for cell in &desk.terminal.backend().buffer().content {
        let symbol = cell.symbol();
        assert!(!symbol.chars().any(char::is_control), "{symbol:?}");
        assert_eq!(Untrusted::new(symbol).line().altered(), 0, "{symbol:?}");
    }
}

#[test]
fn no_field_of_a_card_reaches_the_terminal_as_it_came() {
    let asked = hostile();
    for (width, height) in [(120, 60), (80, 24), (40, 10), (200, 90)] {
        let mut desk = Desk::showing(width, height, std::slice::from_ref(&asked));
        check(&desk);
        for keys in [
            "enter", "v", "v", "e", "tab", "esc", "n", "ctrl-s", "space", "G", "?", "esc", "A", "x",
        ] {
            desk.press(keys);
            check(&desk);
        }
        desk.press("e");
        desk.send(Msg::Paste(HOSTILE.into()));
        desk.type_text("\u{9b}\u{202e}\u{200d}x");
        check(&desk);
        desk.press("esc n");
        desk.send(Msg::Paste(HOSTILE.into()));
        desk.show();
        check(&desk);
        let attempt = Attempt {
            by: serde_json::from_value(HOSTILE.into()).unwrap(),
            verb: HOSTILE.into(),
            at: now(),
        };
        desk.record([Event::AttemptRefused {
            id: asked.id(),
            attempt,
        }]);
        desk.send(Msg::Detail {
            id: asked.id(),
            detail: Err(HOSTILE.into()),
        });
        desk.show();
        check(&desk);
        desk.send(Msg::Link(Link::Offline {
            why: HOSTILE.into(),
            retry_at: desk.at,
        }));
        desk.show();
        check(&desk);
    }
}

#[test]
fn no_answer_of_a_server_reaches_the_terminal_as_it_came() {
    let asked = hostile();
    let mut desk = Desk::showing(120, 40, std::slice::from_ref(&asked));
    desk.press("e tab right ctrl-s");
    let sent = submits(&desk.press("x")).remove(0);
    let fields = vec![("f".to_owned(), HOSTILE.to_owned())];
    let refused = Refused {
        word: "answers".into(),
        message: HOSTILE.into(),
        fields,
    };
    let result = Err(SubmitError::Refused(refused));
    desk.send(Msg::Decided {
        decision: sent.decision,
        result,
    });
    desk.show();
    check(&desk);
    let decision = DecisionId::parse("d").unwrap();
    desk.record([decided(&asked, Verdict::Approve, "user:grace", decision)]);
    let control = ControlId::parse("c").unwrap();
    let (state, detail) = (DeliveryState::Failed, HOSTILE.into());
    let delivery = Delivery {
        control,
        state,
        detail,
        at: now(),
    };
    desk.record([Event::DeliveryMoved {
        id: asked.id(),
        delivery,
    }]);
    desk.show();
    assert!(desk.screen().contains("sent › failed"), "{}", desk.screen());
    check(&desk);
    desk.press("esc esc");
    desk.record([Event::ApprovalWithdrawn {
        id: asked.id(),
        why: Why::AnsweredElsewhere {
            granted: true,
            detail: HOSTILE.into(),
        },
    }]);
    desk.show();
    check(&desk);
}

#[test]
fn no_run_and_nothing_that_ended_reaches_the_terminal_as_it_came() {
    let asked = hostile();
    let task = |state| Event::TaskReported {
        run: asked.run(),
        task: HOSTILE.into(),
        title: format!("{HOSTILE} title").into(),
        state,
        detail: HOSTILE.into(),
    };
    for (width, height) in [(120, 34), (80, 24), (40, 10)] {
        let mut desk = Desk::new(width, height);
        desk.settle_in(std::slice::from_ref(&asked));
        desk.record([task(TaskState::Running)]);
        for keys in ["2", "enter", "esc", ":", "esc"] {
            desk.press(keys);
            check(&desk);
        }
        desk.press(":");
        desk.type_text("\u{9b}\u{202e}x");
        check(&desk);
        desk.press("esc");
        let mut decision = decided(
            &asked,
            Verdict::Reject,
            "user:grace",
            DecisionId::parse("d").unwrap(),
        );
        if let Event::ApprovalRejected { decision, .. } = &mut decision {
            decision.note = HOSTILE.into();
            decision.answers = Answers::written([(HOSTILE.into(), Answer::Text(HOSTILE.into()))]);
        }
        let applied = Applied {
            result: AppliedResult::Failed,
            detail: HOSTILE.into(),
            at: now(),
        };
        let id = asked.id();
        desk.record([decision, Event::DecisionApplied { id, applied }]);
        for keys in ["3", "enter", "esc"] {
            desk.press(keys);
            check(&desk);
        }
        desk.send(Msg::History {
            before: desk.model.past.list.selected,
            page: Err(HOSTILE.into()),
        });
        desk.show();
        check(&desk);
    }
}

#[test]
fn wide_and_joined_characters_shift_no_column() {
    let titles = [
        "发布日志到生产环境",
        "ﾊﾞﾋﾟﾌﾞ",
        "⑦⑧ ●▲",
        "🏷\u{fe0f}🏷\u{fe0f}",
        "\u{1F468}\u{200d}\u{1F33E} deploy",
        "e\u{301}\u{301}\u{301}",
        "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
        "plain",
    ];
    let asks: Vec<Ask> = titles
        .iter()
        .zip(1..)
        .map(|(title, n)| ask(n, title))
        .collect();
    for width in [120, 91, 80, 41] {
        let mut desk = Desk::showing(width, 20, &asks);
        for _ in 0..titles.len() {
            let screen = desk.screen();
            let ends: Vec<usize> = screen.lines().skip(1).take(18).map(columns).collect();
            assert!(
                ends.iter().all(|end| *end == usize::from(width)),
                "{width}\n{screen}"
            );
            desk.press("j");
        }
        for ask in &asks {
            let by = DecisionId::parse(&format!("g-{}", ask.n)).unwrap();
            desk.record([decided(ask, Verdict::Approve, "user:grace", by)]);
        }
        for keys in ["2", "3"] {
            desk.press(keys);
            let screen = desk.screen();
            let ends: Vec<usize> = screen.lines().skip(1).take(18).map(columns).collect();
            assert!(
                ends.iter().all(|end| *end == usize::from(width)),
                "{width}\n{screen}"
            );
        }
    }
}

#[test]
fn no_size_breaks_any_screen() {
    let states: [&[&str]; 12] = [
        &[],
        &["enter"],
        &["e"],
        &["n"],
        &["?"],
        &["j", "j", "j", "a"],
        &["v"],
        &["2"],
        &["2", "enter"],
        &["3"],
        &["3", "enter"],
        &[":", "s"],
    ];
    let asks = full_inbox();
    for keys in states {
        let mut desk = Desk::showing(120, 34, &asks);
        let gone = DecisionId::parse("g-1").unwrap();
        desk.record([decided(&asks[4], Verdict::Approve, "user:grace", gone)]);
        desk.show();
        for key in keys {
            desk.press(key);
        }
        for width in (0..=130).step_by(3) {
            for height in (0..=40).step_by(3) {
                if width == 0 || height == 0 {
                    continue;
                }
                desk.resize(width, height);
                desk.draw();
                let small = width < 40 || height < 10;
                assert!(!small || desk.drawn.card.is_none());
                check(&desk);
            }
        }
        desk.offline();
        for (width, height) in [(1, 1), (40, 10), (41, 11), (90, 10), (130, 40)] {
            desk.resize(width, height);
            desk.draw();
        }
    }
}

#[test]
fn the_selected_row_is_seen_without_colour() {
    for theme in [Theme::Mono, Theme::Sixteen] {
        for keys in ["", "2", "3", ":"] {
            let mut desk = Desk::with(120, 34, |setup| setup.theme = theme);
            let asks = full_inbox();
            desk.settle_in(&asks);
            let by = DecisionId::parse("g-1").unwrap();
            desk.record([decided(&asks[1], Verdict::Reject, "user:grace", by)]);
            desk.press(keys);
            let screen = desk.screen();
            let rows = screen.lines().zip(0..);
            for (_, y) in rows.filter(|(row, _)| row.contains('▌')) {
                let buffer = desk.terminal.backend().buffer();
                // After the frame and the bar.
                for x in 2..40 {
                    let cell = &buffer[(x, y)];
                    assert!(cell.modifier.contains(Modifier::REVERSED), "{screen}");
                    assert_eq!(cell.fg, ratatui::style::Color::Reset);
                }
            }
            assert!(screen.contains('▌'), "{keys}");
        }
    }
}

#[test]
fn ascii_spells_everything_of_ours() {
    let mut desk = Desk::with(120, 34, |setup| setup.ascii = true);
    desk.settle_in(&full_inbox()[..3]);
    let by = DecisionId::parse("g-1").unwrap();
    let asks = full_inbox();
    desk.record([decided(&asks[2], Verdict::Reject, "user:grace", by)]);
    for key in [
        "enter", "a", "e", "esc", "n", "?", "esc", "2", ":", "esc", "enter", "g", "3", "1", "x",
    ] {
        let screen = desk.screen();
        let odd: String = screen.chars().filter(|c| !c.is_ascii()).collect();
        // The one in the digest is part of its short form.
        assert_eq!(odd.replace('·', "").replace(['‹', '›'], ""), "", "{screen}");
        desk.press(key);
    }
}
