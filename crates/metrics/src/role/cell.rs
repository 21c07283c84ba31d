//! Current role, with one writer and many readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use config::Ensemble;
use parking_lot::{Mutex, RwLock};

use super::mode::{Mode, ZabState};
use super::view::{LeaderFigures, RoleView};
use crate::counters::summary::{BufferStats, Summary};
use crate::table::rows::Metrics;

/// Cell with the current [`RoleView`] and the counters of a leader.
#[derive(Debug)]
pub struct RoleCell {
    view: RwLock<Arc<RoleView>>,
    proposal_sizes: BufferStats,
    pending_syncs: AtomicU64,
    metrics: Arc<Metrics>,
    times: Mutex<Times>,
}

/// Start times of measurements on a monotonic clock, ms. `None` while the measurement is not
/// running.
#[derive(Debug, Default)]
struct Times {
    /// Start of the time without service.
    unavailable: Option<u64>,
    /// Start of the synchronisation with a leader.
    learning: Option<u64>,
}

/// Number of threads that count proposals.
const PROPOSING_THREADS: usize = 1;

impl RoleCell {
    /// Creates the cell of a server that starts at `now_ms` by the monotonic clock. A standalone
    /// server is serving, and a member is looking for a leader.
    pub fn new(ensemble: Option<&Ensemble>, metrics: Arc<Metrics>, now_ms: u64) -> Self {
        let mut times = Times::default();
        if ensemble.is_some() {
            metrics.looking_count.inc();
            times.unavailable = Some(now_ms);
        }
        let view = RoleView {
            mode: match ensemble {
                Some(_) => Mode::Looking,
                None => Mode::Standalone,
            },
            is_serving: ensemble.is_none(),
            zab: ZabState::Election,
            sync: None,
            leader: None,
            members: ensemble.map(|ensemble| Arc::new(ensemble.membership.clone())),
        };
        Self {
            view: RwLock::new(Arc::new(view)),
            proposal_sizes: BufferStats::new(PROPOSING_THREADS),
            pending_syncs: AtomicU64::new(0),
            metrics,
            times: Mutex::new(times),
        }
    }

    /// Returns the current role.
    pub fn get(&self) -> Arc<RoleView> {
        self.view.read().clone()
    }

    /// Applies `change` to the current view at `now_ms` by the monotonic clock. Use this for
    /// changes of roles and learners but not for every proposal, because the view is copied if a
    /// reader holds it.
    pub fn update(&self, now_ms: u64, change: impl FnOnce(&mut RoleView)) {
        let mut current = self.view.write();
        let view = Arc::make_mut(&mut current);
        let (was_looking, was_live) = (view.mode.is_looking(), view.zab == ZabState::Broadcast);
        change(view);
        let (mode, is_live) = (view.mode, view.zab == ZabState::Broadcast);
        drop(current);
        self.measure(mode, was_looking, was_live, is_live, now_ms);
    }

    /// Records durations after a change of the role. Source: QuorumPeer.run, setZabState,
    /// Follower.followLeader, Observer.observeLeader.
    fn measure(&self, mode: Mode, was_looking: bool, was_live: bool, is_live: bool, now_ms: u64) {
        let metrics = &self.metrics;
        let mut times = self.times.lock();
        if mode.is_looking() && !was_looking {
            metrics.looking_count.inc();
            times.unavailable.get_or_insert(now_ms);
        }
        let is_learner = matches!(mode, Mode::Follower { .. } | Mode::Observer { .. });
        match (was_live, is_live) {
            (_, false) if is_learner => {
                times.learning.get_or_insert(now_ms);
            }
            (_, false) => times.learning = None,
            (false, true) => {
                let since_ms = |began: Option<u64>| began.map(|began| now_ms.saturating_sub(began));
                let unavailable_ms = since_ms(times.unavailable.take());
                let sync_ms = since_ms(times.learning.take());
                let record = |metric: &Summary, ms: Option<u64>| {
                    if let Some(ms) = ms {
                        metric.record(ms);
                    }
                };
                record(&metrics.unavailable_time, unavailable_ms);
                match mode {
                    Mode::Leader { .. } => record(&metrics.leader_unavailable_time, unavailable_ms),
                    Mode::Follower { .. } => record(&metrics.follower_sync_time, sync_ms),
                    Mode::Observer { .. } => record(&metrics.observer_sync_time, sync_ms),
                    Mode::Standalone | Mode::Looking | Mode::ReadOnly => {}
                }
            }
            (true, true) => {}
        }
    }

    /// Resets the counters for a new leader, which has not proposed anything yet.
    pub fn begin_leading(&self) {
        self.reset_proposal_sizes();
        self.pending_syncs.store(0, Ordering::Relaxed);
    }

    /// Records the size of a proposal, including its header, transaction and digest.
    pub fn proposed(&self, bytes: u32) {
        self.proposal_sizes.record(bytes);
    }

    /// Sets the number of transactions for whose commits `sync` requests wait at the leader.
    pub fn set_pending_syncs(&self, waiting: usize) {
        self.pending_syncs.store(waiting as u64, Ordering::Relaxed);
    }

    /// Resets the sizes of proposals, like `srst` at a leader.
    pub fn reset_proposal_sizes(&self) {
        self.proposal_sizes.reset();
    }

    /// Returns the figures of a leader at `now_ms` by the monotonic clock, or `None` on any other
    /// server.
    pub fn leader_figures(&self, now_ms: u64) -> Option<LeaderFigures> {
        let Mode::Leader { since_ms, learners } = self.view.read().mode else {
            return None;
        };
        Some(LeaderFigures {
            learners,
            pending_syncs: self.pending_syncs.load(Ordering::Relaxed),
            uptime_ms: now_ms.saturating_sub(since_ms),
            proposal_sizes: self.proposal_sizes.get(),
        })
    }
}
