//! The real program with a shim under it, which writes down what it does to its files, and breaks it at will.
//!
//! The shim is `tests/shim/shim.c`; it is built by the C compiler that the tests need anyway.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use pilothouse::connect::{CallError, Client};
use registry::{
    ApprovalId, Event, Recorded,
    approval::{Filing, Verdict},
    log::{Log as _, Sqlite},
};
use tempfile::TempDir;

use crate::{
    crash::{asking, deciding},
    proof::read_whole,
    server::PROGRAM,
};
use pilothouse::wire::pilothouse::{Filed, Opening};

/// Built once for all tests.
fn shim() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, built) = BUILT.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let to = dir.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/shim.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(&to)
            .arg(source);
        assert!(cc.status().expect("a C compiler").success());
        (dir, to)
    });
    built
}

/// `pilothouse serve` on the shim.
pub(crate) struct Shimmed {
    /// What it writes to.
    data: TempDir,
    /// What is told of that.
    beside: TempDir,
    child: Option<Child>,
}

/// The exit code of a server that was asked to end, and did.
pub(crate) const TERMINATED: i32 = 128 + 15;

/// How it ended by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Shimmed {
    pub(crate) fn new() -> Self {
        Self {
            data: TempDir::new().unwrap(),
            beside: TempDir::new().unwrap(),
            child: None,
        }
    }

    /// Starts it, with more for the shim; says how it ended, if it did not come up.
    pub(crate) fn start(&mut self, shimmed: &[(&str, &str)]) -> Result<(), Ended> {
        let said = fs::File::create(self.beside.path().join("said")).unwrap();
        let mut serve = Command::new(PROGRAM);
        serve
            .args(["serve", "--data"])
            .arg(self.data.path())
            .env("PILOTHOUSE_LOG", "warn")
            .env("LD_PRELOAD", shim())
            .env("SHIM_DIR", self.data.path())
            .env("SHIM_JOURNAL", self.journal_file())
            .env("SHIM_FULL", self.full())
            .env("SHIM_COUNT", self.beside.path().join("steps"))
            .envs(shimmed.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        self.child = Some(serve.spawn().unwrap());
        let from = Instant::now();
        while UnixStream::connect(self.socket()).is_err() {
            assert!(from.elapsed() < Duration::from_secs(20), "it did not start");
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// How it ended, if it has; otherwise it goes on.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.as_mut()?.try_wait().unwrap()?;
        self.child = None;
        Some(Ended {
            code: status.code(),
            said: fs::read_to_string(self.beside.path().join("said")).unwrap(),
        })
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Ended {
        let from = Instant::now();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            assert!(from.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits.
    pub(crate) fn terminate(&mut self) -> Ended {
        let child = self.child.as_ref().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.end()
    }

    pub(crate) fn client(&self) -> Client {
        let place = format!("unix:{}", self.socket().display());
        Client::connect(place.parse().unwrap(), None)
    }

    fn socket(&self) -> PathBuf {
        self.data.path().join("sock")
    }

    /// While it is there, a full disk is full.
    pub(crate) fn full(&self) -> PathBuf {
        self.beside.path().join("full")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data.path().join("pilothouse.db")
    }

    fn journal_file(&self) -> PathBuf {
        self.beside.path().join("journal")
    }

    /// The steps that could have failed, each with what it was.
    pub(crate) fn steps(&self) -> Vec<String> {
        let steps = fs::read_to_string(self.beside.path().join("steps")).unwrap();
        steps.lines().map(str::to_owned).collect()
    }

    pub(crate) fn journal(&self) -> Vec<Step> {
        read_journal(&fs::read(self.journal_file()).unwrap())
    }

    /// Writes into the journal that `what` was acknowledged: after all that had been done until then.
    pub(crate) fn acknowledged(&self, what: &Acked) {
        let text = what.text();
        let mut record = vec![b'a', 1];
        record.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        record.extend([0; 12]);
        record.extend(text.as_bytes());
        let journal = fs::OpenOptions::new()
            .append(true)
            .open(self.journal_file());
        journal.unwrap().write_all(&record).unwrap();
    }
}

impl Drop for Shimmed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Acked {
    Filed(ApprovalId),
    Decided(ApprovalId, Verdict),
}

impl Acked {
    fn text(&self) -> String {
        match self {
            Self::Filed(id) => format!("filed {id}"),
            Self::Decided(id, verdict) => format!("{} {id}", verdict.word()),
        }
    }

    fn read(text: &str) -> Self {
        let (word, id) = text.split_once(' ').unwrap();
        let id = id.parse().unwrap();
        match word {
            "filed" => Self::Filed(id),
            "approve" => Self::Decided(id, Verdict::Approve),
            "reject" => Self::Decided(id, Verdict::Reject),
            other => panic!("{other}"),
        }
    }
}

/// One record of the journal.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write {
        path: String,
        at: usize,
        data: Vec<u8>,
    },
    Truncate {
        path: String,
        len: usize,
    },
    /// Of a file, or of the directory itself, which is `.`; one that failed made nothing durable.
    Sync {
        path: String,
        done: bool,
    },
    Create(String),
    Rename {
        from: String,
        to: String,
    },
    Unlink(String),
    Acked(Acked),
}

fn read_journal(mut bytes: &[u8]) -> Vec<Step> {
    let mut steps = vec![];
    while !bytes.is_empty() {
        let mut head = [0; 16];
        bytes.read_exact(&mut head).unwrap();
        let path_len = u16::from_le_bytes([head[2], head[3]]);
        let at = u64::from_le_bytes(head[4..12].try_into().unwrap());
        let at = usize::try_from(at).unwrap();
        let len = u32::from_le_bytes(head[12..16].try_into().unwrap());
        let (path, rest) = bytes.split_at(path_len.into());
        let (data, rest) = rest.split_at(usize::try_from(len).unwrap());
        bytes = rest;
        let path = String::from_utf8(path.to_vec()).unwrap();
        steps.push(match head[0] {
            b'w' => Step::Write {
                path,
                at,
                data: data.to_vec(),
            },
            b't' => Step::Truncate { path, len: at },
            b's' => Step::Sync {
                path,
                done: head[1] == 1,
            },
            b'c' => Step::Create(path),
            b'r' => Step::Rename {
                from: path,
                to: String::from_utf8(data.to_vec()).unwrap(),
            },
            b'u' => Step::Unlink(path),
            b'a' => Step::Acked(Acked::read(&path)),
            other => panic!("{other} is no step"),
        });
    }
    steps
}

/// Files and decides, and knows what it was told.
pub(crate) struct Session {
    pub(crate) client: Client,
    run: registry::RunId,
    name: String,
    filed: usize,
}

impl Session {
    pub(crate) async fn open(server: &Shimmed, name: &str) -> Result<Self, CallError> {
        let client = server.client();
        let opening = Opening {
            agent: "load".into(),
            invocation: name.into(),
            ..Opening::default()
        };
        let run = client.open_run(&opening).await?;
        Ok(Self {
            client,
            run,
            name: name.into(),
            filed: 0,
        })
    }

    /// Files a question with so many bytes of prompt.
    pub(crate) async fn file(
        &mut self,
        server: &Shimmed,
        bytes: usize,
    ) -> Result<(String, Filed), CallError> {
        self.filed += 1;
        let key = format!("{}-{}", self.name, self.filed);
        let mut filing: Filing = asking(&key);
        filing.detail.prompt = "x".repeat(bytes).into();
        let filed = self.client.file(self.run, &filing).await?;
        server.acknowledged(&Acked::Filed(filed.id));
        Ok((key, filed))
    }

    pub(crate) async fn decide(
        &self,
        server: &Shimmed,
        (key, filed): &(String, Filed),
        verdict: Verdict,
    ) -> Result<(), CallError> {
        self.client.decide(&deciding(filed, key, verdict)).await?;
        server.acknowledged(&Acked::Decided(filed.id, verdict));
        Ok(())
    }
}

/// Reads a file that was left behind: it is whole, and has all that was acknowledged.
pub(crate) fn has_all(file: &Path, acked: &[Acked]) -> Result<Vec<Recorded>, String> {
    let log = read_whole(file);
    let mut facts: BTreeMap<ApprovalId, Vec<Acked>> = BTreeMap::new();
    for recorded in &log {
        let fact = match &*recorded.event {
            Event::ApprovalRequested { approval } => Acked::Filed(approval.id),
            Event::ApprovalGranted { id, .. } => Acked::Decided(*id, Verdict::Approve),
            Event::ApprovalRejected { id, .. } => Acked::Decided(*id, Verdict::Reject),
            _ => continue,
        };
        let id = recorded.event.approval().unwrap();
        facts.entry(id).or_default().push(fact);
    }
    let store = Sqlite::open(file).unwrap();
    let reader = store.reader().unwrap();
    for acked in acked {
        let (Acked::Filed(id) | Acked::Decided(id, _)) = acked;
        let there = facts.get(id).is_some_and(|facts| facts.contains(acked));
        if !there {
            return Err(format!("acknowledged and lost: {acked:?}"));
        }
        if reader.detail(*id).unwrap().is_none() {
            return Err(format!("the detail of {id} is lost"));
        }
    }
    drop((reader, store));
    let sqlite = rusqlite::Connection::open(file).unwrap();
    let said: String = sqlite
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, "ok", "{}", file.display());
    Ok(log)
}
