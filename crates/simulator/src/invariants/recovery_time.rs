//! Once everything is mended, it does not take long until everything is well.

use super::Held;
use crate::plan::{Plan, SECOND};
use crate::queue::Micros;

pub(crate) const NAME: &str = "well soon after everything is mended";

/// An election and a synchronisation, some of each in vain: `initLimit` is two seconds here, the
/// longest pause between notifications 1.6.
const LONGEST: Micros = 30 * SECOND;
/// An operator who changes each member twice, each with an election.
const LONGEST_OF_OPERATOR: Micros = 55 * SECOND;

/// It took so long, and then it was so.
pub(crate) fn healed(took: Micros, well: Held, plan: &Plan) -> Held {
    let longest = match plan.features.reconfigures {
        true => LONGEST_OF_OPERATOR,
        false => LONGEST,
    };
    if took <= longest {
        return Ok(());
    }
    let (took, longest) = (took / SECOND, longest / SECOND);
    let now = well.err().unwrap_or_else(|| "it is well now".to_owned());
    Err(format!(
        "it has taken {took} s and more until everything was well, {longest} s are allowed: {now}"
    ))
}
