//! The membership guard, which prevents a second leader if servers have different member lists.
//!
//! ZooKeeper does not compare the lists in files. For example, servers 1 and 3 of three can elect
//! 3, while 2, 4 and 5, started with a list of five, elect 5. Both quorums are correct according to
//! their own lists, and both leaders accept writes. However, the first leader answers the servers
//! that would elect the second one, and its list is in the answer. The guard remembers the servers
//! that answered (the *witnesses*). Before a server acts on a quorum of looking voters, it queries
//! the witnesses again, and continues only if none of them confirms its answer. As soon as a quorum
//! agrees, it also queries every server that has not agreed. Such a server may have become a leader
//! since it last received this server's vote.
//!
//! A leader's own answer counts. A follower's answer counts only if its leader is outside this
//! server's list, because the leader itself is not queried then. Versions order the lists of
//! reconfigurations: a leader with an older list can no longer commit, and does not prevent a
//! server with the newer list from electing another leader.
//!
//! The guard does not impede the correct procedure for adding servers. A new server follows the
//! leader that answers it if that leader has a quorum of the *new* list. After that leader has
//! stopped, the other servers are not witnesses for it.

use std::collections::BTreeMap;

use proto::Sid;
use proto::notification::{Notification, PeerState};

use crate::limits::{ANSWER_INTERVAL_MS, WITNESSES_MAX};
use crate::{Electorate, MemberList};

/// Known leaders with different member lists.
#[derive(Debug, Default)]
pub(crate) struct OtherLeaders {
    by_witness: BTreeMap<Sid, OtherLeader>,
    /// Last reported leader and its list, which are not reported again.
    reported: Option<(Sid, MemberList)>,
}

/// A leader with a different member list.
#[derive(Debug, Clone)]
pub(crate) struct OtherLeader {
    pub(crate) leader: Sid,
    pub(crate) theirs: MemberList,
    received_at_ms: i64,
}

impl OtherLeaders {
    /// Records the leader that a server reports if the report counts (see the module) and the two
    /// member lists differ. Otherwise, removes the server from the witnesses.
    pub(crate) fn record(
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
                received_at_ms: now_ms,
            };
            self.by_witness.insert(witness, other);
        }
    }

    /// Removes a witness whose connection has closed.
    pub(crate) fn forget(&mut self, witness: Sid) {
        self.by_witness.remove(&witness);
    }

    pub(crate) fn witnesses(&self) -> impl Iterator<Item = Sid> + '_ {
        self.by_witness.keys().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_witness.is_empty()
    }

    /// Removes the witnesses that did not answer the query. An answer from shortly before the query
    /// also counts, because a witness does not repeat an equal answer within
    /// [`ANSWER_INTERVAL_MS`].
    pub(crate) fn drop_silent(&mut self, queried_at_ms: i64) {
        let received_since_ms = queried_at_ms - 2 * ANSWER_INTERVAL_MS;
        self.by_witness
            .retain(|_, other| other.received_at_ms >= received_since_ms);
    }

    /// Returns a leader to be reported as the reason for a refusal, with its witness. Returns
    /// `None` without a witness, or if this leader and its list were the last report.
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
