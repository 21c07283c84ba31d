//! Recovery of a tree from files, and writing of a tree to files. This crate connects `storage` and
//! `tree`.
//!
//! A server that starts calls [`recover_tree`], or [`recover_member`] if it is a member of an
//! ensemble, and then [`complete_start`]. [`Restore`] builds the tree; it is also used to read a
//! single snapshot from a file or from a leader. [`DurableLog`] implements the file operations of a
//! running server, and [`NewSnapshot`] writes a snapshot at the same time.
//!
//! Source: FileTxnSnapLog.restore, DataTree.compareDigest.

use std::sync::Arc;

use proto::txn::{TxnDigest, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, Disk, EmptyDirectory, Epochs, Recovered, RecoverySettings,
    SnapshotDigest, State, StorageError, forget_seams_after, is_untrusted, recover,
    remove_initialize_marker, set_damaged_aside, set_history_aside, untrusted_marker,
};
use tree::{Tree, TreeLoader, TreeSettings, Watches};

mod history;
mod log_end;
mod snapshots;
#[cfg(test)]
mod tests;

pub use history::{DurableLog, DurableLogSettings, Reloaded};
pub use log_end::LogEnd;
pub use snapshots::{
    DurableReader, NewSnapshot, NotEstablished, SnapshotSettings, TreeReader, TreeReplaced,
    write_snapshot,
};

/// Content of a data directory.
#[derive(Debug)]
pub struct RecoveredTree {
    /// Tree after the last transaction.
    pub tree: Tree,
    /// Origin of the tree: snapshot, replayed transactions and warnings.
    pub recovered: Recovered,
    /// Number of transactions whose logged digest differed from the tree's digest.
    pub digest_mismatches: u64,
}

/// Loads the newest intact snapshot and replays the log after it.
///
/// # Errors
/// If data is corrupted or missing. See [`storage::recover`].
pub fn recover_tree<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovery: &RecoverySettings,
    tree: Arc<TreeSettings>,
) -> Result<RecoveredTree, StorageError> {
    let mut restore = Restore::new(tree);
    let recovered = recover(disk, dirs, recovery, &mut restore)?;
    if restore.unmatched_digests > 0 {
        tracing::warn!(
            unmatched = restore.unmatched_digests,
            "cannot verify the tree: no digest in the log after the snapshot matches the tree, because the snapshot was taken during writes and too few transactions follow it"
        );
    }
    Ok(RecoveredTree {
        digest_mismatches: restore.digest_mismatches(),
        tree: restore.into_tree(),
        recovered,
    })
}

/// Recovers a server that can receive its leader's data. Corrupted data does not prevent the start,
/// but the server then does not vote.
///
/// If logs or snapshots are corrupted or partly missing ([`StorageError::is_damage`]), all of them
/// are moved aside. The result is the empty tree of an
/// [`Untrusted`](storage::EmptyDirectory::Untrusted) database. All further starts have this result
/// until a leader's snapshot has replaced the files. A power failure during which the sectors of
/// the last group were written out of order also counts as corruption. The log then has the same
/// bytes as after an acknowledged group has lost its sectors later, so the two cases cannot be
/// distinguished.
///
/// # Errors
/// If an error occurs that a leader's copy does not resolve, or if the files cannot be moved.
// Model: Restart.
pub fn recover_member<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovery: &RecoverySettings,
    tree: Arc<TreeSettings>,
) -> Result<RecoveredTree, StorageError> {
    let reason = if is_untrusted(disk, dirs)? {
        "the logs and snapshots were damaged at an earlier start".to_owned()
    } else {
        let lost = match recover_tree(disk, dirs, recovery, tree.clone()) {
            Err(error) if error.is_damage() => error,
            other => return other,
        };
        lost.to_string()
    };
    let moved = set_history_aside(disk, dirs, &reason)?;
    for file in &moved {
        tracing::warn!(file = %file.display(), "moved a file aside");
    }
    tracing::error!(reason, marker = %untrusted_marker(dirs).display(), "the logs and snapshots are incomplete, so this server does not vote until it has received a snapshot from its leader");
    recover_tree(disk, dirs, recovery, tree)
}

/// Completes a start after the files are recovered and [durable](storage::make_durable), before
/// anything is appended. A log without a snapshot cannot be recovered, so `write_first` writes the
/// first snapshot if there is none, unless the data is
/// [`Untrusted`](storage::EmptyDirectory::Untrusted). A corrupted snapshot whose name the next
/// snapshot would receive is renamed first. Returns whether a snapshot is due, which makes the next
/// start shorter.
///
/// # Errors
/// If files cannot be written, moved or removed.
pub fn complete_start<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovered: &Recovered,
    write_first: impl FnOnce() -> Result<(), StorageError>,
) -> Result<bool, StorageError> {
    forget_seams(disk, dirs, recovered.last_zxid);
    let is_trusted = recovered.empty != Some(EmptyDirectory::Untrusted);
    if recovered.snapshot.is_none() && is_trusted {
        set_damaged_aside(disk, dirs, recovered.last_zxid)?;
        write_first()?;
        if recovered.has_marker {
            remove_initialize_marker(disk, dirs)?;
        }
        return Ok(false);
    }
    let is_due = recovered.txns_replayed > 0;
    if is_due {
        set_damaged_aside(disk, dirs, recovered.last_zxid)?;
    }
    Ok(is_due)
}

/// Removes the seams after `end`, at which a leader's snapshot was to replace the log. Recovery
/// does not need this removal, but the change history would otherwise wait for a seam whose
/// snapshot was never completed, or would contain an unnecessary hole.
pub(crate) fn forget_seams<D: Disk>(disk: &D, dirs: &DataDirs, end: Zxid) {
    if let Err(error) = forget_seams_after(disk, dirs, end) {
        tracing::warn!(err = %error, "cannot update the file of history boundaries");
    }
}

/// History of a member at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLog {
    /// Epochs in the epoch files.
    pub epochs: Epochs,
    /// Last transaction in the log.
    pub last_logged: Zxid,
    /// Zxid after which the log files are without a gap. See [`Recovered::log_whole_from`].
    pub log_whole_from: Zxid,
    /// Whether the member may vote. False if the data is
    /// [`Untrusted`](storage::EmptyDirectory::Untrusted).
    pub is_trusted: bool,
}

impl OwnLog {
    /// Loads the history of a member whose start is [complete](complete_start).
    ///
    /// # Errors
    /// If the epoch files cannot be read or written, or if they contradict the history.
    pub fn load<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        recovered: &Recovered,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            epochs: Epochs::load(disk, dirs, recovered.last_zxid)?,
            last_logged: recovered.last_zxid.max(Zxid::ZERO),
            log_whole_from: recovered.log_whole_from(),
            is_trusted: recovered.empty != Some(EmptyDirectory::Untrusted),
        })
    }
}

/// Builder of a tree from the data that [`storage`] reads.
pub struct Restore {
    settings: Arc<TreeSettings>,
    stage: Stage,
    /// Digest in the trailer of a fuzzy snapshot, compared after the transaction with the trailer's
    /// zxid has been replayed.
    expected_digest: Option<SnapshotDigest>,
    /// Whether the tree may be newer than the replayed transactions although the snapshot's trailer
    /// does not show this. Digests may differ until the replay has caught up.
    may_be_ahead: bool,
    digest_mismatches: u64,
    /// Number of digests that differed while the tree may have been newer; 0 after a digest was
    /// equal.
    unmatched_digests: u64,
    events: Vec<tree::Event>,
    watches: Watches,
}

enum Stage {
    /// A snapshot is being read.
    Loading(Box<TreeLoader>),
    /// Transactions are being replayed.
    Replaying(Box<Tree>),
    /// Between the two stages, or after a snapshot that could not be loaded.
    EmptyDirectory,
}

impl Restore {
    /// Creates a builder that has not received any data.
    pub fn new(settings: Arc<TreeSettings>) -> Self {
        let stage = Stage::Loading(Box::new(TreeLoader::new(settings.clone())));
        Self {
            settings,
            stage,
            expected_digest: None,
            may_be_ahead: false,
            digest_mismatches: 0,
            unmatched_digests: 0,
            events: Vec::new(),
            watches: Watches::default(),
        }
    }

    /// Completes the tree after [`storage::read_body`] and returns it. The body of a snapshot does
    /// not contain the snapshot's zxid or a mark of its end, so the caller provides `zxid`.
    ///
    /// # Errors
    /// If the parts do not form a database.
    pub fn finish(mut self, zxid: Zxid) -> Result<Tree, ContentError> {
        self.snapshot_loaded(zxid, None)?;
        Ok(self.into_tree())
    }

    /// Returns the number of transactions and snapshots so far whose recorded digest differed from
    /// the tree's digest.
    pub fn digest_mismatches(&self) -> u64 {
        self.digest_mismatches
    }

    /// Returns the tree after a whole snapshot and the transactions after it. An incomplete
    /// snapshot results in an empty tree.
    pub fn into_tree(self) -> Tree {
        match self.stage {
            Stage::Replaying(tree) => *tree,
            Stage::Loading(_) | Stage::EmptyDirectory => Tree::new(self.settings),
        }
    }

    /// Returns the tree into which transactions are replayed. It is empty without a snapshot.
    fn tree(&mut self) -> &mut Tree {
        if !matches!(self.stage, Stage::Replaying(_)) {
            self.stage = Stage::Replaying(Box::new(Tree::new(self.settings.clone())));
        }
        match &mut self.stage {
            Stage::Replaying(tree) => tree,
            Stage::Loading(_) | Stage::EmptyDirectory => {
                unreachable!("the stage was set to Replaying above")
            }
        }
    }

    /// Compares the tree's digest with the digest in the transaction or, at the zxid in a fuzzy
    /// snapshot's trailer, with the digest in the trailer. Skips transactions before that zxid,
    /// because the tree is newer. Source: DataTree.compareDigest.
    fn check_digest(&mut self, record: &TxnRecord) {
        let zxid = record.header.zxid;
        let (digest, enabled) = {
            let settings = self.settings.digest_enabled;
            (self.tree().digest(), settings)
        };
        let logged = match self.expected_digest {
            Some(expected) if zxid < expected.zxid => return,
            Some(expected) if zxid == expected.zxid => {
                self.expected_digest = None;
                Some((expected.version, expected.digest))
            }
            _ => record.digest.map(|logged| (logged.version, logged.digest)),
        };
        let Some((version, logged)) = logged else {
            return;
        };
        if enabled {
            self.compare(zxid, version, logged, digest);
        }
    }

    fn compare(&mut self, zxid: Zxid, version: i32, recorded: i64, computed: u64) {
        if version != TxnDigest::VERSION {
            return;
        }
        if recorded == computed.cast_signed() {
            self.may_be_ahead = false;
            self.unmatched_digests = 0;
            return;
        }
        if self.may_be_ahead {
            self.unmatched_digests += 1;
            return;
        }
        self.digest_mismatches += 1;
        if self.digest_mismatches == 1 {
            tracing::error!(%zxid, recorded, computed, "the digest of the tree differs from the recorded digest, so the log may have been altered");
        }
    }
}

impl State for Restore {
    fn begin(&mut self) {
        self.stage = Stage::Loading(Box::new(TreeLoader::new(self.settings.clone())));
        self.expected_digest = None;
        self.may_be_ahead = false;
        self.unmatched_digests = 0;
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if let Stage::Loading(loader) = &mut self.stage {
            loader.session(id, timeout_ms);
        }
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let Stage::Loading(loader) = &mut self.stage {
            loader.acl(id, &acl);
        }
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        match &mut self.stage {
            Stage::Loading(loader) => loader
                .znode(path, data, acl, stat)
                .map_err(|error| ContentError::new(error.to_string())),
            Stage::Replaying(_) | Stage::EmptyDirectory => {
                Err(ContentError::new("a znode outside of a snapshot"))
            }
        }
    }

    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        let Stage::Loading(loader) = std::mem::replace(&mut self.stage, Stage::EmptyDirectory)
        else {
            return Err(ContentError::new("the end of a snapshot that never began"));
        };
        let tree = loader
            .finish(zxid)
            .map_err(|error| ContentError::new(error.to_string()))?;
        // A trailer with zxid 0 was written by a server that had not applied anything yet. Either
        // the server had just recovered, and the tree is exactly the tree at its zxid. Or it had
        // just received the tree from a leader that continued to write.
        let expected = digest.filter(|digest| digest.zxid >= zxid && digest.zxid > Zxid::ZERO);
        self.may_be_ahead = expected.is_none() && zxid > Zxid::ZERO;
        match expected {
            // The snapshot is not fuzzy, so digests can be compared immediately.
            Some(expected) if expected.zxid == zxid => {
                if self.settings.digest_enabled {
                    self.compare(zxid, expected.version, expected.digest, tree.digest());
                }
            }
            fuzzy => self.expected_digest = fuzzy,
        }
        self.stage = Stage::Replaying(Box::new(tree));
        Ok(())
    }

    fn txn(&mut self, record: &TxnRecord) {
        let mut watches = std::mem::take(&mut self.watches);
        let mut events = std::mem::take(&mut self.events);
        self.tree().apply(record, &mut watches, &mut events);
        events.clear();
        (self.watches, self.events) = (watches, events);
        self.check_digest(record);
    }
}
