//! Why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use config::ConfigError;
use storage::StorageError;

/// Exit code of a member that cannot listen at its election port. Source: ExitCode.UNABLE_TO_BIND_QUORUM_PORT.
pub const EXIT_ELECTION_PORT: u8 = 14;

/// Why a server does not start, with the exit code that operators' scripts know.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory cannot be used or does not recover.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An address cannot be listened on.
    #[error(
        "cannot listen for clients on {address}: {source} (stop the other server, or set another {key})"
    )]
    Bind {
        /// The setting of the port.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The admin server's address cannot be listened on.
    #[error(
        "cannot listen for the admin server on {address}: {source} (choose another admin.serverPort or admin.serverAddress, or set admin.enableServer=false)"
    )]
    BindAdmin {
        /// The address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The key store, the trust store or a rule of TLS is of no use.
    #[error(transparent)]
    Tls(#[from] transport::tls::TlsError),
    /// The key by which others are to log in is not there.
    #[error(
        "nobody can log in by Kerberos as a client of {principal}, the key of which is to be in {}: {refusal} (see keyTab and principal in the JAAS file)", key_tab.display()
    )]
    Kerberos {
        /// Whose key.
        principal: String,
        /// The key tab.
        key_tab: PathBuf,
        /// What the library says.
        refusal: transport::sasl::gssapi::GssapiRefusal,
    },
    /// The exporter's address cannot be listened on.
    #[error(
        "cannot listen for metrics to be fetched on {address}: {source} (choose another metricsProvider.httpPort or metricsProvider.httpHost)"
    )]
    BindExporter {
        /// The address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The address of the probes cannot be listened on.
    #[error("cannot listen for probes on {address}: {source} (choose another zoarium.health.port)")]
    BindHealth {
        /// The address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration asks for what is not there.
    #[error(transparent)]
    Unsupported(Box<ConfigError>),
    /// There are TTL znodes, and the configuration does not let this server know them as such.
    #[error(
        "the data holds {count} TTL znodes, but extendedTypesEnabled is off: they would be taken for ephemerals of dead sessions and deleted. Set extendedTypesEnabled=true in zoo.cfg; to be without it, delete them first while it is set"
    )]
    UnrecognisedTtls {
        /// How many.
        count: usize,
    },
    /// There is no data, and the configuration says that there should be.
    #[error(
        "{} holds no data, and db.autocreate=false says that this is not a new database: put the data back, or create the empty file {} to begin a new one", data_dir.display(), marker.display()
    )]
    EmptyUntrusted {
        /// `dataDir`.
        data_dir: PathBuf,
        /// The file that makes an empty directory a new database.
        marker: PathBuf,
    },
    /// Elections cannot be held by the member list.
    #[error("{0}: correct the server.N, group.N and weight.N lines")]
    Members(String),
    /// zoo.cfg cannot be kept before reconfigurations change it.
    #[error(
        "cannot back up zoo.cfg, which reconfigurations rewrite: {source} (let this server write there, or set reconfigEnabled=false)"
    )]
    Backup {
        /// The system's answer.
        source: io::Error,
    },
    /// There can be no history thread.
    #[error("cannot keep a change history: {0} (see history.enabled)")]
    History(String),
    /// The audit log cannot be opened: nobody may believe to be audited without it.
    #[error(
        "cannot open the audit log {}: {source} (see auditlog.file and log.dir, or set audit.enable=false)", file.display()
    )]
    Audit {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There are no random numbers: session ids would repeat.
    #[error(
        "the system gives no random numbers, which session ids start with: {0} (the server needs getrandom(2) or /dev/urandom)"
    )]
    Random(io::Error),
    /// A thread cannot be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread {
        /// Which.
        name: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl StartError {
    /// The address that cannot be listened on.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Bind { address, .. } => Some(*address),
            Self::BindAdmin { address, .. }
            | Self::BindExporter { address, .. }
            | Self::BindHealth { address, .. } => address.parse().ok(),
            _ => None,
        }
    }

    /// The process's exit code. Source: ExitCode.
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
            | Self::Kerberos { .. } => 2,
        }
    }
}

/// The exit code of a storage failure, which is never 0.
pub(crate) fn exit_code(error: &StorageError) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(1).max(1)
}
