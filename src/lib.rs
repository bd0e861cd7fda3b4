//! Pilothouse: the terminal from which people decide what AI agents may do.

pub mod cli;
pub mod connect;
pub mod dashboard;
pub mod serve;
pub mod sources;
pub mod terminal;
pub mod wire;
