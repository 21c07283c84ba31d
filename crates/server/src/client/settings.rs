//! What connections need of the configuration.

use std::sync::Arc;
use std::time::Duration;

use config::kerberos::KerberosNames;
use config::{AuthProvider, Config, FourLetterWords};
use jute::Limits;

use crate::client::registry::ConnectionLimits;
use crate::fourlw::Whitelist;
use crate::kerberos;
use crate::limits::BATCH_REQUESTS_MAX;
use crate::settings::{field_limits, provides};

/// Settings of connections and their sessions; fixed while a server runs.
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
    /// Whether ACLs are looked at before a write is ordered (`enableEagerACLCheck`); a server that
    /// stands alone has no such step.
    pub(crate) eager_acl_check: bool,
    /// Requests in the pipeline (`globalOutstandingLimit`, `request_throttle_max_requests`).
    pub(crate) outstanding_max: usize,
    /// Requests that one connection hands over at a time.
    pub(crate) batch_requests_max: usize,
    /// Requests that waited longer for their place are refused (`throttled_op_wait_time`).
    pub(crate) throttled_after: Option<Duration>,
    /// Time that requests which wait get when the server stops
    /// (`request_throttler.shutdownTimeout`).
    pub(crate) throttle_shutdown_timeout: Duration,
    /// Who clients are by their certificates.
    pub(crate) x509: X509,
    /// And by their tickets.
    pub(crate) kerberos_names: Arc<KerberosNames>,
    /// TLS connections are closed while nobody is served
    /// (`netty.server.earlyDropSecureConnectionHandshakes`).
    pub(crate) drops_handshakes_early: bool,
    /// Which four-letter words are answered.
    pub(crate) words: Whitelist,
}

/// The scheme x509.
#[derive(Debug, Clone)]
pub(crate) struct X509 {
    /// There is a provider of it.
    pub(crate) is_enabled: bool,
    /// `X509AuthenticationProvider.superUser`.
    pub(crate) super_user: Option<String>,
}

/// Top byte of a standalone server's session ids. Source: ZooKeeperServer.createSessionTracker.
const STANDALONE_SERVER_ID: u8 = 1;

impl Settings {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let limit = &config.limits;
        let max_buffer = limit.jute_max_buffer as usize;
        let sessions = &config.sessions;
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
            eager_acl_check: config.ensemble.is_some() && config.features.eager_acl_check,
            outstanding_max: outstanding_max(limit),
            batch_requests_max: outstanding_max(limit).min(BATCH_REQUESTS_MAX),
            throttled_after: limit.request_throttle.throttled_op_wait_time_ms.map(millis),
            throttle_shutdown_timeout: millis(limit.request_throttle.shutdown_timeout_ms),
            kerberos_names: kerberos::names(&config),
            x509: X509 {
                is_enabled: provides(&config.auth, AuthProvider::X509)
                    && config.client_tls.auth_provider == AuthProvider::X509.scheme(),
                super_user: config.auth.x509_super_user.clone(),
            },
            drops_handshakes_early: limit.early_drop_handshakes,
            words: whitelist(&config),
            config,
        }
    }
}

/// Without a throttle at least what a connection takes at a time for a whole batch.
fn outstanding_max(limits: &config::Limits) -> usize {
    let global = (limits.global_outstanding_limit as usize).max(BATCH_REQUESTS_MAX);
    match limits.request_throttle.max_requests {
        Some(max) => global.min(max as usize).max(1),
        None => global,
    }
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
