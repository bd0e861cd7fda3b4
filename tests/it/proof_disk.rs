//! A disk that is full, or broken, from any step on: nothing is acknowledged that is not durable (`ENGINE` §7, row 5).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use pilothouse::connect::CallError;
use registry::approval::Verdict;

use crate::{
    proof::{run, times},
    proof_power::Disk,
    proof_shim::{Acked, Ended, Session, Shimmed, Step, TERMINATED, has_all},
};

/// Files and decides a little; ends where the server does. What it was told is in the journal.
async fn session(server: &Shimmed, name: &str) -> Result<(), CallError> {
    let mut session = Session::open(server, name).await?;
    for n in 0..4 {
        let filed = session.file(server, 3000).await?;
        let verdict = if n % 2 == 0 {
            Verdict::Approve
        } else {
            Verdict::Reject
        };
        session.decide(server, &filed, verdict).await?;
    }
    Ok(())
}

fn acknowledged(journal: &[Step]) -> Vec<Acked> {
    let acked = journal.iter().filter_map(|step| match step {
        Step::Acked(acked) => Some(acked.clone()),
        _ => None,
    });
    acked.collect()
}

/// The steps of a session in which nothing fails, and of the end after it.
fn steps() -> u64 {
    let mut server = Shimmed::new();
    server.start(&[("SHIM_ONLY", "pilothouse.db")]).unwrap();
    run(session(&server, "s")).unwrap();
    let ended = server.terminate();
    assert_eq!(ended.code, Some(TERMINATED), "{ended:?}");
    let steps = server.steps();
    for what in ["write pilothouse.db-wal", "sync pilothouse.db-wal"] {
        let seen = steps.iter().filter(|step| step.contains(what)).count();
        assert!(seen >= 8, "the shim does not see «{what}»: {steps:#?}");
    }
    assert_eq!(acknowledged(&server.journal()).len(), 8);
    u64::try_from(steps.len()).unwrap()
}

/// Every step, where there is time for it; otherwise the first, which make the file, and some that are spread over all the
/// others; or the one that `PILOTHOUSE_STEP` names.
fn some_of(steps: u64, in_ci: u64) -> Vec<u64> {
    if let Ok(only) = std::env::var("PILOTHOUSE_STEP") {
        return vec![only.parse().expect("PILOTHOUSE_STEP is a number")];
    }
    let count = times(in_ci).min(steps);
    let spread = (0..count).map(|n| 1 + n * steps / count);
    let all: BTreeSet<u64> = spread.chain(2..=5).collect();
    all.into_iter().collect()
}

fn clear(ended: &Ended) {
    assert!(!matches!(ended.code, None | Some(0)), "{ended:?}");
    let said = ended.said.trim();
    assert!(said.contains("pilothouse.db"), "it names the file: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// What was acknowledged was durable by then: it is there if the power goes at that very moment, and nothing is kept that was
/// not synced.
fn is_durable(server: &Shimmed) {
    let journal = server.journal();
    let acked = acknowledged(&journal);
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::default();
    journal.iter().for_each(|step| disk.take(step));
    if !acked.is_empty() {
        disk.only_what_is_synced(dir.path());
        has_all(&dir.path().join("pilothouse.db"), &acked).unwrap();
    }
}

fn reopens_well(server: &mut Shimmed, name: &str) {
    server.kill();
    server
        .start(&[])
        .unwrap_or_else(|ended| panic!("{ended:?}"));
    run(session(server, name)).unwrap();
    let ended = server.terminate();
    assert_eq!(ended.code, Some(TERMINATED), "{ended:?}");
    has_all(&server.database(), &acknowledged(&server.journal())).unwrap();
}

#[test]
fn whichever_step_fails_nothing_is_acknowledged_that_is_not_durable() {
    let steps = steps();
    let (mut at_start, mut ended_by_it, mut went_on) = (0, 0, 0);
    for step in some_of(steps, 12) {
        eprintln!("PILOTHOUSE_STEP={step}, of {steps}");
        let mut server = Shimmed::new();
        let fail = format!("{step}:EIO");
        let shimmed = [("SHIM_ONLY", "pilothouse.db"), ("SHIM_FAIL", &*fail)];
        match server.start(&shimmed) {
            Err(ended) => {
                clear(&ended);
                at_start += 1;
            }
            Ok(()) => match run(session(&server, "s")) {
                Err(_) => {
                    clear(&server.end());
                    ended_by_it += 1;
                }
                Ok(()) => {
                    // It hit what is done when nobody waits, or at the end.
                    server.terminate();
                    went_on += 1;
                }
            },
        }
        is_durable(&server);
        reopens_well(&mut server, "again");
    }
    eprintln!("{at_start} at its start, {ended_by_it} in between, {went_on} behind it");
    assert!(
        at_start + ended_by_it > 0 || steps < 100,
        "hardly anything failed"
    );
}

#[test]
fn on_a_full_disk_decisions_count_and_filing_goes_on_once_there_is_room() {
    let steps = steps();
    let mut refused = 0;
    for step in some_of(steps, 6) {
        eprintln!("PILOTHOUSE_STEP={step}, of {steps}");
        let mut server = Shimmed::new();
        // What the server keeps free is written in the first start, which has room.
        server.start(&[]).unwrap();
        let before = run(async {
            let mut session = Session::open(&server, "before").await.unwrap();
            session.file(&server, 100).await.unwrap()
        });
        server.kill();
        let fail = format!("{step}:ENOSPC");
        let shimmed = [("SHIM_ONLY", "pilothouse.db"), ("SHIM_FAIL", &*fail)];
        if let Err(ended) = server.start(&shimmed) {
            clear(&ended);
        } else {
            refused += run(on_a_full_disk(&server, &before));
            let ended = server.terminate();
            assert_eq!(ended.code, Some(TERMINATED), "{ended:?}");
        }
        is_durable(&server);
        reopens_well(&mut server, "again");
    }
    assert!(refused > 2, "the disk was hardly ever full: {refused}");
}

/// Files until there is no room, decides then, makes room, and files again. How often filing was refused.
async fn on_a_full_disk(
    server: &Shimmed,
    before: &(String, pilothouse::wire::pilothouse::Filed),
) -> usize {
    let unavailable = |error: &CallError| match error {
        CallError::Refused(told) => told.word == "unavailable",
        _ => false,
    };
    let full = |error: CallError| assert!(unavailable(&error), "{error}");
    let mut refused = 0;
    let session = Session::open(server, "s").await;
    let mut session = match session {
        Ok(session) => session,
        Err(error) => {
            full(error);
            refused += 1;
            let _ = std::fs::remove_file(server.full());
            opened(server).await
        }
    };
    for _ in 0..6 {
        if let Err(error) = session.file(server, 3000).await {
            full(error);
            refused += 1;
            break;
        }
    }
    // Its own client sends it again, if the first try is what finds the disk full.
    session
        .decide(server, before, Verdict::Approve)
        .await
        .expect("a decision counts on a full disk");
    let _ = std::fs::remove_file(server.full());
    let from = Instant::now();
    while let Err(error) = session.file(server, 3000).await {
        full(error);
        assert!(
            from.elapsed() < Duration::from_secs(20),
            "there is room, and filing is refused"
        );
        // It may have become full only now.
        let _ = std::fs::remove_file(server.full());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    refused
}

async fn opened(server: &Shimmed) -> Session {
    let from = Instant::now();
    loop {
        match Session::open(server, "s").await {
            Ok(session) => return session,
            Err(error) => assert!(from.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
