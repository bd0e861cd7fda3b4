//! The program from outside.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod commands;
mod dashboard;
mod desk;
mod escapes;
mod goldfive;
mod goldfive_wire;
mod picture;
mod pty;
mod relay;
mod replay;
mod screen;
mod server;
