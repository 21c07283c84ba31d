//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Pause between two checks of a condition, which leaves the processor to others.
const PAUSE: Duration = Duration::from_millis(20);

/// Checks `condition` until it returns a value. Returns `None` if `limit` passes without one.
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

/// Works like [`wait_until`], but panics after the deadline, with the name `what` of the condition.
pub fn wait_for<T>(what: &str, limit: Duration, condition: impl FnMut() -> Option<T>) -> T {
    wait_until(limit, condition).unwrap_or_else(|| panic!("no {what} within {limit:?}"))
}
