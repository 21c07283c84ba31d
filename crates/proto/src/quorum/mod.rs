//! Quorum verifiers: the sets of servers that may decide.
//!
//! An election, a new epoch, the history of a new leader and each transaction are decided by a
//! *quorum* of the voters. The ensemble is safe because any two quorums have a server in common, so
//! a later quorum always knows the decisions of an earlier one.
//!
//! A set of servers is passed as a predicate (`has(sid)`) instead of a collection, because the sets
//! have very different representations (votes of a round, positions of logs, open connections) and
//! calling a predicate does not allocate.
//!
//! Source: QuorumMaj, QuorumHierarchical.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use crate::Sid;

/// A rule that decides which sets of servers are quorums.
///
/// Invariants: two quorums always have a server in common, and a quorum to which servers are added
/// remains a quorum.
pub trait QuorumVerifier: Debug + Send + Sync {
    /// Returns the voters, ordered by id.
    fn voters(&self) -> &BTreeSet<Sid>;

    /// Returns the weight of a server's vote. A server with weight 0 cannot be elected.
    fn weight(&self, sid: Sid) -> u64;

    /// Returns whether the servers for which `has` is true form a quorum.
    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool;

    /// Returns how many of the servers for which `has` is true may fail, in any combination, while
    /// the remaining servers still form a quorum. Returns `None` if these servers do not form a
    /// quorum even without a failure.
    fn failures_tolerated(&self, has: &dyn Fn(Sid) -> bool) -> Option<usize>;

    /// Returns whether the server is a voter.
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

    fn failures_tolerated(&self, has: &dyn Fn(Sid) -> bool) -> Option<usize> {
        (**self).failures_tolerated(has)
    }

    fn is_voter(&self, sid: Sid) -> bool {
        (**self).is_voter(sid)
    }
}

/// Quorum verifier in which more than half of the voters, with equal weights, form a quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Majority {
    voters: BTreeSet<Sid>,
}

impl Majority {
    /// Creates the verifier for these voters. Without voters, no set of servers is a quorum.
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

    /// Returns 1 for all servers, including servers that are not voters.
    fn weight(&self, _sid: Sid) -> u64 {
        1
    }

    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let present = self.voters.iter().filter(|sid| has(**sid)).count();
        present > self.voters.len() / 2
    }

    fn failures_tolerated(&self, has: &dyn Fn(Sid) -> bool) -> Option<usize> {
        let present = self.voters.iter().filter(|sid| has(**sid)).count();
        present.checked_sub(self.voters.len() / 2 + 1)
    }
}

/// Number of a group (`group.<id>` in a configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub i64);

/// Reason why groups and weights are not a valid quorum system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumFault {
    /// The groups are not disjoint.
    #[error("server {} is in group {} and in group {}", .sid, .groups[0].0, .groups[1].0)]
    InTwoGroups {
        /// Id of the server.
        sid: Sid,
        /// Groups that contain the server.
        groups: [GroupId; 2],
    },
    /// A voter is not in any group.
    #[error("server {sid} is a participant, but is not in a group")]
    WithoutGroup {
        /// Id of the server.
        sid: Sid,
    },
}

/// Servers in groups (data centres). A quorum has more than half of the weight in more than half of
/// the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchical {
    voters: BTreeSet<Sid>,
    weights: BTreeMap<Sid, u64>,
    /// Members with a weight above 0, by group. A group without such members is ignored.
    groups: BTreeMap<GroupId, BTreeSet<Sid>>,
}

impl Hierarchical {
    /// Weight of a server without a configured weight.
    pub const DEFAULT_WEIGHT: u64 = 1;

    /// Creates a quorum system of disjoint groups. As in ZooKeeper, servers that are in a group but
    /// are not voters (observers) count like voters, so they should not be listed.
    ///
    /// # Errors
    /// If a server is in two groups, or if a voter is not in any group.
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

    /// Returns the sum of the weights. It has 128 bits, because a configuration may contain weights
    /// near 2^64.
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

    fn failures_tolerated(&self, has: &dyn Fn(Sid) -> bool) -> Option<usize> {
        // Number of failures that take away the majority, for each group that has a majority. The
        // servers with the largest weights fail first.
        let mut costs: Vec<usize> = Vec::new();
        for members in self.groups.values() {
            let half = self.weigh(members.iter()) / 2;
            let present = members.iter().filter(|sid| has(**sid));
            let mut weights: Vec<u128> = present.map(|sid| self.weigh([*sid].iter())).collect();
            weights.sort_unstable();
            let mut left: u128 = weights.iter().sum();
            let mut cost = 0;
            while left > half {
                left -= weights.pop().unwrap_or(left);
                cost += 1;
            }
            costs.extend((cost > 0).then_some(cost));
        }
        costs.sort_unstable();
        let spare = costs.len().checked_sub(self.groups.len() / 2 + 1)?;
        let fatal: usize = costs.iter().take(spare + 1).sum();
        fatal.checked_sub(1)
    }
}

#[cfg(test)]
mod tests;
