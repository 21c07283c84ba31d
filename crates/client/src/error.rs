//! Errors of the client. Each error names the server, the operation and the path.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use jute::{DecodeError, Str};
use proto::{ErrorCode, OpCode, SessionId};
use transport::sasl::Refusal;
use transport::sasl::gssapi::GssapiRefusal;

use crate::frame::FrameError;
use crate::path::PathFault;

/// Result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Request to which an error refers. Prints as `getData /a at 127.0.0.1:2181`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub op: OpCode,
    /// Server path of the request, if it has a path. In [`Error::Multi`], the path of the failed
    /// operation.
    pub path: Option<Str>,
    /// Server that received, or would have received, the request.
    pub server: Arc<str>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name())?;
        if let Some(path) = &self.path {
            write!(f, " {path}")?;
        }
        write!(f, " at {}", self.server)
    }
}

/// Error number of a reply, known or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ErrorCode::from_i32(self.0) {
            Some(code) => code.fmt(f),
            None => write!(f, "unknown error code {}", self.0),
        }
    }
}

/// Reason for the end of a connection.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The socket failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The server closed the connection. Servers never send a reason.
    #[error("closed by the server")]
    ClosedByServer,
    /// No data arrived for two thirds of the session timeout, or no request was answered for a
    /// whole session timeout.
    #[error("no reply for {} ms", silent.as_millis())]
    Silent {
        /// Time since the last data from the server.
        silent: Duration,
    },
    /// The server sent data that is not a frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The server sent a reply out of order, or a reply without a request.
    #[error("received a reply with xid {got}, expected {expected}")]
    OutOfOrder {
        /// Xid of the reply.
        got: i32,
        /// Xid of the oldest unanswered request, or `None` without such a request.
        expected: XidOrNothing,
    },
    /// An event or internal reply cannot be decoded.
    #[error("cannot decode the {what}: {source}")]
    Decode {
        /// Kind of the packet.
        what: &'static str,
        /// Error of the decoder.
        source: DecodeError,
    },
    /// The server refused the credentials. It closes the connection after that.
    #[error("authentication failed")]
    AuthFailed,
    /// The server refused to set the watches of the session again. Contains the error code.
    #[error("the server refused to set the watches again: {}", Code(*.0))]
    WatchesRefused(i32),
    /// The application removed the server from the list
    /// ([`Client::set_servers`](crate::Client::set_servers)).
    #[error("the server was removed from the list of servers")]
    ServerRemoved,
}

impl From<io::Error> for LossReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::ClosedByServer,
            _ => Self::Io(Arc::new(error)),
        }
    }
}

/// Reason for a failed SASL login. The messages never contain the name or the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginFailure {
    /// The server refused the login, usually because of a wrong name or password. Contains the
    /// error code.
    #[error("the server refused the user name or password: {}", Code(*.0))]
    Refused(i32),
    /// The server refused a Kerberos ticket. Contains the error code.
    #[error("the server refused the Kerberos ticket: {}; the server's log contains the reason", Code(*.0))]
    TicketRefused(i32),
    /// The server answered without a token.
    #[error(
        "the server replied without a token: it does not support SASL, or it accepts clients whose login failed"
    )]
    NoToken,
    /// The server sent data that is not a token of this exchange.
    #[error("cannot use a token from the server: {0}")]
    Token(Refusal),
    /// There is no Kerberos ticket, or the server does not prove that it has the key of its
    /// service.
    #[error(transparent)]
    Ticket(GssapiRefusal),
    /// The server does not prove that it knows the password. It may be an impostor.
    #[error("the server did not prove that it knows the password")]
    ServerUnproven,
    /// The random source of the system failed.
    #[error("cannot get random bytes from the system")]
    NoRandomness,
}

/// An xid, or the absence of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XidOrNothing(pub Option<i32>);

impl fmt::Display for XidOrNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(xid) => write!(f, "xid {xid}"),
            None => f.write_str("no reply"),
        }
    }
}

/// Error of a call or of a connection.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The TCP connection or the TLS handshake failed, or the dialer returned an error.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// The server.
        server: Arc<str>,
        /// Error of the operating system, of TLS or of the dialer.
        source: Arc<io::Error>,
    },
    /// The connection, the handshake and the login were not completed in time.
    #[error("cannot connect to {server}: no answer within {} ms", timeout.as_millis())]
    ConnectTimeout {
        /// The server.
        server: Arc<str>,
        /// Time that the client has waited.
        timeout: Duration,
    },
    /// The connection ended before the handshake and the login were completed. Possible reasons are
    /// that the server does not serve clients, has too many connections, or has a smaller last zxid
    /// than this client.
    #[error("handshake with {server} failed: {reason}")]
    Handshake {
        /// The server.
        server: Arc<str>,
        /// Reason for the end.
        reason: LossReason,
    },
    /// The SASL login failed. No other request was sent.
    #[error("login at {server} failed: {reason}")]
    Login {
        /// The server.
        server: Arc<str>,
        /// Reason for the failure.
        reason: LoginFailure,
    },
    /// The server no longer knows the session, or the password of the session is wrong.
    #[error("session {session} has expired according to {server}")]
    SessionExpired {
        /// The session.
        session: SessionId,
        /// Server that reported the end.
        server: Arc<str>,
    },
    /// The server answered with an error code.
    #[error("{call}: {}", Code(*.code))]
    Op {
        /// The request.
        call: Call,
        /// Error code. [`ErrorCode`] lists the known codes.
        code: i32,
    },
    /// An operation of a multi failed, so the server executed none of the operations.
    #[error("{call}: operation {index}: {}", Code(*.code))]
    Multi {
        /// The multi.
        call: Call,
        /// Index of the failed operation, from 0.
        index: usize,
        /// Error code of the operation.
        code: i32,
    },
    /// The connection was lost before the answer arrived. The server may have executed a write.
    #[error("{call}: connection lost before the reply: {reason}")]
    ConnectionLost {
        /// The request.
        call: Call,
        /// Reason for the loss.
        reason: LossReason,
    },
    /// No server was reachable for a whole session timeout. The request was never sent.
    #[error("{call}: not sent because no server was reached: {last}")]
    Unreachable {
        /// The request.
        call: Call,
        /// Error of the last connection attempt.
        last: Box<Error>,
    },
    /// The reply's record cannot be decoded.
    #[error("{call}: cannot decode the reply: {source}")]
    Reply {
        /// The request.
        call: Call,
        /// Error of the decoder.
        source: DecodeError,
    },
    /// The request exceeds the size limit. It was not sent.
    #[error("{call}: the request has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The request.
        call: Call,
        /// Size of the request, in bytes.
        bytes: usize,
        /// Limit of [`crate::Options::with_byte_limits`].
        limit: usize,
    },
    /// The client was closed, or its session ended. The request was not sent.
    #[error("{} not sent because the client is closed", op.name())]
    Closed {
        /// The request's operation.
        op: OpCode,
    },
    /// [`crate::Client::remove_watches`] removed the watch.
    #[error("the watch on {path} was removed")]
    WatchRemoved {
        /// Watched path, as a server path.
        path: Str,
    },
    /// The path of a request is invalid. The request was not sent.
    #[error("{path:?} is not a valid path: {reason}")]
    Path {
        /// Path as the application passed it.
        path: String,
        /// Reason.
        reason: PathFault,
    },
    /// A container cannot be sequential. The request was not sent.
    #[error("cannot create {path}: a container cannot be sequential")]
    SequentialContainer {
        /// Path as the application passed it.
        path: String,
    },
    /// The root directory of the client is not a valid path.
    #[error("{chroot:?} is not a valid root path for a client: {reason}")]
    Chroot {
        /// Root directory as the application passed it.
        chroot: String,
        /// Reason.
        reason: PathFault,
    },
    /// The list of servers is empty.
    #[error("the list of servers is empty")]
    NoServers,
}

impl Error {
    /// Returns the path of the request or, for a multi, of the failed operation. It is a server
    /// path, except in an error about the path itself.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Op { call, .. }
            | Self::Multi { call, .. }
            | Self::ConnectionLost { call, .. }
            | Self::Unreachable { call, .. }
            | Self::Reply { call, .. }
            | Self::TooLarge { call, .. } => call.path.as_deref(),
            Self::WatchRemoved { path } => Some(path),
            Self::Path { path, .. } | Self::SequentialContainer { path } => Some(path),
            Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Handshake { .. }
            | Self::Login { .. }
            | Self::SessionExpired { .. }
            | Self::Closed { .. }
            | Self::Chroot { .. }
            | Self::NoServers => None,
        }
    }

    /// Returns whether the server reported that the znode, or the parent of a new znode, does not
    /// exist.
    pub fn is_no_node(&self) -> bool {
        self.code() == Some(ErrorCode::NoNode)
    }

    /// Returns whether the server reported that the znode already exists.
    pub fn is_node_exists(&self) -> bool {
        self.code() == Some(ErrorCode::NodeExists)
    }

    /// Returns whether the server reported that the znode has another version.
    pub fn is_bad_version(&self) -> bool {
        self.code() == Some(ErrorCode::BadVersion)
    }

    /// Returns whether the server reported that the znode has children.
    pub fn is_not_empty(&self) -> bool {
        self.code() == Some(ErrorCode::NotEmpty)
    }

    /// Returns whether the server reported that the identities of the connection lack the
    /// permission.
    pub fn is_no_auth(&self) -> bool {
        self.code() == Some(ErrorCode::NoAuth)
    }

    /// Returns the error code of the server's answer, if it is a known code.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Op { code, .. } | Self::Multi { code, .. } => ErrorCode::from_i32(*code),
            _ => None,
        }
    }

    /// Returns whether the connection was lost or never established. The same call may succeed
    /// later. After [`Error::ConnectionLost`] the server may have executed a write.
    pub fn is_connection_loss(&self) -> bool {
        matches!(self, Self::ConnectionLost { .. } | Self::Unreachable { .. })
    }

    /// Returns whether the session cannot continue, because it has ended or a server refused its
    /// login. Without renewal, the application needs a new [`crate::Client`].
    pub fn ends_session(&self) -> bool {
        matches!(
            self,
            Self::SessionExpired { .. } | Self::Closed { .. } | Self::Login { .. }
        )
    }
}
