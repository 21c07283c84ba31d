//! Packets that wait to be written to another member, and their order.
//!
//! The queue accepts batches of packets and returns large pieces. It is bounded: a reader that is
//! too slow is disconnected, because its packets must not be buffered without limit. The sync plan
//! for a learner does not count toward the bound. Otherwise a learner that misses a lot would be
//! disconnected each time it connects. This allowance above the bound shrinks as the sync plan is
//! written.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::Encode;
use proto::Zxid;
use proto::packet::{PacketType, QuorumPacket};

/// Packets that are queued together. The core collects a learner's packets for one turn, because a
/// lock and a wake-up per packet would cost more than all other work.
#[derive(Debug, Default)]
pub struct PacketBatch {
    bytes: Vec<u8>,
    packets: usize,
    /// Last zxid above 0 among the packets.
    last_zxid: Option<Zxid>,
    /// Whether NEWLEADER, which ends the sync plan, is among the packets.
    has_new_leader: bool,
}

impl PacketBatch {
    /// Adds a packet.
    pub fn add(&mut self, packet: &QuorumPacket) {
        // A long packet would make the buffer grow in steps, up to twice its length.
        let data = packet.data.as_ref().map_or(0, Bytes::len);
        if data > PACKET_BATCH_BYTES {
            self.bytes.reserve_exact(data + PACKET_HEAD_BYTES);
        }
        packet.encode(&mut self.bytes);
        self.packets += 1;
        if packet.zxid > Zxid::ZERO {
            self.last_zxid = Some(packet.zxid);
        }
        self.has_new_leader |= packet.packet_type == PacketType::NewLeader.number();
    }

    /// Returns whether the batch should be queued before more packets are added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= PACKET_BATCH_BYTES
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the packets in their encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of packets and the last zxid.
    pub fn packets(&self) -> (u64, Option<Zxid>) {
        (self.packets as u64, self.last_zxid)
    }

    /// Removes the packets. The memory is retained unless it is large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * PACKET_BATCH_BYTES);
        self.has_new_leader = false;
        (self.packets, self.last_zxid) = (0, None);
    }
}

/// Size of a packet without its data and identities, bytes.
const PACKET_HEAD_BYTES: usize = 20;

/// Size from which a batch is queued before the end of the turn, bytes.
const PACKET_BATCH_BYTES: usize = 64 << 10;

/// Bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueBounds {
    /// Size of the waiting packets, without the sync plan, above which the reader is too slow,
    /// bytes.
    pub bytes_max: usize,
    /// Maximum size of one write, bytes.
    pub write_bytes: usize,
}

/// Error if the queue exceeds its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow {
    /// Size that the queue would have, bytes.
    pub bytes: usize,
    /// Permitted size, bytes.
    pub limit: usize,
}

/// Queue of packets and of the positions of snapshots.
#[derive(Debug)]
pub struct PacketQueue {
    bounds: QueueBounds,
    items: VecDeque<Item>,
    bytes: usize,
    packets: usize,
    /// Allowance above the bound, for the sync plan and for packets that arrive while it is
    /// written. It shrinks with the written bytes. See [`PacketQueue::note_written_bytes`].
    history_bytes: usize,
    /// Whether packets still belong to the sync plan, which ends with NEWLEADER.
    is_history: bool,
    /// Number of snapshots among the items.
    snapshots_due: usize,
    writer: Writer,
    /// Whether the writer is writing a snapshot.
    is_in_snapshot: bool,
    /// Whether the queue is finished and accepts nothing more.
    is_finished: bool,
    /// Buffer of the writer's last packets, kept to reuse its memory.
    spare: Vec<u8>,
}

/// Current writer of the queue's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    /// The task that removes items from the queue.
    Taker,
    /// The thread that had packets to queue.
    Pusher,
}

#[derive(Debug)]
enum Item {
    /// Packets for at most one write, unless a single batch is larger.
    Packets(Packets),
    Snapshot(Zxid),
}

/// Packets that are written together.
#[derive(Debug)]
struct Packets {
    bytes: Vec<u8>,
    count: usize,
    /// Time at which the first of them was queued, ms.
    since_ms: u64,
}

/// Next step of the writer.
#[derive(Debug)]
pub enum NextWrite {
    /// Write the buffer.
    Write {
        /// Time for which the first packet in the buffer has waited, ms.
        waited_ms: u64,
    },
    /// Write a SNAP packet with this zxid, then the tree.
    Snapshot(Zxid),
    /// Stop, because everything is written and the queue is finished.
    End,
}

impl PacketQueue {
    /// Creates a queue for a learner, which begins with a synchronisation.
    pub fn of_learner(bounds: QueueBounds) -> Self {
        Self::new(bounds, true)
    }

    /// Creates a queue for a leader.
    pub fn of_leader(bounds: QueueBounds) -> Self {
        Self::new(bounds, false)
    }

    fn new(bounds: QueueBounds, is_history: bool) -> Self {
        Self {
            bounds,
            items: VecDeque::new(),
            bytes: 0,
            packets: 0,
            history_bytes: 0,
            is_history,
            snapshots_due: 0,
            writer: Writer::Nobody,
            is_in_snapshot: false,
            is_finished: false,
            spare: Vec::new(),
        }
    }

    /// Queues packets. `now_ms` returns the time.
    ///
    /// # Errors
    /// If the queue would exceed its bound.
    pub fn push(
        &mut self,
        batch: &PacketBatch,
        now_ms: impl FnOnce() -> u64,
    ) -> Result<(), TooSlow> {
        let bytes = batch.bytes.as_slice();
        if self.is_history {
            self.history_bytes += bytes.len();
            self.is_history = !batch.has_new_leader;
        }
        let limit = self.bounds.bytes_max.saturating_add(self.history_bytes);
        let waiting = self.bytes + bytes.len();
        if waiting > limit {
            return Err(TooSlow {
                bytes: waiting,
                limit,
            });
        }
        self.bytes = waiting;
        self.packets += batch.packets;
        match self.items.back_mut() {
            Some(Item::Packets(last))
                if last.bytes.len() + bytes.len() <= self.bounds.write_bytes =>
            {
                last.bytes.extend_from_slice(bytes);
                last.count += batch.packets;
            }
            _ => {
                let mut first = std::mem::take(&mut self.spare);
                first.extend_from_slice(bytes);
                self.items.push_back(Item::Packets(Packets {
                    bytes: first,
                    count: batch.packets,
                    since_ms: now_ms(),
                }));
            }
        }
        Ok(())
    }

    /// Queues a snapshot. Packets of about `bytes` bytes, the size of its tree, may then wait in
    /// addition to the bound.
    pub fn push_snapshot(&mut self, zxid: Zxid, bytes: usize) {
        self.history_bytes = self.history_bytes.saturating_add(bytes);
        self.items.push_back(Item::Snapshot(zxid));
        self.snapshots_due += 1;
    }

    /// Finishes the queue: the writer stops after the waiting items are written.
    ///
    /// Returns `false` and changes nothing if the reader would not be synchronised because
    /// NEWLEADER is not queued, or because a snapshot, which may take very long, is not written
    /// yet.
    pub fn finish(&mut self) -> bool {
        let is_behind = self.is_history || self.is_in_snapshot || self.snapshots_due > 0;
        self.is_finished = !is_behind;
        self.is_finished
    }

    /// Returns the next step, if any. The caller must have written the packets or the snapshot of
    /// the previous step. `buffer` receives the packets to write, and its previous content is
    /// discarded.
    pub fn take(
        &mut self,
        buffer: &mut Vec<u8>,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<NextWrite> {
        if self.writer == Writer::Pusher {
            return None;
        }
        self.is_in_snapshot = false;
        self.writer = if self.items.is_empty() {
            Writer::Nobody
        } else {
            Writer::Taker
        };
        let Some(item) = self.items.pop_front() else {
            return self.is_finished.then_some(NextWrite::End);
        };
        let next = match item {
            Item::Packets(packets) => {
                self.note_written_bytes(packets.bytes.len());
                self.packets -= packets.count;
                let waited_ms = now_ms().saturating_sub(packets.since_ms);
                let mut written = std::mem::replace(buffer, packets.bytes);
                if written.capacity() > self.spare.capacity() {
                    written.clear();
                    written.shrink_to(self.bounds.write_bytes);
                    self.spare = written;
                }
                NextWrite::Write { waited_ms }
            }
            Item::Snapshot(zxid) => {
                self.is_in_snapshot = true;
                self.snapshots_due -= 1;
                NextWrite::Snapshot(zxid)
            }
        };
        if self.items.is_empty() {
            self.items.shrink_to(IDLE_ITEMS);
        }
        Some(next)
    }

    /// Returns whether the thread that has `batch` may write it itself. The thread is then the
    /// writer until [`PacketQueue::end_write`]. The queue must be empty, unfinished and without a
    /// writer. Full batches and the sync plan for a learner are always queued, because their writer
    /// must wait.
    pub fn begin_write(&mut self, batch: &PacketBatch) -> bool {
        let is_idle = self.writer == Writer::Nobody && self.items.is_empty();
        let may = is_idle && !self.is_history && !self.is_finished && !batch.is_full();
        if may {
            self.writer = Writer::Pusher;
        }
        may
    }

    /// Ends a write that [`PacketQueue::begin_write`] permitted, after `written` bytes. The rest is
    /// queued. Returns whether the task must now process items, because it received none during the
    /// write.
    pub fn end_write(
        &mut self,
        batch: &PacketBatch,
        written: usize,
        now_ms: impl FnOnce() -> u64,
    ) -> bool {
        self.writer = Writer::Nobody;
        let rest = batch.bytes.get(written..).unwrap_or_default();
        if !rest.is_empty() {
            self.bytes += rest.len();
            self.packets += batch.packets;
            self.items.push_front(Item::Packets(Packets {
                bytes: rest.to_vec(),
                count: batch.packets,
                since_ms: now_ms(),
            }));
        }
        !self.items.is_empty() || self.is_finished
    }

    /// Returns the number of waiting packets.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Returns the size of the waiting packets, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Updates the queue after the writer has removed packets of this size.
    ///
    /// The allowance above the bound is limited to the bytes that wait, so it ends once a learner
    /// has caught up. It also shrinks by a fraction of the written bytes. A learner must therefore
    /// receive a third faster than proposals arrive; otherwise it reaches the normal bound. The
    /// allowance must not shrink by all written bytes, because a large sync plan takes seconds to
    /// write, and the proposals made meanwhile would disconnect a learner that is catching up.
    fn note_written_bytes(&mut self, len: usize) {
        self.bytes -= len;
        // A snapshot takes time, and packets wait after it meanwhile.
        if self.snapshots_due == 0 {
            let left = self.history_bytes.saturating_sub(len / HISTORY_FALLS_BY);
            self.history_bytes = left.min(self.bytes);
        }
    }
}

/// Number of written bytes per byte by which the allowance shrinks.
const HISTORY_FALLS_BY: usize = 4;

/// Capacity for items that an idle queue retains.
const IDLE_ITEMS: usize = 64;

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
