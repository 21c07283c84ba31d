//! Communication between the measuring thread and the working sessions.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

/// Phases of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Sessions are being opened.
    Preparing = 0,
    /// Sessions are under load, and nothing is recorded.
    Warmup = 1,
    /// Sessions are under load, and everything is recorded.
    Measuring = 2,
    /// No further requests are sent. Pending requests complete.
    Stopping = 3,
    /// The round has failed. All tasks end without waiting for answers.
    Aborting = 4,
}

/// State that all threads of one round share.
#[derive(Debug)]
pub(crate) struct Control {
    /// Current phase. It is atomic, because every session reads it after every batch.
    phase: AtomicU8,
    /// Announcements for tasks that wait for a phase.
    announced: watch::Sender<Phase>,
    /// Whether answers are currently recorded separately, because a snapshot is being written.
    apart: AtomicBool,
    /// Number of operations that may still be started. It is 0 or negative when all have been
    /// started. `None` without a limit.
    budget: Option<AtomicI64>,
    /// Number of answers so far, for the progress bar and to detect a stall.
    answers: AtomicU64,
    /// Origin of the clock readings.
    start: Instant,
}

impl Control {
    /// Creates the state of a round. `ops` limits the measured operations.
    pub(crate) fn new(ops: Option<u64>) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Preparing as u8),
            announced: watch::Sender::new(Phase::Preparing),
            apart: AtomicBool::new(false),
            budget: ops.map(|ops| AtomicI64::new(i64::try_from(ops).unwrap_or(i64::MAX))),
            answers: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
        self.announced.send_replace(phase);
    }

    #[inline]
    pub(crate) fn is_measuring(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Measuring as u8
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::Relaxed) >= Phase::Stopping as u8
    }

    pub(crate) fn set_apart(&self, is_apart: bool) {
        self.apart.store(is_apart, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Waits until `phase` or a later phase has begun.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut announced = self.announced.subscribe();
        // The wait cannot fail, because the sender exists as long as `self`.
        let _ = announced.wait_for(|now| *now >= phase).await;
    }

    /// Returns how many of `wanted` operations may be started now. Once it has returned 0, it
    /// always returns 0.
    #[inline]
    pub(crate) fn grant(&self, wanted: u32) -> u32 {
        if self.is_stopping() {
            return 0;
        }
        match &self.budget {
            Some(budget) if self.is_measuring() => {
                let left = budget.fetch_sub(wanted.into(), Ordering::Relaxed);
                u32::try_from(left.clamp(0, wanted.into())).unwrap_or(0)
            }
            _ => wanted,
        }
    }

    #[inline]
    pub(crate) fn add_answers(&self, count: u32) {
        self.answers.fetch_add(count.into(), Ordering::Relaxed);
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Returns the number of ns since the beginning of the round.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_what_is_measured() {
        let control = Control::new(Some(10));
        control.enter(Phase::Warmup);
        assert_eq!(control.grant(16), 16);
        control.enter(Phase::Measuring);
        assert_eq!(
            [control.grant(8), control.grant(8), control.grant(8)],
            [8, 2, 0]
        );
    }

    #[test]
    fn stopping_grants_nothing() {
        let control = Control::new(None);
        control.enter(Phase::Measuring);
        assert_eq!(control.grant(5), 5);
        control.enter(Phase::Stopping);
        assert_eq!(control.grant(5), 0);
    }
}
