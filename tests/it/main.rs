//! The program from outside.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod arrows;
mod audit;
mod backup;
mod claims;
mod commands;
mod crash;
mod dashboard;
mod demo;
mod desk;
mod directed;
mod escapes;
mod goldfive;
mod goldfive_wire;
mod house;
mod identity;
mod picture;
mod pictures;
mod pty;
mod relay;
mod replay;
mod rows;
mod screen;
mod scripted;
mod server;
mod steered;
mod steering;
mod trimmed;
mod watch;
mod wire_limits;

// What reads the rows of the rules, and says what came of them.
#[allow(dead_code)]
#[path = "../../crates/registry/tests/rules/script.rs"]
mod script;
#[path = "../../crates/registry/tests/rules/wishes.rs"]
mod wishes;
