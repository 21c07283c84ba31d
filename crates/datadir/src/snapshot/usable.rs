//! Snapshot with which a restore begins.

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, RealDisk, SnapshotDigest, SnapshotFile, State, list_snapshots,
    read_snapshot,
};

use crate::{Error, ReadSettings};

/// Snapshot from which later states can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableSnapshot {
    /// Snapshot file.
    pub file: SnapshotFile,
    /// Last transaction of which the snapshot contains any part.
    pub covers: Zxid,
}

/// Returns the newest good snapshot that contains no effects of transactions after `wanted`.
///
/// # Errors
/// If all snapshots are corrupt or too new, or the directory cannot be listed.
pub fn usable_before(
    source: &DataDirs,
    wanted: Zxid,
    settings: ReadSettings,
) -> Result<UsableSnapshot, Error> {
    let files = list_snapshots(&RealDisk, &source.snap)?;
    for file in files.into_iter().filter(|file| file.zxid <= wanted) {
        let mut seen = NewestTxn::default();
        match read_snapshot(&RealDisk, &file, settings.limits, &mut seen) {
            // Transactions continue while a snapshot is written, so the snapshot may contain parts
            // of them.
            Ok(info) => {
                let covers = info.covers().unwrap_or(file.zxid).max(seen.0);
                let covers = covers.max(file.zxid);
                if covers <= wanted {
                    return Ok(UsableSnapshot { file, covers });
                }
            }
            Err(error) => (settings.on_skipped)(&error),
        }
    }
    Err(Error::Usage(format!(
        "{} does not contain a usable snapshot that ends at transaction {wanted} or earlier",
        source.snap.display()
    )))
}

/// Newest transaction of which the snapshot shows an effect. The rest of the snapshot is discarded.
#[derive(Default)]
struct NewestTxn(Zxid);

impl State for NewestTxn {
    fn begin(&mut self) {}

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn znode(
        &mut self,
        path: &str,
        _: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        // This znode contains the version of the member list, which does not result from a
        // transaction.
        if path != "/zookeeper/config" {
            let zxids = [stat.czxid, stat.mzxid, stat.pzxid];
            let newest = zxids.into_iter().max().unwrap_or_default();
            self.0 = self.0.max(Zxid(newest));
        }
        Ok(())
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}
