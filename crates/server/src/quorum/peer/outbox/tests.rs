//! How much may wait, and in which order it leaves.

use proto::Epoch;
use proto::leader::LeaderPacket;

use super::*;

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

fn written(outbox: &Outbox) -> Option<usize> {
    let mut buffer = Vec::new();
    Some(match outbox.take(&mut buffer)? {
        Next::Write { .. } => buffer.len(),
        Next::Snapshot(_) | Next::End => 0,
    })
}

#[test]
fn small_packets_leave_together_and_large_ones_alone() {
    let outbox = Outbox::of_leader();
    for len in [10, 20, limits::PEER_WRITE_BYTES + 1, 30] {
        outbox.push(&packet(len)).unwrap();
    }
    assert_eq!(written(&outbox), Some(30));
    assert_eq!(written(&outbox), Some(limits::PEER_WRITE_BYTES + 1));
    assert_eq!(written(&outbox), Some(30));
    assert_eq!((written(&outbox), outbox.bytes()), (None, 0));
}

#[test]
fn nothing_overtakes_a_snapshot() {
    let outbox = Outbox::of_learner();
    outbox.push(&packet(1)).unwrap();
    outbox.push_snapshot(Zxid(7), 0);
    outbox.push(&packet(2)).unwrap();
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
    outbox.push(&packet(half)).unwrap();
    outbox.push(&packet(half)).unwrap();
    let error = outbox.push(&packet(1)).unwrap_err().to_string();
    assert!(error.contains("too slow"), "{error}");
}

#[test]
fn the_history_does_not_count_until_all_of_it_is_taken() {
    let outbox = Outbox::of_learner();
    let max = limits::PEER_QUEUE_BYTES_MAX;
    for _ in 0..4 {
        outbox.push(&packet(max / 2)).unwrap();
    }
    outbox.push(&new_leader()).unwrap();
    outbox.push(&packet(max)).unwrap();
    assert!(outbox.push(&packet(1)).is_err());
    while written(&outbox).is_some() {}
    outbox.push(&packet(max)).unwrap();
    assert!(outbox.push(&packet(1)).is_err());
}

#[test]
fn all_that_waits_is_written_before_the_end() {
    let outbox = Outbox::of_learner();
    outbox.push(&packet(1)).unwrap();
    assert!(!outbox.finish(), "within the history");
    outbox.push_snapshot(Zxid(1), 0);
    outbox.push(&new_leader()).unwrap();
    assert!(!outbox.finish(), "before a snapshot");
    assert_eq!((written(&outbox), written(&outbox)), (Some(1), Some(0)));
    assert!(!outbox.finish(), "within a snapshot");
    assert!(written(&outbox).is_some_and(|bytes| bytes > 0));
    assert_eq!(written(&outbox), None, "the queue is not finished");
    outbox.push(&packet(2)).unwrap();
    assert!(outbox.finish());
    assert_eq!(written(&outbox), Some(2));
    let mut buffer = Vec::new();
    let next = outbox.take(&mut buffer);
    assert!(matches!(next, Some(Next::End)), "{next:?}");
}

#[test]
fn more_may_wait_behind_a_snapshot_until_it_is_written() {
    let outbox = Outbox::of_learner();
    let max = limits::PEER_QUEUE_BYTES_MAX;
    outbox.push_snapshot(Zxid(1), 2 * max);
    outbox.push(&new_leader()).unwrap();
    outbox.push(&packet(2 * max)).unwrap();
    // The writer is at the snapshot.
    assert_eq!(written(&outbox), Some(0));
    outbox.push(&packet(max)).unwrap();
    assert!(outbox.push(&packet(1)).is_err());
}

/// A learner that was just sent `len` bytes of history, all of which wait.
fn with_history(len: usize) -> Outbox {
    let outbox = Outbox::of_learner();
    for _ in 0..len / PIECE {
        outbox.push(&packet(PIECE)).unwrap();
    }
    outbox.push(&new_leader()).unwrap();
    outbox
}

const PIECE: usize = limits::PEER_WRITE_BYTES;

/// How much more may wait; ends the use of the queue.
fn room(outbox: &Outbox) -> usize {
    let mut len = 0;
    while outbox.push(&packet(PIECE)).is_ok() {
        len += PIECE;
    }
    len
}

#[test]
fn a_learner_that_is_always_a_little_behind_may_hold_no_more_than_others() {
    let max = limits::PEER_QUEUE_BYTES_MAX;
    let outbox = with_history(2 * max);
    // It takes all of it, but something new waits each time before the last is taken.
    for _ in 0..3 * max / PIECE {
        outbox.push(&packet(PIECE)).unwrap();
        for _ in 0..2 {
            if outbox.bytes() > PIECE {
                assert!(written(&outbox).is_some());
            }
        }
        assert!(outbox.bytes() > 0);
    }
    let waits = outbox.bytes();
    assert!(waits <= 2 * PIECE, "{waits}");
    let room = room(&outbox);
    assert!(room <= max + PIECE, "room for {room} on top of {waits}");
}

#[test]
fn a_learner_that_catches_up_is_not_given_up_for_what_comes_meanwhile() {
    let max = limits::PEER_QUEUE_BYTES_MAX;
    for is_snapshot in [false, true] {
        let outbox = if is_snapshot {
            let outbox = Outbox::of_learner();
            outbox.push_snapshot(Zxid(1), 4 * max);
            outbox.push(&new_leader()).unwrap();
            assert_eq!(written(&outbox), Some(0));
            for _ in 0..4 * max / PIECE {
                outbox.push(&packet(PIECE)).unwrap();
            }
            outbox
        } else {
            with_history(4 * max)
        };
        let mut live = 0;
        while outbox.bytes() > PIECE {
            // Two come while three are taken.
            for _ in 0..2 {
                outbox.push(&packet(PIECE)).unwrap();
                live += PIECE;
            }
            for _ in 0..3 {
                written(&outbox);
            }
        }
        assert!(live > 4 * max, "{live} is less than what may wait anyway");
    }
}

#[test]
fn a_learner_that_does_not_catch_up_loses_its_room_by_and_by() {
    let max = limits::PEER_QUEUE_BYTES_MAX;
    let outbox = with_history(4 * max);
    let mut taken = 0;
    while outbox.push(&packet(PIECE)).is_ok() {
        taken += written(&outbox).unwrap();
        assert!(taken < 100 * max, "it may be behind for ever");
    }
}
