//! A copy of the log, and a log made of a copy.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use registry::log::{Copied, LogFile, Sqlite};

use super::{
    args::Place,
    audit::{beside_backup, unreadable},
    exit::{self, Stopped},
    print,
};
use crate::serve::{
    checkpoint::{self, CHECKPOINTS, Checkpoint, PUBLIC_KEY, PublicKey},
    home::{Home, LOG},
};

/// Copies the log of a data directory into one new file; a server may go on writing it.
pub(crate) fn backup(place: &Place, to: &Path) -> Result<u8, Stopped> {
    let dir = place.dir()?;
    if to.symlink_metadata().is_ok() {
        return Err(taken(to));
    }
    let log = LogFile::open(&dir.join(LOG)).map_err(unreadable)?;
    // Written beside it under another name: what stands under the name is whole.
    let part = part_of(to)?;
    let copied = log.copy_to(part.path()).map_err(unreadable)?;
    let checkpoints = signed_up_to(&dir.join(CHECKPOINTS), copied.head);
    let persisted = part.persist_noclobber(to);
    persisted.map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => taken(to),
        _ => fault(to, &error.error),
    })?;
    if !checkpoints.is_empty() {
        let beside = beside_backup(to);
        write_new(&beside, &checkpoints).map_err(|error| fault(&beside, &error))?;
    }
    sync_dir(to).map_err(|error| fault(to, &error))?;
    print::line(format!("{}: {} events, proven", to.display(), copied.head))?;
    print::aside(
        "pilothouse: the keys of the data directory are not in it: keep audit.key and sealed.key elsewhere",
    );
    Ok(exit::DONE)
}

/// Puts the log of a backup into a data directory that no server holds.
pub(crate) fn restore(place: &Place, from: &Path) -> Result<u8, Stopped> {
    let dir = place.dir()?;
    let backup = LogFile::open(from).map_err(unreadable)?;
    backup.check().map_err(unreadable)?;
    let home = Home::take(&dir).map_err(Stopped::refused)?;
    let log = home.dir().join(LOG);
    let part = part_of(&log)?;
    let copied = backup.copy_to(part.path()).map_err(unreadable)?;
    let epoch = LogFile::give_new_epoch(part.path()).map_err(unreadable)?;
    let aside = set_aside(&log)?;
    let placed = part.persist(&log);
    placed.map_err(|error| fault(&log, &error.error))?;
    restore_checkpoints(home.dir(), from, &copied, aside.as_deref())?;
    sync_dir(&log).map_err(|error| fault(&log, &error))?;
    print::line(format!(
        "{}: {} events; it is the log {epoch} now, and who watched the one before loads it anew",
        log.display(),
        copied.head
    ))?;
    if let Some(aside) = aside {
        print::line(format!("the log before is kept as {}", aside.display()))?;
    }
    Ok(exit::DONE)
}

fn taken(path: &Path) -> Stopped {
    Stopped::usage(format!(
        "{}: it is there already; a backup overwrites nothing",
        path.display()
    ))
}

fn fault(path: &Path, error: &io::Error) -> Stopped {
    Stopped::fault(format!("{}: {error}", path.display()))
}

fn dir_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(dir_of(path))?.sync_all()
}

/// An empty file beside it that only its owner reads; gone with us, unless it gets its name.
fn part_of(path: &Path) -> Result<tempfile::NamedTempFile, Stopped> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".part")
        .tempfile_in(dir_of(path))
        .map_err(|error| fault(path, &error))
}

/// The checkpoints of what is in the copy. That they cannot be read is `audit verify`'s to say.
fn signed_up_to(path: &Path, head: u64) -> Vec<Checkpoint> {
    let (mut checkpoints, _) = checkpoint::read(path).unwrap_or_default();
    checkpoints.retain(|checkpoint| checkpoint.seq <= head);
    checkpoints
}

fn write_new(path: &Path, checkpoints: &[Checkpoint]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    for checkpoint in checkpoints {
        let line = serde_json::to_string(checkpoint)?;
        io::Write::write_all(&mut file, format!("{line}\n").as_bytes())?;
    }
    file.sync_all()
}

/// Gives what is there a second name, and takes away what lies beside it. The first name stays until
/// the restored log takes it: a crash in between leaves the log that was there.
fn set_aside(log: &Path) -> Result<Option<PathBuf>, Stopped> {
    if log.symlink_metadata().is_err() {
        return Ok(None);
    }
    // Opened and closed, so that what is in the WAL is in the file. One that is damaged keeps its WAL.
    drop(Sqlite::open(log));
    let aside = free_name(log);
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (named(log, suffix), named(&aside, suffix));
        if from.exists() {
            fs::hard_link(&from, &to).map_err(|error| fault(&to, &error))?;
        }
    }
    sync_dir(log).map_err(|error| fault(log, &error))?;
    for suffix in ["-wal", "-shm"] {
        let beside = named(log, suffix);
        if beside.exists() {
            fs::remove_file(&beside).map_err(|error| fault(&beside, &error))?;
        }
    }
    Ok(Some(aside))
}

fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn free_name(path: &Path) -> PathBuf {
    let names = (1..).map(|n: u32| named(path, &format!(".before-{n}")));
    let free = |name: &PathBuf| name.symlink_metadata().is_err();
    names.into_iter().find(free).unwrap_or_default()
}

/// The checkpoints of the log before speak of that one. Those of the backup take their place, if the
/// key that is here proves them.
fn restore_checkpoints(
    dir: &Path,
    from: &Path,
    copied: &Copied,
    aside: Option<&Path>,
) -> Result<(), Stopped> {
    let here = dir.join(CHECKPOINTS);
    if here.exists() {
        let kept = match aside {
            Some(aside) => named(aside, ".checkpoints"),
            None => free_name(&here),
        };
        fs::rename(&here, &kept).map_err(|error| fault(&kept, &error))?;
    }
    let checkpoints = signed_up_to(&beside_backup(from), copied.head);
    if checkpoints.is_empty() {
        return Ok(());
    }
    let keys = PublicKey::read_all(&dir.join(PUBLIC_KEY)).unwrap_or_default();
    let proven = |checkpoint: &Checkpoint| keys.iter().any(|key| key.proves(checkpoint));
    if !checkpoints.iter().all(proven) {
        print::aside(format!(
            "pilothouse: the checkpoints of the backup were signed by a key that is not in {}; they stay where they are",
            dir.join(PUBLIC_KEY).display()
        ));
        return Ok(());
    }
    write_new(&here, &checkpoints).map_err(|error| fault(&here, &error))
}
