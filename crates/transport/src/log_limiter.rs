//! Bounded logging of what strangers can cause at will.
//!
//! Every line of the log that a peer can cause before it has proved an identity, or without one, passes
//! through a [`LogLimiter`]: one for each place in the code, by [`limited`](crate::limited).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A stretch of time.
const WINDOW: Duration = Duration::from_secs(60);

/// Lets some lines through in each stretch of time, and counts the others.
#[derive(Debug, Default)]
pub struct LogLimiter {
    window: Mutex<Window>,
    /// Where it is in the code; empty if nobody tells what it has left out.
    place: &'static str,
    is_listed: AtomicBool,
}

/// Those that have a place.
static LISTED: Mutex<Vec<&'static LogLimiter>> = Mutex::new(Vec::new());

/// Logs a line that a stranger can cause: `limited!(warn, %peer, "no handshake")`. Beyond
/// [`LogLimiter::LINES_MAX`] a minute lines are left out, and the field `left_out` has their number.
#[macro_export]
macro_rules! limited {
    ($level:ident, $($line:tt)+) => {{
        static LIMITER: $crate::LogLimiter =
            $crate::LogLimiter::of(concat!(module_path!(), ":", line!()));
        if let Some(left_out) = LIMITER.admit_listed() {
            let left_out = (left_out > 0).then_some(left_out);
            ::tracing::$level!(left_out, $($line)+);
        }
    }};
}

/// Tells what was left out in minutes that are over. To be called from time to time.
pub fn tell_left_out() {
    let now = Instant::now();
    // Whoever reads the log must not hold up those who write to it.
    let listed: Vec<_> = LISTED.lock().clone();
    for limiter in listed {
        if let Some(left_out) = limiter.take_left_out(now) {
            let place = limiter.place;
            tracing::warn!(
                left_out,
                place,
                "lines of the log were left out: there were too many of one kind"
            );
        }
    }
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

    /// One for a place in the code.
    pub const fn of(place: &'static str) -> Self {
        let window = Window {
            began: None,
            lines: 0,
            left_out: 0,
        };
        Self {
            window: Mutex::new(window),
            place,
            is_listed: AtomicBool::new(false),
        }
    }

    /// As [`admit`](Self::admit), for one whose omissions [`tell_left_out`] tells.
    pub fn admit_listed(&'static self) -> Option<u64> {
        if !self.is_listed.swap(true, Ordering::Relaxed) {
            LISTED.lock().push(self);
        }
        self.admit()
    }

    /// What was left out in a stretch of time that is over, unless a line has told it.
    fn take_left_out(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock();
        let began = window.began?;
        let is_over = now.saturating_duration_since(began) >= WINDOW;
        (is_over && window.left_out > 0).then(|| std::mem::take(&mut window.left_out))
    }

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

    /// A flood that ends leaves its number behind.
    #[test]
    fn what_was_left_out_is_told_also_if_nothing_follows() {
        let log_limiter = LogLimiter::of("here");
        let start = Instant::now();
        for _ in 0..LogLimiter::LINES_MAX + 7 {
            log_limiter.admit_at(start);
        }
        assert_eq!(log_limiter.take_left_out(start), None);
        assert_eq!(log_limiter.take_left_out(start + WINDOW), Some(7));
        assert_eq!(log_limiter.take_left_out(start + WINDOW), None);
    }
}
