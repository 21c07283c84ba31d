//! Bounds of the schedule. Each value was measured.

use std::time::Duration;

/// Number of consecutive groups of one transaction after which a member assumes a single writer.
/// Sixteen writers rarely cause that number.
pub(super) const LONE_AFTER_GROUPS: u32 = 8;

/// Maximum number of flushes of packets and of the log that one turn defers because more inputs
/// follow.
pub(super) const FLUSHES_DEFERRED_MAX: usize = 16;

/// Maximum number of transactions that the core syncs itself. A larger group comes from clients
/// that pipeline requests, so the core has the next group to prepare meanwhile.
pub(super) const LOG_GROUP_SYNCED_BY_CORE_MAX: usize = 4;

/// Maximum size of a group that the core syncs itself, bytes. The core has more important work than
/// copying long transactions.
pub(super) const LOG_GROUP_BYTES_SYNCED_BY_CORE_MAX: usize = 64 << 10;

/// Maximum number of transactions in a group after whose sync the log thread runs the core. For
/// such a group, waking the core's own thread would take as long as running the core. For larger
/// groups, running the core on the log thread would reduce the throughput with many clients.
pub(super) const LOG_GROUP_INLINE_MAX: usize = 16;

/// Number of processors up to which the core writes to clients even though other work waits for it.
pub(super) const PROCESSORS_FEW: usize = 2;

/// Maximum number of clients to which the core writes itself in one turn. For more clients, their
/// tasks write, because they can use several processors.
pub(super) const CLIENTS_WRITTEN_BY_CORE_MAX: usize = 16;

/// Maximum number of bytes that the core writes to one client. The core has more important work
/// than copying long replies.
pub const CLIENT_BYTES_WRITTEN_BY_CORE_MAX: usize = 64 << 10;

/// Maximum number of members to which the core writes itself in one turn.
pub(super) const LINKS_WRITTEN_BY_CORE_MAX: usize = 8;

/// Duration of a sync above which the log thread must sync the next groups.
pub(super) const SYNC_BY_CORE_SLOW: Duration = Duration::from_millis(5);

/// Number of groups that the log thread must sync after a slow sync.
pub(super) const GROUPS_LEFT_TO_LOG_THREAD: u32 = 1000;

/// Maximum time for which an observer's transaction waits for others that are synced with it, ms.
pub(super) const OBSERVER_GROUP_MS: i64 = 50;

/// Size of an observer's group at which the group no longer waits, bytes.
pub(super) const OBSERVER_GROUP_BYTES: usize = 1 << 20;
