//! What the host is to do.

use std::fmt;

use bytes::Bytes;
use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Sid};

use crate::vote::state_name;
use crate::{Ballot, MemberList, Vote};

/// An order of [`crate::Election`], to be carried out in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this. To the server itself: hand it back at once, behind what it already has to read.
    /// Only the newest message to a server matters; an older unsent one may be thrown away.
    Send {
        /// To whom. May be a server that is no voter, or that has no connection yet.
        to: Sid,
        /// What.
        notification: Notification,
    },
    /// The election is over. From now on those who look are answered with this vote.
    Elected {
        /// The role: leading, following or observing.
        state: PeerState,
        /// For whom; the zxid and epoch are those the leader was elected with.
        vote: Vote,
        /// In which round.
        round: ElectionRound,
    },
    /// A server has committed a newer member list than this one, and this one looks. The message
    /// went no further. Install the list; if it differs in more than the version, reset the
    /// election ([`crate::Election::reset`]) and start again, otherwise only tell of it
    /// ([`crate::Election::set_electorate`]) and hand the message in once more.
    ConfigSeen {
        /// Who.
        from: Sid,
        /// Its version.
        version: ConfigVersion,
        /// Its text.
        config: Bytes,
    },
    /// A server whose vote made this one the leader looks again; a leader that still waits for
    /// its epoch may give up early (`leader.maxTimeToWaitForEpoch`, ZOOKEEPER-3109).
    SupporterLooks {
        /// Who.
        sid: Sid,
    },
    /// A quorum agrees, but a live leader with another member list answers: two leaders would
    /// serve side by side. Said once for each such leader and list; the server looks on.
    Refused {
        /// Who would lead by our list.
        candidate: Sid,
        /// Who leads already.
        leader: Sid,
        /// Who says so: the leader itself, or a follower of a leader outside our list.
        witness: Sid,
        /// The list it leads by.
        theirs: MemberList,
        /// Our list.
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
            Self::SupporterLooks { sid } => write!(f, "supporter looks: {sid}"),
            Self::Refused {
                candidate,
                leader,
                witness,
                theirs,
                ours,
            } => write!(
                f,
                "refused: {candidate} by list {ours}, since {leader} leads by list {theirs} as {witness} says"
            ),
        }
    }
}
