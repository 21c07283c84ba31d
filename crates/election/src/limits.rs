//! Bounds on the memory and messages that peers can cause.

/// Minimum time between two equal answers to one server, ms.
///
/// Without it, a Java observer that looks for a leader and a voter whose round has not begun would
/// answer each other at wire speed. It is half of the default minimum interval between two
/// notifications, so a correct peer always receives its answer.
pub const ANSWER_INTERVAL_MS: i64 = 100;

/// Maximum number of servers whose last answer is remembered. Answers to further servers are not
/// suppressed.
pub const ANSWERED_MAX: usize = 256;

/// Maximum number of voters' notifications that are kept until the next round begins. The oldest
/// are dropped. The number equals the size of Java's receive queue.
pub const EARLY_MAX: usize = 100;

/// Time for which the notification of a voter that looks for a leader is kept for this server's
/// next round, ms. Two servers can differ by this time in noticing that a leader has stopped, if
/// one sees its connection close and the other is busy. Older notifications may belong to an
/// earlier election.
pub const LOOKER_KEPT_MS: i64 = 2000;

/// Time after which a leader with a different member list is considered stopped if it does not
/// answer, ms. A leader answers immediately. The rest is slack for a loaded machine.
pub const GUARD_WAIT_MS: i64 = 1000;

/// Maximum number of remembered witnesses for leaders with different member lists.
pub const WITNESSES_MAX: usize = 64;

/// Maximum number of servers outside the member list that may be connected.
pub const STRANGERS_MAX: usize = 64;

/// First pause between two dials to a server that does not accept them, ms.
pub const DIAL_PAUSE_MIN_MS: i64 = 200;

/// Maximum pause between two dials, ms. A server that has returned and sends nothing is noticed
/// within this time.
pub const DIAL_PAUSE_MAX_MS: i64 = 5000;

/// Time for which a newcomer waits for an election to end without its vote before it becomes a
/// candidate itself, ms. It is longer than votes take to settle
/// ([`Settings::settle_ms`](crate::Settings::settle_ms)).
pub(crate) const BLOCKED_CANDIDACY_MS: i64 = 1_000;

/// Maximum number of times per round that a server is sent the vote immediately because its
/// connection closed. It is above one because the system accepts connections for a process that is
/// exiting until its port is closed.
pub(crate) const RESENDS_PER_ROUND_MAX: usize = 3;

const _: () = assert!(ANSWER_INTERVAL_MS * 2 < GUARD_WAIT_MS);
const _: () = assert!(DIAL_PAUSE_MIN_MS <= DIAL_PAUSE_MAX_MS);
