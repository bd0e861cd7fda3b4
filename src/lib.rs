//! Pilothouse: the terminal from which people decide what AI agents may do.

pub mod dashboard;
pub mod terminal;
