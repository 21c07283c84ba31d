//! A member with a corrupted history sets it aside and does not vote before its leader's snapshot
//! is on disk, regardless of when it crashes. It deletes nothing and forgets no promise.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::db::Db;
use crate::common::{fresh_body, payload};
use proto::{Epoch, Zxid};
use testkit::{Random, SimDisk};
use zoarium_storage::{
    Compression, DataDirs, EmptyDirectory, Epochs, LogSettings, LogWriter, OpenOptions, Recovered,
    RecoverySettings, SnapshotTrailer, SnapshotWriter, StorageError, is_untrusted, recover,
    remove_other_snapshots, set_history_aside, untrusted_marker,
};

/// Zxid of the leader's snapshot.
const TAKEN_OVER: i64 = 9;

fn open(disk: &SimDisk) -> DataDirs {
    let (data, logs) = (Path::new("/data"), Path::new("/logs"));
    DataDirs::open(disk, data, logs, OpenOptions::default()).unwrap()
}

fn snapshot(disk: &SimDisk, dirs: &DataDirs, zxid: i64) -> Result<(), StorageError> {
    let disk = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid(zxid), Compression::None, true)?;
    writer.write(&fresh_body())?;
    writer.finish(SnapshotTrailer::default()).map(drop)
}

fn write(disk: &SimDisk, dirs: &DataDirs, zxids: std::ops::RangeInclusive<i64>) {
    let settings = LogSettings {
        prealloc_bytes: 4096,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(Arc::new(disk.clone()), dirs, settings);
    for zxid in zxids {
        writer.append(Zxid(zxid), &payload(zxid, 100)).unwrap();
    }
    writer.commit().unwrap();
}

/// Creates two snapshots and two logs, up to zxid 6.
fn whole() -> (SimDisk, DataDirs) {
    let disk = SimDisk::default();
    let dirs = open(&disk);
    snapshot(&disk, &dirs, 0).unwrap();
    write(&disk, &dirs, 1..=3);
    snapshot(&disk, &dirs, 1).unwrap();
    write(&disk, &dirs, 4..=6);
    Epochs::store_accepted(&disk, &dirs, Epoch(7)).unwrap();
    Epochs::store_current(&disk, &dirs, Epoch(5)).unwrap();
    (disk, dirs)
}

/// Creates the files of [`whole`] with the first log corrupted in its middle.
fn damaged() -> (SimDisk, DataDirs) {
    let (disk, dirs) = whole();
    let log = dirs.log.join("log.1");
    let mut content = disk.content(&log).unwrap();
    content[250] ^= 1;
    disk.set_content(&log, &content);
    (disk, dirs)
}

fn start(disk: &SimDisk) -> Result<Recovered, StorageError> {
    let mut db = Db::default();
    let recovered = recover(
        disk,
        &open(disk),
        &RecoverySettings::new(testkit::LIMITS),
        &mut db,
    )?;
    if recovered.empty == Some(EmptyDirectory::Untrusted) {
        assert_eq!((db.txns.len(), recovered.last_zxid), (0, Zxid(-1)));
    }
    Ok(recovered)
}

fn has_vote(disk: &SimDisk) -> bool {
    start(disk).is_ok_and(|recovered| recovered.empty != Some(EmptyDirectory::Untrusted))
}

/// Returns the content of logs and snapshots by their original names, including renamed files.
fn contents(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in ["/data/version-2", "/logs/version-2"] {
        for entry in zoarium_storage::Disk::list(disk, Path::new(dir)).unwrap() {
            let content = disk.content(&Path::new(dir).join(&entry.name)).unwrap();
            let name = entry.name.strip_prefix("aside.").unwrap_or(&entry.name);
            if name.starts_with("log.") || name.starts_with("snapshot.") {
                found.insert(name.to_owned(), content);
            }
        }
    }
    found
}

fn names(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.names();
    names.sort();
    names
}

/// Returns disks as both kinds of crash may leave them.
fn after_crash(disk: &SimDisk, random: &mut Random) -> Vec<SimDisk> {
    let mut left = vec![disk.after_kill()];
    left.extend((0..10).map(|_| disk.after_power_loss(random, true)));
    left
}

#[test]
fn everything_gets_names_that_no_server_reads_and_nothing_is_deleted() {
    let (disk, dirs) = damaged();
    let before = contents(&disk);
    let error = start(&disk).unwrap_err();
    assert!(error.is_damage(), "{error}");
    let moved = set_history_aside(&disk, &dirs, &error.to_string()).unwrap();
    assert_eq!(moved.len(), 4);
    assert_eq!(
        names(&disk),
        [
            "acceptedEpoch",
            "aside.log.1",
            "aside.log.4",
            "aside.snapshot.0",
            "aside.snapshot.1",
            "currentEpoch",
            "zoarium.untrusted"
        ]
    );
    assert_eq!(contents(&disk), before);
    let marker = String::from_utf8(disk.content(&untrusted_marker(&dirs)).unwrap()).unwrap();
    assert!(marker.contains("log.1 is damaged at offset"), "{marker}");
    // The promise is kept, and the remaining data do not require an epoch.
    let epochs = Epochs::load(&disk, &dirs, start(&disk).unwrap().last_zxid).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (Epoch(5), Epoch(7)));
}

#[test]
fn corruption_of_any_byte_loses_no_data_or_the_vote() {
    let (disk, dirs) = whole();
    let (mut starts, mut moves) = (0, 0);
    for path in [
        dirs.snap.join("snapshot.0"),
        dirs.snap.join("snapshot.1"),
        dirs.log.join("log.1"),
        dirs.log.join("log.4"),
    ] {
        let good = disk.content(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x81;
            disk.set_content(&path, &bad);
            let place = format!("{} at {at}", path.display());
            match start(&disk) {
                Ok(recovered) => {
                    assert_eq!(recovered.last_zxid, Zxid(6), "{place}");
                    starts += 1;
                }
                Err(error) => {
                    assert!(error.is_damage(), "{place}: {error}");
                    moves += 1;
                    let left = disk.after_kill();
                    set_history_aside(&left, &dirs, &error.to_string()).unwrap();
                    assert!(!has_vote(&left), "{place}");
                    let name = path.file_name().unwrap().to_str().unwrap();
                    assert_eq!(contents(&left)[name], bad, "{place}");
                }
            }
        }
        disk.set_content(&path, &good);
    }
    assert!(
        starts > 0 && moves > 0,
        "{starts} start, {moves} have no vote"
    );
}

#[test]
fn a_crash_while_files_are_moved_aside_loses_the_vote() {
    let mut random = Random::new(0x5eed_0006);
    let (moved, dirs) = damaged();
    let begun = moved.changes();
    let before = contents(&moved);
    set_history_aside(&moved, &dirs, "damaged").unwrap();
    let operations = moved.changes() - begun;
    assert!(operations > 8, "{operations}");
    for operation in 0..operations {
        let (disk, dirs) = damaged();
        disk.die_after(operation, 5);
        set_history_aside(&disk, &dirs, "damaged").unwrap_err();
        for left in after_crash(&disk, &mut random) {
            assert!(!has_vote(&left), "operation {operation}");
            let dirs = open(&left);
            set_history_aside(&left, &dirs, "damaged").unwrap();
            assert_eq!(names(&left), names(&moved), "operation {operation}");
            assert_eq!(contents(&left), before, "operation {operation}");
        }
    }
}

#[test]
fn a_crash_while_a_leaders_snapshot_is_adopted_loses_the_vote() {
    let mut random = Random::new(0x5eed_0007);
    let prepared = || {
        let (disk, dirs) = damaged();
        set_history_aside(&disk, &dirs, "damaged").unwrap();
        (disk, dirs)
    };
    let take_over = |disk: &SimDisk, dirs: &DataDirs| {
        snapshot(disk, dirs, TAKEN_OVER)?;
        remove_other_snapshots(disk, dirs, Zxid(TAKEN_OVER))
    };
    let (whole, dirs) = prepared();
    let begun = whole.changes();
    take_over(&whole, &dirs).unwrap();
    let operations = whole.changes() - begun;
    assert!(!is_untrusted(&whole, &dirs).unwrap());
    assert_eq!(start(&whole).unwrap().last_zxid, Zxid(TAKEN_OVER));
    for left in after_crash(&whole, &mut random) {
        assert_eq!(start(&left).unwrap().last_zxid, Zxid(TAKEN_OVER));
    }
    let mut votes = 0;
    for operation in 0..operations {
        let (disk, dirs) = prepared();
        disk.die_after(operation, 100);
        take_over(&disk, &dirs).unwrap_err();
        for left in after_crash(&disk, &mut random) {
            if has_vote(&left) {
                votes += 1;
                let last = start(&left).unwrap().last_zxid;
                assert_eq!(last, Zxid(TAKEN_OVER), "operation {operation}");
            }
        }
    }
    assert!(votes > 0);
}

/// The leader was lost before its snapshot was complete. Files next to the marker are not a
/// history, even if they would load.
#[test]
fn files_next_to_the_marker_are_not_read() {
    let (disk, dirs) = damaged();
    set_history_aside(&disk, &dirs, "damaged").unwrap();
    snapshot(&disk, &dirs, TAKEN_OVER).unwrap();
    write(&disk, &dirs, 10..=12);
    assert!(!has_vote(&disk));
    let moved = set_history_aside(&disk, &dirs, "again").unwrap();
    let names: Vec<PathBuf> = [
        "/data/version-2/aside.snapshot.9",
        "/logs/version-2/aside.log.a",
    ]
    .map(PathBuf::from)
    .into();
    assert_eq!(moved, names);
    let marker = String::from_utf8(disk.content(&untrusted_marker(&dirs)).unwrap()).unwrap();
    assert!(marker.starts_with("damaged\n"), "the first reason stays");
}

#[test]
fn earlier_set_aside_files_are_not_overwritten() {
    let (disk, dirs) = damaged();
    set_history_aside(&disk, &dirs, "damaged").unwrap();
    let first = disk
        .content(Path::new("/logs/version-2/aside.log.1"))
        .unwrap();
    for _ in 0..2 {
        write(&disk, &dirs, 1..=2);
        set_history_aside(&disk, &dirs, "damaged").unwrap();
    }
    let kept = disk
        .content(Path::new("/logs/version-2/aside.log.1"))
        .unwrap();
    assert_eq!(kept, first);
    for name in ["aside.log.1.2", "aside.log.1.3"] {
        assert!(disk.names().contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn an_epoch_of_removed_files_is_not_promised_again() {
    let (disk, dirs) = damaged();
    write(&disk, &dirs, 0x4_0000_0001..=0x4_0000_0002);
    for name in ["acceptedEpoch", "currentEpoch"] {
        zoarium_storage::Disk::remove(&disk, &dirs.snap.join(name)).unwrap();
    }
    set_history_aside(&disk, &dirs, "damaged").unwrap();
    let epochs = Epochs::load(&disk, &dirs, Zxid(-1)).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (Epoch(0), Epoch(4)));
}

#[test]
fn an_invalid_current_epoch_is_moved_aside_and_an_accepted_one_stays() {
    let (disk, dirs) = damaged();
    disk.set_content(&dirs.snap.join("currentEpoch"), &[0]);
    let lost = Epochs::unreadable_current(&disk, &dirs).unwrap().unwrap();
    assert!(lost.to_string().contains("currentEpoch"), "{lost}");
    let moved = set_history_aside(&disk, &dirs, "damaged").unwrap();
    assert_eq!(moved.len(), 5);
    assert!(disk.names().contains(&"aside.currentEpoch".to_owned()));
    let epochs = Epochs::load(&disk, &dirs, Zxid(-1)).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (Epoch(0), Epoch(7)));

    // The promise is unknown, so the operator has to decide, and nothing changes.
    let (disk, dirs) = damaged();
    for name in ["currentEpoch", "acceptedEpoch"] {
        disk.set_content(&dirs.snap.join(name), &[0]);
    }
    let before = disk.names();
    let error = set_history_aside(&disk, &dirs, "damaged").unwrap_err();
    assert!(matches!(error, StorageError::EpochFile { .. }), "{error}");
    assert_eq!(disk.names(), before);
}

#[test]
fn faults_that_a_leaders_copy_does_not_repair_are_not_corruption() {
    let (disk, dirs) = damaged();
    for snapshot in ["snapshot.0", "snapshot.1"] {
        zoarium_storage::Disk::remove(&disk, &dirs.snap.join(snapshot)).unwrap();
    }
    let error = start(&disk).unwrap_err();
    assert!(matches!(error, StorageError::NoSnapshot { .. }), "{error}");
    assert!(!error.is_damage());
    let unreadable = |name: &str| StorageError::Io {
        action: "read",
        path: dirs.log.join(name),
        source: std::io::Error::from_raw_os_error(5),
    };
    assert!(unreadable("log.1").is_damage() && !unreadable("acceptedEpoch").is_damage());
    let of_another_release = zoarium_storage::Damage::Undecodable {
        reason: "an unknown transaction".into(),
    };
    let error = StorageError::LogDamaged {
        path: dirs.log.join("log.1"),
        offset: 16,
        damage: of_another_release,
        last_good: Zxid(0),
    };
    assert!(!error.is_damage());
}
