//! Figures of one connection in `stat` and `cons`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64};

use proto::{OpCode, Xid, Zxid};

/// Counters of a connection. Source: ServerCnxn.
///
/// A writer must hold the connection's lock, or must be the only owner of the connection. Plain
/// loads and stores then suffice, and recording a reply is cheap. Two concurrent writers would only
/// lose counts. Readers do not lock and may see a partly recorded reply.
#[derive(Debug)]
pub struct ConnectionStats {
    established_ms: i64,
    received: AtomicU64,
    sent: AtomicU64,
    /// Code of the last answered operation, or [`NO_OPERATION`].
    last_op: AtomicI32,
    last_cxid: AtomicI64,
    last_zxid: AtomicI64,
    last_response_ms: AtomicU64,
    last_latency_ms: AtomicU64,
    min_latency_ms: AtomicU64,
    max_latency_ms: AtomicU64,
    answered: AtomicU64,
    total_latency_ms: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    throttled: AtomicU64,
}

/// Code in place of an operation, shown as `NA`.
const NO_OPERATION: i32 = i32::MIN;

/// Values of [`ConnectionStats`] at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionFigures {
    /// Time at which the connection was accepted, wall-clock ms.
    pub established_ms: i64,
    /// Number of packets from the client.
    pub received: u64,
    /// Number of packets to the client.
    pub sent: u64,
    /// Short name of the last answered operation. It is `NA` before the first answer, after a
    /// reset, and after a request that was refused before its execution.
    pub last_op: &'static str,
    /// Xid of the client's last answered request; 0 before the first one, and -1 after a reset.
    pub last_cxid: i64,
    /// Zxid of the last reply; 0 before the first one, and -1 after a reset.
    pub last_zxid: Zxid,
    /// Time of the last reply, on a monotonic clock, ms.
    pub last_response_ms: u64,
    /// Latency of the last reply, ms.
    pub last_latency_ms: u64,
    /// Smallest latency, ms.
    pub min_latency_ms: u64,
    /// Mean latency, ms, rounded down.
    pub avg_latency_ms: u64,
    /// Largest latency, ms.
    pub max_latency_ms: u64,
    /// Number of answered reads, without pings.
    pub reads: u64,
    /// Number of answered writes.
    pub writes: u64,
    /// Number of bytes in frames from the client.
    pub received_bytes: u64,
    /// Number of bytes in frames to the client.
    pub sent_bytes: u64,
    /// Number of requests that waited or were refused because of a budget.
    pub throttled: u64,
}

impl ConnectionStats {
    /// Creates the counters of a connection that was accepted at `established_ms` by the wall
    /// clock.
    ///
    /// The minimum latency starts at 0, so it stays 0 until `crst`. Java behaves in the same way,
    /// and monitoring compares the values.
    pub fn new(established_ms: i64) -> Self {
        Self {
            established_ms,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            last_op: AtomicI32::new(NO_OPERATION),
            last_cxid: AtomicI64::new(0),
            last_zxid: AtomicI64::new(0),
            last_response_ms: AtomicU64::new(0),
            last_latency_ms: AtomicU64::new(0),
            min_latency_ms: AtomicU64::new(0),
            max_latency_ms: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            total_latency_ms: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        }
    }

    /// Records `n` packets from the client.
    pub fn packets_received(&self, n: u64) {
        add(&self.received, n);
    }

    /// Records `n` packets to the client.
    pub fn packets_sent(&self, n: u64) {
        add(&self.sent, n);
    }

    /// Records `n` bytes from the client.
    pub fn bytes_received(&self, n: u64) {
        add(&self.received_bytes, n);
    }

    /// Records `n` bytes to the client.
    pub fn bytes_sent(&self, n: u64) {
        add(&self.sent_bytes, n);
    }

    /// Records `n` requests that wait or are refused because of a budget.
    pub fn throttled(&self, n: u64) {
        add(&self.throttled, n);
    }

    /// Records an answered read or write.
    pub fn note_request(&self, is_write: bool) {
        let cell = if is_write { &self.writes } else { &self.reads };
        add(cell, 1);
    }

    /// Records the reply to a request that arrived at `received_ms` and was answered at
    /// `answered_ms` by the monotonic clock. Reserved xids (such as the xid of pings) do not change
    /// the last cxid. If `op` is `None`, `NA` is shown as the last operation.
    pub fn answered(
        &self,
        xid: Xid,
        zxid: Zxid,
        op: impl Into<Option<OpCode>>,
        received_ms: u64,
        answered_ms: u64,
    ) {
        let latency = answered_ms.saturating_sub(received_ms);
        if xid.0 >= 0 {
            self.last_cxid.store(i64::from(xid.0), Relaxed);
        }
        self.last_zxid.store(zxid.0, Relaxed);
        let number = op.into().map_or(NO_OPERATION, OpCode::number);
        self.last_op.store(number, Relaxed);
        self.last_response_ms.store(answered_ms, Relaxed);
        self.last_latency_ms.store(latency, Relaxed);
        if latency < self.min_latency_ms.load(Relaxed) {
            self.min_latency_ms.store(latency, Relaxed);
        }
        if latency > self.max_latency_ms.load(Relaxed) {
            self.max_latency_ms.store(latency, Relaxed);
        }
        add(&self.answered, 1);
        add(&self.total_latency_ms, latency);
    }

    /// Resets the counters, like `crst`.
    pub fn reset(&self) {
        let zeros = [
            &self.received,
            &self.sent,
            &self.answered,
            &self.total_latency_ms,
            &self.reads,
            &self.writes,
            &self.received_bytes,
            &self.sent_bytes,
            &self.throttled,
        ];
        zeros.into_iter().for_each(|cell| cell.store(0, Relaxed));
        let zeros = [
            &self.last_response_ms,
            &self.last_latency_ms,
            &self.max_latency_ms,
        ];
        zeros.into_iter().for_each(|cell| cell.store(0, Relaxed));
        self.min_latency_ms.store(u64::MAX, Relaxed);
        self.last_op.store(NO_OPERATION, Relaxed);
        self.last_cxid.store(-1, Relaxed);
        self.last_zxid.store(-1, Relaxed);
    }

    /// Returns the current values.
    pub fn get(&self) -> ConnectionFigures {
        let min = self.min_latency_ms.load(Relaxed);
        let total = self.total_latency_ms.load(Relaxed);
        let last_op = OpCode::from_i32(self.last_op.load(Relaxed));
        ConnectionFigures {
            established_ms: self.established_ms,
            received: self.received.load(Relaxed),
            sent: self.sent.load(Relaxed),
            last_op: last_op.map_or("NA", OpCode::short_name),
            last_cxid: self.last_cxid.load(Relaxed),
            last_zxid: Zxid(self.last_zxid.load(Relaxed)),
            last_response_ms: self.last_response_ms.load(Relaxed),
            last_latency_ms: self.last_latency_ms.load(Relaxed),
            min_latency_ms: if min == u64::MAX { 0 } else { min },
            avg_latency_ms: total.checked_div(self.answered.load(Relaxed)).unwrap_or(0),
            max_latency_ms: self.max_latency_ms.load(Relaxed),
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            throttled: self.throttled.load(Relaxed),
        }
    }
}

/// Adds to a cell that has a single writer.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_and_last_request_follow_the_replies() {
        let stats = ConnectionStats::new(17);
        stats.packets_received(3);
        stats.answered(Xid(0), Zxid(1), OpCode::CreateSession, 100, 128);
        stats.answered(Xid(4), Zxid(9), OpCode::GetData, 200, 203);
        stats.answered(Xid::PING, Zxid(10), OpCode::Ping, 300, 300);
        let figures = stats.get();
        assert_eq!((figures.last_op, figures.last_cxid), ("PING", 4));
        assert_eq!(
            (figures.last_zxid, figures.last_response_ms),
            (Zxid(10), 300)
        );
        assert_eq!(
            (
                figures.min_latency_ms,
                figures.avg_latency_ms,
                figures.max_latency_ms
            ),
            (0, 10, 28)
        );
        assert_eq!(
            (figures.received, figures.sent, figures.established_ms),
            (3, 0, 17)
        );
    }

    #[test]
    fn reset_keeps_only_the_connection_time() {
        let stats = ConnectionStats::new(17);
        stats.packets_sent(5);
        stats.answered(Xid(4), Zxid(9), OpCode::GetData, 200, 203);
        stats.reset();
        let figures = stats.get();
        assert_eq!(
            (figures.sent, figures.last_op, figures.last_cxid),
            (0, "NA", -1)
        );
        assert_eq!((figures.last_zxid, figures.last_response_ms), (Zxid(-1), 0));
        assert_eq!((figures.min_latency_ms, figures.established_ms), (0, 17));

        stats.answered(Xid(5), Zxid(9), OpCode::GetData, 300, 304);
        assert_eq!(stats.get().min_latency_ms, 4);
    }
}
