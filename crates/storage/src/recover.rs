//! Bringing a database back: the newest snapshot that is good, then the log after it.
//!
//! What is found is compared with what must be there, because the worst a server can do is to
//! start without a part of its data and not say so:
//!
//! * the first transaction after the snapshot must be the next one, or the first of a later epoch;
//! * so must each transaction after its predecessor;
//! * a newer snapshot that does not load must be made up for by the log: its transaction must be
//!   among those replayed, or the start is refused. (Its number alone does not tell: behind it the
//!   log may begin with a later epoch, and what leads up to it may be missing.)
//!
//! Source: FileTxnSnapLog.restore, ZKDatabase.loadDataBase.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jute::Limits;
use proto::Zxid;
use proto::mutant::{self, Mutant};

use crate::ahead;
use crate::dirs::DataDirs;
use crate::disk::Disk;
use crate::error::{StorageError, described, io_error};
use crate::log::chain::{LoggedTxn, LoggedTxns};
use crate::log::judge::TornTail;
use crate::names::{SnapshotFile, list_logs, list_snapshots};
use crate::snapshot::read::{SnapshotInfo, read_snapshot};
use crate::snapshot::valid::cheap_fault;
use crate::state::State;
use crate::untrusted::is_untrusted;

/// Snapshots that are tried before the start is given up.
const CANDIDATES_MAX: usize = 100;
/// Beside the logs' `version-2`: an empty database is to be trusted.
const INITIALIZE: &str = "initialize";

/// What the configuration says about recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Limits for strings and buffers, from `jute.maxbuffer`.
    pub limits: Limits,
    /// Logs may stand without any snapshot. `snapshot.trust.empty`.
    pub trust_empty: bool,
    /// An empty directory is a new database. `db.autocreate`; otherwise only with the marker.
    pub db_autocreate: bool,
}

impl RecoverySettings {
    /// The default settings, with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            trust_empty: false,
            db_autocreate: true,
        }
    }
}

/// What an empty directory means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// A new database: write `snapshot.0`, go on at zxid 0.
    Trusted,
    /// Data may be missing (`db.autocreate` is off and there is no marker), or was set aside
    /// ([`set_history_aside`](crate::set_history_aside)): a member must not vote before it has
    /// synchronised. The last zxid is -1.
    Untrusted,
}

impl Empty {
    /// What directories without snapshots and logs are; they may not exist yet.
    ///
    /// # Errors
    /// If the marker cannot be read.
    pub fn look<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        db_autocreate: bool,
    ) -> Result<Self, StorageError> {
        match is_untrusted(disk, dirs)? {
            true => Ok(Self::Untrusted),
            false => Ok(Self::of(has_marker(disk, dirs)?, db_autocreate)),
        }
    }

    fn of(has_marker: bool, db_autocreate: bool) -> Self {
        match has_marker || db_autocreate {
            true => Self::Trusted,
            false => Self::Untrusted,
        }
    }
}

/// Whether the file `initialize` is there.
fn has_marker<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<bool, StorageError> {
    let marker = marker_path(dirs);
    let found = disk.read_small(&marker, usize::MAX);
    Ok(found.map_err(io_error("read", &marker))?.is_some())
}

/// What recovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The last transaction; -1 if the database is [`Empty::Untrusted`].
    pub last_zxid: Zxid,
    /// The snapshot that was loaded.
    pub snapshot: Option<SnapshotFile>,
    /// What its sections say.
    pub snapshot_info: SnapshotInfo,
    /// Transactions replayed from the log.
    pub txns_replayed: u64,
    /// The last good record of the newest log: the file, and where in it the record begins.
    pub last_record: Option<(PathBuf, u64)>,
    /// The torn end of the last log, if it is torn.
    pub torn_tail: Option<(PathBuf, TornTail)>,
    /// Set if there was neither snapshot nor log.
    pub empty: Option<Empty>,
    /// Whether the `initialize` marker was there. With data it is removed at once; for a new
    /// database call [`remove_initialize_marker`] when the first snapshot is written.
    pub has_marker: bool,
    /// How long the snapshot took, from the search for it.
    pub snapshot_time: Duration,
    /// How long the log after it took.
    pub replay_time: Duration,
    /// What an operator should read, in words.
    pub warnings: Vec<String>,
}

/// A snapshot that does not load, and why.
#[derive(Debug)]
struct Rejected {
    file: SnapshotFile,
    reason: String,
    /// How far the rest leads towards it: its own zxid if nothing is missing.
    reached: Zxid,
}

/// Fills `state` from the directories.
///
/// Changes nothing but this: log files of 0 bytes are removed (as by Java, which refuses them once
/// another log follows), and the marker, both only after success.
///
/// # Errors
/// If data is damaged or missing; every variant says where and what helps. `state` is then half
/// filled and of no use.
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
    let empty = is_empty.then_some(Empty::of(has_marker, settings.db_autocreate));
    if has_marker && empty.is_none() {
        remove_initialize_marker(disk, dirs)?;
    }
    let last_zxid = match empty {
        Some(Empty::Untrusted) => Zxid(-1),
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

/// Applies all of them and counts them.
fn replay<'d, D: Disk, S: State>(
    txns: LoggedTxns<'d, D>,
    reads_ahead: bool,
    state: &mut S,
    rejected: &mut [Rejected],
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

/// What an operator should read, also told to the log.
fn warnings_about(rejected: &[Rejected], info: &SnapshotInfo, reached: Zxid) -> Vec<String> {
    let mut warnings: Vec<String> = rejected.iter().map(Rejected::warning).collect();
    if let Some(covers) = info.covers().filter(|covers| *covers > reached) {
        warnings.push(format!(
            "the snapshot was written while transactions up to {covers} were applied, but the log \
             reaches only to {reached}: the tree may hold parts of lost transactions"
        ));
    }
    for warning in &warnings {
        tracing::warn!(warning, "recovery");
    }
    warnings
}

/// Removes `<dataLogDir>/initialize`; no error if it is not there.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_initialize_marker<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<(), StorageError> {
    let marker = marker_path(dirs);
    match disk.remove(&marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error("remove", &marker)(error))
        }
        _ => Ok(()),
    }
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
) -> Result<(Loaded, Vec<Rejected>), StorageError> {
    let mut rejected = Vec::new();
    let mut tried = 0;
    for file in list_snapshots(disk, &dirs.snap)? {
        if let Some(reason) = cheap_fault(disk, &file)? {
            rejected.push(Rejected::new(file, reason));
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
                    "snapshot does not load, an older one is tried");
                let reason = match error {
                    StorageError::SnapshotDamaged { offset, reason, .. } => {
                        format!("at offset {offset}: {reason}")
                    }
                    other => other.to_string(),
                };
                rejected.push(Rejected::new(file, reason));
            }
        }
    }
    Ok((None, rejected))
}

/// Without any good snapshot only two things may be: a new database, or, if the operator says so,
/// a history that is complete in the logs.
fn refuse_unexplained<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    settings: &RecoverySettings,
    rejected: &[Rejected],
) -> Result<(), StorageError> {
    if settings.trust_empty {
        return Ok(());
    }
    let log = list_logs(disk, &dirs.log)?
        .into_iter()
        .find(|log| log.len > 0);
    // A snapshot of zxid 0 holds nothing that a new database does not.
    let newest = rejected.first();
    match (newest, log) {
        (Some(newest), log) if log.is_some() || newest.file.zxid > Zxid::ZERO => {
            Err(StorageError::NoUsableSnapshot {
                dir: dirs.snap.clone(),
                newest: newest.file.path.clone(),
                reason: newest.reason.clone(),
            })
        }
        (None, Some(log)) => Err(StorageError::NoSnapshot {
            dir: dirs.snap.clone(),
            log: log.path,
        }),
        _ => Ok(()),
    }
}

/// A damaged snapshot is no loss if the log leads from an older one, of `base`, to its transaction.
///
/// One of an epoch's start, counter 0, has no transaction. Nothing tells then whether the log in
/// front of that epoch is complete, so it counts as lost.
fn refuse_lost(rejected: &[Rejected], base: Zxid) -> Result<(), StorageError> {
    let is_lost = |other: &&Rejected| other.file.zxid > base && other.reached < other.file.zxid;
    match rejected.iter().find(is_lost) {
        Some(_) if mutant::is(Mutant::LostSnapshotIgnored) => Ok(()),
        Some(lost) => Err(StorageError::SnapshotLost {
            path: lost.file.path.clone(),
            reason: lost.reason.clone(),
            reached: lost.reached.max(base),
        }),
        None => Ok(()),
    }
}

/// Java removes an empty log if it is the last, and refuses it if not; so none may stay before
/// another log is written.
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
    /// Whatever the files hold, it is not this member's history.
    fn untrusted() -> Self {
        Self {
            last_zxid: Zxid(-1),
            snapshot: None,
            snapshot_info: SnapshotInfo::default(),
            txns_replayed: 0,
            last_record: None,
            torn_tail: None,
            empty: Some(Empty::Untrusted),
            has_marker: false,
            snapshot_time: Duration::ZERO,
            replay_time: Duration::ZERO,
            warnings: Vec::new(),
        }
    }
}

impl Rejected {
    fn new(file: SnapshotFile, reason: String) -> Self {
        let reached = Zxid::ZERO;
        Self {
            file,
            reason,
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
            "snapshot {} is damaged ({}); an older one and the log made up for it",
            self.file.path.display(),
            self.reason
        )
    }
}
