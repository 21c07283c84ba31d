//! Actions of a leader.

use proto::Epoch;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use simulation::configured::index_of;
use zab::leader::{LinkFault, LinkId};

use super::member::{LinkedLearner, Role};
use super::{ActionTrace, number_of};

impl ActionTrace {
    /// Records a packet from a learner.
    pub(super) fn receives_from_learner(
        &mut self,
        at: usize,
        link: LinkId,
        packet: &LearnerPacket,
    ) {
        if !self.members[at].is_leading() {
            return;
        }
        if let LearnerPacket::FollowerInfo {
            accepted_epoch,
            info: Some(info),
        } = packet
        {
            return self.meets_learner(at, link, index_of(info.sid), *accepted_epoch);
        }
        let Some(learner) = self.members[at].learners.get_mut(&link) else {
            return;
        };
        let peer = Some(learner.at);
        match packet {
            LearnerPacket::AckEpoch { .. } => self.add("ReceiveACKEPOCH", at, peer, 0, 0),
            LearnerPacket::Ack { zxid } if zxid.counter() != 0 => {
                self.add("ReceiveACK", at, peer, number_of(*zxid), 0);
            }
            // The leader ignores the second acknowledgement of the epoch, after UPTODATE.
            LearnerPacket::Ack { .. } if learner.has_acked_new_leader => {}
            LearnerPacket::Ack { .. } => {
                learner.has_acked_new_leader = true;
                self.add("ReceiveNEWLEADERACK", at, peer, 0, 0);
            }
            _ => {}
        }
    }

    /// Records the introduction of a learner.
    fn meets_learner(&mut self, at: usize, link: LinkId, learner: usize, accepted: Epoch) {
        if self.members[learner].role != Role::Following(at) {
            // The learner has left already.
            return;
        }
        let mut links = self.members[at].learners.iter();
        let older = links.find(|(_, linked)| linked.at == learner);
        if let Some(older) = older.map(|(older, _)| *older) {
            self.drops_learner(at, older);
        }
        let member = &mut self.members[at];
        member.heard.insert(accepted);
        let linked = LinkedLearner {
            at: learner,
            has_acked_new_leader: false,
        };
        member.learners.insert(link, linked);
        let peer = Some(learner);
        self.add("ReceiveFOLLOWERINFO", at, peer, accepted.0, 0);
    }

    /// Records the epoch that a leader proposes. It may be above an epoch that the leader has heard
    /// of in an earlier role.
    pub(super) fn fixes_epoch(&mut self, at: usize, epoch: Epoch) {
        let member = &self.members[at];
        if member.heard.contains(&Epoch(epoch.0 - 1))
            && let Some(begun) = self.events.get_mut(member.begun_at)
        {
            begun.zxid = epoch.0;
        }
    }

    /// Records a packet to a learner. NEWLEADER completes the packets of a synchronisation.
    pub(super) fn sends_to_learner(&mut self, at: usize, to: LinkId, packet: &LeaderPacket) {
        let member = &mut self.members[at];
        let Some(learner) = member.learners.get(&to).copied() else {
            return;
        };
        match packet {
            LeaderPacket::Diff { zxid } => {
                let opening = ("SyncFollowerDIFF", number_of(*zxid));
                member.openings.insert(to, opening);
            }
            LeaderPacket::Trunc { zxid } => {
                let opening = ("SyncFollowerTRUNC", number_of(*zxid));
                member.openings.insert(to, opening);
            }
            LeaderPacket::NewLeader { .. } => {
                if let Some((action, zxid)) = member.openings.remove(&to) {
                    self.add(action, at, Some(learner.at), zxid, 0);
                }
            }
            _ => {}
        }
    }

    /// Records that a leader drops a connection.
    pub(super) fn closes_link(&mut self, at: usize, link: LinkId, fault: &LinkFault) {
        if matches!(fault, LinkFault::HistoryAhead { .. }) {
            // This is part of the receipt of ACKEPOCH.
            if let Some(learner) = self.members[at].learners.remove(&link) {
                self.add("Refused", at, Some(learner.at), 0, 0);
            }
            return;
        }
        self.drops_learner(at, link);
    }

    /// Records the end of a connection at the leader.
    pub(super) fn drops_learner(&mut self, at: usize, link: LinkId) {
        self.members[at].openings.remove(&link);
        if let Some(learner) = self.members[at].learners.remove(&link) {
            self.add("DropLearner", at, Some(learner.at), 0, 0);
        }
    }
}
