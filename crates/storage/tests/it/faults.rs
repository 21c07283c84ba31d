//! A full or failing disk: only durable transactions are acknowledged, and the error is clear.
use std::path::Path;
use std::sync::Arc;

use crate::common::db::Db;
use crate::common::{fresh_body, payload};
use proto::Zxid;
use testkit::{Failure, Random, SimDisk, SyncFault};
use zoarium_storage::{
    Compression, DataDirs, LogSettings, LogWriter, OpenOptions, RecoverySettings, SnapshotTrailer,
    SnapshotWriter, StorageError, log::UNSYNCED_BYTES_MAX, make_durable, recover,
    set_damaged_aside, truncate,
};

fn setup() -> (SimDisk, DataDirs, LogWriter<SimDisk>) {
    let disk = SimDisk::default();
    let dir = Path::new("/data");
    let dirs = DataDirs::open(&disk, dir, dir, OpenOptions::default()).unwrap();
    write_snapshot(&disk, &dirs, 0, Compression::None).unwrap();
    let settings = LogSettings {
        prealloc_bytes: 4096,
        ..LogSettings::new(testkit::LIMITS)
    };
    let writer = LogWriter::new(Arc::new(disk.clone()), &dirs, settings);
    (disk, dirs, writer)
}

fn write_snapshot(
    disk: &SimDisk,
    dirs: &DataDirs,
    zxid: i64,
    compression: Compression,
) -> Result<(), StorageError> {
    let disk = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid(zxid), compression, true)?;
    writer.write(&fresh_body())?;
    writer.finish(SnapshotTrailer::default()).map(drop)
}

fn commit(writer: &mut LogWriter<SimDisk>, zxid: i64) -> Result<(), StorageError> {
    writer.append(Zxid(zxid), &payload(zxid, 100))?;
    writer.commit().map(drop)
}

fn recovered(disk: &SimDisk, dirs: &DataDirs) -> i64 {
    let mut db = Db::default();
    let recovered = recover(disk, dirs, &RecoverySettings::new(testkit::LIMITS), &mut db).unwrap();
    recovered.last_zxid.0
}

#[test]
fn a_failed_sync_disables_the_writer() {
    let (disk, dirs, mut writer) = setup();
    commit(&mut writer, 1).unwrap();
    disk.fail(Some(Failure::Sync(SyncFault::Fails)));
    let error = commit(&mut writer, 2).unwrap_err();
    assert!(
        matches!(error, StorageError::LogWrite { action: "sync", .. }),
        "{error}"
    );
    assert_eq!(error.exit_code(), 1);
    // The kernel may report success the next time although it dropped the pages.
    disk.fail(None);
    assert!(writer.is_poisoned());
    assert!(matches!(
        writer.append(Zxid(3), b""),
        Err(StorageError::LogPoisoned)
    ));
    assert!(matches!(writer.commit(), Err(StorageError::LogPoisoned)));
    assert!(matches!(writer.roll(), Err(StorageError::LogPoisoned)));
    let last = recovered(&disk, &dirs);
    assert!((1..=2).contains(&last), "{last}");
}

/// The kernel shows data that a failed sync did not write, and reports success for the next sync.
#[test]
fn records_only_in_the_page_cache_are_rewritten_before_they_count() {
    for bytes in [100, 3000, UNSYNCED_BYTES_MAX + 5000] {
        let (disk, dirs, mut writer) = setup();
        commit(&mut writer, 1).unwrap();
        disk.fail(Some(Failure::Sync(SyncFault::FailsAndShows)));
        for zxid in 2..4 {
            writer.append(Zxid(zxid), &payload(zxid, bytes)).ok();
        }
        assert!(writer.is_poisoned() || writer.commit().is_err());
        disk.fail(None);
        let shown = {
            let mut db = Db::default();
            let found = recover(
                &disk,
                &dirs,
                &RecoverySettings::new(testkit::LIMITS),
                &mut db,
            )
            .unwrap();
            let before = disk.content(&dirs.log.join("log.1")).unwrap();
            make_durable(&disk, &dirs, &found).unwrap();
            assert!(
                disk.content(&dirs.log.join("log.1")).unwrap() == before,
                "changed"
            );
            found.last_zxid.0
        };
        assert!(shown > 1, "the cache shows what was written");
        let after = disk.after_power_loss(&mut Random::new(7), false);
        assert_eq!(recovered(&after, &dirs), shown, "{bytes}");
    }
}

/// A truncation ordered by a leader fails to sync. The truncated records must not reappear later,
/// after other transactions were appended.
#[test]
fn a_cut_only_in_the_page_cache_is_repeated_before_it_counts() {
    let (disk, dirs, mut writer) = setup();
    for zxid in 1..=5 {
        commit(&mut writer, zxid).unwrap();
    }
    drop(writer);
    disk.fail_next_sync(SyncFault::FailsAndShows);
    truncate(&disk, &dirs, Zxid(3), testkit::LIMITS).unwrap_err();
    assert_eq!(recovered(&disk.synced_only(), &dirs), 5);
    let mut db = Db::default();
    let found = recover(
        &disk,
        &dirs,
        &RecoverySettings::new(testkit::LIMITS),
        &mut db,
    )
    .unwrap();
    assert_eq!(found.last_zxid, Zxid(3), "the cache shows the cut");
    make_durable(&disk, &dirs, &found).unwrap();
    assert_eq!(recovered(&disk.synced_only(), &dirs), 3);
}

/// Recovery relies on this limit for the data that may never have reached the disk.
#[test]
fn a_large_group_is_synced_in_parts() {
    let (disk, _, mut writer) = setup();
    let large = UNSYNCED_BYTES_MAX / 2 - 1000;
    for zxid in 1..=3 {
        writer.append(Zxid(zxid), &payload(zxid, large)).unwrap();
    }
    let after = disk.after_power_loss(&mut Random::new(3), true);
    let dirs = DataDirs::unlocked(Path::new("/data"), Path::new("/data"));
    assert_eq!(recovered(&after, &dirs), 2);
    let committed = writer.commit().unwrap();
    assert_eq!(committed.txns, 3);
    assert!(committed.bytes > 3 * large as u64);
    let after = disk.after_power_loss(&mut Random::new(3), true);
    assert_eq!(recovered(&after, &dirs), 3);
}

/// The log of acknowledged transactions is overwritten with identical bytes.
#[test]
fn power_lost_while_the_end_of_the_log_is_written_again_loses_nothing() {
    let mut random = Random::new(0x5eed_0008);
    for operation in 0..8 {
        for try_no in 0..50 {
            let (disk, dirs, mut writer) = setup();
            for zxid in 1..=3 {
                writer.append(Zxid(zxid), &payload(zxid, 900)).unwrap();
            }
            writer.commit().unwrap();
            let mut db = Db::default();
            let found = recover(
                &disk,
                &dirs,
                &RecoverySettings::new(testkit::LIMITS),
                &mut db,
            )
            .unwrap();
            disk.die_after(operation, random.below(4000));
            let made = make_durable(&disk, &dirs, &found);
            assert_eq!(made.is_ok(), operation >= 6, "{operation}");
            let after = disk.after_power_loss(&mut random, true);
            assert_eq!(recovered(&after, &dirs), 3, "{operation}, {try_no}");
        }
    }
}

#[test]
fn a_directory_that_cannot_be_synced_acknowledges_nothing() {
    let (disk, dirs, mut writer) = setup();
    disk.fail(Some(Failure::SyncDir));
    let error = commit(&mut writer, 1).unwrap_err();
    assert!(
        matches!(
            error,
            StorageError::LogWrite {
                action: "create",
                ..
            }
        ),
        "{error}"
    );
    assert!(writer.is_poisoned());
    disk.fail(None);
    assert_eq!(recovered(&disk, &dirs), 0);
}

#[test]
fn a_full_disk_stops_the_log_at_any_byte_and_loses_nothing() {
    for free in (0..6000).step_by(37) {
        let (disk, dirs, mut writer) = setup();
        disk.fail(Some(Failure::FullAfter(disk_used(&disk) + free)));
        let mut committed = 0;
        let error = loop {
            match commit(&mut writer, committed + 1) {
                Ok(()) => committed += 1,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("log.1"), "{error}");
        assert!(writer.is_poisoned());
        disk.fail(None);
        assert_eq!(recovered(&disk, &dirs), committed, "{free} bytes free");
    }
}

/// Returns the bytes written in setup, from which the failure counts.
fn disk_used(disk: &SimDisk) -> u64 {
    disk.content(Path::new("/data/version-2/snapshot.0"))
        .unwrap()
        .len() as u64
}

#[test]
fn a_full_disk_leaves_no_part_of_a_snapshot() {
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        for failure in [
            Failure::FullAfter(0),
            Failure::Sync(SyncFault::Fails),
            Failure::Rename,
            Failure::FullAfter(disk_used(&setup().0) + 100),
        ] {
            let (disk, dirs, mut writer) = setup();
            commit(&mut writer, 1).unwrap();
            disk.fail(Some(failure));
            let error = write_snapshot(&disk, &dirs, 1, compression).unwrap_err();
            assert_eq!(error.exit_code(), 10, "{error}");
            assert_eq!(disk.names(), ["log.1", "snapshot.0"], "{failure:?}");
            disk.fail(None);
            assert_eq!(recovered(&disk, &dirs), 1);
        }
    }
}

#[test]
fn an_abandoned_snapshot_leaves_nothing() {
    let (disk, dirs, _) = setup();
    let shared = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::new(shared, &dirs, Zxid(5), Compression::Gzip, true).unwrap();
    writer.write(&fresh_body()).unwrap();
    assert_eq!(disk.names(), ["snapshot.0", "unfinished.snapshot.5.gz"]);
    drop(writer);
    assert_eq!(disk.names(), ["snapshot.0"]);
}

#[test]
fn unfinished_files_of_a_crash_are_removed_at_the_start() {
    let (disk, dirs, _) = setup();
    let shared = Arc::new(disk.clone());
    let writer = SnapshotWriter::new(shared, &dirs, Zxid(5), Compression::None, true).unwrap();
    let after = disk.after_kill();
    drop(writer);
    assert_eq!(after.names(), ["snapshot.0", "unfinished.snapshot.5"]);
    let dir = Path::new("/data");
    DataDirs::open(&after, dir, dir, OpenOptions::default()).unwrap();
    assert_eq!(after.names(), ["snapshot.0"]);
}

#[test]
fn a_log_with_transactions_is_never_overwritten() {
    let (disk, dirs, mut writer) = setup();
    commit(&mut writer, 1).unwrap();
    let before = disk.content(&dirs.log.join("log.1")).unwrap();
    let mut second = LogWriter::new(
        Arc::new(disk.clone()),
        &dirs,
        LogSettings::new(testkit::LIMITS),
    );
    let error = commit(&mut second, 1).unwrap_err();
    assert!(matches!(error, StorageError::LogExists { .. }), "{error}");
    assert_eq!(disk.content(&dirs.log.join("log.1")).unwrap(), before);
}

#[test]
fn a_log_with_only_a_torn_record_is_replaced() {
    let (disk, dirs, mut writer) = setup();
    commit(&mut writer, 1).unwrap();
    let path = dirs.log.join("log.1");
    let mut torn = disk.content(&path).unwrap();
    torn[60..].fill(0);
    disk.set_content(&path, &torn);
    assert_eq!(recovered(&disk, &dirs), 0);
    let mut second = LogWriter::new(
        Arc::new(disk.clone()),
        &dirs,
        LogSettings::new(testkit::LIMITS),
    );
    commit(&mut second, 1).unwrap();
    assert_eq!(recovered(&disk, &dirs), 1);
}

#[test]
fn a_commit_without_transactions_does_nothing() {
    let (disk, _, mut writer) = setup();
    let before = disk.changes();
    assert_eq!(writer.commit().unwrap().txns, 0);
    writer.roll().unwrap();
    assert_eq!(disk.changes(), before);
}

#[test]
fn a_damaged_snapshot_is_kept_when_another_takes_its_name() {
    let (disk, dirs, mut writer) = setup();
    for zxid in 1..=2 {
        commit(&mut writer, zxid).unwrap();
    }
    write_snapshot(&disk, &dirs, 2, Compression::None).unwrap();
    write_snapshot(&disk, &dirs, 2, Compression::Gzip).unwrap();
    let damaged = b"ZKSN and nothing of use".to_vec();
    for name in ["snapshot.2", "snapshot.2.gz"] {
        disk.set_content(&dirs.snap.join(name), &damaged);
    }
    assert_eq!(recovered(&disk, &dirs), 2);

    disk.fail(Some(Failure::Rename));
    let error = set_damaged_aside(&disk, &dirs, Zxid(2)).unwrap_err();
    assert!(error.to_string().contains("snapshot.2"), "{error}");
    disk.fail(None);
    set_damaged_aside(&disk, &dirs, Zxid(2)).unwrap();
    write_snapshot(&disk, &dirs, 2, Compression::None).unwrap();

    let kept = ["damaged.snapshot.2", "damaged.snapshot.2.gz"];
    let names = disk.after_power_loss(&mut Random::new(1), false).names();
    assert_eq!(
        names,
        [&kept[..], &["log.1", "snapshot.0", "snapshot.2"]].concat()
    );
    for name in kept {
        assert_eq!(
            disk.content(&dirs.snap.join(name)).unwrap(),
            damaged,
            "{name}"
        );
    }
}
