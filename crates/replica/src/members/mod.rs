//! The members of the ensemble, as this server knows them.
//!
//! ```text
//! proposed (reconfig, NEWLEADER)  --see-->      last seen   zoo.cfg.dynamic.next
//! committed                       --install-->  committed   zoo.cfg.dynamic.<version>, zoo.cfg
//! ```
//!
//! The *committed* list decides. While a newer list is *seen*, a quorum of that list must also
//! agree. A list is seen before it is acknowledged, and installed before any later commit. Memory
//! changes before the files, so a failed disk cannot make this server count votes by an old list.
//! The host writes the files. Each change returns a [`MemberFile`], which contains the order of its
//! writes ([`MemberFile::write`]).
//!
//! With `reconfigEnabled=false`, lists of other servers are ignored, files are not written, and the
//! initial list stays in force.
//!
//! Source: QuorumPeer.setLastSeenQuorumVerifier, setQuorumVerifier, processReconfig; Leader.lead.

mod change;
pub(crate) mod files;
mod plan;
pub(crate) mod stages;

use std::collections::BTreeSet;

use bytes::Bytes;
use config::Config;
use config::members::{HostPort, MemberRole};
use config::membership::{Membership, MembershipError, MembershipFault};
use config::reconfig::Rules;
use proto::{ConfigVersion, Epoch, Sid, Zxid};
use zab::leader::{EpochConfig, NextConfig};

pub use change::MembershipChange;
pub use files::{MemberFile, MemberFiles};
pub use plan::PlanFacts;

/// Member lists of this server.
#[derive(Debug)]
pub struct MemberLists {
    me: Sid,
    rules: Rules,
    reconfig_enabled: bool,
    committed: Membership,
    /// A list newer than `committed`.
    last_seen: Option<Membership>,
    /// Addresses of this server. If it was removed, the addresses in the last list that contained
    /// it.
    own: OwnAddresses,
}

/// Addresses on which this server listens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OwnAddresses {
    quorum: BTreeSet<HostPort>,
    election: BTreeSet<HostPort>,
    client: Option<HostPort>,
}

impl MemberLists {
    /// Creates the lists when the server starts; `None` for a standalone server.
    pub fn new(config: &Config) -> Option<Self> {
        let ensemble = config.ensemble.as_ref()?;
        let features = &config.features;
        let client = config.client.plain.as_ref();
        let mut own = OwnAddresses {
            client: client.map(|client| HostPort::new(&client.host, client.port)),
            ..OwnAddresses::default()
        };
        if let Some(member) = ensemble.membership.members.get(&ensemble.my_id) {
            own.quorum = member.quorum_addresses();
            own.election = member.election_addresses();
        }
        let committed = ensemble.membership.clone();
        let last_seen = ensemble.last_seen.clone();
        let is_newer =
            |seen: &Membership| features.reconfig_enabled && seen.version > committed.version;
        Some(Self {
            me: ensemble.my_id,
            rules: Rules {
                multi_address_enabled: ensemble.multi_address.is_enabled,
                standalone_enabled: features.standalone_enabled,
            },
            reconfig_enabled: features.reconfig_enabled,
            last_seen: last_seen.filter(is_newer),
            committed,
            own,
        })
    }

    /// Returns the sid of this server.
    pub fn me(&self) -> Sid {
        self.me
    }

    /// Returns the role of this server in the committed list. A server that is not in the list
    /// follows without a vote, like a participant.
    pub fn role(&self) -> MemberRole {
        role_in(&self.committed, self.me)
    }

    /// Returns the address for clients, if a list or zoo.cfg contains one.
    pub fn client_address(&self) -> Option<&HostPort> {
        self.own.client.as_ref()
    }

    /// Returns the committed list.
    pub fn committed(&self) -> &Membership {
        &self.committed
    }

    /// Returns a newer list that was proposed and is not known to be committed. Its quorum must
    /// also agree.
    pub fn last_seen(&self) -> Option<&Membership> {
        self.last_seen.as_ref()
    }

    /// Returns the newest list: the last seen one, or the committed one.
    pub fn newest(&self) -> &Membership {
        self.last_seen.as_ref().unwrap_or(&self.committed)
    }

    /// Returns the hosts of all members of both lists, by name or address.
    pub fn hosts(&self) -> Vec<String> {
        let lists = [Some(&self.committed), self.last_seen.as_ref()];
        let members = lists
            .into_iter()
            .flatten()
            .flat_map(|list| list.members.values());
        let hosts = members.flat_map(|member| {
            let quorum = member.quorum_addresses().into_iter();
            quorum.chain(member.election_addresses())
        });
        let hosts: BTreeSet<String> = hosts.map(|address| address.host).collect();
        hosts.into_iter().collect()
    }

    /// Parses a list from NEWLEADER, a reconfiguration or a notification.
    ///
    /// # Errors
    /// If the string is not a member list, or if the list contains no participant.
    pub fn parse(&self, text: &[u8]) -> Result<Membership, MembershipError> {
        let text = String::from_utf8_lossy(text);
        let list = Membership::parse(&text, self.rules.multi_address_enabled)?;
        let has_voter = list.participants().next().is_some();
        has_voter.then_some(list).ok_or(MembershipError {
            key: None,
            reason: MembershipFault::NoParticipant,
        })
    }

    /// Stores a proposed list as seen. It may be acknowledged once the returned file is on disk. If
    /// the file cannot be written, the list is still seen for as long as the server runs.
    ///
    /// An older list replaces the last list seen, because it comes from a new leader that does not
    /// know the later reconfiguration, which was therefore never committed.
    pub fn see(&mut self, list: Membership) -> Option<MemberFile> {
        let known = self.newest().version;
        if !self.reconfig_enabled || list.version == known {
            return None;
        }
        if list.version < known {
            let (version, given_up) = (list.version, known);
            tracing::warn!(%version, %given_up, "discarding a proposed member list that was not committed");
        }
        self.last_seen = (list.version > self.committed.version).then_some(list);
        Some(MemberFile::LastSeen(self.last_seen.clone()))
    }

    /// Puts a committed list in force. Returns the change and the file to write; `None` if the list
    /// was already known or if lists cannot change.
    pub fn install(&mut self, list: Membership) -> Option<(MembershipChange, MemberFile)> {
        if !self.reconfig_enabled || list.version <= self.committed.version {
            return None;
        }
        let version = list.version;
        let previous = std::mem::replace(&mut self.committed, list);
        let own = self.own_addresses();
        let was = std::mem::replace(&mut self.own, own);
        self.last_seen.take_if(|seen| seen.version <= version);
        let change =
            MembershipChange::between(self.me, &previous, &was, &self.committed, &self.own);
        tracing::info!(%version, ?change, "member list installed");
        let own = self.committed.members.get(&self.me);
        let file = MemberFile::Committed {
            list: self.committed.clone(),
            has_client: own.is_some_and(|member| member.client.is_some()),
            removes_last_seen: self.last_seen.is_none(),
        };
        Some((change, file))
    }

    fn own_addresses(&self) -> OwnAddresses {
        let Some(member) = self.committed.members.get(&self.me) else {
            return self.own.clone();
        };
        OwnAddresses {
            quorum: member.quorum_addresses(),
            election: member.election_addresses(),
            client: member.client.clone().or_else(|| self.own.client.clone()),
        }
    }

    /// Returns the list with which this server's epoch as leader begins, which is the last one
    /// seen.
    ///
    /// A list without a version receives the first zxid of the epoch as its version, so that it
    /// takes precedence over the lists of unknown servers (ZOOKEEPER-1783). It is then a seen list,
    /// like a proposed one.
    pub fn epoch_config(&mut self, epoch: Epoch) -> (EpochConfig, Option<MemberFile>) {
        let mut file = None;
        if self.committed.version == ConfigVersion::default() && self.last_seen.is_none() {
            let version = ConfigVersion(Zxid::new(epoch, 0).0);
            file = self.see(Membership {
                version,
                ..self.committed.clone()
            });
        }
        let list = self.newest();
        let config = EpochConfig {
            text: Bytes::from(list.node_data()),
            version: list.version.0,
        };
        (config, file)
    }

    /// Converts a proposed list to the form in which this server leads with it.
    pub fn next_config(&self, list: &Membership) -> NextConfig {
        let own = list.participants().find(|member| member.sid == self.me);
        NextConfig {
            quorum: list.quorum(),
            text: Bytes::from(list.node_data()),
            leader_stays: own.is_some_and(|own| own.quorum_addresses() == self.own.quorum),
        }
    }
}

fn role_in(list: &Membership, sid: Sid) -> MemberRole {
    let member = list.members.get(&sid);
    member.map(|member| member.role).unwrap_or_default()
}
