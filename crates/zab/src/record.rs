//! A transaction as Zab sees it: a position and bytes.

use std::fmt;

use bytes::Bytes;
use proto::{OpCode, Zxid};

/// A transaction. What it does is none of Zab's business, so it stays as it travels in a PROPOSAL
/// and lies in the log: header, body, digest ([`proto::txn::TxnRecord`] decodes it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position in the order of all changes.
    pub zxid: Zxid,
    /// Header, body, and the digest if there is one.
    pub txn: Bytes,
}

impl Record {
    /// A transaction and its position.
    pub fn new(zxid: Zxid, txn: impl Into<Bytes>) -> Self {
        let txn = txn.into();
        Self { zxid, txn }
    }

    /// When the leader made it, by its wall clock, ms; `None` if the header is cut.
    pub fn stamp_ms(&self) -> Option<i64> {
        const TIME_AT: usize = 20;
        let time = self.txn.get(TIME_AT..).and_then(|rest| rest.first_chunk());
        time.map(|time| i64::from_be_bytes(*time))
    }

    /// Whether the header names a reconfiguration, the one kind of transaction that changes who
    /// decides.
    pub fn is_reconfig(&self) -> bool {
        const OP_AT: usize = 28;
        let op = self.txn.get(OP_AT..).and_then(|rest| rest.first_chunk());
        op.map(|op| i32::from_be_bytes(*op)) == Some(OpCode::Reconfig.number())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} len={}", self.zxid, self.txn.len())
    }
}

/// Whether `next` may follow `before` in a history: the next number of the epoch, or the first of a
/// later one. A hole inside an epoch is a lost transaction (ZOOKEEPER-4925), and so is one at its
/// start: every leader begins with 1, and no log with another number would be read again.
pub(crate) fn follows(before: Zxid, next: Zxid) -> bool {
    next == before.next() || (next.epoch() > before.epoch() && next.counter() == 1)
}
