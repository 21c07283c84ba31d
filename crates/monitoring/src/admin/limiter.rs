//! Commands that cost a lot are carried out once in a while only.

use std::time::Duration;

/// Lets one call through in each interval. Source: Commands.AuthRequest, RateLimiter.
#[derive(Debug)]
pub struct RateLimiter {
    interval: Duration,
    /// When the last one was let through, on the caller's clock.
    last: Option<Duration>,
}

impl RateLimiter {
    /// Lets the first call through.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
        }
    }

    /// Whether a call at `now` (monotonic) is let through.
    pub fn allow(&mut self, now: Duration) -> bool {
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
