//! Connections that send a four-letter word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metrics::fourlw::{self, Word};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use crate::clients::Clients;
use crate::connection::Connection;
use crate::connection::socket::{Socket, Stream, fill};
use crate::limits;
use crate::view::LiveView;

/// Answers the word and ends the connection. Bytes that the client sends after the word are
/// ignored.
pub(crate) async fn answer<S: Stream>(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    word: Word,
) -> io::Result<()> {
    clients.stats.packets_received(1);
    connection.stats.packets_received(1);
    let text = if clients.settings.words.allows(word) {
        let argument = timeout(limits::ARGUMENT_PATIENCE, argument(socket, word)).await;
        let Ok(Some(argument)) = argument.unwrap_or(Ok(None)) else {
            tracing::debug!(peer = %connection.peer, word = word.text(), "argument of a four-letter word is missing, closing connection");
            return end(clients, connection, socket).await;
        };
        tracing::debug!(peer = %connection.peer, word = word.text(), "processing four-letter word");
        let turn = if word.may_be_long() {
            // The semaphore is never closed, so a permit is always returned.
            clients.long_words.acquire().await.ok()
        } else {
            None
        };
        // Some words walk the tree or read the disk, so they do not run on a thread that serves
        // other connections.
        let view = LiveView::new(clients.clone());
        let text = blocking::run(move || fourlw::answer(word, &argument, &view));
        let mut text = text.await?;
        if text.len() > limits::REPLY_BYTES_SMALL {
            text.shrink_to_fit();
            // The reservation also covers the answer to the next word, which is about as long and
            // is produced before memory is reserved for it.
            let reservation = clients.ledger.large_replies.take(2 * text.len()).await;
            drop(turn);
            write_long(clients, connection, socket, &text).await?;
            drop(reservation);
            return end(clients, connection, socket).await;
        }
        text
    } else {
        log_limiter::limited!(info, peer = %connection.peer, word = word.text(), "four-letter word is not in the whitelist");
        fourlw::refusal(word)
    };
    let writing = async {
        socket.stream.write_all(text.as_bytes()).await?;
        end(clients, connection, socket).await
    };
    match timeout(limits::WORD_PATIENCE, writing).await {
        Ok(ended) => ended,
        Err(_) => {
            log_limiter::limited!(warn, peer = %connection.peer, bytes = text.len(), "client does not read the answer to a four-letter word, closing connection");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// Reads the argument of a word, which is usually empty. Returns `None` if the client has stopped
/// sending.
async fn argument<S: Stream>(socket: &mut Socket<S>, word: Word) -> io::Result<Option<Bytes>> {
    let len = word.argument_bytes();
    while socket.input.len() < len {
        if !fill(socket).await? {
            return Ok(None);
        }
    }
    Ok(Some(socket.input.split_to(len).freeze()))
}

/// Writes an answer that has its own memory reservation. Ends the connection if the client takes
/// too long while others wait for the memory.
async fn write_long<S: Stream>(
    clients: &Clients,
    connection: &Connection,
    socket: &mut Socket<S>,
    text: &str,
) -> io::Result<()> {
    tokio::select! {
        written = socket.stream.write_all(text.as_bytes()) => written,
        () = clients.ledger.large_replies.needed_by_others(text.len(), Duration::ZERO, sleep) => {
            log_limiter::limited!(warn, peer = %connection.peer, bytes = text.len(), "client does not read the answer to a four-letter word while other clients wait for memory, closing connection");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

async fn end<S: Stream>(
    clients: &Clients,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<()> {
    clients.stats.packets_sent(1);
    // The client is removed before the shutdown, because a client that sees the end may immediately
    // query the number of connections.
    clients.forget(connection);
    socket.stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::clients::tests::test_clients;
    use crate::greeting::listener::register;
    use crate::requests::task;

    #[tokio::test]
    async fn a_client_that_does_not_read_a_short_answer_loses_its_connection() {
        let clients = test_clients();
        let connection = register(&clients, ([127, 0, 0, 1], 1).into()).unwrap();
        let (mut theirs, ours) = tokio::io::duplex(64);
        theirs.write_all(b"srvr").await.unwrap();
        tokio::time::pause();
        let begun = Instant::now();
        task::run(clients.clone(), connection, ours).await;
        assert!(begun.elapsed() >= limits::WORD_PATIENCE);
        assert_eq!(clients.registry.len(), 0);
        tokio::time::resume();
        drop(theirs);
    }
}
