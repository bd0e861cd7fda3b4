//! Secret answers on their way to the agent: encrypted on disk, opened for whoever filed the form.
//!
//! The log stores bytes and knows nothing of them. What a backup of it holds, or whoever reads the
//! file without the key, is sealed.

use std::{fmt, fs, path::Path};

use registry::{ApprovalId, form::Answers};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};

use super::checkpoint::write_new;

/// The key of a data directory.
pub const KEY: &str = "sealed.key";

const KEY_BYTES: usize = 32;

/// Seals and opens.
pub struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealer {
    /// With the key of a data directory; the first one makes it.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong.
    pub fn of(dir: &Path) -> Result<Self, String> {
        let path = dir.join(KEY);
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let bytes = new_key()?;
                write_new(&path, &bytes).map_err(said)?;
                bytes.to_vec()
            }
            Err(error) => return Err(said(error)),
        };
        let what = format!("{}: it is no key of {KEY_BYTES} bytes", path.display());
        Self::with(&bytes).ok_or(what)
    }

    /// With a key that nobody keeps: what is sealed opens for as long as this process lives.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn for_now() -> Result<Self, String> {
        Self::with(&new_key()?).ok_or_else(|| "no key".into())
    }

    fn with(key: &[u8]) -> Option<Self> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).ok()?;
        Some(Self {
            key: LessSafeKey::new(key),
            random: SystemRandom::new(),
        })
    }

    /// The secrets of one approval, as they are stored: a random nonce, then the sealed text. Of
    /// another approval they do not open.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn seal(&self, id: ApprovalId, secrets: &Answers) -> Result<Vec<u8>, String> {
        let mut nonce = [0; NONCE_LEN];
        let filled = self.random.fill(&mut nonce);
        filled.map_err(|_| "the machine has no randomness".to_owned())?;
        let mut text = serde_json::to_vec(secrets).map_err(|error| error.to_string())?;
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(id.to_string()),
            &mut text,
        );
        sealed.map_err(|_| "a secret answer cannot be sealed".to_owned())?;
        Ok([nonce.as_slice(), &text].concat())
    }

    /// None if it was sealed with another key, for another approval, or changed since.
    pub fn open(&self, id: ApprovalId, sealed: &[u8]) -> Option<Answers> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = sealed.to_vec();
        let aad = Aad::from(id.to_string());
        let opened = self.key.open_in_place(nonce, aad, &mut text).ok()?;
        serde_json::from_slice(opened).ok()
    }
}

/// Nothing of the key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

fn new_key() -> Result<[u8; KEY_BYTES], String> {
    let mut key = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| "the machine has no randomness".to_owned())?;
    Ok(key)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use registry::{Timestamp, form::Answer};

    use super::*;

    fn id(n: u128) -> ApprovalId {
        ApprovalId::mint(Timestamp::from_ms(1), n)
    }

    fn secrets() -> Answers {
        Answers::written([("pin".to_owned(), Answer::Text("hunter2".into()))])
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_for_its_approval_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let sealer = Sealer::of(dir.path()).unwrap();
        let sealed = sealer.seal(id(1), &secrets()).unwrap();
        assert!(!sealed.windows(7).any(|bytes| bytes == b"hunter2"));
        assert_ne!(sealer.seal(id(1), &secrets()).unwrap(), sealed);

        let again = Sealer::of(dir.path()).unwrap();
        assert_eq!(again.open(id(1), &sealed), Some(secrets()));
        assert_eq!(again.open(id(2), &sealed), None);
        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(again.open(id(1), &changed), None);
        assert_eq!(again.open(id(1), b"short"), None);
        assert_eq!(Sealer::for_now().unwrap().open(id(1), &sealed), None);
    }

    #[test]
    fn only_its_owner_reads_the_key_and_what_is_none_is_said() {
        let dir = tempfile::tempdir().unwrap();
        Sealer::of(dir.path()).unwrap();
        let path = dir.path().join(KEY);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        let why = Sealer::of(dir.path()).unwrap_err();
        assert!(why.contains("sealed.key: it is no key"), "{why}");
    }
}
