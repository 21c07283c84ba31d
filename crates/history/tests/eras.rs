//! Histories of several eras.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use proto::txn::{SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{SessionId, StatPersisted, Zxid};
use zoarium_history::{
    Baseline, Index, IndexSettings, MaintenanceStep, Moment, Origin, Shape, SnapshotAt, Viewer,
};

fn baseline(settings: &IndexSettings) -> Baseline {
    let mut baseline = Baseline::new(settings).unwrap();
    let stat = StatPersisted::default();
    baseline.znode("/", None, -1, &stat).unwrap();
    baseline
}

fn at(zxid: i64) -> SnapshotAt {
    SnapshotAt {
        zxid: Zxid(zxid),
        covers: None,
    }
}

/// Appends a transaction that sets the data of the root. Its time is `zxid` milliseconds.
fn set_root(index: &mut Index, zxid: i64, version: i32, data: Vec<u8>) {
    let txn = Txn::SetData(SetDataTxn {
        path: "/".into(),
        data: Some(data.into()),
        version,
    });
    let header = TxnHeader {
        session: SessionId(7),
        cxid: 1,
        zxid: Zxid(zxid),
        time_ms: zxid,
        op: txn.op().number(),
    };
    let record = TxnRecord {
        header,
        txn,
        digest: None,
    };
    index.append(&record, &Origin::default()).unwrap();
}

/// Both eras begin after the same transaction.
#[test]
fn an_era_after_an_empty_one_is_kept_while_old_changes_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let settings = IndexSettings {
        shape: Shape {
            block_changes: 1,
            segment_bytes: 1,
            ..Shape::default()
        },
        age_ms_max: 10,
        ..IndexSettings::new(dir.path())
    };
    let mut index = Index::create(settings.clone(), baseline(&settings), at(0)).unwrap();
    index.begin_era(baseline(&settings), at(5)).unwrap();
    for zxid in 6..=40 {
        set_root(&mut index, zxid, 1, vec![7; 100]);
    }
    index.checkpoint().unwrap();
    while index.step(40).unwrap() == MaintenanceStep::Worked {}
    assert!(index.reader().extent().recorded_after > Zxid(5), "dropped");
    drop(index);
    let index = Index::open(settings).unwrap();
    assert_eq!(index.head(), Zxid(40));
    assert_eq!(index.reader().extent().holes, []);
}

/// The data is stored in a file in the first era, and in the snapshot of the second era, which may
/// omit it.
#[test]
fn a_znode_that_is_stored_in_two_ways_does_not_differ() {
    for content_bytes_max in [1 << 20, 300] {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = IndexSettings::new(dir.path());
        let mut index = Index::create(settings.clone(), baseline(&settings), at(0)).unwrap();
        let data = vec![7; 400];
        set_root(&mut index, 1, 1, data.clone());
        set_root(&mut index, 2, 2, data.clone());
        index.checkpoint().unwrap();

        let stat = StatPersisted {
            mzxid: 1,
            mtime: 1,
            version: 1,
            ..StatPersisted::default()
        };
        settings.content_bytes_max = content_bytes_max;
        let mut of_snapshot = Baseline::new(&settings).unwrap();
        of_snapshot.znode("/", Some(&data), -1, &stat).unwrap();
        index.begin_era(of_snapshot, at(5)).unwrap();
        let reader = index.reader();
        let owner = Viewer::FileOwner {
            shows_secrets: true,
        };
        let differences = |from: i64| {
            let [from, to] = [from, 5].map(|zxid| Moment::Zxid(Zxid(zxid)));
            reader.diff("/", from, to, None, 9, &owner).unwrap().results
        };
        assert_eq!(differences(1), []);
        assert_eq!(differences(2).len(), 1, "the version differs");
    }
}
