//! Handshake of a connection, and the connection after it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use proto::connect::{ConnectRequest, ConnectResponse};
use proto::{OpCode, SessionId, Xid, Zxid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use transport::{Connector, Stream};

use crate::dial::Dial;
use crate::error::{Error, LossReason, Result};
use crate::frame::{put_frame, put_request};
use crate::limits::FRAME_BYTES_MAX;
#[cfg(feature = "sasl")]
use crate::login::{Login, NotLoggedIn, log_in};
use crate::wire::Wire;

/// Parameters for the start of a connection. The default requests a new session with a timeout of
/// 30 s.
#[derive(Debug, Clone)]
#[must_use = "it only contains parameters, and `RawConnection::open` uses them"]
pub struct Handshake {
    /// Requested session timeout. The server clamps it.
    pub(crate) session_timeout: Duration,
    /// Session to continue, or `None` for a new one.
    pub(crate) session: Option<Session>,
    /// Newest zxid that the client has seen. A server with a smaller zxid closes the connection
    /// without an answer.
    pub(crate) last_zxid_seen: Zxid,
    /// Whether to accept a server without a quorum. `None` omits this field from the request, like
    /// clients before 3.4 (and the C client before 3.5).
    pub(crate) read_only: Option<bool>,
    /// Size limit of an incoming frame, in bytes.
    pub(crate) frame_bytes_max: usize,
    /// Time limit for name lookup, TCP connection, TLS, answer and login together.
    pub(crate) connect_timeout: Duration,
    /// TLS settings, if the server requires TLS.
    pub(crate) connector: Connector,
    /// Credentials of the SASL login, if any.
    #[cfg(feature = "sasl")]
    pub(crate) login: Option<Login>,
    /// Dialer that replaces TCP, if any.
    pub(crate) dialer: Option<Arc<dyn Dial>>,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(30),
            session: None,
            last_zxid_seen: Zxid::ZERO,
            read_only: Some(false),
            frame_bytes_max: FRAME_BYTES_MAX,
            connect_timeout: Duration::from_secs(10),
            connector: Connector::plain(),
            #[cfg(feature = "sasl")]
            login: None,
            dialer: None,
        }
    }
}

impl Handshake {
    /// Sets the requested session timeout.
    pub fn with_session_timeout(mut self, session_timeout: Duration) -> Self {
        self.session_timeout = session_timeout;
        self
    }

    /// Sets the session to continue. `None` requests a new session.
    pub fn with_session(mut self, session: impl Into<Option<Session>>) -> Self {
        self.session = session.into();
        self
    }

    /// Sets the newest zxid that the client has seen. A server with a smaller zxid closes the
    /// connection without an answer.
    pub fn with_last_zxid_seen(mut self, last_zxid_seen: Zxid) -> Self {
        self.last_zxid_seen = last_zxid_seen;
        self
    }

    /// Sets whether to accept a server without a quorum. `None` omits this field from the request,
    /// like clients before 3.4 (and the C client before 3.5).
    pub fn with_read_only(mut self, read_only: Option<bool>) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets the size limit of an incoming frame, in bytes.
    pub fn with_frame_bytes_max(mut self, frame_bytes_max: usize) -> Self {
        self.frame_bytes_max = frame_bytes_max;
        self
    }

    /// Sets the time limit for name lookup, TCP connection, TLS, answer and login together.
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the TLS connector.
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Sets the SASL login. `None` means no login.
    #[cfg(feature = "sasl")]
    pub fn with_login(mut self, login: impl Into<Option<Login>>) -> Self {
        self.login = login.into();
        self
    }

    /// Sets a dialer that replaces TCP.
    pub fn with_dialer(mut self, dialer: Arc<dyn Dial>) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Returns the TLS connector.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    fn request(&self) -> ConnectRequest {
        let session = self.session.as_ref();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid_seen,
            timeout_ms: i32::try_from(self.session_timeout.as_millis()).unwrap_or(i32::MAX),
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

/// Id and password of a session. They are sufficient to continue the session on another connection.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "only its id and password can continue the session"]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// Password of the session, 16 bytes.
    pub password: Bytes,
}

impl std::fmt::Debug for Session {
    // The password must not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

/// Answer of the server to the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The session, new or continued.
    pub session: Session,
    /// Negotiated session timeout.
    pub session_timeout: Duration,
    /// Whether the server accepts only reads because it has no quorum.
    pub read_only: bool,
}

/// Connection with a session. Requests and replies are bytes, and the caller may have any number of
/// requests in flight. The connection does not send pings and does not reconnect, unlike
/// [`crate::Client`].
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub struct RawConnection<S = Stream> {
    /// Stream and buffers.
    pub wire: Wire<S>,
    /// Result of the handshake.
    pub accepted: Accepted,
}

impl RawConnection {
    /// Connects to `server` (`host:port`), and opens or continues a session.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::ConnectTimeout`], [`Error::Handshake`] or [`Error::Login`] if
    /// the connection, the handshake or the login fails. [`Error::SessionExpired`] if the session
    /// to continue has ended.
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
                timeout: handshake.connect_timeout,
            }),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawConnection<S> {
    /// Opens or continues a session over a connected stream, and logs in if `handshake` contains a
    /// login. `server` is used only in errors.
    ///
    /// # Errors
    /// [`Error::Handshake`] or [`Error::Login`] if the handshake or the login fails.
    /// [`Error::SessionExpired`] if the session to continue has ended.
    pub async fn over(stream: S, server: &Arc<str>, handshake: &Handshake) -> Result<Self> {
        let mut wire = Wire::new(stream, handshake.frame_bytes_max);
        put_frame(wire.outbound(), |out| handshake.request().encode(out));
        let lost = |reason| Error::Handshake {
            server: Arc::clone(server),
            reason,
        };
        let response = answer(&mut wire).await.map_err(lost)?;
        let timeout_ms = u64::try_from(response.timeout_ms).unwrap_or(0);
        if timeout_ms == 0 {
            return Err(Error::SessionExpired {
                session: handshake.request().session_id,
                server: Arc::clone(server),
            });
        }
        #[cfg(feature = "sasl")]
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
            session_timeout: Duration::from_millis(timeout_ms),
            read_only: response.read_only.unwrap_or(false),
        };
        Ok(Self { wire, accepted })
    }

    /// Appends a closeSession request. The server answers it and closes the connection.
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
