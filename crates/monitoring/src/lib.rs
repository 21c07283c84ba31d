//! What operators are shown of a server: metrics, its role, and answers to their questions.
//!
//! * [`audit`] makes the lines of the audit log,
//! * [`log_levels`] are those of the log, changed while it is written,
//! * [`metrics`] counts and measures; one table names every metric,
//! * [`role`] is what a member is in its ensemble, written by whoever drives the role,
//! * [`view`] is the server as they see it: the server implements [`view::View`],
//! * [`fourlw`] answers the four-letter words from such a view.
//! * [`admin`] has the commands of the admin server,
//! * [`threads`] are those of the process,
//! * [`traces`] are the stages of some of the writes,
//! * [`usage`] sums up who has asked for what, [`slow`] keeps the requests that took long.
//!
//! Nothing here decides what a server does, and nothing reads a clock: whoever calls says what
//! time it is.

pub mod admin;
pub mod audit;
pub mod dates;
pub mod environment;
pub mod fourlw;
pub mod log_levels;
pub mod metrics;
pub mod recent_log;
pub mod role;
pub mod slow;
pub mod threads;
pub mod traces;
pub mod usage;
pub mod version;
pub mod view;
