//! Output that waits to be written to another member.
//!
//! The core queues packets without waiting, and the writer waits for them. If the writer is idle
//! and the socket accepts the packets immediately, the core writes them itself. This saves two
//! wake-ups for a single transaction. [`PacketQueue`] defines the bounds and the order of the
//! output.

use std::io;
use std::time::{Duration, Instant};

use executor::sync::Mutex;
pub(super) use host::PacketBatch;
use host::{NextWrite, PacketQueue, QueueBounds};
use proto::Zxid;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use transport::TcpWriter;

use super::error::PeerError;
use crate::limits;

const BOUNDS: QueueBounds = QueueBounds {
    bytes_max: limits::PEER_QUEUE_BYTES_MAX,
    write_bytes: limits::PEER_WRITE_BYTES,
};

/// Amount of output that waits for another member.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueuedOutput {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Socket to which the core can write without waiting.
pub(super) trait DirectWriter: Clone {
    /// Writes the bytes that the socket accepts immediately. Returns their number.
    ///
    /// # Errors
    /// If the socket does not accept bytes, or the connection is broken.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl DirectWriter for TcpWriter {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }
}

/// Queue of packets, and of positions at which a snapshot is due.
#[derive(Debug)]
pub(super) struct Outbox<W = TcpWriter> {
    queue: Mutex<PacketQueue>,
    /// Writer for the core. `None` before the connection exists, after its end, and if only the
    /// writer task can write.
    direct_writer: Mutex<Option<W>>,
    /// Signal for new output.
    filled: Notify,
    /// Signal that output has been removed from the queue.
    drained: Notify,
    /// Origin of the times in the queue.
    created: Instant,
}

impl<W: DirectWriter> Outbox<W> {
    /// Creates an outbox for a learner, which must first be synchronised.
    pub(super) fn of_learner() -> Self {
        Self::new(PacketQueue::of_learner(BOUNDS))
    }

    /// Creates an outbox for a leader.
    pub(super) fn of_leader() -> Self {
        Self::new(PacketQueue::of_leader(BOUNDS))
    }

    fn new(queue: PacketQueue) -> Self {
        Self {
            queue: Mutex::new(queue),
            direct_writer: Mutex::new(None),
            filled: Notify::new(),
            drained: Notify::new(),
            created: Instant::now(),
        }
    }

    /// Returns the time since this outbox was created, in ms.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Permits direct writes without the writer task, until the returned value is dropped.
    pub(super) fn write_at_once(&self, to: Option<W>) -> DirectWrite<'_, W> {
        *self.direct_writer.lock() = to;
        DirectWrite(self)
    }

    /// Writes packets directly if they are next in the order, and queues the bytes that the socket
    /// does not accept immediately. Otherwise returns `false`, and the caller must queue the
    /// packets.
    pub(super) fn try_write(&self, batch: &PacketBatch) -> bool {
        let Some(to) = self.direct_writer.lock().clone() else {
            return false;
        };
        if !self.queue.lock().begin_write(batch) {
            return false;
        }
        // An error is ignored here, because the writer also receives it.
        let written = to.try_write(batch.bytes()).unwrap_or(0);
        let mut queue = self.queue.lock();
        if queue.end_write(batch, written, || self.now_ms()) {
            self.filled.notify_one();
        }
        true
    }

    /// Queues packets. Returns the number of waiting packets.
    ///
    /// # Errors
    /// If too many bytes would wait.
    pub(super) fn push(&self, batch: &PacketBatch) -> Result<usize, PeerError> {
        let queue = &mut *self.queue.lock();
        queue.push(batch, || self.now_ms())?;
        self.filled.notify_one();
        Ok(queue.packets())
    }

    /// Queues a snapshot. About `bytes` more bytes may then wait after it.
    pub(super) fn push_snapshot(&self, zxid: Zxid, bytes: usize) {
        self.queue.lock().push_snapshot(zxid, bytes);
        self.filled.notify_one();
    }

    /// Finishes the queue. Returns `false` and does not finish it if the reader would not be
    /// synchronised. See [`PacketQueue::finish`].
    pub(super) fn finish(&self) -> bool {
        let is_finished = self.queue.lock().finish();
        self.filled.notify_one();
        is_finished
    }

    /// Returns the next operation, if there is one. Replaces the contents of `buffer`, which have
    /// already been written, with the bytes to write.
    pub(super) fn take(&self, buffer: &mut Vec<u8>) -> Option<NextWrite> {
        let next = self.queue.lock().take(buffer, || self.now_ms())?;
        self.drained.notify_one();
        Some(next)
    }

    /// Waits until output has been queued, or the queue has been finished, since the last call.
    pub(super) async fn wait_for_packets(&self) {
        self.filled.notified().await;
    }

    /// Waits until fewer than `bytes` bytes are queued.
    pub(super) async fn wait_below(&self, bytes: usize) {
        while self.queue.lock().bytes() >= bytes {
            self.drained.notified().await;
        }
    }

    /// Returns the waiting output.
    pub(super) fn waiting(&self) -> QueuedOutput {
        let queue = self.queue.lock();
        QueuedOutput {
            packets: queue.packets() as u64,
            bytes: queue.bytes() as u64,
        }
    }
}

/// Guard that permits direct writes without the writer of an [`Outbox`] until it is dropped.
pub(super) struct DirectWrite<'a, W>(&'a Outbox<W>);

impl<W> Drop for DirectWrite<'_, W> {
    fn drop(&mut self) {
        // The connection must end even if other owners still hold the outbox.
        self.0.direct_writer.lock().take();
    }
}

/// Writes the output for a leader, which receives no snapshots.
///
/// # Errors
/// If the connection breaks, or does not accept bytes for `stall`.
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
            None => outbox.wait_for_packets().await,
        }
    }
}

/// Writes all bytes, regardless of the total time, as long as some are accepted within each
/// `stall`.
///
/// # Errors
/// See [`write_packets`].
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

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
