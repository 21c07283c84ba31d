//! Machines of the servers: starts, kills and power failures.

use testkit::SimDisk;

use super::Servers;
use crate::checks::StepChecks;
use crate::network::Process;
use crate::queue::{MS, Micros};
use crate::server::Server;
use crate::world::{Event, World};

/// A machine: a disk, and the process that runs on it, if any.
pub struct Machine<C: StepChecks> {
    /// Disk of the machine.
    pub disk: SimDisk,
    /// Running process, if any.
    pub process: Option<Box<Server<C>>>,
    /// Number of processes so far.
    pub lives: u64,
    /// Whether the disk was replaced. In that case, the server must not vote before it has
    /// synchronised.
    pub was_wiped: bool,
    /// End of a pause of the process.
    pub stands_until: Micros,
    /// End of a stall of the disk.
    pub hangs_until: Micros,
}

impl<C: StepChecks> Default for Machine<C> {
    fn default() -> Self {
        Self {
            disk: SimDisk::default(),
            process: None,
            lives: 0,
            was_wiped: false,
            stands_until: 0,
            hangs_until: 0,
        }
    }
}

impl<C: StepChecks> Servers<C> {
    /// Starts a process on a machine, unless one runs there.
    ///
    /// # Errors
    ///
    /// If the server cannot start from its disk.
    pub fn start(&mut self, index: usize) -> Result<(), String> {
        let Some(machine) = self.machines.get_mut(index) else {
            return Ok(());
        };
        if machine.process.is_some() {
            return Ok(());
        }
        machine.lives += 1;
        machine.stands_until = 0;
        let process = Process {
            server: index,
            life: machine.lives,
        };
        let may_be_empty = !machine.was_wiped;
        C::starts(&mut self.world, index, &machine.disk);
        let server = Server::boot(process, may_be_empty, &machine.disk, &mut self.world)?;
        let name = format!("server {}", index + 1);
        self.world.say(&name, || {
            format!("starts at {}", server.replica.last_zxid())
        });
        if !server.replica.is_trusted() {
            self.world.say(&name, || "has no vote".into());
        }
        C::started(&mut self.world, &server);
        machine.process = Some(Box::new(server));
        self.with(process, Server::begin);
        Ok(())
    }

    /// Kills a process. The operating system closes its connections and keeps its written data.
    // Model: Crash.
    pub fn kill(&mut self, index: usize) {
        let Some(process) = self
            .machines
            .get_mut(index)
            .and_then(|machine| machine.process.take())
        else {
            return;
        };
        self.world
            .say(format!("server {}", index + 1), || "is killed".into());
        for (connection, end) in self.world.network.of(process.host.process.into()) {
            let World { network, queue, .. } = &mut self.world;
            network.close(connection, end, queue);
        }
        drop(process);
        self.machines[index].disk.process_ends();
    }

    /// Cuts the power of a machine on which a process runs. Unsynced data may be lost, and peers
    /// learn of the failure after a random delay.
    pub fn lose_power(&mut self, index: usize) {
        let Some(mut process) = self
            .machines
            .get_mut(index)
            .and_then(|machine| machine.process.take())
        else {
            return;
        };
        self.world
            .say(format!("server {}", index + 1), || "loses power".into());
        let disk = self.machines[index].disk.clone();
        if self.world.random.percent(60) {
            // The power fails during the pending work of the disk, or shortly after it.
            let changes = self.world.random.below(4) as u64;
            disk.die_after(changes, self.world.random.below(300));
            let is_log_first = changes.is_multiple_of(2);
            process.with(&mut self.world, |process| {
                process.host.finish_disk_jobs(is_log_first);
            });
        }
        for (connection, end) in self.world.network.of(process.host.process.into()) {
            let other = 1 - end;
            self.world.network.vanish(connection, end);
            let delay = self.world.random.range(MS, 800 * MS);
            let event = Event::Broken {
                connection,
                end: other,
            };
            self.world.queue.after(delay, event);
        }
        drop(process);
        let loses_sectors = self.world.settings.loses_sectors;
        disk.lose_power(&mut self.world.random, loses_sectors);
    }

    /// Returns the process of a server if it runs.
    pub fn process(&self, index: usize) -> Option<&Server<C>> {
        self.machines.get(index)?.process.as_deref()
    }

    /// Returns the index of the first server that serves clients as the leader, if any.
    pub fn leader(&self) -> Option<usize> {
        let mut indices = 0..self.machines.len();
        indices.find(|index| self.process(*index).is_some_and(Server::is_leading))
    }
}
