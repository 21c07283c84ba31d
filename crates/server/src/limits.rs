//! Bounds of everything a client can make grow, each with its unit and reason.

use std::time::Duration;

/// Bytes reserved for a connection's first reply in an idle outbox: a handful of small replies.
pub(crate) const OUTBOX_BYTES_START: usize = 2 << 10;

/// Bytes of unsent events after which a client that does not read is given up. Replies are not
/// counted against it: a connection with unsent output is not read from, so they cannot pile up.
pub(crate) const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// Bytes of replies after which those that are there are written before more are made: large
/// reads, pipelined, must not be held all at once.
pub(crate) const OUTBOX_BYTES_SOFT: usize = 1 << 20;

/// Unanswered requests of a connection after which it is not read from. Reads behind a write are
/// answered by the core in one go, so this also bounds how long they hold up the others.
pub(crate) const UNANSWERED_MAX: usize = 1024;

/// Bytes asked from the socket in one read: holds 256 small requests and bounds what an idle
/// moment leaves allocated.
pub(crate) const READ_CHUNK_BYTES: usize = 16 << 10;

/// Requests decoded before they are answered: bounds how long the tree is held shared, and how
/// many permits one connection takes at a time.
pub(crate) const BATCH_REQUESTS_MAX: usize = 64;

/// Transactions applied under one exclusive hold of the tree, so that readers get their turn.
pub(crate) const APPLY_GROUP_MAX: usize = 128;

/// Requests the core prepares before it hands them to the log.
pub(crate) const PREPARE_GROUP_MAX: usize = 1000;

/// Messages between the core and the log thread, each a whole group.
pub(crate) const LOG_GROUPS_MAX: usize = 8;

/// Bytes of tree that a snapshot encodes under one shared hold.
pub(crate) const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;

/// How long a stopping server waits for a snapshot: most are finished by then, and whoever stops
/// the server (a service manager, a container's host) has more patience than this.
pub(crate) const STOP_SNAPSHOT_GRACE: Duration = Duration::from_secs(5);

// A connection must always be able to get the permits of a whole batch.
const _: () = assert!(BATCH_REQUESTS_MAX <= PREPARE_GROUP_MAX);
