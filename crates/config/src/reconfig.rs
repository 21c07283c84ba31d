//! The member list that a reconfiguration asks for.
//!
//! ```text
//! newMembers                replaces the list: its lines, or the same with commas
//! leaving                   1,2               ids
//! joining                   server.4=a:2888:3888;2181,server.5=...
//! ```
//!
//! Those who leave go first, so that a server can move to an address that becomes free. An id that
//! is not there may leave; one that is there may join, and is replaced.
//!
//! Each fault has the code that Apache ZooKeeper 3.9.5 answers. Where it throws what it does not
//! catch (a number that is none, a port beyond 65535, nobody who votes) that is `MarshallingError`;
//! measured, and pinned by `tests/it/reconfig.rs`.
//!
//! Differs from Apache ZooKeeper: addresses are compared as text, without a look-up of names; a
//! negative weight is refused, and so is a list that its own text would not give back (a host with
//! a line end in it, for one), because members would then differ about who decides.
//!
//! Source: PrepRequestProcessor (reconfig), QuorumPeer.processReconfig.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proto::{ErrorCode, Sid};
use thiserror::Error;

use crate::java;
use crate::members::{HostPort, Member, MemberError};
use crate::membership::{Membership, MembershipError, MembershipFault};

/// Settings of the server that decides what a list may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Members may have several addresses.
    pub multi_address_enabled: bool,
    /// A single participant is a standalone server, so an ensemble has two at least.
    pub standalone_enabled: bool,
}

/// Why a reconfiguration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconfigFault {
    /// The new list is none.
    #[error(transparent)]
    List(#[from] MembershipError),
    /// Too many or too few participants or observers.
    #[error(transparent)]
    Counts(MembershipFault),
    /// Text in the place of an id.
    #[error("{}", java::bad_number(.0))]
    NotAnId(String),
    /// A joining server without, or with more than one, `=`.
    #[error("Wrong format of server string")]
    WrongForm,
    /// The value of a joining server.
    #[error("server.{sid}: {reason}")]
    Joiner {
        /// The server.
        sid: Sid,
        /// What is wrong with it.
        reason: MemberError,
    },
    /// A joining server whose clients have nowhere to go.
    #[error("Wrong format of server string - each server should have 3 ports specified")]
    NoClientPort,
    /// A joining server at an address that another one has.
    #[error("{address} of server.{sid} conflicts with server.{owner}")]
    AddressTaken {
        /// The address.
        address: HostPort,
        /// The server that joins.
        sid: Sid,
        /// The server that has it.
        owner: Sid,
    },
    /// Servers come and go one by one only where each has one vote.
    #[error(
        "Incremental reconfiguration requested but last configuration seen has a non-majority \
         quorum system"
    )]
    Hierarchical,
    /// Fewer than an ensemble needs.
    #[error("new configuration must include at least {least} participants")]
    TooFewParticipants {
        /// How many it needs.
        least: usize,
    },
    /// The list has a character that means something else when it is read again.
    #[error("the new member list cannot be written as text")]
    Unwritable,
}

impl ReconfigFault {
    /// What the client is told.
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
    /// The list of this text, which is the whole list.
    ///
    /// # Errors
    /// A [`ReconfigFault`].
    pub fn replacement(new_members: &str, rules: Rules) -> Result<Self, ReconfigFault> {
        let text = new_members.replace(',', "\n");
        let list = Self::parse(&text, rules.multi_address_enabled)?;
        list.check_counts(rules.standalone_enabled)
            .map_err(ReconfigFault::Counts)?;
        list.finish_reconfig(rules)
    }

    /// This list without some servers and with others.
    ///
    /// # Errors
    /// A [`ReconfigFault`].
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

/// The parts that are more than blanks, without the blanks around them.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let parts = text.split(separator).map(java::trim);
    parts.filter(|part| !part.is_empty())
}

fn parse_id(text: &str) -> Result<Sid, ReconfigFault> {
    let id = java::parse_decimal(text);
    id.map(Sid)
        .ok_or_else(|| ReconfigFault::NotAnId(text.to_owned()))
}

/// `server.4=...`. What stands before the last dot is not looked at, as in Java.
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

/// Who listens where. A list that was given as a whole may have servers at one address.
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

/// The addresses of a server that no other may have: all but wildcards and loopback ones.
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
