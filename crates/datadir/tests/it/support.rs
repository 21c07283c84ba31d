//! Data directories for the tests.

use std::path::Path;
use std::sync::Arc;

use jute::Encode;
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{SessionId, Zxid};
use recovery::{SnapshotSettings, recover_tree, write_snapshot};
use storage::{
    Compression, DataDirs, LogSettings, LogWriter, OpenOptions, RealDisk, Recovered,
    RecoverySettings, StorageError,
};
use testkit::LIMITS;
use tree::{Tree, TreeSettings};

/// Creates a data directory with an empty snapshot.
pub(crate) fn directory(dir: &Path) -> DataDirs {
    let dirs = DataDirs::open(&RealDisk, dir, dir, OpenOptions::default()).unwrap();
    let settings = SnapshotSettings {
        compression: Compression::None,
        force_sync: false,
        digest_enabled: false,
        serialize_last_zxid: false,
    };
    let tree = Tree::new(Arc::new(TreeSettings::new(LIMITS)));
    write_snapshot(Arc::new(RealDisk), dirs.clone(), settings, &tree).unwrap();
    dirs
}

/// Writes a log file with these transactions. `time_of` returns the time of a transaction, ms.
pub(crate) fn write_log(
    dirs: &DataDirs,
    first: Zxid,
    txns: impl IntoIterator<Item = Txn>,
    time_of: impl Fn(Zxid) -> i64,
) {
    let mut log = LogWriter::new(Arc::new(RealDisk), dirs, LogSettings::new(LIMITS));
    for (zxid, txn) in (first.0..).map(Zxid).zip(txns) {
        let header = TxnHeader {
            session: SessionId(1),
            cxid: 0,
            zxid,
            time_ms: time_of(zxid),
            op: txn.op().number(),
        };
        let record = TxnRecord {
            header,
            txn,
            digest: None,
        };
        log.append(zxid, &record.to_bytes()).unwrap();
    }
    log.commit().unwrap();
}

/// Recovers the tree of a directory.
pub(crate) fn recovered(dir: &Path) -> Result<Recovered, StorageError> {
    let dirs = DataDirs::unlocked(dir, dir);
    let recovery = RecoverySettings::new(LIMITS);
    let tree = Arc::new(TreeSettings::new(LIMITS));
    recover_tree(&RealDisk, &dirs, &recovery, tree).map(|found| found.recovered)
}
