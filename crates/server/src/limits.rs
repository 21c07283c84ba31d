//! Bounds on queues and groups of the server's threads, each with its unit and reason.
//! [`frontend::limits`] contains the bounds for clients, and [`quorum::limits`] the bounds for
//! other members.

#![cfg_attr(
    not(feature = "history"),
    allow(dead_code, reason = "limits of the history thread")
)]

use std::time::Duration;

use frontend::limits::{BATCH_REQUESTS_MAX, UNANSWERED_MAX};
use quorum::limits::PEER_QUEUE_BYTES_MAX;
use replica::connection::IDENTITY_BYTES_MAX;

/// Maximum size of committed transactions that wait for the history thread, bytes. Above it,
/// transactions are skipped, and the thread reads them from the log.
pub(crate) const HISTORY_QUEUE_BYTES: usize = 16 << 20;

/// Maximum number of groups of transactions that wait for the history thread.
pub(crate) const HISTORY_GROUPS_MAX: usize = 4096;

/// Size of paths and data up to which a transaction is copied for the history, bytes. Longer
/// transactions are shared.
pub(crate) const HISTORY_COPIED_MAX: usize = 4 << 10;

/// Maximum number of transactions in a group. A group is sent when the tree is unlocked, which
/// happens at least every 128 transactions.
pub(crate) const HISTORY_GROUP_MAX: usize = 4096;

/// Number of turns of the core that a thread with a message runs before it leaves the rest to the
/// core's own thread.
pub(crate) const INLINE_TURNS_MAX: usize = 4;

/// Number of times that the core's own thread yields before it sleeps, so that other threads can
/// send messages.
pub(crate) const YIELDS_BEFORE_PARK: usize = 8;

/// Maximum number of requests that the core prepares before it passes them to the log.
pub(crate) const PREPARE_GROUP_MAX: usize = 1000;

/// Capacity of the channel from the core to the log thread. Each message is a whole group or an
/// order.
pub(crate) const LOG_GROUPS_MAX: usize = 8;

/// Number of written groups that are kept for reuse, because one is being filled while another is
/// written.
pub(crate) const LOG_GROUPS_KEPT: usize = 1;

/// Time for which a stopping server waits for a snapshot. Most snapshots finish within this time,
/// and service managers and container runtimes wait longer.
pub(crate) const STOP_SNAPSHOT_GRACE: Duration = Duration::from_secs(5);

/// Interval between reports about log lines that were suppressed in minutes that have ended.
pub(crate) const SUPPRESSED_LINES_EVERY: Duration = Duration::from_secs(5);

// The identities of one connection's requests in progress must fit into the queue for the leader.
const _: () = assert!(UNANSWERED_MAX * IDENTITY_BYTES_MAX <= PEER_QUEUE_BYTES_MAX / 2);

// The core must be able to prepare a whole batch of a connection in one turn.
const _: () = assert!(BATCH_REQUESTS_MAX <= PREPARE_GROUP_MAX);

#[cfg(test)]
mod tests {
    use admission::limits::{
        HELD_BYTES_MAX, HELD_BYTES_OF_EACH, LARGE_FRAMES_BYTES, LARGE_REPLIES_BYTES,
        LARGE_REQUESTS_BYTES, MEMORY_PATIENCE, REQUEST_BYTES_SMALL,
    };
    use frontend::limits::{
        CORE_REPLIES, CORE_REPLY_BYTES, FRAME_BYTES_SMALL, LONG_WORDS_AT_A_TIME, OUTBOX_BYTES_HARD,
        OUTBOX_BYTES_SOFT, REPLY_BYTES_SMALL, UNANSWERED_BYTES_MAX, UNREAD_EVENT_BYTES_MAX,
        WATCHES_REMOVED_AT_ONCE,
    };
    use metrics::audit::QUEUE_BYTES_MAX;
    use quorum::limits::{
        INTRODUCTION_BYTES_MAX, LEARNER_LINKS_MAX, PEER_READ_AHEAD_BYTES, RELAYED_BYTES_MAX,
    };
    use replica::connection::{IDENTITIES_MAX, LIST_SHORT, REPLIES_BEFORE_WRITE_BYTES};

    use super::*;

    /// Formats a number of bytes as on the documentation page.
    fn bytes(count: usize) -> String {
        match count.trailing_zeros() {
            20.. => format!("{} MiB", count >> 20),
            10.. => format!("{} KiB", count >> 10),
            _ => count.to_string(),
        }
    }

    /// Returns the documentation page's rows about requests.
    fn of_requests() -> Vec<(String, String)> {
        let patience = format!("{} s for each started MiB", MEMORY_PATIENCE.as_secs());
        let frames = format!(
            "bytes of requests above {} that the pipeline has not accepted yet",
            bytes(FRAME_BYTES_SMALL)
        );
        let pipeline = format!(
            "bytes of requests above {} in the pipeline",
            bytes(REQUEST_BYTES_SMALL)
        );
        let held = format!(
            "bytes of waiting requests, events, and replies up to {}",
            bytes(REPLY_BYTES_SMALL)
        );
        let share = format!(
            "{}; a connection may use the free bytes, or {} if fewer are free",
            bytes(HELD_BYTES_MAX),
            bytes(HELD_BYTES_OF_EACH)
        );
        let slow_request = format!(
            "time to receive a request above {}",
            bytes(FRAME_BYTES_SMALL)
        );
        vec![
            ("identities".into(), IDENTITIES_MAX.to_string()),
            ("bytes of identities".into(), bytes(IDENTITY_BYTES_MAX)),
            ("unanswered requests".into(), UNANSWERED_MAX.to_string()),
            (
                "bytes of unanswered requests".into(),
                bytes(UNANSWERED_BYTES_MAX),
            ),
            (held, share),
            (frames, bytes(LARGE_FRAMES_BYTES)),
            (slow_request, patience),
            (pipeline, bytes(LARGE_REQUESTS_BYTES)),
        ]
    }

    /// Returns the documentation page's rows about answers and events.
    fn of_replies() -> Vec<(String, String)> {
        let patience = format!("{} s for each started MiB", MEMORY_PATIENCE.as_secs());
        let large = format!("bytes of replies above {}", bytes(REPLY_BYTES_SMALL));
        let slow_reader = format!("time to read a reply above {}", bytes(REPLY_BYTES_SMALL));
        let slow = format!(
            "concurrent long reads: searches of the tree, lists of more than {LIST_SHORT} entries"
        );
        let words =
            "concurrent answers to `cons`, `dump`, `stat`, `wchc`, `wchp` and similar commands";
        let at_once = "watches removed in one step when a connection ends";
        vec![
            (
                "bytes of replies that wait to be written".into(),
                bytes(OUTBOX_BYTES_SOFT),
            ),
            (large, bytes(LARGE_REPLIES_BYTES)),
            (slow_reader, patience),
            (slow, "half of the processors, at least 1".into()),
            (
                "replies created together with a write".into(),
                CORE_REPLIES.to_string(),
            ),
            (
                "bytes of replies created together with a write".into(),
                bytes(CORE_REPLY_BYTES),
            ),
            (
                "expected bytes of replies to reads between two writes".into(),
                bytes(REPLIES_BEFORE_WRITE_BYTES),
            ),
            (
                "bytes of unread events".into(),
                bytes(UNREAD_EVENT_BYTES_MAX),
            ),
            (at_once.into(), WATCHES_REMOVED_AT_ONCE.to_string()),
            (words.into(), LONG_WORDS_AT_A_TIME.to_string()),
            ("bytes of audit lines".into(), bytes(QUEUE_BYTES_MAX)),
        ]
    }

    /// Returns the documentation page's rows about other members.
    fn of_members() -> Vec<(String, String)> {
        vec![
            (
                "bytes that wait for another member".into(),
                bytes(PEER_QUEUE_BYTES_MAX),
            ),
            (
                "bytes of received packets that wait for the core".into(),
                bytes(PEER_READ_AHEAD_BYTES as usize),
            ),
            (
                "bytes of the first packet of a learner".into(),
                bytes(INTRODUCTION_BYTES_MAX),
            ),
            (
                "bytes of observers' requests that wait for the leader".into(),
                bytes(RELAYED_BYTES_MAX),
            ),
            ("learners".into(), LEARNER_LINKS_MAX.to_string()),
        ]
    }

    #[test]
    fn the_documented_limits_equal_the_constants() {
        let page = include_str!("../../../docs/LIMITS.md");
        for (what, bound) in [of_requests(), of_replies(), of_members()].concat() {
            let row = format!("\n| {what} | {bound} |");
            assert!(page.contains(&row), "docs/LIMITS.md lacks {row}");
        }
        let hard = format!("more than {} of answers", bytes(OUTBOX_BYTES_HARD));
        assert!(page.contains(&hard), "docs/LIMITS.md lacks {hard}");
    }
}
