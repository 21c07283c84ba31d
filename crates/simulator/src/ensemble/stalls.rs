//! Paused processes, stalled disks and wrong clocks.

use simulation::queue::{MS, Micros, SECOND};
use simulation::world::Clock;

use super::Ensemble;

impl Ensemble {
    /// Draws the end of a pause, which is never later than the end of the storm.
    fn some_time(&mut self) -> Micros {
        let longest = self
            .servers
            .world
            .random
            .pick(&[50 * MS, SECOND, 5 * SECOND]);
        let longest = longest.unwrap_or(SECOND);
        let until =
            self.servers.world.now() + self.servers.world.random.range(10 * MS, longest + 1);
        until.min(self.servers.world.checks.plan.storm)
    }

    /// Pauses a process for a while.
    pub(super) fn stand_still(&mut self) {
        let (index, until) = (self.any_server(), self.some_time());
        self.servers.machines[index].stands_until = until;
        self.servers.world.say(format!("server {}", index + 1), || {
            format!("pauses until {} ms", until / MS)
        });
    }

    /// Stalls a disk for a while.
    pub(super) fn hang_disk(&mut self) {
        let (index, until) = (self.any_server(), self.some_time());
        self.servers.machines[index].hangs_until = until;
        self.servers.world.say(format!("server {}", index + 1), || {
            format!("has a disk that hangs until {} ms", until / MS)
        });
    }

    /// Sets the wall clock of a random server to a wrong time, and makes the clock drift.
    pub(super) fn set_clock(&mut self) {
        let (index, random) = (self.any_server(), &mut self.servers.world.random);
        let clock = Clock {
            ahead_ms: random.range(-3_600_000, 3_600_000),
            drift_percent: random.range(-50, 50),
        };
        self.servers.world.clocks[index] = clock;
        self.servers
            .world
            .say(format!("server {}", index + 1), || format!("{clock:?}"));
    }
}
