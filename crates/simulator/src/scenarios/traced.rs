//! Traces of scripts for the formal model.

use super::guards::SEED;
use super::{GUARDS, SCENARIOS};
use crate::ModelTrace;
use crate::checks::trace::Trace;
use crate::ensemble::Ensemble;
use crate::storms::plan::Plan;

/// Guards whose scripts contain only what the formal model describes: voters with correct disks, and
/// servers that become voters.
const MODELLED: [&str; 8] = [
    "CutForgottenByNextRole",
    "EpochByOldList",
    "GenerationRaisedLate",
    "ListDiscardedBeforeCut",
    "LogWholeFromKept",
    "NeededSnapshotForgotten",
    "SnapshotOverSync",
    "VoterAheadLeftOut",
];

/// A script that the formal model describes.
#[derive(Debug, Clone)]
pub struct TracedScript {
    /// Number of the issue, or name of the mutant.
    pub name: String,
    seed: u64,
    plan: Plan,
    script: fn(&mut Ensemble),
}

impl TracedScript {
    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.plan.servers()
    }

    /// Returns the number of servers in the first list. All of them vote.
    pub fn voters(&self) -> usize {
        self.plan.voters
    }

    /// Runs the script, and returns the actions of the servers as one piece.
    pub fn record(&self) -> ModelTrace {
        let ensemble = Ensemble::new(self.seed, self.plan.clone(), Trace::Off);
        ensemble
            .recorded(usize::MAX)
            .played(self.script)
            .model_trace()
    }
}

/// Returns all scripts that the formal model describes.
pub fn traced() -> impl Iterator<Item = TracedScript> {
    let of_issues = SCENARIOS.iter().map(|scenario| TracedScript {
        name: scenario.issue.to_string(),
        seed: u64::from(scenario.issue),
        plan: scenario.plan(),
        script: scenario.script,
    });
    let has_observers = |plan: &Plan| plan.observers > 0 && !plan.features.grows;
    let modelled = GUARDS
        .iter()
        .filter(move |guard| MODELLED.contains(&guard.mutant) && !has_observers(&guard.plan()));
    of_issues.chain(modelled.map(|guard| TracedScript {
        name: guard.mutant.to_owned(),
        seed: SEED,
        plan: guard.plan(),
        script: guard.script,
    }))
}
