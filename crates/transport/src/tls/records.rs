//! Detection of renegotiation (a second handshake, in TLS 1.2) from the record types.
//!
//! rustls does not support renegotiation, and answers the first attempt with a warning that this
//! server cannot observe. Java's servers close such a connection
//! (`jdk.tls.rejectClientInitiatedRenegotiation`, which X509Util sets). This server also closes it,
//! with a log line.
//!
//! ```text
//! type u8 (20 the cipher changes, 21 alert, 22 handshake, 23 data), version u16, length u16, body
//! ```
//!
//! After the change of the cipher, only one more handshake record follows, which ends the handshake
//! (RFC 5246, 7.3). In TLS 1.2, the types are never encrypted. In TLS 1.3, they are no longer
//! visible, and renegotiation does not exist.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::gate::Gate;

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;

/// TCP stream below TLS, which observes the record types.
#[derive(Debug)]
pub struct Records {
    stream: TcpStream,
    /// Parser of the records; `None` once renegotiation is impossible.
    sought: Option<HeaderParser>,
    /// Peer and gate for the log line; `None` for outgoing connections, whose caller receives the
    /// error.
    detection: Option<(SocketAddr, Arc<Gate>)>,
}

/// Parser of record headers, for input in pieces of any size.
#[derive(Debug, Default)]
struct HeaderParser {
    head: [u8; 5],
    head_len: usize,
    body_left: usize,
    has_changed: bool,
    has_ended: bool,
}

impl HeaderParser {
    /// Returns whether another handshake begins in these bytes.
    fn begins_new_handshake(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.body_left.min(bytes.len());
            self.body_left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((byte, rest)) = bytes.split_first() else {
                return false;
            };
            bytes = rest;
            if let Some(place) = self.head.get_mut(self.head_len) {
                *place = *byte;
            }
            self.head_len += 1;
            if self.head_len >= self.head.len() {
                let [of, _, _, high, low] = self.head;
                self.head_len = 0;
                self.body_left = usize::from(u16::from_be_bytes([high, low]));
                if self.is_new_handshake(of) {
                    return true;
                }
            }
        }
    }

    fn is_new_handshake(&mut self, of: u8) -> bool {
        match of {
            CHANGE_CIPHER_SPEC => self.has_changed = true,
            HANDSHAKE if self.has_ended => return true,
            HANDSHAKE if self.has_changed => self.has_ended = true,
            _ => {}
        }
        false
    }
}

impl Records {
    /// Wraps an outgoing connection.
    pub(super) fn dialled(stream: TcpStream) -> Self {
        Self {
            stream,
            sought: Some(HeaderParser::default()),
            detection: None,
        }
    }

    /// Wraps an incoming connection.
    pub(super) fn accepted(stream: TcpStream, peer: SocketAddr, gate: Arc<Gate>) -> Self {
        let detection = Some((peer, gate));
        Self {
            detection,
            ..Self::dialled(stream)
        }
    }

    /// Stops the detection, because the protocol does not support renegotiation.
    pub(crate) fn stop_detection(&mut self) {
        self.sought = None;
    }

    /// Returns the TCP stream below TLS.
    pub fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    fn refuse(&mut self) -> io::Error {
        self.sought = None;
        let reason = "the peer requested TLS renegotiation, which is not supported";
        if let Some((peer, gate)) = &self.detection {
            let at = self.stream.local_addr().map(|at| at.to_string());
            let at = at.unwrap_or_default();
            log_limiter::limited!(in gate.log_limiter => warn, %peer, %at, err = %reason, "connection closed");
        }
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }
}

impl AsyncRead for Records {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let new = into.filled().get(before..).unwrap_or_default();
        let asks = self
            .sought
            .as_mut()
            .is_some_and(|heads| heads.begins_new_handshake(new));
        Poll::Ready(if asks { Err(self.refuse()) } else { Ok(()) })
    }
}

impl AsyncWrite for Records {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(of: u8, len: u16) -> Vec<u8> {
        let mut bytes = vec![of, 3, 3];
        bytes.extend(len.to_be_bytes());
        // Bodies are encrypted, so they may contain any byte.
        bytes.resize(5 + usize::from(len), HANDSHAKE);
        bytes
    }

    /// Returns the index of the first record that renegotiates. Checks that pieces of several sizes
    /// give the same result.
    fn first(types: &[u8]) -> Option<usize> {
        let records: Vec<_> = types.iter().map(|of| record(*of, 300)).collect();
        let found = [1, 7, 305, 4000].map(|piece| {
            let mut heads = HeaderParser::default();
            let mut found = None;
            for (at, bytes) in records.iter().enumerate() {
                for part in bytes.chunks(piece) {
                    if heads.begins_new_handshake(part) {
                        found = found.or(Some(at));
                    }
                }
            }
            found
        });
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        found[0]
    }

    #[test]
    fn a_renegotiation_is_detected() {
        // A full handshake, a resumed handshake, and a handshake with a client certificate.
        for begins in [
            &[22, 22, 20, 22][..],
            &[22, 20, 22],
            &[22, 22, 22, 22, 20, 22],
        ] {
            assert_eq!(first(begins), None);
            let on = [begins, &[23, 23, 21, 23]].concat();
            assert_eq!(first(&on), None);
            let again = [&on[..], &[22]].concat();
            assert_eq!(first(&again), Some(on.len()));
        }
    }

    #[test]
    fn tls_1_3_has_no_renegotiation() {
        // A second handshake record is a second hello, which the server has requested.
        assert_eq!(first(&[22, 20, 23, 23, 23]), None);
        assert_eq!(first(&[22, 20, 22, 23, 23]), None);
        assert_eq!(first(&[22, 22, 20, 23]), None);
    }
}
