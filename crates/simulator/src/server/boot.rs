//! From the disk to a server that looks for a leader.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use election::links::Links;
use election::{Candidate, Election, Electorate, Role as ElectionRole};
use parking_lot::Mutex;
use proto::{Epoch, Sid, Zxid};
use recovery::{RecoveredTree, recover_tree};
use storage::{
    Compression, DataDirs, Empty, Epochs, OpenOptions, RecoverySettings, SnapshotTrailer,
    SnapshotWriter, StorageError, read_txns_from, remove_initialize_marker,
};
use tree::{TreeSettings, Watches};
use zab::learner::LearnerKind;
use zab::{CommittedLog, Record};

use super::desk::Desk;
use super::log::LogRoom;
use super::{Role, Server};
use crate::Mutant;
use crate::disk::SimDisk;
use crate::quorum;
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
    /// Starts a process on this disk.
    pub(crate) fn boot(birth: Birth, disk: &SimDisk, world: &mut World) -> Result<Self, String> {
        let say = |error: StorageError| error.to_string();
        let disk = Arc::new(disk.clone());
        let dir = Path::new("/data");
        let dirs = DataDirs::open(&*disk, dir, dir, OpenOptions::default()).map_err(say)?;
        let RecoveredTree {
            tree, recovered, ..
        } = recover_tree(&*disk, &dirs, &settings(birth), tree_settings()).map_err(say)?;
        if !world.is(Mutant::RecoveredLogNotSynced) {
            Self::sync_what_is_there(&disk, &dirs)?;
        }
        if recovered.empty == Some(Empty::Trusted) {
            write_first_snapshot(&disk, &dirs, &tree).map_err(say)?;
            remove_initialize_marker(&*disk, &dirs).map_err(say)?;
        }
        let epochs = Epochs::load(&*disk, &dirs, tree.last_zxid()).map_err(say)?;
        let is_untrusted = recovered.empty == Some(Empty::Untrusted);
        let snapshot = recovered.snapshot.map_or(Zxid::ZERO, |file| file.zxid);
        let committed = committed_log(&disk, &dirs, tree.last_zxid(), world).map_err(say)?;
        let sid = sid_of(birth.index);
        let kind = if birth.index < world.plan.voters {
            LearnerKind::Follower
        } else {
            LearnerKind::Observer
        };
        let candidate = Candidate {
            zxid: (!is_untrusted).then_some(tree.last_zxid()),
            peer_epoch: epochs.current,
        };
        let mut server = Self {
            index: birth.index,
            life: birth.life,
            sid,
            kind,
            election: new_election(sid, kind, candidate, world),
            links: Links::new(sid, (0..world.plan.servers()).map(sid_of).collect()),
            log: LogRoom::new(&disk, &dirs),
            disk,
            dirs,
            epochs,
            tree,
            watches: Mutex::new(Watches::new()),
            to_self: VecDeque::new(),
            voters: BTreeMap::new(),
            role: Role::Looking,
            jobs: BTreeMap::new(),
            last_job: 0,
            heard_live: committed.after(Zxid::ZERO).cloned().collect(),
            committed,
            undelivered: VecDeque::new(),
            log_whole_from: if world.is(Mutant::LogWithHoleServed) {
                Zxid::ZERO
            } else {
                snapshot
            },
            truncation_failed_in: None,
            accepted_floor: Epoch(0),
            is_untrusted,
            desk: Desk::new(sid, world.now_ms()),
            snapshot: None,
            wake_at: None,
            ended: None,
        };
        server.look(world);
        Ok(server)
    }

    /// Loads the tree from the disk again.
    pub(super) fn reload(&mut self, world: &mut World) {
        self.snapshot = None;
        self.undelivered.clear();
        let birth = Birth {
            index: self.index,
            life: self.life,
            may_be_empty: true,
        };
        let recovered = recover_tree(&*self.disk, &self.dirs, &settings(birth), tree_settings());
        match recovered {
            Ok(recovered) => {
                self.tree = recovered.tree;
                let end = self.tree.last_zxid();
                self.committed.truncate_after(end);
                if self.committed.max().is_none_or(|max| max < end) {
                    match committed_log(&self.disk, &self.dirs, end, world) {
                        Ok(committed) => self.committed = committed,
                        Err(error) => self.exit(error.to_string()),
                    }
                }
            }
            Err(error) => self.exit(error.to_string()),
        }
    }
}

pub(crate) fn sid_of(index: usize) -> Sid {
    Sid(i64::try_from(index).unwrap_or(i64::MAX - 1) + 1)
}

pub(super) fn tree_settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        standalone: false,
        ..TreeSettings::default()
    })
}

fn settings(birth: Birth) -> RecoverySettings {
    RecoverySettings {
        db_autocreate: birth.may_be_empty,
        ..RecoverySettings::default()
    }
}

fn new_election(sid: Sid, kind: LearnerKind, candidate: Candidate, world: &World) -> Election {
    let role = match kind {
        LearnerKind::Follower => ElectionRole::Participant,
        LearnerKind::Observer => ElectionRole::Observer,
    };
    let electorate = Electorate::new(quorum::of(&world.plan), Default::default(), Bytes::new());
    Election::new(sid, role, world.plan.election(), electorate, candidate)
}

fn write_first_snapshot(
    disk: &Arc<SimDisk>,
    dirs: &DataDirs,
    tree: &tree::Tree,
) -> Result<(), StorageError> {
    let disk = Arc::clone(disk);
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid::ZERO, Compression::None, true)?;
    let (mut cursor, mut bytes) = (tree.start_snapshot(), Vec::new());
    while tree.snapshot_chunk(&mut cursor, 1 << 20, &mut bytes) {}
    writer.write(&bytes)?;
    let trailer = SnapshotTrailer {
        digest: Some((Zxid::ZERO, 0)),
        last_zxid: Some(Zxid::ZERO),
    };
    writer.finish(trailer).map(drop)
}

/// The newest transactions of the log, as far as they lead up to the end of the history.
fn committed_log(
    disk: &SimDisk,
    dirs: &DataDirs,
    end: Zxid,
    world: &mut World,
) -> Result<CommittedLog, StorageError> {
    let mut committed = CommittedLog::new(world.plan.committed_len);
    if world.plan.forgets && world.random.percent(20) {
        return Ok(committed);
    }
    let from = storage::list_snapshots(disk, &dirs.snap)?
        .first()
        .map_or(Zxid(1), |snapshot| snapshot.zxid.next());
    for txn in read_txns_from(disk, dirs, from, jute::Limits::default())? {
        let txn = txn?;
        if txn.record.header.zxid <= end {
            committed.push(Record::new(txn.record.header.zxid, txn.payload));
        }
    }
    Ok(committed)
}
