//! A stand-in for the crate testcontainers, with the features that the suite of zookeeper-client
//! uses. Each container of the image `zookeeper` is a process on this machine: the server class of
//! Apache ZooKeeper, run by the first `java` on PATH. `conf/java` of this repository starts Zoarium
//! instead.

pub mod clients;
pub mod core;
mod server;

/// Images.
pub mod images {
    /// Images without additional code.
    pub mod generic {
        pub use crate::core::GenericImage;
    }
}
