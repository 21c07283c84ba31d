//! Bounds of everything a client or another member can make grow, each with its unit and reason.

use std::time::Duration;

/// Bytes reserved for a connection's first reply in an idle outbox: a handful of small replies.
pub(crate) const OUTBOX_BYTES_START: usize = 2 << 10;

/// Bytes of unsent events after which a client that does not read is given up. Replies are not
/// counted against it: a connection with unsent output is not read from, so they cannot pile up.
pub(crate) const UNREAD_EVENT_BYTES_MAX: usize = 8 << 20;

/// Bytes of replies after which those that are there are written before more are made: reads,
/// pipelined, must not be held all at once, and a client that does not read must not cost more.
pub(crate) const OUTBOX_BYTES_SOFT: usize = 256 << 10;

/// Bytes of the longest reply that is made as soon as it is asked for. A longer one has to find room
/// in [`LARGE_REPLIES_BYTES`].
pub(crate) const REPLY_BYTES_SMALL: usize = 64 << 10;

/// Bytes of the longer replies of all connections that are there at a time. One that is longer than
/// this is there alone.
pub(crate) const LARGE_REPLIES_BYTES: usize = 16 << 20;

/// How long a client may take for each started MiB of a large reply, or of a large request, if other
/// connections wait for the room. Then it is cut off.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the longest reply there can be: the length in front of it has 31 bits.
pub(crate) const REPLY_BYTES_MAX: usize = (1 << 31) - 1;

/// Unanswered requests of a connection after which it is not read from.
pub(crate) const UNANSWERED_MAX: usize = 1024;

/// Bytes of unanswered requests of a connection after which it is not read from.
pub(crate) const UNANSWERED_BYTES_MAX: usize = 4 << 20;

/// Bytes of the longest request that is read as it comes. A longer one has to find room in
/// [`LARGE_FRAMES_BYTES`] first.
pub(crate) const FRAME_BYTES_SMALL: usize = READ_CHUNK_BYTES;

/// Bytes of the longer requests of all connections that are read and not handed on: those that have
/// not come in whole, wait for a place in the pipeline, or are reads that wait for their turn.
pub(crate) const LARGE_FRAMES_BYTES: usize = 4 << 20;

/// Bytes that a member holds for all its connections: requests that wait for their turn, replies of
/// up to [`REPLY_BYTES_SMALL`] and events that are not written. Each connection may hold as much as
/// is still free.
pub(crate) const HELD_BYTES_MAX: usize = 16 << 20;

/// Bytes that a connection may hold however much the others do: a burst of events must not cut off
/// those who read them.
pub(crate) const HELD_BYTES_OF_EACH: usize = 64 << 10;

/// Bytes of the longest request that counts as nothing but one of `globalOutstandingLimit`.
pub(crate) const REQUEST_BYTES_SMALL: usize = 4 << 10;

/// Bytes of longer requests of all connections from here to the tree, beyond which the next one waits
/// in its connection. A leader has several copies of each: for its log, and for every learner.
pub(crate) const LARGE_REQUESTS_BYTES: usize = 1 << 20;

/// Bytes of replies to reads behind a write that the core makes while it holds the tree for itself.
/// The connection's own task makes the others.
pub(crate) const CORE_REPLY_BYTES: usize = 64 << 10;

/// Such reads that it answers: some 50 us of work.
pub(crate) const CORE_REPLIES: usize = 64;

/// Bytes of replies, as far as they can be known, to reads that wait behind a write, beyond which
/// the write that comes next waits as well. The core must answer what stands in front of a write
/// before it applies it.
pub(crate) const REPLIES_BEFORE_WRITE_BYTES: usize = 256 << 10;

/// Bytes in the outbox up to which the core answers such reads, if the task has not come to them.
/// Beyond it they are refused: their znodes have become longer after they were asked for.
pub(crate) const OUTBOX_BYTES_HARD: usize = 1 << 20;

/// Identities of a connection: clients prove a handful. Each is compared with each ACL entry.
pub(crate) const IDENTITIES_MAX: usize = 128;

/// Bytes of a connection's identities. They go with each of its requests to the leader, and
/// [`UNANSWERED_MAX`] of those may be under way: together they stay far below
/// [`PEER_QUEUE_BYTES_MAX`], and each string far below what a Java leader reads.
pub(crate) const IDENTITY_BYTES_MAX: usize = 16 << 10;

/// Bytes of committed transactions that wait for the history thread. Beyond it they are left out, and
/// it reads them from the log.
pub(crate) const HISTORY_QUEUE_BYTES: usize = 16 << 20;

/// Groups of them.
pub(crate) const HISTORY_GROUPS_MAX: usize = 1024;

/// Transactions of one group: the tree is let go at least every 128.
pub(crate) const HISTORY_GROUP_MAX: usize = 4096;

/// Bytes of audit lines that wait for their file, beside `auditlog.queueSize` lines.
pub(crate) const AUDIT_BYTES_MAX: usize = 64 << 20;
/// Entries of the longest list (multiRead, setWatches) that is not a read that takes long.
pub(crate) const LIST_SHORT: usize = 64;

/// Watches of a connection that has ended that are removed at once, some 100 us of work.
pub(crate) const WATCHES_REMOVED_AT_ONCE: usize = 500;

/// Bytes asked from the socket in one read: holds 256 small requests and bounds what an idle
/// moment leaves allocated.
pub(crate) const READ_CHUNK_BYTES: usize = 16 << 10;

/// Requests decoded before they are answered: bounds how long the tree is held shared, and how
/// many permits one connection takes at a time.
pub(crate) const BATCH_REQUESTS_MAX: usize = 64;

/// Requests the core prepares before it hands them to the log.
pub(crate) const PREPARE_GROUP_MAX: usize = 1000;

/// Messages between the core and the log thread, each a whole group.
pub(crate) const LOG_GROUPS_MAX: usize = 8;

/// Bytes that a group of transactions for the log is given at once, at most: those of some hundred
/// that come together.
pub(crate) const LOG_GROUP_BYTES_START_MAX: usize = 256 << 10;

/// Transactions that the core syncs itself when nothing else is under way. A larger group comes
/// from pipelining clients: there the core has the next one to prepare meanwhile.
pub(crate) const LOG_GROUP_SYNCED_BY_CORE_MAX: usize = 4;

/// How long an observer's transactions may wait for others to be synced with, ms.
pub(crate) const OBSERVER_GROUP_MS: i64 = 50;

/// Bytes of transactions for which an observer's log does not wait any longer.
pub(crate) const OBSERVER_GROUP_BYTES: usize = 1 << 20;

/// Bytes of tree that a snapshot encodes under one shared hold: some 50 us of work, since its thread
/// may lose the processor while it holds the tree.
pub(crate) const SNAPSHOT_CHUNK_BYTES: usize = 48 << 10;

/// Snapshots that take less are begun whenever `snapCount` says so.
pub(crate) const SNAPSHOT_SHORT: Duration = Duration::from_millis(100);

/// After a longer one the next begins no sooner than after so many times what it took: a quarter of
/// the time at most goes into snapshots.
pub(crate) const SNAPSHOT_REST_FACTOR: u32 = 3;

/// But no later than this: what is logged meanwhile has to be read at the next start.
pub(crate) const SNAPSHOT_REST_MAX: Duration = Duration::from_secs(60);

/// How long a stopping server waits for a snapshot: most are finished by then, and whoever stops
/// the server (a service manager, a container's host) has more patience than this.
pub(crate) const STOP_SNAPSHOT_GRACE: Duration = Duration::from_secs(5);

/// Bytes of packets that a member may have sent ahead of the core; then its connection is not read
/// from. A few of the largest requests and thousands of small ones.
pub(crate) const PEER_READ_AHEAD_BYTES: u32 = 4 << 20;

/// What a batch of packets counts for at least, so that the core's inbox holds no more than 256
/// batches of one connection however small they are.
pub(crate) const PEER_BATCH_BYTES_MIN: u32 = 16 << 10;

/// Bytes asked from another member's socket in one read.
pub(crate) const PEER_READ_BYTES: usize = 64 << 10;

/// Bytes of the longest field of a learner's first packet: it says who it is, in 20 bytes.
pub(crate) const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Bytes of packets put together for one write to another member.
pub(crate) const PEER_WRITE_BYTES: usize = 256 << 10;

/// Bytes that may wait for a member that takes them in too slowly; then it is dropped, and starts
/// again with what it has. The history that it is brought up to date with comes on top: that is as
/// much as it has missed, and the leader has it in memory anyway. So does the size of the tree
/// while a snapshot is sent: what is proposed meanwhile waits behind it. Both fall as it is written.
pub(crate) const PEER_QUEUE_BYTES_MAX: usize = 32 << 20;

/// Connections of learners at a time; ensembles have dozens. Each costs its buffers.
pub(crate) const LEARNER_LINKS_MAX: usize = 1024;

/// Bytes of the transaction log read at a time for a learner.
pub(crate) const LOG_PAGE_BYTES: usize = 1 << 20;

/// Longest wait for the name of this server's own quorum address.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Shortest time between two reports that a snapshot is still coming in.
pub(crate) const SNAPSHOT_PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Connections to a port that speaks HTTP at a time; more wait in the kernel. Probes, scrapers and a few
/// people need a handful.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 64;

/// Bytes of the head of an HTTP request, as Jetty's `requestHeaderSize`.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Headers of an HTTP request.
pub(crate) const HTTP_HEADERS_MAX: usize = 64;

/// Bytes of a snapshot that are read at a time for whoever fetches it.
pub(crate) const SNAPSHOT_PIECE_BYTES: usize = 64 << 10;

/// Pieces of a snapshot that wait for a caller who takes them in too slowly.
pub(crate) const SNAPSHOT_PIECES_MAX: usize = 4;

// All that one connection may have under way must fit into its leader's queue.
const _: () = assert!(UNANSWERED_MAX * IDENTITY_BYTES_MAX <= PEER_QUEUE_BYTES_MAX / 2);

// A connection must always be able to get the permits of a whole batch.
const _: () = assert!(BATCH_REQUESTS_MAX <= PREPARE_GROUP_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of bytes as the page writes it.
    fn bytes(count: usize) -> String {
        match count.trailing_zeros() {
            20.. => format!("{} MiB", count >> 20),
            10.. => format!("{} KiB", count >> 10),
            _ => count.to_string(),
        }
    }

    /// What the page says of requests.
    fn of_requests() -> Vec<(String, String)> {
        let patience = format!("{} s for each started MiB", ROOM_PATIENCE.as_secs());
        let frames = format!(
            "bytes of requests above {} that are read and not handed on",
            bytes(FRAME_BYTES_SMALL)
        );
        let pipeline = format!("bytes of those above {}", bytes(REQUEST_BYTES_SMALL));
        let held = format!(
            "bytes held for connections: requests that wait, events, replies up to {}",
            bytes(REPLY_BYTES_SMALL)
        );
        let share = format!(
            "{}; each as much as is free, and always {}",
            bytes(HELD_BYTES_MAX),
            bytes(HELD_BYTES_OF_EACH)
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
            ("time to send such a request".into(), patience),
            (pipeline, bytes(LARGE_REQUESTS_BYTES)),
        ]
    }

    /// What it says of answers and events.
    fn of_replies() -> Vec<(String, String)> {
        let patience = format!("{} s for each started MiB", ROOM_PATIENCE.as_secs());
        let large = format!("bytes of replies above {}", bytes(REPLY_BYTES_SMALL));
        let slow = format!(
            "reads at a time that take long: walks of the tree, lists of more than {LIST_SHORT} entries"
        );
        let at_once = "watches removed at once when a connection ends";
        vec![
            (
                "bytes of replies made ahead".into(),
                bytes(OUTBOX_BYTES_SOFT),
            ),
            (large, bytes(LARGE_REPLIES_BYTES)),
            ("time to take such a reply in".into(), patience),
            (slow, "half of the processors, at least 1".into()),
            (
                "replies made together with a write".into(),
                CORE_REPLIES.to_string(),
            ),
            (
                "bytes of replies made together with a write".into(),
                bytes(CORE_REPLY_BYTES),
            ),
            (
                "bytes of replies expected between two writes".into(),
                bytes(REPLIES_BEFORE_WRITE_BYTES),
            ),
            (
                "bytes of unread events".into(),
                bytes(UNREAD_EVENT_BYTES_MAX),
            ),
            (at_once.into(), WATCHES_REMOVED_AT_ONCE.to_string()),
            ("bytes of audit lines".into(), bytes(AUDIT_BYTES_MAX)),
            (
                "connections to the admin server".into(),
                HTTP_CONNECTIONS_MAX.to_string(),
            ),
            (
                "bytes of a request's head".into(),
                bytes(HTTP_HEAD_BYTES_MAX),
            ),
            ("headers of a request".into(), HTTP_HEADERS_MAX.to_string()),
        ]
    }

    /// What it says of other members.
    fn of_members() -> Vec<(String, String)> {
        vec![
            (
                "bytes that wait for another member".into(),
                bytes(PEER_QUEUE_BYTES_MAX),
            ),
            (
                "bytes of packets read ahead of the core".into(),
                bytes(PEER_READ_AHEAD_BYTES as usize),
            ),
            (
                "bytes of the first packet of a learner".into(),
                bytes(INTRODUCTION_BYTES_MAX),
            ),
            ("learners".into(), LEARNER_LINKS_MAX.to_string()),
        ]
    }

    #[test]
    fn the_page_of_limits_says_what_holds() {
        let page = include_str!("../../../docs/LIMITS.md");
        for (what, bound) in [of_requests(), of_replies(), of_members()].concat() {
            let row = format!("\n| {what} | {bound} |");
            assert!(page.contains(&row), "docs/LIMITS.md lacks {row}");
        }
        let hard = format!("more than {} of answers", bytes(OUTBOX_BYTES_HARD));
        assert!(page.contains(&hard), "docs/LIMITS.md lacks {hard}");
    }
}
