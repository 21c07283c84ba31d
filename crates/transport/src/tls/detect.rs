//! Detection of TLS in the first byte.
//!
//! The other protocols do not begin like TLS. An election hello begins with FF or 00. A packet
//! between members begins with its type, and a client's handshake with its length, both below 2^28.
//! A four-letter word begins with a letter.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// Record type of the first record in a handshake.
const HANDSHAKE: u8 = 0x16;

/// High byte of all TLS versions.
const MAJOR_VERSION: u8 = 3;

/// Kind of the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstByte {
    Tls,
    Plain,
    /// Nothing was received in time.
    Silent,
    /// The stream ended.
    Closed,
}

/// Waits for the first byte without consuming it. Source: UnifiedServerSocket, DualModeSslHandler.
pub(super) async fn first(stream: &TcpStream, limit: Duration) -> io::Result<FirstByte> {
    let mut byte = [0];
    Ok(match timeout(limit, stream.peek(&mut byte)).await {
        Ok(Ok(0)) => FirstByte::Closed,
        Ok(Ok(_)) if byte[0] == HANDSHAKE => FirstByte::Tls,
        Ok(Ok(_)) => FirstByte::Plain,
        Ok(Err(error)) => return Err(error),
        Err(_) => FirstByte::Silent,
    })
}

/// Returns whether these are the first bytes of a TLS connection. A plain port would interpret them
/// as an invalid length.
pub fn looks_like_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, MAJOR_VERSION, ..])
}
