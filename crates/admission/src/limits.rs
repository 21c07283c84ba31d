//! Limits on the memory of all clients together, each with its unit and reason.

use std::time::Duration;

/// Maximum total size of the large replies of all connections at a time, in bytes. A reply above
/// this size is produced alone.
pub const LARGE_REPLIES_BYTES: usize = 16 << 20;

/// Maximum total size in bytes of the large requests of all connections that have not been
/// submitted yet. Such requests are incomplete, wait for a permit of the pipeline, or are reads
/// that wait for their turn.
pub const LARGE_FRAMES_BYTES: usize = 4 << 20;

/// Maximum number of bytes that a server holds for all its connections: requests that wait for
/// their turn, and unwritten events and short replies. Each connection may hold as many bytes as
/// are still free.
pub const HELD_BYTES_MAX: usize = 16 << 20;

/// Number of bytes that a connection may hold regardless of the others, because a burst of events
/// must not disconnect clients that read them.
pub const HELD_BYTES_OF_EACH: usize = 64 << 10;

/// Maximum size in bytes of a request that only `globalOutstandingLimit` limits.
pub const REQUEST_BYTES_SMALL: usize = 4 << 10;

/// Maximum total size in bytes of requests above [`REQUEST_BYTES_SMALL`] in the pipeline, until
/// they are applied to the tree. Above this size, the next such request waits in its connection. A
/// leader holds several copies of each request: one for its log, and one for every learner.
pub const LARGE_REQUESTS_BYTES: usize = 1 << 20;

/// Maximum number of addresses whose failed logins are counted at a time. Each takes about a
/// hundred bytes. Above this number, the address whose minute began first is forgotten.
pub(crate) const FAILED_ADDRESSES_MAX: usize = 16 << 10;

/// Number of budget shares above which unused shares are removed. A share is unused if it does not
/// have a connection and is equivalent to a new share.
pub(crate) const BUDGET_SHARES_KEPT: usize = 2000;

/// Time that a client may take for each started MiB of a large reply or request while other
/// connections wait for the memory. After that time, its connection is closed.
pub const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
