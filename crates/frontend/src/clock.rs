//! Monotonic clock for timeouts, and wall clock for timestamps.
//!
//! The monotonic clock is the clock of tokio's timers, which tests can stop.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the monotonic time since the first use of this clock, in ms.
pub fn monotonic_ms() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the monotonic time since the first use of this clock.
pub(crate) fn monotonic() -> std::time::Duration {
    ORIGIN.elapsed()
}

/// Returns the monotonic time in ms, as the signed integer that the session tracker uses.
pub fn session_ms() -> i64 {
    monotonic_ms().cast_signed()
}

/// Returns the wall-clock time since 1970, in ms. It jumps when the administrator sets the clock.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the wall-clock time since 1970, in ns.
pub fn wall_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the wall-clock time in ns that corresponds to a monotonic time in ms.
pub(crate) fn wall_ns_at(monotonic_ms: u64) -> u64 {
    let elapsed = monotonic().saturating_sub(std::time::Duration::from_millis(monotonic_ms));
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    wall_ns().saturating_sub(elapsed_ns)
}

/// Returns a number that usually differs between calls, to spread actions that should not happen at
/// the same time on all servers.
pub fn seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(since.subsec_nanos())
}
