//! The dashboard: what an operator sees and what the keys do. Pure: no input, no output, no clock.
//!
//! [`update()`] takes what happened and changes the [`Model`]; [`view()`] draws it and says what it drew. The loop hands
//! that back as [`Msg::Drawn`] once the frame was written: only what was on the screen counts as seen, and only a card
//! that has stood there for a moment can be decided.
//!
//! Invariant: an [`Effect::Submit`] carries the id and digest of the card in the last written frame, which has stood
//! there for at least [`model::SETTLING`]; and none leaves while the dashboard is offline.

pub mod actions;
pub mod args;
pub mod card;
mod decide;
pub mod draft;
pub mod keymap;
pub mod keys;
pub mod lanes;
pub mod lines;
mod listing;
pub mod model;
pub mod msg;
mod order;
mod palette;
mod past;
mod runs;
pub mod seen;
mod steering;
#[cfg(test)]
mod tests;
pub mod theme;
pub mod update;
pub mod view;
pub mod words;

pub use model::{Model, Setup};
pub use msg::{Drawn, Effect, Link, Me, Moment, Msg, Refused, Submit, SubmitError};
pub use theme::Theme;
pub use update::update;
pub use view::view;
