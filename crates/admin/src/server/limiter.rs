//! Rate limit for expensive commands.

use std::time::Duration;

/// Rate limiter that permits one call in each interval. Source: Commands.AuthRequest, RateLimiter.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    /// Time of the last permitted call, on the clock of the caller.
    last: Option<Duration>,
}

impl RateLimiter {
    /// Creates a limiter that permits the first call.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
        }
    }

    /// Returns whether a call at `now` (monotonic) is permitted.
    pub(crate) fn allow(&mut self, now: Duration) -> bool {
        let is_over = self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= self.interval);
        if is_over {
            self.last = Some(now);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_an_interval() {
        let mut limiter = RateLimiter::new(Duration::from_millis(300));
        let allowed: Vec<bool> = [5, 6, 304, 305, 306, 605]
            .map(|ms| limiter.allow(Duration::from_millis(ms)))
            .to_vec();
        assert_eq!(allowed, [true, false, false, true, false, true]);
        let mut without = RateLimiter::new(Duration::ZERO);
        assert!(without.allow(Duration::ZERO) && without.allow(Duration::ZERO));
    }
}
