//! `zoarium snapshot`: prints, checks and compares snapshots of Java and of Zoarium.

mod compare;
mod summary;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use datadir::snapshot;
use storage::snapshot::read::SnapshotInfo;
use storage::{RealDisk, SnapshotFile, verify_snapshot};

use crate::tool::output::write_stdout;
use crate::tool::{LimitArgs, ToolError, number};
use compare::CompareArgs;
use summary::SummaryArgs;

/// Without an option, the command prints znodes and sessions like Apache ZooKeeper's SnapshotFormatter.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium snapshot zoarium-data")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: Option<SnapshotCommand>,
    #[command(flatten)]
    print: PrintArgs,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    Compare(CompareArgs),
    Summary(SummaryArgs),
}

#[derive(Debug, Args)]
struct PrintArgs {
    /// Snapshot, plain or compressed; for a data directory, its newest snapshot is used
    #[arg(required = true)]
    path: Option<PathBuf>,
    /// Verifies every checksum and every field of the file, instead of printing znodes
    #[arg(long, conflicts_with_all = ["json", "data"])]
    verify: bool,
    /// Prints the output as JSON: sessions, and znodes with data (base64), ACL and all other fields
    #[arg(long, conflicts_with = "data")]
    json: bool,
    /// Also prints the data, in base64
    #[arg(short, long)]
    data: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command. The exit code is 0 if the snapshot is good, 1 if it is corrupt, and the code
/// of the error after another failure.
pub(crate) fn run(args: &SnapshotArgs) -> ExitCode {
    let done = write_stdout(|out| match &args.command {
        Some(SnapshotCommand::Compare(args)) => compare::write(args, out),
        Some(SnapshotCommand::Summary(args)) => summary::write(args, out),
        None => print(&args.print, out),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report("snapshot"),
    }
}

fn print(args: &PrintArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    let path = snapshot::newest_of(&RealDisk, path)?;
    let limits = args.limits.limits();
    if args.verify {
        let file = SnapshotFile::find(&RealDisk, &path)?;
        let info = verify_snapshot(&RealDisk, &file, limits)?;
        write_verdict(&path, &info, out)?;
    } else if args.json {
        snapshot::print_json(&RealDisk, &path, limits, out)?;
    } else {
        snapshot::print(&RealDisk, &path, limits, args.data, out)?;
    }
    Ok(())
}

fn write_verdict(path: &Path, info: &SnapshotInfo, out: &mut dyn Write) -> Result<(), ToolError> {
    let SnapshotInfo {
        znodes,
        sessions,
        digest,
        last_zxid,
        ..
    } = info;
    let digest =
        digest.map(|digest| format!(", digest {:#x} at zxid {}", digest.digest, digest.zxid));
    let last = last_zxid.map(|zxid| format!(", last zxid {zxid}"));
    let (digest, last) = (digest.unwrap_or_default(), last.unwrap_or_default());
    let path = path.display();
    writeln!(
        out,
        "{path}: good: {}, {}{digest}{last}",
        number(znodes, "znode"),
        number(sessions, "session")
    )?;
    Ok(())
}
