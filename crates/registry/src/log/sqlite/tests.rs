//! What only a file has: its mode, its schema, its faults.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::super::tests::{self as given, at, id, run};
use super::*;
use crate::Event;

fn new(dir: &tempfile::TempDir) -> (PathBuf, Sqlite) {
    let path = dir.path().join("log");
    let log = Sqlite::open(&path).unwrap();
    (path, log)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

#[test]
fn only_its_owner_reads_the_file_and_what_lies_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    given::write(&mut log, at(1), vec![given::requested(1)]).unwrap();
    for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_log_is_the_same_one_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    given::write(&mut log, at(1), vec![given::opened(), given::requested(1)]).unwrap();
    let (epoch, tip) = (log.epoch().clone(), log.tip());
    assert_eq!(epoch.len(), 32);
    drop(log);
    let mut log = Sqlite::open(&path).unwrap();
    assert_eq!((log.epoch(), log.tip()), (&epoch, tip));
    assert_eq!(log.turn(at(2)).unwrap().missed().len(), 2);
    assert_ne!(
        Sqlite::open(dir.path().join("other")).unwrap().epoch(),
        &epoch
    );
}

#[test]
fn what_is_not_ours_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "minutes of the meeting, and more of them".repeat(99)).unwrap();
    let other = dir.path().join("other");
    let db = Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE ev(seq)").unwrap();
    drop(db);
    let newer = dir.path().join("newer");
    drop(Sqlite::open(&newer).unwrap());
    let db = Connection::open(&newer).unwrap();
    db.execute_batch("UPDATE meta SET v = 4 WHERE k = 'schema'")
        .unwrap();
    drop(db);
    let rows = [
        (text, "it is not a database"),
        (other, "it is the database of another program"),
        (newer, "written by a newer version of Pilothouse (schema 4"),
    ];
    for (path, why) in rows {
        let before = fs::read(&path).unwrap();
        let error = Sqlite::open(&path).unwrap_err();
        assert!(matches!(error, LogError::Foreign(_)), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), before, "{why}");
        let wal = fs::metadata(beside(&path, "-wal"));
        assert_eq!(wal.map_or(0, |wal| wal.len()), 0, "{why}");
    }
}

/// What makes a new file one of schema 1.
const AS_SCHEMA_1: &str = "
    DROP INDEX ev_end;
    DROP INDEX ev_history;
    CREATE UNIQUE INDEX ev_end ON ev(subject) WHERE kind BETWEEN 10 AND 13;
    CREATE INDEX ev_history ON ev(tenant, seq) WHERE kind BETWEEN 10 AND 13;
    DROP INDEX ev_asked;
    DROP INDEX ev_about;
    DROP TABLE sealed;
    UPDATE meta SET v = 1 WHERE k = 'schema';
";

/// Tables and indexes, and the schema that they say they are.
fn tables(log: &Sqlite) -> Vec<String> {
    let sql = "SELECT name || coalesce(sql, '') FROM sqlite_master
        UNION ALL SELECT k || v FROM meta WHERE k = 'schema' ORDER BY 1";
    log.file.all(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_file_of_schema_1_is_brought_up_to_date_with_all_that_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    let events = vec![
        given::opened(),
        given::requested(1),
        given::requested(2),
        given::granted(1),
    ];
    let writes = Writes {
        details: vec![(id(1), vec![1, 2, 3])],
        frames: vec![(run(), vec![4])],
        ..given::writes(0, at(1), events)
    };
    log.turn(at(1)).unwrap().commit(writes).unwrap();
    let now = tables(&log);
    log.file.pragma(AS_SCHEMA_1).unwrap();
    assert_ne!(tables(&log), now);
    let (epoch, tip) = (log.epoch().clone(), log.tip());
    let before = log.reader().unwrap().read(0, usize::MAX).unwrap();
    drop(log);

    let mut log = Sqlite::open(&path).unwrap();
    assert_eq!(tables(&log), now);
    assert_eq!((log.epoch(), log.tip()), (&epoch, tip));
    assert_eq!(log.verify().unwrap(), 4);
    let reader = log.reader().unwrap();
    assert_eq!(reader.read(0, usize::MAX).unwrap(), before);
    assert_eq!(reader.detail(id(1)).unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(reader.frames(run()).unwrap(), [vec![4]]);
    let all = HistoryQuery::all(&Tenant::local(), None, 9);
    assert_eq!(reader.history(&all).unwrap().ended.len(), 1);
    // And it takes what schema 1 did not know.
    let held = vec![given::raised(1), given::resumed(1), given::granted(2)];
    given::write(&mut log, at(2), held).unwrap();
    assert_eq!(reader.history(&all).unwrap().ended.len(), 3);
    let error = given::write(&mut log, at(2), vec![given::resumed(1)]).unwrap_err();
    assert!(error.to_string().contains("assertion"), "{error}");
    drop(log);
    assert_eq!(tables(&Sqlite::open(&path).unwrap()), now);
}

#[test]
fn two_processes_may_bring_one_file_up_to_date_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let (path, log) = new(&dir);
        let now = tables(&log);
        log.file.pragma(AS_SCHEMA_1).unwrap();
        drop(log);
        std::thread::scope(|scope| {
            let open = || assert_eq!(tables(&Sqlite::open(&path).unwrap()), now);
            (0..4).for_each(|_| drop(scope.spawn(open)));
        });
    }
}

#[test]
fn what_cannot_be_opened_says_where_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("no/such/place");
    for path in [nowhere.as_path(), dir.path()] {
        let error = Sqlite::open(path).unwrap_err();
        assert!(matches!(error, LogError::Broken(_)), "{error}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}

/// ENGINE §2.8: rolled back, readable, and written again once there is room.
#[test]
fn a_full_disk_takes_nothing_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut log) = new(&dir);
    given::write(&mut log, at(1), vec![given::opened(), given::requested(1)]).unwrap();
    log.limit(
        log.file
            .one("PRAGMA page_count", [], |row| row.get(0))
            .unwrap()
            .unwrap(),
    );
    let tip = log.tip();
    let large = || Writes {
        details: vec![(id(2), vec![7; 99_999])],
        ..given::writes(2, at(2), vec![given::requested(2)])
    };
    let error = log.turn(at(2)).unwrap().commit(large()).unwrap_err();
    assert!(matches!(error, LogError::Full(_)), "{error}");
    assert_eq!(log.tip(), tip);
    let reader = log.reader().unwrap();
    assert_eq!(
        (reader.head().unwrap(), reader.detail(id(2)).unwrap()),
        (2, None)
    );
    log.limit(1_000_000);
    let turn = log.turn(at(2)).unwrap();
    assert_eq!((turn.missed().len(), turn.head()), (0, 2));
    turn.commit(large()).unwrap();
    assert_eq!(reader.detail(id(2)).unwrap().unwrap().len(), 99_999);
    assert_eq!(log.verify().unwrap(), 3);
}

#[test]
fn a_lock_that_is_held_too_long_is_said_to_be_held() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    let mut other = Sqlite::open(&path).unwrap();
    other.file.wait(Duration::from_millis(10)).unwrap();
    let turn = log.turn(at(1)).unwrap();
    let refused = other.turn(at(1)).map(drop).unwrap_err();
    assert!(matches!(refused, LogError::Locked(_)), "{refused}");
    drop(turn);
    assert!(other.turn(at(1)).is_ok());
}

#[test]
fn a_file_that_may_not_be_written_says_who_can_change_that() {
    let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
    let error = said(
        Path::new("/x/log"),
        rusqlite::Error::SqliteFailure(error, None),
    );
    assert!(matches!(error, LogError::Broken(_)), "{error}");
    let said = error.to_string();
    assert!(said.contains("/x/log cannot be written"), "{said}");
    assert!(
        said.contains("give its owner the right to write it"),
        "{said}"
    );
}

#[test]
fn every_writing_connection_is_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let (_, log) = new(&dir);
    let rows = [
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("trusted_schema", 0),
        ("cache_size", -65536),
        ("wal_autocheckpoint", 0),
        ("journal_size_limit", 64 << 20),
        ("busy_timeout", 5000),
        ("application_id", APPLICATION_ID),
    ];
    for (what, value) in rows {
        let set = log
            .file
            .one(&format!("PRAGMA {what}"), [], |row| row.get(0));
        assert_eq!(set.unwrap(), Some(value), "{what}");
    }
    let mode: Option<String> = log
        .file
        .one("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode.as_deref(), Some("wal"));
}

#[test]
fn a_reader_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _log) = new(&dir);
    let reader = File::open(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let refused = reader.pragma("DELETE FROM ev").unwrap_err();
    assert!(
        refused.to_string().contains("cannot be written"),
        "{refused}"
    );
}

#[test]
fn a_changed_event_breaks_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut log) = new(&dir);
    let events = vec![given::opened(), given::requested(1), given::granted(1)];
    given::write(&mut log, at(1), events).unwrap();
    assert_eq!(log.verify().unwrap(), 3);
    log.file
        .pragma("UPDATE ev SET body = replace(body, 'ada', 'eve') WHERE seq = 3")
        .unwrap();
    let error = log.verify().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("event 3 is not what was written"),
        "{error}"
    );
    log.file.pragma("DELETE FROM ev WHERE seq = 2").unwrap();
    assert!(log.verify().unwrap_err().to_string().contains("event 3"));
}

#[test]
fn a_file_that_was_replaced_by_an_older_one_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut log) = new(&dir);
    given::write(&mut log, at(1), vec![given::opened(), given::requested(1)]).unwrap();
    log.file.pragma("DELETE FROM ev WHERE seq = 2").unwrap();
    let error = log.turn(at(2)).map(drop).unwrap_err();
    assert!(
        error.to_string().contains("replaced or restored"),
        "{error}"
    );
}

#[test]
fn the_tables_know_the_kinds() {
    let range = |kinds: std::ops::RangeInclusive<u8>| {
        format!("kind BETWEEN {} AND {}", kinds.start(), kinds.end())
    };
    assert_eq!(TABLES.matches(&range(Event::TERMINAL)).count(), 2);
    assert_eq!(FROM_SCHEMA_1.matches(&range(Event::TERMINAL)).count(), 2);
    assert_eq!(TABLES.matches(&range(Event::RECORD)).count(), 1);
    assert!(ENDED.contains(&range(Event::TERMINAL)));
    assert!(OF_RUN.contains(&range(Event::RECORD)));
}

/// A page costs the same at any depth: nothing is scanned, sorted or skipped over.
#[test]
fn every_query_walks_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let (_, log) = new(&dir);
    let rows = [
        (TIP, 0, "SCAN ev"),
        (EVENTS, 2, "SEARCH ev USING INTEGER PRIMARY KEY (rowid>?)"),
        (
            OF_SUBJECT,
            1,
            "SEARCH ev USING INDEX ev_subject (subject=?)",
        ),
        (
            OF_RUN,
            3,
            "SEARCH ev USING INDEX ev_record (run=? AND seq>?)",
        ),
        (ASKED, 1, "SEARCH ev USING INDEX ev_asked (run=?)"),
        (AT, 1, "SEARCH ev USING INTEGER PRIMARY KEY (rowid=?)"),
        (
            trim::RUN_ENDED,
            2,
            "SEARCH ev USING INDEX ev_record (run=? AND seq<?)",
        ),
        (
            ENDED,
            3,
            "SEARCH ev USING INDEX ev_history (tenant=? AND seq<?)",
        ),
        (
            BY_KEY,
            2,
            "SEARCH ev USING INDEX ev_key (tenant=? AND key=?)",
        ),
        (
            BY_DECISION,
            2,
            "SEARCH ev USING INDEX ev_decision (tenant=? AND decision_id=?)",
        ),
    ];
    for (sql, values, plan) in rows {
        let values = rusqlite::params_from_iter(vec!["1"; values]);
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let steps: Vec<String> = log.file.all(&sql, values, |row| row.get(3)).unwrap();
        assert_eq!(steps, [plan]);
    }
}

#[test]
fn the_wal_is_moved_when_nobody_waits_and_kept_short() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    let put = |log: &mut Sqlite, n: u128, mib: usize| {
        let frames = vec![(run(), vec![0; mib << 20])];
        let writes = Writes {
            frames,
            ..given::writes(log.seen, at(1), vec![given::requested(n)])
        };
        log.turn(at(1)).unwrap().commit(writes).unwrap();
    };
    put(&mut log, 1, 1);
    log.rest().unwrap();
    assert!(log.file.checkpoint("NOOP").unwrap().to_move() > 1 << 20);
    put(&mut log, 2, 9);
    log.rest().unwrap();
    assert_eq!(log.file.checkpoint("NOOP").unwrap().to_move(), 0);
    for n in 3..=20 {
        put(&mut log, n, 10);
        let wal = fs::metadata(beside(&path, "-wal")).unwrap().len();
        assert!(wal < 80 << 20, "{wal}");
    }
}

// === What was released, and what is done with it ===

/// Case D07: what was released is for ever; a step that has to be mended is a new step. Where a schema is released, its line
/// is added here.
#[test]
fn what_was_released_is_never_changed() {
    let steps = [(
        FROM_SCHEMA_1,
        "f489de9e25c6ca40c54d9f8d4c7b1eaf7fef3957409b749e46913fec5b4d6f1d",
    )];
    for (step, hash) in steps {
        assert_eq!(Sha256::of(step).to_string(), hash, "{step}");
    }
}

/// What makes a new file one of schema 2.
const AS_SCHEMA_2: &str = "
    DROP INDEX ev_asked;
    DROP INDEX ev_about;
    DROP TABLE sealed;
    UPDATE meta SET v = 2 WHERE k = 'schema';
";

/// A log with the tables of a released version, and something of everything that it knew.
fn released(dir: &tempfile::TempDir, schema: i64) -> PathBuf {
    let path = dir.path().join(format!("schema{schema}"));
    let mut log = Sqlite::open(&path).unwrap();
    let first = vec![
        given::opened(),
        given::requested(1),
        given::requested(2),
        given::requested(3),
        given::said("grüß Gott"),
    ];
    let detail = |n| (id(n), crate::Detail::default().to_bytes());
    let writes = Writes {
        details: (1..=3).map(detail).collect(),
        frames: vec![(run(), b"a foreign original".to_vec())],
        ..given::writes(0, at(1), first)
    };
    log.turn(at(1)).unwrap().commit(writes).unwrap();
    let expired = Event::ApprovalExpired { id: id(2) };
    given::write(&mut log, at(2), vec![given::granted(1), expired]).unwrap();
    given::write(&mut log, at(3), vec![given::applied(1, at(3))]).unwrap();
    if schema == 2 {
        let held = vec![given::raised(1), given::raised(2), given::resumed(1)];
        given::write(&mut log, at(4), held).unwrap();
    }
    let older = if schema == 1 {
        AS_SCHEMA_1
    } else {
        AS_SCHEMA_2
    };
    log.file.pragma(older).unwrap();
    path
}

/// Case D07: what an earlier version wrote opens, stands as it stood, and goes on.
#[test]
fn a_log_of_every_released_schema_is_taken_up() {
    for schema in 1..SCHEMA {
        let dir = tempfile::tempdir().unwrap();
        let path = released(&dir, schema);
        let first = rusqlite::Connection::open(&path).unwrap();
        let epoch: String = first
            .query_row("SELECT v FROM meta WHERE k = 'epoch'", [], |row| row.get(0))
            .unwrap();
        drop(first);
        let mut log = Sqlite::open(&path).unwrap();
        assert_eq!(log.epoch(), &epoch, "{schema}: cursors stay valid");
        let head = log.verify().unwrap();
        let mut state = crate::State::default();
        let missed = log.turn(at(9)).unwrap().missed().to_vec();
        missed.iter().for_each(|recorded| state.fold(recorded));
        assert_eq!((missed.len() as u64, state.head()), (head, head));

        // What waits is the question that was asked, with its id and digest, and may be answered.
        let crate::Event::ApprovalRequested { approval } = given::requested(3) else {
            unreachable!()
        };
        let pending = state.pending(id(3)).unwrap();
        assert_eq!(pending.approval.digest, approval.digest, "{schema}");
        assert_eq!(pending.approval.title, approval.title, "{schema}");
        let word = |n| state.settled(id(n)).unwrap().outcome.word();
        assert_eq!((word(1), word(2)), ("granted", "expired"), "{schema}");
        assert!(state.settled(id(1)).unwrap().applied.is_some());
        let reader = log.reader().unwrap();
        for n in 1..=3 {
            let bytes = reader.detail(id(n)).unwrap().unwrap();
            assert_eq!(Sha256::of(bytes), approval.detail_sha256, "{schema}");
        }
        assert_eq!(reader.frames(run()).unwrap().len(), 1);
        // Half read before: the same goes on.
        let rest: Vec<Seq> = reader
            .read(4, 99)
            .unwrap()
            .iter()
            .map(|one| one.seq)
            .collect();
        assert_eq!(rest, (5..=head).collect::<Vec<_>>(), "{schema}");
        if schema == 2 {
            assert_eq!(state.all_escalations().count(), 1);
            assert_eq!(state.all_closed().count(), 1);
        }
        given::write(&mut log, at(9), vec![given::granted(3)]).unwrap();
        assert_eq!(log.verify().unwrap(), head + 1);
        assert_eq!(reader.settled(id(3)).unwrap().unwrap().seq, head + 1);
    }
}

/// Case D07: all of it or nothing.
#[test]
fn a_step_that_fails_leaves_the_file_as_it_was_and_says_which() {
    for schema in 1..SCHEMA {
        let dir = tempfile::tempdir().unwrap();
        let path = released(&dir, schema);
        let db = Connection::open(&path).unwrap();
        db.execute_batch("CREATE TABLE sealed(mine)").unwrap();
        let stands = |db: &Connection| -> (i64, i64) {
            db.query_row(
                "SELECT (SELECT v FROM meta WHERE k = 'schema'), (SELECT count(*) FROM sqlite_master)",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap()
        };
        let before = stands(&db);
        let error = Sqlite::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("from schema 2 to 3, and left it as it was"),
            "{error}"
        );
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(stands(&db), before);
        db.execute_batch("DROP TABLE sealed").unwrap();
        drop(db);
        Sqlite::open(&path).unwrap().verify().unwrap();
    }
}

/// Case D07: what is on disk when the process is killed amid a step is the log before it.
#[test]
fn a_process_that_is_killed_amid_a_step_leaves_the_log_before_it() {
    for (schema, steps) in [
        (1, vec![FROM_SCHEMA_1]),
        (1, vec![FROM_SCHEMA_1, FROM_SCHEMA_2]),
        (2, vec![FROM_SCHEMA_2]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = released(&dir, schema);
        let db = Connection::open(&path).unwrap();
        // With no room in memory, all that is changed is written to the file at once.
        db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE")
            .unwrap();
        for step in steps {
            db.execute_batch(step).unwrap();
        }
        let killed = dir.path().join("killed");
        for suffix in ["", "-wal"] {
            fs::copy(beside(&path, suffix), beside(&killed, suffix)).unwrap();
        }
        let mut log = Sqlite::open(&killed).unwrap();
        log.verify().unwrap();
        given::write(&mut log, at(9), vec![given::granted(3)]).unwrap();
    }
}

// === What a disk may do ===

/// Whatever lies there, it is said in words, and a page that is damaged is never taken for what was written.
#[test]
fn a_damaged_file_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut log) = new(&dir);
    let many = std::iter::once(given::opened()).chain((1..200).map(given::requested));
    given::write(&mut log, at(1), many.collect()).unwrap();
    let whole = log.reader().unwrap().read(0, usize::MAX).unwrap();
    drop(log);
    let bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 20, "{pages}");
    let mut found = 0;
    for page in 0..pages {
        let damaged = dir.path().join(format!("damaged{page}"));
        let mut broken = bytes.clone();
        broken[page * 4096..(page + 1) * 4096].fill(0xAA);
        fs::write(&damaged, broken).unwrap();
        let read = || -> Result<Vec<Recorded>, LogError> {
            let log = Sqlite::open(&damaged)?;
            log.verify()?;
            log.reader()?.read(0, usize::MAX)
        };
        match read() {
            // An index only: what was written is still there.
            Ok(read) => assert_eq!(read, whole, "page {page}"),
            Err(error) => {
                found += 1;
                let said = error.to_string();
                assert!(said.contains(damaged.to_str().unwrap()), "{said}");
                let words = [
                    "is damaged",
                    "not a database",
                    "not what was written",
                    "another program",
                ];
                assert!(
                    words.iter().any(|word| said.contains(word)),
                    "page {page}: {said}"
                );
            }
        }
    }
    assert!(found > pages / 4, "{found} of {pages}");
    // Cut off in the middle.
    let cut = dir.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let error = Sqlite::open(&cut).and_then(|log| log.verify()).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
}

/// An empty file is a new log, and so is one beside which an empty WAL lies.
#[test]
fn nothing_at_all_is_a_new_log() {
    let dir = tempfile::tempdir().unwrap();
    for beside_it in [false, true] {
        let path = dir.path().join(format!("empty{beside_it}"));
        fs::write(&path, "").unwrap();
        if beside_it {
            fs::write(beside(&path, "-wal"), "").unwrap();
        }
        let mut log = Sqlite::open(&path).unwrap();
        given::write(&mut log, at(1), vec![given::opened()]).unwrap();
        drop(log);
        fs::write(beside(&path, "-wal"), "").unwrap();
        assert_eq!(Sqlite::open(&path).unwrap().verify().unwrap(), 1);
    }
}
