//! The servers of an ensemble with their machines, and the handling of events.

mod machine;
mod stalls;

pub use machine::Machine;

use crate::checks::StepChecks;
use crate::network::{ConnectionEnd, Endpoint, LinkEvent, Message, Process};
use crate::queue::{MS, SECOND};
use crate::server::Server;
use crate::world::{Event, World};
use replica::Input;

/// Servers of an ensemble with their machines. Their owner removes the events from the queue of the
/// world.
pub struct Servers<C: StepChecks> {
    /// Time, network, random numbers and checks.
    pub world: World<C>,
    /// Machines of the servers.
    pub machines: Vec<Machine<C>>,
}

/// Part of an event that the owner of the servers has to handle.
#[derive(Debug)]
pub enum Remaining<E> {
    /// A stopped server has to start.
    Start {
        /// Index of the server.
        server: usize,
    },
    /// A client's dial has succeeded or failed.
    Dialled {
        /// Client that dialled.
        at: Endpoint,
        /// Number of the connection.
        connection: u64,
        /// Whether the connection is open.
        is_open: bool,
    },
    /// A message has arrived at a client.
    Message {
        /// Client that receives the message.
        at: Endpoint,
        /// Number of the connection.
        connection: u64,
        /// Received message.
        message: Message,
    },
    /// A client learns that its connection is broken.
    Broken {
        /// Client whose connection is broken.
        at: Endpoint,
        /// Number of the connection.
        connection: u64,
    },
    /// The event concerns only the owner.
    Own(E),
}

impl<C: StepChecks> Servers<C> {
    /// Creates the servers of a world. All machines are off.
    pub fn new(world: World<C>) -> Self {
        let machines = (0..world.settings.servers()).map(|_| Machine::default());
        Self {
            machines: machines.collect(),
            world,
        }
    }

    /// Schedules the starts of all servers, within the first 50 ms from now.
    pub fn start_all(&mut self) {
        for server in 0..self.machines.len() {
            let delay = self.world.random.range(0, 50 * MS);
            self.world.queue.after(delay, Event::Start { server });
        }
    }

    /// Handles an event. Returns the part that the owner has to handle.
    pub fn happen(&mut self, event: Event<C>) -> Option<Remaining<C::OwnEvent>> {
        if let Some(until) = self.stalled_until(&event) {
            self.world.queue.at(until, event);
            return None;
        }
        self.world.checks.event(self.world.queue.now, &event);
        match event {
            Event::Arrival { connection, lane } => return self.arrive(connection, lane),
            Event::Dialled { connection } => return self.dialled(connection),
            Event::Broken { connection, end } => return self.broken(connection, end),
            Event::Start { server } => return Some(Remaining::Start { server }),
            Event::Own(event) => return Some(Remaining::Own(event)),
            Event::Wake { process } => self.with(process, Server::handle_wake),
            Event::JobDone { process, then } | Event::DiskDone { process, then, .. } => {
                self.with(process, |server| then(&mut server.host));
            }
            Event::Oracle { process } => {
                let grants = self.world.oracle == Some(process.server);
                let answer = Input::Oracle { grants };
                self.with(process, |server| server.host.inputs.push_back(answer));
            }
        }
        None
    }

    /// Runs a step of a process if the process still exists. If the process must end after this
    /// step, kills it and schedules its next start.
    pub fn with(&mut self, lent_to: Process, step: impl FnOnce(&mut Server<C>)) {
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
        let ended = process.host.ended.clone();
        C::stepped(&mut self.world, index);
        if let Some(reason) = ended {
            self.world.say(format!("server {}", index + 1), || {
                format!("exits: {reason}")
            });
            self.kill(index);
            let delay = self.world.random.range(100 * MS, 2 * SECOND);
            self.world
                .queue
                .after(delay, Event::Start { server: index });
        }
    }

    /// Reports an event to the process at one end of a connection, if the connection exists.
    fn tell(&mut self, process: Process, end: Option<ConnectionEnd>, heard: LinkEvent) {
        if let Some(end) = end {
            self.with(process, |server| server.hear(end, heard));
        }
    }

    fn arrive(&mut self, number: u64, lane: usize) -> Option<Remaining<C::OwnEvent>> {
        let to = self.world.network.get(number)?.ends[1 - lane];
        let end = self.world.network.end(number);
        let may_take = match to {
            Endpoint::Server(Process { server, .. }) => {
                let process = self
                    .machines
                    .get(server)
                    .and_then(|machine| machine.process.as_ref());
                process.is_none_or(|process| process.host.members.may_take(number))
            }
            Endpoint::Client(_) | Endpoint::Application { .. } => true,
        };
        let World { network, queue, .. } = &mut self.world;
        let (to, message) = network.arrive(number, lane, may_take, queue)?;
        let world = &mut self.world;
        world.checks.message(world.queue.now, number, to, &message);
        let Endpoint::Server(process) = to else {
            return Some(Remaining::Message {
                at: to,
                connection: number,
                message,
            });
        };
        let heard = match message {
            Message::End => {
                let World { network, queue, .. } = &mut self.world;
                network.close(number, 1 - lane, queue);
                LinkEvent::Closed
            }
            message => LinkEvent::Message(message),
        };
        self.tell(process, end, heard);
        None
    }

    fn dialled(&mut self, number: u64) -> Option<Remaining<C::OwnEvent>> {
        let connection = self.world.network.get(number)?;
        let (port, [from, to]) = (connection.port, connection.ends);
        let end = self.world.network.end(number);
        let target = to.server().and_then(|to| {
            let process = self.machines.get(to)?.process.as_ref()?;
            process.listens(port).then_some(process.host.process)
        });
        let is_cut = self.world.network.separates(from, to);
        let target = target.filter(|_| !is_cut);
        if let Some(process) = target {
            self.world.network.open(number, process.into());
            self.tell(process, end, LinkEvent::Accepted);
        }
        let is_open = target.is_some();
        let World { network, queue, .. } = &mut self.world;
        if !is_open && network.dial_again(number, queue) {
            return None;
        }
        let remaining = match from {
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
                None
            }
            at => Some(Remaining::Dialled {
                at,
                connection: number,
                is_open,
            }),
        };
        if !is_open {
            self.world.network.forget(number);
        }
        remaining
    }

    fn broken(&mut self, number: u64, end: usize) -> Option<Remaining<C::OwnEvent>> {
        let connection = self.world.network.get(number)?;
        if !connection.is_open[end] {
            return None;
        }
        let (place, at) = (connection.ends[end], self.world.network.end(number));
        self.world.network.vanish(number, end);
        match place {
            Endpoint::Server(process) => {
                self.tell(process, at, LinkEvent::Closed);
                None
            }
            at => Some(Remaining::Broken {
                at,
                connection: number,
            }),
        }
    }
}
