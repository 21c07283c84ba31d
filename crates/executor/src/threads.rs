//! Shipped primitives: `parking_lot`, `crossbeam` and the standard library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Mutex, MutexGuard};

use crate::primitives::{Atomic, Lock, Parker, Primitives, Queue};

/// Primitives for the threads of this process.
#[derive(Debug)]
pub enum Threads {}

impl Primitives for Threads {
    type Flag = AtomicBool;
    type Number = AtomicI64;
    type Lock<T: Send> = Mutex<T>;
    type Queue<T: Send> = Channel<T>;
    type Parker = ThreadParker;

    #[expect(
        clippy::inline_always,
        reason = "a call would cost more than the fence"
    )]
    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn yield_now() {
        thread::yield_now();
    }
}

impl Atomic<bool> for AtomicBool {
    fn new(value: bool) -> Self {
        Self::new(value)
    }

    fn load(&self, ordering: Ordering) -> bool {
        self.load(ordering)
    }

    fn store(&self, value: bool, ordering: Ordering) {
        self.store(value, ordering);
    }
}

impl Atomic<i64> for AtomicI64 {
    fn new(value: i64) -> Self {
        Self::new(value)
    }

    fn load(&self, ordering: Ordering) -> i64 {
        self.load(ordering)
    }

    fn store(&self, value: i64, ordering: Ordering) {
        self.store(value, ordering);
    }
}

impl<T: Send> Lock<T> for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.lock()
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_lock()
    }

    fn is_locked(&self) -> bool {
        self.is_locked()
    }
}

/// An unbounded channel with both its ends.
#[derive(Debug)]
pub struct Channel<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
}

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            receiver: self.receiver.clone(),
        }
    }
}

impl<T: Send> Queue<T> for Channel<T> {
    fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self { sender, receiver }
    }

    fn push(&self, value: T) {
        // The send cannot fail, because `self` contains a receiver.
        let _ = self.sender.send(value);
    }

    fn pop(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    fn len(&self) -> usize {
        self.receiver.len()
    }
}

/// Handle of a thread, once the thread is known.
#[derive(Debug)]
pub struct ThreadParker {
    thread: OnceLock<Thread>,
}

impl Parker for ThreadParker {
    fn new() -> Self {
        Self {
            thread: OnceLock::new(),
        }
    }

    fn register(&self) {
        // Only the first call sets the thread.
        let _ = self.thread.set(thread::current());
    }

    fn park(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
