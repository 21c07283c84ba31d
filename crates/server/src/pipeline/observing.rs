//! Observers: the pauses that keep many of them from coming back all at once.
//!
//! Source: ensemble-protocol.md 7 and 17 (Observer.waitForObserverElectionDelay,
//! Observer.waitForReconnectDelay, QuorumPeer.findLearnerMaster).

use std::time::Duration;

use config::Ensemble;

use crate::clock;

/// How an observer goes about finding its leader.
#[derive(Debug)]
pub(super) struct Observing {
    /// Up to this long before it connects (`observer.reconnectDelayMs`).
    reconnect_delay: Duration,
    /// Up to this long before it looks for a leader again (`observer.election.DelayMs`), ms.
    election_delay_ms: u64,
}

impl Observing {
    pub(super) fn new(ensemble: &Ensemble) -> Self {
        let learner = &ensemble.learner;
        Self {
            reconnect_delay: Duration::from_millis(learner.observer_reconnect_delay_ms),
            election_delay_ms: learner.observer_election_delay_ms,
        }
    }

    /// A pause before it connects.
    pub(super) fn pause_before_dial(&self) -> Duration {
        let max_ms = u64::try_from(self.reconnect_delay.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(random_below(max_ms, clock::seed()))
    }

    /// A pause before it looks for a leader again, ms.
    pub(super) fn pause_before_look_ms(&self) -> i64 {
        let pause_ms = random_below(self.election_delay_ms, clock::seed());
        i64::try_from(pause_ms).unwrap_or(i64::MAX)
    }
}

/// A number below `max`, or 0 if that is.
fn random_below(max: u64, seed: u64) -> u64 {
    // Neighbouring seeds are to be far apart.
    let spread = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The upper half of a product of 64 bits each is below its factors.
    u64::try_from((u128::from(spread) * u128::from(max)) >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_below_their_limit() {
        let of = |max| (0..100).map(move |seed| random_below(max, seed));
        assert!(of(0).all(|pause| pause == 0));
        assert!(of(200).all(|pause| pause < 200));
        assert!(of(200).any(|pause| pause < 20) && of(200).any(|pause| pause >= 180));
        assert!(of(u64::MAX).any(|pause| pause > u64::MAX / 2));
    }
}
