//! Whatever is pressed, pasted and recorded: a decision is about what stood on the screen.

use std::time::Duration;

use registry::{
    ApprovalId, Digest, Event,
    approval::{Attempt, Risk, Verdict, Why},
    names::DecisionId,
};

use super::desk::*;
use crate::dashboard::{
    Moment, Msg, SubmitError,
    keys::{Code, Key},
    msg::Refused,
};

/// xorshift64: enough for a hand that does not know what it does.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn key(&mut self) -> Key {
        let often = "aaaaxxxAAyynejjkkGgrv?q";
        match self.roll(15) {
            0 => Key::plain(Code::Enter),
            1 => Key::plain(Code::Esc),
            2 if self.roll(3) > 0 => Key::char('1'),
            2 => Key::plain(Code::Tab),
            3 => Key::ctrl('s'),
            4 => Key::char(' '),
            5 => Key::plain(Code::Right),
            6 => self.of("0123456789111111"),
            7 => Key::char(':'),
            _ => self.of(often),
        }
    }

    fn of(&mut self, keys: &str) -> Key {
        let at = usize::try_from(self.roll(keys.len() as u64)).unwrap();
        Key::char(keys.chars().nth(at).unwrap())
    }
}

/// What a submit is held against: what the last written frame showed, and since when without a break.
#[derive(Default)]
struct Witness {
    shown: Option<(ApprovalId, Digest, bool, u64, Moment)>,
}

impl Witness {
    fn drew(&mut self, desk: &Desk) {
        let card = desk.drawn.card.as_ref();
        self.shown = card.map(|card| {
            let face = card.face;
            let same =
                |(id, digest, sure, happened, _): &(ApprovalId, Digest, bool, u64, Moment)| {
                    (*id, *digest, *sure, *happened)
                        == (face.id, face.digest, desk.drawn.confirming, face.happened)
                };
            let since = self.shown.filter(same).map_or(desk.at, |(.., since)| since);
            (
                face.id,
                face.digest,
                desk.drawn.confirming,
                face.happened,
                since,
            )
        });
    }
}

fn asks() -> Vec<Ask> {
    let lines: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
    let mut asks = full_inbox();
    asks.push(Ask {
        prompt: lines.join("\n"),
        ..ask(6, "Long")
    });
    asks.extend((7..12).map(|n| Ask {
        risk: Risk::High,
        ..ask(n, "More")
    }));
    asks
}

fn happen(dice: &mut Dice, desk: &mut Desk, asks: &[Ask], online: &mut bool) {
    let ask = &asks[usize::try_from(dice.roll(asks.len() as u64)).unwrap()];
    match dice.roll(8) {
        0 if desk.model.state.approval(ask.id()).is_none() => desk.file(std::slice::from_ref(ask)),
        1 => {
            let decision = DecisionId::parse(&format!("g-{}", dice.roll(1_000_000))).unwrap();
            let verdict = if dice.roll(2) == 0 {
                Verdict::Approve
            } else {
                Verdict::Reject
            };
            desk.record([decided(ask, verdict, "user:grace", decision)]);
        }
        2 => desk.record([Event::ApprovalWithdrawn {
            id: ask.id(),
            why: Why::Agent {
                reason: "no longer".into(),
            },
        }]),
        3 => {
            let attempt = Attempt {
                by: name("agent:x"),
                verb: "approve".into(),
                at: now(),
            };
            desk.record([Event::AttemptRefused {
                id: ask.id(),
                attempt,
            }]);
        }
        4 if *online => {
            desk.offline();
            *online = false;
        }
        5 => {
            desk.online();
            *online = true;
        }
        6 => {
            let sizes = [(120, 34), (80, 24), (40, 10), (30, 8), (100, 12)];
            let (w, h) = sizes[usize::try_from(dice.roll(5)).unwrap()];
            desk.resize(w, h);
        }
        _ => answer(dice, desk),
    }
}

fn answer(dice: &mut Dice, desk: &mut Desk) {
    let Some(submit) = desk.submits().pop() else {
        return;
    };
    let result = match dice.roll(3) {
        0 => Ok(()),
        1 => Err(SubmitError::NotSent("timeout".into())),
        _ => Err(SubmitError::Refused(Refused {
            word: "answers".into(),
            message: "no".into(),
            fields: vec![("cost_centre".into(), "no".into())],
        })),
    };
    desk.send(Msg::Decided {
        decision: submit.decision,
        result,
    });
}

#[test]
fn no_sequence_decides_what_was_not_on_the_screen() {
    let asks = asks();
    let (mut decided, mut confirmed) = (0, 0);
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut desk = Desk::new(120, 34);
        let mut witness = Witness::default();
        let mut online = true;
        desk.settle_in(&asks[..9]);
        witness.drew(&desk);
        desk.wait(300);
        for _ in 0..250 {
            let effects = match dice.roll(20) {
                0..9 => {
                    let key = dice.key();
                    let sure = desk.drawn.confirming && dice.roll(2) == 0;
                    let key = if sure { Key::char('y') } else { key };
                    desk.send(Msg::Key(key))
                }
                9 => desk.send(Msg::Paste("aAxy\na".into())),
                10..15 => {
                    desk.draw();
                    witness.drew(&desk);
                    Vec::new()
                }
                15..18 => {
                    let ms = dice.roll(400);
                    desk.at += Duration::from_millis(ms);
                    desk.send(Msg::Tick)
                }
                _ => {
                    happen(&mut dice, &mut desk, &asks, &mut online);
                    Vec::new()
                }
            };
            for submit in submits(&effects) {
                let (id, digest, sure, _, since) = witness.shown.expect("a card was drawn");
                assert!(online, "seed {seed}");
                assert_eq!((submit.id, submit.digest), (id, digest), "seed {seed}");
                assert!(desk.at - since >= Duration::from_millis(250), "seed {seed}");
                let asked = asks.iter().find(|ask| ask.id() == id).unwrap();
                let risky = asked.risk == Risk::High && submit.verdict == Verdict::Approve;
                assert!(
                    !risky
                        || sure
                        || desk
                            .submits()
                            .iter()
                            .filter(|s| s.decision == submit.decision)
                            .count()
                            > 1
                );
                decided += 1;
                confirmed += usize::from(sure);
            }
        }
    }
    assert!(
        decided > 50 && confirmed > 0,
        "the hand decides now and then: {decided}, {confirmed}"
    );
}
