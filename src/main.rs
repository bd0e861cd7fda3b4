//! The program; what it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // It fails only where it was done before; a panic is then reported as plainly as Rust does.
    let _ = color_eyre::install();
    pilothouse::cli::run(std::env::args_os())
}
