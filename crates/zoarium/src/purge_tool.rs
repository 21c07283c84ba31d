//! `zoarium purge`: removes snapshots and logs that recovery does not need, for cron jobs. Source:
//! PurgeTxnLog.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use storage::{DataDirs, RealDisk, purge};

use crate::tool::{LimitArgs, ToolError};

/// Minimum number of kept snapshots, as with Apache ZooKeeper.
const KEPT_MIN: usize = 3;

/// Removes old snapshots, and the logs that only these snapshots need
///
/// The server may run meanwhile. With `autopurge.purgeInterval`, a server purges automatically.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium purge --data-dir zoarium-data -n 3")]
pub(crate) struct PurgeArgs {
    /// dataDir of the server
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// dataLogDir of the server, if it is different
    #[arg(long, value_name = "DIR")]
    data_log_dir: Option<PathBuf>,
    /// Number of snapshots to keep; 3 or more
    #[arg(short = 'n', long = "keep", value_name = "COUNT")]
    keep: usize,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command, and prints the name of each removed file.
pub(crate) fn run(args: &PurgeArgs) -> ExitCode {
    match remove(args) {
        Ok(removed) => {
            for file in removed {
                terminal::say!("Removing file: {}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => error.report("purge"),
    }
}

fn remove(args: &PurgeArgs) -> Result<Vec<PathBuf>, ToolError> {
    if args.keep < KEPT_MIN {
        // Exit code 1, as with Apache ZooKeeper.
        let reason = "count should be greater than or equal to 3";
        return Err(ToolError::Refused(reason.to_owned()));
    }
    let log_dir = args.data_log_dir.as_ref().unwrap_or(&args.data_dir);
    let dirs = DataDirs::unlocked(&args.data_dir, log_dir);
    for dir in [&dirs.snap, &dirs.log] {
        refuse_missing(dir)?;
    }
    dirs.check_places(&RealDisk)?;
    Ok(purge(&RealDisk, &dirs, args.keep, args.limits.limits())?)
}

/// Refuses a missing directory, because it would look like a directory without old files.
fn refuse_missing(dir: &Path) -> Result<(), ToolError> {
    if dir.is_dir() {
        return Ok(());
    }
    let reason = format!("{} does not exist; name the dataDir", dir.display());
    Err(ToolError::Refused(reason))
}
