//! A transaction in Zab: a zxid and bytes.

use std::fmt;

use bytes::Bytes;
use proto::{OpCode, Zxid};

/// A transaction. Zab does not interpret its bytes, which therefore keep the form that they have in
/// a PROPOSAL and in the log: header, body, digest ([`proto::txn::TxnRecord`] decodes them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Position of the transaction in the order of all changes.
    pub zxid: Zxid,
    /// Header, body, and the digest if any.
    pub txn: Bytes,
}

impl Record {
    /// Creates a transaction with its position.
    pub fn new(zxid: Zxid, txn: impl Into<Bytes>) -> Self {
        let txn = txn.into();
        Self { zxid, txn }
    }

    /// Returns the time at which the leader created the transaction, in ms by the leader's wall
    /// clock; `None` if the header is truncated.
    pub fn stamp_ms(&self) -> Option<i64> {
        const TIME_AT: usize = 20;
        let time = self.txn.get(TIME_AT..).and_then(|rest| rest.first_chunk());
        time.map(|time| i64::from_be_bytes(*time))
    }

    /// Returns whether the header specifies a reconfiguration. Only this kind of transaction
    /// changes the voters.
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

/// Returns whether `next` may follow `before` in a log: it must be the next zxid of the epoch, or
/// the first zxid of a later epoch. A gap inside an epoch is a lost transaction (ZOOKEEPER-4925). A
/// gap at the start of an epoch is also a lost transaction, because every leader begins with
/// counter 1. Recovery refuses a log in which an epoch begins with another counter.
pub(crate) fn follows(before: Zxid, next: Zxid) -> bool {
    next == before.next() || (next.epoch() > before.epoch() && next.counter() == 1)
}
