//! The two data directories of a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::{FileName, LOG, SNAPSHOT, UNFINISHED, unfinished_name};
use crate::disk::{Disk, DiskLock};
use crate::error::{StorageError, io_error};

/// Subdirectory of dataDir and dataLogDir that contains the files, named after their format
/// version.
const VERSION_DIR: &str = "version-2";
/// Name of the lock file next to `version-2`, which Java ignores.
pub(crate) const LOCK_FILE: &str = "zoarium.lock";

/// Options of [`DataDirs::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether missing directories are created (`zookeeper.datadir.autocreate`).
    pub autocreate: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { autocreate: true }
    }
}

/// Directories of snapshots and logs. Directories from [`open`](Self::open) stay locked until the
/// last clone is dropped.
///
/// The operating system's lock on a file descriptor is used. It ends with the process, including
/// after SIGKILL, and a lock file without a lock does not matter. Java does not lock its
/// directories, so a running Java server on the same directory is not noticed.
#[derive(Debug, Clone)]
pub struct DataDirs {
    /// Directory `<dataDir>/version-2` with snapshots and epoch files.
    pub snap: PathBuf,
    /// Directory `<dataLogDir>/version-2` with logs.
    pub log: PathBuf,
    locks: Arc<Vec<Box<dyn DiskLock>>>,
}

impl DataDirs {
    /// Opens the directories for a server: creates missing ones, refuses files in the wrong
    /// directory, locks out other processes, and removes unfinished files.
    ///
    /// # Errors
    /// If a directory is missing and may not be created, is unusable, contains misplaced files, or
    /// is locked. All these errors have exit code 3. Source: FileTxnSnapLog's constructor.
    pub fn open<D: Disk>(
        disk: &D,
        data_dir: &Path,
        data_log_dir: &Path,
        options: OpenOptions,
    ) -> Result<Self, StorageError> {
        Self::check(disk, data_dir, data_log_dir, options)?;
        let snap = data_dir.join(VERSION_DIR);
        let log = data_log_dir.join(VERSION_DIR);
        create_dir(disk, &snap)?;
        create_dir(disk, &log)?;
        let mut locks = vec![lock(disk, data_dir)?];
        if data_log_dir != data_dir && !is_same_dir(data_dir, data_log_dir) {
            locks.push(lock(disk, data_log_dir)?);
        }
        refuse_mixed_up(disk, &snap, &log)?;
        ensure_writable(disk, &snap)?;
        ensure_writable(disk, &log)?;
        let dirs = Self {
            snap,
            log,
            locks: Arc::new(locks),
        };
        dirs.remove_unfinished(disk)?;
        Ok(dirs)
    }

    /// Returns the errors that [`Self::open`] would return before changing anything.
    ///
    /// # Errors
    /// If a directory is missing and may not be created, or if a link or a file prevents its
    /// creation.
    pub fn check<D: Disk>(
        disk: &D,
        data_dir: &Path,
        data_log_dir: &Path,
        options: OpenOptions,
    ) -> Result<(), StorageError> {
        for dir in [data_dir.join(VERSION_DIR), data_log_dir.join(VERSION_DIR)] {
            if disk.is_dir(&dir) {
                continue;
            }
            let reason = if options.autocreate {
                obstacle(&dir)
            } else {
                Some(
                    "the directory does not exist, and zookeeper.datadir.autocreate is false"
                        .to_owned(),
                )
            };
            if let Some(reason) = reason {
                return Err(StorageError::Directory { dir, reason });
            }
        }
        Ok(())
    }

    /// Returns the directories without locking or checking them, for read-only tools.
    pub fn unlocked(data_dir: &Path, data_log_dir: &Path) -> Self {
        Self {
            snap: data_dir.join(VERSION_DIR),
            log: data_log_dir.join(VERSION_DIR),
            locks: Arc::default(),
        }
    }

    /// Returns a separate data directory with this name next to `version-2`, and creates it if it
    /// is missing. At most `count_max` such directories may have names that begin with `prefix`.
    ///
    /// # Errors
    /// If there are already `count_max` other such directories, or if the directory cannot be
    /// created.
    pub fn create_sibling<D: Disk>(
        &self,
        disk: &D,
        prefix: &str,
        name: &str,
        count_max: usize,
    ) -> Result<Self, StorageError> {
        let parent = self.snap.parent().unwrap_or(Path::new("."));
        let listed = disk.list(parent).map_err(io_error("list", parent))?;
        let others = listed.iter().map(|entry| &entry.name);
        let others = others.filter(|other| other.starts_with(prefix) && *other != name);
        if others.count() >= count_max {
            return Err(StorageError::Directory {
                dir: parent.join(name),
                reason: format!(
                    "{count_max} directories {prefix}* already exist; check them and move them away"
                ),
            });
        }
        let dir = parent.join(name).join(VERSION_DIR);
        create_dir(disk, &dir)?;
        Ok(Self {
            snap: dir.clone(),
            log: dir,
            locks: self.locks.clone(),
        })
    }

    /// Refuses files in the wrong directory, like [`Self::open`].
    ///
    /// # Errors
    /// [`StorageError::Misplaced`] for such a file; an I/O error if a directory cannot be listed.
    pub fn check_places<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        refuse_mixed_up(disk, &self.snap, &self.log)
    }

    /// Removes unfinished files. Only this crate writes files with such names, and the lock
    /// excludes other processes.
    fn remove_unfinished<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        for dir in [&self.snap, &self.log] {
            for entry in disk.list(dir).map_err(io_error("list", dir))? {
                if !entry.is_dir && FileName::parse(&entry.name).prefix == UNFINISHED {
                    let path = dir.join(&entry.name);
                    disk.remove(&path).map_err(io_error("remove", &path))?;
                    tracing::info!(file = entry.name, "removed an unfinished file");
                }
            }
        }
        Ok(())
    }
}

fn create_dir<D: Disk>(disk: &D, dir: &Path) -> Result<(), StorageError> {
    if disk.is_dir(dir) {
        return Ok(());
    }
    let unusable = |error: std::io::Error| StorageError::Directory {
        dir: dir.to_path_buf(),
        reason: error.to_string(),
    };
    disk.create_dir_all(dir).map_err(unusable)?;
    // The new directories must be as durable as the first acknowledged write.
    for parent in dir.ancestors().skip(1).take(2) {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        if disk.is_dir(parent) {
            disk.sync_dir(parent).map_err(unusable)?;
        }
    }
    Ok(())
}

/// Describes the link or file that prevents the creation of a directory. The system only reports
/// that a file exists.
fn obstacle(dir: &Path) -> Option<String> {
    let found = dir
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())?;
    if found.is_dir() {
        return None;
    }
    Some(match found.read_link() {
        Ok(target) => format!(
            "{} is a link to {}, which does not exist or is not a directory: create that directory, or change the link",
            found.display(),
            target.display()
        ),
        Err(_) => format!("{} is not a directory", found.display()),
    })
}

/// Detects at the start, rather than at the first snapshot, that the directory is not writable.
fn ensure_writable<D: Disk>(disk: &D, dir: &Path) -> Result<(), StorageError> {
    let probe = dir.join(unfinished_name("probe"));
    disk.create(&probe)
        .and_then(|_| disk.remove(&probe))
        .map_err(|error| StorageError::Directory {
            dir: dir.to_path_buf(),
            reason: format!("the directory is not writable: {error}"),
        })
}

fn is_same_dir(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

fn lock<D: Disk>(disk: &D, dir: &Path) -> Result<Box<dyn DiskLock>, StorageError> {
    match disk.lock(&dir.join(LOCK_FILE)) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(StorageError::InUse {
            dir: dir.to_path_buf(),
        }),
        Err(error) => Err(StorageError::Directory {
            dir: dir.to_path_buf(),
            reason: format!("cannot create a lock file: {error}"),
        }),
    }
}

/// Refuses files in the wrong directory. If the two directories differ, each must contain only one
/// kind of file.
fn refuse_mixed_up<D: Disk>(disk: &D, snap: &Path, log: &Path) -> Result<(), StorageError> {
    if snap == log || is_same_dir(snap, log) {
        return Ok(());
    }
    refuse_misplaced(disk, snap, LOG)?;
    refuse_misplaced(disk, log, SNAPSHOT)
}

/// Refuses all names that begin with `kind` and a dot. For `log`, these include `log.txt` but not
/// `logs`.
fn refuse_misplaced<D: Disk>(disk: &D, dir: &Path, kind: &'static str) -> Result<(), StorageError> {
    for entry in disk.list(dir).map_err(io_error("list", dir))? {
        let rest = entry.name.strip_prefix(kind);
        if rest.is_some_and(|rest| rest.starts_with('.')) {
            return Err(StorageError::Misplaced {
                file: dir.join(entry.name),
                kind,
            });
        }
    }
    Ok(())
}
