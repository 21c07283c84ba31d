//! Simulated connections. Messages on one connection arrive in order. Messages on different
//! connections arrive in any order.
//!
//! A path between two servers can be cut in one or both directions. Messages in flight then stay
//! where they are until the path is restored or the connection breaks, as with TCP. The close of a
//! connection does not pass a cut either.

mod contents;
mod ends;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use testkit::Random;

use crate::checks::StepChecks;
use crate::queue::{MS, Micros, Queue};
use crate::world::Event;
pub use ends::{ConnectionEnd, Endpoint, LinkEvent, Message, Port, Process};

#[derive(Debug, Default)]
struct Lane {
    messages: VecDeque<(Micros, Message)>,
    last_at: Micros,
    /// Whether an arrival is in the event queue.
    is_scheduled: bool,
}

/// A connection, or a dial in progress.
#[derive(Debug)]
pub struct Connection {
    /// Port that was dialled.
    pub port: Port,
    /// End that dialled, and the other end.
    pub ends: [Endpoint; 2],
    /// Whether each end is open.
    pub is_open: [bool; 2],
    lanes: [Lane; 2],
    /// Maximum delay of a message.
    delay: Micros,
    /// Pauses before further attempts to reach the other end.
    pauses: std::slice::Iter<'static, Micros>,
}

/// Number of attempts that a dial makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialAttempts {
    /// A single attempt.
    Once,
    /// Up to ten attempts after this pause, because a newly elected server may not listen yet.
    Tries(Micros),
}

const PAUSES: [Micros; 9] = [
    5 * MS,
    10 * MS,
    20 * MS,
    40 * MS,
    100 * MS,
    100 * MS,
    100 * MS,
    100 * MS,
    100 * MS,
];

/// All connections, and the paths between servers.
#[derive(Debug)]
pub struct Network {
    connections: BTreeMap<u64, Connection>,
    last_number: u64,
    /// Cut paths, as pairs of sender and receiver.
    cuts: BTreeSet<(usize, usize)>,
    /// Applications without a path to any server.
    isolated: BTreeSet<usize>,
    random: Random,
    /// Maximum delay of a message on a fast connection.
    pub delay: Micros,
}

impl Network {
    /// Creates a network without connections.
    pub fn new(random: Random, delay: Micros) -> Self {
        Self {
            connections: BTreeMap::new(),
            last_number: 0,
            cuts: BTreeSet::new(),
            isolated: BTreeSet::new(),
            random,
            delay,
        }
    }

    /// Draws all further random numbers from another seed.
    pub(crate) fn draw_from(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Dials a port. Returns the connection's number. [`Event::Dialled`] reports the result.
    pub fn dial<C: StepChecks>(
        &mut self,
        port: Port,
        [from, to]: [Endpoint; 2],
        patience: DialAttempts,
        queue: &mut Queue<Event<C>>,
    ) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        // Some connections are much slower than others.
        let slowness = self.random.range(1, 4);
        let connection = Connection {
            port,
            ends: [from, to],
            is_open: [false; 2],
            lanes: Default::default(),
            delay: self.delay * slowness,
            pauses: match patience {
                DialAttempts::Once => [].iter(),
                DialAttempts::Tries(_) => PAUSES.iter(),
            },
        };
        let way = self.random.range(100, 2 * connection.delay + 101);
        self.connections.insert(number, connection);
        let delay = match patience {
            DialAttempts::Once => way,
            DialAttempts::Tries(pause) => pause + way,
        };
        queue.after(delay, Event::Dialled { connection: number });
        number
    }

    /// Schedules another attempt after a failed one. Returns `false` if no attempt remains.
    pub fn dial_again<C: StepChecks>(&mut self, number: u64, queue: &mut Queue<Event<C>>) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        let Some(pause) = connection.pauses.next() else {
            return false;
        };
        let way = self.random.range(100, 2 * connection.delay + 101);
        queue.after(pause + way, Event::Dialled { connection: number });
        true
    }

    /// Returns the number and the port of an existing connection, as each of its ends knows them.
    pub fn end(&self, number: u64) -> Option<ConnectionEnd> {
        let port = self.get(number)?.port;
        Some(ConnectionEnd { number, port })
    }

    /// Returns the connection with this number, if it exists.
    pub fn get(&self, number: u64) -> Option<&Connection> {
        self.connections.get(&number)
    }

    /// Opens a connection after a successful dial. `at` is the process that has accepted it.
    pub fn open(&mut self, number: u64, at: Endpoint) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.ends[1] = at;
            connection.is_open = [true; 2];
        }
    }

    /// Removes a connection whose dial failed.
    pub fn forget(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    /// Sends a message from one end to the other, unless the sending end is closed.
    pub fn send<C: StepChecks>(
        &mut self,
        number: u64,
        from_end: usize,
        message: Message,
        queue: &mut Queue<Event<C>>,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if !connection.is_open[from_end] {
            return;
        }
        let delay = self.random.range(50, connection.delay + 51);
        let lane = &mut connection.lanes[from_end];
        lane.last_at = lane.last_at.max(queue.now + delay);
        lane.messages.push_back((lane.last_at, message));
        if !lane.is_scheduled {
            lane.is_scheduled = true;
            let event = Event::Arrival {
                connection: number,
                lane: from_end,
            };
            queue.at(lane.last_at, event);
        }
    }

    /// Returns the number of messages from this end that the other end has not received yet.
    pub fn backlog(&self, number: u64, from_end: usize) -> usize {
        let connection = self.connections.get(&number);
        connection.map_or(0, |connection| connection.lanes[from_end].messages.len())
    }

    /// Closes one end. The other end learns of this after the earlier messages.
    pub fn close<C: StepChecks>(&mut self, number: u64, end: usize, queue: &mut Queue<Event<C>>) {
        self.send(number, end, Message::End, queue);
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_open[end] = false;
            connection.lanes[1 - end].messages.clear();
            self.drop_if_closed(number);
        }
    }

    /// Closes one end without a notice to the other end.
    pub fn vanish(&mut self, number: u64, end: usize) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_open[end] = false;
            // Messages that this end has sent still arrive.
            connection.lanes[1 - end].messages.clear();
            self.drop_if_closed(number);
        }
    }

    /// Delays all messages in flight from one end.
    pub fn slow_down(&mut self, number: u64, from_end: usize, extra: Micros) {
        if let Some(connection) = self.connections.get_mut(&number) {
            let lane = &mut connection.lanes[from_end];
            lane.last_at += extra;
            for (at, _) in &mut lane.messages {
                *at += extra;
            }
        }
    }

    fn drop_if_closed(&mut self, number: u64) {
        let is_gone = |connection: &Connection| {
            connection.is_open == [false; 2]
                && connection.lanes.iter().all(|lane| lane.messages.is_empty())
        };
        if self.connections.get(&number).is_some_and(is_gone) {
            self.connections.remove(&number);
        }
    }

    /// Returns the message that arrives now and its destination, or `None` if no message can be
    /// received yet.
    ///
    /// `may_take` states whether the receiver reads. If it does not, call [`Network::resume`] when
    /// it reads again.
    pub fn arrive<C: StepChecks>(
        &mut self,
        number: u64,
        from_end: usize,
        may_take: bool,
        queue: &mut Queue<Event<C>>,
    ) -> Option<(Endpoint, Message)> {
        let ends = self.connections.get(&number)?.ends;
        let [from, to] = [ends[from_end], ends[1 - from_end]];
        let is_cut = match (from.server(), to.server()) {
            (Some(from), Some(to)) => self.is_cut(from, to),
            _ => self.is_isolated(from) || self.is_isolated(to),
        };
        let connection = self.connections.get_mut(&number)?;
        let lane = &mut connection.lanes[from_end];
        lane.is_scheduled = false;
        if !connection.is_open[1 - from_end] {
            lane.messages.clear();
            if connection.is_open[from_end] && !is_cut {
                // A sender to a closed end is notified.
                let (connection, end) = (number, from_end);
                queue.after(1000, Event::Broken { connection, end });
            }
            self.drop_if_closed(number);
            return None;
        }
        if is_cut || !may_take {
            return None;
        }
        let (at, _) = lane.messages.front()?;
        let event = Event::Arrival {
            connection: number,
            lane: from_end,
        };
        if *at > queue.now {
            lane.is_scheduled = true;
            queue.at(*at, event);
            return None;
        }
        let (_, message) = lane.messages.pop_front()?;
        if let Some((at, _)) = lane.messages.front() {
            lane.is_scheduled = true;
            queue.at(*at, event);
        }
        self.drop_if_closed(number);
        Some((to, message))
    }

    /// Resumes delivery to a receiver that reads again.
    pub fn resume<C: StepChecks>(
        &mut self,
        number: u64,
        from_end: usize,
        queue: &mut Queue<Event<C>>,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let lane = &mut connection.lanes[from_end];
        if let Some((at, _)) = lane.messages.front()
            && !lane.is_scheduled
        {
            lane.is_scheduled = true;
            let event = Event::Arrival {
                connection: number,
                lane: from_end,
            };
            queue.at(*at, event);
        }
    }

    /// Returns whether the path from one server to another is cut.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Cuts the path from one server to another.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Restores all paths between servers. Delayed messages arrive now.
    pub fn heal<C: StepChecks>(&mut self, queue: &mut Queue<Event<C>>) {
        self.cuts.clear();
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            self.resume(number, 0, queue);
            self.resume(number, 1, queue);
        }
    }

    /// Isolates an application from all servers.
    pub fn isolate(&mut self, application: usize) {
        self.isolated.insert(application);
    }

    /// Restores the paths between an application and all servers. Delayed messages arrive now.
    pub fn rejoin<C: StepChecks>(&mut self, application: usize, queue: &mut Queue<Event<C>>) {
        self.isolated.remove(&application);
        let is_its = |connection: &Connection| {
            let mut ends = connection.ends.iter();
            ends.any(
                |end| matches!(end, Endpoint::Application { number, .. } if *number == application),
            )
        };
        let connections = self.connections.iter();
        let its = connections.filter(|(_, connection)| is_its(connection));
        let numbers: Vec<u64> = its.map(|(number, _)| *number).collect();
        for number in numbers {
            self.resume(number, 0, queue);
            self.resume(number, 1, queue);
        }
    }

    /// Returns whether messages between these ends do not arrive, in at least one direction.
    pub fn separates(&self, from: Endpoint, to: Endpoint) -> bool {
        match (from.server(), to.server()) {
            (Some(from), Some(to)) => self.is_cut(from, to) || self.is_cut(to, from),
            _ => self.is_isolated(from) || self.is_isolated(to),
        }
    }

    fn is_isolated(&self, end: Endpoint) -> bool {
        matches!(end, Endpoint::Application { number, .. } if self.isolated.contains(&number))
    }

    /// Returns whether part of a tree is in flight to a server that has dialled the connection.
    pub fn brings_tree(&self, to: usize) -> bool {
        let is_tree = |(_, message): &(Micros, Message)| matches!(message, Message::Tree(..));
        let mut connections = self.connections.values();
        connections.any(|connection| {
            connection.ends[0].server() == Some(to)
                && connection.lanes[1].messages.iter().any(is_tree)
        })
    }

    /// Returns the connections that have an end in this process, each with the number of that end.
    pub fn of(&self, place: Endpoint) -> Vec<(u64, usize)> {
        let ends = |(number, connection): (&u64, &Connection)| {
            let end = connection.ends.iter().position(|end| *end == place)?;
            Some((*number, end))
        };
        self.connections.iter().filter_map(ends).collect()
    }

    /// Returns the open connections between servers. If `only_cut` is set, returns only those over
    /// a path that is cut in at least one direction.
    pub fn between_servers(&self, only_cut: bool) -> Vec<u64> {
        let wanted = |(number, connection): (&u64, &Connection)| {
            let one = connection.ends[0].server()?;
            let other = connection.ends[1].server()?;
            let is_cut = self.is_cut(one, other) || self.is_cut(other, one);
            (connection.is_open == [true; 2] && (is_cut || !only_cut)).then_some(*number)
        };
        self.connections.iter().filter_map(wanted).collect()
    }
}
