//! Accepted protocols of a port, and the handshakes of incoming connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::certificates::hosts::{self, WrongHost};
use super::certificates::member_check::{MemberCheck, NotAMember};
use super::certificates::subject;
use super::detect::{FirstByte, first};
use super::gate::{Gate, HANDSHAKE_TIMEOUT};
use super::records::Records;
use super::store::source::TlsSource;
use crate::connect::resolve::reverse;
use crate::stream::Stream;
use log_limiter::LogLimiter;

/// Converter of a port's incoming connections to [`Stream`]s.
#[derive(Debug, Clone, Default)]
pub struct Acceptor(PortProtocol);

#[derive(Debug, Clone, Default)]
enum PortProtocol {
    #[default]
    Plain,
    Tls {
        source: Arc<TlsSource>,
        gate: Arc<Gate>,
        /// Whether plain connections are also accepted (`portUnification`,
        /// `client.portUnification`).
        or_plain: bool,
        /// Check that the peer is a member, on the ensemble's ports.
        members: Option<Arc<MemberCheck>>,
    },
}

/// Reasons to refuse a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The peer closed the connection before the handshake was complete. Port scanners and health
    /// checks do this.
    #[error("the peer closed the connection during the TLS handshake")]
    Closed,
    /// The peer does not use TLS.
    #[error("the peer does not use TLS, but this port accepts only TLS")]
    NotTls,
    /// The handshake failed.
    #[error("TLS handshake failed: {0}")]
    Handshake(String),
    /// The handshake was not completed in time.
    #[error("the TLS handshake took longer than {} s", HANDSHAKE_TIMEOUT.as_secs())]
    TimedOut,
    /// The certificate is for another host.
    #[error("TLS handshake failed: {0}")]
    WrongHost(#[from] WrongHost),
    /// The certificate does not belong to a member.
    #[error("TLS handshake failed: {0}")]
    NotAMember(#[from] NotAMember),
    /// The peer did not present a certificate, although its host must be checked.
    #[error("TLS handshake failed: the peer sent no certificate, but its host must be checked")]
    NoCertificate,
    /// Newer handshakes have exceeded the maximum, and this handshake is the oldest.
    #[error("too many TLS handshakes, closing the oldest one")]
    GaveWay,
    /// The configured maximum number of handshakes is in progress.
    #[error("too many concurrent TLS handshakes (netty.server.outstandingHandshake.limit)")]
    Crowded,
}

impl Refused {
    /// Logs the peer and the reason, with a limit on the number of lines.
    pub fn log(&self, of: &'static str, peer: SocketAddr, log_limiter: &LogLimiter) {
        if matches!(self, Self::Closed) {
            return tracing::debug!(of, %peer, err = %self, "connection refused");
        }
        log_limiter::limited!(in log_limiter => warn, of, %peer, err = %self, "connection refused");
    }
}

impl Acceptor {
    /// Creates an acceptor for plain TCP.
    pub fn plain() -> Self {
        Self(PortProtocol::Plain)
    }

    /// Creates an acceptor for TLS and, if `or_plain` is set, also for plain TCP.
    pub fn tls(source: Arc<TlsSource>, gate: Arc<Gate>, or_plain: bool) -> Self {
        Self(PortProtocol::Tls {
            source,
            gate,
            or_plain,
            members: None,
        })
    }

    /// Adds a check that the peer is a member. Plain connections are not checked.
    #[must_use]
    pub fn with_member_check(mut self, check: Arc<MemberCheck>) -> Self {
        if let PortProtocol::Tls { members, .. } = &mut self.0 {
            *members = Some(check);
        }
        self
    }

    /// Returns whether [`Self::establish`] never waits.
    pub fn is_plain(&self) -> bool {
        matches!(self.0, PortProtocol::Plain)
    }

    /// Returns the stream over this connection. The wait for the first byte, the handshake and the
    /// lookup of the peer's name may each take up to [`HANDSHAKE_TIMEOUT`]. On a port for both
    /// protocols, the wait for the first byte has its own limit. Call this function in a separate
    /// task, because the peer determines the duration.
    ///
    /// # Errors
    /// If the connection is refused. The caller must log the reason with [`Refused::log`].
    pub async fn establish(&self, stream: TcpStream, peer: SocketAddr) -> Result<Stream, Refused> {
        let PortProtocol::Tls {
            source,
            gate,
            or_plain,
            members,
        } = &self.0
        else {
            return Ok(stream.into());
        };
        let mut pass = gate.enter().ok_or(Refused::Crowded)?;
        tokio::select! {
            established = Self::begin(source, gate, *or_plain, stream, peer) => {
                let stream = established?;
                if let Some(check) = members.as_ref().filter(|_| stream.is_tls()) {
                    let own = source.current();
                    check.check(stream.peer_certificate(), own.own.as_ref(), peer)?;
                }
                Ok(stream)
            }
            _ = &mut pass.evicted => Err(Refused::GaveWay),
        }
    }

    async fn begin(
        source: &TlsSource,
        gate: &Arc<Gate>,
        or_plain: bool,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<Stream, Refused> {
        let limit = if or_plain {
            source.detection_timeout()
        } else {
            HANDSHAKE_TIMEOUT
        };
        match first(&stream, limit)
            .await
            .map_err(|error| broken(&error))?
        {
            FirstByte::Tls => {}
            FirstByte::Plain | FirstByte::Silent if or_plain => return Ok(stream.into()),
            FirstByte::Plain => return Err(Refused::NotTls),
            FirstByte::Silent => return Err(Refused::TimedOut),
            FirstByte::Closed => return Err(Refused::Closed),
        }
        let acceptor = TlsAcceptor::from(source.current().server.clone());
        let records = Records::accepted(stream, peer, gate.clone());
        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(records)).await;
        let stream = accepted
            .map_err(|_| Refused::TimedOut)?
            .map_err(|error| broken(&error))?;
        let stream = Stream::from(tokio_rustls::TlsStream::from(stream));
        check_host(source, &stream, peer).await?;
        Ok(stream)
    }
}

/// Checks the client's host, if configured. Source: ZKTrustManager.checkClientTrusted.
async fn check_host(source: &TlsSource, stream: &Stream, peer: SocketAddr) -> Result<(), Refused> {
    if !source.checks_client_hosts() {
        return Ok(());
    }
    let Some(shown) = stream.peer_certificate() else {
        return Err(Refused::NoCertificate);
    };
    let by_address = hosts::check(shown, peer.ip(), &[]);
    if by_address.is_ok() || !source.allows_reverse_lookup() {
        return Ok(by_address?);
    }
    let name = reverse(peer.ip(), HANDSHAKE_TIMEOUT).await;
    let names: Vec<&str> = name.iter().map(String::as_str).collect();
    tracing::debug!(%peer, ?names, subject = %subject::subject(shown).unwrap_or_default(), "checking the host of a certificate by name");
    Ok(hosts::check(shown, peer.ip(), &names)?)
}

fn broken(error: &io::Error) -> Refused {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted => Refused::Closed,
        _ => Refused::Handshake(error.to_string()),
    }
}
