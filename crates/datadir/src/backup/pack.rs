//! Compression and hashing of a data directory's files for a backup.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use blocking::files;
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use jute::Limits;
use proto::Zxid;
use sha2::{Digest, Sha256};
use storage::{
    Compression, DataDirs, RealDisk, SnapshotFile, io_error, is_log_whole, log, read_txns_from,
};

use super::manifest::{BackupFile, sha256_hex};
use crate::{Error, file_error};

/// Result of [`log()`], which packs the log after a transaction.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// File with this part. `None` if the log does not contain later transactions.
    pub(super) log: Option<BackupFile>,
    /// Hash of the record of the backup's last transaction. `None` if the hash is unknown.
    pub(super) last_record: Option<String>,
}

/// End of a backup, from which the next backup continues.
pub(super) struct BackupEnd<'a> {
    pub(super) zxid: Zxid,
    /// Hash of the record of this transaction. `None` if the backup does not contain the hash.
    pub(super) record: Option<&'a str>,
}

/// Adds a snapshot to the backup, and compresses a plain snapshot.
pub(super) fn snapshot(
    dir: &Path,
    number: u64,
    file: &SnapshotFile,
    covers: Zxid,
) -> Result<BackupFile, Error> {
    let is_plain = file.compression == Compression::None;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let name = if is_plain {
        format!("{name}.gz")
    } else {
        name.into_owned()
    };
    let (path, kept) = (
        dir.join(format!("{number}-{name}")),
        format!("{number}-{name}"),
    );
    // A running server may purge the snapshot. The caller then reads again, with another snapshot.
    let source = File::open(&file.path).map_err(io_error("read", &file.path))?;
    let mut source = BufReader::with_capacity(PIECE_BYTES, source);
    let mut writer = Writer::create(path, is_plain)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = source
            .read(&mut piece)
            .map_err(io_error("read", &file.path))?;
        if read == 0 {
            break;
        }
        writer.write(&piece[..read])?;
    }
    let (bytes, sha256) = writer.finish()?;
    Ok(BackupFile {
        file: kept,
        name,
        first: file.zxid,
        last: covers,
        bytes,
        sha256,
    })
}

/// Adds the log after a transaction to the backup.
///
/// # Errors
/// If the log does not continue from this transaction, or contains a different transaction with the
/// same zxid.
pub(super) fn log(
    dir: &Path,
    number: u64,
    dirs: &DataDirs,
    after: &BackupEnd<'_>,
    limits: Limits,
) -> Result<Packed, Error> {
    let mut packed = Packed {
        last_record: after.record.map(str::to_owned),
        ..Packed::default()
    };
    let mut writer: Option<(Writer, Zxid)> = None;
    let mut last = after.zxid;
    let mut has_met = after.record.is_none();
    for txn in read_txns_from(&RealDisk, dirs, after.zxid, limits)? {
        let txn = txn?;
        let zxid = txn.record.header.zxid;
        if zxid == after.zxid {
            let found = record_hash(&txn.payload);
            if after.record.is_some_and(|record| record != found) {
                return Err(other_ensemble_error(after.zxid));
            }
            packed.last_record = Some(found);
            has_met = true;
            continue;
        }
        // Java may write a transaction twice.
        if zxid <= last {
            continue;
        }
        if writer.is_none() {
            if !has_met || !last.is_followed_by(zxid) {
                return Err(missing_transaction_error(after.zxid));
            }
            let path = dir.join(format!("{number}-log.{:x}.gz", zxid.0));
            let mut new = Writer::create(path, true)?;
            new.write(&log::file_header())?;
            writer = Some((new, zxid));
        }
        if let Some((writer, _)) = &mut writer {
            let mut record = Vec::with_capacity(txn.payload.len() + 16);
            log::put_record(&txn.payload, &mut record);
            writer.write(&record)?;
        }
        packed.last_record = Some(record_hash(&txn.payload));
        last = zxid;
    }
    if !has_met || !is_log_whole(&RealDisk, dirs, after.zxid, last, limits)? {
        return Err(missing_transaction_error(after.zxid));
    }
    if let Some((writer, first)) = writer {
        let (bytes, sha256) = writer.finish()?;
        packed.log = Some(BackupFile {
            file: format!("{number}-log.{:x}.gz", first.0),
            name: format!("log.{:x}", first.0),
            first,
            last,
            bytes,
            sha256,
        });
    }
    Ok(packed)
}

pub(super) fn other_ensemble_error(zxid: Zxid) -> Error {
    Error::Refused(format!(
        "the server's transaction {zxid} differs from the last transaction of the backup. The backup belongs to another ensemble, or the log was truncated. Back up to another directory, or start again with --full"
    ))
}

pub(super) fn missing_transaction_error(zxid: Zxid) -> Error {
    Error::Refused(format!(
        "the log does not continue from {zxid}, where the backup ends: log files were purged, or the log ends earlier or belongs to another ensemble. Back up to another directory, or start again with --full"
    ))
}

fn record_hash(payload: &[u8]) -> String {
    sha256_hex(Sha256::new_with_prefix(payload))
}

/// Writer that compresses and hashes a file.
struct Writer {
    path: PathBuf,
    out: BackupOutput,
}

enum BackupOutput {
    Gz(GzEncoder<Hashing>),
    Plain(Hashing),
}

struct Hashing {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Writer {
    fn create(path: PathBuf, compresses: bool) -> Result<Self, Error> {
        let file = files::create(&path).map_err(file_error("create", &path))?;
        let hashing = Hashing {
            file,
            hash: Sha256::new(),
            bytes: 0,
        };
        let out = if compresses {
            BackupOutput::Gz(GzEncoder::new(hashing, Level::fast()))
        } else {
            BackupOutput::Plain(hashing)
        };
        Ok(Self { path, out })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = match &mut self.out {
            BackupOutput::Gz(out) => out.write_all(bytes),
            BackupOutput::Plain(out) => out.write_all(bytes),
        };
        written.map_err(file_error("write", &self.path))
    }

    /// Syncs the file, and returns its length and hash.
    fn finish(self) -> Result<(u64, String), Error> {
        let ended = match self.out {
            BackupOutput::Gz(out) => out.finish(),
            BackupOutput::Plain(out) => Ok(out),
        };
        let ended = ended.and_then(|out| out.file.sync_all().map(|()| out));
        let out = ended.map_err(file_error("write", &self.path))?;
        Ok((out.bytes, sha256_hex(out.hash)))
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purged_snapshot_is_a_fault_of_the_source_so_the_read_is_retried() {
        let dir = tempfile::tempdir().unwrap();
        let purged = SnapshotFile {
            path: dir.path().join("snapshot.5"),
            len: Some(0),
            zxid: Zxid(5),
            compression: Compression::None,
        };
        let refused = snapshot(dir.path(), 1, &purged, Zxid(5)).unwrap_err();
        assert!(matches!(refused, Error::Storage(_)), "{refused}");
    }
}
