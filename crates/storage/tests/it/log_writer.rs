//! Tests of the sizes, names and groups of the files that the writer creates.
use std::fs;
use std::sync::Arc;

use crate::common::{create, log_path, open, payload};
use jute::Encode;
use proto::txn::{Txn, TxnDigest};
use proto::{SessionId, Zxid};
use testkit::vectors::{self, number};
use zoarium_storage::{LogSettings, LogWriter, RealDisk, list_logs, read_txns_from};

/// Returns the createSession at the beginning of Java's recording, 48 bytes.
fn session() -> Vec<u8> {
    let mut record = create(1, 0);
    record.header.op = -10;
    record.header.session = SessionId(7);
    record.txn = Txn::CreateSession { timeout_ms: 60000 };
    record.digest = Some(TxnDigest::new(0));
    record.to_bytes().to_vec()
}

/// Returns the payload of the recorded creates with `data_bytes` bytes of data.
fn create_like_recorded(zxid: i64, path: &str, data_bytes: usize) -> Vec<u8> {
    let mut record = create(zxid, data_bytes);
    if let Txn::Create(txn) = &mut record.txn {
        txn.path = path.into();
    }
    record.digest = Some(TxnDigest::new(0));
    record.to_bytes().to_vec()
}

#[test]
fn preallocated_sizes_equal_javas() {
    let Some(vector) = vectors::vector("prealloc") else {
        return;
    };
    for (setting, kb) in [
        ("preAllocSize=default", 65536),
        ("preAllocSize=0", 0),
        ("preAllocSize=1", 1),
        ("preAllocSize=8", 8),
        ("preAllocSize=64", 64),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        let settings = LogSettings {
            prealloc_bytes: kb * 1024,
            ..LogSettings::new(testkit::LIMITS)
        };
        let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
        writer.append(Zxid(1), &session()).unwrap();
        writer.commit().unwrap();
        let rows = vector.expected[setting].as_array().unwrap();
        for (index, row) in rows.iter().enumerate() {
            let zxid = i64::try_from(index).unwrap() + 2;
            let bytes = usize::try_from(number(&row[0])).unwrap();
            let path = format!("/p{index}");
            writer
                .append(Zxid(zxid), &create_like_recorded(zxid, &path, bytes))
                .unwrap();
            writer.commit().unwrap();
            let size = fs::metadata(log_path(&dirs, 1)).unwrap().len();
            assert_eq!(
                size.cast_signed(),
                number(&row[1]),
                "{setting}: row {index}"
            );
        }
    }
}

#[test]
fn the_size_limit_rolls_where_java_does() {
    let Some(vector) = vectors::vector("rolled-by-size") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let settings = LogSettings {
        prealloc_bytes: 0,
        log_bytes_max: 4096,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
    let recorded = vectors::dirs(&vector.dir.join("data"));
    for txn in read_txns_from(&RealDisk, &recorded, Zxid(1), testkit::LIMITS).unwrap() {
        let txn = txn.unwrap();
        writer.append(txn.record.header.zxid, &txn.payload).unwrap();
        writer.commit().unwrap();
    }
    let files = |dir| {
        list_logs(&RealDisk, dir)
            .unwrap()
            .into_iter()
            .map(|log| (log.zxid, log.len))
            .collect::<Vec<_>>()
    };
    assert_eq!(files(&dirs.log), files(&recorded.log));
}

#[test]
fn a_group_is_read_completely_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    for zxid in 1..=5000 {
        let bytes = usize::try_from(zxid * 7 % 900).unwrap();
        writer.append(Zxid(zxid), &payload(zxid, bytes)).unwrap();
        if zxid % 1000 == 0 {
            assert_eq!(writer.commit().unwrap().txns, 1000);
        }
    }
    assert_eq!(writer.txns(), 5000);
    assert_eq!(writer.bytes(), writer.file_bytes() - 16);
    for from in [1, 2, 2500, 5000] {
        let read: Vec<_> = read_txns_from(&RealDisk, &dirs, Zxid(from), testkit::LIMITS)
            .unwrap()
            .map(|txn| txn.unwrap())
            .collect();
        assert_eq!(read.len(), usize::try_from(5001 - from).unwrap());
        for (txn, zxid) in read.iter().zip(from..) {
            let bytes = usize::try_from(zxid * 7 % 900).unwrap();
            assert_eq!(txn.payload, payload(zxid, bytes));
            assert_eq!(txn.record, create(zxid, bytes));
        }
    }
    let beyond = read_txns_from(&RealDisk, &dirs, Zxid(5001), testkit::LIMITS).unwrap();
    assert_eq!(beyond.count(), 0);
}

#[test]
fn a_roll_splits_a_group_over_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    writer.append(Zxid(1), &payload(1, 10)).unwrap();
    writer.append(Zxid(2), &payload(2, 10)).unwrap();
    writer.roll().unwrap();
    writer.append(Zxid(3), &payload(3, 10)).unwrap();
    let committed = writer.commit().unwrap();
    assert_eq!(committed.txns, 3);
    assert_eq!(committed.bytes, writer.bytes());
    let names: Vec<Zxid> = list_logs(&RealDisk, &dirs.log)
        .unwrap()
        .iter()
        .map(|log| log.zxid)
        .collect();
    assert_eq!(names, [Zxid(1), Zxid(3)]);
    let read = read_txns_from(&RealDisk, &dirs, Zxid(1), testkit::LIMITS).unwrap();
    assert_eq!(read.flatten().count(), 3);
}

#[test]
fn without_force_sync_the_same_bytes_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let settings = LogSettings {
        force_sync: false,
        prealloc_bytes: 8192,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
    writer.append(Zxid(1), &payload(1, 10)).unwrap();
    let committed = writer.commit().unwrap();
    assert!(committed.sync_time.is_zero());
    assert_eq!(fs::metadata(log_path(&dirs, 1)).unwrap().len(), 8208);
}

#[test]
fn a_transaction_above_the_limit_is_read_back() {
    // Java writes such a transaction (ZOOKEEPER-4306) and cannot read it.
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    let large = payload(1, 3 << 20);
    writer.append(Zxid(1), &large).unwrap();
    writer.commit().unwrap();
    let mut read = read_txns_from(&RealDisk, &dirs, Zxid(1), testkit::LIMITS).unwrap();
    assert!(read.next().unwrap().unwrap().payload == large);
    assert!(read.next().is_none());
}

#[test]
fn a_multi_with_a_large_operation_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    let mut record = create(1, 3 << 20);
    record.header.op = 14;
    record.txn = Txn::Multi(vec![record.txn.clone()]);
    writer.append(Zxid(1), &record.to_bytes()).unwrap();
    writer.commit().unwrap();
    let mut read = read_txns_from(&RealDisk, &dirs, Zxid(1), testkit::LIMITS).unwrap();
    assert!(read.next().unwrap().unwrap().record == record);
}
