//! How the one who measures and the sessions that work talk to each other.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

/// What goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Sessions are opened.
    Preparing = 0,
    /// Under load, nothing is recorded.
    Warmup = 1,
    /// Under load, everything is recorded.
    Measuring = 2,
    /// No more requests; what is under way is waited for.
    Stopping = 3,
    /// Something is wrong; nobody waits for anything.
    Aborting = 4,
}

/// Shared by all threads of one round.
#[derive(Debug)]
pub(crate) struct Control {
    /// Read by every session after every batch: a plain load, no lock.
    phase: AtomicU8,
    /// For those that wait for a phase.
    announced: watch::Sender<Phase>,
    /// Whether answers are recorded apart from all others now.
    apart: AtomicBool,
    /// Operations still to start while measuring; negative when used up.
    budget: Option<AtomicI64>,
    /// Answers so far, for the progress bar and to notice that nothing moves.
    answers: AtomicU64,
    /// What clock readings count from.
    start: Instant,
}

impl Control {
    /// `ops` bounds the operations that are measured.
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

    /// Waits until `phase` has come.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut announced = self.announced.subscribe();
        // The sender lives as long as this.
        let _ = announced.wait_for(|now| *now >= phase).await;
    }

    /// How many of `wanted` operations may be started now; 0 for good once it was 0.
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

    /// ns since the round began.
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
