//! The rules, as rows: the time, what was asked, what came back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chance;
mod ladder;
mod model;
mod quota;
mod roles;
mod script;
mod wishes;
mod world;

use std::path::{Path, PathBuf};

use script::play;
use world::Registry;

#[test]
fn every_row_holds_in_memory() {
    let wrong: String = files()
        .iter()
        .map(|file| play(file, Registry::in_memory))
        .collect();
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

#[test]
fn every_row_holds_when_the_file_is_reopened_after_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut worlds = 0;
    let mut world = || {
        worlds += 1;
        Registry::reopened(dir.path().join(worlds.to_string()))
    };
    let wrong: String = files().iter().map(|file| play(file, &mut world)).collect();
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

fn files() -> Vec<PathBuf> {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/rows");
    let files = std::fs::read_dir(rows).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(
        files
            .iter()
            .all(|file| file.extension().is_some_and(|e| e == "rows"))
    );
    files
}
