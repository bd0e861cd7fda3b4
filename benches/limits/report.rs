//! Samples, ratios, and the probe that says whether the machine stood still.

use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How often two programs take turns.
pub(crate) const PAIRS: usize = 5;

/// What one append and its fdatasync are measured with, as `ENGINE` §2.1 has it.
pub(crate) const RECORD_BYTES: usize = 512;

const PROBES: usize = 40;

/// How much the probe may move within a run.
const STANDS_STILL: f64 = 3.0;

/// Which way a target holds.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) struct Report {
    disk: RawLog,
    probes: Vec<f64>,
}

impl Report {
    pub(crate) fn begin() -> Self {
        let disk = RawLog::new();
        Self {
            disk,
            probes: Vec::new(),
        }
    }

    /// How long an append and its fdatasync take just now.
    pub(crate) fn probe(&mut self) {
        let took: Vec<f64> = (0..PROBES).map(|_| seconds(self.disk.append())).collect();
        self.probes.push(median(took));
    }

    /// One line for one target.
    pub(crate) fn say(&self, target: &str, what: &str, ratio: f64, goal: Goal) {
        let holds = match goal {
            Goal::AtLeast(least) => ratio >= least,
            Goal::AtMost(most) => ratio <= most,
        };
        let goal = match goal {
            Goal::AtLeast(least) => format!(">= {least}"),
            Goal::AtMost(most) => format!("<= {most}"),
        };
        let (least, most) = self
            .probes
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), p| {
                (least.min(*p), most.max(*p))
            });
        let stood_still = most <= STANDS_STILL * least;
        let line = serde_json::json!({
            "target": target,
            "ratio": (ratio * 1000.0).round() / 1000.0,
            "goal": goal,
            "holds": stood_still.then_some(holds),
            "what": what,
            "probe_us": [(least * 1e6).round(), (most * 1e6).round()],
        });
        println!("{line}");
        let _ = std::io::stdout().flush();
    }
}

/// A preallocated file, appended to and synced: what a durable record costs at least.
pub(crate) struct RawLog {
    file: File,
    at: u64,
    _dir: TempDir,
}

const PREALLOCATED_BYTES: u64 = 16 << 20;

impl RawLog {
    pub(crate) fn new() -> Self {
        let dir = here();
        let file = File::create(dir.path().join("raw")).expect("a file in the temporary directory");
        let block = [0; 1 << 16];
        for n in 0..PREALLOCATED_BYTES >> 16 {
            file.write_all_at(&block, n << 16).expect("room for 16 MiB");
        }
        file.sync_all().expect("a disk");
        Self {
            file,
            at: 0,
            _dir: dir,
        }
    }

    pub(crate) fn append(&mut self) -> Duration {
        let began = Instant::now();
        let written = self.file.write_all_at(&[7; RECORD_BYTES], self.at);
        written
            .and_then(|()| self.file.sync_data())
            .expect("a disk");
        self.at = (self.at + RECORD_BYTES as u64) % PREALLOCATED_BYTES;
        began.elapsed()
    }
}

/// A directory on the disk that the build lies on: what is mounted at /tmp may be memory.
pub(crate) fn here() -> TempDir {
    let target = std::env::current_exe().expect("a path of our own");
    let beside = target.parent().expect("a directory");
    TempDir::new_in(beside).expect("a temporary directory")
}

pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    quantile(&mut samples, 0.5)
}

/// The value that `part` of the samples do not exceed.
pub(crate) fn quantile(samples: &mut [f64], part: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    samples[(part * last as f64).round() as usize]
}

pub(crate) fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}
