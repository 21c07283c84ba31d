//! One stream of bytes, whatever carries it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// A connected stream of bytes.
#[derive(Debug)]
pub enum Stream {
    /// TCP as it is.
    Plain(TcpStream),
}

/// What is read from a [`Stream`].
#[derive(Debug)]
pub enum ReadHalf {
    /// Of TCP as it is.
    Plain(OwnedReadHalf),
}

/// What is written to a [`Stream`].
#[derive(Debug)]
pub enum WriteHalf {
    /// Of TCP as it is.
    Plain(OwnedWriteHalf),
}

impl Stream {
    /// Two halves for two tasks.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
        }
    }

    /// The other side's address.
    ///
    /// # Errors
    /// If the connection is gone already.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(stream) => stream.peer_addr(),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(stream)
    }
}

/// Hands each method on to what is inside.
macro_rules! read_through {
    ($outer:ident: $($kind:ident)|+) => {
        impl AsyncRead for $outer {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(inner) => Pin::new(inner).poll_read(context, into),)+
                }
            }
        }
    };
}

macro_rules! write_through {
    ($outer:ident: $($kind:ident)|+) => {
        impl AsyncWrite for $outer {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$kind(inner) => Pin::new(inner).poll_write(context, bytes),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$kind(inner) => Pin::new(inner).poll_write_vectored(context, slices),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $(Self::$kind(inner) => inner.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(inner) => Pin::new(inner).poll_flush(context),)+
                }
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(inner) => Pin::new(inner).poll_shutdown(context),)+
                }
            }
        }
    };
}

read_through!(Stream: Plain);
read_through!(ReadHalf: Plain);
write_through!(Stream: Plain);
write_through!(WriteHalf: Plain);
