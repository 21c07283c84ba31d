//! `zoarium restore`: creates a data directory with a past state, from the files of another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, LogFile, RealDisk, SnapshotDigest, SnapshotFile, State, list_logs,
    list_snapshots, read_snapshot, read_txns_from, truncate,
};

use crate::backup;
use crate::history_tool::typed_moment;
use crate::staging::Staging;
use crate::tool::{LimitArgs, ToolError, number};
use history::Moment;

/// Creates a data directory with the state at a moment, from a snapshot and the log up to that moment
///
/// The source is a backup, or the files of a running or stopped server, also of Apache ZooKeeper. The source
/// is not changed. The target receives its data only after all of it has been verified. The target does not
/// contain epochs, so use it for a standalone server, or for each member of a new ensemble.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium restore --backup /backups/zk1 --to new-data")]
pub(crate) struct RestoreArgs {
    /// Directory or file that `zoarium backup` wrote
    #[arg(long, value_name = "BACKUP", required_unless_present = "data_dir")]
    backup: Option<PathBuf>,
    /// dataDir to read
    #[arg(long, value_name = "DIR", conflicts_with = "backup", requires = "at")]
    data_dir: Option<PathBuf>,
    /// dataLogDir to read, if it is different
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    data_log_dir: Option<PathBuf>,
    /// dataDir to create; it must not exist, or must be empty except for `myid`
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// dataLogDir to create, if it is different
    #[arg(long, value_name = "DIR")]
    to_log: Option<PathBuf>,
    /// Moment to restore: after this transaction, or after the last transaction up to this time; by default the
    /// end of the backup
    #[arg(long, value_name = "ZXID|TIME", value_parser = typed_moment)]
    at: Option<Moment>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command. The exit code is 1 if the moment cannot be restored.
pub(crate) fn run(args: &RestoreArgs) -> ExitCode {
    match restore(args) {
        Ok(made) => {
            terminal::say!(
                "{}: restored the tree after {} from {} and {}",
                args.to.display(),
                made.zxid,
                made.snapshot.display(),
                number(made.txns, "transaction")
            );
            ExitCode::SUCCESS
        }
        Err(error) => error.report("restore"),
    }
}

/// Result of a restore.
struct Made {
    zxid: Zxid,
    snapshot: PathBuf,
    txns: u64,
}

fn restore(args: &RestoreArgs) -> Result<Made, ToolError> {
    let limits = args.limits.limits();
    let staging = Staging::begin(&args.to, args.to_log.as_deref())?;
    let made = match &args.backup {
        Some(archive) if backup::is_archive(archive) => {
            let dir = staging.place("backup")?;
            backup::unpack_archive(archive, &dir)?;
            from_backup(args, &dir, archive, &staging)?
        }
        Some(backup) => from_backup(args, backup, backup, &staging)?,
        None => from_files(args, &staging)?,
    };
    if made.snapshot_zxid < made.wanted {
        truncate(&RealDisk, staging.dirs(), made.wanted, limits)?;
    } else {
        for log in list_logs(&RealDisk, &staging.dirs().log)? {
            fs::remove_file(&log.path)?;
        }
    }
    // Read the files as the server will. Missing, corrupt or altered data is detected now.
    let found = backup::recovered(&args.to, staging.dirs(), made.wanted, args.limits)?;
    if made
        .digest
        .is_some_and(|digest| digest != found.tree.digest())
    {
        let digest = found.tree.digest();
        return Err(ToolError::Refused(format!(
            "the tree after {} has digest {digest:#x}, which differs from the digest in the backup; use another backup",
            made.wanted
        )));
    }
    staging.publish()?;
    Ok(Made {
        zxid: made.wanted,
        snapshot: made.snapshot,
        txns: found.recovered.txns_replayed,
    })
}

/// Files that lead up to a transaction, in a directory that does not belong to a server yet.
struct Staged {
    wanted: Zxid,
    snapshot: PathBuf,
    snapshot_zxid: Zxid,
    /// Expected digest of the tree.
    digest: Option<u64>,
}

fn from_files(args: &RestoreArgs, staging: &Staging) -> Result<Staged, ToolError> {
    let (Some(data_dir), Some(at)) = (&args.data_dir, args.at) else {
        return Err(ToolError::Usage("--data-dir requires --at".to_owned()));
    };
    let limits = args.limits.limits();
    let log_dir = args.data_log_dir.as_ref().unwrap_or(data_dir);
    let source = DataDirs::unlocked(data_dir, log_dir);
    let wanted = target(&source, at, limits)?;
    let (snapshot, _) = snapshot_before(&source, wanted, limits)?;
    let logs = logs_between(&source, snapshot.zxid, wanted)?;
    copy(&snapshot.path, &staging.dirs().snap)?;
    for log in &logs {
        copy(&log.path, &staging.dirs().log)?;
    }
    Ok(Staged {
        wanted,
        snapshot_zxid: snapshot.zxid,
        snapshot: snapshot.path,
        digest: None,
    })
}

/// Restores from the directory of a backup. `called` is the name that the user entered, if the
/// backup is one file.
fn from_backup(
    args: &RestoreArgs,
    dir: &Path,
    called: &Path,
    staging: &Staging,
) -> Result<Staged, ToolError> {
    let manifest = backup::load(dir)?;
    let (first, last) = (manifest.snapshot.last, manifest.last());
    let upto = match args.at {
        Some(Moment::Zxid(zxid)) => zxid,
        Some(Moment::Time(_)) | None => last,
    };
    if upto < first || upto > last {
        return Err(ToolError::Usage(format!(
            "the backup {} contains the states after transactions {first} to {last}, but not after {upto}",
            called.display()
        )));
    }
    backup::unpack(dir, &manifest, upto, staging.dirs())?;
    let wanted = match args.at {
        Some(at) => target(staging.dirs(), at, args.limits.limits())?,
        None => last,
    };
    if wanted < first {
        return Err(ToolError::Usage(format!(
            "the moment of --at is before the first state in the backup {}, which is the state after {first}",
            called.display()
        )));
    }
    Ok(Staged {
        wanted,
        snapshot: called.join(&manifest.snapshot.file),
        snapshot_zxid: manifest.snapshot.first,
        digest: (wanted == last).then_some(manifest.digest),
    })
}

/// Returns the last transaction at the moment, and checks that it exists.
fn target(source: &DataDirs, at: Moment, limits: Limits) -> Result<Zxid, ToolError> {
    let mut last = None;
    let mut newest = None;
    for txn in read_txns_from(&RealDisk, source, Zxid(0), limits)? {
        let header = match txn {
            Ok(txn) => txn.record.header,
            // Corruption after the moment does no harm. The code below checks whether the
            // corruption is after the moment.
            Err(error) if newest.is_none() => return Err(error.into()),
            Err(_) => break,
        };
        let is_before = match at {
            Moment::Zxid(zxid) => header.zxid <= zxid,
            Moment::Time(ms) => header.time_ms <= ms,
        };
        if is_before {
            last = Some(header.zxid);
        }
        newest = Some(header.zxid);
        if matches!(at, Moment::Zxid(zxid) if header.zxid >= zxid) {
            break;
        }
    }
    let has_snapshot = |zxid: Zxid| -> Result<bool, ToolError> {
        let mut files = list_snapshots(&RealDisk, &source.snap)?.into_iter();
        Ok(files.any(|file| file.zxid == zxid))
    };
    match at {
        Moment::Zxid(zxid) if last == Some(zxid) || has_snapshot(zxid)? => Ok(zxid),
        Moment::Zxid(zxid) => Err(ToolError::Usage(format!(
            "the log does not contain transaction {zxid}; the log ends at {}",
            newest.unwrap_or(Zxid::ZERO)
        ))),
        Moment::Time(_) => last.ok_or_else(|| {
            ToolError::Usage(
                "the oldest transaction of the log is newer than the moment of --at".to_owned(),
            )
        }),
    }
}

/// Returns the newest good snapshot without any effect of later transactions, and the last
/// transaction of which it contains any part.
pub(crate) fn snapshot_before(
    source: &DataDirs,
    wanted: Zxid,
    limits: Limits,
) -> Result<(SnapshotFile, Zxid), ToolError> {
    let files = list_snapshots(&RealDisk, &source.snap)?;
    for file in files.into_iter().filter(|file| file.zxid <= wanted) {
        let mut seen = Discard::default();
        match read_snapshot(&RealDisk, &file, limits, &mut seen) {
            // Transactions continue while a snapshot is written, and the snapshot may contain parts
            // of them.
            Ok(info) => {
                let covers = info.covers().unwrap_or(file.zxid).max(seen.newest);
                let covers = covers.max(file.zxid);
                if covers <= wanted {
                    return Ok((file, covers));
                }
            }
            Err(error) => terminal::complain!("zoarium: {error}; trying an older snapshot"),
        }
    }
    Err(ToolError::Usage(format!(
        "{} does not contain a usable snapshot that ends at transaction {wanted} or earlier",
        source.snap.display()
    )))
}

/// Returns the log files with the transactions after the snapshot, up to the moment.
fn logs_between(source: &DataDirs, from: Zxid, to: Zxid) -> Result<Vec<LogFile>, ToolError> {
    let logs = list_logs(&RealDisk, &source.log)?;
    let begins_before = logs.partition_point(|log| log.zxid <= from.next());
    let first = begins_before.saturating_sub(1);
    let of_range = logs.into_iter().skip(first).filter(|log| log.zxid <= to);
    Ok(of_range.collect())
}

fn copy(file: &Path, dir: &Path) -> Result<(), ToolError> {
    if let Some(name) = file.file_name() {
        let to = dir.join(name);
        blocking::files::copy(file, &to)?;
    }
    Ok(())
}

/// Discards the tree, except for its newest visible transaction.
#[derive(Default)]
struct Discard {
    newest: Zxid,
}

impl State for Discard {
    fn begin(&mut self) {}

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn znode(
        &mut self,
        path: &str,
        _: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        // This znode contains the version of the member list, which is not the result of a
        // transaction.
        if path != "/zookeeper/config" {
            let zxids = [stat.czxid, stat.mzxid, stat.pzxid];
            let newest = zxids.into_iter().max().unwrap_or_default();
            self.newest = self.newest.max(Zxid(newest));
        }
        Ok(())
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}
