//! ZooKeeper's vocabulary: every record, id, opcode and error code, and no behaviour.
//!
//! * [`OpCode`] is the one table of operations; [`ErrorCode`] the one of errors.
//! * [`request`] and [`response`] hold what clients send and get, [`watch`] the events.
//! * [`txn`] holds what is proposed, logged and applied.
//! * [`quorum`] says which sets of servers may decide.
//! * [`data`] holds what the others share: ACLs, Stat.
//!
//! Source: client-protocol.md, storage-formats.md section 3; zookeeper.jute.

pub mod connect;
pub mod data;
mod error_code;
mod ids;
pub mod multi;
mod op;
pub mod quorum;
pub mod request;
pub mod response;
pub mod txn;
pub mod watch;

pub use data::{Acl, Id, Stat, StatPersisted};
pub use error_code::ErrorCode;
pub use ids::{Epoch, SessionId, Sid, Xid, Zxid};
pub use op::{OpCode, OpKind};
