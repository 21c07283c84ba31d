//! States of a session, and events of its watches.

use std::sync::Arc;
use std::time::Duration;

use jute::Str;
use proto::watch::EventType;
use proto::{OpCode, SessionId, Zxid};

use crate::chroot::Chroot;
use crate::error::{Error, LoginFailure};
use crate::handshake::Accepted;

/// Change that a watch reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// Kind of the change.
    pub kind: EventType,
    /// Path of the znode.
    pub path: Str,
    /// Transaction of the change. It is -1 if the server is older than 3.9, or found the change
    /// when the client set its watches again on a new connection.
    pub zxid: Zxid,
}

impl WatchEvent {
    pub(crate) fn inside(mut self, chroot: &Chroot) -> Self {
        self.path = chroot.inside(self.path);
        self
    }
}

/// State of a client's session.
///
/// ```text
///                 connection lost              session timeout passed, by this clock
/// Connected ------------------------> Reconnecting ------------------------> Lost
///     ^                                    |                                  |
///     +--- a server accepts the session ---+----------------------------------+
///                                          |
///                      a server reports its end: Expired
///                                          |
///              with renewal: Connected, in another session
/// ```
///
/// A program that acts on a right of the session, such as a leader, should stop at `Reconnecting`.
/// It must stop at `Lost`, because another client may have the right from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The client is connected to a server.
    Connected {
        /// Address of the server.
        server: Arc<str>,
        /// Id of the session.
        session: SessionId,
        /// Negotiated session timeout.
        timeout: Duration,
        /// Whether the server accepts only reads.
        read_only: bool,
    },
    /// The connection is lost. The session continues if a server is reached in time.
    Reconnecting,
    /// The session timeout has passed, by the client's clock, since the client sent the newest
    /// request that a server answered. The session may have ended, and no server is reachable. The
    /// state becomes `Connected` again if a server still knows the session. Servers extend sessions
    /// after elections.
    Lost,
    /// A server reported the end of the session.
    Expired,
    /// A server refused the login of a new connection. The session will time out.
    LoginRefused {
        /// Address of the server.
        server: Arc<str>,
        /// Reason for the refusal.
        reason: LoginFailure,
    },
    /// The application closed the client, or handed the session over.
    Closed,
}

impl State {
    pub(crate) fn connected(server: Arc<str>, accepted: &Accepted) -> Self {
        Self::Connected {
            server,
            session: accepted.session.id,
            timeout: accepted.session_timeout,
            read_only: accepted.read_only,
        }
    }

    /// Returns the id of the session while the client is connected, otherwise `None`. During this
    /// time, no other client has the rights of the session.
    pub fn connected_session(&self) -> Option<SessionId> {
        match self {
            Self::Connected { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// Returns whether the client no longer uses the session. With renewal, a new session follows
    /// [`Expired`](Self::Expired).
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Expired | Self::LoginRefused { .. } | Self::Closed
        )
    }

    /// Returns the error for a call after the end of the session.
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
