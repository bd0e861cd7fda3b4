//! The program from outside.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod abuse;
mod answers;
mod arrows;
mod audit;
mod backup;
mod claims;
mod commands;
mod corpus;
mod crash;
mod dashboard;
mod demo;
mod desk;
mod directed;
mod doors;
mod escapes;
mod garbage;
mod gate;
mod goldfive;
mod goldfive_wire;
mod history;
mod house;
mod hung;
mod identity;
mod operations;
mod picture;
mod pictures;
mod proof;
mod proof_disk;
mod proof_history;
mod proof_power;
mod proof_race;
mod proof_shim;
mod proof_time;
mod proof_watch;
mod pty;
mod relay;
mod replay;
mod rows;
mod screen;
mod scripted;
mod secrets;
mod server;
mod steered;
mod steering;
mod streams;
mod trimmed;
mod unclear;
mod waiting;
mod watch;
mod wire_limits;

// What reads the rows of the rules, and says what came of them.
#[allow(dead_code)]
#[path = "../../crates/registry/tests/rules/script.rs"]
mod script;
#[path = "../../crates/registry/tests/rules/wishes.rs"]
mod wishes;
