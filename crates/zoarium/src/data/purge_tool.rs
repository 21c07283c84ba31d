//! `zoarium purge`: removes snapshots and logs that recovery does not need, for cron jobs. Source:
//! PurgeTxnLog.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use storage::DataDirs;

use crate::tool::{LimitArgs, ToolError};

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
    let log_dir = args.data_log_dir.as_ref().unwrap_or(&args.data_dir);
    let dirs = DataDirs::unlocked(&args.data_dir, log_dir);
    Ok(datadir::purge(&dirs, args.keep, args.limits.limits())?)
}
