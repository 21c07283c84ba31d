//! Settings of a replica, derived from the configuration.

use config::{Config, Ensemble, OnDigestMismatch};
use jute::Limits;

use crate::elections::ElectionSettings;
use crate::limits;

/// Settings of a server, fixed while it runs.
#[derive(Debug, Clone)]
pub struct ReplicaSettings {
    /// Length of a tick (`tickTime`), ms.
    pub tick_ms: i64,
    /// Top byte of new session ids: the low byte of `myid`, or 1 on a standalone server.
    pub session_server_id: u8,
    /// Whether new sessions are known to this server only (`localSessionsEnabled`). Always false on
    /// a standalone server.
    pub local_sessions: bool,
    /// Maximum size of a string or buffer within a transaction, bytes.
    pub field_limits: Limits,
    /// Reaction of a server whose data differs from the data of others
    /// (`zoarium.onDigestMismatch`).
    pub on_digest_mismatch: OnDigestMismatch,
    /// Schedule of the checks of containers and TTL znodes.
    pub containers: ContainerSettings,
    /// Settings of an ensemble's member; `None` for a standalone server.
    pub ensemble: Option<EnsembleSettings>,
}

/// Schedule of the checks of containers and TTL znodes.
#[derive(Debug, Clone, Copy)]
pub struct ContainerSettings {
    /// Pause between two rounds, ms.
    pub check_interval_ms: i64,
    /// Pause between two deletions, ms.
    pub min_spacing_ms: i64,
    /// Age at which a container that has never had a child is deleted, ms; 0 for never.
    pub max_never_used_ms: i64,
}

/// Settings of a member of an ensemble.
#[derive(Debug, Clone)]
pub struct EnsembleSettings {
    /// Settings of elections.
    pub election: ElectionSettings,
    /// Times and limits for leader and learner.
    pub zab: zab::Settings,
    /// Number of committed transactions kept in memory for learners (`commitLogCount`).
    pub commit_log_count: usize,
    /// Whether a leader serves clients (`leaderServes`).
    pub leader_serves: bool,
    /// Sampling interval: the acknowledgements of every nth transaction are measured
    /// (`leader.ackLoggingFrequency`).
    pub ack_sampling: i64,
    /// Time without a leader after which reads are served, ms; `None` for never.
    pub read_only_after_ms: Option<i64>,
    /// Settings for an observer's choice of the server to learn from.
    pub observer: ObserverSettings,
}

/// Settings for an observer's choice of the server to learn from.
#[derive(Debug, Clone, Copy, Default)]
pub struct ObserverSettings {
    /// Maximum random pause before the observer connects (`observer.reconnectDelayMs`), ms.
    pub reconnect_delay_ms: u64,
    /// Maximum random pause before the observer looks for a leader again
    /// (`observer.election.DelayMs`), ms.
    pub election_delay_ms: u64,
    /// Port on which followers serve observers (`observerMasterPort`).
    pub master_port: Option<u16>,
}

/// Top byte of a standalone server's session ids. Source:
/// SessionTrackerImpl.initializeNextSessionId.
const STANDALONE_SERVER_ID: u8 = 1;

/// Returns the limits for strings and buffers within requests.
pub fn field_limits(config: &Config) -> Limits {
    let limits = &config.limits;
    let (max_buffer, extra) = (limits.jute_max_buffer, limits.jute_extra_size);
    Limits::from_max_buffer(max_buffer as usize, extra as usize)
}

impl ReplicaSettings {
    /// Derives the settings from a configuration.
    pub fn new(config: &Config) -> Self {
        let containers = &config.containers;
        let spacing_ms = 60_000u32
            .checked_div(containers.max_per_minute)
            .unwrap_or(0);
        let never_used_ms = containers.max_never_used_interval_ms.unwrap_or(0);
        Self {
            tick_ms: config.tick_time_ms.into(),
            session_server_id: config
                .ensemble
                .as_ref()
                .map_or(STANDALONE_SERVER_ID, |ensemble| {
                    ensemble.my_id.0.to_le_bytes()[0]
                }),
            local_sessions: config.ensemble.is_some() && config.sessions.local_enabled,
            field_limits: field_limits(config),
            on_digest_mismatch: config.storage.on_digest_mismatch,
            containers: ContainerSettings {
                check_interval_ms: containers.check_interval_ms.max(1).into(),
                min_spacing_ms: spacing_ms.into(),
                max_never_used_ms: i64::try_from(never_used_ms).unwrap_or(i64::MAX),
            },
            ensemble: config
                .ensemble
                .as_ref()
                .map(|ensemble| EnsembleSettings::new(config, ensemble)),
        }
    }
}

impl EnsembleSettings {
    fn new(config: &Config, ensemble: &Ensemble) -> Self {
        let (leader, learner) = (&ensemble.leader, &ensemble.learner);
        let is_read_only_enabled = config.features.read_only_mode_enabled;
        let given = &ensemble.election;
        Self {
            election: ElectionSettings {
                me: ensemble.my_id,
                election: election::Settings {
                    notification_interval_min_ms: given.min_notification_interval_ms.into(),
                    notification_interval_max_ms: given.max_notification_interval_ms.into(),
                    reconfig_enabled: config.features.reconfig_enabled,
                    membership_guard: given.membership_guard,
                    ..election::Settings::default()
                },
                multi_address: ensemble.multi_address.is_enabled,
                has_oracle: ensemble.oracle_path.is_some(),
            },
            zab: zab_settings(config, ensemble),
            commit_log_count: config.storage.commit_log_count as usize,
            leader_serves: leader.serves_clients,
            ack_sampling: leader.ack_logging_frequency.into(),
            read_only_after_ms: is_read_only_enabled
                .then(|| limits::READ_ONLY_AFTER_MS_MIN.max(config.tick_time_ms.into())),
            observer: ObserverSettings {
                reconnect_delay_ms: learner.observer_reconnect_delay_ms,
                election_delay_ms: learner.observer_election_delay_ms,
                master_port: learner.observer_master_port,
            },
        }
    }
}

fn zab_settings(config: &Config, ensemble: &Ensemble) -> zab::Settings {
    let leader = &ensemble.leader;
    let ticks = |ticks: u32| i64::from(ticks);
    zab::Settings {
        epoch_wait_max_ms: leader.max_time_to_wait_for_epoch_ms.map(i64::from),
        force_snapshot: leader.force_snapshot_sync,
        use_disk_log: config.storage.snapshot_size_factor.is_some(),
        snap_syncs_max: leader.max_concurrent_snap_syncs as usize,
        diff_syncs_max: leader.max_concurrent_diff_syncs as usize,
        ..zab::Settings::new(
            i64::from(config.tick_time_ms),
            ticks(ensemble.init_limit_ticks),
            ticks(ensemble.sync_limit_ticks),
        )
    }
}
