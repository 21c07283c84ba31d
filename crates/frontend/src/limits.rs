//! Bounds on all memory that a client can make grow, each with its unit and reason.
//! [`admission::limits`] contains those for the memory of all clients together.

use std::time::Duration;

/// Bytes of unsent events above which the connection of a client that does not read is closed.
/// Replies do not count: a connection with unsent output is not read from, so they cannot
/// accumulate.
pub const UNREAD_EVENT_BYTES_MAX: usize = 8 << 20;

/// Bytes of replies above which the existing replies are written before more are made. Pipelined
/// reads must not be held all together, and a client that does not read must not use more memory.
pub const OUTBOX_BYTES_SOFT: usize = 256 << 10;

/// Maximum bytes of a reply that is made immediately. A longer one must reserve memory from
/// `large_replies` of the [`Ledger`](admission::Ledger).
pub const REPLY_BYTES_SMALL: usize = 64 << 10;

/// Number of four-letter words with long answers (`cons`, `dump`, `stat`, `wchc`, `wchp`) that are
/// answered at a time. Finished answers count towards the large replies.
pub const LONG_WORDS_AT_A_TIME: usize = 1;

/// Maximum delay between a four-letter word and its argument. Apache ZooKeeper accepts only an
/// argument that arrives together with the word (NIOServerCnxn.checkFourLetterWord).
pub const ARGUMENT_PATIENCE: Duration = Duration::from_secs(1);

/// Number of unanswered requests above which a connection is not read from.
pub const UNANSWERED_MAX: usize = 1024;

/// Bytes of unanswered requests above which a connection is not read from.
pub const UNANSWERED_BYTES_MAX: usize = 4 << 20;

/// Maximum bytes of a request that is read as it arrives. A longer one must first reserve memory
/// from `large_frames` of the [`Ledger`](admission::Ledger).
pub const FRAME_BYTES_SMALL: usize = READ_CHUNK_BYTES;

/// Bytes of replies to reads after a write that the core makes while it holds the tree exclusively.
/// The connection's task makes the other replies.
pub const CORE_REPLY_BYTES: usize = 64 << 10;

/// Number of reads after a write that the core answers: about 50 us of work.
pub const CORE_REPLIES: usize = 64;

/// Bytes in the outbox up to which the core answers reads before a write, if the task has not
/// answered them. Above this value these reads are refused, because their znodes have grown since
/// the requests arrived.
pub const OUTBOX_BYTES_HARD: usize = 1 << 20;

/// Watches of an ended connection that are removed together: about 100 us of work.
pub const WATCHES_REMOVED_AT_ONCE: usize = 500;

/// Bytes requested from the socket in one read. This holds 256 small requests, and bounds the
/// memory that stays allocated while a connection is idle.
pub const READ_CHUNK_BYTES: usize = 16 << 10;

/// Requests decoded before they are answered. This bounds the time that the tree is locked for
/// reading, and the number of permits that one connection takes at a time.
pub const BATCH_REQUESTS_MAX: usize = 64;

/// Time that a client has to read a short answer to a four-letter word.
pub const WORD_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of client state that are listed while a lock is held once.
pub const LISTED_BYTES: usize = 16 << 10;

/// Buffered bytes, per direction, of an in-process client connection.
pub const CONNECTION_WITHIN_BYTES: usize = 64 << 10;

/// Maximum number of sessions in the report that the server logs (SIGQUIT), about 200 bytes each.
pub const REPORTED_SESSIONS_MAX: usize = 1000;
