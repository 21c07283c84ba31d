//! From the disk to a member that looks for a leader, in the order of the real server's start.

use std::sync::Arc;

use hosting::{ServerState, Wanted, member_start};
use recovery::{History, RecoveredTree, complete_start, recover_member, write_snapshot};
use replica::members::MemberLists;
use replica::{Replica, Start, State};
use session::SessionIds;
use storage::{DataDirs, OpenOptions, SnapTrigger, StorageError};
use testkit::SimDisk;

use super::Server;
use super::disk::DiskWork;
use super::host::SimHost;
use crate::configured::{SNAPSHOTS, config_of, dirs_of, history_settings, settings, sid_of};
use crate::world::World;

/// Which process this is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) index: usize,
    pub(crate) life: u64,
    /// Whether an empty directory is a new member's (`initialize`, or a first start).
    pub(crate) may_be_empty: bool,
}

impl Server {
    /// Starts a process on this disk; it does nothing before [`Server::begin`].
    pub(crate) fn boot(birth: Birth, disk: &SimDisk, world: &mut World) -> Result<Self, String> {
        let say = |error: StorageError| error.to_string();
        let config = config_of(birth.index, &world.plan, disk)?;
        let (disk, [data, log]) = (Arc::new(disk.clone()), dirs_of(&world.plan));
        let dirs = DataDirs::open(&*disk, data, log, OpenOptions::default()).map_err(say)?;
        let how = history_settings(birth.may_be_empty, &world.plan);
        let RecoveredTree {
            tree, recovered, ..
        } = recover_member(&*disk, &dirs, &how.recovery, how.tree.clone()).map_err(say)?;
        storage::make_durable(&*disk, &dirs, &recovered).map_err(say)?;
        // The clock must be later at each start of a server.
        let ids = SessionIds::new(sid_of(birth.index).0.to_be_bytes()[7], world.now_ms());
        let state = Arc::new(ServerState::new(tree, world.plan.tick_ms, ids));
        let write_first =
            || write_snapshot(disk.clone(), dirs.clone(), SNAPSHOTS, &state.tree()).map(drop);
        let is_due = complete_start(&*disk, &dirs, &recovered, write_first).map_err(say)?;
        let lists = MemberLists::new(&config).ok_or("no ensemble is configured")?;
        let member = member_start(&*disk, &dirs, &recovered, lists).map_err(say)?;
        let trigger = SnapTrigger::new(world.plan.snap_count, 0, world.random.any());
        let end = recovered.last_zxid;
        let history = History::new(disk.clone(), dirs.clone(), how, trigger, end);
        let work = DiskWork::new(disk, dirs, history);
        let host = SimHost::new(birth, state.clone(), work, world);
        let start = Start {
            settings: settings(&config, &world.plan),
            member: Some(member),
            seed: world.random.any(),
        };
        let replica = Replica::new(start, &*state, world.clocks_of(birth.index));
        let mut server = Self {
            replica: replica.map_err(|error| error.to_string())?,
            state,
            host,
            wake_at: None,
        };
        if is_due {
            server.with(world, |server| server.host.request_snapshot(Wanted::Due));
        }
        Ok(server)
    }
}
