//! Bounded logging of what strangers can cause at will.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A stretch of time.
const WINDOW: Duration = Duration::from_secs(60);

/// Lets some lines through in each stretch of time, and counts the others.
#[derive(Debug, Default)]
pub struct LogLimiter {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimiter {
    /// Lines that are let through in a minute.
    pub const LINES_MAX: u32 = 10;

    /// Whether a line may be logged; if so, how many were left out since the last one.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock();
        let is_over = |began: Instant| now.saturating_duration_since(began) >= WINDOW;
        if window.began.is_none_or(is_over) {
            window.began = Some(now);
            window.lines = 0;
        }
        if window.lines >= Self::LINES_MAX {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted_and_told_later() {
        let log_limiter = LogLimiter::default();
        let start = Instant::now();
        for _ in 0..LogLimiter::LINES_MAX {
            assert_eq!(log_limiter.admit_at(start), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(log_limiter.admit_at(start), None);
        }
        assert_eq!(log_limiter.admit_at(start + WINDOW), Some(5));
        assert_eq!(log_limiter.admit_at(start + WINDOW), Some(0));
    }
}
