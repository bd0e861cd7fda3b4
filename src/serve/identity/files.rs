//! Files that are read again when they change, and who may read them.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

type Reading<T> = Box<dyn Fn(&Path) -> Result<T, String> + Send + Sync>;

/// What a file said when it could last be read.
pub(in crate::serve) struct Kept<T> {
    path: PathBuf,
    read: Reading<T>,
    now: RwLock<Arc<T>>,
    stamp: Mutex<Option<Stamp>>,
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.path.display())
    }
}

/// What changes with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    pub(in crate::serve) fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            inode: file.ino(),
            bytes: file.size(),
            // Not the time of the last write: that one can be set back.
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

impl<T> Kept<T> {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// What `read` says.
    pub(super) fn read(
        path: &Path,
        read: impl Fn(&Path) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let stamp = Stamp::of(path);
        let first = read(path)?;
        Ok(Self {
            path: path.to_owned(),
            read: Box::new(read),
            now: RwLock::new(first.into()),
            stamp: Mutex::new(stamp),
        })
    }

    pub(super) fn get(&self) -> Arc<T> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }

    /// Reads it again if it has changed. If it cannot be read, what it said before stays.
    pub(super) fn refresh(&self) {
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path);
        if stamp == *known {
            return;
        }
        *known = stamp;
        match (self.read)(&self.path) {
            Ok(next) => {
                let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
                *now = next.into();
                tracing::info!("{}: read again", self.path.display());
            }
            Err(why) => {
                let why = registry::Untrusted::new(why).line().to_string();
                tracing::error!("{why}; what it said before stays in force");
            }
        }
    }
}

/// Refuses a file with a secret that others than its owner may read or write.
///
/// # Errors
/// A sentence with the command that helps.
pub fn only_its_owner_reads(path: &Path) -> Result<(), String> {
    rights(path, 0o077, "others may read the secret in it", "600")
}

/// Refuses a file that others than its owner may write.
///
/// # Errors
/// A sentence with the command that helps.
pub(super) fn only_its_owner_writes(path: &Path) -> Result<(), String> {
    rights(
        path,
        0o022,
        "others may write it, and so let themselves in",
        "go-w",
    )
}

/// What is no file has no rights that would say anything: a pipe from a password manager is read once.
fn rights(path: &Path, too_much: u32, what: &str, mode: &str) -> Result<(), String> {
    let at = path.display();
    let file = fs::metadata(path).map_err(|error| format!("{at}: {error}"))?;
    if file.is_file() && file.mode() & too_much != 0 {
        return Err(format!("{at}: {what}: run `chmod {mode} {at}`"));
    }
    Ok(())
}
