//! The terminal: raw mode, signals, input, output.
