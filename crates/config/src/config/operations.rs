//! Settings for operators: admin server, metrics, four-letter words, audit, pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proto::Sid;

pub use super::audit::AuditSettings;
use crate::error::ConfigError;
use crate::members::HostPort;
use crate::registry::Key;
use crate::registry::core::READ_ONLY_MODE_ENABLED;
use crate::registry::operations as keys;
use crate::settings::WrittenSettings;

/// Settings of the admin server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Whether the admin server is enabled.
    pub is_enabled: bool,
    /// Host to which the port is bound.
    pub address: String,
    /// Port of the admin server. If it is in use, the process exits with code 4.
    pub port: u16,
    /// Path prefix of the commands.
    pub command_url: String,
    /// Time after which an idle connection is closed, in milliseconds.
    pub idle_timeout_ms: u32,
    /// Protocols that the port accepts.
    pub scheme: AdminScheme,
    /// Whether clients with TLS must have a certificate.
    pub need_client_auth: bool,
    /// Whether clients can download a snapshot.
    pub snapshot_enabled: bool,
    /// Whether clients can restore a snapshot.
    pub restore_enabled: bool,
    /// Whether the console is available at `/`.
    pub console_enabled: bool,
    /// Host names under which browsers open the console.
    pub console_hosts: Vec<String>,
    /// Whether all commands are refused if the host name of the request is unknown.
    ///
    /// If false, only commands that change something are refused for an unknown host name.
    pub strict_host: bool,
    /// Admin addresses of the members that have a `zoarium.admin.N` key.
    pub member_ports: BTreeMap<Sid, HostPort>,
    /// Port that serves only health probes.
    pub health_port: Option<u16>,
    /// Minimum interval between two restores in milliseconds, and between two snapshots in
    /// microseconds.
    pub rate_limiter_interval_ms: u32,
}

/// Protocols that the admin port accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdminScheme {
    /// HTTP.
    Http,
    /// HTTP and HTTPS.
    Both,
    /// HTTPS.
    Https,
}

/// Settings of the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Export of the metrics.
    pub exporter: MetricsExporter,
}

/// Export of the metrics from the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsExporter {
    /// Through `mntr` and the admin server.
    Default,
    /// Java discards the metrics. Zoarium treats this value like `Default`.
    Null,
    /// Like `Default`, and over HTTP in the format of Prometheus.
    Prometheus {
        /// Host to which the port is bound.
        host: String,
        /// Port of the exporter.
        port: u16,
        /// Whether the metrics of the process are exported, too.
        export_process_info: bool,
    },
}

/// Enabled four-letter words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FourLetterWords {
    /// All known four-letter words.
    All,
    /// Only these words.
    Only(BTreeSet<String>),
}

/// Settings of the detector of process pauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseMonitor {
    /// Shortest pause that is logged as a warning, in milliseconds.
    pub warn_threshold_ms: u64,
    /// Shortest pause that is logged, in milliseconds.
    pub info_threshold_ms: u64,
    /// Interval between two checks of the clock, in milliseconds.
    pub sleep_time_ms: u64,
}

/// Settings of the change history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeHistory {
    /// Directory of the change history.
    pub dir: PathBuf,
    /// Patterns of paths to keep. An empty list means all paths.
    pub include: Vec<String>,
    /// Patterns of paths to omit.
    pub exclude: Vec<String>,
    /// Age above which changes are dropped, in milliseconds. 0 means unlimited.
    pub age_ms_max: i64,
    /// Size above which the oldest changes are dropped, in bytes. 0 means unlimited.
    pub bytes_max: u64,
    /// Size of data above which only size and hash are kept, in bytes.
    pub content_bytes_max: usize,
    /// Free space on the disk below which recording pauses, in bytes.
    pub free_bytes_min: u64,
}

impl Admin {
    /// Returns whether the admin port accepts HTTPS.
    pub fn speaks_tls(&self) -> bool {
        self.is_enabled && self.scheme != AdminScheme::Http
    }

    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
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
            member_ports: read_member_ports(settings)?,
            health_port: settings.port(&keys::HEALTH_PORT)?,
            rate_limiter_interval_ms: settings.int(&keys::ADMIN_RATE_LIMITER_INTERVAL)?,
        })
    }
}

/// Reads `zoarium.admin.N` of each member that has such a key.
fn read_member_ports(settings: &WrittenSettings) -> Result<BTreeMap<Sid, HostPort>, ConfigError> {
    let beginning = keys::ADMIN_OF_MEMBER.family().unwrap_or_default();
    let mut ports = BTreeMap::new();
    for found in settings.find_family(beginning, keys::ADMIN_OF_MEMBER.scope) {
        let id = found.key.strip_prefix(beginning).unwrap_or_default();
        let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
        let Some(sid) = id.parse().ok().filter(|_| is_number).map(Sid) else {
            let reason = format!("`{id}` is not the id of a member");
            let hint = "write zoarium.admin.3=host:port for server.3";
            return Err(found.refused(reason).hint(hint));
        };
        let Some(port) = HostPort::parse(&found.text) else {
            let reason = format!("`{}` is not host:port", found.text);
            let hint = "write host and admin port of the member, such as zk3:8080";
            return Err(found.refused(reason).hint(hint));
        };
        ports.insert(sid, port);
    }
    Ok(ports)
}

/// Returns the refusal of client certificates on a port without TLS. In Java the setting has no
/// effect in this case.
fn refused_client_auth(settings: &WrittenSettings) -> ConfigError {
    let reason = "requires certificates of admin clients, but the admin port does not use TLS";
    let error = match settings.find(&keys::ADMIN_NEED_CLIENT_AUTH) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    error.hint("add admin.forceHttps=true, or admin.portUnification=true to keep plain HTTP")
}

impl Metrics {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
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
    /// Returns whether a word, in lower case, is enabled.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => words.contains(word),
        }
    }

    /// Reads the enabled words. Source: Java's FourLetterCommands.isEnabled.
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
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
        // `zkServer.sh status` uses this word.
        words.insert("srvr".to_owned());
        Ok(Self::Only(words))
    }
}

impl PauseMonitor {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Option<Self>, ConfigError> {
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
    /// Reads the settings. Returns `None` if the history is disabled.
    pub(super) fn read(
        settings: &mut WrittenSettings,
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
    /// Reads the settings. Returns `None` if the audit log is disabled.
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Option<Self>, ConfigError> {
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

/// File name in ZooKeeper's conf/logback.xml.
const AUDIT_FILE_NAME: &str = "zookeeper_audit.log";

/// Reads a number of bytes with an optional unit. Source: logback's FileSize.
fn read_size(settings: &WrittenSettings, key: &Key) -> Result<u64, ConfigError> {
    let text = settings.text(key).unwrap_or_default();
    parse_size(&text).ok_or_else(|| {
        let reason = format!("`{text}` is not a size");
        let error = match settings.find(key) {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason),
        };
        error.hint("write a number above 0 followed by KB, MB or GB, such as 10MB")
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
    fn sizes_have_the_units_of_logback() {
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
