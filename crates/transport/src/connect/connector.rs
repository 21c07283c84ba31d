//! Conversion of outgoing connections to streams.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::cuts::Cuts;
use crate::stream::Stream;
#[cfg(feature = "tls")]
use crate::tls::Outgoing;

/// Converter of outgoing connections to [`Stream`]s.
#[derive(Clone, Default)]
pub struct Connector {
    /// TLS for the connections; `None` for plain TCP.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Outgoing>,
    cuts: Option<Arc<Cuts>>,
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

    /// Adds simulated cuts, which can make servers unreachable.
    #[must_use]
    pub fn with_cuts(mut self, cuts: Arc<Cuts>) -> Self {
        self.cuts = Some(cuts);
        self
    }

    /// Whether each connection uses TLS.
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

    /// Whether each connection uses TLS and the server's certificate must contain the server's
    /// host.
    pub fn verifies_hosts(&self) -> bool {
        #[cfg(feature = "tls")]
        {
            self.tls.as_ref().is_some_and(Outgoing::checks_hosts)
        }
        #[cfg(not(feature = "tls"))]
        {
            false
        }
    }

    /// Returns the stream over a connection to a server. `hosts` contains the server's names from
    /// the member list. A TLS handshake takes at most ten seconds after the server has become
    /// reachable.
    ///
    /// # Errors
    /// If the handshake fails, or if hosts are checked and the certificate is for another host.
    pub async fn establish(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some(cuts) = &self.cuts else {
            return self.shake_hands(stream, hosts).await;
        };
        let peer = stream.peer_addr()?;
        cuts.wait_until_reachable(peer).await;
        let stream = self.shake_hands(stream, hosts).await?;
        Ok(cuts.hold(stream, peer))
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
