//! Bounds on what peers can make a server keep or send.

/// An answer equal to the last one to the same server is not repeated before this (milliseconds).
///
/// A looking observer and a voter whose round has not begun otherwise answer each other at wire
/// speed. Half the shortest default interval between two notifications, so that an honest question
/// is never left without its answer.
pub const ANSWER_INTERVAL_MS: i64 = 100;

/// Servers whose last answer is remembered; those beyond are answered without the limit.
pub const ANSWERED_MAX: usize = 256;

/// Messages of voters that are kept until the first round begins; the oldest are dropped. As many
/// as Java's receive queue holds.
pub const EARLY_MAX: usize = 100;

/// How long the word of a voter that looks is kept for this server's own next round
/// (milliseconds): as long as two servers can take to notice that one leader is gone, when one sees
/// its connection end and the other is busy. Older ones may be of an election long over.
pub const LOOKER_KEPT_MS: i64 = 2000;

/// How long the leader of another member list has to answer before it counts as gone
/// (milliseconds). A leader answers at once; the rest is for a loaded machine.
pub const GUARD_WAIT_MS: i64 = 1000;

/// Witnesses of leaders with other member lists that are remembered.
pub const WITNESSES_MAX: usize = 64;

/// Servers outside the member list that may have a connection at a time.
pub const STRANGERS_MAX: usize = 64;

/// First pause between two dials of a server that does not take them (milliseconds).
pub const DIAL_PAUSE_MIN_MS: i64 = 200;

/// Longest pause between two dials (milliseconds): how long a server that has come back, and says
/// nothing itself, is at most not noticed.
pub const DIAL_PAUSE_MAX_MS: i64 = 5000;

/// How long a newcomer waits for an election to end without its vote before it stands itself. Longer than
/// votes settle ([`Settings::settle_ms`](crate::Settings::settle_ms)).
pub(crate) const HOLD_UP_MS: i64 = 1_000;

/// How often in a round a server is told the vote at once because its connection broke. More than once: the system
/// takes connections for a process that ends until it has closed its port.
pub(crate) const TOLD_ANEW_MAX: usize = 3;

const _: () = assert!(ANSWER_INTERVAL_MS * 2 < GUARD_WAIT_MS);
const _: () = assert!(DIAL_PAUSE_MIN_MS <= DIAL_PAUSE_MAX_MS);
