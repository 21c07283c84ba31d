//! `zoarium backup`: a compressed snapshot with the log after it, from a running server or from its
//! files. `zoarium restore --backup` restores it.
//!
//! ```text
//! backup.json               which files count, their hashes, the digest of the tree
//! 1-snapshot.<zxid>.gz      as the server wrote it
//! 2-log.<zxid>.gz ...       what came behind it, a file for each time
//! unfinished/               while a backup is taken
//! ```
//!
//! A backup in one file is an archive of these files ([`archive`]).
//!
//! A backup is complete after the tree was rebuilt from it with the digests that the server logged.
//! Only then is `backup.json` replaced. An earlier failure leaves the previous backup intact.

mod archive;
mod fetch;
mod manifest;
mod pack;
mod unpack;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use blocking::files;
use clap::Args;
use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use jute::Limits;
use proto::Zxid;
use server::RecoveredTree;
use storage::{DataDirs, RealDisk, list_snapshots};
use tokio::runtime::Builder;

use archive::Workplace;
pub(crate) use archive::is_archive;
pub(crate) use archive::unpack as unpack_archive;
use manifest::MANIFEST;
pub(crate) use manifest::Manifest;
use manifest::{Kept, number_of};
use pack::After;
pub(crate) use unpack::unpack;

use crate::address::AddressArgs;
use crate::restore_tool::snapshot_before;
use crate::staging::lock;
use crate::tool::{LimitArgs, ToolError, number};

/// Backs up a running server, or the files of a server, to a directory or one file
///
/// The first backup is complete; each later backup adds new transactions. Each backup becomes valid only
/// after the command has verified it with the digests in the log.
#[derive(Debug, Clone, Args)]
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

/// Runs the command. The exit code is 1 if there is no new backup, or if a backup is corrupt.
pub(crate) fn run(args: &BackupArgs) -> ExitCode {
    let done = if is_archive(&args.dir) {
        in_archive(args)
    } else {
        done(args)
    };
    match done {
        Ok(text) => {
            terminal::say!("{}: {text}", args.dir.display());
            ExitCode::SUCCESS
        }
        Err(error) => error.report("backup"),
    }
}

fn done(args: &BackupArgs) -> Result<String, ToolError> {
    if args.verify {
        verify(args)
    } else {
        take(args)
    }
}

/// Runs the command on a backup in one file.
fn in_archive(args: &BackupArgs) -> Result<String, ToolError> {
    let archive = &args.dir;
    let workplace = Workplace::beside(archive)?;
    let inside = BackupArgs {
        dir: workplace.dir.clone(),
        ..args.clone()
    };
    let before = if args.verify || (!args.full && archive.exists()) {
        archive::unpack(archive, &inside.dir)?;
        Some(load(&inside.dir)?)
    } else {
        None
    };
    let text = done(&inside)?;
    let after = load(&inside.dir)?;
    if before.as_ref() != Some(&after) {
        archive::pack(&inside.dir, &after, archive)?;
    }
    Ok(text)
}

fn verify(args: &BackupArgs) -> Result<String, ToolError> {
    let manifest = load(&args.dir)?;
    let _lock = lock(&args.dir)?;
    let found = assemble(&args.dir, &manifest, args.limits)?;
    if found.tree.digest() != manifest.digest {
        return Err(ToolError::Refused(format!(
            "{}: the tree after {} has digest {:#x} instead of {:#x}, so the files were changed",
            args.dir.display(),
            manifest.last(),
            found.tree.digest(),
            manifest.digest
        )));
    }
    Ok(format!("good: {}", described(&manifest)))
}

fn take(args: &BackupArgs) -> Result<String, ToolError> {
    files::create_dir_all(&args.dir).map_err(file_error("create", &args.dir))?;
    let _lock = lock(&args.dir)?;
    let before = Manifest::load(&args.dir)?;
    refuse_others(&args.dir, before.is_some())?;
    remove_unnamed(&args.dir, before.as_ref())?;
    let unfinished = Unfinished::begin(&args.dir)?;
    let mut taking = Taking {
        args,
        unfinished,
        number: before.as_ref().map_or(1, Manifest::next_number),
    };
    let base = before.clone().filter(|_| !args.full);
    let new = match base {
        Some(base) => taking.go_on(base)?,
        None => Some(taking.begin()?),
    };
    let Some(mut new) = new else {
        return Ok("the server has no new transactions".to_owned());
    };
    // The tree is rebuilt from the backup, not from its sources.
    taking.unfinished.clear()?;
    let found = assemble_in(&taking.unfinished, &args.dir, &new, args.limits)?;
    new.digest = found.tree.digest();
    new.znodes = found.tree.node_count() as u64;
    new.taken_ms = now_ms();
    drop(taking);
    new.publish(&args.dir)?;
    remove_unnamed(&args.dir, Some(&new))?;
    Ok(described(&new))
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

/// A backup in progress.
struct Taking<'a> {
    args: &'a BackupArgs,
    unfinished: Unfinished,
    number: u64,
}

impl Taking<'_> {
    /// Starts a backup with a snapshot and the log after it.
    fn begin(&mut self) -> Result<Manifest, ToolError> {
        let args = self.args;
        let dirs = match self.files() {
            Some(dirs) => dirs,
            None => {
                let to = self.unfinished.dirs()?;
                self.fetch(async |client, to| {
                    fetch::snapshot(client, to).await?;
                    let at = snapshot_before(to, Zxid(i64::MAX), args.limits.limits())?;
                    fetch::log(client, at.0.zxid, at.1, to).await
                })?;
                to
            }
        };
        self.patiently(|taking| {
            let limits = args.limits.limits();
            let last = end(&dirs, limits)?;
            let (file, covers) = snapshot_before(&dirs, last, limits)?;
            let snapshot = pack::snapshot(&args.dir, taking.number, &file, covers)?;
            let after = After {
                zxid: file.zxid,
                record: None,
            };
            let packed = pack::log(&args.dir, taking.number + 1, &dirs, &after, limits)?;
            let new = Manifest {
                snapshot,
                logs: packed.log.into_iter().collect(),
                last_record: packed.last_record,
                digest: 0,
                znodes: 0,
                taken_ms: 0,
            };
            // The newest snapshot is corrupt, and the log does not cover the difference.
            if new.last() < last {
                return Err(pack::not_kept(new.last()));
            }
            Ok(new)
        })
    }

    /// Extends a backup with the log after it. Returns `None` if there is nothing new.
    fn go_on(&mut self, mut base: Manifest) -> Result<Option<Manifest>, ToolError> {
        let args = self.args;
        let last = base.last();
        let dirs = match self.files() {
            Some(dirs) => dirs,
            None => {
                let to = self.unfinished.dirs()?;
                self.fetch(async |client, to| fetch::log(client, last, last, to).await)?;
                to
            }
        };
        let after = After {
            zxid: last,
            record: base.last_record.as_deref(),
        };
        let packed = self.patiently(|taking| {
            pack::log(
                &args.dir,
                taking.number,
                &dirs,
                &after,
                args.limits.limits(),
            )
        })?;
        let Some(log) = packed.log else {
            return Ok(None);
        };
        base.logs.push(log);
        base.last_record = packed.last_record;
        Ok(Some(base))
    }

    /// Returns the directories to back up, or `None` if the backup is taken from a server.
    fn files(&self) -> Option<DataDirs> {
        let data = self.args.data_dir.as_ref()?;
        let log = self.args.data_log_dir.as_ref().unwrap_or(data);
        Some(DataDirs::unlocked(data, log))
    }

    fn fetch(
        &self,
        from: impl AsyncFn(&client::admin::AdminClient, &DataDirs) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let (client, to) = (self.args.address.admin_client()?, self.unfinished.dirs()?);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(from(&client, &to))
            .map_err(fetch::explained)
    }

    /// Retries a read a few times. A running server may purge a file or write half of a record
    /// during the read.
    fn patiently<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match read(self) {
                Err(ToolError::Storage(_)) if self.files().is_some() && tries < TRIES => {
                    std::thread::sleep(AGAIN_AFTER);
                }
                done => return done,
            }
        }
    }
}

/// Returns the last transaction of a data directory, according to the log and the names of
/// snapshots.
fn end(dirs: &DataDirs, limits: Limits) -> Result<Zxid, ToolError> {
    let logged = storage::last_logged_zxid(&RealDisk, dirs, limits)?;
    let newest = list_snapshots(&RealDisk, &dirs.snap)?.into_iter().next();
    let ends = [logged, newest.map(|snapshot| snapshot.zxid)];
    let missing = || {
        let dir = dirs.snap.display();
        ToolError::Usage(format!("{dir} does not contain snapshots or logs"))
    };
    ends.into_iter().flatten().max().ok_or_else(missing)
}

const TRIES: u32 = 5;
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Loads the backup in a directory.
///
/// # Errors
/// If the directory does not contain a complete backup.
pub(crate) fn load(dir: &Path) -> Result<Manifest, ToolError> {
    Manifest::load(dir)?.ok_or_else(|| {
        let dir = dir.display();
        ToolError::Refused(format!(
            "{dir} does not contain a complete backup: {MANIFEST} is missing"
        ))
    })
}

/// Refuses a directory that contains other files.
fn refuse_others(dir: &Path, is_backup: bool) -> Result<(), ToolError> {
    let entries = fs::read_dir(dir).map_err(file_error("list", dir))?;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_ours = number_of(&name).is_some() || name.starts_with("unfinished");
        if !is_ours && !is_backup && name != "zoarium.lock" && name != "lost+found" {
            return Err(ToolError::Usage(format!(
                "{} contains {name} and is not a backup: name an empty or new directory",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Removes the files of an interrupted backup, or of the previous one.
fn remove_unnamed(dir: &Path, manifest: Option<&Manifest>) -> Result<(), ToolError> {
    let named: Vec<&str> = manifest.map_or(Vec::new(), |manifest| {
        manifest
            .files()
            .map(|kept: &Kept| kept.file.as_str())
            .collect()
    });
    for entry in fs::read_dir(dir).map_err(file_error("list", dir))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if number_of(&name).is_some() && !named.contains(&name.as_str()) {
            fs::remove_file(entry.path()).map_err(file_error("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// Rebuilds the tree of a backup from its files alone.
fn assemble(
    dir: &Path,
    manifest: &Manifest,
    limits: LimitArgs,
) -> Result<RecoveredTree, ToolError> {
    let unfinished = Unfinished::begin(dir)?;
    assemble_in(&unfinished, dir, manifest, limits)
}

fn assemble_in(
    unfinished: &Unfinished,
    dir: &Path,
    manifest: &Manifest,
    limits: LimitArgs,
) -> Result<RecoveredTree, ToolError> {
    let dirs = unfinished.dirs()?;
    unpack(dir, manifest, manifest.last(), &dirs)?;
    recovered(&unfinished.0, &dirs, manifest.last(), limits)
}

/// Rebuilds the tree of a data directory.
///
/// # Errors
/// If the tree does not end with the transaction `last`, or differs from the logged digests.
pub(crate) fn recovered(
    data_dir: &Path,
    dirs: &DataDirs,
    last: Zxid,
    limits: LimitArgs,
) -> Result<RecoveredTree, ToolError> {
    let path = config::properties::escape_value(&data_dir.display().to_string());
    // Znodes of any kind are allowed, whatever the configuration of the server.
    let text = format!("dataDir={path}\nextendedTypesEnabled=true\n");
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes());
    let mut properties = SystemProperties::new();
    properties.define("", &format!("jute.maxbuffer={}", limits.jute_maxbuffer));
    let odd = |error: String| ToolError::Refused(format!("{}: {error}", data_dir.display()));
    let raw = raw.map_err(|error| odd(error.to_string()))?;
    let config = Config::parse(raw, properties, &mut NoSurroundings);
    let config = config.map_err(|error| odd(error.to_string()))?;
    let found = server::recover_tree(&config, dirs)?;
    let end = found.recovered.last_zxid;
    if end != last {
        return Err(odd(format!(
            "the files end at transaction {end}, not at {last}"
        )));
    }
    if found.digest_mismatches > 0 {
        return Err(odd(format!(
            "the log up to {last} contains digests that the tree did not have (number: {}), so the data was altered",
            found.digest_mismatches
        )));
    }
    Ok(found)
}

/// The data directory inside a backup, during the work.
struct Unfinished(PathBuf);

impl Unfinished {
    fn begin(dir: &Path) -> Result<Self, ToolError> {
        let unfinished = Self(dir.join("unfinished"));
        unfinished.clear()?;
        Ok(unfinished)
    }

    fn dirs(&self) -> Result<DataDirs, ToolError> {
        let dirs = DataDirs::unlocked(&self.0, &self.0);
        files::create_dir_all(&dirs.snap).map_err(file_error("create", &dirs.snap))?;
        Ok(dirs)
    }

    fn clear(&self) -> Result<(), ToolError> {
        remove_tree(&self.0)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If the removal fails, the next backup removes the directory.
        let _ = remove_tree(&self.0);
    }
}

/// Removes a Zoarium directory if it exists.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), ToolError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error("remove", dir)(error))
        }
        _ => Ok(()),
    }
}

/// Adds the file's path to an I/O error.
pub(crate) fn file_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> ToolError + use<> {
    let path = path.display().to_string();
    move |error| ToolError::Refused(format!("cannot {action} {path}: {error}"))
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_millis()).ok())
        .unwrap_or(0)
}
