//! What waits to be written to another member, and in which order it leaves.
//!
//! The queue takes packets many at a time, and gives them in large pieces. It is bounded: who reads too
//! slowly is given up, not buffered for ever. What a learner is brought up to date with does not count
//! against the bound, or one that has missed a lot would be dropped for it each time it comes. What may
//! wait on top of the bound for that reason falls as it is written.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::Encode;
use proto::Zxid;
use proto::packet::{PacketType, QuorumPacket};

/// Packets that go into a queue together. The core gathers what it has for a learner in one turn:
/// a lock and a wake-up for each packet would cost it more than all the rest.
#[derive(Debug, Default)]
pub struct PacketBatch {
    bytes: Vec<u8>,
    packets: usize,
    /// The last one with a zxid.
    last_zxid: Option<Zxid>,
    /// Whether NEWLEADER is among them, which ends the history.
    has_new_leader: bool,
}

impl PacketBatch {
    /// Adds a packet.
    pub fn add(&mut self, packet: &QuorumPacket) {
        // A long one would make it grow in steps, to twice its length.
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

    /// Whether it should be queued before more is added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= PACKET_BATCH_BYTES
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What they are on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are, and the last one's zxid.
    pub fn packets(&self) -> (u64, Option<Zxid>) {
        (self.packets as u64, self.last_zxid)
    }

    /// Makes room for others. Its memory is kept unless there is much of it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * PACKET_BATCH_BYTES);
        self.has_new_leader = false;
        (self.packets, self.last_zxid) = (0, None);
    }
}

/// Bytes of a packet besides its data and identities.
const PACKET_HEAD_BYTES: usize = 20;

/// Bytes after which a batch is queued although the turn goes on.
const PACKET_BATCH_BYTES: usize = 64 << 10;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct QueueBounds {
    /// Bytes beyond which whoever reads is too slow, besides what it is brought up to date with.
    pub bytes_max: usize,
    /// Bytes that are put together for one write.
    pub write_bytes: usize,
}

/// More waits than may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow {
    /// Bytes that would wait.
    pub bytes: usize,
    /// Bytes that may.
    pub limit: usize,
}

/// A queue of packets, and of places where a snapshot is due.
#[derive(Debug)]
pub struct PacketQueue {
    bounds: QueueBounds,
    items: VecDeque<Item>,
    bytes: usize,
    packets: usize,
    /// What may wait on top of the bound: history, and what comes while it is written. It falls with
    /// what is written, see [`PacketQueue::note_taken`].
    history_bytes: usize,
    /// Until NEWLEADER everything is history.
    is_history: bool,
    /// Snapshots among the items.
    snapshots_due: usize,
    writer: Writer,
    /// The writer is at a snapshot.
    is_in_snapshot: bool,
    /// Nothing more comes.
    is_finished: bool,
    /// What the writer has written, for its memory.
    spare: Vec<u8>,
}

/// Who writes at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    /// Whoever takes what waits.
    Taker,
    /// Whoever had packets to queue.
    Pusher,
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
    /// When the first of them was queued, ms.
    since_ms: u64,
}

/// What the writer is to do next.
#[derive(Debug)]
pub enum NextWrite {
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

impl PacketQueue {
    /// For a learner, which is brought up to date first.
    pub fn of_learner(bounds: QueueBounds) -> Self {
        Self::new(bounds, true)
    }

    /// For a leader.
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

    /// Queues packets, at the time that `now_ms` gives.
    ///
    /// # Errors
    /// If too much waits already.
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

    /// Queues a snapshot; about `bytes`, what its tree takes, may wait behind it.
    pub fn push_snapshot(&mut self, zxid: Zxid, bytes: usize) {
        self.history_bytes = self.history_bytes.saturating_add(bytes);
        self.items.push_back(Item::Snapshot(zxid));
        self.snapshots_due += 1;
    }

    /// Nothing more is to be queued: the writer ends once what waits is written.
    ///
    /// Changes nothing and gives `false` if that would bring nobody up to date: NEWLEADER is not
    /// queued, or a snapshot, which may take very long, is not written.
    pub fn finish(&mut self) -> bool {
        let is_behind = self.is_history || self.is_in_snapshot || self.snapshots_due > 0;
        self.is_finished = !is_behind;
        self.is_finished
    }

    /// What is to be done next, if there is anything; a snapshot that came before is written. What is
    /// to be written is in `buffer` then; what it held before was written.
    pub fn take(
        &mut self,
        buffer: &mut Vec<u8>,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<NextWrite> {
        if self.writer == Writer::Pusher {
            return None;
        }
        self.is_in_snapshot = false;
        self.writer = match self.items.is_empty() {
            true => Writer::Nobody,
            false => Writer::Taker,
        };
        let Some(item) = self.items.pop_front() else {
            return self.is_finished.then_some(NextWrite::End);
        };
        let next = match item {
            Item::Packets(packets) => {
                self.note_taken(packets.bytes.len());
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

    /// Whether whoever has packets to queue may write them instead: nothing waits, and nobody writes. It is the
    /// writer until [`PacketQueue::end_write`]. What a learner is brought up to date with is queued: it is
    /// long, and somebody has to wait for it.
    pub fn begin_write(&mut self, batch: &PacketBatch) -> bool {
        let is_idle = self.writer == Writer::Nobody && self.items.is_empty();
        let may = is_idle && !self.is_history && !self.is_finished && !batch.is_full();
        if may {
            self.writer = Writer::Pusher;
        }
        may
    }

    /// So many bytes of the packets are written, which [`PacketQueue::begin_write`] has allowed; the rest is
    /// queued. Whether there is something to take: whoever came to take meanwhile was given nothing.
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

    /// Packets that wait.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

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

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
