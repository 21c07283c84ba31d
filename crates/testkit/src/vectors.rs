//! Directories that Apache ZooKeeper 3.9.5 wrote, and the data that it reads from them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use storage::DataDirs;
use tempfile::TempDir;

/// One recorded vector.
pub struct Vector {
    /// Directory of the vector.
    pub dir: PathBuf,
    /// Data that Apache ZooKeeper read from the directory.
    pub expected: Value,
}

/// Returns the directory of the vectors, if they are available.
pub fn root() -> Option<PathBuf> {
    crate::recordings::find("vectors/storage")
}

/// Returns a vector by name, or `None` if the vectors are not available.
pub fn vector(name: &str) -> Option<Vector> {
    let dir = root()?.join(name);
    let text = fs::read_to_string(dir.join("expected.json")).expect("a vector has results");
    let expected = serde_json::from_str(&text).expect("results are JSON");
    Some(Vector { dir, expected })
}

/// Returns all vectors with their names, sorted by name. The list is empty if they are missing.
pub fn all() -> Vec<(String, Vector)> {
    let Some(root) = root() else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries(&root)
        .filter(|path| path.join("expected.json").is_file())
        .map(|path| name_of(&path).to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 20, "vectors are missing: {names:?}");
    names
        .into_iter()
        .map(|name| {
            let vector = vector(&name).expect("the vector is in the list");
            (name, vector)
        })
        .collect()
}

/// Creates a writable copy of a directory tree.
pub fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("a temporary directory");
    copy_into(from, to.path());
    to
}

/// Copies a directory tree into a directory and makes the copies writable.
pub fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a new directory");
    for path in entries(from) {
        let target = to.join(name_of(&path));
        if path.is_dir() {
            copy_into(&path, &target);
        } else {
            let content = fs::read(&path).expect("a readable file");
            fs::write(target, content).expect("a writable copy");
        }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path())
}

fn name_of(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.expect("names are text")
}

/// Returns `copy` as data directory and log directory, without locks. It must contain `version-2`.
pub fn dirs(copy: &Path) -> DataDirs {
    DataDirs::unlocked(copy, copy)
}

/// Parses a number written as `"0x..."` or in decimal.
pub fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .expect("a number in hex")
            .cast_signed(),
        other => other.as_i64().expect("a number"),
    }
}

/// Parses bytes written in hex.
pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("bytes in hex"))
        .collect()
}

/// Returns the files below a directory whose names begin with `prefix`, sorted.
pub fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(dir) {
        if path.is_dir() {
            found.extend(files(&path, prefix));
        } else if name_of(&path).starts_with(prefix) {
            found.push(path);
        }
    }
    found.sort();
    found
}
