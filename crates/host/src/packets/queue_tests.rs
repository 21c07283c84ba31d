//! Tests of a packet queue's bounds and order.

use proto::Epoch;
use proto::leader::LeaderPacket;

use super::*;

const NOW: fn() -> u64 = || 0;

const BOUNDS: QueueBounds = QueueBounds {
    bytes_max: 32 << 20,
    write_bytes: 256 << 10,
};

fn packet(len: usize) -> PacketBatch {
    PacketBatch {
        bytes: vec![0xaa; len],
        packets: 1,
        ..PacketBatch::default()
    }
}

fn new_leader() -> PacketBatch {
    let zxid = Zxid::new(Epoch(1), 0);
    let mut batch = PacketBatch::default();
    batch.add(&LeaderPacket::NewLeader { zxid, config: None }.into());
    batch
}

fn written(outbox: &mut PacketQueue) -> Option<usize> {
    let mut buffer = Vec::new();
    Some(match outbox.take(&mut buffer, NOW)? {
        NextWrite::Write { .. } => buffer.len(),
        NextWrite::Snapshot(_) | NextWrite::End => 0,
    })
}

#[test]
fn small_packets_leave_together_and_large_ones_alone() {
    let mut outbox = PacketQueue::of_leader(BOUNDS);
    for len in [10, 20, BOUNDS.write_bytes + 1, 30] {
        outbox.push(&packet(len), NOW).unwrap();
    }
    assert_eq!(written(&mut outbox), Some(30));
    assert_eq!(written(&mut outbox), Some(BOUNDS.write_bytes + 1));
    assert_eq!(written(&mut outbox), Some(30));
    assert_eq!((written(&mut outbox), outbox.bytes()), (None, 0));
}

#[test]
fn nothing_overtakes_a_snapshot() {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    outbox.push(&packet(1), NOW).unwrap();
    outbox.push_snapshot(Zxid(7), 0);
    outbox.push(&packet(2), NOW).unwrap();
    assert_eq!(written(&mut outbox), Some(1));
    let mut buffer = Vec::new();
    let next = outbox.take(&mut buffer, NOW);
    assert!(
        matches!(next, Some(NextWrite::Snapshot(Zxid(7)))),
        "{next:?}"
    );
    assert_eq!(written(&mut outbox), Some(2));
}

#[test]
fn a_slow_reader_is_dropped_at_the_bound() {
    let mut outbox = PacketQueue::of_leader(BOUNDS);
    let half = BOUNDS.bytes_max / 2;
    outbox.push(&packet(half), NOW).unwrap();
    outbox.push(&packet(half), NOW).unwrap();
    let (bytes, limit) = (2 * half + 1, BOUNDS.bytes_max);
    let error = outbox.push(&packet(1), NOW).unwrap_err();
    assert_eq!(error, TooSlow { bytes, limit });
}

#[test]
fn the_sync_history_does_not_count_until_all_is_written() {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    let max = BOUNDS.bytes_max;
    for _ in 0..4 {
        outbox.push(&packet(max / 2), NOW).unwrap();
    }
    outbox.push(&new_leader(), NOW).unwrap();
    outbox.push(&packet(max), NOW).unwrap();
    assert!(outbox.push(&packet(1), NOW).is_err());
    while written(&mut outbox).is_some() {}
    outbox.push(&packet(max), NOW).unwrap();
    assert!(outbox.push(&packet(1), NOW).is_err());
}

#[test]
fn all_queued_packets_are_written_before_the_end() {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    outbox.push(&packet(1), NOW).unwrap();
    assert!(!outbox.finish(), "within the history");
    outbox.push_snapshot(Zxid(1), 0);
    outbox.push(&new_leader(), NOW).unwrap();
    assert!(!outbox.finish(), "before a snapshot");
    assert_eq!(
        (written(&mut outbox), written(&mut outbox)),
        (Some(1), Some(0))
    );
    assert!(!outbox.finish(), "within a snapshot");
    assert!(written(&mut outbox).is_some_and(|bytes| bytes > 0));
    assert_eq!(written(&mut outbox), None, "the queue is not finished");
    outbox.push(&packet(2), NOW).unwrap();
    assert!(outbox.finish());
    assert_eq!(written(&mut outbox), Some(2));
    let mut buffer = Vec::new();
    let next = outbox.take(&mut buffer, NOW);
    assert!(matches!(next, Some(NextWrite::End)), "{next:?}");
}

#[test]
fn a_queue_may_grow_while_a_snapshot_is_written() {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    let max = BOUNDS.bytes_max;
    outbox.push_snapshot(Zxid(1), 2 * max);
    outbox.push(&new_leader(), NOW).unwrap();
    outbox.push(&packet(2 * max), NOW).unwrap();
    // The writer is writing the snapshot.
    assert_eq!(written(&mut outbox), Some(0));
    outbox.push(&packet(max), NOW).unwrap();
    assert!(outbox.push(&packet(1), NOW).is_err());
}

/// Creates a queue for a learner with a sync plan of `len` bytes, none of which is written yet.
fn with_history(len: usize) -> PacketQueue {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    for _ in 0..len / PIECE {
        outbox.push(&packet(PIECE), NOW).unwrap();
    }
    outbox.push(&new_leader(), NOW).unwrap();
    outbox
}

const PIECE: usize = BOUNDS.write_bytes;

/// Returns the number of bytes that may still be queued. The queue is unusable afterwards.
fn room(outbox: &mut PacketQueue) -> usize {
    let mut len = 0;
    while outbox.push(&packet(PIECE), NOW).is_ok() {
        len += PIECE;
    }
    len
}

#[test]
fn a_slightly_slow_learner_has_the_same_bound_as_others() {
    let max = BOUNDS.bytes_max;
    let mut outbox = with_history(2 * max);
    // The learner receives everything, but a new packet always waits before the previous packet is
    // removed.
    for _ in 0..3 * max / PIECE {
        outbox.push(&packet(PIECE), NOW).unwrap();
        for _ in 0..2 {
            if outbox.bytes() > PIECE {
                assert!(written(&mut outbox).is_some());
            }
        }
        assert!(outbox.bytes() > 0);
    }
    let waits = outbox.bytes();
    assert!(waits <= 2 * PIECE, "{waits}");
    let room = room(&mut outbox);
    assert!(room <= max + PIECE, "room for {room} on top of {waits}");
}

#[test]
fn a_learner_that_catches_up_is_not_dropped_for_new_packets() {
    let max = BOUNDS.bytes_max;
    for is_snapshot in [false, true] {
        let mut outbox = if is_snapshot {
            let mut outbox = PacketQueue::of_learner(BOUNDS);
            outbox.push_snapshot(Zxid(1), 4 * max);
            outbox.push(&new_leader(), NOW).unwrap();
            assert_eq!(written(&mut outbox), Some(0));
            for _ in 0..4 * max / PIECE {
                outbox.push(&packet(PIECE), NOW).unwrap();
            }
            outbox
        } else {
            with_history(4 * max)
        };
        let mut live = 0;
        while outbox.bytes() > PIECE {
            // Two packets arrive while three are removed.
            for _ in 0..2 {
                outbox.push(&packet(PIECE), NOW).unwrap();
                live += PIECE;
            }
            for _ in 0..3 {
                written(&mut outbox);
            }
        }
        assert!(live > 4 * max, "{live} is less than what may wait anyway");
    }
}

#[test]
fn the_bound_of_a_learner_that_does_not_catch_up_shrinks() {
    let max = BOUNDS.bytes_max;
    let mut outbox = with_history(4 * max);
    let mut taken = 0;
    while outbox.push(&packet(PIECE), NOW).is_ok() {
        taken += written(&mut outbox).unwrap();
        assert!(taken < 100 * max, "it may be behind for ever");
    }
}

#[test]
fn a_thread_with_packets_may_write_if_no_other_writes() {
    let mut outbox = PacketQueue::of_leader(BOUNDS);
    assert!(outbox.begin_write(&packet(10)));
    assert_eq!(written(&mut outbox), None, "two would write");
    assert!(!outbox.begin_write(&packet(10)), "two would write");
    assert!(!outbox.end_write(&packet(10), 10, NOW));
    assert_eq!((written(&mut outbox), outbox.bytes()), (None, 0));

    assert!(outbox.begin_write(&packet(10)));
    // The rest is queued later but must precede this packet.
    outbox.push(&packet(BOUNDS.write_bytes), NOW).unwrap();
    assert!(outbox.end_write(&packet(10), 3, NOW));
    assert_eq!(
        (outbox.packets(), outbox.bytes()),
        (2, 7 + BOUNDS.write_bytes)
    );
    assert!(!outbox.begin_write(&packet(1)), "others wait");
    assert_eq!(written(&mut outbox), Some(7));
    assert_eq!(written(&mut outbox), Some(BOUNDS.write_bytes));
    assert!(!outbox.begin_write(&packet(1)), "the taker writes");
    assert_eq!(written(&mut outbox), None);
    assert!(outbox.begin_write(&packet(1)));
    outbox.push(&packet(2), NOW).unwrap();
    assert_eq!(written(&mut outbox), None, "two would write");
    assert!(outbox.end_write(&packet(1), 1, NOW), "another one waits");
}

#[test]
fn sync_history_and_long_batches_are_queued() {
    let mut outbox = PacketQueue::of_learner(BOUNDS);
    assert!(!outbox.begin_write(&packet(1)));
    outbox.push(&new_leader(), NOW).unwrap();
    assert!(written(&mut outbox).is_some());
    assert!(!outbox.begin_write(&packet(1)), "the taker writes");
    assert_eq!(written(&mut outbox), None);
    assert!(!outbox.begin_write(&packet(PACKET_BATCH_BYTES)));
    assert!(outbox.begin_write(&packet(1)));
    assert!(!outbox.end_write(&packet(1), 1, NOW));
    outbox.push_snapshot(Zxid(1), 0);
    assert!(!outbox.begin_write(&packet(1)));
    assert_eq!(written(&mut outbox), Some(0));
    assert!(!outbox.begin_write(&packet(1)), "within a snapshot");
    assert_eq!(written(&mut outbox), None);
    assert!(outbox.finish());
    assert!(!outbox.begin_write(&packet(1)));
}
