//! The states of a member list in this server: proposed, seen, committed, in force.
//!
//! Source: QuorumPeer.processReconfig.

use bytes::Bytes;
use config::membership::Membership;
use proto::request::ReconfigRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, Sid, Zxid};
use tree::{PrepareContext, Tree};
use zab::Record;
use zab::leader::NextConfig;

use crate::interface::effect::{DiskOrder, Effect};
use crate::interface::host::{Host, State, Turn};
use crate::members::{MemberFile, MembershipChange, PlanFacts};
use crate::replica::Replica;
use crate::roles::{NextRole, Role};

impl<H: Host> Replica<H> {
    /// Prepares a reconfig request.
    pub(crate) fn prepare_reconfig(
        &mut self,
        tree: &Tree,
        request: &ReconfigRequest,
        context: &PrepareContext<'_>,
        turn: &mut Turn<'_, H>,
    ) -> (TxnRecord, Option<NextConfig>) {
        // The last counter of an epoch is never used, so a reconfiguration with this counter would
        // not be proposed. A list that is not proposed must not become a seen list.
        let is_last = context.zxid.counter() == u32::MAX;
        let (Role::Leading(leading), Some(member), false) = (&self.role, &self.member, is_last)
        else {
            let plan = Err(ErrorCode::NewConfigNoQuorum);
            return (self.overlay.prepare_reconfig(tree, plan, context), None);
        };
        let facts = PlanFacts {
            zxid: context.zxid,
            synced_followers: leading.leader.synced_followers(),
            oracle_grants: leading.leader.oracle_grants(),
        };
        let plan = member.lists.plan(request, &facts);
        let text = plan
            .as_ref()
            .map(|list| Bytes::from(list.node_data()))
            .map_err(|error| *error);
        let record = self.overlay.prepare_reconfig(tree, text, context);
        let (Txn::Reconfig(_), Ok(list)) = (&record.txn, plan) else {
            return (record, None);
        };
        let next = member.lists.next_config(&list);
        self.see_list(list, turn);
        (record, Some(next))
    }

    /// Stores the configuration that a reconfiguration transaction contains as seen. Ignores other
    /// transactions.
    pub(crate) fn see_config_of(&mut self, record: &Record, turn: &mut Turn<'_, H>) {
        if let Some(text) = config_text(record) {
            self.see_config(&text, turn);
        }
    }

    /// Stores the configuration that the leader has seen last as this server's last seen
    /// configuration.
    pub(crate) fn see_config(&mut self, text: &[u8], turn: &mut Turn<'_, H>) {
        if let Some(list) = self.parse_list(text) {
            self.see_list(list, turn);
        }
    }

    /// Stores a list as seen. The list is on disk before later appends, and therefore before their
    /// acknowledgement.
    ///
    /// A list that is discarded stays on disk until the leader's snapshot replaces the log, which
    /// may contain the list's proposal. If the leader commits the proposal after all, the proposed
    /// voters may commit more transactions alone. A restarted server with the proposal, but without
    /// the list, could then be elected without them.
    fn see_list(&mut self, list: Membership, turn: &mut Turn<'_, H>) {
        let Some(member) = &mut self.member else {
            return;
        };
        let seen = member.lists.last_seen();
        let is_discarded = seen.is_some_and(|seen| list.version < seen.version);
        if let Some(file) = member.lists.see(list) {
            match &mut self.role {
                Role::Learning(learning) if is_discarded && learning.will_cut_log() => {
                    learning.saves_list_after_cut = true;
                }
                _ => save_list(file, turn),
            }
        }
        self.configure_election(turn);
    }

    /// Writes the last seen list if it was kept back until the log is cut. The cut was ordered.
    pub(crate) fn save_list_after_cut(&mut self, turn: &mut Turn<'_, H>) {
        if let (Role::Learning(learning), Some(member)) = (&mut self.role, &self.member)
            && std::mem::take(&mut learning.saves_list_after_cut)
        {
            let seen = member.lists.last_seen().cloned();
            save_list(MemberFile::LastSeen(seen), turn);
        }
    }

    /// Installs the leader's configuration if it is committed. A configuration whose version is
    /// above `upto` is only proposed, and comes into force when it is committed. If this server
    /// installed the configuration earlier, it would send it to others in the next election. The
    /// voters of that configuration could then decide without a quorum of the configuration in
    /// force.
    pub(crate) fn install_config(&mut self, text: &[u8], upto: Zxid, turn: &mut Turn<'_, H>) {
        let list = self.parse_list(text);
        if let Some(list) = list.filter(|list| list.version.0 <= upto.0) {
            self.install(list, None, turn);
        }
    }

    /// Puts the last seen configuration in force, together with this server's epoch.
    pub(crate) fn install_seen_config(
        &mut self,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let member = self.member.as_ref();
        let seen = member.and_then(|member| member.lists.last_seen().cloned());
        if let Some(list) = seen {
            self.install(list, designated_leader, turn);
        }
    }

    /// Puts the configuration of a committed reconfiguration in force.
    pub(crate) fn activate_config(
        &mut self,
        record: &Record,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let list = config_text(record).and_then(|text| self.parse_list(&text));
        if let Some(list) = list {
            self.install(list, designated_leader, turn);
        }
    }

    /// Installs a newer list that another server sent while this one was looking for a leader.
    // Model: InstallConfig.
    pub(crate) fn install_list(&mut self, list: Membership, turn: &mut Turn<'_, H>) {
        self.install(list, None, turn);
    }

    fn install(
        &mut self,
        list: Membership,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let Some(member) = &mut self.member else {
            return;
        };
        let Some((change, file)) = member.lists.install(list) else {
            return;
        };
        save_list(file, turn);
        self.show_config(turn);
        self.configure_election(turn);
        self.publish_view(turn);
        self.follow_change(&change, designated_leader, turn);
    }

    /// Writes the list that is in force into the config znode.
    pub(crate) fn show_config(&mut self, turn: &mut Turn<'_, H>) {
        let Some(member) = &self.member else { return };
        let list = member.lists.committed();
        let (data, version) = (list.node_data(), Zxid(list.version.0));
        let mut tree = turn.state.tree_mut();
        tree.set_config(data.as_bytes(), version, turn.now.wall_ms);
    }

    /// Ends the role if the configuration changes this server's role or removes its leader, or if
    /// another leader was designated. A leader whose own addresses for learners change listens on
    /// them only in its next term.
    fn follow_change(
        &mut self,
        change: &MembershipChange,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let Some(member) = &self.member else { return };
        let me = member.lists.me();
        if let Some(client) = &change.client {
            tracing::warn!(address = %client, "the member list changes the client address of this server; restart the server to use it");
        }
        let next = match (&self.role, designated_leader) {
            // Model: HandOver.
            (Role::Leading(_), Some(leader)) if leader != me => Some(NextRole::Follow(leader)),
            (Role::Leading(_), Some(_)) if change.quorum_addresses_differ => Some(NextRole::Look),
            (Role::Learning(_), Some(leader)) if leader == me => Some(NextRole::Lead),
            (Role::Learning(learning), Some(leader)) if leader != learning.leader => {
                Some(NextRole::Follow(leader))
            }
            (Role::Learning(learning), Some(_)) => {
                change.role.map(|_| NextRole::Follow(learning.leader))
            }
            (Role::Learning(learning), None) => {
                let is_lost = change.role.is_some() || change.loses_leader(learning.leader);
                is_lost.then_some(NextRole::Look)
            }
            _ => None,
        };
        if let Some(next) = next {
            self.leave_role(next, turn);
        }
    }

    fn parse_list(&self, text: &[u8]) -> Option<Membership> {
        let member = self.member.as_ref()?;
        match member.lists.parse(text) {
            Ok(list) => Some(list),
            Err(error) => {
                tracing::error!(err = %error, "cannot parse a member list");
                None
            }
        }
    }

    /// Passes the current lists to the elections.
    fn configure_election(&mut self, turn: &mut Turn<'_, H>) {
        let Some(member) = &self.member else { return };
        let lists = &member.lists;
        let (committed, proposed) = (lists.committed().clone(), lists.last_seen().cloned());
        let role = lists.role();
        turn.effect(Effect::SetMemberHosts(lists.hosts()));
        self.with_elections(turn, |elections, now_ms, out| {
            elections.configure(committed, proposed, role, now_ms, out);
        });
    }
}

/// Requests that a list be written. If the write fails, this server continues, as Java does, because
/// the ensemble decides and other members have the list.
fn save_list<H: Host>(file: MemberFile, turn: &mut Turn<'_, H>) {
    let is_required = false;
    turn.disk(DiskOrder::SaveMembers { file, is_required });
}

/// Returns the configuration that a reconfiguration transaction contains, as text.
fn config_text(record: &Record) -> Option<Bytes> {
    let mut input = jute::Reader::new(record.txn.clone());
    let txn = <TxnRecord as jute::Decode>::decode(&mut input).ok()?;
    match txn.txn {
        Txn::Reconfig(set) => set.data,
        _ => None,
    }
}
