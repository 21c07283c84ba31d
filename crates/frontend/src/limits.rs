//! Limits on all memory that a client could otherwise consume without bound, each with its unit and
//! reason. [`admission::limits`] contains the limits on the memory of all clients together.

use std::time::Duration;

/// Bytes of unsent events above which the connection of a client that does not read is closed.
/// Replies do not count, because they cannot accumulate: the server does not read from a connection
/// with unsent output.
pub const UNREAD_EVENT_BYTES_MAX: usize = 8 << 20;

/// Bytes of replies above which the existing replies are written before more are produced. The
/// replies to pipelined reads must not all be held at the same time, and a client that does not
/// read must not use more memory.
pub const OUTBOX_BYTES_SOFT: usize = 256 << 10;

/// Maximum size in bytes of a reply that is produced immediately. A longer reply must reserve
/// memory from `large_replies` of the [`Ledger`](admission::Ledger).
pub const REPLY_BYTES_SMALL: usize = 64 << 10;

/// Number of four-letter words with long answers (`cons`, `dump`, `stat`, `wchc`, `wchp`) that are
/// answered at a time. Finished answers count as large replies.
pub const LONG_WORDS_AT_A_TIME: usize = 1;

/// Maximum delay between a four-letter word and its argument. Apache ZooKeeper accepts only an
/// argument that arrives together with the word (NIOServerCnxn.checkFourLetterWord).
pub const ARGUMENT_PATIENCE: Duration = Duration::from_secs(1);

/// Number of unanswered requests at which the server stops reading from the connection.
pub const UNANSWERED_MAX: usize = 1024;

/// Total size in bytes of unanswered requests at which the server stops reading from the
/// connection.
pub const UNANSWERED_BYTES_MAX: usize = 4 << 20;

/// Maximum size in bytes of a request that is read as it arrives. A longer request must first
/// reserve memory from `large_frames` of the [`Ledger`](admission::Ledger).
pub const FRAME_BYTES_SMALL: usize = READ_CHUNK_BYTES;

/// Bytes of replies to reads after a write that the core produces while it holds the tree
/// exclusively. The connection's task produces the other replies.
pub const CORE_REPLY_BYTES: usize = 64 << 10;

/// Maximum number of reads after a write that the core answers. The answers take about 50 us.
pub const CORE_REPLIES: usize = 64;

/// Bytes in the outbox up to which the core answers reads before a write, if the task has not
/// answered them. A read whose reply would make the outbox larger is refused. This occurs only if
/// its znode has grown since the request arrived.
pub const OUTBOX_BYTES_HARD: usize = 1 << 20;

/// Number of watches of an ended connection that are removed together. The removal takes about 100
/// us.
pub const WATCHES_REMOVED_AT_ONCE: usize = 500;

/// Number of bytes requested from the socket in one read. This suffices for 256 small requests, and
/// limits the memory that stays allocated while a connection is idle.
pub const READ_CHUNK_BYTES: usize = 16 << 10;

/// Maximum number of requests decoded before they are answered. It limits the time for which the
/// tree is locked for reading, and the number of permits that one connection takes at a time.
pub const BATCH_REQUESTS_MAX: usize = 64;

/// Time for a client to read a short answer to a four-letter word.
pub const WORD_PATIENCE: Duration = Duration::from_secs(30);

/// Time for a client to read until its connection has accepted the last record of TLS.
pub const END_PATIENCE: Duration = WORD_PATIENCE;

/// Number of bytes of a list of watches or ephemerals that are collected before the lock is
/// released.
pub const LISTED_BYTES: usize = 16 << 10;

/// Buffer size of an in-process client connection in each direction, in bytes.
pub const CONNECTION_WITHIN_BYTES: usize = 64 << 10;

/// Maximum number of sessions in the report that the server logs on SIGQUIT. Each takes about 200
/// bytes.
pub const REPORTED_SESSIONS_MAX: usize = 1000;
