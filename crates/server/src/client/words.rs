//! A connection that asks a four-letter word.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use super::connection::Connection;
use super::task::{Socket, Stream, fill};
use crate::client::clients::Clients;
use crate::client::view::LiveView;
use crate::fourlw::{self, Word};

/// Answers and ends the connection. What the client sends behind the word is ignored.
pub(super) async fn answer<S: Stream>(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    word: Word,
) -> io::Result<()> {
    clients.stats.packets_received(1);
    connection.stats.packets_received(1);
    let text = if clients.settings.words.allows(word) {
        let argument_bytes = word.argument_bytes();
        while socket.input.len() < argument_bytes && fill(socket).await? {}
        let argument = socket
            .input
            .get(..argument_bytes)
            .unwrap_or_default()
            .to_vec();
        tracing::info!(peer = %connection.peer, word = word.text(), "processing four-letter word");
        // Some words walk the tree or the disk: not on a thread that serves other connections.
        let view = LiveView::new(clients.clone());
        tokio::task::spawn_blocking(move || fourlw::answer(word, &argument, &view)).await?
    } else {
        tracing::info!(peer = %connection.peer, word = word.text(), "four-letter word is not in the whitelist");
        fourlw::refusal(word)
    };
    socket.stream.write_all(text.as_bytes()).await?;
    clients.stats.packets_sent(1);
    // Who sees the end may ask at once how many connections there are.
    clients.forget(connection);
    socket.stream.shutdown().await
}
