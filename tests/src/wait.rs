//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How long to leave the processor to others between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks at `condition` until it gives a value; `None` when `limit` has passed without one.
pub fn wait_until<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Like [`wait_until`], but a passed deadline is a panic which names `what` was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, condition: impl FnMut() -> Option<T>) -> T {
    wait_until(limit, condition).unwrap_or_else(|| panic!("no {what} within {limit:?}"))
}
