//! The connections to other members: for elections, from a leader to its learners, and from a
//! learner to its leader.

use std::collections::{BTreeMap, BTreeSet};

use config::members::HostPort;
use election::links::ConnectionId;
use host::{LinkName, LinkReader, LinkWriter, PacketBuffer, PacketQueue, Piece, read_log};
use proto::Zxid;
use proto::packet::QuorumPacket;
use replica::Input;
use replica::elections::{ElectionEffect, ElectionInput};
use zab::leader::LinkId;

use super::SimHost;
use super::pace::{self, BACKLOG_MAX, LINK_BOUNDS};
use crate::checks::StepChecks;
use crate::configured::{hello_of, index_of, log_pages, server_at, sid_of, tree_settings};
use crate::network::{DialAttempts, LinkEvent, Message, Port};
use crate::queue::{MS, Micros};
use crate::world::{DiskThread, World};

/// Connections to other members.
#[derive(Default)]
pub(crate) struct Members {
    /// Ports on which the server listens for learners.
    pub(super) listens: BTreeSet<replica::Port>,
    links: BTreeMap<u64, MemberLink>,
    /// Number of the last connection to a leader.
    pub(super) leader: u64,
}

/// A connection, or an attempt to connect.
struct MemberLink {
    reader: LinkReader,
    queue: PacketQueue,
    writer: LinkWriter,
    /// Whether writing pauses for a piece of a tree, or because too many messages are in flight.
    is_reading: bool,
    /// Whether the leader's tree is next and the replica has not requested it yet.
    is_waiting: bool,
}

impl MemberLink {
    fn new(of: LinkName, queue: PacketQueue) -> Self {
        Self {
            reader: LinkReader::new(of, PacketBuffer::new(testkit::LIMITS, |_| false)),
            queue,
            writer: LinkWriter::default(),
            is_reading: false,
            is_waiting: false,
        }
    }
}

impl Members {
    /// Returns whether a message on this connection can be received now.
    pub(crate) fn may_take(&self, connection: u64) -> bool {
        let link = self.links.get(&connection);
        link.is_none_or(|link| !link.is_waiting)
    }
}

impl<C: StepChecks> SimHost<C> {
    /// Handles an event on an election connection.
    pub(super) fn hear_election(&mut self, number: u64, heard: LinkEvent) {
        let connection = ConnectionId(number);
        let input = match heard {
            LinkEvent::Reached(server) => {
                let hello = Message::Hello(hello_of(self.process.server));
                self.world.send(self.process, number, hello);
                let sid = sid_of(server);
                ElectionInput::Dialled { sid, connection }
            }
            LinkEvent::NotReached { server, is_refusal } => {
                let sid = sid_of(server);
                ElectionInput::NotReached { sid, is_refusal }
            }
            LinkEvent::Message(Message::Hello(hello)) => ElectionInput::Hello { connection, hello },
            LinkEvent::Message(Message::Vote(notification)) => {
                ElectionInput::ReceivedNotification {
                    connection,
                    notification: *notification,
                }
            }
            LinkEvent::Closed => ElectionInput::Closed { connection },
            LinkEvent::Accepted | LinkEvent::Message(_) => return,
        };
        self.inputs.push_back(Input::Election(input));
    }

    /// Handles an event on a connection to a learner or to the leader.
    pub(super) fn hear_member(&mut self, port: replica::Port, number: u64, heard: LinkEvent) {
        if matches!(heard, LinkEvent::Accepted) {
            let of = LinkName::Learner(port, LinkId(number));
            let link = MemberLink::new(of, PacketQueue::of_learner(LINK_BOUNDS));
            self.members.links.insert(number, link);
            return self.inputs.push_back(of.connected());
        }
        let Some(link) = self.members.links.get_mut(&number) else {
            return;
        };
        let reader = &mut link.reader;
        match heard {
            LinkEvent::Reached(_) => self.inputs.push_back(reader.of().connected()),
            LinkEvent::Message(Message::Packets(bytes)) => {
                reader.buffer.bytes().extend_from_slice(&bytes);
                let taken = reader.take().map(|(packets, _)| packets);
                self.inputs
                    .extend(taken.inspect(|input| self.core.note_packets(number, input)));
                link.is_waiting = reader.is_at_tree();
            }
            LinkEvent::Message(Message::Tree(bytes, is_last)) => {
                reader.buffer.bytes().extend_from_slice(&bytes);
                if !is_last {
                    return self.inputs.push_back(reader.of().tree_progress());
                }
                let settings = tree_settings(&self.world.settings);
                let tree = reader.receive_tree(|_| Ok(0), testkit::LIMITS, settings);
                let tree = tree.ok().map(|received| received.tree);
                self.inputs.push_back(reader.of().tree_received(tree));
            }
            LinkEvent::NotReached { .. } | LinkEvent::Closed => self.lose_link(number),
            LinkEvent::Accepted | LinkEvent::Message(_) => {}
        }
    }

    /// Handles a connection that has ended or must end.
    fn lose_link(&mut self, number: u64) {
        let link = self.members.links.get(&number);
        self.inputs
            .extend(link.map(|link| link.reader.of().closed()));
        self.drop_link(number);
    }

    pub(super) fn drop_link(&mut self, number: u64) {
        self.members.links.remove(&number);
        self.world.close(self.process, number);
    }

    fn send_packet(&mut self, to: u64, packet: QuorumPacket) {
        if let Some(link) = self.members.links.get_mut(&to) {
            match pace::push(&mut link.queue, &packet, &mut self.world.random) {
                Ok(Some(taken)) => self.world.send(self.process, to, Message::Packets(taken)),
                Ok(None) => {}
                Err(_) => return self.lose_link(to),
            }
            self.write_to(to, BACKLOG_MAX);
        }
    }

    /// Ends a pause and continues to write to a member.
    pub(super) fn continue_sending(&mut self, to: u64, backlog_max: usize) {
        if let Some(link) = self.members.links.get_mut(&to) {
            link.is_reading = false;
            self.write_to(to, backlog_max);
        }
    }

    fn continue_after(&mut self, delay: Micros, to: u64) {
        let go_on = move |host: &mut Self| host.continue_sending(to, BACKLOG_MAX);
        self.world.start(self.process, delay, go_on);
    }

    /// Writes queued data while fewer than `backlog_max` messages are in flight.
    fn write_to(&mut self, to: u64, backlog_max: usize) {
        while let Some(link) = self.members.links.get_mut(&to)
            && !link.is_reading
            && let end = usize::from(matches!(link.reader.of(), LinkName::Learner(..)))
        {
            if self.world.network.backlog(to, end) >= backlog_max {
                link.is_reading = true;
                return self.continue_after(MS, to);
            }
            let (mut bytes, tree_bytes) = (Vec::new(), self.world.settings.chunk_bytes);
            let take = |bytes: &mut Vec<u8>| link.queue.take(bytes, || 0);
            let next = link.writer.next(&mut bytes, take, &*self.state, tree_bytes);
            let piece = match next {
                Ok(Some(piece)) => piece,
                Ok(None) => return,
                Err(_) => return self.lose_link(to),
            };
            let message = match piece {
                Piece::End => return,
                Piece::Packets { .. } | Piece::Head => Message::Packets(bytes.into()),
                Piece::Tree(_) => Message::Tree(bytes.into(), false),
                Piece::TreeEnd(_) => {
                    self.inputs.push_back(link.reader.of().tree_sent());
                    Message::Tree(bytes.into(), true)
                }
            };
            let delay = pace::behind_piece(&piece, &mut self.world.random);
            link.is_reading = delay.is_some();
            if let Some(delay) = delay {
                self.continue_after(delay, to);
            }
            self.world.send(self.process, to, message);
        }
    }

    /// Reads records for a learner, at most a random number of bytes.
    pub(super) fn read_page(&mut self, link: LinkId, from: Zxid, upto: Zxid) {
        let page_bytes = pace::page_bytes(&mut self.world.random);
        let pages = log_pages(&self.disk.history, page_bytes);
        let event = read_log(&pages, &mut None, link, from, upto);
        let port = replica::Port::Learners;
        self.inputs.push_back(Input::Learner(port, event));
    }

    pub(super) fn stop_listening(&mut self, port: replica::Port, hands_over: bool) {
        self.members.listens.remove(&port);
        let is_here = |of| matches!(of, LinkName::Learner(by, _) if by == port);
        let links = self.members.links.iter_mut();
        let links = links.filter(|(_, link)| is_here(link.reader.of()));
        let parts = |link: &mut MemberLink| hands_over && link.queue.finish();
        let links: Vec<_> = links.map(|(number, link)| (*number, parts(link))).collect();
        for (number, parts) in links {
            if parts {
                self.continue_sending(number, usize::MAX);
            }
            self.drop_link(number);
        }
    }

    pub(super) fn send_snapshot(&mut self, to: u64, zxid: Zxid) {
        if let Some(link) = self.members.links.get_mut(&to) {
            link.queue.push_snapshot(zxid, self.state.tree_bytes());
            self.write_to(to, BACKLOG_MAX);
        }
    }

    pub(super) fn read_log(&mut self, to: LinkId, from: Zxid, upto: Zxid) {
        let delay = self.world.read_delay();
        let read = move |host: &mut Self| host.read_page(to, from, upto);
        self.world
            .start_on_disk(self.process, DiskThread::Reader, delay, read);
    }

    pub(super) fn dial(&mut self, attempt: u64, addresses: &[HostPort], pause_ms: u64) {
        self.drop_link(self.members.leader);
        if let Some((server, port)) = addresses.first().and_then(server_at) {
            let patience = DialAttempts::Tries(i64::try_from(pause_ms).unwrap_or(0) * MS);
            let port = Port::Members(port);
            let number = self.world.dial(self.process, port, server, patience);
            let queue = PacketQueue::of_leader(LINK_BOUNDS);
            let link = MemberLink::new(LinkName::Leader(attempt), queue);
            self.members.links.insert(number, link);
            self.members.leader = number;
        }
    }

    pub(super) fn receive_snapshot(&mut self) {
        let leader = self.members.leader;
        if let Some(link) = self.members.links.get_mut(&leader) {
            link.is_waiting = false;
            let World { network, queue, .. } = &mut self.world;
            network.resume(leader, 1, queue);
        }
    }

    pub(super) fn elect(&mut self, effect: ElectionEffect) {
        match effect {
            ElectionEffect::Listen(_)
            | ElectionEffect::QueryOracle
            | ElectionEffect::Keep { .. } => {}
            ElectionEffect::Dial { sid, .. } => {
                let (port, patience) = (Port::Election, DialAttempts::Once);
                let server = index_of(sid);
                self.world.dial(self.process, port, server, patience);
            }
            ElectionEffect::Close { connection, .. } => {
                self.world.close(self.process, connection.0);
            }
            ElectionEffect::Write {
                connection,
                notification,
            } => {
                let vote = Message::Vote(Box::new(notification));
                self.world.send(self.process, connection.0, vote);
            }
        }
    }

    /// Sends the packets that wait for a flush.
    pub(super) fn flush_packets(&mut self) {
        for (to, packet) in self.core.take_staged() {
            self.send_packet(to, packet);
        }
    }
}
