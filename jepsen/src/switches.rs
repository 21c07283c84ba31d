//! Members that skip one of their duties, and the workload that must notice it.
//!
//! A switch is a mutant (`crates/simulator/mutants`). The members run the executable of the copy of
//! the sources that contains all mutants as switches (`tests::mutants`). The guard against two
//! member lists is a setting instead.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ::tests::mutants::SWITCH;
use ::tests::zoarium_with_switches;

use crate::matrix::{this_program, to_its_end};
use crate::run::{HISTORY, Record, read_history};
use crate::verdict::Validity;

/// Variable that names the executable of the members.
const EXECUTABLE: &str = "ZOARIUM_BIN";

/// The pace of clients, in ms.
const PACE_MS: u64 = 5;
const SLOW_PACE_MS: u64 = 500;

/// One duty, and the workload that must notice its absence.
#[derive(Debug)]
pub struct Switch {
    /// Its name on the command line: the name of the mutant if it is a deliberate bug.
    pub name: &'static str,
    /// Behaviour of members without this duty, in one line.
    pub what: &'static str,
    /// Workload that must notice it.
    pub workload: &'static str,
    /// Faults during the load, separated by commas. It may be empty.
    pub nemesis: &'static str,
    /// Members of the run.
    pub members: &'static str,
    /// Time between two calls of a client, in ms.
    pub pace_ms: u64,
    /// Time limit for the detection, in seconds.
    pub seconds: u64,
    /// A setting that disables the duty. Without a setting, it is a deliberate bug.
    pub setting: Option<&'static str>,
    /// Whether the members are not Zoarium servers. Then nothing is disabled.
    pub is_foreign: bool,
}

const fn bug(
    name: &'static str,
    what: &'static str,
    workload: &'static str,
    nemesis: &'static str,
    seconds: u64,
) -> Switch {
    Switch {
        name,
        what,
        workload,
        nemesis,
        members: "zzz",
        pace_ms: PACE_MS,
        seconds,
        setting: None,
        is_foreign: false,
    }
}

impl Switch {
    /// Makes the clients slow. A member that returns after few transactions then receives these
    /// transactions, and not a snapshot that would hide its error.
    const fn with_slow_clients(mut self) -> Switch {
        self.pace_ms = SLOW_PACE_MS;
        self
    }

    /// Uses five members, so that a follower may have a proposal that no quorum has.
    const fn with_five_members(mut self) -> Switch {
        self.members = "zzzzz";
        self
    }
}

/// All switches.
pub const ALL: &[Switch] = &[
    bug(
        "AckBeforeSync",
        "members acknowledge a transaction before it is on disk",
        "set",
        "power",
        60,
    ),
    bug(
        "SkipTruncate",
        "transactions that a leader truncates stay in the log",
        "set",
        "deposed",
        120,
    ),
    bug(
        "SyncAnsweredHere",
        "a follower answers a sync without its leader",
        "sync",
        "pause,fsync",
        60,
    ),
    bug(
        "MissedEventsUntold",
        "after a reconnect, a client does not receive the events that its watches missed",
        "watch",
        "kill",
        60,
    ),
    bug(
        "OwnerIgnored",
        "a server does not check which connection owns a session",
        "owner",
        "kill",
        30,
    ),
    bug(
        "ReplyBeforeCommit",
        "a leader commits and replies as soon as its own disk has the transaction",
        "set",
        "kill,partition",
        60,
    ),
    bug(
        "QuorumOffByOne",
        "half of the voters are a quorum",
        "register",
        "partition",
        60,
    ),
    bug(
        "AppliesProposals",
        "a follower applies proposals before they are committed",
        "set",
        "partition",
        120,
    )
    .with_five_members(),
    bug(
        "DiffFromWrongPoint",
        "a returning learner does not receive the first transaction that it lacks",
        "rejoin",
        "restart",
        60,
    )
    .with_slow_clients(),
    bug(
        "EphemeralsStay",
        "ephemerals stay after the end of their session",
        "ephemeral",
        "kill",
        30,
    ),
    bug(
        "UpgradeForgotten",
        "a local session does not become global before its first ephemeral",
        "first-ephemeral",
        "",
        30,
    ),
    bug(
        "VersionIgnored",
        "a write is executed at any version, not only at the expected version",
        "counter",
        "kill",
        30,
    ),
    bug(
        "FailedMultiKept",
        "the pending changes of a failed multi are not reverted",
        "register",
        "kill",
        60,
    ),
    bug(
        "PendingIgnored",
        "a request is checked without the pending requests before it",
        "counter",
        "kill",
        30,
    ),
    bug(
        "WatchAfterReply",
        "events are delivered only with the next transaction",
        "watch",
        "kill",
        30,
    ),
    bug(
        "PersistentWatchFiresOnce",
        "a persistent watch ends with its first event",
        "watch",
        "kill",
        30,
    ),
    bug(
        "RecursiveWatchIsShallow",
        "a recursive watch ignores the descendants of its znode",
        "watch",
        "kill",
        30,
    ),
    bug(
        "QuotaIgnored",
        "hard quotas do not refuse any request",
        "quota",
        "kill",
        30,
    ),
    bug(
        "ChangeLeftOut",
        "the change history omits a transaction that immediately follows another",
        "large-feed",
        "",
        60,
    ),
    Switch {
        name: "guard",
        what: "elections do not check for leaders with other member lists, and three members grow \
               to five in the wrong order",
        workload: "register",
        nemesis: "growth",
        members: "zzzzz",
        pace_ms: PACE_MS,
        seconds: 60,
        setting: Some("zoarium.membershipGuard=false"),
        is_foreign: false,
    },
    Switch {
        name: "apache-growth",
        what: "no duty is skipped: Apache ZooKeeper 3.9.5 grows in the wrong order",
        workload: "register",
        nemesis: "growth",
        members: "jjjjj",
        pace_ms: PACE_MS,
        seconds: 60,
        setting: None,
        is_foreign: true,
    },
];

/// When a switch was noticed, and how.
#[derive(Debug)]
pub struct Found {
    /// Time from the first call to the last event of the first finding.
    pub after: Duration,
    /// The finding.
    pub what: String,
}

/// Returns the switches of these names, or all of them without names.
///
/// # Errors
/// If there is no switch of a name.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Switch>, String> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let by_name = |name: &String| {
        let found = ALL.iter().find(|switch| switch.name == name);
        found.ok_or_else(|| format!("unknown switch {name:?}\n{}", listed()))
    };
    names.iter().map(by_name).collect()
}

/// Returns the names of all switches, each with a description.
pub fn listed() -> String {
    ALL.iter().fold(String::new(), |mut text, switch| {
        writeln!(
            text,
            "{:<26}{}: `{}` under {}, {} s",
            switch.name, switch.what, switch.workload, switch.nemesis, switch.seconds
        )
        .ok();
        text
    })
}

/// Returns a line of the table in docs/lab/jepsen-runs.md.
pub fn line(switch: &Switch, found: Option<&Found>) -> String {
    let Switch {
        name,
        what,
        workload,
        nemesis,
        members,
        seconds,
        ..
    } = switch;
    let found = match found {
        Some(Found { after, what }) => format!("{:.1} s | {what}", after.as_secs_f64()),
        None => format!("not found within {seconds} s |"),
    };
    format!("| `{name}` | {what} | `{workload}` | {nemesis} | {members} | {found} |")
}

/// Restarts this program in its process, with members that skip this duty. After the restart, the
/// function returns without an error.
///
/// # Errors
/// If there is no executable with switches, or this process cannot be replaced.
pub fn switch_off(name: &str) -> Result<(), String> {
    if std::env::var(SWITCH).is_ok_and(|chosen| chosen == name) {
        return Ok(());
    }
    let executable = zoarium_with_switches()?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut again = Command::new(program);
    again
        .args(std::env::args_os().skip(1))
        .env(EXECUTABLE, executable)
        .env(SWITCH, name);
    Err(format!(
        "cannot restart this program with skipped duties: {}",
        again.exec()
    ))
}

/// Runs members without this duty until it is noticed or the time is over. Returns how it was
/// noticed.
///
/// # Errors
/// If there was no run.
pub fn run(switch: &Switch, dir: &Path) -> Result<Option<Found>, String> {
    let out = dir.join(switch.name);
    // The output of an earlier attempt.
    std::fs::remove_dir_all(&out).ok();
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut command = this_program("run")?;
    command
        .args(["--workload", switch.workload])
        .args(["--members", switch.members])
        .args(["--pace", &switch.pace_ms.to_string()])
        .args(["--seconds", &switch.seconds.to_string()])
        .arg("--out")
        .arg(&out);
    if !switch.nemesis.is_empty() {
        command.args(["--nemesis", switch.nemesis]);
    }
    match switch.setting {
        Some(setting) => drop(command.args(["--setting", setting])),
        None if switch.is_foreign => {}
        None => drop(command.args(["--switch", switch.name])),
    }
    let log = dir.join(format!("{}.log", switch.name));
    to_its_end(&mut command, &log)?;
    let record = Record::load(&out).map_err(|error| format!("{}: {error}", log.display()))?;
    if let Some(error) = record.error {
        return Err(format!("{}: {error}", switch.name));
    }
    let invalid = record
        .verdict
        .filter(|_| record.validity == Validity::Invalid);
    let Some(verdict) = invalid else {
        return Ok(None);
    };
    let events = read_history(&out.join(HISTORY)).map_err(|error| error.to_string())?;
    let time = |index: &u64| {
        let found = events.binary_search_by_key(index, |event| event.index);
        found.ok().map(|at| events[at].time_ns)
    };
    let first = verdict.findings.iter().filter_map(|finding| {
        let time = finding.events.iter().filter_map(time).max()?;
        Some((time, &finding.what))
    });
    // The history does not contain an event for an ensemble that does not recover.
    let end = (
        events.last().map_or(0, |event| event.time_ns),
        "the ensemble does not recover",
    );
    let (after, what) = match first.min() {
        Some((time, what)) => (time, what.as_str()),
        None => end,
    };
    // The clock of a history starts before the members do.
    let begin = events.first().map_or(0, |event| event.time_ns);
    Ok(Some(Found {
        after: Duration::from_nanos(after.saturating_sub(begin)),
        what: what.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{nemesis, workload};

    #[test]
    fn every_switch_names_what_there_is() {
        let mutants = ::tests::mutants::mutants().expect("patches of the mutants");
        for switch in ALL {
            assert!(workload::by_name(switch.workload).is_some(), "{switch:?}");
            let mut faults = switch.nemesis.split(',').filter(|name| !name.is_empty());
            assert!(
                faults.all(|name| nemesis::by_name(name).is_some()),
                "{switch:?}"
            );
            let is_bug = switch.setting.is_none() && !switch.is_foreign;
            let known = mutants.iter().any(|mutant| mutant.name == switch.name);
            assert_eq!(is_bug, known, "{switch:?}");
        }
        assert!(chosen(&["NoSuchThing".to_owned()]).is_err_and(|why| why.contains("OwnerIgnored")));
    }

    #[test]
    fn a_line_says_when_it_was_found_or_that_it_was_not() {
        let found = Found {
            after: Duration::from_millis(7340),
            what: "4 was put".to_owned(),
        };
        let first = &ALL[0];
        assert!(line(first, Some(&found)).ends_with("| 7.3 s | 4 was put |"));
        assert!(line(first, None).contains("not found within 60 s"));
    }
}
