//! Legs: each leg of a series continues with the data directories and the history of the leg before
//! it, on the same commit.
//!
//! ```text
//! members/   the members' directories during a leg
//! saved-N/   their copy after leg N, with which the next leg begins
//! ```
//!
//! An interrupted leg does not count. The next leg begins with the last saved copy, and with the
//! history up to that time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use tests::workspace_root;

use super::record::names;
use super::{HISTORY, Options, Record, RunError, make_empty};
use crate::history::{End, Recorder};
use crate::verdict::Validity;

/// Maximum duration of the load of a leg.
pub const LENGTH_MAX: Duration = Duration::from_secs(150 * 60);
/// Directory with the members' directories.
const MEMBERS: &str = "members";

/// A completed leg.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Leg {
    /// Commit of the sources.
    pub commit: String,
    /// Seed of all choices.
    pub seed: u64,
    /// Faults that were made.
    pub nemeses: Vec<String>,
    /// Duration of the load, in seconds.
    pub seconds: u64,
    /// Number of faults of each kind.
    pub faults: BTreeMap<String, u64>,
    /// Number of acknowledged calls of the leg.
    pub acknowledged: u64,
    /// Verdict about the history up to the end of the leg.
    pub validity: Validity,
    /// Verdict of porcupine about the same history.
    pub porcupine: Option<String>,
    /// Number of the members' network, on which their addresses depend.
    pub network: Option<u8>,
    /// End of the leg in the history.
    pub end: End,
}

/// The legs before this one.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) legs: Vec<Leg>,
}

impl Earlier {
    /// Restores the state after the last completed leg.
    ///
    /// # Errors
    /// If the directory contains something else, or this leg does not continue the series.
    pub(super) fn restore(options: &Options) -> Result<Earlier, RunError> {
        fs::create_dir_all(&options.out).map_err(RunError::Directory)?;
        let Ok(record) = Record::load(&options.out) else {
            make_empty(&options.out)?;
            return Ok(Earlier::default());
        };
        let not_legs = || RunError::Leg("the directory contains a run without legs".to_owned());
        let legs = record.legs.clone().ok_or_else(not_legs)?;
        let members = options.out.join(MEMBERS);
        if members.exists() {
            fs::remove_dir_all(&members).map_err(RunError::Directory)?;
        }
        if let Some(last) = legs.last() {
            continues(options, &record, last)?;
            copy(&saved(&options.out, legs.len()), &members).map_err(RunError::Directory)?;
        }
        Ok(Earlier { legs })
    }

    /// Returns the recorder of the history, which continues after the last leg.
    pub(super) fn recorder(&self, out: &Path) -> io::Result<Recorder> {
        let path = out.join(HISTORY);
        match self.legs.last() {
            Some(last) => Recorder::resume(&path, last.end),
            None => Recorder::create(&path),
        }
    }

    /// Returns the number of events before this leg.
    pub(super) fn events(&self) -> u64 {
        self.legs.last().map_or(0, |last| last.end.events)
    }

    /// Returns the first process number. No client of an earlier leg has used a greater number,
    /// neither as its process nor in the data of its writes.
    pub(super) fn first_process(&self, processes: u64) -> u64 {
        match self.events() {
            0 => 0,
            // Even, because some workloads use the parity of a number.
            events => (events / 2 + 1) * 2 * processes,
        }
    }

    /// Returns the number of calls that were acknowledged before this leg.
    pub(super) fn acknowledged(&self) -> u64 {
        self.legs.iter().map(|leg| leg.acknowledged).sum()
    }
}

/// Checks that a leg with these options continues the series.
fn continues(options: &Options, record: &Record, last: &Leg) -> Result<(), RunError> {
    let settings = options.plan()?.settings;
    let pairs = [
        ("workload", record.workload == options.workload.name()),
        ("list of members", record.members == options.members),
        ("protection", record.security == names(options.security)),
        ("settings", record.settings == settings),
        ("number of clients", record.clients == options.clients),
        ("commit", last.commit == commit()),
    ];
    if let Some((what, _)) = pairs.iter().find(|(_, is_equal)| !is_equal) {
        let text = format!("the earlier legs have another {what}");
        return Err(RunError::Leg(text));
    }
    if last.validity == Validity::Invalid {
        let text = "the history of the earlier legs is not valid".to_owned();
        return Err(RunError::Leg(text));
    }
    Ok(())
}

/// Returns the directory of the members' directories during a leg.
pub(super) fn members(out: &Path) -> PathBuf {
    out.join(MEMBERS)
}

fn saved(out: &Path, legs: usize) -> PathBuf {
    out.join(format!("saved-{legs}"))
}

/// Copies the members' directories after this number of legs. No member may run. Copies of earlier
/// legs are removed by [`remove_older`] after the record contains the new leg.
pub(super) fn save(out: &Path, legs: usize) -> io::Result<()> {
    copy(&members(out), &saved(out, legs))
}

/// Removes the copy before the last one.
pub(super) fn remove_older(out: &Path, legs: usize) {
    // The first leg does not have an earlier copy.
    fs::remove_dir_all(saved(out, legs.saturating_sub(1))).ok();
}

/// Replaces a directory with a copy of another one.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Returns the commit of the sources, with a suffix if files were changed since.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(workspace_root()).args(arguments);
        let printed = git.stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
        printed.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":!docs",
    ]);
    match changed.as_deref() {
        Some("") => commit,
        _ => format!("{commit}+changes"),
    }
}

/// Returns a table of the legs in these directories, and a line with their sums.
///
/// # Errors
/// If a directory does not contain legs.
pub fn table(dirs: &[PathBuf]) -> Result<String, String> {
    let mut text =
        "| series | leg | commit | workload | members | faults made of each kind | time | \
         acknowledged calls | verdict | porcupine |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    let (mut legs, mut seconds, mut faults, mut calls, mut not_valid) = (0, 0, 0, 0, 0);
    for dir in dirs {
        let record = Record::load(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let none = || format!("{}: the run has no legs", dir.display());
        let series = dir.file_name().unwrap_or_default().to_string_lossy();
        for (number, leg) in record.legs.as_ref().ok_or_else(none)?.iter().enumerate() {
            let kinds = leg.faults.iter();
            let kinds: Vec<_> = kinds
                .map(|(kind, count)| format!("{kind} {count}"))
                .collect();
            writeln!(
                text,
                "| {series} | {} | {} | `{}` | {} | {} | {} min | {} | {} | {} |",
                number + 1,
                leg.commit,
                record.workload,
                record.ensemble(),
                kinds.join(", "),
                leg.seconds / 60,
                leg.acknowledged,
                match leg.validity {
                    Validity::Valid => "valid",
                    Validity::Unknown => "unknown",
                    Validity::Invalid => "**invalid**",
                },
                leg.porcupine.as_deref().unwrap_or_default(),
            )
            .ok();
            legs += 1;
            seconds += leg.seconds;
            faults += leg.faults.values().sum::<u64>();
            calls += leg.acknowledged;
            not_valid += u64::from(leg.validity != Validity::Valid);
        }
    }
    writeln!(
        text,
        "\n{legs} legs, {}:{:02} h under faults, {faults} faults, {calls} acknowledged calls, \
         {not_valid} not valid",
        seconds / 3600,
        seconds % 3600 / 60,
    )
    .ok();
    Ok(text)
}
