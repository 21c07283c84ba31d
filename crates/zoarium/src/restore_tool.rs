//! `zoarium restore`: a data directory as it was, from another one's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, LogFile, OpenOptions, RealDisk, RecoverySettings, SnapshotDigest,
    SnapshotFile, State, list_logs, list_snapshots, read_snapshot, read_txns_from, recover,
    truncate,
};

use crate::moment::{At, parse_at};
use crate::tool::{LimitArgs, ToolError};

/// Makes a data directory as it was at a moment: a snapshot, and the log up to there
///
/// Works on the files of Apache ZooKeeper as well, of a server that runs or does not. Nothing of the
/// source is changed. The target holds no epochs and no myid: it is for a server that stands alone,
/// or the first of a new ensemble.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The dataDir to read
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Its dataLogDir, if that is another one
    #[arg(long, value_name = "DIR")]
    data_log_dir: Option<PathBuf>,
    /// The dataDir to make; empty or not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// After this transaction, or the last one not later than this time
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    at: At,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Does what the arguments say. Exit code 1 if the moment cannot be restored.
pub(crate) fn run(args: &RestoreArgs) -> ExitCode {
    match restore(args) {
        Ok(made) => {
            println!(
                "{}: the tree after {}, from {} and {} transactions",
                args.to.display(),
                made.zxid,
                made.snapshot.display(),
                made.txns
            );
            ExitCode::SUCCESS
        }
        Err(error) => error.report("restore"),
    }
}

/// What was made.
struct Made {
    zxid: Zxid,
    snapshot: PathBuf,
    txns: u64,
}

fn restore(args: &RestoreArgs) -> Result<Made, ToolError> {
    let limits = args.limits.limits();
    let log_dir = args.data_log_dir.as_ref().unwrap_or(&args.data_dir);
    let source = DataDirs::unlocked(&args.data_dir, log_dir);
    refuse_full(&args.to)?;
    let wanted = target(&source, args.at, limits)?;
    let snapshot = snapshot_before(&source, wanted, limits)?;
    let logs = logs_between(&source, snapshot.zxid, wanted)?;
    let target = DataDirs::open(&RealDisk, &args.to, &args.to, OpenOptions::default())?;
    copy(&snapshot.path, &target.snap)?;
    for log in &logs {
        copy(&log.path, &target.log)?;
    }
    if wanted > snapshot.zxid {
        truncate(&RealDisk, &target, wanted, limits)?;
    } else {
        for log in list_logs(&RealDisk, &target.log)? {
            fs::remove_file(&log.path)?;
        }
    }
    let settings = RecoverySettings {
        limits,
        ..RecoverySettings::default()
    };
    // As the server will read it: what is missing or damaged shows now.
    let found = recover(&RealDisk, &target, &settings, &mut Discard::default())?;
    if found.last_zxid != wanted {
        let last = found.last_zxid;
        return Err(ToolError::Usage(format!(
            "the files lead to {last}, not to {wanted}"
        )));
    }
    Ok(Made {
        zxid: wanted,
        snapshot: snapshot.path,
        txns: found.txns_replayed,
    })
}

fn refuse_full(dir: &Path) -> Result<(), ToolError> {
    let is_full = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if is_full {
        let dir = dir.display();
        let reason = format!("{dir} is not empty: nothing is written over");
        return Err(ToolError::Usage(reason));
    }
    Ok(())
}

/// The transaction that is meant, and that it is there.
fn target(source: &DataDirs, at: At, limits: Limits) -> Result<Zxid, ToolError> {
    let mut last = None;
    let mut newest = None;
    for txn in read_txns_from(&RealDisk, source, Zxid(0), limits)? {
        let header = match txn {
            Ok(txn) => txn.record.header,
            // Beyond the moment damage does no harm; whether it is beyond shows below.
            Err(error) if newest.is_none() => return Err(error.into()),
            Err(_) => break,
        };
        let is_before = match at {
            At::Zxid(zxid) => header.zxid <= zxid,
            At::Time(ms) => header.time_ms <= ms,
        };
        if is_before {
            last = Some(header.zxid);
        }
        newest = Some(header.zxid);
        if matches!(at, At::Zxid(zxid) if header.zxid >= zxid) {
            break;
        }
    }
    let has_snapshot = |zxid: Zxid| -> Result<bool, ToolError> {
        let mut files = list_snapshots(&RealDisk, &source.snap)?.into_iter();
        Ok(files.any(|file| file.zxid == zxid))
    };
    match at {
        At::Zxid(zxid) if last == Some(zxid) || has_snapshot(zxid)? => Ok(zxid),
        At::Zxid(zxid) => Err(ToolError::Usage(format!(
            "there is no transaction {zxid} in the log, which ends at {}",
            newest.unwrap_or(Zxid::ZERO)
        ))),
        At::Time(_) => last.ok_or_else(|| {
            ToolError::Usage("the log holds no transaction that is as old as that".to_owned())
        }),
    }
}

/// The newest good snapshot that holds nothing of what came after the moment.
fn snapshot_before(
    source: &DataDirs,
    wanted: Zxid,
    limits: Limits,
) -> Result<SnapshotFile, ToolError> {
    let files = list_snapshots(&RealDisk, &source.snap)?;
    for file in files.into_iter().filter(|file| file.zxid <= wanted) {
        let mut seen = Discard::default();
        match read_snapshot(&RealDisk, &file, limits, &mut seen) {
            // While a snapshot is written, transactions go on, and it may hold parts of them.
            Ok(info) if info.covers().unwrap_or(file.zxid).max(seen.newest) <= wanted => {
                return Ok(file);
            }
            Ok(_) => {}
            Err(error) => eprintln!("zoarium restore: {error}; an older snapshot is tried"),
        }
    }
    Err(ToolError::Usage(format!(
        "no snapshot of {} was complete by {wanted}: that far back nothing is left",
        source.snap.display()
    )))
}

/// Files that hold what lies behind the snapshot, up to the moment.
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
        fs::copy(file, &to)?;
        fs::File::open(&to)?.sync_all()?;
    }
    Ok(())
}

/// Keeps nothing but the newest transaction that shows.
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
        // The version of the member list stands in this one, and no transaction put it there.
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
