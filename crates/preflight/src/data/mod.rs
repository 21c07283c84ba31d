//! Checks of the data: the files that a start would read, their sizes, and their faults.

mod directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::finding::{DATA_DIRECTORY, Finding, Severity};
use config::{Config, Origin};
use datadir::Survey;
use proto::Zxid;
use server::StartError;
use storage::{
    DataDirs, EmptyDirectory, ReadOnly, RealDisk, StorageError, list_logs, list_snapshots,
};

use crate::processes::Processes;
use crate::{finding, limits};

/// Number of equal consecutive results that are required while a server is running.
const ATTEMPTS_ALIKE: u32 = 3;
/// Maximum number of attempts.
const ATTEMPTS_MAX: u32 = 20;
/// Pause between attempts, during which a server can complete a record even on a machine under high
/// load.
const PAUSE: Duration = Duration::from_millis(250);

/// Contents of the data directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataSummary {
    /// Number of snapshots.
    pub snapshots: usize,
    /// Number of logs.
    pub logs: usize,
    /// Total size of snapshots and logs, in bytes.
    pub bytes: u64,
    /// Size of the newest snapshot, in bytes.
    pub newest_snapshot_bytes: u64,
    /// Estimated memory of the tree in bytes, from the size of the newest snapshot.
    pub memory_bytes: u64,
    /// Zxid of the last transaction.
    pub last_zxid: Option<Zxid>,
    /// Epoch of the last leader that the member followed.
    pub current_epoch: Option<i64>,
    /// Newest epoch that the member accepted.
    pub accepted_epoch: Option<i64>,
    /// Number of znodes.
    pub znodes: Option<u64>,
    /// Number of sessions.
    pub sessions: Option<u64>,
    /// Time of the last write, in ms since 1970.
    pub newest_ms: Option<i64>,
    /// Whether the tree was loaded into memory, as at a start.
    pub is_loaded: bool,
    /// Whether the ACL of `/` grants all permissions to everyone.
    pub is_root_open: Option<bool>,
}

/// Returns `dataDir`, and `dataLogDir` if it differs.
pub(crate) fn directories(config: &Config) -> Vec<PathBuf> {
    let mut dirs = vec![config.data_dir.clone()];
    if config.data_log_dir != config.data_dir {
        dirs.push(config.data_log_dir.clone());
    }
    dirs
}

/// Checks the directory of zoo.cfg. With `reconfigEnabled`, reconfigurations rewrite zoo.cfg, so a
/// member that cannot write to this directory does not start.
pub(crate) fn config_directory(path: &Path, config: &Config) -> Option<Finding> {
    if config.ensemble.is_none() || !config.features.reconfig_enabled {
        return None;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    if directory::may_write(dir) {
        return None;
    }
    let problem = "with reconfigEnabled=true, the server rewrites files in this directory, but the \
                   directory is not writable";
    let found = Finding::new(finding::CONFIG_DIRECTORY, Severity::Blocker, problem);
    let way_out = "make the directory writable for the server, or set reconfigEnabled=false";
    Some(found.at(Some(Origin::file(dir))).way_out(way_out))
}

/// Checks the directories and reads the data. `ports_are_own` states whether a process that has the
/// data open listens on this configuration's ports.
pub(crate) fn examine(
    config: &Config,
    processes: &Processes,
    ports_are_own: bool,
) -> (Vec<Finding>, Option<DataSummary>) {
    let mut findings = holders(config, processes, ports_are_own);
    if let Err(error) = server::start_checks::check_directories(config) {
        findings.push(of_storage(&error, config));
        return (findings, None);
    }
    let dirs = directories(config);
    let looks: Vec<_> = dirs
        .iter()
        .map(|dir| directory::check_directory(dir))
        .collect();
    let is_usable = looks.iter().all(|check| check.is_usable);
    let has_files = looks.iter().any(|check| check.has_history);
    findings.extend(looks.into_iter().flat_map(|check| check.findings));
    if !is_usable {
        return (findings, None);
    }
    if !has_files || !matches!(server::start_checks::is_untrusted(config), Ok(false)) {
        findings.push(without_history(config));
        return (findings, None);
    }
    let unlocked = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    let disk = ReadOnly(RealDisk);
    if let Err(error) = unlocked.check_places(&disk) {
        findings.push(of_storage(&error, config));
        return (findings, None);
    }
    let mut summary = match count_data(&unlocked) {
        Ok(summary) => summary,
        Err(error) => {
            findings.push(of_storage(&error, config));
            return (findings, None);
        }
    };
    findings.extend(directory::space(config, &summary));
    match read(config, processes, &mut summary) {
        Ok(survey) => findings.extend(judge_recovery(
            config,
            &survey,
            &mut summary,
            processes.has_server(),
        )),
        Err(error) => findings.push(of_storage(&error, config)),
    }
    findings.push(describe_data(config, &summary));
    (findings, Some(summary))
}

/// Checks the processes that have the data open. A running server is not an error, but it must
/// belong to this zoo.cfg, and no other process may have the data open.
fn holders(config: &Config, processes: &Processes, ports_are_own: bool) -> Vec<Finding> {
    let place = || Some(Origin::file(&config.data_dir));
    let mut findings = Vec::new();
    let mut own: Vec<String> = processes.own.iter().map(ToString::to_string).collect();
    for process in &processes.holders {
        if processes.own.contains(process) {
            continue;
        }
        if ports_are_own && processes.own.is_empty() {
            own.push(process.to_string());
            continue;
        }
        let problem =
            format!("{process} has opened the data and is not the server of this zoo.cfg");
        let found = Finding::new(finding::IN_USE, Severity::Blocker, problem).at(place());
        findings.push(found.way_out(
            "stop this process, or name another dataDir: two servers in one directory destroy the data",
        ));
    }
    if processes.has_hidden_holder {
        own.push("a process that preflight cannot inspect".to_owned());
    }
    if !own.is_empty() {
        let problem = format!(
            "the server of this zoo.cfg is running: {}. The findings on data and ports describe the running server",
            own.join(", ")
        );
        let note = Finding::new(finding::RUNNING, Severity::Note, problem).at(place());
        findings.push(note.way_out(
            "stop the running server before you start another server: Apache ZooKeeper does not lock its data directory",
        ));
    }
    findings
}

/// Describes a start that does not read logs or snapshots. The server creates a new database, or is
/// a member that loads its leader's data.
fn without_history(config: &Config) -> Finding {
    let place = Some(Origin::file(&config.data_dir));
    let empty = match server::start_checks::check_empty(config) {
        Ok(empty) => empty,
        Err(StartError::Storage(error)) => return of_storage(&error, config),
        Err(error) => {
            let found = Finding::new(finding::NEW, Severity::Blocker, error.to_string());
            return found.at(place);
        }
    };
    let (id, problem, way_out) = match empty {
        EmptyDirectory::Untrusted
            if matches!(server::start_checks::is_untrusted(config), Ok(true)) =>
        {
            (
                finding::UNTRUSTED,
                "the files in this directory were set aside as damaged at an earlier start, so this \
             member starts without a vote and loads its leader's data",
                "start this member while the other members serve clients",
            )
        }
        EmptyDirectory::Untrusted => (
            finding::NEW,
            "the directory is empty, and db.autocreate=false forbids a new database, so this member \
             starts without a vote and loads its leader's data",
            "restore the data, or create the empty file `initialize` in dataLogDir for a new database",
        ),
        EmptyDirectory::Trusted => (
            finding::NEW,
            "the directory does not contain data, so the server would start with an empty tree",
            "if you expect data, check dataDir and dataLogDir",
        ),
    };
    Finding::new(id, Severity::Warning, problem)
        .at(place)
        .way_out(way_out)
}

fn count_data(dirs: &DataDirs) -> Result<DataSummary, StorageError> {
    let disk = ReadOnly(RealDisk);
    let snapshots = list_snapshots(&disk, &dirs.snap)?;
    let logs = list_logs(&disk, &dirs.log)?;
    let newest = snapshots.first();
    let bytes = snapshots
        .iter()
        .filter_map(|file| file.len)
        .chain(logs.iter().filter_map(|file| file.len));
    Ok(DataSummary {
        snapshots: snapshots.len(),
        logs: logs.len(),
        bytes: bytes.sum(),
        newest_snapshot_bytes: newest.and_then(|file| file.len).unwrap_or(0),
        memory_bytes: newest.map_or(0, limits::memory_of_tree),
        ..DataSummary::default()
    })
}

/// Reads the data, repeatedly if a server is running. Such a server appends to a log during the
/// read, purges files, and (Java) writes snapshots in place. In the next attempt, real corruption
/// is still at the same place, while other faults have moved or disappeared.
fn read(
    config: &Config,
    processes: &Processes,
    summary: &mut DataSummary,
) -> Result<Survey, StorageError> {
    // The tree is loaded only if there is enough memory for two trees.
    let room = limits::available_memory().unwrap_or(u64::MAX);
    summary.is_loaded = summary.memory_bytes.saturating_mul(2) < room;
    let (mut last, mut seen) = (String::new(), 0);
    for _ in 0..ATTEMPTS_MAX {
        let answer = survey(config, summary.is_loaded);
        let text = match &answer {
            Err(error) => error.to_string(),
            Ok(survey) => survey.recovered.warnings.join("\n"),
        };
        seen = if text == last { seen + 1 } else { 1 };
        if text.is_empty() || !processes.has_server() || seen == ATTEMPTS_ALIKE {
            return answer;
        }
        last = text;
        std::thread::sleep(PAUSE);
    }
    survey(config, summary.is_loaded)
}

/// Reads the data directory as a start does. With `makes_tree`, also builds the tree in memory.
fn survey(config: &Config, makes_tree: bool) -> Result<Survey, StorageError> {
    server::start_checks::check_marker(config)?;
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    let (recovery, tree) = (
        server::start_checks::recovery_settings(config),
        Arc::new(server::start_checks::tree_settings(config)),
    );
    datadir::survey(&ReadOnly(RealDisk), &dirs, &recovery, tree, makes_tree)
}

fn judge_recovery(
    config: &Config,
    survey: &Survey,
    summary: &mut DataSummary,
    is_running: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = || Some(Origin::file(&config.data_dir));
    summary.last_zxid = Some(survey.recovered.last_zxid);
    summary.znodes = Some(survey.znodes);
    summary.sessions = Some(survey.sessions);
    summary.newest_ms = survey.newest_ms;
    summary.is_root_open = survey.is_root_open;
    findings.extend(epochs(config, survey, summary));
    if let Some(error) = survey
        .repaired_current
        .as_ref()
        .filter(|_| config.ensemble.is_some())
    {
        let problem = format!(
            "{error}. When the server starts, it determines the epoch from the last transaction and acceptedEpoch, and rewrites currentEpoch"
        );
        findings.push(Finding::new(finding::EPOCH_FILES, Severity::Warning, problem).at(place()));
    }
    let unrecognised = survey.unrecognised_ttls;
    if let Err(error) =
        server::start_checks::check_data(config, unrecognised, survey.recovered.empty)
    {
        findings.push(unrecognised_ttls(config, &error));
    }
    if let Some((file, torn)) = &survey.recovered.torn_tail {
        let cause = if is_running { " or during a write" } else { "" };
        let problem = format!(
            "the log ends at offset {} with an incomplete record, as after a crash{cause}; the record was not acknowledged",
            torn.offset
        );
        findings.push(
            Finding::new(finding::LOG_TORN, Severity::Note, problem).at(Some(Origin::file(file))),
        );
    }
    for warning in &survey.recovered.warnings {
        let found = Finding::new(
            finding::SNAPSHOT_DAMAGED,
            Severity::Warning,
            warning.clone(),
        );
        findings.push(
            found
                .at(place())
                .way_out("check the disk; the server writes a new snapshot when it starts"),
        );
    }
    if let Some(count @ 1..) = survey.digest_mismatches {
        let problem = format!(
            "the tree differs from its recorded digest in {}, so the log may have been altered",
            number(count, "place")
        );
        let found = Finding::new(finding::DIGEST, Severity::Warning, problem).at(place());
        findings.push(found.way_out(
            "compare the digest with the digest of another member: `zoarium snapshot --verify` and the admin command hash print digests",
        ));
    }
    if let Some(count @ 1..) = survey.orphan_owners {
        let problem = format!(
            "when the server starts, it will delete the ephemerals of {} that ended earlier",
            number(count, "session")
        );
        findings.push(Finding::new(finding::ORPHANS, Severity::Note, problem).at(place()));
    }
    findings
}

/// Adds the epochs of a member to the summary, or returns the fault in the epoch files. A
/// standalone server does not use these files.
fn epochs(config: &Config, survey: &Survey, summary: &mut DataSummary) -> Option<Finding> {
    config.ensemble.as_ref()?;
    match &survey.epochs {
        Ok((current, accepted)) => {
            summary.current_epoch = Some(current.0);
            summary.accepted_epoch = Some(accepted.0);
            None
        }
        Err(error) => Some(of_storage(error, config)),
    }
}

fn unrecognised_ttls(config: &Config, error: &StartError) -> Finding {
    let found = Finding::new(finding::TTL, Severity::Blocker, error.to_string());
    let found = found.at(Some(Origin::file(&config.data_dir)));
    found.key("extendedTypesEnabled").way_out(
        "set extendedTypesEnabled=true. If you want to run without this setting, delete the TTL znodes first, while the setting is on",
    )
}

fn describe_data(config: &Config, summary: &DataSummary) -> Finding {
    let files = |count: usize, word| number(count as u64, word);
    let (snapshots, logs) = (
        files(summary.snapshots, "snapshot"),
        files(summary.logs, "log"),
    );
    let mut text = format!("{snapshots} and {logs}, {}", size(summary.bytes));
    if let (Some(zxid), Some(znodes), Some(sessions)) =
        (summary.last_zxid, summary.znodes, summary.sessions)
    {
        let (znodes, sessions) = (number(znodes, "znode"), number(sessions, "session"));
        text.push_str(&format!(": {znodes}, {sessions}, last zxid {zxid}"));
    }
    if let (Some(current), Some(accepted)) = (summary.current_epoch, summary.accepted_epoch) {
        text.push_str(&format!(
            ", current epoch {current}, accepted epoch {accepted}"
        ));
    }
    if !summary.is_loaded {
        text.push_str("; digests were not compared because memory is too small");
    }
    Finding::new(finding::SUMMARY, Severity::Note, text).at(Some(Origin::file(&config.data_dir)))
}

/// Formats a number with its noun.
pub(crate) fn number(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

/// Formats a number of bytes for human readers.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Returns the finding for a storage error. The finding is a warning if the server would set the
/// corrupt files aside and start without them. Other errors prevent a start.
fn of_storage(error: &StorageError, config: &Config) -> Finding {
    let (id, path) = match error {
        StorageError::LogDamaged { path, .. } => (finding::LOG_DAMAGED, path),
        StorageError::LogHeader { path, .. } => (finding::LOG_FOREIGN, path),
        StorageError::Gap { path, .. } => (finding::LOG_GAP, path),
        StorageError::NoUsableSnapshot { newest: path, .. }
        | StorageError::SnapshotDamaged { path, .. } => (finding::SNAPSHOT_DAMAGED, path),
        StorageError::SnapshotLost { path, .. } => (finding::SNAPSHOT_LOST, path),
        StorageError::NoSnapshot { dir: path, .. } => (finding::SNAPSHOT_MISSING, path),
        StorageError::Misplaced { file: path, .. } => (finding::MISPLACED, path),
        StorageError::Untrusted { marker: path } => (finding::UNTRUSTED, path),
        StorageError::EpochFile { path, .. } | StorageError::EpochOrder { path, .. } => {
            (finding::EPOCH_FILES, path)
        }
        StorageError::Directory { dir, .. } => {
            let is_below = |data: &&PathBuf| dir.starts_with(data);
            let data = [&config.data_dir, &config.data_log_dir];
            (
                DATA_DIRECTORY,
                data.into_iter().find(is_below).unwrap_or(dir),
            )
        }
        StorageError::Io { path, .. } => (finding::UNREADABLE, path),
        _ => (finding::UNREADABLE, &config.data_dir),
    };
    let (severity, way_out) =
        if error.is_damage() && server::start_checks::moves_corrupt_data_aside(config) {
            (
                Severity::Warning,
                "start this member last, when all other members are intact: it will set its files \
             aside, start without a vote, and load its leader's data",
            )
        } else {
            (
                Severity::Blocker,
                "copy the files, and then follow the instructions in the message",
            )
        };
    Finding::new(id, severity, error.to_string())
        .at(Some(Origin::file(path)))
        .way_out(way_out)
}
