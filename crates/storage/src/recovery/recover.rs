//! Recovery of a database from the newest intact snapshot and the log after it.
//!
//! A server must never silently start without a part of its data. Recovery therefore compares the
//! transactions it finds with the transactions that must exist:
//!
//! * the first transaction after the snapshot must be its successor, or the first of a later epoch;
//! * each transaction must follow its predecessor in this way;
//! * the log must replace a newer snapshot that cannot be loaded: if the snapshot's transaction is
//!   not among the replayed transactions, the start is refused. (A later zxid in the log is not
//!   enough, because the log may begin with a later epoch and lack the transactions up to that
//!   snapshot.)
//!
//! Source: FileTxnSnapLog.restore, ZKDatabase.loadDataBase.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jute::Limits;
use proto::{Epoch, Zxid};

use super::seam::last_seam;
use super::state::State;
use crate::ahead;
use crate::disk::Disk;
use crate::error::{StorageError, described, io_error};
use crate::files::dirs::DataDirs;
use crate::files::names::{SnapshotFile, list_logs, list_snapshots};
use crate::files::purge::RETAIN_MIN;
use crate::files::untrusted::is_untrusted;
use crate::log::chain::{LoggedTxn, LoggedTxns, read_txns_from};
use crate::log::judge::TornTail;
use crate::snapshot::read::{SnapshotInfo, read_snapshot};
use crate::snapshot::valid::cheap_fault;

/// Maximum number of snapshots that are tried.
const CANDIDATES_MAX: usize = 100;
/// Marker file next to the logs' `version-2`, which states that an empty database is to be trusted.
const INITIALIZE: &str = "initialize";

/// Recovery settings from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Limits for strings and buffers, from `jute.maxbuffer`.
    pub limits: Limits,
    /// Whether logs without a snapshot are accepted (`snapshot.trust.empty`).
    pub trust_empty: bool,
    /// Whether an empty directory is a new database (`db.autocreate`). If not, the `initialize`
    /// marker is required.
    pub db_autocreate: bool,
}

impl RecoverySettings {
    /// Returns the default settings with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            trust_empty: false,
            db_autocreate: true,
        }
    }
}

/// Meaning of an empty directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyDirectory {
    /// A new database, for which the server writes `snapshot.0` and starts at zxid 0.
    Trusted,
    /// Data may be missing (`db.autocreate` is off and the marker is missing), or was set aside
    /// ([`set_history_aside`](crate::set_history_aside)). A member must not vote before it has
    /// synchronised. The last zxid is -1.
    Untrusted,
}

impl EmptyDirectory {
    /// Returns the meaning of directories without snapshots and logs. The directories need not
    /// exist.
    ///
    /// # Errors
    /// If the marker cannot be read.
    pub fn inspect<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        db_autocreate: bool,
    ) -> Result<Self, StorageError> {
        if is_untrusted(disk, dirs)? {
            Ok(Self::Untrusted)
        } else {
            Ok(Self::of(has_marker(disk, dirs)?, db_autocreate))
        }
    }

    fn of(has_marker: bool, db_autocreate: bool) -> Self {
        if has_marker || db_autocreate {
            Self::Trusted
        } else {
            Self::Untrusted
        }
    }
}

/// Returns whether the file `initialize` exists.
fn has_marker<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<bool, StorageError> {
    let marker = marker_path(dirs);
    let found = disk.read_small(&marker, usize::MAX);
    Ok(found.map_err(io_error("read", &marker))?.is_some())
}

/// Result of recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Last transaction; -1 if the database is [`EmptyDirectory::Untrusted`].
    pub last_zxid: Zxid,
    /// Snapshot that was loaded.
    pub snapshot: Option<SnapshotFile>,
    /// Metadata of the loaded snapshot.
    pub snapshot_info: SnapshotInfo,
    /// Number of transactions replayed from the log.
    pub txns_replayed: u64,
    /// Newest log, and the offset of its last intact record.
    pub last_record: Option<(PathBuf, u64)>,
    /// Torn end of the last log, if it is torn.
    pub torn_tail: Option<(PathBuf, TornTail)>,
    /// Set if there are neither snapshots nor logs, or if the files are untrusted.
    pub empty: Option<EmptyDirectory>,
    /// Whether the `initialize` marker existed. If there was data, recovery has already removed the
    /// marker. For a new database, call [`remove_initialize_marker`] after writing the first
    /// snapshot.
    pub has_marker: bool,
    /// Time spent finding and loading the snapshot.
    pub snapshot_time: Duration,
    /// Time spent replaying the log.
    pub replay_time: Duration,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// A snapshot that cannot be loaded, with the reason.
#[derive(Debug)]
struct RejectedSnapshot {
    file: SnapshotFile,
    reason: String,
    /// Whether the file is cut or empty. Java does not try such a file.
    is_cut: bool,
    /// Highest replayed zxid that is not above the snapshot's own zxid. The two are equal if the
    /// snapshot's last transaction was replayed.
    reached: Zxid,
}

/// Fills `state` from the directories.
///
/// Recovery makes only two changes, both after success. It removes the `initialize` marker and log
/// files of 0 bytes. (Java also removes such files, but refuses them once another log follows.)
///
/// # Errors
/// If data is corrupted or missing. Each variant contains the position and a remedy. `state` is
/// then partly filled and unusable.
pub fn recover<D: Disk, S: State>(
    disk: &D,
    dirs: &DataDirs,
    settings: &RecoverySettings,
    state: &mut S,
) -> Result<Recovered, StorageError> {
    if is_untrusted(disk, dirs)? {
        state.begin();
        return Ok(Recovered::untrusted());
    }
    let has_marker = has_marker(disk, dirs)?;
    let begun = Instant::now();
    let (loaded, mut rejected) = load_snapshot(disk, dirs, settings, state)?;
    let snapshot_time = begun.elapsed();
    if loaded.is_none() {
        refuse_unexplained(disk, dirs, settings, &rejected)?;
        state.begin();
    }
    let base = loaded.as_ref().map_or(Zxid::ZERO, |(file, _)| file.zxid);
    let holder = match &loaded {
        Some((file, _)) => described("snapshot", &file.path),
        None => "the empty database".into(),
    };
    let begun = Instant::now();
    let txns = LoggedTxns::open(disk, dirs, base.next(), Some(holder), settings.limits)?;
    let (txns, txns_replayed) = replay(txns, disk.reads_ahead(), state, &mut rejected)?;
    let replay_time = begun.elapsed();
    let reached = txns.last_zxid();
    let last_record = txns.last_record().cloned();
    let torn_tail = txns.torn_tail().map(|(path, tail)| (path.clone(), tail));
    refuse_lost(&rejected, base)?;
    remove_empty(disk, dirs, txns.into_empty_files())?;

    let is_empty = loaded.is_none() && list_logs(disk, &dirs.log)?.is_empty();
    let empty = is_empty.then_some(EmptyDirectory::of(has_marker, settings.db_autocreate));
    if has_marker && empty.is_none() {
        remove_initialize_marker(disk, dirs)?;
    }
    let last_zxid = match empty {
        Some(EmptyDirectory::Untrusted) => Zxid(-1),
        _ => reached,
    };
    let (snapshot, snapshot_info) = loaded.unzip();
    let snapshot_info = snapshot_info.unwrap_or_default();
    let warnings = warnings_about(&rejected, &snapshot_info, reached);
    Ok(Recovered {
        last_zxid,
        snapshot,
        snapshot_info,
        txns_replayed,
        last_record,
        torn_tail,
        empty,
        has_marker,
        snapshot_time,
        replay_time,
        warnings,
    })
}

/// Applies and counts all transactions.
fn replay<'d, D: Disk, S: State>(
    txns: LoggedTxns<'d, D>,
    reads_ahead: bool,
    state: &mut S,
    rejected: &mut [RejectedSnapshot],
) -> Result<(LoggedTxns<'d, D>, u64), StorageError> {
    let bytes_of = |txn: &Result<LoggedTxn, _>| txn.as_ref().map_or(0, |txn| txn.payload.len());
    let (mut replayed, mut failed) = (0, None);
    let txns = ahead::for_each(txns, reads_ahead, bytes_of, |txn| {
        let record = match txn {
            Ok(txn) => txn.record,
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        };
        for other in &mut *rejected {
            other.replayed(record.header.zxid);
        }
        state.txn(&record);
        replayed += 1;
        ControlFlow::Continue(())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok((txns, replayed)),
    }
}

/// Returns the warnings for the operator, which are also logged.
fn warnings_about(
    rejected: &[RejectedSnapshot],
    info: &SnapshotInfo,
    reached: Zxid,
) -> Vec<String> {
    let mut warnings: Vec<String> = rejected.iter().map(RejectedSnapshot::warning).collect();
    if let Some(covers) = info.covers().filter(|covers| *covers > reached) {
        warnings.push(format!(
            "the snapshot was written while transactions up to {covers} were applied, but the log \
             ends at {reached}, so the tree may contain parts of lost transactions"
        ));
    }
    for warning in &warnings {
        tracing::warn!(warning, "recovery");
    }
    warnings
}

/// Removes `<dataLogDir>/initialize` if it exists.
///
/// # Errors
/// If the file cannot be removed.
pub fn remove_initialize_marker<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<(), StorageError> {
    let marker = marker_path(dirs);
    disk.remove(&marker).map_err(io_error("remove", &marker))
}

fn marker_path(dirs: &DataDirs) -> PathBuf {
    dirs.log.with_file_name(INITIALIZE)
}

type Loaded = Option<(SnapshotFile, SnapshotInfo)>;

fn load_snapshot<D: Disk, S: State>(
    disk: &D,
    dirs: &DataDirs,
    settings: &RecoverySettings,
    state: &mut S,
) -> Result<(Loaded, Vec<RejectedSnapshot>), StorageError> {
    let mut rejected = Vec::new();
    let mut tried = 0;
    for file in list_snapshots(disk, &dirs.snap)? {
        if let Some(reason) = cheap_fault(disk, &file)? {
            rejected.push(RejectedSnapshot::new(file, reason, true));
            continue;
        }
        tried += 1;
        if tried > CANDIDATES_MAX {
            break;
        }
        match read_snapshot(disk, &file, settings.limits, state) {
            Ok(info) => return Ok((Some((file, info)), rejected)),
            Err(error) => {
                tracing::warn!(file = %file.path.display(), %error,
                    "cannot load a snapshot, trying an older one");
                let reason = match error {
                    StorageError::SnapshotDamaged { offset, reason, .. } => {
                        format!("at offset {offset}: {reason}")
                    }
                    other => other.to_string(),
                };
                rejected.push(RejectedSnapshot::new(file, reason, false));
            }
        }
    }
    Ok((None, rejected))
}

/// Refuses directories without an intact snapshot, with two exceptions: a new database and, if the
/// operator allows it, logs without snapshots. As in Java, the operator cannot allow the loss of a
/// snapshot that exists but cannot be loaded, because its znodes would be missing. The exception is
/// a snapshot that is not needed ([`contain_whole_history`]).
fn refuse_unexplained<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    settings: &RecoverySettings,
    rejected: &[RejectedSnapshot],
) -> Result<(), StorageError> {
    let trust_empty = settings.trust_empty;
    let mut logs = list_logs(disk, &dirs.log)?.into_iter();
    let log = logs.find(|log| log.len != Some(0));
    // After a seam, the log continues a snapshot of another history, so a replay from the first
    // transaction would restore the replaced history.
    let may_logs_suffice = trust_empty
        && log.is_some()
        && rejected.iter().all(|other| other.is_cut)
        && matches!(last_seam(disk, dirs), Ok(None));
    if may_logs_suffice && contain_whole_history(disk, dirs, settings.limits, rejected)? {
        return Ok(());
    }
    let unexplained_log = log.filter(|_| !trust_empty);
    // A snapshot of zxid 0 is equivalent to a new database.
    let newest = rejected.first();
    match (newest, unexplained_log) {
        (Some(newest), log) if log.is_some() || newest.file.zxid > Zxid::ZERO => {
            Err(StorageError::NoUsableSnapshot {
                dir: dirs.snap.clone(),
                newest: newest.file.path.clone(),
                reason: newest.reason.clone(),
                may_logs_suffice,
            })
        }
        (None, Some(log)) => Err(StorageError::NoSnapshot {
            dir: dirs.snap.clone(),
            log: log.path,
        }),
        _ => Ok(()),
    }
}

/// Returns whether the logs begin with the history, so that snapshots that are cut are not needed
/// if the logs reach them ([`refuse_lost`]).
///
/// Java writes its first snapshot without a sync, so a power failure may cut this snapshot on all
/// members. Purged logs must not be missing. The first transaction is therefore the first one of a
/// standalone server or of an ensemble. A purge of the logs before an ensemble's first epoch leaves
/// at least [`RETAIN_MIN`] snapshots.
fn contain_whole_history<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    limits: Limits,
    rejected: &[RejectedSnapshot],
) -> Result<bool, StorageError> {
    if rejected.len() >= RETAIN_MIN {
        return Ok(false);
    }
    let first = read_txns_from(disk, dirs, Zxid::ZERO, limits)?.next();
    let first = first.transpose()?.map(|txn| txn.record.header.zxid);
    Ok(first.is_some_and(|first| [Zxid(1), Zxid::new(Epoch(1), 1)].contains(&first)))
}

/// Refuses to start if a corrupted snapshot means a loss of data. No data is lost if the log leads
/// from the older snapshot of `base` to the transaction of the corrupted one.
///
/// The zxid of a snapshot at the start of an epoch has counter 0, so no transaction has it. It is
/// then unknown whether the log before that epoch is complete, so the snapshot is treated as lost.
fn refuse_lost(rejected: &[RejectedSnapshot], base: Zxid) -> Result<(), StorageError> {
    let is_lost =
        |other: &&RejectedSnapshot| other.file.zxid > base && other.reached < other.file.zxid;
    match rejected.iter().find(is_lost) {
        Some(lost) => Err(StorageError::SnapshotLost {
            path: lost.file.path.clone(),
            reason: lost.reason.clone(),
            reached: lost.reached.max(base),
        }),
        None => Ok(()),
    }
}

/// Removes empty logs before another log is written. Java removes an empty log only if it is the
/// last one, and otherwise refuses it.
fn remove_empty<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    empty_files: Vec<PathBuf>,
) -> Result<(), StorageError> {
    if empty_files.is_empty() {
        return Ok(());
    }
    for path in empty_files {
        disk.remove(&path).map_err(io_error("remove", &path))?;
        tracing::warn!(file = %path.display(), "removed an empty log file");
    }
    disk.sync_dir(&dirs.log)
        .map_err(io_error("sync", &dirs.log))
}

impl Recovered {
    /// Returns the zxid after which the log files are without a gap. The loaded snapshot may contain
    /// transactions that were never logged here, if it was received from a leader.
    pub fn log_whole_from(&self) -> Zxid {
        let snapshot = self.snapshot.as_ref();
        snapshot.map_or(Zxid::ZERO, |snapshot| snapshot.zxid)
    }

    /// Returns the result for a member whose files are untrusted.
    fn untrusted() -> Self {
        Self {
            last_zxid: Zxid(-1),
            snapshot: None,
            snapshot_info: SnapshotInfo::default(),
            txns_replayed: 0,
            last_record: None,
            torn_tail: None,
            empty: Some(EmptyDirectory::Untrusted),
            has_marker: false,
            snapshot_time: Duration::ZERO,
            replay_time: Duration::ZERO,
            warnings: Vec::new(),
        }
    }
}

impl RejectedSnapshot {
    fn new(file: SnapshotFile, reason: String, is_cut: bool) -> Self {
        let reached = Zxid::ZERO;
        Self {
            file,
            reason,
            is_cut,
            reached,
        }
    }

    fn replayed(&mut self, zxid: Zxid) {
        if zxid <= self.file.zxid {
            self.reached = self.reached.max(zxid);
        }
    }

    fn warning(&self) -> String {
        format!(
            "snapshot {} is damaged ({}); an older snapshot and the log contain its data",
            self.file.path.display(),
            self.reason
        )
    }
}
