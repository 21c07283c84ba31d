//! One process of a server: what hosts the cores, as the real server does.
//!
//! * `boot` recovers from the disk, `finding` finds a leader, `learning` and `leading` host the two
//!   roles, `log` and `snapshots` are the threads of the disk, `desk` serves clients, `applying`
//!   applies what is committed.

mod applying;
mod boot;
mod desk;
mod files;
mod finding;
mod leading;
mod learning;
mod log;
mod snapshots;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use election::links::Links;
use election::{Candidate, Election};
use parking_lot::Mutex;
use proto::notification::Notification;
use proto::{Epoch, Sid, Zxid};
use storage::{DataDirs, Epochs};
use tree::{Tree, Watches};
use zab::learner::LearnerKind;
use zab::{CommittedLog, Record};

pub(crate) use applying::decode;
pub(crate) use boot::{Birth, sid_of};

use crate::disk::SimDisk;
use crate::network::{Message, Place, Port};
use crate::queue::{Event, Micros};
use crate::world::World;
use desk::Desk;
use leading::Leading;
use learning::Learning;
use log::LogRoom;
use snapshots::SnapshotJob;

pub(crate) struct Server {
    pub(crate) index: usize,
    pub(crate) life: u64,
    pub(crate) sid: Sid,
    pub(crate) kind: LearnerKind,
    disk: Arc<SimDisk>,
    dirs: DataDirs,
    epochs: Epochs,
    pub(crate) tree: Tree,
    watches: Mutex<Watches>,
    election: Election,
    links: Links,
    /// What this server sent to itself.
    to_self: VecDeque<Notification>,
    /// Election connections that are kept, and whose they are.
    voters: BTreeMap<u64, Sid>,
    pub(crate) role: Role,
    log: LogRoom,
    /// What the disk was asked to do, by number.
    jobs: BTreeMap<u64, Job>,
    last_job: u64,
    committed: CommittedLog,
    /// For mutants: what was committed while this server served.
    heard_live: Vec<Record>,
    /// Appended and not applied, oldest first.
    undelivered: VecDeque<Record>,
    log_whole_from: Zxid,
    truncation_failed_in: Option<Epoch>,
    accepted_floor: Epoch,
    /// The directory was empty and nobody says that this is right: no vote.
    is_untrusted: bool,
    desk: Desk,
    snapshot: Option<SnapshotJob>,
    wake_at: Option<Micros>,
    /// Why the process must end.
    pub(crate) ended: Option<String>,
}

pub(crate) enum Role {
    /// Nothing before this moment.
    Paused(Micros),
    Looking,
    /// Has found whom to follow and is not connected yet.
    Seeking {
        leader: usize,
        since: Micros,
        retry_at: Option<Micros>,
        connection: Option<u64>,
    },
    Learning(Box<Learning>),
    Leading(Box<Leading>),
}

/// What a disk is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Job {
    /// Write and sync what was handed to the writer, up to here.
    Sync(Zxid),
    SaveAccepted(Epoch),
    SaveCurrent(Epoch),
    Truncate(Zxid),
    AdoptSnapshot,
    /// The next piece of a snapshot.
    Snapshot,
    /// The next piece of a snapshot for a learner.
    SendSnapshot(u64),
    ReadLog {
        to: u64,
        from: Zxid,
        upto: Zxid,
    },
}

/// A kind of job that a script can have held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Sync,
    SaveCurrent,
    AdoptSnapshot,
}

impl Job {
    fn held(&self) -> Option<Held> {
        match self {
            Self::Sync(_) => Some(Held::Sync),
            Self::SaveCurrent(_) => Some(Held::SaveCurrent),
            Self::AdoptSnapshot => Some(Held::AdoptSnapshot),
            _ => None,
        }
    }
}

impl Server {
    pub(crate) fn place(&self) -> Place {
        Place::Server {
            server: self.index,
            life: self.life,
        }
    }

    /// The last transaction in the log.
    pub(crate) fn last_logged(&self) -> Zxid {
        let logged = self.undelivered.back().map(|record| record.zxid);
        logged.map_or(self.tree.last_zxid(), |zxid| {
            zxid.max(self.tree.last_zxid())
        })
    }

    fn candidate(&self) -> Candidate {
        Candidate {
            zxid: (!self.is_untrusted).then_some(self.last_logged()),
            peer_epoch: self.epochs.current,
        }
    }

    /// Whether clients are served.
    pub(crate) fn is_serving(&self) -> bool {
        match &self.role {
            Role::Learning(learning) => learning.serves,
            Role::Leading(leading) => leading.core.is_leading() && leading.office.is_some(),
            _ => false,
        }
    }

    pub(crate) fn is_leading(&self) -> bool {
        matches!(self.role, Role::Leading(_)) && self.is_serving()
    }

    /// What it does, in a word.
    pub(crate) fn doing(&self) -> String {
        match &self.role {
            Role::Paused(_) => "pauses".into(),
            Role::Looking => "looks".into(),
            Role::Seeking { leader, .. } => format!("seeks {}", leader + 1),
            Role::Learning(_) if self.is_serving() => "follows".into(),
            Role::Learning(_) => "synchronises".into(),
            Role::Leading(_) if self.is_serving() => "leads".into(),
            Role::Leading(_) => "wants to lead".into(),
        }
    }

    /// The process ends with this reason; nothing is done any more.
    fn exit(&mut self, reason: String) {
        self.ended.get_or_insert(reason);
    }

    fn start_job(&mut self, job: Job, delay: Micros, world: &mut World) {
        self.last_job += 1;
        self.jobs.insert(self.last_job, job);
        let event = Event::DiskDone {
            server: self.index,
            life: self.life,
            job: self.last_job,
        };
        world.queue.after(delay, event);
    }

    /// How long the disk takes for a sync.
    fn sync_delay(&self, world: &mut World) -> Micros {
        let longest = world.plan.sync;
        if !world.is_healed && world.random.percent(2) {
            return longest * world.random.range(5, 40);
        }
        world.random.range(100, longest + 101)
    }

    /// The disk has done a job.
    pub(crate) fn handle_disk(&mut self, job: u64, world: &mut World) {
        let Some(job) = self.jobs.remove(&job) else {
            return;
        };
        let held = job.held().map(|held| (self.index, held));
        if held.is_some_and(|held| world.held.contains(&held)) {
            return self.start_job(job, 1000, world);
        }
        match job {
            Job::Sync(upto) => self.finish_sync(upto, world),
            Job::SaveAccepted(epoch) => self.finish_accepted(epoch, world),
            Job::SaveCurrent(epoch) => self.finish_current(epoch, world),
            Job::Truncate(zxid) => self.finish_truncate(zxid, world),
            Job::AdoptSnapshot => self.finish_adopt_snapshot(world),
            Job::Snapshot => self.continue_snapshot(world),
            Job::SendSnapshot(link) => self.continue_sending(link, world),
            Job::ReadLog { to, from, upto } => self.read_log(to, from, upto, world),
        }
    }

    /// The power is about to go while the disk does all this.
    pub(crate) fn finish_disk_jobs(&mut self, world: &mut World) {
        for job in std::mem::take(&mut self.jobs).into_values() {
            match job {
                Job::Sync(_) => drop(self.log.writer.commit()),
                Job::SaveAccepted(epoch) => {
                    drop(Epochs::store_accepted(&*self.disk, &self.dirs, epoch));
                }
                Job::SaveCurrent(epoch) => {
                    drop(Epochs::store_current(&*self.disk, &self.dirs, epoch));
                }
                Job::Truncate(zxid) if self.holds(zxid) => {
                    let limits = jute::Limits::default();
                    drop(storage::truncate(&*self.disk, &self.dirs, zxid, limits));
                }
                Job::AdoptSnapshot => drop(self.adopt_snapshot(world)),
                _ => {}
            }
        }
    }

    /// Whether a message on this connection can be taken now.
    pub(crate) fn may_take(&self, connection: u64) -> bool {
        match &self.role {
            Role::Learning(learning) if learning.connection == connection => learning.may_take(),
            _ => true,
        }
    }

    /// Something came over a connection.
    pub(crate) fn handle_message(&mut self, connection: u64, message: Message, world: &mut World) {
        match message {
            Message::Hello(sid) => self.hear_hello(connection, sid, world),
            Message::Vote(notification) => self.hear_vote(connection, *notification, world),
            Message::Down(packet) => self.hear_leader(connection, packet, world),
            Message::SnapshotBytes(bytes) => self.hear_snapshot(connection, &bytes, world),
            Message::SnapshotEnd => self.hear_snapshot_end(connection, world),
            Message::Up(packet) => self.hear_learner(connection, packet, world),
            Message::ToServer(request) => self.hear_client(connection, *request, world),
            Message::ToClient(_) => {}
            Message::End => {
                world.close(self.place(), connection);
                self.handle_closed(connection, world);
            }
        }
    }

    /// A connection is gone.
    pub(crate) fn handle_closed(&mut self, connection: u64, world: &mut World) {
        self.election_closed(connection, world);
        self.desk_closed(connection);
        match &mut self.role {
            Role::Seeking {
                connection: current,
                retry_at,
                ..
            } if *current == Some(connection) => {
                *current = None;
                *retry_at = Some(world.now() + 50_000);
            }
            Role::Learning(learning) if learning.connection == connection => {
                self.end_role("the connection is gone", world);
            }
            Role::Leading(_) => self.learner_closed(connection),
            _ => {}
        }
    }

    /// Whether somebody listens there.
    pub(crate) fn listens(&self, port: Port) -> bool {
        match port {
            Port::Election => true,
            Port::Quorum => matches!(self.role, Role::Leading(_)),
            Port::Client => self.is_serving(),
        }
    }

    /// Somebody has connected.
    pub(crate) fn handle_accepted(&mut self, connection: u64, port: Port, world: &mut World) {
        match port {
            Port::Election => {}
            Port::Quorum => self.learner_connected(connection, world),
            Port::Client => self.client_connected(connection),
        }
    }

    /// A dial of this server has ended.
    pub(crate) fn handle_dialled(
        &mut self,
        connection: u64,
        port: Port,
        is_open: bool,
        world: &mut World,
    ) {
        match port {
            Port::Election => self.election_dialled(connection, is_open, world),
            Port::Quorum => self.quorum_dialled(connection, is_open, world),
            Port::Client => {}
        }
    }

    /// Deadlines may have come.
    pub(crate) fn handle_wake(&mut self, world: &mut World) {
        self.wake_at = None;
        self.finding_deadlines(world);
        match &self.role {
            Role::Learning(_) => self.learn(world, |core, now_ms, out| {
                core.handle_deadline(now_ms, out);
            }),
            Role::Leading(_) => self.leading_deadlines(world),
            _ => {}
        }
    }

    /// After anything that happened: what it sent itself, and when to wake up.
    pub(crate) fn settle(&mut self, world: &mut World) {
        while self.ended.is_none()
            && let Some(notification) = self.to_self.pop_front()
        {
            let sid = self.sid;
            self.elect(world, |election, now_ms, out| {
                election.handle_notification(sid, &notification.into(), now_ms, out);
            });
        }
        let Some(at) = self.deadline(world) else {
            return;
        };
        if self.wake_at.is_none_or(|before| at < before) {
            self.wake_at = Some(at);
            let event = Event::Wake {
                server: self.index,
                life: self.life,
            };
            world.queue.at(at, event);
        }
    }

    fn deadline(&self, world: &World) -> Option<Micros> {
        let micros = |ms: i64| ms.saturating_mul(1000);
        let mut deadlines = vec![
            self.election.next_deadline().map(micros),
            self.links.next_deadline().map(micros),
        ];
        let of_role = match &self.role {
            Role::Paused(until) => Some(*until),
            Role::Looking => None,
            Role::Seeking { retry_at, .. } => *retry_at,
            Role::Learning(learning) => learning.core.deadline_ms().map(micros),
            Role::Leading(leading) => {
                deadlines.push(leading.expiry_ms().map(micros));
                leading.core.deadline_ms().map(micros)
            }
        };
        deadlines.push(of_role);
        // Never twice at one moment: what is due and not done now is done a little later.
        let soonest = deadlines.into_iter().flatten().min();
        soonest.map(|at| at.max(world.now() + 1000))
    }

    /// The role is over: its connections go, what it appended becomes history, a leader is looked
    /// for.
    fn end_role(&mut self, reason: &str, world: &mut World) {
        self.drop_role(reason, world);
        if self.ended.is_none() {
            self.look(world);
        }
    }

    /// The same with a pause before the next attempt.
    fn end_role_and_pause(&mut self, reason: &str, world: &mut World) {
        self.drop_role(reason, world);
        self.role = Role::Paused(world.now() + 400_000);
    }

    fn drop_role(&mut self, reason: &str, world: &mut World) {
        world.say(self.sid, || format!("ends its role: {reason}"));
        self.close_desk(world);
        // What follows goes into the tree without being committed, and must not get into a snapshot:
        // TRUNC would cut the log, and the snapshot, named after an earlier zxid, would stay.
        if !world.is(crate::Mutant::SnapshotOutlivesRole) {
            self.snapshot = None;
        }
        let mut is_tree_bad = false;
        match std::mem::replace(&mut self.role, Role::Looking) {
            Role::Learning(learning) => {
                world.close(self.place(), learning.connection);
                is_tree_bad = learning.core.is_tree_unsaved() || learning.is_tree_bad;
                self.committed = learning.core.into_committed();
            }
            Role::Leading(leading) => {
                for link in leading.links.keys() {
                    world.close(self.place(), *link);
                }
                self.committed = leading.core.into_committed();
            }
            Role::Seeking { connection, .. } => {
                if let Some(connection) = connection {
                    world.network.forget(connection);
                }
            }
            Role::Paused(_) | Role::Looking => {}
        }
        self.jobs.retain(|_, job| matches!(job, Job::Snapshot));
        self.settle_log(world);
        if world.is(crate::Mutant::VotesByApplied) {
            self.undelivered.clear();
        } else if is_tree_bad || world.random.percent(10) {
            self.reload(world);
        } else {
            self.catch_up_tree();
        }
    }

    /// The election decides what comes next.
    fn look(&mut self, world: &mut World) {
        self.role = Role::Looking;
        let candidate = self.candidate();
        world.say(self.sid, || format!("looks, {candidate:?}"));
        self.elect(world, |election, now_ms, out| {
            election.start(candidate, now_ms, out);
        });
    }

    /// Transactions that were logged and not applied are history for the next role.
    fn catch_up_tree(&mut self) {
        for record in std::mem::take(&mut self.undelivered) {
            self.replay(&record);
            self.heard_live.push(record.clone());
            self.committed.push(record);
        }
    }
}
