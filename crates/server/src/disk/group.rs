//! Groups of transactions for the log.

use std::ops::Range;

use bytes::Bytes;
use crossbeam_channel::Sender;
use host::Group;
use proto::Zxid;

use crate::{clock, limits};

/// Encoded transactions for the log.
#[derive(Default)]
pub(crate) struct LogGroup {
    /// Short transactions, concatenated.
    payloads: Vec<u8>,
    records: Vec<(Zxid, Payload)>,
    /// Bytes of the long transactions.
    long_bytes: usize,
    /// Time at which the first transaction was queued, monotonic ms.
    queued_ms: u64,
}

/// Location of a transaction.
enum Payload {
    /// A range of `payloads`.
    Short(Range<usize>),
    /// A shared buffer. Copies of all transactions that wait for a slow disk would double the
    /// memory.
    Long(Bytes),
}

impl LogGroup {
    /// Clears the group for reuse.
    pub(super) fn clear(&mut self) {
        self.payloads.clear();
        self.payloads.shrink_to(limits::LOG_GROUP_BYTES_KEPT_MAX);
        self.records.clear();
        self.records.shrink_to(limits::LOG_GROUP_TXNS_KEPT_MAX);
        self.long_bytes = 0;
    }

    /// Adds an encoded transaction.
    pub(super) fn push_bytes(&mut self, zxid: Zxid, payload: &[u8]) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.end(zxid, Payload::Short(start..self.payloads.len()));
    }

    /// Adds an encoded transaction whose buffer may be shared.
    pub(super) fn push(&mut self, zxid: Zxid, payload: &Bytes) {
        if payload.len() < limits::LOG_PAYLOAD_BYTES_SHARED {
            return self.push_bytes(zxid, payload);
        }
        self.long_bytes += payload.len();
        self.end(zxid, Payload::Long(payload.clone()));
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.payloads.len() + self.long_bytes
    }

    /// Returns the time at which its first transaction was queued, monotonic ms.
    pub(super) fn queued_ms(&self) -> u64 {
        self.queued_ms
    }

    /// Returns its last transaction.
    pub(super) fn last(&self) -> Option<Zxid> {
        self.records.last().map(|(zxid, _)| *zxid)
    }

    fn end(&mut self, zxid: Zxid, payload: Payload) {
        if self.records.is_empty() {
            self.queued_ms = clock::monotonic_ms();
        }
        self.records.push((zxid, payload));
    }

    fn payload<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match payload {
            Payload::Short(range) => self.payloads.get(range.clone()).unwrap_or_default(),
            Payload::Long(bytes) => bytes,
        }
    }
}

impl Group for LogGroup {
    fn records(&self) -> impl Iterator<Item = (Zxid, &[u8])> {
        let records = self.records.iter();
        records.map(|(zxid, payload)| (*zxid, self.payload(payload)))
    }
}

/// Clears a group and returns it to the core.
pub(super) fn give_back(spent: &Sender<LogGroup>, mut group: LogGroup) {
    group.clear();
    // Fails if the core has enough groups, or has ended.
    let _ = spent.try_send(group);
}
