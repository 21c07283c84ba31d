//! What becomes of a client that connects: it is refused, it gets a new session, or its own back.
//!
//! A host asks [`HandshakeRules::kind`], which may cost the client more or less where handshakes are
//! throttled, and then [`HandshakeRules::judge`]. Who comes back goes on with
//! [`ComingBack::decide`].
//!
//! Source: ZooKeeperServer.processConnectRequest, ZooKeeperServer.reopenSession,
//! LearnerZooKeeperServer.revalidateSession, ReadOnlyZooKeeperServer.

use std::sync::Arc;

use bytes::Bytes;
use proto::connect::ConnectRequest;
use proto::request::WriteRequest;
use proto::{Id, SessionId, Zxid};
use session::Passwords;
use tree::Tree;

use crate::effect::Service;
use crate::host::State;
use crate::input::{ClientRequest, Renewal, Ticket};
use crate::large_bytes::LargeBytes;

/// What a server says to all clients alike at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeRules {
    /// How clients are served.
    pub service: Service,
    /// Whether new sessions are known to this server only (`localSessionsEnabled`).
    pub local_sessions: bool,
    /// Shortest session timeout, ms.
    pub timeout_min_ms: i32,
    /// Longest session timeout, ms.
    pub timeout_max_ms: i32,
}

/// What a handshake is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeKind {
    /// A new session.
    New,
    /// A new session that no other server hears of.
    NewLocal,
    /// A session that comes back.
    Renewal,
}

/// Why the connection of a client ends without an answer, so that it tries another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeRefusal {
    /// Nobody is served.
    #[error("there is no leader")]
    NoLeader,
    /// Reads are served, and the client has not said that they will do.
    #[error("there is no leader, and the client has not said that reads will do")]
    NotForReads,
    /// What it has seen elsewhere is not known here.
    #[error("the client has seen zxid {seen}, newer than {last}, the last one of this server")]
    ClientAhead {
        /// The newest zxid that it has seen.
        seen: Zxid,
        /// The last one of this server.
        last: Zxid,
    },
    /// The history has its session, and only a leader could say whether it lives.
    #[error("there is no leader to say whether session {session} lives")]
    NobodyToAsk {
        /// The session.
        session: SessionId,
    },
}

/// What a client gets that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// A new session.
    New(NewSession),
    /// Its session, maybe.
    Back(ComingBack),
}

/// A session that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSession {
    /// Negotiated, ms.
    pub timeout_ms: i32,
    /// Whether it needs no transaction: it is there at once.
    pub is_local: bool,
    /// Whether the client sent the read-only byte and so expects it back.
    pub new_style: bool,
}

/// A client that comes back with a session. What else serves the session ends before
/// [`ComingBack::decide`], and so before its password is looked at, as in Java: whoever knows the id
/// can cut the connection, and its owner then comes back with the right password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComingBack {
    /// The session.
    pub session: SessionId,
    /// Negotiated on this connection, ms.
    pub timeout_ms: i32,
    new_style: bool,
    is_owner: bool,
    service: Service,
    local_sessions: bool,
}

/// What a client is told that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalStep {
    /// What the leader says, once it was asked by [`Input::Renew`](crate::Input::Renew).
    AskLeader(Renewal),
    /// The session goes on.
    Renewed,
    /// It is over, or was never the client's.
    Over,
    /// Nothing: the connection ends. The role has ended meanwhile, and the sessions that this server
    /// knows now are not those that it decided about.
    Nothing,
}

impl HandshakeRules {
    /// Whether a new session is local. Without a leader every one is: Apache ZooKeeper answers a
    /// read-only client's handshake by an error reply, unless `localSessionsEnabled`.
    pub fn makes_local_sessions(&self) -> bool {
        self.local_sessions || self.service == Service::ReadOnly
    }

    /// What a handshake is for.
    ///
    /// # Errors
    /// If nobody is served.
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

    /// What the client gets.
    ///
    /// # Errors
    /// If it gets nothing here.
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
        let timeout_ms = session::negotiate(request.timeout_ms, min_ms, max_ms);
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
        Ok(Handshake::Back(ComingBack {
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
    /// Gives the session an id that no living one has, and starts its clock. Ids begin with the time
    /// of the start, and a wall clock that was set back may come to the time of an earlier one.
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
        match self.is_local {
            true => sessions.add_local(id, self.timeout_ms, now_ms),
            false => sessions.add(id, self.timeout_ms, now_ms),
        }
        id
    }

    /// What is to be ordered for one that is not local.
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

impl ComingBack {
    /// What the client is told. `is_cut` says whether its connection was closed; it is asked after
    /// the sessions were looked at, since a role that ends closes connections first.
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
                // One that is not known at all may live with a majority elsewhere: as in Apache
                // ZooKeeper it is taken on trust unless `localSessionsEnabled`.
                Service::ReadOnly => {
                    let is_taken = is_local || !self.local_sessions;
                    is_taken && sessions.touch(session, timeout_ms, now_ms)
                }
                Service::None | Service::Deciding | Service::Forwarding => {
                    sessions.renew(session, timeout_ms, now_ms)
                }
            }
        };
        match is_alive {
            true => RenewalStep::Renewed,
            false if is_cut() => RenewalStep::Nothing,
            false => RenewalStep::Over,
        }
    }

    /// Whether the client knows the session's password.
    pub fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Whether the client sent the read-only byte and so expects it back.
    pub fn is_new_style(&self) -> bool {
        self.new_style
    }
}
