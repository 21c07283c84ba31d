//! A byte stream over any transport.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

#[cfg(feature = "tls")]
use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
#[cfg(feature = "tls")]
use tokio_rustls::TlsStream;

use crate::tls::certificates::subject::{Certificate, Chain};
#[cfg(feature = "tls")]
use crate::tls::records::Records;
use crate::writer::TcpWriter;

/// A connected byte stream.
///
/// Written bytes may remain unsent until a flush, because TLS buffers the bytes that the socket did
/// not accept. A TLS stream that ends without close_notify ends normally for the reader, as in TCP,
/// because the messages of all protocols here contain their lengths.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS over TCP. Boxed because it is several times as large as plain TCP, and most connections
    /// may be plain.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Records>>),
    /// A stream provided by the caller, which is neither TCP nor TLS from this crate.
    Brought(Box<dyn Duplex>),
}

/// A duplex byte stream of any kind.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + fmt::Debug> Duplex for T {}

/// Reading half of a [`Stream`].
#[derive(Debug)]
pub enum ReadHalf {
    /// Half of a plain TCP stream.
    Plain(OwnedReadHalf),
    /// Half of a TLS stream.
    #[cfg(feature = "tls")]
    Tls(tokio::io::ReadHalf<Box<TlsStream<Records>>>),
    /// Half of a stream provided by the caller.
    Brought(tokio::io::ReadHalf<Box<dyn Duplex>>),
}

/// Writing half of a [`Stream`].
#[derive(Debug)]
pub enum WriteHalf {
    /// Half of a plain TCP stream.
    Plain(TcpWriter),
    /// Half of a TLS stream.
    #[cfg(feature = "tls")]
    Tls(tokio::io::WriteHalf<Box<TlsStream<Records>>>),
    /// Half of a stream provided by the caller.
    Brought(tokio::io::WriteHalf<Box<dyn Duplex>>),
}

impl Stream {
    /// Splits the stream into two halves for two tasks.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.into_split();
                (
                    ReadHalf::Plain(read),
                    WriteHalf::Plain(TcpWriter::new(write)),
                )
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
            Self::Brought(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadHalf::Brought(read), WriteHalf::Brought(write))
            }
        }
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// If the connection is already closed, or if this is a [`Stream::Brought`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Brought(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Plain(stream) => stream.peer_addr(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0.tcp().peer_addr(),
        }
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// If the system does not report the address, or if this is a [`Stream::Brought`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Brought(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Plain(stream) => stream.local_addr(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0.tcp().local_addr(),
        }
    }

    /// Returns whether the stream uses this crate's TLS, which protects it against reading and
    /// modification by third parties.
    pub fn is_tls(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Brought(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(_) => true,
        }
    }

    /// Returns all certificates that the peer has presented, beginning with its own.
    pub fn peer_chain(&self) -> Chain {
        match self {
            Self::Plain(_) | Self::Brought(_) => Chain::new(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let shown = stream.get_ref().1.peer_certificates();
                shown.unwrap_or_default().to_vec()
            }
        }
    }

    /// Returns the trusted certificate that identifies the peer; `None` without TLS, or if the peer
    /// did not present a certificate.
    pub fn peer_certificate(&self) -> Option<&Certificate> {
        match self {
            Self::Plain(_) | Self::Brought(_) => None,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }
}

impl WriteHalf {
    /// Returns a writer with which other threads can write without the task that owns this half.
    /// Returns `None` unless the stream is plain TCP, because only the task can write to other
    /// streams.
    pub fn direct_writer(&self) -> Option<TcpWriter> {
        match self {
            Self::Plain(writer) => Some(writer.clone()),
            _ => None,
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(stream)
    }
}

#[cfg(feature = "tls")]
impl From<TlsStream<Records>> for Stream {
    /// Converts a TLS stream whose handshake is complete.
    fn from(mut stream: TlsStream<Records>) -> Self {
        let (records, session) = stream.get_mut();
        if session.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
            records.stop_detection();
        }
        Self::Tls(Box::new(stream))
    }
}

/// Treats a missing close_notify as a normal end.
#[cfg(feature = "tls")]
fn ignore_missing_close_notify(read: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
    match read {
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Poll::Ready(Ok(()))
        }
        other => other,
    }
}

/// Implements `AsyncRead` by delegation to the inner stream. A TLS stream may end without
/// close_notify.
macro_rules! read_through {
    ($outer:ident) => {
        impl AsyncRead for $outer {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(inner) => Pin::new(inner).poll_read(context, into),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => {
                        ignore_missing_close_notify(Pin::new(inner).poll_read(context, into))
                    }
                    Self::Brought(inner) => Pin::new(inner).poll_read(context, into),
                }
            }
        }
    };
}

macro_rules! write_through {
    ($outer:ident) => {
        impl AsyncWrite for $outer {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(inner) => Pin::new(inner).poll_write(context, bytes),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => Pin::new(inner).poll_write(context, bytes),
                    Self::Brought(inner) => Pin::new(inner).poll_write(context, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(inner) => Pin::new(inner).poll_write_vectored(context, slices),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => Pin::new(inner).poll_write_vectored(context, slices),
                    Self::Brought(inner) => Pin::new(inner).poll_write_vectored(context, slices),
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    Self::Plain(inner) => inner.is_write_vectored(),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => inner.is_write_vectored(),
                    Self::Brought(inner) => inner.is_write_vectored(),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(inner) => Pin::new(inner).poll_flush(context),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => Pin::new(inner).poll_flush(context),
                    Self::Brought(inner) => Pin::new(inner).poll_flush(context),
                }
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(inner) => Pin::new(inner).poll_shutdown(context),
                    #[cfg(feature = "tls")]
                    Self::Tls(inner) => Pin::new(inner).poll_shutdown(context),
                    Self::Brought(inner) => Pin::new(inner).poll_shutdown(context),
                }
            }
        }
    };
}

read_through!(Stream);
read_through!(ReadHalf);
write_through!(Stream);
write_through!(WriteHalf);
