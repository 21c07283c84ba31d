//! Locks, conditions and atomics of types that threads share.
//!
//! They are the types of `parking_lot` and of the standard library. With the feature
//! `interleavings`, they behave in the same way, but a test can also let other threads run before
//! and after each operation (`scheduled_by`). The shipped types then run under `shuttle`.
//! A release does not enable the feature.

#[cfg(feature = "interleavings")]
mod atomics;
#[cfg(feature = "interleavings")]
mod locks;
#[cfg(feature = "interleavings")]
mod scheduler;

#[cfg(not(feature = "interleavings"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "interleavings"))]
pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize};

#[cfg(feature = "interleavings")]
pub use self::atomics::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize};
#[cfg(feature = "interleavings")]
pub use self::locks::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "interleavings")]
pub use self::scheduler::{Scheduler, scheduled_by};
