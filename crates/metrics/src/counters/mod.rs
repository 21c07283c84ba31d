//! Counters and measurements. Threads rarely wait for each other, because they record in different
//! shards.

pub(crate) mod ages;
pub(crate) mod connection_stats;
pub(crate) mod keyed;
pub(crate) mod namespaces;
pub(crate) mod notes;
pub(crate) mod percentiles;
pub(crate) mod replies;
pub(crate) mod server_stats;
pub(crate) mod shards;
pub(crate) mod summary;
pub(crate) mod values;

pub use ages::{Ages, is_sampled};
pub use connection_stats::{ConnectionFigures, ConnectionStats};
pub use keyed::{CounterSet, KEYS_MAX, Keyed, PercentilesSet, SummarySet, Tally};
pub use notes::{DatabaseLoad, GroupApplied, LogTimes};
pub use percentiles::{Distribution, Percentiles};
pub use replies::Replies;
pub use server_stats::{ServerFigures, ServerStats};
pub use shards::Counter;
pub use summary::{BufferSizes, BufferStats, Moments, Summary};
