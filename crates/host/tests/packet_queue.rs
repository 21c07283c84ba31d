//! The packet queue between the core and the writer of a link, under random schedules. Everything
//! is under one lock, so `shuttle` suffices. `ZOARIUM_SHUTTLE_SCHEDULES` sets the number of
//! schedules.

#![allow(
    clippy::unwrap_used,
    reason = "a thread of a model that panics fails the check"
)]

use std::sync::atomic::Ordering;

use proto::Zxid;
use proto::leader::LeaderPacket;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::AtomicBool;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use zoarium_host::{NextWrite, PacketBatch, PacketQueue, QueueBounds};

const SCHEDULES: usize = 10_000;
const PACKETS: i64 = 5;

const BOUNDS: QueueBounds = QueueBounds {
    bytes_max: 1 << 20,
    write_bytes: 40,
};

/// An error that a test puts into the host of the queue. `shuttle` finds each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    /// The end of a direct write does not wake the writer.
    NoWakeAfterDirectWrite,
    /// The core writes although the queue does not permit it.
    WritesUnasked,
    /// The rest of a direct write is queued after later packets.
    QueuesRestLast,
}

struct Link {
    mutant: Option<Mutant>,
    queue: Mutex<PacketQueue>,
    is_filled: Mutex<bool>,
    filled: Condvar,
    socket: Mutex<Vec<u8>>,
    is_written: AtomicBool,
}

impl Link {
    fn new(mutant: Option<Mutant>) -> Self {
        Self {
            mutant,
            queue: Mutex::new(PacketQueue::of_leader(BOUNDS)),
            is_filled: Mutex::default(),
            filled: Condvar::new(),
            socket: Mutex::default(),
            is_written: AtomicBool::new(false),
        }
    }

    fn wake(&self) {
        *self.is_filled.lock().unwrap() = true;
        self.filled.notify_one();
    }

    fn write(&self, bytes: &[u8]) {
        let other = self.is_written.swap(true, Ordering::SeqCst);
        assert!(!other, "two threads write to the socket");
        self.socket.lock().unwrap().extend_from_slice(bytes);
        self.is_written.store(false, Ordering::SeqCst);
    }

    /// The core: writes the packets directly, or queues them.
    fn send(&self, batch: &PacketBatch) {
        let may = self.queue.lock().unwrap().begin_write(batch);
        if !may && self.mutant != Some(Mutant::WritesUnasked) {
            self.queue.lock().unwrap().push(batch, || 0).unwrap();
            return self.wake();
        }
        let taken = thread_rng().gen_range(0..=batch.bytes().len());
        self.write(&batch.bytes()[..taken]);
        let mut queue = self.queue.lock().unwrap();
        let waits = match self.mutant {
            Some(Mutant::QueuesRestLast) => {
                let waits = queue.end_write(batch, batch.bytes().len(), || 0);
                let rest = taken < batch.bytes().len();
                rest.then(|| queue.push(batch, || 0).unwrap());
                waits || rest
            }
            _ => queue.end_write(batch, taken, || 0),
        };
        if waits && self.mutant != Some(Mutant::NoWakeAfterDirectWrite) {
            self.wake();
        }
    }

    /// Runs the writer of the link until everything is written.
    fn run_writer(&self) {
        let mut buffer = Vec::new();
        loop {
            let next = self.queue.lock().unwrap().take(&mut buffer, || 0);
            match next {
                Some(NextWrite::Write { .. }) => self.write(&buffer),
                Some(NextWrite::Snapshot(_) | NextWrite::End) => return,
                None => {
                    let mut is_filled = self.is_filled.lock().unwrap();
                    while !*is_filled {
                        is_filled = self.filled.wait(is_filled).unwrap();
                    }
                    *is_filled = false;
                }
            }
        }
    }
}

fn batch(zxid: i64) -> PacketBatch {
    let mut batch = PacketBatch::default();
    batch.add(&LeaderPacket::Commit { zxid: Zxid(zxid) }.into());
    batch
}

/// Sends packets, which must all reach the other member in order before the link ends.
fn packets(mutant: Option<Mutant>) {
    let link = Arc::new(Link::new(mutant));
    let writing = link.clone();
    let writer = thread::spawn(move || writing.run_writer());
    let mut expected = Vec::new();
    for zxid in 1..=PACKETS {
        let batch = batch(zxid);
        expected.extend_from_slice(batch.bytes());
        link.send(&batch);
        if zxid == PACKETS / 2 {
            // No further packet is sent until the earlier ones have arrived.
            while link.socket.lock().unwrap().len() < expected.len() {
                thread::yield_now();
            }
        }
    }
    assert!(link.queue.lock().unwrap().finish());
    link.wake();
    writer.join().unwrap();
    assert_eq!(*link.socket.lock().unwrap(), expected);
}

fn check(mutant: Option<Mutant>) {
    let set = std::env::var("ZOARIUM_SHUTTLE_SCHEDULES").ok();
    let schedules = set.and_then(|set| set.parse().ok()).unwrap_or(SCHEDULES);
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000);
    let scheduler = shuttle::scheduler::RandomScheduler::new(schedules);
    shuttle::Runner::new(scheduler, config).run(move || packets(mutant));
}

#[test]
fn shuttle_finds_no_packet_that_is_late_or_out_of_order() {
    check(None);
}

#[test]
fn shuttle_finds_each_error_of_a_direct_write() {
    for mutant in [
        Mutant::NoWakeAfterDirectWrite,
        Mutant::WritesUnasked,
        Mutant::QueuesRestLast,
    ] {
        let checked = std::thread::spawn(move || check(Some(mutant)));
        assert!(checked.join().is_err(), "{mutant:?}");
    }
}
