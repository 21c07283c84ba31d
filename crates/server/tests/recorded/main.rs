//! The data directories that Apache ZooKeeper 3.9.5 wrote, opened by this server.
//!
//! The crate `storage` judges the files and the crate `tree` the transactions; here both are put
//! together as in a server, and what comes out is compared with what a Java server answered on
//! the same directories.

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
