//! The handshake with a server that we connect to.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::HANDSHAKE_TIMEOUT;
use super::hosts;
use super::source::TlsSource;
use crate::stream::Stream;

/// Turns a connection to another server into a [`Stream`].
#[derive(Debug, Clone, Default)]
pub struct Connector(Option<Arc<TlsSource>>);

impl Connector {
    /// TCP as it is.
    pub fn plain() -> Self {
        Self(None)
    }

    /// TLS.
    pub fn tls(source: Arc<TlsSource>) -> Self {
        Self(Some(source))
    }

    /// The stream over a connection to the server that the member list has under `hosts`, one or several
    /// names of it. Takes [`HANDSHAKE_TIMEOUT`] at most.
    ///
    /// # Errors
    /// If the handshake fails, or the certificate is for another host and hosts are checked.
    pub async fn establish(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some(source) = &self.0 else {
            return Ok(stream.into());
        };
        let peer = stream.peer_addr()?;
        let config = source.current().client.clone();
        let config = config.ok_or_else(|| io::Error::other("this endpoint connects to nobody"))?;
        // A name that DNS could not have is no name for TLS either.
        let name = hosts
            .first()
            .map(|host| ServerName::try_from((*host).to_owned()));
        let name = name.and_then(Result::ok);
        let name = name.unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let connecting = TlsConnector::from(config).connect(name, stream);
        let connected = timeout(HANDSHAKE_TIMEOUT, connecting).await;
        let stream = connected
            .map_err(|_| failed("the TLS handshake was not through in time"))?
            .map_err(|error| failed(&format!("no TLS with {peer}: {error}")))?;
        let stream = Stream::from(tokio_rustls::TlsStream::from(stream));
        if source.checks_server_hosts() {
            let shown = stream.peer_certificate();
            let shown = shown.ok_or_else(|| failed("the server shows no certificate"))?;
            let checked = hosts::check(shown, peer.ip(), hosts);
            checked.map_err(|error| failed(&format!("no TLS with {peer}: {error}")))?;
        }
        Ok(stream)
    }
}

fn failed(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}
