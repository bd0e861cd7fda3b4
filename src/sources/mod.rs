//! Doors for agents that speak other wires. What they did is observed; what the log granted is
//! delivered.

pub mod goldfive;
