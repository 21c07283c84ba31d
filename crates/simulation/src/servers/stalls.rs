//! Paused processes and stalled disks.

use super::Servers;
use crate::checks::StepChecks;
use crate::queue::Micros;
use crate::world::Event;

impl<C: StepChecks> Servers<C> {
    /// Returns the time until which an event has to wait because its receiver is paused or the
    /// receiver's disk is stalled. Returns `None` if the event need not wait.
    pub(super) fn stalled_until(&self, event: &Event<C>) -> Option<Micros> {
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
            Event::Own(_) | Event::Start { .. } => 0,
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
}
