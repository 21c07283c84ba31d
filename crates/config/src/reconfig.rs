//! Member list that results from a reconfiguration.
//!
//! ```text
//! newMembers                replaces the list: its lines, separated by line ends or commas
//! leaving                   1,2               ids
//! joining                   server.4=a:2888:3888;2181,server.5=...
//! ```
//!
//! Leaving servers are removed first, so that a server can move to an address that becomes free. A
//! leaving id may be unknown. A joining server with a known id replaces the old server.
//!
//! Each fault has the error code of Apache ZooKeeper 3.9.5. An exception that ZooKeeper does not
//! catch (an invalid number, a port above 65535, a list without voters) becomes `MarshallingError`.
//! The codes were measured, and `tests/it/reconfig.rs` checks them.
//!
//! There are differences from Apache ZooKeeper. Addresses are compared as text, without name
//! lookups. A negative weight is refused. A list that its own text would not reproduce (for
//! example, a host with a line end) is also refused, because members would then disagree about the
//! quorum.
//!
//! Source: PrepRequestProcessor (reconfig), QuorumPeer.processReconfig.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proto::{ErrorCode, Sid};
use thiserror::Error;

use crate::formats::java;
use crate::members::{HostPort, Member, MemberError};
use crate::membership::{Membership, MembershipError, MembershipFault};

/// Settings of the server that restrict member lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether members may have several addresses.
    pub multi_address_enabled: bool,
    /// Whether a single participant is a standalone server, so that an ensemble has at least two
    /// participants.
    pub standalone_enabled: bool,
}

/// Reason why a reconfiguration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconfigFault {
    /// The new list is invalid.
    #[error(transparent)]
    List(#[from] MembershipError),
    /// The number of participants is too small, or does not permit observers.
    #[error(transparent)]
    Counts(MembershipFault),
    /// Text in place of an id is not a number.
    #[error("{}", java::bad_number(.0))]
    NotAnId(String),
    /// The entry of a joining server does not have the form `key=value`.
    #[error("Wrong format of server string")]
    WrongForm,
    /// The value of a joining server is invalid.
    #[error("server.{sid}: {reason}")]
    Joiner {
        /// Id of the server.
        sid: Sid,
        /// Fault in the value.
        reason: MemberError,
    },
    /// The entry of a joining server does not contain a port for clients.
    #[error("Wrong format of server string - each server should have 3 ports specified")]
    NoClientPort,
    /// A joining server has the address of another server.
    #[error("{address} of server.{sid} conflicts with server.{owner}")]
    AddressTaken {
        /// Address in conflict.
        address: HostPort,
        /// Id of the joining server.
        sid: Sid,
        /// Id of the server that already has the address.
        owner: Sid,
    },
    /// An incremental change was requested, but the current list contains groups or weights.
    #[error(
        "Incremental reconfiguration requested but last configuration seen has a non-majority \
         quorum system"
    )]
    Hierarchical,
    /// There are fewer participants than an ensemble needs.
    #[error("new configuration must include at least {least} participants")]
    TooFewParticipants {
        /// Minimum number of participants.
        least: usize,
    },
    /// The list contains a character that would be interpreted differently when the list is read
    /// again.
    #[error("the new member list contains a character that its text form cannot represent")]
    Unwritable,
}

impl ReconfigFault {
    /// Returns the error code for the client.
    pub fn code(&self) -> ErrorCode {
        use MembershipFault as Fault;
        match self {
            Self::List(MembershipError { reason, .. }) | Self::Counts(reason) => match reason {
                Fault::Member(fault) => code_of_member(fault),
                Fault::NotANumber(_)
                | Fault::BadVersion(_)
                | Fault::NotAParticipant(_)
                | Fault::NoParticipant
                | Fault::ObserversWithoutParticipants
                | Fault::ObserversWithoutQuorum
                | Fault::Properties(_) => ErrorCode::MarshallingError,
                Fault::NegativeWeight(_)
                | Fault::InTwoGroups(_)
                | Fault::InNoGroup(_)
                | Fault::UnknownKey(_) => ErrorCode::BadArguments,
            },
            Self::Joiner { reason, .. } => code_of_member(reason),
            Self::NotAnId(_) => ErrorCode::MarshallingError,
            Self::WrongForm
            | Self::NoClientPort
            | Self::AddressTaken { .. }
            | Self::Hierarchical
            | Self::TooFewParticipants { .. }
            | Self::Unwritable => ErrorCode::BadArguments,
        }
    }
}

fn code_of_member(fault: &MemberError) -> ErrorCode {
    match fault {
        MemberError::PortOutOfRange { .. } => ErrorCode::MarshallingError,
        _ => ErrorCode::BadArguments,
    }
}

impl Membership {
    /// Parses the text of a complete new list.
    ///
    /// # Errors
    /// [`ReconfigFault`] if the new list is refused.
    pub fn replacement(new_members: &str, rules: Rules) -> Result<Self, ReconfigFault> {
        let text = new_members.replace(',', "\n");
        let list = Self::parse(&text, rules.multi_address_enabled)?;
        list.check_counts(rules.standalone_enabled)
            .map_err(ReconfigFault::Counts)?;
        list.finish_reconfig(rules)
    }

    /// Returns this list without the leaving servers and with the joining servers.
    ///
    /// # Errors
    /// [`ReconfigFault`] if the new list is refused.
    pub fn changed(
        &self,
        joining: Option<&str>,
        leaving: Option<&str>,
        rules: Rules,
    ) -> Result<Self, ReconfigFault> {
        if self.hierarchy.is_some() {
            return Err(ReconfigFault::Hierarchical);
        }
        let mut list = self.clone();
        for id in parts(leaving.unwrap_or_default(), ',') {
            list.members.remove(&parse_id(id)?);
        }
        let mut taken = TakenAddresses::of(&list);
        for text in parts(joining.unwrap_or_default(), ',') {
            let joiner = parse_joiner(text, rules)?;
            taken.check(&joiner)?;
            if let Some(replaced) = list.members.insert(joiner.sid, joiner.clone()) {
                taken.remove(&replaced);
            }
            taken.add(&joiner);
        }
        list.finish_reconfig(rules)
    }

    fn finish_reconfig(self, rules: Rules) -> Result<Self, ReconfigFault> {
        let least = if rules.standalone_enabled { 2 } else { 1 };
        if self.participants().count() < least {
            return Err(ReconfigFault::TooFewParticipants { least });
        }
        match Self::parse(&self.node_data(), rules.multi_address_enabled) {
            Ok(read) if read.version == self.version && read.has_same_members(&self) => Ok(self),
            _ => Err(ReconfigFault::Unwritable),
        }
    }
}

/// Returns the non-blank parts without surrounding blanks.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let parts = text.split(separator).map(java::trim);
    parts.filter(|part| !part.is_empty())
}

fn parse_id(text: &str) -> Result<Sid, ReconfigFault> {
    let id = java::parse_decimal(text);
    id.map(Sid)
        .ok_or_else(|| ReconfigFault::NotAnId(text.to_owned()))
}

/// Parses `server.4=...`. Like Java, ignores the text of the key before its last dot.
fn parse_joiner(text: &str, rules: Rules) -> Result<Member, ReconfigFault> {
    let mut parts = parts(text, '=');
    let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(ReconfigFault::WrongForm);
    };
    let sid = parse_id(key.rsplit_once('.').map_or(key, |(_, id)| id))?;
    let joiner = Member::parse(sid, value, rules.multi_address_enabled)
        .map_err(|reason| ReconfigFault::Joiner { sid, reason })?;
    match joiner.client {
        Some(_) => Ok(joiner),
        None => Err(ReconfigFault::NoClientPort),
    }
}

/// Addresses in use and their owners. In a list that was specified as a whole, servers may share an
/// address.
struct TakenAddresses {
    owners: BTreeMap<HostPort, BTreeSet<Sid>>,
}

impl TakenAddresses {
    fn of(list: &Membership) -> Self {
        let mut taken = Self {
            owners: BTreeMap::new(),
        };
        for member in list.members.values() {
            taken.add(member);
        }
        taken
    }

    fn add(&mut self, member: &Member) {
        for address in unique_addresses(member) {
            self.owners.entry(address).or_default().insert(member.sid);
        }
    }

    fn remove(&mut self, member: &Member) {
        for address in unique_addresses(member) {
            if let Some(owners) = self.owners.get_mut(&address) {
                owners.remove(&member.sid);
            }
        }
    }

    fn check(&self, joiner: &Member) -> Result<(), ReconfigFault> {
        for address in unique_addresses(joiner) {
            let mut owners = self.owners.get(&address).into_iter().flatten().copied();
            if let Some(owner) = owners.find(|owner| *owner != joiner.sid) {
                let sid = joiner.sid;
                return Err(ReconfigFault::AddressTaken {
                    address,
                    sid,
                    owner,
                });
            }
        }
        Ok(())
    }
}

/// Returns the addresses that other servers must not have: all except wildcard and loopback
/// addresses.
fn unique_addresses(member: &Member) -> impl Iterator<Item = HostPort> {
    let quorum = member.quorum_addresses();
    let all = quorum
        .into_iter()
        .chain(member.client.clone())
        .chain(member.election_addresses());
    all.filter(|address| {
        let is_local = |ip: IpAddr| ip.is_unspecified() || ip.is_loopback();
        address.host != "localhost" && !address.host.parse().is_ok_and(is_local)
    })
}
