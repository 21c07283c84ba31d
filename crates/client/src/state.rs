//! How a session stands, and what its watches see.

use std::sync::Arc;

use jute::Str;
use proto::watch::EventType;
use proto::{OpCode, SessionId, Zxid};

use crate::chroot::Chroot;
use crate::error::{Error, LoginFailure};
use crate::handshake::Accepted;

/// A change that a watch saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// To which path.
    pub path: Str,
    /// The transaction that did it; -1 from servers before 3.9, and for changes found when
    /// watches were set again on a new connection.
    pub zxid: Zxid,
}

impl WatchEvent {
    pub(crate) fn inside(mut self, chroot: &Chroot) -> Self {
        self.path = chroot.inside(self.path);
        self
    }
}

/// How a client's session stands.
///
/// ```text
///                 connection lost              session timeout over, by this clock
/// Connected ------------------------> Reconnecting ------------------------> Lost
///     ^                                    |                                  |
///     +---- a server takes the session ----+----------------------------------+
///                                          |
///                      a server says that it is over: Expired
///                                          |
///              with renewal: Connected, in another session
/// ```
///
/// Whoever acts on a right that hangs on the session, such as a leader, stops at `Reconnecting` to
/// be safe, and at `Lost` at the latest: from then on somebody else may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Connected to a server.
    Connected {
        /// Which.
        server: Arc<str>,
        /// The session.
        session: SessionId,
        /// Negotiated timeout, ms.
        timeout_ms: i32,
        /// Whether the server only reads.
        read_only: bool,
    },
    /// The connection is lost; the session lives on if a server is reached in time.
    Reconnecting,
    /// The session timeout has passed, by this client's clock, since it sent the last thing that a
    /// server answered: the session may be over, and nobody can be asked. It is `Connected` again
    /// if a server still knows it: servers give sessions more time after elections.
    Lost,
    /// A server said that the session is over.
    Expired,
    /// A server refused the login of a new connection; the session is left to time out.
    LoginRefused {
        /// Which.
        server: Arc<str>,
        /// Why.
        reason: LoginFailure,
    },
    /// Closed by the application, or left to another process.
    Closed,
}

impl State {
    pub(crate) fn connected(server: Arc<str>, accepted: &Accepted) -> Self {
        Self::Connected {
            server,
            session: accepted.session.id,
            timeout_ms: accepted.timeout_ms,
            read_only: accepted.read_only,
        }
    }

    /// The session, if there is a connection: nobody else has what this session holds.
    pub fn connected_session(&self) -> Option<SessionId> {
        match self {
            Self::Connected { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// Whether nothing comes after it, renewal aside.
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Expired | Self::LoginRefused { .. } | Self::Closed
        )
    }

    /// What a call meets that comes after the end.
    pub(crate) fn refusal(&self, op: OpCode, session: SessionId) -> Error {
        match self {
            Self::Expired => Error::SessionExpired {
                session,
                server: "the ensemble".into(),
            },
            Self::LoginRefused { server, reason } => Error::Login {
                server: Arc::clone(server),
                reason: reason.clone(),
            },
            Self::Connected { .. } | Self::Reconnecting | Self::Lost | Self::Closed => {
                Error::Closed { op }
            }
        }
    }
}
