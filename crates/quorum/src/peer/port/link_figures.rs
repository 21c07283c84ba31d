//! Counters of a learner's connection, for operators.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::view::ObserverInfo;
use proto::learner::LearnerPacket;
use proto::{Sid, Zxid};

use crate::peer::outbox::QueuedOutput;

/// Counters of a connection. Source: LearnerHandler.
#[derive(Debug)]
pub(super) struct LinkFigures {
    /// Time when the connection was accepted, in ms since 1970.
    established_ms: i64,
    learner: OnceLock<Learner>,
    received: AtomicU64,
    sent: AtomicU64,
    requests: AtomicU64,
    last_zxid: AtomicI64,
}

/// Learner at the other end.
#[derive(Debug)]
pub(super) struct Learner {
    sid: Sid,
    is_observer: bool,
    /// Id of the learner as text, which is a key of metrics.
    pub(super) key: Box<str>,
}

impl LinkFigures {
    pub(super) fn new() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let established = since_1970.unwrap_or_default();
        Self {
            established_ms: i64::try_from(established.as_millis()).unwrap_or(i64::MAX),
            learner: OnceLock::new(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            last_zxid: AtomicI64::new(0),
        }
    }

    /// Counts received packets. Returns whether there is a request among them.
    pub(super) fn received(&self, packets: &[LearnerPacket]) -> bool {
        let mut asks = false;
        self.received.fetch_add(packets.len() as u64, Relaxed);
        for packet in packets {
            let (info, is_observer) = match packet {
                LearnerPacket::FollowerInfo { info, .. } => (info, false),
                LearnerPacket::ObserverInfo { info, .. } => (info, true),
                LearnerPacket::Request(_) => {
                    asks = true;
                    self.requests.fetch_add(1, Relaxed);
                    continue;
                }
                _ => continue,
            };
            if let Some(info) = info {
                self.learner.get_or_init(|| Learner {
                    sid: info.sid,
                    is_observer,
                    key: info.sid.to_string().into(),
                });
            }
        }
        asks
    }

    /// Counts packets that were queued or written. `last` is the last zxid among them, if there is
    /// one.
    pub(super) fn sent(&self, packets: u64, last: Option<Zxid>) {
        self.sent.fetch_add(packets, Relaxed);
        if let Some(last) = last {
            self.last_zxid.store(last.0, Relaxed);
        }
    }

    /// Returns the learner, once it has been identified.
    pub(super) fn learner(&self) -> Option<&Learner> {
        self.learner.get()
    }

    /// Returns the counters of an observer, or `None` for other learners.
    pub(super) fn observer(&self, peer: SocketAddr, waiting: QueuedOutput) -> Option<ObserverInfo> {
        let learner = self.learner.get().filter(|learner| learner.is_observer)?;
        Some(ObserverInfo {
            peer,
            sid: learner.sid,
            established_ms: self.established_ms,
            queued_packets: waiting.packets,
            queued_bytes: waiting.bytes,
            packets_received: self.received.load(Relaxed),
            packets_sent: self.sent.load(Relaxed),
            requests: self.requests.load(Relaxed),
            last_zxid: Zxid(self.last_zxid.load(Relaxed)),
        })
    }

    /// Resets the counters. Source: LearnerHandler.resetObserverConnectionStats.
    pub(super) fn reset(&self) {
        self.received.store(0, Relaxed);
        self.sent.store(0, Relaxed);
        self.requests.store(0, Relaxed);
        self.last_zxid.store(-1, Relaxed);
    }
}
