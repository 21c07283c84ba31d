//! File names of the data directories.
//!
//! The names are `log.<zxid>` and `snapshot.<zxid>[.gz|.snappy]` with the zxid in hex. Java ignores
//! further parts (`log.5.fixed` is a log of zxid 5). Zoarium prefers the plain name to a name with
//! unknown further parts. It never reads a `.tmp` file, because the name marks an incomplete file.
//!
//! Names of unfinished or set-aside files begin with a prefix (`unfinished.log.5`, `aside.log.5`),
//! so that Java and this crate do not treat them as logs or snapshots.
//!
//! Source: Util.getZxidFromName.

use std::path::{Path, PathBuf};

use proto::Zxid;

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};
use crate::snapshot::Compression;

/// Prefix of a log's name.
pub(crate) const LOG: &str = "log";
/// Prefix of a snapshot's name.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// Prefix of the name of a file that is being written. Such files are removed when the directory is
/// opened.
pub(crate) const UNFINISHED: &str = "unfinished";

/// A parsed file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName<'a> {
    /// Part before the first dot, for example `log` or `snapshot`.
    pub prefix: &'a str,
    /// Second part, if it is a zxid.
    pub zxid: Option<Zxid>,
    /// Part after the second dot.
    pub suffix: &'a str,
}

impl<'a> FileName<'a> {
    /// Parses a name. Upper-case digits and leading zeros are accepted. Values of 2^63 and above
    /// (as in `snapshot.ffffffffffffffff`) are not zxids.
    pub fn parse(name: &'a str) -> Self {
        let (prefix, rest) = name.split_once('.').unwrap_or((name, ""));
        let (number, suffix) = rest.split_once('.').unwrap_or((rest, ""));
        let is_hex = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        let zxid = is_hex
            .then(|| i64::from_str_radix(number, 16).ok().map(Zxid))
            .flatten();
        Self {
            prefix,
            zxid,
            suffix,
        }
    }
}

/// A log file found in the log directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Zxid of the log's first record, according to its name.
    pub zxid: Zxid,
    /// Path of the file.
    pub path: PathBuf,
    /// Length in bytes, including preallocated space. `None` if the file exists but cannot be
    /// examined, for example a dangling link. Only a reader of the file fails. Without the file in
    /// the list, a shorter history would seem to be complete.
    pub len: Option<u64>,
}

/// A snapshot file found in the snapshot directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Zxid in the snapshot's name. The snapshot contains at least the transactions up to this
    /// zxid.
    pub zxid: Zxid,
    /// Path of the file.
    pub path: PathBuf,
    /// Length in bytes. `None` if the file cannot be examined, as in [`LogFile::len`].
    pub len: Option<u64>,
    /// Compression, according to the suffix of the name.
    pub compression: Compression,
}

impl SnapshotFile {
    /// Returns the snapshot file at any path. Zxid and compression are derived from its name. The
    /// zxid is 0 if the name does not contain a zxid.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn find<D: Disk>(disk: &D, path: &Path) -> Result<Self, StorageError> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let len = disk
            .open(path)
            .and_then(|file| file.len())
            .map_err(io_error("open", path))?;
        Ok(Self {
            zxid: FileName::parse(name).zxid.unwrap_or_default(),
            path: path.to_path_buf(),
            len: Some(len),
            compression: Compression::of_name(name),
        })
    }
}

/// Returns `log.<zxid>`.
pub(crate) fn log_name(zxid: Zxid) -> String {
    format!("{LOG}.{:x}", zxid.0)
}

/// Returns `snapshot.<zxid>` with the suffix of the compression.
pub(crate) fn snapshot_name(zxid: Zxid, compression: Compression) -> String {
    format!("{SNAPSHOT}.{:x}{}", zxid.0, compression.suffix())
}

/// Returns the name that a file has until it is complete.
pub(crate) fn unfinished_name(name: &str) -> String {
    format!("{UNFINISHED}.{name}")
}

/// Returns the logs in a directory by ascending zxid, one file per zxid.
///
/// If several names contain the same zxid, the plain name is used (`log.5` instead of
/// `log.5.fixed`). Java would replay both.
///
/// # Errors
/// If the directory cannot be listed.
pub fn list_logs<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<LogFile>, StorageError> {
    let mut found: Vec<(Zxid, bool, String, Option<u64>)> = Vec::new();
    for entry in disk.list(dir).map_err(io_error("list", dir))? {
        let name = FileName::parse(&entry.name);
        if entry.is_dir || name.prefix != LOG || name.suffix == "tmp" {
            continue;
        }
        if let Some(zxid) = name.zxid {
            let is_copy = !name.suffix.is_empty();
            found.push((zxid, is_copy, entry.name, entry.len.ok()));
        }
    }
    found.sort();
    let mut logs: Vec<LogFile> = Vec::with_capacity(found.len());
    for (zxid, _, name, len) in found {
        if logs.last().is_some_and(|last| last.zxid == zxid) {
            tracing::warn!(file = name, %zxid, "log ignored because another file name contains the same zxid");
            continue;
        }
        let path = dir.join(name);
        logs.push(LogFile { zxid, path, len });
    }
    Ok(logs)
}

/// Returns the snapshots in a directory, newest first. If zxids are equal, plain snapshots precede
/// compressed ones.
///
/// # Errors
/// If the directory cannot be listed.
pub fn list_snapshots<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<SnapshotFile>, StorageError> {
    let mut found: Vec<SnapshotFile> = Vec::new();
    for entry in disk.list(dir).map_err(io_error("list", dir))? {
        let name = FileName::parse(&entry.name);
        if entry.is_dir || name.prefix != SNAPSHOT || name.suffix == "tmp" {
            continue;
        }
        if let Some(zxid) = name.zxid {
            found.push(SnapshotFile {
                zxid,
                compression: Compression::of_name(&entry.name),
                path: dir.join(&entry.name),
                len: entry.len.ok(),
            });
        }
    }
    found.sort_by(|a, b| b.zxid.cmp(&a.zxid).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_java_reads_them() {
        let zxid = |name| FileName::parse(name).zxid;
        assert_eq!(zxid("log.5"), Some(Zxid(5)));
        assert_eq!(zxid("snapshot.0A.gz"), Some(Zxid(10)));
        assert_eq!(zxid("log.7fffffffffffffff"), Some(Zxid(i64::MAX)));
        for none in [
            "log",
            "log.",
            "log.zz",
            "log.+5",
            "log.-5",
            "snapshot.ffffffffffffffff",
        ] {
            assert_eq!(zxid(none), None, "{none}");
        }
        assert_eq!(FileName::parse("log.5.fixed").suffix, "fixed");
        assert_eq!(FileName::parse("unfinished.log.5").prefix, UNFINISHED);
    }
}
