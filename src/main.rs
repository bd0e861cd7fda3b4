//! The `pilothouse` program.
fn main() {}
