//! Negotiation of a session's timeout.

/// Returns a session's timeout: the requested one, limited to the server's bounds.
///
/// All times are in ms. If `min_ms` is above `max_ms`, `max_ms` takes precedence. A requested
/// timeout of zero or less yields the minimum. Applied at every handshake, including renewals.
/// Source: ZooKeeperServer.processConnectRequest.
pub fn negotiate(requested_ms: i32, min_ms: i32, max_ms: i32) -> i32 {
    requested_ms.max(min_ms).min(max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_kept_within_the_bounds() {
        let with_tick_2000 = |requested| negotiate(requested, 4000, 40_000);
        assert_eq!(with_tick_2000(1), 4000);
        assert_eq!(with_tick_2000(0), 4000);
        assert_eq!(with_tick_2000(-1), 4000);
        assert_eq!(with_tick_2000(i32::MIN), 4000);
        assert_eq!(with_tick_2000(1_000_000_000), 40_000);
        assert_eq!(with_tick_2000(12_345), 12_345);
    }

    #[test]
    fn the_upper_bound_wins_over_a_lower_one_above_it() {
        assert_eq!(negotiate(5000, 9000, 6000), 6000);
    }
}
