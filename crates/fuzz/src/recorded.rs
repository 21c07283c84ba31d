//! Recordings of Apache ZooKeeper, if they are available.

use std::fs;
use std::path::{Path, PathBuf};

use crate::INPUT_BYTES_MAX;

/// Maximum number of inputs from one kind of recording, so that mutants of other seeds are also
/// tested.
const INPUTS_MAX: usize = 200;

fn recordings(name: &str) -> Vec<PathBuf> {
    testkit::recordings::find(name).map_or_else(Vec::new, |folder| files_below(&folder))
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the messages in the lines of the recorded connections that contain `mark`.
pub(crate) fn messages(mark: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for file in recordings("vectors/ensemble") {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains(mark));
        found.extend(lines.filter_map(message));
    }
    some_of(found)
}

/// Returns the bytes in a line of a recording.
fn message(line: &str) -> Option<Vec<u8>> {
    let (_, rest) = line.split_once("\"hex\": \"")?;
    let (digits, _) = rest.split_once('"')?;
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// Returns the files of the recorded data directories whose names satisfy `wanted`. Most of the
/// zeros of preallocated space are removed.
pub(crate) fn files(wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let mut paths = recordings("vectors/storage");
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(&wanted)
    });
    let read = paths.iter().filter_map(|path| fs::read(path).ok());
    some_of(read.map(without_padding).collect())
}

fn without_padding(mut content: Vec<u8>) -> Vec<u8> {
    let end = content
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    content.truncate(end + 32);
    content
}

/// Selects at most [`INPUTS_MAX`] of the inputs evenly. Omits duplicates and inputs that are too
/// long.
fn some_of(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    all.retain(|one| one.len() <= INPUT_BYTES_MAX);
    all.sort();
    all.dedup();
    let step = all.len().div_ceil(INPUTS_MAX).max(1);
    all.into_iter().step_by(step).collect()
}
