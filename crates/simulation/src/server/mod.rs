//! One process of a server. It hosts the shipped replica and decides nothing itself.
//!
//! It starts from its disk and executes effects. `disk` contains the log thread and the snapshot
//! thread, `members` the connections to other servers, and `clients` the connections of clients.
//! `turns` runs the core at the times that the shipped schedule decides. These modules transfer
//! bytes and let time pass. The shipped crates make all decisions. The checks are called between
//! the replica and the host (`effects`).

mod answers;
mod clients;
mod disk;
mod effects;
mod members;
mod pace;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use host::{DiskQueue, Registry, ServerState, SnapshotReason, StartFiles, StartSettings};
use replica::members::MemberLists;
use replica::session::SessionIds;
use replica::{Input, Replica, Start};
use storage::{DataDirs, OpenOptions, SnapTrigger, StorageError};
use testkit::SimDisk;

use crate::checks::StepChecks;
use crate::configured::{
    SNAPSHOTS, config_of, dirs_of, history_settings, recover_of, replica_settings, sid_of,
};
use crate::network::{ConnectionEnd, LinkEvent, Port, Process};
use crate::queue::Micros;
use crate::world::World;
pub use answers::{Answer, Answers, Times};
use clients::Connection;
pub use disk::DiskWork;
use members::Members;
use turns::Core;

/// One process of a server.
pub struct Server<C: StepChecks> {
    /// Shipped replica.
    pub replica: Replica<SimHost<C>>,
    /// The host of the replica.
    pub host: SimHost<C>,
    wake_at: Option<Micros>,
}

/// The host of a replica.
pub struct SimHost<C: StepChecks> {
    /// Process to which this host belongs.
    pub process: Process,
    /// World, while it is lent to this process; otherwise a blank one.
    world: World<C>,
    /// State that the replica shares with the connections of clients.
    pub state: Arc<ServerState>,
    /// Next inputs of the replica.
    pub inputs: VecDeque<Input>,
    core: Core,
    /// Files of the server, and the work of its disk.
    pub disk: DiskWork,
    pub(crate) members: Members,
    clients: Registry<Connection>,
    /// Checks of this process.
    pub observed: C::OfProcess,
    /// Reason why the process must end, if there is one.
    pub(crate) ended: Option<String>,
}

impl<C: StepChecks> Server<C> {
    /// Starts a process from this disk. It does nothing before [`Server::begin`]. `may_be_empty`
    /// states whether an empty directory is a new database.
    pub(crate) fn boot(
        process: Process,
        may_be_empty: bool,
        disk: &SimDisk,
        world: &mut World<C>,
    ) -> Result<Self, String> {
        let say = |error: StorageError| error.to_string();
        let (server, settings) = (process.server, &world.settings);
        let config = config_of(server, settings, disk)?;
        let [data, log] = dirs_of(settings);
        let files = StartFiles {
            dirs: DataDirs::open(disk, data, log, OpenOptions::default()).map_err(say)?,
            disk: Arc::new(disk.clone()),
            history: history_settings(may_be_empty, settings),
            snapshots: SNAPSHOTS,
        };
        let found = files.recover(recover_of(settings)).map_err(say)?;
        let now_ms = world.now_ms();
        let start = StartSettings {
            tick_ms: settings.tick_ms,
            // The number differs at each start, because simulated time passes between two starts.
            session_ids: SessionIds::new(sid_of(server).0.to_be_bytes()[7], now_ms.cast_unsigned()),
            lists: MemberLists::new(&config),
        };
        let random = &mut world.random;
        let trigger = || SnapTrigger::new(settings.snap_count, 0, random.any());
        let started = files.begin(found, start, trigger, || now_ms).map_err(say)?;
        let start = Start {
            settings: replica_settings(&config, settings),
            member: started.member,
            seed: world.random.any(),
        };
        let replica = Replica::new(start, &*started.state, world.clocks_of(server));
        let mut server = Self {
            replica: replica.map_err(|error| error.to_string())?,
            host: SimHost {
                process,
                world: World::new(0, world.settings.clone(), C::blank()),
                state: started.state,
                inputs: VecDeque::new(),
                core: Core::new(process, &world.settings),
                observed: C::of_process(server, started.history.appended(), &world.settings),
                disk: DiskWork {
                    history: started.history,
                    queue: DiskQueue::default(),
                    at_work: None,
                    snapshots: started.snapshots,
                    covered: proto::Zxid::ZERO,
                    report: None,
                },
                members: Members::default(),
                clients: Registry::default(),
                ended: None,
            },
            wake_at: None,
        };
        if started.is_due {
            server.with(world, |server| {
                server.host.request_snapshot(SnapshotReason::Due);
            });
        }
        Ok(server)
    }

    /// Lends the world to this server for a step.
    pub(crate) fn with(&mut self, world: &mut World<C>, step: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.host.world, world);
        step(self);
        std::mem::swap(&mut self.host.world, world);
    }

    /// Runs the first turn of the process.
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
