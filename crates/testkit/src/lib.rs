//! What the tests of several crates share.
//!
//! * [`SimDisk`] is a disk in memory that loses power, fails and fills up when told to.
//! * [`LIMITS`] are the limits of a decoder in a test.
//! * [`Random`] gives the same numbers for the same seed.
//! * [`linearizability`] judges what clients were told of one object.
//! * `certificates` are made for tests of TLS (with the feature of that name).
//! * [`recordings`] finds what was recorded from Apache ZooKeeper.

#[cfg(feature = "certificates")]
pub mod certificates;
mod disk;
pub mod linearizability;
mod random;
pub mod recordings;

pub use disk::{Failure, INJECTED, SimDisk, SimFile, SyncFault};
pub use random::Random;

/// Limits of a server without `jute.maxbuffer` in its configuration. What ships has no default: this
/// constant stands in a crate that only tests may import.
pub const LIMITS: jute::Limits = jute::Limits {
    field_bytes_max: 2 * 0xf_ffff,
};
