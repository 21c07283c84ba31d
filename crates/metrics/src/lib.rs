//! Information about a server for operators: metrics, the role, and four-letter words.
//!
//! * [`Metrics`] contains the counters and measurements. [`TABLE`] lists every metric.
//! * [`audit`] creates the lines of the audit log.
//! * [`log_levels`] contains the levels of the log, which can change at runtime.
//! * [`role`] contains the role of a member in its ensemble. The code that runs the member updates
//!   the role.
//! * [`view`] is the interface to the server. The server implements [`view::View`].
//! * [`fourlw`] answers the four-letter words from such a view.
//! * [`threads`] lists the threads of the process.
//! * [`traces`] records the stages of sampled writes.
//! * [`usage`] sums up the requests of clients. [`slow`] keeps slow requests.
//!
//! Except for waits for a full audit queue, this crate does not influence the behaviour of a
//! server. It does not read clocks but receives the time from its callers.

pub mod audit;
mod counters;
pub mod dates;
pub mod fourlw;
mod log;
mod process;
mod requests;
pub mod role;
mod table;
pub mod view;

pub use counters::{
    Ages, BufferSizes, BufferStats, ConnectionFigures, ConnectionStats, Counter, CounterSet,
    DatabaseLoad, Distribution, GroupApplied, KEYS_MAX, Keyed, LogTimes, Moments, Percentiles,
    PercentilesSet, Replies, ServerFigures, ServerStats, Summary, SummarySet, Tally, is_sampled,
};
pub use log::{log_levels, recent_log};
pub use process::{Descriptors, Memory, ProcessFigures, environment, threads, version};
pub use requests::{slow, traces};
pub use table::{
    Decimal, Gauges, Kind, Metric, Metrics, NamespaceQuota, Number, Reading, ServerGauges, ShownBy,
    TABLE, UNFED, mntr, prometheus, read_all,
};
pub use view::usage;
