//! The server: the thread that owns the registry, identity, and one file per surface.

pub mod clock;
pub mod owner;
pub mod reserve;
