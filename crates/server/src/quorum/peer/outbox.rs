//! What waits to be written to another member.
//!
//! The core hands over packets without waiting, and the writer waits for them. Where the writer waits and
//! the socket takes them at once, the core writes them itself: who waits for a lone transaction waits for
//! two wake-ups less. How much may wait, and in which order it leaves, is [`PacketQueue`].

use std::time::Duration;

pub(super) use hosting::PacketBatch;
use hosting::{NextWrite, PacketQueue, QueueBounds};
use parking_lot::Mutex;
use proto::Zxid;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use transport::TcpWriter;

use super::PeerError;
use super::link_figures::Waiting;
use crate::{clock, limits};

const BOUNDS: QueueBounds = QueueBounds {
    bytes_max: limits::PEER_QUEUE_BYTES_MAX,
    write_bytes: limits::PEER_WRITE_BYTES,
};

/// A queue of packets, and of places where a snapshot is due.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<PacketQueue>,
    /// What the core writes to; `None` before there is a connection, behind its end, and where nobody but
    /// the writer can.
    at_once: Mutex<Option<TcpWriter>>,
    /// Something waits.
    filled: Notify,
    /// Something was taken.
    drained: Notify,
}

impl Outbox {
    /// For a learner, which is brought up to date first.
    pub(super) fn of_learner() -> Self {
        Self::new(PacketQueue::of_learner(BOUNDS))
    }

    /// For a leader.
    pub(super) fn of_leader() -> Self {
        Self::new(PacketQueue::of_leader(BOUNDS))
    }

    fn new(queue: PacketQueue) -> Self {
        Self {
            queue: Mutex::new(queue),
            at_once: Mutex::new(None),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// While what it gives is kept, packets may be written past the writer.
    pub(super) fn write_at_once(&self, to: Option<TcpWriter>) -> AtOnce<'_> {
        *self.at_once.lock() = to;
        AtOnce(self)
    }

    /// Writes packets if they would be the next to be written, and the socket takes some of them at once;
    /// the rest is queued. `false` if they are still to be queued.
    pub(super) fn try_write(&self, batch: &PacketBatch) -> bool {
        let Some(to) = self.at_once.lock().clone() else {
            return false;
        };
        if !self.queue.lock().begin_write(batch) {
            return false;
        }
        // What breaks the connection, the writer meets, too.
        let written = to.try_write(batch.bytes()).unwrap_or(0);
        let mut queue = self.queue.lock();
        if queue.end_write(batch, written, clock::monotonic_ms) {
            self.filled.notify_one();
        }
        true
    }

    /// Queues packets; so many wait then.
    ///
    /// # Errors
    /// If too much waits already.
    pub(super) fn push(&self, batch: &PacketBatch) -> Result<usize, PeerError> {
        let queue = &mut *self.queue.lock();
        queue.push(batch, clock::monotonic_ms)?;
        self.filled.notify_one();
        Ok(queue.packets())
    }

    /// Queues a snapshot; about `bytes` may wait behind it.
    pub(super) fn push_snapshot(&self, zxid: Zxid, bytes: usize) {
        self.queue.lock().push_snapshot(zxid, bytes);
        self.filled.notify_one();
    }

    /// Nothing more is to be queued, see [`PacketQueue::finish`].
    pub(super) fn finish(&self) -> bool {
        let is_finished = self.queue.lock().finish();
        self.filled.notify_one();
        is_finished
    }

    /// What is to be done next, if there is anything. What is to be written is in `buffer` then; what it
    /// held before was written.
    pub(super) fn take(&self, buffer: &mut Vec<u8>) -> Option<NextWrite> {
        let next = self.queue.lock().take(buffer, clock::monotonic_ms)?;
        self.drained.notify_one();
        Some(next)
    }

    /// Waits until something was queued since this was called last.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until less than `bytes` wait.
    pub(super) async fn drained_below(&self, bytes: usize) {
        while self.queue.lock().bytes() >= bytes {
            self.drained.notified().await;
        }
    }

    /// What waits.
    pub(super) fn waiting(&self) -> Waiting {
        let queue = self.queue.lock();
        Waiting {
            packets: queue.packets() as u64,
            bytes: queue.bytes() as u64,
        }
    }
}

/// The time in which packets may be written past the writer of an [`Outbox`].
pub(super) struct AtOnce<'a>(&'a Outbox);

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        // The connection is to end although somebody still has the outbox.
        self.0.at_once.lock().take();
    }
}

/// Writes what waits for a leader, to whom no snapshots go.
///
/// # Errors
/// If the connection breaks, or takes nothing for `stall`.
pub(super) async fn write_packets<W: AsyncWrite + Unpin>(
    outbox: &Outbox,
    stream: &mut W,
    stall: Duration,
) -> Result<(), PeerError> {
    let mut buffer = Vec::new();
    loop {
        match outbox.take(&mut buffer) {
            Some(NextWrite::Write { .. }) => write_all(stream, &buffer, stall).await?,
            Some(NextWrite::Snapshot(_) | NextWrite::End) => return Ok(()),
            None => outbox.filled().await,
        }
    }
}

/// Writes all of it, however long that takes, as long as some goes out within each `stall`.
///
/// # Errors
/// As [`write_packets`].
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    stream: &mut W,
    mut bytes: &[u8],
    stall: Duration,
) -> Result<(), PeerError> {
    let stalled = || PeerError::Stalled {
        waited_ms: stall.as_millis(),
    };
    while !bytes.is_empty() {
        let written = tokio::time::timeout(stall, stream.write(bytes)).await;
        let written = written.map_err(|_| stalled())??;
        if written == 0 {
            return Err(PeerError::Closed);
        }
        bytes = bytes.get(written..).unwrap_or_default();
    }
    let flushed = tokio::time::timeout(stall, stream.flush()).await;
    flushed.map_err(|_| stalled())??;
    Ok(())
}
