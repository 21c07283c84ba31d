//! Counts of the answers that the servers' schedules ([`host::Schedule`]) gave in a run, and of the
//! answers that the simulator executed while a disk was stalled.

use std::collections::BTreeMap;

use host::{FlushAt, Runner, Syncer};

/// One answer of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The thread that runs the core.
    Run(Runner),
    /// The thread that syncs the log.
    Sync(Syncer),
    /// The time of a flush.
    Flush(FlushAt),
}

impl Answer {
    /// All answers that the simulator executes.
    pub const ALL: [Self; 10] = [
        Self::Run(Runner::OwnThread),
        Self::Run(Runner::VisitingThread),
        Self::Run(Runner::LogThread),
        Self::Sync(Syncer::LogThread),
        Self::Sync(Syncer::CoreThread),
        Self::Sync(Syncer::Visitor),
        Self::Sync(Syncer::NotYet),
        Self::Flush(FlushAt::Now),
        Self::Flush(FlushAt::StepEnd),
        Self::Flush(FlushAt::TurnEnd),
    ];

    /// Returns whether the disk can be stalled while this answer is executed. [`Syncer::NotYet`] is
    /// the exception, because a group is gathered only while the disk is idle.
    pub fn can_be_stalled(self) -> bool {
        self != Self::Sync(Syncer::NotYet)
    }
}

/// Counts of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Total count.
    pub given: usize,
    /// Number of these answers during a stall of the answering server's disk. For a sync, and for
    /// a run after a sync, the number of syncs that were stalled themselves.
    pub stalled: usize,
}

/// Counts of all answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers(BTreeMap<Answer, Times>);

impl Answers {
    pub(crate) fn note(&mut self, answer: Answer, is_stalled: bool) {
        let times = self.0.entry(answer).or_default();
        times.given += 1;
        times.stalled += usize::from(is_stalled);
    }

    /// Returns the counts of this answer.
    pub fn times(&self, answer: Answer) -> Times {
        self.0.get(&answer).copied().unwrap_or_default()
    }
}
