//! Actions of a follower.

use host::Fact;
use proto::{Epoch, Zxid};
use simulation::configured::index_of;

use super::member::{Role, Stage};
use super::{ActionTrace, NO_EPOCH, number_of};

impl ActionTrace {
    /// Records FOLLOWERINFO.
    pub(super) fn sends_follower_info(&mut self, at: usize, accepted: Epoch) {
        if let Some(leader) = self.members[at].leader() {
            self.add("SendFOLLOWERINFO", at, Some(leader), accepted.0, 0);
        }
    }

    /// Records ACKEPOCH.
    pub(super) fn sends_ack_epoch(&mut self, at: usize, last: Zxid, current: Option<Epoch>) {
        if let Some(leader) = self.members[at].leader() {
            let current = current.map_or(NO_EPOCH, |epoch| epoch.0);
            self.members[at].saving_accepted = None;
            self.add("SendACKEPOCH", at, Some(leader), number_of(last), current);
        }
    }

    /// Records the receipt of a packet from the leader.
    pub(super) fn receives_from_leader(&mut self, at: usize, packet: Fact) {
        let Some(leader) = self.members[at].leader() else {
            return;
        };
        let (peer, mut stage) = (Some(leader), Stage::Other);
        match packet {
            Fact::ReceivedDiff { zxid } => {
                stage = Stage::Opened;
                self.add("ReceiveDIFF", at, peer, number_of(zxid), 0);
            }
            Fact::ReceivedTrunc { zxid } => stage = Stage::Truncating(zxid),
            Fact::ReceivedSnap { zxid } => stage = Stage::Restoring(zxid),
            Fact::ReceivedProposal { zxid, content } => {
                self.add("ReceivePROPOSAL", at, peer, number_of(zxid), content);
            }
            Fact::ReceivedCommit { zxid } => {
                self.add("ReceiveCOMMIT", at, peer, number_of(zxid), 0);
            }
            Fact::ReceivedCommitAndActivate { zxid, designated } => {
                self.receives_activation(at, zxid, index_of(designated));
            }
            Fact::ReceivedNewLeader { epoch } => {
                self.add("ReceiveNEWLEADER", at, peer, epoch.0, 0);
            }
            Fact::ReceivedUpToDate {} => self.add("ReceiveUPTODATE", at, peer, 0, 0),
            _ => return,
        }
        self.members[at].stage = stage;
    }

    /// Records that a follower leaves because of the last packet.
    pub(super) fn refuses_sync(&mut self, at: usize) {
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
            self.add("CutLog", at, None, number_of(last), 0);
            self.add("WriteSnapshot", at, None, number_of(last), 0);
        }
    }
}
