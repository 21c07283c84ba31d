//! ZooKeeper's records, ids, opcodes and error codes, without any behaviour.
//!
//! * [`OpCode`] is the single table of operations with the columns of [`op`], [`ErrorCode`] the single
//!   table of errors.
//! * [`request`] and [`response`] contain the requests of clients and the replies, [`watch`] the
//!   events.
//! * [`txn`] contains transactions, which are proposed, logged and applied.
//! * [`packet`], [`learner`] and [`leader`] contain the packets of a quorum connection, [`hello`]
//!   and [`notification`] the messages of an election connection.
//! * [`quorum`] decides which sets of servers are quorums.
//! * [`data`] contains shared data: ACLs, Stat.
//! * [`position`] contains positions of changes for readers of the change history.
//! * [`Secret`] and [`Hidden`] contain data that must not be logged.
//!
//! Source: zookeeper.jute, and the classes that each module names.

pub mod connect;
pub mod data;
mod error_code;
pub mod hello;
mod ids;
pub mod leader;
pub mod learner;
pub mod multi;
pub mod notification;
pub mod op;
pub mod packet;
pub mod position;
pub mod quorum;
mod quota;
pub mod request;
pub mod response;
mod secret;
pub mod txn;
pub mod watch;

pub use data::{Acl, Id, Stat, StatPersisted};
pub use error_code::ErrorCode;
pub use ids::{ConfigVersion, ElectionRound, Epoch, SessionId, Sid, Xid, Zxid};
pub use op::{OpCode, OpKind};
pub use quota::QuotaText;
pub use secret::{Hidden, LateSecret, Secret};
