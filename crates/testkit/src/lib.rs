//! What the tests of several crates share.
//!
//! * [`SimDisk`] is a disk in memory that loses power, fails and fills up when told to.
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
