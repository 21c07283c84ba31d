//! The room for long replies, which all connections of a server share.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits::LARGE_REPLIES_BYTES;

/// Bytes of long replies that are made and not written yet.
#[derive(Debug)]
pub(crate) struct LargeReplies {
    free: Semaphore,
    waiting: AtomicUsize,
}

/// Room for one reply. It must be given back when the reply is written.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// How long the reply may be.
    pub(crate) bytes: usize,
    _permit: Option<SemaphorePermit<'a>>,
}

/// One that waits; it may be given up.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for LargeReplies {
    fn default() -> Self {
        Self {
            free: Semaphore::new(LARGE_REPLIES_BYTES),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl LargeReplies {
    /// Waits for room; whoever waits longest is served first. Whatever is longer than all the room
    /// there is gets all of it.
    pub(crate) async fn take(&self, bytes: usize) -> Room<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        let counted = u32::try_from(bytes.min(LARGE_REPLIES_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed, so there is always a permit.
        let permit = self.free.acquire_many(counted).await.ok();
        Room {
            bytes,
            _permit: permit,
        }
    }

    /// Whether somebody waits for room.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn replies_share_the_room_and_wait_in_line() {
        let replies = LargeReplies::default();
        let mut first = pin!(replies.take(LARGE_REPLIES_BYTES - 1));
        let Poll::Ready(room) = poll(first.as_mut()) else {
            panic!("there is room")
        };
        assert_eq!(room.bytes, LARGE_REPLIES_BYTES - 1);
        let mut huge = pin!(replies.take(LARGE_REPLIES_BYTES * 5));
        assert!(poll(huge.as_mut()).is_pending() && replies.is_awaited());
        let mut small = pin!(replies.take(1));
        assert!(
            poll(small.as_mut()).is_pending(),
            "nobody overtakes a longer one"
        );
        drop(room);
        let Poll::Ready(room) = poll(huge.as_mut()) else {
            panic!("alone, the longest has room")
        };
        assert_eq!(room.bytes, LARGE_REPLIES_BYTES * 5);
        assert!(poll(small.as_mut()).is_pending());
        drop(room);
        assert!(poll(small.as_mut()).is_ready() && !replies.is_awaited());
    }

    #[test]
    fn who_gives_up_is_not_waited_for() {
        let replies = LargeReplies::default();
        let mut first = pin!(replies.take(LARGE_REPLIES_BYTES));
        let room = poll(first.as_mut());
        {
            let mut second = pin!(replies.take(1));
            assert!(poll(second.as_mut()).is_pending() && replies.is_awaited());
        }
        assert!(room.is_ready() && !replies.is_awaited());
    }
}
