//! What the core is told.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tree::Tree;
use zab::Record;
use zab::leader::LinkId;

use super::PeerError;
use crate::limits;

/// Takes events, in the order of their connection. It is called by tasks, and by the core's own
/// thread where an order fails at once, so it must not wait.
pub(crate) type EventSink = Arc<dyn Fn(PeerEvent) + Send + Sync>;

/// What happened on a connection between members.
///
/// Events of a link or an attempt that the core has closed itself may still be under way; none are
/// made any more. `LearnerConnected` comes before, `LearnerClosed` after everything else of a link
/// that is not an answer to an order.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A learner is there.
    LearnerConnected {
        /// Its number from now on.
        link: LinkId,
        /// Where it comes from.
        peer: SocketAddr,
    },
    /// It has sent something.
    LearnerPackets {
        /// From whom.
        link: LinkId,
        /// Everything that one read brought, whole packets only.
        packets: Vec<LearnerPacket>,
        /// To be dropped when all of it is handled.
        permit: ReadAheadPermit,
    },
    /// Its connection is gone.
    LearnerClosed {
        /// Whose.
        link: LinkId,
        /// Why.
        reason: PeerError,
    },
    /// The snapshot that was ordered for it has been written to its connection.
    SnapshotSent {
        /// Whose.
        link: LinkId,
    },
    /// What the log holds, as ordered; made for `zab::leader::Leader::handle_log_records`.
    LogRecords {
        /// For whom.
        link: LinkId,
        /// The first is the last one that is not behind the zxid of the order.
        records: Vec<Record>,
    },
    /// The log cannot answer the order; made for `zab::leader::Leader::handle_log_unusable`.
    LogUnusable {
        /// For whom.
        link: LinkId,
    },
    /// The port cannot be listened on, as ordered.
    ListenFailed {
        /// The number of the order.
        attempt: u64,
    },
    /// The leader is connected.
    LeaderConnected {
        /// The attempt.
        attempt: u64,
    },
    /// The leader could not be reached; the attempt is over.
    LeaderUnreachable {
        /// The attempt.
        attempt: u64,
        /// Why.
        error: PeerError,
    },
    /// The leader has sent something.
    LeaderPackets {
        /// The attempt.
        attempt: u64,
        /// What one read brought, whole packets only. If the synchronisation opens with SNAP, that
        /// is the last one, and nothing is read until
        /// [`receive_snapshot`](super::LeaderConnection::receive_snapshot).
        packets: Vec<LeaderPacket>,
        /// To be dropped when all of it is handled, and not before: while the learner does not read,
        /// packets are kept with it.
        permit: ReadAheadPermit,
    },
    /// The connection is gone; the attempt is over.
    LeaderClosed {
        /// The attempt.
        attempt: u64,
        /// Why.
        reason: PeerError,
    },
    /// Bytes of the snapshot have come; some times a second.
    SnapshotProgress {
        /// The attempt.
        attempt: u64,
    },
    /// The snapshot is complete, its signature is right. Packets are read again.
    SnapshotReceived {
        /// The attempt.
        attempt: u64,
        /// Its tree; the last zxid is that of the SNAP packet.
        tree: Box<Tree>,
    },
    /// The snapshot cannot be used; the connection is closed, the attempt is over.
    SnapshotDamaged {
        /// The attempt.
        attempt: u64,
        /// Why.
        error: PeerError,
    },
}

/// A part of what a connection may have sent ahead; dropping it lets the connection go on.
pub(crate) struct ReadAheadPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// All that a connection may have sent ahead.
#[derive(Debug)]
pub(super) struct ReadAhead(Arc<Semaphore>);

impl ReadAhead {
    pub(super) fn new() -> Self {
        let all = limits::PEER_READ_AHEAD_BYTES as usize;
        Self(Arc::new(Semaphore::new(all)))
    }

    /// Waits until there is room. What is larger than all of it gets all of it.
    pub(super) async fn take(&self, bytes: usize) -> ReadAheadPermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let counted = bytes.clamp(limits::PEER_BATCH_BYTES_MIN, limits::PEER_READ_AHEAD_BYTES);
        // The semaphore is never closed, so there is always a permit.
        let permit = self.0.clone().acquire_many_owned(counted).await;
        ReadAheadPermit {
            _permit: permit.ok(),
        }
    }
}

impl fmt::Debug for ReadAheadPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadAheadPermit")
    }
}
