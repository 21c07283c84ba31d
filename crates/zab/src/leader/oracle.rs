//! The oracle of an ensemble of two voters: it lets one server continue without the other.
//!
//! A majority of two voters consists of both, so the loss of either voter would end the service. An
//! external oracle, which names at most one of them, may let that server continue alone. The named
//! server then decides alone while the other server is not connected. Once the other server has
//! returned and receives proposals, both are needed again, whatever the oracle answers. The
//! operator of the oracle is responsible for never naming both servers at the same time.
//!
//! A grant applies only to the decisions that this server makes when the answer arrives. It does
//! not apply to later decisions, because the oracle may have named the other server by then. The
//! next decision waits for the next answer ([`Leader::oracle_question`]). To remain leader without
//! making a decision, this server needs only the last answer.
//!
//! Differs from Apache ZooKeeper: whether the other server is connected is checked for each
//! decision instead of once per tick. A follower without a vote does not count as the other server.
//!
//! Source: QuorumOracleMaj, Leader.addForwardingFollower.

use std::collections::BTreeSet;

use proto::quorum::QuorumVerifier;
use proto::{Sid, Zxid};

use super::{Action, Leader, Phase};
use crate::broadcast::decides_alone;
use crate::learner::LearnerKind;

/// Decision that waits for the oracle's answer: a step towards leading, or proposals that this
/// server's own log contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleQuestion {
    step: u8,
    upto: Option<Zxid>,
}

impl Leader {
    /// Handles the oracle's current answer, which states whether this server may continue alone.
    /// Call it several times per tick, and soon after [`Leader::oracle_question`] has changed. If
    /// it is never called, the leader behaves as if there were no oracle.
    pub fn handle_oracle(&mut self, grants: bool, now_ms: i64, out: &mut Vec<Action>) {
        if grants != self.oracle_grants {
            tracing::info!(sid = %self.sid, grants, "the oracle's answer has changed");
        }
        self.oracle_grants = grants;
        self.is_oracle_fresh = true;
        match self.phase {
            Phase::Discovering { .. } => self.check_epoch(now_ms, out),
            Phase::CollectingEpochAcks { .. } => self.check_epoch_acks(now_ms, out),
            Phase::Synchronising { .. } => self.check_new_leader_acks(now_ms, out),
            Phase::Broadcasting => self.commit_alone(out),
            Phase::Promising | Phase::Down => {}
        }
        self.is_oracle_fresh = false;
    }

    /// Returns the decision that waits for the oracle's answer, if any.
    pub fn oracle_question(&self) -> Option<OracleQuestion> {
        let (step, upto) = match &self.phase {
            Phase::Discovering { .. } => (0, None),
            Phase::CollectingEpochAcks { .. } => (1, None),
            Phase::Synchronising { acked } if acked.contains(&self.sid) => (2, None),
            Phase::Broadcasting if !self.is_retiring => {
                let own = self.proposals.acked(self.sid)?;
                (own > self.proposals.last_committed()).then_some((3, Some(own)))?
            }
            _ => return None,
        };
        self.needs_oracle().then_some(OracleQuestion { step, upto })
    }

    /// Returns the last answer of the oracle.
    pub fn oracle_grants(&self) -> bool {
        self.oracle_grants
    }

    /// Returns whether the oracle's answer matters. It matters if there are two voters and the
    /// other one is not connected.
    pub fn needs_oracle(&self) -> bool {
        decides_alone(&*self.quorum, self.sid, &self.forwarding_followers())
    }

    /// Returns whether the servers for which `has` is true form a quorum, or this server may decide
    /// alone.
    pub(super) fn decides(&self, quorum: &dyn QuorumVerifier, has: &dyn Fn(Sid) -> bool) -> bool {
        let is_granted = self.oracle_grants && self.is_oracle_fresh;
        quorum.is_quorum(has) || (is_granted && self.is_alone(quorum, has))
    }

    fn is_alone(&self, quorum: &dyn QuorumVerifier, has: &dyn Fn(Sid) -> bool) -> bool {
        has(self.sid) && decides_alone(quorum, self.sid, &self.forwarding_followers())
    }

    /// Returns whether every configuration that must agree has a quorum or can do without the other
    /// server.
    pub(super) fn may_be_alone(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let next = self.next.as_ref().map(|next| &next.quorum);
        let is_enough =
            |quorum: &dyn QuorumVerifier| quorum.is_quorum(has) || self.is_alone(quorum, has);
        is_enough(&*self.quorum) && next.is_none_or(|next| is_enough(&**next))
    }

    /// Passes the connected followers to the proposals if the oracle's grant applies now, and
    /// `None` otherwise.
    pub(super) fn update_quorum_of_proposals(&mut self) {
        let is_granted = self.oracle_grants && self.is_oracle_fresh;
        let present = is_granted.then(|| self.forwarding_followers());
        self.proposals.set_alone_without(present);
    }

    /// Commits the proposals that waited for the other server if that server has disconnected and
    /// the oracle permits this.
    fn commit_alone(&mut self, out: &mut Vec<Action>) {
        if let Some(upto) = self.proposals.acked(self.sid)
            && self.oracle_grants
            && !self.is_retiring
        {
            // This server itself has acknowledged `upto`, so `upto` was proposed.
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
