//! The two clocks: one that never goes back, for timeouts, and the wall clock, for stamps.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds since the process started, never going back.
pub(crate) fn monotonic_ms() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The time since the process started, never going back.
pub(crate) fn monotonic() -> std::time::Duration {
    ORIGIN.elapsed()
}

/// The same, as the session tracker counts.
pub(crate) fn session_ms() -> i64 {
    monotonic_ms().cast_signed()
}

/// Milliseconds since 1970; goes where the administrator sets it.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970, by the same clock.
pub(crate) fn wall_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The same at a time of the clock that never goes back.
pub(crate) fn wall_ns_at(monotonic_ms: u64) -> u64 {
    let elapsed = monotonic().saturating_sub(std::time::Duration::from_millis(monotonic_ms));
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    wall_ns().saturating_sub(elapsed_ns)
}

/// A number that differs from call to call: spreads what must not happen everywhere at once.
pub(crate) fn seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(since.subsec_nanos())
}
