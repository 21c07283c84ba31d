//! After a crash at any moment the committed transactions exist, in order, and the server starts.
use std::path::Path;
use std::sync::Arc;

use crate::common::db::Db;
use crate::common::{fresh_body, payload};
use proto::Zxid;
use testkit::{Random, SimDisk};
use zoarium_storage::{
    Compression, DataDirs, EmptyDirectory, LogSettings, LogWriter, OpenOptions, Recovered,
    RecoverySettings, SnapshotTrailer, SnapshotWriter, StorageError, recover, set_history_aside,
};

const SETTINGS: LogSettings = LogSettings {
    prealloc_bytes: 4096,
    force_sync: true,
    fsync_warning: std::time::Duration::from_secs(60),
    log_bytes_max: 0,
    limits: jute::Limits {
        field_bytes_max: 1 << 20,
    },
};

fn dirs(disk: &SimDisk) -> DataDirs {
    let dir = Path::new("/data");
    DataDirs::open(disk, dir, dir, OpenOptions::default()).unwrap()
}

fn snapshot(disk: &SimDisk, dirs: &DataDirs, zxid: i64) -> Result<(), StorageError> {
    let disk = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid(zxid), Compression::None, true)?;
    writer.write(&fresh_body())?;
    let trailer = SnapshotTrailer::new(Some((Zxid(zxid), 0)), Some(Zxid(zxid)));
    writer.finish(trailer).map(drop)
}

fn start(disk: &SimDisk) -> Result<(Recovered, Db), StorageError> {
    let dirs = dirs(disk);
    let mut db = Db::default();
    let recovered = recover(
        disk,
        &dirs,
        &RecoverySettings::new(testkit::LIMITS),
        &mut db,
    )?;
    Ok((recovered, db))
}

/// Transactions that were committed, and those that were only appended.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    committed: i64,
    appended: i64,
    /// The newest finished snapshot.
    snapshot: Option<i64>,
}

/// Writes groups of `group` transactions of `bytes` bytes, with a roll and a snapshot after every
/// third group.
fn work(disk: &SimDisk, groups: i64, group: i64, bytes: usize) -> (Progress, Option<StorageError>) {
    let mut progress = Progress::default();
    let result = try_work(disk, groups, group, bytes, &mut progress);
    (progress, result.err())
}

fn try_work(
    disk: &SimDisk,
    groups: i64,
    group: i64,
    bytes: usize,
    progress: &mut Progress,
) -> Result<(), StorageError> {
    let dirs = DataDirs::unlocked(Path::new("/data"), Path::new("/data"));
    snapshot(disk, &dirs, 0)?;
    progress.snapshot = Some(0);
    let mut writer = LogWriter::new(Arc::new(disk.clone()), &dirs, SETTINGS);
    for round in 1..=groups {
        for _ in 0..group {
            progress.appended += 1;
            let zxid = progress.appended;
            writer.append(Zxid(zxid), &payload(zxid, bytes))?;
            if round % 3 == 0 && zxid % group == 1 {
                writer.roll()?;
            }
        }
        writer.commit()?;
        progress.committed = progress.appended;
        if round % 3 == 0 {
            snapshot(disk, &dirs, progress.committed)?;
            progress.snapshot = Some(progress.committed);
        }
    }
    Ok(())
}

fn prepared() -> SimDisk {
    let disk = SimDisk::default();
    dirs(&disk);
    disk
}

/// Checks that all committed transactions are recovered, only appended ones, and without a gap.
fn check(progress: Progress, disk: &SimDisk, at: &str) {
    let (recovered, db) = start(disk).unwrap_or_else(|error| panic!("{at}: {progress:?}: {error}"));
    let last = recovered.last_zxid.0;
    assert!(
        last >= progress.committed,
        "{at}: {progress:?}, recovered {last}"
    );
    assert!(
        last <= progress.appended,
        "{at}: {progress:?}, recovered {last}"
    );
    let base = recovered.snapshot.as_ref().map_or(0, |file| file.zxid.0);
    assert!(
        Some(base) >= progress.snapshot,
        "{at}: {progress:?}, snapshot {base}"
    );
    assert_eq!(db.txns, (base + 1..=last).collect::<Vec<_>>(), "{at}");
    // The server can also continue: a new log after the tear is read together with the old one.
    let dirs = dirs(disk);
    if recovered.empty.is_some() {
        snapshot(disk, &dirs, 0).unwrap();
    }
    let mut writer = LogWriter::new(Arc::new(disk.clone()), &dirs, SETTINGS);
    writer
        .append(Zxid(last + 1), &payload(last + 1, 10))
        .unwrap();
    writer.commit().unwrap();
    let (again, _) = start(disk).unwrap_or_else(|error| panic!("{at}, going on: {error}"));
    assert_eq!(again.last_zxid.0, last + 1, "{at}");
}

fn operations_of(groups: i64, group: i64, bytes: usize) -> u64 {
    let disk = prepared();
    let (_, error) = work(&disk, groups, group, bytes);
    assert!(error.is_none(), "{error:?}");
    disk.changes()
}

#[test]
fn killed_at_every_operation_and_every_byte_of_it() {
    let begin = prepared().changes();
    for operation in 0..operations_of(4, 2, 20) - begin {
        for bytes in 0..240 {
            let disk = prepared();
            disk.die_after(operation, bytes);
            let (progress, error) = work(&disk, 4, 2, 20);
            assert!(error.is_some());
            let at = format!("killed at operation {operation}, byte {bytes}");
            check(progress, &disk.after_kill(), &at);
        }
    }
}

#[test]
fn power_lost_at_every_operation() {
    let begin = prepared().changes();
    let mut random = Random::new(0x5eed_0001);
    for operation in 0..operations_of(5, 3, 300) - begin {
        for try_no in 0..30 {
            let disk = prepared();
            let bytes = random.below(1200);
            disk.die_after(operation, bytes);
            let (progress, _) = work(&disk, 5, 3, 300);
            let at = format!("power lost at operation {operation}, try {try_no}");
            check(progress, &disk.after_power_loss(&mut random, false), &at);
        }
    }
}

/// A disk may write the sectors of a group in any order. A single record is always recovered. In a
/// group, later records may be complete while an earlier one is not. This cannot be distinguished
/// from corruption, so the start is refused and never leaves a hole. An ensemble's member starts
/// without a vote.
#[test]
fn power_lost_with_sectors_written_in_any_order() {
    let begin = prepared().changes();
    let mut random = Random::new(0x5eed_0002);
    let (mut started, mut refused) = (0, 0);
    for (group, bytes) in [(1, 3000), (4, 700)] {
        for operation in 0..operations_of(5, group, bytes) - begin {
            for try_no in 0..30 {
                let disk = prepared();
                disk.die_after(operation, usize::MAX);
                let (progress, _) = work(&disk, 5, group, bytes);
                let after = disk.after_power_loss(&mut random, true);
                let at = format!("group {group}, operation {operation}, try {try_no}");
                match start(&after) {
                    Ok(_) => {
                        check(progress, &after, &at);
                        started += 1;
                    }
                    Err(error) if error.is_damage() => {
                        let StorageError::LogDamaged { last_good, .. } = &error else {
                            panic!("{at}: {error}");
                        };
                        assert!(last_good.0 >= progress.committed, "{at}: {progress:?}");
                        set_history_aside(&after, &dirs(&after), &error.to_string()).unwrap();
                        let (recovered, db) = start(&after).unwrap();
                        assert_eq!(recovered.empty, Some(EmptyDirectory::Untrusted), "{at}");
                        assert_eq!((recovered.last_zxid.0, db.txns.len()), (-1, 0), "{at}");
                        refused += 1;
                        assert!(group > 1, "{at}: a single torn record must recover");
                    }
                    Err(error) => panic!("{at}: {error}"),
                }
            }
        }
    }
    assert!(
        refused > 0 && started > 10 * refused,
        "{started} started, {refused} refused"
    );
}
