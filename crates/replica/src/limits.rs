//! Bounds of what others can make grow, each with its unit and reason.

/// Transactions applied under one exclusive hold of the tree, so that readers get their turn.
pub(crate) const APPLY_GROUP_MAX: usize = 128;

/// Bytes that are kept for the record that is encoded next: those of thousands of small ones.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// Bytes of transactions that may wait for a learner's log; then no more packets are read. They wait
/// in its leader, which drops a learner that has stopped answering: the disk stands still.
pub(crate) const LEARNER_BACKLOG_BYTES: usize = 24 << 20;

/// Bytes of transactions that may wait for a leader's log. Its followers' disks go on committing, so
/// nothing else would end it. Long requests wait for the log, so a disk that is only slow does not
/// come here.
pub(crate) const LEADER_BACKLOG_BYTES: usize = 32 << 20;

/// Bytes of the longest request that a leader orders as soon as it comes.
pub(crate) const LONG_REQUEST_BYTES: usize = 4 << 10;

/// Bytes of longer ones that a leader proposes before it has committed them and has them in its log. It
/// has some six copies of each: for its log, for its learners and for its tree; and short ones that come
/// behind them are committed behind them.
pub(crate) const LONG_BYTES_UNDER_WAY: usize = 2 << 20;

/// Bytes of longer ones that it proposes before they are in the logs of its followers.
pub(crate) const LONG_BYTES_AHEAD_OF_FOLLOWERS: usize = 4 << 20;

/// How long a follower may owe an acknowledgement before nobody waits for its log any more, ms.
pub(crate) const FOLLOWER_PATIENCE_MS: i64 = 2000;

/// Bytes of learners' requests that wait to be proposed; what comes then is refused, see below.
pub(crate) const LONG_BYTES_WAITING: usize = 6 << 20;

/// Bytes of one learner's requests that wait whatever those of others take. Learners of this kind pass
/// on less at a time.
pub(crate) const LONG_BYTES_WAITING_OF_LINK: usize = 2 << 20;

/// Before a leader that was found wanting is looked for again, ms. Apache ZooKeeper comes back at
/// once, 40 to 250 times a second.
pub(crate) const LOOK_PAUSE_MS: i64 = 1000;

/// Shortest time without a leader after which reads are served, ms: an election is over sooner, if it
/// can be won at all.
pub(crate) const READ_ONLY_AFTER_MS_MIN: i64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_limits_says_what_holds() {
        let page = include_str!("../../../docs/LIMITS.md");
        let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
        let rows = [
            (
                "bytes of requests above 4 KiB that a leader has proposed and not committed, or not in its log",
                format!("{}, or one", mib(LONG_BYTES_UNDER_WAY)),
            ),
            (
                "the same, not in the logs of the followers; one that owes an acknowledgement for 2 s counts no more",
                format!("{}, or one", mib(LONG_BYTES_AHEAD_OF_FOLLOWERS)),
            ),
            (
                "bytes of learners' requests that wait for that",
                format!(
                    "{}, and {} of each learner",
                    mib(LONG_BYTES_WAITING),
                    mib(LONG_BYTES_WAITING_OF_LINK)
                ),
            ),
            (
                "bytes that wait for a leader's log",
                format!(
                    "{}; or long requests wait for `syncLimit`",
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
