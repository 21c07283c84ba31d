//! Bounds of everything a client or another member can make grow, each with its unit and reason.

use std::time::Duration;

use replica::connection::IDENTITY_BYTES_MAX;

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

/// Four-letter words with answers that may be long (`cons`, `dump`, `stat`, `wchc`, `wchp`) that are
/// made at a time. Those that are come to [`LARGE_REPLIES_BYTES`].
pub(crate) const LONG_WORDS_AT_A_TIME: usize = 1;

/// Sessions that are listed when the log is told what the server does (SIGQUIT): some 200 bytes each.
pub(crate) const REPORTED_SESSIONS_MAX: usize = 1000;

/// How long a client may take for each started MiB of a large reply, or of a large request, if other
/// connections wait for the room. Then it is cut off.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// How long the argument of a four-letter word may arrive later than the word. Apache ZooKeeper takes
/// only what has arrived with it (NIOServerCnxn.checkFourLetterWord).
pub(crate) const ARGUMENT_PATIENCE: Duration = Duration::from_secs(1);

/// Addresses whose failed logins are counted at a time, of some hundred bytes each. Beyond that the minute that began
/// first is forgotten.
pub(crate) const FAILED_ADDRESSES_MAX: usize = 16 << 10;

/// Addresses and identities without a connection that are remembered for what they owe of a budget, before those are
/// forgotten that owe nothing.
pub(crate) const BUDGET_SHARES_KEPT: usize = 2000;

/// Steps of logins by Kerberos that are worked on at a time: each has a thread, which waits for a disk or, where this
/// server logs in itself, for the KDC.
pub(crate) const KERBEROS_STEPS_AT_A_TIME: usize = 16;

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

/// Bytes in the outbox up to which the core answers reads that stand in front of a write, if the task has not come to them.
/// Beyond it they are refused: their znodes have become longer after they were asked for.
pub(crate) const OUTBOX_BYTES_HARD: usize = 1 << 20;

/// Bytes of committed transactions that wait for the history thread. Beyond it they are left out, and
/// it reads them from the log.
pub(crate) const HISTORY_QUEUE_BYTES: usize = 16 << 20;

/// Groups of them.
pub(crate) const HISTORY_GROUPS_MAX: usize = 4096;

/// Bytes of paths and data up to which a transaction is copied for the history; longer ones are shared.
pub(crate) const HISTORY_COPIED_MAX: usize = 4 << 10;

/// Transactions of one group: the tree is let go at least every 128.
pub(crate) const HISTORY_GROUP_MAX: usize = 4096;

/// Bytes of audit lines that wait for their file, beside `auditlog.queueSize` lines. With
/// `auditlog.neverBlock=false` requests wait at half of them, so that there is room for those of
/// requests that are under way.
pub(crate) const AUDIT_BYTES_MAX: usize = 16 << 20;

/// Watches of a connection that has ended that are removed at once, some 100 us of work.
pub(crate) const WATCHES_REMOVED_AT_ONCE: usize = 500;

/// Bytes asked from the socket in one read: holds 256 small requests and bounds what an idle
/// moment leaves allocated.
pub(crate) const READ_CHUNK_BYTES: usize = 16 << 10;

/// Requests decoded before they are answered: bounds how long the tree is held shared, and how
/// many permits one connection takes at a time.
pub(crate) const BATCH_REQUESTS_MAX: usize = 64;

/// Turns that a thread with a message gives the core before it leaves the rest to the core's own thread.
pub(crate) const INLINE_TURNS_MAX: usize = 4;

/// How often the core's own thread lets others run, to see whether they bring something, before it sleeps.
pub(crate) const YIELDS_BEFORE_PARK: usize = 8;

/// Requests the core prepares before it hands them to the log.
pub(crate) const PREPARE_GROUP_MAX: usize = 1000;

/// Messages between the core and the log thread, each a whole group.
pub(crate) const LOG_GROUPS_MAX: usize = 8;

/// Groups that were written and are kept to be filled again: one is being filled while another is
/// written.
pub(crate) const LOG_GROUPS_KEPT: usize = 1;

/// Bytes of transactions that such a group keeps room for: those of some hundred that come together.
pub(crate) const LOG_GROUP_BYTES_KEPT_MAX: usize = 256 << 10;

/// Transactions that it keeps room for.
pub(crate) const LOG_GROUP_TXNS_KEPT_MAX: usize = 1024;

/// Bytes from which on a transaction that waits for the log is shared with whoever else has it, and not
/// copied.
pub(crate) const LOG_PAYLOAD_BYTES_SHARED: usize = 16 << 10;

/// Bytes of tree that a snapshot encodes under one shared hold: some 50 us of work, since its thread
/// may lose the processor while it holds the tree.
pub(crate) const SNAPSHOT_CHUNK_BYTES: usize = 48 << 10;

/// How long a stopping server waits for a snapshot: most are finished by then, and whoever stops
/// the server (a service manager, a container's host) has more patience than this.
pub(crate) const STOP_SNAPSHOT_GRACE: Duration = Duration::from_secs(5);

/// Bytes of packets that a member may have sent ahead of the core; then its connection is not read
/// from. A few of the largest requests and thousands of small ones.
pub(crate) const PEER_READ_AHEAD_BYTES: u32 = 4 << 20;

/// Bytes that wait for a leader beyond which a follower reads no more of what its observers ask for.
/// Its own clients' requests and its acknowledgements come behind them.
pub(crate) const RELAYED_BYTES_MAX: usize = 4 << 20;

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

/// Questions to the change history that are answered at a time; others wait. Each answer may take some
/// 20 MiB while it is written.
pub(crate) const HISTORY_QUESTIONS_MAX: usize = 4;

/// Feeds of the change history at a time: half of the connections of the admin server, so that it can
/// still be asked.
pub(crate) const FEEDS_MAX: usize = HTTP_CONNECTIONS_MAX / 2;

/// Pages of a feed that wait for a reader who takes them in too slowly, some 256 KiB of changes each.
pub(crate) const FEED_PAGES_MAX: usize = 2;

/// How often a feed says how far it is when there is nothing else to say, and how long its reader may
/// take nothing.
pub(crate) const FEED_PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Requests that a port that speaks HTTP carries out or answers at a time. Probes, scrapers and a few
/// people need a handful.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 64;

/// Requests that wait for one of these to end. Further ones are refused.
pub(crate) const HTTP_QUEUED_MAX: usize = 64;

/// Connections to such a port that have not sent the head of a request. Beyond it the oldest gives way.
pub(crate) const HTTP_WAITING_MAX: usize = 256;

/// How long a client may take for an answer while others wait, and one second more for each MiB.
pub(crate) const HTTP_PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take at most.
pub(crate) const HTTP_PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How often the log reports lines that were suppressed in a minute that is over.
pub(crate) const SUPPRESSED_LINES_EVERY: Duration = Duration::from_secs(5);

/// Time in which a client has to read a short answer to a four-letter word.
pub(crate) const WORD_PATIENCE: Duration = Duration::from_secs(30);

/// Listings of the admin server that wait for their turn beyond the first [`HTTP_PIECE_BYTES`] of each.
/// Further ones are refused, so that other requests find a slot.
pub(crate) const LISTINGS_MAX: usize = HTTP_CONNECTIONS_MAX / 4;

/// Bytes of what clients hold that are listed under one hold of a lock.
pub(crate) const LISTED_BYTES: usize = 16 << 10;

/// Bytes of a listing that the client has to take within [`ROOM_PATIENCE`], if others wait.
pub(crate) const LISTING_PACE_BYTES: usize = 1 << 20;

/// Bytes of an answer that are handed on at a time.
pub(crate) const HTTP_PIECE_BYTES: usize = 64 << 10;

/// Threads for the work of all such ports: four for questions to the change history, one for a long
/// listing, and some for the rest.
pub(crate) const ADMIN_THREADS: usize = 7;

/// How long a page of the change history may be worked on. It then says where to go on.
pub(crate) const HISTORY_PAGE_TIME: Duration = Duration::from_millis(250);

/// TLS handshakes under way at such a port; beyond them the oldest gives way, since who is honest is through in
/// milliseconds.
pub(crate) const HTTP_HANDSHAKES_MAX: usize = 256;

/// Bytes of the head of an HTTP request, as Jetty's `requestHeaderSize`.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Bytes on their way, in each direction, of a connection of a client that comes over no socket.
pub(crate) const CONNECTION_WITHIN_BYTES: usize = 64 << 10;

/// Headers of an HTTP request.
pub(crate) const HTTP_HEADERS_MAX: usize = 64;

/// Pieces of an answer that wait for a caller who takes them in too slowly.
pub(crate) const HTTP_PIECES_MAX: usize = 4;

// All that one connection may have under way must fit into its leader's queue.
const _: () = assert!(UNANSWERED_MAX * IDENTITY_BYTES_MAX <= PEER_QUEUE_BYTES_MAX / 2);

// A connection must always be able to get the permits of a whole batch.
const _: () = assert!(BATCH_REQUESTS_MAX <= PREPARE_GROUP_MAX);

#[cfg(test)]
mod tests {
    use replica::connection::{IDENTITIES_MAX, LIST_SHORT, REPLIES_BEFORE_WRITE_BYTES};

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
        let words = "answers to `cons`, `dump`, `stat`, `wchc`, `wchp` and the commands like them being made";
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
            (words.into(), LONG_WORDS_AT_A_TIME.to_string()),
            ("bytes of audit lines".into(), bytes(AUDIT_BYTES_MAX)),
            (
                "requests that the admin server carries out or answers".into(),
                HTTP_CONNECTIONS_MAX.to_string(),
            ),
            (
                "requests that wait for that".into(),
                HTTP_QUEUED_MAX.to_string(),
            ),
            (
                "connections to the admin server without a request".into(),
                HTTP_WAITING_MAX.to_string(),
            ),
            (
                "long listings of the admin server that wait for their turn".into(),
                LISTINGS_MAX.to_string(),
            ),
            (
                "TLS handshakes with the admin server".into(),
                HTTP_HANDSHAKES_MAX.to_string(),
            ),
            (
                "bytes of a request's head".into(),
                bytes(HTTP_HEAD_BYTES_MAX),
            ),
            ("headers of a request".into(), HTTP_HEADERS_MAX.to_string()),
        ]
    }

    /// What it says of the change history.
    fn of_history() -> Vec<(String, String)> {
        let patience = format!("{} s", FEED_PROGRESS_EVERY.as_secs());
        vec![
            ("feeds of the change history".into(), FEEDS_MAX.to_string()),
            (
                "time that the reader of a feed takes nothing".into(),
                patience,
            ),
            (
                "questions to the change history at a time".into(),
                HISTORY_QUESTIONS_MAX.to_string(),
            ),
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
            (
                "bytes of observers' requests that wait for the leader".into(),
                bytes(RELAYED_BYTES_MAX),
            ),
            ("learners".into(), LEARNER_LINKS_MAX.to_string()),
        ]
    }

    #[test]
    fn the_page_of_limits_says_what_holds() {
        let page = include_str!("../../../docs/LIMITS.md");
        for (what, bound) in [of_requests(), of_replies(), of_members(), of_history()].concat() {
            let row = format!("\n| {what} | {bound} |");
            assert!(page.contains(&row), "docs/LIMITS.md lacks {row}");
        }
        let hard = format!("more than {} of answers", bytes(OUTBOX_BYTES_HARD));
        assert!(page.contains(&hard), "docs/LIMITS.md lacks {hard}");
    }
}
