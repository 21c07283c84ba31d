//! Quorum arithmetic: which sets of servers may decide.
//!
//! A vote, an epoch, a history and a transaction are each decided by a *quorum* of the voters.
//! What keeps the ensemble safe is that any two quorums have a server in common, so whatever one
//! quorum decided, a later one hears of.
//!
//! A set of servers is passed as a question (`has(sid)`) instead of a collection: the sets live in
//! very different shapes (votes of a round, positions of logs, open connections), and asking
//! allocates nothing.
//!
//! Source: QuorumMaj, QuorumHierarchical.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use crate::Sid;

/// Decides which sets of servers are quorums.
///
/// Invariant: two quorums always have a server in common, and adding servers to a quorum leaves it
/// one.
pub trait QuorumVerifier: Debug + Send + Sync {
    /// The servers that have a say, in order.
    fn voters(&self) -> &BTreeSet<Sid>;

    /// How much a server's word counts. A server of weight 0 cannot be elected.
    fn weight(&self, sid: Sid) -> u64;

    /// Whether the servers for which `has` is true are a quorum.
    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool;

    /// Whether the server has a say.
    fn is_voter(&self, sid: Sid) -> bool {
        self.voters().contains(&sid)
    }
}

impl<V: QuorumVerifier + ?Sized> QuorumVerifier for Arc<V> {
    fn voters(&self) -> &BTreeSet<Sid> {
        (**self).voters()
    }

    fn weight(&self, sid: Sid) -> u64 {
        (**self).weight(sid)
    }

    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        (**self).is_quorum(has)
    }

    fn is_voter(&self, sid: Sid) -> bool {
        (**self).is_voter(sid)
    }
}

/// More than half of the voters, each as good as the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Majority {
    voters: BTreeSet<Sid>,
}

impl Majority {
    /// A majority of these. Of no voters there is none.
    pub fn new(voters: impl IntoIterator<Item = Sid>) -> Self {
        Self {
            voters: voters.into_iter().collect(),
        }
    }
}

impl QuorumVerifier for Majority {
    fn voters(&self) -> &BTreeSet<Sid> {
        &self.voters
    }

    /// 1 for everybody, also for a server that is no voter.
    fn weight(&self, _sid: Sid) -> u64 {
        1
    }

    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let present = self.voters.iter().filter(|sid| has(**sid)).count();
        present > self.voters.len() / 2
    }
}

/// The number of a group (`group.<id>` in a configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub i64);

/// Why groups and weights are no quorum system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumFault {
    /// The groups must be disjoint.
    #[error("server {} is in group {} and in group {}", .sid, .groups[0].0, .groups[1].0)]
    InTwoGroups {
        /// The server.
        sid: Sid,
        /// The two groups.
        groups: [GroupId; 2],
    },
    /// Every voter must be in a group.
    #[error("server {sid} is a participant but in no group")]
    WithoutGroup {
        /// The server.
        sid: Sid,
    },
}

/// Servers in groups (data centres): more than half of the weight in more than half of the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchical {
    voters: BTreeSet<Sid>,
    weights: BTreeMap<Sid, u64>,
    /// Members that weigh something, by group; a group without any does not count.
    groups: BTreeMap<GroupId, BTreeSet<Sid>>,
}

impl Hierarchical {
    /// Weight of a server for which none is given.
    pub const DEFAULT_WEIGHT: u64 = 1;

    /// A quorum system of disjoint groups. Servers that are in a group but no voters (observers)
    /// count like the others, as they do in ZooKeeper: better not list them.
    ///
    /// # Errors
    /// If a server is in two groups, or a voter in none.
    pub fn new(
        voters: impl IntoIterator<Item = Sid>,
        groups: impl IntoIterator<Item = (GroupId, Vec<Sid>)>,
        weights: impl IntoIterator<Item = (Sid, u64)>,
    ) -> Result<Self, QuorumFault> {
        let voters: BTreeSet<Sid> = voters.into_iter().collect();
        let mut weights: BTreeMap<Sid, u64> = weights.into_iter().collect();
        let mut group_of = BTreeMap::<Sid, GroupId>::new();
        let mut counted = BTreeMap::<GroupId, BTreeSet<Sid>>::new();
        for (group, members) in groups {
            for sid in members {
                if let Some(other) = group_of.insert(sid, group).filter(|other| *other != group) {
                    let groups = [other, group];
                    return Err(QuorumFault::InTwoGroups { sid, groups });
                }
                if *weights.entry(sid).or_insert(Self::DEFAULT_WEIGHT) > 0 {
                    counted.entry(group).or_default().insert(sid);
                }
            }
        }
        if let Some(sid) = voters.iter().find(|sid| !group_of.contains_key(sid)) {
            return Err(QuorumFault::WithoutGroup { sid: *sid });
        }
        Ok(Self {
            voters,
            weights,
            groups: counted,
        })
    }

    /// Sums in 128 bits, because nothing keeps a configuration from weights near 2^64.
    fn weigh<'a>(&self, sids: impl Iterator<Item = &'a Sid>) -> u128 {
        sids.map(|sid| u128::from(self.weight(*sid))).sum()
    }
}

impl QuorumVerifier for Hierarchical {
    fn voters(&self) -> &BTreeSet<Sid> {
        &self.voters
    }

    fn weight(&self, sid: Sid) -> u64 {
        self.weights.get(&sid).copied().unwrap_or_default()
    }

    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let won = self.groups.values().filter(|members| {
            let present = self.weigh(members.iter().filter(|sid| has(**sid)));
            present > self.weigh(members.iter()) / 2
        });
        won.count() > self.groups.len() / 2
    }
}

#[cfg(test)]
mod tests;
