//! The first frame each way, and the connection that comes of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use proto::connect::{ConnectRequest, ConnectResponse};
use proto::{OpCode, SessionId, Xid, Zxid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use transport::Stream;
use transport::tls::Connector;

use crate::dial::Dial;
use crate::error::{Error, LossReason, Result};
use crate::frame::{put_frame, put_request};
use crate::limits::FRAME_BYTES_MAX;
use crate::login::{Login, NotLoggedIn, log_in};
use crate::wire::Wire;

/// What to say when a connection opens.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// Session timeout to ask for, ms; the server clamps it.
    pub timeout_ms: i32,
    /// The session to go on with, or `None` for a new one.
    pub session: Option<Session>,
    /// Newest zxid seen; a server that is behind it closes without an answer.
    pub last_zxid_seen: Zxid,
    /// Whether a server that lost its quorum will do. `None` leaves the byte out, as clients
    /// before 3.4 (and the C client before 3.5) do.
    pub read_only: Option<bool>,
    /// Largest frame to accept, bytes.
    pub frame_bytes_max: usize,
    /// Time for name lookup, TCP connection, TLS, answer and login together.
    pub connect_timeout: Duration,
    /// TLS, if the server is to be reached by it.
    pub connector: Connector,
    /// As whom the connection logs in by SASL, if it is to.
    pub login: Option<Login>,
    /// What connects to the server, if that is not TCP.
    pub dialer: Option<Arc<dyn Dial>>,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            timeout_ms: 30_000,
            session: None,
            last_zxid_seen: Zxid::ZERO,
            read_only: Some(false),
            frame_bytes_max: FRAME_BYTES_MAX,
            connect_timeout: Duration::from_secs(10),
            connector: Connector::plain(),
            login: None,
            dialer: None,
        }
    }
}

impl Handshake {
    fn request(&self) -> ConnectRequest {
        let session = self.session.as_ref();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid_seen,
            timeout_ms: self.timeout_ms,
            session_id: session.map_or(SessionId::NONE, |session| session.id),
            password: Some(session.map_or_else(
                || Bytes::from_static(&[0; 16]),
                |session| session.password.clone(),
            ))
            .into(),
            read_only: self.read_only,
        }
    }
}

/// What it takes to go on with a session on another connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its password, 16 bytes.
    pub password: Bytes,
}

impl std::fmt::Debug for Session {
    // The password must not find its way into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

/// What the server granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The session, new or continued.
    pub session: Session,
    /// Negotiated session timeout, ms.
    pub timeout_ms: i32,
    /// Whether the server only reads, for want of a quorum.
    pub read_only: bool,
}

/// A connection with its session: requests and replies as bytes, in whatever number the caller
/// likes. Nothing is sent unasked: no pings, no reconnects. See [`crate::Client`] for those.
#[derive(Debug)]
pub struct RawConnection<S = Stream> {
    /// The bytes.
    pub wire: Wire<S>,
    /// What the handshake brought.
    pub accepted: Accepted,
}

impl RawConnection {
    /// Connects to `server` (`host:port`) and opens or continues a session.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::ConnectTimeout`], [`Error::Handshake`], [`Error::Login`], or
    /// [`Error::SessionExpired`] if the session to continue is over.
    pub async fn open(server: &Arc<str>, handshake: &Handshake) -> Result<Self> {
        let attempt = async {
            let connect = async {
                if let Some(dialer) = &handshake.dialer {
                    return dialer.dial(server).await.map(Stream::Brought);
                }
                let stream = TcpStream::connect(&**server).await?;
                stream.set_nodelay(true)?;
                let host = server.rsplit_once(':').map_or(&**server, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                handshake.connector.establish(stream, &[host]).await
            };
            let stream = connect.await.map_err(|source| Error::Connect {
                server: Arc::clone(server),
                source: Arc::new(source),
            })?;
            Self::over(stream, server, handshake).await
        };
        match tokio::time::timeout(handshake.connect_timeout, attempt).await {
            Ok(result) => result,
            Err(_) => Err(Error::ConnectTimeout {
                server: Arc::clone(server),
                timeout_ms: handshake.connect_timeout.as_millis(),
            }),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawConnection<S> {
    /// Opens or continues a session over a stream that is connected already, and logs in if that is
    /// asked for; `server` is only named in errors.
    ///
    /// # Errors
    /// [`Error::Handshake`], [`Error::SessionExpired`] or [`Error::Login`].
    pub async fn over(stream: S, server: &Arc<str>, handshake: &Handshake) -> Result<Self> {
        let mut wire = Wire::new(stream, handshake.frame_bytes_max);
        put_frame(wire.outbound(), |out| handshake.request().encode(out));
        let lost = |reason| Error::Handshake {
            server: Arc::clone(server),
            reason,
        };
        let response = answer(&mut wire).await.map_err(lost)?;
        if response.timeout_ms <= 0 {
            return Err(Error::SessionExpired {
                session: handshake.request().session_id,
                server: Arc::clone(server),
            });
        }
        if let Some(login) = &handshake.login {
            let logged_in = log_in(&mut wire, login, handshake.frame_bytes_max).await;
            logged_in.map_err(|why| match why {
                NotLoggedIn::Lost(reason) => lost(reason),
                NotLoggedIn::Failed(reason) => Error::Login {
                    server: Arc::clone(server),
                    reason,
                },
            })?;
        }
        let accepted = Accepted {
            session: Session {
                id: response.session_id,
                password: response.password.into_exposed(),
            },
            timeout_ms: response.timeout_ms,
            read_only: response.read_only.unwrap_or(false),
        };
        Ok(Self { wire, accepted })
    }

    /// Appends a closeSession; the server answers it and closes.
    pub fn put_close(&mut self, xid: Xid) {
        put_request(
            xid,
            OpCode::CloseSession.number(),
            self.wire.outbound(),
            |_| (),
        );
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
) -> Result<ConnectResponse, LossReason> {
    loop {
        if let Some(frame) = wire.next_frame()? {
            let mut input = Reader::new(Bytes::copy_from_slice(frame));
            return ConnectResponse::decode(&mut input).map_err(|source| LossReason::Decode {
                what: "connect response",
                source,
            });
        }
        wire.turn().await?;
    }
}
