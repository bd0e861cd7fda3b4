//! The store: many writers, and one.

use std::time::Instant;

use registry::log::Sqlite;

use crate::{
    bare::BareStore,
    ours::{Fault, Ours, operator, runtime},
    report::{Goal, PAIRS, RawLog, Report, here, median, quantile, seconds},
};

/// Who writes at once.
const WRITERS: usize = 64;
/// Decisions in one turn of a pair.
const DECISIONS: usize = 20_000;
/// Single decisions in one turn of a pair.
const SINGLES: usize = 200;

/// R1: at least 80 % of a bare rusqlite program that does the same insert and batches alike. R15: with the checkpoints that
/// come of it, the slowest hundredth takes at most ten times as long as the median.
pub(crate) fn throughput(report: &mut Report) -> Result<(), Fault> {
    let (dir, runtime) = (here(), runtime()?);
    let ours = Ours::in_file(&dir.path().join("ours"))?;
    let bare = BareStore::open(&dir.path().join("bare"))?;
    let (mut ratios, mut tails) = (vec![], vec![]);
    for _ in 0..PAIRS {
        report.probe();
        let asked = runtime.block_on(ours.file(DECISIONS))?;
        let began = Instant::now();
        let mut took = runtime.block_on(drive(asked, |asked| {
            let ours = ours.clone();
            async move {
                ours.decide(&operator(), asked)
                    .await
                    .map_err(|e| e.to_string())
            }
        }))?;
        let our_rate = DECISIONS as f64 / seconds(began.elapsed());
        tails.push(quantile(&mut took, 0.99) / quantile(&mut took, 0.5));
        let rows = (0..DECISIONS).collect();
        let began = Instant::now();
        runtime.block_on(drive(rows, |_| {
            let bare = bare.clone();
            async move { bare.insert().await.map_err(|e| e.to_string()) }
        }))?;
        let bare_rate = DECISIONS as f64 / seconds(began.elapsed());
        eprintln!("R1: ours {our_rate:.0}/s, bare {bare_rate:.0}/s");
        ratios.push(our_rate / bare_rate);
    }
    report.probe();
    let what = "decisions/s of 64 writers, ours / bare rusqlite";
    report.say("R1", what, median(ratios), Goal::AtLeast(0.8));
    let what = "p99 / p50 of 64 writers, checkpoints included";
    report.say("R15", what, median(tails), Goal::AtMost(10.0));
    Ok(())
}

/// Has 64 tasks work through `items`; how long each took.
pub(crate) async fn drive<T, F>(items: Vec<T>, work: impl Fn(T) -> F) -> Result<Vec<f64>, Fault>
where
    T: Send + 'static,
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let mut tasks = Vec::new();
    let mut queues: Vec<Vec<F>> = (0..WRITERS).map(|_| Vec::new()).collect();
    for (n, item) in items.into_iter().enumerate() {
        queues[n % WRITERS].push(work(item));
    }
    for queue in queues {
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::with_capacity(queue.len());
            for work in queue {
                let began = Instant::now();
                work.await?;
                took.push(seconds(began.elapsed()));
            }
            Ok::<_, String>(took)
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    Ok(took)
}

/// R2: a single durable decision takes at most 1.4 times as long as an append and its fdatasync.
pub(crate) fn single(report: &mut Report) -> Result<(), Fault> {
    let (dir, runtime) = (here(), runtime()?);
    let ours = Ours::on(Box::new(Sqlite::open(dir.path().join("ours"))?))?;
    let mut raw = RawLog::new();
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        report.probe();
        let asked = runtime.block_on(ours.file(SINGLES))?;
        let mut our = Vec::new();
        let mut their = Vec::new();
        for one in asked {
            let began = Instant::now();
            runtime.block_on(ours.decide(&operator(), one))?;
            our.push(seconds(began.elapsed()));
            their.push(seconds(raw.append()));
        }
        ratios.push(median(our) / median(their));
    }
    report.probe();
    let what = "p50 of one decision in process / of a preallocated write and fdatasync";
    report.say("R2", what, median(ratios), Goal::AtMost(1.4));
    Ok(())
}
