//! Backups: a compressed snapshot and the log after it, from a running server or from its files.
//! [`restore`](crate::restore()) restores them.
//!
//! ```text
//! backup.json               names and hashes of the files, digest of the tree
//! 1-snapshot.<zxid>.gz      snapshot of the server
//! 2-log.<zxid>.gz ...       transactions after it, one file per backup run
//! unfinished/               only while a backup is taken or verified
//! ```
//!
//! A backup in one file is an archive of these files (`archive.rs`).
//!
//! A backup is complete once the tree has been rebuilt from it and matches the digests that the
//! server logged. `backup.json` is replaced only after this check. An earlier failure leaves the
//! previous backup intact.

mod archive;
mod assemble;
mod manifest;
mod pack;
mod unpack;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blocking::files;
use jute::Limits;
use proto::Zxid;
use storage::{DataDirs, DiskLock, RealDisk, list_snapshots};

use archive::WorkDirectory;
pub(crate) use archive::{is_archive, unpack as unpack_archive};
pub(crate) use assemble::recovered;
use assemble::{UnfinishedDirectory, assemble};
pub use manifest::{BackupFile, Manifest};
use manifest::{MANIFEST, number_of};
use pack::BackupEnd;
pub(crate) use unpack::unpack;

use crate::snapshot::usable_before;
use crate::staging::lock;
use crate::{Error, ReadSettings, file_error};

/// Relation of a new backup to the existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Adds new transactions to the existing backup, if there is one.
    Incremental,
    /// Creates a new complete backup, and then removes the existing one.
    Complete,
}

/// Source of the files of a backup.
#[derive(Debug)]
pub enum Source {
    /// Directories of a running or stopped server.
    Server(DataDirs),
    /// Directories with a finished download ([`NewBackup::download_dirs`]).
    Download(DataDirs),
}

/// Backup that is being taken.
pub struct NewBackup {
    dir: PathBuf,
    settings: ReadSettings,
    /// Backup that the new one extends.
    base: Option<Manifest>,
    unfinished: UnfinishedDirectory,
    number: u64,
    _lock: Box<dyn DiskLock>,
    archive: Option<Archive>,
}

/// Backup in one file.
struct Archive {
    path: PathBuf,
    /// Manifest of the existing archive; `None` if it was not unpacked.
    before: Option<Manifest>,
    workplace: WorkDirectory,
}

impl Archive {
    fn open(path: &Path, mode: Mode) -> Result<Self, Error> {
        let workplace = WorkDirectory::beside(path)?;
        let before = if mode == Mode::Incremental && path.exists() {
            archive::unpack(path, &workplace.dir)?;
            Some(load(&workplace.dir)?)
        } else {
            None
        };
        Ok(Self {
            path: path.to_path_buf(),
            before,
            workplace,
        })
    }

    /// Replaces the file if the backup has changed.
    fn close(self) -> Result<(), Error> {
        let after = load(&self.workplace.dir)?;
        if self.before.as_ref() != Some(&after) {
            archive::pack(&self.workplace.dir, &after, &self.path)?;
        }
        Ok(())
    }
}

impl NewBackup {
    /// Begins a backup in a directory, or in one file if `path` is a file or a new path that ends
    /// with `.tar`. Locks out other processes until the value is dropped.
    ///
    /// # Errors
    /// If the target contains other files, is corrupt, or is in use.
    pub fn begin(path: &Path, mode: Mode, settings: ReadSettings) -> Result<Self, Error> {
        let archive = is_archive(path)
            .then(|| Archive::open(path, mode))
            .transpose()?;
        let dir = match &archive {
            Some(archive) => archive.workplace.dir.clone(),
            None => path.to_path_buf(),
        };
        files::create_dir_all(&dir).map_err(file_error("create", &dir))?;
        let lock = lock(&dir)?;
        let existing = Manifest::load(&dir)?;
        refuse_others(&dir, existing.is_some())?;
        remove_unnamed(&dir, existing.as_ref())?;
        let unfinished = UnfinishedDirectory::begin(&dir)?;
        Ok(Self {
            number: existing.as_ref().map_or(1, Manifest::next_number),
            base: existing.filter(|_| mode == Mode::Incremental),
            dir,
            settings,
            unfinished,
            _lock: lock,
            archive,
        })
    }

    /// Returns the last transaction of the backup that this one extends. Returns `None` for a
    /// complete backup, whose source must contain a snapshot.
    pub fn extends(&self) -> Option<Zxid> {
        self.base.as_ref().map(Manifest::last)
    }

    /// Creates an empty data directory for a download.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn download_dirs(&self) -> Result<DataDirs, Error> {
        self.unfinished.dirs()
    }

    /// Adds the files of the source, rebuilds the tree from the backup, and makes the backup valid.
    /// Returns `None` if the source contains no new transactions.
    ///
    /// # Errors
    /// If the source does not continue the backup, is corrupt, or cannot be read, or if the backup
    /// cannot be written.
    pub fn finish(mut self, source: &Source) -> Result<Option<Manifest>, Error> {
        let new = match self.base.take() {
            Some(base) => self.extended(base, source)?,
            None => Some(self.complete(source)?),
        };
        let Some(mut new) = new else {
            return Ok(None);
        };
        // A download is removed first, so that the tree is rebuilt only from the backup.
        self.unfinished.clear()?;
        let found = assemble(&self.unfinished, &self.dir, &new, self.settings.limits)?;
        new.digest = found.tree.digest();
        new.znodes = found.tree.node_count() as u64;
        new.taken_ms = now_ms();
        self.unfinished.clear()?;
        new.publish(&self.dir)?;
        remove_unnamed(&self.dir, Some(&new))?;
        if let Some(archive) = self.archive.take() {
            archive.close()?;
        }
        Ok(Some(new))
    }

    /// Packs a snapshot and the log after it.
    fn complete(&self, source: &Source) -> Result<Manifest, Error> {
        let limits = self.settings.limits;
        read_with_retries(source, |dirs| {
            let last = end(dirs, limits)?;
            let usable = usable_before(dirs, last, self.settings)?;
            let (number, covers) = (self.number, usable.covers);
            let snapshot = pack::snapshot(&self.dir, number, &usable.file, covers)?;
            let after = BackupEnd {
                zxid: usable.file.zxid,
                record: None,
            };
            let packed = pack::log(&self.dir, number + 1, dirs, &after, limits)?;
            let new = Manifest {
                snapshot,
                logs: packed.log.into_iter().collect(),
                last_record: packed.last_record,
                digest: 0,
                znodes: 0,
                taken_ms: 0,
            };
            // This happens if the newest snapshot is not usable and the log does not cover the gap
            // after the previous snapshot.
            if new.last() < last {
                return Err(pack::missing_transaction_error(new.last()));
            }
            Ok(new)
        })
    }

    /// Extends a backup with the log that follows it. Returns `None` if there are no new
    /// transactions.
    fn extended(&self, mut base: Manifest, source: &Source) -> Result<Option<Manifest>, Error> {
        let after = BackupEnd {
            zxid: base.last(),
            record: base.last_record.as_deref(),
        };
        let packed = read_with_retries(source, |dirs| {
            pack::log(&self.dir, self.number, dirs, &after, self.settings.limits)
        })?;
        let Some(log) = packed.log else {
            return Ok(None);
        };
        base.logs.push(log);
        base.last_record = packed.last_record;
        Ok(Some(base))
    }
}

/// Verifies all hashes and digests of a backup.
///
/// # Errors
/// If the backup is incomplete, corrupt, or in use.
pub fn verify(path: &Path, settings: ReadSettings) -> Result<Manifest, Error> {
    if !is_archive(path) {
        return verify_dir(path, settings);
    }
    let workplace = WorkDirectory::beside(path)?;
    archive::unpack(path, &workplace.dir)?;
    verify_dir(&workplace.dir, settings)
}

fn verify_dir(dir: &Path, settings: ReadSettings) -> Result<Manifest, Error> {
    let manifest = load(dir)?;
    let _lock = lock(dir)?;
    let found = assemble(
        &UnfinishedDirectory::begin(dir)?,
        dir,
        &manifest,
        settings.limits,
    )?;
    if found.tree.digest() != manifest.digest {
        return Err(Error::Refused(format!(
            "{}: the tree after {} has digest {:#x} instead of {:#x}, so the files were changed",
            dir.display(),
            manifest.last(),
            found.tree.digest(),
            manifest.digest
        )));
    }
    Ok(manifest)
}

/// Reads the source. Retries a read of a server's files a few times, because a running server may
/// purge a file or write half of a record during the read.
fn read_with_retries<T>(
    source: &Source,
    read: impl Fn(&DataDirs) -> Result<T, Error>,
) -> Result<T, Error> {
    let dirs = match source {
        Source::Server(dirs) => dirs,
        Source::Download(dirs) => return read(dirs),
    };
    for _ in 1..TRIES {
        match read(dirs) {
            Err(Error::Storage(_)) => std::thread::sleep(AGAIN_AFTER),
            done => return done,
        }
    }
    read(dirs)
}

/// Returns the last transaction of a data directory, according to the log and the names of
/// snapshots.
fn end(dirs: &DataDirs, limits: Limits) -> Result<Zxid, Error> {
    let logged = storage::last_logged_zxid(&RealDisk, dirs, limits)?;
    let newest = list_snapshots(&RealDisk, &dirs.snap)?.into_iter().next();
    let ends = [logged, newest.map(|snapshot| snapshot.zxid)];
    let missing = || {
        let dir = dirs.snap.display();
        Error::Usage(format!("{dir} does not contain snapshots or logs"))
    };
    ends.into_iter().flatten().max().ok_or_else(missing)
}

const TRIES: u32 = 5;
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Loads the backup in a directory.
///
/// # Errors
/// If the directory does not contain a complete backup.
pub(crate) fn load(dir: &Path) -> Result<Manifest, Error> {
    Manifest::load(dir)?.ok_or_else(|| {
        let dir = dir.display();
        Error::Refused(format!(
            "{dir} does not contain a complete backup: {MANIFEST} is missing"
        ))
    })
}

/// Returns the names in a directory.
fn names_in(dir: &Path) -> Result<Vec<String>, Error> {
    let names = || -> io::Result<Vec<String>> {
        let entries = fs::read_dir(dir)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    };
    names().map_err(file_error("list", dir))
}

/// Refuses a directory that is not a backup and contains other files.
fn refuse_others(dir: &Path, is_backup: bool) -> Result<(), Error> {
    for name in names_in(dir)? {
        let is_ours = number_of(&name).is_some() || name.starts_with("unfinished");
        if !is_ours && !is_backup && name != "zoarium.lock" && name != "lost+found" {
            return Err(Error::Usage(format!(
                "{} contains {name} and is not a backup: name an empty or new directory",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Removes the backup files that the manifest does not list. An interrupted backup or the previous
/// backup wrote them.
fn remove_unnamed(dir: &Path, manifest: Option<&Manifest>) -> Result<(), Error> {
    let kept = manifest.into_iter().flat_map(Manifest::files);
    let named: Vec<&str> = kept.map(|kept| kept.file.as_str()).collect();
    for name in names_in(dir)? {
        if number_of(&name).is_some() && !named.contains(&name.as_str()) {
            let path = dir.join(&name);
            fs::remove_file(&path).map_err(file_error("remove", &path))?;
        }
    }
    Ok(())
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_millis()).ok())
        .unwrap_or(0)
}
