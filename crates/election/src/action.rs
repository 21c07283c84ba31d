//! Actions of an election for its host.

use std::fmt;

use bytes::Bytes;
use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Sid};

use crate::vote::state_name;
use crate::{Ballot, MemberList, Vote};

/// An action of [`crate::Election`] that the host must execute, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a notification. If the receiver is this server, pass it to the election immediately,
    /// after the notifications that wait already. Only the newest notification to a server matters,
    /// so an older unsent one may be dropped.
    Send {
        /// The receiver. It may be a server without a vote or without a connection.
        to: Sid,
        /// The notification.
        notification: Notification,
    },
    /// The election is over. From now on, this vote is the answer to servers that look.
    Elected {
        /// The role: leading, following or observing.
        state: PeerState,
        /// The elected leader, with the zxid and epoch of its vote.
        vote: Vote,
        /// The round.
        round: ElectionRound,
    },
    /// A server has committed a newer member list than this one, which is looking for a leader. The
    /// notification was not handled further. Install the list. If more than the version differs,
    /// reset the election ([`crate::Election::reset`]) and start again. Otherwise only pass the
    /// list ([`crate::Election::set_electorate`]) and pass the notification again.
    ConfigSeen {
        /// The other server.
        from: Sid,
        /// Version of its list.
        version: ConfigVersion,
        /// Text of its list.
        config: Bytes,
    },
    /// A server that voted for this leader is looking for a leader again. A leader without an
    /// established epoch may then step down early (`leader.maxTimeToWaitForEpoch`, ZOOKEEPER-3109).
    SupporterLooks {
        /// The server.
        sid: Sid,
    },
    /// A quorum agrees, but a live leader with a different member list has answered, so there would
    /// be two leaders. Reported once for each such leader and list. The server continues to look.
    Refused {
        /// The server that would lead by this server's list.
        candidate: Sid,
        /// The current leader.
        leader: Sid,
        /// The server that reported the current leader: the leader itself, or a follower of a
        /// leader outside this server's list.
        witness: Sid,
        /// The current leader's list.
        theirs: MemberList,
        /// This server's list.
        ours: MemberList,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, notification } => {
                write!(f, "send {to}: {}", Ballot::of(notification))
            }
            Self::Elected { state, vote, round } => {
                let (state, leader) = (state_name(*state), vote.leader);
                write!(f, "elected: {state} {leader} {vote} round {round}")
            }
            Self::ConfigSeen { from, version, .. } => {
                write!(f, "config seen: version {version} from {from}")
            }
            Self::SupporterLooks { sid } => write!(f, "supporter searches: {sid}"),
            Self::Refused {
                candidate,
                leader,
                witness,
                theirs,
                ours,
            } => write!(
                f,
                "refused: {candidate} with list {ours}, since {witness} reports {leader} leading with list {theirs}"
            ),
        }
    }
}
