//! Reader of the log, page by page, for a learner that lacks more transactions than memory can
//! hold.
//!
//! A leader requests one page at a time, each from the end of the previous page, and reading
//! continues at that position of the files. Reading stops at a committed zxid given by the leader,
//! because the record after it may be incomplete.

use bytes::Bytes;
use jute::Limits;
use proto::Zxid;

use super::chain::{LoggedTxns, read_txns_from};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::files::dirs::DataDirs;
use crate::files::names::{LogFile, list_logs, list_snapshots};

/// Log files, and the limits for reading them.
#[derive(Debug, Clone)]
pub struct LogPages<'d, D: Disk> {
    /// Disk that contains the files.
    pub disk: &'d D,
    /// Directories of the files.
    pub dirs: DataDirs,
    /// Limits for records.
    pub limits: Limits,
    /// Fraction of a snapshot's size above which the log is not read
    /// (`zookeeper.snapshotSizeFactor`); 0 for no limit.
    pub size_factor: f64,
    /// Number of bytes at which a page is complete.
    pub page_bytes: usize,
}

/// A transaction's zxid and its encoded form.
pub type Payload = (Zxid, Bytes);

/// A position in the log.
#[derive(Debug)]
pub struct LogCursor<'d, D: Disk> {
    txns: LoggedTxns<'d, D>,
    /// The last transaction read.
    last: Payload,
}

/// Reason why the log cannot synchronise a learner.
#[derive(Debug, thiserror::Error)]
pub enum LogUnusable {
    /// The log cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The requested transactions were purged.
    #[error("the log begins after {from}")]
    TooShort {
        /// Zxid at which the log should begin.
        from: Zxid,
    },
    /// Sending a snapshot is cheaper, because it is smaller.
    #[error("{bytes} bytes of log exceed the limit of {limit} bytes")]
    TooLong {
        /// Number of log bytes that would have to be read.
        bytes: u64,
        /// Maximum number of bytes that are read.
        limit: u64,
    },
}

impl<'d, D: Disk> LogPages<'d, D> {
    /// Returns a page of encoded transactions. Its first transaction is the last transaction with
    /// zxid <= `from`, and reading stops at `upto`. At least one more transaction follows, unless
    /// the log ends or `upto` is reached. `cursor` is the end of the previous page. It is set to
    /// the end of this page, or to `None` at the end of the log.
    ///
    /// # Errors
    /// If no transaction with zxid <= `from` exists, or if the log is too long or corrupted.
    pub fn page(
        &self,
        cursor: &mut Option<LogCursor<'d, D>>,
        from: Zxid,
        upto: Zxid,
    ) -> Result<Vec<Payload>, LogUnusable> {
        let resumed = cursor.take().filter(|cursor| cursor.last.0 == from);
        if let Some(mut at) = resumed {
            at.txns.refresh()?;
            let records = vec![at.last.clone()];
            let records = self.read_on(at, records, upto, cursor)?;
            if records.len() > 1 || from >= upto {
                return Ok(records);
            }
            // The log continues in a file that was created after the cursor.
        }
        self.refuse_too_long(from)?;
        let (at, records) = self.find(from)?;
        self.read_on(at, records, upto, cursor)
    }

    /// Finds the last record with zxid <= `from`. Returns the position and the records that were
    /// read.
    fn find(&self, from: Zxid) -> Result<(LogCursor<'d, D>, Vec<Payload>), LogUnusable> {
        let mut txns = self.read(from)?;
        if let Some(first) = next(&mut txns)?
            && first.0 == from
        {
            let records = vec![first.clone()];
            return Ok((LogCursor { txns, last: first }, records));
        }
        // The learner has logged a transaction that this server lacks. The position of this
        // transaction in the log is found by reading a file from its beginning. A file that lost
        // its records in a crash may be tried before the file that contains the position.
        for file in self.files_upto(from)?.iter().rev() {
            let mut txns = self.read(file.zxid)?;
            let mut before = None;
            let mut behind = next(&mut txns)?;
            while let Some(record) = behind.take_if(|record| record.0 <= from) {
                before = Some(record);
                behind = next(&mut txns)?;
            }
            if let Some(before) = before {
                let last = behind.clone().unwrap_or_else(|| before.clone());
                let records = std::iter::once(before).chain(behind).collect();
                return Ok((LogCursor { txns, last }, records));
            }
        }
        Err(LogUnusable::TooShort { from })
    }

    fn read(&self, from: Zxid) -> Result<LoggedTxns<'d, D>, StorageError> {
        read_txns_from(self.disk, &self.dirs, from, self.limits)
    }

    /// Returns the files that begin at or before a zxid, in order.
    fn files_upto(&self, zxid: Zxid) -> Result<Vec<LogFile>, StorageError> {
        let mut files = list_logs(self.disk, &self.dirs.log)?;
        files.retain(|file| file.zxid <= zxid);
        Ok(files)
    }

    /// Refuses to read a log that is long in relation to a snapshot. The file in which reading
    /// begins is not counted. The other files count with their full length, including preallocated
    /// space.
    ///
    /// Source: ZKDatabase.calculateTxnLogSizeLimit, FileTxnIterator.getStorageSize (which adds up
    /// the files that are not open yet).
    fn refuse_too_long(&self, from: Zxid) -> Result<(), LogUnusable> {
        let newest = list_snapshots(self.disk, &self.dirs.snap)?
            .into_iter()
            .next();
        let snapshot_bytes = newest.and_then(|snapshot| snapshot.len).unwrap_or(0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "Java also rounds down; a limit that does not fit limits nothing"
        )]
        let limit = (snapshot_bytes as f64 * self.size_factor) as u64;
        let files = list_logs(self.disk, &self.dirs.log)?;
        let bytes = files
            .iter()
            .skip_while(|file| file.zxid <= from)
            .filter_map(|file| file.len)
            .sum();
        if limit > 0 && bytes > limit {
            return Err(LogUnusable::TooLong { bytes, limit });
        }
        Ok(())
    }

    /// Fills a page. The position is kept even if `upto` is reached. Otherwise a learner might
    /// never catch up, because writers continue to append, and finding the position again takes
    /// longer as the file grows.
    fn read_on(
        &self,
        mut at: LogCursor<'d, D>,
        mut records: Vec<Payload>,
        upto: Zxid,
        cursor: &mut Option<LogCursor<'d, D>>,
    ) -> Result<Vec<Payload>, LogUnusable> {
        let mut bytes = 0;
        while bytes < self.page_bytes && at.last.0 < upto {
            // The position is not kept at the end of the log, because the log may continue in
            // another file.
            let Some(record) = next(&mut at.txns)? else {
                return Ok(records);
            };
            bytes += record.1.len();
            records.push(record.clone());
            at.last = record;
        }
        *cursor = Some(at);
        Ok(records)
    }
}

fn next<D: Disk>(txns: &mut LoggedTxns<'_, D>) -> Result<Option<Payload>, StorageError> {
    let txn = txns.next().transpose()?;
    Ok(txn.map(|txn| (txn.record.header.zxid, txn.payload)))
}
