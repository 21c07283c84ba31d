//! Limits on memory that other servers and unauthenticated peers of the election port can use.

use std::time::Duration;

/// Maximum number of inputs that wait for the mesh, and of inputs that wait for the core. Further
/// messages wait in their sockets.
pub(super) const INPUTS_MAX: usize = 64;

/// Maximum number of connections without a hello. Above this number, the oldest is closed in favour
/// of a new one, so that silent peers cannot block a server. An honest server sends its hello
/// immediately.
pub(super) const GREETINGS_MAX: usize = 64;

/// Maximum number of connections that wait to be accepted.
pub(super) const BACKLOG: i32 = 128;

/// Pause between attempts to bind the election port, as in Java.
pub(super) const BIND_PAUSE: Duration = Duration::from_secs(1);

/// Time limit for reading the oracle's file (`oraclePath`). If the limit is exceeded, the file is
/// treated as unreadable.
pub(super) const ORACLE_WAIT: Duration = Duration::from_millis(500);

/// Maximum number of consecutive attempts to dial a server that resets the connections.
pub(super) const TRIES_MAX: usize = 3;

/// Time limit for a server to close a connection before it calls back. This is longer than a busy
/// host needs. After this time, the dial is treated as complete, because the server may be
/// suspended and continue later.
pub(super) const HANG_UP_WAIT: Duration = Duration::from_millis(500);
