//! Connections that send a four-letter word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use admission::{Ledger, MemoryBudget};
use bytes::Bytes;
use metrics::ServerStats;
use metrics::fourlw::{self, Whitelist, Word};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::connection::Connection;
use crate::connection::open::OpenConnections;
use crate::connection::socket::{Socket, Stream, fill, shut_down};
use crate::limits;
use crate::view::LiveView;

/// Values that answers to four-letter words use.
pub(crate) struct WordContext {
    /// Enabled words.
    pub(crate) whitelist: Whitelist,
    /// Permits for words with long answers.
    pub(crate) long_words: Semaphore,
    pub(crate) ledger: Arc<Ledger>,
    /// Counts of packets.
    pub(crate) stats: Arc<ServerStats>,
    /// View of the server, which the answers show.
    pub(crate) view: Arc<LiveView>,
}

/// Answers the word and ends the connection. Bytes that the client sends after the word are
/// ignored.
pub(crate) async fn answer<S: Stream>(
    context: &WordContext,
    connections: &OpenConnections,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    word: Word,
) -> io::Result<()> {
    let WordContext {
        ledger,
        stats,
        view,
        ..
    } = context;
    stats.packets_received(1);
    connection.stats.packets_received(1);
    let text = if context.whitelist.allows(word) {
        let argument = timeout(limits::ARGUMENT_PATIENCE, argument(socket, word)).await;
        let Ok(Some(argument)) = argument.unwrap_or(Ok(None)) else {
            tracing::debug!(peer = %connection.peer, word = word.text(), "argument of a four-letter word is missing, closing connection");
            return end(stats, connections, connection, socket).await;
        };
        tracing::debug!(peer = %connection.peer, word = word.text(), "processing four-letter word");
        let turn = if word.may_be_long() {
            // The semaphore is never closed, so a permit is always returned.
            context.long_words.acquire().await.ok()
        } else {
            None
        };
        // Some words walk the tree or read the disk, so they do not run on a thread that serves
        // other connections.
        let view = view.clone();
        let text = blocking::run(move || fourlw::answer(word, &argument, &*view));
        let mut text = text.await?;
        if text.len() > limits::REPLY_BYTES_SMALL {
            text.shrink_to_fit();
            // Twice the length, because another connection may produce its long answer before it
            // reserves memory. That answer is about as long as this one.
            let large_replies = &ledger.large_replies;
            let reservation = large_replies.take(2 * text.len()).await;
            drop(turn);
            write_long(large_replies, connection, socket, &text).await?;
            drop(reservation);
            return end(stats, connections, connection, socket).await;
        }
        text
    } else {
        log_limiter::limited!(info, peer = %connection.peer, word = word.text(), "four-letter word is not in the whitelist");
        fourlw::refusal(word)
    };
    let writing = async {
        socket.stream.write_all(text.as_bytes()).await?;
        end(stats, connections, connection, socket).await
    };
    match timeout(limits::WORD_PATIENCE, writing).await {
        Ok(ended) => ended,
        Err(_) => {
            log_limiter::limited!(warn, peer = %connection.peer, bytes = text.len(), "client does not read the answer to a four-letter word, closing connection");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// Reads the argument of a word, which is usually empty. Returns `None` if the stream ends before
/// the argument is complete.
async fn argument<S: Stream>(socket: &mut Socket<S>, word: Word) -> io::Result<Option<Bytes>> {
    let len = word.argument_bytes();
    while socket.input.len() < len {
        if !fill(socket).await? {
            return Ok(None);
        }
    }
    Ok(Some(socket.input.split_to(len).freeze()))
}

/// Writes an answer that has its own memory reservation. Fails with `TimedOut` if the client takes
/// too long while others wait for the memory.
async fn write_long<S: Stream>(
    large_replies: &MemoryBudget,
    connection: &Connection,
    socket: &mut Socket<S>,
    text: &str,
) -> io::Result<()> {
    let writing = async {
        socket.stream.write_all(text.as_bytes()).await?;
        // TLS buffers bytes that the socket did not accept.
        socket.stream.flush().await
    };
    tokio::select! {
        written = writing => written,
        () = large_replies.needed_by_others(text.len(), Duration::ZERO, sleep) => {
            log_limiter::limited!(warn, peer = %connection.peer, bytes = text.len(), "client does not read the answer to a four-letter word while other clients wait for memory, closing connection");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

async fn end<S: Stream>(
    stats: &ServerStats,
    connections: &OpenConnections,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    stats.packets_sent(1);
    // The client is removed before the shutdown, because a client that sees the end may immediately
    // query the number of connections.
    connections.forget(connection);
    shut_down(socket).await
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tokio::io::BufStream;
    use tokio::time::Instant;

    use super::*;
    use crate::requests::task;
    use crate::start::tests::test_frontend;

    #[tokio::test]
    async fn a_client_that_does_not_read_a_short_answer_loses_its_connection() {
        let context = test_frontend().context;
        let peer = ([127, 0, 0, 1], 1).into();
        let connection = context.connections.register(peer).unwrap();
        let (mut theirs, ours) = tokio::io::duplex(64);
        theirs.write_all(b"srvr").await.unwrap();
        tokio::time::pause();
        let begun = Instant::now();
        task::run(context.clone(), connection, ours).await;
        assert!(begun.elapsed() >= limits::WORD_PATIENCE);
        assert_eq!(context.requests.registry.len(), 0);
        tokio::time::resume();
        drop(theirs);
    }

    /// TLS buffers bytes in the same way.
    #[tokio::test]
    async fn an_answer_in_the_buffer_of_a_stream_is_not_written_yet() {
        let connections = &test_frontend().context.connections;
        let peer = ([127, 0, 0, 1], 1).into();
        let connection = connections.register(peer).unwrap();
        let (_theirs, ours) = tokio::io::duplex(64);
        let stream = BufStream::with_capacity(64, 4096, ours);
        let mut socket = Socket::new(stream, BytesMut::new());
        let budget = MemoryBudget::new(1000);
        let _reservation = budget.take(1000).await;
        let other = budget.clone();
        let waiting = tokio::spawn(async move { other.take(1).await });
        tokio::time::pause();
        let text = "x".repeat(1000);
        let written = write_long(&budget, &connection, &mut socket, &text).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let ended = shut_down(&mut socket).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        waiting.abort();
    }
}
