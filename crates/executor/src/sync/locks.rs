//! Locks and conditions that a test can schedule.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use super::atomics::AtomicUsize;
use super::scheduler::{is_scheduled, point, wait};

/// Lock around a value, as in `parking_lot`.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    lock: parking_lot::Mutex<T>,
}

/// Guard that permits access to the value of a [`Mutex`] until it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` while a condition has released the lock.
    held: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked lock around a value.
    pub const fn new(value: T) -> Self {
        Self {
            lock: parking_lot::Mutex::new(value),
        }
    }

    /// Waits for the lock and acquires it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        point();
        MutexGuard {
            mutex: self,
            held: Some(self.acquire()),
        }
    }

    /// Acquires the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        let held = self.lock.try_lock();
        held.map(|held| MutexGuard {
            mutex: self,
            held: Some(held),
        })
    }

    fn acquire(&self) -> parking_lot::MutexGuard<'_, T> {
        while is_scheduled() {
            if let Some(held) = self.lock.try_lock() {
                return held;
            }
            wait();
        }
        self.lock.lock()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the lock is held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        point();
    }
}

/// Condition for which threads wait, as in `parking_lot`.
#[derive(Debug, Default)]
pub struct Condvar {
    condvar: parking_lot::Condvar,
    /// Number of signals.
    signals: AtomicUsize,
}

impl Condvar {
    /// Creates a condition for which no thread waits.
    pub const fn new() -> Self {
        Self {
            condvar: parking_lot::Condvar::new(),
            signals: AtomicUsize::new(0),
        }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.signals.fetch_add(1, Ordering::SeqCst);
        self.condvar.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.signals.fetch_add(1, Ordering::SeqCst);
        self.condvar.notify_all();
    }

    /// Releases the lock and waits for signals, as long as `condition` holds.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        if !is_scheduled() {
            let held = guard.held.as_mut().expect("the lock is held");
            return self.condvar.wait_while(held, condition);
        }
        while condition(guard) {
            let before = self.signals.load_now();
            guard.held = None;
            while self.signals.load_now() == before {
                wait();
            }
            guard.held = Some(guard.mutex.acquire());
        }
    }
}
