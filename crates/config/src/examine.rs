//! All that is wrong with a configuration, and not only the first.
//!
//! A server that starts needs one reason to refuse, and Java gives one. Whoever prepares a start wants all of them: a
//! setting that is refused is left out, and the rest is looked at again, until nothing more is refused.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::ConfigError;
use crate::finding::{self, Finding, Severity};
use crate::membership::is_member_key;
use crate::origin::{Notice, Origin};
use crate::properties::MAX_BYTES;
use crate::raw::RawConfig;
use crate::registry::{cluster, core};
use crate::surroundings::Surroundings;
use crate::system_properties::SystemProperties;

/// What was found in a configuration.
#[derive(Debug)]
pub struct Examination {
    /// The configuration, without what was refused. Absent if nothing can be made of it.
    pub config: Option<Config>,
    /// Whether the member list was left out to come to [`Self::config`].
    pub lacks_members: bool,
    /// All findings: refusals first, each in the order of lines.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Whether a server could start with it, as far as the configuration says.
    pub fn is_accepted(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Blocker)
    }
}

/// Reads the file and those that it names, as [`Config::load`] does, and goes on behind what is refused.
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

/// The file as it stands.
///
/// # Errors
/// If it cannot be read or is no properties file.
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

/// Ticks in the place of a number that is refused.
const STAND_IN: &str = "10";

/// The machine, without what was refused.
struct Rest<'a> {
    machine: &'a mut dyn Surroundings,
    /// A `myid` that cannot be read: as if there were none.
    left_out: Option<PathBuf>,
}

impl Surroundings for Rest<'_> {
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        match self.left_out.as_deref() == Some(path) {
            true => Err(io::ErrorKind::NotFound.into()),
            false => self.machine.read(path, limit),
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

    /// Ends: each round leaves a setting out, and none is left out twice.
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

    /// What one round says, the next one says again.
    fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if finding.id != finding::NOTED && !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    /// Leaves out what was refused; false if there is nothing to leave out any more.
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
                // A member must have both: without a value the next thing to be said would be that it is missing.
                self.raw = match is_needed && self.raw.get(key) != Some(STAND_IN) {
                    true => self.raw.replacing(key, STAND_IN),
                    false => self.raw.without(|name| name == key),
                };
                return true;
            }
        }
        // Who is a member hangs together: one line less would make another ensemble of it.
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

/// A refusal that was told as a notice, since something else was refused before it.
fn as_blocker(notice: Notice) -> Finding {
    Finding {
        severity: Severity::Blocker,
        ..notice.into()
    }
}
