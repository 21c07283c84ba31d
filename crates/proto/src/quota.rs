//! The format of limits and usage in quota znodes: `count=4,bytes=100` and, with further values,
//! `=;key=value`.
//!
//! Source: StatsTrack.

use std::collections::BTreeMap;
use std::fmt;

const COUNT: &str = "count";
const BYTES: &str = "bytes";

/// Limits or usage in the data of a quota znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaText {
    /// Number of znodes; [`NONE`](Self::NONE) if it is missing, which as a limit means no limit.
    pub count: i64,
    /// Number of bytes of data; [`NONE`](Self::NONE) if it is missing.
    pub bytes: i64,
    /// All other values, by key.
    pub others: BTreeMap<String, i64>,
}

impl QuotaText {
    /// Value of a missing number.
    pub const NONE: i64 = -1;
    /// Key of the hard limit for znodes.
    pub const COUNT_HARD: &str = "countHardLimit";
    /// Key of the hard limit for bytes.
    pub const BYTES_HARD: &str = "byteHardLimit";

    /// Creates a value with these two numbers.
    pub fn new(count: i64, bytes: i64) -> Self {
        Self {
            count,
            bytes,
            others: BTreeMap::new(),
        }
    }

    /// Parses the data of a znode. Returns `None` if the data has a different format. Missing data
    /// is treated as data without numbers.
    pub fn parse(data: Option<&[u8]>) -> Option<Self> {
        let text = std::str::from_utf8(data.unwrap_or_default()).ok()?;
        let mut found = Self::new(Self::NONE, Self::NONE);
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let (key, rest) = pair.split_once('=')?;
            // The value ends at a second `=`, which writers add so that old readers fail.
            let value = match rest.split('=').next() {
                None | Some("") => Self::NONE,
                Some(value) => value.parse().ok()?,
            };
            match key {
                COUNT => found.count = value,
                BYTES => found.bytes = value,
                _ => drop(found.others.insert(key.to_owned(), value)),
            }
        }
        Some(found)
    }

    /// Returns the number with this key; [`NONE`](Self::NONE) if it is missing.
    pub fn other(&self, key: &str) -> i64 {
        self.others.get(key).copied().unwrap_or(Self::NONE)
    }
}

impl fmt::Display for QuotaText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COUNT}={},{BYTES}={}", self.count, self.bytes)?;
        if !self.others.is_empty() {
            f.write_str("=")?;
        }
        for (key, value) in &self.others {
            write!(f, ";{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> Option<String> {
        QuotaText::parse(Some(text.as_bytes())).map(|found| found.to_string())
    }

    #[test]
    fn texts_are_canonical_after_reading() {
        let canonical = "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3";
        for (text, expected) in [
            ("", "count=-1,bytes=-1"),
            ("count=5,bytes=7", "count=5,bytes=7"),
            (canonical, canonical),
            ("countHardLimit=3;;,byteHardLimit=10", canonical),
            ("count=,bytes=", "count=-1,bytes=-1"),
        ] {
            assert_eq!(text_of(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_texts_are_recognised() {
        for text in [
            "x",
            "count=a",
            "count=5,bytes",
            "\u{fffd}",
            "count=99999999999999999999",
        ] {
            assert_eq!(text_of(text), None, "{text}");
        }
        assert_eq!(QuotaText::parse(Some(&[0xff])), None);
    }
}
