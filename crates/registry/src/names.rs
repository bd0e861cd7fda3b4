//! The identifiers that clients choose, parsed once where they come in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// The longest identifier that a client may choose, in bytes.
pub const NAME_LIMIT_BYTES: usize = 256;

macro_rules! chosen_by_clients {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Parses 1 to 256 printable ASCII characters without blanks.
            ///
            /// # Errors
            /// [`Refusal::Invalid`] that names what is wrong.
            pub fn parse(text: &str) -> Result<Self, Refusal> {
                let fits = (1..=NAME_LIMIT_BYTES).contains(&text.len());
                if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
                    return Ok(Self(text.to_owned()));
                }
                Err(Refusal::Invalid(format!(
                    "{} must be 1 to {NAME_LIMIT_BYTES} printable ASCII characters without blanks",
                    $what
                )))
            }

            /// The identifier as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

chosen_by_clients! {
    /// One decision of one person, minted at the first key press and kept until the event is back,
    /// so that a retry is recognised for ever.
    DecisionId = "a decision id";
    /// What makes filing twice the same as filing once, within a tenant.
    Key = "an idempotency key";
    /// One waiter on one approval.
    WaitId = "a wait id";
    /// One order to a run, or the delivery of one decision to a foreign agent.
    ControlId = "a control id";
    /// One drift, as its agent knows it.
    DriftId = "a drift id";
    /// Whoever takes the decisions of a step, so that nobody else does: made anew for each try.
    ClaimToken = "a claim token";
}
