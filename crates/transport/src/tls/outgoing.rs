//! Handshake of outgoing connections.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use config::Store;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::certificates::hosts;
use super::certificates::member_check::MemberCheck;
use super::context::outgoing;
use super::error::TlsError;
use super::gate::HANDSHAKE_TIMEOUT;
use super::records::Records;
use super::store::source::TlsSource;
use crate::connect::connector::Connector;
use crate::stream::Stream;

/// TLS of outgoing connections.
#[derive(Clone)]
pub(crate) enum OutgoingTls {
    /// Stores of a member, which may change.
    Member {
        source: Arc<TlsSource>,
        members: Option<Arc<MemberCheck>>,
    },
    /// Stores of a client.
    Client {
        config: Arc<ClientConfig>,
        checks_hosts: bool,
    },
}

/// TLS settings of a client.
#[derive(Debug, Clone)]
pub struct ClientStores {
    /// Key and certificates of this process, for servers that request them.
    pub key: Option<Store>,
    /// Store of trusted certificates. If it is `None`, the certificates that the platform trusts
    /// are used.
    pub trust: Option<Store>,
    /// Whether the server's certificate must contain the server's host.
    pub checks_hosts: bool,
    /// Whether a connection resumes the session of an earlier connection, which saves both sides
    /// most of the handshake's work.
    pub resumes_sessions: bool,
}

impl ClientStores {
    /// Returns settings without a key that trust the certificates in this file. The server's
    /// certificate must contain the server's host.
    pub fn trusting(file: impl Into<PathBuf>) -> Self {
        let location = Some(file.into());
        Self {
            key: None,
            trust: Some(Store {
                location,
                ..Store::default()
            }),
            checks_hosts: true,
            resumes_sessions: true,
        }
    }

    /// Sets the file with the key and the certificates of this process.
    #[must_use]
    pub fn with_key(mut self, file: impl Into<PathBuf>) -> Self {
        let location = Some(file.into());
        self.key = Some(Store {
            location,
            ..Store::default()
        });
        self
    }
}

impl From<OutgoingTls> for Connector {
    fn from(tls: OutgoingTls) -> Self {
        let mut connector = Self::plain();
        connector.tls = Some(tls);
        connector
    }
}

impl Connector {
    /// Creates a connector for TLS between members.
    pub fn tls(source: Arc<TlsSource>) -> Self {
        let members = None;
        OutgoingTls::Member { source, members }.into()
    }

    /// Creates a connector for a client, with TLS 1.3 or 1.2.
    ///
    /// # Errors
    /// If a store cannot be used.
    pub fn of_client(stores: &ClientStores) -> Result<Self, TlsError> {
        let mut config = outgoing(stores.key.as_ref(), stores.trust.as_ref())?;
        if !stores.resumes_sessions {
            config.resumption = Resumption::disabled();
        }
        Ok(Self::from(OutgoingTls::Client {
            config: Arc::new(config),
            checks_hosts: stores.checks_hosts,
        }))
    }

    /// Adds a check that the server is a member. Plain connections are not checked.
    #[must_use]
    pub fn with_member_check(mut self, check: Arc<MemberCheck>) -> Self {
        if let Some(OutgoingTls::Member { members, .. }) = &mut self.tls {
            *members = Some(check);
        }
        self
    }
}

impl OutgoingTls {
    /// Returns the text of the connector for `Debug`, without its keys.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Member { .. } => "Connector(TLS of a member)",
            Self::Client { .. } => "Connector(TLS of a client)",
        }
    }

    /// Returns whether the server's certificate must contain the server's host.
    pub(crate) fn checks_hosts(&self) -> bool {
        match self {
            Self::Member { source, .. } => source.checks_server_hosts(),
            Self::Client { checks_hosts, .. } => *checks_hosts,
        }
    }

    /// Returns the current configuration; `None` if this endpoint does not make connections.
    fn config(&self) -> Option<Arc<ClientConfig>> {
        match self {
            Self::Member { source, .. } => source.current().client.clone(),
            Self::Client { config, .. } => Some(config.clone()),
        }
    }

    /// Returns the TLS stream over a connection to a server with these names. Takes at most
    /// [`HANDSHAKE_TIMEOUT`].
    pub(crate) async fn shake_hands(
        &self,
        stream: TcpStream,
        hosts: &[&str],
    ) -> io::Result<Stream> {
        let peer = stream.peer_addr()?;
        let config = self
            .config()
            .ok_or_else(|| io::Error::other("this endpoint does not make connections"))?;
        // TLS accepts only valid DNS names, so the address replaces an invalid name.
        let name = hosts
            .first()
            .map(|host| ServerName::try_from((*host).to_owned()));
        let name = name.and_then(Result::ok);
        let name = name.unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let connecting = TlsConnector::from(config).connect(name, Records::dialled(stream));
        let connected = timeout(HANDSHAKE_TIMEOUT, connecting).await;
        let stream = connected
            .map_err(|_| failed("the TLS handshake timed out"))?
            .map_err(|error| failed(&format!("TLS handshake with {peer} failed: {error}")))?;
        let stream = Stream::from(tokio_rustls::TlsStream::from(stream));
        if self.checks_hosts() {
            let shown = stream.peer_certificate();
            let shown = shown.ok_or_else(|| failed("the server sent no certificate"))?;
            let checked = hosts::check(shown, peer.ip(), hosts);
            checked
                .map_err(|error| failed(&format!("TLS handshake with {peer} failed: {error}")))?;
        }
        if let Self::Member {
            source,
            members: Some(check),
        } = self
        {
            let own = source.current();
            let checked = check.check(stream.peer_certificate(), own.own.as_ref(), peer);
            checked
                .map_err(|error| failed(&format!("TLS handshake with {peer} failed: {error}")))?;
        }
        Ok(stream)
    }
}

fn failed(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}
