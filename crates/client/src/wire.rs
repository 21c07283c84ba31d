//! Stream with a buffer in each direction. One write sends all waiting data, and one read receives
//! all available data.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::frame::{FrameError, FrameReader};
use crate::limits::{BUFFER_BYTES_KEPT, READ_BYTES};

/// Received frame, and the buffer for frames that answer it.
pub type Exchange<'a> = (&'a [u8], &'a mut Vec<u8>);

/// Connection for requests and replies as bytes. The caller appends requests to
/// [`outbound`](Self::outbound) and reads replies with [`next_frame`](Self::next_frame).
/// [`turn`](Self::turn) moves bytes.
///
/// All futures may be dropped at any await, and the calls repeated. No bytes are lost or sent
/// twice.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    inbound: FrameReader,
    outbound: Vec<u8>,
    /// Number of bytes of `outbound` that the stream has accepted.
    written: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Wraps a stream. Refuses incoming frames of more than `frame_bytes_max` bytes.
    pub fn new(stream: S, frame_bytes_max: usize) -> Self {
        Self {
            stream,
            inbound: FrameReader::new(frame_bytes_max),
            outbound: Vec::new(),
            written: 0,
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the buffer to which the caller appends frames. The caller must not change the
    /// existing content.
    pub fn outbound(&mut self) -> &mut Vec<u8> {
        &mut self.outbound
    }

    /// Returns the number of bytes that wait to be written.
    pub fn unsent(&self) -> usize {
        self.outbound.len() - self.written
    }

    /// Returns the next complete frame. See [`FrameReader::next_frame`].
    ///
    /// # Errors
    /// If the length before the frame is invalid.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.inbound.next_frame()
    }

    /// Returns the next complete frame and the buffer for answers to it.
    ///
    /// # Errors
    /// If the length before the frame is invalid.
    pub fn next_frame_and_outbound(&mut self) -> Result<Option<Exchange<'_>>, FrameError> {
        let frame = self.inbound.next_frame()?;
        Ok(frame.map(|frame| (frame, &mut self.outbound)))
    }

    /// Changes the size limit for the following frames.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.inbound.set_frame_bytes_max(frame_bytes_max);
    }

    /// Writes all waiting bytes.
    ///
    /// # Errors
    /// If the stream fails.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_write_out(context)).await
    }

    /// Writes and flushes waiting bytes while the peer accepts them, until bytes from the peer
    /// arrive.
    ///
    /// Reading continues while a write is blocked. Therefore two peers with full buffers cannot
    /// wait for each other.
    ///
    /// # Errors
    /// If the stream fails or has ended (`UnexpectedEof`).
    pub async fn turn(&mut self) -> io::Result<()> {
        poll_fn(|context| {
            // Also runs if nothing is unsent, because the stream may not have sent all accepted
            // bytes yet.
            if let Poll::Ready(Err(error)) = self.poll_write_out(context) {
                return Poll::Ready(Err(error));
            }
            self.poll_read_in(context)
        })
        .await
    }

    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Removes written bytes, because the buffer would grow without limit if the peer never read
        // all of it.
        if self.written > READ_BYTES && self.written > self.outbound.len() / 2 {
            self.outbound.drain(..self.written);
            self.written = 0;
        }
        while let Some(rest @ [_, ..]) = self.outbound.get(self.written..) {
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.outbound.clear();
        self.written = 0;
        if self.outbound.capacity() > BUFFER_BYTES_KEPT {
            self.outbound.shrink_to(0);
        }
        // A TCP stream does not buffer data itself, but an encrypted stream may.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_read_in(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let count = ready!(pin!(self.stream.read_buf(self.inbound.space())).poll(context))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncWriteExt, ReadBuf};

    use super::*;
    use crate::frame::put_frame;

    fn frame(len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put_frame(&mut out, |out| out.resize(out.len() + len, 7));
        out
    }

    #[tokio::test]
    async fn reading_goes_on_while_a_write_is_stuck() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut wire = Wire::new(ours, 1000);
        wire.outbound().extend_from_slice(&frame(10_000));
        theirs.write_all(&frame(10)).await.unwrap();
        wire.turn().await.unwrap();
        assert_eq!(wire.next_frame().unwrap().map(<[u8]>::len), Some(10));
        assert_eq!(wire.unsent(), 10_004 - 64);

        let mut taken = vec![0; 10_004];
        let (flushed, read) = tokio::join!(wire.flush(), theirs.read_exact(&mut taken));
        flushed.unwrap();
        read.unwrap();
        assert!(taken == frame(10_000) && wire.unsent() == 0);
    }

    /// Stream that buffers all bytes, and can send none of them at the first flush.
    #[derive(Default)]
    struct Buffering {
        buffered: usize,
        sent: usize,
        is_writable: bool,
    }

    impl AsyncWrite for Buffering {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.buffered += bytes.len();
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.is_writable, true) {
                return Poll::Pending;
            }
            self.sent = self.buffered;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Buffering {
        /// Ends once all bytes are sent.
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match self.sent {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        }
    }

    #[test]
    fn a_turn_sends_the_bytes_that_the_stream_has_buffered() {
        let mut wire = Wire::new(Buffering::default(), 1000);
        wire.outbound().extend_from_slice(&frame(10));
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(wire.turn()).poll(&mut context).is_pending());
        assert_eq!((wire.unsent(), wire.stream().sent), (0, 0));
        assert!(pin!(wire.turn()).poll(&mut context).is_ready());
        assert_eq!(wire.stream().sent, 14);
    }

    #[tokio::test]
    async fn a_peer_that_never_catches_up_does_not_make_the_buffer_grow() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let mut wire = Wire::new(ours, 1000);
        wire.outbound().extend_from_slice(&frame(100_000));
        let mut taken = vec![0; 1000];
        for _ in 0..10_000 {
            wire.outbound().extend_from_slice(&frame(996));
            // One byte from the peer ends the turn. Most of the buffer is still unsent.
            theirs.write_all(&[0]).await.unwrap();
            wire.turn().await.unwrap();
            theirs.read_exact(&mut taken).await.unwrap();
        }
        assert!(wire.unsent() > 90_000);
        let capacity = wire.outbound().capacity();
        assert!(capacity < 1 << 20, "{capacity}");
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_an_error() {
        let (ours, theirs) = tokio::io::duplex(64);
        let mut wire = Wire::new(ours, 1000);
        drop(theirs);
        let error = wire.turn().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
