//! What an auditor does with a log: prove it, and take it along.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal as _, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use registry::{
    RunId, Seq, Timestamp,
    log::{LogError, LogFile, Stored},
    text::json_safe,
};
use serde_json::json;

use super::{
    args::{self, Place},
    exit::{self, Stopped},
    print,
};
use crate::{
    dashboard::words::span,
    serve::{
        checkpoint::{self, CHECKPOINTS, Checkpoint, PUBLIC_KEY, PublicKey},
        clock::Clock,
        home::LOG,
    },
};

/// The log is not what was recorded.
const NOT_PROVEN: u8 = 1;

/// What no check of this machine's own files can show.
const LIMITS: &str = "This shows that nothing was changed, removed or put elsewhere up to the last checkpoint. It \
    cannot show what was recorded after it and cut off, nor a host that held the key and made everything \
    anew: keep a copy of audit.pub and of the checkpoints on another machine.";

/// Where a log and what proves it lie.
struct Places {
    log: PathBuf,
    checkpoints: PathBuf,
    /// Whether somebody named them.
    named: bool,
    key: PathBuf,
}

impl Places {
    fn of(place: &Place, verify: &args::Verify) -> Result<Self, Stopped> {
        let log = log_of(place, verify.file.as_deref())?;
        let checkpoints = match (&verify.checkpoints, &verify.file) {
            (Some(named), _) => named.clone(),
            (None, Some(file)) => beside_backup(file),
            (None, None) => place.dir()?.join(CHECKPOINTS),
        };
        let key = match &verify.key {
            Some(key) => key.clone(),
            None => place.dir()?.join(PUBLIC_KEY),
        };
        Ok(Self {
            log,
            checkpoints,
            named: verify.checkpoints.is_some(),
            key,
        })
    }
}

/// The checkpoints that a backup takes along.
pub(super) fn beside_backup(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".checkpoints");
    name.into()
}

fn log_of(place: &Place, file: Option<&Path>) -> Result<PathBuf, Stopped> {
    match file {
        Some(file) => Ok(file.to_path_buf()),
        None => Ok(place.dir()?.join(LOG)),
    }
}

pub(super) fn unreadable(error: LogError) -> Stopped {
    match error {
        LogError::Foreign(_) => Stopped::usage(error.to_string()),
        LogError::Full(_) | LogError::Locked(_) | LogError::Broken(_) => {
            Stopped::fault(error.to_string())
        }
    }
}

/// What was found on the way along the chain.
#[derive(Default)]
struct Walked {
    events: u64,
    trimmed: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    head: Seq,
}

/// Follows the chain, and holds every checkpoint against it.
pub(crate) fn verify(place: &Place, verify: &args::Verify) -> Result<u8, Stopped> {
    let places = Places::of(place, verify)?;
    // The checkpoints first: one that is written while we walk is none of ours.
    let (checkpoints, torn) = match checkpoint::read(&places.checkpoints) {
        Ok(read) => read,
        Err(_) if !places.named && !places.checkpoints.exists() => (Vec::new(), 0),
        Err(why) => return not_proven(&why),
    };
    let log = LogFile::open(&places.log).map_err(unreadable)?;
    if !checkpoints.is_empty() {
        let keys = PublicKey::read_all(&places.key).map_err(|why| {
            Stopped::usage(format!(
                "{why}; --key names the public key that proves the checkpoints"
            ))
        })?;
        if let Some(why) = first_unproven(&checkpoints, &keys) {
            return not_proven(&format!("{}: {why}", places.checkpoints.display()));
        }
    }
    let (mut walked, mut disproven) = (Walked::default(), None);
    let mut by_seq: Vec<&Checkpoint> = checkpoints.iter().collect();
    by_seq.sort_by_key(|checkpoint| checkpoint.seq);
    let mut due = by_seq.into_iter().peekable();
    let fault = log.follow(|stored| {
        walked.take(stored);
        while let Some(checkpoint) = due.next_if(|next| next.seq <= stored.seq) {
            if checkpoint.hash != stored.hash.to_string() {
                disproven.get_or_insert(checkpoint);
            }
        }
    });
    let where_ = places.log.display();
    if let Some(fault) = fault.map_err(unreadable)? {
        return not_proven(&format!("{where_}: {fault}"));
    }
    if let Some(checkpoint) = disproven {
        let other = if checkpoint.epoch == *log.epoch() {
            String::new()
        } else {
            format!(" (the checkpoint names the log {})", checkpoint.epoch)
        };
        return not_proven(&format!(
            "{where_}: event {} is not the one that was signed at {}: the log was made anew up to there{other}",
            checkpoint.seq,
            checkpoint.at(),
        ));
    }
    if let Some(last) = due.last() {
        return not_proven(&format!(
            "{where_}: it ends at event {}, but event {} was signed at {}: the end is missing",
            walked.head,
            last.seq,
            last.at(),
        ));
    }
    walked.tell(&log, &checkpoints, torn)?;
    Ok(exit::DONE)
}

fn not_proven(why: &str) -> Result<u8, Stopped> {
    Err(Stopped {
        why: format!("not proven: {why}"),
        code: NOT_PROVEN,
    })
}

/// Why a checkpoint is not one of ours.
fn first_unproven(checkpoints: &[Checkpoint], keys: &[PublicKey]) -> Option<String> {
    let unproven = |checkpoint: &&Checkpoint| !keys.iter().any(|key| key.proves(checkpoint));
    let at = checkpoints.iter().position(|one| unproven(&one))?;
    let (line, checkpoint) = (at + 1, &checkpoints[at]);
    Some(if keys.iter().any(|key| key.id() == checkpoint.key) {
        format!("the checkpoint in line {line} was edited: its signature does not fit it")
    } else {
        let known: Vec<String> = keys.iter().map(PublicKey::id).collect();
        format!(
            "the checkpoint in line {line} was signed by another key ({}, not {})",
            checkpoint.key,
            known.join(" or "),
        )
    })
}

impl Walked {
    fn take(&mut self, stored: &Stored<'_>) {
        self.events += 1;
        self.trimmed += u64::from(stored.is_trimmed());
        self.first.get_or_insert(stored.at);
        self.last = Some(stored.at);
        self.head = stored.seq;
    }

    fn tell(&self, log: &LogFile, checkpoints: &[Checkpoint], torn: usize) -> Result<(), Stopped> {
        let from_to = match (self.first, self.last) {
            (Some(first), Some(last)) => format!(", from {first} to {last}"),
            _ => String::new(),
        };
        print::line(format!("proven: {} events{from_to}", self.events))?;
        print::line(format!("log: {}", log.epoch()))?;
        if log.floor() > 0 {
            print::line(format!(
                "trimmed: {} events, up to event {}; their hashes stand",
                self.trimmed,
                log.floor()
            ))?;
        }
        let last = checkpoints.iter().max_by_key(|checkpoint| checkpoint.seq);
        print::line(match last {
            None => "checkpoints: none: only the chain was followed".to_owned(),
            Some(last) => format!(
                "checkpoints: {}, all proven; the last at event {}, {} ago, {} events since",
                checkpoints.len(),
                last.seq,
                span(Clock::System.now().since(last.at())),
                self.head.saturating_sub(last.seq),
            ),
        })?;
        if torn > 0 {
            print::line(format!(
                "half a checkpoint at the end ({torn} bytes): a crash in the middle of a write leaves it"
            ))?;
        }
        print::aside(format!("pilothouse: {LIMITS}"));
        Ok(())
    }
}

/// Every event that is asked for, one JSON object a line, each as it is read.
pub(crate) fn export(place: &Place, export: &args::Export) -> Result<u8, Stopped> {
    let run: Option<RunId> = match &export.run {
        Some(id) => Some(id.parse()?),
        None => None,
    };
    let run = run.map(|run| run.to_string());
    let log = LogFile::open(&log_of(place, export.file.as_deref())?).map_err(unreadable)?;
    let wanted = |stored: &Stored<'_>| {
        export.since.is_none_or(|since| stored.at >= since)
            && export.until.is_none_or(|until| stored.at < until)
            && run.as_deref().is_none_or(|run| stored.run == Some(run))
    };
    let (mut out, on_a_terminal) = open(export.out.as_deref())?;
    let mut written = Ok(());
    log.each(|stored| {
        if wanted(stored) {
            let line = line(stored);
            let line = if on_a_terminal {
                json_safe(&line)
            } else {
                line
            };
            written = writeln!(out, "{line}");
        }
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })
    .map_err(unreadable)?;
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(exit::DONE),
        // A reader that has gone away wanted no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit::DONE),
        Err(error) => Err(Stopped::fault(format!("the export is not whole: {error}"))),
    }
}

/// Standard output, or a new file that only its owner reads; and whether a person looks at it.
fn open(out: Option<&Path>) -> Result<(Box<dyn Write>, bool), Stopped> {
    let Some(path) = out else {
        let stdout = io::stdout();
        let on_a_terminal = stdout.is_terminal();
        return Ok((Box::new(BufWriter::new(stdout.lock())), on_a_terminal));
    };
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| Stopped::usage(format!("{}: {error}", path.display())))?;
    Ok((Box::new(BufWriter::new(file)), false))
}

/// The body stands in it byte for byte, so that whoever has the line before can check the hash.
fn line(stored: &Stored<'_>) -> String {
    let head = json!({
        "seq": stored.seq,
        "at": stored.at.to_string(),
        "at_ms": stored.at.ms(),
        "hash": stored.hash.to_string(),
        "scope": {"tenant": stored.tenant, "owner": stored.owner},
        "run_id": stored.run,
        "actor": stored.actor,
    });
    let head = head.to_string();
    let head = head.strip_suffix('}').unwrap_or_default();
    let body = if stored.is_trimmed() {
        "null"
    } else {
        stored.body
    };
    format!("{head},\"body\":{body}}}")
}
