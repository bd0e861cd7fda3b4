//! Signed checkpoints: what the log said at a moment, in a file beside it (`ENGINE` §8).
//!
//! The chain of hashes shows that an event was changed; a checkpoint shows that the chain itself
//! was made anew, or that its end was cut off. Whoever holds the key can forge both: a copy of the
//! checkpoints on another machine is what they cannot reach.
//!
//! Invariant: a checkpoint that cannot be written stops no decision. It is said, and tried again.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, BufRead as _, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use registry::{Seq, Timestamp, digest::Sha256};
use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use serde::{Deserialize, Serialize};

use super::{
    owner::Owner,
    stop::{Stop, Until as _},
};

/// The checkpoints in a data directory: one JSON object a line.
pub const CHECKPOINTS: &str = "checkpoints.jsonl";
/// The key that signs them.
pub const KEY: &str = "audit.key";
/// The key that proves them.
pub const PUBLIC_KEY: &str = "audit.pub";

/// After so many events a checkpoint is due.
const EVERY_EVENTS: u64 = 10_000;
/// After so long, if anything was recorded.
const EVERY: Duration = Duration::from_secs(60);
/// How often it is looked whether one is due.
const LOOK: Duration = Duration::from_secs(1);
/// A key file is never larger.
const MAX_KEY_BYTES: u64 = 4096;

/// What the log said at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The epoch of the log.
    pub epoch: String,
    /// The event that it holds up to.
    pub seq: Seq,
    /// When it was signed, in milliseconds since 1970.
    pub at: i64,
    /// The hash over that event and all before it.
    pub hash: String,
    /// Which key signed it.
    pub key: String,
    /// Ed25519 over all of the above, in hexadecimal digits.
    pub signature: String,
}

impl Checkpoint {
    /// What is signed: every field in a line of its own. None of them holds a line break.
    fn signed_text(&self) -> String {
        let Self {
            epoch,
            seq,
            at,
            hash,
            key,
            ..
        } = self;
        format!("pilothouse checkpoint 1\n{epoch}\n{seq}\n{at}\n{hash}\n{key}\n")
    }

    /// When it was signed.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_ms(self.at)
    }
}

/// The key that proves checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// How checkpoints name it: the first 16 hexadecimal digits of its SHA-256.
    pub fn id(&self) -> String {
        Sha256::of(&self.0).to_string().chars().take(16).collect()
    }

    /// The keys in a file: one a line, `ed25519 HEX`. More than one, where a key was changed.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, String> {
        let text = fs::read_to_string(path).map_err(|error| said(path, &error))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Option<Vec<_>> = lines.map(Self::parse).collect();
        match keys {
            Some(keys) if !keys.is_empty() => Ok(keys),
            _ => Err(format!(
                "{}: no public key; it has the form 'ed25519 HEX'",
                path.display()
            )),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let bytes = from_hex(line.strip_prefix("ed25519 ")?.trim())?;
        (bytes.len() == 32).then_some(Self(bytes))
    }

    /// Whether it signed this.
    pub fn proves(&self, checkpoint: &Checkpoint) -> bool {
        let Some(signature) = from_hex(&checkpoint.signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        let text = checkpoint.signed_text();
        checkpoint.key == self.id() && key.verify(text.as_bytes(), &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519 {}", to_hex(&self.0))
    }
}

/// Writes the checkpoints of one data directory.
pub struct Signer {
    path: PathBuf,
    pair: Ed25519KeyPair,
    key: String,
}

impl Signer {
    /// The signer of a data directory; the first one makes its key pair.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong.
    pub fn of(dir: &Path) -> Result<Self, String> {
        let secret = dir.join(KEY);
        let bytes = match read_key(&secret) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
                let made = made.map_err(|_| "the machine has no randomness".to_owned())?;
                write_new(&secret, made.as_ref()).map_err(|error| said(&secret, &error))?;
                made.as_ref().to_vec()
            }
            Err(error) => return Err(said(&secret, &error)),
        };
        let pair = Ed25519KeyPair::from_pkcs8(&bytes);
        let pair = pair.map_err(|_| format!("{}: it is no Ed25519 key", secret.display()))?;
        let public = PublicKey(pair.public_key().as_ref().to_vec());
        publish(&dir.join(PUBLIC_KEY), &public)?;
        Ok(Self {
            path: dir.join(CHECKPOINTS),
            key: public.id(),
            pair,
        })
    }

    /// Appends one checkpoint; it is on disk when this returns.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong.
    pub fn sign(&self, epoch: &str, seq: Seq, at: Timestamp, hash: &Sha256) -> Result<(), String> {
        let mut checkpoint = Checkpoint {
            epoch: epoch.to_owned(),
            seq,
            at: at.ms(),
            hash: hash.to_string(),
            key: self.key.clone(),
            signature: String::new(),
        };
        let signature = self.pair.sign(checkpoint.signed_text().as_bytes());
        checkpoint.signature = to_hex(signature.as_ref());
        let line = serde_json::to_string(&checkpoint).map_err(|error| error.to_string())?;
        append(&self.path, &line).map_err(|error| said(&self.path, &error))
    }
}

/// Only which key: never what is in it.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.key)
    }
}

/// The checkpoints in a file, and how many bytes at its end are no whole line: what a crash leaves
/// in the middle of a write.
///
/// # Errors
/// A sentence that names the file, and the line that is none of ours.
pub fn read(path: &Path) -> Result<(Vec<Checkpoint>, usize), String> {
    let file = fs::File::open(path).map_err(|error| said(path, &error))?;
    let (mut lines, mut line) = (io::BufReader::new(file), Vec::new());
    let mut checkpoints = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        read.map_err(|error| said(path, &error))?;
        if line.last() != Some(&b'\n') {
            return Ok((checkpoints, line.len()));
        }
        let checkpoint = serde_json::from_slice(&line).map_err(|_| {
            format!(
                "{}: line {} is no checkpoint: it was edited, or damaged",
                path.display(),
                checkpoints.len() + 1
            )
        })?;
        checkpoints.push(checkpoint);
    }
}

/// Keeps the checkpoints of what `owner` owns, until the server stops.
pub struct Keeper {
    dir: PathBuf,
    signer: Option<Signer>,
    last: Option<Seq>,
    tried: Duration,
}

impl Keeper {
    /// Of a data directory.
    pub fn of(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            signer: None,
            last: None,
            tried: Duration::ZERO,
        }
    }

    /// Writes one whenever it is due.
    pub async fn keep(&mut self, owner: &Owner, stop: &Stop) {
        self.begin();
        while stop.wait().until(tokio::time::sleep(LOOK)).await.is_some() {
            self.tried += LOOK;
            let head = owner.state().head();
            if is_due(self.last.unwrap_or_default(), head, self.tried) {
                self.write(owner).await;
            }
        }
    }

    /// The key pair is there from the first start on; which event was signed last, the file says.
    fn begin(&mut self) {
        self.signer = warned(Signer::of(&self.dir));
        let path = self.dir.join(CHECKPOINTS);
        if path.exists()
            && let Some((checkpoints, _)) = warned(read(&path))
        {
            self.last = checkpoints.last().map(|checkpoint| checkpoint.seq);
        }
    }

    /// Writes one, if anything was recorded since the last. Not done, it is due again in a minute.
    pub async fn write(&mut self, owner: &Owner) {
        self.tried = Duration::ZERO;
        let head = owner.state().head();
        if head == 0 || self.last == Some(head) {
            return;
        }
        if self.signer.is_none() {
            self.signer = warned(Signer::of(&self.dir));
        }
        let Some(signer) = &self.signer else {
            return;
        };
        let hash = owner.read_log(move |log| log.hash_at(head)).await;
        let written = match hash {
            Ok(Some(hash)) => signer.sign(owner.epoch(), head, owner.now(), &hash),
            Ok(None) => Err(format!("the log has no event {head}")),
            Err(refusal) => Err(refusal.to_string()),
        };
        if warned(written).is_some() {
            self.last = Some(head);
        }
    }
}

/// Every 10,000 events, and every minute in which something was recorded. A last one beyond the
/// head is another log's.
fn is_due(last: Seq, head: Seq, since: Duration) -> bool {
    let new = if last > head { head } else { head - last };
    new >= EVERY_EVENTS || (new > 0 && since >= EVERY)
}

fn warned<T>(done: Result<T, String>) -> Option<T> {
    done.inspect_err(|why| tracing::error!("no checkpoint: {why}; decisions go on"))
        .ok()
}

fn read_key(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_KEY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A new file that only its owner can read, on disk when this returns.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key is none, and would be in the way of the next try.
        let _ = fs::remove_file(path);
    }
    written?;
    sync_dir(path)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| *dir != Path::new(""));
    fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

/// The public key is written again where it is missing. One that stands there and is another is
/// left: whoever verifies is told.
fn publish(path: &Path, key: &PublicKey) -> Result<(), String> {
    match PublicKey::read_all(path) {
        Ok(keys) if keys.contains(key) => Ok(()),
        Ok(_) => {
            tracing::warn!(
                "{}: it is not the key that signs now ({}); add the line '{key}' if that was you",
                path.display(),
                key.id()
            );
            Ok(())
        }
        Err(why) if path.exists() => Err(why),
        Err(_) => write_new(path, format!("{key}\n").as_bytes()).map_err(|e| said(path, &e)),
    }
}

/// A line at the end, on disk. What a crash left of an earlier one goes first: it signs nothing.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.mode(0o600).open(path)?;
    let is_new = file.metadata()?.len() == 0;
    let end = end_of_lines(&mut file)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()?;
    if is_new { sync_dir(path) } else { Ok(()) }
}

/// Where the last whole line ends. A torn one is shorter than a checkpoint can be.
fn end_of_lines(file: &mut fs::File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(MAX_KEY_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n');
    Ok(end.map_or(from, |end| from + end as u64 + 1))
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let even = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect::<Option<_>>().filter(|_| even)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn signed(dir: &Path, seq: Seq) {
        let signer = Signer::of(dir).unwrap();
        let hash = Sha256::of(seq.to_string());
        signer
            .sign("epoch", seq, Timestamp::from_ms(7), &hash)
            .unwrap();
    }

    fn key(dir: &Path) -> PublicKey {
        PublicKey::read_all(&dir.join(PUBLIC_KEY))
            .unwrap()
            .remove(0)
    }

    #[test]
    fn a_checkpoint_is_due_after_10_000_events_or_a_minute_with_one() {
        let minute = Duration::from_secs(60);
        let rows = [
            (0, 0, minute, false),
            (0, 1, Duration::ZERO, false),
            (0, 1, minute, true),
            (1, 1, minute, false),
            (1, 10_000, Duration::ZERO, false),
            (1, 10_001, Duration::ZERO, true),
            // Signed of a log that was longer: this one was restored.
            (500, 7, minute, true),
            (500, 7, Duration::ZERO, false),
        ];
        for (last, head, since, due) in rows {
            assert_eq!(is_due(last, head, since), due, "{last} {head} {since:?}");
        }
    }

    #[test]
    fn one_key_is_made_and_kept_and_only_its_owner_reads_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        signed(dir.path(), 1);
        let first = key(dir.path());
        signed(dir.path(), 2);
        assert_eq!(key(dir.path()), first);
        for name in [KEY, PUBLIC_KEY, CHECKPOINTS] {
            let file = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        }
        let (checkpoints, torn) = read(&dir.path().join(CHECKPOINTS)).unwrap();
        assert_eq!((checkpoints.len(), torn), (2, 0));
        assert!(
            checkpoints
                .iter()
                .all(|checkpoint| first.proves(checkpoint))
        );
    }

    #[test]
    fn a_checkpoint_with_anything_changed_in_it_is_not_proven() {
        let dir = tempfile::tempdir().unwrap();
        signed(dir.path(), 1);
        let good = read(&dir.path().join(CHECKPOINTS)).unwrap().0.remove(0);
        let key = key(dir.path());
        let changes: [fn(&mut Checkpoint); 6] = [
            |c| c.epoch.push('x'),
            |c| c.seq += 1,
            |c| c.at += 1,
            |c| c.hash = Sha256::of("other").to_string(),
            |c| c.key = "0123456789abcdef".into(),
            |c| c.signature.replace_range(0..2, "zz"),
        ];
        assert!(key.proves(&good));
        for (n, change) in changes.iter().enumerate() {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(!key.proves(&bad), "change {n}");
        }
        let other = tempfile::tempdir().unwrap();
        signed(other.path(), 1);
        assert!(!self::key(other.path()).proves(&good));
    }

    #[test]
    fn half_a_line_is_what_a_crash_leaves_and_the_next_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        signed(dir.path(), 1);
        let path = dir.path().join(CHECKPOINTS);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"epoch\":\"ep").unwrap();
        let (checkpoints, torn) = read(&path).unwrap();
        assert_eq!((checkpoints.len(), torn), (1, 12));
        signed(dir.path(), 2);
        let (checkpoints, torn) = read(&path).unwrap();
        assert_eq!((checkpoints.len(), torn), (2, 0));
    }

    #[test]
    fn what_is_no_key_is_said_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(KEY), "nonsense").unwrap();
        let why = Signer::of(dir.path()).unwrap_err();
        assert!(why.contains("audit.key: it is no Ed25519 key"), "{why}");
        // And it is not taken away: it may be somebody's.
        assert_eq!(fs::read(dir.path().join(KEY)).unwrap(), b"nonsense");
    }
}
