//! System time, which the layouts of some recipes contain. Other modules must not read this clock,
//! because its jumps would change their waits.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in ms since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
