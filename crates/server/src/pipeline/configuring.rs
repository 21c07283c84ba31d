//! Configurations on their way through a member: proposed, seen, committed, in force.
//!
//! Source: ensemble-protocol.md 18 (QuorumPeer.processReconfig).

use bytes::Bytes;
use config::membership::Membership;
use proto::request::ReconfigRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, Sid, Zxid};
use tree::{PrepareContext, Tree};
use zab::Record;
use zab::leader::NextConfig;

use super::core::Core;
use super::role::{Next, Role};
use crate::clock;
use crate::membership::{Change, PlanFacts};

impl Core {
    /// Judges a reconfig request.
    pub(super) fn prepare_reconfig(
        &mut self,
        tree: &Tree,
        request: &ReconfigRequest,
        context: &PrepareContext<'_>,
    ) -> (TxnRecord, Option<NextConfig>) {
        // The last number of an epoch is never given out, and a list that is not proposed must not
        // count as seen.
        let is_last = context.zxid.counter() == u32::MAX;
        let (Role::Leading(leading), Some(member), false) = (&self.role, &mut self.member, is_last)
        else {
            let plan = Err(ErrorCode::NewConfigNoQuorum);
            return (self.overlay.prepare_reconfig(tree, plan, context), None);
        };
        let facts = PlanFacts {
            zxid: context.zxid,
            synced_followers: leading.leader.synced_followers(),
            oracle_grants: leading.leader.oracle_grants(),
        };
        let plan = member.keeper.plan(request, &facts);
        let text = plan
            .as_ref()
            .map(|list| Bytes::from(list.node_data()))
            .map_err(|error| *error);
        let record = self.overlay.prepare_reconfig(tree, text, context);
        let (Txn::Reconfig(_), Ok(list)) = (&record.txn, plan) else {
            return (record, None);
        };
        let next = member.keeper.next_config(&list);
        self.see_list(list);
        (record, Some(next))
    }

    /// A transaction proposes a configuration.
    pub(super) fn see_config_of(&mut self, record: &Record) {
        if let Some(text) = config_text(record) {
            self.see_config(&text);
        }
    }

    /// The leader has told its last configuration seen.
    pub(super) fn see_config(&mut self, text: &[u8]) {
        if let Some(list) = self.parse_list(text) {
            self.see_list(list);
        }
    }

    fn see_list(&mut self, list: Membership) {
        let Some(member) = &mut self.member else {
            return;
        };
        if let Err(error) = member.keeper.see(list) {
            tracing::error!(err = %error, "cannot write the proposed configuration");
        }
        self.tell_mesh();
    }

    /// A configuration is in force that a leader has told.
    pub(super) fn install_config(&mut self, text: &[u8]) {
        if let Some(list) = self.parse_list(text) {
            self.install(list, None);
        }
    }

    /// The last configuration seen comes into force with an epoch of this server's.
    pub(super) fn install_seen_config(&mut self, designated_leader: Option<Sid>) {
        let seen = self
            .member
            .as_ref()
            .and_then(|member| member.keeper.last_seen().cloned());
        if let Some(list) = seen {
            self.install(list, designated_leader);
        }
    }

    /// A reconfiguration is committed.
    pub(super) fn activate_config(&mut self, record: &Record, designated_leader: Option<Sid>) {
        let list = config_text(record).and_then(|text| self.parse_list(&text));
        if let Some(list) = list {
            self.install(list, designated_leader);
        }
    }

    /// Another server has told of a newer list while this one looks for a leader.
    pub(super) fn install_list(&mut self, list: Membership) {
        self.install(list, None);
    }

    fn install(&mut self, list: Membership, designated_leader: Option<Sid>) {
        let Some(member) = &mut self.member else {
            return;
        };
        let Some(change) = member.keeper.install(list) else {
            return;
        };
        if change.quorum_addresses_differ {
            member.move_port();
        }
        self.show_config();
        self.tell_mesh();
        self.publish_role();
        self.follow_change(&change, designated_leader);
    }

    /// Puts the list in force into the config znode.
    pub(super) fn show_config(&mut self) {
        let Some(member) = &self.member else { return };
        let list = member.keeper.committed();
        let (data, version) = (list.node_data(), Zxid(list.version.0));
        let mut tree = self.shared.tree.write();
        if let Err(error) = tree.set_config(data.as_bytes(), version, clock::wall_ms()) {
            tracing::warn!(err = %error, "the history has no config znode");
        }
    }

    /// Ends the role if the configuration makes this server something else, or its leader no
    /// leader.
    fn follow_change(&mut self, change: &Change, designated_leader: Option<Sid>) {
        let Some(member) = &self.member else { return };
        let me = member.keeper.me();
        if let Some(client) = &change.client {
            tracing::warn!(address = %client, "the member list names another client address for this server: it serves there from its next start on");
        }
        let next = match (&self.role, designated_leader) {
            (Role::Leading(_), Some(leader)) if leader != me => Some(Next::Follow(leader)),
            (Role::Learning(_), Some(leader)) if leader == me => Some(Next::Lead),
            (Role::Learning(learning), Some(leader)) if leader != learning.leader => {
                Some(Next::Follow(leader))
            }
            (Role::Learning(learning), Some(_)) => {
                change.role.map(|_| Next::Follow(learning.leader))
            }
            (Role::Learning(learning), None) => {
                let is_lost = change.role.is_some() || change.loses_leader(learning.leader);
                is_lost.then_some(Next::Look)
            }
            _ => None,
        };
        if let Some(next) = next {
            self.leave_role(next);
        }
    }

    fn parse_list(&self, text: &[u8]) -> Option<Membership> {
        let member = self.member.as_ref()?;
        match member.keeper.parse(text) {
            Ok(list) => Some(list),
            Err(error) => {
                tracing::error!(err = %error, "a configuration cannot be read");
                None
            }
        }
    }

    /// Elections count by the lists that there are now.
    fn tell_mesh(&mut self) {
        if let Some(member) = &self.member {
            let keeper = &member.keeper;
            let (committed, proposed) = (keeper.committed().clone(), keeper.last_seen().cloned());
            member.mesh.configure(committed, proposed, keeper.role());
        }
    }
}

/// The text that a reconfiguration brings.
fn config_text(record: &Record) -> Option<Bytes> {
    let mut input = jute::Reader::new(record.txn.clone());
    let txn = <TxnRecord as jute::Decode>::decode(&mut input).ok()?;
    match txn.txn {
        Txn::Reconfig(set) => set.data,
        _ => None,
    }
}
