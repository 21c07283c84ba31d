//! Effect of a new member list on this server.

use std::collections::BTreeSet;

use config::members::{HostPort, MemberRole};
use config::membership::Membership;
use proto::Sid;

use super::{OwnAddresses, role_in};

/// Differences between the installed list and the previous one that matter to this server.
///
/// If only the version differs, this server keeps its role and its leader, unless the
/// reconfiguration designated another leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipChange {
    /// Whether anything but the version differs.
    pub members_differ: bool,
    /// New role, if it differs. The current role then ends.
    pub role: Option<MemberRole>,
    /// New client address, if it differs.
    pub client: Option<HostPort>,
    /// Whether the addresses for learners differ.
    pub quorum_addresses_differ: bool,
    /// Whether the addresses for elections differ.
    pub election_addresses_differ: bool,
    /// Servers that vote in both lists and keep their quorum addresses.
    steady_voters: BTreeSet<Sid>,
}

impl MembershipChange {
    pub(super) fn between(
        me: Sid,
        old: &Membership,
        own_old: &OwnAddresses,
        new: &Membership,
        own_new: &OwnAddresses,
    ) -> Self {
        let (was, is) = (role_in(old, me), role_in(new, me));
        let steady = old.participants().filter(|before| {
            let now = new.members.get(&before.sid);
            now.is_some_and(|now| {
                now.role == MemberRole::Participant
                    && now.quorum_addresses() == before.quorum_addresses()
            })
        });
        Self {
            members_differ: !old.has_same_members(new),
            role: (was != is).then_some(is),
            client: own_new
                .client
                .clone()
                .filter(|client| own_old.client.as_ref() != Some(client)),
            quorum_addresses_differ: own_old.quorum != own_new.quorum,
            election_addresses_differ: own_old.election != own_new.election,
            steady_voters: steady.map(|member| member.sid).collect(),
        }
    }

    /// Returns whether the previous leader can no longer be followed. Call it only if no leader was
    /// designated.
    pub fn loses_leader(&self, leader: Sid) -> bool {
        self.members_differ && !self.steady_voters.contains(&leader)
    }
}
