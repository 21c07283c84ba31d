//! How much is done at a time, and how long it takes: what the budgets of a server come to, drawn.

use bytes::Bytes;
use hosting::{PacketBatch, PacketQueue, Piece, QueueBounds, TooSlow};
use proto::packet::QuorumPacket;
use replica::connection::Pace;
use testkit::Random;

use crate::queue::Micros;

/// Messages to a member that may be under way before more is written.
pub(crate) const BACKLOG_MAX: usize = 1000;

/// How much may wait for a member: less than a server has room for, so that some are too slow. Each
/// packet is a write of its own, which takes its time.
pub(crate) const LINK_BOUNDS: QueueBounds = QueueBounds {
    bytes_max: 256 << 10,
    write_bytes: 1,
};

/// How long the next piece for a member takes behind this one, if it takes any time.
pub(crate) fn behind_piece(piece: &Piece, random: &mut Random) -> Option<Micros> {
    match piece {
        Piece::Head => Some(500),
        Piece::Tree(_) => Some(random.range(200, 5000)),
        _ => None,
    }
}

/// Sends a packet: what the socket takes of it at once, hardly ever less than all, or nothing if it has to wait for
/// others. The rest is queued.
pub(crate) fn push(
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

/// Bytes of records that are read for a learner at once: few or many.
pub(crate) fn page_bytes(random: &mut Random) -> usize {
    random.pick(&[1, 300, 1 << 20]).unwrap_or(1)
}

/// In front of a write: everything that was left over.
pub(crate) const BEFORE_WRITE: Pace = Pace {
    refuses: true,
    ..Pace::UNBOUNDED
};

/// Of the task of a connection.
pub(crate) fn of_task(random: &mut Random) -> Pace {
    Pace {
        room: room(random),
        outbox_bytes: random.pick(&[1, 100, usize::MAX]).unwrap_or(usize::MAX),
        answers_slow: random.percent(70),
        ..Pace::UNBOUNDED
    }
}

/// Behind a write that was applied.
pub(crate) fn behind_write(random: &mut Random) -> Pace {
    Pace {
        room: room(random),
        replies: random.below(4),
        answers_slow: false,
        ..Pace::UNBOUNDED
    }
}

/// Bytes of the longest reply: one that there is hardly any room for has to wait for some.
fn room(random: &mut Random) -> usize {
    random
        .pick(&[100, usize::MAX, usize::MAX])
        .unwrap_or(usize::MAX)
}
