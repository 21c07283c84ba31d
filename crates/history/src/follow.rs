//! What of a stream of committed transactions is recorded, and what is to be looked for in the log.
//!
//! A member is told of transactions as it applies them, and misses some: it was down, a queue was
//! full, a leader's snapshot took the place of the log. Nothing is taken to follow what it may not
//! follow: an honest hole is better than a gap that nobody sees.

use proto::mutant::{self, Mutant};
use proto::txn::{TxnHeader, TxnRecord};
use proto::{Acl, StatPersisted, Zxid};

use crate::baseline::{Baseline, SnapshotAt};
use crate::error::{HistoryError, Result};
use crate::expand::Origin;
use crate::index::{Index, Settings};

/// Where histories are kept: files, or the memory of a simulation.
pub trait Keeper {
    /// A history.
    type History: Recording;

    /// The history that is there.
    ///
    /// # Errors
    /// [`HistoryError::Missing`] if there is none.
    fn open(&self) -> Result<Self::History>;

    /// For the znodes of a snapshot.
    ///
    /// # Errors
    /// If it cannot be made.
    fn baseline(&self) -> Result<<Self::History as Recording>::Znodes>;

    /// A new history, behind a snapshot.
    ///
    /// # Errors
    /// If it cannot be written.
    fn create(
        &self,
        znodes: <Self::History as Recording>::Znodes,
        at: SnapshotAt,
    ) -> Result<Self::History>;
}

/// Takes the znodes of a snapshot.
pub trait Znodes {
    /// An entry of its table of ACLs.
    fn acl(&mut self, id: i64, acl: &[Acl]);

    /// A znode; the root's path may be empty.
    ///
    /// # Errors
    /// If it cannot be written.
    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<()>;
}

/// Where transactions are recorded.
pub trait Recording {
    /// The znodes that it begins with.
    type Znodes: Znodes;

    /// The last one that is recorded.
    fn head(&self) -> Zxid;

    /// Whether the one at the head is this one, as far as that is known.
    fn is_head(&self, header: &TxnHeader) -> bool;

    /// Records the next one.
    ///
    /// # Errors
    /// If it cannot be recorded.
    fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()>;

    /// Goes on behind a gap, with a snapshot.
    ///
    /// # Errors
    /// If it cannot be written.
    fn begin_era(&mut self, znodes: Self::Znodes, at: SnapshotAt) -> Result<()>;

    /// Shows what was recorded.
    ///
    /// # Errors
    /// If it cannot be written.
    fn publish(&mut self) -> Result<()>;

    /// Makes it durable.
    ///
    /// # Errors
    /// If it cannot be written.
    fn checkpoint(&mut self) -> Result<()>;
}

impl Keeper for Settings {
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

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It followed the last one, and is recorded.
    Recorded,
    /// It was known.
    Known,
    /// Others are missing before it, or may be: the log is to be read.
    Missing,
}

/// A transaction was applied, as a committed one.
///
/// # Errors
/// [`HistoryError::OtherEnsemble`] if another one of the same zxid is recorded, and what recording it
/// brings.
pub fn take_applied(to: &mut impl Recording, record: &TxnRecord, origin: &Origin) -> Result<Taken> {
    let (head, zxid) = (to.head(), record.header.zxid);
    // The first of an epoch may follow more than one: the log tells.
    if zxid == head.next() && zxid.epoch() == head.epoch() {
        to.append(record, origin)?;
        return Ok(Taken::Recorded);
    }
    if zxid == head.next().next() && mutant::is(Mutant::ChangeLeftOut) {
        to.append(record, origin)?;
        return Ok(Taken::Recorded);
    }
    if zxid > head {
        return Ok(Taken::Missing);
    }
    if zxid == head && !to.is_head(&record.header) {
        return Err(HistoryError::OtherEnsemble { zxid });
    }
    Ok(Taken::Known)
}

/// Records what a log has behind the last transaction that is recorded.
///
/// The log is to be read from that transaction on, itself included: if it is there, what follows it
/// is sure to follow it, also over the end of an epoch.
#[derive(Debug)]
pub struct CatchUp {
    head: Zxid,
    upto: Zxid,
    has_head: bool,
    has_snapshot: bool,
}

/// What a log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromLog {
    /// There may be more.
    More,
    /// What comes is not known to be committed.
    End,
    /// It does not reach back to the last one recorded.
    Gap,
}

impl CatchUp {
    /// Up to a transaction that is known to be committed. `has_snapshot`: there is a snapshot of the last
    /// one recorded, and the log goes on from it. It need not hold that one: a leader's snapshot took the
    /// place of the log in front of it.
    pub fn new(to: &impl Recording, upto: Zxid, has_snapshot: bool) -> Self {
        Self {
            head: to.head(),
            upto,
            has_head: false,
            has_snapshot,
        }
    }

    /// Takes the next transaction of the log.
    ///
    /// # Errors
    /// As [`take_applied`].
    pub fn take(&mut self, to: &mut impl Recording, record: &TxnRecord) -> Result<FromLog> {
        let zxid = record.header.zxid;
        if zxid > self.upto {
            return Ok(FromLog::End);
        }
        if zxid == self.head {
            if !to.is_head(&record.header) {
                return Err(HistoryError::OtherEnsemble { zxid });
            }
            self.has_head = true;
        } else if zxid > self.head {
            let begins_log = to.head() == self.head && !self.has_head;
            // Behind a snapshot the log goes on with what its member was told next. Without one, behind a
            // transaction that the log does not have, whole epochs may be missing.
            let is_next = match self.has_snapshot {
                true => follows(self.head, zxid),
                false => zxid == self.head.next() && zxid.epoch() == self.head.epoch(),
            };
            if begins_log && !is_next {
                return Ok(FromLog::Gap);
            }
            to.append(record, &Origin::default())?;
        }
        // What is being written behind it may look like damage.
        Ok(match zxid == self.upto {
            true => FromLog::End,
            false => FromLog::More,
        })
    }
}

/// Whether a log that begins with `next` misses nothing behind a snapshot that ends with `last`.
/// Source: as recovery does.
pub fn follows(last: Zxid, next: Zxid) -> bool {
    next == last.next() || (next.epoch() > last.epoch() && next.counter() == 1)
}

#[cfg(test)]
mod tests {
    use proto::SessionId;
    use proto::txn::Txn;

    use super::*;

    /// Zxids that are recorded, behind a snapshot.
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

    fn read(to: &mut Zxids, log: &[i64], upto: i64) -> FromLog {
        read_with(to, log, upto, true)
    }

    fn read_with(to: &mut Zxids, log: &[i64], upto: i64, has_snapshot: bool) -> FromLog {
        let mut catching_up = CatchUp::new(to, Zxid(upto), has_snapshot);
        let mut taken = log
            .iter()
            .map(|zxid| catching_up.take(to, &record(*zxid)).unwrap());
        taken
            .find(|taken| *taken != FromLog::More)
            .unwrap_or(FromLog::More)
    }

    const EPOCH_2: i64 = 0x2_0000_0000;

    #[test]
    fn what_the_log_shows_to_follow_is_recorded() {
        let mut to = Zxids(Zxid(4), Vec::new());
        // The log begins behind the snapshot, and goes over the end of an epoch. Nothing is read behind
        // what is wanted: it may be half written.
        assert_eq!(
            read(&mut to, &[5, 6, EPOCH_2 + 1], EPOCH_2 + 1),
            FromLog::End
        );
        // The last one recorded is in it.
        let log = [6, EPOCH_2 + 1, EPOCH_2 + 2, EPOCH_2 + 3];
        assert_eq!(read(&mut to, &log, EPOCH_2 + 2), FromLog::End);
        let recorded = [5, 6, EPOCH_2 + 1, EPOCH_2 + 2];
        assert_eq!(to.1, recorded.map(Zxid));
    }

    #[test]
    fn an_epoch_that_begins_the_log_follows_a_snapshot_and_no_transaction() {
        let mut to = Zxids(Zxid(4), Vec::new());
        assert_eq!(read(&mut to, &[EPOCH_2 + 1], i64::MAX), FromLog::More);
        // The snapshot was purged, and with it the rest of its epoch.
        let mut to = Zxids(Zxid(4), Vec::new());
        let found = read_with(&mut to, &[EPOCH_2 + 1], i64::MAX, false);
        assert_eq!(found, FromLog::Gap);
        assert_eq!(read_with(&mut to, &[5], i64::MAX, false), FromLog::More);
        // The same with a transaction before: others may have come between, and their log is gone.
        let mut to = Zxids(Zxid(3), vec![Zxid(4)]);
        let found = read_with(&mut to, &[EPOCH_2 + 1], i64::MAX, false);
        assert_eq!(found, FromLog::Gap);
        assert_eq!(read(&mut to, &[6], i64::MAX), FromLog::Gap);
        assert_eq!(read(&mut to, &[5], i64::MAX), FromLog::More);
        // It came with its leader's snapshot after it was recorded.
        let mut to = Zxids(Zxid(3), vec![Zxid(4)]);
        assert_eq!(read(&mut to, &[EPOCH_2 + 1], i64::MAX), FromLog::More);
    }

    #[test]
    fn what_is_applied_follows_directly_or_is_looked_for() {
        let origin = Origin::default();
        let mut to = Zxids(Zxid(4), Vec::new());
        let mut take = |zxid: i64| take_applied(&mut to, &record(zxid), &origin).unwrap();
        assert_eq!(take(4), Taken::Known);
        assert_eq!(take(6), Taken::Missing);
        assert_eq!(take(5), Taken::Recorded);
        assert_eq!(take(EPOCH_2 + 1), Taken::Missing);
    }
}
