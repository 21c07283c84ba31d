//! Search for all errors in a configuration, instead of only the first error.
//!
//! A server needs one reason to refuse a start, and Java reports one. An operator who prepares a
//! start needs all reasons. This module omits a refused setting and checks the rest again, until
//! all refusals are found.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::finding::{self, Finding, Severity};
use super::origin::{Notice, Origin};
use crate::config::Config;
use crate::error::ConfigError;
use crate::formats::properties::MAX_BYTES;
use crate::formats::raw::RawConfig;
use crate::formats::system_properties::SystemProperties;
use crate::membership::is_member_key;
use crate::registry::{cluster, core};
use crate::surroundings::Surroundings;

/// Result of an examination.
#[derive(Debug)]
pub struct Examination {
    /// Configuration without the refused settings. Absent if the rest is unusable.
    pub config: Option<Config>,
    /// Whether the member list was omitted to obtain [`Self::config`].
    pub lacks_members: bool,
    /// All findings, most severe first. Findings of one severity are in the order of the lines.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Returns whether the configuration permits a server to start.
    pub fn is_accepted(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Blocker)
    }
}

/// Reads the file and the files that it names, like [`Config::load`], but continues after a
/// refusal.
pub fn examine(
    path: &Path,
    flags: SystemProperties,
    surroundings: &mut dyn Surroundings,
) -> Examination {
    match read(path, surroundings) {
        Ok(raw) => Examiner::new(raw, flags).examine(surroundings),
        Err(error) => Examination {
            config: None,
            lacks_members: false,
            findings: vec![error.into()],
        },
    }
}

/// Reads the file without interpreting its settings.
///
/// # Errors
/// If the file is unreadable or is not a properties file.
pub(crate) fn read(
    path: &Path,
    surroundings: &mut dyn Surroundings,
) -> Result<RawConfig, ConfigError> {
    let bytes = surroundings.read(path, MAX_BYTES).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => format!("{} file is missing", path.display()),
            _ => format!("Error processing {}: {error}", path.display()),
        };
        ConfigError::new(reason).with_id(finding::FILE)
    })?;
    RawConfig::parse(path, &bytes)
}

/// Number of ticks that replaces a refused `initLimit` or `syncLimit`.
const STAND_IN: &str = "10";

/// Surroundings in which a refused `myid` is missing.
struct Rest<'a> {
    machine: &'a mut dyn Surroundings,
    /// Path of the refused `myid`.
    left_out: Option<PathBuf>,
}

impl Surroundings for Rest<'_> {
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        if self.left_out.as_deref() == Some(path) {
            Err(io::ErrorKind::NotFound.into())
        } else {
            self.machine.read(path, limit)
        }
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        self.machine.resolve(host)
    }

    fn has_gssapi(&self) -> bool {
        self.machine.has_gssapi()
    }
}

struct Examiner {
    raw: RawConfig,
    flags: SystemProperties,
    lacks_members: bool,
    findings: Vec<Finding>,
}

impl Examiner {
    fn new(raw: RawConfig, flags: SystemProperties) -> Self {
        Self {
            raw,
            flags,
            lacks_members: false,
            findings: Vec::new(),
        }
    }

    /// Runs rounds until the configuration is accepted or cannot be reduced further. Terminates,
    /// because each round omits or replaces a setting.
    fn examine(mut self, surroundings: &mut dyn Surroundings) -> Examination {
        let mut rest = Rest {
            machine: surroundings,
            left_out: None,
        };
        let config = loop {
            match Config::parse(self.raw.clone(), self.flags.clone(), &mut rest) {
                Ok(config) => {
                    self.add(config.notices.iter().cloned().map(Finding::from));
                    self.add(config.refusals.iter().cloned().map(Finding::from));
                    break Some(config);
                }
                Err(error) => {
                    let (refusals, notices): (Vec<_>, Vec<_>) = error
                        .notices()
                        .iter()
                        .cloned()
                        .partition(|notice| notice.id == finding::NOT_THERE);
                    self.add(notices.into_iter().map(Finding::from));
                    let goes_on = self.leave_out(&error);
                    if error.id() == finding::MY_ID {
                        rest.left_out = error.file().map(Path::to_owned);
                    }
                    self.add([error.into()]);
                    if !goes_on {
                        self.add(refusals.into_iter().map(as_blocker));
                        break None;
                    }
                }
            }
        };
        let mut findings = self.findings;
        findings.sort_by_key(|finding| (finding.severity, finding.line()));
        Examination {
            config,
            lacks_members: self.lacks_members,
            findings,
        }
    }

    /// Adds new findings. Each round repeats the findings of the previous one.
    fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if finding.id != finding::NOTED && !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    /// Omits or replaces the refused setting, or omits the member list. Returns false if nothing
    /// can be omitted.
    fn leave_out(&mut self, error: &ConfigError) -> bool {
        if let Some(key) = &error.key {
            if *key == core::DATA_DIR.name {
                return false;
            }
            let is_member = is_member_key(key) || *key == cluster::DYNAMIC_CONFIG_FILE.name;
            if let Some(property) = key.strip_prefix("-D")
                && self.flags.remove(property)
            {
                return true;
            }
            let is_of_file = |origin: &Origin| matches!(origin, Origin::File { path, .. } if path == self.raw.path());
            let is_here = error.origin.as_ref().is_some_and(is_of_file);
            if !is_member && is_here && self.raw.get(key).is_some() {
                let needed = [&cluster::INIT_LIMIT, &cluster::SYNC_LIMIT];
                let is_needed = needed.iter().any(|needed| needed.name == key);
                // A member needs both settings. Without a value, the next round would report the
                // setting as missing.
                self.raw = if is_needed && self.raw.get(key) != Some(STAND_IN) {
                    self.raw.replacing(key, STAND_IN)
                } else {
                    self.raw.without(|name| name == key)
                };
                return true;
            }
        }
        // The lines of the member list depend on each other. Without one of them, the list
        // describes another ensemble.
        let was_complete = !std::mem::replace(&mut self.lacks_members, true);
        let of_members = [
            cluster::DYNAMIC_CONFIG_FILE.name,
            cluster::PEER_TYPE.name,
            core::STANDALONE_ENABLED.name,
        ];
        self.raw = self
            .raw
            .without(|name| is_member_key(name) || of_members.contains(&name));
        was_complete
    }
}

/// Converts a notice to a finding that blocks the start. The notice is a refusal that preceded an
/// error.
fn as_blocker(notice: Notice) -> Finding {
    Finding {
        severity: Severity::Blocker,
        ..notice.into()
    }
}
