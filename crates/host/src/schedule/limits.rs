//! Bounds of the schedule. Each value was measured.

use std::time::Duration;

/// Consecutive groups of one transaction after which a member assumes a lone writer. Sixteen
/// writers rarely cause that number.
pub(super) const LONE_AFTER_GROUPS: u32 = 8;

/// Flushes of packets and of the log that one turn defers because more inputs follow.
pub(super) const FLUSHES_DEFERRED_MAX: usize = 16;

/// Transactions that the core syncs itself. A larger group comes from pipelining clients: the core
/// has the next group to prepare meanwhile.
pub(super) const LOG_GROUP_SYNCED_BY_CORE_MAX: usize = 4;

/// Bytes of a group that the core syncs itself: the core has other work than to copy long
/// transactions.
pub(super) const LOG_GROUP_BYTES_SYNCED_BY_CORE_MAX: usize = 64 << 10;

/// Transactions up to which the log thread runs the core after the sync. A wake-up of the core's
/// thread takes as long. Running the core after larger groups there would reduce the throughput of
/// many clients.
pub(super) const LOG_GROUP_INLINE_MAX: usize = 16;

/// Processors with which the core writes to clients although other work waits for it.
pub(super) const PROCESSORS_FEW: usize = 2;

/// Clients to which the core writes itself in one turn. The tasks of more clients share the
/// processors.
pub(super) const CLIENTS_WRITTEN_BY_CORE_MAX: usize = 16;

/// Bytes that the core writes to one client: it has other work than to copy long replies.
pub const CLIENT_BYTES_WRITTEN_BY_CORE_MAX: usize = 64 << 10;

/// Members to which the core writes itself in one turn.
pub(super) const LINKS_WRITTEN_BY_CORE_MAX: usize = 8;

/// Duration of a sync above which the log thread must sync the next groups.
pub(super) const SYNC_BY_CORE_SLOW: Duration = Duration::from_millis(5);

/// Number of groups that the log thread must sync after a slow sync.
pub(super) const GROUPS_LEFT_TO_LOG_THREAD: u32 = 1000;

/// Maximum time for which an observer's transaction waits for others that are synced with it, ms.
pub(super) const OBSERVER_GROUP_MS: i64 = 50;

/// Size of an observer's group at which it does not wait any more, bytes.
pub(super) const OBSERVER_GROUP_BYTES: usize = 1 << 20;
