//! What every log promises, asked of each; and what a test writes into one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    State,
    approval::{
        Applied, AppliedResult, Approval, Asks, Decision, Detail, Hold, OnDeadline, Risk, Seen,
        Subject, digest_of,
    },
    control::{Control, Stage, Step, Verb},
    escalation::{Cause, Ended, Escalation, How},
    event::{Scope, Trimmed},
    form::Answers,
    names::ControlId,
    run::{Presence, Run, RunKey, RunState, Source},
    who::Decider,
};

// === What a test writes ===

pub(super) fn at(minute: i64) -> Timestamp {
    Timestamp::from_ms(minute * 60_000)
}

pub(super) fn id(n: u128) -> ApprovalId {
    ApprovalId::mint(at(0), n)
}

pub(super) fn run() -> RunId {
    RunId::mint(at(0), 1)
}

fn tenant() -> Tenant {
    Tenant::local()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn key() -> RunKey {
    RunKey {
        tenant: tenant(),
        source: Source::Native,
        agent: "billing".into(),
        session: "s".into(),
        invocation: "1".into(),
    }
}

pub(super) fn opened() -> Event {
    let run = Run {
        id: run(),
        key: key(),
        project: "".into(),
        thread: "".into(),
        origin: "".into(),
        owner: Some(name("eu:42")),
        opened_by: name("agent:billing"),
        parent: None,
        can_resume: true,
        mode: Default::default(),
        opened_at: at(0),
        state: RunState::Running,
        presence: Presence::Attached,
        tasks: BTreeMap::new(),
        plan: None,
        open: Default::default(),
        pause: None,
        held_by: None,
        drifts: Vec::new(),
        counts: Default::default(),
        controls: Vec::new(),
    };
    Event::RunOpened {
        run: Box::new(run),
        context: "".into(),
    }
}

pub(super) fn requested(n: u128) -> Event {
    let (subject, title, detail) = (
        Subject::Task { task: "t".into() },
        "Pay".into(),
        Detail::default(),
    );
    let labels = BTreeMap::new();
    let approval = Approval {
        id: id(n),
        run: run(),
        owner: Some(name("eu:42")),
        filed_by: name("agent:billing"),
        filed_at: at(0),
        key: Some(Key::parse(&format!("k{n}")).unwrap()),
        target: format!("t{n}").into(),
        step: "t".into(),
        asks: Asks::Operator,
        digest: digest_of(&key(), &subject, &title, Asks::Operator, &labels, &detail),
        args_sha256: detail.args_sha256(),
        detail_sha256: Sha256::of(detail.to_bytes()),
        fields: 0,
        deadline: None,
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
        from: key(),
        subject,
        title,
        labels,
    };
    Event::ApprovalRequested {
        approval: Arc::new(approval),
    }
}

pub(super) fn granted(n: u128) -> Event {
    let decision = Decision {
        id: DecisionId::parse(&format!("d{n}")).unwrap(),
        decider: Decider {
            by: name("user:ada"),
            on_behalf_of: None,
            via: None,
        },
        answers: Answers::default(),
        note: "fine by me".into(),
        seen: Seen::Whole,
    };
    Event::ApprovalGranted {
        id: id(n),
        decision,
    }
}

pub(super) fn applied(n: u128, when: Timestamp) -> Event {
    let applied = Applied {
        result: AppliedResult::Done,
        detail: "paid".into(),
        at: when,
    };
    Event::DecisionApplied { id: id(n), applied }
}

fn held(n: u128) -> EscalationId {
    // Ids are one space: no escalation has the id of an approval.
    EscalationId::mint(at(0), 1000 + n)
}

pub(super) fn raised(n: u128) -> Event {
    let escalation = Escalation {
        id: held(n),
        run: run(),
        from: key(),
        owner: Some(name("eu:42")),
        cause: Cause::Paused {
            by: name("user:ada"),
            note: "wait".into(),
        },
        also: Vec::new(),
        after: None,
        at: at(0),
        abort_at: None,
    };
    Event::EscalationRaised {
        escalation: Arc::new(escalation),
    }
}

pub(super) fn resumed(n: u128) -> Event {
    Event::EscalationClosed {
        id: held(n),
        how: How::Answered {
            verb: Verb::Resume,
            by: name("user:ada"),
            note: "go on".into(),
        },
    }
}

/// The order that carries the answer.
fn resume(n: u128) -> Control {
    Control {
        id: ControlId::parse(&format!("c{n}")).unwrap(),
        run: run(),
        verb: Verb::Resume,
        note: "go on".into(),
        by: name("user:ada"),
        escalation: Some(held(n)),
        drift: None,
        deadline: None,
        at: at(2),
        steps: Vec::new(),
    }
}

fn acked(n: u128, when: Timestamp) -> Event {
    Event::ControlMoved {
        run: run(),
        id: resume(n).id,
        escalation: Some(held(n)),
        step: Step {
            stage: Stage::Acked,
            detail: "resumed".into(),
            at: when,
        },
    }
}

pub(super) fn said(text: &str) -> Event {
    let text = text.into();
    Event::Said { run: run(), text }
}

/// The events after `head`, recorded at `now`.
pub(super) fn writes(head: Seq, now: Timestamp, events: Vec<Event>) -> Writes {
    let entry = |(seq, event): (Seq, Event)| Entry {
        recorded: Recorded {
            seq,
            at: now,
            scope: Scope {
                tenant: tenant(),
                owner: Some(name("eu:42")),
            },
            event: Arc::new(event),
        },
        actor: name("user:ada"),
    };
    Writes {
        events: (head + 1..).zip(events).map(entry).collect(),
        ..Writes::default()
    }
}

pub(super) fn write(
    log: &mut dyn Log,
    wall: Timestamp,
    events: Vec<Event>,
) -> Result<(), LogError> {
    let turn = log.turn(wall)?;
    let (head, now) = (turn.head(), turn.now());
    turn.commit(writes(head, now, events))
}

// === What is asked of each log ===

/// Two logs on one store.
type Two = (&'static str, Box<dyn Log>, Box<dyn Log>);

fn every_log(dir: &tempfile::TempDir) -> Vec<Two> {
    let memory = Memory::new("e");
    let another = memory.another();
    let path = dir.path().join("log");
    let sqlite = Sqlite::open(&path).unwrap();
    let same = Sqlite::open(&path).unwrap();
    vec![
        ("memory", Box::new(memory), Box::new(another)),
        ("sqlite", Box::new(sqlite), Box::new(same)),
    ]
}

fn history(reader: &dyn Reader, tenant: &Tenant, before: Option<Seq>, limit: usize) -> Vec<Ended> {
    let query = HistoryQuery::all(tenant, before, limit);
    reader.history(&query).unwrap().ended
}

fn all(log: &dyn Log) -> Vec<Recorded> {
    log.reader().unwrap().read(0, usize::MAX).unwrap()
}

#[test]
fn what_others_wrote_is_missed_once_and_then_known() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut a, mut b) in every_log(&dir) {
        assert_eq!(a.epoch(), b.epoch(), "{kind}");
        write(&mut *a, at(1), vec![opened(), requested(1)]).unwrap();
        let missed = b.turn(at(1)).unwrap().missed().to_vec();
        assert_eq!(missed, all(&*a), "{kind}");
        assert_eq!(missed.len(), 2, "{kind}");
        assert!(b.turn(at(1)).unwrap().missed().is_empty(), "{kind}");
        write(&mut *b, at(2), vec![granted(1)]).unwrap();
        assert!(b.turn(at(2)).unwrap().missed().is_empty(), "{kind}");
        let turn = a.turn(at(2)).unwrap();
        let missed: Vec<Seq> = turn.missed().iter().map(|missed| missed.seq).collect();
        assert_eq!((missed, turn.head()), (vec![3], 3), "{kind}");
    }
}

#[test]
fn a_turn_that_is_dropped_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, mut other) in every_log(&dir) {
        drop(log.turn(at(1)).unwrap());
        log.turn(at(1)).unwrap().commit(Writes::default()).unwrap();
        assert_eq!(other.turn(at(1)).unwrap().head(), 0, "{kind}");
        write(&mut *other, at(1), vec![opened()]).unwrap();
        assert_eq!(all(&*log).len(), 1, "{kind}");
    }
}

/// What State has forgotten is read while a command is judged.
#[test]
fn what_is_committed_is_read_beside_an_open_turn() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        write(&mut *log, at(1), vec![opened(), requested(1), granted(1)]).unwrap();
        let reader = log.reader().unwrap();
        let turn = log.turn(at(1)).unwrap();
        assert!(reader.settled(id(1)).unwrap().is_some(), "{kind}");
        turn.commit(writes(3, at(1), vec![said("x")])).unwrap();
        assert_eq!(reader.head().unwrap(), 4, "{kind}");
    }
}

#[test]
fn time_never_runs_backwards() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut a, mut b) in every_log(&dir) {
        let walls = [5, 3, 9, 1, 9];
        for (n, wall) in walls.into_iter().enumerate() {
            let log = if n % 2 == 0 { &mut a } else { &mut b };
            write(&mut **log, at(wall), vec![said("x")]).unwrap();
        }
        let times: Vec<Timestamp> = all(&*a).iter().map(|recorded| recorded.at).collect();
        assert_eq!(times, [5, 5, 9, 9, 9].map(at), "{kind}");
    }
}

/// ENGINE §2.8: gapless, one order, and everybody folds the same.
#[test]
fn two_writers_at_once_leave_no_gap() {
    const EACH: u128 = 100;
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut a, mut b) in every_log(&dir) {
        let work = |log: &mut dyn Log, first: u128| {
            let mut state = State::default();
            for n in first..first + EACH {
                let turn = log.turn(at((n % 7) as i64)).unwrap();
                turn.missed().iter().for_each(|missed| state.apply(missed));
                assert_eq!(turn.head(), state.head());
                let writes = writes(turn.head(), turn.now(), vec![requested(n), granted(n)]);
                let own: Vec<Recorded> = writes.events.iter().map(|e| e.recorded.clone()).collect();
                turn.commit(writes).unwrap();
                own.iter().for_each(|own| state.apply(own));
            }
            let last = log.turn(at(0)).unwrap();
            last.missed().iter().for_each(|missed| state.apply(missed));
            state
        };
        let (mut mine, mut theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| work(&mut *b, 1000));
            (work(&mut *a, 1), theirs.join().unwrap())
        });
        for (log, state) in [(&mut a, &mut mine), (&mut b, &mut theirs)] {
            let turn = log.turn(at(0)).unwrap();
            turn.missed().iter().for_each(|missed| state.apply(missed));
        }
        let events = all(&*a);
        let seqs: Vec<Seq> = events.iter().map(|recorded| recorded.seq).collect();
        assert_eq!(seqs, (1..=4 * EACH as Seq).collect::<Vec<_>>(), "{kind}");
        assert!(events.is_sorted_by_key(|recorded| recorded.at), "{kind}");
        let mut whole = State::default();
        events.iter().for_each(|recorded| whole.apply(recorded));
        assert_eq!(mine.rows(), whole.rows(), "{kind}");
        assert_eq!(theirs.rows(), whole.rows(), "{kind}");
        assert_eq!(whole.all_settled().count(), 2 * EACH as usize, "{kind}");
    }
}

#[test]
fn what_the_rules_make_impossible_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        write(
            &mut *log,
            at(1),
            vec![opened(), requested(1), granted(1), requested(2)],
        )
        .unwrap();
        let same_decision = || match granted(2) {
            Event::ApprovalGranted { id, decision } => Event::ApprovalRejected {
                id,
                decision: Decision {
                    id: DecisionId::parse("d1").unwrap(),
                    ..decision
                },
            },
            other => other,
        };
        let same_key = || Event::ApprovalJoined {
            id: id(2),
            key: Key::parse("k1").unwrap(),
        };
        let expired = |n| Event::ApprovalExpired { id: id(n) };
        let raised_and_resumed_twice = || vec![raised(1), resumed(1), resumed(1)];
        let rows = [
            (
                "two ends of one escalation",
                writes(4, at(1), raised_and_resumed_twice()),
            ),
            ("two ends", writes(4, at(1), vec![expired(1)])),
            (
                "two ends at once",
                writes(4, at(1), vec![expired(2), granted(2)]),
            ),
            (
                "one decision id twice",
                writes(4, at(1), vec![same_decision()]),
            ),
            ("one key twice", writes(4, at(1), vec![same_key()])),
            ("a gap", writes(5, at(1), vec![said("x")])),
            ("a number again", writes(3, at(1), vec![said("x")])),
            ("an earlier moment", writes(4, at(0), vec![said("x")])),
            (
                "two details",
                Writes {
                    details: vec![(id(2), vec![1]), (id(2), vec![2])],
                    ..Writes::default()
                },
            ),
        ];
        let before = all(&*log);
        for (what, mut writes) in rows {
            writes.frames.push((run(), vec![1]));
            let error = log.turn(at(1)).unwrap().commit(writes).unwrap_err();
            assert!(
                matches!(error, LogError::Broken(_)),
                "{kind}, {what}: {error}"
            );
            assert!(
                error.to_string().contains("assertion"),
                "{kind}, {what}: {error}"
            );
            assert_eq!(all(&*log), before, "{kind}, {what}");
        }
        let reader = log.reader().unwrap();
        assert!(reader.frames(run()).unwrap().is_empty(), "{kind}");
        assert_eq!(reader.detail(id(2)).unwrap(), None, "{kind}");
        write(&mut *log, at(1), vec![granted(2)]).unwrap();
    }
}

/// What came of a decision may be told long after memory has let go of it.
#[test]
fn history_is_read_newest_first_and_knows_what_came_later() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let filed = (1..=5).map(requested);
        write(
            &mut *log,
            at(1),
            std::iter::once(opened()).chain(filed).collect(),
        )
        .unwrap();
        for n in [2, 1, 3, 5] {
            write(&mut *log, at(2), vec![granted(n)]).unwrap();
        }
        let next_week = at(7 * 24 * 60);
        write(&mut *log, next_week, vec![applied(3, next_week)]).unwrap();
        let reader = log.reader().unwrap();
        let mut pages = Vec::new();
        let mut before = None;
        loop {
            let page = history(&*reader, &tenant(), before, 3);
            let Some(last) = page.last() else { break };
            before = Some(last.seq());
            let done = |ended: &Ended| match ended {
                Ended::Approval(settled) => {
                    (settled.approval.id, settled.seq, settled.applied.is_some())
                }
                Ended::Escalation(closed) => panic!("{closed:?}"),
            };
            pages.push(page.iter().map(done).collect::<Vec<_>>());
        }
        let first = vec![(id(5), 10, false), (id(3), 9, true), (id(1), 8, false)];
        assert_eq!(pages, [first, vec![(id(2), 7, false)]], "{kind}");
        let other = Tenant::parse("other").unwrap();
        assert!(history(&*reader, &other, None, 9).is_empty(), "{kind}");

        let settled = reader.settled(id(3)).unwrap().unwrap();
        assert_eq!((settled.at, settled.seq), (at(2), 9), "{kind}");
        assert_eq!(settled.applied.unwrap().at, next_week, "{kind}");
        assert_eq!(reader.settled(id(4)).unwrap(), None, "{kind}");
        assert_eq!(reader.settled(id(9)).unwrap(), None, "{kind}");
        let (k, d) = (Key::parse("k3").unwrap(), DecisionId::parse("d3").unwrap());
        assert_eq!(
            reader.filed_under(&tenant(), &k).unwrap(),
            Some(id(3)),
            "{kind}"
        );
        assert_eq!(
            reader.decided_by(&tenant(), &d).unwrap(),
            Some(id(3)),
            "{kind}"
        );
        assert_eq!(reader.filed_under(&other, &k).unwrap(), None, "{kind}");
        assert_eq!(reader.decided_by(&other, &d).unwrap(), None, "{kind}");
    }
}

/// What became of an answer is told long after the escalation that it ended.
#[test]
fn escalations_stand_in_history_among_the_approvals() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let paused = Event::ControlIssued {
            control: Box::new(Control {
                id: ControlId::parse("c0").unwrap(),
                verb: Verb::Pause,
                ..resume(1)
            }),
        };
        let answered = Event::ControlIssued {
            control: Box::new(resume(1)),
        };
        let superseded = Event::EscalationClosed {
            id: held(2),
            how: How::Superseded { by: held(3) },
        };
        let first = vec![opened(), requested(1), raised(1), paused, raised(2)];
        write(&mut *log, at(1), first).unwrap();
        write(&mut *log, at(2), vec![granted(1), resumed(1), answered]).unwrap();
        write(&mut *log, at(3), vec![superseded, raised(3)]).unwrap();
        let next_week = at(7 * 24 * 60);
        write(&mut *log, next_week, vec![acked(1, next_week)]).unwrap();
        let reader = log.reader().unwrap();

        let page = |before, limit| {
            let page = history(&*reader, &tenant(), before, limit);
            let ended = |ended: &Ended| match ended {
                Ended::Approval(settled) => format!("approval {}", settled.outcome.word()),
                Ended::Escalation(closed) => format!("escalation {}", closed.how.word()),
            };
            page.iter()
                .map(|one| (one.seq(), ended(one)))
                .collect::<Vec<_>>()
        };
        let superseded = (9, "escalation superseded".to_owned());
        let resumed = (7, "escalation resumed".to_owned());
        let granted = (6, "approval granted".to_owned());
        assert_eq!(page(None, 2), [superseded, resumed], "{kind}");
        assert_eq!(page(Some(7), 2), [granted], "{kind}");
        let other = Tenant::parse("other").unwrap();
        assert!(history(&*reader, &other, None, 9).is_empty(), "{kind}");

        let closed = reader.closed(held(1)).unwrap().unwrap();
        let Event::EscalationRaised { escalation } = raised(1) else {
            unreachable!()
        };
        assert_eq!(closed.escalation, escalation, "{kind}");
        assert_eq!((closed.at, closed.seq), (at(2), 7), "{kind}");
        let answer = closed.control.unwrap();
        assert_eq!((&answer.id, answer.stage()), (&resume(1).id, Stage::Acked));
        assert_eq!(answer.steps[0].at, next_week, "{kind}");
        assert!(reader.closed(held(2)).unwrap().unwrap().control.is_none());
        assert_eq!(reader.closed(held(3)).unwrap(), None, "{kind}");
        assert_eq!(reader.closed(held(9)).unwrap(), None, "{kind}");
    }
}

#[test]
fn the_record_of_a_run_is_read_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let events = vec![
            opened(),
            requested(1),
            said("a"),
            granted(1),
            said("b"),
            said("c"),
        ];
        write(&mut *log, at(1), events).unwrap();
        let reader = log.reader().unwrap();
        let page = |after| {
            let events = reader.record(run(), after, 2).unwrap();
            events
                .iter()
                .map(|recorded| recorded.seq)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            [page(0), page(3), page(6)],
            [vec![1, 3], vec![5, 6], vec![]],
            "{kind}"
        );
        let other = RunId::mint(at(0), 2);
        assert!(reader.record(other, 0, 9).unwrap().is_empty(), "{kind}");
        let tail = reader.read(4, 1).unwrap();
        assert_eq!((tail.len(), tail[0].seq), (1, 5), "{kind}");
    }
}

#[test]
fn details_are_kept_and_foreign_originals_make_room() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let other = RunId::mint(at(0), 2);
        let n = |n: usize| n.to_be_bytes().to_vec();
        for first in [0, 200] {
            let turn = log.turn(at(1)).unwrap();
            let head = turn.head();
            let mut frames: Vec<_> = (first..first + 200).map(|i| (run(), n(i))).collect();
            frames.push((other, n(7)));
            turn.commit(Writes {
                frames,
                details: vec![(id(first as u128), n(first))],
                ..writes(head, at(1), vec![])
            })
            .unwrap();
        }
        let reader = log.reader().unwrap();
        let kept: Vec<Vec<u8>> = (400 - FRAMES_KEPT..400).map(n).collect();
        assert_eq!(reader.frames(run()).unwrap(), kept, "{kind}");
        assert_eq!(reader.frames(other).unwrap(), [n(7), n(7)], "{kind}");
        assert_eq!(reader.detail(id(200)).unwrap(), Some(n(200)), "{kind}");
        assert_eq!(reader.detail(id(1)).unwrap(), None, "{kind}");
    }
}

#[test]
fn both_logs_make_the_same_chain() {
    let dir = tempfile::tempdir().unwrap();
    let mut sqlite = Sqlite::open(dir.path().join("log")).unwrap();
    let mut memory = Memory::new(sqlite.epoch().clone());
    for minute in 0..3 {
        for log in [&mut sqlite as &mut dyn Log, &mut memory] {
            write(
                log,
                at(minute),
                vec![opened(), said("grüß Gott\n\u{1b}[2J")],
            )
            .unwrap();
        }
    }
    assert_eq!(sqlite.tip(), memory.tip());
    assert_eq!(sqlite.verify().unwrap(), 6);
    assert_eq!(all(&sqlite), all(&memory));
    let mut elsewhere = Memory::new("another");
    write(&mut elsewhere, at(0), vec![opened()]).unwrap();
    let first = |hash: &str| link(&Sha256::of(hash), 1, at(0), &body(&opened()).unwrap());
    assert_eq!(elsewhere.tip().hash, first("another"));
    assert_ne!(first("another"), first(sqlite.epoch()));
}

#[test]
fn two_processes_may_begin_one_file_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let epochs: Vec<Epoch> = std::thread::scope(|scope| {
            let open = || Sqlite::open(&path).unwrap().epoch().clone();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
    }
}

/// Everything that is given has to hold, in both logs alike.
#[test]
fn history_is_searched_by_what_people_know_of_it() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let labelled = |n, text: &str| {
            let Event::ApprovalRequested { approval } = requested(n) else {
                unreachable!()
            };
            let approval = Approval {
                title: text.into(),
                labels: BTreeMap::from([("env".into(), "prod".into())]),
                ..(*approval).clone()
            };
            Event::ApprovalRequested {
                approval: Arc::new(approval),
            }
        };
        let first = vec![
            opened(),
            requested(1),
            labelled(2, "DELETE Everything"),
            raised(1),
        ];
        write(&mut *log, at(1), first).unwrap();
        write(&mut *log, at(2), vec![granted(1)]).unwrap();
        write(&mut *log, at(3), vec![Event::ApprovalExpired { id: id(2) }]).unwrap();
        write(&mut *log, at(4), vec![resumed(1)]).unwrap();
        let reader = log.reader().unwrap();
        let none = Filter::default;
        let outcome = |word| Some(EndedAs::parse(word).unwrap());
        let rows: Vec<(Filter, &[Seq])> = vec![
            (none(), &[7, 6, 5]),
            (
                Filter {
                    text: Some("everything".into()),
                    ..none()
                },
                &[6],
            ),
            (
                Filter {
                    text: Some("FINE BY".into()),
                    ..none()
                },
                &[5],
            ),
            (
                Filter {
                    text: Some("go on".into()),
                    ..none()
                },
                &[7],
            ),
            (
                Filter {
                    text: Some("T2".into()),
                    ..none()
                },
                &[6],
            ),
            (
                Filter {
                    text: Some("Billing".into()),
                    ..none()
                },
                &[7, 6, 5],
            ),
            (
                Filter {
                    text: Some("nowhere".into()),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    run: Some("1".into()),
                    ..none()
                },
                &[7, 6, 5],
            ),
            (
                Filter {
                    run: Some(run().to_string().to_lowercase().as_str().into()),
                    ..none()
                },
                &[7, 6, 5],
            ),
            (
                Filter {
                    run: Some("2".into()),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    agent: Some("billing".into()),
                    ..none()
                },
                &[7, 6, 5],
            ),
            (
                Filter {
                    agent: Some("bill".into()),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    decider: Some("user:ada".into()),
                    ..none()
                },
                &[7, 5],
            ),
            (
                Filter {
                    decider: Some("ada".into()),
                    ..none()
                },
                &[7, 5],
            ),
            (
                Filter {
                    decider: Some("ad".into()),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    outcome: outcome("granted"),
                    ..none()
                },
                &[5],
            ),
            (
                Filter {
                    outcome: outcome("expired"),
                    ..none()
                },
                &[6],
            ),
            (
                Filter {
                    outcome: outcome("resumed"),
                    ..none()
                },
                &[7],
            ),
            (
                Filter {
                    outcome: outcome("run-ended"),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    labels: vec![("env".into(), "prod".into())],
                    ..none()
                },
                &[6],
            ),
            (
                Filter {
                    labels: vec![("env".into(), "test".into())],
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    since: Some(at(3)),
                    ..none()
                },
                &[7, 6],
            ),
            (
                Filter {
                    until: Some(at(3)),
                    ..none()
                },
                &[6, 5],
            ),
            (
                Filter {
                    since: Some(at(3)),
                    until: Some(at(3)),
                    ..none()
                },
                &[6],
            ),
            (
                Filter {
                    since: Some(at(5)),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    until: Some(at(1)),
                    ..none()
                },
                &[],
            ),
            (
                Filter {
                    text: Some("everything".into()),
                    outcome: outcome("granted"),
                    ..none()
                },
                &[],
            ),
        ];
        for (filter, found) in rows {
            let query = HistoryQuery {
                filter: filter.clone(),
                ..HistoryQuery::all(&tenant(), None, 9)
            };
            let page = reader.history(&query).unwrap();
            let seqs: Vec<Seq> = page.ended.iter().map(Ended::seq).collect();
            assert_eq!((&seqs[..], page.next), (found, None), "{kind}: {filter:?}");
        }
        assert!(
            EndedAs::parse("approved")
                .unwrap_err()
                .to_string()
                .contains("granted, ")
        );
    }
}

/// What is rare and long ago is found, and no call looks at more than its share.
#[test]
fn a_search_goes_on_where_the_page_before_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let many = 2 * LOOKED_AT as u128 + 10;
        let asked = (1..=many).map(requested);
        write(
            &mut *log,
            at(1),
            std::iter::once(opened()).chain(asked).collect(),
        )
        .unwrap();
        let end = |n| match n {
            3 => granted(n),
            n => Event::ApprovalExpired { id: id(n) },
        };
        write(&mut *log, at(2), (1..=many).map(end).collect()).unwrap();
        let reader = log.reader().unwrap();
        let mut query = HistoryQuery::all(&tenant(), None, 9);
        query.filter.outcome = Some(EndedAs::parse("granted").unwrap());
        let mut pages = Vec::new();
        loop {
            let page = reader.history(&query).unwrap();
            pages.push(page.ended.len());
            query.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(pages, [0, 0, 1], "{kind}");
    }
}

// === Trimming ===

fn day(n: i64) -> Timestamp {
    at(n * 24 * 60)
}

fn sweep(before: i64, now: i64, rows: usize) -> Sweep {
    Sweep {
        before: day(before),
        now: day(now),
        rows,
        steady: false,
    }
}

/// Another run, which lives.
fn alive() -> RunId {
    RunId::mint(at(0), 2)
}

fn lives(event: Event) -> Event {
    match event {
        Event::RunOpened { mut run, context } => {
            run.id = alive();
            run.key.invocation = "2".into();
            Event::RunOpened { run, context }
        }
        Event::ApprovalRequested { approval } => Event::ApprovalRequested {
            approval: Arc::new(Approval {
                run: alive(),
                ..(*approval).clone()
            }),
        },
        Event::Said { text, .. } => Event::Said { run: alive(), text },
        other => other,
    }
}

fn attempted(n: u128) -> Event {
    Event::WaitTimedOut {
        id: id(n),
        wait: crate::names::WaitId::parse("w1").unwrap(),
    }
}

fn run_ended() -> Event {
    Event::RunEnded {
        run: run(),
        end: crate::run::End::Completed,
        reason: "all done".into(),
    }
}

/// A run that ended on the second day and one that lives, with all that there is of each; then three months of one word a day.
fn long_ago(log: &mut dyn Log) {
    let detail = |n| (id(n), vec![7; 9]);
    let first = vec![
        opened(),
        requested(1),
        requested(2),
        lives(opened()),
        lives(requested(3)),
        lives(requested(4)),
        raised(1),
        attempted(1),
        said("secrets"),
        lives(said("mine")),
    ];
    let turn = log.turn(day(0)).unwrap();
    turn.commit(Writes {
        details: (1..=4).map(detail).collect(),
        frames: vec![(run(), vec![1]), (run(), vec![2]), (alive(), vec![3])],
        sealed: vec![(id(1), vec![9])],
        ..writes(0, day(0), first)
    })
    .unwrap();
    let answered = Event::ControlIssued {
        control: Box::new(resume(1)),
    };
    let then = vec![
        granted(1),
        Event::ApprovalExpired { id: id(2) },
        granted(3),
        resumed(1),
        answered,
        applied(1, day(1)),
        run_ended(),
    ];
    write(log, day(1), then).unwrap();
    write(log, day(2), vec![acked(1, day(2))]).unwrap();
    for n in 3..100 {
        write(log, day(n), vec![lives(said("x"))]).unwrap();
    }
}

fn swept(log: &mut dyn Log, sweep: &Sweep) -> Vec<(Tenant, Trimmed)> {
    loop {
        match log.trim(sweep).unwrap() {
            Swept::More => {}
            Swept::Done(tally) => return tally,
            Swept::Held(jump) => panic!("{jump}"),
        }
    }
}

/// Case D13: what was asked and how it ended stays for ever; what a run said goes once it ended long ago.
#[test]
fn what_ended_long_ago_loses_its_content_and_keeps_its_answer() {
    for rows in [1, 3, 1000] {
        let dir = tempfile::tempdir().unwrap();
        for (kind, mut log, mut other) in every_log(&dir) {
            long_ago(&mut *log);
            let reader = log.reader().unwrap();
            let known = |reader: &dyn Reader| {
                let settled = (1..=4).map(|n| reader.settled(id(n)).unwrap());
                let page = reader.history(&HistoryQuery::all(&tenant(), None, 9));
                let key = reader.filed_under(&tenant(), &Key::parse("k1").unwrap());
                let decision = DecisionId::parse("d1").unwrap();
                let decided = reader.decided_by(&tenant(), &decision).unwrap();
                let step = reader.settled_in(run(), &"t".into()).unwrap();
                let closed = reader.closed(held(1)).unwrap();
                (
                    settled.collect::<Vec<_>>(),
                    closed,
                    page.unwrap(),
                    key.unwrap(),
                    decided,
                    step,
                )
            };
            let fold = |log: &mut dyn Log| {
                let mut state = State::default();
                log.turn(day(100))
                    .unwrap()
                    .missed()
                    .iter()
                    .for_each(|one| state.apply(one));
                state
            };
            let (before, whole) = (known(&*reader), all(&*log));

            let tally = swept(&mut *log, &sweep(10, 100, rows));
            assert_eq!(known(&*reader), before, "{kind}");
            let left = all(&*log);
            let gone: Vec<Seq> = whole
                .iter()
                .filter(|one| !left.contains(one))
                .map(|one| one.seq)
                .collect();
            // What was opened, tried and said, and the end itself.
            assert_eq!(gone, [1, 8, 9, 17], "{kind}");
            assert_eq!(reader.floor().unwrap(), 17, "{kind}");
            let trimmed = Trimmed {
                events: 4,
                details: 3,
                frames: 2,
                oldest: day(0),
                newest: day(1),
                floor: 17,
            };
            assert_eq!(tally, [(tenant(), trimmed)], "{kind}");
            assert!(
                reader
                    .record(run(), 0, 99)
                    .unwrap()
                    .iter()
                    .all(|one| one.seq >= 15)
            );
            assert_eq!(reader.record(alive(), 0, 200).unwrap().len(), 99, "{kind}");
            let details = [1, 2, 3, 4].map(|n| reader.detail(id(n)).unwrap().is_some());
            assert_eq!(details, [false, false, false, true], "{kind}");
            assert_eq!(reader.sealed(id(1)).unwrap(), None, "{kind}");
            assert!(reader.frames(run()).unwrap().is_empty(), "{kind}");
            assert_eq!(reader.frames(alive()).unwrap().len(), 1, "{kind}");

            // Whoever folds the log now has the same State as whoever folded it whole.
            let mut folded = State::default();
            whole.iter().for_each(|one| folded.apply(one));
            assert_eq!(fold(&mut *other).rows(), folded.rows(), "{kind}");

            // It is told once, also to whoever sweeps again before it is recorded.
            assert_eq!(swept(&mut *log, &sweep(10, 100, rows)), tally, "{kind}");
            let (tenant, trimmed) = tally[0].clone();
            write(
                &mut *log,
                day(100),
                vec![Event::HistoryTrimmed { tenant, trimmed }],
            )
            .unwrap();
            assert_eq!(swept(&mut *log, &sweep(10, 100, rows)), [], "{kind}");
        }
    }
}

/// A question that waits keeps its run, however long ago that ended.
#[test]
fn a_run_that_still_asks_is_not_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        let first = vec![opened(), requested(1), said("a"), run_ended()];
        write(&mut *log, day(0), first).unwrap();
        write(&mut *log, day(99), vec![granted(1), lives(opened())]).unwrap();
        let whole = all(&*log);
        let steady = Sweep {
            steady: true,
            ..sweep(10, 100, 9)
        };
        assert_eq!(swept(&mut *log, &steady), [], "{kind}");
        assert_eq!(all(&*log), whole, "{kind}");
        // And once it was answered long ago, it goes.
        write(&mut *log, day(300), vec![lives(said("x"))]).unwrap();
        let later = Sweep {
            steady: true,
            ..sweep(200, 300, 9)
        };
        let trimmed = swept(&mut *log, &later);
        assert_eq!(trimmed[0].1.events, 3, "{kind}");
        assert!(
            log.reader().unwrap().settled(id(1)).unwrap().is_some(),
            "{kind}"
        );
    }
}

/// Case D13: a clock that jumped takes nothing, until somebody knows that it is right.
#[test]
fn a_sweep_after_a_jump_of_the_clock_stops() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, mut log, _) in every_log(&dir) {
        long_ago(&mut *log);
        let whole = all(&*log);
        let years = sweep(5 * 365 - 90, 5 * 365, 9);
        let Swept::Held(jump) = log.trim(&years).unwrap() else {
            panic!("{kind}: not held")
        };
        assert_eq!((jump.from, jump.to), (day(99), day(5 * 365)), "{kind}");
        // Nor after somebody worked under the wrong clock.
        write(&mut *log, day(5 * 365), vec![lives(said("x"))]).unwrap();
        assert!(
            matches!(log.trim(&years).unwrap(), Swept::Held(_)),
            "{kind}"
        );
        assert_eq!(all(&*log).len(), whole.len() + 1, "{kind}");
        // Where less than half would go, it does.
        let few = sweep(10, 5 * 365, 1000);
        assert_eq!(log.trim(&few).unwrap(), Swept::More, "{kind}");
        let believed = Sweep {
            steady: true,
            ..years
        };
        assert_eq!(log.trim(&believed).unwrap(), Swept::More, "{kind}");
    }
}
