//! A data directory that has nothing, and then all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use blocking::files;
use storage::{DataDirs, Disk, DiskLock, RealDisk, StorageError};

use crate::backup::{file_error, remove_tree};
use crate::tool::ToolError;

/// What is put together beside the place of the data, which no server reads.
const STAGING: &str = "zoarium.restoring";
const VERSION_DIR: &str = "version-2";
/// What may be in a data directory that has no data.
const HARMLESS: [&str; 4] = ["myid", "zoarium.lock", "lost+found", STAGING];

/// Files that are to become those of a server.
///
/// They get their place by a rename once all of them are good and on disk: until then a server finds
/// an empty directory, and the next restore removes what is left. While this lives, servers and
/// other restores are kept out.
pub(crate) struct Staging {
    /// Log directory first: a log without a snapshot is refused by a server, and not the reverse.
    targets: Vec<PathBuf>,
    dirs: DataDirs,
    _locks: Vec<Box<dyn DiskLock>>,
}

impl Staging {
    /// For a dataDir and a dataLogDir.
    ///
    /// # Errors
    /// If there is anything in one of them, or somebody is at it.
    pub(crate) fn begin(data_dir: &Path, log_dir: Option<&Path>) -> Result<Self, ToolError> {
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
            // Again: somebody may have been at it until just now.
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

    /// Where the files are put together.
    pub(crate) fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// A directory for something else that is needed meanwhile. It goes when this is dropped.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf, ToolError> {
        let base = self.targets.last().map(|target| target.join(STAGING));
        let dir = base.unwrap_or_default().join(name);
        files::create_dir_all(&dir).map_err(file_error("create", &dir))?;
        Ok(dir)
    }

    /// Makes them those of the server.
    ///
    /// # Errors
    /// If they cannot be written; then nothing is there.
    pub(crate) fn publish(&self) -> Result<(), ToolError> {
        for dir in [&self.dirs.snap, &self.dirs.log] {
            for entry in fs::read_dir(dir).map_err(file_error("list", dir))? {
                let path = entry?.path();
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
            // The next one removes it.
            let _ = remove_tree(&target.join(STAGING));
        }
    }
}

fn refuse_full(dir: &Path) -> Result<(), ToolError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file_error("list", dir)(error)),
    };
    for entry in entries {
        let name = entry?.file_name();
        if !HARMLESS.iter().any(|harmless| name == *harmless) {
            return Err(ToolError::Usage(format!(
                "{} is not empty, it holds {}: nothing is written over; move it away, or name another directory",
                dir.display(),
                name.display()
            )));
        }
    }
    Ok(())
}

/// Keeps other processes of ours from a directory for as long as it is held.
pub(crate) fn lock(dir: &Path) -> Result<Box<dyn DiskLock>, ToolError> {
    let path = dir.join("zoarium.lock");
    let locked = RealDisk.lock(&path).map_err(file_error("lock", &path))?;
    let dir = dir.to_path_buf();
    locked.ok_or(ToolError::Storage(StorageError::InUse { dir }))
}
