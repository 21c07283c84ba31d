//! What waits to be written to another member.
//!
//! The queue takes packets from the core without making it wait, and gives them to the writer in
//! large pieces. It is bounded: who reads too slowly is given up, not buffered for ever. What a
//! learner is brought up to date with does not count against the bound
//! ([`PEER_QUEUE_BYTES_MAX`](crate::limits::PEER_QUEUE_BYTES_MAX)), or one that has missed a lot
//! would be dropped for it each time it comes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use proto::Zxid;
use proto::packet::PacketType;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::PeerError;
use crate::limits;

/// A queue of packets, and of places where a snapshot is due.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// Something waits.
    filled: Notify,
    /// Something was taken.
    drained: Notify,
}

#[derive(Debug)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// What may wait on top of the bound, until the queue has been empty once.
    history_bytes: usize,
    /// Until NEWLEADER everything is history.
    is_history: bool,
}

#[derive(Debug)]
enum Item {
    Packet(Bytes),
    Snapshot(Zxid),
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Write one large packet, or what was gathered in the buffer if that is `None`.
    Write(Option<Bytes>),
    /// Write a SNAP packet with this zxid, and the tree.
    Snapshot(Zxid),
}

impl Outbox {
    /// For a learner, which is brought up to date first.
    pub(super) fn of_learner() -> Self {
        Self::new(true)
    }

    /// For a leader.
    pub(super) fn of_leader() -> Self {
        Self::new(false)
    }

    fn new(is_history: bool) -> Self {
        Self {
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                bytes: 0,
                history_bytes: 0,
                is_history,
            }),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Queues a packet.
    ///
    /// # Errors
    /// If too much waits already.
    pub(super) fn push(&self, packet: Bytes) -> Result<(), PeerError> {
        let queue = &mut *self.queue.lock();
        queue.bytes += packet.len();
        if queue.is_history {
            queue.history_bytes += packet.len();
            queue.is_history = !is_new_leader(&packet);
        }
        let limit = limits::PEER_QUEUE_BYTES_MAX.saturating_add(queue.history_bytes);
        if queue.bytes > limit {
            let bytes = queue.bytes;
            return Err(PeerError::TooSlow { bytes, limit });
        }
        queue.items.push_back(Item::Packet(packet));
        self.filled.notify_one();
        Ok(())
    }

    /// Queues a snapshot; about `bytes` may wait behind it.
    pub(super) fn push_snapshot(&self, zxid: Zxid, bytes: usize) {
        let queue = &mut *self.queue.lock();
        queue.history_bytes = queue.history_bytes.saturating_add(bytes);
        queue.items.push_back(Item::Snapshot(zxid));
        self.filled.notify_one();
    }

    /// Waits until there is something to do. Small packets are gathered in `buffer`, which was
    /// written before.
    async fn next(&self, buffer: &mut Vec<u8>) -> Next {
        loop {
            if let Some(next) = self.take(buffer) {
                self.drained.notify_one();
                return next;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self, buffer: &mut Vec<u8>) -> Option<Next> {
        buffer.clear();
        let queue = &mut *self.queue.lock();
        while let Some(Item::Packet(packet)) = queue.items.front() {
            let len = packet.len();
            if buffer.len() + len > limits::PEER_WRITE_BYTES {
                break;
            }
            buffer.extend_from_slice(packet);
            queue.items.pop_front();
            queue.bytes -= len;
        }
        let next = if !buffer.is_empty() {
            Some(Next::Write(None))
        } else {
            queue.items.pop_front().map(|item| match item {
                Item::Packet(packet) => {
                    queue.bytes -= packet.len();
                    Next::Write(Some(packet))
                }
                Item::Snapshot(zxid) => Next::Snapshot(zxid),
            })
        };
        // A snapshot is not written yet when it is taken.
        if queue.items.is_empty() && !matches!(next, Some(Next::Snapshot(_))) {
            queue.history_bytes = 0;
            queue.items.shrink_to(IDLE_ITEMS);
        }
        next
    }

    /// Waits until less than `bytes` wait.
    pub(super) async fn drained_below(&self, bytes: usize) {
        while self.queue.lock().bytes >= bytes {
            self.drained.notified().await;
        }
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }
}

/// Places for packets that an idle queue keeps.
const IDLE_ITEMS: usize = 64;

fn is_new_leader(packet: &[u8]) -> bool {
    packet.starts_with(&PacketType::NewLeader.number().to_be_bytes())
}

/// Writes what waits until a snapshot is due, and gives its zxid.
///
/// # Errors
/// If the connection breaks, or takes nothing for `stall`.
pub(super) async fn write_packets<W: AsyncWrite + Unpin>(
    outbox: &Outbox,
    stream: &mut W,
    stall: Duration,
) -> Result<Zxid, PeerError> {
    let mut buffer = Vec::new();
    loop {
        match outbox.next(&mut buffer).await {
            Next::Write(Some(packet)) => write_all(stream, &packet, stall).await?,
            Next::Write(None) => write_all(stream, &buffer, stall).await?,
            Next::Snapshot(zxid) => return Ok(zxid),
        }
        buffer.shrink_to(IDLE_BUFFER_BYTES);
    }
}

/// Bytes of buffer that an idle writer keeps.
const IDLE_BUFFER_BYTES: usize = 16 << 10;

/// Writes all of it, however long that takes, as long as some goes out within each `stall`.
///
/// # Errors
/// As [`write_packets`].
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    stream: &mut W,
    mut bytes: &[u8],
    stall: Duration,
) -> Result<(), PeerError> {
    while !bytes.is_empty() {
        let written = tokio::time::timeout(stall, stream.write(bytes)).await;
        let written = written.map_err(|_| PeerError::Stalled {
            waited_ms: stall.as_millis(),
        })??;
        if written == 0 {
            return Err(PeerError::Closed);
        }
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jute::Encode;
    use proto::Epoch;
    use proto::leader::LeaderPacket;
    use proto::packet::QuorumPacket;

    use super::*;

    fn packet(len: usize) -> Bytes {
        Bytes::from(vec![0xaa; len])
    }

    fn new_leader() -> Bytes {
        let zxid = Zxid::new(Epoch(1), 0);
        QuorumPacket::from(LeaderPacket::NewLeader { zxid, config: None }).to_bytes()
    }

    fn written(outbox: &Outbox) -> Option<usize> {
        let mut buffer = Vec::new();
        Some(match outbox.take(&mut buffer)? {
            Next::Write(Some(packet)) => packet.len(),
            Next::Write(None) => buffer.len(),
            Next::Snapshot(_) => 0,
        })
    }

    #[test]
    fn small_packets_leave_together_and_large_ones_alone() {
        let outbox = Outbox::of_leader();
        for len in [10, 20, limits::PEER_WRITE_BYTES + 1, 30] {
            outbox.push(packet(len)).unwrap();
        }
        assert_eq!(written(&outbox), Some(30));
        assert_eq!(written(&outbox), Some(limits::PEER_WRITE_BYTES + 1));
        assert_eq!(written(&outbox), Some(30));
        assert_eq!((written(&outbox), outbox.bytes()), (None, 0));
    }

    #[test]
    fn nothing_overtakes_a_snapshot() {
        let outbox = Outbox::of_learner();
        outbox.push(packet(1)).unwrap();
        outbox.push_snapshot(Zxid(7), 0);
        outbox.push(packet(2)).unwrap();
        assert_eq!(written(&outbox), Some(1));
        let mut buffer = Vec::new();
        let next = outbox.take(&mut buffer);
        assert!(matches!(next, Some(Next::Snapshot(Zxid(7)))), "{next:?}");
        assert_eq!(written(&outbox), Some(2));
    }

    #[test]
    fn a_slow_reader_is_given_up_at_the_bound() {
        let outbox = Outbox::of_leader();
        let half = limits::PEER_QUEUE_BYTES_MAX / 2;
        outbox.push(packet(half)).unwrap();
        outbox.push(packet(half)).unwrap();
        let error = outbox.push(packet(1)).unwrap_err().to_string();
        assert!(error.contains("too slow"), "{error}");
    }

    #[test]
    fn the_history_does_not_count_until_all_of_it_is_taken() {
        let outbox = Outbox::of_learner();
        let max = limits::PEER_QUEUE_BYTES_MAX;
        for _ in 0..4 {
            outbox.push(packet(max / 2)).unwrap();
        }
        outbox.push(new_leader()).unwrap();
        outbox.push(packet(max)).unwrap();
        assert!(outbox.push(packet(1)).is_err());
        while written(&outbox).is_some() {}
        // The refused one is counted: its link is at its end.
        outbox.push(packet(max - 1)).unwrap();
        assert!(outbox.push(packet(1)).is_err());
    }

    #[test]
    fn more_may_wait_behind_a_snapshot_until_it_is_written() {
        let outbox = Outbox::of_learner();
        let max = limits::PEER_QUEUE_BYTES_MAX;
        outbox.push_snapshot(Zxid(1), 2 * max);
        outbox.push(new_leader()).unwrap();
        outbox.push(packet(2 * max)).unwrap();
        // The writer is at the snapshot.
        assert_eq!(written(&outbox), Some(0));
        outbox.push(packet(max)).unwrap();
        assert!(outbox.push(packet(1)).is_err());
    }
}
