//! Simulated network cuts between this process and other servers.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::{Connecting, Interceptor, Stream};

/// Servers that this process cannot reach because of a simulated cut.
///
/// On a connection to such a server, reads and writes wait until the cut ends. Bytes from the other
/// side are read after the cut. If this process drops a connection, the other side notices that
/// even during the cut.
#[derive(Debug, Default)]
pub struct Cuts {
    lines: Mutex<HashMap<SocketAddr, Arc<CutLink>>>,
}

/// State of the link to one server.
#[derive(Debug, Default)]
struct CutLink {
    is_cut: AtomicBool,
    /// Wakers of the tasks that wait for the end of the cut.
    waiting: Mutex<Vec<Waker>>,
}

/// A stream that waits during a cut.
#[derive(Debug)]
struct CutStream {
    inner: Stream,
    line: Arc<CutLink>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuts {
    /// Cuts the link to the server at this address, or restores it.
    pub fn set(&self, server: SocketAddr, is_cut: bool) {
        let line = self.line(server);
        line.is_cut.store(is_cut, Ordering::SeqCst);
        if !is_cut {
            let waiting = std::mem::take(&mut *locked(&line.waiting));
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    fn line(&self, server: SocketAddr) -> Arc<CutLink> {
        locked(&self.lines).entry(server).or_default().clone()
    }
}

impl Interceptor for Cuts {
    /// Waits before the TLS handshake until the server is reachable.
    fn establish<'a>(&'a self, server: SocketAddr, connecting: Connecting<'a>) -> Connecting<'a> {
        let line = self.line(server);
        Box::pin(async move {
            poll_fn(|context| line.poll_open(context)).await;
            let inner = connecting.await?;
            Ok(Stream::Brought(Box::new(CutStream { inner, line })))
        })
    }
}

impl CutLink {
    fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let mut waiting = locked(&self.waiting);
        // Checks again while the wakers are locked, because the cut may have ended in between.
        if !self.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl CutStream {
    fn poll_inner(&mut self, context: &mut Context<'_>) -> Poll<Pin<&mut Stream>> {
        let open = self.line.poll_open(context);
        open.map(|()| Pin::new(&mut self.inner))
    }
}

/// Evaluates to the inner stream if the link is open. Otherwise returns `Poll::Pending` from the
/// enclosing function.
macro_rules! when_open {
    ($this:ident, $context:ident) => {
        match $this.get_mut().poll_inner($context) {
            Poll::Ready(inner) => inner,
            Poll::Pending => return Poll::Pending,
        }
    };
}

impl AsyncRead for CutStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        when_open!(self, context).poll_read(context, into)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        when_open!(self, context).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        when_open!(self, context).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        when_open!(self, context).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use transport::Connector;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_cut_holds_both_directions_up_until_it_is_healed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = listener.local_addr().unwrap();
        let cuts = Arc::new(Cuts::default());
        let connector = Connector::plain().with_interceptor(cuts.clone());
        let dialled = TcpStream::connect(server).await.unwrap();
        let stream = connector.establish(dialled, &["localhost"]).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.into_split();
        write.write_all(b"a").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'a');
        cuts.set(server, true);
        theirs.write_all(b"bc").await.unwrap();
        let (mut got, mut sent) = (Box::pin(read.read_u8()), Box::pin(write.write_all(b"d")));
        let moment = Duration::from_millis(20);
        assert!(timeout(moment, &mut got).await.is_err());
        assert!(timeout(moment, &mut sent).await.is_err());
        let dialled = TcpStream::connect(server).await.unwrap();
        let mut another = Box::pin(connector.establish(dialled, &["localhost"]));
        assert!(timeout(moment, &mut another).await.is_err());
        cuts.set(server, false);
        assert_eq!(timeout(LIMIT, got).await.unwrap().unwrap(), b'b');
        timeout(LIMIT, sent).await.unwrap().unwrap();
        assert_eq!(
            timeout(LIMIT, theirs.read_u8()).await.unwrap().unwrap(),
            b'd'
        );
        timeout(LIMIT, another).await.unwrap().unwrap();
    }
}
