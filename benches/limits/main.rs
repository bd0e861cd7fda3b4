//! What we cost beside the limit: `cargo bench --bench limits [-- TARGET…]` prints a JSON line for each target.
//!
//! Only ratios are claimed, each of two programs that ran in turns in one run (`ENGINE` §6). A machine that changed under it
//! says nothing: `holds` is null where the disk probe moved more than three times within the run.

// A bench that cannot go on says where.
#![allow(clippy::expect_used)]

mod bare;
mod ours;
mod report;
mod scale;
mod store;
mod watch;
mod wire;

use std::process::ExitCode;

use report::Report;

/// A target, and what measures it. Several targets may come from one measurement.
type Measure = fn(&mut Report) -> Result<(), Box<dyn std::error::Error>>;

const MEASURES: &[(&[&str], Measure)] = &[
    (&["R1", "R15"], store::throughput),
    (&["R2"], store::single),
    (&["R3", "R5"], wire::wake),
    (&["R4"], wire::operators),
    (&["R13"], watch::replay),
    (&["R14"], watch::watchers),
    (&["R11", "R12", "memory", "start"], scale::scale),
];

fn main() -> ExitCode {
    // cargo says `--bench`; what else stands there names targets.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let is_wanted = |targets: &[&str]| {
        wanted.is_empty()
            || targets
                .iter()
                .any(|target| wanted.iter().any(|w| w == target))
    };
    let mut report = Report::begin();
    for (targets, measure) in MEASURES.iter().filter(|(targets, _)| is_wanted(targets)) {
        if let Err(error) = measure(&mut report) {
            eprintln!("{}: {error}", targets.join(", "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
