//! Paused processes, stalled disks and wrong clocks.

use super::Ensemble;
use crate::plan::{MS, SECOND};
use crate::queue::{Event, Micros};
use crate::world::Clock;

impl Ensemble {
    /// Returns the time until which an event has to wait, because its receiver is paused or
    /// stalled.
    pub(super) fn stalled_until(&self, event: &Event) -> Option<Micros> {
        let until = match *event {
            Event::Wake { process } | Event::Oracle { process } => {
                self.stands_until(process.server)
            }
            Event::JobDone { process, .. } => self.machines.get(process.server)?.stands_until,
            Event::DiskDone { process, .. } => {
                let machine = self.machines.get(process.server)?;
                machine.stands_until.max(machine.hangs_until)
            }
            Event::Arrival { connection, lane } => self.end_stands_until(connection, 1 - lane),
            Event::Broken { connection, end } => self.end_stands_until(connection, end),
            Event::Dialled { connection } => {
                let ends = [0, 1].map(|end| self.end_stands_until(connection, end));
                ends[0].max(ends[1])
            }
            Event::ClientWake { .. }
            | Event::Contend { .. }
            | Event::Weather
            | Event::AllLookAgain
            | Event::Start { .. } => 0,
        };
        (until > self.world.now()).then_some(until)
    }

    fn stands_until(&self, server: usize) -> Micros {
        let machine = self.machines.get(server);
        let running = machine.filter(|machine| machine.process.is_some());
        running.map_or(0, |machine| machine.stands_until)
    }

    fn end_stands_until(&self, connection: u64, end: usize) -> Micros {
        let connection = self.world.network.get(connection);
        let server = connection.and_then(|connection| connection.ends[end].server());
        server.map_or(0, |server| self.stands_until(server))
    }

    /// Draws the end of a pause, which is never later than the end of the storm.
    fn some_time(&mut self) -> Micros {
        let longest = self.world.random.pick(&[50 * MS, SECOND, 5 * SECOND]);
        let longest = longest.unwrap_or(SECOND);
        let until = self.world.now() + self.world.random.range(10 * MS, longest + 1);
        until.min(self.world.plan.storm)
    }

    /// Pauses a process for a while.
    pub(super) fn stand_still(&mut self) {
        let (index, until) = (self.any_server(), self.some_time());
        self.machines[index].stands_until = until;
        self.world.say(format!("server {}", index + 1), || {
            format!("pauses until {} ms", until / MS)
        });
    }

    /// Stalls a disk for a while.
    pub(super) fn hang_disk(&mut self) {
        let (index, until) = (self.any_server(), self.some_time());
        self.machines[index].hangs_until = until;
        self.world.say(format!("server {}", index + 1), || {
            format!("has a disk that hangs until {} ms", until / MS)
        });
    }

    /// Sets a wall clock, or makes it drift.
    pub(super) fn set_clock(&mut self) {
        let (index, random) = (self.any_server(), &mut self.world.random);
        let clock = Clock {
            ahead_ms: random.range(-3_600_000, 3_600_000),
            drift_percent: random.range(-50, 50),
        };
        self.world.clocks[index] = clock;
        self.world
            .say(format!("server {}", index + 1), || format!("{clock:?}"));
    }
}
