//! Doors for agents that speak other wires.
