//! The enum values that stand one for one on the wire and in the domain.

use registry::{
    Asks,
    approval::{AppliedResult, DeliveryState, Hold, OnDeadline, Risk, Seen, Verdict},
    drift::Level,
    policy::Mode,
    run::{End, InterruptKind, Source},
};

use super::pb;

/// A word of the domain that is a number on the wire.
pub(super) trait Word: Copy {
    /// What it says, for whoever sent another number.
    const WHAT: &'static str;

    /// Its number.
    fn number(self) -> i32;

    /// The word for a number; none for the unspecified one, and for those we do not know.
    fn of(number: i32) -> Option<Self>;
}

macro_rules! words {
    ($($what:literal $word:ident = $wire:ident { $($value:ident),* })*) => {$(
        impl Word for $word {
            const WHAT: &'static str = $what;

            fn number(self) -> i32 {
                match self {
                    $(Self::$value => pb::$wire::$value as i32,)*
                }
            }

            fn of(number: i32) -> Option<Self> {
                match pb::$wire::try_from(number).ok()? {
                    $(pb::$wire::$value => Some(Self::$value),)*
                    #[allow(unreachable_patterns)] // some words are only a part of their enum
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    "the source" Source = Source { Native, Cli, Goldfive }
    "who is asked" Asks = Asks { EndUser, Operator, Admin }
    "what happens at the deadline" OnDeadline = OnDeadline { Expire, StayOpen }
    "what it holds" Hold = Hold { Nothing, Thread }
    "who follows it" Mode = InteractionMode { Interactive, Scheduled, Webhook, Autonomous }
    "the risk" Risk = Risk { Normal, High }
    "the verdict" Verdict = Verdict { Approve, Reject }
    "how much was seen" Seen = Seen { Whole, Unread, Quoted }
    "how the run ended" End = RunState { Completed, Failed, Cancelled, Aborted }
    "what the turn waits for" InterruptKind = InterruptKind { Approval, Tool, Confirmation, Input }
    "how far the delivery came" DeliveryState = DeliveryState { Sent, Acked, Confirmed, Failed }
    "how strongly it is answered" Level = Level { Observe, Absorb, Nudge, CancelReinvoke, PauseEscalate, Terminate }
    "what came of it" AppliedResult = AppliedResult { Done, Failed, Skipped }
}
