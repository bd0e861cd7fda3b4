//! Pilothouse: the terminal from which people decide what AI agents may do.
//!
//! It has two halves in one program: a **registry** that keeps every question and every answer durably (the crate
//! [`registry`]), and a **dashboard** that shows them and sends the answer. Agents reach it through gRPC, through the wires
//! that they already speak, or inside the same process.
//!
//! # The map
//!
//! ```text
//! agent ─ File ─▶ serve (a surface) ─▶ Command ─▶ the owning thread: decide, fold at once, next …
//!                                        └─▶ one commit ─▶ fold into the committed State ─▶ wake waiters ─▶ answer
//! dashboard ◀── recorded events after its cursor ◀── Watch ◀── the committed head moved
//! operator ─ key ─▶ update → Effect::Submit ─▶ Decide ─▶ (the same path)
//! ```
//!
//! Four functions explain it: [`registry::decide()`] says which facts follow from a wish and changes nothing;
//! [`registry::State::apply`] folds a fact in and never fails; [`dashboard::update()`] takes what happened and changes the
//! model; [`dashboard::view()`] draws it. `apply` is written once and used three times: to recover from the log, to serve,
//! and for the dashboard's mirror.
//!
//! | module | what it is | what it may name |
//! |---|---|---|
//! | [`registry`] | rules, State, log, forms, digest, foreign text; no clock, no async, no network | nothing of ours |
//! | [`wire`] | proto ⇄ domain, both directions; nothing else converts | `registry` |
//! | [`serve`] | the owning thread, identity, one file per surface | `wire`, `registry` |
//! | [`sources`] | doors for agents that speak other wires: goldfive | `wire`, `registry`, `serve::owner` |
//! | [`connect`] | the one client: calls with retry, Watch with resume | `wire`, `registry` |
//! | [`demo`] | simulated agents that ask, for those who look around | `connect`, `registry` |
//! | [`dashboard`] | model, update, view, forms, keymap: pure | `registry` |
//! | [`terminal`] | raw mode, signals, input, output, clipboard | `dashboard` |
//! | [`cli`] | the commands, which tie all that together | everything |
//!
//! `tests/it/arrows.rs` fails on an arrow that is not in this table.
//!
//! # Where to begin
//!
//! - How an answer becomes durable: [`serve::owner`], from `submit` down.
//! - Who may do what: [`registry::who::may`], and `docs/ROLES.md`.
//! - What a decision is bound to: [`registry::digest`].
//! - What a key does: `keymap.toml`, [`dashboard::keymap`], [`dashboard::update()`].
//! - How a goldfive agent gets its answer: [`sources::goldfive`].

pub mod cli;
pub mod connect;
pub mod dashboard;
pub mod demo;
pub mod serve;
pub mod sources;
pub mod terminal;
pub mod wire;
