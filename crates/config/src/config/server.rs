//! Settings of ports, sessions, containers and features.

use std::fmt;
use std::net::IpAddr;

use crate::access::session_secrets::{self, SessionSecret};
use crate::error::ConfigError;
use crate::registry::core as keys;
use crate::registry::security;
use crate::settings::WrittenSettings;
use crate::surroundings::Surroundings;

/// Ports for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientListener {
    /// Port without TLS. Without it, and without `secure`, the process does not serve clients.
    pub plain: Option<ClientAddress>,
    /// Port with TLS.
    pub secure: Option<ClientAddress>,
    /// Maximum number of connections that wait for acceptance. If absent, the server chooses the
    /// number (Java: 50).
    pub backlog: Option<u32>,
    /// Whether the connections use SO_KEEPALIVE.
    pub tcp_keep_alive: bool,
    /// Whether the plain port also accepts TLS.
    pub port_unification: bool,
}

/// Address of a port. Prints as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    /// Host in canonical form. The default is `0.0.0.0`.
    pub host: String,
    /// IP address of the host. The unspecified address means all IPv4 and IPv6 addresses.
    pub ip: IpAddr,
    /// Port. With 0, the system chooses the port.
    pub port: u16,
}

/// Timeouts and kinds of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Shortest timeout of a session, in milliseconds.
    pub min_timeout_ms: u32,
    /// Longest timeout of a session, in milliseconds.
    pub max_timeout_ms: u32,
    /// Whether new sessions are known only to the server of their connection.
    pub local_enabled: bool,
    /// Whether a local session becomes a global session when it creates an ephemeral.
    pub local_upgrading_enabled: bool,
    /// Time limit for a connection to open a session, in milliseconds.
    pub sessionless_connection_timeout_ms: u32,
    /// Lines of `zoarium.sessionSecretFile`, from which the passwords of sessions are derived.
    /// Empty without the file. Passwords are then derived from ids by Apache ZooKeeper's formula.
    pub secrets: Vec<SessionSecret>,
}

/// Settings for the cleanup of containers and TTL nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    /// Interval between two searches for znodes to delete, in milliseconds.
    pub check_interval_ms: u32,
    /// Maximum number of deletions per minute.
    pub max_per_minute: u32,
    /// Age at which a container that never had a child is deleted, in milliseconds. Absent if
    /// never.
    pub max_never_used_interval_ms: Option<u64>,
}

/// Features that can be switched on and off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Whether TTL nodes can be created.
    pub extended_types_enabled: bool,
    /// Whether TTLs have the format of ZooKeeper 3.5.3.
    pub emulate_353_ttl_nodes: bool,
    /// Whether ACLs are ignored.
    pub skip_acl: bool,
    /// Whether writes above a hard quota are rejected.
    pub enforce_quota: bool,
    /// Whether followers check ACLs before they forward a write.
    pub eager_acl_check: bool,
    /// Whether clients may change the member list.
    pub reconfig_enabled: bool,
    /// Whether a single participant runs as a standalone server.
    pub standalone_enabled: bool,
    /// Whether a server without a quorum serves reads to clients that permit it.
    pub read_only_mode_enabled: bool,
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl ClientListener {
    /// Reads all fields except the addresses, which depend on several settings.
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        let backlog = settings.number(&keys::CLIENT_PORT_LISTEN_BACKLOG)?;
        Ok(Self {
            plain: None,
            secure: None,
            backlog: backlog.and_then(|backlog| u32::try_from(backlog).ok()),
            tcp_keep_alive: settings.flag(&keys::CLIENT_TCP_KEEP_ALIVE)?,
            port_unification: settings.flag(&security::CLIENT_PORT_UNIFICATION)?,
        })
    }
}

impl Sessions {
    pub(super) fn read(
        settings: &mut WrittenSettings,
        surroundings: &mut dyn Surroundings,
        tick_time_ms: u32,
    ) -> Result<Self, ConfigError> {
        let secrets = session_secrets::read(settings, surroundings)?;
        let mut timeout = |key, ticks: u32| -> Result<u32, ConfigError> {
            let written = settings
                .number(key)?
                .and_then(|timeout| u32::try_from(timeout).ok());
            // The protocol encodes timeouts as signed 32-bit numbers.
            let derived = tick_time_ms
                .saturating_mul(ticks)
                .min(i32::MAX.unsigned_abs());
            Ok(written.unwrap_or(derived))
        };
        let min_timeout_ms = timeout(&keys::MIN_SESSION_TIMEOUT, 2)?;
        let max_timeout_ms = timeout(&keys::MAX_SESSION_TIMEOUT, 20)?;
        if min_timeout_ms > max_timeout_ms {
            let reason = "minSessionTimeout must not be larger than maxSessionTimeout";
            let hint = format!("they are {min_timeout_ms} and {max_timeout_ms} ms");
            let found = [&keys::MIN_SESSION_TIMEOUT, &keys::MAX_SESSION_TIMEOUT]
                .into_iter()
                .find_map(|key| settings.find(key));
            return Err(match found {
                Some(found) => found.refused(reason),
                None => ConfigError::new(reason),
            }
            .hint(hint));
        }
        Ok(Self {
            min_timeout_ms,
            max_timeout_ms,
            local_enabled: settings.flag(&keys::LOCAL_SESSIONS_ENABLED)?,
            local_upgrading_enabled: settings.flag(&keys::LOCAL_SESSIONS_UPGRADING_ENABLED)?,
            sessionless_connection_timeout_ms: settings.int(&keys::SESSIONLESS_CNXN_TIMEOUT)?,
            secrets,
        })
    }
}

impl Containers {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            check_interval_ms: settings.int(&keys::CONTAINER_CHECK_INTERVAL)?,
            max_per_minute: settings.int(&keys::CONTAINER_MAX_PER_MINUTE)?,
            max_never_used_interval_ms: settings
                .positive(&keys::CONTAINER_MAX_NEVER_USED_INTERVAL)?,
        })
    }
}

impl Features {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            extended_types_enabled: settings.flag(&keys::EXTENDED_TYPES_ENABLED)?,
            emulate_353_ttl_nodes: settings.flag(&keys::EMULATE_353_TTL_NODES)?,
            skip_acl: settings.is_special(&keys::SKIP_ACL),
            enforce_quota: settings.flag(&keys::ENFORCE_QUOTA)?,
            eager_acl_check: settings.flag(&keys::ENABLE_EAGER_ACL_CHECK)?,
            reconfig_enabled: settings.flag(&keys::RECONFIG_ENABLED)?,
            standalone_enabled: settings.flag(&keys::STANDALONE_ENABLED)?,
            read_only_mode_enabled: settings.flag(&keys::READ_ONLY_MODE_ENABLED)?,
        })
    }
}
