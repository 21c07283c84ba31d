//! Cells with many writing threads and few readers.
//!
//! A metric has about one shard per processor, each in separate cache lines. A thread writes to one
//! shard, and a reader adds up all shards. Threads with different shards do not wait for each
//! other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// Maximum number of shards. More shards would use memory and slow down readers, with little
/// benefit.
const SHARDS_MAX: usize = 16;

/// Shards, each with one `T`. The number of shards is a power of two.
#[derive(Debug)]
pub(crate) struct Shards<T>(Box<[CachePadded<T>]>);

impl<T: Default> Shards<T> {
    /// Creates at least `wanted` shards, but not more than [`SHARDS_MAX`].
    pub(crate) fn new(wanted: usize) -> Self {
        let shards = wanted.clamp(1, SHARDS_MAX).next_power_of_two();
        Self((0..shards).map(|_| CachePadded::default()).collect())
    }

    /// Returns the shard of the calling thread.
    pub(crate) fn own_shard(&self) -> &T {
        &self.0[thread_number() & (self.0.len() - 1)]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|line| &**line)
    }
}

/// Returns a small number that is unique to the calling thread and distributes threads evenly over
/// shards.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Counter that can be reset.
#[derive(Debug)]
pub struct Counter(Shards<AtomicU64>);

impl Counter {
    /// Creates a counter with value zero for about `shards` writing threads.
    pub fn new(shards: usize) -> Self {
        Self(Shards::new(shards))
    }

    /// Adds `n`. Wraps on overflow.
    pub fn add(&self, n: u64) {
        self.0.own_shard().fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Returns the sum since the last reset.
    pub fn get(&self) -> u64 {
        self.0.iter().fold(0, |sum, cell| {
            sum.wrapping_add(cell.load(Ordering::Relaxed))
        })
    }

    /// Resets the counter. Concurrent additions may be lost.
    pub fn reset(&self) {
        self.0
            .iter()
            .for_each(|cell| cell.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_of_all_threads_are_counted() {
        let counter = Counter::new(3);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(2)));
            }
        });
        assert_eq!(counter.get(), 16_000);
        counter.reset();
        counter.inc();
        assert_eq!(counter.get(), 1);
    }

    #[test]
    fn number_of_shards_is_a_bounded_power_of_two() {
        for (wanted, shards) in [(0, 1), (1, 1), (3, 4), (16, 16), (100, 16)] {
            assert_eq!(Shards::<AtomicU64>::new(wanted).0.len(), shards);
        }
    }
}
