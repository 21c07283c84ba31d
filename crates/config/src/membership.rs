//! Member list of an ensemble: the dynamic configuration, and the data of `/zookeeper/config`.
//!
//! ```text
//! server.1=a:2888:3888:participant;0.0.0.0:2181     in the order of the ids
//! server.2=b:2888:3888:participant;0.0.0.0:2181
//! group.1=1:2                                       only with hierarchical quorums
//! weight.1=1
//! weight.2=1
//! version=100000000                                 hexadecimal, no line end after it
//! ```
//!
//! Source: Java's QuorumMaj, QuorumHierarchical.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::quorum::{GroupId, Hierarchical, Majority, QuorumVerifier};
use proto::{ConfigVersion, Sid};
use thiserror::Error;

use crate::formats::java;
use crate::formats::properties::{Properties, PropertiesError, escape_value};
use crate::members::{Member, MemberError, MemberRole};

/// Groups and weights of a hierarchical quorum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchy {
    /// Group of each participant, and of other servers that a group contains.
    pub group_of: BTreeMap<Sid, i64>,
    /// Weight of each participant, and other written weights. A server with the weight 0 does not
    /// count in a quorum.
    pub weight_of: BTreeMap<Sid, u64>,
}

/// Member list of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// Version of the list. It is 0 before the first reconfiguration.
    pub version: ConfigVersion,
    /// All members by their ids.
    pub members: BTreeMap<Sid, Member>,
    /// Groups and weights, if at least one is present. Without them, every participant has one
    /// vote.
    pub hierarchy: Option<Hierarchy>,
}

/// Error of an invalid member list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct MembershipError {
    /// Key of the invalid line, if the fault concerns one line.
    pub key: Option<String>,
    /// Reason for the refusal.
    pub reason: MembershipFault,
}

/// Reason why a member list is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MembershipFault {
    /// The value of a `server.N` line is invalid.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// Text in place of an id or a weight is not a number.
    #[error("{}", java::bad_number(.0))]
    NotANumber(String),
    /// A weight is negative.
    #[error("weight {0} is less than 0")]
    NegativeWeight(i64),
    /// The `version` is not a hexadecimal number.
    #[error("{} under radix 16", java::bad_number(.0))]
    BadVersion(String),
    /// A server belongs to two groups.
    #[error("Server {0} is in multiple groups")]
    InTwoGroups(Sid),
    /// There are groups, but a participant does not belong to any of them.
    #[error("Server {0} is not in a group")]
    InNoGroup(Sid),
    /// A group contains a server that has neither a vote nor a weight.
    #[error("a group contains server {0}, which is not a participant and does not have a weight")]
    NotAParticipant(Sid),
    /// The key does not belong to a member list.
    #[error("Unrecognised parameter: {0}")]
    UnknownKey(String),
    /// The list does not contain a voter, and standalone servers are disabled.
    #[error("standaloneEnabled = false then number of participants should be >0")]
    NoParticipant,
    /// There are observers, but no voters.
    #[error("Observers w/o participants is an invalid configuration")]
    ObserversWithoutParticipants,
    /// The only participant is a standalone server, which does not accept observers.
    #[error("Observers w/o quorum is an invalid configuration")]
    ObserversWithoutQuorum,
    /// The text is not a properties file.
    #[error(transparent)]
    Properties(#[from] PropertiesError),
}

/// Returns whether a key belongs to a member list.
pub fn is_member_key(key: &str) -> bool {
    key.starts_with("server.") || is_hierarchy_key(key)
}

fn is_hierarchy_key(key: &str) -> bool {
    key.starts_with("group") || key.starts_with("weight")
}

impl Membership {
    /// Builds a list from keys and values. Ignores keys other than `version` and the keys of a
    /// member list.
    ///
    /// # Errors
    /// [`MembershipError`] if an entry is invalid. Returns the first fault in the given order.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
        multi_address_enabled: bool,
    ) -> Result<Self, MembershipError> {
        let mut list = Self::default();
        for (key, value) in entries {
            list.add(key, java::trim(value), multi_address_enabled)
                .map_err(|reason| MembershipError {
                    key: Some(key.to_owned()),
                    reason,
                })?;
        }
        list.finish_hierarchy()
            .map_err(|reason| MembershipError { key: None, reason })?;
        Ok(list)
    }

    /// Parses a list from text in the syntax of properties, such as the data of
    /// `/zookeeper/config`.
    ///
    /// # Errors
    /// If the text does not have this syntax, contains another key, or is invalid as in
    /// [`Self::from_entries`].
    pub fn parse(text: &str, multi_address_enabled: bool) -> Result<Self, MembershipError> {
        let properties =
            Properties::parse(&as_properties(text)).map_err(|error| MembershipError {
                key: None,
                reason: error.into(),
            })?;
        let last_of_each: BTreeMap<&str, &str> = properties
            .entries()
            .iter()
            .map(|entry| (java::trim(&entry.key), entry.value.as_str()))
            .collect();
        let mut keys = last_of_each.keys();
        if let Some(key) = keys.find(|key| !is_member_key(key) && **key != "version") {
            return Err(MembershipError {
                key: Some((*key).to_owned()),
                reason: MembershipFault::UnknownKey((*key).to_owned()),
            });
        }
        Self::from_entries(last_of_each, multi_address_enabled)
    }

    /// Returns the members that vote, in the order of their ids.
    pub fn participants(&self) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .filter(|member| member.role == MemberRole::Participant)
    }

    /// Returns the members that do not vote, in the order of their ids.
    pub fn observers(&self) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .filter(|member| member.role == MemberRole::Observer)
    }

    /// Refuses a list with which a server could not start.
    ///
    /// # Errors
    /// If the number of participants or observers is invalid.
    pub fn check_counts(&self, standalone_enabled: bool) -> Result<(), MembershipFault> {
        let has_observers = self.observers().next().is_some();
        match self.participants().count() {
            0 if !standalone_enabled => Err(MembershipFault::NoParticipant),
            0 if has_observers => Err(MembershipFault::ObserversWithoutParticipants),
            1 if standalone_enabled && has_observers => {
                Err(MembershipFault::ObserversWithoutQuorum)
            }
            _ => Ok(()),
        }
    }

    /// Returns the quorum verifier of the list: a majority of the participants or, with groups, a
    /// majority of the weights in a majority of the groups.
    pub fn quorum(&self) -> Arc<dyn QuorumVerifier> {
        let voters = self.participants().map(|member| member.sid);
        let Some(hierarchy) = &self.hierarchy else {
            return Arc::new(Majority::new(voters));
        };
        let mut groups: BTreeMap<GroupId, Vec<Sid>> = BTreeMap::new();
        for (sid, group) in &hierarchy.group_of {
            groups.entry(GroupId(*group)).or_default().push(*sid);
        }
        let weights = hierarchy
            .weight_of
            .iter()
            .map(|(sid, weight)| (*sid, *weight));
        match Hierarchical::new(voters, groups, weights) {
            Ok(hierarchical) => Arc::new(hierarchical),
            // Only a manually built list contains a participant without a group. Such a list never
            // has a quorum.
            Err(_) => Arc::new(Majority::new([])),
        }
    }

    /// Returns whether both lists contain the same members, roles, addresses and weights. Ignores
    /// the versions.
    ///
    /// Addresses are compared as text. Source: `equals` of QuorumMaj, QuorumHierarchical.
    pub fn has_same_members(&self, other: &Self) -> bool {
        let same = |(one, two): (&Member, &Member)| one.is_same(two);
        self.hierarchy == other.hierarchy
            && self.members.len() == other.members.len()
            && self.members.values().zip(other.members.values()).all(same)
    }

    /// Returns the data of `/zookeeper/config`: members, groups, weights, and the version at the
    /// end.
    pub fn node_data(&self) -> String {
        let mut lines = self.lines_with(Member::to_string);
        lines.push(format!("version={}", self.version));
        lines.join("\n")
    }

    /// Returns the contents of a dynamic file, with the lines sorted as text. Only the file of a
    /// configuration that is not yet in effect contains its version. Other files have the version
    /// in their name.
    ///
    /// Unlike Java, this function escapes text that a properties file would interpret differently.
    pub fn file_text(&self, with_version: bool) -> String {
        let mut lines = self.lines_with(|member| escape_value(&member.to_string()));
        if with_version {
            lines.push(format!("version={}", self.version));
        }
        lines.sort_unstable();
        lines.join("\n")
    }

    fn lines_with(&self, show: impl Fn(&Member) -> String) -> Vec<String> {
        let mut lines: Vec<String> = self
            .members
            .iter()
            .map(|(sid, member)| format!("server.{sid}={}", show(member)))
            .collect();
        if let Some(hierarchy) = &self.hierarchy {
            let mut groups: BTreeMap<i64, Vec<String>> = BTreeMap::new();
            for (sid, group) in &hierarchy.group_of {
                groups.entry(*group).or_default().push(sid.to_string());
            }
            lines.extend(
                groups
                    .iter()
                    .map(|(id, sids)| format!("group.{id}={}", sids.join(":"))),
            );
            let weights = hierarchy.weight_of.iter();
            lines.extend(weights.map(|(sid, weight)| format!("weight.{sid}={weight}")));
        }
        lines
    }

    fn add(
        &mut self,
        key: &str,
        value: &str,
        multi_address_enabled: bool,
    ) -> Result<(), MembershipFault> {
        let id = || parse_number(key.split_once('.').map_or(key, |(_, id)| id));
        if key.starts_with("server.") {
            let sid = Sid(id()?);
            self.members
                .insert(sid, Member::parse(sid, value, multi_address_enabled)?);
        } else if key.starts_with("group") {
            let group = id()?;
            let group_of = &mut self.hierarchy.get_or_insert_default().group_of;
            for text in java::split(value, ':') {
                let sid = Sid(parse_number(text)?);
                if group_of.insert(sid, group).is_some() {
                    return Err(MembershipFault::InTwoGroups(sid));
                }
            }
        } else if key.starts_with("weight") {
            let sid = Sid(id()?);
            let weight = parse_number(value)?;
            let weight = u64::try_from(weight).or(Err(MembershipFault::NegativeWeight(weight)))?;
            self.hierarchy
                .get_or_insert_default()
                .weight_of
                .insert(sid, weight);
        } else if key == "version" {
            self.version = ConfigVersion::parse(value)
                .ok_or_else(|| MembershipFault::BadVersion(value.to_owned()))?;
        }
        Ok(())
    }

    /// Checks that every participant belongs to a group, and adds the weight 1 for a participant
    /// without a weight. Other servers in a group must have a weight.
    fn finish_hierarchy(&mut self) -> Result<(), MembershipFault> {
        let Some(hierarchy) = &mut self.hierarchy else {
            return Ok(());
        };
        for member in self
            .members
            .values()
            .filter(|m| m.role == MemberRole::Participant)
        {
            if !hierarchy.group_of.contains_key(&member.sid) {
                return Err(MembershipFault::InNoGroup(member.sid));
            }
            hierarchy.weight_of.entry(member.sid).or_insert(1);
        }
        match hierarchy
            .group_of
            .keys()
            .find(|sid| !hierarchy.weight_of.contains_key(sid))
        {
            Some(sid) => Err(MembershipFault::NotAParticipant(*sid)),
            None => Ok(()),
        }
    }
}

fn parse_number(text: &str) -> Result<i64, MembershipFault> {
    java::parse_decimal(text).ok_or_else(|| MembershipFault::NotANumber(text.to_owned()))
}

/// Encodes the text as the bytes of a properties file, with Latin-1 and escapes.
///
/// Java reads the bytes of a file and text in memory in two different ways. This crate uses one
/// parser, and encodes text for it. Source: QuorumPeer.configFromString (StringReader).
fn as_properties(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut is_escaped = false;
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte) => bytes.push(byte),
            Err(_) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // A backslash that already precedes the character has no effect in Java, and
                    // becomes part of the escape.
                    let backslash = if is_escaped { "" } else { "\\" };
                    is_escaped = false;
                    bytes.extend_from_slice(format!("{backslash}u{unit:04x}").as_bytes());
                }
            }
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "server.1=a:1:2:participant;0.0.0.0:2181\n\
                         server.2=b:1:2:participant;0.0.0.0:2181\n\
                         server.10=c:1:2:observer;0.0.0.0:2181\n\
                         version=100000000";

    #[test]
    fn non_ascii_text_is_kept() {
        for host in ["h\u{e9}te", "\u{436}", "a\u{fffd}b", "\u{1f600}"] {
            for written in [host.to_owned(), format!("\\{host}")] {
                let text = format!("server.1={written}:1:2:participant\nversion=0");
                let list = Membership::parse(&text, false).unwrap();
                let node_data = list.node_data();
                assert!(node_data.contains(host), "{node_data}");
                assert_eq!(Membership::parse(&node_data, false).unwrap(), list);
            }
        }
    }

    #[test]
    fn a_dynamic_file_is_read_as_utf8() {
        for host in ["h\u{e9}te", "a\\b", "a\u{436}"] {
            let mut list = Membership::parse("server.1=a:1:2;3", false).unwrap();
            let member = list.members.get_mut(&Sid(1)).unwrap();
            member.addresses = vec![crate::members::MemberAddress {
                host: host.to_owned(),
                quorum_port: 1,
                election_port: 2,
            }];
            let properties = Properties::parse(list.file_text(true).as_bytes()).unwrap();
            let entries = properties.entries().iter();
            let entries = entries.map(|entry| (entry.key.as_str(), entry.value.as_str()));
            assert_eq!(Membership::from_entries(entries, false).unwrap(), list);
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let text = "server.1=a:1:2\nclientPort=1\nversion=0";
        assert_eq!(refusal(text), "Unrecognised parameter: clientPort");
    }

    #[test]
    fn members_are_compared_without_version_and_order_of_addresses() {
        let one = Membership::parse("server.1=a:1:2|b:1:2;3\nversion=1", true).unwrap();
        let two = Membership::parse("server.1=b:1:2|a:1:2;3\nversion=2", true).unwrap();
        assert!(one.has_same_members(&two));
        for other in [
            "server.1=a:1:2|b:1:2;4",
            "server.1=a:1:2|b:1:2",
            "server.1=a:1:2|b:1:3;3",
            "server.1=a:1:2|b:1:2:observer;3",
            "server.2=a:1:2|b:1:2;3",
            "server.1=a:1:2|b:1:2;3\nserver.2=c:1:2;3",
            "server.1=a:1:2|b:1:2;3\ngroup.1=1",
        ] {
            let other = Membership::parse(other, true).unwrap();
            assert!(!one.has_same_members(&other), "{}", other.node_data());
        }
    }

    #[test]
    fn participants_decide_by_majority_or_in_their_groups() {
        let servers = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2:observer";
        let decides = |text: &str, sids: &[i64]| {
            let list = Membership::parse(text, false).unwrap();
            list.quorum().is_quorum(&|sid| sids.contains(&sid.0))
        };
        assert!(decides(servers, &[1, 3]) && !decides(servers, &[1, 4]));
        let grouped = format!("{servers}\ngroup.1=1:2:3\nweight.1=3");
        assert!(decides(&grouped, &[1]) && !decides(&grouped, &[2, 3]));
    }

    fn refusal(text: &str) -> String {
        Membership::parse(text, false).unwrap_err().to_string()
    }

    #[test]
    fn the_config_node_has_members_by_id_and_the_version_last() {
        let list = Membership::parse(THREE, false).unwrap();
        assert_eq!(list.version, ConfigVersion(1 << 32));
        assert_eq!(list.node_data(), THREE);
        assert_eq!(
            (list.participants().count(), list.observers().count()),
            (2, 1)
        );
    }

    #[test]
    fn a_dynamic_file_is_sorted_as_text_and_has_no_line_end() {
        let list = Membership::parse(THREE, false).unwrap();
        let text = list.file_text(true);
        let keys: Vec<_> = text
            .lines()
            .map(|line| line.split('=').next().unwrap())
            .collect();
        assert_eq!(keys, ["server.10", "server.1", "server.2", "version"]);
        assert!(!text.ends_with('\n') && !list.file_text(false).contains("version"));
    }

    #[test]
    fn groups_and_weights_are_read_and_written() {
        let text =
            "group.1=1:2\nweight.2=0\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2:observer";
        let list = Membership::parse(text, false).unwrap();
        let lines = "group.1=1:2\nserver.1=a:1:2:participant\nserver.2=b:1:2:participant\n\
                     server.3=c:1:2:observer\nweight.1=1\nweight.2=0";
        assert_eq!(list.file_text(false), lines);
        assert_eq!(Membership::parse(&list.node_data(), false).unwrap(), list);
    }

    #[test]
    fn a_wrong_group_is_refused() {
        let servers = "server.1=a:1:2\nserver.2=b:1:2\n";
        assert_eq!(
            refusal(&format!("{servers}group.1=1")),
            "Server 2 is not in a group"
        );
        let twice = format!("{servers}group.1=1\ngroup.2=1:2");
        assert_eq!(refusal(&twice), "Server 1 is in multiple groups");
        let stranger = format!("{servers}group.1=1:2:3");
        assert!(refusal(&stranger).starts_with("a group contains server 3"));
        assert_eq!(refusal("group.x=1"), "For input string: \"x\"");
        assert_eq!(refusal("weight.1=-1"), "weight -1 is less than 0");
    }

    #[test]
    fn an_invalid_id_is_refused_with_its_line() {
        let error = Membership::parse("server.one=a:1:2", false).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("server.one"));
        assert_eq!(error.to_string(), "For input string: \"one\"");
    }

    #[test]
    fn a_version_is_a_hexadecimal_number() {
        assert_eq!(
            refusal("version=xyz"),
            "For input string: \"xyz\" under radix 16"
        );
    }
}
