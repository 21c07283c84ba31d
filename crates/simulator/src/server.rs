//! One process of a server. It hosts the shipped replica and does not decide anything.
//!
//! It starts from its disk and executes effects. `disk` contains the log thread and the snapshot
//! thread, `members` the connections to other servers, and `clients` the connections of clients.
//! These modules move bytes and time. The shipped crates make all decisions. The checks
//! ([`crate::observed`]) are called between the replica and the host.

mod clients;
mod disk;
mod members;

use std::collections::VecDeque;
use std::sync::Arc;

use host::{CarryingOut, DiskQueue, Registry, ServerState, StartFiles, StartSettings, Wanted};
use replica::members::MemberLists;
use replica::session::SessionIds;
use replica::{DiskOrder, Input, Replica, Start};
use storage::{DataDirs, OpenOptions, SnapTrigger, StorageError};
use testkit::SimDisk;
use zab::Record;

use crate::configured::{SNAPSHOTS, config_of, dirs_of, history_settings, settings, sid_of};
use crate::network::{ConnectionEnd, LinkEvent, Port, Process};
use crate::observed::Observed;
use crate::queue::Micros;
use crate::turns::Core;
use crate::world::World;
use clients::Connection;
pub(crate) use clients::Waiting;
use disk::DiskWork;
use members::Members;

pub(crate) struct Server {
    pub(crate) replica: Replica<SimHost>,
    pub(crate) host: SimHost,
    pub(crate) wake_at: Option<Micros>,
}

pub(crate) struct SimHost {
    pub(crate) process: Process,
    /// The world while it is lent to this process, and a blank one otherwise.
    pub(crate) world: World,
    pub(crate) state: Arc<ServerState>,
    /// Next inputs of the replica.
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) core: Core,
    pub(crate) disk: DiskWork,
    pub(crate) members: Members,
    pub(crate) clients: Registry<Connection>,
    pub(crate) observed: Observed,
    /// Reason why the process must end.
    pub(crate) ended: Option<String>,
}

impl Server {
    /// Starts a process on this disk. It does nothing before [`Server::begin`]. `may_be_empty`
    /// means that an empty directory belongs to a new member (`initialize`, or a first start).
    pub(crate) fn boot(
        process: Process,
        may_be_empty: bool,
        disk: &SimDisk,
        world: &mut World,
    ) -> Result<Self, String> {
        let say = |error: StorageError| error.to_string();
        let (server, plan) = (process.server, &world.plan);
        let config = config_of(server, plan, disk)?;
        let [data, log] = dirs_of(plan);
        let files = StartFiles {
            dirs: DataDirs::open(disk, data, log, OpenOptions::default()).map_err(say)?,
            disk: Arc::new(disk.clone()),
            history: history_settings(may_be_empty, plan),
            snapshots: SNAPSHOTS,
        };
        let found = files
            .recover(crate::configured::recover_of(plan))
            .map_err(say)?;
        let now_ms = world.now_ms();
        let start = StartSettings {
            tick_ms: plan.tick_ms,
            // The number differs at each start, because the simulated clock never goes backwards.
            session_ids: SessionIds::new(sid_of(server).0.to_be_bytes()[7], now_ms.cast_unsigned()),
            lists: MemberLists::new(&config),
        };
        let random = &mut world.random;
        let trigger = || SnapTrigger::new(plan.snap_count, 0, random.any());
        let started = files.begin(found, start, trigger, || now_ms).map_err(say)?;
        let start = Start {
            settings: settings(&config, plan),
            member: started.member,
            seed: world.random.any(),
        };
        let replica = Replica::new(start, &*started.state, world.clocks_of(server));
        let mut server = Self {
            replica: replica.map_err(|error| error.to_string())?,
            host: SimHost {
                process,
                world: World::new(0, world.plan.clone(), crate::Trace::Off),
                state: started.state,
                inputs: VecDeque::new(),
                core: Core::new(process, &world.plan),
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
            wake_at: None,
        };
        if started.is_due {
            server.with(world, |server| server.host.request_snapshot(Wanted::Due));
        }
        Ok(server)
    }

    /// Lends the world to this server for a step.
    pub(crate) fn with(&mut self, world: &mut World, step: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.host.world, world);
        step(self);
        std::mem::swap(&mut self.host.world, world);
    }

    /// Begins the first turn of the process.
    pub(crate) fn begin(&mut self) {
        self.turn(|replica, turn| replica.begin(turn));
    }

    /// Returns whether the server listens on a port.
    pub(crate) fn listens(&self, port: Port) -> bool {
        match port {
            Port::Election | Port::Client => true,
            Port::Members(port) => self.host.members.listens.contains(&port),
        }
    }

    /// Handles an event at this end of a connection.
    pub(crate) fn hear(&mut self, end: ConnectionEnd, heard: LinkEvent) {
        match end.port {
            Port::Election => self.host.hear_election(end.number, heard),
            Port::Members(port) => self.host.hear_member(port, end.number, heard),
            Port::Client => self.host.hear_client(end.number, heard),
        }
    }
}

/// The simulated server has no slots for requests, and its operators do not use these outputs.
impl CarryingOut for SimHost {
    type Connection = Connection;
    type Links = Self;

    fn registry(&self) -> &Registry<Connection> {
        &self.clients
    }

    fn links(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn stop(&mut self) {
        self.ended = Some("the server's data differs from the data of other servers".to_owned());
    }

    fn append(&mut self, record: Record) {
        self.disk.queue.group.push(record);
    }

    fn flush_log(&mut self) {
        self.offer_group();
    }

    fn order(&mut self, order: DiskOrder) {
        self.disk.queue.order(order, Vec::new);
        self.start_order();
    }
}
