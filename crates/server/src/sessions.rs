//! The sessions that this server has a part in, whatever its role.
//!
//! One server decides when a session is over: the one that stands alone, or the leader. The others
//! note which sessions they have heard from, and tell the leader whenever it pings.
//!
//! Source: client-protocol.md 11, ensemble-protocol.md 15.3 (SessionTrackerImpl,
//! LeaderSessionTracker, LearnerSessionTracker).

use std::collections::{BTreeMap, HashMap};

use proto::learner::Touch;
use proto::{ErrorCode, SessionId};
use session::{Owner, SessionTracker};

/// Sessions, as far as this server's role concerns itself with them.
pub(crate) enum Sessions {
    /// This server decides: it expires them.
    Deciding(SessionTracker),
    /// Another one does: those heard from since its last PING, each with its timeout in ms.
    Reporting(HashMap<SessionId, i32>),
}

impl Sessions {
    /// Those of a learner, none heard from.
    pub(crate) fn reporting() -> Self {
        Self::Reporting(HashMap::new())
    }

    /// Begins a session, or touches one that is known.
    pub(crate) fn add(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) {
        match self {
            Self::Deciding(tracker) => {
                tracker.add(id, timeout_ms, now_ms);
            }
            Self::Reporting(touched) => {
                touched.insert(id, timeout_ms);
            }
        }
    }

    /// The session was heard from. `false` if it is known to be over.
    pub(crate) fn touch(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.touch(id, timeout_ms, now_ms),
            Self::Reporting(touched) => {
                touched.insert(id, timeout_ms);
                true
            }
        }
    }

    /// Whether `owner` may use the session; a learner leaves that to its leader.
    pub(crate) fn check(&mut self, id: SessionId, owner: Owner) -> Result<(), ErrorCode> {
        match self {
            Self::Deciding(tracker) => tracker.check(id, owner),
            Self::Reporting(_) => Ok(()),
        }
    }

    /// The session's connection is held by `owner` now. `false` if it is over.
    pub(crate) fn set_owner(&mut self, id: SessionId, owner: Owner) -> bool {
        match self {
            Self::Deciding(tracker) => tracker.set_owner(id, owner),
            Self::Reporting(_) => true,
        }
    }

    /// The session's end is decided.
    pub(crate) fn set_closing(&mut self, id: SessionId) {
        if let Self::Deciding(tracker) = self {
            tracker.set_closing(id);
        }
    }

    /// The session is over.
    pub(crate) fn remove(&mut self, id: SessionId) {
        match self {
            Self::Deciding(tracker) => {
                tracker.remove(id);
            }
            Self::Reporting(touched) => {
                touched.remove(&id);
            }
        }
    }

    /// Sessions whose time is up, marked closing; none where another server decides.
    pub(crate) fn expire(&mut self, now_ms: i64) -> Vec<SessionId> {
        match self {
            Self::Deciding(tracker) => tracker.expire(now_ms),
            Self::Reporting(_) => Vec::new(),
        }
    }

    /// When `expire` may have something next.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        match self {
            Self::Deciding(tracker) => tracker.next_deadline(),
            Self::Reporting(_) => None,
        }
    }

    /// Live sessions by the time they expire; nothing where another server decides.
    pub(crate) fn by_deadline(&self) -> BTreeMap<i64, Vec<SessionId>> {
        match self {
            Self::Deciding(tracker) => tracker.by_deadline(),
            Self::Reporting(_) => BTreeMap::new(),
        }
    }

    /// Takes those heard from since the last call, for the answer to a PING.
    pub(crate) fn take_touched(&mut self) -> Vec<Touch> {
        let Self::Reporting(touched) = self else {
            return Vec::new();
        };
        touched
            .drain()
            .map(|(session, timeout_ms)| Touch {
                session,
                timeout_ms,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_reports_each_session_once() {
        let mut sessions = Sessions::reporting();
        assert!(sessions.touch(SessionId(1), 4000, 10));
        assert!(sessions.touch(SessionId(1), 4000, 20));
        sessions.add(SessionId(2), 6000, 20);
        sessions.remove(SessionId(2));
        let touch = Touch {
            session: SessionId(1),
            timeout_ms: 4000,
        };
        assert_eq!(sessions.take_touched(), [touch]);
        assert_eq!(sessions.take_touched(), []);
        assert_eq!(sessions.expire(i64::MAX), []);
    }
}
