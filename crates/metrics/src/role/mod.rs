//! Role of this server in its ensemble, for four-letter words, `mntr` and the admin server.
//!
//! ```text
//!   driver of the role --update--> RoleCell --get--> RoleView --> words, gauges
//! ```
//!
//! The server's decisions do not depend on the role in this module. [`RoleView`] contains data that
//! changes with the role or with a learner. Data that changes with every proposal is stored
//! separately, without a lock.
//!
//! Source: QuorumPeer, Leader, QuorumZooKeeperServer, ObserverZooKeeperServer.

mod cell;
mod mode;
#[cfg(test)]
mod tests;
pub(crate) mod view;

pub use cell::RoleCell;
pub use mode::{Learners, Mode, SyncMode, ZabState};
pub use view::{LeaderFigures, RoleView};
