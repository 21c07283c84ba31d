//! Transactions of all log files as one sequence.

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use jute::{Decode, Limits, Reader};
use proto::Zxid;
use proto::txn::TxnRecord;

use super::damage::Damage;
use super::judge::{TornTail, Verdict, judge, judge_mismatch};
use super::scan::{LogScanner, RawRecord, Scanned};
use crate::disk::Disk;
use crate::error::{StorageError, described};
use crate::files::dirs::DataDirs;
use crate::files::names::{LogFile, list_logs};

/// A transaction read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTxn {
    /// The decoded transaction.
    pub record: TxnRecord,
    /// Encoded transaction, in the form that a PROPOSAL packet contains.
    pub payload: Bytes,
    /// Offset of the record in its file.
    pub offset: u64,
}

/// Iterator over the transactions from a zxid on, through all files, in the order of the files.
///
/// The iterator ends after the first error. It checks framing and checksums, and whether a torn end
/// can be the result of a crash ([`judge`](crate::log::judge)). It also checks that no transaction
/// is missing: within an epoch, each zxid must follow its predecessor, and an epoch must begin with
/// counter 1. A repeated or lower zxid is returned and logged, as in Java.
///
/// Source: FileTxnIterator, ZKDatabase.addCommittedProposal; ZOOKEEPER-4925.
#[derive(Debug)]
pub struct LoggedTxns<'d, D: Disk> {
    disk: &'d D,
    limits: Limits,
    files: VecDeque<LogFile>,
    current: Option<LogScanner<D::File>>,
    /// Records with a lower zxid are skipped until the first record with this zxid or a higher one.
    from: Zxid,
    has_begun: bool,
    /// Highest zxid returned, and the file that contains it.
    last: Position,
    /// Whether the current file contains the highest zxid returned.
    holds_last: bool,
    /// Zxid of the last intact record in the current file, for judging the bytes after it.
    last_read: Zxid,
    /// Offset of the last intact record in the current file.
    last_offset: Option<u64>,
    /// Last file that was read to its end, and the offset of its last intact record.
    last_record: Option<(PathBuf, u64)>,
    torn: Option<(PathBuf, TornTail)>,
    empty_files: Vec<PathBuf>,
    is_over: bool,
}

/// Position of the iterator in the sequence of zxids.
#[derive(Debug, Clone)]
struct Position {
    zxid: Zxid,
    /// Description of the log or snapshot that ends with `zxid`; empty if it is unknown.
    holder: String,
    torn_at: Option<u64>,
    /// Whether the next zxid must be the successor of `zxid`, or the first of a later epoch.
    is_checked: bool,
}

/// Returns the transactions with zxid >= `from`, for synchronising a learner.
///
/// The zxid of the first transaction may be higher than `from` if the log does not reach back that
/// far. While a [`LogWriter`](crate::LogWriter) is running, stop at the last committed zxid,
/// because a group that is being written may look like corruption.
///
/// # Errors
/// If the directory cannot be listed. The iterator returns all other errors.
pub fn read_txns_from<'d, D: Disk>(
    disk: &'d D,
    dirs: &DataDirs,
    from: Zxid,
    limits: Limits,
) -> Result<LoggedTxns<'d, D>, StorageError> {
    LoggedTxns::open(disk, dirs, from, None, limits)
}

/// Returns the transactions of one file, so that a caller can continue with the next file after
/// corruption. The caller checks that no transaction is missing between two files.
pub fn read_txns_of<D: Disk>(disk: &D, file: LogFile, limits: Limits) -> LoggedTxns<'_, D> {
    LoggedTxns::of_files(disk, VecDeque::from([file]), Zxid(i64::MIN), limits)
}

/// Returns the zxid of the last transaction in the log; `None` if the log is empty.
///
/// Java returns the zxid in the newest file's name if nothing in that file can be read. This
/// function reads the previous file instead.
///
/// # Errors
/// If a file cannot be read or is corrupted, as for the iterator.
pub fn last_logged_zxid<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    limits: Limits,
) -> Result<Option<Zxid>, StorageError> {
    for file in list_logs(disk, &dirs.log)?.into_iter().rev() {
        let mut txns = read_txns_of(disk, file, limits);
        if let Some(error) = txns.find_map(Result::err) {
            return Err(error);
        }
        if txns.has_begun {
            return Ok(Some(txns.last.zxid));
        }
    }
    Ok(None)
}

impl<'d, D: Disk> LoggedTxns<'d, D> {
    /// Opens the log at `from`. `after` describes the snapshot that ends directly before `from`. If
    /// it is set, the first transaction must be `from` itself or begin an epoch.
    pub(crate) fn open(
        disk: &'d D,
        dirs: &DataDirs,
        from: Zxid,
        after: Option<String>,
        limits: Limits,
    ) -> Result<Self, StorageError> {
        let mut files: VecDeque<_> = list_logs(disk, &dirs.log)?.into();
        // The last file whose first zxid is below `from` may contain `from`.
        while files.get(1).is_some_and(|second| second.zxid < from) {
            files.pop_front();
        }
        let mut txns = Self::of_files(disk, files, from, limits);
        if let Some(holder) = after {
            txns.last.holder = holder;
            txns.last.is_checked = true;
        }
        Ok(txns)
    }

    fn of_files(disk: &'d D, files: VecDeque<LogFile>, from: Zxid, limits: Limits) -> Self {
        let before = Zxid(from.0.saturating_sub(1));
        Self {
            disk,
            limits,
            files,
            current: None,
            from,
            has_begun: false,
            last: Position {
                zxid: before,
                holder: String::new(),
                torn_at: None,
                is_checked: false,
            },
            holds_last: false,
            last_read: before,
            last_offset: None,
            last_record: None,
            torn: None,
            empty_files: Vec::new(),
            is_over: false,
        }
    }

    /// Returns the highest zxid returned so far, or the zxid before the first requested zxid if no
    /// transaction has been returned.
    pub fn last_zxid(&self) -> Zxid {
        self.last.zxid
    }

    /// Discards the read buffer, so that bytes written to the current file since it was filled are
    /// found. Files created after the iterator are not found.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn refresh(&mut self) -> Result<(), StorageError> {
        self.current.as_mut().map_or(Ok(()), LogScanner::refresh)
    }

    /// Returns the torn end of the last file that was read, if it is torn.
    pub fn torn_tail(&self) -> Option<(&PathBuf, TornTail)> {
        self.torn.as_ref().map(|(path, tail)| (path, *tail))
    }

    /// Returns the last file that was read to its end, and the offset of its last intact record.
    /// Returns `None` if that file does not contain an intact record.
    pub(crate) fn last_record(&self) -> Option<&(PathBuf, u64)> {
        self.last_record.as_ref()
    }

    /// Returns the files of 0 bytes that were skipped.
    pub(crate) fn into_empty_files(self) -> Vec<PathBuf> {
        self.empty_files
    }

    fn advance(&mut self) -> Result<Option<LoggedTxn>, StorageError> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(scanner) = &mut self.current else {
                continue;
            };
            let raw = match scanner.next_record()? {
                Scanned::Record(raw) if raw.is_intact() => raw,
                Scanned::Record(raw) => {
                    let verdict = judge_mismatch(scanner, &raw, self.last_read)?;
                    self.end_file(raw.offset, verdict)?;
                    continue;
                }
                Scanned::Stop(stop) => {
                    let verdict = judge(scanner, stop, self.last_read)?;
                    let offset = scanner.position();
                    self.end_file(offset, verdict)?;
                    continue;
                }
            };
            self.last_offset = Some(raw.offset);
            if let Some(zxid) = zxid_of(&raw.payload)
                && !self.has_begun
                && zxid < self.from
            {
                self.last_read = zxid;
                continue;
            }
            let txn = self.decode(raw)?;
            self.last_read = txn.record.header.zxid;
            self.check_order(&txn)?;
            self.has_begun = true;
            return Ok(Some(txn));
        }
    }

    fn open_next(&mut self) -> Result<bool, StorageError> {
        while let Some(file) = self.files.pop_front() {
            if file.len == Some(0) {
                // A full disk or a crash during creation leaves an empty file (ZOOKEEPER-2332). If
                // the file ever contained transactions, the check of the order finds that they are
                // missing.
                tracing::warn!(file = %file.path.display(), "log file is empty");
                self.empty_files.push(file.path);
                continue;
            }
            self.current = Some(LogScanner::open(self.disk, &file.path, self.limits)?);
            self.last_read = Zxid(file.zxid.0.saturating_sub(1));
            (self.torn, self.holds_last, self.last_offset) = (None, false, None);
            return Ok(true);
        }
        Ok(false)
    }

    fn end_file(&mut self, offset: u64, verdict: Verdict) -> Result<(), StorageError> {
        let Some(scanner) = self.current.take() else {
            return Ok(());
        };
        let path = scanner.path().to_path_buf();
        self.last_record = self.last_offset.map(|offset| (path.clone(), offset));
        match verdict {
            Verdict::End => {}
            Verdict::Torn(tail) => {
                if tail.has_lost_sectors {
                    tracing::warn!(file = %path.display(), offset,
                        "dropped the last record of the log, because a power failure destroyed sectors of the record");
                } else {
                    tracing::warn!(file = %path.display(), offset, "dropped a torn record at the end of the log");
                }
                self.last.torn_at = Some(offset);
                self.torn = Some((path, tail));
            }
            Verdict::Damaged(damage) => {
                return Err(StorageError::LogDamaged {
                    path,
                    offset,
                    damage,
                    last_good: self.last_read,
                });
            }
        }
        Ok(())
    }

    fn decode(&self, raw: RawRecord) -> Result<LoggedTxn, StorageError> {
        match decode_payload(raw.payload.clone()) {
            Ok(record) => Ok(LoggedTxn {
                record,
                payload: raw.payload,
                offset: raw.offset,
            }),
            Err(error) => Err(StorageError::LogDamaged {
                path: self.path(),
                offset: raw.offset,
                damage: Damage::Undecodable {
                    reason: error.to_string(),
                },
                last_good: self.last_read,
            }),
        }
    }

    fn path(&self) -> PathBuf {
        self.current
            .as_ref()
            .map_or_else(PathBuf::new, |scanner| scanner.path().to_path_buf())
    }

    fn check_order(&mut self, txn: &LoggedTxn) -> Result<(), StorageError> {
        let zxid = txn.record.header.zxid;
        if zxid <= self.last.zxid {
            let path = self.path();
            tracing::error!(file = %path.display(), offset = txn.offset, %zxid, last = %self.last.zxid,
                "the log continues with a lower zxid");
            return Ok(());
        }
        let is_next = zxid == self.last.zxid.next();
        let begins_epoch = zxid.epoch() > self.last.zxid.epoch() && zxid.counter() == 1;
        if self.last.is_checked && !is_next && !begins_epoch {
            return Err(StorageError::Gap {
                path: self.path(),
                offset: txn.offset,
                next: zxid,
                before: self.last.holder.clone(),
                last: self.last.zxid,
                torn_at: self.last.torn_at,
            });
        }
        self.last.zxid = zxid;
        self.last.is_checked = true;
        if !self.holds_last {
            self.last.holder = described("log", &self.path());
            (self.last.torn_at, self.holds_last) = (None, true);
        }
        Ok(())
    }
}

/// Returns the zxid of a payload without decoding the rest; `None` if the payload is too short.
pub fn zxid_of(payload: &[u8]) -> Option<Zxid> {
    let bytes = payload.get(12..20)?.first_chunk()?;
    Some(Zxid(i64::from_be_bytes(*bytes)))
}

/// Decodes a transaction.
///
/// # Errors
/// If the payload is not a transaction.
pub fn decode_payload(payload: Bytes) -> Result<TxnRecord, jute::DecodeError> {
    TxnRecord::decode(&mut Reader::new(payload))
}

impl<D: Disk> Iterator for LoggedTxns<'_, D> {
    type Item = Result<LoggedTxn, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.advance().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
