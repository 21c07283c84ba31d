//! Token bucket that limits storms of handshakes (`connection_throttle_*`).

use config::ConnectionThrottle;
use replica::HandshakeKind;

/// Bucket of tokens that handshakes consume. Disabled without `connection_throttle_tokens`.
///
/// An empty bucket refuses handshakes. With a freeze time, a bucket that is repeatedly empty
/// refuses a growing random share of them, so that not all clients reconnect at the same time.
///
/// Source: BlueThrottle.
#[derive(Debug)]
pub struct TokenBucket {
    settings: ConnectionThrottle,
    tokens: u32,
    filled_ms: u64,
    judged_ms: u64,
    drop_probability: f64,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(settings: ConnectionThrottle, now_ms: u64) -> Self {
        let tokens = settings.tokens.unwrap_or(0);
        Self {
            settings,
            tokens,
            filled_ms: now_ms,
            judged_ms: now_ms,
            drop_probability: 0.0,
        }
    }

    /// Returns whether a handshake is admitted. If it is, removes its tokens. `chance` is a random
    /// number, uniform in [0, 1).
    pub fn admits(&mut self, handshake: HandshakeKind, now_ms: u64, chance: f64) -> bool {
        let Some(max) = self.settings.tokens else {
            return true;
        };
        self.fill(max, now_ms);
        self.judge(max, now_ms);
        let cost = match (&self.settings.weights, handshake) {
            (None, _) => 1,
            (Some(weights), HandshakeKind::New) => weights.global,
            (Some(weights), HandshakeKind::NewLocal) => weights.local,
            (Some(weights), HandshakeKind::Renewal) => weights.renew,
        };
        if chance < self.drop_probability || self.tokens < cost {
            return false;
        }
        self.tokens -= cost;
        true
    }

    /// Returns the number of tokens that would fill the bucket.
    pub fn deficit(&self) -> u32 {
        self.settings
            .tokens
            .unwrap_or(0)
            .saturating_sub(self.tokens)
    }

    /// Returns the probability, from 0 to 1, that a handshake is refused at random.
    pub fn drop_probability(&self) -> f64 {
        self.drop_probability
    }

    fn fill(&mut self, max: u32, now_ms: u64) {
        let elapsed = now_ms.saturating_sub(self.filled_ms);
        let fill_time = u64::from(self.settings.fill_time_ms);
        if elapsed <= fill_time {
            return;
        }
        let count = u64::from(self.settings.fill_count);
        let fresh = elapsed
            .saturating_mul(count)
            .checked_div(fill_time)
            .unwrap_or(u64::MAX);
        let tokens = u64::from(self.tokens).saturating_add(fresh).min(max.into());
        self.tokens = u32::try_from(tokens).unwrap_or(max);
        self.filled_ms = now_ms;
    }

    fn judge(&mut self, max: u32, now_ms: u64) {
        let Some(freeze_time) = self.settings.freeze_time_ms else {
            return;
        };
        if now_ms.saturating_sub(self.judged_ms) <= u64::from(freeze_time) {
            return;
        }
        let relaxed = (f64::from(max) * self.settings.decrease_ratio).round();
        if self.tokens == 0 {
            self.drop_probability = (self.drop_probability + self.settings.drop_increase).min(1.0);
        } else if f64::from(self.deficit()) <= relaxed {
            self.drop_probability = (self.drop_probability - self.settings.drop_decrease).max(0.0);
        }
        self.judged_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use config::SessionWeights;

    use super::*;

    fn settings() -> ConnectionThrottle {
        ConnectionThrottle {
            tokens: Some(3),
            fill_time_ms: 10,
            fill_count: 1,
            freeze_time_ms: None,
            drop_increase: 0.5,
            drop_decrease: 0.5,
            decrease_ratio: 0.0,
            weights: None,
        }
    }

    fn admitted(bucket: &mut TokenBucket, tries: usize, now_ms: u64) -> usize {
        (0..tries)
            .filter(|_| bucket.admits(HandshakeKind::New, now_ms, 0.9))
            .count()
    }

    #[test]
    fn an_empty_bucket_refuses_until_it_fills() {
        let mut bucket = TokenBucket::new(settings(), 0);
        assert_eq!(admitted(&mut bucket, 5, 0), 3);
        assert_eq!(
            admitted(&mut bucket, 5, 10),
            0,
            "exactly the fill time is not enough"
        );
        assert_eq!(admitted(&mut bucket, 5, 21), 2);
        assert_eq!(
            admitted(&mut bucket, 5, 10_000),
            3,
            "never more than the bucket holds"
        );
    }

    #[test]
    fn without_tokens_everybody_is_admitted() {
        let mut bucket = TokenBucket::new(
            ConnectionThrottle {
                tokens: None,
                ..settings()
            },
            0,
        );
        assert_eq!(admitted(&mut bucket, 1000, 0), 1000);
    }

    #[test]
    fn a_renewal_costs_less_than_a_new_session() {
        let weights = Some(SessionWeights {
            global: 3,
            local: 1,
            renew: 2,
        });
        let mut bucket = TokenBucket::new(
            ConnectionThrottle {
                weights,
                ..settings()
            },
            0,
        );
        assert!(bucket.admits(HandshakeKind::Renewal, 0, 0.9));
        assert!(!bucket.admits(HandshakeKind::New, 0, 0.9));
        assert_eq!(bucket.deficit(), 2);
        assert!(bucket.admits(HandshakeKind::NewLocal, 0, 0.9));
        assert_eq!(bucket.deficit(), 3);
    }

    #[test]
    fn a_bucket_found_empty_refuses_by_chance_and_recovers() {
        let freezing = ConnectionThrottle {
            freeze_time_ms: Some(5),
            ..settings()
        };
        let mut bucket = TokenBucket::new(freezing, 0);
        assert_eq!(admitted(&mut bucket, 3, 0), 3);
        assert!(!bucket.admits(HandshakeKind::New, 6, 0.9));
        assert!((bucket.drop_probability() - 0.5).abs() < f64::EPSILON);
        assert!(
            !bucket.admits(HandshakeKind::New, 12, 0.1),
            "a token is there, chance refuses"
        );
        assert!(
            bucket.admits(HandshakeKind::New, 20_000, 0.1),
            "full again, so forgiven"
        );
    }
}
