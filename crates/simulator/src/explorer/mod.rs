//! All schedules of a small ensemble within bounds.
//!
//! The explorer begins with three servers that have a leader and the same transactions. It then
//! makes all choices: the next message, the next completion of a disk, the next proposal, crash,
//! timeout, election or snapshot. [`Choice`] is their only source. Each schedule is the real
//! `replica`, `tree` and `storage` on the simulated disk and network, with all invariants.
//!
//! * `waiting` finds the choices in a state, and `stage` makes them.
//! * `state` decides whether two schedules have reached the same state.
//! * `search` goes through all choices. It leaves out orders of choices that commute (sleep sets),
//!   and the continuations of states that it knows.
//! * `saved` continues an interrupted search.
//! * `behaviours` follows behaviours of the formal model.

mod behaviours;
mod choice;
mod saved;
mod search;
mod stage;
mod state;
mod waiting;

pub use behaviours::{Followed, follow};
pub use choice::Choice;
pub use search::{Explored, Explorer, replay};

/// Maximum numbers of events in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Proposed transactions.
    pub transactions: u8,
    /// Kills and power failures.
    pub crashes: u8,
    /// Roles that end because a server waits in vain.
    pub timeouts: u8,
    /// Elections after the first one.
    pub elections: u8,
    /// Snapshots that operators request.
    pub snapshots: u8,
}
