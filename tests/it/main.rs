//! The program from outside.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod commands;
mod goldfive;
mod goldfive_wire;
mod picture;
mod pictures;
mod pty;
mod replay;
mod screen;
mod server;
