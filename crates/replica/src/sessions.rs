//! The sessions that this server has a part in, whatever its role.
//!
//! One server decides when a global session is over: the one that stands alone, or the leader. The
//! others note which sessions they have heard from, and tell the leader whenever it pings. A local
//! session is known to the server it was made at, and nobody else decides about it.
//!
//! Source: SessionTrackerImpl, LeaderSessionTracker, LearnerSessionTracker, LocalSessionTracker.

use std::collections::{BTreeMap, HashMap};

use proto::learner::Touch;
use proto::mutant::{self, Mutant};
use proto::{ErrorCode, SessionId};
use session::{Kind, Owner, Role, SessionTracker};
use tree::SessionKind;

/// Sessions, as far as this server's role concerns itself with them.
#[derive(Debug)]
pub enum Sessions {
    /// This server decides about all that it knows.
    Deciding(SessionTracker),
    /// It decides about local ones only.
    Reporting(Reporting),
}

/// What a learner, or a server that serves reads only, knows of sessions.
#[derive(Debug)]
pub struct Reporting {
    /// Global sessions heard from since the leader's last PING, each with its timeout in ms.
    touched: HashMap<SessionId, i32>,
    local: SessionTracker,
}

/// Sessions whose time is up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Marked closing: a transaction ends them.
    pub global: Vec<SessionId>,
    /// Over.
    pub local: Vec<SessionId>,
}

impl Sessions {
    /// Those of a learner, none heard from.
    pub fn reporting(tick_ms: i64) -> Self {
        Self::Reporting(Reporting {
            touched: HashMap::new(),
            // Asked about its own sessions only, for which it is the one server there is.
            local: SessionTracker::new(tick_ms, Role::Standalone),
        })
    }

    /// Whoever decides about the session if it is local.
    fn tracker(&self) -> &SessionTracker {
        match self {
            Self::Deciding(tracker) => tracker,
            Self::Reporting(known) => &known.local,
        }
    }

    fn tracker_mut(&mut self) -> &mut SessionTracker {
        match self {
            Self::Deciding(tracker) => tracker,
            Self::Reporting(known) => &mut known.local,
        }
    }

    /// Begins a global session, or makes a local one global, or touches one that is known.
    pub fn add(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        match self {
            Self::Deciding(tracker) => {
                tracker.add(id, timeout_ms, now_ms);
            }
            Self::Reporting(known) => {
                known.local.remove(id);
                known.touched.insert(id, timeout_ms);
            }
        }
    }

    /// Begins a session that no other server will hear of.
    pub fn add_local(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        let tracker = self.tracker_mut();
        tracker.add_local(id, timeout_ms, now_ms);
        tracker.set_owner(id, Owner::THIS_SERVER);
    }

    /// The session was heard from. `false` if it is known to be over.
    pub fn touch(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.touch(id, timeout_ms, now_ms),
            Self::Reporting(known) => {
                if !known.local.touch(id, timeout_ms, now_ms) {
                    known.touched.insert(id, timeout_ms);
                }
                true
            }
        }
    }

    /// A connection of this server that serves the session was heard from. `false` if the session is
    /// known to be over or has moved to another server. The connection must end in both cases, since
    /// its pings would keep a session alive whose client has left it.
    ///
    /// Source: PrepRequestProcessor, which checks the owner for each request, and FinalRequestProcessor,
    /// which ends the connection after a SessionMovedException.
    pub fn touch_here(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.touch_by(id, Owner::THIS_SERVER, timeout_ms, now_ms),
            Self::Reporting(_) => self.touch(id, timeout_ms, now_ms),
        }
    }

    /// The session comes back on another connection to this server. `false` if it is over, or
    /// another server would have to know.
    pub fn renew(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        let tracker = self.tracker_mut();
        tracker.touch(id, timeout_ms, now_ms) && tracker.set_owner(id, Owner::THIS_SERVER)
    }

    /// Whether the session is local: to this server, and not on its way to become global.
    pub fn is_local(&self, id: SessionId) -> bool {
        let session = self.tracker().get(id);
        session.is_some_and(|session| session.kind == Kind::Local)
    }

    /// Begins to make a local session global: the timeout that its createSession must carry.
    /// `None` for every other session.
    pub fn upgrade(&mut self, id: SessionId) -> Option<i32> {
        let timeout_ms = self.tracker_mut().upgrade(id)?;
        if let Self::Reporting(known) = self {
            // From the createSession on it is the leader's, which hears of it meanwhile.
            known.local.remove(id);
            known.touched.insert(id, timeout_ms);
        }
        Some(timeout_ms)
    }

    /// Whether `owner` may write for the session, and what kind it is; a learner leaves that to
    /// its leader.
    pub fn check(&mut self, id: SessionId, owner: Owner) -> Result<SessionKind, ErrorCode> {
        let Self::Deciding(tracker) = self else {
            return Ok(SessionKind::Global);
        };
        if mutant::is(Mutant::OwnerIgnored) {
            tracker.set_owner(id, owner);
        }
        Ok(match tracker.check(id, owner)? {
            // The createSession is in front of whatever is checked now.
            Some(Kind::Global | Kind::Upgrading) => SessionKind::Global,
            Some(Kind::Local) => SessionKind::Local,
            None => SessionKind::Elsewhere,
        })
    }

    /// The session's connection is held by `owner` now. `false` if it is over.
    pub fn set_owner(&mut self, id: SessionId, owner: Owner) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.set_owner(id, owner),
            Self::Reporting(_) => true,
        }
    }

    /// A request that makes the session global waits for others, so that it is known before it is there:
    /// its client may come back on another connection meanwhile, also to another server.
    pub fn expect(&mut self, id: SessionId, timeout_ms: i32, owner: Owner, now_ms: i64) {
        if let Self::Deciding(tracker) = self
            && !mutant::is(Mutant::WaitingUpgradeUnknown)
        {
            tracker.expect(id, timeout_ms, owner, now_ms);
        }
    }

    /// The session becomes global by a request of `owner`, who holds its connection unless it has moved
    /// meanwhile.
    pub fn claim(&mut self, id: SessionId, owner: Owner) {
        match self {
            Self::Deciding(tracker) if mutant::is(Mutant::UpgradeTakesBack) => {
                tracker.set_owner(id, owner);
            }
            Self::Deciding(tracker) => tracker.claim(id, owner),
            Self::Reporting(_) => {}
        }
    }

    /// A learner's client came with the session: touches it and gives it to `owner`. `false` if it
    /// is over, or local and so no use to another server.
    pub fn move_to(&mut self, touch: Touch, owner: Owner, now_ms: i64) -> bool {
        let id = touch.session;
        let is_refused = mutant::is(Mutant::RenewalsRefused);
        !is_refused
            && !self.is_local(id)
            && self.touch(id, touch.timeout_ms, now_ms)
            && self.set_owner(id, owner)
    }

    /// The session's end is decided.
    pub fn set_closing(&mut self, id: SessionId) {
        if let Self::Deciding(tracker) = self {
            tracker.set_closing(id);
        }
    }

    /// The session is over.
    pub fn remove(&mut self, id: SessionId) {
        self.tracker_mut().remove(id);
        if let Self::Reporting(known) = self {
            known.touched.remove(&id);
        }
    }

    /// Takes the sessions whose time is up; of those about which another server decides, none.
    pub fn expire(&mut self, now_ms: i64) -> Expired {
        let tracker = self.tracker_mut();
        let mut expired = Expired::default();
        for id in tracker.expire(now_ms) {
            if tracker
                .get(id)
                .is_some_and(|session| session.kind == Kind::Local)
            {
                tracker.remove(id);
                expired.local.push(id);
            } else {
                expired.global.push(id);
            }
        }
        expired
    }

    /// When `expire` may have something next.
    pub fn next_deadline(&self) -> Option<i64> {
        self.tracker().next_deadline()
    }

    /// Live local sessions, or the global ones that this server decides about, by the time they
    /// expire.
    pub fn by_deadline(&self, local: bool) -> BTreeMap<i64, Vec<SessionId>> {
        self.tracker().by_deadline(local)
    }

    /// How many local sessions there are. Visits every session.
    pub fn local_count(&self) -> usize {
        let sessions = self.tracker().iter();
        sessions
            .filter(|(_, session)| session.kind == Kind::Local)
            .count()
    }

    /// Takes the global sessions heard from since the last call, for the answer to a PING.
    pub fn take_touched(&mut self) -> Vec<Touch> {
        let Self::Reporting(known) = self else {
            return Vec::new();
        };
        known
            .touched
            .drain()
            .map(|(session, timeout_ms)| Touch {
                session,
                timeout_ms,
            })
            .collect()
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "sessions_recorded_tests.rs"]
mod recorded;
