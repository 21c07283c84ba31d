//! The connections of a leader to its learners, and of a learner to its leader.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use config::members::HostPort;
use jute::Limits;
use proto::Zxid;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use recovery::{Restore, TreeReader};
use replica::{Input, LeaderEvent, LearnerEvent, Port, State};
use storage::read_body;
use tree::Tree;
use zab::Record;
use zab::leader::LinkId;

use super::Job;
use super::host::SimHost;
use crate::configured::{OBSERVER_MASTER_PORT, server_at, tree_settings};
use crate::network::{self, Message, Patience};
use crate::plan::{MS, Plan};
use crate::world::World;

/// Packets that may wait for a learner.
const BACKLOG_MAX: usize = 5000;

/// The ways to other members.
#[derive(Default)]
pub(super) struct Members {
    /// Where learners are listened for.
    pub(super) listens: BTreeSet<Port>,
    links: BTreeMap<u64, Link>,
    leader: Option<Line>,
}

/// A learner's connection: a snapshot to be sent, and what comes behind it.
struct Link {
    port: Port,
    snapshot: Option<(Zxid, TreeReader)>,
    held: Vec<Message>,
}

/// The connection to the leader, or an attempt at one.
struct Line {
    attempt: u64,
    connection: u64,
    /// What has come of a snapshot.
    snapshot: Vec<u8>,
    /// Whether a snapshot is next, and not wanted yet.
    is_waiting: bool,
}

impl Link {
    fn new(port: Port) -> Self {
        Self {
            port,
            snapshot: None,
            held: Vec::new(),
        }
    }
}

impl Members {
    /// Whether a message on this connection can be taken now.
    pub(super) fn may_take(&self, connection: u64) -> bool {
        let mut waiting = self.leader.iter().filter(|line| line.is_waiting);
        !waiting.any(|line| line.connection == connection)
    }
}

impl SimHost {
    fn tell_of_learner(&mut self, port: Port, event: LearnerEvent) {
        self.inputs.push_back(Input::Learner(port, event));
    }

    fn tell_of_leader(&mut self, event: LeaderEvent) {
        if let Some(Line { attempt, .. }) = self.members.leader {
            self.inputs.push_back(Input::Leader { attempt, event });
        }
    }

    pub(super) fn stop_listening(&mut self, port: Port) {
        self.members.listens.remove(&port);
        let links = self.members.links.iter();
        let links = links.filter(|(_, link)| link.port == port);
        for link in links.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.close_link(link);
        }
    }

    pub(super) fn close_link(&mut self, link: u64) {
        self.members.links.remove(&link);
        self.close(link);
    }

    pub(super) fn learner_connected(&mut self, connection: u64, port: Port) {
        self.members.links.insert(connection, Link::new(port));
        let link = LinkId(connection);
        self.tell_of_learner(port, LearnerEvent::Connected { link });
    }

    pub(super) fn learner_packet(&mut self, connection: u64, packet: LearnerPacket) {
        if let Some(Link { port, .. }) = self.members.links.get(&connection) {
            let (link, packets) = (LinkId(connection), vec![packet]);
            self.tell_of_learner(*port, LearnerEvent::Packets { link, packets });
        }
    }

    pub(super) fn learner_closed(&mut self, connection: u64) {
        if let Some(Link { port, .. }) = self.members.links.remove(&connection) {
            let link = LinkId(connection);
            self.tell_of_learner(port, LearnerEvent::Closed { link });
        }
    }

    pub(super) fn send_down(&mut self, to: u64, message: Message) {
        match self.members.links.get_mut(&to) {
            Some(link) if link.snapshot.is_some() => link.held.push(message),
            Some(_) => self.send(to, message),
            None => return,
        }
        if self.world.network.backlog(to, 1) > BACKLOG_MAX {
            self.close(to);
            self.learner_closed(to);
        }
    }

    pub(super) fn send_snapshot(&mut self, to: u64, zxid: Zxid) {
        if let Some(link) = self.members.links.get_mut(&to) {
            let reader = TreeReader::new(&self.state.tree(), self.state.generation());
            link.snapshot = Some((zxid, reader));
            self.send(to, Message::SnapshotBegin(zxid));
            self.start_job(Job::SendSnapshot(to), 500);
        }
    }

    pub(super) fn continue_sending(&mut self, to: u64) {
        let (state, mut chunk) = (self.state.clone(), Vec::new());
        let Some(link) = self.members.links.get_mut(&to) else {
            return;
        };
        let Some((zxid, reader)) = &mut link.snapshot else {
            return;
        };
        let (zxid, bytes) = (*zxid, self.world.plan.chunk_bytes);
        let read = reader.read(&state.tree(), state.generation(), bytes, &mut chunk);
        let Ok(more) = read else {
            self.close(to);
            return self.learner_closed(to);
        };
        self.send(to, Message::Snapshot(Bytes::from(chunk)));
        if more {
            let delay = self.world.random.range(200, 5000);
            return self.start_job(Job::SendSnapshot(to), delay);
        }
        self.send(to, Message::SnapshotEnd(zxid));
        let Some(link) = self.members.links.get_mut(&to) else {
            return;
        };
        let Link { port, held, .. } = std::mem::replace(link, Link::new(link.port));
        for message in held {
            self.send(to, message);
        }
        let link = LinkId(to);
        self.tell_of_learner(port, LearnerEvent::SnapshotSent { link });
    }

    /// Some records for a learner: few or many at once.
    pub(super) fn read_log(&mut self, link: LinkId, from: Zxid, upto: Zxid) {
        let page_bytes = self.world.random.pick(&[1, 300, 1 << 20]).unwrap_or(1);
        let page = self.disk.log_page(page_bytes, from, upto);
        self.say(|| match &page {
            Ok(page) => format!("has read {} records from {from} to {upto}", page.len()),
            Err(error) => format!("cannot read its log from {from}: {error}"),
        });
        let records = page.map(|page| page.into_iter().map(|(zxid, txn)| Record::new(zxid, txn)));
        self.tell_of_learner(
            Port::Learners,
            match records.map(Iterator::collect) {
                Ok(records) => LearnerEvent::LogRecords { link, records },
                Err(_) => LearnerEvent::LogUnusable { link },
            },
        );
    }

    pub(super) fn dial_leader(&mut self, attempt: u64, addresses: &[HostPort], pause_ms: u64) {
        self.hang_up();
        let Some(leader) = addresses.first().and_then(server_at) else {
            return;
        };
        let pause = i64::try_from(pause_ms).unwrap_or(0) * MS;
        let port = match addresses.first().map(|address| address.port) {
            Some(OBSERVER_MASTER_PORT) => network::Port::Observers,
            _ => network::Port::Quorum,
        };
        let connection = self.dial(port, leader, Patience::Tries(pause));
        self.members.leader = Some(Line {
            attempt,
            connection,
            snapshot: Vec::new(),
            is_waiting: false,
        });
    }

    pub(super) fn leader_dialled(&mut self, connection: u64, is_open: bool) {
        let line = self.members.leader.as_ref();
        if line.is_none_or(|line| line.connection != connection) {
            self.close(connection);
        } else if is_open {
            self.tell_of_leader(LeaderEvent::Connected);
        } else {
            self.leader_closed(connection);
        }
    }

    pub(super) fn leader_closed(&mut self, connection: u64) {
        let line = self.members.leader.as_ref();
        if line.is_some_and(|line| line.connection == connection) {
            self.tell_of_leader(LeaderEvent::Closed);
            self.members.leader = None;
        }
    }

    pub(super) fn hang_up(&mut self) {
        if let Some(line) = self.members.leader.take() {
            self.close(line.connection);
        }
    }

    pub(super) fn send_up(&mut self, packet: LearnerPacket) {
        if let Some(line) = &self.members.leader {
            self.send(line.connection, Message::Up(packet));
        }
    }

    pub(super) fn receive_snapshot(&mut self) {
        if let Some(line) = &mut self.members.leader {
            line.is_waiting = false;
            let World { network, queue, .. } = &mut self.world;
            network.resume(line.connection, 1, queue);
        }
    }

    /// Something came from the leader.
    pub(super) fn hear_leader(&mut self, connection: u64, message: Message) {
        let line = self.members.leader.as_mut();
        let Some(line) = line.filter(|line| line.connection == connection) else {
            return;
        };
        let event = match message {
            Message::SnapshotBegin(zxid) => {
                line.is_waiting = true;
                LeaderEvent::Packets(vec![LeaderPacket::Snap { zxid }])
            }
            Message::Snapshot(bytes) => {
                line.snapshot.extend_from_slice(&bytes);
                LeaderEvent::SnapshotProgress
            }
            Message::SnapshotEnd(zxid) => {
                match tree_of(&std::mem::take(&mut line.snapshot), zxid, &self.world.plan) {
                    Ok(tree) => LeaderEvent::SnapshotReceived(Box::new(tree)),
                    Err(error) => return self.world.checks.fail("snapshots are whole", error),
                }
            }
            Message::Down(packet) => LeaderEvent::Packets(vec![packet]),
            _ => return,
        };
        self.tell_of_leader(event);
    }
}

/// The tree that a leader has sent.
fn tree_of(bytes: &[u8], zxid: Zxid, plan: &Plan) -> Result<Tree, String> {
    let mut restore = Restore::new(tree_settings(plan));
    read_body(bytes, Path::new("SNAP"), Limits::default(), &mut restore)
        .map_err(|error| error.to_string())?;
    restore.finish(zxid).map_err(|error| error.to_string())
}
