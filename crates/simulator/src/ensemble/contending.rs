//! The end of a run with recipes: all faults end, every contender makes progress and then ends.

use simulation::queue::MS;

use super::Ensemble;
use super::ending::{FINE, PATIENCE};
use crate::invariants::recipes;

impl Ensemble {
    /// Ends all faults. Then every contender must make progress and end on request, and its
    /// ephemeral znodes must disappear.
    pub(crate) fn contend_to_the_end(&mut self) {
        self.heal();
        self.contenders.heal(&self.servers.world);
        self.wait_for(|all| all.contenders.get_on());
        self.contenders.end();
        self.wait_for(|all| all.contenders.are_over());
        if self.is_given_up || self.servers.world.checks.violation.is_some() {
            return;
        }
        self.must_be_well();
        if !self.is_given_up {
            self.contenders.judge_leftovers(&mut self.servers.world);
        }
    }

    /// Lets time pass until a condition holds, at most for `PATIENCE`. Reports a violation if the
    /// condition does not hold then. Ends early without a quorum, because the condition then cannot
    /// hold.
    fn wait_for(&mut self, is_so: impl Fn(&Self) -> Result<(), String>) {
        let begin = self.servers.world.now();
        let mut last = is_so(self);
        while last.is_err() && !self.is_given_up && self.servers.world.checks.violation.is_none() {
            let now = self.servers.world.now();
            if now > begin + FINE && self.is_stranded() {
                return self.must_say_so();
            }
            if now > begin + PATIENCE {
                break;
            }
            self.run(100 * MS);
            self.look_after();
            last = is_so(self);
        }
        if !self.is_given_up {
            self.servers.world.checks.hold(recipes::NAME, last);
        }
    }
}
