//! Settings for the size and behaviour of an ensemble.

use config::OnDigestMismatch;

use crate::queue::{MS, Micros};

/// Size and behaviour of an ensemble, its disks and its network.
///
/// ```
/// # use zoarium_simulation::settings::EnsembleSettings;
/// let settings = EnsembleSettings::plain(3);
/// assert_eq!(settings.servers(), 3);
/// assert!(!settings.is_standalone());
/// ```
#[derive(Debug, Clone)]
pub struct EnsembleSettings {
    /// Number of voters.
    pub voters: usize,
    /// Number of observers.
    pub observers: usize,
    /// Maximum delay of a message. On a slow connection, the maximum is up to three times as long.
    pub delay: Micros,
    /// Usual maximum duration of a read or sync. A few syncs take 5 to 39 times as long.
    pub sync: Micros,
    /// Number of committed transactions that a server keeps in memory for learners.
    pub committed_len: usize,
    /// Maximum number of transactions after which a snapshot is due (`snapCount`).
    pub snap_count: u64,
    /// Approximate size of a piece of a tree, for a snapshot or for a learner, bytes.
    pub chunk_bytes: usize,
    /// Whether a leader sends its tree to every learner.
    pub force_snapshot: bool,
    /// Whether a leader reads its log for learners.
    pub use_disk_log: bool,
    /// Maximum size of the transactions that a learner holds back during synchronisation, bytes.
    pub held_back_bytes_max: usize,
    /// Whether a power failure may keep any subset of the unsynced sectors.
    pub loses_sectors: bool,
    /// Whether the log has a separate directory.
    pub has_log_dir: bool,
    /// Whether the disk sometimes stalls while a visiting thread syncs the log.
    pub has_stalls: bool,
    /// Length of a tick (`tickTime`), ms.
    pub tick_ms: i64,
    /// Identity of the super user (`zookeeper.DigestAuthenticationProvider.superDigest`).
    pub super_digest: Option<String>,
    /// Optional features.
    pub features: Features,
}

/// Optional features in the configuration of the servers.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Whether new sessions are local (`localSessionsEnabled`) and can be upgraded to global
    /// sessions.
    pub local_sessions: bool,
    /// Time without a leader after which reads are served, ms; `None` to disable this.
    pub read_only_after_ms: Option<i64>,
    /// Whether hard quotas refuse writes (`enforceQuota`).
    pub enforces_quota: bool,
    /// Maximum length of a transaction, bytes.
    pub record_bytes_max: usize,
    /// Whether reconfigurations are enabled (`reconfigEnabled`).
    pub reconfigures: bool,
    /// Whether the first member list of a server contains only the servers with an initial vote and
    /// the server itself.
    pub grows: bool,
    /// Whether observers learn from followers.
    pub has_observer_masters: bool,
    /// Whether two voters have an oracle (`oraclePath`).
    pub has_oracle: bool,
    /// Reaction to a wrong digest (`zoarium.onDigestMismatch`).
    pub on_digest_mismatch: OnDigestMismatch,
}

impl Features {
    /// No optional feature.
    pub const PLAIN: Self = Self {
        local_sessions: false,
        read_only_after_ms: None,
        enforces_quota: false,
        record_bytes_max: 1 << 20,
        reconfigures: false,
        grows: false,
        has_observer_masters: false,
        has_oracle: false,
        on_digest_mismatch: OnDigestMismatch::Log,
    };
}

impl EnsembleSettings {
    /// Returns the settings of an ensemble with fast disks, a fast network and no optional feature.
    pub fn plain(voters: usize) -> Self {
        Self {
            voters,
            observers: 0,
            delay: MS,
            sync: MS,
            committed_len: 500,
            snap_count: 1000,
            chunk_bytes: 100_000,
            force_snapshot: false,
            use_disk_log: true,
            held_back_bytes_max: 16 << 20,
            loses_sectors: false,
            has_log_dir: false,
            has_stalls: false,
            tick_ms: 200,
            super_digest: None,
            features: Features::PLAIN,
        }
    }

    /// Returns whether the ensemble is a single server.
    pub fn is_standalone(&self) -> bool {
        self.servers() == 1
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.voters + self.observers
    }

    pub(crate) fn zab(&self) -> zab::Settings {
        zab::Settings {
            force_snapshot: self.force_snapshot,
            use_disk_log: self.use_disk_log,
            held_back_bytes_max: self.held_back_bytes_max,
            ..zab::Settings::new(self.tick_ms, 10, 5)
        }
    }

    pub(crate) fn election(&self) -> election::Settings {
        election::Settings {
            notification_interval_max_ms: 1600,
            reconfig_enabled: self.features.reconfigures,
            settle_ms: 60,
            ..election::Settings::default()
        }
    }
}
