//! `zoarium backup`: a compressed snapshot with the log after it, from a running server or from its
//! files. `zoarium restore --backup` restores it.

mod fetch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use datadir::backup::{self, Manifest, Mode, NewBackup, Source};
use proto::Zxid;
use storage::DataDirs;
use tokio::runtime::Builder;

use crate::live::address::AddressArgs;
use crate::tool::{LimitArgs, ToolError, number};

/// Backs up a running server, or the files of a server, to a directory or one file
///
/// The first backup is complete; each later backup adds new transactions. Each backup becomes valid only
/// after the command has verified it with the digests in the log.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium backup /backups/zk1 -s zk1:2181")]
pub(crate) struct BackupArgs {
    /// Target: a separate directory, or a file whose name ends with .tar
    #[arg(value_name = "BACKUP")]
    dir: PathBuf,
    #[command(flatten)]
    address: AddressArgs,
    /// dataDir of a running or stopped server, also of Apache ZooKeeper
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "admin"])]
    data_dir: Option<PathBuf>,
    /// dataLogDir of this server, if it is different
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    data_log_dir: Option<PathBuf>,
    /// Creates a new complete backup, and then removes the old backup
    #[arg(long, conflicts_with = "verify")]
    full: bool,
    /// Verifies all hashes and digests of the existing backup instead of creating a new backup
    #[arg(long, conflicts_with_all = ["server", "admin", "data_dir"])]
    verify: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command. The exit code is 0 if the backup is good or the server has no new
/// transactions, and the code of the error otherwise.
pub(crate) fn run(args: &BackupArgs) -> ExitCode {
    let done = if args.verify {
        verify(args)
    } else {
        take(args)
    };
    match done {
        Ok(text) => {
            terminal::say!("{}: {text}", args.dir.display());
            ExitCode::SUCCESS
        }
        Err(error) => error.report("backup"),
    }
}

fn verify(args: &BackupArgs) -> Result<String, ToolError> {
    let manifest = backup::verify(&args.dir, args.limits.read_settings())?;
    Ok(format!("good: {}", described(&manifest)))
}

fn take(args: &BackupArgs) -> Result<String, ToolError> {
    let mode = if args.full {
        Mode::Complete
    } else {
        Mode::Incremental
    };
    let new = NewBackup::begin(&args.dir, mode, args.limits.read_settings())?;
    let source = match &args.data_dir {
        Some(data) => {
            let log = args.data_log_dir.as_ref().unwrap_or(data);
            Source::Server(DataDirs::unlocked(data, log))
        }
        None => Source::Download(download(args, &new)?),
    };
    Ok(match new.finish(&source)? {
        Some(manifest) => described(&manifest),
        None => "the server has no new transactions".to_owned(),
    })
}

/// Downloads the data for the new backup from a running server.
fn download(args: &BackupArgs, new: &NewBackup) -> Result<DataDirs, ToolError> {
    let (client, to) = (args.address.admin_client()?, new.download_dirs()?);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let fetched = runtime.block_on(async {
        if let Some(last) = new.extends() {
            return fetch::log(&client, last, last, &to).await;
        }
        fetch::snapshot(&client, &to).await?;
        let settings = args.limits.read_settings();
        let usable = datadir::snapshot::usable_before(&to, Zxid(i64::MAX), settings)?;
        fetch::log(&client, usable.file.zxid, usable.covers, &to).await
    });
    fetched.map_err(fetch::explained)?;
    Ok(to)
}

fn described(manifest: &Manifest) -> String {
    let bytes: u64 = manifest.files().map(|kept| kept.bytes).sum();
    format!(
        "{} after {}, digest {:#x}, in {} with {bytes} bytes; `zoarium restore` can restore any state from {} on",
        number(manifest.znodes, "znode"),
        manifest.last(),
        manifest.digest,
        number(manifest.files().count(), "file"),
        manifest.snapshot.last,
    )
}
