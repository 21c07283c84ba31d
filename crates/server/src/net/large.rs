//! The bound on bytes of large requests under way (`largeRequestThreshold`,
//! `largeRequestMaxBytes`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of requests above the threshold; most servers have none.
#[derive(Debug, Clone)]
pub(crate) struct LargeRequests {
    under_way: Arc<AtomicU64>,
    threshold: Option<u64>,
    max: u64,
}

/// A large request under way; dropping it gives its bytes back.
#[derive(Debug)]
pub(crate) struct LargeRequest {
    under_way: Arc<AtomicU64>,
    bytes: u64,
}

/// There is no room for another large request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl LargeRequests {
    pub(crate) fn new(settings: &config::LargeRequests) -> Self {
        Self {
            under_way: Arc::default(),
            threshold: settings.threshold_bytes.map(u64::from),
            max: settings.max_bytes.into(),
        }
    }

    /// Takes room for a request of `bytes`; `None` for one that is not large.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Option<LargeRequest>, TooMuch> {
        let bytes = bytes as u64;
        if self.threshold.is_none_or(|threshold| bytes <= threshold) {
            return Ok(None);
        }
        let request = LargeRequest {
            under_way: self.under_way.clone(),
            bytes,
        };
        let before = self.under_way.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) > self.max {
            return Err(TooMuch);
        }
        Ok(Some(request))
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.under_way.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl LargeRequest {
    /// Leaves it to the caller to give the bytes back by [`LargeRequests::give_back`].
    pub(crate) fn into_bytes(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for LargeRequest {
    fn drop(&mut self) {
        self.under_way.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_share_a_bound_and_give_it_back() {
        let settings = config::LargeRequests {
            threshold_bytes: Some(10),
            max_bytes: 50,
        };
        let large = LargeRequests::new(&settings);
        assert!(
            matches!(large.admit(10), Ok(None)),
            "not above the threshold"
        );
        let first = large.admit(30).unwrap();
        assert!(first.is_some());
        assert!(large.admit(30).is_err());
        drop(first);
        let second = large.admit(30);
        assert!(second.is_ok(), "a refused request leaves nothing behind");
        let bytes = second.unwrap().unwrap().into_bytes();
        assert!(large.admit(30).is_err(), "its bytes are still taken");
        large.give_back(bytes);
        assert!(large.admit(30).is_ok());
    }
}
