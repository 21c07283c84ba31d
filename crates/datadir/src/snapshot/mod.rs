//! Snapshots: printing their contents, sizes of subtrees, and comparisons.

mod compare;
mod json;
mod ncdu;
mod print;
mod sizes;
mod usable;

use std::path::{Path, PathBuf};

use storage::{Disk, list_snapshots};

pub use compare::{Compared, compare};
pub use json::print_json;
pub use ncdu::print_ncdu;
pub use print::print;
pub use sizes::{Subtree, descendants, subtrees};
pub use usable::{UsableSnapshot, usable_before};

use crate::{Error, files_dir};

/// Returns the file itself, or the newest snapshot of a directory.
///
/// # Errors
/// If the directory cannot be listed or does not contain snapshots.
pub fn newest_of<D: Disk>(disk: &D, path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let dir = files_dir(path);
    let newest = list_snapshots(disk, &dir)?.into_iter().next();
    let missing = || Error::Usage(format!("{} does not contain snapshots", dir.display()));
    Ok(newest.ok_or_else(missing)?.path)
}
