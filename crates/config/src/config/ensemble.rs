//! Settings of a member of an ensemble. The module `identity` reads the member lists.

use std::path::PathBuf;

use proto::Sid;

use crate::access::jaas_sections::Jaas;
use crate::access::sasl::{SaslAcceptor, SaslInitiator};
use crate::error::ConfigError;
use crate::members::MemberRole;
use crate::membership::Membership;
use crate::registry::{cluster as keys, security};
use crate::settings::WrittenSettings;

/// Configuration of an ensemble and of this server in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// Id of this server. The member list contains it.
    pub my_id: Sid,
    /// Role of this server according to the member list.
    pub role: MemberRole,
    /// Current member list.
    pub membership: Membership,
    /// Member list that was proposed and may not be in effect yet.
    pub last_seen: Option<Membership>,
    /// File that contains `membership`. Absent while the list is still in the static file.
    pub dynamic_file: Option<PathBuf>,
    /// Time limit for a learner to connect and synchronise, in ticks.
    pub init_limit_ticks: u32,
    /// Longest permitted delay of a follower, in ticks.
    pub sync_limit_ticks: u32,
    /// Time limit for a learner to connect, in ticks.
    pub connect_limit_ticks: u32,
    /// Whether quorum and election ports are bound on every address.
    pub listen_on_all_ips: bool,
    /// Settings for members with several addresses.
    pub multi_address: MultiAddress,
    /// File to which the oracle of a two-voter ensemble writes `0` or `1`.
    pub oracle_path: Option<PathBuf>,
    /// Settings of elections.
    pub election: ElectionSettings,
    /// Settings of a leader.
    pub leader: LeaderSettings,
    /// Settings of a learner.
    pub learner: LearnerSettings,
    /// SASL between members.
    pub sasl: QuorumSasl,
}

/// Settings for members with several addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiAddress {
    /// Whether members may have several addresses. This changes the handshake of elections.
    pub is_enabled: bool,
    /// Whether Java checks that an address is reachable before its use. Zoarium does not.
    pub reachability_check: bool,
    /// Time limit of Java's check, in milliseconds.
    pub reachability_timeout_ms: u32,
}

/// Settings for elections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Time limit for opening a connection, in milliseconds.
    pub connect_timeout_ms: u32,
    /// Longest permitted silence of a connection, in milliseconds. The default is the duration of
    /// `syncLimit`.
    pub read_timeout_ms: Option<u32>,
    /// Number of attempts to bind the port, one second apart. Absent if unlimited.
    pub bind_attempts: Option<u32>,
    /// First pause before a vote is sent again, in milliseconds.
    pub min_notification_interval_ms: u32,
    /// Longest pause before a vote is sent again, in milliseconds.
    pub max_notification_interval_ms: u32,
    /// Whether the connections use TCP keep-alive.
    pub tcp_keep_alive: bool,
    /// Whether a server refuses to elect a leader while a leader with a different member list
    /// answers. ZooKeeper lacks this guard.
    pub membership_guard: bool,
}

/// Settings of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderSettings {
    /// Whether the leader serves clients.
    pub serves_clients: bool,
    /// Time limit for the leader to find its followers, in milliseconds. The default is the
    /// duration of `initLimit`.
    pub max_time_to_wait_for_epoch_ms: Option<u32>,
    /// Maximum number of learners that receive snapshots at the same time.
    pub max_concurrent_snap_syncs: u32,
    /// Maximum number of learners that receive missing transactions at the same time.
    pub max_concurrent_diff_syncs: u32,
    /// Whether the leader sends snapshots even if missing transactions would be sufficient.
    pub force_snapshot_sync: bool,
    /// Number of transactions per measurement of acknowledgements. Values below 1 disable the
    /// measurement.
    pub ack_logging_frequency: i32,
}

/// Settings of followers and observers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnerSettings {
    /// Pause between attempts to connect, in milliseconds.
    pub connect_retry_delay_ms: u32,
    /// Port on which followers serve observers.
    pub observer_master_port: Option<u16>,
    /// Pause before an observer reconnects, in milliseconds.
    pub observer_reconnect_delay_ms: u64,
    /// Pause before an observer searches for a leader again, in milliseconds.
    pub observer_election_delay_ms: u64,
    /// Whether Java's observers write logs and snapshots. Observers of Zoarium always do.
    pub observer_sync_enabled: bool,
}

/// SASL between members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumSasl {
    /// Credentials of this server for outgoing connections. Absent if it does not log in.
    pub learner: Option<SaslInitiator>,
    /// Mechanism and credentials for logins of other members. Absent without SASL.
    pub may_join: Option<SaslAcceptor>,
    /// Whether other members must log in.
    pub server_requires: bool,
    /// Kerberos name of the members. `_HOST` is a placeholder for the member's host.
    pub service_principal: String,
}

/// Id, role and member lists of this server.
pub(super) struct Identity {
    pub(super) my_id: Sid,
    pub(super) role: MemberRole,
    pub(super) membership: Membership,
    pub(super) last_seen: Option<Membership>,
    pub(super) dynamic_file: Option<PathBuf>,
}

impl Ensemble {
    pub(super) fn read(
        settings: &mut WrittenSettings,
        who: Identity,
        jaas: &Jaas,
    ) -> Result<Self, ConfigError> {
        let init_limit_ticks = settings.int(&keys::INIT_LIMIT)?;
        let connect_limit = settings.positive(&keys::CONNECT_TO_LEARNER_MASTER_LIMIT)?;
        let oracle_path = read_oracle_path(settings, &who.membership);
        Ok(Self {
            my_id: who.my_id,
            role: who.role,
            membership: who.membership,
            last_seen: who.last_seen,
            dynamic_file: who.dynamic_file,
            init_limit_ticks,
            sync_limit_ticks: settings.int(&keys::SYNC_LIMIT)?,
            connect_limit_ticks: connect_limit.unwrap_or(init_limit_ticks),
            listen_on_all_ips: settings.flag(&keys::QUORUM_LISTEN_ON_ALL_IPS)?,
            multi_address: MultiAddress::read(settings)?,
            oracle_path,
            election: ElectionSettings::read(settings)?,
            leader: LeaderSettings::read(settings)?,
            learner: LearnerSettings::read(settings)?,
            sasl: QuorumSasl::read(settings, jaas)?,
        })
    }
}

/// Reads the path of the oracle, which an ensemble with groups or weights does not support. Source:
/// QuorumPeerConfig.createQuorumVerifier.
fn read_oracle_path(settings: &mut WrittenSettings, membership: &Membership) -> Option<PathBuf> {
    let path = settings.path(&keys::ORACLE_PATH)?;
    if membership.hierarchy.is_none() {
        return Some(path);
    }
    if let Some(found) = settings.find(&keys::ORACLE_PATH) {
        let notice = found.no_effect("no effect in an ensemble with groups or weights");
        settings.notices.push(notice);
    }
    None
}

impl MultiAddress {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            is_enabled: settings.flag(&keys::MULTI_ADDRESS_ENABLED)?,
            reachability_check: settings.flag(&keys::MULTI_ADDRESS_REACHABILITY_CHECK)?,
            reachability_timeout_ms: settings.int(&keys::MULTI_ADDRESS_REACHABILITY_TIMEOUT)?,
        })
    }
}

impl ElectionSettings {
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            connect_timeout_ms: settings.int(&keys::CNX_TIMEOUT)?,
            read_timeout_ms: settings.positive(&keys::QUORUM_CNXN_TIMEOUT)?,
            bind_attempts: settings.positive(&keys::ELECTION_PORT_BIND_RETRY)?,
            min_notification_interval_ms: settings.int(&keys::MIN_NOTIFICATION_INTERVAL)?,
            max_notification_interval_ms: settings.int(&keys::MAX_NOTIFICATION_INTERVAL)?,
            tcp_keep_alive: settings.flag(&keys::TCP_KEEP_ALIVE)?,
            membership_guard: settings.flag(&keys::MEMBERSHIP_GUARD)?,
        })
    }
}

impl LeaderSettings {
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        let wait = settings.number(&keys::MAX_TIME_TO_WAIT_FOR_EPOCH)?;
        Ok(Self {
            serves_clients: !settings.is_special(&keys::LEADER_SERVES),
            max_time_to_wait_for_epoch_ms: wait.and_then(|wait| u32::try_from(wait).ok()),
            max_concurrent_snap_syncs: settings.int(&keys::MAX_CONCURRENT_SNAP_SYNCS)?,
            max_concurrent_diff_syncs: settings.int(&keys::MAX_CONCURRENT_DIFF_SYNCS)?,
            force_snapshot_sync: settings.flag(&keys::FORCE_SNAPSHOT_SYNC)?,
            ack_logging_frequency: settings.int(&keys::ACK_LOGGING_FREQUENCY)?,
        })
    }
}

impl LearnerSettings {
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            connect_retry_delay_ms: settings.int(&keys::LEADER_CONNECT_DELAY)?,
            observer_master_port: settings.positive(&keys::OBSERVER_MASTER_PORT)?,
            observer_reconnect_delay_ms: settings.int(&keys::OBSERVER_RECONNECT_DELAY)?,
            observer_election_delay_ms: settings.int(&keys::OBSERVER_ELECTION_DELAY)?,
            observer_sync_enabled: settings.flag(&keys::SYNC_ENABLED)?,
        })
    }
}

impl QuorumSasl {
    /// Refuses contradictory settings.
    pub(super) fn check(settings: &mut WrittenSettings) -> Result<(), ConfigError> {
        let is_enabled = settings.flag(&keys::QUORUM_SASL_ENABLE)?;
        let server_requires = settings.flag(&keys::QUORUM_SASL_SERVER)?;
        let learner_requires = settings.flag(&keys::QUORUM_SASL_LEARNER)?;
        for (is_violated, missing, wanted) in [
            (
                !is_enabled && server_requires,
                &keys::QUORUM_SASL_ENABLE,
                &keys::QUORUM_SASL_SERVER,
            ),
            (
                !is_enabled && learner_requires,
                &keys::QUORUM_SASL_ENABLE,
                &keys::QUORUM_SASL_LEARNER,
            ),
            (
                !learner_requires && server_requires,
                &keys::QUORUM_SASL_LEARNER,
                &keys::QUORUM_SASL_SERVER,
            ),
        ] {
            if let Some(found) = settings.find(wanted).filter(|_| is_violated) {
                let reason = format!(
                    "{} is disabled, so cannot enable {}",
                    missing.name, wanted.name
                );
                return Err(found
                    .refused(reason)
                    .hint(format!("add {}=true", missing.name)));
            }
        }
        Ok(())
    }

    pub(super) fn read(settings: &mut WrittenSettings, jaas: &Jaas) -> Result<Self, ConfigError> {
        Self::check(settings)?;
        let is_enabled = settings.flag(&keys::QUORUM_SASL_ENABLE)?;
        let learner_requires = settings.flag(&keys::QUORUM_SASL_LEARNER)?;
        let (mut learner, mut may_join) = (None, None);
        if is_enabled {
            // As in Java, both sections must exist, even if logins are not required yet.
            let asking = &keys::QUORUM_SASL_ENABLE;
            let named = |key| settings.text(key).unwrap_or_default();
            let of_server = named(&keys::QUORUM_SASL_SERVER_CONTEXT);
            let of_learner = named(&keys::QUORUM_SASL_LEARNER_CONTEXT);
            may_join = Some(SaslAcceptor::of(
                &jaas.required(settings, &of_server, asking)?,
            )?);
            let login = SaslInitiator::of(&jaas.required(settings, &of_learner, asking)?)?;
            if matches!(login, SaslInitiator::DigestMd5(_)) {
                refuse_under_fips(settings, learner_requires)?;
            }
            learner = Some(login).filter(|_| learner_requires);
        }
        Ok(Self {
            learner,
            may_join,
            server_requires: settings.flag(&keys::QUORUM_SASL_SERVER)?,
            service_principal: settings
                .text(&keys::QUORUM_SASL_PRINCIPAL)
                .unwrap_or_default(),
        })
    }
}

/// Refuses DIGEST-MD5 in FIPS mode, which is the default. Java's learners do not support it in this
/// mode, so they never connect to a leader. Source: SecurityUtils.createSaslClient.
fn refuse_under_fips(
    settings: &mut WrittenSettings,
    learner_requires: bool,
) -> Result<(), ConfigError> {
    if !learner_requires || !settings.flag(&security::FIPS_MODE)? {
        return Ok(());
    }
    let reason = "requires DIGEST-MD5 between members, which the default fips-mode=true forbids";
    let error = match settings.find(&keys::QUORUM_SASL_LEARNER) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    Err(error.hint("add fips-mode=false"))
}
