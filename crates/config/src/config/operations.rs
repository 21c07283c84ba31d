//! What operators look at: admin server, metrics, four-letter words, audit, pauses.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ConfigError;
use crate::registry::core::READ_ONLY_MODE_ENABLED;
use crate::registry::operations as keys;
use crate::settings::Settings;

/// The admin server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Whether there is one.
    pub is_enabled: bool,
    /// Host to listen at.
    pub address: String,
    /// Port to listen at; busy ends the process with code 4.
    pub port: u16,
    /// Path that the commands are below.
    pub command_url: String,
    /// Time after which a silent connection is closed, in milliseconds.
    pub idle_timeout_ms: u32,
    /// What the port takes.
    pub scheme: AdminScheme,
    /// Clients must show a certificate.
    pub need_client_auth: bool,
    /// A snapshot can be fetched.
    pub snapshot_enabled: bool,
    /// A snapshot can be restored.
    pub restore_enabled: bool,
    /// Time in which one snapshot and one restore are taken, in milliseconds.
    pub rate_limiter_interval_ms: u32,
}

/// What the admin port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdminScheme {
    /// HTTP.
    Http,
    /// HTTP and HTTPS.
    Both,
    /// HTTPS.
    Https,
}

/// Metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// How they leave the process.
    pub exporter: MetricsExporter,
    /// All settings `metricsProvider.<name>` by name, `className` excepted.
    pub options: BTreeMap<String, String>,
}

/// How metrics leave the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsExporter {
    /// Through `mntr` and the admin server.
    Default,
    /// There are none.
    Null,
    /// By HTTP as well, in Prometheus' format.
    Prometheus {
        /// Host to listen at.
        host: String,
        /// Port to listen at.
        port: u16,
        /// Metrics of the process are exported too.
        export_process_info: bool,
    },
}

/// The four-letter words that are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FourLetterWords {
    /// All known ones.
    All,
    /// These.
    Only(BTreeSet<String>),
}

/// The detector of pauses of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseMonitor {
    /// Pause that is logged as a warning, in milliseconds.
    pub warn_threshold_ms: u64,
    /// Pause that is logged, in milliseconds.
    pub info_threshold_ms: u64,
    /// Time between two looks at the clock, in milliseconds.
    pub sleep_time_ms: u64,
}

impl Admin {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let is_unified = settings.flag(&keys::ADMIN_PORT_UNIFICATION)?;
        let is_forced = settings.flag(&keys::ADMIN_FORCE_HTTPS)?;
        Ok(Self {
            is_enabled: !settings.is_special(&keys::ADMIN_ENABLE_SERVER),
            address: settings
                .some_text(&keys::ADMIN_SERVER_ADDRESS)
                .unwrap_or_default(),
            port: settings.int(&keys::ADMIN_SERVER_PORT)?,
            command_url: settings.text(&keys::ADMIN_COMMAND_URL).unwrap_or_default(),
            idle_timeout_ms: settings.int(&keys::ADMIN_IDLE_TIMEOUT)?,
            scheme: match (is_forced, is_unified) {
                (true, _) => AdminScheme::Https,
                (false, true) => AdminScheme::Both,
                (false, false) => AdminScheme::Http,
            },
            need_client_auth: settings.flag(&keys::ADMIN_NEED_CLIENT_AUTH)?,
            snapshot_enabled: settings.flag(&keys::ADMIN_SNAPSHOT_ENABLED)?,
            restore_enabled: settings.flag(&keys::ADMIN_RESTORE_ENABLED)?,
            rate_limiter_interval_ms: settings.int(&keys::ADMIN_RATE_LIMITER_INTERVAL)?,
        })
    }
}

impl Metrics {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let class = settings.text(&keys::METRICS_CLASS_NAME).unwrap_or_default();
        let exporter = match class.as_str() {
            keys::DEFAULT_CLASS => MetricsExporter::Default,
            keys::NULL_CLASS => MetricsExporter::Null,
            keys::PROMETHEUS_CLASS => MetricsExporter::Prometheus {
                host: settings
                    .some_text(&keys::METRICS_HTTP_HOST)
                    .unwrap_or_default(),
                port: settings.int(&keys::METRICS_HTTP_PORT)?,
                export_process_info: settings
                    .text(&keys::METRICS_EXPORT_JVM_INFO)
                    .is_some_and(|text| text.eq_ignore_ascii_case("true")),
            },
            _ => {
                let reason = "metrics provider class was not found";
                let error = match settings.find(&keys::METRICS_CLASS_NAME) {
                    Some(found) => found.refused(reason),
                    None => ConfigError::new(reason),
                };
                return Err(error.hint(format!("choose {}", keys::DEFAULT_CLASS)));
            }
        };
        let options = settings
            .raw
            .settings()
            .into_iter()
            .filter(|(name, _)| *name != keys::METRICS_CLASS_NAME.name)
            .filter_map(|(name, setting)| {
                let option = name.strip_prefix("metricsProvider.")?;
                Some((option.to_owned(), setting.value.clone()))
            })
            .collect();
        Ok(Self { exporter, options })
    }
}

impl FourLetterWords {
    /// Whether a word, in lower case, is answered.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => words.contains(word),
        }
    }

    /// Source: Java's FourLetterCommands.isEnabled.
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let mut words: BTreeSet<String> = settings
            .list(&keys::FOUR_LETTER_WORDS)
            .unwrap_or_default()
            .into_iter()
            .collect();
        if words.contains("*") {
            return Ok(Self::All);
        }
        if settings.flag(&READ_ONLY_MODE_ENABLED)? {
            words.insert("isro".to_owned());
        }
        // zkServer.sh status asks for it.
        words.insert("srvr".to_owned());
        Ok(Self::Only(words))
    }
}

impl PauseMonitor {
    pub(super) fn read(settings: &mut Settings) -> Result<Option<Self>, ConfigError> {
        if !settings.flag(&keys::JVM_PAUSE_MONITOR)? {
            return Ok(None);
        }
        Ok(Some(Self {
            warn_threshold_ms: settings.int(&keys::JVM_PAUSE_WARN)?,
            info_threshold_ms: settings.int(&keys::JVM_PAUSE_INFO)?,
            sleep_time_ms: settings.int(&keys::JVM_PAUSE_SLEEP)?,
        }))
    }
}

pub(super) fn read_audit(settings: &mut Settings) -> Result<bool, ConfigError> {
    settings.flag(&keys::AUDIT_ENABLE)
}
