//! Conversion of outgoing connections to streams.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::stream::Stream;
#[cfg(feature = "tls")]
use crate::tls::outgoing::OutgoingTls;

/// Future that establishes a connection to another server.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;

/// Hook that changes outgoing connections, for example with faults that tests inject.
pub trait Interceptor: Send + Sync {
    /// Establishes a connection to the server at this address. `connecting` performs the TLS
    /// handshake. The returned stream may run on top of the stream of `connecting`
    /// ([`Stream::Brought`]).
    fn establish<'a>(&'a self, server: SocketAddr, connecting: Connecting<'a>) -> Connecting<'a>;
}

/// Converter of outgoing connections to [`Stream`]s.
#[derive(Clone, Default)]
pub struct Connector {
    /// TLS for the connections; `None` for plain TCP.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<OutgoingTls>,
    interceptor: Option<Arc<dyn Interceptor>>,
}

impl fmt::Debug for Connector {
    // Does not show the contents, because they include keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return f.write_str(tls.name());
        }
        f.write_str("Connector(plain)")
    }
}

impl Connector {
    /// Creates a connector for plain TCP.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Sets the interceptor of all connections.
    #[must_use]
    pub fn with_interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.interceptor = Some(interceptor);
        self
    }

    /// Returns whether each connection uses TLS.
    pub fn uses_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        {
            self.tls.is_some()
        }
        #[cfg(not(feature = "tls"))]
        {
            false
        }
    }

    /// Returns whether each connection uses TLS and the server's certificate must contain the
    /// server's host.
    pub fn verifies_hosts(&self) -> bool {
        #[cfg(feature = "tls")]
        {
            self.tls.as_ref().is_some_and(OutgoingTls::checks_hosts)
        }
        #[cfg(not(feature = "tls"))]
        {
            false
        }
    }

    /// Returns the stream over a connection to a server. With TLS, first performs a handshake,
    /// which takes at most ten seconds. `hosts` contains the configured names of the server.
    ///
    /// # Errors
    /// If the handshake or the interceptor fails, or if hosts are checked and the certificate is
    /// for another host.
    pub async fn establish(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some(interceptor) = &self.interceptor else {
            return self.shake_hands(stream, hosts).await;
        };
        let server = stream.peer_addr()?;
        let connecting = Box::pin(self.shake_hands(stream, hosts));
        interceptor.establish(server, connecting).await
    }

    #[cfg(feature = "tls")]
    async fn shake_hands(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        match &self.tls {
            Some(tls) => tls.shake_hands(stream, hosts).await,
            None => Ok(stream.into()),
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn shake_hands(&self, stream: TcpStream, _hosts: &[&str]) -> io::Result<Stream> {
        Ok(stream.into())
    }
}
