//! System time, which the layouts of some recipes contain. Other modules must not read this clock,
//! because its jumps would change their waits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::Client;

/// Returns the time by the clock of the client's options, or by the system clock.
pub(crate) fn now(client: &Client) -> SystemTime {
    client
        .wall_clock()
        .map_or_else(SystemTime::now, |clock| clock.now())
}

/// Returns the time since 1970, which is zero for an earlier time.
pub(crate) fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the time since 1970 in ms, by the clock of the client's options or by the system clock.
pub(crate) fn now_ms(client: &Client) -> u64 {
    u64::try_from(since_1970(now(client)).as_millis()).unwrap_or(u64::MAX)
}
