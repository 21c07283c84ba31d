//! What operators look at: admin server, metrics, four-letter words, audit, pauses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::registry::Key;
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
    /// Clients that speak TLS must show a certificate.
    pub need_client_auth: bool,
    /// A snapshot can be fetched.
    pub snapshot_enabled: bool,
    /// A snapshot can be restored.
    pub restore_enabled: bool,
    /// The console is at `/`.
    pub console_enabled: bool,
    /// Names that browsers reach the console by.
    pub console_hosts: Vec<String>,
    /// Commands are refused under a name that is not known.
    pub strict_host: bool,
    /// Port of the probes alone.
    pub health_port: Option<u16>,
    /// Time in which one restore is taken, in milliseconds; for a snapshot it counts as microseconds.
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

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file; full ones are beside it, with a number behind their names.
    pub file: PathBuf,
    /// Only what was refused is written.
    pub failures_only: bool,
    /// Size from which on a file is full, in bytes.
    pub file_bytes_max: u64,
    /// Full files that are kept.
    pub files_kept: u32,
    /// Lines that may wait for the file.
    pub queue_lines: usize,
    /// Lines are lost, and counted, when too many wait; else requests wait.
    pub never_blocks: bool,
}

/// The change history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeHistory {
    /// Its directory.
    pub dir: PathBuf,
    /// Patterns of paths that are kept; all if empty.
    pub include: Vec<String>,
    /// Patterns of paths that are not.
    pub exclude: Vec<String>,
    /// Age from which on changes are dropped, in milliseconds; 0 is any.
    pub age_ms_max: i64,
    /// Size from which on the oldest are dropped, in bytes; 0 is any.
    pub bytes_max: u64,
    /// Size of data beyond which only size and hash are kept, in bytes.
    pub content_bytes_max: usize,
    /// Free space on the disk that is left to others, in bytes.
    pub free_bytes_min: u64,
}

impl Admin {
    /// Whether its port takes HTTPS.
    pub fn speaks_tls(&self) -> bool {
        self.is_enabled && self.scheme != AdminScheme::Http
    }

    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let is_unified = settings.flag(&keys::ADMIN_PORT_UNIFICATION)?;
        let is_forced = settings.flag(&keys::ADMIN_FORCE_HTTPS)?;
        let is_enabled = !settings.is_special(&keys::ADMIN_ENABLE_SERVER);
        let need_client_auth = settings.flag(&keys::ADMIN_NEED_CLIENT_AUTH)?;
        if is_enabled && need_client_auth && !is_forced && !is_unified {
            return Err(refused_client_auth(settings));
        }
        Ok(Self {
            is_enabled,
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
            need_client_auth,
            snapshot_enabled: settings.flag(&keys::ADMIN_SNAPSHOT_ENABLED)?,
            restore_enabled: settings.flag(&keys::ADMIN_RESTORE_ENABLED)?,
            console_enabled: settings.flag(&keys::ADMIN_CONSOLE_ENABLED)?,
            console_hosts: settings
                .list(&keys::ADMIN_CONSOLE_HOSTS)
                .unwrap_or_default(),
            strict_host: settings.flag(&keys::ADMIN_STRICT_HOST)?,
            health_port: settings.port(&keys::HEALTH_PORT)?,
            rate_limiter_interval_ms: settings.int(&keys::ADMIN_RATE_LIMITER_INTERVAL)?,
        })
    }
}

/// In Java it has no effect then.
fn refused_client_auth(settings: &Settings) -> ConfigError {
    let reason = "asks for certificates of admin clients, and the admin port speaks no TLS";
    let error = match settings.find(&keys::ADMIN_NEED_CLIENT_AUTH) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    error.hint("add admin.forceHttps=true, or admin.portUnification=true beside plain HTTP")
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
        Ok(Self { exporter })
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

impl ChangeHistory {
    /// `None` if none is kept.
    pub(super) fn read(
        settings: &mut Settings,
        data_dir: &Path,
    ) -> Result<Option<Self>, ConfigError> {
        if !settings.flag(&keys::HISTORY_ENABLED)? {
            return Ok(None);
        }
        let hours: u32 = settings.int(&keys::HISTORY_KEEP_HOURS)?;
        let megabytes: u32 = settings.int(&keys::HISTORY_MAX_MEGABYTES)?;
        let content_kb: u32 = settings.int(&keys::HISTORY_MAX_CONTENT_KB)?;
        let free: u32 = settings.int(&keys::HISTORY_MIN_FREE_MEGABYTES)?;
        let dir = settings.path(&keys::HISTORY_DIR);
        Ok(Some(Self {
            dir: dir.unwrap_or_else(|| data_dir.join("history")),
            include: settings.list(&keys::HISTORY_INCLUDE).unwrap_or_default(),
            exclude: settings.list(&keys::HISTORY_EXCLUDE).unwrap_or_default(),
            age_ms_max: i64::from(hours) * 3_600_000,
            bytes_max: u64::from(megabytes) << 20,
            content_bytes_max: (content_kb as usize) << 10,
            free_bytes_min: u64::from(free) << 20,
        }))
    }
}

impl AuditSettings {
    /// `None` without an audit log.
    pub(super) fn read(settings: &mut Settings) -> Result<Option<Self>, ConfigError> {
        if !settings.flag(&keys::AUDIT_ENABLE)? {
            return Ok(None);
        }
        let dir = settings.path(&keys::LOG_DIR).unwrap_or_default();
        let file = settings.path(&keys::AUDIT_FILE);
        Ok(Some(Self {
            file: dir.join(file.unwrap_or_else(|| AUDIT_FILE_NAME.into())),
            failures_only: settings.choice(&keys::AUDIT_THRESHOLD)? == Some("ERROR"),
            file_bytes_max: read_size(settings, &keys::AUDIT_FILE_SIZE)?,
            files_kept: settings.int(&keys::AUDIT_FILES_KEPT)?,
            queue_lines: settings.int(&keys::AUDIT_QUEUE_SIZE)?,
            never_blocks: settings.flag(&keys::AUDIT_NEVER_BLOCK)?,
        }))
    }
}

/// The name that conf/logback.xml of ZooKeeper has.
const AUDIT_FILE_NAME: &str = "zookeeper_audit.log";

/// A number of bytes with a unit or none. Source: logback's FileSize.
fn read_size(settings: &Settings, key: &Key) -> Result<u64, ConfigError> {
    let text = settings.text(key).unwrap_or_default();
    parse_size(&text).ok_or_else(|| {
        let reason = format!("`{text}` is no size");
        let error = match settings.find(key) {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason),
        };
        error.hint("write a number above 0 with KB, MB or GB behind it, such as 10MB")
    })
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit: u64 = match text.strip_prefix(digits)?.trim() {
        "" => 1,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_logbacks() {
        for (text, bytes) in [
            ("10MB", Some(10 << 20)),
            ("5 kb", Some(5 << 10)),
            ("1g", Some(1 << 30)),
            ("77", Some(77)),
            ("0", None),
            ("", None),
            ("MB", None),
            ("-1MB", None),
            ("1TB", None),
            ("99999999999999999999", None),
            ("18446744073709551615GB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }
}
