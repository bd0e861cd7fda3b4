//! What keys do, and do not.

use registry::{
    Event, ItemId, State,
    approval::{Attempt, Risk, Seen, Verdict, WaitTimeout},
    names::{DecisionId, WaitId},
    run::{Presence, Source},
};

use super::desk::*;
use crate::dashboard::{Effect, Msg, SubmitError, model::Hand, msg::Refused, words::notice};

fn decision(text: &str) -> DecisionId {
    DecisionId::parse(text).unwrap()
}

fn refused(word: &str, message: &str, fields: &[(&str, &str)]) -> Result<(), SubmitError> {
    let fields = fields
        .iter()
        .map(|(f, m)| ((*f).to_owned(), (*m).to_owned()))
        .collect();
    Err(SubmitError::Refused(Refused {
        word: word.into(),
        message: message.into(),
        fields,
    }))
}

#[test]
fn one_key_decides_what_stands_on_the_screen() {
    for (key, verdict) in [("a", Verdict::Approve), ("x", Verdict::Reject)] {
        let asked = ask(1, "Deploy");
        let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
        let sent = submits(&desk.press(key));
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0].id, sent[0].digest),
            (asked.id(), asked.approval().digest)
        );
        assert_eq!((sent[0].verdict, sent[0].seen), (verdict, Seen::Whole));
        assert_eq!(sent[0].decision.as_str(), "tui-0000000000000007-1");
        assert!(
            desk.screen().contains("sent, waiting for the server"),
            "{}",
            desk.screen()
        );
        // Not twice.
        assert_eq!(submits(&desk.press(key)), []);
        assert_eq!(desk.notice(), notice::UNDER_WAY);
    }
}

#[test]
fn a_new_card_takes_no_decision_key_for_250_ms() {
    let mut desk = Desk::new(120, 34);
    desk.online();
    desk.send(Msg::Snapshot {
        state: State::default(),
        server_now: now(),
    });
    desk.file(&[ask(1, "Deploy")]);
    assert_eq!(submits(&desk.hit("a")), [], "never drawn");
    assert_eq!(desk.notice(), notice::SETTLING);
    desk.draw();
    desk.wait(249);
    desk.draw();
    assert_eq!(submits(&desk.hit("a")), []);
    desk.wait(1);
    assert_eq!(submits(&desk.hit("a")).len(), 1);
}

#[test]
fn a_changed_card_takes_no_decision_key_for_250_ms() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    let attempt = Attempt {
        by: name("agent:x"),
        verb: "approve".into(),
        at: ago(120),
    };
    desk.record([Event::AttemptRefused {
        id: asked.id(),
        attempt,
    }]);
    assert_eq!(submits(&desk.hit("a")), []);
    desk.draw();
    assert!(
        desk.screen().contains("agent:x tried to approve 2m ago"),
        "{}",
        desk.screen()
    );
    assert_eq!(submits(&desk.hit("a")), []);
    desk.wait(250);
    assert_eq!(submits(&desk.hit("a")).len(), 1);
}

#[test]
fn a_moving_list_never_moves_the_card() {
    let asks = full_inbox();
    let mut desk = Desk::showing(120, 34, &asks[..1]);
    let open = desk.drawn.card.as_ref().unwrap().face.id;
    assert_eq!(open, asks[0].id());
    desk.file(&asks[1..]);
    desk.show();
    assert_eq!(desk.drawn.card.as_ref().unwrap().face.id, open);
    assert_eq!(desk.model.inbox.order.len(), 5);
    assert_eq!(
        desk.model.inbox.order[0],
        ItemId::Approval(asks[4].id()),
        "what ends soon comes first"
    );
    assert_eq!(desk.model.inbox.selected, Some(ItemId::Approval(open)));
    let sent = submits(&desk.press("x 4 2 ctrl-s"));
    assert_eq!(sent.iter().map(|s| s.id).collect::<Vec<_>>(), [open]);
}

#[test]
fn pasted_text_never_decides() {
    let mut desk = Desk::showing(120, 34, &[ask(1, "Deploy")]);
    assert_eq!(desk.send(Msg::Paste("a\na\ny\n".into())), []);
    assert_eq!(desk.notice(), notice::PASTE);
    desk.press("n");
    desk.send(Msg::Paste("no, because\r\nof a".into()));
    desk.press("ctrl-s");
    let sent = submits(&desk.press("x"));
    assert_eq!(sent[0].note.raw(), "no, because\nof a");
}

#[test]
fn high_risk_asks_once_more_and_the_cursor_is_on_no() {
    let risky = crate::dashboard::tests::desk::Ask {
        risk: Risk::High,
        ..ask(1, "Drop the table")
    };
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&risky));
    assert_eq!(submits(&desk.press("a")), []);
    assert!(desk.screen().contains("▌ no (n)"), "{}", desk.screen());
    assert_eq!(
        submits(&desk.press("enter a")),
        [],
        "enter is no; a asks again"
    );
    assert_eq!(submits(&desk.press("n a")), []);
    // A hand that is too quick meets the dialog before it has stood there.
    desk.press("n");
    desk.hit("a");
    assert_eq!(submits(&desk.hit("y")), []);
    desk.show();
    assert_eq!(submits(&desk.press("y")).len(), 1);
    // Reject does not ask.
    let mut desk = Desk::showing(120, 34, &[risky]);
    assert_eq!(submits(&desk.press("x")).len(), 1);
}

#[test]
fn offline_sends_nothing_and_keeps_what_was_typed() {
    let asked = wire_transfer();
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.press("e");
    desk.type_text("4711");
    desk.offline();
    desk.wait(38_000);
    desk.press("esc");
    assert_eq!(desk.press("x"), []);
    assert_eq!(desk.notice(), notice::OFFLINE);
    assert_eq!(desk.press("r"), [Effect::RetryNow]);
    assert!(desk.screen().contains("OFFLINE"), "{}", desk.screen());
    desk.online();
    let mut state = State::default();
    for (seq, event) in (1..).zip(asked.events()) {
        state.apply(&registry::Recorded {
            seq,
            at: now(),
            scope: asked.approval().scope(),
            event: std::sync::Arc::new(event),
        });
    }
    desk.send(Msg::Snapshot {
        state,
        server_now: desk.server_now(),
    });
    desk.show();
    let sent = submits(&desk.press("x"));
    assert_eq!(
        sent[0].answers,
        [("cost_centre".to_owned(), "4711".to_owned())].into()
    );
}

#[test]
fn a_lost_answer_is_sent_again_under_the_same_decision_id() {
    let mut desk = Desk::showing(120, 34, &[ask(1, "Deploy")]);
    let first = submits(&desk.press("a")).remove(0);
    desk.offline();
    desk.show();
    assert_eq!(submits(&desk.press("a")), []);
    desk.online();
    desk.show();
    assert!(
        desk.screen().contains("a sends it again"),
        "{}",
        desk.screen()
    );
    assert_eq!(submits(&desk.press("a")), std::slice::from_ref(&first));
    let lost = Err(SubmitError::NotSent("timeout".into()));
    desk.send(Msg::Decided {
        decision: first.decision.clone(),
        result: lost,
    });
    desk.show();
    // The other verdict is another decision.
    assert_ne!(submits(&desk.press("x"))[0].decision, first.decision);
}

#[test]
fn what_settles_under_the_hand_stays_until_the_hand_moves_on() {
    let asks = full_inbox();
    let mut desk = Desk::showing(120, 34, &asks);
    desk.press("G k");
    let open = desk.model.open().unwrap().id;
    let asked = asks
        .iter()
        .find(|ask| ItemId::Approval(ask.id()) == open)
        .unwrap();
    let place = desk.model.inbox.order.iter().position(|id| *id == open);
    desk.record([decided(
        asked,
        Verdict::Approve,
        "user:grace",
        decision("g-1"),
    )]);
    desk.show();
    assert_eq!(desk.model.open().unwrap().id, open);
    assert_eq!(
        desk.model.inbox.order.iter().position(|id| *id == open),
        place
    );
    assert!(
        desk.screen().contains("✓ granted by user:grace at"),
        "{}",
        desk.screen()
    );
    assert_eq!(submits(&desk.press("a")), []);
    desk.press("a");
    let words = {
        desk.hit("x");
        desk.notice()
    };
    assert!(
        words.starts_with("already granted by user:grace at 14:0"),
        "{words}"
    );
    desk.press("j");
    assert_ne!(desk.model.open().unwrap().id, open);
    assert!(!desk.model.inbox.order.contains(&open));
}

#[test]
fn our_own_decision_is_sent_until_its_event_is_back() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    let sent = submits(&desk.press("a")).remove(0);
    desk.send(Msg::Decided {
        decision: sent.decision.clone(),
        result: Ok(()),
    });
    desk.show();
    assert!(desk.screen().contains("… sent"), "{}", desk.screen());
    desk.record([decided(&asked, Verdict::Approve, "user:ada", sent.decision)]);
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("✓ granted by user:ada") && !screen.contains("… sent"),
        "{screen}"
    );
    desk.press("j");
    assert!(
        desk.screen().contains("Nothing waits for you"),
        "{}",
        desk.screen()
    );
}

/// Case A25: also where the fact overtakes the refusal.
#[test]
fn who_was_overtaken_is_told_so() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    let sent = submits(&desk.press("x")).remove(0);
    desk.record([decided(
        &asked,
        Verdict::Approve,
        "user:grace",
        decision("d2"),
    )]);
    let words = "the rejection was not taken: already granted by user:grace at";
    assert!(desk.notice().starts_with(words), "{}", desk.notice());
    desk.send(Msg::Decided {
        decision: sent.decision,
        result: refused("already_settled", "already granted by user:grace", &[]),
    });
    assert!(desk.notice().starts_with(words), "{}", desk.notice());
}

#[test]
fn a_refusal_is_said_and_the_card_stays() {
    let rows = [
        (
            "already_settled",
            "already granted by user:grace at 2026-11-30T14:05:01Z",
        ),
        ("stale", "the question is not the one you saw"),
        (
            "expired",
            "expired at 2026-11-30T14:05:01Z: nobody decided before the deadline",
        ),
        (
            "not_yours",
            "not yours: an admin of the tenant decides this one",
        ),
    ];
    for (word, message) in rows {
        let asked = ask(1, "Deploy");
        let mut desk = Desk::showing(160, 34, std::slice::from_ref(&asked));
        let sent = submits(&desk.press("a")).remove(0);
        desk.send(Msg::Decided {
            decision: sent.decision,
            result: refused(word, message, &[]),
        });
        desk.show();
        assert!(desk.screen().contains(message), "{}", desk.screen());
        assert_eq!(desk.model.open().unwrap().id, ItemId::Approval(asked.id()));
    }
}

/// Case A31: the required field stands in the way of a reject, too.
#[test]
fn a_reject_that_needs_a_field_jumps_there_and_is_then_completed() {
    let form = r#"[{"name":"amount","kind":"integer","presence":{"defaulted":{"integer":1}}},
        {"name":"reason_code","kind":{"enum":[{"value":"cost"},{"value":"risk"}]}},
        {"name":"note","kind":"text","presence":{"optional":{"text":""}}}]"#;
    let asked = Ask {
        form,
        ..ask(1, "Spend")
    };
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.press("n");
    desk.type_text("too much");
    desk.press("ctrl-s");
    assert_eq!(submits(&desk.press("x")), []);
    assert_eq!(desk.model.hand, Hand::Field(1));
    assert!(
        desk.screen().contains("✗ 'Reason code' needs an answer"),
        "{}",
        desk.screen()
    );
    assert!(
        desk.screen()
            .contains("ctrl-s sends the REJECTION; 'Reason code'"),
        "{}",
        desk.screen()
    );
    desk.press("right right");
    let sent = submits(&desk.press("ctrl-s"));
    assert_eq!(
        (sent[0].verdict, sent[0].note.raw()),
        (Verdict::Reject, "too much")
    );
    assert_eq!(
        sent[0].answers,
        [("reason_code".to_owned(), "risk".to_owned())].into()
    );
    // The server may know better: the same, in its words.
    let error = [("amount", "'Amount' must be less than that")];
    let result = refused("answers", "'Amount' must be less than that", &error);
    desk.send(Msg::Decided {
        decision: sent[0].decision.clone(),
        result,
    });
    desk.show();
    assert_eq!(desk.model.hand, Hand::Field(0));
    assert!(
        desk.screen().contains("✗ 'Amount' must be less than that"),
        "{}",
        desk.screen()
    );
    desk.type_text("0");
    let again = submits(&desk.press("ctrl-s"));
    assert_eq!(
        (again[0].verdict, again[0].note.raw()),
        (Verdict::Reject, "too much")
    );
    assert_eq!(again[0].answers["amount"], "10");
    assert_ne!(again[0].decision, sent[0].decision);
}

fn long() -> Ask {
    let prompt: Vec<String> = (1..=60).map(|n| format!("line {n}")).collect();
    Ask {
        prompt: prompt.join("\n"),
        ..ask(1, "Read me")
    }
}

#[test]
fn approve_waits_until_everything_was_seen() {
    let mut desk = Desk::showing(120, 34, &[long()]);
    assert_eq!(submits(&desk.press("a")), []);
    desk.hit("a");
    assert!(
        desk.notice()
            .ends_with("unseen: ↓ to read, A to accept unread"),
        "{}",
        desk.notice()
    );
    // Jumping over the middle does not count.
    desk.press("G");
    assert_eq!(submits(&desk.press("a")), []);
    assert!(
        desk.screen().contains("unread lines ↑") && !desk.screen().contains("more lines ↓"),
        "{}",
        desk.screen()
    );
    desk.press("g");
    desk.press("g");
    desk.press("space space space space");
    assert!(desk.screen().contains("all seen ✓"), "{}", desk.screen());
    // What was seen stays seen in another size and over a reconnect.
    desk.resize(80, 24);
    desk.offline();
    desk.online();
    desk.show();
    let sent = submits(&desk.press("a"));
    assert_eq!(sent[0].seen, Seen::Whole);
}

#[test]
fn unread_is_accepted_with_its_own_key_and_recorded() {
    let mut desk = Desk::showing(120, 34, &[long()]);
    assert_eq!(submits(&desk.press("A"))[0].seen, Seen::Unread);
    let mut desk = Desk::showing(120, 34, &[long()]);
    assert_eq!(
        submits(&desk.press("x"))[0].seen,
        Seen::Unread,
        "rejecting is not gated"
    );
}

#[test]
fn a_frame_that_was_not_written_shows_nothing() {
    let mut desk = Desk::showing(120, 34, &[long()]);
    desk.press("enter");
    for _ in 0..9 {
        desk.hit("space");
    }
    assert!(submits(&desk.press("a")).is_empty());
}

#[test]
fn what_does_not_match_its_digest_is_not_shown() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::new(120, 34);
    desk.answers = false;
    desk.settle_in(std::slice::from_ref(&asked));
    assert!(desk.screen().contains("fetching…"), "{}", desk.screen());
    let forged = Ask {
        prompt: "Something harmless".into(),
        ..asked.clone()
    }
    .detail();
    desk.send(Msg::Detail {
        id: asked.id(),
        detail: Ok(forged),
    });
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("does not match") && !screen.contains("harmless"),
        "{screen}"
    );
    for key in ["a", "A", "x"] {
        assert_eq!(submits(&desk.press(key)), []);
    }
}

#[test]
fn a_foreign_agent_that_is_gone_cannot_be_answered() {
    let asked = Ask {
        source: Source::Goldfive,
        ..ask(1, "Go on?")
    };
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.record([Event::PresenceChanged {
        run: asked.run(),
        presence: Presence::Away { since: ago(180) },
    }]);
    desk.show();
    assert!(
        desk.screen().contains("☠ agent away 3m"),
        "{}",
        desk.screen()
    );
    desk.hit("a");
    assert_eq!(desk.notice(), notice::UNREACHABLE);
    assert_eq!(desk.submits(), []);
}

#[test]
fn a_waiter_that_gave_up_is_said() {
    let asked = ask(1, "Go on?");
    let mut desk = Desk::showing(160, 34, std::slice::from_ref(&asked));
    let wait = WaitId::parse("w1").unwrap();
    desk.record([Event::WaitTimedOut {
        id: asked.id(),
        wait: wait.clone(),
    }]);
    desk.wait(180_000);
    desk.show();
    let said = "1 waiter gave up 3m ago: the agent went on; an answer still counts";
    assert!(desk.screen().contains(said), "{}", desk.screen());
    let _ = WaitTimeout { wait, at: now() };
}

#[test]
fn in_a_list_alone_the_first_press_shows_the_card() {
    let mut desk = Desk::showing(80, 24, &[ask(1, "Deploy")]);
    assert_eq!(submits(&desk.press("a")), []);
    assert_eq!(submits(&desk.press("a")).len(), 1);
    let mut desk = Desk::showing(80, 24, &[ask(1, "Deploy")]);
    desk.press("enter esc");
    assert_eq!(desk.model.hand, Hand::List);
}

#[test]
fn nothing_is_decided_where_nothing_can_be_read() {
    let mut desk = Desk::showing(120, 34, &[ask(1, "Deploy")]);
    desk.resize(5, 2);
    desk.show();
    for key in ["a", "A", "x", "enter", "a", "x"] {
        assert_eq!(submits(&desk.press(key)), []);
    }
}

#[test]
fn nothing_is_drawn_while_no_shown_value_changes() {
    let mut desk = Desk::showing(120, 34, &full_inbox());
    assert!(!desk.model.is_dirty());
    let due = desk.model.next_deadline(desk.at).unwrap();
    assert!(due > desk.at);
    desk.wait(1);
    assert!(!desk.model.is_dirty());
    let said = Event::Said {
        run: full_inbox()[0].run(),
        text: "busy".into(),
    };
    desk.record([said]);
    assert!(!desk.model.is_dirty());
    desk.at = due;
    desk.send(Msg::Tick);
    assert!(desk.model.is_dirty());
}

#[test]
fn the_help_shows_the_keys_that_hold() {
    let mut desk = Desk::with(80, 40, |setup| {
        setup.keymap = crate::dashboard::keymap::Keymap::merged(
            "[inbox]\n\"a\" = \"none\"\n\"p\" = \"approve\"",
            "mine",
        )
        .unwrap();
    });
    desk.settle_in(&[ask(1, "Deploy")]);
    assert!(desk.screen().contains("p approve"), "{}", desk.screen());
    desk.press("?");
    let screen = desk.screen();
    assert!(
        screen.contains("p ") && screen.contains("approve, once the whole card was seen"),
        "{screen}"
    );
    desk.press("esc");
    assert!(!desk.screen().contains("HERE, IN"));
}

#[test]
fn the_bell_rings_once_for_a_crowd() {
    let mut desk = Desk::showing(120, 34, &[]);
    desk.effects.clear();
    desk.file(&[ask(1, "One")]);
    desk.file(&[Ask {
        risk: Risk::High,
        ..ask(2, "Two")
    }]);
    assert_eq!(
        desk.effects
            .iter()
            .filter(|effect| **effect == Effect::Bell)
            .count(),
        1
    );
    assert!(
        desk.effects
            .contains(&Effect::Title("(2) pilothouse prod-eu".into()))
    );
}

/// Case A12: what is wrong is said at the field, in the server's own words, and what was typed stays.
#[test]
fn a_wrong_answer_is_said_at_its_field_and_stays_typed() {
    let form = r#"[{"name":"n","kind":"integer","presence":{"defaulted":{"integer":5}}},
        {"name":"d","kind":"date"}]"#;
    let rows = [
        (0, "2.5", "'N' must be a whole number, like 42"),
        (0, "\u{661}\u{662}", "'N' must be a whole number, like 42"),
        (1, "2026-02-30", "'D' must be a day that exists"),
        (1, "30/02/2026", "'D' must be a date written as YYYY-MM-DD"),
    ];
    for (field, typed, error) in rows {
        let asked = Ask {
            form,
            ..ask(1, "Spend")
        };
        let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
        desk.press("e ctrl-u");
        if field == 0 {
            desk.type_text(typed);
            desk.press("tab");
            desk.type_text("2026-02-03");
        } else {
            desk.type_text("7");
            desk.press("tab");
            desk.type_text(typed);
        }
        desk.press("ctrl-s");
        let screen = desk.screen();
        assert_eq!(desk.model.hand, Hand::Field(field), "{screen}");
        assert!(
            screen.contains(&format!("✗ {error}")) && screen.contains(typed),
            "{screen}"
        );
        assert_eq!(submits(&desk.press("esc x")), []);
        assert_eq!(desk.model.hand, Hand::Field(field));
    }
}

const TYPED: &str = "wait a minute, xa";

/// What is typed after `n` or `e` is never a command, whatever has arrived.
#[test]
fn a_note_opens_from_the_list_alone_and_takes_every_letter() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(80, 24, std::slice::from_ref(&asked));
    desk.press("n");
    desk.type_text(TYPED);
    assert_eq!(desk.submits(), []);
    assert!(desk.screen().contains(TYPED), "{}", desk.screen());
    // The same while the detail is on its way.
    let mut desk = Desk::new(80, 24);
    desk.answers = false;
    desk.settle_in(std::slice::from_ref(&asked));
    desk.hit("n");
    desk.type_text("wait a ");
    assert!(desk.screen().contains("wait a"), "{}", desk.screen());
    assert!(desk.screen().contains("fetching…"), "{}", desk.screen());
    desk.send(Msg::Detail {
        id: asked.id(),
        detail: Ok(asked.detail()),
    });
    desk.type_text("minute, xa");
    assert_eq!(desk.submits(), []);
    assert!(desk.screen().contains(TYPED), "{}", desk.screen());
    desk.press("ctrl-s");
    assert_eq!(submits(&desk.press("x"))[0].note.raw(), TYPED);
}

#[test]
fn a_form_takes_what_was_typed_before_it_arrived() {
    let asked = Ask {
        form: FORM,
        ..ask(1, "Deploy")
    };
    let mut desk = Desk::new(80, 24);
    desk.answers = false;
    desk.settle_in(std::slice::from_ref(&asked));
    desk.hit("e");
    assert_eq!(desk.notice(), notice::FORM_LATER);
    for key in ["4", "7", "a", "backspace", "tab", "right", "x"] {
        desk.hit(key);
        desk.show();
    }
    desk.send(Msg::Detail {
        id: asked.id(),
        detail: Ok(asked.detail()),
    });
    desk.show();
    assert_eq!(desk.model.hand, Hand::Field(1));
    desk.press("ctrl-s");
    assert_eq!(desk.submits(), []);
    let sent = submits(&desk.press("x"));
    let wanted = [("cost_centre", "47"), ("vis", "public")];
    assert_eq!(
        sent[0].answers,
        wanted.map(|(f, a)| (f.to_owned(), a.to_owned())).into()
    );
}

/// Where nothing can be written, the letters that follow decide nothing either.
#[test]
fn what_was_meant_for_a_text_that_did_not_open_is_no_command() {
    let asked = ask(1, "Deploy");
    let fails = |desk: &mut Desk| {
        desk.answers = false;
        desk.settle_in(std::slice::from_ref(&asked));
        desk.press("enter");
        desk.send(Msg::Detail {
            id: asked.id(),
            detail: Err("gone".into()),
        });
        desk.show();
    };
    let mut failed = Desk::new(80, 24);
    fails(&mut failed);
    let mut no_form = Desk::showing(80, 24, std::slice::from_ref(&asked));
    no_form.press("enter");
    for (desk, words) in [
        (&mut failed, notice::NOT_FETCHED),
        (&mut no_form, notice::NO_FORM),
    ] {
        desk.hit("e");
        assert_eq!(desk.notice(), words);
        for c in TYPED.chars() {
            desk.wait(300);
            desk.hit(&c.to_string().replace(' ', "space"));
            desk.draw();
        }
        assert_eq!(desk.submits(), []);
        assert_eq!(desk.notice(), words);
    }
    // After a second, or another key, keys are commands again.
    no_form.wait(1_000);
    assert_eq!(submits(&no_form.press("x")).len(), 1);
}

#[test]
fn an_answered_card_is_not_edited() {
    let asked = wire_transfer();
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.record([decided(
        &asked,
        Verdict::Approve,
        "user:grace",
        decision("g-1"),
    )]);
    desk.show();
    for key in ["n", "e"] {
        desk.hit(key);
        let words = desk.notice();
        assert!(
            words.starts_with("already granted by user:grace"),
            "{words}"
        );
        assert!(!matches!(desk.model.hand, Hand::Field(_) | Hand::Note));
        desk.wait(1_000);
    }
}

#[test]
fn every_confirmation_names_the_tool_and_what_it_is_given() {
    let lines: Vec<String> = (1..=20).map(|n| format!("\"k{n}\":\"v{n}\"")).collect();
    let asked = Ask {
        tool: Some("Bash"),
        args: Some(format!("{{{}}}", lines.join(","))),
        risk: Risk::High,
        ..ask(1, "Run it")
    };
    for (width, height, shown) in [(80, 24, 6), (120, 34, 6), (40, 10, 0)] {
        let mut desk = Desk::showing(width, height, std::slice::from_ref(&asked));
        desk.press("enter");
        desk.press("A");
        let screen = desk.screen();
        assert!(desk.drawn.confirming, "{screen}");
        let needed = ["runs Bash", "▌ no (n)", "yes, approve (y)", "more »"];
        let args = (1..=shown).map(|n| format!("v{n}"));
        for words in needed.map(str::to_owned).into_iter().chain(args) {
            assert!(screen.contains(&words), "{words}: {screen}");
        }
    }
}

#[test]
fn a_notice_goes_when_it_is_over_or_old() {
    let asked = ask(1, "Deploy");
    let mut desk = Desk::showing(120, 34, std::slice::from_ref(&asked));
    desk.offline();
    desk.press("x");
    desk.hit("x");
    assert_eq!(desk.notice(), notice::OFFLINE);
    desk.online();
    assert_eq!(desk.notice(), "");
    // The detail has arrived.
    let mut desk = Desk::new(120, 34);
    desk.answers = false;
    desk.settle_in(std::slice::from_ref(&asked));
    desk.press("a");
    assert_eq!(desk.notice(), notice::LOADING);
    desk.send(Msg::Detail {
        id: asked.id(),
        detail: Ok(asked.detail()),
    });
    assert_eq!(desk.notice(), "");
    // By itself.
    desk.hit("e");
    desk.draw();
    let begun = desk.at;
    while !desk.notice().is_empty() {
        desk.at = desk.model.next_deadline(desk.at).unwrap();
        desk.send(Msg::Tick);
        desk.draw();
    }
    assert_eq!(desk.at - begun, crate::dashboard::model::NOTICE);
    assert!(desk.screen().contains("a approve"), "{}", desk.screen());
}

#[test]
fn what_is_below_the_edge_is_said_though_all_was_seen() {
    let prompt: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
    let asked = Ask {
        prompt: prompt.join("\n"),
        ..ask(1, "Read me")
    };
    let mut desk = Desk::showing(120, 34, &[asked]);
    assert!(desk.screen().contains(" all seen ✓ ─"), "{}", desk.screen());
    desk.resize(120, 20);
    desk.show();
    let screen = desk.screen();
    assert!(
        screen.contains("all seen ✓ · ") && screen.contains(" more lines ↓"),
        "{screen}"
    );
}

#[test]
fn the_label_gives_way_to_the_counts() {
    let mut desk = Desk::with(80, 24, |setup| {
        setup.server_label = "a-very-long-name.of-a-host.example.org:8443".to_owned();
    });
    desk.settle_in(&full_inbox());
    let screen = desk.screen();
    let header = screen.lines().next().unwrap();
    for words in ["5 waiting · 1 expiring", "● live", "user:ada (admin)"] {
        assert!(header.contains(words), "{header}");
    }
    desk.resize(40, 10);
    desk.show();
    assert!(desk.screen().lines().next().unwrap().contains("5 waiting"));
}

#[test]
fn a_form_that_arrives_for_an_answered_card_does_not_open() {
    let asked = Ask {
        form: FORM,
        ..ask(1, "Deploy")
    };
    let mut desk = Desk::new(80, 24);
    desk.answers = false;
    desk.settle_in(std::slice::from_ref(&asked));
    desk.press("e");
    desk.send(Msg::Paste("4711".into()));
    assert_eq!(desk.notice(), "not pasted: the form is not here yet");
    let by = decision("g-1");
    desk.record([decided(&asked, Verdict::Reject, "user:grace", by)]);
    desk.type_text("47");
    desk.send(Msg::Detail {
        id: asked.id(),
        detail: Ok(asked.detail()),
    });
    assert_eq!(desk.model.hand, Hand::Card);
    let words = desk.notice();
    assert!(
        words.starts_with("already rejected by user:grace"),
        "{words}"
    );
}

/// The row of actions offers no letters while letters are text.
#[test]
fn no_decision_is_offered_while_text_is_typed() {
    for width in [80, 120] {
        let mut desk = Desk::showing(width, 24, &[wire_transfer()]);
        for key in ["n", "e"] {
            desk.press(key);
            let screen = desk.screen();
            assert!(!screen.contains("x reject  "), "{screen}");
            assert!(screen.contains("esc first; then a approves"), "{screen}");
            desk.press("esc");
        }
    }
}
