//! Who decides: a majority, or for one mutant half of the voters.

use std::collections::BTreeSet;

use proto::Sid;
use proto::quorum::{Majority, QuorumVerifier};

use crate::mutant::Mutant;
use crate::plan::Plan;
use crate::server::sid_of;

/// The voters of an ensemble.
#[derive(Debug)]
pub(crate) struct Voters {
    majority: Majority,
    is_half_enough: bool,
}

pub(crate) fn of(plan: &Plan) -> Voters {
    Voters {
        majority: Majority::new((0..plan.voters).map(sid_of)),
        is_half_enough: plan.mutant == Mutant::QuorumOffByOne,
    }
}

impl QuorumVerifier for Voters {
    fn voters(&self) -> &BTreeSet<Sid> {
        self.majority.voters()
    }

    fn weight(&self, sid: Sid) -> u64 {
        self.majority.weight(sid)
    }

    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let voters = self.voters();
        let having = voters.iter().filter(|sid| has(**sid)).count();
        self.majority.is_quorum(has) || (self.is_half_enough && having >= voters.len() / 2)
    }
}
