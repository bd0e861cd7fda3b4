//! Many at once, and one winner: every verb that ends a question, every verb that answers a run that stands still, and the
//! deadline, all on the same thing, through real connections (`ENGINE` §7, row 1).

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use pilothouse::wire::{pb::pilothouse::v1 as pb, status::refused};
use registry::{Event, Recorded, Timestamp, approval::Why};
use tonic::Status;

use crate::{
    house::{Agent, Person, decision, dismissal, file, open, question},
    proof::{Chance, Stage, run, seeds, times},
};

const CLIENTS: usize = 64;
const QUESTIONS_A_ROUND: usize = 8;
const PEOPLE: [&str; 3] = ["operator:ops", "operator:eve", "admin:root"];

/// One connection of its own, for whoever it is.
enum Client {
    Person(&'static str, Person),
    Agent(Agent),
    /// The one who moves the clock past every deadline.
    Time,
}

/// What one of them was told.
struct Told {
    item: String,
    /// None: it won.
    refusal: Option<Status>,
    /// Who it is in the log, if it wins.
    me: &'static str,
}

fn crowd(stage: &Stage) -> Vec<Client> {
    let person = |n: usize| {
        let name = PEOPLE[n % PEOPLE.len()];
        Client::Person(name, stage.person(name))
    };
    let client = |n: usize| match n {
        0..8 => Client::Agent(stage.agent("agent:a1")),
        8 => Client::Time,
        n => person(n),
    };
    (0..CLIENTS).map(client).collect()
}

/// Everything that ends `item`, wished for by everybody at once.
async fn end(
    stage: &Stage,
    client: &mut Client,
    chance: &mut Chance,
    filed: &pb::FileResponse,
    name: &str,
) -> Option<Told> {
    let id = &filed.approval_id;
    let (me, answer) = match client {
        Client::Time => {
            stage.pass(Duration::from_secs(61));
            return None;
        }
        Client::Agent(agent) => {
            let withdrawn = pb::WithdrawRequest {
                approval_id: id.clone(),
                reason: name.into(),
            };
            ("agent", agent.withdraw(withdrawn).await.map(drop))
        }
        Client::Person(who, person) => {
            let answer = match chance.below(3) {
                0 => {
                    let wish = decision(filed, pb::Verdict::Approve, name);
                    person.decide(wish).await.map(drop)
                }
                1 => {
                    let wish = decision(filed, pb::Verdict::Reject, name);
                    person.decide(wish).await.map(drop)
                }
                _ => person.dismiss(dismissal(id)).await.map(drop),
            };
            (*who, answer)
        }
    };
    Some(Told {
        item: id.clone(),
        refusal: answer.err(),
        me,
    })
}

/// How a question ended, as the log has it: the word, who, when.
#[derive(Debug)]
struct End {
    word: &'static str,
    by: Option<String>,
    at: Timestamp,
}

fn ends(log: &[Recorded]) -> HashMap<String, End> {
    let mut ends = HashMap::new();
    for recorded in log.iter().filter(|recorded| recorded.event.is_terminal()) {
        let (word, by) = match &*recorded.event {
            Event::ApprovalGranted { decision, .. } => ("granted", Some(&decision.decider.by)),
            Event::ApprovalRejected { decision, .. } => ("rejected", Some(&decision.decider.by)),
            Event::ApprovalExpired { .. } => ("expired", None),
            Event::ApprovalWithdrawn { why, .. } => match why {
                Why::Dismissed { by, .. } => ("withdrawn", Some(by)),
                _ => ("withdrawn", None),
            },
            Event::EscalationClosed { how, .. } => (how.word(), how.by()),
            other => panic!("{other:?}"),
        };
        let end = End {
            word,
            by: by.map(ToString::to_string),
            at: recorded.at,
        };
        let item = recorded.event.item().unwrap().to_string();
        let before = ends.insert(item.clone(), end);
        assert!(before.is_none(), "{item} ended twice");
    }
    ends
}

/// One won, or time did; everybody else was told who.
fn check(told: &[Told], ends: &HashMap<String, End>) {
    let mut wins: HashMap<&str, usize> = HashMap::new();
    for told in told {
        let end = &ends[&told.item];
        let Some(status) = &told.refusal else {
            *wins.entry(&told.item).or_default() += 1;
            assert_ne!(end.word, "expired", "{}", told.item);
            let won_by = end.by.as_deref().unwrap_or("agent");
            assert_eq!(won_by, told.me, "somebody else stands in the log: {end:?}");
            continue;
        };
        let said = refused(status).unwrap_or_else(|| panic!("{status:?}"));
        match end.word {
            "expired" => assert_eq!(said.word, "expired", "{end:?}"),
            word => {
                assert_eq!(said.word, "already_settled", "{}", said.message);
                assert_eq!(said.outcome.as_deref(), Some(word));
                assert_eq!(said.decided_by, end.by, "{end:?}");
                assert_eq!(said.at, Some(end.at));
            }
        }
    }
    for (item, end) in ends {
        let won = wins.get(item.as_str()).copied().unwrap_or_default();
        let expected = usize::from(end.word != "expired");
        assert_eq!(won, expected, "{item} {end:?}");
    }
}

#[test]
fn of_64_that_end_the_same_question_one_wins_and_the_others_are_told_who() {
    seeds("proof_race::of_64", times(1), |seed| {
        run(async {
            let mut chance = Chance::new(seed);
            let stage = Stage::open().await;
            let mut agent = stage.agent("agent:a1");
            let run = open(&mut agent, "r1", "").await;
            // Its turn is over: a person may take its questions away, too.
            park(&mut agent, &run).await;
            let mut crowd = crowd(&stage);
            let mut all: Vec<Told> = vec![];
            for round in 0..40 {
                let filings = (0..QUESTIONS_A_ROUND).map(|n| pb::FileRequest {
                    deadline: Some(pb::Deadline {
                        after: Some(prost_types::Duration {
                            seconds: 60,
                            nanos: 0,
                        }),
                        on_deadline: 0,
                    }),
                    ..question(&run, &format!("t{round}-{n}"), pb::Asks::Operator)
                });
                let mut filed = vec![];
                for filing in filings {
                    filed.push(file(&mut agent, filing).await);
                }
                let filed = Arc::new(filed);
                let racing = crowd.iter_mut().enumerate().map(|(n, client)| {
                    let (mut chance, filed, stage) = (chance.fork(), filed.clone(), &stage);
                    async move {
                        let mut order: Vec<usize> = (0..filed.len()).collect();
                        chance.shuffle(&mut order);
                        let mut told = vec![];
                        for at in order {
                            // Time runs out in one round of three, somewhere in the middle of it.
                            let is_time = matches!(client, Client::Time);
                            if is_time && (round % 3 != 0 || at != 0) {
                                tokio::time::sleep(Duration::from_millis(2)).await;
                                continue;
                            }
                            let name = format!("{round}-{n}-{at}");
                            told.extend(end(stage, client, &mut chance, &filed[at], &name).await);
                        }
                        told
                    }
                });
                all.extend(join_all(racing).await.into_iter().flatten());
            }
            let ends = ends(&stage.log());
            assert_eq!(ends.len(), 40 * QUESTIONS_A_ROUND);
            check(&all, &ends);
            let mut words: HashMap<&str, usize> = HashMap::new();
            ends.values()
                .for_each(|end| *words.entry(end.word).or_default() += 1);
            eprintln!("seed {seed}: {} calls, {words:?}", all.len());
            for word in ["granted", "rejected", "withdrawn", "expired"] {
                assert!(words.contains_key(word), "nothing {word}: it was no race");
            }
        });
    });
}

async fn park(agent: &mut Agent, run: &str) {
    let parked = pb::EndRunRequest {
        run_id: run.into(),
        how: Some(pb::end_run_request::How::Paused(
            pb::InterruptKind::Approval.into(),
        )),
        reason: String::new(),
    };
    agent.end_run(parked).await.unwrap();
}

#[test]
fn of_64_that_say_how_a_run_goes_on_one_wins_and_the_others_are_told_who() {
    const VERBS: [pb::ControlKind; 3] = [
        pb::ControlKind::Resume,
        pb::ControlKind::Steer,
        pb::ControlKind::Cancel,
    ];
    seeds("proof_race::of_64_that_say_how", times(1), |seed| {
        run(async {
            let mut chance = Chance::new(seed);
            let stage = Stage::open().await;
            let mut agent = stage.agent("agent:a1");
            let mut crowd = crowd(&stage);
            let mut all: Vec<Told> = vec![];
            const RUNS: usize = 60;
            for round in 0..RUNS {
                let run = open(&mut agent, &format!("r{round}"), "").await;
                let drift = pb::ReportDriftRequest {
                    run_id: run.clone(),
                    kind: "INTENT_DIVERGENCE".into(),
                    severity: "critical".into(),
                    ..Default::default()
                };
                agent.report_drift(drift).await.unwrap();
                let held = {
                    let state = stage.owner().state();
                    let mut held = state.all_escalations();
                    held.next().expect("a run that stands still").id.to_string()
                };
                let racing = crowd.iter_mut().enumerate().map(|(n, client)| {
                    let kind = *chance.pick(&VERBS);
                    let wish = pb::ControlRequest {
                        run_id: run.clone(),
                        kind: kind.into(),
                        note: "go on so".into(),
                        control_id: format!("c{round}-{n}"),
                        escalation_id: held.clone(),
                        ..Default::default()
                    };
                    let item = held.clone();
                    async move {
                        let Client::Person(me, person) = client else {
                            return None;
                        };
                        let refusal = person.control(wish).await.err();
                        Some(Told { item, refusal, me })
                    }
                });
                all.extend(join_all(racing).await.into_iter().flatten());
            }
            let ends = ends(&stage.log());
            assert_eq!(ends.len(), RUNS);
            check(&all, &ends);
            let mut words: HashMap<&str, usize> = HashMap::new();
            ends.values()
                .for_each(|end| *words.entry(end.word).or_default() += 1);
            eprintln!("seed {seed}: {} calls, {words:?}", all.len());
            assert_eq!(words.len(), 3, "each verb wins once: {words:?}");
        });
    });
}
