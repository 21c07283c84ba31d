//! Decision about a connecting client: refuse it, create a session, or renew its session.
//!
//! A host calls [`HandshakeRules::kind`], and then [`HandshakeRules::judge`]. The kind may
//! determine the client's cost if handshakes are throttled. [`SessionReconnect::decide`] decides
//! about a returning client.
//!
//! Source: ZooKeeperServer.processConnectRequest, ZooKeeperServer.reopenSession,
//! LearnerZooKeeperServer.revalidateSession, ReadOnlyZooKeeperServer.

use std::sync::Arc;

use bytes::Bytes;
use proto::connect::ConnectRequest;
use proto::request::WriteRequest;
use proto::{Id, SessionId, Zxid};
use tree::Tree;

use crate::interface::effect::Service;
use crate::interface::host::State;
use crate::interface::input::{ClientRequest, Renewal, Ticket};
use crate::interface::large_bytes::LargeBytes;
use crate::session::{Passwords, negotiate};

/// State of the server that applies to all handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeRules {
    /// Current service for clients.
    pub service: Service,
    /// Whether new sessions are known to this server only (`localSessionsEnabled`).
    pub local_sessions: bool,
    /// Minimum session timeout, ms.
    pub timeout_min_ms: i32,
    /// Maximum session timeout, ms.
    pub timeout_max_ms: i32,
}

/// Purpose of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeKind {
    /// A new session.
    New,
    /// A new session that is unknown to other servers.
    NewLocal,
    /// A renewal of an existing session.
    Renewal,
}

/// Reason why a client's connection ends without an answer, so that the client tries another
/// server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeRefusal {
    /// Clients are not served at the moment.
    #[error("no leader is known")]
    NoLeader,
    /// Only reads are served, and the client does not accept this.
    #[error("no leader is known, and the client did not request a read-only session")]
    NotForReads,
    /// The client has seen a transaction on another server that this server lacks.
    #[error("the client has seen zxid {seen}, but the last zxid of this server is {last}")]
    ClientAhead {
        /// Newest zxid that the client has seen.
        seen: Zxid,
        /// Last zxid of this server.
        last: Zxid,
    },
    /// The tree contains the client's session, but only a leader knows whether the session is live.
    #[error("no leader is known that can validate session {session}")]
    NobodyToAsk {
        /// Session of the client.
        session: SessionId,
    },
}

/// Result for an accepted client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// A new session.
    New(NewSession),
    /// A renewal of the client's session, to be decided by [`SessionReconnect::decide`].
    Back(SessionReconnect),
}

/// A session to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSession {
    /// Negotiated timeout, ms.
    pub timeout_ms: i32,
    /// Whether the session exists immediately, without a transaction.
    pub is_local: bool,
    /// Whether the client sent the read-only byte and expects it back.
    pub new_style: bool,
}

/// A client that returns with its session. If its password is correct, other connections of the
/// session end before [`SessionReconnect::decide`]. (Java ends them before it checks the password,
/// so anyone who knows the id can cut the connection.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionReconnect {
    /// Session of the client.
    pub session: SessionId,
    /// Timeout negotiated on this connection, ms.
    pub timeout_ms: i32,
    new_style: bool,
    is_owner: bool,
    service: Service,
    local_sessions: bool,
}

/// Answer to a returning client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalStep {
    /// The leader decides, after it is queried by [`Input::Renew`](crate::Input::Renew).
    AskLeader(Renewal),
    /// The session continues.
    Renewed,
    /// The session is over or does not belong to the client.
    Over,
    /// The connection ends without an answer. The role has ended meanwhile, so the session table
    /// may have been replaced and does not show whether the session is over.
    Nothing,
}

impl HandshakeRules {
    /// Returns whether new sessions are local. Without a leader, all new sessions are local.
    /// (Apache ZooKeeper answers a read-only client's handshake with an error reply, unless
    /// `localSessionsEnabled`.)
    pub fn makes_local_sessions(&self) -> bool {
        self.local_sessions || self.service == Service::ReadOnly
    }

    /// Determines the purpose of a handshake.
    ///
    /// # Errors
    /// If clients are not served.
    pub fn kind(&self, request: &ConnectRequest) -> Result<HandshakeKind, HandshakeRefusal> {
        if self.service == Service::None {
            return Err(HandshakeRefusal::NoLeader);
        }
        Ok(match request.session_id {
            SessionId::NONE if self.makes_local_sessions() => HandshakeKind::NewLocal,
            SessionId::NONE => HandshakeKind::New,
            _ => HandshakeKind::Renewal,
        })
    }

    /// Decides about a handshake.
    ///
    /// # Errors
    /// If clients are not served, or if the client must try another server because it does not
    /// accept read-only service, has seen a newer transaction, or has a session that only a leader
    /// knows to be live.
    pub fn judge(
        &self,
        request: &ConnectRequest,
        tree: &Tree,
        passwords: &Passwords,
    ) -> Result<Handshake, HandshakeRefusal> {
        let is_read_only = self.service == Service::ReadOnly;
        let kind = self.kind(request)?;
        if is_read_only && request.read_only != Some(true) {
            return Err(HandshakeRefusal::NotForReads);
        }
        let (seen, last) = (request.last_zxid_seen, tree.last_zxid());
        if seen > last {
            return Err(HandshakeRefusal::ClientAhead { seen, last });
        }
        let (min_ms, max_ms) = (self.timeout_min_ms, self.timeout_max_ms);
        let timeout_ms = negotiate(request.timeout_ms, min_ms, max_ms);
        let session = request.session_id;
        if kind != HandshakeKind::Renewal {
            let is_local = kind == HandshakeKind::NewLocal;
            return Ok(Handshake::New(NewSession {
                timeout_ms,
                is_local,
                new_style: request.read_only.is_some(),
            }));
        }
        if is_read_only && tree.session_timeout_ms(session).is_some() {
            return Err(HandshakeRefusal::NobodyToAsk { session });
        }
        Ok(Handshake::Back(SessionReconnect {
            session,
            timeout_ms,
            new_style: request.read_only.is_some(),
            is_owner: passwords.matches(session, request.password.expose().as_deref()),
            service: self.service,
            local_sessions: self.local_sessions,
        }))
    }
}

impl NewSession {
    /// Creates the session with an unused id, and starts its clock. The ids of each run of the
    /// server begin at a random number, so an id may already be in use.
    pub fn begin(
        &self,
        state: &impl State,
        now_ms: i64,
        mut next_id: impl FnMut() -> SessionId,
    ) -> SessionId {
        let id = {
            let tree = state.tree();
            let mut id = next_id();
            while tree.session_timeout_ms(id).is_some() {
                id = next_id();
            }
            id
        };
        let mut sessions = state.sessions();
        if self.is_local {
            sessions.add_local(id, self.timeout_ms, now_ms);
        } else {
            sessions.add(id, self.timeout_ms, now_ms);
        }
        id
    }

    /// Creates the request for a session that is not local.
    pub fn request(
        &self,
        session: SessionId,
        ticket: Ticket,
        identities: Arc<[Id]>,
    ) -> ClientRequest {
        let timeout_ms = self.timeout_ms;
        ClientRequest {
            ticket,
            session,
            cxid: 0,
            identities,
            request: WriteRequest::CreateSession { timeout_ms },
            body: Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
            large_bytes: LargeBytes::NONE,
            upgrade_ms: None,
        }
    }
}

impl SessionReconnect {
    /// Decides about the session. `is_cut` returns whether the client's connection was closed.
    /// `is_cut` is called after the sessions are checked, because a role that ends closes
    /// connections first.
    pub fn decide(
        &self,
        ticket: Ticket,
        state: &impl State,
        now_ms: i64,
        is_cut: impl FnOnce() -> bool,
    ) -> RenewalStep {
        let &Self {
            session,
            timeout_ms,
            new_style,
            ..
        } = self;
        let is_alive = self.is_owner && {
            let mut sessions = state.sessions();
            let is_local = sessions.is_local(session);
            match self.service {
                Service::Forwarding if !is_local => {
                    return RenewalStep::AskLeader(Renewal {
                        ticket,
                        session,
                        timeout_ms,
                        new_style,
                    });
                }
                // An unknown session may be live at a majority elsewhere. Like Apache ZooKeeper,
                // this server accepts it unless `localSessionsEnabled`.
                Service::ReadOnly => {
                    let is_taken = is_local || !self.local_sessions;
                    is_taken && sessions.touch(session, timeout_ms, now_ms)
                }
                Service::None | Service::Deciding | Service::Forwarding => {
                    sessions.renew(session, timeout_ms, now_ms)
                }
            }
        };
        if is_alive {
            RenewalStep::Renewed
        } else if is_cut() {
            RenewalStep::Nothing
        } else {
            RenewalStep::Over
        }
    }

    /// Returns whether the client knows the session's password.
    pub fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Returns whether the client sent the read-only byte and expects it back.
    pub fn is_new_style(&self) -> bool {
        self.new_style
    }
}
