//! `pilothouse backup` and `restore` (case D10).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pilothouse::wire::pb::pilothouse::v1::{
    self as pb, operator_service_client::OperatorServiceClient,
};
use registry::log::{Log as _, LogFile, Sqlite};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::server::{Ran, Server, command_at};

fn run(dir: &Path, args: &[&str]) -> Ran {
    Ran::of(command_at(dir, args).output().unwrap())
}

/// What is open in a log, by title.
fn titles(path: &Path) -> Vec<String> {
    let events = Sqlite::open(path).unwrap().reader().unwrap();
    let events = events.read(0, usize::MAX).unwrap();
    let title = |recorded: &registry::Recorded| match &*recorded.event {
        registry::Event::ApprovalRequested { approval, .. } => {
            Some(approval.title.raw().to_owned())
        }
        _ => None,
    };
    events.iter().filter_map(title).collect()
}

/// Files about 20 a second until told to stop, and notes each that was acknowledged.
struct Load {
    over: Arc<AtomicBool>,
    acked: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn on(server: &Server) -> Self {
        let (over, acked) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let dir = server.dir().to_path_buf();
        let (stop, journal) = (over.clone(), acked.clone());
        let thread = std::thread::spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let title = format!("Write {n}?");
                if run(&dir, &["file", "--title", &title]).code == 0 {
                    journal.lock().unwrap().push(title);
                }
                n += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            over,
            acked,
            thread: Some(thread),
        }
    }

    fn so_far(&self) -> Vec<String> {
        self.acked.lock().unwrap().clone()
    }

    fn until(&self, count: usize) {
        for _ in 0..3000 {
            if self.so_far().len() >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was acknowledged");
    }

    fn stop(mut self) -> Vec<String> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.so_far()
    }
}

/// Case D10: what was acknowledged before the backup began is in it, though the server writes on.
#[test]
fn a_backup_under_load_holds_what_was_acknowledged_and_is_one_whole_file() {
    let server = Server::start();
    let load = Load::on(&server);
    load.until(5);
    let to = server.dir().join("backup.db");
    let before = load.so_far();
    let ran = run(server.dir(), &["backup", to.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    load.until(before.len() + 3);
    load.stop();

    assert_eq!(
        fs::metadata(&to).unwrap().permissions().mode() & 0o777,
        0o600
    );
    for suffix in ["-wal", "-shm", "-journal"] {
        assert!(
            !PathBuf::from(format!("{}{suffix}", to.display())).exists(),
            "{suffix}"
        );
    }
    let db = Connection::open(&to).unwrap();
    let said: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, "ok");
    drop(db);
    let file = to.to_str().unwrap();
    let verified = run(server.dir(), &["audit", "verify", "--file", file]);
    assert_eq!(verified.code, 0, "{verified:?}");

    let held = titles(&to);
    assert!(
        before.iter().all(|title| held.contains(title)),
        "{before:?} {held:?}"
    );
    assert!(held.len() < titles(&server.dir().join("pilothouse.db")).len());

    let again = run(server.dir(), &["backup", file]);
    assert_eq!(again.code, 64, "{again:?}");
    assert!(
        again.err.contains("a backup overwrites nothing"),
        "{again:?}"
    );
}

/// Case D10: the log that was there is kept, what lay beside it harms nothing, and whoever watched
/// it is told to begin anew.
#[test]
fn a_restored_log_is_another_log_with_the_same_chain() {
    let mut server = Server::start();
    let first = server.file(&["--title", "Before the backup?"]);
    let to = server.dir().join("backup.db");
    let file = to.to_str().unwrap();
    assert_eq!(run(server.dir(), &["backup", file]).code, 0);
    server.file(&["--title", "After the backup?"]);
    let cursor = block_on(cursor(&server));

    let held = run(server.dir(), &["restore", file]);
    assert_eq!(held.code, 4, "{held:?}");
    assert!(held.err.contains("held by process"), "{held:?}");

    server.kill();
    // The WAL of the killed server lies there still.
    assert!(server.dir().join("pilothouse.db-wal").exists());
    let restored = run(server.dir(), &["restore", file]);
    assert_eq!(restored.code, 0, "{restored:?}");
    server.restart();
    let open = server.open();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0]["id"], first.as_str());
    // The same question, and the answer that was seen for it, still count.
    assert_eq!(server.decide("approve", &first, &[]).code, 0);

    let refused = block_on(watch(&server, cursor)).unwrap_err();
    let told = pilothouse::wire::status::refused(&refused).unwrap();
    assert_eq!(told.word, "diverged");

    let aside = server.dir().join("pilothouse.db.before-1");
    let kept = titles(&aside);
    assert_eq!(kept, ["Before the backup?", "After the backup?"]);
    server.terminate();
    let verified = run(server.dir(), &["audit", "verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    assert!(verified.out.contains("all proven"), "{verified:?}");
    // Again, over what was restored: nothing that is kept is overwritten.
    assert_eq!(run(server.dir(), &["restore", file]).code, 0);
    assert_eq!(titles(&aside), kept);
    assert!(server.dir().join("pilothouse.db.before-2").exists());
}

#[test]
fn what_is_damaged_is_not_restored_and_the_log_stays() {
    let mut server = Server::start();
    server.file(&["--title", "Here?"]);
    let to = server.dir().join("backup.db");
    let file = to.to_str().unwrap();
    assert_eq!(run(server.dir(), &["backup", file]).code, 0);
    server.terminate();
    let before = fs::read(server.dir().join("pilothouse.db")).unwrap();
    let db = Connection::open(&to).unwrap();
    db.execute_batch("UPDATE ev SET body = replace(body, 'Here', 'There')")
        .unwrap();
    drop(db);
    let changed = run(server.dir(), &["restore", file]);
    assert_eq!(changed.code, 70, "{changed:?}");
    assert!(
        changed.err.contains("is not what was written"),
        "{changed:?}"
    );
    fs::write(&to, "nothing of ours").unwrap();
    let foreign = run(server.dir(), &["restore", file]);
    assert_eq!(foreign.code, 64, "{foreign:?}");
    let nowhere = run(server.dir(), &["restore", "/no/such/file"]);
    assert!(
        nowhere.err.contains("/no/such/file: No such file"),
        "{nowhere:?}"
    );
    assert_eq!(
        fs::read(server.dir().join("pilothouse.db")).unwrap(),
        before
    );
}

/// kill -9 at any moment of a backup: under the name that was asked for there is a whole log or nothing.
#[test]
fn a_backup_that_is_killed_leaves_no_half_file_under_its_name() {
    let server = Server::start();
    for n in 0..20 {
        server.file(&["--title", &format!("{n}?"), "--body", &"x".repeat(60_000)]);
    }
    let (mut whole, mut none) = (0, 0);
    for n in 0..40 {
        let to = server.dir().join(format!("backup-{n}.db"));
        let mut child = server
            .command(&["backup", to.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(n * 3));
        let _ = child.kill();
        child.wait().unwrap();
        if to.exists() {
            LogFile::open(&to).unwrap().check().unwrap();
            whole += 1;
        } else {
            none += 1;
        }
    }
    eprintln!("killed backups: {whole} whole, {none} not there");
    assert!(none > 0, "none was killed in time");
}

/// A restored empty log, too, is one: its first event belongs to the chain.
#[test]
fn an_empty_log_is_backed_up_and_restored() {
    let mut server = Server::start();
    assert!(server.open().is_empty());
    let to = server.dir().join("backup.db");
    let ran = run(server.dir(), &["backup", to.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    server.terminate();
    let elsewhere = TempDir::new().unwrap();
    let dir = elsewhere.path().join("data");
    let ran = run(&dir, &["restore", to.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut log = Sqlite::open(dir.join("pilothouse.db")).unwrap();
    assert_eq!(log.verify().unwrap(), 0);
    assert!(
        log.turn(registry::Timestamp::from_ms(1))
            .unwrap()
            .missed()
            .is_empty()
    );
    let was = LogFile::open(&to).unwrap();
    assert_ne!(log.epoch(), was.epoch());
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

async fn person(server: &Server) -> OperatorServiceClient<tonic::transport::Channel> {
    let socket = format!("unix://{}", server.socket().display());
    let channel = tonic::transport::Endpoint::from_shared(socket).unwrap();
    OperatorServiceClient::new(channel.connect().await.unwrap())
}

async fn cursor(server: &Server) -> pb::Cursor {
    let me = person(server).await.whoami(pb::WhoamiRequest {}).await;
    me.unwrap().into_inner().head.unwrap()
}

async fn watch(server: &Server, after: pb::Cursor) -> Result<(), tonic::Status> {
    let after = Some(after);
    let watched = person(server).await.watch(pb::WatchRequest { after }).await;
    watched.map(drop)
}
