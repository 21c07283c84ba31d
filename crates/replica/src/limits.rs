//! Bounds on memory and time that clients and other servers could otherwise use up, each with its
//! unit and reason.

/// Number of transactions applied during one exclusive hold of the tree, so that readers can run
/// between groups.
pub(crate) const APPLY_GROUP_MAX: usize = 128;

/// Maximum capacity that the buffer for encoding records retains between two records, bytes.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// Total size of the transactions that wait for a learner's log, above which the learner stops
/// reading packets, bytes. The packets then wait at its leader, which drops a learner that does not
/// answer because its disk hangs.
pub(crate) const LEARNER_BACKLOG_BYTES: usize = 24 << 20;

/// Total size of the transactions that wait for a leader's log, above which the leader steps down,
/// bytes. The followers' disks suffice to commit, so only this bound limits the amount. Long
/// requests wait for the log, so the bound is not reached merely because the disk is slow.
pub(crate) const LEADER_BACKLOG_BYTES: usize = 32 << 20;

/// Maximum size of a request that a leader orders immediately, bytes.
pub(crate) const LONG_REQUEST_BYTES: usize = 4 << 10;

/// Maximum total size of requests above [`LONG_REQUEST_BYTES`] that are proposed, but not yet both
/// committed and in the leader's log, bytes. A leader has about six copies of each: for its log,
/// for its learners and for its tree. They delay later short requests, which are committed after
/// them.
pub(crate) const LONG_BYTES_UNDER_WAY: usize = 2 << 20;

/// Maximum total size of requests above [`LONG_REQUEST_BYTES`] that are proposed but not yet in the
/// followers' logs, bytes.
pub(crate) const LONG_BYTES_AHEAD_OF_FOLLOWERS: usize = 4 << 20;

/// Time after which the leader ignores the log of a follower that owes an acknowledgement, ms.
pub(crate) const FOLLOWER_PATIENCE_MS: i64 = 2000;

/// Maximum total size of learners' requests that wait to be proposed, bytes. Further requests are
/// refused unless [`LONG_BYTES_WAITING_OF_LINK`] permits them.
pub(crate) const LONG_BYTES_WAITING: usize = 6 << 20;

/// Total size of one learner's requests that may always wait, whatever other learners use, bytes.
/// Zoarium learners forward less at a time.
pub(crate) const LONG_BYTES_WAITING_OF_LINK: usize = 2 << 20;

/// Pause before looking for a leader again after an unsuitable one, ms. Apache ZooKeeper retries
/// immediately, 40 to 250 times per second.
pub(crate) const LOOK_PAUSE_MS: i64 = 1000;

/// Minimum time without a leader after which reads are served, ms. An election takes less time if
/// it can be won at all.
pub(crate) const READ_ONLY_AFTER_MS_MIN: i64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_limits_equal_the_constants() {
        let page = include_str!("../../../docs/LIMITS.md");
        let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
        let rows = [
            (
                "bytes of requests above 4 KiB that a leader has proposed, but not committed or not logged",
                format!("{}, or one longer request", mib(LONG_BYTES_UNDER_WAY)),
            ),
            (
                "bytes of requests above 4 KiB that are not in the logs of all followers; a follower without an acknowledgement for 2 s is ignored",
                format!(
                    "{}, or one longer request",
                    mib(LONG_BYTES_AHEAD_OF_FOLLOWERS)
                ),
            ),
            (
                "bytes of learners' requests that wait for these two limits",
                format!(
                    "{}, but always {} for each learner",
                    mib(LONG_BYTES_WAITING),
                    mib(LONG_BYTES_WAITING_OF_LINK)
                ),
            ),
            (
                "bytes that wait for a leader's log",
                format!(
                    "{}, or any number for `syncLimit` if requests above 4 KiB wait",
                    mib(LEADER_BACKLOG_BYTES)
                ),
            ),
            (
                "bytes that wait for a learner's log",
                mib(LEARNER_BACKLOG_BYTES),
            ),
        ];
        for (what, bound) in rows {
            let row = format!("\n| {what} | {bound} |");
            assert!(page.contains(&row), "docs/LIMITS.md lacks {row}");
        }
        assert_eq!((LONG_REQUEST_BYTES, FOLLOWER_PATIENCE_MS), (4 << 10, 2000));
    }
}
