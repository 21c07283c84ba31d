//! What this server is in its ensemble, for those who ask: four-letter words, `mntr`, admin server.
//!
//! ```text
//!   whoever drives the role --update--> RoleCell --get--> RoleView --> words, gauges
//! ```
//!
//! Nothing is decided by it. What changes with the role or with a learner stands in a [`RoleView`];
//! what changes with every proposal stands beside it and costs no lock.
//!
//! Source: QuorumPeer, Leader, QuorumZooKeeperServer, ObserverZooKeeperServer.

mod cell;
mod mode;
#[cfg(test)]
mod tests;
mod view;

pub use cell::RoleCell;
pub use mode::{Learners, Mode, SyncMode, ZabState};
pub use view::{LeaderFigures, RoleView};
