//! The text of limits and usage: `count=4,bytes=100` and, if there is more, `=;key=value`.
//!
//! Source: StatsTrack.

use std::collections::BTreeMap;
use std::fmt::Write;

const COUNT: &str = "count";
const BYTES: &str = "bytes";
pub(super) const COUNT_HARD: &str = "countHardLimit";
pub(super) const BYTES_HARD: &str = "byteHardLimit";

/// Znodes and bytes of data of a subtree, or a change of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

/// What the text holds. Absent is -1, which as a limit means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(super) count: i64,
    pub(super) bytes: i64,
    others: BTreeMap<String, i64>,
}

impl Stats {
    const NONE: i64 = -1;

    /// Usage of a subtree that was counted.
    pub(crate) fn counted(usage: Usage) -> Self {
        Self {
            count: usage.count,
            bytes: usage.bytes,
            others: BTreeMap::new(),
        }
    }

    /// Reads limits; a text that does not parse sets none. (It stops a Java server.)
    pub(crate) fn limits(data: Option<&[u8]>) -> Self {
        let none = Usage {
            count: Self::NONE,
            bytes: Self::NONE,
        };
        Self::parse(data).unwrap_or_else(|| Self::counted(none))
    }

    /// Reads usage; a text that does not parse is none used.
    pub(crate) fn usage(data: Option<&[u8]>) -> Self {
        Self::parse(data).unwrap_or_else(|| Self::counted(Usage::default()))
    }

    fn parse(data: Option<&[u8]>) -> Option<Self> {
        let text = std::str::from_utf8(data.unwrap_or_default()).ok()?;
        let mut stats = Self {
            count: Self::NONE,
            bytes: Self::NONE,
            others: BTreeMap::new(),
        };
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let (key, rest) = pair.split_once('=')?;
            // The value ends at a second `=`, which old readers stumble over on purpose.
            let value = match rest.split('=').next() {
                None | Some("") => Self::NONE,
                Some(value) => value.parse().ok()?,
            };
            match key {
                COUNT => stats.count = value,
                BYTES => stats.bytes = value,
                _ => drop(stats.others.insert(key.to_owned(), value)),
            }
        }
        Some(stats)
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{COUNT}={},{BYTES}={}", self.count, self.bytes);
        if !self.others.is_empty() {
            text.push('=');
        }
        for (key, value) in &self.others {
            let _ = write!(text, ";{key}={value}");
        }
        text
    }

    /// A limit: the hard one of this key if there is one, else `soft`; `None` for none.
    pub(super) fn limit(&self, hard: &str, soft: i64) -> Option<i64> {
        let limit = self
            .others
            .get(hard)
            .copied()
            .filter(|limit| *limit > Self::NONE);
        Some(limit.unwrap_or(soft)).filter(|limit| *limit > Self::NONE)
    }

    /// Adds a change.
    pub(crate) fn add(&mut self, change: Usage) {
        self.count = self.count.saturating_add(change.count);
        self.bytes = self.bytes.saturating_add(change.bytes);
    }

    /// Which of these limits a change of `used` breaks, the count first.
    pub(crate) fn broken_by(&self, used: &Self, change: Usage) -> Option<Broken> {
        let hard = |key| self.others.get(key).copied().unwrap_or(Self::NONE);
        let count = check(used.count, change.count, hard(COUNT_HARD), self.count);
        let bytes = || check(used.bytes, change.bytes, hard(BYTES_HARD), self.bytes);
        match count {
            Some(Broken::Hard) => count,
            _ => bytes().max(count),
        }
    }
}

/// How a limit is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Broken {
    /// A soft limit is, by this change (not before): to be logged.
    Soft,
    /// A hard limit is: to be refused.
    Hard,
}

/// The hard limit counts if there is one, else the soft one.
fn check(used: i64, change: i64, hard: i64, soft: i64) -> Option<Broken> {
    let (limit, broken) = if hard > Stats::NONE {
        (hard, Broken::Hard)
    } else {
        (soft, Broken::Soft)
    };
    if change == 0 || limit <= Stats::NONE || used.saturating_add(change) <= limit {
        return None;
    }
    // Who is told at every change stops listening.
    let is_news = broken == Broken::Hard || used <= limit;
    is_news.then_some(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> Option<String> {
        Stats::parse(Some(text.as_bytes())).map(|stats| stats.text())
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
    fn garbage_is_no_limit_and_no_usage() {
        for text in [
            "x",
            "count=a",
            "count=5,bytes",
            "\u{fffd}",
            "count=99999999999999999999",
        ] {
            assert_eq!(text_of(text), None, "{text}");
        }
        assert_eq!(Stats::limits(Some(&[0xff])).text(), "count=-1,bytes=-1");
        assert_eq!(Stats::usage(Some(b"x")).text(), "count=0,bytes=0");
    }

    #[test]
    fn a_hard_limit_hides_the_soft_one() {
        let limits = Stats::limits(Some(b"count=1,bytes=5=;countHardLimit=3"));
        let used = Stats::usage(Some(b"count=2,bytes=5"));
        let change = |count, bytes| limits.broken_by(&used, Usage { count, bytes });
        assert_eq!(change(1, 0), None);
        assert_eq!(change(2, 0), Some(Broken::Hard));
        assert_eq!(change(1, 1), Some(Broken::Soft));
        assert_eq!(change(0, -1), None);
        assert_eq!(change(0, 0), None);
    }

    #[test]
    fn usage_does_not_overflow() {
        let mut used = Stats::usage(Some(b"count=9223372036854775807,bytes=0"));
        used.add(Usage {
            count: 1,
            bytes: -1,
        });
        assert_eq!(used.text(), "count=9223372036854775807,bytes=-1");
    }
}
