//! What a new member list is to this server.

use std::collections::BTreeSet;

use config::members::{HostPort, MemberRole};
use config::membership::Membership;
use proto::Sid;

use super::{OwnAddresses, role_in};

/// How the list that was installed differs from the one before, for this server.
///
/// If only the version is new, nothing is to be done. Otherwise the election starts over with the
/// new members, as does the listener for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Anything but the version differs.
    pub members_differ: bool,
    /// The role, if it is another one: the present one ends.
    pub role: Option<MemberRole>,
    /// Where clients are to be served from now on, if it is not where they are.
    pub client: Option<HostPort>,
    /// Learners come to other addresses.
    pub quorum_addresses_differ: bool,
    /// Peers come to other addresses in elections.
    pub election_addresses_differ: bool,
    /// Those who vote in both lists and have kept their quorum addresses.
    steady_voters: BTreeSet<Sid>,
}

impl Change {
    pub(super) fn between(
        me: Sid,
        (old, own_old): (&Membership, &OwnAddresses),
        (new, own_new): (&Membership, &OwnAddresses),
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

    /// Whether the leader of the time before cannot be followed any more. Only to be asked where no
    /// leader was designated.
    pub fn loses_leader(&self, leader: Sid) -> bool {
        self.members_differ && !self.steady_voters.contains(&leader)
    }
}
