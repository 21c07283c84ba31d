//! Output to TCP, written by the task of a connection, or directly by another thread if the output
//! is short.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncWrite, Join, join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Writer to plain TCP. All clones write to the same connection, and their owners must ensure that
/// only one writes at a time. Dropping the last clone shuts down the sending direction.
///
/// Without this writer, a waiting task would be woken only to write bytes that another thread could
/// have written. Waking it costs a system call and the time until the task runs.
#[derive(Debug, Clone)]
pub struct TcpWriter(Arc<OwnedWriteHalf>);

impl TcpWriter {
    pub(crate) fn new(half: OwnedWriteHalf) -> Self {
        Self(Arc::new(half))
    }

    /// Splits a stream into the stream for its task and the writer for other threads.
    pub fn split(stream: TcpStream) -> (Join<OwnedReadHalf, Self>, Self) {
        let (read, write) = stream.into_split();
        let writer = Self::new(write);
        (join(read, writer.clone()), writer)
    }

    /// Writes the bytes that the socket accepts immediately, from any thread. Returns their number.
    ///
    /// # Errors
    /// If the socket does not accept bytes, or the connection is broken.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn tcp(&self) -> &TcpStream {
        self.0.as_ref().as_ref()
    }

    fn poll_with(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tcp().poll_write_ready(context))?;
            match write(self.tcp()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for TcpWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |tcp| tcp.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |tcp| tcp.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.tcp()).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_task_and_another_thread_write_to_one_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        let (mut stream, writer) = TcpWriter::split(stream);
        stream.write_all(b"one ").await.unwrap();
        let other = writer.clone();
        let wrote = thread::spawn(move || other.try_write(b"two "));
        assert_eq!(wrote.join().unwrap().unwrap(), 4);
        // Fills the buffers of the sockets, so that the task must wait until the other side reads.
        let block = vec![7; 1 << 20];
        let mut bytes = 8;
        while let Ok(some) = writer.try_write(&block) {
            bytes += some;
        }
        let reading = thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).unwrap();
            read
        });
        stream.write_all(b"three").await.unwrap();
        stream.shutdown().await.unwrap();
        let read = reading.join().unwrap();
        assert_eq!(read.len(), bytes + 5);
        assert!(read.starts_with(b"one two ") && read.ends_with(b"three"));
    }

    #[tokio::test]
    async fn a_broken_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (_stream, writer) = TcpWriter::split(stream);
        SockRef::from(writer.tcp())
            .shutdown(Shutdown::Write)
            .unwrap();
        let error = writer.try_write(b"more").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
