//! An ensemble of servers and clients, with everything between them, from one seed.

mod contending;
mod early_ends;
mod ending;
mod oracle;
mod stalls;
mod weather;

pub(crate) use oracle::Oracle;

use crate::client::Client;
use crate::configured::sid_of;
use crate::contenders::Contenders;
use crate::history_check::Counts;
use crate::member_files::{self, LostList};
use crate::members;
use crate::network::{ConnectionEnd, Endpoint, LinkEvent, Message, Process};
use crate::plan::{MS, Plan, SECOND};
use crate::queue::{Event, Micros};
use crate::server::Server;
use crate::trace::Trace;
use crate::world::World;
use config::membership::Membership;
use replica::Input;
use testkit::{INJECTED, SimDisk};

/// Error of a server that its member list does not contain (Java's QuorumPeer.start).
const NOT_A_MEMBER: &str = "not in the peer list";

/// Advice for a corrupt member list. The simulated operator follows it.
const DAMAGED_LIST: &str = "copy the file of the same name from another member";

/// A machine: a disk, and the process that runs on it, if any.
pub(crate) struct Machine {
    pub(crate) disk: SimDisk,
    pub(crate) process: Option<Box<Server>>,
    pub(crate) lives: u64,
    /// Whether a bit of the disk has flipped. The server may then refuse to start.
    pub(crate) is_rotten: bool,
    /// Member list before its file was corrupted. Other members have a copy.
    lost_list: Option<LostList>,
    /// Whether the server has refused to start, and waits for an operator.
    has_refused: bool,
    /// Whether the disk was replaced. The server must then not vote before it has synchronised.
    pub(crate) was_wiped: bool,
    /// End of a pause of the process.
    stands_until: Micros,
    /// End of a stall of the disk.
    hangs_until: Micros,
}

pub(crate) struct Ensemble {
    pub(crate) world: World,
    pub(crate) machines: Vec<Machine>,
    pub(crate) clients: Vec<Client>,
    /// Processes that run recipes.
    pub(crate) contenders: Contenders,
    healed_at: Option<Micros>,
    /// Whether too many voters have lost acknowledged data. The ensemble then stays down.
    pub(crate) is_given_up: bool,
    /// Contents of the change histories, counted when they are compared.
    pub(crate) recorded: Counts,
}

impl Ensemble {
    /// Creates an ensemble in which all machines are off.
    pub(crate) fn new(seed: u64, plan: Plan, trace: Trace) -> Self {
        let mut world = World::new(seed, plan, trace);
        let machine = || Machine {
            disk: SimDisk::default(),
            process: None,
            lives: 0,
            is_rotten: false,
            lost_list: None,
            has_refused: false,
            was_wiped: false,
            stands_until: 0,
            hangs_until: 0,
        };
        let machines = (0..world.plan.servers()).map(|_| machine()).collect();
        let clients = (0..world.plan.clients).map(|index| Client::new(index, &mut world));
        let clients: Vec<Client> = clients.collect();
        for client in 0..clients.len() {
            world.queue.after(SECOND / 2, Event::ClientWake { client });
        }
        Self {
            machines,
            clients,
            contenders: Contenders::default(),
            healed_at: None,
            is_given_up: false,
            recorded: Counts::default(),
            world,
        }
    }

    /// Switches all machines on.
    pub(crate) fn start_all(&mut self) {
        for server in 0..self.machines.len() {
            let delay = self.world.random.range(0, 50 * MS);
            self.world.queue.after(delay, Event::Start { server });
        }
    }

    /// Runs events for this duration. Stops early at a violation.
    pub(crate) fn run(&mut self, duration: Micros) {
        let end = self.world.now() + duration;
        while self.world.checks.violation.is_none()
            && let Some(event) = self.world.queue.next(end)
        {
            self.happen(event);
        }
    }

    /// Runs events until a condition holds. Returns `false` if the condition never held.
    pub(crate) fn run_until(&mut self, longest: Micros, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.world.now() + longest;
        while self.world.checks.violation.is_none() {
            if is_so(self) {
                return true;
            }
            match self.world.queue.next(end) {
                Some(event) => self.happen(event),
                None => return is_so(self),
            }
        }
        false
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = self.stalled_until(&event) {
            return self.world.queue.at(until, event);
        }
        self.world.trace.event(self.world.now(), &event);
        match event {
            Event::Arrival { connection, lane } => self.arrive(connection, lane),
            Event::Dialled { connection } => self.dialled(connection),
            Event::Broken { connection, end } => self.broken(connection, end),
            Event::Wake { process } => self.with(process, Server::handle_wake),
            Event::JobDone { process, then } | Event::DiskDone { process, then } => {
                self.with(process, |server| then(&mut server.host));
            }
            Event::Oracle { process } => {
                let grants = self.world.oracle.named == Some(process.server);
                let answer = Input::Oracle { grants };
                self.with(process, |server| server.host.inputs.push_back(answer));
            }
            Event::ClientWake { client } => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_wake(&mut self.world);
                }
            }
            Event::Contend { number } => self.contenders.tick(number, &mut self.world),
            Event::Weather => self.blow(),
            Event::AllLookAgain => self.all_look_again(),
            Event::Start { server } => self.start(server),
        }
        self.judge_expired();
    }

    /// Runs a step of a process if the process still exists.
    pub(crate) fn with(&mut self, lent_to: Process, step: impl FnOnce(&mut Server)) {
        let index = lent_to.server;
        let Some(process) = self
            .machines
            .get_mut(index)
            .and_then(|machine| machine.process.as_mut())
        else {
            return;
        };
        if process.host.process != lent_to {
            return;
        }
        process.with(&mut self.world, |process| {
            step(process);
            process.settle();
        });
        let has_applied_early = std::mem::take(&mut process.host.observed.has_applied_early);
        let is_healed = self.world.is_healed;
        self.world.histories.may_turn(index, is_healed);
        if let Some(reason) = process.host.ended.clone() {
            self.world.say(format!("server {}", index + 1), || {
                format!("exits: {reason}")
            });
            self.kill(index);
            let delay = self.world.random.range(100 * MS, 2 * SECOND);
            self.world
                .queue
                .after(delay, Event::Start { server: index });
        }
        if has_applied_early {
            self.strike_early(index);
        }
    }

    /// Reports an event at one end of a connection to a process.
    fn tell(&mut self, process: Process, end: Option<ConnectionEnd>, heard: LinkEvent) {
        if let Some(end) = end {
            self.with(process, |server| server.hear(end, heard));
        }
    }

    fn arrive(&mut self, number: u64, lane: usize) {
        let Some(connection) = self.world.network.get(number) else {
            return;
        };
        let to = connection.ends[1 - lane];
        let end = self.world.network.end(number);
        let may_take = match to {
            Endpoint::Server(Process { server, .. }) => {
                let process = self
                    .machines
                    .get(server)
                    .and_then(|machine| machine.process.as_ref());
                process.is_none_or(|process| process.host.members.may_take(number))
            }
            Endpoint::Client(_) | Endpoint::Contender { .. } => true,
        };
        let World { network, queue, .. } = &mut self.world;
        let Some((to, message)) = network.arrive(number, lane, may_take, queue) else {
            return;
        };
        let world = &self.world;
        world.trace.message(world.now(), number, to, &message);
        match to {
            Endpoint::Server(process) => {
                let heard = match message {
                    Message::End => {
                        let World { network, queue, .. } = &mut self.world;
                        network.close(number, 1 - lane, queue);
                        LinkEvent::Closed
                    }
                    message => LinkEvent::Message(message),
                };
                self.tell(process, end, heard);
            }
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_message(number, message, &mut self.world);
                }
            }
            place @ Endpoint::Contender { .. } => {
                let world = &mut self.world;
                self.contenders.receive(place, number, message, world);
            }
        }
    }

    fn dialled(&mut self, number: u64) {
        let Some(connection) = self.world.network.get(number) else {
            return;
        };
        let (port, [from, to]) = (connection.port, connection.ends);
        let end = self.world.network.end(number);
        let target = to.server().and_then(|to| {
            let process = self.machines.get(to)?.process.as_ref()?;
            process.listens(port).then_some(process.host.process)
        });
        let is_cut = match (from.server(), to.server()) {
            (Some(from), Some(to)) => {
                let network = &self.world.network;
                network.is_cut(from, to) || network.is_cut(to, from)
            }
            _ => false,
        };
        let target = target.filter(|_| !is_cut);
        if let Some(process) = target {
            self.world.network.open(number, process.into());
            self.tell(process, end, LinkEvent::Accepted);
        }
        let is_open = target.is_some();
        let World { network, queue, .. } = &mut self.world;
        if !is_open && network.dial_again(number, queue) {
            return;
        }
        match from {
            Endpoint::Server(process) => {
                let heard = match to.server() {
                    Some(server) if is_open => LinkEvent::Reached(server),
                    Some(server) => LinkEvent::NotReached {
                        server,
                        is_refusal: !is_cut,
                    },
                    None => LinkEvent::Closed,
                };
                self.tell(process, end, heard);
            }
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_dialled(number, is_open, &mut self.world);
                }
            }
            Endpoint::Contender { .. } => {
                let world = &mut self.world;
                self.contenders.dialled(from, number, is_open, world);
            }
        }
        if !is_open {
            self.world.network.forget(number);
        }
    }

    fn broken(&mut self, number: u64, end: usize) {
        let Some(connection) = self.world.network.get(number) else {
            return;
        };
        if !connection.is_open[end] {
            return;
        }
        let (place, at) = (connection.ends[end], self.world.network.end(number));
        self.world.network.vanish(number, end);
        match place {
            Endpoint::Server(process) => self.tell(process, at, LinkEvent::Closed),
            Endpoint::Client(client) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.handle_closed(number, &mut self.world);
                }
            }
            Endpoint::Contender { .. } => self.contenders.broken(place, number, &mut self.world),
        }
    }

    /// Starts a process on a machine without one.
    pub(crate) fn start(&mut self, index: usize) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
        if machine.process.is_some() || machine.has_refused {
            return;
        }
        machine.lives += 1;
        machine.stands_until = 0;
        let process = Process {
            server: index,
            life: machine.lives,
        };
        let may_be_empty = !machine.was_wiped;
        let World { checks, plan, .. } = &mut self.world;
        checks.on_disk(sid_of(index), &machine.disk, plan);
        let name = format!("server {}", index + 1);
        match Server::boot(process, may_be_empty, &machine.disk, &mut self.world) {
            Ok(server) => {
                self.world.say(&name, || {
                    format!("starts at {}", server.replica.last_zxid())
                });
                if !server.replica.is_trusted() {
                    self.world.say(&name, || "has no vote".into());
                }
                let history = &server.host.disk.history;
                let (disk, dirs) = (history.disk().clone(), history.dirs().clone());
                self.world.histories.begin(index, disk, dirs, history.end());
                machine.process = Some(Box::new(server));
                self.world.checks.digests.replaced(sid_of(index));
                self.with(process, Server::begin);
            }
            Err(error) if machine.disk.is_full() || error.contains(INJECTED) => {
                self.world.say(&name, || format!("cannot start: {error}"));
                self.world
                    .queue
                    .after(SECOND, Event::Start { server: index });
            }
            Err(error) if error.contains(DAMAGED_LIST) && machine.lost_list.is_some() => {
                self.world.say(&name, || format!("cannot start: {error}"));
                if let Some(lost) = machine.lost_list.take() {
                    machine.disk.set_content(&lost.path, &lost.content);
                }
                let delay = self.world.random.range(50 * MS, SECOND);
                let event = Event::Start { server: index };
                self.world.queue.after(delay, event);
            }
            Err(error) if error.contains(NOT_A_MEMBER) => {
                self.world.say(&name, || format!("cannot start: {error}"));
                self.introduce(index);
            }
            Err(error) if machine.is_rotten => {
                self.world.say(&name, || format!("cannot start: {error}"));
                machine.has_refused = true;
            }
            Err(error) => {
                let text = format!("{name} cannot start again: {error}");
                self.world.checks.fail("recovery after any crash", text);
            }
        }
    }

    /// Gives a server a member list that contains it, as an operator would. The server has
    /// restarted after its removal, or does not know that it was added again.
    fn introduce(&mut self, index: usize) {
        let plan = &self.world.plan;
        let running = self.machines.iter().filter_map(|it| it.process.as_ref());
        let lists = running.filter_map(|server| server.replica.lists());
        // The model does not know a list whose leader was replaced immediately.
        let known = self.world.checks.history.members();
        let lists = lists.map(|lists| lists.committed()).chain(&known);
        let newest = lists.max_by_key(|list| list.version);
        let list = newest.map_or_else(|| members::first_list(0, plan), Membership::node_data);
        let list = members::list_for(&list, index, plan);
        if let Err(error) = member_files::introduce(&self.machines[index].disk, &list) {
            let text = error.to_string();
            self.world.checks.fail("an operator can write a file", text);
        }
        let delay = self.world.random.range(50 * MS, SECOND);
        let event = Event::Start { server: index };
        self.world.queue.after(delay, event);
    }

    /// Kills a process. The operating system closes its connections and keeps its written data.
    pub(crate) fn kill(&mut self, index: usize) {
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

    /// Cuts the power of a machine. Peers receive no notice, and unsynced data may be lost.
    pub(crate) fn lose_power(&mut self, index: usize) {
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
            // The power fails in the middle of a pending write.
            let changes = self.world.random.below(4) as u64;
            disk.die_after(changes, self.world.random.below(300));
            process.with(&mut self.world, |process| process.host.finish_disk_jobs());
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
        let loses_sectors = self.world.plan.loses_sectors;
        disk.lose_power(&mut self.world.random, loses_sectors);
    }

    pub(crate) fn process(&self, index: usize) -> Option<&Server> {
        self.machines.get(index)?.process.as_deref()
    }

    /// Returns the current leader, if any.
    pub(crate) fn leader(&self) -> Option<usize> {
        let mut indices = 0..self.machines.len();
        indices.find(|index| self.process(*index).is_some_and(Server::is_leading))
    }
}
