//! The socket task of a connection: reads frames and writes the outbox.
//!
//! The task does not read from a connection that has unsent output, so a client that does not read
//! its replies stops itself. The task ends when the client disconnects, when a frame is invalid, or
//! when the server closes the connection. The session remains alive until it expires or is closed.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use admission::Room;
use admission::limits::ROOM_PATIENCE;
use bytes::BytesMut;
use hosting::Connected as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::answer::Grant;
use super::batch::{Batch, decode_batch, long_frame_bytes};
use super::budget_held::count_if_due;
use super::budget_wait::pay_ahead;
use super::connection::Connection;
use super::dispatch::{self, Next};
use super::request_throttle::{give_back, take_permits};
use super::{handshake, sasl, words};
use crate::client::clients::Clients;
use crate::{clock, limits};

/// A byte stream to a client: plain TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves a connection to its end and forgets it.
pub(crate) async fn run(clients: Arc<Clients>, connection: Arc<Connection>, stream: impl Stream) {
    let mut socket = Socket {
        stream,
        input: BytesMut::new(),
        frame_room: None,
    };
    match serve(&clients, &connection, &mut socket).await {
        Ok(()) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), "connection ended")
        }
        Err(error) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), err = %error, "connection lost")
        }
    }
    clients.forget(&connection);
    let begun_ms = clock::monotonic_ms();
    connection.lock().at_once.end();
    drop(socket);
    let took_ms = clock::monotonic_ms().saturating_sub(begun_ms);
    clients.metrics.socket_closing_time.record(took_ms);
}

/// The stream, and the bytes that were read but not handled yet.
pub(crate) struct Socket<S> {
    pub(crate) stream: S,
    pub(crate) input: BytesMut,
    /// Memory reservation for the first frame of the input, if it is long, and the time of the
    /// reservation.
    pub(crate) frame_room: Option<(Room, tokio::time::Instant)>,
}

async fn serve<S: Stream>(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let deadline = clients.settings.sessionless_timeout;
    let first = tokio::select! {
        first = handshake::first_frame(clients, connection.peer, socket) => first?,
        () = sleep(deadline) => {
            tracing::debug!(peer = %connection.peer, "no handshake in time, closing connection");
            clients.metrics.sessionless_connections_expired.inc();
            return Ok(());
        }
        () = closed(connection) => return Ok(()),
    };
    match first {
        handshake::First::Word(word) => {
            return words::answer(clients, connection, socket, word).await;
        }
        handshake::First::Connect(request) => {
            if !handshake::connect(clients, connection, &request).await {
                return flush_and_end(clients, connection, socket).await;
            }
        }
        handshake::First::Nothing => return Ok(()),
    }
    // The task does not read until the session exists; pipelined requests wait.
    while connection.session() == proto::SessionId::NONE {
        connection.woken().await;
        if connection.is_closed() {
            return Ok(());
        }
        if connection.lock().client.ends_after_flush {
            return flush_and_end(clients, connection, socket).await;
        }
    }
    requests(clients, connection, socket).await
}

async fn requests<S: Stream>(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    // Frames that are paid for and not decoded yet. Used only with budgets.
    let mut paid = 0;
    loop {
        // Handles the frames that are already read, one batch at a time, and writes output in
        // between.
        let mut room = None;
        loop {
            let found = frames_max(clients, connection, socket, &mut paid).await?;
            let Some(frames_max) = found else {
                return Ok(());
            };
            let mut batch = decode_batch(clients, socket, frames_max, room.take());
            paid = paid.saturating_sub(batch.requests.len());
            if batch.is_empty() {
                let Some(bytes) = batch.waits_for_room else {
                    break;
                };
                let found = clients.ledger.large_requests.room.take(bytes);
                room = Box::pin(while_serving(clients, connection, socket, found)).await?;
                if room.is_none() {
                    return Ok(());
                }
                continue;
            }
            take_permits(clients, connection, socket, &mut batch).await?;
            if !clients.touch(connection) {
                // The session is over or has moved: its requests are dropped without an answer.
                give_back(clients, &mut batch);
                connection.close();
                return Ok(());
            }
            count_if_due(clients, connection, &batch);
            let handled = handle(clients, connection, socket, &mut batch).await;
            give_back(clients, &mut batch);
            if handled?.is_break() {
                return Ok(());
            }
        }
        if flush(clients, connection, socket).await?.is_break() {
            return Ok(());
        }
        if serve_left_over(clients, connection, socket)
            .await?
            .is_break()
        {
            return Ok(());
        }
        // With too many unanswered requests, the task does not read. Further bytes of the client
        // wait in the kernel.
        let may_read = !connection.lock().is_full_before_wait();
        if may_read && !find_frame_room(clients, connection, socket).await? {
            return Ok(());
        }
        let frame_room = socket.frame_room_since(may_read);
        tokio::select! {
            biased;
            () = connection.woken() => {}
            readable = fill(socket), if may_read => if !readable? {
                clients.metrics.connection_drop_count.inc();
                return Ok(());
            },
            () = async { Box::pin(is_wanted_back(clients, frame_room)).await }, if may_read && frame_room.is_some() => {
                let bytes = frame_room.map_or(0, |(bytes, _)| bytes);
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), bytes, "client sends a long request too slowly while others wait for memory, closing connection");
                return Ok(());
            }
        }
        if connection.is_closed() {
            return Ok(());
        }
    }
}

/// Returns the number of frames that may be decoded. With budgets, waits until frames are paid for
/// and returns their number. Returns `None` if the connection must end.
async fn frames_max<S: Stream>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
    paid: &mut usize,
) -> io::Result<Option<usize>> {
    let Some(budgets) = &clients.ledger.budgets else {
        return Ok(Some(usize::MAX));
    };
    if *paid == 0 {
        // Boxed because few servers have budgets, and every connection would contain the memory for
        // this future.
        let found = Box::pin(pay_ahead(clients, budgets, connection, socket)).await?;
        let Some(frames) = found else {
            return Ok(None);
        };
        *paid = frames;
    }
    // The result is at least one, because an invalid frame must end the connection even if it is
    // not paid.
    Ok(Some((*paid).max(1)))
}

/// Handles a batch after the deferred requests, and writes the replies; many bytes are written in
/// several turns. Breaks when the connection must end.
async fn handle<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    batch: &mut Batch,
) -> io::Result<ControlFlow<()>> {
    let mut room: Option<Room> = None;
    let mut turn = None;
    loop {
        let grant = Grant {
            room: room.as_ref().map(|room| room.bytes),
            is_slow: turn.is_some(),
        };
        let now_ms = clock::monotonic_ms();
        let next = dispatch::handle_batch(clients, connection, batch, now_ms, grant);
        drop(turn.take());
        let is_done = batch.is_empty() && !connection.has_left_over();
        if !is_done {
            // The client may read slowly, and other connections need the permits.
            give_back(clients, batch);
        }
        // A reply that is both long and slow needs the memory and the permit together.
        let used = room.take_if(|_| next != Next::Turn);
        // Boxed because most connections never reach this call, and all would contain the memory
        // for it.
        let flushed = match used {
            Some(room) => Box::pin(flush_large(clients, connection, socket, room)).await?,
            None => flush(clients, connection, socket).await?,
        };
        if is_done || flushed.is_break() {
            return Ok(flushed);
        }
        match next {
            Next::GoOn | Next::Turn | Next::Close => {}
            Next::Room(bytes) => {
                let found = clients.ledger.large_replies.take(bytes);
                room = Box::pin(meanwhile(clients, connection, socket, found)).await?;
                if room.is_none() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Next::Wait => wait_for_core(clients, connection, socket).await?,
            Next::Login => {
                let worked = Box::pin(sasl::work(clients, connection, batch));
                if meanwhile(clients, connection, socket, worked)
                    .await?
                    .is_none()
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if connection.is_closed() {
            return Ok(ControlFlow::Break(()));
        }
        take_permits(clients, connection, socket, batch).await?;
        if next == Next::Turn {
            let found = clients.slow_reads.acquire();
            turn = Box::pin(meanwhile(clients, connection, socket, found)).await?;
            if turn.is_none() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Handles the requests that the core deferred to this task after a write. Breaks when the
/// connection must end.
async fn serve_left_over<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<ControlFlow<()>> {
    if !connection.has_left_over() {
        return Ok(ControlFlow::Continue(()));
    }
    handle(clients, connection, socket, &mut Batch::default()).await
}

/// Waits for a memory reservation for another request, and meanwhile handles the requests that the
/// core defers to this task. Requests of this connection and others may hold all the memory;
/// without this handling, all of them would wait for each other. Returns `None` if the connection
/// ends first.
async fn while_serving<S: Stream, T>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    wanted: impl Future<Output = T>,
) -> io::Result<Option<T>> {
    let mut wanted = pin!(wanted);
    loop {
        if serve_left_over(clients, connection, socket)
            .await?
            .is_break()
        {
            return Ok(None);
        }
        tokio::select! {
            found = &mut wanted => return Ok(Some(found)),
            () = connection.woken() => {}
        }
        if connection.is_closed() || flush(clients, connection, socket).await?.is_break() {
            return Ok(None);
        }
    }
}

/// Waits for `wanted`. Replies and events made meanwhile are sent without delay. Returns `None` if
/// the connection ends first.
pub(super) async fn meanwhile<S: Stream, T>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
    wanted: impl Future<Output = T>,
) -> io::Result<Option<T>> {
    let mut wanted = pin!(wanted);
    loop {
        tokio::select! {
            found = &mut wanted => return Ok(Some(found)),
            () = connection.woken() => {}
        }
        if connection.is_closed() || flush(clients, connection, socket).await?.is_break() {
            return Ok(None);
        }
    }
}

/// Writes the outbox, including a reply with its own reservation `room`. Closes the connection of a
/// client that takes too long while others wait for the memory.
async fn flush_large<S: Stream>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
    room: Room,
) -> io::Result<ControlFlow<()>> {
    let bytes = room.bytes;
    tokio::select! {
        flushed = flush(clients, connection, socket) => flushed,
        () = clients.ledger.large_replies.wanted_back(bytes, Duration::ZERO, sleep) => {
            log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), bytes, "client does not read its replies while others wait for memory, closing connection");
            connection.close();
            Ok(ControlFlow::Break(()))
        }
    }
}

/// Waits for a memory reservation for the incoming frame, if it is long. Returns false if the
/// connection must end.
async fn find_frame_room<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<bool> {
    let limit = clients.settings.jute_max_buffer;
    let Some(bytes) = long_frame_bytes(&socket.input, limit) else {
        return Ok(true);
    };
    if socket.frame_room.is_none() {
        // Boxed because most connections never reach this call.
        let found = clients.ledger.large_frames.take(bytes);
        let found = Box::pin(while_serving(clients, connection, socket, found)).await?;
        let Some(room) = found else {
            return Ok(false);
        };
        socket.hold(room, bytes);
    }
    Ok(true)
}

impl<S> Socket<S> {
    /// Stores the memory reservation for a frame of `bytes`.
    pub(crate) fn hold(&mut self, room: Room, bytes: usize) {
        self.input.reserve(bytes.saturating_sub(self.input.len()));
        self.frame_room = Some((room, tokio::time::Instant::now()));
    }

    /// Returns the reserved bytes for the incoming frame, and the time since which its client could
    /// send it. While the task does not read, the client is not late.
    fn frame_room_since(&mut self, is_read: bool) -> Option<(usize, tokio::time::Instant)> {
        let (room, since) = self.frame_room.as_mut()?;
        if !is_read {
            *since = tokio::time::Instant::now();
        }
        Some((room.bytes, *since))
    }
}

/// Resolves when others need the memory reserved for a frame that does not arrive.
pub(crate) async fn is_wanted_back(
    clients: &Clients,
    frame_room: Option<(usize, tokio::time::Instant)>,
) {
    if let Some((bytes, since)) = frame_room {
        clients
            .ledger
            .large_frames
            .wanted_back(bytes, since.elapsed(), sleep)
            .await;
    }
}

/// Waits until the core has answered enough of the pending requests.
async fn wait_for_core<S: Stream>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    loop {
        let waits = connection.lock().holds_up_writes_before_wait() && !connection.has_left_over();
        if !waits || connection.is_closed() {
            return Ok(());
        }
        connection.woken().await;
        if flush(clients, connection, socket).await?.is_break() {
            connection.close();
            return Ok(());
        }
    }
}

/// Writes the whole outbox. Breaks when the connection must end.
pub(super) async fn flush<S: Stream>(
    clients: &Clients,
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
            // The core wakes the task when it has written.
            connection.woken().await;
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
        let write = async {
            outgoing.write_to(&mut socket.stream).await?;
            // TLS buffers the bytes that the socket did not accept; TCP does not need a flush.
            socket.stream.flush().await
        };
        tokio::select! {
            biased;
            written = write => written?,
            () = closed(connection) => return Ok(ControlFlow::Break(())),
            // Boxed, and only created if needed.
            () = async { Box::pin(holds_up_others(clients, connection)).await } => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client does not read its replies and has sent more long requests while others wait for memory, closing connection");
                connection.close();
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

async fn flush_and_end<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let _ = flush(clients, connection, socket).await?;
    clients.forget(connection);
    socket.stream.shutdown().await
}

/// Resolves when the client has not read for long and the connection holds memory for long requests
/// that others need.
async fn holds_up_others(clients: &Clients, connection: &Connection) {
    let begun = tokio::time::Instant::now();
    loop {
        clients
            .ledger
            .large_frames
            .wanted_back(0, begun.elapsed(), sleep)
            .await;
        if connection.lock().has_frame_room() {
            return;
        }
        sleep(ROOM_PATIENCE).await;
    }
}

/// Reads once. Returns false at the end of the stream. The input has a buffer only while it
/// contains bytes: fifty thousand idle connections must fit into memory.
pub(crate) async fn fill<S: Stream>(socket: &mut Socket<S>) -> io::Result<bool> {
    poll_fn(|context| {
        if socket.frame_room.is_none() || socket.input.len() == socket.input.capacity() {
            socket.input.reserve(limits::READ_CHUNK_BYTES);
        }
        // The future is recreated for each poll: a read does not have state, and the stream keeps
        // the waker.
        let read = pin!(socket.stream.read_buf(&mut socket.input)).poll(context);
        if read.is_pending() && socket.input.is_empty() {
            socket.input = BytesMut::new();
        }
        read.map_ok(|bytes| bytes > 0)
    })
    .await
}

/// Resolves after the connection is closed. Consumes other wake-ups, so the caller must check the
/// outbox again afterwards.
async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        connection.woken().await;
    }
}
