//! Actions of a leader.

use proto::{Epoch, Zxid};
use zab::leader::LinkId;

use super::member::{LinkedLearner, Role};
use super::{ActionTrace, number_of};

impl ActionTrace {
    /// Records the receipt of ACKEPOCH.
    pub(super) fn receives_ack_epoch(&mut self, at: usize, link: LinkId) {
        let member = &self.members[at];
        if let Some(learner) = member.learners.get(&link).filter(|_| member.is_leading()) {
            self.add("ReceiveACKEPOCH", at, Some(learner.at), 0, 0);
        }
    }

    /// Records the receipt of ACK.
    pub(super) fn receives_ack(&mut self, at: usize, link: LinkId, zxid: Zxid) {
        if !self.members[at].is_leading() {
            return;
        }
        let Some(learner) = self.members[at].learners.get_mut(&link) else {
            return;
        };
        let peer = Some(learner.at);
        if zxid.counter() != 0 {
            self.add("ReceiveACK", at, peer, number_of(zxid), 0);
        } else if !learner.has_acked_new_leader {
            // The leader ignores the second acknowledgement of the epoch, after UPTODATE.
            learner.has_acked_new_leader = true;
            self.add("ReceiveNEWLEADERACK", at, peer, 0, 0);
        }
    }

    /// Records the introduction of a learner.
    pub(super) fn meets_learner(
        &mut self,
        at: usize,
        link: LinkId,
        learner: usize,
        accepted: Epoch,
    ) {
        if !self.members[at].is_leading() {
            return;
        }
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

    /// Records the first packet of a synchronisation.
    pub(super) fn opens(&mut self, at: usize, to: LinkId, action: &'static str, zxid: Zxid) {
        let member = &mut self.members[at];
        member.openings.insert(to, (action, number_of(zxid)));
        // The learner may receive this packet before the leader's thread sends NEWLEADER.
        if self.has_threads {
            self.completes_sync(at, to);
        }
    }

    /// Records NEWLEADER, which completes the packets of a synchronisation.
    pub(super) fn completes_sync(&mut self, at: usize, to: LinkId) {
        let member = &mut self.members[at];
        if let Some(learner) = member.learners.get(&to).copied()
            && let Some((action, zxid)) = member.openings.remove(&to)
        {
            self.add(action, at, Some(learner.at), zxid, 0);
        }
    }

    /// Records that a leader drops a connection.
    pub(super) fn closes_link(&mut self, at: usize, link: LinkId, is_ahead: bool) {
        if is_ahead {
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
