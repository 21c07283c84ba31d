//! Distinction between the end of a log, a torn record and corruption.
//!
//! A process that is killed during a write leaves a prefix of its last group. After a power failure
//! whole sectors of that group may be missing as well; they then read as the zeros of the
//! preallocated space. In both cases the last bytes of the file are the beginning of a record whose
//! sync never completed. The record was not acknowledged, so nothing is lost when it is dropped.
//!
//! After a power failure a later record of that group may also be complete while an earlier one is
//! not. Bit rot in an acknowledged group leaves the same bytes, so question 4 treats them as
//! corruption: a standalone server refuses to start, and a member of an ensemble does not vote
//! (`recovery::recover_member`).
//!
//! All other cases are corruption of bytes that may have been acknowledged. For the bytes after the
//! last intact record, these questions are answered in order:
//!
//! 1. Are they all zero? Then this is the end of the log.
//! 2. Is the length negative or beyond the limit? Neither a prefix of a record nor zeros produce
//!    such a number, so this is corruption.
//! 3. Does another length give a record with the correct checksum and end byte? Then the record was
//!    written completely, and its length field is corrupted.
//! 4. Does a complete record with a later zxid follow? Then this record was once complete, too.
//! 5. Are there bytes other than zero after the end of this record? That is corruption, unless a
//!    whole sector in between reads as zeros.
//!
//! Only files with unexpected content cost time. A torn record whose data contain copies of log
//! records with plausible zxids can make question 4 answer yes. The start is then refused and the
//! operator has to decide, which errs on the safe side.
//!
//! For Java's behaviour in each case, see FileTxnLog.FileTxnIterator.next.

use std::ops::Range;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::Zxid;
use proto::txn::TxnRecord;

use super::damage::Damage;
use super::format::{END_BYTE, FRAME_BYTES, PAYLOAD_BYTES_MIN, PREFIX_BYTES};
use super::scan::{LogScanner, RawRecord, StopReason};
use crate::checksum::Checksum;
use crate::disk::DiskFile;
use crate::error::StorageError;

/// Beginning of a record that a crash left at the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// Offset of the torn record.
    pub offset: u64,
    /// Whether sectors of the record were lost, which only happens in a power failure. Java would
    /// refuse such a file.
    pub has_lost_sectors: bool,
}

/// Meaning of the bytes after the last intact record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing follows, or only zeros.
    End,
    /// The bytes can be the result of a crash.
    Torn(TornTail),
    /// The bytes cannot be the result of a crash.
    Damaged(Damage),
}

/// Maximum number of bytes that are checksummed in the search for a following record.
const CHECKSUM_WORK_BYTES: usize = 256 << 20;
/// Smallest unit that a disk writes atomically, bytes.
const SECTOR_BYTES: u64 = 512;
/// Largest plausible distance of a zxid from the zxid of the last intact record, in transactions or
/// epochs.
const ZXID_AHEAD_MAX: i64 = 1 << 20;
/// Number of bytes per read in the search for the last nonzero byte.
const BACKWARD_BYTES: usize = 1 << 20;
static ZERO_PAGE: [u8; 4096] = [0; 4096];

/// Classifies the bytes at the scanner's position, which follow the last intact record. `last_good`
/// is the zxid of that record.
///
/// # Errors
/// If the file cannot be read.
pub fn judge<F: DiskFile>(
    scanner: &LogScanner<F>,
    stop: StopReason,
    last_good: Zxid,
) -> Result<Verdict, StorageError> {
    let offset = scanner.position();
    let Some(last_byte) = last_nonzero(scanner, offset)? else {
        return Ok(Verdict::End);
    };
    let found = match stop {
        StopReason::Length { len } => {
            return Ok(Verdict::Damaged(length_damage(scanner, len)?));
        }
        // Fewer bytes than a prefix cannot be a record, and another record cannot follow them.
        StopReason::End => return Ok(torn(offset, false)),
        StopReason::Padding => 0,
        StopReason::Cut { len } | StopReason::EndByte { len, .. } => len.cast_signed(),
    };
    let claimed_end = offset + FRAME_BYTES as u64 + u64::from(found.unsigned_abs());
    let has_more = last_byte >= claimed_end;
    if let StopReason::EndByte {
        found: byte,
        is_intact: true,
        ..
    } = stop
        && (byte != 0 || has_more)
    {
        return Ok(Verdict::Damaged(Damage::EndByte { found: byte }));
    }
    let window = Window::read(scanner, last_byte)?;
    if let Some(actual) = window.actual_length() {
        return Ok(Verdict::Damaged(Damage::WrongLength { found, actual }));
    }
    if let Some((offset, zxid)) = window.following_record(last_good) {
        return Ok(Verdict::Damaged(Damage::Followed { offset, zxid }));
    }
    if let StopReason::Padding = stop {
        // Everything from the length field on is zero, so only bytes of the checksum were written.
        let is_prefix = last_byte < offset + PREFIX_BYTES as u64;
        return Ok(window.verdict(is_prefix, last_byte, Damage::Junk { offset: last_byte }));
    }
    if let StopReason::EndByte { found: byte, .. } = stop {
        let is_prefix = byte == 0 && !has_more;
        return Ok(window.verdict(is_prefix, last_byte, Damage::EndByte { found: byte }));
    }
    Ok(torn(offset, false))
}

/// Returns the verdict on a record with a wrong checksum, which is torn or corrupted.
///
/// Its end byte is in place, so it was not left by a killed process. It is torn only if it is the
/// last record in the file and one of its sectors, or the part of a sector within the record, reads
/// as zeros. A flipped bit in a record that may have been acknowledged is refused, as in Java.
///
/// # Errors
/// If the file cannot be read.
pub fn judge_mismatch<F: DiskFile>(
    scanner: &LogScanner<F>,
    record: &RawRecord,
    last_good: Zxid,
) -> Result<Verdict, StorageError> {
    let damage = Damage::Checksum {
        stored: record.stored,
        computed: record.computed,
    };
    if last_nonzero(scanner, record.end())?.is_some() {
        return Ok(Verdict::Damaged(damage));
    }
    if has_lost_checksum_bytes(record) {
        return Ok(torn(record.offset, true));
    }
    let window = Window::of_record(record);
    if window.following_record(last_good).is_some() {
        return Ok(Verdict::Damaged(damage));
    }
    Ok(window.verdict(false, record.end() - 1, damage))
}

/// Returns whether the checksum of an otherwise intact record can be the result of a lost sector. A
/// sector then ends within the prefix: the bytes before its end read as zeros, and the others are
/// correct. At least two bits must have been lost, so a flipped bit remains corruption.
fn has_lost_checksum_bytes(record: &RawRecord) -> bool {
    let sector_bytes = SECTOR_BYTES - record.offset % SECTOR_BYTES;
    // The first four bytes of the checksum field are always zero. A sector may also end within the
    // length field after it, because the first bytes of a length are zero in most records.
    if !(5..PREFIX_BYTES as u64).contains(&sector_bytes) {
        return false;
    }
    let remaining = match sector_bytes {
        5 => 0x00ff_ffff,
        6 => 0x0000_ffff,
        7 => 0x0000_00ff,
        _ => 0,
    };
    record.stored == i64::from(record.computed & remaining)
        && (record.computed & !remaining).count_ones() >= 2
}

/// Returns the length with which the record at the scanner's position is complete, if any. Its
/// checksum and end byte are then correct, and only the length field is wrong.
///
/// # Errors
/// If the file cannot be read.
fn actual_length<F: DiskFile>(scanner: &LogScanner<F>) -> Result<Option<u32>, StorageError> {
    let last_byte = scanner.file_bytes().saturating_sub(1);
    Ok(Window::read(scanner, last_byte)?.actual_length())
}

fn torn(offset: u64, has_lost_sectors: bool) -> Verdict {
    Verdict::Torn(TornTail {
        offset,
        has_lost_sectors,
    })
}

fn length_damage<F: DiskFile>(scanner: &LogScanner<F>, len: i32) -> Result<Damage, StorageError> {
    Ok(match actual_length(scanner)? {
        Some(actual) => Damage::WrongLength { found: len, actual },
        None => Damage::Length {
            found: len,
            limit: scanner.record_bytes_max(),
        },
    })
}

/// Returns the offset of the last nonzero byte at or after `from`; `None` if all bytes are zero.
///
/// # Errors
/// If the file cannot be read.
pub fn last_nonzero<F: DiskFile>(
    scanner: &LogScanner<F>,
    from: u64,
) -> Result<Option<u64>, StorageError> {
    last_nonzero_of(from..scanner.file_bytes(), |start, len| {
        scanner.read(start, len)
    })
}

/// Returns the offset of the last nonzero byte in `range` of a file. `read` reads a number of bytes
/// at an offset of the file.
pub(crate) fn last_nonzero_of(
    range: Range<u64>,
    mut read: impl FnMut(u64, usize) -> Result<Bytes, StorageError>,
) -> Result<Option<u64>, StorageError> {
    let Range {
        start: from,
        mut end,
    } = range;
    while end > from {
        let start = end.saturating_sub(BACKWARD_BYTES as u64).max(from);
        let len = usize::try_from(end - start).unwrap_or(BACKWARD_BYTES);
        let bytes = read(start, len)?;
        // Whole pages are compared first, because a preallocated file contains up to 64 MiB of
        // zeros.
        for (index, page) in bytes.chunks(ZERO_PAGE.len()).enumerate().rev() {
            if ZERO_PAGE.get(..page.len()) == Some(page) {
                continue;
            }
            if let Some(at) = page.iter().rposition(|byte| *byte != 0) {
                return Ok(Some(start + (index * ZERO_PAGE.len() + at) as u64));
            }
        }
        end = start;
    }
    Ok(None)
}

/// The bytes from the end of the last good record to the last nonzero byte.
struct Window {
    offset: u64,
    bytes: Bytes,
    limit: usize,
}

impl Window {
    /// Reads at most two records of the maximum length: the record at the scanner's position and
    /// the next one. An unsynced group is never longer.
    fn read<F: DiskFile>(scanner: &LogScanner<F>, last_byte: u64) -> Result<Self, StorageError> {
        let offset = scanner.position();
        let record_bytes_max = scanner.record_bytes_max().saturating_add(FRAME_BYTES) as u64;
        let bytes_max = record_bytes_max.saturating_mul(2);
        let len = (last_byte + 1).saturating_sub(offset).min(bytes_max);
        Ok(Self {
            offset,
            bytes: scanner.read(offset, usize::try_from(len).unwrap_or(0))?,
            limit: scanner.record_bytes_max(),
        })
    }

    fn of_record(record: &RawRecord) -> Self {
        let mut frame = Vec::with_capacity(FRAME_BYTES + record.payload.len());
        super::put_record(&record.payload, &mut frame);
        Self {
            offset: record.offset,
            bytes: frame.into(),
            limit: record.payload.len(),
        }
    }

    /// Returns the length with which the record at the window's start is complete.
    fn actual_length(&self) -> Option<u32> {
        let stored = Reader::new(self.bytes.clone()).i64().ok()?;
        let stored = u32::try_from(stored).ok()?;
        let payload = self.bytes.get(PREFIX_BYTES..)?;
        let (mut a, mut b) = (1u32, 0u32);
        for (len, byte) in payload.iter().enumerate() {
            if *byte == END_BYTE && len >= PAYLOAD_BYTES_MIN && (b << 16 | a) == stored {
                let payload = self.bytes.slice(PREFIX_BYTES..PREFIX_BYTES + len);
                if TxnRecord::decode(&mut Reader::new(payload)).is_ok() {
                    return u32::try_from(len).ok();
                }
            }
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        None
    }

    /// Returns the first complete record after the window's start whose zxid can follow
    /// `last_good`.
    fn following_record(&self, last_good: Zxid) -> Option<(u64, Zxid)> {
        let mut work = CHECKSUM_WORK_BYTES;
        for (at, prefix) in self.bytes.windows(PREFIX_BYTES).enumerate().skip(1) {
            // An Adler-32 is never 0, and the upper half of its field is always 0.
            let checksum = prefix.first_chunk().copied().map(u64::from_be_bytes);
            if !checksum.is_some_and(|sum| (1..=u64::from(u32::MAX)).contains(&sum)) {
                continue;
            }
            if let Some(zxid) = self.record_at(at, last_good, &mut work) {
                return Some((self.offset + at as u64, zxid));
            }
        }
        None
    }

    fn record_at(&self, at: usize, last_good: Zxid, work: &mut usize) -> Option<Zxid> {
        let mut fields = Reader::new(self.bytes.slice(at..));
        let (stored, len) = (fields.i64().ok()?, fields.i32().ok()?);
        let len = usize::try_from(len).ok()?;
        if !(PAYLOAD_BYTES_MIN..=self.limit).contains(&len) {
            return None;
        }
        let payload = fields.take(len).ok()?;
        let mut header = Reader::new(payload.slice(12..20));
        let zxid = Zxid(header.i64().ok()?);
        if fields.u8().ok()? != END_BYTE || !is_plausible(zxid, last_good) || *work < len {
            return None;
        }
        *work -= len;
        let is_record = i64::from(Checksum::of(&payload)) == stored
            && TxnRecord::decode(&mut Reader::new(payload)).is_ok();
        is_record.then_some(zxid)
    }

    /// Returns [`Verdict::Torn`] if the bytes are the prefix of a record or can be the result of a
    /// lost sector. Otherwise, returns `damage`.
    fn verdict(&self, is_prefix: bool, last_byte: u64, damage: Damage) -> Verdict {
        if is_prefix {
            torn(self.offset, false)
        } else if last_byte < self.end() && self.has_lost_sector() {
            torn(self.offset, true)
        } else {
            Verdict::Damaged(damage)
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns whether a sector, or the part of a sector within the record, reads as zeros.
    fn has_lost_sector(&self) -> bool {
        let mut start = self.offset;
        while start < self.end() {
            let next = (start / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let from = usize::try_from(start - self.offset).unwrap_or(usize::MAX);
            let to = usize::try_from(next - self.offset).unwrap_or(usize::MAX);
            // A shorter part may be zero in an intact record, because half of the checksum is
            // always zero.
            let is_enough = to - from >= 8;
            if let Some(part) = self.bytes.get(from..to)
                && is_enough
                && part.iter().all(|byte| *byte == 0)
            {
                return true;
            }
            start = next;
        }
        false
    }
}

fn is_plausible(zxid: Zxid, last_good: Zxid) -> bool {
    let (epochs, count) = (
        zxid.epoch().0.checked_sub(last_good.epoch().0),
        zxid.0.checked_sub(last_good.0),
    );
    match (epochs, count) {
        (Some(0), Some(count)) => (1..=ZXID_AHEAD_MAX).contains(&count),
        (Some(epochs), Some(_)) => {
            (1..=ZXID_AHEAD_MAX).contains(&epochs) && i64::from(zxid.counter()) <= ZXID_AHEAD_MAX
        }
        _ => false,
    }
}
