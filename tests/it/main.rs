//! The program from outside.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod arrows;
mod commands;
mod crash;
mod goldfive;
mod goldfive_wire;
mod house;
mod identity;
mod picture;
mod pictures;
mod pty;
mod replay;
mod screen;
mod server;
mod watch;
mod wire_limits;
