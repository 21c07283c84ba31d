//! Sockets of a simulated process: the bytes that its client reads and writes, and the operations
//! that the simulated network has to execute.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use client::{Dial, Dialing, Duplex, WallClock};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::network::Message;
use crate::world::BEGIN_MS;

/// All sockets of a process. New sockets are created through this table.
#[derive(Clone, Default)]
pub struct Sockets(Arc<Mutex<SocketTable>>);

#[derive(Default)]
struct SocketTable {
    last: u64,
    sockets: BTreeMap<u64, Socket>,
    /// Time since the beginning of the simulation, in ms.
    now_ms: i64,
}

#[derive(Default)]
struct Socket {
    /// Server to which the socket connects.
    server: usize,
    /// Connection in the network, once the socket has dialled.
    connection: Option<u64>,
    stage: Stage,
    inbound: VecDeque<u8>,
    outbound: Vec<u8>,
    /// Whether the other side has closed the connection.
    is_ended: bool,
    /// Whether the process has dropped the socket.
    is_dropped: bool,
    waiting: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Dialling,
    Open,
    Refused,
}

/// Operation that a process requests from the network.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocketRequest {
    /// Dial this server for this socket.
    Dial {
        /// Number of the socket.
        socket: u64,
        /// Index of the server.
        server: usize,
    },
    /// Send a frame, given without its length prefix.
    Send {
        /// Number of the connection.
        connection: u64,
        /// Frame to send.
        frame: Bytes,
    },
    /// Close this connection.
    Close {
        /// Number of the connection.
        connection: u64,
    },
}

impl Socket {
    fn wake(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Removes and returns all complete frames that were written.
    fn take_frames(&mut self) -> Vec<Bytes> {
        let mut frames = Vec::new();
        let mut written = &self.outbound[..];
        while let Some(length) = written.first_chunk() {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            let Some(frame) = written[4..].get(..length) else {
                break;
            };
            frames.push(Bytes::copy_from_slice(frame));
            written.advance(4 + length);
        }
        let rest = written.len();
        self.outbound.drain(..self.outbound.len() - rest);
        frames
    }
}

impl Sockets {
    /// Sets the wall clock of the process, in ms since the beginning of the simulation.
    pub(super) fn set_now_ms(&self, now_ms: i64) {
        self.0.lock().now_ms = now_ms;
    }

    /// Returns the network operations requested since the last call.
    pub(super) fn take_wanted(&self) -> Vec<SocketRequest> {
        let mut wanted = Vec::new();
        let sockets = &mut self.0.lock().sockets;
        sockets.retain(|&socket, of| {
            let Some(connection) = of.connection else {
                let server = of.server;
                if !of.is_dropped {
                    wanted.push(SocketRequest::Dial { socket, server });
                }
                return !of.is_dropped;
            };
            let frames = of.take_frames().into_iter();
            wanted.extend(frames.map(|frame| SocketRequest::Send { connection, frame }));
            if of.is_dropped {
                wanted.push(SocketRequest::Close { connection });
            }
            !of.is_dropped
        });
        wanted
    }

    /// Records the connection over which a socket is dialling.
    pub(super) fn dialling(&self, socket: u64, connection: u64) {
        if let Some(of) = self.0.lock().sockets.get_mut(&socket) {
            of.connection = Some(connection);
        }
    }

    /// Records whether a dial has reached its server. Returns `false` if its socket was dropped.
    pub fn dialled(&self, connection: u64, is_open: bool) -> bool {
        self.change(connection, |socket| {
            socket.stage = if is_open { Stage::Open } else { Stage::Refused };
        })
    }

    /// Handles a message from a server.
    pub fn handle_message(&self, connection: u64, message: Message) {
        match message {
            Message::ToClient(bytes) => self.receive(connection, &bytes),
            _ => self.end(connection),
        }
    }

    fn receive(&self, connection: u64, bytes: &[u8]) {
        self.change(connection, |socket| socket.inbound.extend(bytes));
    }

    /// Records that the other side has closed the connection.
    pub fn end(&self, connection: u64) {
        self.change(connection, |socket| socket.is_ended = true);
    }

    fn change(&self, connection: u64, change: impl FnOnce(&mut Socket)) -> bool {
        let sockets = &mut self.0.lock().sockets;
        let mut sockets = sockets.values_mut();
        match sockets.find(|socket| socket.connection == Some(connection)) {
            Some(socket) => {
                change(socket);
                socket.wake();
                true
            }
            None => false,
        }
    }

    /// Returns the connections that are open as far as this side knows.
    pub fn open(&self) -> Vec<u64> {
        let sockets = &self.0.lock().sockets;
        let open = sockets
            .values()
            .filter(|socket| socket.stage == Stage::Open && !socket.is_ended);
        open.filter_map(|socket| socket.connection).collect()
    }

    fn with<T>(&self, socket: u64, look: impl FnOnce(&mut Socket) -> T) -> Option<T> {
        self.0.lock().sockets.get_mut(&socket).map(look)
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

/// Returns the address of a server for clients: `server-N:2181`, counted from 0.
pub fn name_of(server: usize) -> String {
    format!("server-{server}:2181")
}

fn server_of(name: &str) -> Option<usize> {
    name.strip_prefix("server-")?
        .strip_suffix(":2181")?
        .parse()
        .ok()
}

impl Dial for Sockets {
    fn dial(&self, server: &str) -> Dialing {
        let server = server_of(server);
        let sockets = self.clone();
        Box::pin(async move {
            let server = server.ok_or(io::ErrorKind::NotFound)?;
            let stream = Stream::new(&sockets, server);
            poll_fn(|context| stream.poll_dialled(context)).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

/// The wall clocks of all processes are correct.
impl WallClock for Sockets {
    fn now(&self) -> SystemTime {
        let ms = u64::try_from(BEGIN_MS + self.0.lock().now_ms).unwrap_or_default();
        UNIX_EPOCH + Duration::from_millis(ms)
    }
}

/// Handle through which the client uses a socket.
#[derive(Debug)]
struct Stream {
    sockets: Sockets,
    socket: u64,
}

impl Stream {
    fn new(sockets: &Sockets, server: usize) -> Self {
        let table = &mut *sockets.0.lock();
        table.last += 1;
        let of = Socket {
            server,
            ..Socket::default()
        };
        table.sockets.insert(table.last, of);
        Self {
            sockets: sockets.clone(),
            socket: table.last,
        }
    }

    fn poll_dialled(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.sockets.with(self.socket, |socket| match socket.stage {
            Stage::Open => Poll::Ready(Ok(())),
            Stage::Refused => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            Stage::Dialling => {
                socket.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        });
        polled.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::NotConnected.into())))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.sockets
            .with(self.socket, |socket| socket.is_dropped = true);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = self.sockets.with(self.socket, |socket| {
            if socket.inbound.is_empty() && !socket.is_ended {
                socket.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = socket.inbound.len().min(into.remaining());
            let bytes: Vec<u8> = socket.inbound.drain(..count).collect();
            into.put_slice(&bytes);
            Poll::Ready(Ok(()))
        });
        polled.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::NotConnected.into())))
    }
}

impl AsyncWrite for Stream {
    /// Accepts all bytes, as an operating system does. This does not mean that they are delivered.
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.sockets.with(self.socket, |socket| {
            socket.outbound.extend_from_slice(bytes);
        });
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
