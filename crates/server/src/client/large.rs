//! The bounds on bytes of requests under way: the one of the configuration
//! (`largeRequestThreshold`, `largeRequestMaxBytes`), beyond which a connection ends, and the
//! server's own, beyond which it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LARGE_REQUESTS_BYTES, REQUEST_BYTES_SMALL};

/// Counts the bytes of requests that are not small.
#[derive(Debug, Clone)]
pub(crate) struct LargeRequests {
    under_way: Arc<AtomicU64>,
    threshold: Option<u64>,
    max: u64,
    room: Arc<Semaphore>,
}

/// A large request under way; dropping it gives its share back.
#[derive(Debug)]
pub(crate) struct LargeRequest {
    requests: LargeRequests,
    share: Share,
}

/// What a request takes of both bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    /// Bytes of `largeRequestMaxBytes`.
    counted: u32,
    /// Bytes of the room.
    room: u32,
}

/// Room for a request, from its frame to its transaction's place in the tree. Dropping it gives it
/// back.
#[derive(Debug)]
pub(crate) struct RequestRoom {
    permit: OwnedSemaphorePermit,
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
            room: Arc::new(Semaphore::new(LARGE_REQUESTS_BYTES)),
        }
    }

    /// Whether a request of `bytes` needs room.
    pub(crate) fn need_room(bytes: usize) -> bool {
        bytes > REQUEST_BYTES_SMALL
    }

    /// Room for a request of `bytes`, if there is some.
    pub(crate) fn room_now(&self, bytes: usize) -> Option<RequestRoom> {
        let permit = self.room.clone().try_acquire_many_owned(taken(bytes));
        permit.ok().map(|permit| RequestRoom { permit })
    }

    /// Waits for it; whoever waits longest is served first. `None` would mean that the server is
    /// gone.
    pub(crate) async fn room(&self, bytes: usize) -> Option<RequestRoom> {
        let permit = self.room.clone().acquire_many_owned(taken(bytes)).await;
        permit.ok().map(|permit| RequestRoom { permit })
    }

    /// Takes a request of `bytes`, with its room if it needs some; `None` for one that is not
    /// large.
    #[inline]
    pub(crate) fn admit(
        &self,
        bytes: usize,
        room: Option<RequestRoom>,
    ) -> Result<Option<LargeRequest>, TooMuch> {
        // Nearly every request is small, and touches nothing that all connections share.
        match room.is_none() && self.threshold.is_none_or(|above| bytes as u64 <= above) {
            true => Ok(None),
            false => self.admit_large(bytes, room),
        }
    }

    fn admit_large(
        &self,
        bytes: usize,
        room: Option<RequestRoom>,
    ) -> Result<Option<LargeRequest>, TooMuch> {
        let mut share = Share::default();
        if self.threshold.is_some_and(|above| bytes as u64 > above) {
            // A frame is shorter than 2 GiB.
            share.counted = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        if share.counted > 0 {
            let counted = u64::from(share.counted);
            let before = self.under_way.fetch_add(counted, Ordering::AcqRel);
            if before.saturating_add(counted) > self.max {
                self.under_way.fetch_sub(counted, Ordering::AcqRel);
                return Err(TooMuch);
            }
        }
        if let Some(room) = room {
            share.room = taken(bytes);
            room.permit.forget();
        }
        Ok((share != Share::default()).then(|| LargeRequest {
            requests: self.clone(),
            share,
        }))
    }

    /// Gives shares back, as [`LargeRequest::into_bytes`] tells them: one, or the sum of several.
    pub(crate) fn give_back(&self, bytes: u64) {
        let share = Share::of(bytes);
        self.under_way
            .fetch_sub(share.counted.into(), Ordering::AcqRel);
        if share.room > 0 {
            self.room.add_permits(share.room as usize);
        }
    }
}

impl LargeRequest {
    /// Leaves it to the caller to give the share back by [`LargeRequests::give_back`].
    pub(crate) fn into_bytes(mut self) -> u64 {
        std::mem::take(&mut self.share).bytes()
    }
}

impl Drop for LargeRequest {
    fn drop(&mut self) {
        self.requests.give_back(self.share.bytes());
    }
}

impl Share {
    /// As one number. The replica adds such numbers up; each half is bounded by its own bound, so
    /// none runs over into the other.
    fn bytes(self) -> u64 {
        u64::from(self.room) << 32 | u64::from(self.counted)
    }

    fn of(bytes: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes.to_be_bytes();
        Self {
            counted: u32::from_be_bytes([e, f, g, h]),
            room: u32::from_be_bytes([a, b, c, d]),
        }
    }
}

/// What a request takes of the room. One that is longer than all of it takes all.
fn taken(bytes: usize) -> u32 {
    u32::try_from(bytes.min(LARGE_REQUESTS_BYTES)).unwrap_or(u32::MAX)
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
    fn large_requests_share_a_bound_and_give_it_back() {
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
        large.give_back(bytes);
        assert!(large.admit(30, None).is_ok());
    }

    #[test]
    fn requests_share_the_room_until_they_are_carried_out() {
        let large = large(None, 0);
        assert!(!LargeRequests::need_room(REQUEST_BYTES_SMALL));
        assert!(LargeRequests::need_room(REQUEST_BYTES_SMALL + 1));
        let room = large.room_now(LARGE_REQUESTS_BYTES - 1);
        let request = large.admit(LARGE_REQUESTS_BYTES - 1, room).unwrap();
        assert!(request.is_some());
        assert!(large.room_now(2).is_none());
        let other = large.room_now(1).unwrap();
        drop(request);
        assert!(large.room_now(LARGE_REQUESTS_BYTES * 2).is_none());
        drop(other);
        let longest = large.room_now(LARGE_REQUESTS_BYTES * 2);
        assert!(longest.is_some(), "alone, the longest has room");
    }

    #[test]
    fn several_are_given_back_as_one_sum() {
        let large = large(Some(5_000), u32::MAX);
        let lens = [5_000, 6_000, LARGE_REQUESTS_BYTES / 2];
        let admitted = lens.map(|len| large.admit(len, large.room_now(len)).unwrap().unwrap());
        let sum = admitted.map(LargeRequest::into_bytes).iter().sum();
        assert_ne!(large.under_way.load(Ordering::Relaxed), 0);
        large.give_back(sum);
        assert_eq!(large.under_way.load(Ordering::Relaxed), 0);
        assert_eq!(large.room.available_permits(), LARGE_REQUESTS_BYTES);
    }
}
