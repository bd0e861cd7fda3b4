//! The core of Pilothouse: what agents asked, what people answered, and the log that keeps both.
//!
//! No clock, no async, no network: time, ids and randomness are arguments.

pub mod digest;
pub mod form;
pub mod json;
pub mod text;
