//! One process of a server: hosts the replica that ships, and decides nothing.
//!
//! * `boot` recovers from the disk, `host` carries out effects and shows what happens to the checks,
//!   `disk` is the log thread and the snapshot thread, `members` the connections to other servers,
//!   `clients` those of clients, `finding` those of elections.

mod boot;
mod clients;
mod disk;
mod finding;
mod host;
mod members;
mod state;

use std::collections::BTreeMap;
use std::rc::Rc;

use jute::{Decode, Reader};
use proto::request::WriteRequest;
use proto::txn::TxnRecord;
use proto::{SessionId, Zxid};
use replica::{Replica, RoleView, Service, State, Turn};
use zab::Record;
use zab::leader::LinkId;

pub(crate) use boot::Birth;

use crate::network::{Message, Port};
use crate::queue::{Event, Micros};
use crate::world::World;
use host::SimHost;
use state::SimState;

pub(crate) struct Server {
    replica: Replica<SimHost>,
    pub(crate) state: Rc<SimState>,
    pub(crate) host: SimHost,
    wake_at: Option<Micros>,
}

/// What takes time, by number.
#[derive(Debug, Default)]
struct Jobs {
    jobs: BTreeMap<u64, Job>,
    last: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// What the log thread does.
    Log,
    /// The next piece of a snapshot.
    Snapshot,
    /// The next piece of a snapshot for a learner.
    SendSnapshot(u64),
    ReadLog {
        to: LinkId,
        from: Zxid,
        upto: Zxid,
    },
}

/// A kind of work that a script can have held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Sync,
    SaveCurrent,
    AdoptSnapshot,
}

impl SimHost {
    fn start_job(&mut self, job: Job, delay: Micros) {
        self.jobs.last += 1;
        self.jobs.jobs.insert(self.jobs.last, job);
        let event = Event::DiskDone {
            server: self.index,
            life: self.life,
            job: self.jobs.last,
        };
        self.world.queue.after(delay, event);
    }
}

impl Server {
    /// Lends the world to this server for a step.
    pub(crate) fn with(&mut self, world: &mut World, step: impl FnOnce(&mut Self)) {
        std::mem::swap(world, &mut self.host.world);
        step(self);
        std::mem::swap(world, &mut self.host.world);
    }

    fn turn(&mut self, step: impl FnOnce(&mut Replica<SimHost>, &mut Turn<'_, SimHost>)) {
        let mut turn = Turn {
            now: boot::now(&self.host.world),
            state: &*self.state,
            host: &mut self.host,
        };
        step(&mut self.replica, &mut turn);
    }

    /// The process has started.
    pub(crate) fn begin(&mut self) {
        if std::mem::take(&mut self.host.disk.is_due) {
            self.host.request_snapshot();
        }
        self.turn(|replica, turn| replica.begin(turn));
    }

    /// The last transaction of the history.
    pub(crate) fn last_logged(&self) -> Zxid {
        self.replica.last_zxid()
    }

    /// The last transaction of the tree.
    pub(crate) fn last_applied(&self) -> Zxid {
        self.state.tree().last_zxid()
    }

    /// Whether clients are served.
    pub(crate) fn is_serving(&self) -> bool {
        self.host.service != Service::None
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.host.service == Service::Deciding
    }

    /// What it does, in a word.
    pub(crate) fn doing(&self) -> String {
        let Some(view) = self.replica.view() else {
            return "stands alone".into();
        };
        let doing = match view.role {
            RoleView::Looking | RoleView::ReadOnly => "looks",
            RoleView::Following { .. } => "follows",
            RoleView::Observing { .. } => "observes",
            RoleView::Leading { .. } => "leads",
        };
        format!("{doing} ({:?})", view.phase)
    }

    /// Work on the disk, or what a snapshot or the log is read for, has come further.
    pub(crate) fn handle_disk(&mut self, job: u64) {
        match self.host.jobs.jobs.remove(&job) {
            Some(Job::Log) => self.host.continue_log(),
            Some(Job::Snapshot) => self.host.continue_snapshot(),
            Some(Job::SendSnapshot(link)) => self.host.continue_sending(link),
            Some(Job::ReadLog { to, from, upto }) => self.host.read_log(to, from, upto),
            None => {}
        }
    }

    /// Whether a message on this connection can be taken now.
    pub(crate) fn may_take(&self, connection: u64) -> bool {
        self.host.members.may_take(connection)
    }

    /// Something came over a connection.
    pub(crate) fn handle_message(&mut self, connection: u64, message: Message) {
        let host = &mut self.host;
        match message {
            Message::Hello(sid) => host.hear_hello(connection, sid),
            Message::Vote(notification) => host.hear_vote(connection, *notification),
            Message::Up(packet) => host.learner_packet(connection, packet),
            Message::ToServer(request) => host.hear_client(connection, *request),
            Message::ToClient(_) => {}
            Message::End => {
                host.close(connection);
                self.handle_closed(connection);
            }
            Message::Down(_) | Message::SnapshotBytes(_) | Message::SnapshotEnd => {
                host.hear_leader(connection, message);
            }
        }
    }

    /// A connection is gone.
    pub(crate) fn handle_closed(&mut self, connection: u64) {
        self.host.election_closed(connection);
        self.host.client_closed(connection);
        self.host.leader_closed(connection);
        self.host.learner_closed(connection);
    }

    /// Whether somebody listens there.
    pub(crate) fn listens(&self, port: Port) -> bool {
        match port {
            Port::Election | Port::Client => true,
            Port::Quorum => self.host.members.listens.is_some(),
        }
    }

    /// Somebody has connected.
    pub(crate) fn handle_accepted(&mut self, connection: u64, port: Port) {
        match port {
            Port::Election => {}
            Port::Quorum => self.host.learner_connected(connection),
            Port::Client => self.host.client_connected(connection),
        }
    }

    /// A dial of this server has ended.
    pub(crate) fn handle_dialled(&mut self, connection: u64, port: Port, is_open: bool) {
        match port {
            Port::Election => self.host.election_dialled(connection, is_open),
            Port::Quorum => self.host.leader_dialled(connection, is_open),
            Port::Client => {}
        }
    }

    /// Deadlines may have come.
    pub(crate) fn handle_wake(&mut self) {
        self.wake_at = None;
        self.host.retry_leader();
        let now_ms = self.host.world.now_ms();
        if self.replica.deadline_ms().is_some_and(|at| at <= now_ms) {
            self.turn(|replica, turn| replica.handle_deadline(turn));
        }
    }

    /// After anything that happened: what the replica is told of it, and when to wake up.
    pub(crate) fn settle(&mut self) {
        while self.host.ended.is_none() {
            let Some(input) = self.host.inputs.pop_front() else {
                break;
            };
            self.turn(|replica, turn| replica.handle(input, turn));
        }
        let micros = |ms: i64| ms.saturating_mul(1000);
        let deadlines = [
            self.replica.deadline_ms().map(micros),
            self.host.members.retry_at(),
        ];
        let Some(soonest) = deadlines.into_iter().flatten().min() else {
            return;
        };
        // Never twice at one moment: what is due and not done now is done a little later.
        let at = soonest.max(self.host.world.now() + 1000);
        if self.wake_at.is_none_or(|before| at < before) {
            self.wake_at = Some(at);
            let event = Event::Wake {
                server: self.host.index,
                life: self.host.life,
            };
            self.host.world.queue.at(at, event);
        }
    }

    /// A script has something written by this leader.
    pub(crate) fn propose(&mut self, session: SessionId, request: WriteRequest) {
        self.host.submit_for_script(session, request);
    }
}

pub(crate) fn decode(record: &Record) -> Option<TxnRecord> {
    TxnRecord::decode(&mut Reader::new(record.txn.clone())).ok()
}
