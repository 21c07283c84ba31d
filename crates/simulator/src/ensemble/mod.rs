//! An ensemble of servers and clients and everything between them, generated from one seed.

mod contending;
mod damage;
mod early_ends;
mod ending;
pub(crate) mod members;
mod oracle;
mod points;
mod stalls;
mod weather;

use config::membership::Membership;
use simulation::configured::{member_files, member_lists};
use simulation::network::{Endpoint, Message, Process};
use simulation::queue::{MS, Micros, SECOND};
use simulation::servers::{Remaining, Servers};
use testkit::INJECTED;

use crate::checks::Checks;
use crate::checks::trace::Trace;
use crate::client::Client;
use crate::contenders::Contenders;
use crate::history::check::Counts;
use crate::simulated::{Event, OwnEvent, Server, World};
use crate::storms::plan::Plan;
use damage::Damage;

/// Part of the error of a server that is missing in its member list (Java's QuorumPeer.start).
const NOT_A_MEMBER: &str = "not in the peer list";

/// Part of the error about a corrupt member list. The simulated operator follows this advice.
const DAMAGED_LIST: &str = "copy the file of the same name from another member";

pub(crate) struct Ensemble {
    pub(crate) servers: Servers<Checks>,
    /// Damage to each machine.
    pub(crate) damage: Vec<Damage>,
    pub(crate) clients: Vec<Client>,
    /// Processes that run recipes.
    pub(crate) contenders: Contenders,
    /// Server that the oracle has named since both servers last served in the same epoch with all
    /// committed data. The oracle may not name the other server.
    entitled: Option<usize>,
    healed_at: Option<Micros>,
    /// Whether too many voters have lost acknowledged data. The ensemble then stays down.
    pub(crate) is_given_up: bool,
    /// Contents of the change histories, counted when the histories are compared at the end.
    pub(crate) recorded: Counts,
}

impl Ensemble {
    /// Creates an ensemble in which all machines are off.
    pub(crate) fn new(seed: u64, plan: Plan, trace: Trace) -> Self {
        let settings = plan.settings();
        let checks = Checks::new(seed, plan, trace);
        let mut world = World::new(seed, settings, checks);
        world.prints = trace == Trace::Words;
        let clients = 0..world.checks.plan.clients;
        let clients: Vec<Client> = clients
            .map(|index| Client::new(index, &mut world))
            .collect();
        for client in 0..clients.len() {
            let event = Event::Own(OwnEvent::ClientWake { client });
            world.queue.after(SECOND / 2, event);
        }
        let servers = Servers::new(world);
        Self {
            damage: servers.machines.iter().map(|_| Damage::default()).collect(),
            servers,
            clients,
            contenders: Contenders::default(),
            entitled: None,
            healed_at: None,
            is_given_up: false,
            recorded: Counts::default(),
        }
    }

    /// Switches all machines on.
    pub(crate) fn start_all(&mut self) {
        self.servers.start_all();
    }

    /// Runs events for this duration. Stops early at a violation.
    pub(crate) fn run(&mut self, duration: Micros) {
        let end = self.servers.world.now() + duration;
        while self.servers.world.checks.violation.is_none()
            && let Some(event) = self.servers.world.queue.next(end)
        {
            self.happen(event);
        }
    }

    /// Runs events until a condition holds, for at most `longest`. Returns `false` if the condition
    /// does not hold by then, or after a violation.
    pub(crate) fn run_until(&mut self, longest: Micros, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.servers.world.now() + longest;
        while self.servers.world.checks.violation.is_none() {
            if is_so(self) {
                return true;
            }
            match self.servers.world.queue.next(end) {
                Some(event) => self.happen(event),
                None => return is_so(self),
            }
        }
        false
    }

    pub(crate) fn happen(&mut self, event: Event) {
        let remaining = self.servers.happen(event);
        self.strike_if_early();
        match remaining {
            None => {}
            Some(Remaining::Start { server }) => self.start(server),
            Some(Remaining::Own(event)) => self.happen_here(event),
            Some(Remaining::Dialled {
                at,
                connection,
                is_open,
            }) => self.dialled(at, connection, is_open),
            Some(Remaining::Message {
                at,
                connection,
                message,
            }) => self.receive(at, connection, message),
            Some(Remaining::Broken { at, connection }) => self.broken(at, connection),
        }
        self.judge_expired();
    }

    fn happen_here(&mut self, event: OwnEvent) {
        let world = &mut self.servers.world;
        match event {
            OwnEvent::ClientWake { client } => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_wake(world);
                }
            }
            OwnEvent::Contend { number } => self.contenders.tick(number, world),
            OwnEvent::Weather => self.blow(),
            OwnEvent::AllLookAgain => self.all_look_again(),
            OwnEvent::Release { server, work } => {
                world.held.remove(&(server, work));
            }
        }
    }

    fn dialled(&mut self, at: Endpoint, connection: u64, is_open: bool) {
        let world = &mut self.servers.world;
        match at {
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_dialled(connection, is_open, world);
                }
            }
            place => self.contenders.dialled(place, connection, is_open, world),
        }
    }

    fn receive(&mut self, at: Endpoint, connection: u64, message: Message) {
        let world = &mut self.servers.world;
        match at {
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_message(connection, message, world);
                }
            }
            place => self.contenders.receive(place, connection, message, world),
        }
    }

    fn broken(&mut self, at: Endpoint, connection: u64) {
        let world = &mut self.servers.world;
        match at {
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_closed(connection, world);
                }
            }
            place => self.contenders.broken(place, connection, world),
        }
    }

    /// Runs a step of a process if the process still exists.
    pub(crate) fn with(&mut self, lent_to: Process, step: impl FnOnce(&mut Server)) {
        self.servers.with(lent_to, step);
        self.strike_if_early();
    }

    fn strike_if_early(&mut self) {
        if let Some(server) = self.servers.world.checks.applies_early.take() {
            self.strike_early(server);
        }
    }

    /// Starts a process on a machine that does not run one. If the process cannot start, an
    /// operator repairs the machine or tries again later. An unexpected error is a violation.
    pub(crate) fn start(&mut self, index: usize) {
        let name = format!("server {}", index + 1);
        let Some(damage) = self.damage.get_mut(index).filter(|of| !of.has_refused) else {
            return;
        };
        let Err(error) = self.servers.start(index) else {
            return self.strike_if_early();
        };
        let world = &mut self.servers.world;
        let disk = &self.servers.machines[index].disk;
        let is_failing = disk.is_full() || error.contains(INJECTED);
        if is_failing {
            world.say(&name, || format!("cannot start: {error}"));
            world.queue.after(SECOND, Event::Start { server: index });
        } else if error.contains(DAMAGED_LIST)
            && let Some(lost) = damage.lost_list.take()
        {
            world.say(&name, || format!("cannot start: {error}"));
            disk.set_content(&lost.path, &lost.content);
            let delay = world.random.range(50 * MS, SECOND);
            let event = Event::Start { server: index };
            world.queue.after(delay, event);
        } else if error.contains(NOT_A_MEMBER) {
            world.say(&name, || format!("cannot start: {error}"));
            // The list of an operator would contain this server as an observer, which the formal
            // model does not have.
            if world.checks.plan.observers > 0 {
                self.introduce(index);
            }
        } else if damage.is_rotten {
            world.say(&name, || format!("cannot start: {error}"));
            damage.has_refused = true;
        } else {
            world.checks.actions.cannot_start(index);
            let text = format!("{name} cannot start again: {error}");
            world.checks.fail("recovery after any crash", text);
        }
    }

    /// Provides a server with a member list that contains the server, as an operator would. The
    /// server has restarted after its removal, or does not know that it was added again.
    fn introduce(&mut self, index: usize) {
        let settings = &self.servers.world.settings;
        let plan = &self.servers.world.checks.plan;
        let running = self
            .servers
            .machines
            .iter()
            .filter_map(|it| it.process.as_ref());
        let lists = running.filter_map(|server| server.replica.lists());
        // The model does not know a list whose leader was replaced immediately.
        let known = self.servers.world.checks.history.members();
        let lists = lists.map(|lists| lists.committed()).chain(&known);
        let newest = lists.max_by_key(|list| list.version);
        let list = newest.map_or_else(
            || member_lists::first_list(0, settings),
            Membership::node_data,
        );
        let list = members::list_for(&list, index, plan);
        if let Err(error) = member_files::introduce(&self.servers.machines[index].disk, &list) {
            let text = error.to_string();
            self.servers
                .world
                .checks
                .fail("an operator can write a file", text);
        }
        let delay = self.servers.world.random.range(50 * MS, SECOND);
        let event = Event::Start { server: index };
        self.servers.world.queue.after(delay, event);
    }

    /// Kills a process.
    pub(crate) fn kill(&mut self, index: usize) {
        self.servers.kill(index);
    }

    /// Cuts the power of a machine.
    pub(crate) fn lose_power(&mut self, index: usize) {
        self.servers.lose_power(index);
    }

    pub(crate) fn process(&self, index: usize) -> Option<&Server> {
        self.servers.process(index)
    }

    /// Returns the current leader, if any.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.servers.leader()
    }
}
