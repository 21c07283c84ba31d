//! The host of the replica, put together: the thread that it runs on, and the ways to clients, other
//! members and the disk.
//!
//! ```text
//!  connections ----ToCore----> core thread ----ToLog----> log thread ------> snapshot thread
//!  elections, links --ToCore->   Replica                    append, one fdatasync for the group,
//!                        <-------Input-------               epoch files, member lists, cuts
//! ```
//!
//! The core thread hands [`replica::Replica`] what happened and carries out what it wants. It decides
//! nothing itself. A thread that brings a message of a lone writer runs the core itself for a turn
//! (`executor`). Neither channel can block its sender for good: what comes in is bounded where it
//! comes from, and what the log has no room for stays with the core and grows, which is what makes
//! group commit adapt to the disk.

mod admin;
pub mod admin_token;
pub mod ahead;
mod core;
mod exporter;
mod health;
mod host;
mod http;
mod inbox;
mod measure;
mod member;
mod pauses;
mod report;
pub(crate) mod server;
mod start;
mod tls;
mod traces;
