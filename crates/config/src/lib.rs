//! zoo.cfg, the dynamic configuration, `myid` and `-D` properties, as one typed [`Config`].
//!
//! ```text
//! bytes -> Properties -> RawConfig (text and line numbers) --+
//! -D flags, JVMFLAGS -> SystemProperties -------------------+-> Config, or a ConfigError
//! myid, dynamic file, host names <- Surroundings ------------+
//! ```
//!
//! * Every fact about a setting stands once, in the [`registry`].
//! * A [`Config`] is checked as a whole and is not changed after; settings that are absent are
//!   `None`, never -1.
//! * What becomes of a setting stands there, too ([`registry::Fate`]): what asks for something that
//!   is not there is among [`Config::refusals`], and no server starts with any.
//! * A refusal is a [`ConfigError`]: file, line, key, Apache ZooKeeper's own sentence where it has
//!   one, and its exit code.
//! * What was accepted but is worth a word is a [`Notice`]; the crate logs nothing itself.
//! * [`members`], [`membership`] and [`reconfig`] stand alone: a running server reads, writes and
//!   changes member lists with them.
//!
//! The crate reaches neither files nor names nor the environment: whoever loads a configuration
//! passes [`Surroundings`].
//!
//! ```
//! use config::{Config, Nowhere, RawConfig, SystemProperties};
//!
//! let text = b"dataDir=/var/lib/zookeeper\nclientPort=2181\n";
//! let raw = RawConfig::parse("zoo.cfg".as_ref(), text)?;
//! let config = Config::parse(raw, SystemProperties::new(), &mut Nowhere)?;
//! assert_eq!(config.client.plain.unwrap().port, 2181);
//! assert!(config.ensemble.is_none());
//! # Ok::<(), config::ConfigError>(())
//! ```
//!
//! Source: Java's QuorumPeerConfig.

#[expect(
    clippy::too_many_lines,
    reason = "`build` has one statement for each group of settings"
)]
mod config;
mod docs;
mod effective;
pub mod env_file;
mod error;
mod examine;
pub mod explain;
pub mod finding;
pub mod jaas;
mod java;
pub mod kerberos;
pub mod members;
pub mod membership;
mod origin;
pub mod properties;
mod raw;
pub mod reconfig;
pub mod registry;
mod review;
mod settings;
mod suggest;
mod surroundings;
mod system_properties;
mod verdicts;

pub use config::auth::{Auth, AuthProvider, DigestAlgorithm};
pub use config::budgets::{Budget, Network, Who};
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
pub use config::sasl::{KerberosKey, Sasl, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers};
pub use config::server::{ClientAddress, ClientListener, Containers, Features, Sessions};
pub use config::session_secrets::SessionSecret;
pub use config::storage::{OnDigestMismatch, Purge, SnapshotCompression, Storage};
pub use config::tls::{ClientAuth, ClientTls, MemberCheckMode, QuorumTls, Store, StoreFormat, Tls};
pub use config::traces::TraceExport;
pub use config::{Config, EMBEDDED_DATA_DIR, EMBEDDED_PORT};
pub use docs::render_markdown;
pub use effective::{Effective, Place, effective};
pub use error::{ConfigError, exit_code};
pub use examine::{Examination, examine};
pub use origin::{Notice, NoticeLevel, Origin};
pub use proto::Secret;
pub use raw::RawConfig;
pub use review::Given;

pub use surroundings::{Nowhere, Surroundings};
pub use system_properties::SystemProperties;
