//! The part of the configuration that Zab uses.

/// Times and limits of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `tickTime`, ms. A leader pings twice a tick.
    pub tick_ms: i64,
    /// `initLimit`, ticks: maximum duration of each wait in discovery and synchronisation.
    pub init_limit: i64,
    /// `syncLimit`, ticks: maximum silence of a peer, and maximum delay of an acknowledgement.
    pub sync_limit: i64,
    /// `zookeeper.leader.maxTimeToWaitForEpoch`, ms. A leader without a quorum for its epoch after
    /// that time steps down as soon as a voter that elected it looks for a leader again.
    pub epoch_wait_max_ms: Option<i64>,
    /// `zookeeper.forceSnapshotSync`: every learner receives a snapshot.
    pub force_snapshot: bool,
    /// Whether learners may be synchronised from the log files (`zookeeper.snapshotSizeFactor` is
    /// not negative). The host limits the bytes to read by
    /// [`crate::leader::Leader::handle_log_unusable`].
    pub use_disk_log: bool,
    /// `zookeeper.leader.maxConcurrentSnapSyncs`: maximum number of concurrent snapshots. Further
    /// observers are refused.
    pub snap_syncs_max: usize,
    /// `zookeeper.leader.maxConcurrentDiffSyncs`: maximum number of concurrent synchronisations
    /// without a snapshot. Further observers are refused.
    pub diff_syncs_max: usize,
    /// Maximum size of the transactions that a learner holds back during synchronisation, bytes. At
    /// this bound, it passes on committed ones, or stops reading until it may. A sync plan of this
    /// size or less reaches the log in one batch, with NEWLEADER. Before NEWLEADER, uncommitted
    /// proposals may exceed it: the leader has them in memory, too.
    pub held_back_bytes_max: usize,
}

impl Settings {
    /// Creates settings with Apache ZooKeeper's defaults, where it has one.
    pub fn new(tick_ms: i64, init_limit: i64, sync_limit: i64) -> Self {
        Self {
            tick_ms,
            init_limit,
            sync_limit,
            epoch_wait_max_ms: None,
            force_snapshot: false,
            use_disk_log: true,
            snap_syncs_max: 10,
            diff_syncs_max: 100,
            held_back_bytes_max: 16 << 20,
        }
    }

    pub(crate) fn init_ms(&self) -> i64 {
        self.tick_ms.saturating_mul(self.init_limit)
    }

    /// Returns `syncLimit` in ms.
    pub fn sync_ms(&self) -> i64 {
        self.tick_ms.saturating_mul(self.sync_limit)
    }
}
