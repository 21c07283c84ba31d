//! Interface between an executor and the threads of its process.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A lock, a queue, a way to sleep, and atomics.
pub trait Primitives: Sized + 'static {
    /// A flag.
    type Flag: Atomic<bool>;
    /// A number.
    type Number: Atomic<i64>;
    /// A lock around a value.
    type Lock<T: Send>: Lock<T>;
    /// A queue that threads share.
    type Queue<T: Send>: Queue<T>;
    /// A way to sleep.
    type Parker: Parker;

    /// Executes a sequentially consistent fence.
    fn fence();

    /// Lets other threads run.
    fn yield_now();
}

/// An atomic value.
pub trait Atomic<T>: Send + Sync {
    /// Creates it.
    fn new(value: T) -> Self;
    /// Reads it.
    fn load(&self, ordering: Ordering) -> T;
    /// Replaces it.
    fn store(&self, value: T, ordering: Ordering);
}

/// A lock around a value.
pub trait Lock<T>: Send + Sync {
    /// Access to the value, until it is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Creates it, unlocked.
    fn new(value: T) -> Self;
    /// Waits for the lock.
    fn lock(&self) -> Self::Guard<'_>;
    /// Takes the lock if it is free. It may fail when the lock was released a moment ago and no
    /// fence orders the two.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// Returns whether the lock is held. Orders nothing.
    fn is_locked(&self) -> bool;
}

/// A queue without a bound, shared by its clones.
pub trait Queue<T>: Clone + Send + Sync {
    /// Creates it, empty.
    fn new() -> Self;
    /// Appends a value.
    fn push(&self, value: T);
    /// Removes the oldest value.
    fn pop(&self) -> Option<T>;
    /// Returns whether the queue is empty. Orders nothing.
    fn is_empty(&self) -> bool;
    /// Returns the number of values.
    fn len(&self) -> usize;
}

/// A way for one thread to sleep until others wake it.
pub trait Parker: Send + Sync {
    /// Creates it for a thread that is not known yet.
    fn new() -> Self;
    /// Registers the calling thread. Before that, `unpark` does not do anything.
    fn register(&self);
    /// Sleeps until a wake-up, at most for `timeout`. It returns immediately if `unpark` was called
    /// since the last call. It may return without a reason.
    fn park(&self, timeout: Option<Duration>);
    /// Wakes the registered thread, now or at its next call of `park`.
    fn unpark(&self);
}
