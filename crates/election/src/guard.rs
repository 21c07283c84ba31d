//! The membership guard: no second leader because two servers hold different member lists.
//!
//! Nothing in ZooKeeper compares the lists of files. Servers 1 and 3 of three can elect 3 while
//! 2, 4 and 5, started with a list of five, elect 5: both quorums are right by their own list, and
//! both leaders take writes. Yet the servers that would make the second
//! leader have been told of the first: it answers them, and its list is in the answer. The guard
//! remembers those answers. Before a server acts on a quorum of lookers it asks the witnesses
//! again, and goes on only if none answers. Whoever has not agreed is asked as soon as a quorum has:
//! it may have become a leader since it was last told of our vote.
//!
//! A leader's own answer counts. That of a follower counts only if its leader is outside our list,
//! because then nobody asks the leader itself. Lists of reconfigurations are ordered by version:
//! a leader with an older one cannot commit any more, and does not keep the newer from electing.
//!
//! Growth in the right order is not touched: new servers follow the leader that answers them by a
//! quorum of *their* list, and when the leader stops at last, nobody answers in its name.

use std::collections::BTreeMap;

use proto::Sid;
use proto::notification::{Notification, PeerState};

use crate::limits::{ANSWER_INTERVAL_MS, WITNESSES_MAX};
use crate::{Electorate, MemberList};

/// What is known of leaders with other member lists.
#[derive(Debug, Default)]
pub(crate) struct OtherLeaders {
    by_witness: BTreeMap<Sid, OtherLeader>,
    /// What was refused for last, so that it is said once.
    reported: Option<(Sid, MemberList)>,
}

/// A leader with another member list.
#[derive(Debug, Clone)]
pub(crate) struct OtherLeader {
    pub(crate) leader: Sid,
    pub(crate) theirs: MemberList,
    heard_at_ms: i64,
}

impl OtherLeaders {
    /// Takes note of what a server says, and of what it says no longer.
    pub(crate) fn hear(
        &mut self,
        witness: Sid,
        notification: &Notification,
        theirs: Option<&MemberList>,
        electorate: &Electorate,
        now_ms: i64,
    ) {
        let leader = notification.leader;
        let is_told = match notification.state {
            PeerState::Leading => leader == witness,
            PeerState::Following => !electorate.is_voter(leader),
            _ => false,
        };
        let theirs = theirs.filter(|theirs| is_told && differ(electorate.members(), theirs));
        let Some(theirs) = theirs else {
            self.by_witness.remove(&witness);
            return;
        };
        if self.by_witness.len() < WITNESSES_MAX || self.by_witness.contains_key(&witness) {
            let other = OtherLeader {
                leader,
                theirs: theirs.clone(),
                heard_at_ms: now_ms,
            };
            self.by_witness.insert(witness, other);
        }
    }

    /// The connection is gone, and what came over it.
    pub(crate) fn forget(&mut self, witness: Sid) {
        self.by_witness.remove(&witness);
    }

    pub(crate) fn witnesses(&self) -> impl Iterator<Item = Sid> + '_ {
        self.by_witness.keys().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_witness.is_empty()
    }

    /// Drops the witnesses that were asked and kept silent. The slack is for answers that were
    /// left out because they had just been given.
    pub(crate) fn drop_silent(&mut self, asked_at_ms: i64) {
        let heard_since = asked_at_ms - 2 * ANSWER_INTERVAL_MS;
        self.by_witness
            .retain(|_, other| other.heard_at_ms >= heard_since);
    }

    /// A leader to refuse for that was not reported yet.
    pub(crate) fn next_report(&mut self) -> Option<(Sid, OtherLeader)> {
        let (witness, other) = self.by_witness.first_key_value()?;
        let key = (other.leader, other.theirs.clone());
        if self.reported.as_ref() == Some(&key) {
            return None;
        }
        self.reported = Some(key);
        Some((*witness, other.clone()))
    }
}

fn differ(ours: &MemberList, theirs: &MemberList) -> bool {
    let is_outdated = theirs.version.0 > 0 && ours.version > theirs.version;
    ours.voters != theirs.voters && !is_outdated
}
