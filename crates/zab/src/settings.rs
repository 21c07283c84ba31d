//! Settings that Zab uses.

/// Times and limits of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Length of a tick (`tickTime`), ms. A leader pings twice per tick.
    pub tick_ms: i64,
    /// Maximum duration of each wait in discovery and synchronisation (`initLimit`), ticks.
    pub init_limit: i64,
    /// Maximum silence of a peer, and maximum delay of an acknowledgement (`syncLimit`), ticks.
    pub sync_limit: i64,
    /// Time after which a leader without a quorum for its epoch steps down as soon as a voter that
    /// elected it looks for a leader again (`zookeeper.leader.maxTimeToWaitForEpoch`), ms; `None`
    /// disables this rule.
    pub epoch_wait_max_ms: Option<i64>,
    /// Whether every learner receives a snapshot (`zookeeper.forceSnapshotSync`).
    pub force_snapshot: bool,
    /// Whether learners may be synchronised from the log files (`zookeeper.snapshotSizeFactor` is
    /// not negative). The host limits the number of bytes to read by calling
    /// [`crate::leader::Leader::handle_log_unusable`].
    pub use_disk_log: bool,
    /// Maximum number of concurrent snapshots (`zookeeper.leader.maxConcurrentSnapSyncs`). Further
    /// observers are refused.
    pub snap_syncs_max: usize,
    /// Maximum number of concurrent synchronisations without a snapshot
    /// (`zookeeper.leader.maxConcurrentDiffSyncs`). Further observers are refused.
    pub diff_syncs_max: usize,
    /// Maximum size of the transactions that a learner holds back during synchronisation, bytes. At
    /// this bound, the learner writes committed transactions to the log early. If it must wait for
    /// its own disk, it stops reading from the leader instead. A sync plan of this size or less is
    /// written to the log in one batch, at NEWLEADER. Before NEWLEADER, uncommitted proposals may
    /// exceed the bound, because the leader also holds these proposals in memory.
    pub held_back_bytes_max: usize,
}

impl Settings {
    /// Creates settings with Apache ZooKeeper's defaults, where they exist.
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
