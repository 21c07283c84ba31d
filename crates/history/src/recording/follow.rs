//! Rules that decide which committed transactions are recorded directly and which are read from the
//! log.
//!
//! A history receives transactions as its member applies them, and misses some because the member
//! was down, a queue was full, or a leader's snapshot replaced the log. A transaction is recorded
//! only if its predecessor is certainly recorded, because a recorded hole is better than an
//! unnoticed gap.

use proto::txn::{TxnHeader, TxnRecord};
use proto::{Acl, StatPersisted, Zxid};

use super::baseline::{Baseline, SnapshotAt};
use super::expand::Origin;
use crate::error::{HistoryError, Result};
use crate::index::Index;
use crate::index::settings::IndexSettings;

/// Storage of histories, either files or the memory of a simulation.
pub trait HistoryStorage {
    /// Type of a history.
    type History: Recording;

    /// Opens the existing history.
    ///
    /// # Errors
    /// [`HistoryError::Missing`] if there is none.
    fn open(&self) -> Result<Self::History>;

    /// Creates an empty set for the znodes from a snapshot.
    ///
    /// # Errors
    /// If the set cannot be created.
    fn baseline(&self) -> Result<<Self::History as Recording>::Znodes>;

    /// Creates a history that begins after a snapshot.
    ///
    /// # Errors
    /// If the history cannot be written.
    fn create(
        &self,
        znodes: <Self::History as Recording>::Znodes,
        at: SnapshotAt,
    ) -> Result<Self::History>;
}

/// Receiver of a snapshot's znodes.
pub trait Znodes {
    /// Adds an entry from the snapshot's table of ACLs.
    fn acl(&mut self, id: i64, acl: &[Acl]);

    /// Adds a znode. The root's path may be empty.
    ///
    /// # Errors
    /// If the znode cannot be written.
    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<()>;
}

/// Receiver of recorded transactions.
pub trait Recording {
    /// Type of the set of initial znodes.
    type Znodes: Znodes;

    /// Returns the zxid of the last recorded transaction.
    fn head(&self) -> Zxid;

    /// Returns false if `header` has the zxid of [`Self::head`] but belongs to another transaction.
    fn is_head(&self, header: &TxnHeader) -> bool;

    /// Records the next transaction.
    ///
    /// # Errors
    /// If the transaction cannot be recorded.
    fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()>;

    /// Continues after a gap with a snapshot.
    ///
    /// # Errors
    /// If the history cannot be written.
    fn begin_era(&mut self, znodes: Self::Znodes, at: SnapshotAt) -> Result<()>;

    /// Makes recorded transactions visible to readers.
    ///
    /// # Errors
    /// If the transactions cannot be written.
    fn publish(&mut self) -> Result<()>;

    /// Makes recorded transactions durable.
    ///
    /// # Errors
    /// If the transactions cannot be written.
    fn checkpoint(&mut self) -> Result<()>;
}

impl HistoryStorage for IndexSettings {
    type History = Index;

    fn open(&self) -> Result<Index> {
        Index::open(self.clone())
    }

    fn baseline(&self) -> Result<Baseline> {
        Baseline::new(self)
    }

    fn create(&self, znodes: Baseline, at: SnapshotAt) -> Result<Index> {
        Index::create(self.clone(), znodes, at)
    }
}

impl Znodes for Baseline {
    fn acl(&mut self, id: i64, acl: &[Acl]) {
        Self::acl(self, id, acl);
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<()> {
        Self::znode(self, path, data, acl, stat)
    }
}

impl Recording for Index {
    type Znodes = Baseline;

    fn head(&self) -> Zxid {
        Self::head(self)
    }

    fn is_head(&self, header: &TxnHeader) -> bool {
        Self::is_head(self, header)
    }

    fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()> {
        Self::append(self, record, origin)
    }

    fn begin_era(&mut self, znodes: Baseline, at: SnapshotAt) -> Result<()> {
        Self::begin_era(self, znodes, at)
    }

    fn publish(&mut self) -> Result<()> {
        Self::publish(self)
    }

    fn checkpoint(&mut self) -> Result<()> {
        Self::checkpoint(self)
    }
}

/// Result of passing a transaction to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeResult {
    /// The transaction followed the last recorded transaction and was recorded.
    Recorded,
    /// The transaction was already recorded.
    Known,
    /// Transactions before it are or may be missing, so the log must be read.
    Missing,
}

/// Records an applied transaction if it directly follows the last recorded one within an epoch.
///
/// # Errors
/// [`HistoryError::OtherEnsemble`] if another transaction with the zxid of `record` is recorded.
/// Other errors if the transaction cannot be recorded.
pub fn take_applied(
    to: &mut impl Recording,
    record: &TxnRecord,
    origin: &Origin,
) -> Result<TakeResult> {
    let (head, zxid) = (to.head(), record.header.zxid);
    // The predecessor of an epoch's first transaction is unknown without the log.
    if zxid == head.next() && zxid.epoch() == head.epoch() {
        to.append(record, origin)?;
        return Ok(TakeResult::Recorded);
    }
    if zxid > head {
        return Ok(TakeResult::Missing);
    }
    if zxid == head && !to.is_head(&record.header) {
        return Err(HistoryError::OtherEnsemble { zxid });
    }
    Ok(TakeResult::Known)
}

/// Recorder of the transactions that follow the last recorded transaction in a log.
///
/// The log must be read from the last recorded transaction on. If the log contains this
/// transaction, the next ones certainly follow it, even across the end of an epoch.
#[derive(Debug)]
pub struct CatchUp {
    head: Zxid,
    upto: Zxid,
    has_head: bool,
    has_snapshot: bool,
}

/// Result of processing a transaction from a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUpResult {
    /// There may be more transactions.
    More,
    /// The next transactions are not known to be committed.
    End,
    /// The log does not reach back to the last recorded transaction.
    Gap,
}

impl CatchUp {
    /// Begins catching up to `upto`, which must be known to be committed. If `has_snapshot` is set,
    /// a snapshot of the last recorded transaction exists and the log continues after it. The log
    /// need not contain that transaction, because a leader's snapshot may have replaced the earlier
    /// log.
    pub fn new(to: &impl Recording, upto: Zxid, has_snapshot: bool) -> Self {
        Self {
            head: to.head(),
            upto,
            has_head: false,
            has_snapshot,
        }
    }

    /// Processes the next transaction in the log.
    ///
    /// # Errors
    /// If [`take_applied`] would fail.
    pub fn take(&mut self, to: &mut impl Recording, record: &TxnRecord) -> Result<CatchUpResult> {
        let zxid = record.header.zxid;
        if zxid > self.upto {
            return Ok(CatchUpResult::End);
        }
        if zxid == self.head {
            if !to.is_head(&record.header) {
                return Err(HistoryError::OtherEnsemble { zxid });
            }
            self.has_head = true;
        } else if zxid > self.head {
            let begins_log = to.head() == self.head && !self.has_head;
            // After a snapshot, the log continues with the next transaction of its member. Without
            // a snapshot, and if the log does not contain the last recorded transaction, whole
            // epochs may be missing.
            let is_next = if self.has_snapshot {
                self.head.is_followed_by(zxid)
            } else {
                zxid == self.head.next() && zxid.epoch() == self.head.epoch()
            };
            if begins_log && !is_next {
                return Ok(CatchUpResult::Gap);
            }
            to.append(record, &Origin::default())?;
        }
        // Nothing is read after `upto`, because a record being written may look like corruption.
        Ok(if zxid == self.upto {
            CatchUpResult::End
        } else {
            CatchUpResult::More
        })
    }
}

#[cfg(test)]
mod tests {
    use proto::SessionId;
    use proto::txn::Txn;

    use super::*;

    /// Zxid of a snapshot, and the zxids recorded after it.
    struct Zxids(Zxid, Vec<Zxid>);

    impl Znodes for () {
        fn acl(&mut self, _: i64, _: &[Acl]) {}

        fn znode(&mut self, _: &str, _: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<()> {
            Ok(())
        }
    }

    impl Recording for Zxids {
        type Znodes = ();

        fn head(&self) -> Zxid {
            self.1.last().copied().unwrap_or(self.0)
        }

        fn is_head(&self, _: &TxnHeader) -> bool {
            true
        }

        fn append(&mut self, record: &TxnRecord, _: &Origin) -> Result<()> {
            self.1.push(record.header.zxid);
            Ok(())
        }

        fn begin_era(&mut self, (): (), _: SnapshotAt) -> Result<()> {
            panic!("no gap is bridged here")
        }

        fn publish(&mut self) -> Result<()> {
            Ok(())
        }

        fn checkpoint(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn record(zxid: i64) -> TxnRecord {
        TxnRecord {
            header: TxnHeader {
                session: SessionId(1),
                cxid: 1,
                zxid: Zxid(zxid),
                time_ms: 1,
                op: -10,
            },
            txn: Txn::CreateSession { timeout_ms: 1 },
            digest: None,
        }
    }

    fn read(to: &mut Zxids, log: &[i64], upto: i64) -> CatchUpResult {
        read_with(to, log, upto, true)
    }

    fn read_with(to: &mut Zxids, log: &[i64], upto: i64, has_snapshot: bool) -> CatchUpResult {
        let mut catching_up = CatchUp::new(to, Zxid(upto), has_snapshot);
        let mut taken = log
            .iter()
            .map(|zxid| catching_up.take(to, &record(*zxid)).unwrap());
        taken
            .find(|taken| *taken != CatchUpResult::More)
            .unwrap_or(CatchUpResult::More)
    }

    const EPOCH_2: i64 = 0x2_0000_0000;

    #[test]
    fn successive_transactions_of_the_log_are_recorded() {
        let mut to = Zxids(Zxid(4), Vec::new());
        // The log begins after the snapshot and continues across the end of an epoch. Nothing is
        // read after the requested end, because it may be partly written.
        assert_eq!(
            read(&mut to, &[5, 6, EPOCH_2 + 1], EPOCH_2 + 1),
            CatchUpResult::End
        );
        // The log contains the last recorded transaction.
        let log = [6, EPOCH_2 + 1, EPOCH_2 + 2, EPOCH_2 + 3];
        assert_eq!(read(&mut to, &log, EPOCH_2 + 2), CatchUpResult::End);
        let recorded = [5, 6, EPOCH_2 + 1, EPOCH_2 + 2];
        assert_eq!(to.1, recorded.map(Zxid));
    }

    #[test]
    fn an_epoch_that_begins_the_log_follows_a_snapshot_and_no_transaction() {
        let mut to = Zxids(Zxid(4), Vec::new());
        assert_eq!(read(&mut to, &[EPOCH_2 + 1], i64::MAX), CatchUpResult::More);
        // The snapshot was purged, and the rest of its epoch with it.
        let mut to = Zxids(Zxid(4), Vec::new());
        let found = read_with(&mut to, &[EPOCH_2 + 1], i64::MAX, false);
        assert_eq!(found, CatchUpResult::Gap);
        assert_eq!(
            read_with(&mut to, &[5], i64::MAX, false),
            CatchUpResult::More
        );
        // There is a recorded transaction, but others may be missing in between because their log
        // was purged.
        let mut to = Zxids(Zxid(3), vec![Zxid(4)]);
        let found = read_with(&mut to, &[EPOCH_2 + 1], i64::MAX, false);
        assert_eq!(found, CatchUpResult::Gap);
        assert_eq!(read(&mut to, &[6], i64::MAX), CatchUpResult::Gap);
        assert_eq!(read(&mut to, &[5], i64::MAX), CatchUpResult::More);
        // The transaction was recorded before the leader's snapshot arrived.
        let mut to = Zxids(Zxid(3), vec![Zxid(4)]);
        assert_eq!(read(&mut to, &[EPOCH_2 + 1], i64::MAX), CatchUpResult::More);
    }

    #[test]
    fn applied_transactions_follow_directly_or_are_read_from_the_log() {
        let origin = Origin::default();
        let mut to = Zxids(Zxid(4), Vec::new());
        let mut take = |zxid: i64| take_applied(&mut to, &record(zxid), &origin).unwrap();
        assert_eq!(take(4), TakeResult::Known);
        assert_eq!(take(6), TakeResult::Missing);
        assert_eq!(take(5), TakeResult::Recorded);
        assert_eq!(take(EPOCH_2 + 1), TakeResult::Missing);
    }
}
