//! Checkers: each judges one promise from a history alone.
//!
//! * [`linearizable`]: one order of all calls explains all answers, key by key; [`register`] is the
//!   model of a znode's data.
//! * [`set`], [`counter`], [`bank`], [`unique`]: nothing acknowledged is lost, nothing is done twice
//!   or by half.
//! * [`sessions`]: what a session sees never goes back. [`recency`]: a fresh read is fresh.
//! * [`exclusion`]: holders of a lock follow each other, and a queue gives each item once.
//! * [`ephemeral`]: no session lives behind its end; [`owner`]: one connection at a time has it.
//! * [`watch`]: events come before what they tell of, each once; [`feed`] the same for changes.
//! * [`config`]: one list of members follows the other; [`quota`]: usage is what is there.
//! * [`ops`]: events of a history, paired to calls.
//!
//! Unknown outcomes are unknown: a checker asks whether *some* fate of theirs explains the rest.

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

/// Most findings that are kept; the rest is counted.
pub const FINDINGS_MAX: usize = 50;

/// Most events that one finding names.
pub const EVENTS_MAX: usize = 64;

/// A history that cannot be judged: an event that does not fit, or a value of another form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event}: {what}")]
pub struct Broken {
    /// The event.
    pub event: u64,
    /// What is wrong with it.
    pub what: String,
}

impl From<Broken> for Verdict {
    /// Nobody knows what a broken history proves.
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

/// Why a file was not judged.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It cannot be read, or has something else in it than events.
    #[error("the history cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Nobody knows what its clients did.
    #[error("there is no workload {0:?}")]
    Workload(String),
}

/// Judges the history in a file by the workload of this name, within a budget of steps.
///
/// # Errors
/// The file cannot be read, or there is no such workload.
pub fn check_file(path: &Path, workload: &str, steps_max: u64) -> Result<Verdict, CheckError> {
    let found = crate::workload::by_name(workload);
    let workload = found.ok_or_else(|| CheckError::Workload(workload.to_owned()))?;
    let events = history::read(path)?.collect::<io::Result<Vec<_>>>()?;
    Ok(workload.check(&events, steps_max))
}

/// What a checker gathers.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    findings: Vec<Finding>,
    count: u64,
    figures: BTreeMap<String, u64>,
    unknown: Vec<Finding>,
}

impl Gathered {
    /// Something that must not be.
    pub(crate) fn find(&mut self, what: impl Into<String>, events: impl IntoIterator<Item = u64>) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding(what, events));
        }
    }

    /// Something that could not be found out.
    pub(crate) fn doubt(&mut self, what: impl Into<String>, events: impl IntoIterator<Item = u64>) {
        if self.unknown.len() < FINDINGS_MAX {
            self.unknown.push(finding(what, events));
        }
    }

    /// Adds to a figure, which is 0 at first.
    pub(crate) fn count(&mut self, name: &str, by: u64) {
        match self.figures.get_mut(name) {
            Some(figure) => *figure += by,
            None => {
                self.figures.insert(name.to_owned(), by);
            }
        }
    }

    /// Invalid with a finding, else unknown with a doubt, else valid.
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
