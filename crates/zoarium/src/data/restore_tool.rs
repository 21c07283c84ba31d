//! `zoarium restore`: creates a data directory with a past state, from a backup or from the files
//! of a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use datadir::{RestoreRequest, Restored, Source};
use history::Moment;
use storage::DataDirs;

use crate::history_tool::typed_moment;
use crate::tool::{LimitArgs, ToolError, number};

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

/// Runs the command. Returns the exit code of the error if the moment cannot be restored.
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

fn restore(args: &RestoreArgs) -> Result<Restored, ToolError> {
    let source = match (&args.backup, &args.data_dir, args.at) {
        (Some(backup), _, at) => Source::Backup {
            path: backup.clone(),
            at,
        },
        (None, Some(data_dir), Some(at)) => {
            let log_dir = args.data_log_dir.as_ref().unwrap_or(data_dir);
            Source::Files {
                dirs: DataDirs::unlocked(data_dir, log_dir),
                at,
            }
        }
        (None, ..) => return Err(ToolError::Usage("--data-dir requires --at".to_owned())),
    };
    let request = RestoreRequest {
        source,
        to: args.to.clone(),
        to_log: args.to_log.clone(),
        settings: args.limits.read_settings(),
    };
    Ok(datadir::restore(&request)?)
}
