//! Deliberate bugs in the code that ships, for a simulator that must catch each of them.
//!
//! Without the feature `mutants`, which only tests turn on, none can be chosen and nothing of this is
//! left in the code. With it, nothing changes until one is chosen.

use std::sync::Arc;

use proto::quorum::QuorumVerifier;

/// One duty that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Half of the voters are a quorum for a leader.
    QuorumOffByOne,
    /// Two commits of one turn change places.
    CommitsOutOfOrder,
    /// closeSession leaves the ephemerals.
    EphemeralsStay,
    /// Who holds a session's connection is not looked at.
    OwnerIgnored,
    /// What was logged and not applied is forgotten with the role: votes do not name it.
    VotesByApplied,
    /// ZOOKEEPER-1818: a leader goes on naming the epoch it was elected with.
    LeaderKeepsElectedEpoch,
    /// ZOOKEEPER-3526: the committed log survives a snapshot that goes beyond it.
    CommittedLogKeptOverSnapshot,
    /// ZOOKEEPER-4925: what DIFF brought is missing in the committed log.
    DiffNotInCommittedLog,
}

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Chooses the bug of everything that runs on this thread from here on. `false`: there are none in
/// this build.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) -> bool {
    CHOSEN.set(mutant);
    true
}

/// Chooses the bug of everything that runs on this thread from here on. `false`: there are none in
/// this build.
#[cfg(not(feature = "mutants"))]
pub const fn choose(_: Option<Mutant>) -> bool {
    false
}

/// Whether this bug is chosen.
#[cfg(feature = "mutants")]
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}

/// Whether this bug is chosen.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}

/// What counts as a quorum of these voters.
pub fn quorum(voters: Arc<dyn QuorumVerifier>) -> Arc<dyn QuorumVerifier> {
    match is(Mutant::QuorumOffByOne) {
        true => Arc::new(HalfIsEnough(voters)),
        false => voters,
    }
}

#[derive(Debug)]
struct HalfIsEnough(Arc<dyn QuorumVerifier>);

impl QuorumVerifier for HalfIsEnough {
    fn voters(&self) -> &std::collections::BTreeSet<proto::Sid> {
        self.0.voters()
    }

    fn weight(&self, sid: proto::Sid) -> u64 {
        self.0.weight(sid)
    }

    fn is_quorum(&self, has: &dyn Fn(proto::Sid) -> bool) -> bool {
        let voters = self.voters();
        let having = voters.iter().filter(|sid| has(**sid)).count();
        self.0.is_quorum(has) || having >= voters.len() / 2
    }
}
