//! Changes of the members.

use proto::Zxid;

use super::member::Role;
use super::{ActionTrace, FoundFiles, number_of};

/// Sid of a server in the model.
fn sid(at: usize) -> i64 {
    i64::try_from(at + 1).unwrap_or(i64::MAX)
}

impl ActionTrace {
    /// Records COMMITANDACTIVATE. If another leader is designated, the role ends, which is recorded
    /// when the next role begins.
    pub(super) fn receives_activation(&mut self, at: usize, zxid: Zxid, designated: usize) {
        match self.members[at].leader() {
            Some(leader) if leader == designated => self.activates(at, leader, zxid, designated),
            Some(_) => self.members[at].activation = Some((zxid, designated)),
            None => {}
        }
    }

    pub(super) fn activates(&mut self, at: usize, leader: usize, zxid: Zxid, designated: usize) {
        let action = "ReceiveCOMMITANDACTIVATE";
        self.add(action, at, Some(leader), number_of(zxid), sid(designated));
    }

    /// Records that a leader follows the designated leader. If the configuration has come into force
    /// with the epoch, the leader does not report that its epoch is established.
    pub(super) fn hands_over(&mut self, at: usize, next: usize) {
        if !self.members[at].is_established {
            self.add("EstablishEpoch", at, Some(next), 0, 0);
        }
        self.add("HandOver", at, Some(next), 0, 0);
    }

    /// Records a list that a server has received from another server between two roles. Other lists
    /// are part of other actions.
    pub(super) fn installs_config(&mut self, at: usize, version: Zxid) {
        let member = &mut self.members[at];
        if member.role == Role::Looking {
            self.add("InstallConfig", at, None, number_of(version), 0);
        } else if member.is_draining {
            member.installed.push(version);
        }
    }

    /// Records the lists that a started process has found.
    pub(super) fn finds_lists(&mut self, at: usize, found: &FoundFiles) {
        if let Some([config, seen]) = found.lists {
            let (config, seen) = (number_of(config), number_of(seen));
            self.add("FoundLists", at, None, config, seen);
        }
    }
}
