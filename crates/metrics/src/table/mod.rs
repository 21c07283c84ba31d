//! The table of metrics, and its formats.
//!
//! ```text
//!   hot paths --record--> Metrics, ServerStats, ConnectionStats     (shards, no waiting)
//!                              |
//!   state of the server --> Gauges --> Metrics::read --> mntr, admin monitor, Prometheus
//! ```
//!
//! One table contains every metric. The crate does not have a global registry. Code that records
//! values receives an `Arc<Metrics>`.

#[cfg(test)]
mod document;
pub(crate) mod gauges;
pub mod mntr;
pub mod prometheus;
mod read;
pub(crate) mod rows;
pub(crate) mod text;
mod unfed;

pub use gauges::{Gauges, NamespaceQuota, Number, ServerGauges};
pub use read::read_all;
pub use rows::{Kind, Metric, Metrics, Reading, ShownBy, TABLE};
pub use text::Decimal;
pub use unfed::UNFED;
