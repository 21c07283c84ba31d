//! Separate statistics for answers that arrive while a server writes a snapshot.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::report::progress::Progress;
use crate::rounds::process::Processes;
use crate::rounds::stats::Stats;
use crate::session::Report;
use crate::session::control::Control;

/// Part of the name of a snapshot file during its creation, on every server of the protocol.
pub(crate) const SNAPSHOT: &str = "snapshot.";
/// Interval between checks for a snapshot file.
const SAMPLE: Duration = Duration::from_millis(5);
/// Time and number of answers that suffice, both with and without a snapshot. With fewer answers,
/// the 99th percentile would be random.
const ENOUGH: AnswerCount = AnswerCount {
    time: Duration::from_secs(1),
    answers: 10_000,
};

/// Results during snapshots.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotResults {
    pub(crate) stats: Stats,
    pub(crate) elapsed: Duration,
}

impl SnapshotResults {
    pub(crate) fn none() -> Self {
        Self {
            stats: Stats::new(),
            elapsed: Duration::ZERO,
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct AnswerCount {
    time: Duration,
    answers: u64,
}

impl AnswerCount {
    fn is_enough(self) -> bool {
        self.time >= ENOUGH.time && self.answers >= ENOUGH.answers
    }
}

/// Times and numbers of answers without a snapshot and during a snapshot.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Phases {
    without: AnswerCount,
    during: AnswerCount,
}

impl Phases {
    pub(crate) fn times(self) -> (Duration, Duration) {
        (self.without.time, self.during.time)
    }

    fn add(&mut self, is_during: bool, time: Duration, answers: u64) {
        let seen = if is_during {
            &mut self.during
        } else {
            &mut self.without
        };
        seen.time += time;
        seen.answers += answers;
    }

    fn are_enough(self) -> bool {
        self.without.is_enough() && self.during.is_enough()
    }
}

/// Reports to the sessions whether a snapshot is being written, until there are enough answers with
/// and without a snapshot, or `limit` has passed.
pub(crate) fn watch(
    processes: &Processes,
    control: &Control,
    inbox: &Receiver<Report>,
    limit: Duration,
    progress: &Progress,
) -> Result<Phases> {
    let began = Instant::now();
    let mut phases = Phases::default();
    let mut last = (began, control.answers());
    while !phases.are_enough() && began.elapsed() < limit {
        match inbox.recv_timeout(SAMPLE) {
            Ok(Report::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(Report::Ready | Report::Finished) | Err(RecvTimeoutError::Timeout) => {}
        }
        let is_writing = processes.have_open(SNAPSHOT)?;
        let (now, answers) = (Instant::now(), control.answers());
        phases.add(
            control.is_apart(),
            now - last.0,
            answers.saturating_sub(last.1),
        );
        control.set_apart(is_writing);
        last = (now, answers);
        progress.measuring(began.elapsed(), Some(limit), answers);
    }
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_phases_require_enough_answers() {
        let second = Duration::from_secs(1);
        let mut phases = Phases::default();
        phases.add(false, second * 5, 100_000);
        phases.add(true, second, 9_999);
        assert!(!phases.are_enough());
        phases.add(true, second, 1);
        assert!(phases.are_enough());
        assert_eq!(phases.times(), (second * 5, second * 2));
    }
}
