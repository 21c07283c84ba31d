//! Seeds of simulations.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the number in an environment variable, if it is set to a number.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns a seed that was never used before: the time in milliseconds, shifted to leave room for
/// more seeds after it.
///
/// # Panics
/// If the clock is before 1970.
pub fn fresh() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.expect("the clock is behind 1970").as_millis();
    u64::try_from(millis).expect("a time of this age") << 16
}
