//! Rule for when a snapshot is due.

/// Rule that decides after which transaction a snapshot is written and the log is rolled.
///
/// The number of transactions is random, between half the configured count and the full count, so
/// that the members of an ensemble do not all write their snapshots at the same moment. The caller
/// passes a random `seed`.
///
/// Source: SyncRequestProcessor.shouldSnapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapTrigger {
    count: u64,
    bytes: u64,
    count_due: u64,
    bytes_due: u64,
}

impl SnapTrigger {
    /// Creates the rule. `snap_count` (transactions, at least 2) is `snapCount`; `snap_bytes` is
    /// `snapSizeLimitInKb` in bytes, 0 for no limit.
    pub fn new(snap_count: u64, snap_bytes: u64, seed: u64) -> Self {
        let mut trigger = Self {
            count: snap_count.max(2),
            bytes: snap_bytes,
            count_due: 0,
            bytes_due: 0,
        };
        trigger.redraw(seed);
        trigger
    }

    /// Returns whether a snapshot is due after this number of transactions and bytes since the last
    /// snapshot. Call it after each append. If it returns `true`, reset the counters and call
    /// [`redraw`](Self::redraw).
    pub fn is_due(&self, txns: u64, bytes: u64) -> bool {
        txns > self.count_due || (self.bytes > 0 && bytes > self.bytes_due)
    }

    /// Chooses the next random thresholds for transactions and bytes.
    pub fn redraw(&mut self, seed: u64) {
        let half = |whole: u64, seed: u64| match whole / 2 {
            0 => 0,
            half => half + seed % half,
        };
        self.count_due = half(self.count, seed);
        self.bytes_due = half(self.bytes, seed.rotate_left(32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_trigger_is_in_the_second_half() {
        let due_at = |seed| {
            let trigger = SnapTrigger::new(100, 0, seed);
            (1..).find(|txns| trigger.is_due(*txns, u64::MAX)).unwrap()
        };
        let points: Vec<u64> = (0..1000).map(due_at).collect();
        assert_eq!(points.iter().min(), Some(&51));
        assert_eq!(points.iter().max(), Some(&100));
    }

    #[test]
    fn bytes_count_only_with_a_limit() {
        assert!(!SnapTrigger::new(1000, 0, 7).is_due(1, u64::MAX));
        let trigger = SnapTrigger::new(1000, 1 << 20, 7 << 32);
        assert!(trigger.is_due(1, (1 << 19) + 8));
        assert!(!trigger.is_due(1, 1 << 19));
    }
}
