//! Memory and turns that long and slow reads need.
//!
//! The read is at the head of the queue, so it does not need the permits of its batch. The
//! connection waits without them, because other connections may need them.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use admission::MemoryReservation;
use tokio::sync::SemaphorePermit;

use crate::clock;
use crate::connection::Connection;
use crate::connection::socket::{Socket, Stream, flush, flush_large, obtain};
use crate::requests::answer::ReadPermits;
use crate::requests::batch::Batch;
use crate::requests::context::RequestContext;
use crate::requests::dispatch::{self, Resume};

/// Needs of the next read of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReadNeeds {
    is_slow: bool,
    /// Size in bytes of a long reply.
    reply_bytes: Option<usize>,
}

/// Resources that a connection holds for its next read. Dropping them returns them.
#[derive(Debug, Default)]
struct HeldForRead<'a> {
    turn: Option<SemaphorePermit<'a>>,
    room: Option<MemoryReservation>,
}

impl ReadNeeds {
    /// Returns the needs after a batch has stopped. A slow read takes its turn before its reply
    /// turns out to be long, and then needs both. A stop for a turn concerns a further read.
    fn after(self, next: Resume) -> Self {
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

/// Answers queued reads for as long as they need memory or a turn, and writes the replies. `next`
/// is the need of the first read. Breaks if the connection must end.
pub(crate) async fn answer_reads<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    next: Resume,
) -> io::Result<ControlFlow<()>> {
    let ledger = &context.ledger;
    let mut needs = ReadNeeds::default().after(next);
    while needs != ReadNeeds::default() {
        let ask = || needs.take(context);
        let Some(HeldForRead { turn, room }) = obtain(ledger, connection, socket, ask).await?
        else {
            return Ok(ControlFlow::Break(()));
        };
        let permits = ReadPermits {
            room: room.as_ref().map(|room| room.bytes),
            is_slow: turn.is_some(),
        };
        let now_ms = clock::monotonic_ms();
        let next =
            dispatch::handle_batch(context, connection, &mut Batch::default(), now_ms, permits);
        drop(turn);
        let flushed = match room {
            Some(room) => flush_large(ledger, connection, socket, room).await?,
            None => flush(ledger, connection, socket).await?,
        };
        if flushed.is_break() {
            return Ok(flushed);
        }
        needs = needs.after(next);
    }
    Ok(ControlFlow::Continue(()))
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
