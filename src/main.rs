//! The program; what it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // It fails only where it was done before; a panic is then reported as plainly as Rust does.
    let _ = color_eyre::install();
    // A panic has been reported by then; what it ends with is what our own faults end with.
    let ended = std::panic::catch_unwind(|| pilothouse::cli::run(std::env::args_os()));
    ended.unwrap_or(ExitCode::from(pilothouse::cli::FAULT))
}
