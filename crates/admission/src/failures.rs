//! Failed logins per address (`auth.maxFailuresPerMinute`).
//!
//! A minute begins with the first failure. When an address reaches its limit, its connections are
//! refused until the minute is over. Other addresses are not affected. A 64-bit IPv6 network counts
//! as one address, because one customer usually has a whole network.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use executor::sync::Mutex;

use crate::limits;

/// Failures of all addresses.
pub struct AuthFailures {
    /// Limit per minute. With `None`, failures are not counted.
    max: Option<u32>,
    minutes: Mutex<FailureWindows>,
}

#[derive(Default)]
struct FailureWindows {
    by_address: HashMap<IpAddr, FailureWindow>,
    /// Start of the minute of each address, oldest first.
    oldest_first: VecDeque<(u64, IpAddr)>,
}

struct FailureWindow {
    failures: u32,
}

const MINUTE_MS: u64 = 60_000;

impl AuthFailures {
    /// Creates an empty count.
    pub fn new(max: Option<u32>) -> Self {
        Self {
            max,
            minutes: Mutex::default(),
        }
    }

    /// Records a failure. Returns whether the address reaches its limit with this failure.
    pub fn note(&self, address: IpAddr, now_ms: u64) -> bool {
        let Some(max) = self.max else {
            return false;
        };
        let minutes = &mut *self.minutes.lock();
        minutes.forget_old(now_ms);
        minutes.add(network(address), now_ms) == max
    }

    /// Returns whether connections from this address are refused.
    pub fn is_refused(&self, address: IpAddr, now_ms: u64) -> bool {
        let Some(max) = self.max else {
            return false;
        };
        let minutes = &mut *self.minutes.lock();
        minutes.forget_old(now_ms);
        let minute = minutes.by_address.get(&network(address));
        minute.is_some_and(|minute| minute.failures >= max)
    }
}

impl FailureWindows {
    fn forget_old(&mut self, now_ms: u64) {
        while let Some((begun, address)) = self.oldest_first.front() {
            if now_ms.saturating_sub(*begun) < MINUTE_MS {
                return;
            }
            self.by_address.remove(address);
            self.oldest_first.pop_front();
        }
    }

    /// Adds a failure. Returns the number of failures in the address's minute.
    fn add(&mut self, address: IpAddr, now_ms: u64) -> u32 {
        if let Some(minute) = self.by_address.get_mut(&address) {
            minute.failures = minute.failures.saturating_add(1);
            return minute.failures;
        }
        if self.by_address.len() >= limits::FAILED_ADDRESSES_MAX
            && let Some((_, oldest)) = self.oldest_first.pop_front()
        {
            self.by_address.remove(&oldest);
        }
        self.by_address
            .insert(address, FailureWindow { failures: 1 });
        self.oldest_first.push_back((now_ms, address));
        1
    }
}

/// Returns the address under which a client is counted: a 64-bit network for IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_refused_until_its_minute_is_over() {
        let failures = AuthFailures::new(Some(3));
        let (bad, good) = (ip("192.0.2.1"), ip("192.0.2.2"));
        assert!(!failures.note(bad, 1000));
        assert!(!failures.note(bad, 2000));
        assert!(!failures.is_refused(bad, 2000));
        assert!(failures.note(bad, 3000));
        assert!(!failures.note(bad, 4000), "told once");
        assert!(failures.is_refused(bad, 60_999));
        assert!(!failures.is_refused(good, 60_999));
        assert!(!failures.is_refused(bad, 61_000));
        assert!(!failures.note(bad, 61_000));
    }

    #[test]
    fn networks_of_ipv6_and_mapped_addresses_are_one_address() {
        let failures = AuthFailures::new(Some(1));
        assert!(failures.note(ip("2001:db8:0:1::1"), 0));
        assert!(failures.is_refused(ip("2001:db8:0:1:ffff::2"), 0));
        assert!(!failures.is_refused(ip("2001:db8:0:2::1"), 0));
        assert!(failures.note(ip("::ffff:192.0.2.1"), 0));
        assert!(failures.is_refused(ip("192.0.2.1"), 0));
        assert!(!failures.is_refused(ip("192.0.2.2"), 0));
    }

    #[test]
    fn the_table_is_bounded_and_drops_the_oldest() {
        let failures = AuthFailures::new(Some(1));
        let address =
            |number: usize| -> IpAddr { Ipv4Addr::from(u32::try_from(number).unwrap()).into() };
        let count = limits::FAILED_ADDRESSES_MAX + 5;
        for number in 0..count {
            failures.note(address(number), number as u64);
        }
        assert_eq!(
            failures.minutes.lock().by_address.len(),
            limits::FAILED_ADDRESSES_MAX
        );
        assert!(!failures.is_refused(address(4), count as u64));
        assert!(failures.is_refused(address(5), count as u64));
        assert!(!failures.is_refused(address(count - 1), count as u64 + MINUTE_MS));
        assert!(failures.minutes.lock().oldest_first.is_empty());
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let failures = AuthFailures::new(None);
        assert!(!failures.note(ip("192.0.2.1"), 0));
        assert!(!failures.is_refused(ip("192.0.2.1"), 0));
        assert!(failures.minutes.lock().by_address.is_empty());
    }
}
