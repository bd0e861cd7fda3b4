//! A million open questions: what they weigh, what a page and a decision cost among them, and how soon one is taken after a start.

use std::{path::Path, time::Instant};

use pilothouse::wire::pb::pilothouse::v1::{
    self as pb, operator_service_client::OperatorServiceClient,
};
use registry::{State, Tenant};

use crate::{
    ours::{Asked, Fault, Ours, Serving, agent, operator, runtime},
    report::{Goal, PAIRS, Report, here, median, seconds},
    store::drive,
};

const MILLION: usize = 1_000_000;
const SMALLER: usize = 150_000;
const DECISIONS: usize = 10_000;
const PAGES: usize = 50;

/// R11, R12, and the scale of `ENGINE` §6.
pub(crate) fn scale(report: &mut Report) -> Result<(), Fault> {
    let dir = here();
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    {
        let runtime = runtime()?;
        let ours = Ours::in_file(&large)?;
        runtime.block_on(ours.file(MILLION))?;
        // Some of another tenant's behind all of them: a page of theirs is no further away.
        let other = Tenant::parse("other")?;
        runtime.block_on(ours.file_as(&agent(&other), 200))?;
        let ours = Ours::in_file(&small)?;
        runtime.block_on(ours.file(SMALLER))?;
    }
    memory(report, &large)?;
    start(report, &large)?;
    let runtime = runtime()?;
    let (large, small) = (Ours::in_file(&large)?, Ours::in_file(&small)?);
    runtime.block_on(pages(report, &large, dir.path()))?;
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        report.probe();
        let at_a_million = runtime.block_on(rate(&large))?;
        let at_less = runtime.block_on(rate(&small))?;
        eprintln!("R11: {at_a_million:.0}/s at a million, {at_less:.0}/s at 150,000");
        ratios.push(at_a_million / at_less);
    }
    report.probe();
    let what = "decisions/s of 64 writers with 1,000,000 open / with 150,000 open";
    report.say("R11", what, median(ratios), Goal::AtLeast(0.65));
    Ok(())
}

/// What is resident of this process, in bytes.
fn resident() -> Result<f64, Fault> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

/// A State shares what was asked with every other State: that is the payload. What it needs beside that is measured as what a
/// second State adds, which is folded from the same events.
fn memory(report: &mut Report, path: &Path) -> Result<(), Fault> {
    let log = registry::log::Sqlite::open(path)?;
    let reader = registry::log::Log::reader(&log)?;
    let (mut first, mut second) = (State::default(), State::default());
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let page = reader.read(after, 10_000)?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        events.extend(page);
    }
    let bare = resident()?;
    events.iter().for_each(|event| first.apply(event));
    let one = resident()?;
    events.iter().for_each(|event| second.apply(event));
    let two = resident()?;
    let count = second.all_pending().count() as f64;
    eprintln!(
        "memory: {:.0} B and {:.0} B each; with what was asked {:.0} B",
        (one - bare) / count,
        (two - one) / count,
        two / count
    );
    report.probe();
    let each = ((one - bare) / count).max((two - one) / count);
    let what = "bytes of one State for each of 1,000,000 open questions, beside what was asked";
    report.say("memory", what, each, Goal::AtMost(256.0));
    Ok(())
}

/// From opening the file until the first decision is durable.
fn start(report: &mut Report, path: &Path) -> Result<(), Fault> {
    let runtime = runtime()?;
    let mut took = vec![];
    for _ in 0..3 {
        report.probe();
        let began = Instant::now();
        let ours = Ours::in_file(path)?;
        let asked = some_of(&ours, 1);
        runtime.block_on(ours.decide(&operator(), asked[0]))?;
        took.push(seconds(began.elapsed()));
    }
    let what = "seconds from opening a log with 1,000,000 open questions to the first decision";
    report.say("start", what, median(took), Goal::AtMost(2.0));
    Ok(())
}

fn some_of(ours: &Ours, count: usize) -> Vec<Asked> {
    let state = ours.owner.state();
    let here = Tenant::local();
    let ours = state
        .all_pending()
        .filter(|pending| pending.approval.from.tenant == here);
    // Scattered, as people answer.
    let every = (state.all_pending().count() / count).max(1);
    let some = ours.step_by(every).take(count);
    some.map(|pending| Asked {
        id: pending.approval.id,
        digest: pending.approval.digest,
    })
    .collect()
}

async fn rate(ours: &Ours) -> Result<f64, Fault> {
    let asked = some_of(ours, DECISIONS);
    let count = asked.len();
    let began = Instant::now();
    drive(asked, |asked| {
        let ours = ours.clone();
        async move {
            ours.decide(&operator(), asked)
                .await
                .map_err(|e| e.to_string())
        }
    })
    .await?;
    Ok(count as f64 / seconds(began.elapsed()))
}

/// R12: a page of a hundred costs the same behind 990,000 as at the beginning.
async fn pages(report: &mut Report, ours: &Ours, dir: &Path) -> Result<(), Fault> {
    let deep = {
        let state = ours.owner.state();
        let deep = state.all_pending().nth(990_000).ok_or("no such depth")?;
        deep.approval.id.to_string()
    };
    let serving = Serving::start(ours.clone(), dir).await?;
    let mut person = OperatorServiceClient::new(serving.channel().await?);
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        report.probe();
        let (mut first, mut at_depth) = (vec![], vec![]);
        for _ in 0..PAGES {
            for (token, took) in [(String::new(), &mut first), (deep.clone(), &mut at_depth)] {
                let request = pb::ListRequest {
                    page_size: 100,
                    page_token: token,
                    ..Default::default()
                };
                let began = Instant::now();
                let page = person.list(request).await?.into_inner();
                took.push(seconds(began.elapsed()));
                if page.items.len() != 100 {
                    return Err(format!("a page of {}", page.items.len()).into());
                }
            }
        }
        ratios.push(median(at_depth) / median(first));
    }
    report.probe();
    let what = "p50 of a page of 100 behind 990,000 / of the first";
    report.say("R12", what, median(ratios), Goal::AtMost(1.3));
    serving.end().await
}
