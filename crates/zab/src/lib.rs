//! Zab as plain values: messages and facts in, decisions out.
//!
//! Zab has three phases. A leader-to-be learns of every accepted epoch (discovery), brings its
//! learners to its own history (synchronisation), and from then on orders every change
//! (broadcast). Nothing here reads a clock, a socket or a disk. That a record is durable is an
//! *input*: a server is counted only after it has been told, so an acknowledgement that runs
//! ahead of the disk cannot be written down.
//!
//! * [`learner::Learner`] is a follower or an observer from its first packet on.
//! * [`leader::Leader`] is the server that was elected, with all its learners.
//! * [`observer_master::ObserverMaster`] is what a follower is to observers that it serves.
//! * [`sync`] decides how a learner is brought up to date, [`CommittedLog`] is what it is brought
//!   up to date from.
//! * [`broadcast`] is the leader's accounting of proposals, which a standalone server needs too (it
//!   is the leader of an ensemble of one).
//!
//! A core is driven like this: hand in what happened (`handle_*`) with the time and a list; carry
//! out the actions that are then in the list, in order; call `handle_deadline` when `deadline_ms`
//! has come. Actions print as one line each ([`packets`]).

pub mod broadcast;
mod committed_log;
pub mod leader;
pub mod learner;
pub mod observer_master;
pub mod packets;
mod record;
mod settings;
pub mod sync;

pub use committed_log::CommittedLog;
pub use record::Record;
pub use settings::Settings;
