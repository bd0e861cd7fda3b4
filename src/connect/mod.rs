//! The one gRPC client: Watch with resume, calls with retry.
//!
//! Invariant: what is sent again is sent as it was, ids and keys included, so that it counts once.

mod backoff;
mod client;
mod feed;
mod server;
mod tls;

/// What calls take, and give.
pub use crate::wire::pilothouse::{Awaited, DriftReport, Filed, Opening};
pub use client::{CallError, Client};
pub use feed::{Cursor, Feed, RetryNow, watch};
pub use server::{BadToken, NotAServer, Server, Token};
pub use tls::Trust;
