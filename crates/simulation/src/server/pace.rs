//! Random amounts of work per step, and random durations. They represent the budgets of a server.

use bytes::Bytes;
use host::{PacketBatch, PacketQueue, Piece, QueueBounds, TooSlow};
use proto::packet::QuorumPacket;
use replica::connection::Pace;
use testkit::Random;

use crate::queue::Micros;

/// Maximum number of messages to a member that may be in flight.
pub(super) const BACKLOG_MAX: usize = 1000;

/// Bounds of the queue for a member. They are lower than on a real server, so that some members are
/// too slow. Each packet is a separate write, which takes time.
pub(super) const LINK_BOUNDS: QueueBounds = QueueBounds {
    bytes_max: 256 << 10,
    write_bytes: 1,
};

/// Returns the delay between this piece for a member and the next one, if there is a delay.
pub(super) fn behind_piece(piece: &Piece, random: &mut Random) -> Option<Micros> {
    match piece {
        Piece::Head => Some(500),
        Piece::Tree(_) => Some(random.range(200, 5000)),
        _ => None,
    }
}

/// Returns the bytes of a packet that the socket accepts, usually all of them, and queues the rest.
/// If the packet must wait for other packets, queues all of it and returns `None`.
pub(super) fn push(
    queue: &mut PacketQueue,
    packet: &QuorumPacket,
    random: &mut Random,
) -> Result<Option<Bytes>, TooSlow> {
    let mut batch = PacketBatch::default();
    batch.add(packet);
    if !queue.begin_write(&batch) {
        return queue.push(&batch, || 0).map(|()| None);
    }
    let mut taken = batch.bytes();
    if random.percent(2) {
        (taken, _) = taken.split_at(random.below(taken.len()));
    }
    queue.end_write(&batch, taken.len(), || 0);
    Ok(Some(Bytes::copy_from_slice(taken)))
}

/// Returns a random size of the records that are read together for a learner, bytes.
pub(super) fn page_bytes(random: &mut Random) -> usize {
    random.pick(&[1, 300, 1 << 20]).unwrap_or(1)
}

/// Pace before a write, at which all deferred work is handled.
pub(super) const BEFORE_WRITE: Pace = Pace {
    refuses: true,
    ..Pace::UNBOUNDED
};

/// Returns the pace for the task of a connection.
pub(super) fn of_task(random: &mut Random) -> Pace {
    Pace {
        room: room(random),
        outbox_bytes: random.pick(&[1, 100, usize::MAX]).unwrap_or(usize::MAX),
        answers_slow: random.percent(70),
        ..Pace::UNBOUNDED
    }
}

/// Returns the pace after a write has been applied.
pub(super) fn behind_write(random: &mut Random) -> Pace {
    Pace {
        room: room(random),
        replies: random.below(4),
        answers_slow: false,
        ..Pace::UNBOUNDED
    }
}

/// Returns a random maximum size of one reply, bytes. A longer reply has to wait.
fn room(random: &mut Random) -> usize {
    random
        .pick(&[100, usize::MAX, usize::MAX])
        .unwrap_or(usize::MAX)
}
