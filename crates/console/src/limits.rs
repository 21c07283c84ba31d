//! What the console holds and sends at most.

use std::time::Duration;

/// Pages that are open at a time, at a member.
pub(crate) const VISITS_MAX: usize = 128;

/// And of one address: a crowd there keeps nobody else out.
pub(crate) const VISITS_OF_ADDRESS_MAX: usize = VISITS_MAX / 2;

/// A visit that was silent for so long is over. A tab in the background asks once a minute.
pub(crate) const VISIT_IDLE_MS: u64 = 10 * 60_000;

/// When there are too many, one that was silent for so long gives way.
pub(crate) const VISIT_YIELDS_MS: u64 = 90_000;

/// Bytes of data that come with a znode; the rest is asked for piece by piece.
pub(crate) const DATA_BYTES_SHOWN: usize = 64 << 10;

/// Bytes of a further piece.
pub(crate) const DATA_BYTES_PIECE: usize = 1 << 20;

/// Children of a page of them.
pub(crate) const CHILDREN_PAGE: usize = 200;

/// Sessions of a page of them.
pub(crate) const SESSIONS_PAGE: usize = 100;

/// Paths that are shown of each session, of ephemerals and of watches.
pub(crate) const SESSION_PATHS_SHOWN: usize = 50;

/// Bytes of a request that is not data.
pub(crate) const FORM_BYTES_MAX: usize = 16 << 10;

/// Largest reply of the member that is taken: a list of a million children has some 20 MiB.
pub(crate) const REPLY_BYTES_MAX: usize = 32 << 20;

/// Questions to the tree under way at a time, each of which may hold such a reply.
pub(crate) const QUESTIONS_MAX: usize = 4;

/// How long a body may take to come in.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Session timeout that is asked for.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 30_000;

/// A session that nobody needed for so long is closed; the next question opens another one.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(12);

/// How long the member may take for an answer: an election may be under way.
pub(crate) const REPLY_PATIENCE: Duration = Duration::from_secs(15);
