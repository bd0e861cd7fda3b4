//! The power goes, at any moment: what was synced is there, of what was written since some sectors are and some are not, one
//! of them half, and names of files as well. Whatever was acknowledged is there (`ENGINE` §7, row 4).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use registry::approval::Verdict;

use crate::{
    proof::{Chance, run, seeds, times},
    proof_shim::{Acked, Session, Shimmed, Step, TERMINATED, has_all},
};

const SECTOR: usize = 512;

/// What a directory is made of: files, and names of them, each as it is synced and as it is.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    names: Names,
    synced_names: Names,
    acked: Vec<Acked>,
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Default)]
struct File {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, data: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { at, data } => put(bytes, *at, data),
            Self::Truncate(len) => bytes.resize(*len, 0),
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

impl Disk {
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Write { path, at, data } => {
                let (at, data) = (*at, data.clone());
                self.file(path).since.push(Change::Write { at, data });
            }
            Step::Truncate { path, len } => self.file(path).since.push(Change::Truncate(*len)),
            Step::Sync { done: false, .. } => {}
            Step::Sync { path, .. } if path == "." => self.synced_names = self.names.clone(),
            Step::Sync { path, .. } => {
                let file = self.file(path);
                for change in std::mem::take(&mut file.since) {
                    change.make(&mut file.synced);
                }
            }
            Step::Create(path) => {
                self.files.push(File::default());
                self.names.insert(path.clone(), self.files.len() - 1);
            }
            Step::Rename { from, to } => {
                let file = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), file);
            }
            Step::Unlink(path) => {
                self.names.remove(path);
            }
            Step::Acked(acked) => self.acked.push(acked.clone()),
        }
    }

    fn file(&mut self, path: &str) -> &mut File {
        let at = self.names.get(path);
        let at = *at.unwrap_or_else(|| panic!("the shim did not see who made {path}"));
        &mut self.files[at]
    }

    /// What is left if nothing is kept that was not synced.
    pub(crate) fn only_what_is_synced(&self, to: &Path) {
        for (name, file) in &self.synced_names {
            write(to, name, &self.files[*file].synced);
        }
    }

    /// What may be left, by chance.
    fn cut(&self, chance: &mut Chance, to: &Path) {
        let all: BTreeSet<&String> = self.names.keys().chain(self.synced_names.keys()).collect();
        for name in all {
            let newer = chance.one_in(2);
            let names = if newer {
                &self.names
            } else {
                &self.synced_names
            };
            if let Some(file) = names.get(name) {
                write(to, name, &self.files[*file].cut(chance));
            }
        }
    }
}

fn write(to: &Path, name: &str, bytes: &[u8]) {
    // What the server keeps free is large, and nobody reads it.
    if name != "reserve" {
        fs::write(to.join(name), bytes).unwrap();
    }
}

impl File {
    fn cut(&self, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // Of what was written since: nothing, all of it up to somewhere, or each sector by itself.
        let (kept, whole) = match chance.below(4) {
            0 => return bytes,
            1 => (chance.below(1 + self.since.len() as u64), true),
            _ => (self.since.len() as u64, false),
        };
        let kept = &self.since[..usize::try_from(kept).unwrap()];
        for (n, change) in kept.iter().enumerate() {
            match change {
                Change::Write { at, data } if !whole => {
                    let last = n + 1 == kept.len();
                    sectors(&mut bytes, *at, data, last, chance);
                }
                change if whole || chance.one_in(2) => change.make(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

/// Some of the sectors that a write touches; the last of the last one may be torn.
fn sectors(bytes: &mut Vec<u8>, at: usize, data: &[u8], last: bool, chance: &mut Chance) {
    let mut from = 0;
    while from < data.len() {
        let end = ((at + from) / SECTOR + 1) * SECTOR - at;
        let mut end = end.min(data.len());
        let next = end;
        if last && end == data.len() && chance.one_in(2) {
            end = from + usize::try_from(chance.below((end - from) as u64)).unwrap();
        }
        if chance.one_in(2) {
            put(bytes, at + from, &data[from..end]);
        }
        from = next;
    }
}

/// Two lives of a server, with small questions and with large ones, so that what was written is moved to its place at the end
/// of the first, and in the middle of the second.
fn lives() -> Vec<Step> {
    let mut server = Shimmed::new();
    server.start(&[]).unwrap();
    run(ask_and_answer(&server, "small", 20, 300));
    assert_eq!(server.terminate().code, Some(TERMINATED));
    server.start(&[]).unwrap();
    run(ask_and_answer(&server, "large", 48, 200_000));
    std::thread::sleep(std::time::Duration::from_millis(200)); // nobody waits
    run(ask_and_answer(&server, "more", 12, 300));
    assert_eq!(server.terminate().code, Some(TERMINATED));
    server.journal()
}

async fn ask_and_answer(server: &Shimmed, name: &str, count: usize, bytes: usize) {
    let mut session = Session::open(server, name).await.unwrap();
    for n in 0..count {
        let filed = session.file(server, bytes).await.unwrap();
        if n % 3 != 2 {
            let verdict = if n % 3 == 0 {
                Verdict::Approve
            } else {
                Verdict::Reject
            };
            session.decide(server, &filed, verdict).await.unwrap();
        }
    }
}

fn writes(journal: &[Step], to: &str) -> Vec<usize> {
    let is = |step: &Step| matches!(step, Step::Write { path, .. } if path == to);
    (0..journal.len()).filter(|n| is(&journal[*n])).collect()
}

#[test]
fn what_was_acknowledged_is_there_when_the_power_goes() {
    let journal = lives();
    let first = journal
        .iter()
        .position(|step| matches!(step, Step::Acked(_)));
    let first = first.expect("something is acknowledged");
    // A shim that misses what the program does proves nothing.
    let synced = |step: &&Step| matches!(step, Step::Sync { path, done: true } if path == "pilothouse.db-wal");
    assert!(journal.iter().filter(synced).count() > 100);
    assert!(writes(&journal, "pilothouse.db-wal").len() > 1000);
    let moving: Vec<usize> = writes(&journal, "pilothouse.db")
        .into_iter()
        .filter(|at| *at > first)
        .collect();
    assert!(moving.len() > 1000, "nothing was moved: {}", moving.len());
    let names = |step: &Step| matches!(step, Step::Create(_) | Step::Unlink(_));
    assert!(journal.iter().filter(|step| names(step)).count() >= 5);

    seeds("proof_power::what_was_acknowledged", 1, |seed| {
        let mut chance = Chance::new(seed);
        let mut cuts: Vec<usize> = (0..times(60))
            .map(|n| match n % 3 {
                0 => *chance.pick(&moving) + 1,
                _ => usize::try_from(chance.below(1 + journal.len() as u64)).unwrap(),
            })
            .collect();
        cuts.sort_unstable();
        let mut disk = Disk::default();
        let mut taken = 0;
        for (n, cut) in cuts.iter().enumerate() {
            journal[taken..*cut].iter().for_each(|step| disk.take(step));
            taken = *cut;
            let dir = tempfile::tempdir().unwrap();
            disk.cut(&mut chance, dir.path());
            let file = dir.path().join("pilothouse.db");
            if disk.acked.is_empty() && !file.exists() {
                continue;
            }
            if let Err(wrong) = has_all(&file, &disk.acked) {
                panic!("cut after step {cut} of {}: {wrong}", journal.len());
            }
            if n % 15 == 0 {
                goes_on(dir.path());
            }
        }
    });
    lies_are_found(&journal);
}

/// The program itself goes on from there.
fn goes_on(dir: &Path) {
    let mut server = std::process::Command::new(crate::server::PROGRAM)
        .args(["serve", "--data"])
        .arg(dir)
        .spawn()
        .unwrap();
    let from = std::time::Instant::now();
    while std::os::unix::net::UnixStream::connect(dir.join("sock")).is_err() {
        assert!(from.elapsed().as_secs() < 20, "it does not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let filed = crate::server::command_at(dir, &["file", "--title", "Go on?"]).output();
    let _ = server.kill();
    let _ = server.wait();
    let filed = filed.unwrap();
    assert!(filed.status.success(), "{filed:?}");
}

/// Where a disk lies about what it has synced, something is lost, and that is seen: the proof can fail.
fn lies_are_found(journal: &[Step]) {
    let lies =
        |step: &&Step| !matches!(step, Step::Sync { path, .. } if path == "pilothouse.db-wal");
    let mut disk = Disk::default();
    journal.iter().filter(lies).for_each(|step| {
        if disk.acked.len() < 20 {
            disk.take(step);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    disk.only_what_is_synced(dir.path());
    let file = dir.path().join("pilothouse.db");
    assert!(has_all(&file, &disk.acked).unwrap_err().contains("lost"));
}
