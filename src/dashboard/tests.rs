//! A desk with a screen and no server: (fixture, keys, screen).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod desk;
mod held;
mod hostile;
mod keys;
mod places;
mod property;
mod screens;
