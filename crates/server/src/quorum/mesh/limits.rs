//! Bounds of what other servers, and whoever else reaches the election port, can make grow.

use std::time::Duration;

/// Messages of connections that wait for the mesh; further ones wait in their sockets.
pub(super) const INPUTS_MAX: usize = 64;

/// Connections that have not said who they are. The oldest gives way to a newcomer: an honest
/// server says it at once, so that silent ones cannot keep it out.
pub(super) const GREETINGS_MAX: usize = 64;

/// Connections that wait to be accepted.
pub(super) const BACKLOG: i32 = 128;

/// Pause between attempts to bind the election port, as Java's.
pub(super) const BIND_PAUSE: Duration = Duration::from_secs(1);

/// How long an oracle's file may take to be read before it counts as unreadable.
pub(super) const ORACLE_WAIT: Duration = Duration::from_millis(500);

/// How often a server is dialled in a row if it resets the connections.
pub(super) const TRIES_MAX: usize = 3;

/// How long a server that is to call back may take to hang up; longer than it takes on a busy host. It counts as called
/// then, as a server that is halted and will go on.
pub(super) const HANG_UP_WAIT: Duration = Duration::from_millis(500);
