//! Pacing of a snapshot's writes while other work needs the disk.

use std::time::Duration;

/// Number of bytes between two pauses, and also the unit in which a snapshot is synced.
const BETWEEN_RESTS: u64 = 256 << 10;

/// Length of a pause as a multiple of the work before it. With this factor, the p99 latency of sets
/// rises by a fifth during a snapshot. With the factor 4, it would double.
const REST_FACTOR: u32 = 9;

/// Maximum length of a pause, because the work before it may include a long stall of the disk.
const REST_MAX: Duration = Duration::from_millis(100);

/// Maximum total of a snapshot's pauses, because transactions logged meanwhile must be replayed at
/// the next start, and an operator may be waiting.
const RESTS_MAX: Duration = Duration::from_secs(20);

/// Schedule of a snapshot's pauses, so that syncs of the log do not wait for its bytes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rested_at_bytes: u64,
    rested: Duration,
}

impl Pace {
    /// Returns the length of the next pause, or `None` if none is due. `bytes` of the snapshot are
    /// written, and `worked` is the time since the last pause.
    pub(super) fn next_pause(&mut self, bytes: u64, worked: Duration) -> Option<Duration> {
        if bytes < self.rested_at_bytes.saturating_add(BETWEEN_RESTS) {
            return None;
        }
        self.rested_at_bytes = bytes;
        let left = RESTS_MAX.saturating_sub(self.rested);
        let rest = worked.saturating_mul(REST_FACTOR).min(REST_MAX).min(left);
        self.rested += rest;
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_take_nine_tenths_of_the_time_up_to_a_bound() {
        let mut pace = Pace::default();
        let worked = Duration::from_millis(1);
        assert_eq!(pace.next_pause(BETWEEN_RESTS - 1, worked), None);
        assert_eq!(pace.next_pause(BETWEEN_RESTS, worked), Some(9 * worked));
        assert_eq!(pace.next_pause(BETWEEN_RESTS + 1, worked), None);
        assert_eq!(
            pace.next_pause(2 * BETWEEN_RESTS, 100 * worked),
            Some(REST_MAX)
        );
        let rests = (3..100_000).map(|at| pace.next_pause(at * BETWEEN_RESTS, worked));
        let sum: Duration = rests.flatten().sum();
        assert_eq!(sum + REST_MAX + 9 * worked, RESTS_MAX);
    }
}
