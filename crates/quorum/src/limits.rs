//! Limits on memory that another member could otherwise consume without bound, each with its unit
//! and reason.

use std::time::Duration;

/// Total size in bytes of a member's packets that wait for the core, above which the server does
/// not read from the connection. It suffices for a few of the largest requests and thousands of
/// small ones.
pub const PEER_READ_AHEAD_BYTES: u32 = 4 << 20;

/// Number of bytes queued for the leader above which a follower does not read more requests from
/// its observers. The follower's own requests and acknowledgements wait until these bytes are sent.
pub const RELAYED_BYTES_MAX: usize = 4 << 20;

/// Minimum number of bytes that is charged for a batch of packets. The core's inbox thus holds at
/// most 256 batches from one connection, even if they are small.
pub(crate) const PEER_BATCH_BYTES_MIN: u32 = 16 << 10;

/// Number of bytes requested from another member's socket in one read.
pub(crate) const PEER_READ_BYTES: usize = 64 << 10;

/// Maximum size of a field of a learner's first packet, in bytes. That packet identifies the
/// learner in 20 bytes.
pub const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Maximum number of bytes of packets that are combined in one write to another member.
pub(crate) const PEER_WRITE_BYTES: usize = 256 << 10;

/// Number of bytes that may wait for a slow member. Above this number, the member is disconnected
/// and must synchronise again. The packets that synchronise the member are not counted, because
/// their size depends on the transactions that it lacks. For a snapshot, the limit is also raised
/// by the size of the tree, because new proposals wait until the snapshot is written. Both
/// allowances shrink as the data is written.
pub const PEER_QUEUE_BYTES_MAX: usize = 32 << 20;

/// Maximum number of concurrent connections from learners. Ensembles have dozens of learners. Each
/// connection needs memory for its buffers.
pub const LEARNER_LINKS_MAX: usize = if cfg!(test) { 16 } else { 1024 };

/// Maximum number of learners that are logging in. Above this number, the oldest is closed in favour
/// of a new one.
pub(crate) const LOGINS_MAX: usize = LEARNER_LINKS_MAX;

/// Number of bytes of the transaction log that are read at a time for a learner.
pub(crate) const LOG_PAGE_BYTES: usize = 1 << 20;

/// Maximum wait for the name resolution of this server's own addresses.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum time between two reports that a snapshot is still arriving.
pub(crate) const SNAPSHOT_PROGRESS_EVERY: Duration = Duration::from_millis(100);
