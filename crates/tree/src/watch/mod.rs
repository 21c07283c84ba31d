//! The watches of all connections.
//!
//! ZooKeeper has two tables, *data* and *child*, and three modes, *standard*, *persistent* and
//! *recursive*, which coexist. Here a connection's interest in a path is one record with a bit for
//! each possible combination of table and mode. A record is linked into two lists, one per path and
//! one per connection, so the cost of firing, of removing one watch and of removing a connection's
//! watches is proportional to the number of records concerned.
//!
//! Any string, and null, is a valid path. Source: WatchManager.

mod counts;
mod fire;
mod kinds;
mod listing;
mod store;

pub use counts::WatchSummary;
pub use fire::Event;
pub(crate) use fire::{Firing, ZnodeChange};
pub(crate) use kinds::Kinds;
pub use listing::{WatchedPaths, Watchers};
pub use store::{SharedWatches, WatcherId, Watches};

#[cfg(test)]
mod tests;
