//! Bounds on the memory that another member can make grow, each with its unit and reason.

use std::time::Duration;

/// Bytes of packets of a member that wait for the core. Above this value, its connection is not
/// read from. This is enough for a few of the largest requests and thousands of small ones.
pub const PEER_READ_AHEAD_BYTES: u32 = 4 << 20;

/// Bytes that wait for a leader above which a follower does not read more requests of its
/// observers. The follower's own requests and acknowledgements must follow these bytes.
pub const RELAYED_BYTES_MAX: usize = 4 << 20;

/// Minimum number of bytes that is charged for a batch of packets. So the core's inbox holds at
/// most 256 batches of one connection, even if they are small.
pub(crate) const PEER_BATCH_BYTES_MIN: u32 = 16 << 10;

/// Bytes requested from another member's socket in one read.
pub(crate) const PEER_READ_BYTES: usize = 64 << 10;

/// Maximum bytes of a field of a learner's first packet. That packet identifies the learner in 20
/// bytes.
pub const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Bytes of packets that are combined in one write to another member.
pub(crate) const PEER_WRITE_BYTES: usize = 256 << 10;

/// Bytes that may wait for a slow member. Above this value, it is disconnected, and starts again
/// with the data that it has. The log that it is synchronised with is not included: its size
/// depends on the missing transactions, and the leader has it in memory anyway. While a snapshot is
/// sent, the size of the tree is not included either, because new proposals wait after it. Both
/// allowances shrink as the data is written.
pub const PEER_QUEUE_BYTES_MAX: usize = 32 << 20;

/// Concurrent connections of learners. Ensembles have dozens. Each connection costs its buffers.
pub const LEARNER_LINKS_MAX: usize = 1024;

/// Bytes of the transaction log read at a time for a learner.
pub(crate) const LOG_PAGE_BYTES: usize = 1 << 20;

/// Maximum wait for the name resolution of this server's own addresses.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum time between two reports that a snapshot is still arriving.
pub(crate) const SNAPSHOT_PROGRESS_EVERY: Duration = Duration::from_millis(100);
