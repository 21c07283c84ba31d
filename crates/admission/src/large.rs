//! Limits on the bytes of requests in progress: the configured limit (`largeRequestThreshold`,
//! `largeRequestMaxBytes`), above which the connection is closed, and the server's own limit, above
//! which the connection waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use executor::sync::AtomicU64;
use replica::LargeBytes;

use super::memory::{MemoryBudget, MemoryReservation};
use crate::limits::{LARGE_REQUESTS_BYTES, REQUEST_BYTES_SMALL};

/// Bytes of all large requests in progress, and the limits on them.
#[derive(Debug, Clone)]
pub struct LargeRequests {
    under_way: Arc<AtomicU64>,
    threshold: Option<u64>,
    max: u64,
    /// Memory for large requests, held from the frame until the transaction is in the tree.
    pub room: MemoryBudget,
}

/// Large request in progress. Dropping it releases its reservations.
#[derive(Debug)]
pub struct LargeRequest {
    /// Boxed to keep this type small, because an `Option` of it is moved with each request.
    requests: Box<LargeRequests>,
    taken: LargeBytes,
}

/// Error that the limit for large requests is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeRequestsFull;

impl LargeRequests {
    /// Creates the state without requests in progress, with the configured limits.
    pub fn new(settings: &config::LargeRequests) -> Self {
        Self {
            under_way: Arc::default(),
            threshold: settings.threshold_bytes.map(u64::from),
            max: settings.max_bytes.into(),
            room: MemoryBudget::new(LARGE_REQUESTS_BYTES),
        }
    }

    /// Returns whether a request of `bytes` needs a memory reservation.
    #[inline]
    pub fn needs_reservation(bytes: usize) -> bool {
        bytes > REQUEST_BYTES_SMALL
    }

    /// Admits a request of `bytes`, with its memory reservation if it needs one. Returns `None` if
    /// the request neither exceeds the configured threshold nor has a memory reservation.
    ///
    /// # Errors
    /// If the request would exceed the configured limit (`largeRequestMaxBytes`).
    #[inline]
    pub fn admit(
        &self,
        bytes: usize,
        room: Option<MemoryReservation>,
    ) -> Result<Option<LargeRequest>, LargeRequestsFull> {
        // Nearly every request is small and does not touch shared state.
        if room.is_none() && self.threshold.is_none_or(|above| bytes as u64 <= above) {
            Ok(None)
        } else {
            self.admit_large(bytes, room)
        }
    }

    fn admit_large(
        &self,
        bytes: usize,
        room: Option<MemoryReservation>,
    ) -> Result<Option<LargeRequest>, LargeRequestsFull> {
        let bytes = bytes as u64;
        let is_counted = self.threshold.is_some_and(|above| bytes > above);
        let counted = if is_counted { bytes } else { 0 };
        if is_counted {
            let before = self.under_way.fetch_add(counted, Ordering::AcqRel);
            if before.saturating_add(counted) > self.max {
                self.under_way.fetch_sub(counted, Ordering::AcqRel);
                return Err(LargeRequestsFull);
            }
        }
        let room = room.map_or(0, MemoryReservation::into_bytes) as u64;
        let taken = LargeBytes { counted, room };
        Ok((taken != LargeBytes::NONE).then(|| LargeRequest {
            requests: Box::new(self.clone()),
            taken,
        }))
    }

    /// Releases reservations that [`LargeRequest::into_bytes`] returned. `taken` may be the sum for
    /// several requests.
    pub fn release(&self, taken: LargeBytes) {
        let LargeBytes { counted, room } = taken;
        if counted > 0 {
            self.under_way.fetch_sub(counted, Ordering::AcqRel);
        }
        if room > 0 {
            // The value was converted from a usize.
            self.room.release(usize::try_from(room).unwrap_or(0));
        }
    }
}

impl LargeRequest {
    /// Transfers the reservations to the caller, who must release them with
    /// [`LargeRequests::release`].
    pub fn into_bytes(mut self) -> LargeBytes {
        std::mem::take(&mut self.taken)
    }
}

impl Drop for LargeRequest {
    fn drop(&mut self) {
        self.requests.release(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(threshold_bytes: Option<u32>, max_bytes: u32) -> LargeRequests {
        LargeRequests::new(&config::LargeRequests {
            threshold_bytes,
            max_bytes,
        })
    }

    #[test]
    fn large_requests_share_a_bound_and_release_it() {
        let large = large(Some(10), 50);
        assert!(
            matches!(large.admit(10, None), Ok(None)),
            "not above the threshold"
        );
        let first = large.admit(30, None).unwrap();
        assert!(first.is_some());
        assert!(large.admit(30, None).is_err());
        drop(first);
        let second = large.admit(30, None);
        assert!(second.is_ok(), "a refused request leaves nothing behind");
        let bytes = second.unwrap().unwrap().into_bytes();
        assert!(large.admit(30, None).is_err(), "its bytes are still taken");
        large.release(bytes);
        assert!(large.admit(30, None).is_ok());
    }

    #[test]
    fn requests_keep_their_reservation_until_executed() {
        let large = large(None, 0);
        assert!(!LargeRequests::needs_reservation(REQUEST_BYTES_SMALL));
        assert!(LargeRequests::needs_reservation(REQUEST_BYTES_SMALL + 1));
        let room = large.room.take_now(LARGE_REQUESTS_BYTES - 1);
        let request = large.admit(LARGE_REQUESTS_BYTES - 1, room).unwrap();
        assert!(request.is_some());
        assert_eq!(large.room.free(), 1);
        drop(request);
        assert_eq!(large.room.free(), LARGE_REQUESTS_BYTES);
    }

    #[test]
    fn several_reservations_are_released_as_one_sum() {
        let large = large(Some(5_000), u32::MAX);
        let lens = [5_000, 6_000, LARGE_REQUESTS_BYTES / 2];
        let admitted = lens.map(|len| large.admit(len, large.room.take_now(len)).unwrap().unwrap());
        let sum = admitted.map(LargeRequest::into_bytes).into_iter().sum();
        assert_ne!(large.under_way.load(Ordering::Relaxed), 0);
        large.release(sum);
        assert_eq!(large.under_way.load(Ordering::Relaxed), 0);
        assert_eq!(large.room.free(), LARGE_REQUESTS_BYTES);
    }
}
