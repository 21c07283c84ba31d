//! Socket of a connection: reads, and writes of the outbox.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use admission::limits::MEMORY_PATIENCE;
use admission::{Ledger, MemoryBudget, MemoryReservation};
use bytes::BytesMut;
use host::SharedConnection as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::connection::Connection;
use crate::limits;

/// Byte stream to a client: plain TCP, TLS, or a pipe within this process.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Stream of a client, and the bytes that were read but not handled yet.
pub(crate) struct Socket<S> {
    pub(crate) stream: S,
    pub(crate) input: BytesMut,
    /// Memory reservation for the first frame of the input if that frame is long, and the time for
    /// which the task has waited for the rest of the frame.
    pub(crate) frame_reservation: Option<(MemoryReservation, Duration)>,
    /// Memory that the decoded requests hold until they are handled.
    pub(crate) batch_memory: HeldMemory,
}

/// Budgets of the [`Ledger`] from which requests hold memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldMemory {
    pub(crate) large_frames: bool,
    pub(crate) large_requests: bool,
}

impl<S> Socket<S> {
    /// Creates the socket with these bytes that were already read.
    pub(crate) fn new(stream: S, input: BytesMut) -> Self {
        Self {
            stream,
            input,
            frame_reservation: None,
            batch_memory: HeldMemory::default(),
        }
    }

    /// Stores the memory reservation for a frame of `bytes`.
    pub(crate) fn set_reservation(&mut self, reservation: MemoryReservation, bytes: usize) {
        self.input.reserve(bytes.saturating_sub(self.input.len()));
        self.frame_reservation = Some((reservation, Duration::ZERO));
    }

    /// Returns the number of bytes reserved for the incoming frame, and the time for which the task
    /// has waited for the frame.
    pub(crate) fn awaited_frame(&self) -> Option<(usize, Duration)> {
        let (reservation, waited) = self.frame_reservation.as_ref()?;
        Some((reservation.bytes, *waited))
    }

    /// Adds time for which the task has waited for the incoming frame. Other time does not count,
    /// because the client cannot send while the task does not read.
    pub(crate) fn add_time_of_frame(&mut self, time: Duration) {
        if let Some((_, waited)) = &mut self.frame_reservation {
            *waited += time;
        }
    }
}

/// Resolves when others need the memory that is reserved for a frame that does not arrive. Resolves
/// immediately without a reservation.
pub(crate) async fn wait_until_reclaimed(
    ledger: &Ledger,
    awaited_frame: Option<(usize, Duration)>,
) {
    if let Some((bytes, waited)) = awaited_frame {
        let frames = &ledger.large_frames;
        frames.needed_by_others(bytes, waited, sleep).await;
    }
}

/// Writes the whole outbox. Breaks if the connection must end.
pub(crate) async fn flush<S: Stream>(
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<ControlFlow<()>> {
    loop {
        let (outgoing, ends) = {
            let mut state = connection.lock();
            let ends = state.client.ends_after_flush;
            (state.take_to_write(), ends)
        };
        let Some(outgoing) = outgoing else {
            // The core wakes the task when it has finished the write.
            connection.wait_for_wake().await;
            if connection.is_closed() {
                return Ok(ControlFlow::Break(()));
            }
            continue;
        };
        if outgoing.is_empty() {
            return Ok(if ends {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            });
        }
        let held = HeldMemory {
            large_frames: socket.batch_memory.large_frames || socket.frame_reservation.is_some(),
            ..socket.batch_memory
        };
        let bytes = outgoing.bytes();
        let write = async {
            outgoing.write_to(&mut socket.stream).await?;
            // TLS buffers the bytes that the socket did not accept. TCP does not need a flush.
            socket.stream.flush().await
        };
        tokio::select! {
            biased;
            written = write => written?,
            () = closed(connection) => return Ok(ControlFlow::Break(())),
            // The future is boxed, and created only if needed.
            () = async { Box::pin(wait_until_blocking_others(ledger, connection, held, bytes)).await } => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client does not read its replies and has sent more long requests while other clients wait for memory, closing connection");
                connection.close();
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Writes the outbox, including a reply that has its own `reservation`. Closes the connection if
/// the client takes too long while others wait for the memory.
pub(crate) async fn flush_large<S: Stream>(
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
    reservation: MemoryReservation,
) -> io::Result<ControlFlow<()>> {
    let bytes = reservation.bytes;
    tokio::select! {
        flushed = flush(ledger, connection, socket) => flushed,
        () = ledger.large_replies.needed_by_others(bytes, Duration::ZERO, sleep) => {
            log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), bytes, "client does not read its replies while other clients wait for memory, closing connection");
            connection.close();
            Ok(ControlFlow::Break(()))
        }
    }
}

/// Completes `work`, which may wait for a client that does not read. A semaphore assigns permits to
/// its oldest waiter even if this waiter is not polled, so `wanted` is polled too. Its result is
/// dropped, because other connections may need it. Returns whether a result was dropped.
pub(crate) async fn give_back_during<R, T>(
    work: impl Future<Output = R>,
    mut wanted: Pin<&mut impl Future<Output = T>>,
) -> (R, bool) {
    let mut work = pin!(work);
    let mut is_received = false;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return (done, is_received),
            _ = wanted.as_mut(), if !is_received => is_received = true,
        }
    }
}

/// Waits for a permit or a reservation, for which `ask` asks. Sends replies and events that are
/// created meanwhile without delay. While the client does not read them, the connection holds
/// nothing that others need. Returns `None` if the connection ends first.
pub(crate) async fn obtain<S: Stream, F: Future>(
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
    ask: impl Fn() -> F,
) -> io::Result<Option<F::Output>> {
    let mut wanted = pin!(ask());
    loop {
        tokio::select! {
            found = &mut wanted => return Ok(Some(found)),
            () = connection.wait_for_wake() => {}
        }
        if connection.is_closed() {
            return Ok(None);
        }
        let flushing = flush(ledger, connection, socket);
        let (flushed, is_dropped) = give_back_during(flushing, wanted.as_mut()).await;
        if flushed?.is_break() {
            return Ok(None);
        }
        if is_dropped {
            wanted.set(ask());
        }
    }
}

/// Waits for `wanted`, which holds nothing that other connections need. Sends replies and events
/// that are created meanwhile without delay. Returns `None` if the connection ends first.
pub(crate) async fn run_while_flushing<S: Stream, T>(
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
    wanted: impl Future<Output = T>,
) -> io::Result<Option<T>> {
    let mut wanted = pin!(wanted);
    loop {
        tokio::select! {
            found = &mut wanted => return Ok(Some(found)),
            () = connection.wait_for_wake() => {}
        }
        if connection.is_closed() || flush(ledger, connection, socket).await?.is_break() {
            return Ok(None);
        }
    }
}

/// Resolves when the client has been reading `bytes` for too long, and the connection holds memory
/// for long requests that others need. `held` is the memory of the requests that are not queued.
async fn wait_until_blocking_others(
    ledger: &Ledger,
    connection: &Connection,
    held: HeldMemory,
    bytes: usize,
) {
    let holds_frames = || held.large_frames || connection.lock().has_frame_reservation();
    let holds_requests = || held.large_requests;
    tokio::select! {
        () = wait_until_blocking(&ledger.large_frames, holds_frames, bytes) => {}
        () = wait_until_blocking(&ledger.large_requests.room, holds_requests, bytes) => {}
    }
}

/// Resolves when others have needed memory of the budget for too long while a client reads `bytes`,
/// and `holds` states that the connection holds some.
async fn wait_until_blocking(budget: &MemoryBudget, holds: impl Fn() -> bool, bytes: usize) {
    let begun = Instant::now();
    loop {
        budget.needed_by_others(bytes, begun.elapsed(), sleep).await;
        if holds() {
            return;
        }
        sleep(MEMORY_PATIENCE).await;
    }
}

/// Reads once. Returns false at the end of the stream. The input has a buffer only while it
/// contains bytes, because fifty thousand idle connections must fit into memory.
pub(crate) async fn fill<S: Stream>(socket: &mut Socket<S>) -> io::Result<bool> {
    poll_fn(|context| {
        if socket.frame_reservation.is_none() || socket.input.len() == socket.input.capacity() {
            socket.input.reserve(limits::READ_CHUNK_BYTES);
        }
        // The future can be recreated for each poll, because a read does not have state and the
        // stream keeps the waker.
        let read = pin!(socket.stream.read_buf(&mut socket.input)).poll(context);
        if read.is_pending() && socket.input.is_empty() {
            socket.input = BytesMut::new();
        }
        read.map_ok(|bytes| bytes > 0)
    })
    .await
}

/// Ends the stream. TLS sends a last record, for which a client that does not read gets a limited
/// time.
pub(crate) async fn shut_down<S: Stream>(socket: &mut Socket<S>) -> io::Result<()> {
    timeout(limits::END_PATIENCE, socket.stream.shutdown()).await?
}

/// Resolves after the connection is closed. Consumes other wake-ups, so the caller must check the
/// outbox again afterwards.
pub(crate) async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        connection.wait_for_wake().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::connection::outgoing::EventFrame;
    use crate::start::tests::test_frontend;

    #[tokio::test]
    async fn a_connection_whose_client_does_not_read_holds_no_permit() {
        let context = test_frontend().context;
        let connection = context.connections.register(([127, 0, 0, 1], 1).into());
        let connection = connection.unwrap();
        let (mut theirs, ours) = duplex(8);
        let mut socket = Socket::new(ours, BytesMut::new());
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire().await.unwrap();
        let ledger = &context.requests.ledger;
        let ask = || semaphore.acquire();
        let mut obtaining = pin!(obtain(ledger, &connection, &mut socket, ask));
        let mut is_waiting = async || {
            tokio::select! {
                biased;
                _ = &mut obtaining => false,
                () = std::future::ready(()) => true,
            }
        };
        assert!(is_waiting().await);
        connection.push_event(EventFrame::Short(&[7; 64]));
        connection.wake();
        assert!(is_waiting().await, "the client does not read");
        drop(held);
        assert!(is_waiting().await);
        let other = semaphore.try_acquire();
        drop(other.expect("a permit that the waiting connection has given back"));

        let mut read = [0; 64];
        let (obtained, received) = tokio::join!(obtaining, theirs.read_exact(&mut read));
        assert!(matches!(obtained, Ok(Some(Ok(_)))));
        received.unwrap();
    }
}
