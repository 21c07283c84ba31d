//! Who belongs to the ensemble, as this server knows it.
//!
//! ```text
//! proposed (reconfig, NEWLEADER)  --see-->      last seen   zoo.cfg.dynamic.next
//! committed                       --install-->  committed   zoo.cfg.dynamic.<version>, zoo.cfg
//! ```
//!
//! The *committed* list decides, and while a newer one was *seen*, that one has to agree. A list is
//! seen before it is acknowledged and installed before anything that was committed after it.
//! Memory changes first, then the files, so that a disk that fails cannot make this server count
//! votes by an old list.
//!
//! With `reconfigEnabled=false` lists of others are neither seen nor installed, and no file is
//! written: the list is the one that the server started with.
//!
//! Source: ensemble-protocol.md 2.3, 2.4, 13, 18 (QuorumPeer.setLastSeenQuorumVerifier,
//! setQuorumVerifier, processReconfig; Leader.lead).

mod change;
mod files;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;

use bytes::Bytes;
use config::Config;
use config::members::{HostPort, MemberRole};
use config::membership::{Membership, MembershipError, MembershipFault};
use config::reconfig::Rules;
use proto::{ConfigVersion, Epoch, Sid, Zxid};
use zab::leader::{EpochConfig, NextConfig};

pub(crate) use change::Change;
use files::MembershipFiles;
pub(crate) use plan::PlanFacts;

/// The member lists of this server, in memory and on disk.
#[derive(Debug)]
pub(crate) struct MembershipKeeper {
    me: Sid,
    rules: Rules,
    reconfig_enabled: bool,
    committed: Membership,
    /// Newer than `committed`.
    last_seen: Option<Membership>,
    /// Where this server listens; of the last list that had it, if it was removed.
    own: OwnAddresses,
    files: MembershipFiles,
}

/// Where this server listens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OwnAddresses {
    quorum: BTreeSet<HostPort>,
    election: BTreeSet<HostPort>,
    client: Option<HostPort>,
}

impl MembershipKeeper {
    /// The lists that the server starts with; `None` for a standalone server.
    pub(crate) fn new(config: &Config) -> Option<Self> {
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
            files: MembershipFiles::new(config.source.clone(), ensemble.dynamic_file.is_some()),
        })
    }

    /// Keeps a copy of zoo.cfg as `zoo.cfg.bak` while it still holds the member list, because
    /// the first list that is installed moves it out. To be done once, when the server starts.
    ///
    /// # Errors
    /// If it cannot be written: neither could the files of later lists.
    pub(crate) fn back_up(&self) -> io::Result<()> {
        if self.reconfig_enabled {
            self.files.back_up()
        } else {
            Ok(())
        }
    }

    /// This server.
    pub(crate) fn me(&self) -> Sid {
        self.me
    }

    /// What this server is by the committed list. A server that is not in the list follows without
    /// a vote, as a participant does.
    pub(crate) fn role(&self) -> MemberRole {
        role_in(&self.committed, self.me)
    }

    /// The list that decides.
    pub(crate) fn committed(&self) -> &Membership {
        &self.committed
    }

    /// A newer list that was proposed and is not known to be committed: a quorum of it has to agree
    /// too.
    pub(crate) fn last_seen(&self) -> Option<&Membership> {
        self.last_seen.as_ref()
    }

    /// Reads a list that came from elsewhere: of NEWLEADER, a reconfiguration, a notification.
    ///
    /// # Errors
    /// If it is none, or one in which nobody could ever decide.
    pub(crate) fn parse(&self, text: &[u8]) -> Result<Membership, MembershipError> {
        let text = String::from_utf8_lossy(text);
        let list = Membership::parse(&text, self.rules.multi_address_enabled)?;
        let has_voter = list.participants().next().is_some();
        has_voter.then_some(list).ok_or(MembershipError {
            key: None,
            reason: MembershipFault::NoParticipant,
        })
    }

    /// Takes note of a list that was proposed. Once this returns it is on disk, and may be
    /// acknowledged.
    ///
    /// An older list than the one last seen takes its place: a new leader has not heard of a
    /// reconfiguration, which therefore never was.
    ///
    /// # Errors
    /// If it cannot be written. It counts as seen all the same, for as long as the server runs.
    pub(crate) fn see(&mut self, list: Membership) -> io::Result<()> {
        let known = self.last_seen.as_ref().unwrap_or(&self.committed).version;
        if !self.reconfig_enabled || list.version == known {
            return Ok(());
        }
        if list.version < known {
            let (version, given_up) = (list.version, known);
            tracing::warn!(%version, %given_up, "a proposed member list is given up");
        }
        self.last_seen = (list.version > self.committed.version).then_some(list);
        match &self.last_seen {
            Some(list) => self.files.write_next(list),
            None => self.files.remove_next(),
        }
    }

    /// Puts a committed list in force. `None` if it was known already or lists cannot change.
    pub(crate) fn install(&mut self, list: Membership) -> Option<Change> {
        if !self.reconfig_enabled || list.version <= self.committed.version {
            return None;
        }
        let version = list.version;
        let previous = std::mem::replace(&mut self.committed, list);
        let own = self.own_addresses();
        let was = std::mem::replace(&mut self.own, own);
        self.last_seen.take_if(|seen| seen.version <= version);
        let change = Change::between(self.me, (&previous, &was), (&self.committed, &self.own));
        tracing::info!(%version, ?change, "member list installed");
        if let Err(err) = self.save() {
            // As Java: the ensemble has decided, and the other members know it.
            tracing::error!(%version, %err, "the committed member list cannot be saved");
        }
        Some(change)
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

    /// zoo.cfg names the new list before the proposal goes: there is one of them at any time.
    fn save(&mut self) -> io::Result<()> {
        let own = self.committed.members.get(&self.me);
        let has_client = own.is_some_and(|member| member.client.is_some());
        self.files.write_committed(&self.committed, has_client)?;
        match self.last_seen {
            Some(_) => Ok(()),
            None => self.files.remove_next(),
        }
    }

    /// The list that this server's epoch as leader begins with: the last one seen.
    ///
    /// A list without a version is given one with the first epoch, so that it goes before the
    /// lists of servers that nobody knows yet (ZOOKEEPER-1783). It counts as proposed: a list seen.
    ///
    /// # Errors
    /// As [`Self::see`].
    pub(crate) fn epoch_config(&mut self, epoch: Epoch) -> io::Result<EpochConfig> {
        if self.committed.version == ConfigVersion::default() && self.last_seen.is_none() {
            let version = ConfigVersion(Zxid::new(epoch, 0).0);
            self.see(Membership {
                version,
                ..self.committed.clone()
            })?;
        }
        let list = self.last_seen.as_ref().unwrap_or(&self.committed);
        Ok(EpochConfig {
            text: Bytes::from(list.node_data()),
            version: list.version.0,
        })
    }

    /// A list on its way, for the leader that this server is.
    pub(crate) fn next_config(&self, list: &Membership) -> NextConfig {
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
