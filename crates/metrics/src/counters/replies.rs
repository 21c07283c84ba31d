//! Replies and events, counted in batches.

use proto::request::ReadRequest;
use proto::txn::TxnRecord;

use super::ages::age;
use super::namespaces::Namespaces;
use super::percentiles::Percentiles;

/// Limit below which values are counted in place, ms. Longer times are rare.
const SMALL: usize = 16;

/// Counters of one batch: replies to a batch of a connection, or events of a group of transactions.
/// Recording does not touch shared memory, so a reply in a large batch costs a few nanoseconds.
/// [`super::ServerStats::replied`] transfers the batch.
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
    /// Times from the timestamps of transactions to their changes on this server, ms.
    pub(crate) propagation: Values,
    /// Times from requests to the answers to their transactions, ms.
    pub(crate) committed: Values,
    /// Numbers of requests that waited for an answered write on their connection. Zeros are not
    /// recorded.
    pub(crate) waiting: Values,
    pub(crate) read_from: Namespaces,
    /// Number of replies that Java would look up in its cache of encoded replies.
    pub(crate) data_replies: u64,
    pub(crate) children_replies: u64,
    pub(crate) written_to: Namespaces,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) last: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// Values of a summary that are usually small: times in ms, or counts.
#[derive(Debug, Default)]
pub(crate) struct Values {
    small: [u32; SMALL],
    large: Vec<u64>,
}

impl Values {
    pub(crate) fn record(&mut self, value: u64) {
        let small = usize::try_from(value)
            .ok()
            .and_then(|value| self.small.get_mut(value));
        match small {
            Some(count) => *count += 1,
            None => self.large.push(value),
        }
    }

    /// Records the age of the timestamp `stamp_ms` at `now_ms`, in ms, unless the timestamp is in
    /// the future.
    pub(crate) fn record_age(&mut self, stamp_ms: i64, now_ms: i64) {
        if let Some(age_ms) = age(stamp_ms, now_ms) {
            self.record(age_ms);
        }
    }

    /// Transfers all values to the summary and clears them.
    pub(crate) fn hand_over(&mut self, to: &Percentiles) {
        for (value, times) in self.counts() {
            to.record_many(value, times);
        }
        self.small = Default::default();
        self.large.clear();
    }

    /// Returns each value with its number of occurrences.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = (0..)
            .zip(&self.small)
            .map(|(value, count)| (value, u64::from(*count)));
        let large = self.large.iter().map(|value| (*value, 1));
        small.filter(|(_, count)| *count > 0).chain(large)
    }
}

impl Replies {
    /// Returns the number of answered reads.
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

    /// Records the reply `body` of an answered read.
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

    /// Records the answer to a transaction with its latency, and the number of requests on its
    /// connection that wait for it. Source: CommitProcessor.processWrite.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_count() {
        let mut values = Values::default();
        [0, 3, 0, 15, 16, 16, u64::MAX]
            .into_iter()
            .for_each(|value| values.record(value));
        let counts: Vec<_> = values.counts().collect();
        assert_eq!(
            counts,
            [(0, 2), (3, 1), (15, 1), (16, 1), (16, 1), (u64::MAX, 1)]
        );
    }
}
