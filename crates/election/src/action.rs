//! Actions that an election requests from its host.

use std::fmt;

use bytes::Bytes;
use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Sid};

use crate::vote::state_name;
use crate::{Ballot, MemberList, Vote};

/// Action of [`crate::Election`] that the host must execute, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a notification. If the receiver is this server, pass it to the election immediately,
    /// after the notifications that already wait. Only the newest notification to a server matters,
    /// so an older unsent one may be dropped.
    Send {
        /// Receiver of the notification. The server need not be a voter, and need not be connected.
        to: Sid,
        /// Notification to send.
        notification: Notification,
    },
    /// The election is over. From now on, this vote is the answer to servers that look for a
    /// leader.
    Elected {
        /// Role of this server: leading, following or observing.
        state: PeerState,
        /// Elected leader, with the zxid and epoch of its vote.
        vote: Vote,
        /// Election round.
        round: ElectionRound,
    },
    /// A server has committed a newer member list than this server, which is looking for a leader.
    /// The notification was not handled further. Install the list. If more than the version
    /// differs, reset the election ([`crate::Election::reset`]) and start again. Otherwise only set
    /// the list ([`crate::Election::set_electorate`]) and pass the notification again.
    ConfigSeen {
        /// Server that sent the list.
        from: Sid,
        /// Version of its list.
        version: ConfigVersion,
        /// Text of its list.
        config: Bytes,
    },
    /// A server that voted for this leader is looking for a leader again. A leader without an
    /// established epoch may then step down early (`leader.maxTimeToWaitForEpoch`, ZOOKEEPER-3109).
    SupporterLooks {
        /// Server that looks for a leader.
        sid: Sid,
    },
    /// A quorum agrees, but a live leader with a different member list has answered, so there would
    /// be two leaders. A refusal is not reported again while the same leader and list are its
    /// reason. The server continues to look for a leader.
    Refused {
        /// Server that would lead according to this server's list.
        candidate: Sid,
        /// The current leader.
        leader: Sid,
        /// Server that reported the current leader: the leader itself, or a follower of a leader
        /// outside this server's list.
        witness: Sid,
        /// Member list in the notification of the witness.
        theirs: MemberList,
        /// List of this server.
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
