//! Reading the transaction log for a learner that has missed more than memory holds.
//!
//! The leader asks for a page at a time, each from where the one before ended; the files are read
//! on from there. Reading stops at the zxid that the leader names, which is committed: what stands
//! behind it may be half written just now.

use jute::Limits;
use proto::Zxid;
use storage::{
    DataDirs, LogFile, LoggedTxns, RealDisk, StorageError, list_logs, list_snapshots,
    read_txns_from,
};
use zab::Record;

use crate::limits;

static DISK: RealDisk = RealDisk;

/// The log, and how much of it is worth reading.
#[derive(Debug, Clone)]
pub(super) struct LogAccess {
    pub(super) dirs: DataDirs,
    pub(super) limits: Limits,
    /// `zookeeper.snapshotSizeFactor`: more than this part of a snapshot's bytes is not read. 0 is no
    /// limit.
    pub(super) size_factor: f64,
}

/// A place in the log.
#[derive(Debug)]
pub(super) struct LogCursor {
    txns: LoggedTxns<'static, RealDisk>,
    /// What was read last.
    last: Record,
}

/// Why the log is no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the log does not reach back to {from}")]
    TooShort { from: Zxid },
    #[error("{bytes} bytes of log are more than the {limit} that are worth it")]
    TooLong { bytes: u64, limit: u64 },
}

impl LogAccess {
    /// Some records: the first is the last one that is not behind `from`, none is behind `upto`.
    /// At least one follows it, unless the log ends or `upto` is reached. `cursor` is where the
    /// last page has ended, and afterwards where this one does; nowhere at the end of the log.
    ///
    /// # Errors
    /// If there is no such record, they are too many, or the log is damaged.
    pub(super) fn page(
        &self,
        cursor: &mut Option<LogCursor>,
        from: Zxid,
        upto: Zxid,
    ) -> Result<Vec<Record>, Unusable> {
        let resumed = cursor.take().filter(|cursor| cursor.last.zxid == from);
        if let Some(mut at) = resumed {
            at.txns.refresh()?;
            let records = vec![at.last.clone()];
            let records = read_on(at, records, upto, cursor)?;
            if records.len() > 1 || from >= upto {
                return Ok(records);
            }
            // The log goes on in a file that was not there yet.
        }
        self.refuse_too_long(from)?;
        let (at, records) = self.find(from)?;
        read_on(at, records, upto, cursor)
    }

    /// Begins at the last record that is not behind `from`, and gives what was read on the way.
    fn find(&self, from: Zxid) -> Result<(LogCursor, Vec<Record>), Unusable> {
        let mut txns = self.read(from)?;
        if let Some(first) = next(&mut txns)?
            && first.zxid == from
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
            while let Some(record) = behind.take_if(|record| record.zxid <= from) {
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

    fn read(&self, from: Zxid) -> Result<LoggedTxns<'static, RealDisk>, StorageError> {
        read_txns_from(&DISK, &self.dirs, from, self.limits)
    }

    /// The files that begin at or before a zxid, in order.
    fn files_upto(&self, zxid: Zxid) -> Result<Vec<LogFile>, StorageError> {
        let mut files = list_logs(&DISK, &self.dirs.log)?;
        files.retain(|file| file.zxid <= zxid);
        Ok(files)
    }

    /// A long log is not read where a snapshot is the smaller burden. The file where reading begins
    /// does not count, and files count as they are, space that is preallocated included.
    ///
    /// Source: ZKDatabase.calculateTxnLogSizeLimit, FileTxnIterator.getStorageSize (which sums up
    /// the files that are not open yet).
    fn refuse_too_long(&self, from: Zxid) -> Result<(), Unusable> {
        let newest = list_snapshots(&DISK, &self.dirs.snap)?.into_iter().next();
        let snapshot_bytes = newest.map_or(0, |snapshot| snapshot.len);
        // Rounded down as by Java; what does not fit is no limit either.
        let limit = (snapshot_bytes as f64 * self.size_factor) as u64;
        let files = list_logs(&DISK, &self.dirs.log)?;
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
}

/// Fills a page. The place is kept also where `upto` is reached: writers go on, and finding the place
/// again takes longer the further the file has come, so that a learner might never be caught up.
fn read_on(
    mut at: LogCursor,
    mut records: Vec<Record>,
    upto: Zxid,
    cursor: &mut Option<LogCursor>,
) -> Result<Vec<Record>, Unusable> {
    let mut bytes = 0;
    while bytes < limits::LOG_PAGE_BYTES && at.last.zxid < upto {
        // At the end of the log nothing is kept: it may go on in another file.
        let Some(record) = next(&mut at.txns)? else {
            return Ok(records);
        };
        bytes += record.txn.len();
        records.push(record.clone());
        at.last = record;
    }
    *cursor = Some(at);
    Ok(records)
}

fn next(txns: &mut LoggedTxns<'static, RealDisk>) -> Result<Option<Record>, StorageError> {
    let txn = txns.next().transpose()?;
    Ok(txn.map(|txn| Record::new(txn.record.header.zxid, txn.payload)))
}
