//! What the server counts, and the page on which a Prometheus reads it.
//!
//! Invariant: no label has foreign text in it; every one is a word of ours, so that their number is known before.

use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use registry::{Event, Name, Recorded, Tenant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{
    door::Whence,
    owner::Owner,
    rates::Held,
    stop::{Stop, Until},
};

/// The upper bounds of the histogram of commits, in microseconds.
const COMMIT_BOUNDS_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_500_000,
];
/// Every word of a refusal, and what stands for an error that is none of ours.
const WORDS: [&str; 22] = [
    "unauthenticated",
    "invalid",
    "too_large",
    "rate_limited",
    "too_many",
    "busy",
    "not_found",
    "not_yours",
    "already_settled",
    "expired",
    "stale",
    "diverged",
    "key_reused",
    "not_now",
    "thread_busy",
    "still_pending",
    "run_over",
    "unreachable",
    "answers",
    "unavailable",
    "timed_out",
    "other",
];
/// The request of somebody who reads the page, in bytes.
const ASKED_BYTES: usize = 4096;
/// How long a reader of the page may take.
const READER: Duration = Duration::from_secs(5);
/// Readers of the page at once, counted.
const READERS: usize = 8;

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the owning thread counts.
#[derive(Default)]
pub struct Meter {
    commits: [Count; COMMIT_BOUNDS_US.len() + 1],
    commit_us: Count,
    events: Count,
    commands: Count,
    granted: Count,
    rejected: Count,
    expired: Count,
    withdrawn: Count,
    full: Count,
    queued: AtomicU64,
}

impl Meter {
    pub(super) fn queued(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch was taken from the queue.
    pub(super) fn taken(&self, commands: usize) {
        let commands = u64::try_from(commands).unwrap_or(u64::MAX);
        self.queued.fetch_sub(commands, Ordering::Relaxed);
        self.commands.add(commands);
    }

    /// A batch is on disk.
    pub(super) fn committed(&self, took: Duration, recorded: &[Arc<Recorded>]) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BOUNDS_US.iter().position(|bound| us <= *bound);
        self.commits[bucket.unwrap_or(COMMIT_BOUNDS_US.len())].add(1);
        self.commit_us.add(us);
        self.events.add(recorded.len() as u64);
        for recorded in recorded {
            match &*recorded.event {
                Event::ApprovalGranted { .. } => self.granted.add(1),
                Event::ApprovalRejected { .. } => self.rejected.add(1),
                Event::ApprovalExpired { .. } => self.expired.add(1),
                Event::ApprovalWithdrawn { .. } => self.withdrawn.add(1),
                _ => {}
            }
        }
    }

    /// The disk had no room for a batch.
    pub(super) fn was_full(&self) {
        self.full.add(1);
    }
}

/// What one caller may hold only so many of.
pub(super) type Callers = Held<(Tenant, Name)>;

/// What the surfaces count.
pub struct Metrics {
    pub(super) connections: Held<Whence>,
    pub(super) connections_refused: Count,
    pub(super) watchers: Callers,
    pub(super) waits: Callers,
    pub(super) stalled: Count,
    pub(super) calls: Count,
    refused: [Count; WORDS.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: Held::default(),
            connections_refused: Count::default(),
            watchers: Held::default(),
            waits: Held::default(),
            stalled: Count::default(),
            calls: Count::default(),
            refused: std::array::from_fn(|_| Count::default()),
        }
    }
}

impl Metrics {
    pub(super) fn refused(&self, word: &str) {
        let row = WORDS.iter().position(|known| *known == word);
        self.refused[row.unwrap_or(WORDS.len() - 1)].add(1);
    }
}

/// The page, and what it is made of.
#[derive(Clone)]
pub struct Page {
    /// What the surfaces count.
    pub metrics: Arc<Metrics>,
    /// What the owning thread counts, and what stands.
    pub owner: Owner,
    /// The file beside the log that has not been moved into it yet.
    pub wal: Option<PathBuf>,
}

impl Page {
    /// Answers whoever asks on this listener, until the server stops.
    pub async fn serve(self, listener: TcpListener, stop: Stop) {
        let readers = Arc::new(tokio::sync::Semaphore::new(READERS));
        while let Some(accepted) = stop.wait().until(listener.accept()).await {
            let Ok((reader, _)) = accepted else {
                tokio::time::sleep(super::ACCEPT_PAUSE).await;
                continue;
            };
            // One too many is closed at once.
            let Ok(place) = readers.clone().try_acquire_owned() else {
                continue;
            };
            let page = self.clone();
            tokio::spawn(async move {
                let _ = timeout(READER, page.answer(reader)).await;
                drop(place);
            });
        }
    }

    async fn answer(self, mut reader: TcpStream) -> std::io::Result<()> {
        let mut asked = Vec::new();
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            if asked.len() >= ASKED_BYTES || reader.read_buf(&mut asked).await? == 0 {
                return Ok(());
            }
        }
        let (status, body) = if asked.starts_with(b"GET /metrics ") {
            ("200 OK", self.text())
        } else if asked.starts_with(b"GET ") {
            ("404 Not Found", "the page is /metrics\n".to_owned())
        } else {
            ("405 Method Not Allowed", "only GET\n".to_owned())
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        reader.write_all(head.as_bytes()).await?;
        reader.write_all(body.as_bytes()).await?;
        reader.shutdown().await
    }

    /// All of it, in Prometheus' text format.
    pub fn text(&self) -> String {
        let (metrics, meter) = (&*self.metrics, self.owner.meter());
        let (approvals, escalations, runs, head) = {
            let state = self.owner.state();
            (
                state.all_pending().count() as u64,
                state.all_escalations().count() as u64,
                state.runs().count() as u64,
                state.head(),
            )
        };
        let mut page = Text::default();
        page.gauge(
            "open_approvals",
            "Questions that nobody has answered yet.",
            approvals,
        );
        page.gauge(
            "open_escalations",
            "Runs that stand still until a person says how to go on.",
            escalations,
        );
        page.gauge("runs", "Runs that are known.", runs);
        page.gauge("log_head", "The number of the newest event.", head);
        page.labelled(
            "settled_total",
            "Questions that have ended since the server started, by how.",
            "how",
            [
                ("granted", meter.granted.get()),
                ("rejected", meter.rejected.get()),
                ("expired", meter.expired.get()),
                ("withdrawn", meter.withdrawn.get()),
            ],
        );
        let words = WORDS.iter().zip(&metrics.refused);
        page.labelled(
            "refusals_total",
            "Calls that were refused, by the word of the refusal.",
            "word",
            words.map(|(word, count)| (*word, count.get())),
        );
        page.counter("calls_total", "Calls that were taken.", metrics.calls.get());
        page.commits(meter);
        page.counter(
            "commands_total",
            "Commands that were judged.",
            meter.commands.get(),
        );
        page.counter(
            "events_total",
            "Events that were committed.",
            meter.events.get(),
        );
        page.gauge(
            "queue_commands",
            "Commands that wait to be judged.",
            meter.queued.load(Ordering::Relaxed),
        );
        page.gauge(
            "waits",
            "Calls that wait for an answer of a person.",
            metrics.waits.count(),
        );
        page.gauge(
            "watchers",
            "Streams that are open.",
            metrics.watchers.count(),
        );
        page.counter(
            "watchers_stalled_total",
            "Streams that were ended because nobody read them.",
            metrics.stalled.get(),
        );
        page.gauge(
            "connections",
            "Connections that are open.",
            metrics.connections.count(),
        );
        page.counter(
            "connections_refused_total",
            "Connections that were closed because too many came from one place.",
            metrics.connections_refused.get(),
        );
        page.counter(
            "disk_full_total",
            "Batches for which the disk had no room.",
            meter.full.get(),
        );
        page.gauge(
            "reserve_spent",
            "1 while filing is refused because the disk is full.",
            self.owner.is_reserve_spent().into(),
        );
        let wal = self
            .wal
            .as_ref()
            .and_then(|wal| std::fs::metadata(wal).ok());
        page.gauge(
            "wal_bytes",
            "What has not been moved into the log's file yet.",
            wal.map_or(0, |wal| wal.len()),
        );
        page.0
    }
}

/// Every name begins with `pilothouse_`.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(
            self.0,
            "# HELP pilothouse_{name} {help}\n# TYPE pilothouse_{name} {kind}"
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "gauge");
        let _ = writeln!(self.0, "pilothouse_{name} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        let _ = writeln!(self.0, "pilothouse_{name} {value}");
    }

    fn labelled<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, help, "counter");
        for (word, value) in rows {
            let _ = writeln!(self.0, "pilothouse_{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    fn commits(&mut self, meter: &Meter) {
        self.head(
            "commit_seconds",
            "How long a batch took to be on disk.",
            "histogram",
        );
        let mut below = 0;
        for (bound, count) in COMMIT_BOUNDS_US.iter().zip(&meter.commits) {
            below += count.get();
            let bound = *bound as f64 / 1e6;
            let _ = writeln!(
                self.0,
                "pilothouse_commit_seconds_bucket{{le=\"{bound}\"}} {below}"
            );
        }
        below += meter.commits[COMMIT_BOUNDS_US.len()].get();
        let sum = meter.commit_us.get() as f64 / 1e6;
        let _ = writeln!(
            self.0,
            "pilothouse_commit_seconds_bucket{{le=\"+Inf\"}} {below}\npilothouse_commit_seconds_sum {sum}\npilothouse_commit_seconds_count {below}"
        );
    }
}
