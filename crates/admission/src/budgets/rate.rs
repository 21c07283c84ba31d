//! Rate limit: a token bucket that may go into debt.
//!
//! The caller provides the time.

/// Token bucket that holds at most one second's worth of tokens.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: u32,
    /// Balance in thousandths of a token. A negative balance is a debt. The number of thousandths
    /// added per millisecond equals the number of tokens added per second.
    balance: i64,
    at_ms: u64,
}

impl Rate {
    /// Creates a full bucket.
    pub(super) fn new(per_second: u32, now_ms: u64) -> Self {
        Self {
            per_second,
            balance: i64::from(per_second) * 1000,
            at_ms: now_ms,
        }
    }

    pub(super) fn per_second(&self) -> u32 {
        self.per_second
    }

    fn fill(&mut self, now_ms: u64) {
        let elapsed = i64::try_from(now_ms.saturating_sub(self.at_ms)).unwrap_or(i64::MAX);
        let fresh = elapsed.saturating_mul(self.per_second.into());
        let most = i64::from(self.per_second) * 1000;
        self.balance = self.balance.saturating_add(fresh).min(most);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// Returns the time until the bucket may be used, in ms. The next use may exceed the balance.
    /// The bucket is then in debt, and the following use must wait until the debt is paid.
    pub(super) fn wait_ms(&mut self, now_ms: u64) -> u64 {
        self.fill(now_ms);
        let debt = self.balance.min(0).unsigned_abs();
        debt.div_ceil(self.per_second.into())
    }

    /// Removes `count` tokens.
    pub(super) fn pay(&mut self, count: u64) {
        let cost = i64::try_from(count)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        self.balance = self.balance.saturating_sub(cost);
    }

    /// Returns whether the bucket is full, as it was at the start.
    pub(super) fn is_full(&mut self, now_ms: u64) -> bool {
        self.fill(now_ms);
        self.balance == i64::from(self.per_second) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_accumulates_and_debts_delay() {
        let mut rate = Rate::new(10, 1000);
        assert!(rate.is_full(1000));
        rate.pay(10);
        // The balance is zero.
        assert_eq!(rate.wait_ms(1000), 0);
        rate.pay(3);
        assert_eq!(rate.wait_ms(1000), 300);
        assert_eq!(rate.wait_ms(1299), 1);
        assert_eq!(rate.wait_ms(1300), 0);
        // An hour adds only as many tokens as a second.
        assert!(rate.is_full(3_600_000));
        rate.pay(11);
        assert_eq!(rate.wait_ms(3_600_000), 100);
        assert!(!rate.is_full(3_600_100));
    }

    #[test]
    fn sustained_load_is_limited_to_the_rate() {
        let mut rate = Rate::new(7, 0);
        let (mut now_ms, mut used) = (0, 0);
        while now_ms < 100_000 {
            match rate.wait_ms(now_ms) {
                0 => {
                    rate.pay(1);
                    used += 1;
                }
                wait_ms => now_ms += wait_ms,
            }
        }
        // One second's worth had accumulated, and one more use put the bucket into debt.
        assert!((707..=708).contains(&used), "{used}");
    }

    #[test]
    fn backward_clocks_and_large_numbers_are_harmless() {
        let mut rate = Rate::new(u32::MAX, u64::MAX);
        rate.pay(u64::MAX);
        rate.pay(u64::MAX);
        assert!(rate.wait_ms(0) > 0);
        let later = Rate::new(1, 0).wait_ms(u64::MAX);
        assert_eq!(later, 0);
        let mut slow = Rate::new(1, 5000);
        slow.pay(2);
        assert_eq!((slow.wait_ms(0), slow.wait_ms(5500)), (1000, 500));
    }
}
