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
    /// Returns the needs after a batch has stopped. A reply may be both long and slow, and a second
    /// stop adds to the needs of the first.
    pub(crate) fn after(self, next: Resume) -> Self {
        match next {
            Resume::SlowReadTurn => Self {
                is_slow: true,
                ..self
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

    /// Waits for the turn, and then for the memory. All connections have the same order, so two of
    /// them never wait for each other.
    async fn take(self, context: &RequestContext) -> HeldForRead<'_> {
        let mut held = HeldForRead::default();
        if self.is_slow {
            // The semaphore is never closed, so a permit is always returned.
            held.turn = context.slow_reads.acquire().await.ok();
        }
        if let Some(bytes) = self.reply_bytes {
            held.room = Some(context.ledger.large_replies.take(bytes).await);
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
