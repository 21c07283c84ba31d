//! Checkers: each judges one guarantee from a history alone.
//!
//! * [`linearizable`]: for each key, one order of all calls explains all answers. [`register`] is
//!   the model of a znode's data.
//! * [`set`], [`counter`], [`bank`], [`unique`]: no acknowledged change is lost, applied twice, or
//!   applied partly.
//! * [`sessions`]: a session never sees an older state after a newer one. [`recency`]: a fresh read
//!   is fresh.
//! * [`exclusion`]: the holders of a lock follow each other, and a queue delivers each item once.
//! * [`ephemeral`]: no session acts after its end. [`owner`]: a session belongs to one connection
//!   at a time.
//! * [`watch`]: an event arrives before its change is visible, and once. [`feed`]: each change
//!   arrives once and in order.
//! * [`config`]: each member list is based on the previous one. [`quota`]: the usage matches the
//!   znodes.
//! * [`ops`]: pairs the events of a history to calls.
//!
//! An unknown outcome stays open: a checker searches for *some* outcome of it that explains the
//! other answers.

pub mod bank;
pub mod config;
pub mod counter;
pub mod ephemeral;
pub mod exclusion;
pub mod feed;
pub mod linearizable;
pub mod ops;
pub mod owner;
pub mod quota;
pub mod recency;
pub mod register;
pub mod sessions;
pub mod set;
pub mod unique;
pub mod watch;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::history;
use crate::verdict::{Finding, Validity, Verdict};
use crate::workload::Workload;

/// Maximum number of findings that are kept. The others are only counted.
pub const FINDINGS_MAX: usize = 50;

/// Maximum number of events that one finding names.
pub const EVENTS_MAX: usize = 64;

/// A history that cannot be judged: an unexpected event, or a value of another form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event}: {what}")]
pub struct Broken {
    /// Index of the event.
    pub event: u64,
    /// Description of the fault.
    pub what: String,
}

impl From<Broken> for Verdict {
    /// An inconsistent history does not prove anything.
    fn from(broken: Broken) -> Verdict {
        let finding = Finding {
            what: format!("the history cannot be judged: {broken}"),
            events: vec![broken.event],
        };
        Verdict {
            validity: Validity::Unknown,
            findings: vec![finding],
            figures: BTreeMap::new(),
        }
    }
}

/// Limits of a checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Steps of a search.
    pub steps: u64,
    /// Memory for the events of a history, in bytes. The checker's own data is not included.
    pub bytes: u64,
}

/// Judges the history in a file. If the file does not fit into the memory, only its beginning is
/// judged. Findings there are certain, and the rest stays unknown.
///
/// # Errors
/// If the file cannot be read, or contains a line that is not an event.
pub fn check_file(path: &Path, workload: &dyn Workload, budget: Budget) -> io::Result<Verdict> {
    let held = history::read_within(path, budget.bytes)?;
    let mut verdict = workload.check(&held.events, budget.steps);
    if held.left_out > 0 {
        verdict.validity = verdict.validity.max(Validity::Unknown);
        let what = format!(
            "the rest is unknown: only the first {} of {} events fit into {} MiB (--memory)",
            held.events.len(),
            held.events.len() as u64 + held.left_out,
            budget.bytes >> 20,
        );
        verdict.findings.push(finding(what, []));
    }
    Ok(verdict)
}

/// Findings that a checker gathers.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    findings: Vec<Finding>,
    count: u64,
    figures: BTreeMap<String, u64>,
    unknown: Vec<Finding>,
}

impl Gathered {
    /// Adds a violation.
    pub(crate) fn find(&mut self, what: impl Into<String>, events: impl IntoIterator<Item = u64>) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding(what, events));
        }
    }

    /// Adds something that could not be determined.
    pub(crate) fn doubt(&mut self, what: impl Into<String>, events: impl IntoIterator<Item = u64>) {
        if self.unknown.len() < FINDINGS_MAX {
            self.unknown.push(finding(what, events));
        }
    }

    /// Adds to a figure, which starts at 0.
    pub(crate) fn count(&mut self, name: &str, by: u64) {
        match self.figures.get_mut(name) {
            Some(figure) => *figure += by,
            None => {
                self.figures.insert(name.to_owned(), by);
            }
        }
    }

    /// Returns the verdict: invalid with a finding, otherwise unknown with a doubt, otherwise
    /// valid.
    pub(crate) fn verdict(mut self) -> Verdict {
        self.count("findings", self.count);
        self.findings
            .sort_by_key(|finding| finding.events.last().copied());
        let mut verdict = Verdict::of(self.findings, self.figures);
        if verdict.validity == Validity::Valid && !self.unknown.is_empty() {
            verdict.validity = Validity::Unknown;
        }
        verdict.findings.extend(self.unknown);
        verdict
    }
}

fn finding(what: impl Into<String>, events: impl IntoIterator<Item = u64>) -> Finding {
    let mut events: Vec<u64> = events.into_iter().take(EVENTS_MAX).collect();
    events.sort_unstable();
    events.dedup();
    Finding {
        what: what.into(),
        events,
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::testing::{History, assert_found};
    use super::*;

    /// Writes a history of a counter into a file. Its sums are correct, except for the sum of this
    /// addition.
    fn counted(dir: &Path, wrong: Option<i64>) -> std::path::PathBuf {
        let mut history = History::default();
        for sum in 1..=50 {
            let shown = if Some(sum) == wrong { sum + 7 } else { sum };
            history.call(1, "add", "", json!(1), json!(shown));
        }
        history.call(1, "final-read", "", Value::Null, json!(50));
        let path = dir.join("history.jsonl");
        let lines = history.events.iter().map(|event| {
            let line = serde_json::to_string(event);
            line.expect("a line") + "\n"
        });
        std::fs::write(&path, lines.collect::<String>()).expect("write");
        path
    }

    fn judged(path: &Path, bytes: u64) -> Verdict {
        let workload = crate::workload::by_name("counter").expect("a workload");
        let steps = u64::MAX;
        check_file(path, workload, Budget { steps, bytes }).expect("a verdict")
    }

    #[test]
    fn a_beginning_says_no_but_never_yes() {
        let dir = tempfile::tempdir().expect("directory");
        let path = counted(dir.path(), None);
        assert_eq!(judged(&path, u64::MAX).validity, Validity::Valid);
        let some = judged(&path, 5000);
        assert_eq!(some.validity, Validity::Unknown);
        let what = &some.findings.last().expect("a reason").what;
        assert!(what.contains("of 102 events fit"), "{what}");
        let early = counted(dir.path(), Some(3));
        assert_found(&judged(&early, 5000), "process 1 reaches the sum 10");
        let late = counted(dir.path(), Some(49));
        assert_eq!(judged(&late, 5000).validity, Validity::Unknown);
    }
}
