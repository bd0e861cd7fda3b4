//! Deadlines from a minute to thirty days, on a clock that jumps, with a server that is started again in between: each passes
//! once, never early, a decision counts if and only if it was recorded by then, and time never runs backwards in the log
//! (`ENGINE` §7, row 8).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pilothouse::{
    serve::clock::Clock,
    wire::{pb::pilothouse::v1 as pb, status::refused},
};
use registry::{Event, Recorded, Timestamp};

use crate::{
    house::{decision, extension, file, open, question},
    proof::{BEGINNING, Chance, Stage, run, seeds, times},
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A question that was filed, and what is known of it.
struct Asked {
    filed: pb::FileResponse,
    deadline: Timestamp,
    stays_open: bool,
}

fn with_deadline(run: &str, target: &str, seconds: u64, stays_open: bool) -> pb::FileRequest {
    let seconds = i64::try_from(seconds).unwrap();
    pb::FileRequest {
        deadline: Some(pb::Deadline {
            after: Some(prost_types::Duration { seconds, nanos: 0 }),
            on_deadline: if stays_open {
                pb::OnDeadline::StayOpen.into()
            } else {
                pb::OnDeadline::Expire.into()
            },
        }),
        ..question(run, target, pb::Asks::Operator)
    }
}

/// Waits until nothing is open any more whose deadline has passed: nobody asks, the thread wakes by itself.
async fn settles(stage: &Stage) {
    let from = Instant::now();
    let now = stage.owner().now();
    loop {
        let due = stage.owner().state().next_deadline();
        if due.is_none_or(|due| due >= now) {
            return;
        }
        assert!(
            from.elapsed() < Duration::from_secs(20),
            "it does not expire"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn life(seed: u64) {
    let mut chance = Chance::new(seed);
    let mut stage = Stage::open().await;
    let mut agent = stage.agent("agent:a1");
    let mut person = stage.person("operator:ops");
    let run = open(&mut agent, "r1", "").await;
    let mut asked: Vec<Asked> = vec![];
    let (mut early, mut late) = (0, 0);
    for n in 0..80 {
        match chance.below(10) {
            0..4 => {
                let spans = [MINUTE, MINUTE + 1, HOUR, DAY, 7 * DAY, 30 * DAY];
                let span = *chance.pick(&spans);
                let stays_open = chance.one_in(6);
                let filing = with_deadline(&run, &format!("t{n}"), span, stays_open);
                let filed = file(&mut agent, filing).await;
                let deadline = stage
                    .owner()
                    .state()
                    .last_at()
                    .plus(Duration::from_secs(span));
                asked.push(Asked {
                    filed,
                    deadline,
                    stays_open,
                });
            }
            4 | 5 if !asked.is_empty() => {
                let which = chance.pick(&asked);
                let wish = decision(&which.filed, pb::Verdict::Approve, &format!("d{n}"));
                let in_time = which.stays_open || stage.owner().now() <= which.deadline;
                let answer = person.decide(wish).await;
                let word = answer
                    .as_ref()
                    .err()
                    .map(|status| refused(status).unwrap().word);
                match word.as_deref() {
                    None => {
                        assert!(in_time, "it was too late, and counts");
                        early += 1;
                    }
                    Some("expired") => {
                        assert!(!in_time, "it was in time, and does not count");
                        late += 1;
                    }
                    Some("already_settled") => {}
                    other => panic!("{other:?}"),
                }
            }
            6 if !asked.is_empty() => {
                let which = usize::try_from(chance.below(asked.len() as u64)).unwrap();
                let wish = extension(&asked[which].filed.approval_id, 3 * 3600);
                if let Ok(until) = person.extend(wish).await {
                    let until = until.into_inner().deadline.unwrap();
                    let ms = until.seconds * 1000 + i64::from(until.nanos) / 1_000_000;
                    asked[which].deadline = Timestamp::from_ms(ms);
                }
            }
            7 => {
                stage.restart().await;
                agent = stage.agent("agent:a1");
                person = stage.person("operator:ops");
            }
            _ => jump(&stage, &mut chance, &asked),
        }
        if chance.one_in(3) {
            settles(&stage).await;
        }
    }
    stage
        .clock
        .set(BEGINNING.plus(Duration::from_secs(4000 * DAY)));
    settles(&stage).await;
    check(&stage.log(), &asked);
    eprintln!(
        "seed {seed}: {} asked, {early} in time, {late} too late",
        asked.len()
    );
}

/// Onwards, backwards, by an hour, by years, and to the very moment of a deadline and the one after it.
fn jump(stage: &Stage, chance: &mut Chance, asked: &[Asked]) {
    let now = stage.clock.now();
    let to = match chance.below(8) {
        0 => now.ms() - 3_600_000,
        1 => now.ms() + 3_600_000,
        2 => now.ms() - 3 * 365 * 86_400_000,
        3 => now.ms() + 86_400_000,
        4 | 5 if !asked.is_empty() => {
            let deadline = chance.pick(asked).deadline.ms();
            deadline + i64::try_from(chance.below(3)).unwrap() - 1
        }
        _ => now.ms() + i64::try_from(chance.below(120_000)).unwrap(),
    };
    stage.clock.set(Timestamp::from_ms(to));
}

fn check(log: &[Recorded], asked: &[Asked]) {
    let mut deadlines: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for recorded in log {
        let id = recorded.event.approval().map(|id| id.to_string());
        let id = id.unwrap_or_default();
        let at = recorded.at;
        match &*recorded.event {
            Event::ApprovalRequested { approval } => {
                deadlines.insert(id, approval.deadline.unwrap());
            }
            Event::DeadlineExtended { deadline, .. } => {
                let stays = asked
                    .iter()
                    .any(|a| a.filed.approval_id == id && a.stays_open);
                assert!(
                    stays || at <= deadlines[&id],
                    "extended after it had passed"
                );
                deadlines.insert(id, *deadline);
            }
            Event::ApprovalExpired { .. } => {
                assert!(at > deadlines[&id], "{id} expired early: {at}");
                *ended.entry(id).or_default() += 1;
            }
            Event::ApprovalGranted { .. } => {
                let stays = asked
                    .iter()
                    .any(|a| a.filed.approval_id == id && a.stays_open);
                assert!(
                    stays || at <= deadlines[&id],
                    "{id} was decided too late: {at}"
                );
                *ended.entry(id).or_default() += 1;
            }
            _ => {}
        }
    }
    for asked in asked.iter().filter(|asked| !asked.stays_open) {
        let count = ended.get(&asked.filed.approval_id);
        assert_eq!(count, Some(&1), "{} ended once", asked.filed.approval_id);
    }
}

#[test]
fn deadlines_pass_once_and_never_early_whatever_the_clock_does() {
    seeds("proof_time::deadlines_pass_once", times(8), |seed| {
        run(life(seed))
    });
}

#[test]
fn a_clock_that_is_set_forward_ends_no_question() {
    run(async {
        let stage = Stage::with(Clock::settable(BEGINNING)).await;
        let mut agent = stage.agent("agent:a1");
        let mut person = stage.person("operator:ops");
        let run = open(&mut agent, "r1", "").await;
        let mut cards = vec![];
        for n in 0..4 {
            let filing = with_deadline(&run, &format!("t{n}"), DAY, false);
            cards.push(file(&mut agent, filing).await);
        }
        let open_cards = || stage.owner().state().all_pending().count();
        let ahead = async || {
            let me = stage
                .person("operator:ops")
                .whoami(pb::WhoamiRequest {})
                .await;
            me.unwrap()
                .into_inner()
                .clock_ahead
                .map(|ahead| ahead.seconds)
        };
        assert_eq!(ahead().await, None);

        // The machine sleeps for an hour: that is time, and no jump.
        stage.pass(Duration::from_secs(HOUR));
        assert_eq!(ahead().await, None);

        // Somebody sets the clock a week forward. What is decided then is recorded as if nobody had.
        let week = Duration::from_secs(7 * DAY);
        let before = stage.clock.now();
        stage.clock.set(before.plus(week));
        let week_seconds = i64::try_from(week.as_secs()).unwrap();
        assert_eq!(ahead().await, Some(week_seconds));
        tokio::time::sleep(Duration::from_millis(1500)).await; // the thread looks at the clock each second
        assert_eq!(open_cards(), 4);
        let wish = decision(&cards[0], pb::Verdict::Approve, "d0");
        let settled = person
            .decide(wish)
            .await
            .unwrap()
            .into_inner()
            .settled
            .unwrap();
        let at = settled.at.unwrap().seconds;
        assert_eq!(at, before.ms() / 1000);

        // They set it right: nothing has happened.
        stage.clock.set(before);
        stage.pass(Duration::from_secs(MINUTE));
        assert_eq!(ahead().await, None);
        assert_eq!(open_cards(), 3);

        // It jumps again, and nobody sets it right: after ten minutes it is believed, and the deadlines have passed.
        stage.clock.set(stage.clock.now().plus(week));
        assert_eq!(ahead().await, Some(week_seconds));
        stage.pass(Duration::from_secs(9 * MINUTE));
        assert_eq!(ahead().await, Some(week_seconds));
        let wish = decision(&cards[1], pb::Verdict::Approve, "d1");
        person.decide(wish).await.unwrap();
        assert_eq!(open_cards(), 2);
        stage.pass(Duration::from_secs(MINUTE));
        assert_eq!(ahead().await, None);
        settles(&stage).await;
        assert_eq!(open_cards(), 0);
        let wish = decision(&cards[2], pb::Verdict::Approve, "d2");
        let refusal = person.decide(wish).await.unwrap_err();
        assert_eq!(refused(&refusal).unwrap().word, "expired");
        stage.log();
    });
}
