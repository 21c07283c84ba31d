//! Tree of a backup, rebuilt from its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use blocking::files;
use jute::Limits;
use proto::Zxid;
use recovery::{RecoveredTree, recover_tree};
use storage::{DataDirs, RealDisk, RecoverySettings};
use tree::TreeSettings;

use super::manifest::Manifest;
use super::unpack::unpack;
use crate::staging::remove_tree;
use crate::{Error, file_error};

/// Rebuilds the tree of a backup from only the files of the backup.
pub(super) fn assemble(
    unfinished: &UnfinishedDirectory,
    dir: &Path,
    manifest: &Manifest,
    limits: Limits,
) -> Result<RecoveredTree, Error> {
    let dirs = unfinished.dirs()?;
    unpack(dir, manifest, manifest.last(), &dirs)?;
    recovered(&unfinished.0, &dirs, manifest.last(), limits)
}

/// Rebuilds the tree of a data directory.
///
/// # Errors
/// If the files cannot be read or are corrupt, if the last transaction is not `last`, or if the
/// tree differs from a logged digest.
pub(crate) fn recovered(
    data_dir: &Path,
    dirs: &DataDirs,
    last: Zxid,
    limits: Limits,
) -> Result<RecoveredTree, Error> {
    let settings = TreeSettings {
        // Znodes of any kind are permitted, regardless of the configuration of the server.
        extended_types: true,
        ..TreeSettings::new(limits)
    };
    let recovery = RecoverySettings::new(limits);
    let found = recover_tree(&RealDisk, dirs, &recovery, Arc::new(settings))?;
    let wrong = |reason: String| Error::Refused(format!("{}: {reason}", data_dir.display()));
    let end = found.recovered.last_zxid;
    if end != last {
        return Err(wrong(format!(
            "the files end at transaction {end}, not at {last}"
        )));
    }
    if found.digest_mismatches > 0 {
        return Err(wrong(format!(
            "the log up to {last} contains digests that the tree did not have (number: {}), so the data was altered",
            found.digest_mismatches
        )));
    }
    Ok(found)
}

/// Temporary data directory inside a backup. It is removed when this value is dropped.
pub(super) struct UnfinishedDirectory(PathBuf);

impl UnfinishedDirectory {
    pub(super) fn begin(dir: &Path) -> Result<Self, Error> {
        let unfinished = Self(dir.join("unfinished"));
        unfinished.clear()?;
        Ok(unfinished)
    }

    pub(super) fn dirs(&self) -> Result<DataDirs, Error> {
        let dirs = DataDirs::unlocked(&self.0, &self.0);
        files::create_dir_all(&dirs.snap).map_err(file_error("create", &dirs.snap))?;
        Ok(dirs)
    }

    pub(super) fn clear(&self) -> Result<(), Error> {
        remove_tree(&self.0)
    }
}

impl Drop for UnfinishedDirectory {
    fn drop(&mut self) {
        // If the removal fails, the next backup removes the directory.
        let _ = remove_tree(&self.0);
    }
}
