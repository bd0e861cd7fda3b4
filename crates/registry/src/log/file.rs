//! A log file as an auditor reads it: another process may be writing it, or it is a copy.
//!
//! Invariant: nothing here writes a log that somebody else may hold; a copy is made beside it.

use std::{
    fmt, fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, backup::Backup};

use super::{
    Epoch, LogError, link,
    sqlite::{APPLICATION_ID, SCHEMA},
};
use crate::{
    digest::Sha256,
    event::{Event, Seq},
    names::{DecisionId, Key},
    time::Timestamp,
};

const ALL: &str =
    "SELECT seq, at, tenant, owner, run, subject, kind, actor, decision_id, key, body, hash
    FROM ev ORDER BY seq";

/// A log file, read and never written.
#[derive(Debug)]
pub struct LogFile {
    db: Connection,
    path: PathBuf,
    epoch: Epoch,
    first: String,
    floor: Seq,
}

/// One event as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its place.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// Who may see it: of which tenant.
    pub tenant: &'a str,
    /// And of which user.
    pub owner: Option<&'a str>,
    /// The run it belongs to.
    pub run: Option<&'a str>,
    /// Whose wish it was.
    pub actor: &'a str,
    /// The event, as JSON text. Empty where it was trimmed.
    pub body: &'a str,
    /// The link to all before it.
    pub hash: Sha256,
    kind: u8,
    subject: Option<&'a str>,
    decision: Option<&'a str>,
    key: Option<&'a str>,
}

impl Stored<'_> {
    /// Whether its content was trimmed; its hash stays.
    pub fn is_trimmed(&self) -> bool {
        self.body.is_empty()
    }

    /// What stands beside the body says the same as the body: lists and answers are found by it.
    fn is_indexed_as_it_says(&self) -> bool {
        let Ok(event) = serde_json::from_str::<Event>(self.body) else {
            // A newer version's; the chain says that it is what was written.
            return true;
        };
        event.kind() == self.kind
            && event.run().map(|run| run.to_string()).as_deref() == self.run
            && event.item().map(|item| item.to_string()).as_deref() == self.subject
            && event.decision().map(DecisionId::as_str) == self.decision
            && event.key().map(Key::as_str) == self.key
    }
}

/// The first event that is not as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not there, and a later one is.
    Missing(Seq),
    /// It is not what was written, or what stood before it was another.
    Changed(Seq),
    /// Its content stands, but it is filed under another name, run or kind.
    Misfiled(Seq),
    /// It stands before the one it came after.
    Earlier(Seq),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(seq) => write!(f, "event {seq} is gone"),
            Self::Changed(seq) => write!(
                f,
                "event {seq} is not what was written: it, its time or its place was changed"
            ),
            Self::Misfiled(seq) => write!(
                f,
                "event {seq} is filed under another kind, run, subject or id than it says"
            ),
            Self::Earlier(seq) => write!(f, "event {seq} was recorded before the one it follows"),
        }
    }
}

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its last event.
    pub head: Seq,
    /// Which log it is.
    pub epoch: Epoch,
}

impl LogFile {
    /// Opens what lies at `path`; nothing is made there, and nothing changed.
    ///
    /// # Errors
    /// [`LogError::Foreign`] if it is no log of ours, or a newer one's; [`LogError::Broken`] if it
    /// cannot be read.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let fault = |error: rusqlite::Error| unreadable(path, &error);
        if let Err(error) = fs::File::open(path) {
            return Err(LogError::Broken(format!("{}: {error}", path.display())));
        }
        let db = match connect(path) {
            // In a directory that may not be written SQLite makes no index of a WAL that is not there.
            Err(_) if !beside(path, "-wal").exists() => connect_unchanging(path).map_err(fault)?,
            connected => connected.map_err(fault)?,
        };
        let id: i64 = db
            .query_row("PRAGMA application_id", [], |row| row.get(0))
            .map_err(fault)?;
        if id == 0 {
            return Err(foreign(
                path,
                "it is empty; if it is a copy, what lay beside the log (-wal) was left behind: \
                 `pilothouse backup` makes a whole one",
            ));
        }
        if id != APPLICATION_ID {
            return Err(foreign(path, "it is the database of another program"));
        }
        let meta = |key: &str| meta(&db, key).map_err(fault);
        let schema = meta("schema")?.and_then(|schema| schema.parse::<i64>().ok());
        match schema {
            Some(schema) if schema > SCHEMA => {
                return Err(foreign(path, "a newer version of Pilothouse wrote it"));
            }
            Some(_) => {}
            None => return Err(foreign(path, "it does not say which schema it has")),
        }
        let Some(epoch) = meta("epoch")? else {
            return Err(foreign(path, "it has no epoch"));
        };
        let first = meta("chain_epoch")?.unwrap_or_else(|| epoch.clone());
        let floor = meta("floor_seq")?.and_then(|floor| floor.parse().ok());
        Ok(Self {
            path: path.to_owned(),
            epoch,
            first,
            floor: floor.unwrap_or_default(),
            db,
        })
    }

    /// Which log it is.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Up to where it was trimmed; 0 where it was not.
    pub fn floor(&self) -> Seq {
        self.floor
    }

    /// Every event, oldest first, as of one moment; one at a time, so that a log of any length is
    /// read in little memory.
    ///
    /// # Errors
    /// [`LogError`] if the file cannot be read to its end.
    pub fn each(
        &self,
        mut look: impl FnMut(&Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.db.prepare(ALL)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let stored = Stored {
                    seq: i64::cast_unsigned(row.get(0)?),
                    at: Timestamp::from_ms(row.get(1)?),
                    tenant: row.get_ref(2)?.as_str()?,
                    owner: row.get_ref(3)?.as_str_or_null()?,
                    run: row.get_ref(4)?.as_str_or_null()?,
                    subject: row.get_ref(5)?.as_str_or_null()?,
                    kind: row.get(6)?,
                    actor: row.get_ref(7)?.as_str()?,
                    decision: row.get_ref(8)?.as_str_or_null()?,
                    key: row.get_ref(9)?.as_str_or_null()?,
                    body: row.get_ref(10)?.as_str()?,
                    hash: Sha256::from_bytes(row.get(11)?),
                };
                if look(&stored).is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error| unreadable(&self.path, &error))
    }

    /// Follows the chain of hashes from the first event on, and shows each good one to `look`. The
    /// first that does not belong to it ends the walk.
    ///
    /// # Errors
    /// [`LogError`] if the file cannot be read to its end.
    pub fn follow(&self, mut look: impl FnMut(&Stored<'_>)) -> Result<Option<Fault>, LogError> {
        let mut hash = Sha256::of(&self.first);
        let (mut seq, mut at, mut fault) = (0, None, None);
        self.each(|stored| {
            let trimmed = stored.is_trimmed() && stored.seq <= self.floor;
            fault = if stored.seq != seq + 1 {
                Some(Fault::Missing(seq + 1))
            } else if !trimmed && link(&hash, stored.seq, stored.at, stored.body) != stored.hash {
                Some(Fault::Changed(stored.seq))
            } else if at.is_some_and(|at| stored.at < at) {
                Some(Fault::Earlier(stored.seq))
            } else if !trimmed && !stored.is_indexed_as_it_says() {
                Some(Fault::Misfiled(stored.seq))
            } else {
                None
            };
            if fault.is_some() {
                return ControlFlow::Break(());
            }
            (hash, seq, at) = (stored.hash, stored.seq, Some(stored.at));
            look(stored);
            ControlFlow::Continue(())
        })?;
        Ok(fault)
    }

    /// Copies it into the empty file `to`, as of one moment, while others go on writing. What comes
    /// out is one file without anything beside it; it was read again, page by page and link by link.
    ///
    /// # Errors
    /// [`LogError`]; what is in `to` then is of no use.
    pub fn copy_to(&self, to: &Path) -> Result<Copied, LogError> {
        let fault = |error: rusqlite::Error| unreadable(to, &error);
        let mut copy = Connection::open_with_flags(
            to,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .map_err(fault)?;
        {
            let backup = Backup::new(&self.db, &mut copy).map_err(fault)?;
            // All of it in one step: a reader of a WAL stands in nobody's way, and what is written
            // meanwhile does not make it begin again.
            match backup.step(-1).map_err(fault)? {
                rusqlite::backup::StepResult::Done => {}
                other => {
                    let why = format!("{}: the copy stopped: {other:?}", self.path.display());
                    return Err(LogError::Locked(why));
                }
            }
        }
        copy.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;")
            .map_err(fault)?;
        close(copy, to)?;
        synced(to)?;
        Self::open(to)?.check()
    }

    /// Whether all of it can be read and every link holds.
    ///
    /// # Errors
    /// [`LogError::Broken`] that says what is wrong.
    pub fn check(&self) -> Result<Copied, LogError> {
        let broken = |what: String| LogError::Broken(format!("{}: {what}", self.path.display()));
        let said: String = self
            .db
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(|error| unreadable(&self.path, &error))?;
        if said != "ok" {
            return Err(broken(format!("it is damaged: {said}")));
        }
        let mut head = 0;
        match self.follow(|stored| head = stored.seq)? {
            Some(fault) => Err(broken(fault.to_string())),
            None => Ok(Copied {
                head,
                epoch: self.epoch.clone(),
            }),
        }
    }

    /// Makes another log of a copy that nobody else holds: its chain stays, its epoch is new, so
    /// that a cursor of the log it came from means nothing here.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn give_new_epoch(path: &Path) -> Result<Epoch, LogError> {
        let fault = |error: rusqlite::Error| unreadable(path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(fault)?;
        db.execute_batch(
            "PRAGMA synchronous = FULL;
             BEGIN IMMEDIATE;
             INSERT OR IGNORE INTO meta SELECT 'chain_epoch', v FROM meta WHERE k = 'epoch';
             UPDATE meta SET v = lower(hex(randomblob(16))) WHERE k = 'epoch';
             COMMIT;",
        )
        .map_err(fault)?;
        let epoch = meta(&db, "epoch").map_err(fault)?.unwrap_or_default();
        close(db, path)?;
        synced(path)?;
        Ok(epoch)
    }
}

/// What lies beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    prepared(Connection::open_with_flags(path, flags)?)
}

/// For a file that nobody changes and nothing may be made beside.
fn connect_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let path = path.to_string_lossy();
    let path = path
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    prepared(Connection::open_with_flags(
        format!("file:{path}?immutable=1"),
        flags,
    )?)
}

fn prepared(db: Connection) -> rusqlite::Result<Connection> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;")?;
    // The first page is read only now.
    db.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(db)
}

fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT CAST(v AS TEXT) FROM meta WHERE k = ?1";
    db.query_row(sql, [key], |row| row.get(0)).optional()
}

fn close(db: Connection, path: &Path) -> Result<(), LogError> {
    db.close().map_err(|(_, error)| unreadable(path, &error))
}

fn synced(path: &Path) -> Result<(), LogError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| LogError::Broken(format!("{}: {error}", path.display())))
}

fn foreign(path: &Path, why: &str) -> LogError {
    LogError::Foreign(format!("{}: {why}", path.display()))
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> LogError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase};
    let said = format!("{}: {error}", path.display());
    match error.sqlite_error_code() {
        Some(NotADatabase) => foreign(path, "it is not a database"),
        Some(DiskFull) => LogError::Full(said),
        Some(DatabaseBusy | DatabaseLocked) => LogError::Locked(said),
        _ => LogError::Broken(said),
    }
}
