//! The sessions that this server knows, in any role.
//!
//! One server decides when a global session is over: the standalone server, or the leader. The
//! others record the active sessions, and report them to the leader when it pings. Only the server
//! that created a local session knows it and decides about it.
//!
//! Source: SessionTrackerImpl, LeaderSessionTracker, LearnerSessionTracker, LocalSessionTracker.

use std::collections::{BTreeMap, HashMap};

use proto::learner::Touch;
use proto::{ErrorCode, SessionId};
use tree::SessionKind;

use crate::session::{Owner, Role, SessionScope, SessionTracker};

/// Sessions that this server knows, in the form that its role needs.
#[derive(Debug)]
pub enum Sessions {
    /// This server decides about all sessions that it knows.
    Deciding(SessionTracker),
    /// This server decides about local sessions only.
    LearnerSessions(LearnerSessions),
}

/// Sessions of a learner or of a server that only serves reads.
#[derive(Debug)]
pub struct LearnerSessions {
    /// Global sessions that were active since the leader's last PING, each with its timeout in ms.
    touched: HashMap<SessionId, i32>,
    local: SessionTracker,
}

/// Sessions that have expired.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Global sessions, marked as closing. A transaction must end them.
    pub global: Vec<SessionId>,
    /// Local sessions that have already ended.
    pub local: Vec<SessionId>,
}

impl Sessions {
    /// Creates an empty table for the sessions of a learner.
    pub fn reporting(tick_ms: i64) -> Self {
        Self::LearnerSessions(LearnerSessions {
            touched: HashMap::new(),
            // This tracker contains only local sessions, which no other server knows.
            local: SessionTracker::new(tick_ms, Role::Standalone),
        })
    }

    /// Returns the tracker that decides about local sessions.
    fn tracker(&self) -> &SessionTracker {
        match self {
            Self::Deciding(tracker) => tracker,
            Self::LearnerSessions(known) => &known.local,
        }
    }

    fn tracker_mut(&mut self) -> &mut SessionTracker {
        match self {
            Self::Deciding(tracker) => tracker,
            Self::LearnerSessions(known) => &mut known.local,
        }
    }

    /// Adds a global session, makes a local one global, or touches a known one.
    pub fn add(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        match self {
            Self::Deciding(tracker) => {
                tracker.add(id, timeout_ms, now_ms);
            }
            Self::LearnerSessions(known) => {
                known.local.remove(id);
                known.touched.insert(id, timeout_ms);
            }
        }
    }

    /// Adds a global session whose transaction was applied, if this server decides about the
    /// session and does not know it. The session may have expired before its transaction was
    /// ordered. It exists now, so it must be able to expire again.
    pub fn add_created(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        if let Self::Deciding(tracker) = self
            && !tracker.contains(id)
        {
            tracker.add(id, timeout_ms, now_ms);
        }
    }

    /// Adds a session that other servers do not know.
    pub fn add_local(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        let tracker = self.tracker_mut();
        tracker.add_local(id, timeout_ms, now_ms);
        tracker.set_owner(id, Owner::THIS_SERVER);
    }

    /// Records that a session was active. Returns `false` if the session is known to be over.
    pub fn touch(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.touch(id, timeout_ms, now_ms),
            Self::LearnerSessions(known) => {
                if !known.local.touch(id, timeout_ms, now_ms) {
                    known.touched.insert(id, timeout_ms);
                }
                true
            }
        }
    }

    /// Records activity on a connection of this server that serves the session. Returns `false` if
    /// the session is known to be over or has moved to another server. In both cases the connection
    /// must end, because its pings would keep a session live that its client has left.
    ///
    /// Source: PrepRequestProcessor, which checks the owner for each request, and
    /// FinalRequestProcessor, which ends the connection after a SessionMovedException.
    pub fn touch_here(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.touch_by(id, Owner::THIS_SERVER, timeout_ms, now_ms),
            Self::LearnerSessions(_) => self.touch(id, timeout_ms, now_ms),
        }
    }

    /// Moves the session to another connection of this server. Returns `false` if the session is
    /// over or if only another server can know it.
    pub fn renew(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        let tracker = self.tracker_mut();
        tracker.touch(id, timeout_ms, now_ms) && tracker.set_owner(id, Owner::THIS_SERVER)
    }

    /// Returns whether the session is local to this server and is not becoming global.
    pub fn is_local(&self, id: SessionId) -> bool {
        let session = self.tracker().get(id);
        session.is_some_and(|session| session.kind == SessionScope::Local)
    }

    /// Begins the upgrade of a local session to a global one. Returns the timeout for its
    /// createSession in ms; `None` for every other session.
    pub fn upgrade(&mut self, id: SessionId) -> Option<i32> {
        let timeout_ms = self.tracker_mut().upgrade(id)?;
        if let Self::LearnerSessions(known) = self {
            // From the createSession on, the leader decides about the session. Its activity is
            // reported from now on.
            known.local.remove(id);
            known.touched.insert(id, timeout_ms);
        }
        Some(timeout_ms)
    }

    /// Checks whether `owner` may write for the session. Returns the kind of session. A learner
    /// delegates this check to its leader.
    ///
    /// # Errors
    /// If the session is closing or unknown, or if another owner holds its connection.
    pub fn check(&mut self, id: SessionId, owner: Owner) -> Result<SessionKind, ErrorCode> {
        let Self::Deciding(tracker) = self else {
            return Ok(SessionKind::Global);
        };
        Ok(match tracker.check(id, owner)? {
            // The createSession precedes the request that is checked now.
            Some(SessionScope::Global | SessionScope::Upgrading) => SessionKind::Global,
            Some(SessionScope::Local) => SessionKind::Local,
            None => SessionKind::Elsewhere,
        })
    }

    /// Makes `owner` the holder of the session's connection. Returns `false` if the session is
    /// over.
    pub fn set_owner(&mut self, id: SessionId, owner: Owner) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.set_owner(id, owner),
            Self::LearnerSessions(_) => true,
        }
    }

    /// Registers a session whose upgrade to a global one waits for other requests. Its client may
    /// come back on another connection meanwhile, also to another server.
    pub fn expect(&mut self, id: SessionId, timeout_ms: i32, owner: Owner, now_ms: i64) {
        if let Self::Deciding(tracker) = self {
            tracker.expect(id, timeout_ms, owner, now_ms);
        }
    }

    /// Makes `owner` the holder of the session's connection after its upgrade request, unless the
    /// session has moved meanwhile.
    pub fn claim(&mut self, id: SessionId, owner: Owner) {
        match self {
            Self::Deciding(tracker) => tracker.claim(id, owner),
            Self::LearnerSessions(_) => {}
        }
    }

    /// Moves the session to a learner's client: touches it and makes `owner` its holder. Returns
    /// `false` if the session is over, or if it is local and therefore useless to another server.
    pub fn move_to(&mut self, touch: Touch, owner: Owner, now_ms: i64) -> bool {
        let id = touch.session;
        !self.is_local(id) && self.touch(id, touch.timeout_ms, now_ms) && self.set_owner(id, owner)
    }

    /// Records that the end of the session is decided.
    pub fn set_closing(&mut self, id: SessionId) {
        if let Self::Deciding(tracker) = self {
            tracker.set_closing(id);
        }
    }

    /// Removes an ended session.
    pub fn remove(&mut self, id: SessionId) {
        self.tracker_mut().remove(id);
        if let Self::LearnerSessions(known) = self {
            known.touched.remove(&id);
        }
    }

    /// Returns the expired sessions about which this server decides. Removes the local ones, and
    /// marks the global ones as closing.
    pub fn expire(&mut self, now_ms: i64) -> Expired {
        let tracker = self.tracker_mut();
        let mut expired = Expired::default();
        for id in tracker.expire(now_ms) {
            if tracker
                .get(id)
                .is_some_and(|session| session.kind == SessionScope::Local)
            {
                tracker.remove(id);
                expired.local.push(id);
            } else {
                expired.global.push(id);
            }
        }
        expired
    }

    /// Returns the time of the next possible expiry, ms.
    pub fn next_deadline(&self) -> Option<i64> {
        self.tracker().next_deadline()
    }

    /// Returns the live sessions about which this server decides, grouped by the time of their
    /// expiry in ms: the local sessions if `local` is set, otherwise the others.
    pub fn by_deadline(&self, local: bool) -> BTreeMap<i64, Vec<SessionId>> {
        self.tracker().by_deadline(local)
    }

    /// Returns the number of local sessions. Visits every session.
    pub fn local_count(&self) -> usize {
        let sessions = self.tracker().iter();
        sessions
            .filter(|(_, session)| session.kind == SessionScope::Local)
            .count()
    }

    /// Removes and returns the global sessions that were active since the last call, for the answer
    /// to a PING.
    pub fn take_touched(&mut self) -> Vec<Touch> {
        let Self::LearnerSessions(known) = self else {
            return Vec::new();
        };
        let mut touched: Vec<Touch> = known
            .touched
            .drain()
            .map(|(session, timeout_ms)| Touch {
                session,
                timeout_ms,
            })
            .collect();
        // The hash map's order differs between two runs, but a simulated run must be repeatable.
        touched.sort_unstable_by_key(|touch| touch.session);
        touched
    }
}

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
