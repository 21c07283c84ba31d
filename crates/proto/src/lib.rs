//! ZooKeeper's records, ids, opcodes and error codes, without any behaviour.
//!
//! * [`OpCode`] is the only table of operations, with the columns of [`op`]. [`ErrorCode`] is the
//!   only table of errors.
//! * [`request`] and [`response`] contain the requests of clients and the replies, [`watch`] the
//!   events.
//! * [`txn`] contains transactions, which are proposed, logged and applied.
//! * [`packet`], [`learner`] and [`leader`] contain the packets of a quorum connection, [`hello`]
//!   and [`notification`] the messages of an election connection.
//! * [`quorum`] decides which sets of servers are quorums.
//! * [`health`] decides whether an ensemble is healthy.
//! * [`data`] contains data structures that several records share, such as ACLs and `Stat`.
//! * [`position`] contains positions of changes for readers of the change history.
//! * [`Secret`] and [`Hidden`] contain data that must not be logged.
//!
//! Source: zookeeper.jute, and the classes that each module names.

// The bytes come from other processes, so a wrong length in them must not cause a panic.
#![warn(clippy::indexing_slicing)]

mod client;
pub mod data;
pub mod health;
mod ids;
mod peers;
pub mod position;
pub mod quorum;
mod quota;
mod secret;
pub mod txn;

pub use client::connect;
pub use client::error_code::ErrorCode;
pub use client::multi;
pub use client::op;
pub use client::op::{OpCode, OpKind};
pub use client::request;
pub use client::response;
pub use client::watch;
pub use data::{Acl, Id, Stat, StatPersisted};
pub use ids::{ConfigVersion, ElectionRound, Epoch, SessionId, Sid, Xid, Zxid};
pub use peers::hello;
pub use peers::leader;
pub use peers::learner;
pub use peers::notification;
pub use peers::packet;
pub use quota::QuotaText;
pub use secret::{Hidden, LateSecret, Secret};
