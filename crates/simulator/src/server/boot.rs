//! From the disk to a member that looks for a leader, in the order of the real server's start.

use std::rc::Rc;
use std::sync::Arc;

use proto::Zxid;
use recovery::{History, RecoveredTree, complete_start, recover_member, write_snapshot};
use replica::members::MemberLists;
use replica::{MemberStart, Now, Replica, Start, State};
use storage::{DataDirs, Empty, Epochs, OpenOptions, SnapTrigger, StorageError};
use testkit::SimDisk;

use super::Server;
use super::disk::DiskWork;
use super::host::SimHost;
use super::state::SimState;
use crate::configured::{SNAPSHOTS, config_of, dirs_of, history_settings, settings};
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
        let state = Rc::new(SimState::new(tree, world.plan.tick_ms));
        let write_first =
            || write_snapshot(disk.clone(), dirs.clone(), SNAPSHOTS, &state.tree()).map(drop);
        let is_due = complete_start(&*disk, &dirs, &recovered, write_first).map_err(say)?;
        let epochs = Epochs::load(&*disk, &dirs, recovered.last_zxid).map_err(say)?;
        let member = MemberStart {
            lists: MemberLists::new(&config).ok_or("no ensemble is configured")?,
            epochs: replica::Epochs {
                accepted: epochs.accepted,
                current: epochs.current,
            },
            last_logged: recovered.last_zxid.max(Zxid::ZERO),
            log_whole_from: recovered.snapshot.map_or(Zxid::ZERO, |file| file.zxid),
            is_trusted: recovered.empty != Some(Empty::Untrusted),
        };
        let trigger = SnapTrigger::new(world.plan.snap_count, 0, world.random.any());
        let history = History::new(disk.clone(), dirs.clone(), how, trigger);
        let work = DiskWork::new(disk, dirs, history);
        let host = SimHost::new(birth, state.clone(), work, world);
        let start = Start {
            settings: settings(&config, &world.plan),
            member: Some(member),
            seed: world.random.any(),
        };
        let replica = Replica::new(start, &*state, now(world, birth.index));
        let mut server = Self {
            replica: replica.map_err(|error| error.to_string())?,
            state,
            host,
            wake_at: None,
        };
        if is_due {
            server.with(world, |server| server.host.request_snapshot(None));
        }
        Ok(server)
    }
}

pub(super) fn now(world: &World, index: usize) -> Now {
    Now {
        ms: world.now_ms(),
        wall_ms: world.wall_ms(index),
    }
}
