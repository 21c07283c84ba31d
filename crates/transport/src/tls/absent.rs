//! Replacement of TLS for builds without the feature `tls`. Its TLS sources cannot be constructed,
//! so all connections are plain.

use std::net::SocketAddr;
use std::sync::Arc;

use config::{QuorumTls, Tls};
use log_limiter::LogLimiter;
use tokio::net::TcpStream;

pub use crate::connect::connector::Connector;
use crate::stream::Stream;

/// A type without values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Never {}

impl std::fmt::Display for Never {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

/// Error that every TLS configuration causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// This build does not support TLS.
    #[error("this build does not support TLS (feature `tls`)")]
    NotBuiltIn,
}

/// Group of ports with common rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The client ports.
    Client,
    /// The ports between members.
    Quorum,
    /// The admin port.
    Admin,
}

/// Source of key, trust and rules for handshakes.
#[derive(Debug)]
pub struct TlsSource(Never);

impl TlsSource {
    /// Always fails, because this build does not include the feature.
    ///
    /// # Errors
    /// Always.
    pub fn load(_: &Tls, _: Endpoint, _: bool) -> Result<Arc<Self>, TlsError> {
        Err(TlsError::NotBuiltIn)
    }

    /// Returns the earliest end of validity in this process's certificate chain.
    pub fn certificate_ends_s(&self) -> Option<i64> {
        match self.0 {}
    }

    /// Reloads the stores when they change.
    pub async fn watch(self: Arc<Self>) {
        match self.0 {}
    }
}

/// Limit on concurrent handshakes.
#[derive(Debug, Default)]
pub struct Gate;

impl Gate {
    /// Creates a limit for a port.
    pub fn new(_: Option<usize>) -> Arc<Self> {
        Arc::default()
    }

    /// Creates a limit for a port with few connections.
    pub fn small(_: usize) -> Arc<Self> {
        Arc::default()
    }

    /// Returns the number of handshakes in progress.
    pub fn in_progress(&self) -> usize {
        0
    }
}

/// Check of the certificates of members.
#[derive(Debug)]
pub struct MemberCheck;

impl MemberCheck {
    /// Creates the check.
    pub fn new(_: &QuorumTls) -> Self {
        Self
    }

    /// Has no effect, because plain connections are not checked.
    pub fn set_hosts(&self, _: Vec<String>) {}
}

/// Converter of a port's incoming connections to [`Stream`]s.
#[derive(Debug, Clone, Default)]
pub struct Acceptor;

/// Reasons to refuse a connection. They do not occur without TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The handshake failed.
    #[error("TLS handshake failed: {0}")]
    Handshake(Never),
    /// The certificate is for another host.
    #[error("TLS handshake failed: {0}")]
    WrongHost(Never),
    /// The peer did not present a certificate.
    #[error("TLS handshake failed: the peer sent no certificate, but its host must be checked")]
    NoCertificate,
    /// The maximum number of handshakes is in progress.
    #[error("too many concurrent TLS handshakes (netty.server.outstandingHandshake.limit)")]
    Crowded,
}

impl Refused {
    /// Logs the peer and the reason.
    pub fn log(&self, of: &'static str, peer: SocketAddr, log_limiter: &LogLimiter) {
        log_limiter::limited!(in log_limiter => warn, of, %peer, err = %self, "connection refused");
    }
}

impl Acceptor {
    /// Creates an acceptor for plain TCP.
    pub fn plain() -> Self {
        Self
    }

    /// Creates an acceptor for TLS.
    pub fn tls(source: Arc<TlsSource>, _: Arc<Gate>, _: bool) -> Self {
        match source.0 {}
    }

    /// Has no effect, because plain connections are not checked.
    #[must_use]
    pub fn with_member_check(self, _: Arc<MemberCheck>) -> Self {
        self
    }

    /// Returns whether [`Self::establish`] never waits.
    pub fn is_plain(&self) -> bool {
        true
    }

    /// Returns the stream over this connection.
    ///
    /// # Errors
    /// Never.
    pub async fn establish(&self, stream: TcpStream, _: SocketAddr) -> Result<Stream, Refused> {
        Ok(stream.into())
    }
}

impl Connector {
    /// Creates a connector for TLS between members.
    pub fn tls(source: Arc<TlsSource>) -> Self {
        match source.0 {}
    }

    /// Has no effect, because plain connections are not checked.
    #[must_use]
    pub fn with_member_check(self, _: Arc<MemberCheck>) -> Self {
        self
    }
}

/// Certificates.
pub(crate) mod certificates {
    /// Identities in certificates.
    pub mod subject {
        /// A certificate. Plain streams do not have certificates.
        pub type Certificate = crate::tls::Never;

        /// Certificates of a peer.
        pub type Chain = Vec<Certificate>;

        /// Returns the subject of a certificate.
        pub fn subject(certificate: &Certificate) -> Option<String> {
            match *certificate {}
        }
    }
}

pub use certificates::subject as certificate;

/// Returns the subject of a chain that the client ports trust.
///
/// # Errors
/// Always, because this build does not include the feature.
pub fn known_to_clients(_: &Tls, _: &certificate::Chain) -> Result<String, TlsError> {
    Err(TlsError::NotBuiltIn)
}

/// Returns whether these are the first bytes of a TLS connection. A plain port would interpret them
/// as an invalid length.
pub fn looks_like_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 3, ..])
}
