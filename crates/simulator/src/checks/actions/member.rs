//! State of a server that the recorder needs, and the beginning and end of its roles.

use std::collections::{BTreeMap, BTreeSet};

use host::Fact;
use proto::{Epoch, Sid, Zxid};
use simulation::checks::OwnSnapshot;
use simulation::configured::{index_of, sid_of};
use zab::leader::LinkId;

use super::{ActionTrace, FoundFiles, UNKNOWN, number_of};

/// Factor of the epoch in the number of a vote. The sid of the leader is added.
const VOTE_EPOCH: i64 = 100;

/// Role of a server in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    #[default]
    Looking,
    Following(usize),
    Leading,
}

/// Replacement of a follower's tree that its disk or its leader has not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Other,
    /// DIFF was the last packet.
    Opened,
    /// The log is being cut after this zxid.
    Truncating(Zxid),
    /// A snapshot with this zxid is being received.
    Restoring(Zxid),
}

/// A learner that has introduced itself to this leader.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkedLearner {
    pub(super) at: usize,
    pub(super) has_acked_new_leader: bool,
}

/// A vote that a server has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vote {
    from: usize,
    leader: Sid,
    zxid: Zxid,
    epoch: Epoch,
    /// Whether the voter was looking for a leader.
    is_looking: bool,
}

impl Vote {
    /// Returns the vote in a fact, if it contains one.
    pub(super) fn of(fact: Fact) -> Option<Self> {
        let Fact::Voted {
            from,
            leader,
            zxid,
            epoch,
            is_looking,
        } = fact
        else {
            return None;
        };
        Some(Self {
            from: index_of(from),
            leader,
            zxid,
            epoch,
            is_looking,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) has_started: bool,
    pub(super) role: Role,
    /// Whether the role is ending.
    pub(super) is_draining: bool,
    /// Whether the server has applied a transaction to its current tree in this role.
    pub(super) has_applied: bool,
    /// Number of the connection to the leader.
    pub(super) attempt: u64,
    pub(super) stage: Stage,
    /// Zxid up to which the log is known to be on disk.
    pub(super) synced: Zxid,
    pub(super) saving_accepted: Option<Epoch>,
    pub(super) saving_current: Option<Epoch>,
    /// End of the tree that is about to replace the log.
    pub(super) taking_over: Option<Zxid>,
    /// Snapshot that is complete but not recorded.
    pub(super) written: Option<OwnSnapshot>,
    /// End of the log that the disk has reported.
    pub(super) on_disk: Zxid,
    /// End of the log on disk according to the trace.
    pub(super) logged: Zxid,
    /// Position of the event `DecideLeading`.
    pub(super) begun_at: usize,
    /// Learners of this leader.
    pub(super) learners: BTreeMap<LinkId, LinkedLearner>,
    /// Opening packets, each with the action that it belongs to and the zxid.
    pub(super) openings: BTreeMap<LinkId, (&'static str, i64)>,
    /// Votes since the last election. A server also counts votes that arrived during its last role.
    pub(super) votes: BTreeSet<Vote>,
    /// Whether the server follows the same leader again, without an election.
    pub(super) is_appointed: bool,
    /// Promises of other servers that this process has received.
    pub(super) heard: BTreeSet<Epoch>,
    /// Whether this leader's epoch is established.
    pub(super) is_established: bool,
    /// Whether a reconfiguration has designated another leader in place of this one.
    pub(super) hands_over: bool,
    /// Reconfiguration that ends this follower's role, and the designated leader.
    pub(super) activation: Option<(Zxid, usize)>,
    /// Versions of lists that were installed after the end of the role.
    pub(super) installed: Vec<Zxid>,
}

impl Member {
    pub(super) fn is_leading(&self) -> bool {
        self.role == Role::Leading && !self.is_draining
    }

    /// Returns the leader that the server follows.
    pub(super) fn leader(&self) -> Option<usize> {
        match self.role {
            Role::Following(leader) if !self.is_draining && self.activation.is_none() => {
                Some(leader)
            }
            _ => None,
        }
    }
}

impl ActionTrace {
    /// Ends the role of a server that begins another one, in which it follows `next` or leads.
    /// Returns whether a reconfiguration has designated the leader.
    fn end_role(&mut self, at: usize, next: usize) -> bool {
        if let Some(written) = self.members[at].written.take() {
            // The snapshot has its name, although the server does not know that its log is on disk.
            self.completes_snapshot(at, written, written.logged);
        }
        let member = &self.members[at];
        let (activation, hands_over) = (member.activation, member.hands_over);
        match member.role {
            Role::Looking => {}
            Role::Leading if hands_over => self.hands_over(at, next),
            Role::Leading => self.add("StepDown", at, None, 0, 0),
            Role::Following(leader) => {
                // The tree was loaded again after this cut.
                if let Some(last) = member.taking_over {
                    self.add("CutLog", at, None, number_of(last), 0);
                }
                match activation {
                    Some((zxid, next)) => self.activates(at, leader, zxid, next),
                    None => self.add("LeaveLeader", at, None, 0, 0),
                }
            }
        }
        for version in std::mem::take(&mut self.members[at].installed) {
            self.add("InstallConfig", at, None, number_of(version), 0);
        }
        let member = &mut self.members[at];
        *member = Member {
            has_started: true,
            heard: std::mem::take(&mut member.heard),
            on_disk: member.on_disk,
            // At the end of a role, the server has waited for its disk.
            logged: member.on_disk,
            votes: std::mem::take(&mut member.votes),
            ..Member::default()
        };
        hands_over || activation.is_some()
    }

    /// Records the votes by which a server elects this leader.
    fn counts_votes(&mut self, at: usize, leader: usize) {
        for vote in std::mem::take(&mut self.members[at].votes) {
            if vote.leader == sid_of(leader) {
                let of_leader = vote.epoch.0 * VOTE_EPOCH + vote.leader.0;
                let number = of_leader * 2 + i64::from(vote.is_looking);
                let zxid = number_of(vote.zxid);
                self.add("ReceiveNotification", at, Some(vote.from), zxid, number);
            }
        }
    }

    pub(super) fn decides_leading(&mut self, at: usize) {
        let is_appointed = self.end_role(at, at);
        if !is_appointed {
            self.counts_votes(at, at);
        }
        let begun_at = self.events.len();
        self.add("DecideLeading", at, None, 0, i64::from(is_appointed));
        let member = &mut self.members[at];
        (member.role, member.begun_at) = (Role::Leading, begun_at);
    }

    pub(super) fn decides_following(&mut self, at: usize, leader: usize, attempt: u64) {
        let mut is_appointed = self.members[at].is_appointed;
        is_appointed |= self.end_role(at, leader);
        if !is_appointed {
            self.counts_votes(at, leader);
        }
        let number = i64::from(is_appointed);
        self.add("DecideFollowing", at, Some(leader), 0, number);
        let member = &mut self.members[at];
        (member.role, member.attempt) = (Role::Following(leader), attempt);
    }

    /// Records a snapshot, and that its log is on disk up to `end`.
    fn completes_snapshot(&mut self, at: usize, written: OwnSnapshot, end: Zxid) {
        if self.members[at].logged < written.covers && written.covers <= written.logged {
            self.add("Logged", at, None, number_of(end), 0);
        }
        self.finishes_snapshot(at, written);
    }

    /// Adds the completed work of a disk whose server has crashed before it knew.
    pub(super) fn complete_work(&mut self, at: usize, found: &FoundFiles) {
        let end = found.end;
        let has_snapshot = |written: &OwnSnapshot| found.snapshots.contains(&written.zxid);
        if let Some(written) = self.members[at].written.take().filter(has_snapshot) {
            self.completes_snapshot(at, written, end);
        }
        let member = &mut self.members[at];
        let role = member.role;
        if member.saving_accepted.take() == Some(found.epochs.accepted) {
            let epoch = found.epochs.accepted.0;
            match role {
                Role::Leading => self.add("SendLEADERINFO", at, None, epoch, 0),
                Role::Following(leader) => {
                    self.add("SendACKEPOCH", at, Some(leader), UNKNOWN, UNKNOWN);
                }
                Role::Looking => {}
            }
        }
        let member = &mut self.members[at];
        if let Stage::Truncating(keep) = member.stage
            && end <= keep
        {
            self.reloads(at, true, keep);
        }
        if let Some(last) = self.members[at].taking_over.take()
            && end <= last
        {
            self.add("CutLog", at, None, number_of(last), 0);
            if found.snapshots == [last] {
                self.add("WriteSnapshot", at, None, number_of(last), 0);
            }
        }
        let current = found.epochs.current;
        if self.members[at].saving_current.take() == Some(current) {
            self.add("SaveCurrentEpoch", at, None, current.0, 0);
        }
    }
}
