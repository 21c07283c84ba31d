//! Zab, the atomic broadcast of ZooKeeper, as sans-I/O state machines.
//!
//! Zab has three phases. A prospective leader collects the accepted epochs (discovery),
//! synchronises its learners with its own log (synchronisation), and then orders every change
//! (broadcast). This crate does not read a clock, socket or disk. Durability is an *input*: a
//! server is counted only after the host has reported a sync. An acknowledgement before the sync is
//! therefore impossible.
//!
//! * [`learner::Learner`] is a follower or an observer, from its first packet on.
//! * [`leader::Leader`] is the elected server with all its learners.
//! * [`observer_master::ObserverMaster`] is the part of a follower that serves observers.
//! * [`sync`] decides how a learner is synchronised. [`CommittedLog`] keeps the transactions that a
//!   learner may lack.
//! * [`broadcast`] counts acknowledgements of proposals. A standalone server also uses this module,
//!   as the leader of an ensemble of one.
//!
//! To drive a state machine, pass each event to a method `handle_*`, with the time and a list for
//! the actions. Then execute the actions in the order of the list. Call `handle_deadline` when
//! `deadline_ms` is reached. Each action prints as one line ([`packets`]).

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
