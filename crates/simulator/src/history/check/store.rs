//! In-memory store for change histories.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use history::{HistoryError, HistoryStorage, Origin, Recording, Result, SnapshotAt, Znodes};
use jute::Encode;
use proto::txn::{TxnHeader, TxnRecord};
use proto::{Acl, StatPersisted, Zxid};

/// Storage slot for a history.
#[derive(Debug, Default)]
pub(super) struct Memory(RefCell<Option<Recorded>>);

/// A recorded history.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    /// Eras in zxid order. A gap precedes each era except the first.
    pub(super) eras: Vec<Era>,
    /// Number of eras, and number of transactions in the last era, that survive a crash.
    durable: (usize, usize),
}

/// A section of the history without a gap.
#[derive(Debug, Clone)]
pub(super) struct Era {
    pub(super) at: SnapshotAt,
    pub(super) base: Base,
    pub(super) txns: Vec<Taken>,
}

/// A recorded transaction.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) header: TxnHeader,
    pub(super) bytes: Bytes,
    pub(super) origin: Origin,
}

/// Znodes at the beginning of an era.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    /// Data and version of each znode, by path.
    pub(super) znodes: BTreeMap<String, (Option<Bytes>, i32)>,
    /// Highest transaction whose effect is visible in the znodes.
    pub(super) last_seen: Zxid,
}

impl Memory {
    pub(super) fn put(&self, recorded: Recorded) {
        self.0.replace(Some(recorded));
    }

    pub(super) fn get(&self) -> Option<Recorded> {
        self.0.borrow().clone()
    }
}

impl HistoryStorage for Memory {
    type History = Recorded;

    fn open(&self) -> Result<Recorded> {
        self.get().ok_or_else(super::missing)
    }

    fn baseline(&self) -> Result<Base> {
        Ok(Base::default())
    }

    fn create(&self, znodes: Base, at: SnapshotAt) -> Result<Recorded> {
        let mut recorded = Recorded {
            eras: Vec::new(),
            durable: (0, 0),
        };
        recorded.begin_era(znodes, at)?;
        self.put(recorded.clone());
        Ok(recorded)
    }
}

impl Recorded {
    /// Returns the last transaction.
    pub(super) fn last(&self) -> Zxid {
        self.eras.last().map_or(Zxid::ZERO, Era::last)
    }

    pub(super) fn make_durable(&mut self) {
        let txns = self.eras.last().map_or(0, |era| era.txns.len());
        self.durable = (self.eras.len(), txns);
    }

    /// Returns whether the history contained this transaction before old ones were dropped.
    pub(super) fn has(&self, zxid: Zxid) -> bool {
        let mut eras = self.eras.iter();
        eras.any(|era| era.at.zxid < zxid && zxid <= era.last())
    }

    /// Returns the last transaction that survives a crash.
    pub(super) fn durable_head(&self) -> Zxid {
        self.clone().at_checkpoint().last()
    }

    /// Returns the history up to `last`; `None` if it never ended there, or if durable data would
    /// be lost.
    pub(super) fn cut_to(mut self, last: Zxid) -> Option<Self> {
        self.eras.retain(|era| era.at.zxid <= last);
        if let Some(era) = self.eras.last_mut() {
            era.txns.retain(|taken| taken.header.zxid <= last);
        }
        let durable = self.durable;
        self.make_durable();
        (self.last() == last && self.durable >= durable).then_some(self)
    }

    /// Returns the part of the history that survives a crash.
    pub(super) fn at_checkpoint(mut self) -> Self {
        let (eras, txns) = self.durable;
        self.eras.truncate(eras);
        if let Some(last) = self.eras.last_mut() {
            last.txns.truncate(txns);
        }
        self
    }
}

impl Era {
    pub(super) fn last(&self) -> Zxid {
        let last = self.txns.last();
        last.map_or(self.at.zxid, |taken| taken.header.zxid)
    }
}

impl Recording for Recorded {
    type Znodes = Base;

    fn head(&self) -> Zxid {
        self.last()
    }

    fn is_head(&self, header: &TxnHeader) -> bool {
        let last = self.eras.last().and_then(|era| era.txns.last());
        last.is_none_or(|last| last.header.zxid != header.zxid || last.header == *header)
    }

    fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()> {
        let (got, head) = (record.header.zxid, self.last());
        let Some(era) = self.eras.last_mut().filter(|_| got > head) else {
            return Err(HistoryError::OutOfTurn { got, head });
        };
        era.txns.push(Taken {
            header: record.header,
            bytes: record.to_bytes(),
            origin: origin.clone(),
        });
        Ok(())
    }

    fn begin_era(&mut self, base: Base, at: SnapshotAt) -> Result<()> {
        let txns = Vec::new();
        self.eras.push(Era { at, base, txns });
        self.make_durable();
        Ok(())
    }

    fn publish(&mut self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.make_durable();
        Ok(())
    }
}

impl Znodes for Base {
    fn acl(&mut self, _: i64, _: &[Acl]) {}

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        _: i64,
        stat: &StatPersisted,
    ) -> Result<()> {
        let seen = stat.czxid.max(stat.mzxid).max(stat.pzxid);
        self.last_seen = self.last_seen.max(Zxid(seen));
        let data = data.map(Bytes::copy_from_slice);
        self.znodes.insert(path.to_owned(), (data, stat.version));
        Ok(())
    }
}
