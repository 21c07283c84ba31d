//! The host of the replica: its thread, and the connections to clients, other members and the disk.
//!
//! ```text
//!  connections --CoreMessage--> core thread --DiskCommand--> log thread ----> snapshot thread
//!  elections, links ----------->  Replica                    append, one fdatasync for the group,
//!                        <--------Input--------              epoch files, member lists, cuts
//! ```
//!
//! The core thread passes events to [`replica::Replica`] and executes its effects. It does not make
//! decisions itself. A thread that delivers a message of a single writer runs the core itself for a
//! turn (`executor`). Neither channel can block its sender permanently. Input is bounded at its
//! source. Orders that do not fit into the log's channel stay in the core and accumulate, so group
//! commit adapts to the speed of the disk.

mod core;
mod host;
mod inbox;
mod measure;
mod member;
mod operators;
mod pauses;
pub(crate) mod server;
mod start;
pub mod start_checks;
mod tls;
