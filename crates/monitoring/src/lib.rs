//! Information about a server for operators: metrics, the role, and four-letter words.
//!
//! * [`audit`] creates the lines of the audit log.
//! * [`log_levels`] contains the levels of the log, which can change at runtime.
//! * [`metrics`] counts and measures. One table contains every metric.
//! * [`role`] is the role of a member in its ensemble. The code that drives the role updates it.
//! * [`view`] is the interface to the server. The server implements [`view::View`].
//! * [`fourlw`] answers the four-letter words from such a view.
//! * [`threads`] lists the threads of the process.
//! * [`traces`] records the stages of sampled writes.
//! * [`usage`] sums up the requests of clients. [`slow`] keeps slow requests.
//!
//! This crate does not influence the behaviour of a server. It does not read clocks, and receives
//! the time from its callers.

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
