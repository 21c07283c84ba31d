//! From the disk to a member that looks for a leader, in the order of the real server's start.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use config::members::HostPort;
use config::{Config, RawConfig, Surroundings, SystemProperties};
use proto::{Sid, Zxid};
use recovery::{RecoveredTree, recover_member};
use replica::members::MemberLists;
use replica::{MemberStart, Now, Replica, Settings, Start};
use storage::{
    DataDirs, Empty, Epochs, OpenOptions, RecoverySettings, StorageError, remove_initialize_marker,
};
use testkit::SimDisk;
use tree::TreeSettings;

use super::Server;
use super::disk::DiskWork;
use super::host::SimHost;
use super::state::SimState;
use crate::Mutant;
use crate::plan::Plan;
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
        let config = config_of(birth.index, &world.plan)?;
        let disk = Arc::new(disk.clone());
        let dir = Path::new("/data");
        let dirs = DataDirs::open(&*disk, dir, dir, OpenOptions::default()).map_err(say)?;
        let recovery = RecoverySettings {
            db_autocreate: birth.may_be_empty,
            ..RecoverySettings::default()
        };
        let RecoveredTree {
            tree, recovered, ..
        } = recover_member(&*disk, &dirs, &recovery, tree_settings()).map_err(say)?;
        storage::make_durable(&*disk, &dirs, &recovered).map_err(say)?;
        let state = Rc::new(SimState::new(tree, world.plan.tick_ms));
        let work = DiskWork::new(disk, dirs, recovery, world);
        let is_trusted = recovered.empty != Some(Empty::Untrusted);
        let mut is_snapshot_due = false;
        if recovered.snapshot.is_none() && is_trusted {
            work.write_first_snapshot(&state).map_err(say)?;
            if recovered.has_marker {
                remove_initialize_marker(&*work.disk, &work.dirs).map_err(say)?;
            }
        } else if recovered.txns_replayed > 0 {
            storage::set_damaged_aside(&*work.disk, &work.dirs, recovered.last_zxid)
                .map_err(say)?;
            is_snapshot_due = true;
        }
        let epochs = Epochs::load(&*work.disk, &work.dirs, recovered.last_zxid).map_err(say)?;
        let snapshot = recovered.snapshot.as_ref();
        let lists = MemberLists::new(&config).ok_or("no ensemble is configured")?;
        let start = MemberStart {
            lists,
            epochs: replica::Epochs {
                accepted: epochs.accepted,
                current: epochs.current,
            },
            last_logged: recovered.last_zxid.max(Zxid::ZERO),
            log_whole_from: match world.is(Mutant::LogWithHoleServed) {
                true => Zxid::ZERO,
                false => snapshot.map_or(Zxid::ZERO, |file| file.zxid),
            },
            is_trusted,
        };
        let mut host = SimHost::new(birth, state.clone(), work, world);
        if is_snapshot_due {
            host.disk.is_due = true;
        }
        let start = Start {
            settings: settings(&config, &world.plan),
            member: Some(start),
            seed: world.random.any(),
        };
        let replica = Replica::new(start, &*state, now(world));
        Ok(Self {
            replica: replica.map_err(|error| error.to_string())?,
            state,
            host,
            wake_at: None,
        })
    }
}

pub(super) fn now(world: &World) -> Now {
    Now {
        ms: world.now_ms(),
        wall_ms: 1_700_000_000_000 + world.now_ms(),
    }
}

pub(crate) fn sid_of(index: usize) -> Sid {
    Sid(i64::try_from(index).unwrap_or(i64::MAX - 1) + 1)
}

pub(super) fn index_of(sid: Sid) -> usize {
    usize::try_from(sid.0 - 1).unwrap_or(usize::MAX)
}

/// Whose address this is.
pub(super) fn server_at(address: &HostPort) -> Option<usize> {
    let number = address.host.rsplit('.').next()?;
    number.parse::<usize>().ok()?.checked_sub(1)
}

pub(super) fn tree_settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        standalone: false,
        ..TreeSettings::default()
    })
}

/// What a server is told beside its files: who it is.
struct MyId(usize);

impl Surroundings for MyId {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            return Ok(sid_of(self.0).to_string().into_bytes());
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, host.to_owned()))
    }
}

fn config_of(index: usize, plan: &Plan) -> Result<Config, String> {
    let tick_ms = plan.tick_ms;
    let mut text = format!("dataDir=/data\ntickTime={tick_ms}\ninitLimit=10\nsyncLimit=5\n");
    if index >= plan.voters {
        text += "peerType=observer\n";
    }
    for server in 0..plan.servers() {
        let role = match server < plan.voters {
            true => "participant",
            false => "observer",
        };
        let number = server + 1;
        text += &format!("server.{number}=10.0.0.{number}:2888:3888:{role}\n");
    }
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes());
    let raw = raw.map_err(|error| error.to_string())?;
    let config = Config::parse(raw, SystemProperties::new(), &mut MyId(index));
    config.map_err(|error| error.to_string())
}

fn settings(config: &Config, plan: &Plan) -> Settings {
    let mut settings = Settings::new(config);
    if let Some(ensemble) = &mut settings.ensemble {
        ensemble.zab = plan.zab();
        ensemble.election.election = plan.election();
        ensemble.commit_log_count = plan.committed_len;
    }
    settings
}
