//! The end of the history thread.

use jute::Encode;
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{Epoch, SessionId};
use recovery::{SnapshotSettings, write_snapshot};
use storage::{Compression, DataDirs, LogSettings, LogWriter, OpenOptions};
use tree::{Tree, TreeSettings};

use super::*;

fn record(zxid: Zxid) -> TxnRecord {
    let txn = Txn::CreateSession { timeout_ms: 1 };
    TxnRecord {
        header: TxnHeader {
            session: SessionId(1),
            cxid: 0,
            zxid,
            time_ms: 0,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

/// The server waits for this thread before it exits.
#[test]
fn the_end_does_not_wait_until_the_log_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::default();
    let dirs = DataDirs::open(&RealDisk, dir.path(), dir.path(), options).unwrap();
    let disk = Arc::new(RealDisk);
    let snapshots = SnapshotSettings {
        compression: Compression::None,
        force_sync: false,
        digest_enabled: false,
        serialize_last_zxid: true,
    };
    let tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    write_snapshot(disk.clone(), dirs.clone(), snapshots, &tree).unwrap();
    let mut log = LogWriter::new(disk.clone(), &dirs, LogSettings::new(testkit::LIMITS));
    let last = Zxid::new(Epoch(0), 5);
    for zxid in (1..=last.0).map(Zxid) {
        log.append(zxid, &record(zxid).to_bytes()).unwrap();
    }
    log.commit().unwrap();

    let settings = IndexSettings::new(&dir.path().join("history"));
    let sources = Sources::new(disk, dirs, testkit::LIMITS);
    let index = sources.open(&settings, Zxid::ZERO).unwrap();
    assert_eq!(index.as_ref().map(Index::head), Some(Zxid::ZERO));
    let progress = Arc::<Progress>::default();
    let (queue, groups) = bounded(1);
    let feed = Feed::new(progress.clone(), queue);
    feed.committed(last);
    drop(feed);
    let recorder = Recorder {
        settings: settings.clone(),
        sources,
        log_end: Arc::new(LogEnd::new(last)),
        free_bytes_min: 0,
        progress,
        readers: Readers::default(),
        index,
        next_try: Instant::now(),
        pause: PAUSE_MIN,
        last_checkpoint: Instant::now(),
        looked_at_disk: None,
        is_full: false,
    };
    recorder.run(&groups);
    assert_eq!(Index::open(settings).unwrap().head(), Zxid::ZERO);
}
