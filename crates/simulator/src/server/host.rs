//! From the disk to a host, which carries out what the replica decides, on the simulated world.

use std::collections::VecDeque;
use std::sync::Arc;

use hosting::{
    CarryingOut, Delivering, DiskQueue, Registry, ServerState, StartFiles, StartSettings, ToAnswer,
    Wanted, answer_sync, carry_out_effect, deliver,
};
use proto::Zxid;
use recovery::recover_member;
use replica::members::MemberLists;
use replica::{Applied, DiskOrder, Effect, Host, Input, Note, Replica, Start, Ticket};
use session::SessionIds;
use storage::{DataDirs, OpenOptions, SnapTrigger, StorageError};
use testkit::SimDisk;
use tree::Tree;
use zab::Record;

use super::Server;
use super::clients::Connection;
use super::disk::DiskWork;
use super::members::Members;
use crate::configured::{SNAPSHOTS, config_of, dirs_of, history_settings, settings, sid_of};
use crate::network::Process;
use crate::observed::Observed;
use crate::world::World;

pub(crate) struct SimHost {
    pub(crate) process: Process,
    /// While it is lent to this process; a blank one otherwise.
    pub(crate) world: World,
    pub(crate) state: Arc<ServerState>,
    /// What the replica is told next.
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) disk: DiskWork,
    pub(crate) members: Members,
    pub(crate) clients: Registry<Connection>,
    pub(crate) observed: Observed,
    /// Why the process must end.
    pub(crate) ended: Option<String>,
}

impl Server {
    /// Starts a process on this disk; it does nothing before [`Server::begin`]. `may_be_empty`: an empty
    /// directory is a new member's (`initialize`, or a first start).
    pub(crate) fn boot(
        process: Process,
        may_be_empty: bool,
        disk: &SimDisk,
        world: &mut World,
    ) -> Result<Self, String> {
        let say = |error: StorageError| error.to_string();
        let (server, plan) = (process.server, &world.plan);
        let config = config_of(server, plan, disk)?;
        let lists = MemberLists::new(&config).ok_or("no ensemble is configured")?;
        let [data, log] = dirs_of(plan);
        let files = StartFiles {
            dirs: DataDirs::open(disk, data, log, OpenOptions::default()).map_err(say)?,
            disk: Arc::new(disk.clone()),
            history: history_settings(may_be_empty, plan),
            snapshots: SNAPSHOTS,
        };
        let found = files.recover(recover_member).map_err(say)?;
        let now_ms = world.now_ms();
        let start = StartSettings {
            tick_ms: plan.tick_ms,
            // Another one at each start: the simulated clock never goes back.
            session_ids: SessionIds::new(sid_of(server).0.to_be_bytes()[7], now_ms.cast_unsigned()),
            lists: Some(lists),
        };
        let random = &mut world.random;
        let trigger = || SnapTrigger::new(plan.snap_count, 0, random.any());
        let started = files.begin(found, start, trigger, || now_ms).map_err(say)?;
        let start = Start {
            settings: settings(&config, plan),
            member: started.member,
            seed: world.random.any(),
        };
        let state = started.state;
        let replica = Replica::new(start, &*state, world.clocks_of(server));
        let mut server = Self {
            replica: replica.map_err(|error| error.to_string())?,
            host: SimHost {
                process,
                world: World::new(0, world.plan.clone(), false),
                state: state.clone(),
                inputs: VecDeque::new(),
                observed: Observed::new(server, started.history.appended(), &world.plan),
                disk: DiskWork {
                    history: started.history,
                    queue: DiskQueue::default(),
                    at_work: None,
                    snapshots: started.snapshots,
                },
                members: Members::default(),
                clients: Registry::default(),
                ended: None,
            },
            state,
            wake_at: None,
        };
        if started.is_due {
            server.with(world, |server| server.host.request_snapshot(Wanted::Due));
        }
        Ok(server)
    }
}

impl Host for SimHost {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        if self.ended.is_none() {
            self.show_effect(&effect);
            carry_out_effect(self, effect);
        }
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        if let Some(connection) = self.clients.of(origin) {
            self.answer(tree, &connection, ToAnswer::LeftOver);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        self.observed.applied(&applied, tree, &mut self.world);
        let origin = applied.origin.and_then(|origin| self.clients.of(origin));
        deliver(self, &mut Vec::new(), tree, applied, origin.as_ref());
    }

    fn established(&mut self, last: Zxid) {
        self.observed.established(last, &mut self.world);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.of(ticket) {
            answer_sync(self, tree, &connection);
        }
    }

    fn note(&mut self, note: Note<'_>) {
        self.observed.note(&note, &mut self.world);
    }
}

/// It has no places for requests, and its operators look elsewhere.
impl CarryingOut for SimHost {
    type Connection = Connection;
    type Links = Self;

    fn registry(&self) -> &Registry<Connection> {
        &self.clients
    }

    fn links(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn append(&mut self, record: Record) {
        self.disk.queue.group.push(record);
    }

    fn flush_log(&mut self) {
        self.start_order();
    }

    fn order(&mut self, order: DiskOrder) {
        self.disk.queue.order(order, Vec::new);
        self.start_order();
    }
}
