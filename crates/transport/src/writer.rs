//! What is written to TCP: by the task of a connection, or past it by whoever has something short.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncWrite, Join, join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Writes to TCP as it is. All clones write to the same connection; who has them sees to it that one writes
/// at a time. The last one to go ends what is sent.
///
/// A task that waits is woken for nothing but to write what another thread could have written: that is a
/// syscall to wake it, and the time until it runs.
#[derive(Debug, Clone)]
pub struct TcpWriter(Arc<OwnedWriteHalf>);

impl TcpWriter {
    pub(crate) fn new(half: OwnedWriteHalf) -> Self {
        Self(Arc::new(half))
    }

    /// The stream for its task, and what writes past it.
    pub fn beside(stream: TcpStream) -> (Join<OwnedReadHalf, Self>, Self) {
        let (read, write) = stream.into_split();
        let writer = Self::new(write);
        (join(read, writer.clone()), writer)
    }

    /// Writes what the socket takes at once, from whatever thread: so many bytes.
    ///
    /// # Errors
    /// If it takes nothing, or the connection is broken.
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
        let (mut stream, writer) = TcpWriter::beside(stream);
        stream.write_all(b"one ").await.unwrap();
        let other = writer.clone();
        let wrote = thread::spawn(move || other.try_write(b"two "));
        assert_eq!(wrote.join().unwrap().unwrap(), 4);
        // The socket is full at some time: what it has taken until then has arrived, and the task waits
        // for it to take more.
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
        let (_stream, writer) = TcpWriter::beside(stream);
        SockRef::from(writer.tcp())
            .shutdown(Shutdown::Write)
            .unwrap();
        let error = writer.try_write(b"more").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
