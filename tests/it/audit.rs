//! `pilothouse audit`: what was changed in a log is found, and what is in it can be taken along.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    pty::Pty,
    server::{PROGRAM, Ran, Server, command_at},
};

/// A log with decisions in it, and a checkpoint: what a server leaves that ended cleanly.
fn lived() -> Server {
    let mut server = Server::start();
    for n in 0..3 {
        let id = server.file(&["--title", &format!("Deploy {n}?")]);
        assert_eq!(server.decide("approve", &id, &[]).code, 0);
    }
    server.terminate();
    whole(server.dir());
    server
}

/// What lies beside the log goes into it, so that one file can be copied.
fn whole(dir: &Path) {
    let db = Connection::open(dir.join("pilothouse.db")).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

/// What it left, copied: one test harms it in many ways.
struct Copy(TempDir);

impl Copy {
    fn of(dir: &Path) -> Self {
        let copy = TempDir::new().unwrap();
        for name in [
            "pilothouse.db",
            "checkpoints.jsonl",
            "audit.key",
            "audit.pub",
        ] {
            fs::copy(dir.join(name), copy.path().join(name)).unwrap();
        }
        Self(copy)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sql(&self, sql: &str) {
        let db = Connection::open(self.path("pilothouse.db")).unwrap();
        db.execute_batch(sql).unwrap();
    }

    fn verify(&self) -> Ran {
        verify(self.0.path(), &[])
    }
}

fn verify(dir: &Path, args: &[&str]) -> Ran {
    let args = [&["audit", "verify"], args].concat();
    Ran::of(command_at(dir, &args).output().unwrap())
}

fn export(dir: &Path, args: &[&str]) -> Ran {
    let args = [&["audit", "export"], args].concat();
    Ran::of(command_at(dir, &args).output().unwrap())
}

/// ENGINE §8: edits and truncation before the last checkpoint are detected.
#[test]
fn whatever_was_changed_is_found_and_named() {
    let server = lived();
    let good = Copy::of(server.dir()).verify();
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.out.starts_with("proven: "), "{good:?}");
    assert!(good.out.contains("checkpoints: 1, all proven"), "{good:?}");
    assert!(good.err.contains("cannot show"), "{good:?}");

    let rows: &[(&str, &str, &str)] = &[
        (
            "an edited body",
            "UPDATE ev SET body = replace(body, 'Deploy 1', 'Deploy 9') WHERE seq = (SELECT min(seq) FROM ev WHERE body LIKE '%Deploy 1%')",
            "is not what was written",
        ),
        (
            "a removed event",
            "DELETE FROM ev WHERE seq = 4",
            "event 4 is gone",
        ),
        (
            "the first, removed",
            "DELETE FROM ev WHERE seq = 1",
            "event 1 is gone",
        ),
        (
            "two that changed places",
            "UPDATE ev SET seq = -3 WHERE seq = 3; UPDATE ev SET seq = 3 WHERE seq = 4; UPDATE ev SET seq = 4 WHERE seq = -3",
            "event 3 is not what was written",
        ),
        (
            "an edited time",
            "UPDATE ev SET at = at + 1 WHERE seq = 5",
            "event 5 is not what was written",
        ),
        (
            "the end, cut off",
            "DELETE FROM ev WHERE seq > (SELECT max(seq) - 2 FROM ev)",
            "the end is missing",
        ),
        ("all of it", "DELETE FROM ev", "the end is missing"),
        (
            "filed under another kind",
            "DROP INDEX ev_end; DROP INDEX ev_history; UPDATE ev SET kind = 11 WHERE kind = 10",
            "is filed under another kind",
        ),
    ];
    for (what, sql, said) in rows {
        let copy = Copy::of(server.dir());
        copy.sql(sql);
        let ran = copy.verify();
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert!(
            ran.err.contains("not proven") && ran.err.contains(said),
            "{what}: {ran:?}"
        );
    }
}

/// A chain that fits itself, made anew by somebody without the key.
#[test]
fn a_log_that_was_made_anew_does_not_fit_its_checkpoints() {
    let (server, other) = (lived(), lived());
    let copy = Copy::of(server.dir());
    fs::copy(
        other.dir().join("pilothouse.db"),
        copy.path("pilothouse.db"),
    )
    .unwrap();
    let ran = copy.verify();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the log was made anew"), "{ran:?}");
}

#[test]
fn a_checkpoint_that_was_edited_or_signed_by_another_is_named() {
    let server = lived();
    let text = fs::read_to_string(server.dir().join("checkpoints.jsonl")).unwrap();
    let mut edited: Value = serde_json::from_str(&text).unwrap();
    edited["at"] = 1.into();
    let other = lived();
    let foreign = fs::read_to_string(other.dir().join("checkpoints.jsonl")).unwrap();
    let rows = [
        (format!("{edited}\n"), "line 1 was edited"),
        (
            format!("{text}{foreign}"),
            "line 2 was signed by another key",
        ),
        (format!("{text}nonsense\n"), "line 2 is no checkpoint"),
    ];
    for (checkpoints, said) in rows {
        let copy = Copy::of(server.dir());
        fs::write(copy.path("checkpoints.jsonl"), checkpoints).unwrap();
        let ran = copy.verify();
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(said), "{said}: {ran:?}");
    }
    // What a crash in the middle of a write leaves is no forgery.
    let copy = Copy::of(server.dir());
    fs::write(copy.path("checkpoints.jsonl"), format!("{text}{{\"epo")).unwrap();
    let ran = copy.verify();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("half a checkpoint"), "{ran:?}");
}

#[test]
fn it_is_verified_while_a_server_runs_and_nothing_of_it_is_changed() {
    let mut server = lived();
    server.restart();
    let id = server.file(&["--title", "One more?"]);
    let ran = verify(server.dir(), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains(" 0 events since"), "{ran:?}");
    assert_eq!(server.decide("approve", &id, &[]).code, 0);
    server.terminate();
    // A clean stop signs what came until then.
    let ran = verify(server.dir(), &[]);
    assert!(ran.out.contains("checkpoints: 2, all proven"), "{ran:?}");
    assert!(ran.out.contains(" 0 events since"), "{ran:?}");

    let files = || {
        let names = ["pilothouse.db", "checkpoints.jsonl"].map(|name| server.dir().join(name));
        names.map(|path| fs::read(path).unwrap())
    };
    let before = files();
    verify(server.dir(), &[]);
    export(server.dir(), &[]);
    assert!(files() == before, "a look changed the log");
}

#[test]
fn what_is_no_log_is_said_in_words() {
    let dir = TempDir::new().unwrap();
    let ran = verify(dir.path(), &[]);
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.err.contains("pilothouse.db: No such file"), "{ran:?}");
    let text = dir.path().join("minutes.txt");
    fs::write(&text, "minutes of the meeting, and more of them".repeat(99)).unwrap();
    let ran = verify(dir.path(), &["--file", text.to_str().unwrap()]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("it is not a database"), "{ran:?}");
    assert!(!dir.path().join("pilothouse.db").exists());
}

/// The keys and checkpoints of a data directory are its owner's alone, from the first start on.
#[test]
fn what_proves_the_log_is_its_owners_alone() {
    let server = lived();
    for name in ["audit.key", "audit.pub", "checkpoints.jsonl"] {
        let file = fs::metadata(server.dir().join(name)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

/// A checkpoint that cannot be written stops no decision, and is written once it can be.
#[test]
fn decisions_go_on_where_no_checkpoint_can_be_written() {
    let mut server = lived();
    let checkpoints = server.dir().join("checkpoints.jsonl");
    fs::remove_file(&checkpoints).unwrap();
    fs::create_dir(&checkpoints).unwrap();
    server.restart();
    let id = server.file(&["--title", "Still there?"]);
    assert_eq!(server.decide("approve", &id, &[]).code, 0);
    server.terminate();
    fs::remove_dir(&checkpoints).unwrap();
    server.restart();
    server.terminate();
    let ran = verify(server.dir(), &[]);
    assert!(ran.out.contains("checkpoints: 1, all proven"), "{ran:?}");
    assert!(ran.out.contains(" 0 events since"), "{ran:?}");
}

#[test]
fn an_export_holds_every_event_and_what_its_hash_is_made_of() {
    let server = lived();
    let all = export(server.dir(), &[]).objects();
    let seqs: Vec<u64> = all
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=all.len() as u64).collect::<Vec<_>>());
    for key in ["at", "at_ms", "hash", "scope", "run_id", "actor", "body"] {
        assert!(all[0].get(key).is_some(), "{key}: {}", all[0]);
    }
    assert_eq!(all[0]["scope"]["tenant"], "default");

    // Whoever has the line before can check the hash: the body stands there byte for byte.
    let db = Connection::open(server.dir().join("pilothouse.db")).unwrap();
    let epoch: String = db
        .query_row("SELECT v FROM meta WHERE k = 'epoch'", [], |row| row.get(0))
        .unwrap();
    let mut hash = registry::digest::Sha256::of(&epoch);
    for line in export(server.dir(), &[]).out.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let body = line.split_once("\"body\":").unwrap().1;
        let body = body.strip_suffix('}').unwrap();
        let at = registry::Timestamp::from_ms(event["at_ms"].as_i64().unwrap());
        hash = registry::log::link(&hash, event["seq"].as_u64().unwrap(), at, body);
        assert_eq!(event["hash"], hash.to_string());
    }

    let file = server.dir().join("export.jsonl");
    let to_file = export(server.dir(), &["--out", file.to_str().unwrap()]);
    assert_eq!(to_file.code, 0, "{to_file:?}");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        export(server.dir(), &[]).out
    );
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = export(server.dir(), &["--out", file.to_str().unwrap()]);
    assert_eq!(again.code, 64, "it overwrites nothing: {again:?}");

    let run = all
        .iter()
        .find_map(|event| event["run_id"].as_str())
        .unwrap();
    let of_run = export(server.dir(), &["--run", run]).objects();
    assert!(!of_run.is_empty() && of_run.len() < all.len());
    assert!(of_run.iter().all(|event| event["run_id"] == run));
    let cut = all[all.len() / 2]["at_ms"].as_i64().unwrap();
    let cut = jiff::Timestamp::from_millisecond(cut).unwrap().to_string();
    let cut = cut.as_str();
    let (before, after) = (
        export(server.dir(), &["--until", cut]).objects().len(),
        export(server.dir(), &["--since", cut]).objects().len(),
    );
    assert!(before > 0 && after > 0);
    assert_eq!(before + after, all.len());
    assert!(
        export(server.dir(), &["--since", "2100-01-01"])
            .objects()
            .is_empty()
    );
    for bad in [["--since", "soon"], ["--run", "r1"]] {
        let ran = export(server.dir(), &bad);
        assert_eq!(ran.code, 64, "{ran:?}");
    }
}

/// What an agent wrote reaches a terminal as escapes, and a file without loss.
#[test]
fn an_export_of_hostile_text_harms_no_terminal() {
    let hostile = "\u{202e}evil\u{1b}[2J\u{9b}31m\u{200b}";
    let mut server = Server::start();
    server.file(&["--title", hostile]);
    server.terminate();
    let all = export(server.dir(), &[]);
    assert!(
        !all.out.contains('\u{1b}'),
        "a control character is never raw in JSON"
    );
    let titles: Vec<_> = all.objects();
    let titles = titles
        .iter()
        .filter_map(|event| event["body"]["approval"]["title"].as_str());
    assert_eq!(titles.collect::<Vec<_>>(), [hostile]);

    let args = ["audit", "export", "--data", server.dir().to_str().unwrap()];
    let mut terminal = Pty::spawn(PROGRAM, &args, &[], 40, 120);
    assert!(terminal.exit_status().success());
    let shown = String::from_utf8(terminal.raw_bytes()).unwrap();
    for c in ['\u{202e}', '\u{1b}', '\u{9b}', '\u{200b}'] {
        assert!(!shown.contains(c), "{c:?} reached the terminal: {shown:?}");
    }
    assert!(shown.contains("\\u202e"), "{shown:?}");
}
