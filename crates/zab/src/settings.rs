//! What of the configuration concerns Zab.

/// Times and limits of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `tickTime`, ms. A leader pings twice a tick.
    pub tick_ms: i64,
    /// `initLimit`, ticks: for each wait of discovery and synchronisation.
    pub init_limit: i64,
    /// `syncLimit`, ticks: how long a peer may be silent, and an acknowledgement outstanding.
    pub sync_limit: i64,
    /// `zookeeper.leader.maxTimeToWaitForEpoch`, ms: a leader that has no quorum for its epoch
    /// after that time gives up as soon as a voter that elected it looks for a leader again.
    pub epoch_wait_max_ms: Option<i64>,
    /// `zookeeper.forceSnapshotSync`: every learner gets a snapshot.
    pub force_snapshot: bool,
    /// Whether learners may be caught up from the log files (`zookeeper.snapshotSizeFactor` is
    /// not negative). How many bytes of them are worth reading is for the host to say, by
    /// [`crate::leader::Leader::handle_log_unusable`].
    pub use_disk_log: bool,
    /// `zookeeper.leader.maxConcurrentSnapSyncs`: observers above it are turned away.
    pub snap_syncs_max: usize,
    /// `zookeeper.leader.maxConcurrentDiffSyncs`: the same for the rest.
    pub diff_syncs_max: usize,
    /// Bytes of transactions that a learner holds back while it is brought up to date. At this bound
    /// it hands on what is committed, or reads no more until it may. A history of this size or less
    /// reaches its log in one go, with NEWLEADER. Before NEWLEADER, what is proposed and not
    /// committed may be more: its leader has that in memory as well.
    pub held_back_bytes_max: usize,
}

impl Settings {
    /// Apache ZooKeeper's own values for all that has one.
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

    /// `syncLimit` in ms.
    pub fn sync_ms(&self) -> i64 {
        self.tick_ms.saturating_mul(self.sync_limit)
    }
}
