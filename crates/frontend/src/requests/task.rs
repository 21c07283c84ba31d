//! Socket task of a connection, which reads frames and writes the outbox.
//!
//! The task does not read from a connection that has unsent output, so a client that does not read
//! its replies cannot send more requests. The task ends when the client disconnects, when a frame
//! is invalid, or when the server closes the connection. The session remains alive until it expires
//! or is closed.

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use admission::Ledger;
use bytes::BytesMut;
use host::SharedConnection as _;
use tokio::time::{Instant, sleep};

use crate::clock;
use crate::connection::Connection;
use crate::connection::open::OpenConnections;
use crate::connection::socket::{
    Socket, Stream, closed, fill, flush, give_back_during, run_while_flushing, shut_down,
    wait_until_reclaimed,
};
use crate::greeting::{handshake, words};
use crate::login::sasl;
use crate::requests::answer::ReadPermits;
use crate::requests::batch::{Batch, decode_batch, long_frame_bytes};
use crate::requests::budget_resources::count_if_due;
use crate::requests::budget_wait::pay_for_next_frames;
use crate::requests::context::{ConnectionContext, RequestContext};
use crate::requests::dispatch::{self, Resume};
use crate::requests::read_needs::answer_reads;
use crate::requests::request_throttle::{release, take_permits};

/// Serves a connection until it ends, and then removes it.
pub(crate) async fn run(
    context: Arc<ConnectionContext>,
    connection: Arc<Connection>,
    stream: impl Stream,
) {
    let mut socket = Socket::new(stream, BytesMut::new());
    match serve_client(&context, &connection, &mut socket).await {
        Ok(()) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), "connection ended");
        }
        Err(error) => {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), err = %error, "connection lost");
        }
    }
    context.connections.forget(&connection);
    let begun_ms = clock::monotonic_ms();
    connection.lock().direct_writes.end();
    drop(socket);
    let took_ms = clock::monotonic_ms().saturating_sub(begun_ms);
    let metric = &context.requests.metrics.socket_closing_time;
    metric.record(took_ms);
}

async fn serve_client<S: Stream>(
    context: &ConnectionContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let ConnectionContext {
        connections,
        words,
        requests: context,
    } = context;
    let RequestContext {
        settings,
        ledger,
        metrics,
        ..
    } = context;
    let frame_bytes_max = settings.jute_max_buffer;
    let first = tokio::select! {
        first = handshake::first_frame(frame_bytes_max, ledger, metrics, connection.peer, socket) => first?,
        () = sleep(settings.sessionless_timeout) => {
            tracing::debug!(peer = %connection.peer, "no handshake in time, closing connection");
            metrics.sessionless_connections_expired.inc();
            return Ok(());
        }
        () = closed(connection) => return Ok(()),
    };
    match first {
        handshake::FirstFrame::Word(word) => {
            return words::answer(words, connections, connection, socket, word).await;
        }
        handshake::FirstFrame::Connect(request) => {
            if !handshake::connect(context, connection, request).await {
                return flush_and_end(ledger, connections, connection, socket).await;
            }
        }
        handshake::FirstFrame::Nothing => return Ok(()),
    }
    // The task does not read until the session exists, so pipelined requests wait.
    while connection.session() == proto::SessionId::NONE {
        connection.wait_for_wake().await;
        if connection.is_closed() {
            return Ok(());
        }
        if connection.lock().client.ends_after_flush {
            return flush_and_end(ledger, connections, connection, socket).await;
        }
    }
    requests(context, connection, socket).await
}

async fn requests<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let ledger = &context.ledger;
    // Number of frames that are paid but not decoded yet. It is used only with budgets.
    let mut paid = 0;
    loop {
        let handled = handle_input(context, connection, socket, &mut paid).await?;
        let is_over = handled.is_break() || serve(context, connection, socket).await?.is_break();
        // The waits above may have consumed the wake-up of a close.
        if is_over || connection.is_closed() {
            return Ok(());
        }
        // With too many unanswered requests, the task does not read. Further bytes from the client
        // wait in the kernel.
        let may_read = !connection.lock().must_wait_for_answers();
        if may_read && !reserve_frame(context, connection, socket).await? {
            return Ok(());
        }
        let awaited = socket.awaited_frame().filter(|_| may_read);
        let begun = awaited.map(|_| Instant::now());
        tokio::select! {
            biased;
            () = connection.wait_for_wake() => {}
            readable = fill(socket), if may_read => if !readable? {
                context.metrics.connection_drop_count.inc();
                return Ok(());
            },
            () = async { Box::pin(wait_until_reclaimed(ledger, awaited)).await }, if awaited.is_some() => {
                let bytes = awaited.map_or(0, |(bytes, _)| bytes);
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), bytes, "client sends a long request too slowly while other clients wait for memory, closing connection");
                return Ok(());
            }
        }
        if let Some(begun) = begun {
            socket.add_time_of_frame(begun.elapsed());
        }
        if connection.is_closed() {
            return Ok(());
        }
    }
}

/// Handles the frames that have already been read, one batch at a time, and writes output in
/// between. `paid` is the number of frames that are paid but not decoded yet. Breaks if the
/// connection must end.
async fn handle_input<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    paid: &mut usize,
) -> io::Result<ControlFlow<()>> {
    let ledger = &context.ledger;
    let mut room = None;
    loop {
        let found = frames_max(context, connection, socket, paid).await?;
        let Some(frames_max) = found else {
            return Ok(ControlFlow::Break(()));
        };
        let mut batch = decode_batch(
            &context.settings,
            &ledger.large_requests,
            &context.metrics,
            socket,
            frames_max,
            room.take(),
        );
        *paid = paid.saturating_sub(batch.requests.len());
        if batch.is_empty() {
            let Some(bytes) = batch.waits_for_room else {
                return Ok(ControlFlow::Continue(()));
            };
            let ask = || ledger.large_requests.room.take(bytes);
            room = Box::pin(wait_while_serving(context, connection, socket, ask)).await?;
            if room.is_none() {
                return Ok(ControlFlow::Break(()));
            }
            continue;
        }
        take_permits(context, connection, socket, &mut batch).await?;
        if !context.touch(connection) {
            // The session is closing, has ended or has moved, so its requests are dropped
            // without an answer.
            release(&ledger.permits, &mut batch);
            if connection.lock().client.is_closing() {
                // The answer to the client's closeSession is still due.
                continue;
            }
            connection.close();
            return Ok(ControlFlow::Break(()));
        }
        count_if_due(
            &context.answers,
            &context.registry,
            ledger,
            connection,
            &batch,
        );
        if handle(context, connection, socket, &mut batch)
            .await?
            .is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// Returns the number of frames that may be decoded. With budgets, waits until frames are paid for
/// and returns their number. Returns `None` if the connection must end.
async fn frames_max<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    paid: &mut usize,
) -> io::Result<Option<usize>> {
    let Some(budgets) = &context.ledger.budgets else {
        return Ok(Some(usize::MAX));
    };
    if *paid == 0 {
        // Boxed because few servers have budgets, and every connection would otherwise contain the
        // memory for this future.
        let found = Box::pin(pay_for_next_frames(context, budgets, connection, socket)).await?;
        let Some(frames) = found else {
            return Ok(None);
        };
        *paid = frames;
    }
    // The result is at least one, because an invalid frame must end the connection even if it is
    // not paid for.
    Ok(Some((*paid).max(1)))
}

/// Handles a batch after the deferred requests, and writes the replies. Many bytes are written in
/// several turns. Breaks if the connection must end.
async fn handle<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    batch: &mut Batch,
) -> io::Result<ControlFlow<()>> {
    let ledger = &context.ledger;
    loop {
        let (now_ms, permits) = (clock::monotonic_ms(), ReadPermits::default());
        let next = dispatch::handle_batch(context, connection, batch, now_ms, permits);
        // The permits are returned before the flush, because the client may read slowly and other
        // connections need them.
        release(&ledger.permits, batch);
        socket.batch_memory = batch.held_memory();
        let mut flushed = flush(ledger, connection, socket).await?;
        if flushed.is_continue() && matches!(next, Resume::ReplyMemory(_) | Resume::SlowReadTurn) {
            // Boxed because most connections never reach this call, and all would otherwise contain
            // the memory for it.
            flushed = Box::pin(answer_reads(context, connection, socket, next)).await?;
        }
        // The core may have deferred requests during the flush, which consumes its wake-ups.
        let is_done = batch.is_empty() && !connection.has_deferred();
        if is_done || flushed.is_break() {
            return Ok(flushed);
        }
        match next {
            Resume::Wait => wait_for_core(ledger, connection, socket).await?,
            Resume::SaslToken => {
                let settings = &context.settings;
                let worked = Box::pin(sasl::process_first_token(settings, connection, batch));
                if run_while_flushing(ledger, connection, socket, worked)
                    .await?
                    .is_none()
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
            _ => {}
        }
        if connection.is_closed() {
            return Ok(ControlFlow::Break(()));
        }
        take_permits(context, connection, socket, batch).await?;
    }
}

/// Writes the output, and handles the requests that the core has deferred to this task after a
/// write. Waits for memory and for budgets call this. Breaks if the connection must end.
pub(crate) async fn serve<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<ControlFlow<()>> {
    let flushed = flush(&context.ledger, connection, socket).await?;
    if flushed.is_break() || !connection.has_deferred() {
        return Ok(flushed);
    }
    handle(context, connection, socket, &mut Batch::default()).await
}

/// Waits for a memory reservation for another request, which `ask` requests, and meanwhile handles
/// the requests that the core defers to this task. Requests on this connection and others may hold
/// all the memory. Without this handling, all of them would wait for each other. While the client
/// does not read, the connection gives back a reservation that it receives. Returns `None` if the
/// connection ends first.
async fn wait_while_serving<S: Stream, F: Future>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    ask: impl Fn() -> F,
) -> io::Result<Option<F::Output>> {
    let mut wanted = pin!(ask());
    loop {
        let serving = serve(context, connection, socket);
        let (served, is_dropped) = give_back_during(serving, wanted.as_mut()).await;
        if served?.is_break() || connection.is_closed() {
            return Ok(None);
        }
        if is_dropped {
            wanted.set(ask());
        }
        tokio::select! {
            found = &mut wanted => return Ok(Some(found)),
            () = connection.wait_for_wake() => {}
        }
    }
}

/// Waits for a memory reservation for the incoming frame, if it is long. Returns false if the
/// connection must end.
async fn reserve_frame<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<bool> {
    let limit = context.settings.jute_max_buffer;
    let Some(bytes) = long_frame_bytes(&socket.input, limit) else {
        return Ok(true);
    };
    if socket.frame_reservation.is_none() {
        // Boxed because most connections never reach this call.
        let ask = || context.ledger.large_frames.take(bytes);
        let found = Box::pin(wait_while_serving(context, connection, socket, ask)).await?;
        let Some(room) = found else {
            return Ok(false);
        };
        socket.set_reservation(room, bytes);
    }
    Ok(true)
}

/// Waits until the core has answered enough requests to queue a write, or has deferred requests.
async fn wait_for_core<S: Stream>(
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    loop {
        let waits = connection.lock().must_delay_writes_before_wait() && !connection.has_deferred();
        if !waits || connection.is_closed() {
            return Ok(());
        }
        connection.wait_for_wake().await;
        if flush(ledger, connection, socket).await?.is_break() {
            connection.close();
            return Ok(());
        }
    }
}

async fn flush_and_end<S: Stream>(
    ledger: &Ledger,
    connections: &OpenConnections,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    let _ = flush(ledger, connection, socket).await?;
    connections.forget(connection);
    shut_down(socket).await
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
