//! Registers, for the fault `restart`: a member that was down must serve again soon.

use super::{Client, TOP};
use crate::history::Event;
use crate::verdict::Verdict;
use crate::workload::steps::Definition;

/// Registers whose checker also judges the returns of members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rejoin;

impl Definition for Rejoin {
    type Client = Client;

    fn name(&self) -> &'static str {
        "rejoin"
    }

    fn promise(&self) -> &'static str {
        "the promise of `register`, and a member that was restarted without other faults serves again"
    }

    fn has_registers(&self) -> bool {
        true
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], steps_max: u64) -> Verdict {
        let mut verdict = super::check(events, steps_max);
        crate::check::register::rejoin::judge(events, &mut verdict);
        verdict
    }
}
