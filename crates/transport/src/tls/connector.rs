//! The handshake with a server that we connect to.

use std::io;
use std::sync::Arc;

use config::Store;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::HANDSHAKE_TIMEOUT;
use super::context::outgoing;
use super::error::TlsError;
use super::hosts;
use super::source::TlsSource;
use crate::stream::Stream;

/// Turns a connection to another server into a [`Stream`].
#[derive(Debug, Clone, Default)]
pub struct Connector(Speaks);

#[derive(Debug, Clone, Default)]
enum Speaks {
    #[default]
    Plain,
    /// With the stores of a member, which may change.
    Member(Arc<TlsSource>),
    /// With those of a client.
    Client {
        config: Arc<ClientConfig>,
        checks_hosts: bool,
    },
}

/// What a client needs for TLS.
#[derive(Debug, Clone)]
pub struct ClientStores {
    /// The own key and certificates, for servers that ask for them.
    pub key: Option<Store>,
    /// The certificates that are trusted; without it, the platform's.
    pub trust: Option<Store>,
    /// A server's host must be in its certificate.
    pub checks_hosts: bool,
}

impl Connector {
    /// TCP as it is.
    pub fn plain() -> Self {
        Self(Speaks::Plain)
    }

    /// TLS of a member to other members.
    pub fn tls(source: Arc<TlsSource>) -> Self {
        Self(Speaks::Member(source))
    }

    /// TLS of a client, TLS 1.3 or 1.2. Sessions are resumed.
    ///
    /// # Errors
    /// If a store cannot be used.
    pub fn of_client(stores: &ClientStores) -> Result<Self, TlsError> {
        Ok(Self(Speaks::Client {
            config: outgoing(stores.key.as_ref(), stores.trust.as_ref())?,
            checks_hosts: stores.checks_hosts,
        }))
    }

    /// What a handshake that begins now uses, and whether hosts are checked; `None` for plain TCP.
    fn current(&self) -> Option<(Option<Arc<ClientConfig>>, bool)> {
        match &self.0 {
            Speaks::Plain => None,
            Speaks::Member(source) => Some((
                source.current().client.clone(),
                source.checks_server_hosts(),
            )),
            Speaks::Client {
                config,
                checks_hosts,
            } => Some((Some(config.clone()), *checks_hosts)),
        }
    }

    /// The stream over a connection to the server that the member list has under `hosts`, one or several
    /// names of it. Takes [`HANDSHAKE_TIMEOUT`] at most.
    ///
    /// # Errors
    /// If the handshake fails, or the certificate is for another host and hosts are checked.
    pub async fn establish(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some((config, checks_hosts)) = self.current() else {
            return Ok(stream.into());
        };
        let peer = stream.peer_addr()?;
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
        if checks_hosts {
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
