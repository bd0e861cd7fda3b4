//! The dashboard: what an operator sees and what the keys do. Pure: no input, no output, no clock.

pub mod actions;
pub mod keymap;
pub mod keys;
