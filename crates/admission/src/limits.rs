//! Bounds on the memory of all clients together, each with its unit and reason.

use std::time::Duration;

/// Bytes of the longer replies of all connections at a time. A reply above this value is made
/// alone.
pub const LARGE_REPLIES_BYTES: usize = 16 << 20;

/// Bytes of the longer requests of all connections that are read and not yet submitted. Such
/// requests are incomplete, wait for a permit of the pipeline, or are reads that wait for their
/// turn.
pub const LARGE_FRAMES_BYTES: usize = 4 << 20;

/// Bytes that a member holds for all its connections: requests that wait for their turn, and
/// unwritten events and short replies. Each connection may hold as many bytes as are still free.
pub const HELD_BYTES_MAX: usize = 16 << 20;

/// Bytes that a connection may hold regardless of the others. A burst of events must not disconnect
/// clients that read them.
pub const HELD_BYTES_OF_EACH: usize = 64 << 10;

/// Maximum bytes of a request that is limited only by `globalOutstandingLimit`.
pub const REQUEST_BYTES_SMALL: usize = 4 << 10;

/// Bytes of longer requests of all connections, from the connection to the tree. Above this value,
/// the next request waits in its connection. A leader has several copies of each: for its log, and
/// for every learner.
pub const LARGE_REQUESTS_BYTES: usize = 1 << 20;

/// Addresses whose failed logins are counted at a time, about a hundred bytes each. Above this
/// number, the oldest minute is forgotten.
pub(crate) const FAILED_ADDRESSES_MAX: usize = 16 << 10;

/// Addresses and identities without a connection whose budget shares are kept. Above this number,
/// shares without a debt are removed.
pub(crate) const BUDGET_SHARES_KEPT: usize = 2000;

/// Time that a client may use for each started MiB of a large reply or request while other
/// connections wait for the memory. After that, its connection is closed.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(10);
