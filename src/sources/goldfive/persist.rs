//! What may have to wait, and is never given up: a record while the server is busy or its disk is
//! full, an id while the system has no randomness.
//!
//! Whoever waits reads nothing more from its agent, whose stream's flow control holds it back. There
//! is no other end than success and being dropped.

use std::time::Duration;

use registry::{Refusal, Untrusted, decide::Reply};
use tokio::time::sleep;

use crate::serve::owner;

/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Tries until the registry has judged. What comes back is its judgement, which a further try would
/// not change.
pub(super) async fn until_judged<T>(mut attempt: impl FnMut() -> T) -> Result<Reply, Refusal>
where
    T: Future<Output = Result<Reply, Refusal>>,
{
    let mut waits = false;
    loop {
        match attempt().await {
            Err(refusal @ (Refusal::Busy | Refusal::Unavailable(_))) => {
                if !std::mem::replace(&mut waits, true) {
                    warn_of("a record has to wait", &refusal);
                }
                sleep(PAUSE).await;
            }
            judged => return judged,
        }
    }
}

/// Says in the server's own log what went wrong; its words may hold foreign ones.
pub(super) fn warn_of(what: &str, why: &impl ToString) {
    let why = Untrusted::new(why.to_string());
    tracing::warn!("goldfive: {what}: {}", why.line());
}

/// 80 random bits and more, for an id.
pub(super) async fn randomness() -> u128 {
    loop {
        match owner::randomness() {
            Ok(random) => return random,
            Err(error) => warn_of("no randomness", &error),
        }
        sleep(PAUSE).await;
    }
}

/// 16 random hex digits, as harmonograf's ids have them.
pub(super) async fn hex() -> String {
    format!("{:016x}", randomness().await >> 64)
}
