//! The oracle of an ensemble of two: which server may go on without the other.
//!
//! A majority of two is both, so the loss of either would end service. An oracle outside, which
//! names one of them at most, may let that one go on alone: it decides by itself for as long as the
//! other is not there. Once the other has come back and is sent what is proposed, both are needed
//! again, whatever the oracle says. Whoever sets up the oracle answers for it that two servers are
//! never told to go on at the same time.
//!
//! A granted answer counts for what this server decides at the moment at which it comes, and for
//! nothing that comes later: by then the other server may have been told to go on. What has to be
//! decided next waits for the next answer ([`Leader::oracle_question`]). That this server goes on
//! leading, without deciding anything, needs no more than the last answer.
//!
//! Differs from Apache ZooKeeper: whether the other server is there is asked each time, not once a
//! tick; a follower without a vote does not count as the other server.
//!
//! Source: QuorumOracleMaj, Leader.addForwardingFollower.

use std::collections::BTreeSet;

use proto::mutant::{self, Mutant};
use proto::quorum::QuorumVerifier;
use proto::{Sid, Zxid};

use super::{Action, Leader, Phase};
use crate::broadcast::decides_alone;
use crate::learner::LearnerKind;

/// What waits for the oracle's word: a step on the way to leading, or proposals that this server's own
/// log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleQuestion {
    step: u8,
    upto: Option<Zxid>,
}

impl Leader {
    /// What the oracle answers now: whether this server may go on alone. To be called several times
    /// a tick, and soon after there is another question. A leader that gets none has no oracle.
    pub fn handle_oracle(&mut self, grants: bool, now_ms: i64, out: &mut Vec<Action>) {
        if grants != self.oracle_grants {
            tracing::info!(sid = %self.sid, grants, "the answer of the oracle has changed");
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
        self.is_oracle_fresh = mutant::is(Mutant::OracleAnswerKept);
    }

    /// What waits for the oracle's word, if anything does.
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
        let is_granted = self.oracle_grants && self.is_oracle_fresh;
        quorum.is_quorum(has) || (is_granted && self.is_alone(quorum, has))
    }

    fn is_alone(&self, quorum: &dyn QuorumVerifier, has: &dyn Fn(Sid) -> bool) -> bool {
        has(self.sid) && decides_alone(quorum, self.sid, &self.forwarding_followers())
    }

    /// Whether this server could do without the other in every configuration that has a say.
    pub(super) fn may_be_alone(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let next = self.next.as_ref().map(|next| &next.quorum);
        let is_enough =
            |quorum: &dyn QuorumVerifier| quorum.is_quorum(has) || self.is_alone(quorum, has);
        is_enough(&*self.quorum) && next.is_none_or(|next| is_enough(&**next))
    }

    /// Has the accounting of proposals know whether this server decides alone, and whom not without.
    pub(super) fn tell_proposals(&mut self) {
        let is_granted = self.oracle_grants && self.is_oracle_fresh;
        let present = is_granted.then(|| self.forwarding_followers());
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
