//! Deadlines rounded up to whole ticks, so that many sessions share a deadline.

use std::collections::BTreeMap;

use proto::SessionId;

/// Sessions by the time of their next check.
///
/// A session is in one bucket and stores its position ([`BucketPosition`]), so it can be removed
/// without a search. Empty buckets are removed.
#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    tick_ms: i64,
    by_deadline: BTreeMap<i64, Vec<SessionId>>,
}

/// Position of a session in the buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketPosition {
    /// Time of the bucket, a multiple of the tick, ms.
    pub(crate) deadline_ms: i64,
    index: usize,
}

impl Buckets {
    pub(crate) fn new(tick_ms: i64) -> Self {
        Self {
            tick_ms: tick_ms.max(1),
            by_deadline: BTreeMap::new(),
        }
    }

    /// Returns the first multiple of the tick after `now + timeout`. The result is always later, by
    /// up to one tick.
    ///
    /// Source: ExpiryQueue.roundToNextInterval.
    pub(crate) fn deadline(&self, timeout_ms: i32, now_ms: i64) -> i64 {
        let at = now_ms.saturating_add(timeout_ms.into());
        at.div_euclid(self.tick_ms)
            .saturating_add(1)
            .saturating_mul(self.tick_ms)
    }

    pub(crate) fn insert(&mut self, id: SessionId, deadline_ms: i64) -> BucketPosition {
        let bucket = self.by_deadline.entry(deadline_ms).or_default();
        bucket.push(id);
        BucketPosition {
            deadline_ms,
            index: bucket.len() - 1,
        }
    }

    /// Removes the session at `place`. Returns the session, if any, that has moved to `place`. The
    /// caller must update that session's stored position.
    pub(crate) fn remove(&mut self, place: BucketPosition) -> Option<SessionId> {
        let bucket = self.by_deadline.get_mut(&place.deadline_ms)?;
        if place.index < bucket.len() {
            bucket.swap_remove(place.index);
        }
        if bucket.is_empty() {
            self.by_deadline.remove(&place.deadline_ms);
            return None;
        }
        bucket.get(place.index).copied()
    }

    /// Removes and returns the earliest bucket if it is due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Vec<SessionId>> {
        let first = self.by_deadline.first_entry()?;
        (*first.key() <= now_ms).then(|| first.remove())
    }

    pub(crate) fn first_deadline(&self) -> Option<i64> {
        self.by_deadline.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_the_next_tick_after_the_timeout() {
        let buckets = Buckets::new(2000);
        assert_eq!(buckets.deadline(4000, 0), 6000);
        assert_eq!(buckets.deadline(4000, 1999), 6000);
        assert_eq!(buckets.deadline(4000, 2000), 8000);
        assert_eq!(buckets.deadline(4000, -1), 4000);
        assert_eq!(buckets.deadline(4000, -4001), 0);
    }

    #[test]
    fn far_times_and_odd_ticks_do_not_overflow() {
        assert_eq!(Buckets::new(2000).deadline(i32::MAX, i64::MAX), i64::MAX);
        assert_eq!(Buckets::new(i64::MAX).deadline(1, 5), i64::MAX);
        assert_eq!(Buckets::new(0).deadline(1, 5), 7);
        assert_eq!(Buckets::new(-3).deadline(i32::MIN, i64::MIN), i64::MIN + 1);
    }

    #[test]
    fn removal_returns_the_session_that_moved_into_the_gap() {
        let mut buckets = Buckets::new(10);
        let [a, b, c] = [1, 2, 3].map(|id| buckets.insert(SessionId(id), 50));
        assert_eq!(buckets.remove(a), Some(SessionId(3)));
        assert_eq!(
            buckets.remove(b),
            None,
            "the last of a bucket leaves no gap"
        );
        assert_eq!(buckets.remove(a), None, "3 stood where 1 had been");
        assert_eq!(buckets.first_deadline(), None);
        assert_eq!(buckets.remove(c), None, "gone already");
    }
}
