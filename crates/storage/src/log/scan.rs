//! Scanner that splits a log into records. It reads large chunks and does not decode payloads.

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use jute::Limits;

use super::format::{
    END_BYTE, FRAME_BYTES, HEADER_BYTES, HEADER_LEN, MAGIC, PAYLOAD_BYTES_MIN, PREFIX_BYTES,
};
use crate::checksum::Checksum;
use crate::disk::{Disk, DiskFile, read_full_at};
use crate::error::{StorageError, io_error};

/// Number of bytes per read.
const READ_BYTES: usize = 1 << 20;
/// Maximum length of a payload that is read even if `jute.maxbuffer` is lower, bytes. Java writes
/// records above its own limit (for a session with many ephemerals, ZOOKEEPER-4306) and then
/// refuses to read them.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Returns the limits for existing data, in files and in a leader's packets: at least
/// [`RECORD_BYTES_MAX`]. Otherwise a lower `jute.maxbuffer` would make intact data look damaged,
/// and a member could never receive it from its leader.
pub fn limits_of_existing(limits: Limits) -> Limits {
    Limits {
        field_bytes_max: limits.field_bytes_max.max(RECORD_BYTES_MAX),
    }
}

/// A framed record. Its checksum is computed, but its payload is not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Checksum stored in the record.
    pub stored: i64,
    /// Checksum computed from the payload.
    pub computed: u32,
    /// Payload, as a slice of the read buffer.
    pub payload: Bytes,
}

impl RawRecord {
    /// Returns whether the two checksums are equal.
    pub fn is_intact(&self) -> bool {
        self.stored == i64::from(self.computed)
    }

    /// Returns the offset of the next record.
    pub fn end(&self) -> u64 {
        self.offset + (FRAME_BYTES + self.payload.len()) as u64
    }
}

/// Content at an offset of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// A framed record.
    Record(RawRecord),
    /// Anything other than a framed record.
    Stop(StopReason),
}

/// Reason why no further record was read. [`judge`](super::judge) interprets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The file ends at a record boundary, or inside checksum and length.
    End,
    /// The length is 0, as in preallocated space.
    Padding,
    /// The file ends inside the payload or before the end byte.
    Cut {
        /// Length field of the record.
        len: u32,
    },
    /// The end byte is not 0x42.
    EndByte {
        /// Content of the end byte.
        found: u8,
        /// Length field of the record.
        len: u32,
        /// Whether the checksum is correct nevertheless.
        is_intact: bool,
    },
    /// The length is negative or above the limit.
    Length {
        /// Length field of the record.
        len: i32,
    },
}

/// Iterator over the records of one file.
#[derive(Debug)]
pub struct LogScanner<F> {
    file: F,
    path: PathBuf,
    file_bytes: u64,
    record_bytes_max: usize,
    version: i32,
    dbid: i64,
    chunk: Bytes,
    chunk_at: u64,
    position: u64,
}

impl<F: DiskFile> LogScanner<F> {
    /// Opens a log and positions the scanner after the header.
    ///
    /// # Errors
    /// If the file cannot be read, is shorter than the 16-byte header, or does not begin with
    /// "ZKLG". Version and dbid are not checked, as in Java.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        path: &Path,
        limits: Limits,
    ) -> Result<Self, StorageError> {
        let file = disk.open(path).map_err(io_error("open", path))?;
        let file_bytes = file.len().map_err(io_error("read", path))?;
        let mut scanner = Self {
            file,
            path: path.to_path_buf(),
            file_bytes,
            record_bytes_max: limits_of_existing(limits).field_bytes_max,
            version: 0,
            dbid: 0,
            chunk: Bytes::new(),
            chunk_at: 0,
            position: 0,
        };
        scanner.read_header()?;
        Ok(scanner)
    }

    fn read_header(&mut self) -> Result<(), StorageError> {
        let refused = |path: &Path, reason: String| StorageError::LogHeader {
            path: path.to_path_buf(),
            reason,
        };
        let Some(header) = self.peek(HEADER_LEN)? else {
            let reason = format!(
                "the file has {} bytes, but the header alone requires {HEADER_BYTES}",
                self.file_bytes
            );
            return Err(refused(&self.path, reason));
        };
        let mut fields = jute::Reader::new(Bytes::copy_from_slice(header));
        self.position = HEADER_BYTES;
        let mut read = || -> Result<([u8; 4], i32, i64), jute::DecodeError> {
            Ok((fields.i32()?.to_be_bytes(), fields.i32()?, fields.i64()?))
        };
        match read() {
            Ok((MAGIC, version, dbid)) => {
                (self.version, self.dbid) = (version, dbid);
                Ok(())
            }
            Ok((magic, ..)) => Err(refused(
                &self.path,
                format!("the file begins with {magic:02x?} instead of \"ZKLG\""),
            )),
            Err(error) => Err(refused(&self.path, error.to_string())),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format version in the header.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Returns the dbid in the header.
    pub fn dbid(&self) -> i64 {
        self.dbid
    }

    /// Returns the offset of the next record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Continues reading at another offset. A repair uses this to skip records that it drops.
    pub fn seek(&mut self, offset: u64) {
        self.position = offset;
    }

    /// Discards the read buffer and updates the file's length, because the file may have grown, and
    /// records may have replaced zeros.
    ///
    /// # Errors
    /// If the file's length cannot be read.
    pub fn refresh(&mut self) -> Result<(), StorageError> {
        self.chunk = Bytes::new();
        self.file_bytes = self.file.len().map_err(io_error("read", &self.path))?;
        Ok(())
    }

    /// Returns the length of the file when it was opened or last refreshed.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the maximum length of a payload that is read.
    pub fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// Reads the next record. If there is none, returns the reason and keeps the position.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_record(&mut self) -> Result<Scanned, StorageError> {
        let offset = self.position;
        let stop = |stop| Ok(Scanned::Stop(stop));
        let Some((stored, len)) = self.peek(PREFIX_BYTES)?.and_then(prefix_of) else {
            return stop(StopReason::End);
        };
        let wanted = match usize::try_from(len) {
            Ok(0) => return stop(StopReason::Padding),
            Ok(wanted) => wanted,
            Err(_) => return stop(StopReason::Length { len }),
        };
        if wanted > self.record_bytes_max {
            return stop(StopReason::Length { len });
        }
        let len = len.unsigned_abs();
        let Some(start) = self.ensure(FRAME_BYTES + wanted)? else {
            return stop(StopReason::Cut { len });
        };
        let end = start + PREFIX_BYTES + wanted;
        let payload = self.chunk.slice(start + PREFIX_BYTES..end);
        let end_byte = self.chunk.get(end).copied().unwrap_or_default();
        let record = RawRecord {
            offset,
            stored,
            computed: Checksum::of(&payload),
            payload,
        };
        if end_byte != END_BYTE {
            return stop(StopReason::EndByte {
                found: end_byte,
                len,
                is_intact: record.is_intact() && wanted >= PAYLOAD_BYTES_MIN,
            });
        }
        self.position = record.end();
        Ok(Scanned::Record(record))
    }

    /// Returns the next `count` bytes; `None` if the file contains fewer.
    fn peek(&mut self, count: usize) -> Result<Option<&[u8]>, StorageError> {
        let start = self.ensure(count)?;
        Ok(start.and_then(|start| self.chunk.get(start..start + count)))
    }

    /// Returns the offset of the next `count` bytes in the chunk; `None` if the file contains
    /// fewer. Memory is allocated only for bytes that exist.
    fn ensure(&mut self, count: usize) -> Result<Option<usize>, StorageError> {
        if self.file_bytes.saturating_sub(self.position) < count as u64 {
            return Ok(None);
        }
        if let Some(start) = self.start_in_chunk(count) {
            return Ok(Some(start));
        }
        // Nothing from the old chunk is copied, because reading the few bytes at its end again is
        // cheaper.
        let left = self.file_bytes - self.position;
        let len = count.max(READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES)));
        self.chunk = self.read(self.position, len)?;
        self.chunk_at = self.position;
        // The bytes are missing if another process cut the file after `file_bytes` was read.
        Ok(self.start_in_chunk(count))
    }

    fn start_in_chunk(&self, count: usize) -> Option<usize> {
        let start = usize::try_from(self.position.checked_sub(self.chunk_at)?).ok()?;
        (self.chunk.len() >= start.checked_add(count)?).then_some(start)
    }

    /// Reads `len` bytes of the file at `offset`. Returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes, StorageError> {
        read_at(&self.file, &self.path, offset, len)
    }
}

/// Reads `len` bytes of a file at `offset`. Returns fewer bytes only at the end of the file.
pub(crate) fn read_at<F: DiskFile>(
    file: &F,
    path: &Path,
    offset: u64,
    len: usize,
) -> Result<Bytes, StorageError> {
    let mut buf = BytesMut::zeroed(len);
    let read = read_full_at(file, offset, &mut buf).map_err(io_error("read", path))?;
    buf.truncate(read);
    Ok(buf.freeze())
}

/// Splits a prefix into checksum and length.
fn prefix_of(bytes: &[u8]) -> Option<(i64, i32)> {
    let (checksum, rest) = bytes.split_first_chunk()?;
    let len = rest.first_chunk()?;
    Some((i64::from_be_bytes(*checksum), i32::from_be_bytes(*len)))
}
