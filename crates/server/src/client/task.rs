//! The socket task of a connection: reads frames, writes what waits in the outbox.
//!
//! A connection with unsent output is not read from, so a client that does not read its replies
//! stops itself. The task ends when the client goes, when a frame makes no sense, or when the
//! server closes the connection; the session lives on until it expires or is closed.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::batch::{Batch, decode_batch};
use super::connection::Connection;
use super::dispatch::{self, Next};
use super::large_replies::Room;
use super::request_throttle::{give_back, take_permits};
use super::{handshake, words};
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
    };
    match serve(&clients, &connection, &mut socket).await {
        Ok(()) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), "connection ends")
        }
        Err(error) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), err = %error, "connection lost")
        }
    }
    clients.forget(&connection);
}

/// The stream and what was read from it but not handled yet.
pub(crate) struct Socket<S> {
    pub(crate) stream: S,
    pub(crate) input: BytesMut,
}

async fn serve<S: Stream>(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let deadline = clients.settings.sessionless_timeout;
    let first = tokio::select! {
        first = handshake::first_frame(clients, socket) => first?,
        () = tokio::time::sleep(deadline) => {
            tracing::debug!(peer = %connection.peer, "no handshake in time, closing");
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
    // Nothing is read until the session is there; what the client has pipelined waits.
    while connection.session() == proto::SessionId::NONE {
        connection.woken().await;
        if connection.is_closed() {
            return Ok(());
        }
        if connection.lock().ends_after_flush {
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
    loop {
        // Frames that are there already, a batch at a time, output in between.
        let mut room = None;
        loop {
            let mut batch = decode_batch(clients, &mut socket.input, room.take());
            if batch.is_empty() {
                let Some(bytes) = batch.waits_for_room else {
                    break;
                };
                let found = clients.large_requests.room(bytes);
                room = Box::pin(meanwhile(connection, socket, found))
                    .await?
                    .flatten();
                if room.is_none() {
                    return Ok(());
                }
                continue;
            }
            take_permits(clients, connection, socket, &mut batch).await?;
            if !clients.touch(connection) {
                // The session is over: its requests are dropped without an answer.
                give_back(clients, &mut batch);
                connection.close();
                return Ok(());
            }
            let handled = handle(clients, connection, socket, &mut batch).await;
            give_back(clients, &mut batch);
            if handled?.is_break() {
                return Ok(());
            }
        }
        if flush(connection, socket).await?.is_break() {
            return Ok(());
        }
        if connection.has_left_over() {
            // The core has left them here, behind a write.
            let mut nothing_new = Batch::default();
            if handle(clients, connection, socket, &mut nothing_new)
                .await?
                .is_break()
            {
                return Ok(());
            }
        }
        // With too much unanswered nothing is read: what the client sends waits in the kernel.
        let may_read = !connection.lock().is_full();
        tokio::select! {
            biased;
            () = connection.woken() => {}
            readable = fill(socket), if may_read => if !readable? {
                clients.metrics.connection_drop_count.inc();
                return Ok(());
            },
        }
        if connection.is_closed() {
            return Ok(());
        }
    }
}

/// Handles a batch, and what was left over before it, and writes the replies, in turns if there
/// are many bytes of them. Breaks when the connection is to end.
async fn handle<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    batch: &mut Batch,
) -> io::Result<ControlFlow<()>> {
    let small = limits::REPLY_BYTES_SMALL;
    let mut next = dispatch::handle_batch(clients, connection, batch, clock::monotonic_ms(), small);
    loop {
        if batch.is_empty() && !connection.has_left_over() {
            return flush(connection, socket).await;
        }
        // The client may take its time to read, and others need the permits.
        give_back(clients, batch);
        if flush(connection, socket).await?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut room = None;
        match next {
            Next::GoOn => {}
            // On the heap: most connections never come here, and all have the memory for it.
            Next::Room(bytes) => {
                let found = clients.large_replies.take(bytes);
                room = Box::pin(meanwhile(connection, socket, found)).await?;
                if room.is_none() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Next::Wait => wait_for_core(connection, socket).await?,
        }
        if connection.is_closed() {
            return Ok(ControlFlow::Break(()));
        }
        take_permits(clients, connection, socket, batch).await?;
        let bytes = room.as_ref().map_or(small, |room| room.bytes);
        next = dispatch::handle_batch(clients, connection, batch, clock::monotonic_ms(), bytes);
        if let Some(room) = room {
            give_back(clients, batch);
            let written = Box::pin(flush_large(clients, connection, socket, room));
            if written.await?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Waits for something. Replies and events that are made meanwhile do not wait for it. `None` if the
/// connection ends first.
async fn meanwhile<S: Stream, T>(
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
        if connection.is_closed() || flush(connection, socket).await?.is_break() {
            return Ok(None);
        }
    }
}

/// Writes all that is in the outbox, a reply for which there was `room` among it. A client that
/// takes too long ends if others wait for the room.
async fn flush_large<S: Stream>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
    room: Room<'_>,
) -> io::Result<ControlFlow<()>> {
    let mebibytes = u32::try_from(room.bytes >> 20).unwrap_or(u32::MAX);
    let patience = limits::LARGE_REPLY_PATIENCE.saturating_mul(mebibytes.saturating_add(1));
    let mut flushed = pin!(flush(connection, socket));
    loop {
        tokio::select! {
            flushed = &mut flushed => return flushed,
            () = tokio::time::sleep(patience) => if clients.large_replies.is_awaited() {
                tracing::warn!(peer = %connection.peer, session = %connection.session(), bytes = room.bytes, "client does not read its replies and others wait for the memory, closing connection");
                connection.close();
                return Ok(ControlFlow::Break(()));
            },
        }
    }
}

/// Waits until the core has answered enough of what waits for it.
async fn wait_for_core<S: Stream>(
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    loop {
        let waits = connection.lock().holds_up_writes() && !connection.has_left_over();
        if !waits || connection.is_closed() {
            return Ok(());
        }
        connection.woken().await;
        if flush(connection, socket).await?.is_break() {
            connection.close();
            return Ok(());
        }
    }
}

/// Writes all that is in the outbox. Breaks when the connection is to end.
pub(super) async fn flush<S: Stream>(
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<ControlFlow<()>> {
    loop {
        let (frames, ends) = {
            let mut state = connection.lock();
            let ends = state.ends_after_flush;
            (state.take_outbox(), ends)
        };
        if frames.is_empty() {
            return Ok(if ends {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            });
        }
        let write = socket.stream.write_all(&frames);
        tokio::select! {
            biased;
            written = write => written?,
            () = closed(connection) => return Ok(ControlFlow::Break(())),
        }
    }
}

async fn flush_and_end<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let _ = flush(connection, socket).await?;
    clients.forget(connection);
    socket.stream.shutdown().await
}

/// Reads once; false at the end of the stream. There is a buffer only while there is something to
/// read: fifty thousand connections that wait must fit.
pub(crate) async fn fill<S: Stream>(socket: &mut Socket<S>) -> io::Result<bool> {
    poll_fn(|context| {
        socket.input.reserve(limits::READ_CHUNK_BYTES);
        // Begun anew each time: reading keeps no state of its own, and who is to be woken is noted
        // in the stream.
        let read = pin!(socket.stream.read_buf(&mut socket.input)).poll(context);
        if read.is_pending() && socket.input.is_empty() {
            socket.input = BytesMut::new();
        }
        read.map_ok(|bytes| bytes > 0)
    })
    .await
}

/// Resolves once the connection is closed. Swallows other wake-ups: whoever waits here looks at
/// the outbox again afterwards.
async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        connection.woken().await;
    }
}
