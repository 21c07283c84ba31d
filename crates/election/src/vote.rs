//! Votes and their order.

use std::fmt;

use proto::notification::{Notification, PeerState};
use proto::{ElectionRound, Epoch, Sid, Zxid};

/// A candidate and the state of its log. Printed as `(peer epoch, zxid, sid)`, which is the order
/// in which votes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    /// Sid of the candidate.
    pub leader: Sid,
    /// Last zxid in the candidate's log, committed or not.
    pub zxid: Zxid,
    /// Current epoch of the candidate.
    pub peer_epoch: Epoch,
}

impl Vote {
    /// Vote of a server that must not lead, until it knows a candidate.
    pub const NOBODY: Self = Self {
        leader: Sid(i64::MIN),
        zxid: Zxid(i64::MIN),
        peer_epoch: Epoch(i64::MIN),
    };

    /// Zxid of a server whose data is not trusted. Such a vote does not count.
    pub const UNTRUSTED: Zxid = Zxid(-1);

    /// Returns whether this vote is better than `other`. The newer epoch wins, then the higher
    /// zxid, then the higher sid, all as signed numbers. The electorate handles weights.
    pub fn is_better_than(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }

    fn rank(&self) -> (Epoch, Zxid, Sid) {
        (self.peer_epoch, self.zxid, self.leader)
    }

    /// Returns whether this vote does not name a candidate.
    pub(crate) fn is_for_nobody(self) -> bool {
        self.leader == Self::NOBODY.leader
    }

    /// Returns the vote in a notification.
    pub(crate) fn of(notification: &Notification) -> Self {
        Self {
            leader: notification.leader,
            zxid: notification.zxid,
            peer_epoch: notification.peer_epoch,
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NOBODY {
            return f.write_str("(nobody)");
        }
        write!(f, "({}, ", self.peer_epoch)?;
        match self.zxid {
            Self::UNTRUSTED => f.write_str("untrusted, ")?,
            zxid => write!(f, "{zxid}, ")?,
        }
        match self.leader {
            Sid(i64::MIN) => f.write_str("nobody)"),
            leader => write!(f, "{leader})"),
        }
    }
}

/// A server's vote, with the server's round and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ballot {
    /// Vote of the server.
    pub vote: Vote,
    /// Round of the server.
    pub round: ElectionRound,
    /// State of the server.
    pub state: PeerState,
    /// Version of the message format; 0 for the oldest formats and for ballots of the receiver's
    /// own round.
    pub(crate) version: i32,
}

impl Ballot {
    pub(crate) fn looking(vote: Vote, round: ElectionRound) -> Self {
        Self {
            vote,
            round,
            state: PeerState::Looking,
            version: 0,
        }
    }

    pub(crate) fn of(notification: &Notification) -> Self {
        Self {
            vote: Vote::of(notification),
            round: notification.round,
            state: notification.state,
            version: notification.version(),
        }
    }

    /// Returns whether two ballots agree. If one of the servers looks for a leader, vote and round
    /// must be equal. Servers of a settled ensemble have different rounds and zxids, so only the
    /// leader and its epoch are compared. If only one of the ballots has version 0, only the leader
    /// is compared.
    ///
    /// Source: Vote.equals, ZOOKEEPER-1732, 1805.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        if self.state == PeerState::Looking || other.state == PeerState::Looking {
            return self.vote == other.vote && self.round == other.round;
        }
        let same_form = (self.version > 0) == (other.version > 0);
        self.vote.leader == other.vote.leader
            && (!same_form || self.vote.peer_epoch == other.vote.peer_epoch)
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = state_name(self.state);
        write!(f, "{state} {} round {}", self.vote, self.round)
    }
}

/// Returns ZooKeeper's name for a state.
pub(crate) fn state_name(state: PeerState) -> &'static str {
    match state {
        PeerState::Looking => "LOOKING",
        PeerState::Following => "FOLLOWING",
        PeerState::Leading => "LEADING",
        PeerState::Observing => "OBSERVING",
        PeerState::Unknown(_) => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(epoch: i64, zxid: i64, leader: i64) -> Vote {
        Vote {
            leader: Sid(leader),
            zxid: Zxid(zxid),
            peer_epoch: Epoch(epoch),
        }
    }

    fn settled(vote: Vote, round: i64, version: i32) -> Ballot {
        Ballot {
            vote,
            round: ElectionRound(round),
            state: PeerState::Following,
            version,
        }
    }

    #[test]
    fn epoch_counts_before_zxid_before_sid_with_sign() {
        let rising = [
            Vote::NOBODY,
            vote(-1, 9, 9),
            vote(0, -5, 9),
            vote(0, 3, -2),
            vote(0, 3, 1),
            vote(0, 4, 0),
            vote(1, 0, 0),
        ];
        for pair in rising.windows(2) {
            assert!(pair[1].is_better_than(&pair[0]), "{} {}", pair[0], pair[1]);
            assert!(!pair[0].is_better_than(&pair[1]));
            assert!(!pair[0].is_better_than(&pair[0]));
        }
    }

    #[test]
    fn looking_servers_agree_on_every_field() {
        let round = ElectionRound(2);
        let ballot = Ballot::looking(vote(1, 2, 3), round);
        assert!(ballot.agrees_with(&ballot));
        assert!(!ballot.agrees_with(&Ballot::looking(vote(1, 1, 3), round)));
        assert!(!ballot.agrees_with(&Ballot::looking(vote(1, 2, 3), ElectionRound(1))));
        assert!(!ballot.agrees_with(&settled(vote(1, 2, 3), 1, 2)));
        assert!(ballot.agrees_with(&settled(vote(1, 2, 3), 2, 2)));
    }

    #[test]
    fn zk1732_settled_servers_agree_on_leader_and_epoch() {
        let ballot = settled(vote(1, 2, 3), 4, 2);
        assert!(ballot.agrees_with(&settled(vote(1, 9, 3), 7, 2)));
        assert!(!ballot.agrees_with(&settled(vote(2, 2, 3), 4, 2)));
        assert!(!ballot.agrees_with(&settled(vote(1, 2, 1), 4, 2)));
        // The epoch is ignored if only one of the ballots has version 0.
        assert!(ballot.agrees_with(&settled(vote(0, 2, 3), 4, 0)));
        assert!(!settled(vote(1, 2, 3), 4, 0).agrees_with(&settled(vote(0, 2, 3), 4, 0)));
    }
}
