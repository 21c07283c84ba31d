//! Reading the log page by page, for a learner that has missed more than memory holds.
//!
//! A leader asks for a page at a time, each from where the one before ended; the files are read on
//! from there. Reading stops at the zxid that the leader names, which is committed: what stands
//! behind it may be half written just now.

use bytes::Bytes;
use jute::Limits;
use proto::Zxid;

use super::chain::{LoggedTxns, read_txns_from};
use crate::dirs::DataDirs;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::names::{LogFile, list_logs, list_snapshots};

/// The log, and how much of it is worth reading.
#[derive(Debug, Clone)]
pub struct LogPages<'d, D: Disk> {
    /// Where the files are.
    pub disk: &'d D,
    /// Their directories.
    pub dirs: DataDirs,
    /// What a record may take.
    pub limits: Limits,
    /// `zookeeper.snapshotSizeFactor`: more than this part of a snapshot's bytes is not read. 0 is no
    /// limit.
    pub size_factor: f64,
    /// A page is complete with so many bytes.
    pub page_bytes: usize,
}

/// A transaction and its bytes.
pub type Payload = (Zxid, Bytes);

/// A place in the log.
#[derive(Debug)]
pub struct LogCursor<'d, D: Disk> {
    txns: LoggedTxns<'d, D>,
    /// What was read last.
    last: Payload,
}

/// Why the log is no use.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What is asked for was purged.
    #[error("the log does not reach back to {from}")]
    TooShort {
        /// From where it should begin.
        from: Zxid,
    },
    /// A snapshot takes less.
    #[error("{bytes} bytes of log are more than the {limit} that are worth it")]
    TooLong {
        /// What would have to be read.
        bytes: u64,
        /// What is read at most.
        limit: u64,
    },
}

impl<'d, D: Disk> LogPages<'d, D> {
    /// Some transactions and their bytes: the first is the last one that is not behind `from`, none
    /// is behind `upto`. At least one follows it, unless the log ends or `upto` is reached. `cursor`
    /// is where the last page has ended, and afterwards where this one does; nowhere at the end of
    /// the log.
    ///
    /// # Errors
    /// If there is no such transaction, they are too many, or the log is damaged.
    pub fn page(
        &self,
        cursor: &mut Option<LogCursor<'d, D>>,
        from: Zxid,
        upto: Zxid,
    ) -> Result<Vec<Payload>, Unusable> {
        let resumed = cursor.take().filter(|cursor| cursor.last.0 == from);
        if let Some(mut at) = resumed {
            at.txns.refresh()?;
            let records = vec![at.last.clone()];
            let records = self.read_on(at, records, upto, cursor)?;
            if records.len() > 1 || from >= upto {
                return Ok(records);
            }
            // The log goes on in a file that was not there yet.
        }
        self.refuse_too_long(from)?;
        let (at, records) = self.find(from)?;
        self.read_on(at, records, upto, cursor)
    }

    /// Begins at the last record that is not behind `from`, and gives what was read on the way.
    fn find(&self, from: Zxid) -> Result<(LogCursor<'d, D>, Vec<Payload>), Unusable> {
        let mut txns = self.read(from)?;
        if let Some(first) = next(&mut txns)?
            && first.0 == from
        {
            let records = vec![first.clone()];
            return Ok((LogCursor { txns, last: first }, records));
        }
        // The learner has logged what this server has not. Its place is found from the front of a
        // file; one that has lost its records to a crash may stand before the right one.
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
        Err(Unusable::TooShort { from })
    }

    fn read(&self, from: Zxid) -> Result<LoggedTxns<'d, D>, StorageError> {
        read_txns_from(self.disk, &self.dirs, from, self.limits)
    }

    /// The files that begin at or before a zxid, in order.
    fn files_upto(&self, zxid: Zxid) -> Result<Vec<LogFile>, StorageError> {
        let mut files = list_logs(self.disk, &self.dirs.log)?;
        files.retain(|file| file.zxid <= zxid);
        Ok(files)
    }

    /// A long log is not read where a snapshot is the smaller burden. The file where reading begins
    /// does not count, and files count as they are, space that is preallocated included.
    ///
    /// Source: ZKDatabase.calculateTxnLogSizeLimit, FileTxnIterator.getStorageSize (which sums up
    /// the files that are not open yet).
    fn refuse_too_long(&self, from: Zxid) -> Result<(), Unusable> {
        let newest = list_snapshots(self.disk, &self.dirs.snap)?
            .into_iter()
            .next();
        let snapshot_bytes = newest.map_or(0, |snapshot| snapshot.len);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded down as by Java; what does not fit is no limit either"
        )]
        let limit = (snapshot_bytes as f64 * self.size_factor) as u64;
        let files = list_logs(self.disk, &self.dirs.log)?;
        let bytes = files
            .iter()
            .skip_while(|file| file.zxid <= from)
            .map(|file| file.len)
            .sum();
        if limit > 0 && bytes > limit {
            return Err(Unusable::TooLong { bytes, limit });
        }
        Ok(())
    }

    /// Fills a page. The place is kept also where `upto` is reached: writers go on, and finding the
    /// place again takes longer the further the file has come, so that a learner might never be
    /// caught up.
    fn read_on(
        &self,
        mut at: LogCursor<'d, D>,
        mut records: Vec<Payload>,
        upto: Zxid,
        cursor: &mut Option<LogCursor<'d, D>>,
    ) -> Result<Vec<Payload>, Unusable> {
        let mut bytes = 0;
        while bytes < self.page_bytes && at.last.0 < upto {
            // At the end of the log nothing is kept: it may go on in another file.
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
