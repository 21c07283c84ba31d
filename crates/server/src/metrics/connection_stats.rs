//! The figures of one connection in `stat` and `cons`.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use proto::{OpCode, Xid, Zxid};

/// Counts of a connection. Source: ServerCnxn.
#[derive(Debug)]
pub struct ConnectionStats {
    established_ms: i64,
    received: AtomicU64,
    sent: AtomicU64,
    responses: Mutex<Responses>,
}

/// What replies leave behind.
#[derive(Debug, Clone, Copy)]
struct Responses {
    last_op: Option<OpCode>,
    last_cxid: i64,
    last_zxid: Zxid,
    last_response_ms: u64,
    last_latency_ms: u64,
    min_latency_ms: u64,
    max_latency_ms: u64,
    count: u64,
    total_latency_ms: u64,
}

impl Responses {
    /// As of a new connection. The smallest latency starts at 0, so it stays there until
    /// `crst`: Java's does, and monitoring compares.
    const NEW: Self = Self {
        last_op: None,
        last_cxid: 0,
        last_zxid: Zxid::ZERO,
        last_response_ms: 0,
        last_latency_ms: 0,
        min_latency_ms: 0,
        max_latency_ms: 0,
        count: 0,
        total_latency_ms: 0,
    };

    /// As after `crst`.
    const RESET: Self = Self {
        last_cxid: -1,
        last_zxid: Zxid(-1),
        min_latency_ms: u64::MAX,
        ..Self::NEW
    };
}

/// [`ConnectionStats`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionFigures {
    /// When it was accepted, wall-clock ms.
    pub established_ms: i64,
    /// Packets from the client.
    pub received: u64,
    /// Packets to the client.
    pub sent: u64,
    /// Short name of the operation answered last; `NA` before the first.
    pub last_op: &'static str,
    /// The client's number of its last request; -1 if there was none since a reset.
    pub last_cxid: i64,
    /// The zxid of the last reply.
    pub last_zxid: Zxid,
    /// When the last reply was made, monotonic ms.
    pub last_response_ms: u64,
    /// How long the last reply took, ms.
    pub last_latency_ms: u64,
    /// Shortest time to a reply, ms.
    pub min_latency_ms: u64,
    /// Mean time to a reply, ms, rounded down.
    pub avg_latency_ms: u64,
    /// Longest time to a reply, ms.
    pub max_latency_ms: u64,
}

impl ConnectionStats {
    /// Of a connection accepted at `established_ms` of the wall clock.
    pub fn new(established_ms: i64) -> Self {
        Self {
            established_ms,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            responses: Mutex::new(Responses::NEW),
        }
    }

    /// Notes `n` packets from the client.
    pub fn packets_received(&self, n: u64) {
        self.received.fetch_add(n, Ordering::Relaxed);
    }

    /// Notes `n` packets to the client.
    pub fn packets_sent(&self, n: u64) {
        self.sent.fetch_add(n, Ordering::Relaxed);
    }

    /// Notes the reply to a request that came at `received_ms` and was answered at
    /// `answered_ms` of the monotonic clock. Reserved xids (pings and the like) leave the last
    /// cxid as it is: it is to show the client's last real request.
    pub fn answered(&self, xid: Xid, zxid: Zxid, op: OpCode, received_ms: u64, answered_ms: u64) {
        let latency = answered_ms.saturating_sub(received_ms);
        let mut responses = self.responses.lock();
        if xid.0 >= 0 {
            responses.last_cxid = i64::from(xid.0);
        }
        responses.last_zxid = zxid;
        responses.last_op = Some(op);
        responses.last_response_ms = answered_ms;
        responses.last_latency_ms = latency;
        responses.min_latency_ms = responses.min_latency_ms.min(latency);
        responses.max_latency_ms = responses.max_latency_ms.max(latency);
        responses.count += 1;
        responses.total_latency_ms = responses.total_latency_ms.saturating_add(latency);
    }

    /// What `crst` does.
    pub fn reset(&self) {
        self.received.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        *self.responses.lock() = Responses::RESET;
    }

    /// The figures now.
    pub fn get(&self) -> ConnectionFigures {
        let responses = *self.responses.lock();
        let min = responses.min_latency_ms;
        ConnectionFigures {
            established_ms: self.established_ms,
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            last_op: responses.last_op.map_or("NA", OpCode::short_name),
            last_cxid: responses.last_cxid,
            last_zxid: responses.last_zxid,
            last_response_ms: responses.last_response_ms,
            last_latency_ms: responses.last_latency_ms,
            min_latency_ms: if min == u64::MAX { 0 } else { min },
            avg_latency_ms: responses
                .total_latency_ms
                .checked_div(responses.count)
                .unwrap_or(0),
            max_latency_ms: responses.max_latency_ms,
        }
    }
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
    fn reset_forgets_all_but_the_time_of_the_connection() {
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
