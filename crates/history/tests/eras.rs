//! Eras of which the first contains no transaction.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use proto::txn::{SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{SessionId, StatPersisted, Zxid};
use zoarium_history::{Baseline, Index, IndexSettings, MaintenanceStep, Origin, Shape, SnapshotAt};

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
        let txn = Txn::SetData(SetDataTxn {
            path: "/".into(),
            data: Some(vec![7; 100].into()),
            version: 1,
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
    index.checkpoint().unwrap();
    while index.step(40).unwrap() == MaintenanceStep::Worked {}
    assert!(index.reader().extent().recorded_after > Zxid(5), "dropped");
    drop(index);
    let index = Index::open(settings).unwrap();
    assert_eq!(index.head(), Zxid(40));
    assert_eq!(index.reader().extent().holes, []);
}
