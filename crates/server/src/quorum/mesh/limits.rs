//! Bounds of what other servers, and whoever else reaches the election port, can make grow.

use std::time::Duration;

/// Messages of connections that wait for the mesh; further ones wait in their sockets.
pub(super) const INPUTS_MAX: usize = 64;

/// Connections that have not said who they are. The oldest gives way to a newcomer: an honest
/// server says it at once, so that silent ones cannot keep it out.
pub(super) const GREETINGS_MAX: usize = 64;

/// Connections that wait to be accepted.
pub(super) const BACKLOG: i32 = 128;

/// Addresses that are tried for one server: what a name with some stale entries resolves to.
pub(super) const DIAL_ADDRESSES_MAX: usize = 16;

/// How long an address may take before the next one is tried beside it (RFC 8305).
pub(super) const DIAL_STAGGER: Duration = Duration::from_millis(250);

/// Pause after a failed accept: out of file descriptors, most likely, which passes when others
/// close.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Pause between attempts to bind the election port, as Java's.
pub(super) const BIND_PAUSE: Duration = Duration::from_secs(1);

/// How long an oracle's file may take to be read before it counts as unreadable.
pub(super) const ORACLE_WAIT: Duration = Duration::from_millis(500);

/// Lines about what comes over the election port that are logged in [`LOG_WINDOW`].
pub(super) const LOG_LINES_MAX: u32 = 10;

/// See [`LOG_LINES_MAX`].
pub(super) const LOG_WINDOW: Duration = Duration::from_secs(60);
