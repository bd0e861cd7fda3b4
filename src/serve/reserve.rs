//! Room on disk that is kept free, so that decisions still fit when filing is refused.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use registry::Timestamp;

/// How much is kept, in bytes (`ENGINE` §5.2).
const RESERVE_BYTES: usize = 16 * 1024 * 1024;

/// Between two tries to keep it again.
const PAUSE: Duration = Duration::from_secs(1);

/// A file that stands for free room: taken away when the disk is full, made anew when it is not.
/// Making it anew is the probe write: until it succeeds, filing stays refused.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    spent: bool,
    tried_at: Timestamp,
}

impl Reserve {
    /// Keeps room in `dir`.
    pub fn keep_in(dir: &Path) -> Self {
        let path = dir.join("reserve");
        let spent = fs::metadata(&path).map_or(0, |file| file.len()) < RESERVE_BYTES as u64;
        let tried_at = Timestamp::default();
        let mut reserve = Self {
            path,
            spent,
            tried_at,
        };
        reserve.spent = spent && reserve.write().is_err();
        reserve
    }

    /// Whether filing has to be refused.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Gives the room to what has to be written now.
    pub fn spend(&mut self) {
        self.spent = true;
        // If it cannot be taken away, it gives no room; the next commit will say so.
        let _ = fs::remove_file(&self.path);
    }

    /// Tries to keep the room again, where it was spent, at most once a second: there has to be twice as much, so that what
    /// is taken here is not what was just given.
    pub fn restore(&mut self, now: Timestamp) {
        if !self.spent || now.since(self.tried_at) < PAUSE {
            return;
        }
        self.tried_at = now;
        self.spent = self.write().is_err();
        if self.spent {
            // A part of it is no use to anybody.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.path)?;
        let block = [0u8; 64 * 1024];
        for _ in 0..2 * RESERVE_BYTES / block.len() {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        file.set_len(RESERVE_BYTES as u64)
    }
}
