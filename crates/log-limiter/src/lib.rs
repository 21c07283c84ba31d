//! Limits for log lines that any peer can cause.
//!
//! Every log line that a peer can cause without a proven identity is logged with [`limited`], which
//! passes it through a [`LogLimiter`]. The next admitted line of the limiter contains the number of
//! suppressed lines. If there is no such line, [`report_suppressed`] logs the number after the
//! minute has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Period for which a limiter counts lines.
const WINDOW: Duration = Duration::from_secs(60);

/// Limiter that admits at most [`LogLimiter::LINES_MAX`] lines per minute and counts the others.
#[derive(Debug)]
pub struct LogLimiter {
    /// Name of the place that logs the limited lines.
    place: &'static str,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    suppressed: Option<Arc<AtomicU64>>,
}

/// Lines that a limiter has suppressed within one minute. `count` is the number of lines that have
/// not been reported yet.
#[derive(Debug, Clone)]
struct Suppressed {
    place: &'static str,
    began: Instant,
    count: Arc<AtomicU64>,
}

/// Suppressed lines of all limiters, at most one entry per limiter and minute.
static SUPPRESSED: Mutex<Vec<Suppressed>> = Mutex::new(Vec::new());

/// Logs a line that any peer can cause: `limited!(warn, %peer, "no handshake")`. Each place in the
/// code has a separate limiter. `limited!(in limiter => warn, ...)` uses the given limiter instead.
/// The limiter suppresses lines above [`LogLimiter::LINES_MAX`] per minute. The field `left_out` of
/// the next admitted line contains the number of suppressed lines.
#[macro_export]
macro_rules! limited {
    (in $limiter:expr => $level:ident, $($line:tt)+) => {
        if let Some(left_out) = $limiter.admit() {
            let left_out = (left_out > 0).then_some(left_out);
            ::tracing::$level!(left_out, $($line)+);
        }
    };
    ($level:ident, $($line:tt)+) => {{
        static LIMITER: $crate::LogLimiter =
            $crate::LogLimiter::of(concat!(module_path!(), ":", line!()));
        $crate::limited!(in LIMITER => $level, $($line)+);
    }};
}

/// Logs the number of lines that were suppressed in minutes that have ended, with one line per
/// limiter. A server calls this function every few seconds.
pub fn report_suppressed() {
    report(due(&mut SUPPRESSED.lock(), Instant::now()));
}

/// Logs the number of all lines that have been suppressed so far and not reported yet. A server
/// calls this function when it stops.
pub fn report_all_suppressed() {
    // The entries stay in the list, because their limiters may still be counting.
    let all = SUPPRESSED.lock().clone();
    report(all);
}

/// Removes and returns the entries whose minute has ended.
fn due(suppressed: &mut Vec<Suppressed>, now: Instant) -> Vec<Suppressed> {
    let is_over = |of: &mut Suppressed| now.saturating_duration_since(of.began) >= WINDOW;
    suppressed.extract_if(.., is_over).collect()
}

/// Logs the number of suppressed lines of each entry. The caller must not hold the lock of
/// [`SUPPRESSED`], because a slow reader of the log can block this call.
fn report(suppressed: Vec<Suppressed>) {
    for Suppressed { place, count, .. } in suppressed {
        let left_out = count.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                place,
                "log lines dropped because too many similar ones occurred"
            );
        }
    }
}

impl LogLimiter {
    /// Maximum number of lines admitted per minute.
    pub const LINES_MAX: u32 = 10;

    /// Creates a limiter. `place` names the code that logs the lines, for the report of suppressed
    /// lines.
    pub const fn of(place: &'static str) -> Self {
        let window = Window {
            began: None,
            lines: 0,
            suppressed: None,
        };
        Self {
            place,
            window: Mutex::new(window),
        }
    }

    /// Counts a line. Returns `None` if the line must be suppressed, otherwise the number of
    /// suppressed lines that have not been reported yet.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now(), &SUPPRESSED)
    }

    fn admit_at(&self, now: Instant, all: &Mutex<Vec<Suppressed>>) -> Option<u64> {
        let mut window = self.window.lock();
        let is_over = |began: Instant| now.saturating_duration_since(began) >= WINDOW;
        let began = match window.began.filter(|began| !is_over(*began)) {
            Some(began) => began,
            None => {
                window.lines = 0;
                *window.began.insert(now)
            }
        };
        if window.lines >= Self::LINES_MAX {
            let count = window.suppressed.get_or_insert_with(|| {
                let suppressed = Suppressed {
                    place: self.place,
                    began,
                    count: Arc::default(),
                };
                all.lock().push(suppressed.clone());
                suppressed.count
            });
            count.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        window.lines += 1;
        let suppressed = window.suppressed.take();
        Some(suppressed.map_or(0, |count| count.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flood(limiter: &LogLimiter, lines: u32, now: Instant, all: &Mutex<Vec<Suppressed>>) {
        for line in 0..lines {
            let admitted = limiter.admit_at(now, all).is_some();
            assert_eq!(admitted, line < LogLimiter::LINES_MAX);
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_counted_in_the_next_one() {
        let (limiter, all) = (LogLimiter::of("here"), Mutex::default());
        let start = Instant::now();
        flood(&limiter, LogLimiter::LINES_MAX + 5, start, &all);
        assert_eq!(limiter.admit_at(start + WINDOW, &all), Some(5));
        assert_eq!(limiter.admit_at(start + WINDOW, &all), Some(0));
        // The admitted line has already reported the suppressed lines.
        let due = due(&mut all.lock(), start + WINDOW);
        assert!(due.iter().all(|of| of.count.load(Ordering::Relaxed) == 0));
    }

    /// The number is reported even if the flood has ended and its limiter has been dropped.
    #[test]
    fn suppressed_lines_are_reported_also_if_nothing_follows() {
        let all = Mutex::default();
        let start = Instant::now();
        for place in ["here", "there"] {
            flood(
                &LogLimiter::of(place),
                LogLimiter::LINES_MAX + 7,
                start,
                &all,
            );
        }
        let mut all = all.lock();
        assert!(due(&mut all, start).is_empty());
        let due = due(&mut all, start + WINDOW);
        assert!(all.is_empty());
        let found = due
            .iter()
            .map(|of| (of.place, of.count.load(Ordering::Relaxed)));
        assert_eq!(found.collect::<Vec<_>>(), [("here", 7), ("there", 7)]);
    }
}
