//! A log in one SQLite file.
//!
//! Invariant: a row of `ev` is written once and never changed; a decision is one INSERT.

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row, Transaction,
    TransactionBehavior, config::DbConfig, params,
};

use super::{
    Entry, Epoch, FRAMES_KEPT, Log, LogError, Reader, Tip, Turn, Writes, asked_in, body,
    broken_assertion, fold_closed, fold_settled,
    history::{Ends, HistoryPage, HistoryQuery, first_at, page},
    trim::{Sweep, Swept},
};
use crate::{
    approval::{ApprovalId, Settled},
    digest::Sha256,
    escalation::{Closed, Ended, EscalationId, ItemId},
    event::{Event, Recorded, Scope, Seq},
    names::{DecisionId, Key},
    refusal::Refusal,
    run::RunId,
    text::Untrusted,
    time::Timestamp,
    who::Tenant,
};

/// The tables as they are now. A file with a larger number was written by a newer version.
pub(super) const SCHEMA: i64 = 3;

/// What tells a file of ours from another program's: `PILT`.
pub(super) const APPLICATION_ID: i64 = 0x5049_4c54;

/// Before 3.51.3 a reset of the WAL could damage what was committed (`ENGINE` §4).
const OLDEST_SQLITE: i32 = 3_051_003;

/// How long a turn waits for another process to finish its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries, where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(10);

/// A WAL with more than this to move is moved when nobody waits.
const MOVE_AT_BYTES: i64 = 8 << 20;

/// A WAL longer than this is moved at once.
const MUST_MOVE_AT_BYTES: i64 = 64 << 20;

/// A page of 4096 bytes and its header, as the WAL holds it.
const WAL_FRAME_BYTES: i64 = 4096 + 24;

/// The ranges of kinds are [`Event::TERMINAL`](crate::Event::TERMINAL) and
/// [`Event::RECORD`](crate::Event::RECORD); a test holds them together.
const TABLES: &str = "
    CREATE TABLE ev(
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenant TEXT NOT NULL, owner TEXT, run TEXT,
        subject TEXT, kind INTEGER NOT NULL, actor TEXT NOT NULL, decision_id TEXT, key TEXT,
        body TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE UNIQUE INDEX ev_end ON ev(subject) WHERE kind BETWEEN 10 AND 19;
    CREATE UNIQUE INDEX ev_decision ON ev(tenant, decision_id) WHERE decision_id IS NOT NULL;
    CREATE UNIQUE INDEX ev_key ON ev(tenant, key) WHERE key IS NOT NULL;
    CREATE INDEX ev_subject ON ev(subject) WHERE subject IS NOT NULL;
    CREATE INDEX ev_history ON ev(tenant, seq) WHERE kind BETWEEN 10 AND 19;
    CREATE INDEX ev_asked ON ev(run, seq) WHERE kind = 1;
    CREATE INDEX ev_record ON ev(run, seq) WHERE kind BETWEEN 40 AND 49;
    CREATE INDEX ev_about ON ev(run, seq) WHERE kind IN (3, 50, 51);
    CREATE TABLE detail(id TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
    CREATE TABLE frame(run TEXT, n INTEGER, bytes BLOB NOT NULL, PRIMARY KEY(run, n)) STRICT;
    CREATE TABLE sealed(id TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
    CREATE TABLE meta(k TEXT PRIMARY KEY, v ANY) STRICT, WITHOUT ROWID;
    INSERT INTO meta VALUES ('epoch', lower(hex(randomblob(16)))), ('schema', 3);
";

/// From the tables before to those of now, in one transaction. What was written stays as it was written.
const FROM_SCHEMA_1: &str = "
    DROP INDEX ev_end;
    DROP INDEX ev_history;
    CREATE UNIQUE INDEX ev_end ON ev(subject) WHERE kind BETWEEN 10 AND 19;
    CREATE INDEX ev_history ON ev(tenant, seq) WHERE kind BETWEEN 10 AND 19;
    UPDATE meta SET v = 2 WHERE k = 'schema';
";

const FROM_SCHEMA_2: &str = "
    CREATE INDEX ev_asked ON ev(run, seq) WHERE kind = 1;
    CREATE INDEX ev_about ON ev(run, seq) WHERE kind IN (3, 50, 51);
    CREATE TABLE sealed(id TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
    UPDATE meta SET v = 3 WHERE k = 'schema';
";

/// What every writing connection needs (`ENGINE` §5.1). Nothing is mapped into memory.
const PREPARED: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA cache_size = -65536;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
";

/// A restored log has another epoch, and its chain begins where it began.
const FIRST: &str = "SELECT v FROM meta WHERE k = 'chain_epoch'";

const TIP: &str = "SELECT seq, at, hash FROM ev ORDER BY seq DESC LIMIT 1";

const CHAIN: &str = "SELECT seq, at, hash, body FROM ev ORDER BY seq";

const EVENTS: &str = "SELECT seq, at, tenant, owner, body FROM ev
    WHERE seq > ?1 AND body <> '' ORDER BY seq LIMIT ?2";

const OF_SUBJECT: &str = "SELECT seq, at, tenant, owner, body FROM ev
    WHERE subject = ?1 AND body <> '' ORDER BY seq";

const OF_RUN: &str = "SELECT seq, at, tenant, owner, body FROM ev
    WHERE run = ?1 AND kind BETWEEN 40 AND 49 AND seq > ?2 AND body <> '' ORDER BY seq LIMIT ?3";

const ASKED: &str = "SELECT seq, at, tenant, owner, body FROM ev
    WHERE run = ?1 AND kind = 1 ORDER BY seq";

const AT: &str = "SELECT at FROM ev WHERE seq = ?1";

const ENDED: &str = "SELECT subject, kind, seq FROM ev
    WHERE tenant = ?1 AND kind BETWEEN 10 AND 19 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

const BY_KEY: &str = "SELECT subject FROM ev WHERE tenant = ?1 AND key = ?2";

const BY_DECISION: &str = "SELECT subject FROM ev WHERE tenant = ?1 AND decision_id = ?2";

const INSERT: &str = "INSERT INTO ev VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

const INSERT_FRAME: &str = "INSERT INTO frame
    VALUES (?1, 1 + coalesce((SELECT max(n) FROM frame WHERE run = ?1), 0), ?2)";

const TRIM_FRAMES: &str = "DELETE FROM frame
    WHERE run = ?1 AND n <= (SELECT max(n) FROM frame WHERE run = ?1) - ?2";

const ALL: i64 = -1;

/// A log in one SQLite file. Several processes may write it, one turn after the other.
#[derive(Debug)]
pub struct Sqlite {
    file: File,
    epoch: Epoch,
    /// What the chain begins with: the epoch, unless the log was restored.
    first: String,
    seen: Seq,
}

impl Sqlite {
    /// Opens the log at `path`, or begins one there that only its owner can read.
    ///
    /// # Errors
    /// [`LogError::Foreign`] if what lies there is not ours, or newer: it is left as it is.
    /// [`LogError::Broken`] if it cannot be read or written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref();
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(LogError::Broken(format!(
                "built with SQLite {}; 3.51.3 or newer is needed",
                rusqlite::version()
            )));
        }
        create(path).map_err(|error| cannot(path, "create", error))?;
        let file = File::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Until it is known to be ours, nothing of it is moved.
        file.set(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let found = file.recognise()?;
        file.insist(PREPARED)?;
        match found {
            Found::Ours => {}
            Found::Nothing | Found::Older(_) => file.begin()?,
        }
        file.set(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        let epoch: Option<Epoch> =
            file.one("SELECT v FROM meta WHERE k = 'epoch'", [], |row| row.get(0))?;
        let epoch = epoch.ok_or_else(|| file.foreign("it has no epoch"))?;
        file.has_a_wal()?;
        let first = file.one(FIRST, [], |row| row.get(0))?;
        Ok(Self {
            first: first.unwrap_or_else(|| epoch.clone()),
            file,
            epoch,
            seen: 0,
        })
    }

    /// Reads the whole log and follows the chain of its hashes, over what was trimmed as well.
    ///
    /// # Errors
    /// [`LogError::Broken`] names the first event that is not what was written.
    pub fn verify(&self) -> Result<Seq, LogError> {
        let tip = Tip::of_nothing(&self.first);
        let followed = self.file.follow(tip, self.file.meta_number("floor_seq")?);
        followed
            .map_err(|error| self.file.said(error))?
            .map_err(|seq| {
                LogError::Broken(format!(
                    "{}: event {seq} is not what was written, or the one before it is gone",
                    self.file.path.display()
                ))
            })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl Sqlite {
    pub(super) fn tip(&self) -> Tip {
        self.file.tip().unwrap().unwrap()
    }

    /// From now on the file has this many pages at most: what a full disk looks like.
    fn limit(&self, pages: i64) {
        let limit = format!("PRAGMA max_page_count = {pages}");
        self.file.pragma(&limit).unwrap();
    }
}

impl Log for Sqlite {
    fn turn(&mut self, wall: Timestamp) -> Result<Box<dyn Turn + '_>, LogError> {
        let file = &self.file;
        let tx = Transaction::new_unchecked(&file.db, TransactionBehavior::Immediate);
        let tx = tx.map_err(|error| file.said(error))?;
        let tip = file.tip()?.unwrap_or(Tip::of_nothing(&self.first));
        if tip.seq < self.seen {
            return Err(LogError::Broken(format!(
                "{}: it ends at event {}, but event {} was there: it was replaced or restored",
                file.path.display(),
                tip.seq,
                self.seen
            )));
        }
        let missed = if tip.seq > self.seen {
            file.events(EVENTS, params![number(self.seen), ALL])?
        } else {
            Vec::new()
        };
        self.seen = tip.seq;
        Ok(Box::new(SqliteTurn {
            file,
            tx,
            seen: &mut self.seen,
            tip,
            missed,
            now: wall.max(tip.at),
        }))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, LogError> {
        let file = File::open(&self.file.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        file.pragma("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;")?;
        Ok(Box::new(file))
    }

    fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    fn trim(&mut self, sweep: &Sweep) -> Result<Swept, LogError> {
        self.file.trim(sweep)
    }

    /// Moves the WAL into the file as far as readers allow, if there is much to move.
    fn rest(&mut self) -> Result<(), LogError> {
        let wal = self.file.checkpoint("NOOP")?;
        if wal.to_move() > MOVE_AT_BYTES {
            self.file.checkpoint("PASSIVE")?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.file.checkpoint("TRUNCATE").map(drop)
    }
}

struct SqliteTurn<'a> {
    file: &'a File,
    /// Rolled back when it is dropped.
    tx: Transaction<'a>,
    seen: &'a mut Seq,
    tip: Tip,
    missed: Vec<Recorded>,
    now: Timestamp,
}

impl Turn for SqliteTurn<'_> {
    fn missed(&self) -> &[Recorded] {
        &self.missed
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn head(&self) -> Seq {
        self.tip.seq
    }

    fn commit(self: Box<Self>, writes: Writes) -> Result<(), LogError> {
        if writes.is_empty() {
            return Ok(());
        }
        let Self {
            file,
            tx,
            seen,
            mut tip,
            ..
        } = *self;
        for entry in &writes.events {
            let body = body(&entry.recorded.event)?;
            tip = tip.then(&entry.recorded, &body)?;
            file.insert(entry, &body, &tip)?;
            if entry.recorded.event.kind() == Event::HISTORY_TRIMMED {
                file.sweep_is_recorded()?;
            }
        }
        for (id, bytes) in &writes.details {
            let sql = "INSERT INTO detail VALUES (?1, ?2)";
            file.run(sql, params![id.to_string(), bytes])?;
        }
        for (id, bytes) in &writes.sealed {
            let sql = "INSERT OR REPLACE INTO sealed VALUES (?1, ?2)";
            file.run(sql, params![id.to_string(), bytes])?;
        }
        for id in &writes.unsealed {
            file.run("DELETE FROM sealed WHERE id = ?1", [id.to_string()])?;
        }
        for (run, bytes) in &writes.frames {
            file.keep_frame(*run, bytes)?;
        }
        tx.commit().map_err(|error| file.said(error))?;
        *seen = tip.seq;
        file.keep_wal_short()
    }
}

/// One connection to the file.
#[derive(Debug)]
struct File {
    db: Connection,
    path: PathBuf,
}

/// What lies at a path, before anything is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Ours,
    /// Of this schema, which is not the newest.
    Older(i64),
}

/// How long the WAL is, and how much of it is in the file already.
struct Wal {
    pages: i64,
    moved: i64,
}

impl Wal {
    fn bytes(&self) -> i64 {
        self.pages * WAL_FRAME_BYTES
    }

    fn to_move(&self) -> i64 {
        (self.pages - self.moved) * WAL_FRAME_BYTES
    }
}

/// Opening.
impl File {
    fn open(path: &Path, flags: OpenFlags) -> Result<Self, LogError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags);
        let db = db.map_err(|error| said(path, error))?;
        let path = path.to_owned();
        let file = Self { db, path };
        file.wait(PATIENCE)?;
        Ok(file)
    }

    fn set(&self, option: DbConfig, on: bool) -> Result<(), LogError> {
        let set = self.db.set_db_config(option, on);
        set.map(drop).map_err(|error| self.said(error))
    }

    fn wait(&self, span: Duration) -> Result<(), LogError> {
        self.db.busy_timeout(span).map_err(|error| self.said(error))
    }

    fn recognise(&self) -> Result<Found, LogError> {
        // In this order: another process may make both between the two.
        let tables = self.one("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        let id = self.one("PRAGMA application_id", [], |row| row.get(0))?;
        match (id.unwrap_or(0), tables.unwrap_or(0)) {
            (0, 0) => return Ok(Found::Nothing),
            (APPLICATION_ID, _) => {}
            _ => return Err(self.foreign("it is the database of another program")),
        }
        let schema = self.one("SELECT v FROM meta WHERE k = 'schema'", [], |row| {
            row.get(0)
        })?;
        match schema {
            Some(SCHEMA) => Ok(Found::Ours),
            Some(older @ 1..SCHEMA) => Ok(Found::Older(older)),
            Some(newer) if newer > SCHEMA => Err(self.foreign(&format!(
                "it was written by a newer version of Pilothouse (schema {newer}; this one reads \
                 up to {SCHEMA})"
            ))),
            _ => Err(self.foreign("it does not say which schema it has")),
        }
    }

    /// SQLite does not wait where two processes turn a new file into one with a WAL at once.
    fn insist(&self, sql: &str) -> Result<(), LogError> {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            match self.pragma(sql) {
                Err(LogError::Locked(_)) => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
        self.pragma(sql)
    }

    /// Where it could not have one, SQLite goes on without, and then a commit is an unlink that nobody syncs. What it says
    /// of itself is so only once the file has been read.
    fn has_a_wal(&self) -> Result<(), LogError> {
        let mode: Option<String> = self.one("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode.as_deref() == Some("wal") {
            return Ok(());
        }
        Err(LogError::Broken(format!(
            "{} cannot be given a write-ahead log: its disk is broken, or its file system has no shared memory (a network disk?)",
            self.path.display()
        )))
    }

    /// Makes the tables, or brings older ones up to date, unless another process was faster.
    fn begin(&self) -> Result<(), LogError> {
        let tx = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate);
        let tx = tx.map_err(|error| self.said(error))?;
        match self.recognise()? {
            Found::Ours => {}
            Found::Older(schema) => {
                // Each step as it was released; it never changes again.
                let steps = [(1, FROM_SCHEMA_1), (2, FROM_SCHEMA_2)];
                for (from, step) in steps.iter().filter(|(from, _)| *from >= schema) {
                    self.pragma(step)
                        .map_err(|error| not_brought(*from, error))?;
                }
            }
            Found::Nothing => self.pragma(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; {TABLES}"
            ))?,
        }
        tx.commit().map_err(|error| self.said(error))
    }

    fn pragma(&self, sql: &str) -> Result<(), LogError> {
        self.db.execute_batch(sql).map_err(|error| self.said(error))
    }
}

/// Writing.
impl File {
    fn run(&self, sql: &str, values: impl Params) -> Result<(), LogError> {
        let statement = self.db.prepare_cached(sql);
        let done = statement.and_then(|mut statement| statement.execute(values));
        done.map(drop).map_err(|error| self.said(error))
    }

    fn insert(&self, entry: &Entry, body: &str, tip: &Tip) -> Result<(), LogError> {
        let Recorded {
            seq,
            at,
            scope,
            event,
        } = &entry.recorded;
        let values = params![
            number(*seq),
            at.ms(),
            scope.tenant.as_str(),
            scope.owner.as_ref().map(|owner| owner.as_str()),
            event.run().map(|run| run.to_string()),
            event.item().map(|id| id.to_string()),
            event.kind(),
            entry.actor.as_str(),
            event.decision().map(DecisionId::as_str),
            event.key().map(Key::as_str),
            body,
            tip.hash.bytes(),
        ];
        self.run(INSERT, values)
    }

    fn keep_frame(&self, run: RunId, bytes: &[u8]) -> Result<(), LogError> {
        let run = run.to_string();
        self.run(INSERT_FRAME, params![run, bytes])?;
        let kept = i64::try_from(FRAMES_KEPT).unwrap_or(i64::MAX);
        self.run(TRIM_FRAMES, params![run, kept])
    }

    /// What was committed stays committed, whatever comes of this. Nobody is waited for: a reader
    /// in the way is gone at one of the next commits.
    fn keep_wal_short(&self) -> Result<(), LogError> {
        if self.checkpoint("NOOP")?.bytes() <= MUST_MOVE_AT_BYTES {
            return Ok(());
        }
        self.wait(Duration::ZERO)?;
        let moved = self.checkpoint("RESTART");
        self.wait(PATIENCE)?;
        moved.map(drop)
    }

    /// Only an error of the disk is one here: busy or full, it is tried again later.
    fn checkpoint(&self, mode: &str) -> Result<Wal, LogError> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let nothing = Wal { pages: 0, moved: 0 };
        let wal = self.one(&sql, [], |row| {
            Ok(Wal {
                pages: row.get(1)?,
                moved: row.get(2)?,
            })
        });
        match wal {
            Ok(wal) => Ok(wal.unwrap_or(nothing)),
            Err(LogError::Full(_) | LogError::Locked(_)) => Ok(nothing),
            Err(error) => Err(error),
        }
    }
}

/// Reading.
impl File {
    fn tip(&self) -> Result<Option<Tip>, LogError> {
        self.one(TIP, [], |row| {
            Ok(Tip {
                seq: i64::cast_unsigned(row.get(0)?),
                at: Timestamp::from_ms(row.get(1)?),
                hash: hash(row, 2)?,
            })
        })
    }

    /// The last event of the chain after `tip`, or the first that does not belong to it.
    fn follow(&self, mut tip: Tip, floor: Seq) -> rusqlite::Result<Result<Seq, Seq>> {
        let mut statement = self.db.prepare(CHAIN)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let seq = i64::cast_unsigned(row.get(0)?);
            let at = Timestamp::from_ms(row.get(1)?);
            let body = row.get_ref(3)?.as_str()?;
            // What was trimmed has left its hash, and the next one builds on that.
            let linked = match body.is_empty() && seq <= floor {
                true => hash(row, 2)?,
                false => super::link(&tip.hash, seq, at, body),
            };
            if seq != tip.seq + 1 || linked != hash(row, 2)? {
                return Ok(Err(seq));
            }
            tip = Tip {
                seq,
                at,
                hash: linked,
            };
        }
        Ok(Ok(tip.seq))
    }

    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, LogError> {
        let statement = self.db.prepare_cached(sql);
        let row = statement.and_then(|mut statement| statement.query_row(values, read).optional());
        row.map_err(|error| self.said(error))
    }

    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, LogError> {
        let collect = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.db.prepare_cached(sql)?;
            statement.query_map(values, read)?.collect()
        };
        collect().map_err(|error| self.said(error))
    }

    fn events(&self, sql: &str, values: impl Params) -> Result<Vec<Recorded>, LogError> {
        let mut scopes = Scopes::default();
        self.all(sql, values, |row| recorded(row, &mut scopes))
    }

    fn id(&self, sql: &str, values: impl Params) -> Result<Option<ApprovalId>, LogError> {
        self.one(sql, values, |row| id(row, 0))
    }
}

impl Ends for File {
    fn ends(
        &self,
        tenant: &Tenant,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, ItemId)>, LogError> {
        let values = params![tenant.as_str(), number(before), count(limit)];
        self.all(ENDED, values, |row| {
            Ok((i64::cast_unsigned(row.get(2)?), item(row)?))
        })
    }

    fn whole(&self, id: ItemId) -> Result<Option<Ended>, LogError> {
        Ok(match id {
            ItemId::Approval(id) => self.settled(id)?.map(Ended::Approval),
            ItemId::Escalation(id) => self.closed(id)?.map(Ended::Escalation),
        })
    }

    fn first_at(&self, at: Timestamp) -> Result<Seq, LogError> {
        first_at(Reader::head(self)?, at, |seq| {
            self.one(AT, [number(seq)], |row| Ok(Timestamp::from_ms(row.get(0)?)))
        })
    }
}

impl Reader for File {
    fn head(&self) -> Result<Seq, LogError> {
        Ok(self.tip()?.map_or(0, |tip| tip.seq))
    }

    fn read(&self, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError> {
        self.events(EVENTS, params![number(after), count(limit)])
    }

    fn floor(&self) -> Result<Seq, LogError> {
        self.meta_number("floor_seq")
    }

    fn hash_at(&self, seq: Seq) -> Result<Option<Sha256>, LogError> {
        let sql = "SELECT hash FROM ev WHERE seq = ?1";
        self.one(sql, [number(seq)], |row| hash(row, 0))
    }

    fn detail(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError> {
        let sql = "SELECT bytes FROM detail WHERE id = ?1";
        self.one(sql, [id.to_string()], |row| row.get(0))
    }

    fn sealed(&self, id: ApprovalId) -> Result<Option<Vec<u8>>, LogError> {
        let sql = "SELECT bytes FROM sealed WHERE id = ?1";
        self.one(sql, [id.to_string()], |row| row.get(0))
    }

    fn settled(&self, id: ApprovalId) -> Result<Option<Settled>, LogError> {
        Ok(fold_settled(self.events(OF_SUBJECT, [id.to_string()])?))
    }

    fn closed(&self, id: EscalationId) -> Result<Option<Closed>, LogError> {
        Ok(fold_closed(self.events(OF_SUBJECT, [id.to_string()])?))
    }

    fn settled_in(&self, run: RunId, step: &Untrusted) -> Result<Vec<Settled>, LogError> {
        let requested = self.events(ASKED, [run.to_string()])?;
        let settled = asked_in(step, requested).map(|id| self.settled(id));
        settled.filter_map(Result::transpose).collect()
    }

    fn filed_under(&self, tenant: &Tenant, key: &Key) -> Result<Option<ApprovalId>, LogError> {
        self.id(BY_KEY, [tenant.as_str(), key.as_str()])
    }

    fn decided_by(
        &self,
        tenant: &Tenant,
        decision: &DecisionId,
    ) -> Result<Option<ApprovalId>, LogError> {
        self.id(BY_DECISION, [tenant.as_str(), decision.as_str()])
    }

    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, LogError> {
        page(self, query)
    }

    fn record(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Recorded>, LogError> {
        let values = params![run.to_string(), number(after), count(limit)];
        self.events(OF_RUN, values)
    }

    fn frames(&self, run: RunId) -> Result<Vec<Vec<u8>>, LogError> {
        let sql = "SELECT bytes FROM frame WHERE run = ?1 ORDER BY n";
        self.all(sql, [run.to_string()], |row| row.get(0))
    }
}

/// The scope of the row before: nearly always that of the next one, too.
#[derive(Default)]
struct Scopes(Option<Scope>);

impl Scopes {
    fn of(&mut self, tenant: &str, owner: Option<&str>) -> serde_json::Result<Scope> {
        let same = |scope: &&Scope| {
            scope.tenant.as_str() == tenant
                && scope.owner.as_ref().map(|owner| owner.as_str()) == owner
        };
        if let Some(scope) = self.0.as_ref().filter(same) {
            return Ok(scope.clone());
        }
        let scope: Scope = serde_json::from_value(serde_json::json!({
            "tenant": tenant, "owner": owner,
        }))?;
        self.0 = Some(scope.clone());
        Ok(scope)
    }
}

fn recorded(row: &Row<'_>, scopes: &mut Scopes) -> rusqlite::Result<Recorded> {
    let tenant = row.get_ref(2)?.as_str()?;
    let owner = row.get_ref(3)?.as_str_or_null()?;
    let body = row.get_ref(4)?.as_str()?;
    Ok(Recorded {
        seq: i64::cast_unsigned(row.get(0)?),
        at: Timestamp::from_ms(row.get(1)?),
        scope: scopes.of(tenant, owner).map_err(|e| unreadable(2, e))?,
        event: Arc::new(serde_json::from_str(body).map_err(|e| unreadable(4, e))?),
    })
}

fn id<T: FromStr<Err = Refusal>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error| unreadable(column, error))
}

/// What ended, by the subject and kind of the event that says so.
fn item(row: &Row<'_>) -> rusqlite::Result<ItemId> {
    match row.get(1)? {
        Event::ESCALATION_CLOSED => id(row, 0).map(ItemId::Escalation),
        _ => id(row, 0).map(ItemId::Approval),
    }
}

fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Sha256> {
    Ok(Sha256::from_bytes(row.get(column)?))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

fn number(seq: Seq) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Begins an empty file that only its owner can read, whatever the umask says, before SQLite opens
/// it. A file that is there is left alone: closing it here would drop SQLite's locks on it.
fn create(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    let file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn cannot(path: &Path, what: &str, error: io::Error) -> LogError {
    let message = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full(message),
        _ => LogError::Broken(message),
    }
}

/// Refusing.
impl File {
    fn said(&self, error: rusqlite::Error) -> LogError {
        said(&self.path, error)
    }

    fn foreign(&self, why: &str) -> LogError {
        LogError::Foreign(format!("{}: {why}", self.path.display()))
    }
}

/// Which step failed; the file is as it was.
fn not_brought(from: i64, error: LogError) -> LogError {
    let say = |why: String| {
        format!(
            "cannot bring it from schema {from} to {}, and left it as it was: {why}",
            from + 1
        )
    };
    match error {
        LogError::Full(why) => LogError::Full(say(why)),
        LogError::Locked(why) => LogError::Locked(say(why)),
        LogError::Foreign(why) => LogError::Foreign(say(why)),
        LogError::Broken(why) => LogError::Broken(say(why)),
    }
}

fn said(path: &Path, error: rusqlite::Error) -> LogError {
    let place = path.display();
    let code = error.sqlite_error_code();
    let message = match code {
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!(
                "{place} cannot be written: {error}; give its owner the right to write it and its directory"
            )
        }
        Some(ErrorCode::CannotOpen) => {
            format!("{place} cannot be opened: {error}; is it a file, and may this user read it?")
        }
        Some(ErrorCode::SystemIoFailure) => {
            format!("the disk under {place} failed: {error}; look at the system's log")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            format!("{place} is damaged: {error}; restore it from a backup")
        }
        _ => format!("{place}: {error}"),
    };
    match code {
        Some(ErrorCode::DiskFull) => LogError::Full(message),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LogError::Locked(message),
        Some(ErrorCode::ConstraintViolation) => broken_assertion(message),
        Some(ErrorCode::NotADatabase) => {
            LogError::Foreign(format!("{place}: it is not a database"))
        }
        None if is_unreadable(&error) => LogError::Foreign(message),
        _ => LogError::Broken(message),
    }
}

/// A row of a file of ours that this version cannot read: most likely a newer one wrote it.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::FromSqlConversionFailure(..))
}

mod trim;

#[cfg(test)]
mod tests;
