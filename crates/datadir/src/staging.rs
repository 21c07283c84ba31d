//! Data directory that receives all its files in one step.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use blocking::files;
use storage::{DataDirs, Disk, DiskLock, RealDisk, StorageError};

use crate::{Error, file_error};

/// Directory in the target in which the files are prepared. No server reads it.
const STAGING: &str = "zoarium.restoring";
pub(crate) const VERSION_DIR: &str = "version-2";
/// Names of entries that a directory without data may contain.
const HARMLESS: [&str; 4] = ["myid", "zoarium.lock", "lost+found", STAGING];

/// Prepared files of a future data directory.
///
/// A rename moves them to their final place once all of them are good and durable. Until then, a
/// server finds an empty directory, and the next restore removes the remains. While this value
/// exists, servers and other restores are locked out.
pub(crate) struct Staging {
    /// Target directories, in the order in which they receive their files. The log directory comes
    /// first, because a server refuses a log without a snapshot, but accepts a snapshot without a
    /// log.
    targets: Vec<PathBuf>,
    dirs: DataDirs,
    _locks: Vec<Box<dyn DiskLock>>,
}

impl Staging {
    /// Prepares a dataDir and a dataLogDir.
    ///
    /// # Errors
    /// If one of the directories is not empty, or another process uses it.
    pub(crate) fn begin(data_dir: &Path, log_dir: Option<&Path>) -> Result<Self, Error> {
        let log_dir = log_dir.filter(|log_dir| *log_dir != data_dir);
        let targets: Vec<PathBuf> = log_dir
            .into_iter()
            .chain([data_dir])
            .map(Path::to_path_buf)
            .collect();
        for target in &targets {
            refuse_full(target)?;
        }
        let mut locks = Vec::new();
        for target in &targets {
            files::create_dir_all(target).map_err(file_error("create", target))?;
            locks.push(lock(target)?);
            // The check is repeated, because another process may have used the directory before it
            // was locked.
            refuse_full(target)?;
            remove_tree(&target.join(STAGING))?;
        }
        let of_log = log_dir.unwrap_or(data_dir).join(STAGING);
        let dirs = DataDirs::unlocked(&data_dir.join(STAGING), &of_log);
        for dir in [&dirs.snap, &dirs.log] {
            files::create_dir_all(dir).map_err(file_error("create", dir))?;
        }
        Ok(Self {
            targets,
            dirs,
            _locks: locks,
        })
    }

    /// Returns the directories in which the files are prepared.
    pub(crate) fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// Creates a directory for other temporary files. It is removed when this value is dropped.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub(crate) fn create_directory(&self, name: &str) -> Result<PathBuf, Error> {
        let base = self.targets.last().map(|target| target.join(STAGING));
        let dir = base.unwrap_or_default().join(name);
        files::create_dir_all(&dir).map_err(file_error("create", &dir))?;
        Ok(dir)
    }

    /// Moves the files to their final place.
    ///
    /// # Errors
    /// If the files cannot be synced or moved. A separate dataLogDir may then already contain its
    /// files.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        for dir in [&self.dirs.snap, &self.dirs.log] {
            for entry in fs::read_dir(dir).map_err(file_error("list", dir))? {
                let path = entry.map_err(file_error("list", dir))?.path();
                let synced = fs::File::open(&path).and_then(|file| file.sync_all());
                synced.map_err(file_error("sync", &path))?;
            }
            RealDisk.sync_dir(dir).map_err(file_error("sync", dir))?;
        }
        for target in &self.targets {
            let (from, to) = (
                target.join(STAGING).join(VERSION_DIR),
                target.join(VERSION_DIR),
            );
            fs::rename(&from, &to).map_err(file_error("rename", &from))?;
            RealDisk
                .sync_dir(target)
                .map_err(file_error("sync", target))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for target in &self.targets {
            // If the removal fails, the next restore removes the directory.
            let _ = remove_tree(&target.join(STAGING));
        }
    }
}

fn refuse_full(dir: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file_error("list", dir)(error)),
    };
    for entry in entries {
        let name = entry.map_err(file_error("list", dir))?.file_name();
        if !HARMLESS.iter().any(|harmless| name == *harmless) {
            return Err(Error::Usage(format!(
                "{} is not empty (it contains {}) and is not overwritten; move it away, or name another directory",
                dir.display(),
                name.display()
            )));
        }
    }
    Ok(())
}

/// Locks a directory against other Zoarium processes while the result is held.
pub(crate) fn lock(dir: &Path) -> Result<Box<dyn DiskLock>, Error> {
    let path = dir.join("zoarium.lock");
    let locked = RealDisk.lock(&path).map_err(file_error("lock", &path))?;
    let dir = dir.to_path_buf();
    locked.ok_or(Error::Storage(StorageError::InUse { dir }))
}

/// Removes a directory of this crate if the directory exists.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(file_error("remove", dir)(error)),
        _ => Ok(()),
    }
}
