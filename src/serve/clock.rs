//! The one clock of the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use registry::Timestamp;

/// Where the owning thread reads the time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    System,
    /// One that stands still until it is moved.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands at `at` until it is moved.
    pub fn standing(at: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(at.ms())))
    }

    /// What time it is.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Timestamp::from_ms(since.map_or(0, |span| span.as_millis() as i64))
            }
            Self::Manual(ms) => Timestamp::from_ms(ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a standing clock; the machine's stays as it is.
    pub fn set(&self, at: Timestamp) {
        if let Self::Manual(ms) = self {
            ms.store(at.ms(), Ordering::SeqCst);
        }
    }
}
