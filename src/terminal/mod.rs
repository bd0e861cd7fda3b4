//! The terminal: taking it over, giving it back whatever happens, keys in, frames out.
//!
//! Invariant: once [`Screen::enter`] has begun, no way out of the program but SIGKILL leaves the terminal changed, and none
//! of them prints before it is restored. Nothing here asks the terminal anything, so a slow line cannot hold up the start.

mod guard;
mod input;
mod output;
mod signals;

pub use guard::{NoScreen, check, install_panic_hook, restore};
pub use input::{Input, Inputs};
pub use output::{Drawn, Screen, Suspended};
pub use signals::{Ending, Interrupt, Interrupts};
