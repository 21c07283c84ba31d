//! Lines of the recordings.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A line with a message.
pub(crate) struct Record {
    file: String,
    line: usize,
    fields: Value,
}

/// Returns all messages of all recordings; `None` if they are not available.
pub(crate) fn read_all() -> Option<Vec<Record>> {
    let entries = fs::read_dir(testkit::recordings::find("vectors/ensemble")?).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    files.sort();
    assert!(!files.is_empty(), "the folder of recordings holds none");
    Some(files.iter().flat_map(|path| read(path)).collect())
}

fn read(path: &Path) -> Vec<Record> {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let numbered = text.lines().zip(1..).map(|(line, number)| Record {
        file: file.clone(),
        line: number,
        fields: serde_json::from_str(line).unwrap(),
    });
    numbered
        .filter(|record| record.get("hex").is_string())
        .collect()
}

impl Record {
    pub(crate) fn fields(&self) -> &Value {
        &self.fields
    }

    pub(crate) fn get(&self, key: &str) -> &Value {
        &self.fields[key]
    }

    /// Describes the position of the message, for error texts.
    pub(crate) fn place(&self) -> String {
        format!("{} line {} ({})", self.file, self.line, self.text("type"))
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        unhex(self.text("hex"))
    }

    pub(crate) fn is_from_leader(&self) -> bool {
        self.text("dir") == "L>F"
    }

    /// Returns whether the recording contains reactions to wrong input.
    pub(crate) fn is_reaction(&self) -> bool {
        self.file.starts_with("reactions-")
    }

    /// Returns whether the recorder could not decode the payload.
    pub(crate) fn is_undecodable(&self) -> bool {
        !self.get("undecodable").is_null()
    }

    pub(crate) fn zxid(&self) -> i64 {
        hex_long(self.get("zxid"))
    }
}

/// Parses a number that is recorded as unsigned hex text.
pub(crate) fn hex_long(value: &Value) -> i64 {
    let text = value.as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(text, 16).unwrap().cast_signed()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
