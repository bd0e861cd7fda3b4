//! Compiles everything under `proto/` with protox, so that no protoc is needed on the machine.

use std::{env, fs, io, path::Path, path::PathBuf};

/// `TYPE_BYTES` of google/protobuf/descriptor.proto.
const TYPE_BYTES: i32 = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(protos_under(Path::new("proto"))?)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    // An event from an agent that is newer than our schema keeps all its bytes if nobody decodes it on the way in:
    // on the wire a message and its bytes are the same, so only our Rust type of this one field says bytes.
    let mut descriptors = compiler.file_descriptor_set();
    let fields = (descriptors.file.iter_mut())
        .filter(|file| file.package() == "harmonograf.v1")
        .flat_map(|file| &mut file.message_type)
        .flat_map(|message| &mut message.field);
    for field in fields.filter(|field| field.type_name() == ".goldfive.v1.Event") {
        field.r#type = Some(TYPE_BYTES);
        field.type_name = None;
    }
    tonic_prost_build::configure()
        .btree_map(".goldfive.v1")
        .btree_map(".harmonograf.v1")
        .compile_fds(descriptors)?;
    Ok(())
}

/// Sorted, so that the same tree makes the same descriptors on every machine.
fn protos_under(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(protos_under(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
