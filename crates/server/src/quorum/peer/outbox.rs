//! What waits to be written to another member.
//!
//! The queue takes packets from the core without making it wait, many at a time, and gives them to
//! the writer in large pieces. It is bounded: who reads too slowly is given up, not buffered for
//! ever. What a learner is brought up to date with does not count against the bound
//! ([`PEER_QUEUE_BYTES_MAX`](crate::limits::PEER_QUEUE_BYTES_MAX)), or one that has missed a lot
//! would be dropped for it each time it comes. What may wait on top of the bound for that reason falls
//! as it is written.

use std::collections::VecDeque;
use std::time::Duration;

use jute::Encode;
use parking_lot::Mutex;
use proto::Zxid;
use proto::packet::{PacketType, QuorumPacket};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::PeerError;
use super::link_figures::Waiting;
use crate::{clock, limits};

/// Packets that go into a queue together. The core gathers what it has for a learner in one turn:
/// a lock and a wake-up for each packet would cost it more than all the rest.
#[derive(Debug, Default)]
pub(super) struct PacketBatch {
    bytes: Vec<u8>,
    packets: usize,
    /// The last one with a zxid.
    last_zxid: Option<Zxid>,
    /// Whether NEWLEADER is among them, which ends the history.
    has_new_leader: bool,
}

impl PacketBatch {
    pub(super) fn add(&mut self, packet: &QuorumPacket) {
        packet.encode(&mut self.bytes);
        self.packets += 1;
        if packet.zxid > Zxid::ZERO {
            self.last_zxid = Some(packet.zxid);
        }
        self.has_new_leader |= packet.packet_type == PacketType::NewLeader.number();
    }

    /// Whether it should be queued before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= PACKET_BATCH_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many there are, and the last one's zxid.
    pub(super) fn packets(&self) -> (u64, Option<Zxid>) {
        (self.packets as u64, self.last_zxid)
    }

    /// Makes room for others. Its memory is kept unless there is much of it.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * PACKET_BATCH_BYTES);
        self.has_new_leader = false;
        (self.packets, self.last_zxid) = (0, None);
    }
}

/// Bytes after which a batch is queued although the turn goes on.
const PACKET_BATCH_BYTES: usize = 64 << 10;

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
    packets: usize,
    /// What may wait on top of the bound: history, and what comes while it is written. It falls with
    /// what is written, see [`Queue::note_taken`].
    history_bytes: usize,
    /// Until NEWLEADER everything is history.
    is_history: bool,
    /// Snapshots among the items.
    snapshots_due: usize,
    /// The writer is at a snapshot.
    is_in_snapshot: bool,
    /// Nothing more comes.
    is_finished: bool,
    /// What the writer has written, for its memory.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Item {
    /// Not more than the writer should write at once, except for a batch that is larger itself.
    Packets(Packets),
    Snapshot(Zxid),
}

/// Packets that are written together.
#[derive(Debug)]
struct Packets {
    bytes: Vec<u8>,
    count: usize,
    /// When the first of them was queued, monotonic ms.
    since_ms: u64,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Write what is in the buffer; the first of it has waited for so long.
    Write {
        /// Milliseconds.
        waited_ms: u64,
    },
    /// Write a SNAP packet with this zxid, and the tree.
    Snapshot(Zxid),
    /// Nothing: all is written, and nothing more comes.
    End,
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
                packets: 0,
                history_bytes: 0,
                is_history,
                snapshots_due: 0,
                is_in_snapshot: false,
                is_finished: false,
                spare: Vec::new(),
            }),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Queues packets; so many wait then.
    ///
    /// # Errors
    /// If too much waits already.
    pub(super) fn push(&self, batch: &PacketBatch) -> Result<usize, PeerError> {
        let queue = &mut *self.queue.lock();
        let bytes = batch.bytes.as_slice();
        if queue.is_history {
            queue.history_bytes += bytes.len();
            queue.is_history = !batch.has_new_leader;
        }
        let limit = limits::PEER_QUEUE_BYTES_MAX.saturating_add(queue.history_bytes);
        let waiting = queue.bytes + bytes.len();
        if waiting > limit {
            return Err(PeerError::TooSlow {
                bytes: waiting,
                limit,
            });
        }
        queue.bytes = waiting;
        queue.packets += batch.packets;
        match queue.items.back_mut() {
            Some(Item::Packets(last))
                if last.bytes.len() + bytes.len() <= limits::PEER_WRITE_BYTES =>
            {
                last.bytes.extend_from_slice(bytes);
                last.count += batch.packets;
            }
            _ => {
                let mut first = std::mem::take(&mut queue.spare);
                first.extend_from_slice(bytes);
                queue.items.push_back(Item::Packets(Packets {
                    bytes: first,
                    count: batch.packets,
                    since_ms: clock::monotonic_ms(),
                }));
            }
        }
        self.filled.notify_one();
        Ok(queue.packets)
    }

    /// Queues a snapshot; about `bytes` may wait behind it.
    pub(super) fn push_snapshot(&self, zxid: Zxid, bytes: usize) {
        let queue = &mut *self.queue.lock();
        queue.history_bytes = queue.history_bytes.saturating_add(bytes);
        queue.items.push_back(Item::Snapshot(zxid));
        queue.snapshots_due += 1;
        self.filled.notify_one();
    }

    /// Nothing more is to be queued: the writer ends once what waits is written.
    ///
    /// Changes nothing and gives `false` if that would bring nobody up to date: NEWLEADER is not
    /// queued, or a snapshot, which may take very long, is not written.
    pub(super) fn finish(&self) -> bool {
        let queue = &mut *self.queue.lock();
        let is_behind = queue.is_history || queue.is_in_snapshot || queue.snapshots_due > 0;
        queue.is_finished = !is_behind;
        self.filled.notify_one();
        queue.is_finished
    }

    /// Waits until there is something to do. What is to be written is in `buffer` then; what it held
    /// before was written.
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
        let queue = &mut *self.queue.lock();
        queue.is_in_snapshot = false;
        let Some(item) = queue.items.pop_front() else {
            return queue.is_finished.then_some(Next::End);
        };
        let next = match item {
            Item::Packets(packets) => {
                queue.note_taken(packets.bytes.len());
                queue.packets -= packets.count;
                let waited_ms = clock::monotonic_ms().saturating_sub(packets.since_ms);
                let mut written = std::mem::replace(buffer, packets.bytes);
                if written.capacity() > queue.spare.capacity() {
                    written.clear();
                    written.shrink_to(limits::PEER_WRITE_BYTES);
                    queue.spare = written;
                }
                Next::Write { waited_ms }
            }
            Item::Snapshot(zxid) => {
                queue.is_in_snapshot = true;
                queue.snapshots_due -= 1;
                Next::Snapshot(zxid)
            }
        };
        if queue.items.is_empty() {
            queue.items.shrink_to(IDLE_ITEMS);
        }
        Some(next)
    }

    /// Waits until less than `bytes` wait.
    pub(super) async fn drained_below(&self, bytes: usize) {
        while self.queue.lock().bytes >= bytes {
            self.drained.notified().await;
        }
    }

    /// What waits.
    pub(super) fn waiting(&self) -> Waiting {
        let queue = self.queue.lock();
        Waiting {
            packets: queue.packets as u64,
            bytes: queue.bytes as u64,
        }
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }
}

impl Queue {
    /// So much is on its way.
    ///
    /// What may wait on top of the bound is never more than what has waited at any time since: who
    /// has caught up once has nothing on top. Nor is it for ever: it falls by a part of what is
    /// written, so a learner has to take in faster than is proposed, by a third, or it ends at the
    /// bound like all others. It must not fall by all that is written: a large history takes seconds
    /// to write, and what is proposed in them would cut off a learner that is catching up.
    fn note_taken(&mut self, len: usize) {
        self.bytes -= len;
        // A snapshot takes its time, and what comes meanwhile waits behind it.
        if self.snapshots_due == 0 {
            let left = self.history_bytes.saturating_sub(len / HISTORY_FALLS_BY);
            self.history_bytes = left.min(self.bytes);
        }
    }
}

/// Of so many bytes written, one less may wait on top of the bound.
const HISTORY_FALLS_BY: usize = 4;

/// Places for packets that an idle queue keeps.
const IDLE_ITEMS: usize = 64;

/// Writes what waits until a snapshot is due, and gives its zxid; `None` if all is written and
/// nothing more comes. `note` is told how long packets have waited, ms.
///
/// # Errors
/// If the connection breaks, or takes nothing for `stall`.
pub(super) async fn write_packets<W: AsyncWrite + Unpin>(
    outbox: &Outbox,
    stream: &mut W,
    stall: Duration,
    note: impl Fn(u64),
) -> Result<Option<Zxid>, PeerError> {
    let mut buffer = Vec::new();
    loop {
        match outbox.next(&mut buffer).await {
            Next::Write { waited_ms } => {
                note(waited_ms);
                write_all(stream, &buffer, stall).await?;
            }
            Next::Snapshot(zxid) => return Ok(Some(zxid)),
            Next::End => return Ok(None),
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

#[cfg(test)]
mod tests;
