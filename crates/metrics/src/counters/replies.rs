//! Replies and events, counted in batches.

use proto::request::ReadRequest;
use proto::txn::TxnRecord;

use super::namespaces::Namespaces;
use super::summary::Sizes;
use super::values::Values;

/// Counters of one batch: the replies to several requests of one connection, or the replies and
/// events for a group of transactions. Recording does not touch shared memory, so a reply in a
/// large batch costs a few nanoseconds. [`super::ServerStats::replied`] transfers the batch.
///
/// [`Self::read`] or [`Self::update`] records the latency of a reply, and [`Self::reply`] its
/// bytes.
#[derive(Debug, Default)]
pub struct Replies {
    pub(crate) sent: u64,
    pub(crate) reply_bytes: u64,
    pub(crate) event_bytes: u64,
    pub(crate) sizes: Option<Sizes>,
    pub(crate) reads: Values,
    pub(crate) updates: Values,
    /// Times from the leader's timestamp of a transaction until its application on this server, ms.
    pub(crate) propagation: Values,
    /// Times from the arrival of a request with a transaction to the answer, ms
    /// (`write_commitproc_time_ms`).
    pub(crate) committed: Values,
    /// For each answered write, the number of requests of the same connection that waited for the
    /// write. Zeros are not recorded.
    pub(crate) waiting: Values,
    pub(crate) read_from: Namespaces,
    /// Number of replies to getData. Java would look them up in its cache of encoded replies.
    pub(crate) data_replies: u64,
    pub(crate) children_replies: u64,
    pub(crate) written_to: Namespaces,
}

impl Replies {
    /// Returns the number of answered requests without a transaction.
    pub fn reads(&self) -> u64 {
        self.reads.counts().map(|(_, times)| times).sum()
    }

    /// Records the latency of a reply to a request without a transaction.
    pub fn read(&mut self, latency_ms: u64) {
        self.reads.record(latency_ms);
    }

    /// Records the latency of a reply to a request with a transaction.
    pub fn update(&mut self, latency_ms: u64) {
        self.updates.record(latency_ms);
    }

    /// Records the bytes of a read and of its reply `body` for the read's namespace, and counts
    /// replies that Java would cache.
    pub fn read_from(&mut self, request: &ReadRequest, body: &[u8]) {
        match request {
            ReadRequest::GetData(_) => self.data_replies += 1,
            ReadRequest::GetChildren2(_) => self.children_replies += 1,
            _ => {}
        }
        self.read_from.read(request, body);
    }

    /// Records a transaction that was applied at `now_ms` by the wall clock. A timestamp in the
    /// future is ignored. Source: FinalRequestProcessor.applyRequest.
    pub fn applied(&mut self, record: &TxnRecord, now_ms: i64) {
        self.propagation.record_age(record.header.time_ms, now_ms);
        self.written_to.write(&record.txn);
    }

    /// Records the answer to a request with a transaction. `waited_ms` is the time since the
    /// request arrived, and `waiting` is the number of later requests on the connection that wait
    /// for the answer. Source: CommitProcessor.processWrite.
    pub fn committed(&mut self, waited_ms: u64, waiting: u64) {
        self.committed.record(waited_ms);
        if waiting > 0 {
            self.waiting.record(waiting);
        }
    }

    /// Records the number of bytes in a reply, without the length field.
    pub fn reply(&mut self, bytes: usize) {
        self.reply_bytes += self.packet(bytes);
    }

    /// Records the number of bytes in a watch event, without the length field.
    pub fn event(&mut self, bytes: usize) {
        self.event_bytes += self.packet(bytes);
    }

    fn packet(&mut self, bytes: usize) -> u64 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Sizes { min, max, .. } = self.sizes.unwrap_or(Sizes {
            last: 0,
            min: bytes,
            max: bytes,
        });
        self.sizes = Some(Sizes {
            last: bytes,
            min: min.min(bytes),
            max: max.max(bytes),
        });
        self.sent += 1;
        u64::from(bytes)
    }
}
