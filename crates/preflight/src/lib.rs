//! Checks of whether a server can start on an installation: its zoo.cfg, the files that zoo.cfg
//! names, and the machine.
//!
//! ```text
//! flags      the environment, -D, zookeeper-env.sh and java.env beside zoo.cfg
//! config     config::examine: every fault of the configuration
//! data       directories, permissions, space; logs, snapshots and epochs as a start reads them
//! processes  who holds the directories and the ports now
//! ports      taken, privileged, or used twice
//! members    addresses of the member list
//! limits     open files, memory, the clock
//! stores     keys and certificates
//! security   the checklist of docs/SECURITY.md, if requested
//! ```
//!
//! The checks do not change anything on disk, listen on a port, or execute lines of shell files.
//! Therefore they can run while a Java or Zoarium server is running. The code that a start uses
//! also interprets the configuration and the files here (`config`, `storage`, `datadir::survey`,
//! `server::start_checks`). This crate contains the remaining checks.

mod data;
pub mod finding;
mod flags;
mod limits;
mod network;
mod processes;
mod report;
mod security;
mod stores;

use std::path::Path;
use std::time::SystemTime;

use config::Surroundings;
use config::finding::{Finding, Severity};

pub use data::DataSummary;
pub use flags::{Flags, gather};
pub use processes::port_holder;
pub use report::{Report, Verdict, judge};
pub use security::{ChecklistItem, checklist};

use network::{members, names, ports};
use processes::Processes;

/// Input of the checks.
#[derive(Clone)]
pub struct Question<'a> {
    /// Path of zoo.cfg.
    pub config: &'a Path,
    /// `name=value` arguments of `-D` on the command line.
    pub definitions: &'a [String],
    /// Lookup of environment variables, which may contain flags.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Current time.
    pub now: SystemTime,
    /// Whether to include the checklist of docs/SECURITY.md.
    pub security: bool,
}

/// Runs all checks.
pub fn examine(question: &Question<'_>, surroundings: &mut dyn Surroundings) -> Report {
    let path = question.config;
    if let Some(fault) = not_a_file(path) {
        return judge(path, vec![fault], None);
    }
    let flags = gather(path, question.definitions, question.environment);
    let mut findings = flags.findings.clone();
    let examined = config::examine(path, flags.properties.clone(), surroundings);
    findings.extend(examined.findings.into_iter().map(|one| flags.placed(one)));
    let Some(config) = examined.config else {
        return judge(path, findings, None);
    };
    findings.extend(data::config_directory(path, &config));
    let dirs = data::directories(&config);
    let processes = Processes::scan(path, &dirs);
    let addresses = names::of_config(&config);
    let ports = ports::examine(&config, &processes, &addresses);
    findings.extend(ports.findings);
    let (of_data, summary) = data::examine(&config, &processes, ports.is_own);
    findings.extend(of_data);
    if !examined.lacks_members {
        findings.extend(members::examine(&config, &addresses));
    }
    findings.extend(limits::examine(&config, summary.as_ref(), question.now));
    findings.extend(stores::examine(&config, question.now));
    if let Err(error) = server::start_checks::check_audit(&config) {
        let found = Finding::new(finding::AUDIT_LOG, Severity::Blocker, error.to_string());
        findings.push(found.key("log.dir").way_out(
            "set log.dir to a directory that is writable for the server; zkServer.sh and the systemd unit set log.dir to ZOO_LOG_DIR",
        ));
    }
    let security = question.security.then(|| {
        let is_new = findings.iter().any(|found| found.id == finding::NEW);
        let of_data = summary.as_ref().and_then(|data| data.is_root_open);
        // The root of a new database is open to everyone.
        checklist(&config, of_data.or(is_new.then_some(true)))
    });
    let points = security.iter().flatten();
    findings.extend(points.filter_map(|point| point.open.clone()));
    Report {
        security: security.unwrap_or_default(),
        ..judge(path, findings, summary)
    }
}

/// Returns a finding if zoo.cfg is not a regular file. Opening a pipe, for example, could block
/// indefinitely.
fn not_a_file(path: &Path) -> Option<Finding> {
    let metadata = path.metadata().ok()?;
    let fault = Finding::new(
        config::finding::FILE,
        Severity::Blocker,
        format!("{} is not a file", path.display()),
    );
    (!metadata.is_file()).then(|| fault.way_out("name the file zoo.cfg itself"))
}
