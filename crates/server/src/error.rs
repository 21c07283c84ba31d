//! Errors that prevent a server from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use config::ConfigError;
use storage::StorageError;

/// Exit code of a member that cannot listen on its election port. Source:
/// ExitCode.UNABLE_TO_BIND_QUORUM_PORT.
pub const EXIT_ELECTION_PORT: u8 = 14;

/// Error that prevents a server from starting. Operators' scripts depend on its exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory cannot be used or recovered.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The server cannot listen on a client address.
    #[error(
        "cannot listen for clients on {address}: {source} (stop the process that uses the address, or set another {key})"
    )]
    Bind {
        /// Configuration key of the port.
        key: &'static str,
        /// Address to listen on.
        address: SocketAddr,
        /// Error returned by the system.
        source: io::Error,
    },
    /// The admin server cannot listen on its address.
    #[error(
        "cannot listen for the admin server on {address}: {source} (choose another admin.serverPort or admin.serverAddress, or set admin.enableServer=false)"
    )]
    BindAdmin {
        /// Address to listen on.
        address: String,
        /// Error returned by the system.
        source: io::Error,
    },
    /// A key store, a trust store or a TLS rule is invalid.
    #[error(transparent)]
    Tls(#[from] transport::tls::TlsError),
    /// A key for Kerberos logins is missing or unusable.
    #[error(
        "cannot accept Kerberos logins of {peers} as {principal} with the key tab {}: {refusal} (check keyTab and principal in the JAAS file)", key_tab.display()
    )]
    Kerberos {
        /// Kind of peers that log in: `clients` or `members`.
        peers: &'static str,
        /// Principal of the key.
        principal: String,
        /// Path of the key tab.
        key_tab: PathBuf,
        /// Error returned by the Kerberos library.
        refusal: transport::sasl::gssapi::GssapiRefusal,
    },
    /// The metrics exporter cannot listen on its address.
    #[error(
        "cannot listen for metrics requests on {address}: {source} (choose another metricsProvider.httpPort or metricsProvider.httpHost)"
    )]
    BindExporter {
        /// Address to listen on.
        address: String,
        /// Error returned by the system.
        source: io::Error,
    },
    /// The server for probes cannot listen on its address.
    #[error("cannot listen for probes on {address}: {source} (choose another zoarium.health.port)")]
    BindHealth {
        /// Address to listen on.
        address: String,
        /// Error returned by the system.
        source: io::Error,
    },
    /// The configuration requires a feature that is not available.
    #[error(transparent)]
    Unsupported(Box<ConfigError>),
    /// The data contains TTL znodes, but the configuration does not allow this server to recognise
    /// them.
    #[error(
        "the data contains {count} TTL znodes, but extendedTypesEnabled is off, so the server would treat them as ephemerals of dead sessions and delete them. Set extendedTypesEnabled=true in zoo.cfg. To run without this setting, first delete these znodes while the setting is on"
    )]
    UnrecognisedTtls {
        /// Number of TTL znodes.
        count: usize,
    },
    /// The data directory is empty, but the configuration requires existing data.
    #[error(
        "{} is empty, and db.autocreate=false forbids a new database: restore the data, or create the empty file {} to start a new database", data_dir.display(), marker.display()
    )]
    EmptyUntrusted {
        /// Path of the data directory (`dataDir`).
        data_dir: PathBuf,
        /// File that marks an empty directory as a new database.
        marker: PathBuf,
    },
    /// With the member list, no server can be elected.
    #[error("{0}: correct the server.N, group.N and weight.N lines")]
    Members(String),
    /// zoo.cfg cannot be backed up before reconfigurations change the file.
    #[error(
        "cannot back up zoo.cfg, which reconfigurations rewrite: {source} (make its directory writable for this server, or set reconfigEnabled=false)"
    )]
    Backup {
        /// Error returned by the system.
        source: io::Error,
    },
    /// The history thread cannot be started.
    #[error(
        "cannot open the change history: {0} (to start without the change history, set history.enabled=false)"
    )]
    History(String),
    /// A setting needs a feature that this build lacks.
    #[error("{setting} needs the feature `{feature}`, which this build of zoarium lacks")]
    NotBuiltIn {
        /// The setting.
        setting: &'static str,
        /// The feature of the crate `zoarium`.
        feature: &'static str,
    },
    /// The audit log cannot be opened. If an operator expects an audit log, the server does not run
    /// without it.
    #[error(
        "cannot open the audit log {}: {source} (correct auditlog.file or log.dir, or set audit.enable=false)", file.display()
    )]
    Audit {
        /// Path of the audit log.
        file: PathBuf,
        /// Error returned by the system.
        source: io::Error,
    },
    /// Random numbers are not available, so session ids would repeat.
    #[error(
        "cannot get random bytes for session ids from the system: {0} (the server needs getrandom(2) or /dev/urandom)"
    )]
    Random(io::Error),
    /// A thread cannot be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// Error returned by the system.
        source: io::Error,
    },
}

impl StartError {
    /// Returns the address on which the server cannot listen. Returns `None` for other errors, and
    /// for a host name.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Bind { address, .. } => Some(*address),
            Self::BindAdmin { address, .. }
            | Self::BindExporter { address, .. }
            | Self::BindHealth { address, .. } => address.parse().ok(),
            _ => None,
        }
    }

    /// Returns the process's exit code. Source: ExitCode.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => exit_code(error),
            Self::EmptyUntrusted { .. } => 3,
            Self::BindAdmin { .. } => 4,
            Self::Bind { .. }
            | Self::BindExporter { .. }
            | Self::BindHealth { .. }
            | Self::Thread { .. }
            | Self::Backup { .. }
            | Self::Random(_)
            | Self::Audit { .. } => 1,
            Self::Unsupported(refusal) => refusal.exit_code,
            Self::Members(_)
            | Self::History(_)
            | Self::UnrecognisedTtls { .. }
            | Self::Tls(_)
            | Self::NotBuiltIn { .. }
            | Self::Kerberos { .. } => 2,
        }
    }
}

/// Returns the exit code for a storage failure, which is never 0.
pub(crate) fn exit_code(error: &StorageError) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(1).max(1)
}
