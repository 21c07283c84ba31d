//! Whether TLS or something else begins.
//!
//! No other beginning of ours looks like TLS: an election hello begins with FF or 00, a packet between
//! members and a client's handshake with a length below 2^28, a four-letter word with a letter.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// The type of the record that a handshake begins with.
const HANDSHAKE: u8 = 0x16;

/// The high byte of every version there is.
const MAJOR_VERSION: u8 = 3;

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Tls,
    Plain,
    /// Nothing in time.
    Silent,
    /// The end.
    Closed,
}

/// Waits for the first byte and leaves it where it is. Source: UnifiedServerSocket, DualModeSslHandler.
pub(super) async fn first(stream: &TcpStream, limit: Duration) -> io::Result<First> {
    let mut byte = [0];
    Ok(match timeout(limit, stream.peek(&mut byte)).await {
        Ok(Ok(0)) => First::Closed,
        Ok(Ok(_)) if byte[0] == HANDSHAKE => First::Tls,
        Ok(Ok(_)) => First::Plain,
        Ok(Err(error)) => return Err(error),
        Err(_) => First::Silent,
    })
}

/// Whether these are the first bytes of a TLS connection: what a plain port takes for a wrong length.
pub fn looks_like_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, MAJOR_VERSION, ..])
}
