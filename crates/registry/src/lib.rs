//! The core of Pilothouse: what agents asked, what people answered, and the log that keeps both.
//!
//! A [`Command`] is a wish and may be refused; an [`Event`] is a fact and is never refused.
//! [`decide()`] looks at a [`State`] and never changes anything; [`State::apply`] changes and never
//! fails. The same two functions recover from the log, serve, and keep the dashboard's mirror.
//!
//! No clock, no async, no network: time, ids and randomness are arguments.
//!
//! | module | what it holds |
//! |---|---|
//! | [`approval`], [`run`] | the nouns: what was asked, by whom, and how it ended |
//! | [`drift`], [`escalation`], [`control`] | what goes wrong in a run, what holds it, what it is told |
//! | [`form`], [`digest`], [`json`], [`text`] | forms, what was shown, arguments, foreign text |
//! | [`policy`], [`gate`] | may this run ask a human, and which calls have to |
//! | [`who`] | principals, roles, and the one table of who may do what |
//! | [`command`], [`event`], [`refusal`] | wishes, facts, and why a wish was not done |
//! | [`state`] | `apply`: the fold of all facts |
//! | [`mod@decide`] | `decide`: the rules |
//! | [`log`] | where facts are kept: in memory, or in SQLite |

pub mod approval;
pub mod command;
pub mod control;
pub mod decide;
pub mod digest;
pub mod drift;
pub mod escalation;
pub mod event;
pub mod form;
pub mod gate;
pub mod json;
pub mod limits;
pub mod log;
pub mod names;
pub mod policy;
pub mod refusal;
pub mod run;
pub mod state;
pub mod text;
pub mod time;
pub mod who;

pub use approval::{Approval, ApprovalId, Asks, Detail, Pending, Settled};
pub use command::{Command, Wish};
pub use control::Control;
pub use decide::decide;
pub use digest::Digest;
pub use escalation::{Escalation, EscalationId, ItemId};
pub use event::{Event, Recorded, Seq};
pub use refusal::Refusal;
pub use run::{Run, RunId};
pub use state::State;
pub use text::{Shown, Untrusted};
pub use time::Timestamp;
pub use who::{Name, Principal, Role, Tenant};
