//! What fuzzing found, and what it began with, on every run: no panic, and no input that takes for ever (`ENGINE` §7, row 13).

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

#[path = "../../fuzz/targets.rs"]
mod targets;

/// So much longer than any of them takes that only one that does not end comes near it.
const FOR_EVER: Duration = Duration::from_secs(20);
/// Files and bytes that are kept, of all targets: what is more is to be minimised (`docs/TESTING.md`).
const FILES: usize = 200;
const BYTES: u64 = 300 * 1024;

#[test]
fn the_kept_corpus_of_every_door_plays() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let (mut files, mut bytes) = (0, 0);
    for (name, target) in targets::ALL {
        let mut inputs: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("the corpus of {name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(inputs.len() >= 3, "{name} has hardly any corpus");
        for path in inputs {
            let input = fs::read(&path).unwrap();
            files += 1;
            bytes += input.len() as u64;
            let from = Instant::now();
            eprintln!("{}", path.display()); // which one it was, if it panics
            target(&input);
            assert!(from.elapsed() < FOR_EVER, "{}", path.display());
        }
    }
    assert!(
        files < FILES && bytes < BYTES,
        "{files} files, {bytes} bytes"
    );
    assert_eq!(fs::read_dir(corpus).unwrap().count(), targets::ALL.len());
}
