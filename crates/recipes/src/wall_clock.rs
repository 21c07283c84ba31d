//! System time, which the layouts of some recipes contain. Other modules must not read this clock,
//! because its jumps would change their waits.

use std::time::{SystemTime, UNIX_EPOCH};

use client::Client;

/// Returns the time in ms since 1970, by the clock of the client's options or by the system clock.
pub(crate) fn now_ms(client: &Client) -> u64 {
    if let Some(clock) = client.wall_clock() {
        return clock.now_ms();
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
