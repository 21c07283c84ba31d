//! Atomics that a test can schedule.

use std::sync::atomic::{self, Ordering};

use super::scheduler::point;

/// Calls `operation` between two points at which other threads may run.
fn scheduled<T>(operation: impl FnOnce() -> T) -> T {
    point();
    let result = operation();
    point();
    result
}

macro_rules! atomics {
    ($($name:ident of $value:ty),*) => {$(
        /// Atomic value, as in the standard library.
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            /// Creates an atomic with this value.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// Returns the value.
            pub fn load(&self, ordering: Ordering) -> $value {
                scheduled(|| self.0.load(ordering))
            }

            /// Sets the value.
            pub fn store(&self, value: $value, ordering: Ordering) {
                scheduled(|| self.0.store(value, ordering));
            }

            /// Sets the value and returns the previous one.
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                scheduled(|| self.0.swap(value, ordering))
            }
        }
    )*};
}

macro_rules! numbers {
    ($($name:ident of $value:ty),*) => {$(
        impl $name {
            /// Adds to the value and returns the previous one.
            pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                scheduled(|| self.0.fetch_add(value, ordering))
            }

            /// Subtracts from the value and returns the previous one.
            pub fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                scheduled(|| self.0.fetch_sub(value, ordering))
            }
        }
    )*};
}

atomics!(
    AtomicBool of bool, AtomicI64 of i64, AtomicU8 of u8, AtomicU64 of u64,
    AtomicUsize of usize
);
numbers!(
    AtomicI64 of i64, AtomicU8 of u8, AtomicU64 of u64, AtomicUsize of usize
);

impl AtomicUsize {
    /// Returns the value, without a point at which other threads may run.
    pub(super) fn load_now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
