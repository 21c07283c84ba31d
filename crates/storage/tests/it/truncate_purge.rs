//! Truncating the log for a leader, and removing files that recovery does not need.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::db::Db;
use crate::common::outcome;
use crate::common::{fresh_body, payload};
use proto::Zxid;
use testkit::vectors::{self, number};
use testkit::{Random, SimDisk};
use zoarium_storage::{
    Compression, DataDirs, Disk as _, LogSettings, LogWriter, OpenOptions, RealDisk,
    RecoverySettings, SnapshotTrailer, SnapshotWriter, StorageError, cut_log, last_logged_zxid,
    list_logs, list_snapshots, purge, recover, remove_other_snapshots, truncate,
};

fn sizes(dir: &Path) -> Vec<(String, i64)> {
    vectors::files(&dir.join("version-2"), "log.")
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, fs::metadata(path).unwrap().len().cast_signed())
        })
        .collect()
}

#[test]
fn logs_are_cut_where_java_cuts_them() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    for (target, java) in vector.expected["truncate"].as_object().unwrap() {
        let zxid = number(&target.as_str().into());
        let copy = vectors::copy(&vector.dir.join("with-older"));
        let dirs = vectors::dirs(copy.path());
        let before = sizes(copy.path());
        let ours = truncate(&RealDisk, &dirs, Zxid(zxid), testkit::LIMITS);
        if java["result"] != "true" {
            let error = ours.unwrap_err();
            assert_eq!(error.exit_code(), 13, "{target}: {error}");
            assert_eq!(sizes(copy.path()), before, "{target}");
            continue;
        }
        let last = ours.unwrap().last_zxid;
        if zxid == 0 {
            // Java keeps the first record above a target that is not logged.
            assert_eq!((last, sizes(copy.path())), (None, vec![]));
        } else {
            let expected: Vec<_> = java["logs"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, size)| (name.clone(), number(size)))
                .collect();
            assert_eq!(
                (last, sizes(copy.path())),
                (Some(Zxid(zxid)), expected),
                "{target}"
            );
        }
        let (recovered, _) = outcome::load(copy.path()).unwrap();
        assert_eq!(recovered.last_zxid.0, zxid, "{target}");
        let has_newer_snapshot = copy.path().join("version-2/snapshot.5").exists();
        assert_eq!(has_newer_snapshot, zxid >= 5, "{target}");
    }
}

#[test]
fn a_truncation_to_an_unlogged_zxid_keeps_earlier_transactions() {
    let disk = SimDisk::default();
    let dirs = history(&disk, &[1, 2, 0x1_0000_0001, 0x1_0000_0002]);
    let truncated = truncate(&disk, &dirs, Zxid(9), testkit::LIMITS).unwrap();
    assert_eq!(truncated.last_zxid, Some(Zxid(2)));
    let mut db = Db::default();
    let recovered = recover(
        &disk,
        &dirs,
        &RecoverySettings::new(testkit::LIMITS),
        &mut db,
    )
    .unwrap();
    assert_eq!(recovered.last_zxid, Zxid(2));
}

#[test]
fn a_target_below_all_good_snapshots_is_refused() {
    let disk = SimDisk::default();
    let dirs = history(&disk, &[1, 2, 3, 4]);
    snapshot(&disk, &dirs, 3);
    disk_remove(&disk, &dirs.snap.join("snapshot.0"));
    let error = truncate(&disk, &dirs, Zxid(2), testkit::LIMITS).unwrap_err();
    assert!(matches!(error, StorageError::Truncate { .. }), "{error}");
    assert_eq!(disk.names(), ["log.1", "snapshot.3"]);
    let last = last_logged_zxid(&disk, &dirs, testkit::LIMITS).unwrap();
    assert_eq!(last, Some(Zxid(4)));
}

/// A learner whose only snapshot is beyond its leader's history loads the leader's snapshot. At
/// each step there is a history to load, and at the end it is the leader's history.
#[test]
fn a_snapshot_below_all_others_takes_their_place() {
    let disk = SimDisk::default();
    let dirs = history(&disk, &[1, 2, 3, 4, 5]);
    snapshot(&disk, &dirs, 4);
    disk_remove(&disk, &dirs.snap.join("snapshot.0"));
    let load = || {
        let mut db = Db::default();
        let recovered = recover(
            &disk,
            &dirs,
            &RecoverySettings::new(testkit::LIMITS),
            &mut db,
        );
        recovered.unwrap().last_zxid
    };
    let target = Zxid(2);
    let cut = cut_log(&disk, &dirs, target, testkit::LIMITS).unwrap();
    assert_eq!(cut.last_zxid, Some(target));
    assert_eq!(load(), Zxid(4));
    snapshot(&disk, &dirs, target.0);
    assert_eq!(load(), Zxid(4));
    remove_other_snapshots(&disk, &dirs, target).unwrap();
    assert_eq!(disk.names(), ["log.1", "snapshot.2"]);
    assert_eq!(load(), target);
    // A log that begins after the target is removed completely.
    let cut = cut_log(&disk, &dirs, Zxid::ZERO, testkit::LIMITS).unwrap();
    assert_eq!(cut.last_zxid, None);
    assert_eq!(disk.names(), ["snapshot.2"]);
}

fn disk_remove(disk: &SimDisk, path: &Path) {
    zoarium_storage::Disk::remove(disk, path).unwrap();
}

fn snapshot(disk: &SimDisk, dirs: &DataDirs, zxid: i64) {
    let shared = Arc::new(disk.clone());
    let mut writer =
        SnapshotWriter::new(shared, dirs, Zxid(zxid), Compression::None, true).unwrap();
    writer.write(&fresh_body()).unwrap();
    writer.finish(SnapshotTrailer::default()).unwrap();
}

/// Creates snapshot.0 and a log of these zxids.
fn history(disk: &SimDisk, zxids: &[i64]) -> DataDirs {
    let dir = Path::new("/data");
    let dirs = DataDirs::open(disk, dir, dir, OpenOptions::default()).unwrap();
    snapshot(disk, &dirs, 0);
    write(disk, &dirs, zxids);
    dirs
}

fn write(disk: &SimDisk, dirs: &DataDirs, zxids: &[i64]) {
    let settings = LogSettings {
        prealloc_bytes: 4096,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(Arc::new(disk.clone()), dirs, settings);
    for zxid in zxids {
        writer.append(Zxid(*zxid), &payload(*zxid, 30)).unwrap();
        writer.commit().unwrap();
    }
}

/// After a crash at any moment the log has no hole and still reaches the target, so that the
/// truncation can be repeated.
#[test]
fn a_truncation_may_crash_at_any_moment() {
    let prepared = || {
        let disk = SimDisk::default();
        let dirs = history(&disk, &[1, 2, 3]);
        write(&disk, &dirs, &[4, 5, 6]);
        snapshot(&disk, &dirs, 5);
        write(&disk, &dirs, &[7, 8]);
        write(&disk, &dirs, &[9]);
        snapshot(&disk, &dirs, 9);
        (disk, dirs)
    };
    let whole = |target: i64| {
        let (disk, dirs) = prepared();
        let before = disk.changes();
        truncate(&disk, &dirs, Zxid(target), testkit::LIMITS).unwrap();
        disk.changes() - before
    };
    let mut random = Random::new(0x5eed_0003);
    for target in [2, 3, 5, 7] {
        for operation in 0..whole(target) {
            for try_no in 0..20 {
                let (disk, dirs) = prepared();
                disk.die_after(operation, 0);
                truncate(&disk, &dirs, Zxid(target), testkit::LIMITS).unwrap_err();
                let after = if try_no == 0 {
                    disk.after_kill()
                } else {
                    disk.after_power_loss(&mut random, false)
                };
                let at = format!("target {target}, operation {operation}, try {try_no}");
                let mut db = Db::default();
                let recovered = recover(
                    &after,
                    &dirs,
                    &RecoverySettings::new(testkit::LIMITS),
                    &mut db,
                )
                .unwrap_or_else(|error| panic!("{at}: {error}"));
                assert!(recovered.last_zxid.0 >= target, "{at}");
                let again = truncate(&after, &dirs, Zxid(target), testkit::LIMITS)
                    .unwrap_or_else(|error| panic!("{at}: {error}"));
                assert_eq!(again.last_zxid, Some(Zxid(target)), "{at}");
                let mut db = Db::default();
                recover(
                    &after,
                    &dirs,
                    &RecoverySettings::new(testkit::LIMITS),
                    &mut db,
                )
                .unwrap();
                assert_eq!(db.last_zxid, target, "{at}");
            }
        }
    }
}

/// Whatever a power failure restores, no snapshot remains whose log is removed. If an epoch
/// followed the missing log, recovery would not notice the gap.
#[test]
fn a_purge_may_crash_at_any_moment() {
    let prepared = || {
        let disk = SimDisk::default();
        let (snap, log) = (Path::new("/data"), Path::new("/log"));
        let dirs = DataDirs::open(&disk, snap, log, OpenOptions::default()).unwrap();
        for file in 0..6 {
            snapshot(&disk, &dirs, 2 * file);
            write(&disk, &dirs, &[2 * file + 1, 2 * file + 2]);
        }
        (disk, dirs)
    };
    let (disk, dirs) = prepared();
    let before = disk.changes();
    let removed = purge(&disk, &dirs, 3, testkit::LIMITS).unwrap();
    assert_eq!(removed.len(), 5, "{removed:?}");
    let operations = disk.changes() - before;
    let mut random = Random::new(0x5eed_0004);
    for operation in 0..operations {
        for try_no in 0..20 {
            let (disk, dirs) = prepared();
            disk.die_after(operation, 0);
            purge(&disk, &dirs, 3, testkit::LIMITS).unwrap_err();
            let after = disk.after_power_loss(&mut random, false);
            let snapshots = list_snapshots(&after, &dirs.snap).unwrap();
            let logs = list_logs(&after, &dirs.log).unwrap();
            let oldest = snapshots.iter().map(|file| file.zxid.0).min();
            let first = logs.iter().map(|file| file.zxid.0).min();
            let is_covered = first.zip(oldest).is_some_and(|(log, at)| log <= at + 1);
            assert!(is_covered, "{operation}, {try_no}: {:?}", after.names());
        }
    }
}

#[test]
fn purge_keeps_what_java_keeps() {
    let Some(vector) = vectors::vector("rolled") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("data"));
    let dirs = vectors::dirs(copy.path());
    let before = outcome::text(&outcome::load(copy.path()));
    // Names that only resemble logs and snapshots; Java removes them.
    for name in ["log.txt", "snapshot.notes"] {
        fs::write(dirs.snap.join(name), "").unwrap();
    }
    let removed = purge(&RealDisk, &dirs, 3, testkit::LIMITS).unwrap();
    assert_eq!(removed.len(), 7);
    let kept: BTreeSet<String> = fs::read_dir(&dirs.snap)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut java: BTreeSet<String> = vector.expected["after_purge_keeping_3"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_string())
        .collect();
    java.extend(["log.txt".to_string(), "snapshot.notes".to_string()]);
    assert_eq!(kept, java);
    assert_eq!(outcome::text(&outcome::load(copy.path())), before);
    assert!(
        purge(&RealDisk, &dirs, 3, testkit::LIMITS)
            .unwrap()
            .is_empty()
    );
    // The oldest kept snapshot still recovers everything.
    for zxid in ["4c", "57"] {
        fs::remove_file(dirs.snap.join(format!("snapshot.{zxid}"))).unwrap();
    }
    let (recovered, _) = outcome::load(copy.path()).unwrap();
    assert_eq!(
        (recovered.last_zxid.0, recovered.snapshot.unwrap().zxid.0),
        (0x60, 0x3d)
    );
}

#[test]
fn damaged_snapshots_do_not_count_as_kept() {
    let Some(vector) = vectors::vector("rolled") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("data"));
    let dirs = vectors::dirs(copy.path());
    // The files seem complete: Java would count all three and remove the intact ones.
    for zxid in ["3d", "4c", "57"] {
        let path = dirs.snap.join(format!("snapshot.{zxid}"));
        let mut content = fs::read(&path).unwrap();
        content[500] ^= 1;
        fs::write(&path, content).unwrap();
    }
    let removed = purge(&RealDisk, &dirs, 3, testkit::LIMITS).unwrap();
    let names: Vec<_> = removed
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["snapshot.0"]);
    let (recovered, _) = outcome::load(copy.path()).unwrap();
    assert_eq!(
        (recovered.last_zxid.0, recovered.snapshot.unwrap().zxid.0),
        (0x60, 0x2f)
    );
    assert_eq!(recovered.warnings.len(), 3);
}

#[test]
fn without_a_valid_snapshot_no_file_is_purged() {
    let Some(vector) = vectors::vector("rolled") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("data"));
    let dirs = vectors::dirs(copy.path());
    for path in vectors::files(&dirs.snap, "snapshot.") {
        fs::write(path, "not a snapshot").unwrap();
    }
    assert!(
        purge(&RealDisk, &dirs, 3, testkit::LIMITS)
            .unwrap()
            .is_empty()
    );
    assert_eq!(fs::read_dir(&dirs.snap).unwrap().count(), 14);
}

#[test]
fn the_last_logged_zxid() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let last = |dir: &Path| last_logged_zxid(&RealDisk, &vectors::dirs(dir), testkit::LIMITS);
    let copy = vectors::copy(&vector.dir.join("pair"));
    assert_eq!(last(copy.path()).unwrap(), Some(Zxid(8)));
    // A file without records is skipped; Java returns the zxid in its name.
    let newest = copy.path().join("version-2/log.6");
    let header = fs::read(&newest).unwrap()[..16].to_vec();
    fs::write(&newest, header).unwrap();
    assert_eq!(last(copy.path()).unwrap(), Some(Zxid(5)));
    fs::remove_file(&newest).unwrap();
    fs::remove_file(copy.path().join("version-2/log.1")).unwrap();
    assert_eq!(last(copy.path()).unwrap(), None);
}

#[test]
fn snapshots_of_another_log_are_removed_and_the_replacement_stays() {
    let dir = tempfile::tempdir().unwrap();
    let version = dir.path().join("version-2");
    fs::create_dir(&version).unwrap();
    for name in [
        "snapshot.3",
        "snapshot.1f",
        "snapshot.20",
        "snapshot.21",
        "log.1",
        "notes",
    ] {
        fs::write(version.join(name), "x").unwrap();
    }
    let dirs = DataDirs::unlocked(dir.path(), dir.path());
    let removed = remove_other_snapshots(&RealDisk, &dirs, Zxid(0x20)).unwrap();
    assert_eq!(removed.len(), 3);
    let mut left: Vec<_> = fs::read_dir(&version)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["log.1", "notes", "snapshot.20"]);
}

#[test]
fn a_file_that_another_purge_removed_first_counts_as_removed() {
    let dir = tempfile::tempdir().unwrap();
    RealDisk.remove(&dir.path().join("snapshot.1")).unwrap();
    SimDisk::default().remove("snapshot.1".as_ref()).unwrap();
}
