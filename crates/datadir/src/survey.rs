//! Survey of a data directory: what a start would find, without changing anything.

use std::sync::Arc;

use proto::txn::{Txn, TxnRecord};
use proto::{Acl, Epoch, SessionId, StatPersisted, Zxid};
use recovery::Restore;
use storage::{
    ContentError, DataDirs, Disk, Epochs, Recovered, RecoverySettings, SnapshotDigest, State,
    StorageError, recover,
};
use tree::TreeSettings;

/// Contents of a data directory.
#[derive(Debug)]
pub struct Survey {
    /// Result of the recovery: the files that were loaded, and the last transaction.
    pub recovered: Recovered,
    /// Current and accepted epoch with which a member would start, or the error of their files.
    pub epochs: Result<(Epoch, Epoch), StorageError>,
    /// Error in a `currentEpoch` file that the start of a member rewrites, because the accepted
    /// epoch and the last transaction determine the current epoch.
    pub repaired_current: Option<StorageError>,
    /// Number of znodes after the last transaction, or in the snapshot if no tree was built.
    pub znodes: u64,
    /// Number of sessions after the last transaction, or in the snapshot if no tree was built.
    pub sessions: u64,
    /// Time of the last write, in ms since 1970.
    pub newest_ms: Option<i64>,
    /// Number of TTL znodes that the settings treat as ephemerals of dead sessions. If no tree was
    /// built, the number of TTL znodes in the snapshot plus the number that the log creates.
    pub unrecognised_ttls: u64,
    /// Number of sessions that own ephemerals but do not exist. `None` if no tree was built.
    pub orphan_owners: Option<u64>,
    /// Number of transactions and snapshots whose recorded digest differed from the tree's digest.
    /// `None` if no tree was built.
    pub digest_mismatches: Option<u64>,
    /// Whether the ACL of `/` grants all permissions to all clients. `None` if no tree was built.
    pub is_root_open: Option<bool>,
}

/// Reads everything that a start would read, and verifies the checksums. With `makes_tree`, builds
/// the tree in memory as a start does, to detect errors that only the tree shows. Without the tree,
/// memory usage is small for any amount of data.
///
/// `disk` should be a [`storage::ReadOnly`] disk.
///
/// # Errors
/// If [`storage::recover`] would fail.
pub fn survey<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovery: &RecoverySettings,
    tree: Arc<TreeSettings>,
    makes_tree: bool,
) -> Result<Survey, StorageError> {
    let mut surveyor = Surveyor {
        settings: tree.clone(),
        restore: makes_tree.then(|| Restore::new(tree)),
        sessions: 0,
        znodes: 0,
        newest_ms: None,
        unrecognised_ttls: 0,
    };
    let recovered = recover(disk, dirs, recovery, &mut surveyor)?;
    let last_zxid = recovered.last_zxid;
    let epochs = Epochs::inspect(disk, dirs, last_zxid);
    let mut survey = surveyor.into_survey(
        recovered,
        epochs.map(|epochs| (epochs.current, epochs.accepted)),
    );
    if survey.epochs.is_ok() {
        survey.repaired_current = Epochs::unreadable_current(disk, dirs)?;
    }
    Ok(survey)
}

/// Counter of the contents, which also passes them to a tree if one is built.
struct Surveyor {
    settings: Arc<TreeSettings>,
    restore: Option<Restore>,
    sessions: u64,
    znodes: u64,
    newest_ms: Option<i64>,
    unrecognised_ttls: u64,
}

impl Surveyor {
    fn into_survey(
        self,
        recovered: Recovered,
        epochs: Result<(Epoch, Epoch), StorageError>,
    ) -> Survey {
        let digest_mismatches = self.restore.as_ref().map(Restore::digest_mismatches);
        let mut survey = Survey {
            recovered,
            epochs,
            repaired_current: None,
            znodes: self.znodes,
            sessions: self.sessions,
            newest_ms: self.newest_ms,
            unrecognised_ttls: self.unrecognised_ttls,
            orphan_owners: None,
            digest_mismatches,
            is_root_open: None,
        };
        if let Some(restore) = self.restore {
            let tree = restore.into_tree();
            survey.znodes = tree.node_count() as u64;
            survey.sessions = tree.sessions().len() as u64;
            survey.unrecognised_ttls = tree.unrecognised_ttls() as u64;
            survey.orphan_owners = Some(tree.orphan_owners().len() as u64);
            survey.is_root_open = Some(tree.has_all_permissions(&[]));
        }
        survey
    }

    fn note_time(&mut self, time_ms: i64) {
        if time_ms > 0 {
            self.newest_ms = self.newest_ms.max(Some(time_ms));
        }
    }

    fn count_ttls(&mut self, txn: &Txn) {
        match txn {
            Txn::CreateTtl(_) if !self.settings.extended_types => self.unrecognised_ttls += 1,
            Txn::Multi(parts) => parts.iter().for_each(|part| self.count_ttls(part)),
            _ => {}
        }
    }
}

impl State for Surveyor {
    fn begin(&mut self) {
        (self.sessions, self.znodes, self.unrecognised_ttls) = (0, 0, 0);
        self.newest_ms = None;
        if let Some(restore) = &mut self.restore {
            restore.begin();
        }
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions += 1;
        if let Some(restore) = &mut self.restore {
            restore.session(id, timeout_ms);
        }
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let Some(restore) = &mut self.restore {
            restore.acl(id, acl);
        }
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        self.znodes += 1;
        self.note_time(stat.mtime.max(stat.ctime));
        let is_unrecognised = self.settings.is_unrecognised_ttl(stat.ephemeral_owner);
        self.unrecognised_ttls += u64::from(is_unrecognised);
        match &mut self.restore {
            Some(restore) => restore.znode(path, data, acl, stat),
            None => Ok(()),
        }
    }

    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        match &mut self.restore {
            Some(restore) => restore.snapshot_loaded(zxid, digest),
            None => Ok(()),
        }
    }

    fn txn(&mut self, record: &TxnRecord) {
        self.note_time(record.header.time_ms);
        self.count_ttls(&record.txn);
        if let Some(restore) = &mut self.restore {
            restore.txn(record);
        }
    }
}
