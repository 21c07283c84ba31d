//! Memory and turns that long and slow reads need, besides the permits of their batch.
//!
//! A connection takes all of them together and waits for each of them only while it can give back
//! the others: its client may not read, and then other connections need them.

use std::io;

use admission::MemoryReservation;
use tokio::sync::SemaphorePermit;

use crate::connection::Connection;
use crate::connection::socket::{Socket, Stream, obtain};
use crate::requests::answer::ReadPermits;
use crate::requests::batch::Batch;
use crate::requests::context::RequestContext;
use crate::requests::dispatch::Resume;
use crate::requests::request_throttle::{release, take_permits, take_permits_now};

/// What the next read of a connection needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadNeeds {
    is_slow: bool,
    /// Size in bytes of a long reply.
    reply_bytes: Option<usize>,
}

/// What a connection holds for its next read. Dropping it gives everything back.
#[derive(Debug, Default)]
pub(crate) struct HeldForRead<'a> {
    turn: Option<SemaphorePermit<'a>>,
    pub(crate) room: Option<MemoryReservation>,
}

impl ReadNeeds {
    /// Returns the needs after a batch has stopped. A slow read takes its turn before its reply
    /// turns out to be long, and then needs both. A stop for a turn concerns a further read.
    pub(crate) fn after(self, next: Resume) -> Self {
        match next {
            Resume::SlowReadTurn => Self {
                is_slow: true,
                reply_bytes: None,
            },
            Resume::ReplyMemory(bytes) => Self {
                reply_bytes: Some(bytes),
                ..self
            },
            _ => Self::default(),
        }
    }

    fn take_now(self, context: &RequestContext) -> Option<HeldForRead<'_>> {
        let mut held = HeldForRead::default();
        if self.is_slow {
            held.turn = Some(context.slow_reads.try_acquire().ok()?);
        }
        if let Some(bytes) = self.reply_bytes {
            held.room = Some(context.ledger.large_replies.take_now(bytes)?);
        }
        Some(held)
    }

    /// Waits for the memory, and then for the turn. A connection that has a turn never waits,
    /// because there are few turns, and clients that do not read may hold the memory for long.
    async fn take(self, context: &RequestContext) -> HeldForRead<'_> {
        let mut held = HeldForRead::default();
        if let Some(bytes) = self.reply_bytes {
            held.room = Some(context.ledger.large_replies.take(bytes).await);
        }
        if self.is_slow {
            // The semaphore is never closed, so a permit is always returned.
            held.turn = context.slow_reads.acquire().await.ok();
        }
        held
    }
}

impl HeldForRead<'_> {
    pub(crate) fn permits(&self) -> ReadPermits {
        ReadPermits {
            room: self.room.as_ref().map(|room| room.bytes),
            is_slow: self.turn.is_some(),
        }
    }
}

/// Takes everything that the next read needs, with the permits of the batch. Returns `None` if the
/// connection ends first.
pub(crate) async fn take_with_permits<'a, S: Stream>(
    needs: ReadNeeds,
    context: &'a RequestContext,
    connection: &Connection,
    socket: &mut Socket<S>,
    batch: &mut Batch,
) -> io::Result<Option<HeldForRead<'a>>> {
    let ledger = &context.ledger;
    loop {
        take_permits(context, connection, socket, batch).await?;
        if let Some(held) = needs.take_now(context) {
            return Ok(Some(held));
        }
        release(&ledger.permits, batch);
        let ask = || needs.take(context);
        let Some(held) = obtain(ledger, connection, socket, ask).await? else {
            return Ok(None);
        };
        if take_permits_now(ledger, batch) {
            return Ok(Some(held));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use admission::limits::LARGE_REPLIES_BYTES;

    use super::*;
    use crate::start::tests::test_frontend;

    #[tokio::test]
    async fn a_read_that_waits_for_memory_holds_no_turn() {
        let context = &test_frontend().context.requests;
        let replies = &context.ledger.large_replies;
        let turns = context.slow_reads.available_permits();
        let all = replies.take_now(LARGE_REPLIES_BYTES).unwrap();
        let needs = ReadNeeds {
            is_slow: true,
            reply_bytes: Some(100 << 10),
        };
        let mut taken = pin!(needs.take(context));
        let mut task = Context::from_waker(Waker::noop());
        assert!(taken.as_mut().poll(&mut task).is_pending());
        assert_eq!(context.slow_reads.available_permits(), turns);
        drop(all);
        let held = taken.await;
        assert!(held.turn.is_some() && held.room.is_some());
    }
}
