//! Groups of transactions for the log.

use std::ops::Range;

use bytes::Bytes;
use proto::Zxid;

/// Size of transactions for which a reused group retains capacity, bytes: enough for a few hundred
/// transactions that arrive together.
const BYTES_KEPT_MAX: usize = 256 << 10;

/// Number of transactions for which a reused group retains capacity.
const TXNS_KEPT_MAX: usize = 1024;

/// Minimum size of a transaction that is shared instead of copied while it waits for the log,
/// bytes.
const PAYLOAD_BYTES_SHARED: usize = 16 << 10;

/// Encoded transactions that go to the log together.
#[derive(Debug, Default)]
pub struct LogGroup {
    /// Short transactions, concatenated.
    payloads: Vec<u8>,
    records: Vec<(Zxid, Payload)>,
    /// Total size of the long transactions, bytes.
    long_bytes: usize,
    /// Time at which the first transaction was queued, on a monotonic clock, ms.
    queued_ms: u64,
}

/// Location of an encoded transaction.
#[derive(Debug)]
enum Payload {
    /// A range of bytes in `payloads`.
    Short(Range<usize>),
    /// A shared buffer. Copies of all transactions that wait for a slow disk would double the
    /// memory use.
    Long(Bytes),
}

impl LogGroup {
    /// Clears the group so that it can be reused.
    pub fn clear(&mut self) {
        self.payloads.clear();
        self.payloads.shrink_to(BYTES_KEPT_MAX);
        self.records.clear();
        self.records.shrink_to(TXNS_KEPT_MAX);
        self.long_bytes = 0;
    }

    /// Adds an encoded transaction. `now_ms` is called only for the first transaction of the group.
    pub fn push_bytes(&mut self, zxid: Zxid, payload: &[u8], now_ms: impl FnOnce() -> u64) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.end(zxid, Payload::Short(start..self.payloads.len()), now_ms);
    }

    /// Adds an encoded transaction whose buffer may be shared.
    pub fn push(&mut self, zxid: Zxid, payload: &Bytes, now_ms: impl FnOnce() -> u64) {
        if payload.len() < PAYLOAD_BYTES_SHARED {
            return self.push_bytes(zxid, payload, now_ms);
        }
        self.long_bytes += payload.len();
        self.end(zxid, Payload::Long(payload.clone()), now_ms);
    }

    /// Returns the transactions, oldest first: their zxids and encoded bytes.
    pub fn records(&self) -> impl Iterator<Item = (Zxid, &[u8])> {
        let records = self.records.iter();
        records.map(|(zxid, payload)| (*zxid, self.payload(payload)))
    }

    /// Returns whether the group is empty.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the total size of the transactions, bytes.
    pub fn bytes(&self) -> usize {
        self.payloads.len() + self.long_bytes
    }

    /// Returns the time at which the first transaction was queued, monotonic ms.
    pub fn queued_ms(&self) -> u64 {
        self.queued_ms
    }

    /// Returns the zxid of the last transaction; `None` if the group is empty.
    pub fn last(&self) -> Option<Zxid> {
        self.records.last().map(|(zxid, _)| *zxid)
    }

    fn end(&mut self, zxid: Zxid, payload: Payload, now_ms: impl FnOnce() -> u64) {
        if self.records.is_empty() {
            self.queued_ms = now_ms();
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
