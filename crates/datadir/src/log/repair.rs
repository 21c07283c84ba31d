//! Functions that write a repaired copy of a corrupted log, or truncate a log at a zxid.
//!
//! The copies have names that no server treats as a log. Java's `log.5.fixed` would be replayed in
//! addition to `log.5`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jute::Limits;
use proto::Zxid;
use storage::log::chain::{decode_payload, zxid_of};
use storage::log::judge::{Verdict, judge, last_nonzero};
use storage::log::scan::{LogScanner, Scanned, StopReason};
use storage::log::{FRAME_BYTES, PREFIX_BYTES, file_header, put_record};
use storage::{DAMAGED, Damage, Disk, DiskFile, DiskLock, StorageError, io_error};

use super::zxid_before;
use crate::error::Error;
use crate::staging::{self, VERSION_DIR};

/// Treatment of records whose checksum is wrong but whose framing is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadChecksums {
    /// The log ends before the first such record, because the wrong byte is unknown.
    #[default]
    Cut,
    /// The records are kept if they can be decoded, with a checksum that fits their bytes. Java's
    /// `-r -y` does this.
    Accept,
}

/// Record that [`repair`] changed or omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFix {
    /// The length field was wrong. No data is lost.
    Length {
        /// Offset of the record in the corrupted file.
        offset: u64,
        /// Zxid of the record.
        zxid: Zxid,
    },
    /// The end byte was wrong. No data is lost.
    EndByte {
        /// Offset of the record in the corrupted file.
        offset: u64,
        /// Zxid of the record.
        zxid: Zxid,
    },
    /// The checksum was wrong and has been recomputed. Some bytes of the record may be wrong.
    Checksum {
        /// Offset of the record in the corrupted file.
        offset: u64,
        /// Zxid of the record, which may also be wrong.
        zxid: Zxid,
    },
    /// The copy ends here, and the rest of the file is omitted.
    Cut {
        /// Offset in the corrupted file at which the copy ends.
        offset: u64,
        /// Number of omitted bytes, without preallocated zeros.
        bytes: u64,
        /// Reason for the omission. `None` for a torn end, as after a crash.
        reason: Option<String>,
    },
}

/// Copy that [`repair`] or [`chop`] has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCopy {
    /// Path of the copy.
    pub path: PathBuf,
    /// Number of records in the copy.
    pub records: u64,
    /// Zxid of the last record in the copy.
    pub last: Option<Zxid>,
    /// Differences from the original.
    pub fixes: Vec<RecordFix>,
}

/// Writes `repaired.<name>` to the directory of the log. The copy contains all records that are
/// intact or can be restored without guessing, up to the first record that is neither. The original
/// is not changed. See [`replace`].
///
/// # Errors
/// If the file cannot be read or is not a log, or the copy cannot be written.
pub fn repair<D: Disk>(
    disk: &D,
    path: &Path,
    bad_checksums: BadChecksums,
    limits: Limits,
) -> Result<WrittenCopy, StorageError> {
    let mut scanner = LogScanner::open(disk, path, limits)?;
    let mut copy = Copy::create(disk, path, "repaired")?;
    let mut last = zxid_before(path);
    loop {
        let offset = scanner.position();
        let payload = match scanner.next_record()? {
            Scanned::Record(record) => {
                let is_record = decode_payload(record.payload.clone());
                let accept = record.is_intact() || bad_checksums == BadChecksums::Accept;
                let reason = match (is_record, accept) {
                    (Ok(_), true) => None,
                    (Ok(_), false) => Some("the record's checksum is wrong".to_string()),
                    (Err(error), _) => Some(error.to_string()),
                };
                if let Some(reason) = reason {
                    copy.cut(&scanner, offset, Some(reason))?;
                    break;
                }
                if !record.is_intact() {
                    let zxid = zxid_of(&record.payload).unwrap_or(last);
                    copy.fixes.push(RecordFix::Checksum { offset, zxid });
                }
                record.payload
            }
            Scanned::Stop(stop) => match judge(&scanner, stop, last)? {
                Verdict::End => break,
                Verdict::Torn(_) => {
                    copy.cut(&scanner, offset, None)?;
                    break;
                }
                Verdict::Damaged(damage) => match restored(&mut scanner, stop, &damage)? {
                    Some((payload, fix)) => {
                        copy.fixes.push(fix);
                        payload
                    }
                    None => {
                        copy.cut(&scanner, offset, Some(damage.to_string()))?;
                        break;
                    }
                },
            },
        };
        last = zxid_of(&payload).unwrap_or(last);
        copy.put(&payload, last)?;
    }
    copy.finish(disk)
}

/// Returns the payload of a record if only its length or its end byte is wrong. The scanner is then
/// positioned after the record.
fn restored<F: DiskFile>(
    scanner: &mut LogScanner<F>,
    stop: StopReason,
    damage: &Damage,
) -> Result<Option<(Bytes, RecordFix)>, StorageError> {
    let offset = scanner.position();
    let is_end_byte = matches!(damage, Damage::EndByte { .. });
    let len = match (stop, damage) {
        (
            StopReason::EndByte {
                len,
                is_intact: true,
                ..
            },
            Damage::EndByte { .. },
        ) => len,
        (_, Damage::WrongLength { actual, .. }) => *actual,
        _ => return Ok(None),
    };
    let len = usize::try_from(len).unwrap_or(0);
    let payload = scanner.read(offset + PREFIX_BYTES as u64, len)?;
    let zxid = zxid_of(&payload).unwrap_or_default();
    let fix = if is_end_byte {
        RecordFix::EndByte { offset, zxid }
    } else {
        RecordFix::Length { offset, zxid }
    };
    scanner.seek(offset + (FRAME_BYTES + len) as u64);
    Ok(Some((payload, fix)))
}

/// Writes `chopped.<name>` to the directory of the log. It contains the records with zxid <=
/// `last_kept`.
///
/// # Errors
/// If the file cannot be read or is not a log, if a corrupted record precedes the first record
/// after `last_kept`, or if the copy cannot be written.
pub fn chop<D: Disk>(
    disk: &D,
    path: &Path,
    last_kept: Zxid,
    limits: Limits,
) -> Result<WrittenCopy, StorageError> {
    let mut scanner = LogScanner::open(disk, path, limits)?;
    let mut copy = Copy::create(disk, path, "chopped")?;
    let mut last = zxid_before(path);
    loop {
        let offset = scanner.position();
        let damaged = |damage, last_good| StorageError::LogDamaged {
            path: path.to_path_buf(),
            offset,
            damage,
            last_good,
        };
        match scanner.next_record()? {
            Scanned::Record(record) if record.is_intact() => {
                let zxid = zxid_of(&record.payload).unwrap_or(last);
                if zxid > last_kept {
                    copy.cut(&scanner, offset, Some(format!("zxid {zxid} follows")))?;
                    break;
                }
                last = zxid;
                copy.put(&record.payload, zxid)?;
            }
            Scanned::Record(record) => {
                let damage = Damage::Checksum {
                    stored: record.stored,
                    computed: record.computed,
                };
                return Err(damaged(damage, last));
            }
            Scanned::Stop(stop) => match judge(&scanner, stop, last)? {
                Verdict::Damaged(damage) => return Err(damaged(damage, last)),
                _ => break,
            },
        }
    }
    copy.finish(disk)
}

/// Proof that no server uses the data directory of a log.
#[derive(Debug)]
pub struct LogLock {
    locks: Vec<Box<dyn DiskLock>>,
}

impl LogLock {
    /// Returns whether a directory is locked. If not, the path of the log does not show which
    /// server may use it.
    pub fn is_held(&self) -> bool {
        !self.locks.is_empty()
    }
}

/// Locks the data directory of a log. The lock must be held before the log is read for a copy that
/// replaces it. Servers only use logs in `version-2`, with their lock next to it. A link may lead
/// to that directory, or from it to the directory of the log, so both the path itself and its
/// target count. If neither contains `version-2`, nothing is locked ([`LogLock::is_held`]).
///
/// # Errors
/// If a server or another tool uses the directory, or if the directory or the lock file cannot be
/// opened.
pub fn lock(path: &Path) -> Result<LogLock, Error> {
    let path = std::path::absolute(path).map_err(io_error("find", path))?;
    let named = path.parent().unwrap_or(&path);
    let target = named.canonicalize().map_err(io_error("find", named))?;
    let mut dirs = BTreeSet::new();
    for files in [named, &target] {
        if let Some(data) = files.parent().filter(|_| files.ends_with(VERSION_DIR)) {
            // A second lock of the same directory would fail.
            dirs.insert(data.canonicalize().map_err(io_error("find", data))?);
        }
    }
    let locks = dirs.iter().map(|dir| staging::lock(dir));
    Ok(LogLock {
        locks: locks.collect::<Result<_, _>>()?,
    })
}

/// Replaces the original with a copy. Keeps the original as `damaged.<name>`, and returns that
/// path.
///
/// The original is copied, and the repaired copy is then renamed over it, so that the log exists at
/// every moment. A server would otherwise append acknowledged writes to the removed file, so the
/// caller holds the lock of the directory.
///
/// # Errors
/// If `damaged.<name>` already exists, or a file cannot be read or written.
pub fn replace<D: Disk>(
    disk: &D,
    path: &Path,
    copy: &Path,
    _lock: &LogLock,
) -> Result<PathBuf, StorageError> {
    let kept = sibling(path, DAMAGED);
    if disk.open(&kept).is_ok() {
        return Err(StorageError::Io {
            action: "keep the original as",
            path: kept,
            source: std::io::ErrorKind::AlreadyExists.into(),
        });
    }
    let original = disk.open(path).map_err(io_error("open", path))?;
    let write = || -> std::io::Result<()> {
        let target = disk.create(&kept)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        loop {
            let read = original.read_at(at, &mut buffer)?;
            let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
                break;
            };
            target.write_all_at(at, piece)?;
            at += read as u64;
        }
        target.sync_data()?;
        disk.rename(copy, path)?;
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => disk.sync_dir(dir),
            _ => disk.sync_dir(Path::new(".")),
        }
    };
    write().map_err(io_error("replace", path))?;
    Ok(kept)
}

/// Number of bytes that are collected before a write.
const COPY_BYTES: usize = 1 << 20;

fn sibling(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{what}.{name}"))
}

/// Log that is being written to the directory of the original.
#[derive(Debug)]
struct Copy<F> {
    file: F,
    path: PathBuf,
    at: u64,
    buffer: Vec<u8>,
    records: u64,
    last: Option<Zxid>,
    fixes: Vec<RecordFix>,
}

impl<F: DiskFile> Copy<F> {
    fn create<D: Disk<File = F>>(
        disk: &D,
        original: &Path,
        what: &str,
    ) -> Result<Self, StorageError> {
        let path = sibling(original, what);
        let file = disk.create(&path).map_err(io_error("create", &path))?;
        Ok(Self {
            file,
            path,
            at: 0,
            buffer: file_header().to_vec(),
            records: 0,
            last: None,
            fixes: Vec::new(),
        })
    }

    fn put(&mut self, payload: &[u8], zxid: Zxid) -> Result<(), StorageError> {
        put_record(payload, &mut self.buffer);
        self.records += 1;
        self.last = Some(zxid);
        if self.buffer.len() >= COPY_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StorageError> {
        self.file
            .write_all_at(self.at, &self.buffer)
            .map_err(io_error("write", &self.path))?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Records that everything from `offset` on is omitted.
    fn cut(
        &mut self,
        scanner: &LogScanner<F>,
        offset: u64,
        reason: Option<String>,
    ) -> Result<(), StorageError> {
        let last_byte = last_nonzero(scanner, offset)?;
        self.fixes.push(RecordFix::Cut {
            offset,
            bytes: last_byte.map_or(0, |last| last + 1 - offset),
            reason,
        });
        Ok(())
    }

    fn finish<D: Disk<File = F>>(mut self, disk: &D) -> Result<WrittenCopy, StorageError> {
        self.write_out()?;
        self.file
            .sync_data()
            .map_err(io_error("sync", &self.path))?;
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            disk.sync_dir(dir).map_err(io_error("sync", dir))?;
        }
        Ok(WrittenCopy {
            path: self.path,
            records: self.records,
            last: self.last,
            fixes: self.fixes,
        })
    }
}
