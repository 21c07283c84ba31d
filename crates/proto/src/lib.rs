//! ZooKeeper's vocabulary: every record, id, opcode and error code, and no behaviour.
//!
//! * [`OpCode`] is the one table of operations; [`ErrorCode`] the one of errors.
//! * [`request`] and [`response`] hold what clients send and get, [`watch`] the events.
//! * [`txn`] holds what is proposed, logged and applied.
//! * [`packet`], [`learner`] and [`leader`] hold what travels on a quorum connection, [`hello`] and
//!   [`notification`] what travels on an election connection.
//! * [`quorum`] says which sets of servers may decide.
//! * [`data`] holds what the others share: ACLs, Stat.
//! * [`position`] names changes for those who read them.
//! * [`Secret`] and [`Hidden`] hold what must not get into a log.
//! * [`mutant`] has a simulator choose a deliberate bug of the crates above; no build for use has any.
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
pub mod mutant;
pub mod notification;
mod op;
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
