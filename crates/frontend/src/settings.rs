//! Configuration of client connections.

use std::sync::Arc;
use std::time::Duration;

use admission::ConnectionLimits;
use config::kerberos::KerberosNames;
use config::{AuthProvider, Config, FourLetterWords};
use jute::Limits;
use metrics::fourlw::Whitelist;
use replica::{HandshakeRules, Service, field_limits};

use crate::limits::BATCH_REQUESTS_MAX;
use crate::login::kerberos;

/// Settings of connections and their sessions. They do not change while a server runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whole configuration, which also contains the settings that are not copied here.
    pub config: Arc<Config>,
    /// Maximum size of a frame from a client, in bytes.
    pub(crate) jute_max_buffer: usize,
    /// Maximum size of a string or buffer in a request, in bytes.
    pub(crate) field_limits: Limits,
    pub(crate) connection_limits: ConnectionLimits,
    pub(crate) tcp_keep_alive: bool,
    /// Maximum time for which a connection may exist without a handshake.
    pub(crate) sessionless_timeout: Duration,
    pub(crate) min_session_timeout_ms: i32,
    pub(crate) max_session_timeout_ms: i32,
    /// Whether only this server knows new sessions (`localSessionsEnabled`). Always false on a
    /// standalone server.
    pub(crate) local_sessions: bool,
    /// Whether local sessions become global when necessary (`localSessionsUpgradingEnabled`).
    pub(crate) upgrades_sessions: bool,
    /// Top byte of new session ids: the low byte of `myid`, or 1 on a standalone server.
    pub session_server_id: u8,
    /// Whether ACLs are checked before a write is ordered (`enableEagerACLCheck`). A standalone
    /// server lacks this step.
    pub(crate) eager_acl_check: bool,
    /// Maximum number of requests in the pipeline (`globalOutstandingLimit`,
    /// `request_throttle_max_requests`).
    pub(crate) outstanding_max: usize,
    /// Maximum number of requests that one connection submits together.
    pub(crate) batch_requests_max: usize,
    /// Time after which waiting requests are refused (`throttled_op_wait_time`).
    pub(crate) throttled_after: Option<Duration>,
    /// Maximum time for which a stopping server lets requests wait for permits
    /// (`request_throttler.shutdownTimeout`).
    pub throttle_shutdown_timeout: Duration,
    /// Rules for the identities of client certificates.
    pub(crate) x509: X509,
    /// Rules for the names in Kerberos tickets.
    pub(crate) kerberos_names: Arc<KerberosNames>,
    /// Whether TLS connections are closed while clients are not served
    /// (`netty.server.earlyDropSecureConnectionHandshakes`).
    pub(crate) drops_handshakes_early: bool,
    /// Enabled four-letter words.
    pub(crate) words: Whitelist,
}

/// Configuration of the scheme x509.
#[derive(Debug, Clone)]
pub(crate) struct X509 {
    /// Whether a provider of the scheme is configured.
    pub(crate) is_enabled: bool,
    /// Subject with super user rights (`X509AuthenticationProvider.superUser`).
    pub(crate) super_user: Option<String>,
}

/// Top byte of a standalone server's session ids. Source: ZooKeeperServer.createSessionTracker.
const STANDALONE_SERVER_ID: u8 = 1;

impl Settings {
    /// Derives the settings from this configuration.
    pub fn new(config: Arc<Config>) -> Self {
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
                is_enabled: config
                    .auth
                    .providers
                    .values()
                    .any(|it| *it == AuthProvider::X509)
                    && config.client_tls.auth_provider == AuthProvider::X509.scheme(),
                super_user: config.auth.x509_super_user.clone(),
            },
            drops_handshakes_early: limit.early_drop_handshakes,
            words: whitelist(&config),
            config,
        }
    }

    /// Returns the rules for the handshakes of clients that connect during this service.
    pub(crate) fn handshake_rules(&self, service: Service) -> HandshakeRules {
        HandshakeRules {
            service,
            local_sessions: self.local_sessions,
            timeout_min_ms: self.min_session_timeout_ms,
            timeout_max_ms: self.max_session_timeout_ms,
        }
    }
}

/// Returns the size of the pipeline. Without a throttle, it has space for at least one whole batch.
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
