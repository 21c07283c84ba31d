//! Behaviours of the formal model in `jepsen/model`, which the simulated servers follow step by
//! step.
//!
//! TLC draws the behaviours (`Behaviours.tla`). For each step, the driver chooses the message, the
//! completion of a disk, the election, the timeout or the crash that performs it. After the step, the
//! servers, their disks and the packets in flight must agree with the state of the model.
//!
//! * `value` reads states from the output of TLC.
//! * `driver`, `disks`, `roles` and `lists` perform the steps.
//! * `packets` and `compare` compare the servers with the model.

mod compare;
mod disks;
mod driver;
mod lists;
mod packets;
mod roles;
mod value;

use std::collections::BTreeMap;

use crate::checks::trace::Trace;
use driver::{Driver, Step};

/// Results of one or more behaviours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// Number of steps that the servers have taken.
    pub steps: usize,
    /// Number of states that were compared.
    pub states: usize,
    /// Number of steps by their action.
    pub actions: BTreeMap<String, usize>,
    /// First difference between the servers and the model, with the number of the step.
    pub difference: Option<String>,
}

/// Makes servers follow a behaviour in the form that TLC prints. Ends at the first difference.
pub fn follow(text: &str, trace: Trace) -> Followed {
    let mut followed = Followed::default();
    let Some(states) = value::parse_states(text) else {
        followed.difference = Some("no behaviour of TLC".to_owned());
        return followed;
    };
    let mut driver = Driver::new(trace);
    followed.difference = driver
        .compare(&states[0])
        .err()
        .map(|text| format!("start: {text}"));
    for (at, pair) in states.windows(2).enumerate() {
        if followed.difference.is_some() {
            break;
        }
        let step = Step::new(&pair[0], &pair[1]);
        let action = step.action();
        if action == "Idle" {
            continue;
        }
        let next = states.get(at + 2).map(|next| Step::new(&pair[1], next));
        let is_between = next.is_some_and(|next| next.is_together() && next.action() != "Idle");
        let mut result = driver.follow(step);
        if result.is_ok() && !is_between {
            result = driver.save_lists(step);
        }
        if result.is_ok() && !is_between && next.is_some() {
            followed.states += 1;
            result = driver.compare(&pair[1]);
        }
        *followed.actions.entry(action.to_owned()).or_default() += 1;
        followed.steps += 1;
        let difference = result.err();
        followed.difference = difference.map(|text| format!("step {}, {action}: {text}", at + 2));
    }
    followed
}
