//! A task, and a thread that makes replies and may write them directly.

use std::sync::atomic::Ordering;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::AtomicBool;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use zoarium_executor::DirectWrite;

use crate::shuttle_model::{Shuttle, check};

const REPLIES: u8 = 4;

/// An answer that the task, not the core, produces.
const ANSWER: u8 = 255;

#[derive(Default)]
struct Outbox {
    direct: DirectWrite<Shuttle>,
    bytes: Vec<u8>,
    ends: bool,
}

#[derive(Default)]
struct Connection {
    outbox: Mutex<Outbox>,
    signals: Mutex<Signals>,
    signalled: Condvar,
    socket: Mutex<Vec<u8>>,
    written: Condvar,
    is_written: AtomicBool,
}

/// Events that the task waits for.
#[derive(Default)]
struct Signals {
    is_woken: bool,
    /// The client has sent a request, which the task has not read.
    has_input: bool,
}

impl Connection {
    fn wake(&self) {
        self.signals.lock().unwrap().is_woken = true;
        self.signalled.notify_all();
    }

    /// The task waits: for its client too, or for the end of a direct write only. Returns whether
    /// it has read a request.
    fn wait(&self, reads: bool) -> bool {
        let mut signals = self.signals.lock().unwrap();
        while !(signals.is_woken || reads && signals.has_input) {
            signals = self.signalled.wait(signals).unwrap();
        }
        signals.is_woken = false;
        let has_read = reads && signals.has_input;
        signals.has_input &= !reads;
        self.signalled.notify_all();
        has_read
    }

    /// The client sends a request.
    fn request(&self) {
        self.signals.lock().unwrap().has_input = true;
        self.signalled.notify_all();
    }

    /// The client receives this reply, sends a request, and waits until the task has read it.
    fn round_trip(&self, reply: u8) {
        let mut socket = self.socket.lock().unwrap();
        while !socket.contains(&reply) {
            socket = self.written.wait(socket).unwrap();
        }
        drop(socket);
        self.request();
        let mut signals = self.signals.lock().unwrap();
        while signals.has_input {
            signals = self.signalled.wait(signals).unwrap();
        }
    }

    fn write(&self, bytes: &[u8]) {
        let other = self.is_written.swap(true, Ordering::SeqCst);
        assert!(!other, "two threads write to the socket");
        self.socket.lock().unwrap().extend_from_slice(bytes);
        self.is_written.store(false, Ordering::SeqCst);
        self.written.notify_all();
    }

    /// The task: writes all output, then waits for its client, until the connection ends.
    fn run_task(&self) {
        loop {
            let taken = {
                let mut outbox = self.outbox.lock().unwrap();
                let has_output = !outbox.bytes.is_empty();
                let may = outbox.direct.task_takes(has_output);
                may.then(|| std::mem::take(&mut outbox.bytes))
            };
            match taken {
                None => {
                    self.wait(false);
                }
                Some(bytes) if bytes.is_empty() => {
                    let ends = {
                        let mut outbox = self.outbox.lock().unwrap();
                        outbox.direct.task_waits(true);
                        outbox.ends && outbox.bytes.is_empty()
                    };
                    if ends {
                        return;
                    }
                    if self.wait(true) {
                        self.outbox.lock().unwrap().bytes.push(ANSWER);
                    }
                }
                Some(bytes) => self.write(&bytes),
            }
        }
    }

    /// The core: writes the part that the socket accepts immediately. Returns whether the task need
    /// not be woken.
    fn try_write(&self) -> bool {
        let mut bytes = {
            let mut outbox = self.outbox.lock().unwrap();
            if !outbox.direct.may_begin() || outbox.bytes.is_empty() {
                return false;
            }
            outbox.direct.begin();
            std::mem::take(&mut outbox.bytes)
        };
        let taken = thread_rng().gen_range(0..=bytes.len());
        self.write(&bytes[..taken]);
        bytes.drain(..taken);
        let mut outbox = self.outbox.lock().unwrap();
        bytes.append(&mut outbox.bytes);
        outbox.bytes = bytes;
        let is_all = outbox.bytes.is_empty();
        outbox.direct.end(is_all)
    }
}

fn replies() {
    let connection = Arc::new(Connection::default());
    let running = connection.clone();
    let task = thread::spawn(move || running.run_task());
    for reply in 0..REPLIES {
        if reply % 2 == 0 {
            connection.request();
        }
        connection.outbox.lock().unwrap().bytes.push(reply);
        if !connection.try_write() {
            connection.wake();
        }
        if reply % 2 == 1 {
            connection.round_trip(reply);
        }
    }
    connection.outbox.lock().unwrap().ends = true;
    connection.wake();
    task.join().unwrap();
    let mut written = connection.socket.lock().unwrap().clone();
    written.retain(|byte| *byte != ANSWER);
    assert_eq!(written, (0..REPLIES).collect::<Vec<_>>());
}

#[test]
fn shuttle_finds_no_reply_that_is_late_or_out_of_order() {
    check(replies);
}
