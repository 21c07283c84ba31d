//! The oracle of an ensemble of two: which server may go on without the other.
//!
//! A majority of two is both, so the loss of either would end service. An oracle outside, which
//! names one of them at most, may let that one go on alone: it decides by itself for as long as the
//! other is not there. Once the other has come back and is sent what is proposed, both are needed
//! again, whatever the oracle says. Whoever sets up the oracle answers for it that two servers are
//! never told to go on at the same time.
//!
//! Differs from Apache ZooKeeper: whether the other server is there is asked each time, not once a
//! tick; a follower without a vote does not count as the other server.
//!
//! Source: QuorumOracleMaj, Leader.addForwardingFollower.

use std::collections::BTreeSet;

use proto::Sid;
use proto::quorum::QuorumVerifier;

use super::{Action, Leader, Phase};
use crate::broadcast::decides_alone;
use crate::learner::LearnerKind;

impl Leader {
    /// What the oracle answers now: whether this server may go on alone. To be called several times
    /// a tick; an answer holds until the next one. A leader that gets none has no oracle.
    pub fn handle_oracle(&mut self, grants: bool, now_ms: i64, out: &mut Vec<Action>) {
        if grants != self.oracle_grants {
            tracing::info!(sid = %self.sid, grants, "the answer of the oracle has changed");
        }
        self.oracle_grants = grants;
        match self.phase {
            Phase::Discovering { .. } => self.check_epoch(now_ms, out),
            Phase::CollectingEpochAcks { .. } => self.check_epoch_acks(now_ms, out),
            Phase::Synchronising { .. } => self.check_new_leader_acks(now_ms, out),
            Phase::Broadcasting => self.commit_alone(out),
            Phase::Promising | Phase::Down => {}
        }
    }

    /// The last word of the oracle.
    pub fn oracle_grants(&self) -> bool {
        self.oracle_grants
    }

    /// Whether the oracle has a say: there are two voters, and the other is not here.
    pub fn needs_oracle(&self) -> bool {
        decides_alone(&*self.quorum, self.sid, &self.forwarding_followers())
    }

    /// Whether the servers for which `has` is true decide, or this one alone may.
    pub(super) fn decides(&self, quorum: &dyn QuorumVerifier, has: &dyn Fn(Sid) -> bool) -> bool {
        let may_alone =
            || has(self.sid) && decides_alone(quorum, self.sid, &self.forwarding_followers());
        quorum.is_quorum(has) || (self.oracle_grants && may_alone())
    }

    /// Has the accounting of proposals know whether this server decides alone, and whom not without.
    pub(super) fn tell_proposals(&mut self) {
        let present = self.oracle_grants.then(|| self.forwarding_followers());
        self.proposals.set_alone_without(present);
    }

    /// What waited for the other server waits no more, if it is gone and the oracle grants it.
    fn commit_alone(&mut self, out: &mut Vec<Action>) {
        if let Some(upto) = self.proposals.acked(self.sid)
            && self.oracle_grants
            && !self.is_retiring
        {
            // What this server itself has acknowledged was proposed.
            let _ = self.count(self.sid, upto, out);
        }
    }

    fn forwarding_followers(&self) -> BTreeSet<Sid> {
        let followers = self.links.values();
        let followers =
            followers.filter(|link| link.is_forwarding() && link.kind == LearnerKind::Follower);
        followers.filter_map(|link| link.sid).collect()
    }
}
