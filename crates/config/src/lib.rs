//! zoo.cfg, the dynamic configuration, `myid` and `-D` properties, as one typed [`Config`].
//!
//! ```text
//! bytes -> Properties -> RawConfig (text and line numbers) --+
//! -D flags, JVMFLAGS -> SystemProperties -------------------+-> Config, or a ConfigError
//! myid, dynamic file, host names <- Surroundings ------------+
//! ```
//!
//! * The [`registry`] contains every fact about a setting once.
//! * A [`Config`] is checked as a whole and does not change afterwards. Absent settings are `None`,
//!   never -1.
//! * The registry also contains the effect of a setting ([`registry::Effect`]). A setting that
//!   requires a missing feature is among [`Config::refusals`], and prevents the start of a server.
//! * A refusal is a [`ConfigError`] with file, line, key, exit code, and Apache ZooKeeper's own
//!   sentence if it has one.
//! * Information about an accepted configuration is a [`Notice`]. The crate does not log anything
//!   itself.
//! * [`members`], [`membership`] and [`reconfig`] do not need a [`Config`]. A running server uses
//!   them to read, write and change member lists.
//!
//! The crate does not access files, names or the environment. Its caller passes [`Surroundings`].
//!
//! ```
//! use zoarium_config::{Config, NoSurroundings, RawConfig, SystemProperties};
//!
//! let text = b"dataDir=/var/lib/zookeeper\nclientPort=2181\n";
//! let raw = RawConfig::parse("zoo.cfg".as_ref(), text)?;
//! let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings)?;
//! assert_eq!(config.client.plain.unwrap().port, 2181);
//! assert!(config.ensemble.is_none());
//! # Ok::<(), zoarium_config::ConfigError>(())
//! ```
//!
//! Source: Java's QuorumPeerConfig.

// Files of operators may contain any text, and this text must not cause a panic.
#![warn(clippy::indexing_slicing)]

mod access;
#[expect(clippy::too_many_lines, reason = "one statement for each group")]
mod config;
mod error;
mod formats;
pub mod members;
pub mod membership;
pub mod reconfig;
pub mod registry;
mod report;
mod settings;
mod surroundings;

pub use access::auth::{Auth, AuthProvider, DigestAlgorithm};
pub use access::sasl::{KerberosKey, Sasl, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers};
pub use access::session_secrets::SessionSecret;
pub use access::tls::{ClientAuth, ClientTls, MemberCheckMode, QuorumTls, Store, StoreFormat, Tls};
pub use config::budgets::{Budget, BudgetClients, Network};
pub use config::ensemble::{
    ElectionSettings, Ensemble, LeaderSettings, LearnerSettings, MultiAddress, QuorumSasl,
};
pub use config::identity::version_of_file_name;
pub use config::limits::{
    ConnectionThrottle, LargeRequests, Limits, RequestThrottle, SessionWeights,
};
pub use config::operations::{
    Admin, AdminScheme, AuditSettings, ChangeHistory, FourLetterWords, Metrics, MetricsExporter,
    PauseMonitor,
};
pub use config::server::{ClientAddress, ClientListener, Containers, Features, Sessions};
pub use config::storage::{OnDigestMismatch, Purge, SnapshotCompression, Storage};
pub use config::traces::TraceExport;
pub use config::{Config, EMBEDDED_DATA_DIR, EMBEDDED_PORT};
pub use error::{ConfigError, exit_code};
pub use formats::raw::RawConfig;
pub use formats::system_properties::SystemProperties;
pub use formats::{env_file, jaas, kerberos, properties};
pub use proto::Secret;
pub use report::docs::render_markdown;
pub use report::effective::{Effective, ValueSource, effective};
pub use report::examine::{Examination, examine};
pub use report::origin::{Notice, NoticeLevel, Origin};
pub use report::review::GivenSetting;
pub use report::{explain, finding};
pub use surroundings::{NoSurroundings, Surroundings};
