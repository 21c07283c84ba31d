//! Checks of one data directory: its validity, its owner, its other files, and the free space.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::finding::{DATA_DIRECTORY, Finding, Severity};
use config::{Config, Origin};
use rustix::fs::{Access, access, statvfs};
use storage::FileName;

use crate::data::{DataSummary, number};
use crate::finding;

/// Names that servers, their scripts and file systems create in a data directory.
const BESIDE: &[&str] = &[
    "version-2",
    "myid",
    "initialize",
    "zoarium.lock",
    "zookeeper_server.pid",
    "history",
    "lost+found",
];
/// Names that may occur in `version-2`, in addition to logs and snapshots (even those that were set
/// aside).
const WITHIN: &[&str] = &[
    "currentEpoch",
    "acceptedEpoch",
    "zoarium.untrusted",
    "lost+found",
];
/// Suffixes of configuration files and output files.
const CONFIGURATION: &[&str] = &[
    ".cfg",
    ".conf",
    ".env",
    ".log",
    ".out",
    ".pid",
    ".properties",
    ".sh",
    ".xml",
];
/// First part of the names of logs and snapshots that were set aside, repaired, cut or not
/// completed.
const SET_ASIDE: &[&str] = &["aside", "damaged", "repaired", "chopped", "unfinished"];
/// Advice for missing permissions.
const AS_OWNER: &str = "run preflight and the server as the user that owns the data";
/// Maximum number of listed names. A directory of another program may contain very many files.
const NAMES_MAX: usize = 3;

/// Result of the check of one directory.
#[derive(Debug)]
pub(crate) struct DirectoryCheck {
    pub(crate) findings: Vec<Finding>,
    /// Whether the files can be read.
    pub(crate) is_usable: bool,
    /// Whether there are logs or snapshots.
    pub(crate) has_history: bool,
}

/// Checks `dataDir` or `dataLogDir`.
pub(crate) fn check_directory(dir: &Path) -> DirectoryCheck {
    let mut check = DirectoryCheck {
        findings: Vec::new(),
        is_usable: true,
        has_history: false,
    };
    if let Some(found) = fault_of(dir) {
        check.is_usable = false;
        check.findings.push(found);
        return check;
    }
    let within = dir.join("version-2");
    let has_version = within.is_dir();
    check.note_strangers(dir, BESIDE, !has_version);
    if !has_version {
        return check;
    }
    let files = match names(&within) {
        Ok(files) => files,
        Err(error) => {
            check.refuse(&within, format!("the directory cannot be read: {error}"));
            return check;
        }
    };
    check.has_history = files.iter().any(|name| is_history(name));
    check.note_strangers(&within, WITHIN, !check.has_history);
    check.check_rights(dir, &within, &files);
    check
}

impl DirectoryCheck {
    fn refuse(&mut self, path: &Path, problem: String) {
        self.is_usable = false;
        let found = Finding::new(finding::PERMISSIONS, Severity::Blocker, problem);
        let found = found.at(Some(Origin::file(path)));
        self.findings.push(found.way_out(AS_OWNER));
    }

    /// Reports files that servers do not create. `is_all` states that the directory does not
    /// contain data. The finding is then that the directory belongs to another program.
    fn note_strangers(&mut self, dir: &Path, known: &[&str], is_all: bool) {
        let strangers: Vec<String> = names(dir)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| !known.contains(&name.as_str()) && !is_known_file(name))
            .collect();
        if strangers.is_empty() {
            return;
        }
        let count = strangers.len();
        let mut shown = strangers
            .into_iter()
            .take(NAMES_MAX)
            .collect::<Vec<_>>()
            .join(", ");
        if count > NAMES_MAX {
            shown.push_str(&format!(" and {} more", count - NAMES_MAX));
        }
        let found = if is_all {
            Finding::new(
                finding::FOREIGN,
                Severity::Warning,
                format!("the directory contains files of another program instead of ZooKeeper's data: {shown}"),
            )
            .way_out("name the data directory of ZooKeeper, or an empty directory")
        } else {
            Finding::new(
                finding::STRAY,
                Severity::Note,
                format!("the directory contains files that servers do not read: {shown}"),
            )
        };
        self.findings.push(found.at(Some(Origin::file(dir))));
    }

    fn check_rights(&mut self, dir: &Path, within: &Path, files: &[String]) {
        let closed: Vec<&str> = files
            .iter()
            .filter(|name| {
                (is_history(name) || WITHIN.contains(&name.as_str())) && !within.join(name).is_dir()
            })
            .filter(|name| access(within.join(name), Access::READ_OK).is_err())
            .map(String::as_str)
            .collect();
        if let Some(first) = closed.first() {
            let problem = format!(
                "the user that runs preflight cannot read {}, for example {first}",
                number(closed.len() as u64, "file")
            );
            self.refuse(within, problem);
        }
        for path in [dir, within] {
            if !may_write(path) {
                let problem = "the directory is not writable for the user that runs preflight";
                let found = Finding::new(finding::PERMISSIONS, Severity::Blocker, problem);
                let found = found.at(Some(Origin::file(path)));
                self.findings
                    .push(found.way_out("start the server as the user that owns the data"));
            }
        }
        self.check_owners(within, files);
    }

    fn check_owners(&mut self, within: &Path, files: &[String]) {
        let metadata = |name: &String| fs::metadata(within.join(name)).ok();
        let all: Vec<Metadata> = files
            .iter()
            .filter_map(metadata)
            .chain(fs::metadata(within).ok())
            .collect();
        let owners: BTreeSet<u32> = all.iter().map(Metadata::uid).collect();
        let me = rustix::process::geteuid().as_raw();
        let named = owners
            .iter()
            .map(|id| user_name(*id))
            .collect::<Vec<_>>()
            .join(" and ");
        let place = || Some(Origin::file(within));
        if owners.len() > 1 {
            let problem = format!("the files have different owners: {named}");
            let found = Finding::new(finding::OWNER, Severity::Warning, problem).at(place());
            self.findings
                .push(found.way_out(
                    "make the user that runs the server the owner of all files: chown -R",
                ));
        } else if !owners.contains(&me) {
            let problem = format!(
                "the files belong to {named}, but {} runs preflight",
                user_name(me)
            );
            let found = Finding::new(finding::OWNER, Severity::Note, problem).at(place());
            self.findings.push(found.way_out(
                "start the server as the owner of the files; otherwise, new files will have another owner",
            ));
        }
        if all.iter().any(|metadata| metadata.mode() & 0o002 != 0) {
            let problem =
                "every user of this machine may write to the directory or to a file in it";
            let found = Finding::new(finding::OPEN, Severity::Warning, problem).at(place());
            self.findings
                .push(found.way_out("remove this permission: chmod -R o-w"));
        }
    }
}

/// Returns the fault of the directory itself, if any. A missing directory is not a fault if the
/// start can create it.
fn fault_of(dir: &Path) -> Option<Finding> {
    let found = |id, problem: String, way_out: &str| {
        let found = Finding::new(id, Severity::Blocker, problem);
        Some(found.at(Some(Origin::file(dir))).way_out(way_out))
    };
    match dir.metadata() {
        Ok(metadata) if metadata.is_dir() => names(dir).err().and_then(|error| {
            let problem = format!("the directory cannot be read: {error}");
            found(finding::PERMISSIONS, problem, AS_OWNER)
        }),
        Ok(_) => found(
            DATA_DIRECTORY,
            "the path does not name a directory".to_owned(),
            "move the file away, or name another directory",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = dir.ancestors().skip(1).find(|parent| parent.exists());
            if parent.is_none_or(may_write) {
                return None;
            }
            found(
                finding::PERMISSIONS,
                "the directory does not exist, and the user that runs preflight cannot create it"
                    .to_owned(),
                "create the directory, and make the user that runs the server its owner",
            )
        }
        Err(error) => found(
            DATA_DIRECTORY,
            format!("the directory cannot be used: {error}"),
            "correct the path, or the permissions of the directories in it",
        ),
    }
}

/// Checks the free space for the next log and two more snapshots.
pub(crate) fn space(config: &Config, summary: &DataSummary) -> Vec<Finding> {
    let log_bytes = (config.storage.prealloc_kb << 10).max(1 << 20);
    let needs = [
        (&config.data_log_dir, log_bytes, log_bytes),
        (
            &config.data_dir,
            0,
            summary.newest_snapshot_bytes.saturating_mul(2),
        ),
    ];
    let mut findings = Vec::new();
    for (dir, least, good) in needs {
        let Ok(disk) = statvfs(dir) else { continue };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let severity = match free {
            _ if free < least => Severity::Blocker,
            _ if free < good => Severity::Warning,
            _ => continue,
        };
        let problem = format!(
            "the disk has {} MiB of free space, but {} MiB are recommended",
            free >> 20,
            good.div_ceil(1 << 20)
        );
        let found = Finding::new(finding::SPACE, severity, problem).at(Some(Origin::file(dir)));
        findings.push(found.way_out("free some space: a server without space for its log stops"));
    }
    findings
}

/// Returns whether the current user may create files in the directory.
pub(crate) fn may_write(dir: &Path) -> bool {
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn is_history(name: &str) -> bool {
    let parsed = FileName::parse(name);
    parsed.zxid.is_some() && ["log", "snapshot"].contains(&parsed.prefix)
}

/// Returns whether the file may be next to the data. Permits logs and snapshots (even those that
/// were set aside), temporary files of a server, and files that users and tools often store there.
fn is_known_file(name: &str) -> bool {
    let parsed = FileName::parse(name);
    ["log", "snapshot"].contains(&parsed.prefix)
        || SET_ASIDE.contains(&parsed.prefix)
        || name.starts_with("zookeeper_audit.log")
        // File systems and package tools create these names.
        || name.starts_with('.')
        // Many users keep their configuration and output next to the data.
        || name.starts_with("zoo")
        || CONFIGURATION.iter().any(|ending| name.ends_with(ending))
        || ["currentEpoch.tmp", "acceptedEpoch.tmp"].contains(&name)
}

/// Returns the name of a user, or `user N` if the user with the number N does not have a name.
fn user_name(id: u32) -> String {
    let users = fs::read_to_string(PathBuf::from("/etc/passwd")).unwrap_or_default();
    let number = id.to_string();
    let mut lines = users.lines().map(|line| line.split(':'));
    let name = lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {number}"))
}
