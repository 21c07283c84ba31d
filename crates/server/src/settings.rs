//! What the server needs of the configuration, in its own words.

use std::sync::Arc;
use std::time::Duration;

use config::{AuthProvider, Config, FourLetterWords};
use jute::Limits;
use storage::RecoverySettings;
use tree::TreeSettings;
use tree::auth::{AuthSettings, DigestAlgorithm, DigestSettings, EnsembleSettings};

use crate::fourlw::Whitelist;
use crate::limits::BATCH_REQUESTS_MAX;
use crate::net::registry::ConnectionLimits;
use crate::pipeline::GroupCommit;

/// Settings of connections, sessions and the pipeline; fixed while a server runs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The whole configuration, for the commands that show it.
    pub(crate) config: Arc<Config>,
    /// Largest frame of a client, bytes.
    pub(crate) jute_max_buffer: usize,
    /// Largest string or buffer within a request.
    pub(crate) field_limits: Limits,
    pub(crate) connection_limits: ConnectionLimits,
    pub(crate) tcp_keep_alive: bool,
    /// How long a connection may stay without a handshake.
    pub(crate) sessionless_timeout: Duration,
    pub(crate) min_session_timeout_ms: i32,
    pub(crate) max_session_timeout_ms: i32,
    /// Whether new sessions are known to this server only (`localSessionsEnabled`); no server that
    /// stands alone has such.
    pub(crate) local_sessions: bool,
    /// Whether they become global when they need to (`localSessionsUpgradingEnabled`).
    pub(crate) upgrades_sessions: bool,
    /// Top byte of new session ids: the low one of `myid`, 1 on a standalone server.
    pub(crate) session_server_id: u8,
    /// Requests in the pipeline (`globalOutstandingLimit`, `request_throttle_max_requests`).
    pub(crate) outstanding_max: usize,
    /// Requests that waited longer for their place are refused (`throttled_op_wait_time`).
    pub(crate) throttled_after: Option<Duration>,
    /// Which four-letter words are answered.
    pub(crate) words: Whitelist,
    pub(crate) group_commit: GroupCommit,
}

/// Top byte of a standalone server's session ids. Source: ZooKeeperServer.createSessionTracker.
const STANDALONE_SERVER_ID: u8 = 1;

impl Settings {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let limit = &config.limits;
        let max_buffer = limit.jute_max_buffer as usize;
        let sessions = &config.sessions;
        let storage = &config.storage;
        let millis = |ms: u32| Duration::from_millis(ms.into());
        Self {
            jute_max_buffer: max_buffer,
            field_limits: field_limits(&config),
            connection_limits: ConnectionLimits {
                per_address: limit.max_client_cnxns.map(|max| max as usize),
                total: limit.max_cnxns.map(|max| max as usize),
            },
            tcp_keep_alive: config.client.tcp_keep_alive,
            sessionless_timeout: millis(sessions.sessionless_connection_timeout_ms),
            min_session_timeout_ms: as_i32(sessions.min_timeout_ms),
            max_session_timeout_ms: as_i32(sessions.max_timeout_ms),
            local_sessions: config.ensemble.is_some() && sessions.local_enabled,
            upgrades_sessions: sessions.local_upgrading_enabled,
            session_server_id: config
                .ensemble
                .as_ref()
                .map_or(STANDALONE_SERVER_ID, |ensemble| {
                    ensemble.my_id.0.to_le_bytes()[0]
                }),
            outstanding_max: outstanding_max(limit),
            throttled_after: limit.request_throttle.throttled_op_wait_time_ms.map(millis),
            words: whitelist(&config),
            group_commit: GroupCommit {
                flush_delay: Duration::from_millis(storage.flush_delay_ms),
                poll_time: Duration::from_millis(storage.max_write_queue_poll_time_ms),
                batch_max: storage.max_batch_size as usize,
            },
            config,
        }
    }
}

/// At least what a connection takes at a time for a whole batch.
fn outstanding_max(limits: &config::Limits) -> usize {
    let throttle = limits.request_throttle.max_requests.unwrap_or(u32::MAX);
    let max = limits.global_outstanding_limit.min(throttle) as usize;
    max.max(BATCH_REQUESTS_MAX)
}

fn as_i32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn whitelist(config: &Config) -> Whitelist {
    let read_only = config.features.read_only_mode_enabled;
    match &config.four_letter_words {
        FourLetterWords::All => Whitelist::new(Some("*"), read_only),
        FourLetterWords::Only(words) => {
            let list: Vec<&str> = words.iter().map(String::as_str).collect();
            Whitelist::new(Some(&list.join(",")), read_only)
        }
    }
}

pub(crate) fn tree_settings(config: &Config) -> TreeSettings {
    let features = &config.features;
    TreeSettings {
        extended_types: features.extended_types_enabled,
        emulate_353_ttl: features.emulate_353_ttl_nodes,
        digest_enabled: config.storage.digest_enabled,
        enforce_quota: features.enforce_quota,
        skip_acl: features.skip_acl,
        close_session_paths: config.storage.close_session_txn_enabled,
        record_bytes_max: field_limits(config).field_bytes_max,
        reconfig_enabled: features.reconfig_enabled,
        standalone: config.ensemble.is_none(),
        auth: auth_settings(config),
    }
}

fn auth_settings(config: &Config) -> AuthSettings {
    let auth = &config.auth;
    let ensemble = auth
        .providers
        .values()
        .any(|provider| *provider == AuthProvider::Ensemble);
    AuthSettings {
        digest: DigestSettings {
            enabled: auth.digest_enabled,
            algorithm: digest_algorithm(auth.digest_algorithm).unwrap_or(DigestAlgorithm::Sha1),
            super_digest: auth
                .super_digest
                .as_ref()
                .map(|digest| digest.expose().to_owned()),
        },
        ensemble: ensemble.then(|| EnsembleSettings {
            names: auth.ensemble_names.clone().unwrap_or_default(),
        }),
        ..AuthSettings::default()
    }
}

/// `None` for MD5, which is not good enough to hide a password.
fn digest_algorithm(named: config::DigestAlgorithm) -> Option<DigestAlgorithm> {
    use config::DigestAlgorithm as Named;
    Some(match named {
        Named::Md5 => return None,
        Named::Sha1 => DigestAlgorithm::Sha1,
        Named::Sha224 => DigestAlgorithm::Sha224,
        Named::Sha256 => DigestAlgorithm::Sha256,
        Named::Sha384 => DigestAlgorithm::Sha384,
        Named::Sha512 => DigestAlgorithm::Sha512,
        Named::Sha3_224 => DigestAlgorithm::Sha3_224,
        Named::Sha3_256 => DigestAlgorithm::Sha3_256,
        Named::Sha3_384 => DigestAlgorithm::Sha3_384,
        Named::Sha3_512 => DigestAlgorithm::Sha3_512,
    })
}

pub(crate) fn recovery_settings(config: &Config) -> RecoverySettings {
    let storage = &config.storage;
    RecoverySettings {
        trust_empty: storage.snapshot_trust_empty,
        db_autocreate: storage.db_autocreate,
        limits: field_limits(config),
    }
}

pub(crate) fn field_limits(config: &Config) -> Limits {
    let limits = &config.limits;
    let (max_buffer, extra) = (limits.jute_max_buffer, limits.jute_extra_size);
    Limits::from_max_buffer(max_buffer as usize, extra as usize)
}
