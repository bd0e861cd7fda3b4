//! The program from outside: real processes, real terminals.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, dead_code)]

mod picture;
mod pty;
mod screen;
