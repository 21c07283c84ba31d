//! Settings of the interfaces for operators, which a seed draws.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proto::Sid;
use testkit::Random;

use crate::addresses::{EXPORTER_PORT, HEALTH_PORT, address_of};

/// Password of the super user. The configuration contains its digest.
pub(crate) const SUPER: &str = "super:secret";
/// Digest of `super:secret`, in the form of `superDigest`.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
/// Credential in each member's file `admin-token`.
const TOKEN: &str = "admin-token:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Beginning of the names of znodes that only their owner may read.
pub(super) const OWNED: &str = "/owned";

/// Number in place of a member's id in the address of the collector of traces.
const COLLECTOR: Sid = Sid(200);
const COLLECTOR_PORT: u16 = 4318;
/// Path of the collector.
pub(super) const COLLECTOR_PATH: &str = "/v1/traces";

/// Returns the address of the collector of traces.
pub(super) fn collector() -> SocketAddr {
    SocketAddr::new(address_of(COLLECTOR), COLLECTOR_PORT)
}

/// Settings of the interfaces for operators.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(super) has_history: bool,
    pub(super) has_exporter: bool,
    pub(super) has_console: bool,
    pub(super) has_traces: bool,
    /// Whether operators reset the statistics. Counters may then fall.
    pub(super) are_reset: bool,
    has_audit: bool,
    /// Lines of zoo.cfg for all members.
    lines: String,
}

impl Settings {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut lines = String::new();
        let mut add = |key: &str, value: &str| lines.push_str(&format!("{key}={value}\n"));
        let has_history = random.percent(60);
        if has_history {
            add("history.enabled", "true");
            // A run does not depend on the free space of the machine.
            add("history.minFreeMegabytes", "0");
        }
        let has_audit = random.percent(50);
        if has_audit {
            add("audit.enable", "true");
            let size = random.pick(&["4KB", "20KB", "10MB"]).unwrap_or("4KB");
            add("auditlog.maxfilesize", size);
            add("auditlog.maxbackupindex", &random.range(1, 4).to_string());
            add("auditlog.queueSize", &random.range(1, 1000).to_string());
            add("auditlog.neverBlock", &random.percent(50).to_string());
        }
        if random.percent(50) {
            add(
                "auth.maxFailuresPerMinute",
                &random.range(1, 20).to_string(),
            );
        }
        let has_console = random.percent(80);
        add("admin.console.enabled", &has_console.to_string());
        if random.percent(30) {
            add("admin.strictHost", "true");
        }
        add("admin.idleTimeout", &random.range(500, 40_000).to_string());
        let interval = random.pick(&["0", "1000", "300000"]).unwrap_or("0");
        add("admin.rateLimiterIntervalInMS", interval);
        if random.percent(50) {
            let threshold = random.range(1, 1000);
            add("zoarium.slowRequestThresholdMs", &threshold.to_string());
        }
        let has_traces = random.percent(50);
        if has_traces {
            add(
                "zoarium.traces.endpoint",
                &format!("http://{}{COLLECTOR_PATH}", collector()),
            );
            add("zoarium.traces.every", &random.range(1, 4).to_string());
        }
        add("DigestAuthenticationProvider.superDigest", SUPER_DIGEST);
        Self {
            has_history,
            has_exporter: random.percent(60),
            are_reset: random.percent(40),
            has_console,
            has_traces,
            has_audit,
            lines,
        }
    }

    /// Returns the settings of a run without operators.
    pub(crate) fn none() -> Self {
        Self {
            has_history: false,
            has_exporter: false,
            are_reset: false,
            has_console: false,
            has_traces: false,
            has_audit: false,
            lines: String::new(),
        }
    }

    /// Returns the lines of zoo.cfg of a member.
    pub(crate) fn lines(&self, member: Sid, data_dir: &Path) -> String {
        let mut lines = self.lines.clone();
        let mut add = |key: &str, value: &str| lines.push_str(&format!("{key}={value}\n"));
        let address = address_of(member).to_string();
        add("zoarium.health.port", &HEALTH_PORT.to_string());
        if self.has_audit {
            let file = data_dir.join("audit.log");
            add("auditlog.file", &file.display().to_string());
        }
        if self.has_exporter {
            let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
            add("metricsProvider.className", class);
            add("metricsProvider.httpHost", &address);
            add("metricsProvider.httpPort", &EXPORTER_PORT.to_string());
        }
        lines
    }

    /// Writes the credential of administrators into the directory of a member.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn prepare(data_dir: &Path) -> io::Result<()> {
        fs::create_dir_all(data_dir)?;
        let file = data_dir.join("admin-token");
        fs::write(&file, format!("{TOKEN}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
    }
}

/// Sender of a request, as the header `Authorization` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Anonymous,
    /// Digest that no ACL contains.
    Stranger,
    SuperUser,
    Administrator,
}

impl Caller {
    /// Returns the value of the header.
    pub(super) fn authorization(self) -> Option<String> {
        let digest = match self {
            Self::Anonymous => return None,
            Self::Stranger => "stranger:guess",
            Self::SuperUser => SUPER,
            Self::Administrator => TOKEN,
        };
        Some(format!("digest {digest}"))
    }

    pub(super) fn is_administrator(self) -> bool {
        matches!(self, Self::SuperUser | Self::Administrator)
    }
}
