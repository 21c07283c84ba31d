//! Actions of a follower.

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Sid, Zxid};
use replica::Note;
use simulation::configured::index_of;
use zab::learner::Fault;

use super::member::{Role, Stage};
use super::{ActionTrace, NO_EPOCH, content_of, number_of};

impl ActionTrace {
    /// Records a packet to the leader.
    pub(super) fn sends_to_leader(&mut self, at: usize, packet: &LearnerPacket) {
        let Some(leader) = self.members[at].leader() else {
            return;
        };
        match *packet {
            LearnerPacket::FollowerInfo { accepted_epoch, .. } => {
                self.add("SendFOLLOWERINFO", at, Some(leader), accepted_epoch.0, 0);
            }
            LearnerPacket::AckEpoch {
                last_logged,
                current_epoch,
            } => {
                let current = current_epoch.map_or(NO_EPOCH, |epoch| epoch.0);
                self.members[at].saving_accepted = None;
                self.add(
                    "SendACKEPOCH",
                    at,
                    Some(leader),
                    number_of(last_logged),
                    current,
                );
            }
            _ => {}
        }
    }

    /// Records a notable event.
    pub(crate) fn note(&mut self, sid: Sid, note: &Note<'_>) {
        if !self.is_on {
            return;
        }
        let at = index_of(sid);
        match note {
            Note::ReceivedByLearner(packet) => self.receives_from_leader(at, packet),
            Note::LeaderLeft(Fault::Unexpected { .. }) => self.refuses_sync(at),
            Note::LeadingBegins => self.establishes(at),
            _ => {}
        }
    }

    fn receives_from_leader(&mut self, at: usize, packet: &LeaderPacket) {
        let Some(leader) = self.members[at].leader() else {
            return;
        };
        let (peer, mut stage) = (Some(leader), Stage::Other);
        match packet {
            LeaderPacket::Diff { zxid } => {
                stage = Stage::Opened;
                self.add("ReceiveDIFF", at, peer, number_of(*zxid), 0);
            }
            LeaderPacket::Trunc { zxid } => stage = Stage::Truncating(*zxid),
            LeaderPacket::Snap { zxid } => stage = Stage::Restoring(*zxid),
            LeaderPacket::Proposal { zxid, txn } => {
                let content = content_of(txn);
                self.add("ReceivePROPOSAL", at, peer, number_of(*zxid), content);
            }
            LeaderPacket::Commit { zxid } => {
                self.add("ReceiveCOMMIT", at, peer, number_of(*zxid), 0);
            }
            LeaderPacket::NewLeader { zxid, .. } => {
                self.add("ReceiveNEWLEADER", at, peer, zxid.epoch().0, 0);
            }
            LeaderPacket::UpToDate => self.add("ReceiveUPTODATE", at, peer, 0, 0),
            _ => return,
        }
        self.members[at].stage = stage;
    }

    /// Records that a follower leaves because of the last packet.
    fn refuses_sync(&mut self, at: usize) {
        let Some(leader) = self.members[at].leader() else {
            return;
        };
        match self.members[at].stage {
            Stage::Opened => {
                self.events.pop_if(|event| event.action == "ReceiveDIFF");
            }
            Stage::Truncating(_) => {}
            Stage::Other | Stage::Restoring(_) => return,
        }
        self.add("RefuseSync", at, Some(leader), 0, 0);
        let member = &mut self.members[at];
        (member.role, member.stage) = (Role::Looking, Stage::Other);
    }

    /// Records the complete arrival of the leader's tree.
    pub(super) fn receives_tree(&mut self, at: usize, attempt: u64) {
        let member = &self.members[at];
        if let (Some(leader), Stage::Restoring(zxid)) = (member.leader(), member.stage)
            && member.attempt == attempt
        {
            let member = &mut self.members[at];
            (member.stage, member.has_applied) = (Stage::Other, false);
            self.add("ReceiveSNAP", at, Some(leader), number_of(zxid), 0);
        }
    }

    /// Records the end of a cut of the log, which now ends at `end`.
    pub(super) fn reloads(&mut self, at: usize, has_cut: bool, end: Zxid) {
        let member = &mut self.members[at];
        if has_cut {
            (member.on_disk, member.logged) = (end, end);
        }
        let (Stage::Truncating(keep), Role::Following(leader)) = (member.stage, member.role) else {
            return;
        };
        (member.stage, member.has_applied) = (Stage::Other, false);
        let is_done = has_cut && end == keep;
        if !is_done && member.is_draining {
            return;
        }
        if !is_done {
            // The learner leaves, and connects to the same leader again.
            (member.role, member.is_appointed) = (Role::Looking, true);
        }
        let zxid = number_of(keep);
        self.add("ReceiveTRUNC", at, Some(leader), zxid, i64::from(is_done));
    }

    /// Records that the leader's tree has replaced the own files.
    pub(super) fn has_taken_over(&mut self, at: usize) {
        let member = &mut self.members[at];
        if let Some(last) = member.taking_over.take() {
            (member.on_disk, member.logged) = (last, last);
            self.add("CutLog", at, None, 0, 0);
            self.add("WriteSnapshot", at, None, 0, 0);
        }
    }
}
