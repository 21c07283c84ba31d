//! Bounds of what others can make grow, each with its unit and reason.

/// Transactions applied under one exclusive hold of the tree, so that readers get their turn.
pub(crate) const APPLY_GROUP_MAX: usize = 128;

/// Bytes that are kept for the record that is encoded next: those of thousands of small ones.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// Bytes of transactions that may wait for a learner's log; then no more packets are read. They wait
/// in its leader, which drops a learner that has stopped answering: the disk stands still.
pub(crate) const LEARNER_BACKLOG_BYTES: usize = 64 << 20;

/// Bytes of transactions that may wait for a leader's log. Its followers' disks go on committing, so
/// nothing else would end it: seconds of the heaviest load, in which a disk that is only slow for a
/// moment has caught up.
pub(crate) const LEADER_BACKLOG_BYTES: usize = 128 << 20;

/// Before a leader that was found wanting is looked for again, ms. Apache ZooKeeper comes back at
/// once, 40 to 250 times a second.
pub(crate) const LOOK_PAUSE_MS: i64 = 1000;

/// Shortest time without a leader after which reads are served, ms: an election is over sooner, if it
/// can be won at all.
pub(crate) const READ_ONLY_AFTER_MS_MIN: i64 = 2000;
