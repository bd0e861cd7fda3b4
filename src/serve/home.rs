//! The data directory: its lock, its log, its socket.

use std::{
    fs::{self, File, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use registry::log::{LogError, Sqlite};

use super::reserve::Reserve;

/// The log's file in a data directory.
pub const LOG: &str = "pilothouse.db";

/// A data directory that this process holds for life.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    _lock: File,
}

impl Home {
    /// Takes the directory, and makes it where it is not there yet.
    ///
    /// # Errors
    /// A sentence that says why not: who holds it, with path and pid.
    pub fn take(dir: &Path) -> Result<Self, String> {
        let fault = |error: std::io::Error| format!("{}: {error}", dir.display());
        let make = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir);
        make.map_err(fault)?;
        let path = dir.join("lock");
        let mut lock = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = lock.read_to_string(&mut pid);
                return Err(format!(
                    "{}: held by process {}; one process at a time keeps a log (`pilothouse attach` opens a dashboard on it)",
                    path.display(),
                    pid.trim()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
        let write = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        write.map_err(fault)?;
        let dir = dir.to_path_buf();
        Ok(Self { dir, _lock: lock })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens the log.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn log(&self) -> Result<Sqlite, LogError> {
        Sqlite::open(self.dir.join(LOG))
    }

    /// The file beside the log that holds what has not been moved into it.
    pub fn wal(&self) -> PathBuf {
        self.dir.join("pilothouse.db-wal")
    }

    /// Keeps room for decisions.
    pub fn reserve(&self) -> Reserve {
        Reserve::keep_in(&self.dir)
    }
}
