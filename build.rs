//! Compiles `proto/` with protox, so that no protoc is needed on the machine.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["pilothouse/v1/agent_service.proto"];
    let descriptors = protox::Compiler::new(["proto"])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(files)?
        .file_descriptor_set();
    let _ = fs::metadata(PathBuf::from(env::var("OUT_DIR")?));
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
