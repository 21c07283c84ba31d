//! The socket task of a connection: reads frames, writes what waits in the outbox.
//!
//! A connection with unsent output is not read from, so a client that does not read its replies
//! stops itself. The task ends when the client goes, when a frame makes no sense, or when the
//! server closes the connection; the session lives on until it expires or is closed.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::connection::Connection;
use super::dispatch::{self, Batch};
use super::{handshake, words};
use crate::shared::Shared;
use crate::{clock, limits};

/// A byte stream to a client: plain TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves a connection to its end and forgets it.
pub(crate) async fn run(shared: Arc<Shared>, connection: Arc<Connection>, stream: impl Stream) {
    let mut socket = Socket {
        stream,
        input: BytesMut::new(),
    };
    match serve(&shared, &connection, &mut socket).await {
        Ok(()) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), "connection ends")
        }
        Err(error) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), err = %error, "connection lost")
        }
    }
    shared.forget(&connection);
}

/// The stream and what was read from it but not handled yet.
pub(crate) struct Socket<S> {
    pub(crate) stream: S,
    pub(crate) input: BytesMut,
}

async fn serve<S: Stream>(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let deadline = shared.settings.sessionless_timeout;
    let first = tokio::select! {
        first = handshake::first_frame(shared, socket) => first?,
        () = tokio::time::sleep(deadline) => {
            tracing::debug!(peer = %connection.peer, "no handshake in time, closing");
            shared.metrics.sessionless_connections_expired.inc();
            return Ok(());
        }
        () = closed(connection) => return Ok(()),
    };
    match first {
        handshake::First::Word(word) => {
            return words::answer(shared, connection, socket, word).await;
        }
        handshake::First::Connect(request) => {
            if !handshake::connect(shared, connection, &request).await {
                return flush_and_end(connection, socket).await;
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
    }
    requests(shared, connection, socket).await
}

async fn requests<S: Stream>(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    loop {
        // Frames that are there already, a batch at a time, output in between.
        loop {
            let batch = decode(shared, socket);
            if batch.is_empty() {
                break;
            }
            if !take_batch(shared, connection, socket, batch).await? {
                return flush_and_end(connection, socket).await;
            }
            if flush(connection, socket).await?.is_break() {
                return Ok(());
            }
        }
        if flush(connection, socket).await?.is_break() {
            return Ok(());
        }
        if socket.input.is_empty() {
            // An idle connection holds no buffer: fifty thousand of them must fit.
            socket.input = BytesMut::new();
        }
        tokio::select! {
            biased;
            () = connection.woken() => {}
            readable = fill(socket) => if !readable? { return Ok(()) },
        }
        if connection.is_closed() {
            return Ok(());
        }
    }
}

fn decode<S>(shared: &Shared, socket: &mut Socket<S>) -> Batch {
    dispatch::decode_batch(shared, &mut socket.input)
}

/// Takes the permits for a batch and handles it. False when the session is gone: then nothing of
/// the batch was done.
async fn take_batch<S: Stream>(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    mut batch: Batch,
) -> io::Result<bool> {
    let writes = u32::try_from(batch.writes).unwrap_or(u32::MAX);
    if writes > 0 && !shared.permits.take_now(writes) {
        shared.metrics.request_throttle_wait_count.inc();
        let waits_since = Instant::now();
        // The pipeline is full: replies already made must not wait for it.
        loop {
            if flush(connection, socket).await?.is_break() {
                return Ok(true);
            }
            tokio::select! {
                () = shared.permits.take(writes) => break,
                () = connection.woken() => {}
            }
        }
        let late_after = shared.settings.throttled_after;
        batch.is_late = late_after.is_some_and(|after| waits_since.elapsed() > after);
    }
    if !shared.touch(connection) {
        shared.permits.give_back(batch.writes);
        connection.close();
        return Ok(false);
    }
    let now_ms = clock::monotonic_ms();
    let unused = dispatch::handle_batch(shared, connection, batch, now_ms);
    shared.permits.give_back(unused);
    Ok(true)
}

/// Writes all that is in the outbox. Breaks when the connection is to end.
async fn flush<S: Stream>(
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<ControlFlow<()>> {
    loop {
        let (frames, ends) = {
            let mut state = connection.lock();
            let ends = state.ends_after_flush;
            (std::mem::take(&mut state.outbox), ends)
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
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let _ = flush(connection, socket).await?;
    socket.stream.shutdown().await
}

/// Reads once; false at the end of the stream.
pub(crate) async fn fill<S: Stream>(socket: &mut Socket<S>) -> io::Result<bool> {
    socket.input.reserve(limits::READ_CHUNK_BYTES);
    Ok(socket.stream.read_buf(&mut socket.input).await? > 0)
}

/// Resolves once the connection is closed. Swallows other wake-ups: whoever waits here looks at
/// the outbox again afterwards.
async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        connection.woken().await;
    }
}
