//! Utilities for the tests of several crates.
//!
//! * [`SimDisk`] is a disk in memory with simulated power failures, errors and lack of space.
//! * [`LIMITS`] contains limits of a decoder for tests.
//! * [`Random`] returns the same numbers for the same seed.
//! * [`linearizability`] checks the answers of one object to several clients.
//! * `certificates` generates certificates for tests of TLS (with the feature of that name).
//! * `faults` contains faults of a server in this process (with the feature of that name).
//! * `interleavings` runs a model under random schedules (with the feature of that name).
//! * [`seeds`] returns fresh seeds.
//! * [`altered()`] makes random changes to a copy of a file's content.
//! * [`recordings`] finds the recordings of Apache ZooKeeper, and [`vectors`] reads the data
//!   directories among them.

mod altered;
#[cfg(feature = "certificates")]
pub mod certificates;
mod disk;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "interleavings")]
pub mod interleavings;
pub mod linearizability;
mod random;
pub mod recordings;
pub mod seeds;
pub mod vectors;

pub use altered::altered;
pub use disk::{Failure, INJECTED, SimDisk, SimFile, SyncFault};
pub use random::Random;

/// Limits of a server without `jute.maxbuffer` in its configuration. Shipped code must not have a
/// default, so this constant is in a crate that only tests may import.
pub const LIMITS: jute::Limits = jute::Limits {
    field_bytes_max: 2 * 0xf_ffff,
};
