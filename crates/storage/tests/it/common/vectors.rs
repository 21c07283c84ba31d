//! The directories that Apache ZooKeeper 3.9.5 wrote, and the data that it reads from them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use zoarium_storage::DataDirs;

/// One recorded vector.
pub struct Vector {
    pub dir: PathBuf,
    pub expected: Value,
}

/// Returns the directory of the vectors, if they are available.
pub fn root() -> Option<PathBuf> {
    testkit::recordings::find("vectors/storage")
}

/// Returns a vector by name.
pub fn vector(name: &str) -> Option<Vector> {
    let dir = root()?.join(name);
    let text = fs::read_to_string(dir.join("expected.json")).unwrap();
    let expected = serde_json::from_str(&text).unwrap();
    Some(Vector { dir, expected })
}

/// Returns all vectors.
pub fn all() -> Vec<(String, Vector)> {
    let Some(root) = root() else {
        return Vec::new();
    };
    let mut names: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("expected.json").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 20, "vectors are missing: {names:?}");
    names
        .into_iter()
        .map(|name| {
            let vector = vector(&name).unwrap();
            (name, vector)
        })
        .collect()
}

/// Makes a writable copy of a directory tree.
pub fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_into(from, to.path());
    to
}

pub fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_into(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// Returns the directories of a copy that contains `version-2` directly.
pub fn dirs(copy: &Path) -> DataDirs {
    DataDirs::unlocked(copy, copy)
}

/// Parses a number written as `"0x..."` or in decimal.
pub fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16)
            .unwrap()
            .cast_signed(),
        other => other.as_i64().unwrap(),
    }
}

/// Parses bytes written in hex.
pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Returns the files below a directory whose name begins with `prefix`, sorted.
pub fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, prefix));
        } else if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(prefix)
        {
            found.push(path);
        }
    }
    found.sort();
    found
}
