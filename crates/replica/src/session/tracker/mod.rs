//! Sessions that a server tracks.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use proto::{ErrorCode, SessionId};

use super::buckets::{BucketPosition, Buckets};
use super::ended::EndedSessions;

/// Holder of a session's connection, from the view of the server that decides about sessions.
///
/// Source: ServerCnxn.me, LearnerHandler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u64);

impl Owner {
    /// Number of the deciding server itself. Learners have other numbers.
    pub const THIS_SERVER: Self = Self(0);
}

/// Rules by which a tracker treats unknown sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A standalone server, for which unknown sessions do not exist.
    Standalone,
    /// The leader of an ensemble.
    Leader {
        /// Low byte of the leader's `myid`.
        server_id: u8,
        /// Whether other servers may have local sessions, which the leader does not know.
        local_sessions: bool,
    },
}

/// Set of servers that know a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionScope {
    /// All servers, because a createSession transaction created the session.
    Global,
    /// Only this server, which also expires it.
    Local,
    /// Only one server for now, because the session's createSession transaction is still in
    /// progress.
    Upgrading,
}

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Negotiated timeout, ms.
    pub timeout_ms: i32,
    /// Time at which the session expires without another touch, ms; a multiple of the tick.
    pub deadline_ms: i64,
    /// Servers that know the session.
    pub kind: SessionScope,
    /// Whether the end of the session is decided.
    pub is_closing: bool,
    /// Holder of the session's connection; `None` until the session is first used.
    pub owner: Option<Owner>,
    /// Position in the buckets, never in a bucket later than `deadline_ms`; `None` if the session
    /// is closing.
    place: Option<BucketPosition>,
}

/// Sessions with their deadlines and holders.
///
/// A touch only stores the new deadline. The session stays in its older bucket and is moved when
/// that bucket is due. However often a session is touched, it moves at most once per timeout, so a
/// touch costs one lookup and does not allocate.
///
/// Times are ms of any monotonic clock. Invariants: a session that is not closing is in exactly one
/// bucket, at or before its deadline; a closing session is in no bucket.
#[derive(Debug, Clone)]
pub struct SessionTracker {
    role: Role,
    sessions: HashMap<SessionId, Session>,
    buckets: Buckets,
    /// Global sessions that have ended, and therefore cannot be local sessions of other servers.
    ended: EndedSessions,
}

impl SessionTracker {
    /// Creates a tracker without sessions. `tick_ms` is the width of an expiry bucket in ms, at
    /// least 1.
    pub fn new(tick_ms: i64, role: Role) -> Self {
        Self {
            role,
            sessions: HashMap::new(),
            buckets: Buckets::new(tick_ms),
            ended: EndedSessions::default(),
        }
    }

    /// Adds a global session. If the session is known, makes it global and touches it. Returns
    /// whether it was unknown.
    pub fn add(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        self.add_kind(id, SessionScope::Global, timeout_ms, now_ms)
    }

    /// Adds a session that only this server knows. If the session is known, touches it without
    /// changing its kind. Returns whether it was unknown.
    pub fn add_local(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        self.add_kind(id, SessionScope::Local, timeout_ms, now_ms)
    }

    /// Adds a session that a request of `owner` will make global, and that is local to another
    /// server until then. A client that returns with it meanwhile finds it live. A known session
    /// does not change. [`add`](Self::add) ends the upgrade.
    pub fn expect(&mut self, id: SessionId, timeout_ms: i32, owner: Owner, now_ms: i64) {
        if !self.contains(id) {
            self.add_kind(id, SessionScope::Upgrading, timeout_ms, now_ms);
            self.set_owner(id, owner);
        }
    }

    fn add_kind(
        &mut self,
        id: SessionId,
        kind: SessionScope,
        timeout_ms: i32,
        now_ms: i64,
    ) -> bool {
        if let Some(known) = self.sessions.get_mut(&id) {
            if kind == SessionScope::Global {
                known.kind = SessionScope::Global;
            }
            self.touch(id, timeout_ms, now_ms);
            return false;
        }
        let deadline_ms = self.buckets.deadline(timeout_ms, now_ms);
        let session = Session {
            timeout_ms,
            deadline_ms,
            kind,
            is_closing: false,
            owner: None,
            place: Some(self.buckets.insert(id, deadline_ms)),
        };
        self.sessions.insert(id, session);
        true
    }

    /// Touches the session, which then lives for `timeout_ms` from `now_ms` and up to a tick
    /// longer. Returns `false` if the session is unknown or closing. The request that touches it
    /// must then be dropped.
    pub fn touch(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        self.touch_if(id, timeout_ms, now_ms, |_| true)
    }

    /// Touches the session like [`touch`](Self::touch), unless an owner other than `owner` holds
    /// its connection. Returns `false` in that case, too.
    pub fn touch_by(&mut self, id: SessionId, owner: Owner, timeout_ms: i32, now_ms: i64) -> bool {
        self.touch_if(id, timeout_ms, now_ms, |session| {
            session.owner.is_none_or(|current| current == owner)
        })
    }

    fn touch_if(
        &mut self,
        id: SessionId,
        timeout_ms: i32,
        now_ms: i64,
        is_wanted: impl FnOnce(&Session) -> bool,
    ) -> bool {
        let live = self.sessions.get_mut(&id).filter(|s| !s.is_closing);
        let Some(session) = live.filter(|session| is_wanted(session)) else {
            return false;
        };
        session.timeout_ms = timeout_ms;
        session.deadline_ms = self.buckets.deadline(timeout_ms, now_ms);
        // Only a shortened timeout makes the deadline earlier.
        if let Some(place) = session
            .place
            .filter(|p| p.deadline_ms > session.deadline_ms)
        {
            self.add_to_bucket(id, Some(place));
        }
        true
    }

    /// Puts a session into the bucket for its deadline, after removing it from `old`.
    fn add_to_bucket(&mut self, id: SessionId, old: Option<BucketPosition>) {
        if let Some(old) = old {
            self.remove_from_bucket(old);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.place = Some(self.buckets.insert(id, session.deadline_ms));
        }
    }

    fn remove_from_bucket(&mut self, place: BucketPosition) {
        if let Some(moved) = self.buckets.remove(place)
            && let Some(session) = self.sessions.get_mut(&moved)
        {
            session.place = Some(place);
        }
    }

    /// Marks the session as closing: it can no longer be touched, be used, or expire. Returns
    /// `false` if the session is unknown or was already closing.
    pub fn set_closing(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id).filter(|s| !s.is_closing) else {
            return false;
        };
        session.is_closing = true;
        if let Some(place) = session.place.take() {
            self.remove_from_bucket(place);
        }
        true
    }

    /// Removes a session that has ended because its closeSession was applied or because it was
    /// local. Returns its last state.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        if session.kind == SessionScope::Global {
            self.ended.note(id);
        }
        if let Some(place) = session.place {
            self.remove_from_bucket(place);
        }
        Some(session)
    }

    /// Checks whether a request that `owner` forwarded for the session may continue. Returns which
    /// servers know the session, or `None` if it is unknown here and may be local to another
    /// server. A session without an owner is then owned by `owner`.
    ///
    /// Only a global session may own ephemerals.
    ///
    /// # Errors
    /// * `SessionExpired`: it is closing; or it is unknown to a leader, and cannot be a local
    ///   session of another server. An ended global session is never taken for a local one, so its
    ///   late requests are refused. (Apache ZooKeeper executes them.)
    /// * `SessionMoved`: another owner holds its connection.
    /// * `UnknownSession`: it is unknown to a standalone server.
    ///
    /// Source: SessionTrackerImpl, LeaderSessionTracker.checkSession and checkGlobalSession.
    pub fn check(
        &mut self,
        id: SessionId,
        owner: Owner,
    ) -> Result<Option<SessionScope>, ErrorCode> {
        let Some(session) = self.sessions.get_mut(&id) else {
            return match self.role {
                Role::Standalone => Err(ErrorCode::UnknownSession),
                Role::Leader {
                    server_id,
                    local_sessions,
                } => {
                    let made_here = id.0.to_be_bytes()[0] == server_id;
                    let has_ended = self.ended.contains(id);
                    let may_be_elsewhere = local_sessions && !made_here && !has_ended;
                    may_be_elsewhere
                        .then_some(None)
                        .ok_or(ErrorCode::SessionExpired)
                }
            };
        };
        if session.is_closing {
            return Err(ErrorCode::SessionExpired);
        }
        match session.owner.get_or_insert(owner) {
            current if *current == owner => Ok(Some(session.kind)),
            _ => Err(ErrorCode::SessionMoved),
        }
    }

    /// Makes `owner` the holder of the session's connection, after the session was created or
    /// renewed through that owner. Returns `false` if the session is unknown or closing.
    pub fn set_owner(&mut self, id: SessionId, owner: Owner) -> bool {
        match self.sessions.get_mut(&id).filter(|s| !s.is_closing) {
            Some(session) => {
                session.owner = Some(owner);
                true
            }
            None => false,
        }
    }

    /// Makes `owner` the holder of the session's connection if there is none. A local session that
    /// becomes global may have moved after its request was made.
    pub fn claim(&mut self, id: SessionId, owner: Owner) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.owner.get_or_insert(owner);
        }
    }

    /// Begins the upgrade of a local session. Returns the timeout for its createSession, ms.
    ///
    /// Returns `None` for every other session, including a session whose upgrade has begun, because
    /// only the first request that needs the upgrade sends a createSession. [`add`](Self::add) ends
    /// the upgrade. Source: UpgradeableSessionTracker.upgradeSession.
    pub fn upgrade(&mut self, id: SessionId) -> Option<i32> {
        let session = self.sessions.get_mut(&id)?;
        if session.is_closing || session.kind != SessionScope::Local {
            return None;
        }
        session.kind = SessionScope::Upgrading;
        Some(session.timeout_ms)
    }

    /// Marks the due sessions as closing and returns them, ordered by deadline and id. Each needs a
    /// closeSession transaction (or, if local, a `remove`).
    pub fn expire(&mut self, now_ms: i64) -> Vec<SessionId> {
        let mut expired = Vec::new();
        while let Some(due) = self.buckets.pop_due(now_ms) {
            for id in due {
                let Some(session) = self.sessions.get_mut(&id) else {
                    continue;
                };
                session.place = None;
                if session.deadline_ms <= now_ms {
                    session.is_closing = true;
                    expired.push((session.deadline_ms, id));
                } else {
                    self.add_to_bucket(id, None);
                }
            }
        }
        expired.sort_unstable();
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the time of the next call to [`expire`](Self::expire); `None` without live sessions.
    /// No session expires earlier, but because of touches, a call may return nothing.
    pub fn next_deadline(&self) -> Option<i64> {
        self.buckets.first_deadline()
    }

    /// Returns the state of a session.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// Returns the holder of the session's connection.
    pub fn owner(&self, id: SessionId) -> Option<Owner> {
        self.get(id)?.owner
    }

    /// Returns the session's timeout, ms.
    pub fn timeout(&self, id: SessionId) -> Option<i32> {
        self.get(id).map(|session| session.timeout_ms)
    }

    /// Returns whether the session is known and its end is decided.
    pub fn is_closing(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(|session| session.is_closing)
    }

    /// Returns whether the session is known, closing or not.
    pub fn contains(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Returns the number of known sessions, including closing ones.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether the tracker contains no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns every session, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Returns the live sessions, grouped by the time of their expiry in ms, with sorted ids, for
    /// the output of `dump`: the local sessions if `local` is set, otherwise the others. Visits
    /// every session.
    pub fn by_deadline(&self, local: bool) -> BTreeMap<i64, Vec<SessionId>> {
        let mut sets = BTreeMap::<i64, Vec<SessionId>>::new();
        for (id, session) in self.iter().filter(|(_, session)| !session.is_closing) {
            if (session.kind == SessionScope::Local) == local {
                sets.entry(session.deadline_ms).or_default().push(id);
            }
        }
        for ids in sets.values_mut() {
            ids.sort_unstable();
        }
        sets
    }
}

#[cfg(test)]
mod tests;
