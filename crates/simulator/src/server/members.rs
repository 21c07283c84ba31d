//! The connections of a leader to its learners, and of a learner to its leader.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use config::members::HostPort;
use jute::Limits;
use proto::Zxid;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use recovery::Restore;
use replica::{Input, LeaderEvent, LearnerEvent, Port, State};
use storage::{list_logs, read_body, read_txns_from};
use tree::{SnapshotCursor, Tree};
use zab::Record;
use zab::leader::LinkId;

use super::Job;
use super::boot::{server_at, tree_settings};
use super::host::SimHost;
use crate::Mutant;
use crate::network::{self, Message};
use crate::plan::MS;
use crate::queue::Micros;

/// Packets that may wait for a learner.
const BACKLOG_MAX: usize = 5000;

/// Pauses between the tries to reach a leader; behind the last of them the leader cannot be reached.
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

/// The ways to other members.
#[derive(Default)]
pub(super) struct Members {
    /// The order by which learners are listened for.
    pub(super) listens: Option<u64>,
    links: BTreeMap<u64, Link>,
    leader: Option<Line>,
}

/// A learner's connection.
#[derive(Default)]
struct Link {
    /// A snapshot to be sent, and of which tree it is once that has begun.
    sending: Option<(Zxid, Option<(SnapshotCursor, u64)>)>,
    /// What comes behind it.
    held: Vec<Message>,
    is_counted_up: bool,
}

/// The connection to the leader, or an attempt at one.
struct Line {
    attempt: u64,
    leader: usize,
    tries: usize,
    retry_at: Option<Micros>,
    connection: Option<u64>,
    reading: Reading,
    /// Whether DIFF, TRUNC or SNAP has come: what looks like a SNAP packet later is none.
    is_opened: bool,
    /// For mutants: what stands behind DIFF is still to come, NEWLEADER was there.
    drops_next: bool,
    had_new_leader: bool,
}

/// What comes from the leader.
enum Reading {
    Packets,
    /// Bytes of a snapshot are next, once they are wanted.
    Waiting(Zxid),
    Snapshot(Zxid, Vec<u8>),
}

impl Members {
    pub(super) fn retry_at(&self) -> Option<Micros> {
        self.leader.as_ref()?.retry_at
    }

    /// Whether a message on this connection can be taken now.
    pub(super) fn may_take(&self, connection: u64) -> bool {
        let line = self.leader.as_ref();
        let line = line.filter(|line| line.connection == Some(connection));
        line.is_none_or(|line| !matches!(line.reading, Reading::Waiting(_)))
    }
}

impl SimHost {
    fn tell_of_learner(&mut self, event: LearnerEvent) {
        self.inputs.push_back(Input::Learner(Port::Learners, event));
    }

    fn tell_of_leader(&mut self, event: LeaderEvent) {
        if let Some(Line { attempt, .. }) = self.members.leader {
            self.inputs.push_back(Input::Leader { attempt, event });
        }
    }

    pub(super) fn stop_listening(&mut self) {
        self.members.listens = None;
        for link in std::mem::take(&mut self.members.links).into_keys() {
            self.close(link);
        }
    }

    pub(super) fn close_link(&mut self, link: LinkId) {
        self.members.links.remove(&link.0);
        self.close(link.0);
    }

    pub(super) fn learner_connected(&mut self, connection: u64) {
        self.members.links.insert(connection, Link::default());
        let link = LinkId(connection);
        self.tell_of_learner(LearnerEvent::Connected { link });
    }

    pub(super) fn learner_packet(&mut self, connection: u64, packet: LearnerPacket) {
        if self.members.links.contains_key(&connection) {
            let (link, packets) = (LinkId(connection), vec![packet]);
            self.tell_of_learner(LearnerEvent::Packets { link, packets });
        }
    }

    pub(super) fn learner_closed(&mut self, connection: u64) {
        if self.members.links.remove(&connection).is_some() {
            let link = LinkId(connection);
            self.tell_of_learner(LearnerEvent::Closed { link });
        }
    }

    pub(super) fn send_down(&mut self, to: LinkId, packet: LeaderPacket) {
        let Some(link) = self.members.links.get_mut(&to.0) else {
            return;
        };
        let new_leader = match packet {
            LeaderPacket::NewLeader { zxid, .. } if !link.is_counted_up => Some(zxid),
            _ => None,
        };
        if let Some(zxid) = new_leader
            && self.world.is(Mutant::NewLeaderQuorumSkipped)
        {
            link.is_counted_up = true;
            let packets = vec![LearnerPacket::Ack { zxid }];
            let event = LearnerEvent::Packets { link: to, packets };
            self.inputs.push_back(Input::Learner(Port::Learners, event));
        }
        let message = Message::Down(packet);
        match link.sending {
            Some(_) => link.held.push(message),
            None => self.send(to.0, message),
        }
        if self.world.network.backlog(to.0, 1) > BACKLOG_MAX {
            self.close(to.0);
            self.learner_closed(to.0);
        }
    }

    pub(super) fn send_snapshot(&mut self, to: LinkId, zxid: Zxid) {
        if let Some(link) = self.members.links.get_mut(&to.0) {
            link.sending = Some((zxid, None));
            self.start_job(Job::SendSnapshot(to.0), 500);
        }
    }

    pub(super) fn continue_sending(&mut self, to: u64) {
        let (state, generation) = (self.state.clone(), self.state.generation());
        let Some(link) = self.members.links.get_mut(&to) else {
            return;
        };
        let Some((zxid, sending)) = &mut link.sending else {
            return;
        };
        let (tree, mut chunk) = (state.tree(), Vec::new());
        let is_first = sending.is_none();
        let (cursor, begun_in) = sending.get_or_insert_with(|| (tree.start_snapshot(), generation));
        if *begun_in != generation {
            self.close(to);
            return self.learner_closed(to);
        }
        let more = tree.snapshot_chunk(cursor, self.world.plan.chunk_bytes, &mut chunk);
        let zxid = *zxid;
        let held = match more {
            true => Vec::new(),
            false => {
                link.sending = None;
                std::mem::take(&mut link.held)
            }
        };
        if is_first {
            self.send(to, Message::Down(LeaderPacket::Snap { zxid }));
        }
        self.send(to, Message::SnapshotBytes(Bytes::from(chunk)));
        if more {
            let delay = self.world.random.range(200, 5000);
            return self.start_job(Job::SendSnapshot(to), delay);
        }
        self.send(to, Message::SnapshotEnd);
        for message in held {
            self.send(to, message);
        }
        let link = LinkId(to);
        self.tell_of_learner(LearnerEvent::SnapshotSent { link });
    }

    pub(super) fn start_reading_log(&mut self, to: LinkId, from: Zxid, upto: Zxid) {
        let delay = self.world.random.range(100, self.world.plan.sync + 101);
        self.start_job(Job::ReadLog { to, from, upto }, delay);
    }

    /// Some records for a learner, the first being the last one not behind `from`.
    pub(super) fn read_log(&mut self, link: LinkId, from: Zxid, upto: Zxid) {
        // Few or many at once.
        let records_max = match self.world.random.percent(50) {
            true => 3,
            false => 1000,
        };
        let records = self.records_around(from, upto, records_max);
        self.world.say(self.sid, || match &records {
            Some(records) => format!("has read {} records from {from} to {upto}", records.len()),
            None => format!("cannot read its log from {from}"),
        });
        self.tell_of_learner(match records {
            Some(records) => LearnerEvent::LogRecords { link, records },
            None => LearnerEvent::LogUnusable { link },
        });
    }

    fn records_around(&self, from: Zxid, upto: Zxid, records_max: usize) -> Option<Vec<Record>> {
        let (disk, dirs) = (&*self.disk.disk, &self.disk.dirs);
        let logs = list_logs(disk, &dirs.log).ok()?;
        let mut before = logs.iter().rev().filter(|log| log.zxid <= from);
        // A file that has lost its records to a crash may stand before the right one.
        before.find_map(|log| {
            let mut records: Vec<Record> = Vec::new();
            for txn in read_txns_from(disk, dirs, log.zxid, Limits::default()).ok()? {
                let txn = txn.ok()?;
                let zxid = txn.record.header.zxid;
                if zxid <= from {
                    records.clear();
                }
                records.push(Record::new(zxid, txn.payload));
                if records.len() > records_max || zxid >= upto.max(from.next()) {
                    break;
                }
            }
            let is_around = records.first().is_some_and(|first| first.zxid <= from);
            is_around.then_some(records)
        })
    }

    pub(super) fn dial_leader(&mut self, attempt: u64, addresses: &[HostPort], pause_ms: u64) {
        self.hang_up();
        let Some(leader) = addresses.first().and_then(server_at) else {
            return;
        };
        let pause = i64::try_from(pause_ms).unwrap_or(0) * MS;
        self.members.leader = Some(Line {
            attempt,
            leader,
            tries: 0,
            retry_at: Some(self.world.now() + pause),
            connection: None,
            reading: Reading::Packets,
            is_opened: false,
            drops_next: false,
            had_new_leader: false,
        });
        self.retry_leader();
    }

    pub(super) fn retry_leader(&mut self) {
        let now = self.world.now();
        if let Some(line) = &mut self.members.leader
            && line.retry_at.take_if(|at| *at <= now).is_some()
        {
            let leader = line.leader;
            let connection = self.dial(network::Port::Quorum, leader);
            if let Some(line) = &mut self.members.leader {
                line.connection = Some(connection);
            }
        }
    }

    pub(super) fn leader_dialled(&mut self, connection: u64, is_open: bool) {
        let now = self.world.now();
        let line = self.members.leader.as_mut();
        let Some(line) = line.filter(|line| line.connection == Some(connection)) else {
            return self.close(connection);
        };
        if is_open {
            return self.tell_of_leader(LeaderEvent::Connected);
        }
        self.world.network.forget(connection);
        line.connection = None;
        match PAUSES.get(line.tries) {
            Some(pause) => {
                line.tries += 1;
                line.retry_at = Some(now + pause);
            }
            None => self.leader_is_gone(),
        }
    }

    pub(super) fn leader_closed(&mut self, connection: u64) {
        let line = self.members.leader.as_ref();
        if line.is_some_and(|line| line.connection == Some(connection)) {
            self.leader_is_gone();
        }
    }

    fn leader_is_gone(&mut self) {
        self.tell_of_leader(LeaderEvent::Closed);
        self.members.leader = None;
    }

    pub(super) fn hang_up(&mut self) {
        if let Some(line) = self.members.leader.take()
            && let Some(connection) = line.connection
        {
            self.close(connection);
        }
    }

    pub(super) fn send_up(&mut self, mut packet: LearnerPacket) {
        if let LearnerPacket::Ping { touched, .. } = &mut packet
            && self.world.is(Mutant::TouchLost)
        {
            touched.clear();
        }
        let line = self.members.leader.as_ref();
        if let Some(connection) = line.and_then(|line| line.connection) {
            self.send(connection, Message::Up(packet));
        }
    }

    pub(super) fn receive_snapshot(&mut self) {
        if let Some(line) = &mut self.members.leader
            && let Reading::Waiting(zxid) = line.reading
            && let Some(connection) = line.connection
        {
            line.reading = Reading::Snapshot(zxid, Vec::new());
            let (network, queue) = (&mut self.world.network, &mut self.world.queue);
            network.resume(connection, 1, queue);
        }
    }

    /// Something came from the leader.
    pub(super) fn hear_leader(&mut self, connection: u64, message: Message) {
        let line = self.members.leader.as_mut();
        let Some(line) = line.filter(|line| line.connection == Some(connection)) else {
            return;
        };
        match (message, &mut line.reading) {
            (Message::Down(packet), Reading::Packets) => {
                match &packet {
                    LeaderPacket::Snap { zxid } if !line.is_opened => {
                        line.reading = Reading::Waiting(*zxid);
                        line.is_opened = true;
                    }
                    LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. } => {
                        line.is_opened = true;
                    }
                    _ => {}
                }
                let packets = self.doctored(packet);
                if !packets.is_empty() {
                    self.tell_of_leader(LeaderEvent::Packets(packets));
                }
            }
            (Message::SnapshotBytes(bytes), Reading::Snapshot(_, received)) => {
                received.extend_from_slice(&bytes);
                self.tell_of_leader(LeaderEvent::SnapshotProgress);
            }
            (Message::SnapshotEnd, Reading::Snapshot(zxid, bytes)) => {
                let tree = tree_of(&std::mem::take(bytes), *zxid);
                line.reading = Reading::Packets;
                match tree {
                    Ok(tree) => self.tell_of_leader(LeaderEvent::SnapshotReceived(Box::new(tree))),
                    Err(error) => self.world.checks.fail("snapshots are whole", error),
                }
            }
            _ => {}
        }
    }

    /// What the replica is given of a packet: all of it, but for mutants.
    fn doctored(&mut self, packet: LeaderPacket) -> Vec<LeaderPacket> {
        let is_synchronising = !self.is_active;
        let Some(line) = &mut self.members.leader else {
            return Vec::new();
        };
        match &packet {
            LeaderPacket::Diff { .. } => {
                line.drops_next = self.world.is(Mutant::DiffFromWrongPoint);
            }
            LeaderPacket::NewLeader { zxid, .. } => {
                line.had_new_leader = true;
                line.drops_next = false;
                if self.world.is(Mutant::EpochBeforeHistory)
                    && let Err(error) = self.save_current(zxid.epoch())
                {
                    self.exit(error.to_string());
                }
            }
            LeaderPacket::Proposal { zxid, .. } if is_synchronising => {
                if line.drops_next {
                    return Vec::new();
                }
                if self.world.is(Mutant::ProposalAckedBeforeNewLeader) {
                    self.send_up(LearnerPacket::Ack { zxid: *zxid });
                }
            }
            LeaderPacket::Proposal { zxid, .. } if self.world.is(Mutant::AppliesProposals) => {
                let commit = LeaderPacket::Commit { zxid: *zxid };
                return vec![packet, commit];
            }
            LeaderPacket::Commit { .. } if is_synchronising => {
                let is_lost =
                    line.had_new_leader && self.world.is(Mutant::CommitBeforeUpToDateLost);
                if is_lost || std::mem::take(&mut line.drops_next) {
                    return Vec::new();
                }
            }
            LeaderPacket::Commit { .. } if self.world.is(Mutant::AppliesProposals) => {
                return Vec::new();
            }
            _ => {}
        }
        vec![packet]
    }
}

/// The tree that a leader has sent.
fn tree_of(bytes: &[u8], zxid: Zxid) -> Result<Tree, String> {
    let mut restore = Restore::new(tree_settings());
    read_body(bytes, Path::new("SNAP"), Limits::default(), &mut restore)
        .map_err(|error| error.to_string())?;
    restore.finish(zxid).map_err(|error| error.to_string())
}
