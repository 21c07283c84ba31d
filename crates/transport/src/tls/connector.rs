//! The handshake of outgoing connections.

use std::fmt;
use std::io;
use std::sync::Arc;

use config::Store;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::HANDSHAKE_TIMEOUT;
use super::certificates::hosts;
use super::certificates::member_check::MemberCheck;
use super::context::outgoing;
use super::error::TlsError;
use super::records::Records;
use super::source::TlsSource;
use crate::cuts::Cuts;
use crate::stream::Stream;

/// Converter of outgoing connections to [`Stream`]s.
#[derive(Clone, Default)]
pub struct Connector {
    protocol: OutgoingProtocol,
    cuts: Option<Arc<Cuts>>,
    members: Option<Arc<MemberCheck>>,
}

#[derive(Clone, Default)]
enum OutgoingProtocol {
    #[default]
    Plain,
    /// The stores of a member, which may change.
    Member(Arc<TlsSource>),
    /// The stores of a client.
    Client {
        config: Arc<ClientConfig>,
        checks_hosts: bool,
    },
}

/// TLS settings of a client.
#[derive(Debug, Clone)]
pub struct ClientStores {
    /// The key and certificates of this process, for servers that request them.
    pub key: Option<Store>,
    /// The trusted certificates; without this store, the certificates that the platform trusts.
    pub trust: Option<Store>,
    /// Whether the server's host must be in its certificate.
    pub checks_hosts: bool,
    /// Whether a connection resumes the session of an earlier one, which saves both sides most of
    /// the work.
    pub resumes_sessions: bool,
}

impl fmt::Debug for Connector {
    // Does not show the contents, because they include keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.protocol {
            OutgoingProtocol::Plain => "Connector(plain)",
            OutgoingProtocol::Member(_) => "Connector(TLS of a member)",
            OutgoingProtocol::Client { .. } => "Connector(TLS of a client)",
        })
    }
}

impl From<OutgoingProtocol> for Connector {
    fn from(protocol: OutgoingProtocol) -> Self {
        Self {
            protocol,
            cuts: None,
            members: None,
        }
    }
}

impl Connector {
    /// Creates a connector for plain TCP.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Creates a connector for TLS between members.
    pub fn tls(source: Arc<TlsSource>) -> Self {
        OutgoingProtocol::Member(source).into()
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
        Ok(Self::from(OutgoingProtocol::Client {
            config: Arc::new(config),
            checks_hosts: stores.checks_hosts,
        }))
    }

    /// Adds simulated cuts, which can make servers unreachable.
    #[must_use]
    pub fn with_cuts(self, cuts: Arc<Cuts>) -> Self {
        let cuts = Some(cuts);
        Self { cuts, ..self }
    }

    /// Adds a check that the server is a member.
    #[must_use]
    pub fn with_member_check(self, check: Arc<MemberCheck>) -> Self {
        let members = Some(check);
        Self { members, ..self }
    }

    /// Whether each connection uses TLS.
    pub fn uses_tls(&self) -> bool {
        !matches!(self.protocol, OutgoingProtocol::Plain)
    }

    /// Whether each connection uses TLS, and the certificate of the server must contain its host.
    pub fn verifies_hosts(&self) -> bool {
        self.current().is_some_and(|(_, checks_hosts)| checks_hosts)
    }

    /// Returns the current configuration and whether hosts are checked; `None` for plain TCP.
    fn current(&self) -> Option<(Option<Arc<ClientConfig>>, bool)> {
        match &self.protocol {
            OutgoingProtocol::Plain => None,
            OutgoingProtocol::Member(source) => Some((
                source.current().client.clone(),
                source.checks_server_hosts(),
            )),
            OutgoingProtocol::Client {
                config,
                checks_hosts,
            } => Some((Some(config.clone()), *checks_hosts)),
        }
    }

    /// Returns the stream over a connection to a server. `hosts` contains one or several names of
    /// the server from the member list. Takes at most [`HANDSHAKE_TIMEOUT`], once the server is
    /// reachable.
    ///
    /// # Errors
    /// If the handshake fails, or the certificate is for another host and hosts are checked.
    pub async fn establish(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some(cuts) = &self.cuts else {
            return self.shake_hands(stream, hosts).await;
        };
        let peer = stream.peer_addr()?;
        cuts.wait_until_reachable(peer).await;
        let stream = self.shake_hands(stream, hosts).await?;
        Ok(cuts.hold(stream, peer))
    }

    async fn shake_hands(&self, stream: TcpStream, hosts: &[&str]) -> io::Result<Stream> {
        let Some((config, checks_hosts)) = self.current() else {
            return Ok(stream.into());
        };
        let peer = stream.peer_addr()?;
        let config =
            config.ok_or_else(|| io::Error::other("this endpoint does not make connections"))?;
        // A name that is invalid in DNS is invalid in TLS, too.
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
        if checks_hosts {
            let shown = stream.peer_certificate();
            let shown = shown.ok_or_else(|| failed("the server sent no certificate"))?;
            let checked = hosts::check(shown, peer.ip(), hosts);
            checked
                .map_err(|error| failed(&format!("TLS handshake with {peer} failed: {error}")))?;
        }
        if let (Some(check), OutgoingProtocol::Member(source)) = (&self.members, &self.protocol) {
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
