//! What can go wrong, with the server, the operation and the path it went wrong for.

use std::fmt;
use std::io;
use std::sync::Arc;

use jute::{DecodeError, Str};
use proto::{ErrorCode, OpCode, SessionId};
use transport::sasl::Refusal;
use transport::sasl::gssapi::GssapiRefusal;

use crate::frame::FrameError;

/// Result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which request an error is about. Prints as `getData /a at 127.0.0.1:2181`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub op: OpCode,
    /// Its path, if it has one, as the server knows it.
    pub path: Option<Str>,
    /// The server that got it, or would have.
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

/// A reply's error number, known or not.
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

/// Why a connection ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The socket failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The server closed it, without a word, as servers do.
    #[error("closed by the server")]
    ClosedByServer,
    /// Nothing came for two thirds of the session timeout, pings went unanswered.
    #[error("no answer for {silent_ms} ms")]
    Silent {
        /// How long.
        silent_ms: u128,
    },
    /// The server sent what is no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The server answered something that was not asked next.
    #[error("reply with xid {got} while {expected} was to be answered next")]
    OutOfOrder {
        /// The reply's.
        got: i32,
        /// The oldest unanswered request's; `None` if nothing was asked.
        expected: XidOrNothing,
    },
    /// An event or internal reply does not decode.
    #[error("{what} does not decode: {source}")]
    Decode {
        /// Which packet.
        what: &'static str,
        /// Why.
        source: DecodeError,
    },
    /// Credentials were refused; the server closes after that.
    #[error("authentication failed")]
    AuthFailed,
}

impl From<io::Error> for LossReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::ClosedByServer,
            _ => Self::Io(Arc::new(error)),
        }
    }
}

/// Why a login by SASL came to nothing. The name and the password are in none of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginFailure {
    /// The server says no: a wrong name or password, as a rule. The code is its error code.
    #[error("the server refuses name and password: {}", Code(*.0))]
    Refused(i32),
    /// The server says no to a Kerberos ticket.
    #[error("the server refuses the Kerberos ticket, its log says why: {}", Code(*.0))]
    TicketRefused(i32),
    /// The server answers without a token.
    #[error(
        "the server answers without a token: it has no SASL, or lets clients stay that have failed"
    )]
    NoToken,
    /// What the server sends is no token of this exchange.
    #[error("a token of the server cannot be taken: {0}")]
    Token(Refusal),
    /// There is no Kerberos ticket, or the server does not prove that it has the key of its service.
    #[error(transparent)]
    Ticket(GssapiRefusal),
    /// The server cannot prove that it knows the password: it may be another than it says.
    #[error("the server does not know the password itself")]
    ServerUnproven,
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoRandomness,
}

/// An xid, or nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XidOrNothing(pub Option<i32>);

impl fmt::Display for XidOrNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(xid) => xid.fmt(f),
            None => f.write_str("nothing"),
        }
    }
}

/// Why a call, or the connection, failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No TCP connection to the server.
    #[error("connect to {server}: {source}")]
    Connect {
        /// The server.
        server: Arc<str>,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// The server did not answer the handshake in time.
    #[error("connect to {server}: no answer within {timeout_ms} ms")]
    ConnectTimeout {
        /// The server.
        server: Arc<str>,
        /// How long it had.
        timeout_ms: u128,
    },
    /// The connection ended before the handshake was answered: a server that does not serve, has
    /// too many connections, or has seen less than this client.
    #[error("handshake with {server}: {reason}")]
    Handshake {
        /// The server.
        server: Arc<str>,
        /// How it ended.
        reason: LossReason,
    },
    /// The login by SASL failed; nothing else was asked.
    #[error("login at {server}: {reason}")]
    Login {
        /// The server.
        server: Arc<str>,
        /// Why.
        reason: LoginFailure,
    },
    /// The server does not know the session any more, or not by this password.
    #[error("session {session} is over, says {server}")]
    SessionExpired {
        /// The session.
        session: SessionId,
        /// Who says so.
        server: Arc<str>,
    },
    /// The server answered with an error code.
    #[error("{call}: {}", Code(*.code))]
    Op {
        /// The request.
        call: Call,
        /// An [`ErrorCode`], as a rule.
        code: i32,
    },
    /// An operation of a multi failed, so none was done.
    #[error("{call}: operation {index}: {}", Code(*.code))]
    Multi {
        /// The multi.
        call: Call,
        /// Which operation, from 0.
        index: usize,
        /// Its code.
        code: i32,
    },
    /// The connection was lost before the answer came; a write may have been done or not.
    #[error("{call}: connection lost before the answer: {reason}")]
    ConnectionLost {
        /// The request.
        call: Call,
        /// How it was lost.
        reason: LossReason,
    },
    /// No server could be reached for a whole session timeout; the request was never sent.
    #[error("{call}: not sent, no server reached: {last}")]
    Unreachable {
        /// The request.
        call: Call,
        /// What the last attempt met.
        last: Box<Error>,
    },
    /// The reply's record does not decode.
    #[error("{call}: reply does not decode: {source}")]
    Reply {
        /// The request.
        call: Call,
        /// Why.
        source: DecodeError,
    },
    /// The request is larger than servers take; it was not sent.
    #[error("{call}: request of {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The request.
        call: Call,
        /// Its size.
        bytes: usize,
        /// [`crate::Options::request_bytes_max`].
        limit: usize,
    },
    /// The client was closed, or its session ended; the request was not sent.
    #[error("{} not sent: the client is closed", op.name())]
    Closed {
        /// The request's operation.
        op: OpCode,
    },
    /// The watch was taken off by [`crate::Client::remove_watches`].
    #[error("the watch on {path} was removed")]
    WatchRemoved {
        /// What was watched, as the server knows it.
        path: Str,
    },
    /// The directory that is to be the root cannot be a path.
    #[error("{chroot:?} cannot be the root of a client")]
    Chroot {
        /// As it was given.
        chroot: String,
    },
    /// No servers were named.
    #[error("no server named to connect to")]
    NoServers,
}

impl Error {
    /// The error code the server answered with, if it did and it is a known one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Op { code, .. } | Self::Multi { code, .. } => ErrorCode::from_i32(*code),
            _ => None,
        }
    }

    /// Whether the connection went away, or never came: the same call may succeed later. A write may
    /// have been done if this is [`Error::ConnectionLost`].
    pub fn is_connection_loss(&self) -> bool {
        matches!(self, Self::ConnectionLost { .. } | Self::Unreachable { .. })
    }

    /// Whether only a new [`crate::Client`] helps: the session is gone for good, or its login was
    /// refused.
    pub fn ends_session(&self) -> bool {
        matches!(
            self,
            Self::SessionExpired { .. } | Self::Closed { .. } | Self::Login { .. }
        )
    }
}
