//! Interface between an executor and the threads of its process.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A lock, a queue, a parker, and atomics.
pub trait Primitives: Sized + 'static {
    /// Type of an atomic flag.
    type Flag: Atomic<bool>;
    /// Type of an atomic number.
    type Number: Atomic<i64>;
    /// Type of a lock around a value.
    type Lock<T: Send>: Lock<T>;
    /// Type of a queue that threads share.
    type Queue<T: Send>: Queue<T>;
    /// Type of a parker, with which a thread sleeps.
    type Parker: Parker;

    /// Executes a sequentially consistent fence.
    fn fence();

    /// Yields to other threads.
    fn yield_now();
}

/// An atomic value.
pub trait Atomic<T>: Send + Sync {
    /// Creates an atomic with this value.
    fn new(value: T) -> Self;
    /// Loads the value.
    fn load(&self, ordering: Ordering) -> T;
    /// Stores a value.
    fn store(&self, value: T, ordering: Ordering);
}

/// A lock around a value.
pub trait Lock<T>: Send + Sync {
    /// Guard that permits access to the value until it is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Creates an unlocked lock around a value.
    fn new(value: T) -> Self;
    /// Waits for the lock and acquires it.
    fn lock(&self) -> Self::Guard<'_>;
    /// Acquires the lock if it is free. This may fail if the lock has just been released and no
    /// fence orders the two operations.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// Returns whether the lock is held. Imposes no memory order.
    fn is_locked(&self) -> bool;
}

/// An unbounded queue, shared by its clones.
pub trait Queue<T>: Clone + Send + Sync {
    /// Creates an empty queue.
    fn new() -> Self;
    /// Appends a value.
    fn push(&self, value: T);
    /// Removes and returns the oldest value.
    fn pop(&self) -> Option<T>;
    /// Returns whether the queue is empty. Imposes no memory order.
    fn is_empty(&self) -> bool;
    /// Returns the number of values.
    fn len(&self) -> usize;
}

/// A parker, with which one thread sleeps until others wake it.
pub trait Parker: Send + Sync {
    /// Creates a parker for a thread that is not known yet.
    fn new() -> Self;
    /// Registers the calling thread. Before that, `unpark` does nothing.
    fn register(&self);
    /// Sleeps until a wake-up, but at most for `timeout`. Returns immediately if `unpark` has been
    /// called since the last call of `park`. May return spuriously.
    fn park(&self, timeout: Option<Duration>);
    /// Wakes the registered thread, now or at its next call to `park`.
    fn unpark(&self);
}
