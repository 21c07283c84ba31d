//! Connections of clients that break or stall.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use client::{Dial, Dialing, Duplex};
use parking_lot::Mutex;
use testkit::Random;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// All connections of clients.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: Mutex<Vec<Weak<Line>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LineState {
    #[default]
    Open,
    /// Neither side receives bytes.
    Stalled,
    Broken,
}

/// One connection.
#[derive(Debug, Default)]
struct Line {
    state: Mutex<LineState>,
    /// Wakers of the reader and of the writer.
    wakers: Mutex<[Option<Waker>; 2]>,
}

impl Lines {
    /// Breaks or stalls some connections, or ends the stalls.
    pub(crate) fn disturb(&self, random: &mut Random) {
        let state = match random.below(3) {
            0 => LineState::Open,
            1 => LineState::Stalled,
            _ => LineState::Broken,
        };
        let percent = random.pick(&[20, 50, 100]).unwrap_or(0);
        self.set(state, || random.percent(percent));
    }

    /// Ends all stalls.
    pub(crate) fn repair(&self) {
        self.set(LineState::Open, || true);
    }

    fn set(&self, state: LineState, mut is_chosen: impl FnMut() -> bool) {
        let mut open = self.open.lock();
        open.retain(|line| line.strong_count() > 0);
        for line in open.iter().filter_map(Weak::upgrade) {
            if is_chosen() {
                line.set(state);
            }
        }
    }
}

impl Line {
    fn set(&self, state: LineState) {
        let mut now = self.state.lock();
        if *now != LineState::Broken {
            *now = state;
        }
        drop(now);
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Returns when the connection is open, or has broken.
    fn poll_open(&self, side: usize, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.wakers.lock()[side] = Some(context.waker().clone());
        match *self.state.lock() {
            LineState::Open => Poll::Ready(Ok(())),
            LineState::Stalled => Poll::Pending,
            LineState::Broken => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

/// Opens TCP connections that the faults can break.
#[derive(Debug)]
pub(crate) struct Dialer(pub(crate) Arc<Lines>);

impl Dial for Dialer {
    fn dial(&self, server: &str) -> Dialing {
        let address = server.parse::<SocketAddr>();
        let lines = self.0.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address.map_err(io::Error::other)?).await?;
            let line = Arc::<Line>::default();
            lines.open.lock().push(Arc::downgrade(&line));
            let stream = ClientStream { stream, line };
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

const READER: usize = 0;
const WRITER: usize = 1;

#[derive(Debug)]
struct ClientStream {
    stream: TcpStream,
    line: Arc<Line>,
}

/// Returns from the enclosing function unless the connection is open.
macro_rules! when_open {
    ($this:ident, $side:ident, $context:ident) => {
        match $this.line.poll_open($side, $context) {
            Poll::Ready(Ok(())) => Pin::new(&mut $this.stream),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        when_open!(self, READER, context).poll_read(context, into)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        when_open!(self, WRITER, context).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        when_open!(self, WRITER, context).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        when_open!(self, WRITER, context).poll_shutdown(context)
    }
}
