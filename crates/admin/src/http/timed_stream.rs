//! Stream with an idle timeout.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::admission::{Permit, Slot};

/// Whether the server is working for the peer, which may be silent meanwhile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    at_work: Arc<AtomicUsize>,
    /// Permit of the request, if it needs a slot.
    permit: Option<Permit>,
    give_way: Option<Arc<Notify>>,
}

impl Activity {
    /// Returns the activity of a request with a slot.
    pub(super) fn with(&self, slot: &Slot) -> Self {
        Self {
            at_work: self.at_work.clone(),
            permit: Some(slot.permit.clone()),
            give_way: Some(slot.give_way()),
        }
    }

    /// Ends the connection of the request, even if the answer is partly written.
    pub(crate) fn end_connection(&self) {
        if let Some(give_way) = &self.give_way {
            give_way.notify_one();
        }
    }

    /// Marks the server as working until the returned value is dropped. The request keeps its slot
    /// until then.
    pub(crate) fn begin(&self) -> AtWork {
        self.at_work.fetch_add(1, Ordering::AcqRel);
        AtWork {
            at_work: self.at_work.clone(),
            _permit: self.permit.clone(),
        }
    }

    fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Acquire) > 0
    }
}

/// Guard that marks the server as working, from [`Activity::begin`].
#[derive(Debug)]
pub(crate) struct AtWork {
    at_work: Arc<AtomicUsize>,
    _permit: Option<Permit>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.at_work.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stream that fails with `TimedOut` if no byte is read or written for the time `idle`, unless the
/// server is working for the peer.
#[derive(Debug)]
pub(super) struct TimedStream<S> {
    stream: S,
    idle: Duration,
    activity: Activity,
    timer: Pin<Box<Sleep>>,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, idle: Duration, activity: Activity) -> Self {
        Self {
            stream,
            idle,
            activity,
            timer: Box::pin(sleep(idle)),
        }
    }

    fn moved(&mut self) {
        let until = Instant::now() + self.idle;
        self.timer.as_mut().reset(until);
    }

    /// Becomes ready after the idle timeout, which is extended while the server is working.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if !self.activity.is_at_work() {
                return Poll::Ready(());
            }
            self.moved();
        }
    }

    fn or_idle<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(done) => {
                self.moved();
                Poll::Ready(done)
            }
            Poll::Pending => self
                .poll_idle(cx)
                .map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.or_idle(polled, cx)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.or_idle(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.or_idle(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.or_idle(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_and_work_does_not() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let activity = Activity::default();
        let idle = Duration::from_secs(30);
        let mut stream = TimedStream::new(ours, idle, activity.clone());
        theirs.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');

        let at_work = activity.begin();
        let reading = tokio::time::timeout(4 * idle, stream.read_u8());
        assert!(reading.await.is_err(), "it waits while the server works");
        drop(at_work);

        let silent = stream.read_u8().await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }

    /// A peer that does not read blocks a writer only until the idle timeout.
    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_ends_it() {
        let (_theirs, ours) = tokio::io::duplex(64);
        let mut stream = TimedStream::new(ours, Duration::from_secs(30), Activity::default());
        let stuck = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
    }
}
