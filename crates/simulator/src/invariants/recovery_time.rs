//! Invariant: after all faults end, the ensemble recovers in bounded time.

use simulation::queue::{Micros, SECOND};

use super::CheckResult;
use crate::storms::plan::Plan;

pub(crate) const NAME: &str = "recovery soon after the faults end";

/// Maximum time for elections and synchronisations, some of which fail. `initLimit` is two seconds
/// here, and the longest pause between notifications is 1.6 seconds.
const LONGEST: Micros = 30 * SECOND;
/// Maximum time with an operator who changes each member twice, each time with an election.
const LONGEST_OF_OPERATOR: Micros = 55 * SECOND;

/// Checks the time that the ensemble needed to recover. `well` is its state now, for the error.
pub(crate) fn healed(took: Micros, well: CheckResult, plan: &Plan) -> CheckResult {
    let longest = if plan.features.reconfigures {
        LONGEST_OF_OPERATOR
    } else {
        LONGEST
    };
    if took <= longest {
        return Ok(());
    }
    let (took, longest) = (took / SECOND, longest / SECOND);
    let now = well
        .err()
        .unwrap_or_else(|| "the ensemble has recovered now".to_owned());
    Err(format!(
        "recovery takes {took} s or more, but {longest} s are allowed: {now}"
    ))
}
