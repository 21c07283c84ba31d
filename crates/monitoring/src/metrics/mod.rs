//! Counters and measurements of the server.
//!
//! ```text
//!   hot paths --record--> Metrics, ServerStats, ConnectionStats     (shards, no waiting)
//!                              |
//!   state of the server --> Gauges --> Metrics::read --> mntr, admin monitor, Prometheus
//! ```
//!
//! One table contains every metric. The crate does not have a global registry. Code that records
//! receives an `Arc<Metrics>`.

mod ages;
mod connection_stats;
#[cfg(test)]
mod document;
mod gauges;
mod keyed;
pub mod mntr;
mod namespaces;
mod notes;
mod percentiles;
mod process;
pub mod prometheus;
mod read;
mod replies;
mod server_stats;
mod shards;
mod summary;
mod table;
mod text;
mod unfed;

pub use ages::{Ages, is_sampled};
pub use connection_stats::{ConnectionFigures, ConnectionStats};
pub use gauges::{Gauges, NamespaceQuota, Number, State};
pub use keyed::{CounterSet, KEYS_MAX, Keyed, PercentilesSet, SummarySet, Tally};
pub use notes::{DatabaseLoad, GroupApplied, LogTimes};
pub use percentiles::{Distribution, Percentiles};
pub use process::{Descriptors, Memory, ProcessFigures};
pub use read::read_all;
pub use replies::Replies;
pub use server_stats::{ServerFigures, ServerStats};
pub use shards::Counter;
pub use summary::{BufferSizes, BufferStats, Moments, Summary};
pub use table::{Kind, Metric, Metrics, Reading, ShownBy, TABLE};
pub use text::Decimal;
pub use unfed::UNFED;
