//! The outbox between the core, the task that writes it, and a reader of a long history, under
//! random schedules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex as ModelLock;
use proto::leader::LeaderPacket;
use testkit::interleavings::rand::Rng as _;
use testkit::interleavings::{check, check_fails, future, rand, thread};

use super::*;

const PACKETS: i64 = 5;

/// An error of the core or of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The core writes to the socket without a permission.
    WritesUnasked,
    /// The core queues packets again that it has written directly.
    QueuesTwice,
    /// The writer waits before it looks into the outbox.
    WaitsFirst,
    /// The core does not queue packets that it may not write directly.
    QueuesNothing,
}

/// The socket of a link. It accepts any part of the bytes.
#[derive(Clone, Default)]
struct Socket(Arc<Stream>);

#[derive(Default)]
struct Stream {
    bytes: ModelLock<Vec<u8>>,
    is_written: AtomicBool,
}

impl Socket {
    fn write(&self, bytes: &[u8]) {
        let other = self.0.is_written.swap(true, Ordering::SeqCst);
        assert!(!other, "two threads write to the socket");
        thread::yield_now();
        self.0.bytes.lock().extend_from_slice(bytes);
        self.0.is_written.store(false, Ordering::SeqCst);
    }

    fn len(&self) -> usize {
        self.0.bytes.lock().len()
    }
}

impl DirectWriter for Socket {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = rand::thread_rng().gen_range(0..=bytes.len());
        if accepted == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.write(&bytes[..accepted]);
        Ok(accepted)
    }
}

fn batch(zxid: i64) -> PacketBatch {
    let mut batch = PacketBatch::default();
    batch.add(&LeaderPacket::Commit { zxid: Zxid(zxid) }.into());
    batch
}

/// The core sends packets.
fn send(outbox: &Outbox<Socket>, socket: &Socket, batch: &PacketBatch, fault: Option<Fault>) {
    let is_written = outbox.try_write(batch);
    if fault == Some(Fault::WritesUnasked) && !is_written {
        return socket.write(batch.bytes());
    }
    if fault == Some(Fault::QueuesNothing) {
        return;
    }
    if !is_written || fault == Some(Fault::QueuesTwice) {
        outbox.push(batch).expect("the queue has room");
    }
}

/// The task of the link, like [`write_packets`], but without the clock.
fn write(outbox: &Outbox<Socket>, socket: &Socket, fault: Option<Fault>) {
    let _at_once = outbox.write_at_once(Some(socket.clone()));
    let mut buffer = Vec::new();
    loop {
        if fault == Some(Fault::WaitsFirst) {
            future::block_on(outbox.wait_for_packets());
        }
        match outbox.take(&mut buffer) {
            Some(NextWrite::Write { .. }) => socket.write(&buffer),
            Some(NextWrite::Snapshot(_) | NextWrite::End) => return,
            None => future::block_on(outbox.wait_for_packets()),
        }
    }
}

/// Sends packets, which must reach the other member in order before the link ends.
fn packets(fault: Option<Fault>) {
    let (outbox, socket) = (Arc::new(Outbox::of_leader()), Socket::default());
    let writer = {
        let (outbox, socket) = (outbox.clone(), socket.clone());
        thread::spawn(move || write(&outbox, &socket, fault))
    };
    let reader = {
        let outbox = outbox.clone();
        // A sync plan is read from the log in pieces, while few bytes wait.
        thread::spawn(move || future::block_on(outbox.wait_below(1)))
    };
    let mut expected = Vec::new();
    for zxid in 1..=PACKETS {
        let batch = batch(zxid);
        expected.extend_from_slice(batch.bytes());
        send(&outbox, &socket, &batch, fault);
        if zxid == PACKETS / 2 {
            // No further packet is sent until the earlier ones have arrived.
            while socket.len() < expected.len() {
                thread::yield_now();
            }
        }
    }
    assert!(outbox.finish());
    writer.join().expect("the writer ends");
    reader.join().expect("the reader ends");
    assert_eq!(*socket.0.bytes.lock(), expected);
    assert_eq!(outbox.waiting().packets, 0);
    assert!(!outbox.try_write(&batch(1)), "the connection has ended");
}

#[test]
fn shuttle_finds_no_packet_that_is_late_or_out_of_order() {
    check(|| packets(None));
}

#[test]
fn shuttle_finds_each_error_of_the_core_and_of_the_writer() {
    for fault in [
        Fault::WritesUnasked,
        Fault::QueuesTwice,
        Fault::WaitsFirst,
        Fault::QueuesNothing,
    ] {
        check_fails(&format!("{fault:?}"), move || packets(Some(fault)));
    }
}
