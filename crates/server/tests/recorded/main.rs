//! Tests that open the data directories of Apache ZooKeeper 3.9.5 with this server.
//!
//! The crate `storage` tests the files and the crate `tree` the transactions. Here both are
//! combined as in a server, and the result is compared with the answers of a Java server on the
//! same directories.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used)]

mod compare;
mod damage;
mod snapshots;
mod starts;
mod states;
mod support;
mod torn;
mod ttl;
