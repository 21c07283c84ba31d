//! Replies and events counted by the batch.

use proto::request::ReadRequest;
use proto::txn::TxnRecord;

use super::ages::age;
use super::namespaces::Namespaces;
use super::percentiles::Percentiles;

/// Latencies below this many ms are counted in place; longer ones are rare.
const SHORT_MS: usize = 16;

/// What is sent in one go: to a batch of a connection, or because of a group of transactions.
/// It is filled without touching anything shared and handed over with
/// [`super::ServerStats::replied`], so that a reply in a large batch costs a few nanoseconds.
///
/// A reply is noted with [`Self::read`] or [`Self::update`] for its latency and with
/// [`Self::reply`] for its bytes.
#[derive(Debug, Default)]
pub struct Replies {
    pub(super) sent: u64,
    pub(super) reply_bytes: u64,
    pub(super) event_bytes: u64,
    pub(super) sizes: Option<Sizes>,
    pub(super) reads: Latencies,
    pub(super) updates: Latencies,
    /// From the stamps of transactions to their changes here.
    pub(super) propagation: Latencies,
    pub(super) read_from: Namespaces,
    /// Replies that a server with a cache of encoded ones looks for there.
    pub(super) data_replies: u64,
    pub(super) children_replies: u64,
    pub(super) written_to: Namespaces,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) last: u32,
    pub(super) min: u32,
    pub(super) max: u32,
}

#[derive(Debug, Default)]
pub(super) struct Latencies {
    short: [u32; SHORT_MS],
    long: Vec<u64>,
}

impl Latencies {
    pub(super) fn record(&mut self, latency_ms: u64) {
        let short = usize::try_from(latency_ms)
            .ok()
            .and_then(|ms| self.short.get_mut(ms));
        match short {
            Some(count) => *count += 1,
            None => self.long.push(latency_ms),
        }
    }

    /// The age of what was stamped at `stamp_ms`, unless that lies ahead.
    pub(super) fn record_age(&mut self, stamp_ms: i64, now_ms: i64) {
        if let Some(age_ms) = age(stamp_ms, now_ms) {
            self.record(age_ms);
        }
    }

    /// Counts all of them, and begins anew.
    pub(super) fn hand_over(&mut self, to: &Percentiles) {
        for (latency_ms, times) in self.counts() {
            to.record_many(latency_ms, times);
        }
        self.short = Default::default();
        self.long.clear();
    }

    /// Each latency with how often it came.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let short = (0..)
            .zip(&self.short)
            .map(|(ms, count)| (ms, u64::from(*count)));
        let long = self.long.iter().map(|ms| (*ms, 1));
        short.filter(|(_, count)| *count > 0).chain(long)
    }
}

impl Replies {
    /// How many reads were answered.
    pub fn reads(&self) -> u64 {
        self.reads.counts().map(|(_, times)| times).sum()
    }

    /// Notes how long the reply to a request took that made no transaction.
    pub fn read(&mut self, latency_ms: u64) {
        self.reads.record(latency_ms);
    }

    /// Notes how long the reply to a request took that made a transaction.
    pub fn update(&mut self, latency_ms: u64) {
        self.updates.record(latency_ms);
    }

    /// Notes the reply `body` of a read that was answered.
    pub fn read_from(&mut self, request: &ReadRequest, body: &[u8]) {
        match request {
            ReadRequest::GetData(_) => self.data_replies += 1,
            ReadRequest::GetChildren2(_) => self.children_replies += 1,
            _ => {}
        }
        self.read_from.read(request, body);
    }

    /// Notes a transaction that was applied at `now_ms` of the wall clock. One whose stamp lies
    /// ahead of it says nothing about time. Source: FinalRequestProcessor.applyRequest.
    pub fn applied(&mut self, record: &TxnRecord, now_ms: i64) {
        self.propagation.record_age(record.header.time_ms, now_ms);
        self.written_to.write(&record.txn);
    }

    /// Notes the bytes of a reply, the length before it not counted.
    pub fn reply(&mut self, bytes: usize) {
        self.reply_bytes += self.packet(bytes);
    }

    /// Notes the bytes of a watch event, likewise.
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
    fn equal_latencies_are_one_count() {
        let mut latencies = Latencies::default();
        [0, 3, 0, 15, 16, 16, u64::MAX]
            .into_iter()
            .for_each(|ms| latencies.record(ms));
        let counts: Vec<_> = latencies.counts().collect();
        assert_eq!(
            counts,
            [(0, 2), (3, 1), (15, 1), (16, 1), (16, 1), (u64::MAX, 1)]
        );
    }
}
